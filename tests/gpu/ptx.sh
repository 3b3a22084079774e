#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The kernels as nvcc translates them (PTX, of which it makes the code of every GPU), executed on the CPU instruction by
# instruction: the same tests as of the source must pass, with every address, every touch of shared memory and every
# meeting of lanes checked as tests/gpu/ptx/machine.h says. ptx.sh [TEST ...]: by default those that are quick and
# together launch every kernel. Run in the build folder.
set -u
variable() { sed -n "s/^$1 = //p" Makefile; }
nvcc=$(variable NVCC) source=$(variable srcdir)
[ -n "$nvcc" ] && [ -n "$(ls gpu/*.ptxas 2>/dev/null)" ] || { echo "skipped: built without the GPU module"; exit 77; }
folder=$(mktemp -d "${TMPDIR:-$PWD}/ptx.XXXXXX") && trap 'rm -rf "$folder"' EXIT
architecture=$(variable GENCODE | tr ' ' '\n' | sed -n 's/^arch=\(compute_[0-9]*\),.*/\1/p' | sort -V | sed -n 1p)
for kernel in "$source"/gpu/*.cu; do
	echo "$kernel"
done | xargs -P "$(nproc)" -I FILE sh -c '"$0" $1 -arch=$2 -I"$3" -ptx FILE -o "$4/$(basename FILE .cu).ptx"' \
	"$nvcc" "$(variable NVCCFLAGS)" "$architecture" "$source" "$folder" || { echo "wrong: no PTX"; exit 1; }
all=$(grep -h '^\.visible \.entry' "$folder"/*.ptx | sed 's/.*entry //; s/(.*//' | sort) all_are_due=$((!$#)) bad=0
[ $# -gt 0 ] || set -- test_gpu_messages test_gpu_sketch test_gpu_shard test_gpu_dense test_gpu_approximate
# Its line is all that a test that passed prints. The machine does not see that a kernel waits in a loop for ever.
limit=600
try() {
	local test=$1 started=$SECONDS status
	EMULATED_PTX=$folder EMULATED_PTX_LOG=1 timeout -k 5 $limit "tests/unit/$test" >"$folder/$test.log" 2>&1
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
exit $bad
