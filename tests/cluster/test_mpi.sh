# SPDX-License-Identifier: BSD-3-Clause
# Calls sluice_init() before MPI_Init() and after it, with Open MPI and with MPICH. Both libraries join their
# jobs.
# Open MPI also uses PMIx, and is in the same job as Sluice under srun and under mpirun. Debian's MPICH has no
# PMIx, so its ranks form jobs of one under srun --mpi=pmix. If mpiexec starts it, Sluice's bootstrap uses
# MPI.
. "$TOP/tests/cluster/lib.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
ldd "$BUILD/.libs/libsluice.so" | grep -qE 'lib(asan|tsan|ubsan)' && skip "this library has a sanitizer, and mpicc does not link it"

compiled() { # MPI PACKAGE
	command -v "mpicc.$1" >/dev/null || { echo "| no mpicc.$1: install $2 to test with it"; return 1; }
	"mpicc.$1" -I"$TOP/runtime" -o "$1" "$TOP/tests/cluster/beside_mpi.c" \
		"$BUILD/.libs/libsluice.so" -Wl,-rpath,"$BUILD/.libs" || fail "mpicc.$1 does not compile beside_mpi.c"
}

# met FILE RANKS [alone]: fails unless FILE has the lines of all RANKS ranks. MPI must have the same ranks in
# a world of RANKS, or each rank must be alone in its world.
met() { # FILE RANKS [alone]
	local rank
	for ((rank = 0; rank < $2; rank++)); do
		if [ "${3-}" = alone ]; then echo "sluice $rank/$2 mpi 0/1"; else echo "sluice $rank/$2 mpi $rank/$2"; fi
	done | cmp -s - <(sort "$1") || { cat "$1"; return 1; }
}

tried=0
if compiled openmpi "openmpi-bin libopenmpi-dev"; then
	tried=1 program=$PWD/openmpi
	for order in mpi sluice; do
		job_ok "openmpi.$order" 4 $order
		met openmpi.$order.out 4 || fail "srun, Open MPI, $order first: the ranks do not agree"
		timeout 60 mpirun.openmpi --oversubscribe -n 2 ./openmpi $order >mpirun.$order 2>&1 ||
			{ cat mpirun.$order; fail "mpirun, $order first: it ended with an error"; }
		met mpirun.$order 2 || fail "mpirun, Open MPI, $order first: the ranks do not agree"
	done
	echo "| Open MPI: both orders, 4 ranks by srun and 2 by mpirun"
fi
if compiled mpich "mpich libmpich-dev"; then
	tried=1 program=$PWD/mpich
	for order in mpi sluice; do
		job_ok "mpich.$order" 2 $order
		met mpich.$order.out 2 alone || met mpich.$order.out 2 ||
			fail "srun, MPICH, $order first: the ranks do not agree"
	done
	# The launcher is hydra here. If Slurm's variables were set, mpiexec would start its proxies by srun.
	timeout 60 mpiexec.mpich -launcher fork -hosts localhost -n 2 ./mpich over >over 2>&1 ||
		{ cat over; fail "mpiexec, bootstrap over MPICH: it ended with an error"; }
	met over 2 || fail "mpiexec, bootstrap over MPICH: the ranks do not agree"
	echo "| MPICH: both orders by srun, and the bootstrap over MPI by mpiexec"
fi
[ $tried = 1 ] || skip "neither Open MPI nor MPICH: install openmpi-bin libopenmpi-dev, or mpich libmpich-dev"
