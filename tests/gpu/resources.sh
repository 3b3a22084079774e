#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Registers, shared memory and spills of every kernel, as the assembler reported them when the module was built
# (*.ptxas), against bounds: 64 registers let four blocks of 256 threads be on a multiprocessor, 80 let three
# (of kernels that hold sums of doubles), with 16 KiB of shared memory each; a spill is traffic that no figure
# counts.
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
}'
