#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs trainings that diverge only because of error feedback, and converge with dense training. The library
# must warn once, unless the recipe has guard=none, and sluice-train must end with status 1 and one sentence.
# With guard=raise they must converge. A training that converges prints no warning and ends with status 0. Run
# by "make check".
set -u
program=$PWD/sluice-train
work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-diverging.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
wrong() { echo "wrong: $*"; cat said; failed=1; }
unset SLUICE_RECIPE SLUICE_LOG
export OPENBLAS_NUM_THREADS=1

# Writes 2000 rows of 200 features that are nearly normal and independent, so that the largest curvature is
# about 1.
awk 'BEGIN {
	srand(7)
	for (i = 1; i <= 200; i++) w[i] = rand() + rand() + rand() + rand() - 2
	for (r = 0; r < 2000; r++) {
		y = 0; row = ""
		for (i = 1; i <= 200; i++) {
			x = 1.732 * (rand() + rand() + rand() + rand() - 2)
			y += x * w[i]; row = row sprintf(" %d:%.4f", i, x)
		}
		printf "%.4f%s\n", y, row
	}
}' >reg.svm

# train STATUS TEXT EPOCHS LR [OPTION...]: the program must end with STATUS, and print TEXT unless it is
# empty.
train() {
	local status=$1 text=$2 epochs=$3 lr=$4
	shift 4
	"$program" --data reg.svm --model linreg --batch 1000 --epochs "$epochs" --lr "$lr" --quiet \
		--progress never "$@" >out 2>said
	local got=$?
	[ $got = "$status" ] || wrong "$*: status $got, not $status"
	[ -z "$text" ] || grep -q "$text" said || wrong "$*: does not print: $text"
}

sparse="up=topk(0.01) down=topk(0.05) memory=residual update=sgd"
train 0 '' 100 0.1 --recipe "up=all down=all"
train 0 '' 500 0.001 --recipe "$sparse"
! grep -q 'warn:' said || wrong "a training that converges has a warning"
for recipe in "$sparse" "up=topk(0.05) down=all" scalecom; do
	train 1 'the training diverged: the loss is .*before the first; lower --lr' 500 0.1 --recipe "$recipe"
	[ "$(grep -c 'warn: model 0: the training .*Evidence: the norm of .*Lower the rate' said)" = 1 ] ||
		wrong "$recipe: there is not exactly one warning"
	train 1 '' 500 0.1 --recipe "$recipe guard=none"
	! grep -q 'warn:' said || wrong "$recipe guard=none: there is a warning"
done
# With guard=raise they converge, after as many doublings of the density as necessary.
for recipe in "$sparse" "up=topk(0.05) down=all" scalecom; do
	train 0 'warn: model 0: the training .*guard=raise doubles the densities' 1000 0.1 --recipe "$recipe guard=raise"
	grep -q ' loss=0.0000 ' out || wrong "$recipe guard=raise: $(tail -n 1 out)"
done
for rate in 0.05 0.1 1; do # with the program's default recipe
	train 1 'warn: model 0: the training ' 500 $rate
done
exit $failed
