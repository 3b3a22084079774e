# SPDX-License-Identifier: BSD-3-Clause
# A whole machine dies: the ranks on the other one name a lost rank of it within 5 s (and the half second that
# this script may need to see it) and end.
# machines: 2
# limit: 120 s
. "$TOP/tests/vm/lib.sh"

job_start host 4 "$train" "${small[@]}" --epochs 100000 --shards 4 --recipe "$sparse" --metrics metrics
wait_lines metrics 3 60 || { show host; fail "no step was done within 60 s"; }
touch "$VM_SYNC/die"
for tries in {1..100}; do
	[ ! -e "$VM_SYNC/dead" ] || break
	sleep 0.02
done
[ -e "$VM_SYNC/dead" ] || fail "vm2 does not die"
start=$(now_ms) pids=() slowest=0
for rank in 0 1; do
	[ "$(node_of $rank)" = n1 ] || fail "rank $rank is on $(node_of $rank)"
	until grep -qE 'rank [23]\b.*n2.*lost' host.err.$rank 2>/dev/null; do
		[ $(($(now_ms) - start)) -le 5500 ] || { show host; fail "rank $rank names nobody on n2 as lost after 5.5 s"; }
		sleep 0.02
	done
	slowest=$(($(now_ms) - start)) pids+=("$(pid_of $rank)")
done
gone=$(wait_gone "$start" 10000 "${pids[@]}") || { show host; fail "after $gone ms ranks still run on n1"; }
echo "| vm2 died: the ranks on vm1 named a rank on it as lost after $slowest ms, ended after $gone ms"
kill "$job_pid" 2>/dev/null
exit 0
