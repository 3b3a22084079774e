# SPDX-License-Identifier: BSD-3-Clause
# kill -9 ends a worker at any moment with --on-failure continue. Long before a heartbeat is missed, every
# survivor names the lost rank. The job then continues to its end, and the replicas agree after every step.
# Rank 0 is among the victims. In two rounds the worker is stopped instead of killed. It wakes up after the
# others have continued, and ends by itself.
# limit: 600 s
. "$TOP/tests/cluster/lib.sh"

rounds=${CONTINUE_ROUNDS:-$(repeats 20)} slowest=0 workers=4
export SLUICE_LOST_AFTER=6s # so that a rank is not lost only because the machine is busy
options="$small --limit 4000 --epochs 3 --servers 2 --on-failure continue --digest --recipe"

# Prints the milliseconds until each rank RANK... has logged that VICTIM is lost. Returns 1 at a timeout.
wait_named() { # START_MS LIMIT_MS VICTIM NODE RANK...
	local start=$1 limit=$2 victim=$3 node=$4 rank
	shift 4
	for rank in "$@"; do
		while ! grep -qE "rank $victim \(node $node\) is lost" "$SCRATCH/continue.err.$rank" 2>/dev/null; do
			[ $(($(now_ms) - start)) -le "$limit" ] || { echo "rank $rank"; return 1; }
			sleep 0.01
		done
	done
	echo $(($(now_ms) - start))
}

for ((round = 1; round <= rounds; round++)); do
	signal=KILL
	[ $((round % 10)) = 5 ] && signal=STOP
	victim=$(((round - 1) % workers)) watched=0
	# Slow steps, so that some remain to be done after the loss.
	job_start continue $((workers + 2)) $options "$sparse" --progress always --sleep $(((victim + 1) % workers)):20:2.5
	for ((tries = 0; tries < 1500; tries++)); do
		mapfile -t list < <(ranks)
		[ ${#list[@]} = $((workers + 2)) ] && grep -q 'epoch' "$SCRATCH/continue.err.0" 2>/dev/null && break
		sleep 0.02
	done
	[ ${#list[@]} = $((workers + 2)) ] || { show continue; fail "round $round: ${#list[@]} ranks are running"; }
	sleep "0.$((RANDOM % 8))$((RANDOM % 10))"
	survivors=()
	for line in "${list[@]}"; do
		read -r rank pid node <<<"$line"
		if [ "$rank" = $victim ]; then victim_pid=$pid victim_node=$node; else survivors+=("$rank"); fi
	done
	kill -$signal "$victim_pid" || { show continue; fail "round $round: rank $victim had ended already"; }
	limit=4000
	[ $signal = KILL ] || limit=30000
	took=$(wait_named "$(now_ms)" $limit $victim "$victim_node" "${survivors[@]}") ||
		{ show continue; fail "round $round: $took does not report the loss of rank $victim within $limit ms"; }
	[ $signal = KILL ] || { sleep 0.3; kill -CONT "$victim_pid"; }
	wait "$job_pid"
	status=$?
	[ $status != 0 ] && [ $status != 124 ] ||
		{ show continue; fail "round $round: srun ended with status $status, one rank did not end well"; }
	[ "$(final continue lost)" = 1 ] || { show continue; fail "round $round: no last line with lost=1"; }
	[ "$(final continue steps)" = "$((4000 / (workers * 16) * 3))" ] ||
		{ show continue; fail "round $round: $(final continue steps) steps"; }
	for rank in "${survivors[@]}"; do
		grep -qE 'error|differ|refused' "$SCRATCH/continue.err.$rank" &&
			{ show continue; fail "round $round: rank $rank prints an error"; }
	done
	[ $signal = KILL ] || says "$SCRATCH/continue.err.$victim" 'dropped this rank' ||
		fail "round $round: the stopped rank does not know that it was dropped"
	echo "round $round: SIG$signal to rank $victim on $victim_node, named by all after $took ms, srun status $status," \
		"$(tail -n 1 "$SCRATCH/continue.out")"
	[ $signal = STOP ] || [ "$took" -le $slowest ] || slowest=$took
	rm -f "$SCRATCH"/continue.*
done

job refused 2 $small --on-failure continue && fail "continue without servers was accepted"
cat "$SCRATCH"/refused.err.* | grep -q 'needs dedicated servers' ||
	{ show refused; fail "continue without servers is not refused with the reason"; }
echo "| $rounds of $rounds losses: the job ended well; survivors named the lost worker within $slowest ms"
