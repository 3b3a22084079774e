# SPDX-License-Identifier: BSD-3-Clause
# A TCP connection is reset while a job trains, as a firewall or NAT may do. The path is long enough that puts
# are in flight. The job ends with the right digest, or it ends soon and names a rank. RESETS is the number of
# tries.
# limit: 7200 s
. "$TOP/tests/net/lib.sh"
resets=${RESETS:-$(repeats 6)}
options="$small --shards 4 --digest --epochs 4"

on_one_node undisturbed $options --recipe "$sparse"
export SLUICE_LOST_AFTER=5s sparse options resets
"$TOP/tools/devcluster/devcluster" run -n 4 -c 8 --net 100mbit,10ms -- bash -c '
	. "$TOP/tests/net/lib.sh"
	export SLUICE_LOST_AFTER=5s
	for ((try = 0; try < resets; try++)); do
		job_start reset 4 $options --recipe "$sparse" --metrics "$SCRATCH/reset.metrics"
		wait_lines reset.metrics 10 60 || { show reset; fail "no step was done within 60 s"; }
		sleep 0.$((RANDOM % 60 + 10))
		node=n$((RANDOM % 4 + 1))
		mapfile -t all < <(connections $node)
		[ ${#all[@]} -gt 0 ] || { show reset; fail "$node has no connections"; }
		read -r from to <<<"${all[RANDOM % ${#all[@]}]}"
		on $node ss -K src "$from" dst "$to" >/dev/null 2>&1 || fail "ss -K cannot reset connections here"
		how_it_ended reset 10 || { show reset; touch wrong; }
		echo "$how" | tee -a reset.tries
		rm -f reset.[emos]*
	done' || fail "the tries did not end"
echo "| $resets connections reset: $(counts reset.tries)"
[ ! -e wrong ] || fail "see above"
