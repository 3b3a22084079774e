# SPDX-License-Identifier: BSD-3-Clause
# If a rank is alive but slow, the other ranks print for whom they wait, since when, and for which step and
# shard. The job continues and ends well. SIGUSR2 makes a rank print at once what it waits for. With four
# shards, each rank owns one and knows whose push is missing. With one shard, its owner reports this to the
# others.
. "$TOP/tests/cluster/lib.sh"

export SLUICE_WARN_AFTER=2s SLUICE_LOST_AFTER=5s
for shards in 4 1; do
	rm -f slow.* metrics
	job_start slow 4 $small --shards $shards --recipe "$sparse" --metrics metrics --sleep 1:8:6
	wait_lines metrics 7 30 || { show slow; fail "no 7 steps within 30 s"; }
	sleep 1
	asked=$(ranks | awk '$1 == 0 { print $2 }')
	[ -n "$asked" ] || { show slow; fail "rank 0 is not running"; }
	kill -USR2 "$asked"
	sleep 0.5
	said=$(grep -c 'wait' slow.err.0)
	[ "$said" -ge 1 ] || { show slow; fail "after SIGUSR2, rank 0 does not print what it waits for"; }
	echo "SIGUSR2: $(grep 'wait' slow.err.0)"
	wait "$job_pid" || { show slow; fail "the job did not end well"; }
	for rank in 0 2 3; do
		says slow.err.$rank 'wait.* [2-6]\.[0-9] s.*' || fail "rank $rank does not print since when it waits"
		says slow.err.$rank 'wait.*step 8.*shard [0-9]+' || fail "rank $rank does not name step and shard"
		says slow.err.$rank 'wait.*rank 1\b.*n[12]' || fail "rank $rank does not name rank 1 and its node"
	done
	grep -q lost slow.err.* && { show slow; fail "a slow rank was reported as lost"; }
	says slow.out '^final ' || fail "no last line"
	echo "| $(grep -h "wait.*rank 1" slow.err.2 | head -n 1)"
done
