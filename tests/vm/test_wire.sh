# SPDX-License-Identifier: BSD-3-Clause
# Tests the machine without Sluice: two devices with a link between them. If this fails, the other tests mean
# nothing.
# quick: 1
. "$TOP/tests/vm/lib.sh"

for i in 1 2; do
	state=$(cat /sys/class/infiniband/rxe$i/ports/1/state 2>/dev/null) || fail "no device rxe$i"
	[[ $state = *ACTIVE ]] || fail "rxe$i is $state"
done
before=$(counters rxe2 rcvd_pkts)
perf ib_write_bw -n 100 -s 65536 >client.log || { cat client.log perf.server; fail "ib_write_bw"; }
packets=$(($(counters rxe2 rcvd_pkts) - before))
[ $packets -ge 1600 ] || fail "only $packets packets of 1600 crossed the link"
echo "| rxe1 to rxe2, 64 KiB writes: $(awk '$1 == 65536 { print $4 }' client.log) MB/s, $packets packets on the link"
