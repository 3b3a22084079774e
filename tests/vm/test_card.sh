# SPDX-License-Identifier: BSD-3-Clause
# Checks the report that the first users of a card run: sluice-info --card, and put with memory windows and
# relaxed ordering on and off in one table. soft-RoCE has windows. Its kernel ignores relaxed ordering.
. "$TOP/tests/vm/lib.sh"

info=$(program sluice-info) bench=$(program sluice-bench)
[ -x "$info" ] && [ -x "$bench" ] || fail "no sluice-info or sluice-bench"

nodes=1 job card 1 "$info" --card --json
for name in card card-windows card-inline card-pinned card-rnr card-class card-mtu card-ack-timeout card-relaxed card-dma-buf; do
	grep -q "\"$name\"" card.out || { show card; fail "--card does not report $name"; }
done
nodes=1 job text 1 "$info" --card
sed -n '/^Card/,$s/^/| /p' text.out
job_ok put 2 "$bench" put --sizes 8,64K --seconds 0.3 --limit --json
for windows in auto no; do
	for ordering in all no; do
		[ "$(grep -c "\"windows\":\"$windows\",\"relaxed_ordering\":\"$ordering\"" put.out)" = 2 ] ||
			{ show put; fail "no rows for windows=$windows and relaxed ordering=$ordering"; }
	done
done
sed 's/^/| /' put.out
