# SPDX-License-Identifier: BSD-3-Clause
# A link that is down for a second changes nothing; one that stays down is a lost rank, which both sides
# name after SLUICE_LOST_AFTER.
# limit: 600 s
. "$TOP/tests/net/lib.sh"
export SLUICE_LOST_AFTER=15s

on_one_node undisturbed $small --recipe "$sparse" --shards 4 --epochs 6 --digest
for ((round = 1; round <= ${LINK_ROUNDS:-1}; round++)); do
	job_start down 4 $small --recipe "$sparse" --shards 4 --epochs 6 --digest --metrics "$SCRATCH/down.metrics"
	wait_lines down.metrics 10 60 || { show down; fail "no step was done within 60 s"; }
	on n3 ip link set wire down
	before=$(wc -l <down.metrics)
	sleep 1
	after=$(wc -l <down.metrics)
	on n3 ip link set wire up
	wait "$job_pid" || { show down; fail "the job did not survive a link that was down for a second"; }
	[ $((after - before)) -le 2 ] || fail "$((after - before)) steps were done without the link"
	same_digest down
	echo "| link down for 1 s: $((after - before)) steps meanwhile, digest $(final down digest) as undisturbed"
	rm -f down.*
done

export SLUICE_LOST_AFTER=5s
trap 'on n3 ip link set wire up' EXIT
for ((round = 1; round <= ${LINK_ROUNDS:-1}; round++)); do
	endless cut $small --recipe "$sparse" --shards 4
	start=$(now_ms)
	on n3 ip link set wire down
	all_name cut "$start" 30000 2
	gone=$(wait_gone "$start" 30000 "${pid[2]}") || { show cut; fail "the rank that was cut off still runs after $gone ms"; }
	on n3 ip link set wire up
	wait "$job_pid" && fail "srun ended with status 0"
	says cut.err.2 "is lost|dropped this rank" || fail "the rank that was cut off does not say so"
	echo "| link down for good: the others named the rank $took, it ended after $gone ms"
	rm -f cut.*
done
