# SPDX-License-Identifier: BSD-3-Clause
# Pulls the cable of n1: the far end of its interface goes down, so the port is DOWN, but the addresses stay.
# The nodes can also reach each other over loopback, which is the control network.
# The link is down for 1, 5, 20 and 40 s, and repeatedly for 3 s with 3 s in between. No rank is lost, and the
# digest is right.
# If a rank is killed in that time, the other node names it within 2 s, or names the other rank of its node,
# which gives up because of it.
# If the link is down for longer than SLUICE_LINK_LOST_AFTER, each rank names a lost peer on the other node,
# and all ranks end.
. "$TOP/tests/vm/lib.sh"
trap 'ip link set p1 up' EXIT
export SLUICE_CONTROL_INTERFACE=lo

options=("${small[@]}" --shards 4 --recipe "$sparse" --digest)
SLUICE_TRANSPORT=shm job_ok shm 4 "$train" "${options[@]}" --epochs 8
digest=$(final shm digest)

started() { # NAME OPTION...: starts a job, and waits until it has done its first steps
	rm -f metrics "$1".*
	job_start "$1" 4 "$train" "${options[@]}" --metrics metrics "${@:2}"
	wait_lines metrics 3 60 || { show "$1"; fail "$1: no step was done within 60 s"; }
}
ended_well() { # NAME DIGEST
	wait "$job_pid" || { show "$1"; fail "$1: the job did not survive"; }
	! grep -h 'is lost' "$1".err.* || fail "$1: a rank was lost"
	[ "$(final "$1" digest)" = "$2" ] || fail "$1: digest $(final "$1" digest), over shm $2"
}

for seconds in 1 5 20 40; do
	started down$seconds --epochs 8
	ip link set p1 down
	sleep $seconds
	before=$(wc -l <metrics)
	ip link set p1 up
	start=$(now_ms)
	wait_lines metrics $((before + 1)) 60
	took=$(($(now_ms) - start))
	ended_well down$seconds "$digest"
	[ "$before" -lt "$(wc -l <metrics)" ] || fail "the job was over before the link came back: nothing was tested"
	echo "| link down for $seconds s after step $before of $(wc -l <metrics): a step was done $took ms after it came back, digest as over shm"
done

started flap --epochs 8
flaps=0
while kill -0 $job_pid 2>/dev/null && [ $flaps -lt 15 ]; do
	ip link set p1 down
	sleep 3
	ip link set p1 up
	flaps=$((flaps + 1))
	sleep 3
done
ended_well flap "$digest"
[ $flaps -ge 2 ] || fail "the job was over after $flaps times without link"
echo "| link down $flaps times for 3 s, with 3 s in between: digest as over shm," \
	"connected again $(grep -h 'connected again' flap.err.* | wc -l) times"

started killed --epochs 100000
ip link set p1 down
sleep 6
victim=$(pid_of 3)
start=$(now_ms)
kill -9 "$victim"
took=$(wait_named killed '[23]' "$start" 2000 0 1) ||
	{ show killed; fail "the other node does not report rank 3, killed while the link was down, after $took ms"; }
ip link set p1 up
wait "$job_pid" && fail "srun ended with status 0"
echo "| rank 3 killed while the link was down: named after $took ms by the ranks of the other node"

export SLUICE_LINK_LOST_AFTER=12s
started gone --epochs 100000
start=$(now_ms)
ip link set p1 down
slowest=0 pids=()
for rank in 0 1 2 3; do
	pids+=("$(pid_of $rank)")
	until grep -qE 'rank [0-3]\b.*lost' gone.err.$rank 2>/dev/null; do
		[ $(($(now_ms) - start)) -le 16000 ] || { show gone; fail "rank $rank names no lost rank after 16 s"; }
		sleep 0.02
	done
	# the time at which the message was written, which is before this script saw it
	took=$(($(stat -c %.3Y gone.err.$rank | tr -d .) - start))
	[ $took -le $slowest ] || slowest=$took
done
named=$(grep -hoE 'rank [0-3] \(node n[12]\) is lost' gone.err.* | sort | uniq -c | sort -rn | head -n 1)
gone=$(wait_gone "$start" 20000 "${pids[@]}") || { show gone; fail "ranks still run after $gone ms"; }
wait "$job_pid" && fail "srun ended with status 0"
echo "| link down for good: all ranks named a lost one within $slowest ms and ended after $gone ms;" \
	"most often named:$named"
