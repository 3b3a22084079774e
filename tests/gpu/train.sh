#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs sluice-train --device cuda. Without arguments, it uses the modules whose kernels run on the CPU. Two
# ranks must end with the bits of --device cpu, for each loss, and with recipes that select on the GPU,
# average models or look back. Missing parts must be reported.
# train.sh MODULE TRAIN_MODULE [DATA]: compares only the accuracy. Run in the build folder.
set -u
module=${1-$PWD/.libs/libsluice_emulated.so} train_module=${2-$PWD/.libs/libsluice_train_emulated.so} data=${3-}
[ -x sluice-train ] || { echo "skipped: built without sluice-train"; exit 77; }
[ -f "$train_module" ] && [ -f "$module" ] || { echo "skipped: $module or $train_module was not built"; exit 77; }
rows=$(mktemp "${TMPDIR:-$PWD}/train.XXXXXX") && trap 'rm -f "$rows" "$rows".*' EXIT
wrong() { echo "wrong: $*"; exit 1; }

make_rows() { # CLASSES: labels 0 ..
	awk -v classes="$1" 'BEGIN { for (i = 1; i <= 96; i++) { printf "%d", i % classes
		for (j = 1 + i % 5; j < 40; j += 1 + i * j % 4)
			printf " %d:%.3f", j, (i % classes * 7 + i * j % 101) / 50 - 1
		print "" } }' >"$rows"
}
train() { # OUTPUT OPTION...
	local out=$1
	shift
	./sluice-train "$@" --simulate 2 --digest >"$out" 2>"$out.err" || { cat "$out" "$out.err"; wrong "$*"; }
	sed -n 's/^final \(accuracy=[^ ]*\).* \(digest=[0-9a-f]*\).*/\1 \2/p' "$out" >"$out.result"
	[ -s "$out.result" ] || { cat "$out" "$out.err"; wrong "no last line"; }
}
both() { # OPTION...
	train "$rows.cpu" --device cpu "$@"
	SLUICE_GPU=$module train "$rows.cuda" --device "cuda:$train_module" "$@"
	grep -q 'rank 0 trains on GPU 0 of 1 (.*), the only one visible' "$rows.cuda.err" ||
		[ -n "$data" ] || wrong "the output does not name the GPU"
	echo "$(cat "$rows.cpu.result") on the CPU, $(cat "$rows.cuda.result") on the GPU: $*"
}
refuse() { # SENTENCE DEVICE
	./sluice-train --device "$2" --data "$rows" >"$rows.out" 2>"$rows.err"
	status=$?
	[ $status = 1 ] || wrong "--device $2: status $status, not 1"
	grep -q -- "$1" "$rows.err" || { cat "$rows.err"; wrong "--device $2: not printed: $1"; }
	[ "$(wc -l <"$rows.err")" = 1 ] || { cat "$rows.err"; wrong "--device $2: more than one line"; }
}

if [ -n "$data" ]; then
	both --model mlp:256,128 --data "$data" --epochs "${EPOCHS:-2}"
	awk -F '[= ]' 'NR == 1 { cpu = $2 } NR == 2 { exit !($2 >= cpu - 0.01) }' "$rows.cpu.result" "$rows.cuda.result" ||
		wrong "the GPU's accuracy is lower"
	exit 0
fi
make_rows 3
refuse 'this sluice-train has no module for GPUs (.*): build Sluice with --with-cuda=yes' cuda:/nowhere.so
real=$PWD/.libs/libsluice_train_cuda.so
if [ -f "$real" ] && ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
	refuse '--device cuda: this node has no CUDA driver (libcuda.so.1)' "cuda:$real"
fi
while read -r model classes recipe; do
	make_rows "$classes"
	both --model "$model" --data "$rows" --epochs 1 --batch 16 --recipe "$recipe"
	cmp -s "$rows.cpu.result" "$rows.cuda.result" || wrong "the bits differ from the CPU's"
done <<END
mlp:16,8 3 up=topk(0.05) down=topk(0.1) memory=residual update=sgd
softmax 3 up=all down=all update=momentum(0.9)
logreg 2 up=topk(0.1),f16 down=all signal=momentum(0.9) memory=residual update=sgd
linreg 2 up=topk(0.1) down=all signal=storm(0.1) memory=residual update=ema(0.1)
softmax 3 up=all down=all update=average
END
awk 'BEGIN { for (i = 0; i < 300; i++) printf "%c", 97 + i * i % 7 }' >"$rows"
both --model "char:$rows" --epochs 1 --batch 16 --recipe "diloco when=every(3)"
cmp -s "$rows.cpu.result" "$rows.cuda.result" || wrong "the bits of char differ from the CPU's"
