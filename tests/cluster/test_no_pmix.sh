# SPDX-License-Identifier: BSD-3-Clause
# Under srun without PMIx, each rank prints the exact remedy at once (within a second on an idle machine) and
# does not wait for a timeout, which is 60 s.
. "$TOP/tests/cluster/lib.sh"

for type in none pmi2; do
	srun_options=(--mpi=$type)
	began=$(now_ms)
	job $type 2 $small && fail "srun --mpi=$type ended with status 0"
	took=$(($(now_ms) - began))
	for rank in 0 1; do
		says $type.err.$rank 'srun was started without --mpi=pmix.*run `srun --mpi=pmix \.\.\.`' ||
			fail "rank $rank does not print the remedy"
	done
	[ $took -lt 30000 ] || fail "the ranks ended only after $took ms"
	echo "--mpi=$type: all ended after $took ms"
done
echo "| $(head -n 1 none.err.0)"

# a job of one task needs no launcher
srun_options=(--mpi=none -N1)
job_ok one 1 $small
