#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compiles kernels for aarch64, where the compiler turns vectors into NEON, and runs their tests under QEMU.
# Needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
set -u
top=${top_srcdir:-$(dirname "$0")/../../..}
cross=aarch64-linux-gnu-gcc
command -v $cross >/dev/null || { echo "skipped: there is no $cross"; exit 77; }
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) ||
	{ echo "skipped: there is no qemu-aarch64"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/kernels-arm.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
echo 'int main(void) { return 0; }' | $cross -static -x c - -o "$work/empty" 2>/dev/null ||
	{ echo "skipped: $cross has no C library"; exit 77; }

# check TEST SOURCE: runs the cases of test_TEST.c with the kernels in SOURCE.c.
check() {
	$cross -std=gnu11 -O2 -ffp-contract=off -static -I"$top/tests/unit/compress/bare" -I"$top" -I"$top/runtime" \
		-I"$top/tests/unit" "$top/tests/unit/compress/test_$1.c" "$top/runtime/compress/$2.c" \
		"$top/runtime/compress/kernels.c" -lm -o "$work/test" || exit 1
	"$qemu" "$work/test" || { echo "wrong: test_$1 on aarch64"; exit 1; }
}
check select_kernels select_kernels
check sketch sketch
check random_kernels random
check value_kernels value_kernels
check index_kernels index_kernels
