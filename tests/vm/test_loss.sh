# SPDX-License-Identifier: BSD-3-Clause
# With packet loss of 1 % and 3 % in both directions, the job finishes with the right digest.
. "$TOP/tests/vm/lib.sh"
trap 'tc qdisc del dev v1 root 2>/dev/null; tc qdisc del dev v2 root 2>/dev/null' EXIT

options=("${small[@]}" --shards 4 --recipe "$sparse" --digest)
SLUICE_TRANSPORT=shm job_ok shm 4 "$train" "${options[@]}"
digest=$(final shm digest)
for percent in 1 3; do
	for i in 1 2; do tc qdisc replace dev v$i root netem loss $percent% || fail "netem"; done
	began=$(now_ms)
	job_ok loss$percent 4 "$train" "${options[@]}"
	dropped=$(tc -s qdisc show dev v1 | sed -n 's/.*dropped \([0-9]*\),.*/\1/p' | head -n 1)
	echo "| loss of $percent % (rxe1 sent $dropped packets that got lost): $(($(now_ms) - began)) ms, digest $(final loss$percent digest), over shm $digest"
	[ "$(final loss$percent digest)" = "$digest" ] || fail "the digests differ at $percent %"
	[ "${dropped:-0}" -gt 0 ] || fail "no packet was lost: nothing was tested"
done
