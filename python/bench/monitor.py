#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what sluice.torch.Monitor costs, on an idle machine: torchrun --nproc_per_node 2 python/bench/monitor.py

Training without a monitor, and with one that writes TensorBoard's files (or, without tensorboard, to a list) every 100
steps, take turns, in a random order. The cost is measured in two ways: as the time inside of Monitor.step(), and as the
difference between the turns of a round (the median over the rounds, and its standard error). The same difference between two
turns without a monitor shows what noise does.
"""
import argparse
import importlib.util
import os
import random
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
    parser.add_argument("--steps", type=int, default=100, help="in each turn; a multiple of --every")
    parser.add_argument("--rounds", type=int, default=40, help="2 or more")
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

    def train(steps, after):
        """Returns the mean step and the mean call of after, in ms."""
        inside, began = 0.0, time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
            called = time.perf_counter()
            after()
            inside += time.perf_counter() - called
        return 1000 * (time.perf_counter() - began) / steps, 1000 * inside / steps

    rank = torch.distributed.get_rank()
    without, watched, again = [], [], []
    order = random.Random(1)  # the same on all ranks
    train(20, lambda: None)
    with tempfile.TemporaryDirectory() as folder:
        writer = writer_in(args.logdir or os.path.join(folder, "runs")) if rank == 0 else None
        with sluice.torch.Monitor(state, writer, every=args.every) as monitor:
            train(args.every, monitor.step)  # the first record imports and opens what later ones find
            for _ in range(args.rounds):
                ways = [(without, lambda: None), (watched, monitor.step), (again, lambda: None)]
                for results, after in order.sample(ways, len(ways)):
                    results.append(train(args.steps, after))
    if rank == 0:
        print(f"torch {torch.__version__}, {torch.distributed.get_world_size()} ranks, {type(writer).__name__}, "
              f"load {os.getloadavg()[0]:.1f}")
        step = statistics.median(ms for ms, _ in without + again)
        inside = statistics.fmean(ms for _, ms in watched)
        print(f"{'a step':20} {step:8.3f} ms")
        for name, results in ((f"Monitor(every={args.every})", watched), ("no monitor", again)):
            more = [100 * (ours[0] - theirs[0]) / step for ours, theirs in zip(results, without)]
            first, middle, third = statistics.quantiles(more, n=4)
            # 1.253 / 1.349: the standard error of the median, from the quartiles, if the differences are normal
            print(f"{name:20} {middle:+.2f} % of a step, standard error {0.93 * (third - first) / len(more) ** 0.5:.2f} %")
        print(f"{'inside of step()':20} {100 * inside / step:.2f} % of a step, {inside * args.every:.3f} ms a record")
    state.close()


if __name__ == "__main__":
    main()
