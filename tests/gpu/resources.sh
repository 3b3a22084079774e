#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Checks the registers, shared memory and spills of every kernel, as the assembler reported them when the
# module was built (*.ptxas). 64 registers let a multiprocessor run four blocks of 256 threads. 80 registers
# let it run three, for kernels that hold sums of doubles. Each block may have 16 KiB of shared memory. Spills
# are not allowed, because they are traffic that no figure counts.
# If cuobjdump is installed, the linked module is checked as well: every kernel has code for every GPU of the
# build, within the same bounds and without local memory.
set -u
[ -n "$(ls gpu/*.ptxas 2>/dev/null)" ] || { echo "skipped: built without the GPU module"; exit 77; }
cat gpu/*.ptxas tools/train/*.ptxas 2>/dev/null | awk '
/Compiling entry function/ { kernel = $7 " " $9; gsub(/\047/, "", kernel) }
/bytes stack frame/ { spills = $5 + $9 }
/Used [0-9]* registers/ {
	registers = $5
	shared = 0
	for (i = 6; i <= NF; i++)
		if ($i ~ /^smem/)
			shared = $(i - 2)
	most = kernel ~ /^(gaussian|draw|fold) / ? 80 : 64
	wrong = registers > most || shared > 16384 || spills > 0
	printf "%s%s: %d registers, %d bytes of shared memory, %d bytes spilled\n",
		wrong ? "wrong: " : "", kernel, registers, shared, spills
	bad += wrong
	kernels++
}
END {
	if (kernels < 3)
		print "wrong: only " kernels + 0 " kernels found"
	exit bad > 0 || kernels < 3
}' || exit 1
module=.libs/libsluice_cuda.so
dump=$(PATH=$PATH:$(dirname "$(sed -n 's/^NVCC = //p' Makefile)") command -v cuobjdump) ||
	{ echo "there is no cuobjdump, so the linked module was not checked"; exit 0; }
[ -f $module ] || exit 0
"$dump" --dump-resource-usage $module | awk -v wanted="$(sed -n 's/^GENCODE = //p' Makefile | tr ' ' '\n' | grep -c 'code=sm_')" '
/^arch = / { arch = $3 }
/^ Function / { kernel = $2; sub(/:$/, "", kernel) }
/REG:/ {
	for (i = 1; i <= NF; i++) {
		split($i, pair, ":")
		value[pair[1]] = pair[2]
	}
	most = kernel ~ /^(gaussian|draw|fold)$/ ? 80 : 64
	# The assembler reserves 1 KiB of shared memory for itself from sm_90 on.
	if (value["REG"] > most || value["SHARED"] > 16384 + 1024 || value["LOCAL"] > 0 || value["STACK"] > 64) {
		printf "wrong: %s %s in the module: %s\n", kernel, arch, $0
		bad++
	}
	codes[kernel]++
}
END {
	for (kernel in codes)
		if (codes[kernel] != wanted) {
			printf "wrong: %s has code for %d of %d GPUs\n", kernel, codes[kernel], wanted
			bad++
		}
	printf "%d kernels in the module, each for %d GPUs\n", length(codes), wanted
	exit bad > 0 || length(codes) < 3
}'
