# SPDX-License-Identifier: BSD-3-Clause
# A rank that SIGSTOP has stopped sends no heartbeat. The others name it as lost within SLUICE_LOST_AFTER
# (here the default, 5 s) and end. The limit is longer, because the machine may be busy.
. "$TOP/tests/cluster/lib.sh"

job_start stop 4 $small --epochs 100000 --recipe "$sparse" --metrics metrics
wait_lines metrics 3 30 || { show stop; fail "no step was done within 30 s"; }
mapfile -t list < <(ranks)
[ ${#list[@]} = 4 ] || fail "${#list[@]} of 4 ranks are running"
others=()
for line in "${list[@]}"; do
	read -r rank pid node <<<"$line"
	if [ "$rank" = 2 ]; then stopped=$pid stopped_node=$node; else others+=("$pid"); fi
done
trap 'kill -9 $stopped 2>/dev/null' EXIT
kill -STOP "$stopped"
start=$(now_ms)
took=$(wait_gone "$start" 20000 "${others[@]}") || { show stop; fail "other ranks still run after $took ms"; }
kill -9 "$stopped"
wait "$job_pid" && fail "srun ended with status 0"
for rank in 0 1 3; do
	says stop.err.$rank "rank 2 .*$stopped_node.*lost" || fail "rank $rank does not name rank 2 as lost"
done
echo "| rank 2 stopped: the others named it and ended after $took ms"
