#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compares the man pages with what they describe: headers, symbol map, built library, programs, and the table
# of environment variables. Also lints the pages and compiles their examples. "make check" runs this. It can
# also be run by hand from any directory. If a tool is missing, the part that needs it is skipped. If a page
# is wrong, this fails and names the page.
set -u
export LC_ALL=C
top_srcdir=${top_srcdir:-${srcdir:-$(dirname "$0")/..}}
[ -f "$top_srcdir/runtime/sluice.h" ] || top_srcdir=$(dirname "$0")/..
top_builddir=${top_builddir:-.}
CC=${CC:-cc}
man=$top_srcdir/man
header=$top_srcdir/runtime/sluice.h
headers=$(echo "$top_srcdir"/runtime/sluice*.h)
# One line for each library: its name, its map, and the headers of its functions.
libraries='libsluice runtime/libsluice.map
libsluice_estimate runtime/estimate/libsluice_estimate.map'
tmp=$(mktemp -d "${TMPDIR:-/tmp}/sluice-man.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

wrong() { echo "wrong: $*"; failed=1; }
skipped() { echo "skipped: $*"; }

# same NAME_A FILE_A NAME_B FILE_B: fails unless the two files hold the same lines, in any order.
same() {
	sort -u "$2" >"$tmp/a"
	sort -u "$4" >"$tmp/b"
	[ -s "$tmp/a" ] || wrong "nothing found in $1"
	comm -23 "$tmp/a" "$tmp/b" | while read -r line; do echo "wrong: in $1, not in $3: $line"; done
	comm -13 "$tmp/a" "$tmp/b" | while read -r line; do echo "wrong: in $3, not in $1: $line"; done
	cmp -s "$tmp/a" "$tmp/b" || failed=1
}

# Checks each generated page if it was built. Otherwise checks its source, without the generated lists.
generated=
for page in sluice.7 sluice_intro.7 sluice_methods.7 sluice.conf.5; do
	built=$top_builddir/man/$page
	if [ ! -f "$built" ]; then
		skipped "$built was not built; its source is checked instead"
		built=$tmp/$page
		sed '/^@[A-Z]*@$/d' "$man/$page.in" >"$built"
	fi
	generated="$generated $built"
done
sluice7=${generated# } conf5=${generated##* }
sluice7=${sluice7%% *}
pages="$(echo "$man"/*.1) $(echo "$man"/*.3) $man/sluice_recipe.7$generated"

# Both formatters are used, because a macro that one of them accepts can be an error for the other.
lint() {
	for formatter in mandoc groff; do
		if ! command -v $formatter >/dev/null; then
			skipped "lint by $formatter: it is not installed"
			continue
		fi
		for page in $pages; do
			case $formatter in
			mandoc) mandoc -T lint -W warning "$page" >"$tmp/lint" 2>&1 ;;
			groff) groff -mdoc -T utf8 -ww -z "$page" >"$tmp/lint" 2>&1 ;;
			esac
			[ ! -s "$tmp/lint" ] || { cat "$tmp/lint"; wrong "$formatter's lint of $page"; }
		done
	done
}

# page_text FORMATTER COLUMNS PAGE: prints the page as a terminal of that width shows it.
page_text() {
	case $1 in
	mandoc) mandoc -T ascii -O width="$2" "$3" ;;
	groff) groff -mdoc -T ascii -P-cbou -rLL="$2"n "$3" ;;
	esac 2>/dev/null | sed 's/.\x08//g'
}

# Each row of a table must be on one line at any width. Its cells must be whole and separated, and only the
# last cell may continue on the next line.
tables() {
	for page in $pages; do
		grep -q '^\.Bl -column' "$page" || continue
		awk '/^\.Bl -column/ { inside = 1 } /^\.El/ { inside = 0 } inside && /^\.It/' "$page" |
			sed -E 's/^\.It //; s/(^|Ta )(Em|Sy|Dv|Va|Li|Cm) /\1/g; s/ Fa k No / k /; s/\\-/-/g' |
			awk -F ' Ta ' -v OFS=' Ta ' '{ sub(/ .*/, "", $NF); gsub(/[][()^$.*+?{}|\\]/, "\\\\&")
				for (i = 1; i < NF; i++) printf "%s  +", $i
				print $NF "( |$)" }' >"$tmp/rows"
		for formatter in mandoc groff; do
			command -v $formatter >/dev/null || continue
			for columns in 60 80 100; do
				page_text $formatter $columns "$page" >"$tmp/text"
				while read -r row; do
					grep -qE -- "$row" "$tmp/text" ||
						wrong "$page, $formatter with $columns columns: no line is $row"
				done <"$tmp/rows"
			done
		done
	done
}

