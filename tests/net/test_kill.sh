# SPDX-License-Identifier: BSD-3-Clause
# kill -9 ends a rank that is only a worker, and one that owns a shard. The other ranks detect it by the
# broken connection, long before a heartbeat would be missing. They name the rank and end.
# limit: 600 s
. "$TOP/tests/net/lib.sh"
export SLUICE_LOST_AFTER=${KILL_LOST_AFTER:-20s}

for ((round = 1; round <= ${KILL_ROUNDS:-1}; round++)); do
	for victim in 3 1; do # of 2 shards, ranks 0 and 1 have one each
		endless kill $small --recipe "$sparse" --shards 2
		start=$(now_ms)
		kill -9 "${pid[victim]}"
		all_name kill "$start" 30000 $victim
		grep -q "rank $victim .* is lost: its process ended, or the connection to it broke" kill.err.* ||
			{ show kill; fail "the broken connection did not reveal the loss of rank $victim"; }
		wait "$job_pid" && fail "srun ended with status 0"
		echo "| rank $victim killed: the others named it $took"
		rm -f kill.*
	done
done
