# SPDX-License-Identifier: BSD-3-Clause
# A whole machine fails. The ranks on the other machine name one of its ranks as lost within 5 s and end. The
# limit is half a second longer, because this script may need that to see it.
# machines: 2
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
		[ $(($(now_ms) - start)) -le 5500 ] || { show host; fail "rank $rank names no rank of n2 after 5.5 s"; }
		sleep 0.02
	done
	slowest=$(($(now_ms) - start)) pids+=("$(pid_of $rank)")
done
gone=$(wait_gone "$start" 10000 "${pids[@]}") || { show host; fail "ranks still run on n1 after $gone ms"; }
echo "| vm2 died: the ranks on vm1 named a rank on it as lost after $slowest ms, ended after $gone ms"
kill "$job_pid" 2>/dev/null
exit 0
