# SPDX-License-Identifier: BSD-3-Clause
# The cable of n1 is pulled (the far end of its interface goes down: the port says DOWN, addresses stay).
# Link down for 1 s: the job finishes with the right digest. Link down for 30 s: each rank names a lost peer of
# the other node within 5 s (and the half second that this script may need to see it), and all end.
# limit: 180 s
. "$TOP/tests/vm/lib.sh"
trap 'ip link set p1 up' EXIT

options=("${small[@]}" --shards 4 --recipe "$sparse" --digest)
SLUICE_TRANSPORT=shm job_ok shm 4 "$train" "${options[@]}" --epochs 8
digest=$(final shm digest)

job_start flap 4 "$train" "${options[@]}" --epochs 8 --metrics metrics
wait_lines metrics 3 40 || { show flap; fail "no step was done within 40 s"; }
ip link set p1 down
sleep 1
ip link set p1 up
before=$(wc -l <metrics)
wait "$job_pid" || { show flap; fail "the job did not survive 1 s without link"; }
[ "$before" -lt "$(wc -l <metrics)" ] || fail "the job was over before the link came back: nothing was tested"
echo "| link down for 1 s after step $before of $(wc -l <metrics): digest $(final flap digest), over shm $digest"
[ "$(final flap digest)" = "$digest" ] || fail "the digests differ"

rm -f metrics
job_start down 4 "$train" "${options[@]}" --epochs 100000 --metrics metrics
wait_lines metrics 3 40 || { show down; fail "no step was done within 40 s"; }
start=$(now_ms)
ip link set p1 down
slowest=0 pids=()
for rank in 0 1 2 3; do
	pids+=("$(pid_of $rank)")
	until grep -qE 'rank [0-3]\b.*lost' down.err.$rank 2>/dev/null; do
		[ $(($(now_ms) - start)) -le 5500 ] || { show down; fail "rank $rank names nobody as lost after 5.5 s"; }
		sleep 0.02
	done
	took=$(($(stat -c %.3Y down.err.$rank | tr -d .) - start)) # when it was written, not when it was seen
	[ $took -le $slowest ] || slowest=$took
done
named=$(grep -hoE 'rank [0-3] \(node n[12]\) is lost' down.err.* | sort | uniq -c | sort -rn | head -n 1)
gone=$(wait_gone "$start" 10000 "${pids[@]}") || { show down; fail "after $gone ms ranks still run"; }
wait "$job_pid" && fail "srun ended with status 0"
echo "| link down for good: all ranks named a lost one after $slowest ms at the latest, ended after $gone ms; most often named:$named"
