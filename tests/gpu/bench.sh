#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sluice-bench select and step with --device cuda, on the module whose kernels run on the CPU, so that what is printed
# holds; no time is judged. And that it is said what is missing. bench.sh MODULE N: prints the figures of a GPU.
# Run in the build folder.
set -u
export SLUICE_GPU=${1-$PWD/.libs/libsluice_emulated.so}
wrong() { echo "wrong: $*"; exit 1; }
if [ $# = 2 ]; then
	./sluice-bench select --device cuda --n "$2" --seconds 2 && ./sluice-bench select --device cuda --n 1000000 \
		--seconds 1 && ./sluice-bench step --device cuda --count 100M --recipe \
		'up=topk(0.001) down=topk(0.01) memory=residual update=sgd' --seconds 10
	exit
fi
[ -f "$SLUICE_GPU" ] || { echo "skipped: $SLUICE_GPU was not built"; exit 77; }
out=$(./sluice-bench select --device cuda --n 3000 --k 10 --repeat 2 --warmup 1 --json) || wrong "select failed"
for part in '"device":"GPU 0 of 1 (' '"k":10,"selected":10,' '"copy_ms":' '"push_of_copy":' '"hinted_of_copy":' '"fresh_of_copy":' \
	'"equal_of_copy":' '"sorted_of_copy":'; do
	case $out in *"$part"*) ;; *) wrong "no $part in $out" ;; esac
done
out=$(./sluice-bench select --device cuda --n 3000 --k 10 --repeat 1 --distribution hintwrong) || wrong "select failed"
out=$(./sluice-bench step --device cuda --count 3000 --steps 2 --warmup 1 --limit 2>&1) || wrong "step failed: $out"
case $out in *"vectors in the memory of a GPU; rank 0: GPU 0 of 1 ("*) ;; *) wrong "no GPU in $out" ;; esac
out=$(./sluice-bench step --device cuda --count 3000 --steps 2 --json 2>&1) || wrong "step failed: $out"
case $out in *'"device":"GPU 0 of 1 ('*) ;; *) wrong "no device in $out" ;; esac
for test in select step; do
	out=$(SLUICE_GPU=/nowhere.so ./sluice-bench $test --device cuda 2>&1) && wrong "$test ran without a module"
	case $out in *"--device cuda: there is no GPU module (/nowhere.so"*"build Sluice with --with-cuda=yes"*) ;;
	*) wrong "$test does not say what is missing: $out" ;;
	esac
done
echo "select and step with --device cuda"
