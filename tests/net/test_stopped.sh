# SPDX-License-Identifier: BSD-3-Clause
# A host stops. Its rank is lost after it was silent for SLUICE_LOST_AFTER. The other ranks sleep while they
# wait for it.
# limit: 600 s
. "$TOP/tests/net/lib.sh"
export SLUICE_LOST_AFTER=6s

for ((round = 1; round <= ${STOP_ROUNDS:-1}; round++)); do
	endless stopped $small --recipe "$sparse" --shards 4
	trap 'kill -9 ${pid[2]} 2>/dev/null' EXIT
	start=$(now_ms)
	kill -STOP "${pid[2]}"
	sleep 1
	for rank in 0 1 3; do
		used[rank]=$(processor_time "${pid[rank]}")
	done
	sleep 3
	for rank in 0 1 3; do
		used[rank]=$(($(processor_time "${pid[rank]}") - used[rank]))
		[ ${used[rank]} -lt 100 ] || fail "rank $rank used ${used[rank]} hundredths of 3 s waiting for a stopped rank"
	done
	all_name stopped "$start" 30000 2
	kill -9 "${pid[2]}"
	wait "$job_pid" && fail "srun ended with status 0"
	echo "| rank 2 stopped: the others named it $took and used ${used[*]} hundredths of 3 s of a processor"
	rm -f stopped.*
done
