#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Executes the kernels' PTX on the CPU, instruction by instruction. nvcc translates the kernels to PTX, from
# which it makes the code of every GPU. The tests of the source must also pass with the PTX. Every address,
# every access to shared memory and every synchronization of lanes is checked, as tests/gpu/ptx/machine.h
# describes. Run in the build folder:
#   ptx.sh            runs fast tests, which together launch every kernel; skips them if ptx.sum shows that these
#                     sources have passed before
#   ptx.sh -f         runs the same tests in any case (make check-ptx), and records the sources that passed in ptx.sum
#   ptx.sh TEST...    runs these tests
set -u
record=0
[ "${1-}" != -f ] || { record=1; shift; }
variable() { sed -n "s/^$1 = //p" Makefile; }
nvcc=$(variable NVCC) source=$(variable srcdir)
[ -n "$nvcc" ] && [ -n "$(ls gpu/*.ptxas 2>/dev/null)" ] || { echo "skipped: built without the GPU module"; exit 77; }
# The sources are the kernels, all files that they include, and the interpreter.
sources=$(cd "$source" && ls gpu/*.c gpu/*.cu tests/gpu/emulation/*.[ch] tests/gpu/ptx/*.[ch]) known=
while [ "$sources" != "$known" ]; do
	known=$sources
	sources=$(cd "$source" && { echo "$known"; sed -n 's/^# *include "\(.*\)".*/\1/p' $known; } |
		while read -r f; do ls "$f" "runtime/$f" 2>/dev/null; done | sort -u)
done
# Comments are left out of the sum.
sum=$(cd "$source" && cat $sources | gcc -x c -fpreprocessed -dD -E -P - 2>/dev/null | sha256sum | sed "s| .*||")
if [ $# = 0 ] && [ $record = 0 ] && [ "$sum" = "$(cat "$source/tests/gpu/ptx.sum" 2>/dev/null)" ]; then
	echo "skipped: these sources of the kernels passed before (tests/gpu/ptx.sum); make check-ptx runs them again"
	exit 77
fi
folder=$(mktemp -d "${TMPDIR:-$PWD}/ptx.XXXXXX") && trap 'rm -rf "$folder"' EXIT
architecture=$(variable GENCODE | tr ' ' '\n' | sed -n 's/^arch=\(compute_[0-9]*\),.*/\1/p' | sort -V | sed -n 1p)
for kernel in "$source"/gpu/*.cu; do
	echo "$kernel"
done | xargs -P "$(nproc)" -I FILE sh -c '"$0" $1 -arch=$2 -I"$3" -ptx FILE -o "$4/$(basename FILE .cu).ptx"' \
	"$nvcc" "$(variable NVCCFLAGS)" "$architecture" "$source" "$folder" || { echo "wrong: no PTX"; exit 1; }
all=$(grep -h '^\.visible \.entry' "$folder"/*.ptx | sed 's/.*entry //; s/(.*//' | sort) all_are_due=$((!$#)) bad=0
[ $# -gt 0 ] || set -- test_gpu_messages test_gpu_sketch test_gpu_shard test_gpu_dense test_gpu_approximate
# A test that passes prints only one line. The interpreter cannot see that a kernel waits in a loop forever,
# hence the limit.
limit=600
try() {
	local test=$1 started=$SECONDS status
	SLUICE_DEVICE_SHARDS=no EMULATED_PTX=$folder EMULATED_PTX_LOG=1 timeout -k 5 $limit "tests/unit/$test" >"$folder/$test.log" 2>&1
	status=$?
	[ $status = 0 ] || grep -av ' blocks, .* instructions, ' "$folder/$test.log" | tail -n 40
	echo "$architecture: $test: $(grep -a 'test(s)\.' "$folder/$test.log" | tail -n 1) ($((SECONDS - started)) s)"
	[ $status != 124 ] || echo "wrong: $test did not end in $limit s; the last kernel that did: $(grep -a ' blocks, .* instructions, ' "$folder/$test.log" | tail -n 1)"
	return $status
}
export -f try
export folder architecture limit
printf '%s\n' "$@" | xargs -P "$(nproc)" -I TEST bash -c 'try TEST' || bad=1
launched=$(grep -ah ' blocks, .* instructions, ' "$folder"/*.log | sed 's/:.*//' | sort -u)
echo "launched: "$launched
if [ $all_are_due = 1 ] && [ "$all" != "$launched" ]; then
	echo "wrong: not every kernel was launched: there are" $all
	bad=1
fi
[ $bad != 0 ] || [ $record = 0 ] || echo "$sum" >"$source/tests/gpu/ptx.sum"
exit $bad
