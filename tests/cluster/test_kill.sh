# SPDX-License-Identifier: BSD-3-Clause
# kill -9 ends any one rank at any moment. All other ranks end at once (within 0.2 s on an idle machine), and
# each names the lost rank and its node. They do not wait for a missing heartbeat, which would take a minute
# here.
# limit: 600 s
. "$TOP/tests/cluster/lib.sh"
export SLUICE_LOST_AFTER=60s

rounds=${KILL_ROUNDS:-$(repeats 20)} slowest=0
for ((round = 1; round <= rounds; round++)); do
	job_start kill 4 $small --epochs 100000 --recipe "$sparse" --metrics metrics
	wait_lines metrics 1 30 || { show kill; fail "round $round: no step was done within 30 s"; }
	sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
	mapfile -t list < <(ranks)
	[ ${#list[@]} = 4 ] || { show kill; fail "round $round: ${#list[@]} of 4 ranks are running"; }
	victim=$((RANDOM % 4)) others=()
	for line in "${list[@]}"; do
		read -r rank pid node <<<"$line"
		if [ "$rank" = $victim ]; then victim_pid=$pid victim_node=$node; else others+=("$pid"); fi
	done
	kill -9 "$victim_pid"
	start=$(now_ms)
	took=$(wait_gone "$start" 30000 "${others[@]}") ||
		{ show kill; fail "round $round: rank $victim was killed, but other ranks still run after $took ms"; }
	wait "$job_pid" && fail "round $round: srun ended with status 0"
	for ((rank = 0; rank < 4; rank++)); do
		[ $rank = $victim ] || says kill.err.$rank "rank $victim .*$victim_node.*lost" ||
			fail "round $round: rank $rank does not name rank $victim on $victim_node as lost"
	done
	echo "round $round: rank $victim on $victim_node killed, the others ended after $took ms"
	[ "$took" -le $slowest ] || slowest=$took
	rm -f kill.* metrics
done
echo "| $rounds of $rounds kills: all others ended and named the lost rank within $slowest ms"
