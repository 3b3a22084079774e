# SPDX-License-Identifier: BSD-3-Clause
# kill -9 of a rank before it has called PMIx_Init, of which Slurm tells nobody: all others end long before
# SLUICE_BOOT_TIMEOUT, and those on its node name it. The same at any moment while ranks find each other.
# limit: 300 s
. "$TOP/tests/cluster/lib.sh"
export SLUICE_BOOT_TIMEOUT=100s

# A task that is killed before it becomes a rank. Rank 0 runs below a shell, as from a script.
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
# Alone on its node: nobody can see it end, but all name it when they have waited long enough.
VICTIM=3
SLUICE_BOOT_TIMEOUT=5s job alone 4 $small --epochs 100000 && fail "srun ended with status 0"
says alone.srun "n2: task 3: Killed" || fail "rank 3 was not killed"
for rank in 0 1 2; do
	says alone.err.$rank "rank $rank on node n1 waited .*missing: rank 3: " || fail "rank $rank does not name rank 3"
done
program=$train

# At a moment that nobody chose: those that Slurm does not end name the rank.
rounds=${KILL_EARLY_ROUNDS:-$(repeats 12)} slowest=0
for ((round = 1; round <= rounds; round++)); do
	job_start kill 4 $small --epochs 100000
	for ((tries = 0; tries < 1000; tries++)); do
		mapfile -t list < <(ranks)
		[ ${#list[@]} -lt 4 ] || break
	done
	[ ${#list[@]} = 4 ] || { show kill; fail "round $round: ${#list[@]} of 4 ranks are running"; }
	sleep "0.$(printf %03d $((RANDOM % 150)))"
	victim=$((RANDOM % 3)) others=() # it has company on its node
	for line in "${list[@]}"; do
		read -r rank pid node <<<"$line"
		if [ "$rank" = $victim ]; then victim_pid=$pid; else others+=("$pid"); fi
	done
	kill -9 "$victim_pid"
	start=$(now_ms)
	took=$(wait_gone "$start" 50000 "${others[@]}") ||
		{ show kill; fail "round $round: rank $victim was killed, and after $took ms others still run"; }
	wait "$job_pid" && fail "round $round: srun ended with status 0"
	# Who is still connecting may first meet a rank that has given up already, and names that one.
	named=0
	for ((rank = 0; rank < 4; rank++)); do
		grep -q '^sluice.*error' kill.err.$rank || continue
		says kill.err.$rank "rank [0-3] .*n[12].*lost" ||
			{ show kill; fail "round $round: rank $rank names nobody as lost"; }
		! says kill.err.$rank "rank $victim .*n1.*lost" || named=1
	done
	[ $named = 1 ] || ! cat kill.err.* | grep -q '^sluice.*error' ||
		{ show kill; fail "round $round: nobody names rank $victim"; }
	echo "round $round: rank $victim killed, the others ended after $took ms"
	[ "$took" -le $slowest ] || slowest=$took
	rm -f kill.*
done
echo "| $rounds of $rounds early kills: all others ended, at the latest after $slowest ms"
