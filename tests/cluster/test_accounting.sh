# SPDX-License-Identifier: BSD-3-Clause
# Checks the bytes in --metrics. After the warm-up, a step pushes at most 1/60 and pulls at most 1/14 of the
# bytes that a dense job moves. The steps add up exactly to the totals of the last line.
. "$TOP/tests/cluster/lib.sh"

job_ok account 4 --model mlp:256,128 --batch 16 --limit 2560 --epochs 3 --recipe "$sparse" --metrics metrics
job_ok dense 4 --model mlp:256,128 --batch 16 --limit 2560 --epochs 1 --dense --metrics dense.m

sums() { # of metrics file $1: pushed pulled dense
	awk -F'[:,]' '{ for (i = 1; i < NF; i++) { if ($i ~ /"pushed"/) u += $(i + 1)
		if ($i ~ /"pulled"/) d += $(i + 1); if ($i ~ /"dense"/) a += $(i + 1) } }
		END { printf "%.0f %.0f %.0f\n", u, d, a }' "$1"
}
for pair in account:metrics dense:dense.m; do
	name=${pair%:*}
	want="$(final $name pushed) $(final $name pulled) $(final $name dense)" have=$(sums "${pair#*:}")
	[ "$want" = "$have" ] || fail "$name: the last line says $want, the steps add up to $have"
	echo "| $name: pushed, pulled, dense: $want"
done
[ "$(final dense pushed)" -gt 0 ] && [ $(($(final dense pushed) + $(final dense pulled))) = "$(final dense dense)" ] ||
	fail "a dense job did not move the number of bytes in dense="

# epoch 1 is the warm-up, of 40 steps
awk -F'[:,]' '
	{ for (i = 1; i < NF; i++) { if ($i ~ /"step"/) s = $(i + 1); if ($i ~ /"pushed"/) u = $(i + 1)
		if ($i ~ /"pulled"/) d = $(i + 1); if ($i ~ /"dense"/) a = $(i + 1) } }
	s > 40 { n++; up = a / 2 / u; down = a / 2 / d
		if (!least_up || up < least_up) least_up = up
		if (!least_down || down < least_down) least_down = down }
	END { printf "| %d steps after the warm-up: pushed at most 1/%.1f, pulled at most 1/%.1f of dense\n", n, least_up, least_down
		exit !(n == 80 && least_up >= 60 && least_down >= 14) }' metrics ||
	fail "above the bounds 1/60 and 1/14"
