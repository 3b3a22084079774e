#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts the bytes of memory that a step touches, per coordinate and rank, beside those that it must touch:

    tools/bench/touched.py --bench build/sluice-bench

Each rank of a job over shared memory runs in cachegrind, whose simulated last-level cache of 1 MiB holds no vector of the
model. Each line of 64 bytes that a step brings into that cache, to read or to write it, counts; prefetches do not. The
counts do not depend on the load of the machine. Needs valgrind and Open MPI (Debian: valgrind, openmpi-bin).
"""
import argparse
import glob
import math
import os
import subprocess
import sys
import tempfile

from race import RECIPES

LINE, FEW, MANY = 64, 6, 26  # steps of the two runs, whose difference leaves out the start and the end of the job
DENSITIES = {"1%": 0.01, "1%-4bit": 0.01, "0.1%": 0.001, "0.1%-acc": 0.001}
VALUE_BITS = {"1%": 32, "1%-4bit": 4, "0.1%": 32, "0.1%-acc": 32}


def must(name, ranks):
    """Returns the bytes of a step whose vectors, messages and parameters each cross the memory bus once."""
    if name == "dense":
        # gradient, messages written and read, the shard's copy, deltas written and read, parameters
        return 4 + 4 + 4 + 4 / ranks + 4 / ranks + 4 + 4
    density = DENSITIES[name]
    # positions cost their entropy; a push is written and read, and a delta written by one rank and read by all
    bits = density * (VALUE_BITS[name] - math.log2(density)) - (1 - density) * math.log2(1 - density)
    messages = bits / 8 * (1 + 1 + 1 / ranks + 1)
    of_one, of_all = (1 - (1 - part) ** (LINE // 4) for part in (density, min(1, ranks * density)))
    # gradient and residual; the lines of parameters that change; those of the shard's residual and copy
    return 4 + 4 + 4 * of_one + 2 * 4 / ranks * of_all + messages


def lines(args, name, steps):
    """Returns the lines that the ranks but the first read and write."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(args.ranks), "valgrind", "-q",
                   "--tool=cachegrind", "--cache-sim=yes", "--LL=1048576,16,64",
                   f"--cachegrind-out-file={folder}/%p", args.bench, "step", "--count", str(args.count), "--steps",
                   str(steps), "--warmup", "3", "--recipe", RECIPES[name]]
        command += ["--accumulate"] if name == "0.1%-acc" else []
        variables = {**os.environ, "SLUICE_CONF": "off", "SLUICE_ADVICE": "no", "SLUICE_KERNELS": args.kernels}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        counts = []
        for path in glob.glob(f"{folder}/*"):
            with open(path, encoding="ascii") as file:
                counts += [line.split()[1:] for line in file if line.startswith("summary:")]
        if done.returncode or len(counts) != args.ranks:
            sys.exit(f"touched: {name}: no counts of {args.ranks} ranks:\n{done.stderr[-2000:]}")
    counts = sorted((int(count[5]), int(count[8])) for count in counts)  # DLmr, DLmw
    return [sum(column) / (args.ranks - 1) for column in zip(*counts[:-1])]  # rank 0 also prints, and has the most


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", required=True, help="sluice-bench")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--count", type=int, default=1000000)
    parser.add_argument("--kernels", default="avx2", help="SLUICE_KERNELS; valgrind has no AVX-512")
    args = parser.parse_args()
    if args.ranks < 2:
        parser.error("--ranks: at least 2")
    print("| recipe | must | touches | reads | writes |\n| --- | --- | --- | --- | --- |")
    for name in RECIPES:
        few, many = lines(args, name, FEW), lines(args, name, MANY)
        read, written = (LINE * (b - a) / (MANY - FEW) / args.count for a, b in zip(few, many))
        print(f"| {name} | {must(name, args.ranks):.1f} | {read + written:.1f} | {read:.1f} | {written:.1f} |",
              flush=True)


if __name__ == "__main__":
    main()
