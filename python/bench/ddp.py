#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures step times of DistributedDataParallel over Gloo and of sluice.torch in one job:

    srun -n4 --mpi=pmix python3 python/bench/ddp.py [--model gpt:384,6]

The ways take turns, so that other load on the machine affects all of them. A time is the median over the steps of
rank 0. In "no exchange", every rank keeps its own gradients. "MB written" counts the bytes that torch's copy_(),
mul(), div() and add_() write in one step. These are the passes over memory of DDP, its hook and sluice.torch, but not
those inside the library. On several nodes, GLOO_SOCKET_IFNAME names the interface of the network between them.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import ways

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
from gpt import GPT  # noqa: E402

SPARSE = "up=topk(0.01) down=topk(0.05)"
NAMES = ["no exchange", "gloo", "gloo, fp16 hook", "gloo, PowerSGD rank 2", "compress: up=all down=all",
         f"compress: {SPARSE}", f"optimizer: {SPARSE} update=none", f"optimizer: {SPARSE} update=sgd"]
WARM = 6
LENGTH = 32  # characters in each row of the GPT
PASSES = ("aten::copy_", "aten::mul_", "aten::mul", "aten::div_", "aten::div", "aten::add_", "aten::zero_",
          "aten::clone")


def mlp(widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def model_and_rows(text, batch, seed):
    """Returns the model that --model names, and the rows of one rank."""
    torch.manual_seed(1)
    kind, _, numbers = text.partition(":")
    sizes = [int(n) for n in numbers.split(",")]
    random = torch.Generator().manual_seed(seed)
    if kind == "mlp":
        return mlp(sizes), torch.randn(batch, sizes[0], generator=random), torch.arange(batch) % sizes[-1]
    if kind != "gpt" or len(sizes) != 2:
        raise SystemExit(f"ddp.py: --model {text}: must be mlp:WIDTH,... or gpt:WIDTH,LAYERS")
    rows = torch.randint(65, (batch, LENGTH + 1), generator=random)
    return GPT(65, sizes[0], sizes[1], 4, LENGTH), rows[:, :-1], rows[:, 1:]


class Turn:
    """A way to exchange gradients, its times, and the bytes that it sent."""

    def __init__(self, name, job, args):
        model, self.x, self.y = model_and_rows(args.model, args.batch, job.rank)
        self.way = ways.Way(name, job, model, lambda m, _: torch.optim.SGD(m.parameters(), lr=0.01))
        self.times, self.wire = [], 0

    def step(self):
        way = self.way
        began = time.perf_counter()
        way.optimizer.zero_grad()
        with way.exchange():
            cross_entropy(way.model(self.x).flatten(0, -2), self.y.flatten()).backward()
        way.optimizer.step()
        self.times.append(time.perf_counter() - began)

    def steps(self, count):
        before = ways.sent_on_the_wire()
        for _ in range(count):
            self.step()
        self.wire += ways.sent_on_the_wire() - before

    def written(self):
        """Makes one uncounted step. Returns the bytes that torch's passes over gradients wrote in it."""
        largest = max(p.numel() for p in self.way.module.parameters())
        few = sum(p.numel() for p in self.way.module.parameters()) // 1000
        with torch.profiler.profile(record_shapes=True) as profile:
            self.step()
        self.times.pop()
        total = 0
        for event in profile.events():
            shape = event.input_shapes[0] if event.input_shapes else []
            count = 1
            for size in shape:
                count *= size
            if event.name in PASSES and shape and count >= min(few, largest):
                total += 4 * count
        return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mlp:784,1024,1024,10", help="or gpt:WIDTH,LAYERS")
    parser.add_argument("--batch", type=int, default=64, help="rows per rank and step")
    parser.add_argument("--steps", type=int, default=40, help="steps of each way per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default=";".join(NAMES), help="separated by semicolons")
    parser.add_argument("--results", help="a file to which each row is added, as JSON")
    args = parser.parse_args()
    job = ways.start()
    turns = [Turn(name, job, args) for name in args.ways.split(";")]
    for turn in turns:
        for _ in range(WARM):
            turn.step()
        turn.written_bytes = turn.written()
        turn.warm_bytes = turn.way.sent(WARM + 1)
        turn.times.clear()
    for _ in range(args.rounds):
        for turn in turns:
            turn.steps(args.steps)
            job.barrier()
    count = sum(p.numel() for p in turns[0].way.module.parameters())
    if job.rank == 0:
        print(f"torch {torch.__version__}, {job.workers} ranks, {os.cpu_count()} processors, load "
              f"{os.getloadavg()[0]:.1f}, {args.model}: {count} parameters ({4 * count / 1e6:.1f} MB); in each step:")
        print(f"{'':60} {'ms':>8} {'MB sent':>8} {'on wire':>8} {'MB written':>10}")
    for turn in turns:
        steps = args.rounds * args.steps
        wire = job.sum([turn.wire])[0] / steps
        row = {"way": turn.way.name, "model": args.model, "ranks": job.workers, "parameters": count,
               "ms": 1000 * statistics.median(turn.times),
               "sent_bytes": (turn.way.sent(WARM + 1 + steps) - turn.warm_bytes) // steps,
               "wire_bytes": int(wire), "written_bytes": turn.written_bytes, "torch": torch.__version__,
               "load": os.getloadavg()[0]}
        if job.rank == 0:
            print(f"{row['way']:60} {row['ms']:8.1f} {row['sent_bytes'] / 1e6:8.2f} {wire / 1e6:8.2f} "
                  f"{row['written_bytes'] / 1e6:10.2f}", flush=True)
            if args.results:
                with open(args.results, "a", encoding="ascii") as file:
                    print(json.dumps(row), file=file)
        turn.way.close()
    job.close()


if __name__ == "__main__":
    main()
