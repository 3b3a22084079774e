#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what an exchange of local steps costs if it hides behind later steps.

    srun -n2 --mpi=pmix python3 python/bench/late.py

The steps are of equal length and use nearly no processor time, as those of a GPU. Prints the time of a period, medians of
interleaved rounds: steps alone, exchanges in line, and exchanges with late(T).
"""
import argparse
import statistics
import time

import sluice.torch
import torch


class Way:
    def __init__(self, job, args, name, recipe):
        self.name, self.args, self.times = name, args, []
        self.model = torch.nn.Linear(args.parameters, 1, bias=False)
        sgd = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.local = sluice.torch.LocalSteps(self.model, sgd, recipe, job=job) if recipe else sgd
        self.model.weight.grad = torch.ones_like(self.model.weight)

    def step(self, until):
        self.local.step()
        time.sleep(max(0.0, until - time.monotonic()))

    def round(self, job):
        """Makes a few periods, of which the first is not counted."""
        job.barrier()
        for period in range(self.args.periods + 1):
            began = time.monotonic()
            for _ in range(self.args.every):
                self.step(time.monotonic() + 1e-3 * self.args.step)
            if period:
                self.times.append(time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--parameters", type=int, default=2500000)
    parser.add_argument("--step", type=float, default=20, help="milliseconds of a step")
    parser.add_argument("--every", type=int, default=20, help="steps of a period")
    parser.add_argument("--late", type=int, default=15, help="steps behind which an exchange hides")
    parser.add_argument("--periods", type=int, default=8, help="periods of a round")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    job = sluice.torch.default_job()
    recipe = f"local4 when=every({args.every})"
    ways = [Way(job, args, "steps alone", None), Way(job, args, "in line", recipe),
            Way(job, args, f"late({args.late})", f"{recipe},late({args.late}),mix(0.5)")]
    for _ in range(args.rounds):
        for way in ways:
            way.round(job)
    alone = statistics.median(ways[0].times)
    for way in ways:
        ms = 1e3 * statistics.median(way.times)
        if job.rank == 0:
            print(f"{way.name:12} {ms:8.1f} ms a period, {100 * (ms / 1e3 / alone - 1):+6.1f} %, worst {1e3 * max(way.times):.1f} ms",
                  flush=True)
    for way in ways[1:]:
        way.local.close()
    job.close()


if __name__ == "__main__":
    main()
