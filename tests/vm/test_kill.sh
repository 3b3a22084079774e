# SPDX-License-Identifier: BSD-3-Clause
# kill -9 ends a worker or a shard owner, 20 times in all. The other ranks report it within 2 s. Then they end
# or, if a worker was lost and the policy is to continue, the job continues.
. "$TOP/tests/vm/lib.sh"

rounds=${KILL_ROUNDS:-20} slowest=0
for ((round = 0; round < rounds; round++)); do
	# rank 3 of 4 owns all shards
	victim=$((round % 2 == 0 ? 1 + round / 2 % 2 : 3)) policy=$([ $((round % 4)) -lt 2 ] && echo abort || echo continue)
	export SLUICE_ON_FAILURE=$policy
	# In every fifth round, rank 3 forwards the control messages of the others.
	export SLUICE_MESH=$((round % 5 == 4 ? 2 : 64))
	others=() pids=()
	rm -f metrics kill.*
	job_start kill 4 "$train" "${small[@]}" --epochs 100000 --servers 1 --shards 4 --recipe "$sparse" --metrics metrics
	wait_lines metrics 2 40 || { show kill; fail "round $round: no step was done within 40 s"; }
	for rank in 0 1 2 3; do
		[ $rank = $victim ] || { others+=($rank); pids+=("$(pid_of $rank)"); }
	done
	sleep "0.$((RANDOM % 5))$((RANDOM % 10))"
	start=$(now_ms)
	kill -9 "$(pid_of $victim)"
	took=$(wait_named kill $victim "$start" 2000 "${others[@]}") ||
		{ show kill; fail "round $round: not all others report the killed rank $victim after $took ms"; }
	if [ $policy = continue ] && [ $victim != 3 ]; then
		lines=$(wc -l <metrics)
		wait_lines metrics $((lines + 10)) 30 || { show kill; fail "round $round: the job did not continue"; }
		kill -TERM "$(pid_of 0)"
		wait "$job_pid"
		says kill.err.0 'stopped by a signal after step' ||
			{ show kill; fail "round $round: the job that continued did not end well"; }
		what="went on and ended well"
	else
		gone=$(wait_gone "$start" 6000 "${pids[@]}") ||
			{ show kill; fail "round $round: other ranks still run after $gone ms"; }
		wait "$job_pid" && fail "round $round: srun ended with status 0"
		what="ended after $gone ms"
	fi
	echo "round $round, $policy, SLUICE_MESH=$SLUICE_MESH: rank $victim on $(node_of $victim) killed; reported after $took ms, others $what"
	[ "$took" -le $slowest ] || slowest=$took
done
echo "| $rounds of $rounds kills of a worker or the shard owner: all others reported it within $slowest ms," \
	"then ended or continued as the policy says"