order_of_sections() {
	for page in "$man"/*.3; do
		found=$(sed -n 's/^\.Sh //p' "$page" | sed 's/\\&//' | tr '\n' ',')
		[ "$found" = "NAME,SYNOPSIS,DESCRIPTION,RETURN VALUES,ERRORS,THREADS,EXAMPLES,SEE ALSO," ] ||
			wrong "$page: sections are $found"
	done
}

# Lists one prototype per line, preceded by its header: as the headers declare it, and as the pages show it.
prototypes() {
	for file in $headers; do
		tr '\n' ' ' <"$file" | sed 's|/\*|\n&|g; s|\*/|&\n|g' | sed '/^\/\*/d' | tr '\n' ' ' |
			sed 's/SLUICE_API/\n&/g' | sed -n 's/^SLUICE_API *\([a-z][^;]*);\).*/\1/p' |
			tr -s '\t ' ' ' | sed 's/\* /*/g; s/;$//' | awk -v file="${file##*/}" '{ print file ": " $0 }'
	done >"$tmp/declared"
	for page in "$man"/*.3; do
		awk '
		function words(line) { # quoted and plain arguments of a macro line into word[1..n]
			n = 0
			while (match(line, /"[^"]*"|[^ ]+/)) {
				word[++n] = substr(line, RSTART, RLENGTH)
				gsub(/"/, "", word[n])
				line = substr(line, RSTART + RLENGTH)
			}
		}
		/^\.Sh/ { in_synopsis = $2 == "SYNOPSIS" }
		!in_synopsis { next }
		/^\.In/ { header = $2 }
		{ words($0) }
		/^\.Ft/ { type = word[2] }
		/^\.Fn/ || /^\.Fo/ { name = word[2]; list = ""; first = 3 }
		/^\.Fa/ { first = 2 }
		/^\.Fn/ || /^\.Fa/ { for (i = first; i <= n; i++) list = list (list == "" ? "" : ", ") word[i] }
		/^\.Fn/ || /^\.Fc/ { print header ": " type " " name "(" list ")" }
		' "$page"
	done | sed 's/\* /*/g' >"$tmp/shown"
	same "the headers" "$tmp/declared" "SYNOPSIS of the pages" "$tmp/shown"
}

# library_names LIBRARY MAP: compares the library's symbols in its headers, in its map and in the built
# library.
# The header sluice_estimate.h belongs to libsluice_estimate. All other headers belong to libsluice.
library_names() {
	case $1 in
	libsluice_estimate) grep '^sluice_estimate\.h: ' "$tmp/declared" ;;
	*) grep -v '^sluice_estimate\.h: ' "$tmp/declared" ;;
	esac | sed 's/(.*//; s/.*[ *]//' >"$tmp/functions"
	sed -n 's/^	\(sluice_[a-z0-9_]*\);$/\1/p' "$top_srcdir/$2" >"$tmp/library"
	same "the headers" "$tmp/functions" "$2" "$tmp/library"
	built=$top_builddir/.libs/$1.so
	if [ ! -e "$built" ]; then
		skipped "exported symbols: $built was not built"
	elif ! command -v nm >/dev/null; then
		skipped "exported symbols: nm is not installed"
	else
		nm -D --defined-only "$built" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
			grep -v -e '^__asan' -e '^__odr_asan' >"$tmp/exported"
		same "$2" "$tmp/library" "$built" "$tmp/exported"
	fi
}

names() {
	: >"$tmp/other_names"
	for page in "$man"/*.3; do
		sed -n '/^\.Sh NAME/,/^\.Nd/s/^\.Nm \([a-z_]*\).*/\1/p' "$page" >"$tmp/named"
		sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESC/s/^\.F[no] \([a-z_]*\).*/\1/p' "$page" >"$tmp/synopsis"
		same "NAME of $page" "$tmp/named" "its SYNOPSIS" "$tmp/synopsis"
		base=$(basename "$page")
		sed "s/^/$base /; s/\$/.3/" "$tmp/named" | grep -v "^$base $base\$" >>"$tmp/other_names"
	done
	grep -v '^#' "$man/aliases" >"$tmp/aliases"
	same "man/aliases" "$tmp/aliases" "NAME of the pages" "$tmp/other_names"

	: >"$tmp/mapped"
	echo "$libraries" >"$tmp/libraries"
	while read -r library map; do
		library_names "$library" "$map"
		cat "$tmp/library" >>"$tmp/mapped"
	done <"$tmp/libraries"
	sed -n '/^\.Sh THREADS/,/^\.Sh ENV/s/^\.Fn \([a-z_]*\).*/\1/p' "$man/sluice.7.in" >"$tmp/classes"
	same "the maps" "$tmp/mapped" "THREADS of sluice(7)" "$tmp/classes"
	grep -o '`sluice_[a-z_]*`' "$top_srcdir/NEWS.md" | tr -d '`' >"$tmp/news"
	same "the maps" "$tmp/mapped" "NEWS.md" "$tmp/news"
}

