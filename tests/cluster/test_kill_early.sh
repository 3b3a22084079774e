# SPDX-License-Identifier: BSD-3-Clause
# kill -9 ends a rank before it has called PMIx_Init, which Slurm reports to nobody. All other ranks end long
# before SLUICE_BOOT_TIMEOUT, and those on the same node name the rank. The same holds at any moment while
# ranks connect to each other.
# limit: 300 s
. "$TOP/tests/cluster/lib.sh"
export SLUICE_BOOT_TIMEOUT=100s

# These tasks are killed before they become ranks. Rank 0 runs as the child of a shell, as if a script had
# started it.
program=$SCRATCH/doomed
cat >"$program" <<END
#!/bin/sh
[ "\$SLURM_PROCID" != "\$VICTIM" ] || kill -9 \$\$
[ "\$SLURM_PROCID" != 0 ] || { "$train" "\$@"; exit; }
exec "$train" "\$@"
END
chmod +x "$program"
export VICTIM
job_limit=150
for VICTIM in 1 2; do
	start=$(now_ms)
	job early 4 $small --epochs 100000 && fail "srun ended with status 0"
	took=$(($(now_ms) - start))
	says early.srun "n1: task $VICTIM: Killed" || fail "rank $VICTIM was not killed"
	[ "$took" -lt 60000 ] || { show early; fail "rank $VICTIM was killed, and the job ended after $took ms"; }
	for rank in 0 1 2; do
		[ $rank = $VICTIM ] || says early.err.$rank "rank $VICTIM .*n1.*lost" ||
			{ show early; fail "rank $rank does not name rank $VICTIM on its node as lost"; }
	done
	echo "| rank $VICTIM killed before PMIx_Init: the job took $took ms, and the others on its node named it"
	rm -f early.*
done
# A rank that is alone on its node: no other rank can see it end, but all name it when they have waited long
# enough.
VICTIM=3
SLUICE_BOOT_TIMEOUT=5s job alone 4 $small --epochs 100000 && fail "srun ended with status 0"
says alone.srun "n2: task 3: Killed" || fail "rank 3 was not killed"
for rank in 0 1 2; do
	says alone.err.$rank "rank $rank on node n1 waited .*missing: rank 3: " || fail "rank $rank does not name rank 3"
done
program=$train

# A kill at a random moment. The ranks that Slurm does not end name the killed rank.
rounds=${KILL_EARLY_ROUNDS:-$(repeats 12)} slowest=0
for ((round = 1; round <= rounds; round++)); do
	job_start kill 4 $small --epochs 100000
	for ((tries = 0; tries < 1000; tries++)); do
		mapfile -t list < <(ranks)
		[ ${#list[@]} -lt 4 ] || break
	done
	[ ${#list[@]} = 4 ] || { show kill; fail "round $round: ${#list[@]} of 4 ranks are running"; }
	sleep "0.$(printf %03d $((RANDOM % 150)))"
	victim=$((RANDOM % 3)) others=() # its node has another rank
	for line in "${list[@]}"; do
		read -r rank pid node <<<"$line"
		if [ "$rank" = $victim ]; then victim_pid=$pid; else others+=("$pid"); fi
	done
	kill -9 "$victim_pid"
	start=$(now_ms)
	took=$(wait_gone "$start" 50000 "${others[@]}") ||
		{ show kill; fail "round $round: rank $victim was killed, but other ranks still run after $took ms"; }
	wait "$job_pid" && fail "round $round: srun ended with status 0"
	# A rank that is still connecting may first meet a rank that has already given up. It then names that rank.
	named=0
	for ((rank = 0; rank < 4; rank++)); do
		grep -q '^sluice.*error' kill.err.$rank || continue
		says kill.err.$rank "rank [0-3] .*n[12].*lost" ||
			{ show kill; fail "round $round: rank $rank names no lost rank"; }
		! says kill.err.$rank "rank $victim .*n1.*lost" || named=1
	done
	[ $named = 1 ] || ! cat kill.err.* | grep -q '^sluice.*error' ||
		{ show kill; fail "round $round: no rank names rank $victim"; }
	echo "round $round: rank $victim killed, the others ended after $took ms"
	[ "$took" -le $slowest ] || slowest=$took
	rm -f kill.*
done
echo "| $rounds of $rounds early kills: all others ended within $slowest ms"
