#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compares the #include lines of the sources with the table "Which directory may include which" in
# CONTRIBUTING.md.
# Fails if a directory includes from one that its row does not list, or has no row. Also fails if a file other
# than step.c changes the step in progress, or if a half of a model uses the whole model. Only the
# application's calls and the functions that open a half may do that.
set -u
export LC_ALL=C
top_srcdir=${top_srcdir:-${srcdir:-$(dirname "$0")/../..}}
[ -f "$top_srcdir/runtime/sluice.h" ] || top_srcdir=$(dirname "$0")/../..
cd "$top_srcdir" || exit 1

# Reads the rows "| `directory` | `other` ... | what it is |", then the sources.
sed -n '/^## Which directory may include which/,/^## Code/p' CONTRIBUTING.md | grep '^| `' | tr -d '`' | awk '
function wrong(text) { print "wrong: " text; bad = 1 }
FILENAME == "-" {
	split($0, cell, "|")
	gsub(" ", "", cell[2])
	row[cell[2]] = 1
	for (i = split(cell[3], name, " "); i > 0; i--) {
		if (!(name[i] in row))
			wrong("CONTRIBUTING.md: `" cell[2] "` includes `" name[i] "`, which has no row above it")
		may[cell[2], name[i]] = 1
	}
	next
}
FNR == 1 {
	own = FILENAME
	sub("^runtime/", "", own)
	if (!sub("/[^/]*$", "", own) || own == "runtime")
		own = ""
	if (own != "" && !(own in row) && !(own in told)) {
		told[own] = 1
		wrong("CONTRIBUTING.md has no row for the directory of " FILENAME)
	}
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
	split($0, part, "\"")
	other = part[2]
	sub("^runtime/", "", other)
	if (!sub("/.*", "", other) || other == own || own == "")
		next # in the same directory, or the public header
	seen[own, other] = 1
	if (!((own, other) in may))
		wrong(FILENAME ":" FNR ": `" own "` includes " part[2] ", but its row does not list `" other "`")
}
END {
	for (pair in may)
		if (!(pair in seen)) {
			split(pair, name, SUBSEP)
			wrong("CONTRIBUTING.md: `" name[1] "` includes `" name[2] "`, but no file does")
		}
	exit bad
}' - base/*.[ch] rdma/*.[ch] slurm/*.[ch] gpu/*.[ch] gpu/*.cu runtime/*/*.[ch] || exit 1

members=$(sed -n '/^struct step {/,/^};/p' runtime/worker/step.h | grep -o '[a-z_]*\(,\|;\)' | tr -d ',;' | paste -sd '|' | sed 's/|/\\|/g')
[ -n "$members" ] || { echo "wrong: runtime/worker/step.h has no struct step"; exit 1; }
! grep -n "step\(\.\|->\)\($members\) *\(=[^=]\|[-+|&]=\|++\|--\)" runtime/*/*.c | sed 's/^/wrong: struct step is changed outside of step.c: /' | grep . || exit 1
! grep -n "sluice_model \*" runtime/worker/*.[ch] runtime/shard/*.[ch] |
	grep -v "^runtime/worker/\(push\|pull\|worker_setup\)\.[ch]:\|^runtime/shard/shard\(\|_device\|_setup\)\.[ch]:" |
	sed 's/^/wrong: the whole model is handed to a half: /' | grep .
