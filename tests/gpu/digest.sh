#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Trains three times with the same gradients: with vectors in host memory, with vectors in GPU memory, and
# with the shards on the GPU as well. The parameters must end with the same bits.
# digest.sh [MODULE [DATA]]: the default module is the one whose kernels run on the CPU. DATA is a folder with
# Fashion-MNIST, and the default is a few generated rows. Run in the build folder.
set -u
here=$(cd "$(dirname "$0")" && pwd)
module=${1-$PWD/.libs/libsluice_emulated.so} data=${2-}
preload=$PWD/tests/gpu/.libs/preload.so
[ -x sluice-train ] || { echo "skipped: built without sluice-train"; exit 77; }
[ -f "$preload" ] || make -s tests/gpu/preload.la || exit 1
rows=$(mktemp "${TMPDIR:-$PWD}/digest.XXXXXX") && trap 'rm -f "$rows" "$rows".*' EXIT
model=mlp:256,128 epochs=${EPOCHS:-2} batch=64
if [ -z "$data" ]; then
	model=logreg epochs=2 batch=16 data=$rows
	awk 'BEGIN { for (i = 1; i <= 200; i++) { printf "%d", i % 2 ? 1 : -1
		for (j = 1 + i % 7; j < 3000; j += 11 + i * j % 13) printf " %d:%.3f", j, (i * j % 101) / 50 - 1
		print "" } }' >"$rows"
fi
train() { # OUTPUT RECIPE
	./sluice-train --model $model --data "$data" --epochs $epochs --batch $batch --recipe "$2" --digest \
		>"$1" 2>"$1.err" || { cat "$1" "$1.err"; exit 1; }
	# keeps accuracy and digest, but not the seconds
	sed -n 's/^final \(accuracy=[^ ]*\).* \(digest=[0-9a-f]*\).*/\1 \2/p' "$1" >"$1.digest"
	[ -s "$1.digest" ] || { echo "wrong: no digest in"; cat "$1"; exit 1; }
}
for recipe in 'up=topk(0.01) down=topk(0.05) memory=residual update=sgd' \
	'up=topk(0.02),f16 down=all memory=residual update=momentum(0.9)' \
	'up=topk(0.01) down=topk(0.05) signal=momentum(0.9) clip=1 nonfinite=zero memory=residual update=sgd' \
	'up=topk(0.05),uniform(4,64) down=all memory=residual update=sgd' \
	'up=sketch(0.01,3) down=all memory=residual update=sgd' \
	'up=topk(0.01) down=topk(0.05) memory=lowpass(0.3) update=sgd' \
	'adamw update=momentum(0.9)' shard-adamw; do
	train "$rows.host" "$recipe"
	SLUICE_DEVICE_SHARDS=no SLUICE_GPU=$module SLUICE_LOG=runtime+info LD_PRELOAD=$preload train "$rows.gpu" "$recipe"
	grep -q 'GPU' "$rows.gpu.err" || { echo "wrong: no gradient was in GPU memory"; exit 1; }
	cmp -s "$rows.host.digest" "$rows.gpu.digest" ||
		{ echo "wrong: $recipe: digests differ"; diff "$rows.host.digest" "$rows.gpu.digest"; exit 1; }
	case $recipe in
	*sketch*) ;; # these shards stay on the host
	*)
		SLUICE_DEVICE_SHARDS=auto SLUICE_GPU=$module SLUICE_LOG=runtime+info LD_PRELOAD=$preload \
			train "$rows.shards" "$recipe"
		grep -q 'shards are on a GPU' "$rows.shards.err" || { echo "wrong: no shard was on a GPU"; exit 1; }
		cmp -s "$rows.host.digest" "$rows.shards.digest" ||
			{ echo "wrong: $recipe: digests differ with shards on a GPU"; exit 1; }
		;;
	esac
	echo "same digest: $recipe: $(grep -o '[0-9a-f]*$' "$rows.gpu.digest")"
done
