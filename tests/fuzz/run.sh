#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh SECONDS [TARGET...]: fuzzes each target for SECONDS with libFuzzer under the address and
# undefined-behaviour sanitizers. The targets are message, card, checkpoint, conf, recipe, histogram,
# frame, restore, peer, page, http and trace. Without TARGET, it fuzzes all of them. It starts from the target's corpus,
# and does not change the corpus.
# With SECONDS 0 it runs only the corpus, so each run does the same. FUZZ_CORPUS is a folder in which new
# inputs are kept, in a subfolder for each target.
# Status: 0 for no finding, 2 for a wrong argument, 77 if there is no clang or no fuzzer runtime, and any
# other number for a finding. The input of a finding is kept, and its path is printed.
set -eu

targets="message card checkpoint conf recipe histogram frame restore peer page http trace"
usage()
{
	echo "usage: $0 SECONDS [TARGET...]; the targets are $targets" >&2
	exit 2
}

seconds=${1:-60}
case $seconds in
*[!0-9]* | '') usage ;;
esac
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- $targets
for target; do
	case " $targets " in *" $target "*) ;; *) usage ;; esac
done
top=$(cd "$(dirname "$0")/../.." && pwd)
kept=${TMPDIR:-/tmp}
clang=${CLANG:-clang}
work=$(mktemp -d "$kept/sluice-fuzz.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

if ! command -v "$clang" >/dev/null; then
	echo "skipped: $clang is not installed" >&2
	exit 77
fi
printf '%s\n' '#include <stddef.h>' '#include <stdint.h>' \
	'int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n);' \
	'int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { return d && n > 99; }' \
	>"$work/probe.c"
if ! "$clang" -fsanitize=fuzzer,address,undefined "$work/probe.c" -o "$work/probe" 2>/dev/null; then
	echo "skipped: $clang has no fuzzer runtime (Debian: libclang-rt-14-dev)" >&2
	exit 77
fi

version=$(sed -n 's/^AC_INIT(\[sluice\], \[\([^]]*\)\].*/\1/p' "$top/configure.ac")
flags='-std=gnu11 -D_GNU_SOURCE -DPACKAGE_VERSION="'"$version"'" -DSLUICE_MODULE_DIR="/nowhere" -O1 -g
	-DSLUICE_LIB_DIR="/nowhere" -DSLUICE_BIN_DIR="/nowhere" -DSLUICE_CONF_DIR="/nowhere"
	-ffp-contract=off -fsanitize=address,undefined -fno-sanitize-recover=all -I. -Iruntime'

# Compiles all sources except those that need libraries of the system: verbs, libfabric, and the launcher's
# side of PMIx.
library()
{
	[ ! -e "$work/library.a" ] || return 0
	mkdir -p "$work/objects"
	(cd "$top" && ls runtime/*/*.c slurm/*.c base/*.c rdma/*.c |
		grep -Ev '^rdma/(card_facts|connect|frame|register|ofi|verbs)|^base/envdoc|^runtime/recipe/methodsdoc' |
		CLANG=$clang FLAGS=$flags WORK=$work xargs -P "$(nproc)" -I{} sh -c \
			'exec $CLANG $FLAGS -fsanitize=fuzzer-no-link -c {} -o "$WORK/objects/$(echo {} | tr / _).o"')
	ar rcs "$work/library.a" "$work"/objects/*.o
}

build()
{
	library
	more=
	[ "$1" != frame ] || more="rdma/frame.c rdma/verbs_record.c" # they need the headers of verbs
	[ "$1" != page ] || more=$(cd "$top" && ls tools/top/*.c | grep -v main.c)
	(cd "$top" && "$clang" $flags -fsanitize=fuzzer -o "$work/$1_fuzz" "tests/fuzz/$1_fuzz.c" $more \
		"$work/library.a" -lm -ldl -pthread)
}

# If a target dies, the files that it leaves behind are in $work, because TMPDIR names it.
fuzz()
{
	new=${FUZZ_CORPUS:-$work/corpus}/$1
	mkdir -p "$new" "$work/tmp"
	limit=-max_total_time=$seconds
	[ "$seconds" -gt 0 ] || limit=-runs=0
	TMPDIR=$work/tmp "$work/$1_fuzz" "$limit" -max_len=4096 -timeout=60 \
		-error_exitcode=1 -print_final_stats=1 -verbosity="${FUZZ_VERBOSITY:-1}" \
		-artifact_prefix="$work/finding-$1-" "$new" "$top/tests/fuzz/corpus/$1"
}

status=0
for target; do
	echo "== $target: $seconds seconds" >&2
	build "$target"
	fuzz "$target" || status=$?
done
for finding in "$work"/finding-*; do
	[ -e "$finding" ] || continue
	cp "$finding" "$kept/"
	echo "finding: $kept/$(basename "$finding")" >&2
	[ "$status" -ne 0 ] || status=1
done
exit "$status"