# Every page of this project that another page refers to must exist.
references() {
	{ ls "$man" | sed -n 's/^\(sluice.*\)\.\([1-9]\)\(\.in\)\{0,1\}$/\1 \2/p'
	  grep -v '^#' "$man/aliases" | sed 's/.* //; s/\./ /'; } | sort -u >"$tmp/known"
	for page in $pages; do
		sed -n 's/^\.Xr \(sluice[a-z._-]* [0-9]\).*/\1/p' "$page" | sort -u |
			comm -23 - "$tmp/known" >"$tmp/unknown"
		[ ! -s "$tmp/unknown" ] || wrong "$page refers to $(tr '\n' ' ' <"$tmp/unknown")"
	done
}

# "man NAME" opens section 3 before section 7, so each name must be in only one section.
shadows() {
	{ for page in $pages; do basename "$page"; done
	  sed 's/.* //' "$tmp/aliases"; } | sort -u >"$tmp/installed"
	for name in $(sed 's/\.[1-9]$//' "$tmp/installed" | sort | uniq -d); do
		wrong "man $name: several sections have this page:" \
			"$(grep "^$name\.[1-9]\$" "$tmp/installed" | tr '\n' ' ')"
	done
}

# Checks the codes with their values, and the fields of public structures.
codes_and_fields() {
	sed -n 's/^	\(SLUICE_[A-Z]*\) = \(-\{0,1\}[0-9]*\).*/\1 \2/p' "$header" | grep -e '^SLUICE_OK ' -e ' -' >"$tmp/codes"
	sed -n 's/^\.It Dv \(SLUICE_[A-Z]*\) Ta \([-0-9]*\) Ta .*/\1 \2/p' \
		"$man/sluice_strerror.3" >"$tmp/table"
	same "runtime/sluice.h" "$tmp/codes" "sluice_strerror(3)" "$tmp/table"
	for page in $pages; do
		for code in $(grep -o 'SLUICE_E[A-Z]*$' "$page" | grep -v -e '_EV' | sort -u); do
			grep -q "^$code " "$tmp/codes" || wrong "$page: no code $code in runtime/sluice.h"
		done
	done
	sed 's|/\*.*||' $headers |
		sed -n '/^typedef struct sluice_[a-z_]* {/,/^}/s/^	.*[ *]\([a-z_]*\);.*/\1/p' |
		sort -u >"$tmp/fields"
	[ -s "$tmp/fields" ] || wrong "no fields found in the headers"
	while read -r field; do
		grep -q "Va .*\\b$field\\b" "$man"/*.3 || wrong "field $field is in no page of section 3"
	done <"$tmp/fields"
}

examples() {
	if ! command -v "${CC%% *}" >/dev/null; then
		skipped "examples: no compiler ($CC)"
		return
	fi
	for page in "$man"/*.3; do
		base=$tmp/$(basename "$page" .3)
		awk -v base="$base" '
		/^\.Sh/ { in_examples = $2 == "EXAMPLES" }
		/^\.Ed/ { out = "" }
		out != "" { print > out }
		in_examples && /^\.Bd -literal/ { out = base "." ++n ".c" }
		' "$page"
		[ -f "$base.1.c" ] || wrong "$page has no example"
		for source in "$base".*.c; do
			[ -f "$source" ] || continue
			sed 's/\\e/\\/g; s/\\&//g; s/\\-/-/g; s/\\(aq/'"'"'/g' "$source" >"$tmp/example.c"
			$CC -std=gnu11 -fsyntax-only -Wall -Wextra -Werror -I"$top_srcdir/runtime" \
				"$tmp/example.c" || wrong "example $(basename "$source" .c) of $page"
		done
	done
}

options() {
	for tool in sluice-train sluice-bench sluice-info sluice-plot sluice-top; do
		program=$top_builddir/$tool
		[ $tool != sluice-plot ] || program=$top_srcdir/tools/plot/$tool
		if [ ! -x "$program" ]; then
			skipped "options: $tool was not built"
			continue
		fi
		"$program" --help >"$tmp/help" || wrong "$tool --help fails"
		grep -oE '^ +--[a-z].*' "$tmp/help" | sed 's/  [^ -].*//' | grep -oE -- '--[a-z][a-z-]*' |
			sed 's/^--//' >"$tmp/helped"
		sed -n '/^\.It Fl Fl/p' "$man/$tool.1" | grep -o 'Fl Fl [a-z-]*' | sed 's/Fl Fl //' >"$tmp/listed"
		same "$tool --help" "$tmp/helped" "$tool(1)" "$tmp/listed"
		sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESC/p' "$man/$tool.1" | grep -o 'Fl Fl [a-z-]*' |
			sed 's/Fl Fl //' >"$tmp/synopsis_options"
		sed '/^sleep$/d; /^nan$/d' "$tmp/listed" >"$tmp/usual"
		same "SYNOPSIS of $tool(1)" "$tmp/synopsis_options" "its DESCRIPTION" "$tmp/usual"
	done
}

