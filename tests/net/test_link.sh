# SPDX-License-Identifier: BSD-3-Clause
# A link that is down for one second changes nothing. If a second network shows that the process lives, the
# link may be down longer, up to SLUICE_LINK_LOST_AFTER. Otherwise its rank is lost, and each side names a
# rank of the other side after SLUICE_LOST_AFTER.
# limit: 600 s
. "$TOP/tests/net/lib.sh"
export SLUICE_INTERFACE=wire
control=
trap '[ -z "$control" ] || no_control_network' EXIT

on_one_node undisturbed $small --recipe "$sparse" --shards 4 --epochs 30 --digest

survives() { # SECONDS WHERE
	local before after start took
	rm -f down.*
	job_limit=200 job_start down 4 $small --recipe "$sparse" --shards 4 --epochs 30 --digest --metrics "$SCRATCH/down.metrics"
	wait_lines down.metrics 10 60 || { show down; fail "no step was done within 60 s"; }
	on n3 ip link set wire down
	before=$(wc -l <down.metrics)
	sleep "$1"
	after=$(wc -l <down.metrics)
	on n3 ip link set wire up
	start=$(now_ms)
	wait_lines down.metrics $((after + 3)) 60 || { show down; fail "no step was done within 60 s of the link's return"; }
	took=$(($(now_ms) - start))
	wait "$job_pid" || { show down; fail "the job did not survive a link that was down for $1 s"; }
	[ $((after - before)) -le 2 ] || fail "$((after - before)) steps were done without the link"
	! grep -h 'is lost' down.err.* || fail "a rank was lost"
	same_digest down
	echo "| link down for $1 s, $2: $((after - before)) steps in that time, the next $took ms after it came back," \
		"digest $(final down digest) as undisturbed"
}

SLUICE_LOST_AFTER=15s survives 1 "no control network"
control_network
control=1
export SLUICE_LOST_AFTER=5s
longer="20 40"
[ "${QUICK:-0}" = 0 ] || longer=20 # 40 s only add a longer wait between two attempts
for seconds in ${LINK_SECONDS:-5 $longer}; do
	survives $seconds "with a control network"
done

trap 'on n3 ip link set wire up; [ -z "$control" ] || no_control_network' EXIT
cut() { # WHY
	endless cut $small --recipe "$sparse" --shards 4
	start=$(now_ms)
	on n3 ip link set wire down
	all_name cut "$start" 30000 2
	gone=$(wait_gone "$start" 30000 "${pid[2]}") || { show cut; fail "the rank that was cut off still runs after $gone ms"; }
	on n3 ip link set wire up
	wait "$job_pid" && fail "srun ended with status 0"
	says cut.err.2 "is lost|dropped this rank" || fail "the rank that was cut off does not report it"
	says cut.err.0 "$1" || fail "the reason is missing"
	echo "| link down for good, $1: the others named the rank $took, it ended after $gone ms"
	rm -f cut.*
}
SLUICE_LINK_LOST_AFTER=12s cut SLUICE_LINK_LOST_AFTER
no_control_network
control=
cut SLUICE_LOST_AFTER
