# SPDX-License-Identifier: BSD-3-Clause
# Five workers push a dense model to one server at once. Three of them push through a cable of 25 Mb/s, which
# needs more than ten seconds for their bytes. Heartbeats wait behind these bytes, and a process may be silent
# for only two seconds. (An emulated machine needs two seconds to let each rank run.) No rank may be lost.
. "$TOP/tests/vm/lib.sh"
trap 'tc qdisc del dev v1 root 2>/dev/null' EXIT

bench=$(program sluice-bench)
[ -x "$bench" ] || fail "no sluice-bench"
# The queue holds all bytes that soft-RoCE has in flight, so no packet is dropped, as on a network with flow
# control.
tc qdisc replace dev v1 root tbf rate 25mbit burst 128kb limit 8mb || fail "no tbf"
sent() { cat /sys/class/net/v1/statistics/tx_bytes; }
export SLUICE_LOST_AFTER=2s SLUICE_SERVERS=1 SLUICE_LOG=warn
push() {
	before=$(sent)
	began=$(now_ms)
	stall_watch
	job incast 6 "$bench" step --count 3M --recipe "up=all down=all memory=none update=sgd" --shards 1 --warmup 0 --steps 2
	status=$?
	stall_ends
	took=$(($(now_ms) - began))
	bytes=$(($(sent) - before))
}
push
# A machine that stands still for a second silences all ranks at once, which says nothing about the links.
for try in 2 3; do
	[ $status != 0 ] && [ "$stall" -ge 1000 ] || break
	echo "| the machine stood still for $stall ms during the job: try $try"
	push
done
[ $status = 0 ] || { show incast; fail "job incast ended with status $status; the machine stood still for up to $stall ms"; }
! grep -h 'is lost' incast.err.* || fail "a rank was lost"
dropped=$(tc -s qdisc show dev v1 | sed -n 's/.*dropped \([0-9]*\),.*/\1/p' | head -n 1)
echo "| $((bytes / 1000000)) MB through a cable of 25 Mb/s in $took ms, $dropped packets dropped;" \
	"connected again $(grep -h 'connected again' incast.err.* | wc -l) times; no rank was lost"
[ $bytes -ge 30000000 ] || fail "only $bytes bytes went through: nothing was tested"
