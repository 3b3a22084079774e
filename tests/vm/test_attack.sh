# SPDX-License-Identifier: BSD-3-Clause
# Processes outside the job try to connect to its ranks (attack.c). None is accepted, and no rank ends. The job's
# own ranks connect while 201 connections are held half-open.
. "$TOP/tests/vm/lib.sh"

attack=$(program tests/vm/attack)
options=("${small[@]}" --shards 4 --recipe "$sparse" --digest --metrics metrics)

# Prints the milliseconds from the start of rank 3, which starts late, to the first step.
RANK_HOOK='[ $SLURM_PROCID != 3 ] || { sleep 6; echo ${EPOCHREALTIME/./} >began; }'
export RANK_HOOK
first_step() {
	wait_lines metrics 1 60 || { show "$1"; fail "$1: no step within 60 s"; }
	echo $(($(now_ms) - $(cat began) / 1000))
}
listeners() { # RANK: prints "ADDRESS PORT" for each of its listening sockets
	rdma resource show cm_id 2>/dev/null | grep 'state LISTEN' | grep "pid $(pid_of "$1") " |
		sed -n 's/.*src-addr \([0-9.]*\):\([0-9]*\) .*/\1 \2/p' | sort -u
}
# other ADDRESS: prints the address of the other device
other() { [ "$1" = 10.3.0.1 ] && echo 10.3.0.2 || echo 10.3.0.1; }

job_start quiet 4 "$train" "${options[@]}"
usual=$(first_step quiet)
wait "$job_pid" || { show quiet; fail "the undisturbed job failed"; }
digest=$(final quiet digest)
rm -f metrics began

# rank 0 sleeps at step 2, which gives the attack time
RANK_HOOK+="; export LD_PRELOAD=$(program tests/vm/record_connect.so) RECORD_CONNECT=$SCRATCH/sent"
job_start attacked 4 "$train" "${options[@]}" --sleep 0:2:60
for tries in {1..100}; do
	[ "$(rdma resource show cm_id 2>/dev/null | grep -c 'state LISTEN')" -lt 3 ] || break
	sleep 0.1
done
floods=()
for rank in 0 1 2; do
	read -r address port < <(listeners $rank)
	[ -n "${port-}" ] || { rdma resource show cm_id; show attacked; fail "rank $rank does not listen"; }
	"$attack" "$(other "$address")" "$address" "$port" flood 67 >flood.$rank 2>&1 &
	floods+=($!)
done
disturbed=$(first_step attacked)
for rank in 0 1 2; do
	wait_lines flood.$rank 1 60 || { cat flood.?; fail "the flood of rank $rank did not begin 67 connections"; }
done
for flood in "${floods[@]}"; do
	kill -TERM "$flood" || { cat flood.?; fail "a flood ended before the job's first step"; }
	wait "$flood" || { cat flood.?; fail "flood: a connection was accepted, or too few were opened"; }
done
cat flood.?
begun=$(awk '/^flood:/ { n += $2 } END { print n }' flood.?)
echo "| 201 connections held half-open, $begun started: first step $disturbed ms after the start of the last rank" \
	"($usual ms without)"

tries=0
for rank in 0 1 2 3; do
	read -r address port < <(listeners $rank)
	from=$(other "$address")
	for how in lengths "key 0" "key 3" "key 77"; do
		timeout 100 "$attack" "$from" "$address" "$port" $how >"try.$rank.$tries" 2>&1 ||
			{ cat "try.$rank.$tries"; fail "$how: the attack on rank $rank did not end as expected"; }
		tries=$((tries + 1))
	done
	for record in sent.*; do # replays everything that was sent to this rank
		grep -q "^$address $port " "$record" || continue
		timeout 60 "$attack" "$from" "$address" "$port" replay "$record" >"replay.$rank.$tries" 2>&1 ||
			{ cat "replay.$rank.$tries"; fail "a replay was accepted by rank $rank"; }
		tries=$((tries + 1))
	done
done
ls replay.* >/dev/null 2>&1 || fail "nothing was replayed"
echo "| wrong key, odd private data, replayed messages: $(cat try.* replay.* | grep -c bytes) tries, none accepted"
wait "$job_pid" || { show attacked; fail "the attacked job failed"; }
[ "$(final attacked digest)" = "$digest" ] || fail "the digest is $(final attacked digest), not $digest"
