#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh SECONDS: fuzzes the receiver of messages for that long with libFuzzer under the address and
# undefined-behaviour sanitizers, starting from the corpus (which is not changed). Exit status: 0 no
# finding, 77 no clang or no fuzzer runtime, anything else a finding; its input is kept and named.
set -eu

seconds=${1:-60}
case $seconds in
*[!0-9]* | '') echo "usage: $0 SECONDS" >&2; exit 2 ;;
esac
top=$(cd "$(dirname "$0")/../.." && pwd)
clang=${CLANG:-clang}
work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-fuzz.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

if ! command -v "$clang" >/dev/null; then
	echo "skipped: $clang is not installed" >&2
	exit 77
fi
printf '%s\n' '#include <stddef.h>' '#include <stdint.h>' \
	'int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n);' \
	'int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { return d && n > 99; }' >"$work/probe.c"
if ! "$clang" -fsanitize=fuzzer,address,undefined "$work/probe.c" -o "$work/probe" 2>/dev/null; then
	echo "skipped: $clang has no fuzzer runtime (Debian: libclang-rt-14-dev)" >&2
	exit 77
fi

"$clang" -std=gnu11 -D_GNU_SOURCE -O1 -g -ffp-contract=off \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	-I"$top" -I"$top/runtime" -o "$work/message_fuzz" \
	"$top/tests/fuzz/message_fuzz.c" "$top/runtime/compress/message.c" \
	"$top/runtime/compress/index_coding.c" "$top/runtime/compress/quantize.c" \
	"$top/base/bytes.c"

mkdir "$work/corpus"
status=0
"$work/message_fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=10 -print_final_stats=1 \
	-verbosity="${FUZZ_VERBOSITY:-1}" -artifact_prefix="$work/finding-" \
	"$work/corpus" "$top/tests/fuzz/corpus/message" || status=$?
for finding in "$work"/finding-*; do
	[ -e "$finding" ] || continue
	kept=${TMPDIR:-/tmp}/message-$(basename "$finding")
	cp "$finding" "$kept"
	echo "finding: $kept" >&2
	[ "$status" -ne 0 ] || status=1
done
exit "$status"
