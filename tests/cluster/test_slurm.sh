# SPDX-License-Identifier: BSD-3-Clause
# The ways to start ranks that doc/cluster.md describes: a heterogeneous step, two steps side by side (--exact),
# a step next to a running one (--overlap), an array, and a batch job that SIGUSR1 interrupts and another job
# resumes. A requeued job would start only after two minutes, so the second job is submitted by hand.
# limit: 500 s
. "$TOP/tests/cluster/lib.sh"

# digest FILE: of the last line of sluice-train in a file.
digest() { sed -n 's/^final .*\bdigest=\([^ ]*\).*/\1/p' "$1" | tail -n 1; }
wanted() { # FILE DIGEST WHAT
	[ -n "$2" ] && [ "$(digest "$1")" = "$2" ] || { cat "$1"; fail "$3: digest $(digest "$1") instead of $2"; }
}
options="$small --recipe up=topk(0.01)"
options+=" --shards 2"

job_limit=150
nodes=1
job_ok two 2 $options
nodes=2
job_ok three 3 $options
two=$(digest two.out)

# After such a step, srun of Slurm 22.05 sometimes hangs: it stops the one agent of its PMIx plugin once for each part
# of the step (pmixp_abort_agent_stop). So the parts' ends are what counts, and an srun that stays is killed.
srun -v --mpi=pmix -N1 -n1 "$train" $options : -N1 -n2 "$train" $options >het 2>&1 &
pid=$! status= ended=0
for ((tries = 0; tries < 1500 && ended < 100; tries++)); do
	kill -0 $pid 2>/dev/null || { wait $pid; status=$?; break; }
	[ "$(grep -c '_task_finish: n[12]: tasks\? .*: Completed' het)" != 2 ] || ended=$((ended + 1))
	sleep 0.1
done
if [ -z "$status" ]; then
	kill -KILL $pid
	wait $pid 2>/dev/null
	[ $ended = 100 ] || { cat het; fail "the heterogeneous step has not ended after 150 s"; }
	echo "| srun hung after the heterogeneous step and was killed"
fi
[ "${status:-0}" = 0 ] || { cat het; fail "heterogeneous step: status $status"; }
wanted het "$(digest three.out)" "heterogeneous step"

export train options two
timeout 200 salloc -Q -N1 -n4 bash -c '
	srun --exact --mpi=pmix -n2 "$train" $options >exact1 2>&1 &
	srun --exact --mpi=pmix -n2 "$train" $options >exact2 2>&1 &
	wait' || fail "salloc: status $?"
for file in exact1 exact2; do wanted $file "$two" "--exact"; done

# The training ends only when it gets the signal, after the other step.
export -f wait_lines
timeout 200 salloc -Q -N1 -n2 bash -c '
	srun --mpi=pmix -n2 "$train" $options --epochs 100000 --metrics metrics --checkpoint forever >running 2>&1 &
	pid=$!
	wait_lines metrics 3 120 || exit 10
	srun --overlap --mpi=none -n1 hostname >overlap || exit 11
	kill -0 $pid || exit 12
	scancel --signal=USR1 "$SLURM_JOB_ID.0"
	wait $pid' || { cat running; fail "--overlap: status $?"; }
[ -s overlap ] && says running '^interrupted step=' || fail "--overlap: $(cat running)"

timeout 200 sbatch --wait --array=1-2 -N1 -n2 -o 'array.%a' \
	--wrap 'srun --mpi=pmix "$train" $options --seed $SLURM_ARRAY_TASK_ID' >array.log || { cat array.*; fail "array"; }
wanted array.1 "$two" "task 1 of the array" # --seed 1, as above
[ "$(digest array.2)" != "$two" ] && [ -n "$(digest array.2)" ] || { cat array.2; fail "task 2 of the array"; }

# The pause only makes sure that the signal arrives during the run, also on a busy machine. The option of the
# second job goes first, because options of sbatch overrule those in the script.
batch() { # OPTION OF sbatch... -- OPTION OF sluice-train...
	local of_sbatch=()
	while [ "$1" != -- ]; do of_sbatch+=("$1"); shift; done
	TRAIN=$train CHECKPOINT=$PWD/saved timeout 200 sbatch --parsable -N1 --ntasks-per-node=2 --time=5 "${of_sbatch[@]}" \
		"$TOP/slurm/train.sbatch" $options "${@:2}"
}
id=$(batch -o first -- --metrics batch_metrics --sleep 0:20:10) || fail "sbatch: status $?"
wait_lines batch_metrics 19 120 || { cat first; fail "no 19 steps of the batch job within 120 s"; }
scancel --signal=USR1 "$id"
for ((tries = 0; tries < 1200; tries++)); do
	! grep -q '^interrupted step=' first 2>/dev/null || break
	sleep 0.1
done
says first '^interrupted step=' || fail "the batch job was not interrupted"
# It queues itself again after this line. A job that is cancelled before could still do so.
for ((tries = 0; tries < 200; tries++)); do
	[ "$(squeue -h -j "$id" -o %T 2>/dev/null)" != PENDING ] || break
	sleep 0.1
done
scancel "$id"
batch --wait -o second -- >/dev/null || { cat second; fail "the second batch job failed"; }
wanted second "$two" "resumed batch job"
echo "| heterogeneous, --exact, --overlap, array, and a batch job interrupted at step $(sed -n 's/^interrupted step=\([0-9]*\).*/\1/p' first | head -n 1) and resumed"
