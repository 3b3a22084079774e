#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs sluice-train with signal=drift. If a job is stopped in the middle of a period and resumed, it must end
# with the digest of a job that was not stopped. Each inner optimizer must train. An inner optimizer must be
# refused if it does not fit the recipe.
set -u
top_builddir=${top_builddir:-.}
train=$top_builddir/sluice-train
[ -x "$train" ] || {
	echo "skipped: sluice-train was not built"
	exit 77
}
unset SLUICE_RECIPE SLUICE_SERVERS SLUICE_MEMORY
export SLUICE_LOG=error OPENBLAS_NUM_THREADS=1
tmp=$(mktemp -d "${TMPDIR:-.}/sluice-local-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

wrong() { echo "wrong: $*"; failed=1; }

# Generates two classes, which the sign of the first feature separates.
awk 'BEGIN { srand(3); for (i = 0; i < 600; i++) { y = i % 2; printf "%d", y
	for (j = 1; j <= 8; j++) printf " %d:%.4f", j, rand() - 0.5 + (j == 1 ? y - 0.5 : 0)
	print "" } }' >"$tmp/rows"

# run EPOCHS OPTION...: runs 3 ranks for 20 steps per epoch.
run() {
	epochs=$1
	shift
	timeout -k 5 60 "$train" --simulate 3 --data "$tmp/rows" --model mlp:8 --batch 10 --epochs "$epochs" \
		--quiet --digest "$@"
}
digest() { sed -n 's/.*digest=\([0-9a-f]*\).*/\1/p'; }

for recipe in "diloco when=every(7)" "sparseloco when=every(3) keep=0.5" \
	"sparseloco-down when=every(50)" "streaming-diloco when=every(12),fragments(3),late(3),mix(0.5)"; do
	whole=$(run 3 --recipe "$recipe" | digest)
	rm -rf "$tmp/saved"
	run 1 --recipe "$recipe" --checkpoint "$tmp/saved" >/dev/null || wrong "$recipe: epoch 1"
	resumed=$(run 3 --recipe "$recipe" --checkpoint "$tmp/saved" --resume | digest)
	[ -n "$whole" ] && [ "$whole" = "$resumed" ] ||
		wrong "$recipe: digest $whole, but $resumed after a resume at step 20"
done

for inner in sgd adamw; do
	last=$(run 4 --recipe "diloco when=every(5)" --inner $inner --lr 0.02)
	loss=$(echo "$last" | sed -n 's/.*loss=\([0-9.]*\).*/\1/p')
	awk -v loss="${loss:-9}" 'BEGIN { exit !(loss < 0.6) }' || wrong "$inner does not train: $last"
done

# refused TEXT OPTION...: the run must fail and print TEXT.
refused() {
	text=$1
	shift
	run 1 "$@" >"$tmp/out" 2>&1 && wrong "$*: not refused"
	grep -qF -- "$text" "$tmp/out" || wrong "$*: no \"$text\" in: $(cat "$tmp/out")"
}
refused '--inner takes sgd or adamw, not "adam"' --recipe diloco --inner adam
refused '--inner needs a recipe whose workers train by themselves' --recipe up=all --inner sgd
refused 'has moments that checkpoints do not contain' --recipe diloco --inner adamw --checkpoint "$tmp/other"
refused 'every(P) takes a number of steps, 1 to 1000000' --recipe 'diloco when=every(0)'
refused 'late(4) has applied the one under way' --recipe 'streaming-diloco when=every(12),fragments(3),late(4)'
refused 'rank 1 (node simulated) pushed at step 5 are NaN' --recipe 'diloco when=every(5)' --nan 1:5
exit $failed
