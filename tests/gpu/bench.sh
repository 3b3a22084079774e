#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs sluice-bench select and step with --device cuda on the module whose kernels run on the CPU. Checks that
# the output is right and that missing parts are reported, but does not check times.
# bench.sh MODULE N [OPTION...]: prints the figures of a GPU. The options are those of select.
# Run in the build folder.
set -u
export SLUICE_GPU=${1-$PWD/.libs/libsluice_emulated.so}
wrong() { echo "wrong: $*"; exit 1; }
if [ $# -gt 1 ]; then
	./sluice-bench select --device cuda --n "$2" --seconds 2 "${@:3}" && ./sluice-bench select --device cuda \
		--n 1000000 --seconds 1 "${@:3}" || exit
	for shards in no auto; do
		echo "SLUICE_DEVICE_SHARDS=$shards"
		SLUICE_DEVICE_SHARDS=$shards ./sluice-bench step --device cuda --count 100M --recipe \
			'up=topk(0.001) down=topk(0.01) memory=residual update=sgd' --seconds 5 || exit
	done
	exit 0
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
# The axes, with the sizes that are fast here: three entropies of 2^16 elements.
axes() { ./sluice-bench select --device cuda --axes --n 65536 --k 8 --repeat 1 --warmup 0 --rivals "$PWD/tests/gpu/.libs/rivals.so" "$@"; }
out=$(axes --json --torch "printf '65536 8 %d 2.5\n' 0 2 4 #") || wrong "select --axes failed"
for part in '"n":65536,"entropy":1.000,"k":8,"selected":8,' '"entropy":0.544,' '"entropy":0.201,' '"push_ms":' '"push_of_copy":' \
	'"radix_sort_ms":' '"radix_sort_of_push":' '"cub_topk_of_push":' '"torch_topk_ms":2.5,"torch_topk_of_push":'; do
	case $out in *"$part"*) ;; *) wrong "no $part in $out" ;; esac
done
case $out in *equal_ms*) wrong "the axes measured a worst case: $out" ;; esac
python3 -c 'import json, sys; assert len(json.loads(sys.argv[1])["rows"]) == 3' "$out" 2>/dev/null ||
	! command -v python3 >/dev/null || wrong "no JSON with three rows: $out"
out=$(FAKE_RIVALS=old axes) || wrong "select --axes failed"
for part in "DeviceTopK is not among the headers" "torch.topk was not measured: --torch names" "sort ms of push"; do
	case $(tr -s ' ' <<<"$out") in *"$part"*) ;; *) wrong "no $part in $out" ;; esac
done
out=$(FAKE_RIVALS=failing axes 2>&1) && wrong "a rival failed, but this was not reported"
case $out in *"--rivals: as it was asked to fail"*) ;; *) wrong "the output does not name the failure: $out" ;; esac
out=$(axes --torch 'echo torch sees no GPU; false' 2>&1) && wrong "--torch failed, but this was not reported"
case $out in *"failed, with 0 of 3 times, and said: torch sees no GPU"*) ;; *) wrong "torch's message is missing: $out" ;; esac
out=$(./sluice-bench select --device cuda --n 3000 --k 10 --repeat 1 --rivals /nowhere.so 2>&1) &&
	wrong "select ran without the rivals' library"
case $out in *"--rivals: /nowhere.so"*) ;; *) wrong "the output does not name the missing file: $out" ;; esac
out=$(./sluice-bench step --device cuda --axes --count 65536 --steps 2 --warmup 1 --json 2>/dev/null) || wrong "step --axes failed"
for part in '"n":65536,"k":8,"entropy":1.000,"steps":2,"recipe":"up=topk(' '"k":8192,"entropy":0.201,' '"copy_ms":' '"of_copy":' \
	'"device_ms":'; do
	case $out in *"$part"*) ;; *) wrong "no $part in $out" ;; esac
done
out=$(./sluice-bench step --device cuda --axes --count 65536 --steps 2 --warmup 0 --recipe 'up=all down=all' 2>/dev/null) ||
	wrong "step --axes failed"
[ "$(grep -c '^ *65536 *8 ' <<<"$out")" = 3 ] || wrong "not a row for each entropy: $out"
for test in select step; do
	out=$(SLUICE_GPU=/nowhere.so ./sluice-bench $test --device cuda 2>&1) && wrong "$test ran without a module"
	case $out in *"--device cuda: there is no GPU module (/nowhere.so"*"build Sluice with --with-cuda=yes"*) ;;
	*) wrong "$test does not name what is missing: $out" ;;
	esac
done
echo "select and step with --device cuda"