environment() {
	sed -n 's/^	{ "\(SLUICE_[A-Z_]*\)".*/\1/p' "$top_srcdir/base/env_table.c" >"$tmp/variables"
	if [ ! -x "$top_builddir/base/envdoc" ] || [ ! -f "$top_builddir/man/sluice.7" ]; then
		skipped "environment: base/envdoc was not built"
	else
		"$top_builddir/base/envdoc" | sed -n 's/^\.It Ev \(SLUICE_[A-Z_]*\).*/\1/p' >"$tmp/documented"
		same "base/env_table.c" "$tmp/variables" "base/envdoc" "$tmp/documented"
		sed -n 's/^\.It Ev \(SLUICE_[A-Z_]*\).*/\1/p' "$sluice7" >"$tmp/printed"
		same "base/env_table.c" "$tmp/variables" "ENVIRONMENT of sluice(7)" "$tmp/printed"
		"$top_builddir/base/envdoc" conf | sed -n 's/^\.It Ev \(SLUICE_[A-Z_]*\).*/\1/p' >"$tmp/in_files"
		sed -n 's/^\.It Ev \(SLUICE_[A-Z_]*\).*/\1/p' "$conf5" >"$tmp/printed"
		same "base/envdoc conf" "$tmp/in_files" "SETTINGS of sluice.conf(5)" "$tmp/printed"
	fi
	for page in $pages; do
		for name in $(grep -o 'Ev SLUICE_[A-Z_]*' "$page" | sed 's/Ev //; /_$/d' | sort -u); do
			grep -q "^$name\$" "$tmp/variables" || wrong "$page: no variable $name in base/env_table.c"
		done
	done
}

# Every key of the recipe language must be explained, and no other key.
recipe_keys() {
	sed -n 's/.*\[AXIS_[A-Z]*\] = { "\([a-z]*\)".*/\1/p' \
		"$top_srcdir/runtime/recipe/recipe_words.c" >"$tmp/keys"
	sed -n '/^\.Sh GRAMMAR/,/^\.Sh STEP/s/^\.It Cm \([a-z]*\) Ns = .*/\1/p' \
		"$man/sluice_recipe.7" >"$tmp/explained"
	same "runtime/recipe/recipe_words.c" "$tmp/keys" "GRAMMAR of sluice_recipe(7)" "$tmp/explained"
}

# Every named method must be in its page.
methods() {
	if [ ! -x "$top_builddir/sluice-train" ] || [ ! -f "$top_builddir/man/sluice_methods.7" ]; then
		skipped "methods: sluice-train or sluice_methods(7) was not built"
		return
	fi
	"$top_builddir/sluice-train" --methods | grep '^[a-z]' >"$tmp/methods"
	sed -n '/^\.Sh METHODS/,/^\.Sh NAMES/s/^\.It Cm //p' "$top_builddir/man/sluice_methods.7" >"$tmp/shown"
	same "sluice-train --methods" "$tmp/methods" "sluice_methods(7)" "$tmp/shown"
}

lint
tables
order_of_sections
prototypes
names
references
shadows
codes_and_fields
examples
options
environment
methods
recipe_keys
[ $failed = 0 ] && echo "man pages agree with headers, map, programs and variables"
exit $failed
