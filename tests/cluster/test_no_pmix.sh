# SPDX-License-Identifier: BSD-3-Clause
# Under srun without PMIx, rank 0 prints the exact remedy for all ranks. All end at once (within a second on an
# idle machine) and do not wait for a timeout, which is 60 s.
. "$TOP/tests/cluster/lib.sh"

for type in none pmi2; do
	srun_options=(--mpi=$type)
	began=$(now_ms)
	job $type 2 $small && fail "srun --mpi=$type ended with status 0"
	took=$(($(now_ms) - began))
	says $type.err.0 'srun was started without --mpi=pmix.*2 tasks.*run `srun --mpi=pmix \.\.\.`' ||
		fail "rank 0 does not print the remedy"
	[ ! -s $type.err.1 ] || { cat $type.err.1; fail "rank 1 prints the same"; }
	[ $took -lt 30000 ] || fail "the ranks ended only after $took ms"
	echo "--mpi=$type: all ended after $took ms"
done
echo "| $(head -n 1 none.err.0)"

# a job of one task needs no launcher
srun_options=(--mpi=none -N1)
job_ok one 1 $small
