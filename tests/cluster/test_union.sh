# SPDX-License-Identifier: BSD-3-Clause
# Counts the bytes pulled per step at 1 % up. Without compression on the way down, every rank pulls the union
# of all selections, which grows with the number of ranks. With compression, the bytes are the same for any
# number of ranks. The figures are bytes of the whole delta: the bytes that a rank pulled from the others,
# scaled by P / (P - 1) for its own shard.
. "$TOP/tests/cluster/lib.sh"

steps=20
pulled() { # metrics file $1 of $2 ranks: prints the bytes of the delta per step, as the mean from step 3 on
	awk -v ranks="$2" -v last=$steps -F'[:,]' '
		{ for (i = 1; i < NF; i++) { if ($i ~ /"step"/) step = $(i + 1); if ($i ~ /"pulled"/) bytes = $(i + 1) } }
		step > 2 && step <= last { sum += bytes; n++ }
		END { if (n) printf "%.0f\n", sum / n / (ranks - 1) }' "$1"
}

declare -A got
for p in 2 4 8; do
	common="--model mlp:256,128 --batch 16 --limit $((16 * p * steps)) --epochs 1 --shards $p"
	job_ok uni$p $p $common --recipe 'up=topk(0.01) down=all memory=residual update=sgd' --metrics uni$p.m
	job_ok bi$p $p $common --recipe 'up=topk(0.01) down=topk(0.01) memory=residual update=sgd' --metrics bi$p.m
	got[uni$p]=$(pulled uni$p.m $p) got[bi$p]=$(pulled bi$p.m $p)
	[ -n "${got[uni$p]}" ] && [ -n "${got[bi$p]}" ] || fail "no numbers for $p ranks: $(head -n 3 uni$p.m)"
done
echo "| bytes of one delta     P=2       P=4       P=8"
printf '| unidirectional  %10d%10d%10d\n' "${got[uni2]}" "${got[uni4]}" "${got[uni8]}"
printf '| bidirectional   %10d%10d%10d\n' "${got[bi2]}" "${got[bi4]}" "${got[bi8]}"
[ $((got[uni4] * 10)) -gt $((got[uni2] * 13)) ] && [ $((got[uni8] * 10)) -gt $((got[uni4] * 13)) ] ||
	fail "the union does not grow with the ranks"
[ $((got[bi8] * 10)) -lt $((got[bi2] * 12)) ] && [ $((got[bi8] * 12)) -gt $((got[bi2] * 10)) ] ||
	fail "the size of the compressed delta depends on the number of ranks"
[ "${got[bi8]}" -lt "${got[uni8]}" ] || fail "compression on the way down does not save bytes"
