#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh SECONDS [TARGET...]: fuzzes each target (message, card, checkpoint, recipe, histogram, frame,
# restore, peer; all of them if none is named) for that long with libFuzzer under the address and
# undefined-behaviour sanitizers, starting from its corpus (which is not changed). SECONDS 0 runs the
# corpus alone, which is the same in every run. Exit status: 0 no finding, 2 a wrong argument, 77
# no clang or no fuzzer runtime, anything else a finding; its input is kept and named. FUZZ_CORPUS
# names a folder that keeps the inputs found to be new, in a folder for each target.
set -eu

targets="message card checkpoint recipe histogram frame restore peer"
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
	-DSLUICE_LIB_DIR="/nowhere" -DSLUICE_BIN_DIR="/nowhere"
	-ffp-contract=off -fsanitize=address,undefined -fno-sanitize-recover=all -I. -Iruntime'

# Everything but what needs libraries of the system: verbs, libfabric, and the launcher's side of PMIx.
library()
{
	[ ! -e "$work/library.a" ] || return 0
	mkdir -p "$work/objects"
	(cd "$top" && ls runtime/*/*.c slurm/*.c base/*.c rdma/*.c |
		grep -Ev '^rdma/(card_facts|connect|frame|register|ofi|verbs)|^base/envdoc' |
		CLANG=$clang FLAGS=$flags WORK=$work xargs -P "$(nproc)" -I{} sh -c \
			'exec $CLANG $FLAGS -fsanitize=fuzzer-no-link -c {} -o "$WORK/objects/$(echo {} | tr / _).o"')
	ar rcs "$work/library.a" "$work"/objects/*.o
}

build()
{
	library
	more=
	[ "$1" != frame ] || more="rdma/frame.c rdma/verbs_record.c" # they need the headers of verbs
	(cd "$top" && "$clang" $flags -fsanitize=fuzzer -o "$work/$1_fuzz" "tests/fuzz/$1_fuzz.c" $more \
		"$work/library.a" -lm -ldl -pthread)
}

# What a target leaves behind when it dies lies in $work, as TMPDIR says.
fuzz()
{
	new=${FUZZ_CORPUS:-$work/corpus}/$1
	mkdir -p "$new" "$work/tmp"
	limit=-max_total_time=$seconds
	[ "$seconds" -gt 0 ] || limit=-runs=0
	TMPDIR=$work/tmp "$work/$1_fuzz" "$limit" -max_len=4096 -timeout=10 \
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
