#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With nonfinite=skip-all, sluice-train skips a batch in which a gradient has NaN. The run ends after one step
# less, reports the batch in its metrics, and can be resumed. Run by "make check".
set -u
program=$PWD/sluice-train
work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-left-out.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
wrong() { echo "wrong: $*"; cat out said; failed=1; }
unset SLUICE_RECIPE SLUICE_LOG
export OPENBLAS_NUM_THREADS=1

awk 'BEGIN {
	srand(5)
	for (r = 0; r < 240; r++) {
		y = 0; row = ""
		for (i = 1; i <= 30; i++) { x = rand() - 0.5; y += i % 2 ? x : -x; row = row sprintf(" %d:%.4f", i, x) }
		print (y > 0 ? 1 : -1) row
	}
}' >rows

# train STEPS [OPTION...]: runs 10 batches, which must end after STEPS steps.
train() {
	local steps=$1
	shift
	timeout -k 5 60 "$program" --simulate 3 --data rows --model logreg --batch 16 --epochs 2 --digest \
		--progress never --recipe "up=topk(0.1) down=topk(0.2) nonfinite=skip-all" "$@" >out 2>said
	local got=$?
	[ $got = 0 ] || wrong "$*: status $got"
	grep -q "^final .* steps=$steps " out || wrong "$*: not $steps steps"
}
said() { grep -q "batches left out, because a gradient had NaN .*: 1$" said; }

train 10
! said || wrong "a batch is reported as left out, but none was"
for batch in 1 3 5 10; do # including the last batches of epochs
	train 9 --nan 1:$batch --metrics metrics
	said || wrong "batch $batch is not reported"
	[ "$(wc -l <metrics)" = 10 ] || wrong "batch $batch: the metrics do not have a line for each batch"
	[ "$(grep -n '"skipped":1' metrics | cut -d: -f1)" = $batch ] || wrong "batch $batch: not marked in the metrics"
	[ "$(sed -n "${batch}s/^{\"step\":\([0-9]*\),.*/\1/p" metrics)" = $((batch - 1)) ] ||
		wrong "batch $batch does not have the number of the step before"
done
train 9 --nan 2:3 --checkpoint saved --every 4
train 10 --checkpoint saved --resume # continues after step 9, and skips no batch
for option in --nan=1:11 --sleep=1:11:1; do
	"$program" --simulate 3 --data rows --model logreg --batch 16 --epochs 2 $option >out 2>said &&
		wrong "$option: a step after the last one is accepted"
	grep -q 'names step 11, but training has 10 steps' said || wrong "$option: $(cat said)"
done
exit $failed
