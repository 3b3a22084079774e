#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what sluice.torch.Monitor costs, on an idle machine: torchrun --nproc_per_node 2 python/bench/monitor.py

Training without a monitor, and with one that writes TensorBoard's files (or, without tensorboard, to a list) every 100
steps, take turns. The line of each has the median step of rank 0 over all rounds and the mean of all steps, which contains
the steps with a record.
"""
import argparse
import importlib.util
import os
import statistics
import tempfile
import time

import sluice.torch
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


class Rows:
    def __init__(self):
        self.rows = []

    def add_scalar(self, name, value, step):
        self.rows.append((name, value, step))


def writer_in(folder):
    if importlib.util.find_spec("tensorboard") is None:
        return Rows()
    from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="in each turn; a multiple of --every")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--recipe", default="up=topk(0.01) down=topk(0.05)")
    parser.add_argument("--logdir", help="keeps TensorBoard's files here")
    args = parser.parse_args()
    sluice.torch.process_group()
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                                                  nn.Linear(1024, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    state = sluice.torch.compress(model, args.recipe)
    x, y = torch.randn(64, 784), torch.arange(64) % 10

    def train(steps, after, times):
        for _ in range(steps):
            began = time.perf_counter()
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
            after()
            times.append(1000 * (time.perf_counter() - began))

    rank = torch.distributed.get_rank()
    without, watched = [], []
    train(20, lambda: None, [])
    with tempfile.TemporaryDirectory() as folder:
        writer = writer_in(args.logdir or os.path.join(folder, "runs")) if rank == 0 else None
        with sluice.torch.Monitor(state, writer, every=args.every) as monitor:
            for turn in range(args.rounds):
                ways = [lambda: train(args.steps, lambda: None, without),
                        lambda: train(args.steps, monitor.step, watched)]
                for way in ways[::1 if turn % 2 else -1]:
                    way()
    if rank == 0:
        print(f"torch {torch.__version__}, {torch.distributed.get_world_size()} ranks, {type(writer).__name__}, "
              f"load {os.getloadavg()[0]:.1f}")
        for name, times in (("no monitor", without), (f"Monitor(every={args.every})", watched)):
            print(f"{name:20} median {statistics.median(times):8.3f} ms, mean {statistics.fmean(times):8.3f} ms")
        print(f"{'cost of the median':20} {100 * (statistics.median(watched) / statistics.median(without) - 1):.2f} %, of the mean "
              f"{100 * (statistics.fmean(watched) / statistics.fmean(without) - 1):.2f} %")
    state.close()


if __name__ == "__main__":
    main()
