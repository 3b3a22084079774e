#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Step times of DistributedDataParallel over Gloo and of sluice.torch, side by side in one job:

    MASTER_ADDR=localhost MASTER_PORT=29500 srun -n4 --mpi=pmix python3 python/bench/ddp.py

Gloo needs the two variables; on several nodes MASTER_ADDR is the name of the first one. The variants
take turns, so that what disturbs the machine disturbs all of them. A time is the median over steps.
"""
import argparse
import os
import statistics
import time

import sluice
import sluice.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

SPARSE = "up=topk(0.01) down=topk(0.05)"


def network(widths):
    torch.manual_seed(1)
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


class Variant:
    """One way to exchange gradients; model, optimizer, and of Sluice what has stats() and close()."""

    def __init__(self, name, job, widths):
        self.name, self.times, self.state = name, [], None
        model = network(widths)
        kind, _, recipe = name.partition(": ")
        if kind == "optimizer":
            self.model = model
            shards = "update=none" not in recipe
            self.optimizer = self.state = sluice.torch.Optimizer(
                model, recipe, job=job, **({"lr": 0.01} if shards else {"inner": sgd(model)}))
            return
        # Over Gloo PowerSGD's callbacks of several buckets meet in another order on each rank, and fail.
        options = {"bucket_cap_mb": 4096} if "PowerSGD" in kind else {}
        self.model = DistributedDataParallel(model, gradient_as_bucket_view=True, **options)
        self.optimizer = sgd(self.model)
        if kind == "gloo, fp16 hook":
            self.model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif kind == "gloo, PowerSGD rank 2":
            self.model.register_comm_hook(powerSGD_hook.PowerSGDState(
                None, matrix_approximation_rank=2, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
        elif kind == "compress":
            self.state = sluice.torch.compress(self.model, recipe, job=job)

    def step(self, x, y):
        began = time.perf_counter()
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()
        self.times.append(time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", default="784,1024,1024,10", help="of the layers")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=40, help="of each variant in a round")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    job = sluice.Job()
    dist.init_process_group("gloo", rank=job.rank, world_size=job.workers)
    widths = [int(w) for w in args.widths.split(",")]
    names = ["gloo", "gloo, fp16 hook", "gloo, PowerSGD rank 2", "compress: up=all down=all",
             f"compress: {SPARSE}", f"optimizer: {SPARSE} update=none", f"optimizer: {SPARSE} update=sgd"]
    if torch.__version__.startswith("1."):
        names.remove("gloo, PowerSGD rank 2")  # whose first bucket has 1 MB whatever bucket_cap_mb says
    variants = [Variant(name, job, widths) for name in names]
    x = torch.randn(args.batch, widths[0], generator=torch.Generator().manual_seed(job.rank))
    y = torch.arange(args.batch) % widths[-1]
    warm = 5
    for variant in variants:
        for _ in range(warm):
            variant.step(x, y)
        variant.times.clear()
        variant.copied = variant.state.copied_bytes if variant.state else 0
    for _ in range(args.rounds):
        for variant in variants:
            for _ in range(args.steps):
                variant.step(x, y)
            job.barrier()
    if job.rank == 0:
        count = sum(p.numel() for p in variants[0].model.parameters())
        print(f"torch {torch.__version__}, {job.workers} ranks, {os.cpu_count()} processors, load "
              f"{os.getloadavg()[0]:.1f}, {count} parameters ({4 * count} bytes), rank 0:")
        print(f"{'':60} {'ms a step':>9} {'bytes up':>9} {'down':>9} {'copied':>9}  a step")
    for variant in variants:
        steps = args.rounds * args.steps
        up = down = copied = "-"
        if variant.state:
            stats = variant.state.stats()
            up, down = (stats[key] // stats["steps"] for key in ("pushed_bytes", "pulled_bytes"))
            copied = (stats["copied_bytes"] - variant.copied) // steps
        if job.rank == 0:
            print(f"{variant.name:60} {1000 * statistics.median(variant.times):9.1f} {up:>9} {down:>9} {copied:>9}",
                  flush=True)
        if variant.state:
            variant.state.close()
    job.close()


if __name__ == "__main__":
    main()
