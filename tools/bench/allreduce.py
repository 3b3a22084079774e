#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares steps of Sluice with the dense allreduce of the MPIs on this machine, on the same cores.

    tools/devcluster/devcluster run -n 1 -- python3 tools/bench/allreduce.py [--count 10000000] [--ranks 2,4] [--cores 0,1]

Needs srun with PMIx for sluice-bench, and mpicc and mpirun of Open MPI (mpicc.openmpi, mpirun.openmpi) or MPICH
(mpicc.mpich, mpirun.mpich), as Debian names them. An MPI that is missing is left out. All use shared memory, and Open
MPI yields when idle. In each round, each system runs once, one after another. The figures are medians of the rounds'
medians, and medians of the ratios within a round. Sluice runs three kinds of steps. "pushed" is top-k of --density both
ways of a gradient that is passed to sluice_push. "accumulated" is the same for a gradient that was added to the
residual where it was computed (sluice_accumulator). "dense" sends everything.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}
int main(int argc, char **argv)
{
	int count = atoi(argv[1]), times = atoi(argv[2]), warmup = atoi(argv[3]), rank;
	double *ms = malloc((size_t)times * sizeof *ms);
	float *grad, *sum;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	grad = malloc((size_t)count * sizeof *grad);
	sum = malloc((size_t)count * sizeof *sum);
	for (int i = 0; i < count; i++)
		grad[i] = (float)((i * 2654435761u >> 8) & 0xffff) - 32768.0f, sum[i] = 0;
	for (int t = -warmup; t < times; t++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double began = MPI_Wtime();
		MPI_Allreduce(grad, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		if (t >= 0)
			ms[t] = (MPI_Wtime() - began) * 1e3;
	}
	qsort(ms, (size_t)times, sizeof *ms, ascending);
	if (rank == 0)
		printf("%.6f\n", ms[times / 2]);
	MPI_Finalize();
	return 0;
}
"""


def run(command, **variables):
    done = subprocess.run(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, check=True, timeout=600)
    return done.stdout.decode()


def mpis(folder):
    source = os.path.join(folder, "allreduce.c")
    with open(source, "w") as f:
        f.write(PROGRAM)
    found = {}
    for name in ("openmpi", "mpich"):
        if shutil.which("mpicc." + name) and shutil.which("mpirun." + name):
            program = os.path.join(folder, name)
            subprocess.run(["mpicc." + name, "-O2", source, "-o", program], check=True)
            found[name] = program
    return found


def allreduce(name, program, ranks, args):
    command = ["taskset", "-c", args.cores, "mpirun." + name]
    if name == "openmpi":
        command += ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                    "--mca", "btl", "self,vader"]
        if os.geteuid() == 0:
            command += ["--allow-run-as-root"]
    else:
        command += ["-bind-to", "none", "-launcher", "fork"]
    slurm = [v for v in os.environ if v.startswith(("SLURM", "PMI", "OMPI"))]
    bare = {k: v for k, v in os.environ.items() if k not in slurm}  # so that no MPI uses Slurm
    done = subprocess.run(command + ["-n", str(ranks), program, str(args.count), str(args.times), "2"], env=bare,
                          stdout=subprocess.PIPE, check=True, timeout=600)
    return float(done.stdout)


def ways_of(density):
    sparse = f"up=topk({density}) down=topk({density})"
    return {"pushed": ["--recipe", sparse], "accumulated": ["--recipe", sparse, "--accumulate"],
            "dense": ["--recipe", "up=all down=all"]}


def step(ranks, args, way):
    out = run(args.srun.split() + ["-N1", f"-n{ranks}", "--cpu-bind=none", "taskset", "-c", args.cores, args.bench,
                                   "step", "--count", str(args.count), "--steps",
                                   str(args.times), "--limit", "--json", *way], SLUICE_TRANSPORT="shm")
    return json.loads(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000_000)
    parser.add_argument("--density", type=float, default=0.001)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--cores", default="0,1", help="as for taskset -c")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", type=int, default=15, help="steps or allreduces per round")
    parser.add_argument("--bench", default="build/sluice-bench")
    parser.add_argument("--srun", default="srun --mpi=pmix")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.bench = os.path.abspath(args.bench)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        programs = mpis(folder)
        if not programs:
            sys.exit("no MPI here: neither mpicc.openmpi nor mpicc.mpich")
        for ranks in map(int, args.ranks.split(",")):
            ways = {name: [] for name in ways_of(args.density)}
            dense = {name: [] for name in programs}
            for _ in range(args.rounds):
                for name, program in programs.items():
                    dense[name].append(allreduce(name, program, ranks, args))
                for name, way in ways_of(args.density).items():
                    ways[name].append(step(ranks, args, way))
            row = {"ranks": ranks, "allreduce_ms": {name: statistics.median(ms) for name, ms in dense.items()},
                   "step": {}, "ratio": {}}
            for way, steps in ways.items():
                row["step"][way] = {key: statistics.median(s[key] for s in steps) for key in steps[0]
                                    if key.endswith(("_ms", "_p50", "_bytes", "_second")) and
                                    steps[0][key] is not None}
                row["ratio"][way] = {name: statistics.median(m / s["ms_p50"] for m, s in zip(ms, steps))
                                     for name, ms in dense.items()}
            rows.append(row)
    if args.json:
        print(json.dumps({"count": args.count, "density": args.density, "cores": args.cores, "rounds": args.rounds,
                          "rows": rows}))
        return
    print(f"{args.count} parameters, {args.density:.3%} both ways, cores {args.cores}, medians of {args.rounds} rounds")
    for row in rows:
        for name, ms in row["allreduce_ms"].items():
            print(f"{row['ranks']} ranks: dense allreduce of {name:<8} {ms:8.2f} ms")
        for way, s in row["step"].items():
            ratios = ", ".join(f"{name} {ratio:.1f} x" for name, ratio in row["ratio"][way].items())
            least = s.get("break_even_bytes_per_second")  # not for a dense step
            wins = f"; wins below {least * 1e-9:.2f} GB/s a worker" if least else ""
            print(f"{row['ranks']} ranks: step, {way:<11} {s['ms_p50']:19.2f} ms ({ratios}): compress {s['compress_ms']:.2f}, "
                  f"push {s['push_ms']:.2f}, wait {s['wait_ms']:.2f}, pull {s['pull_ms']:.2f}, apply {s['apply_ms']:.2f}; "
                  f"passes: read {s['limit_read_ms']:.2f}, copy {s['limit_copy_ms']:.2f}, add {s['limit_add_ms']:.2f}{wins}")


if __name__ == "__main__":
    main()
