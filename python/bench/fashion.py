#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares ways to exchange gradients: loss, accuracy, bytes and step time of an MLP on Fashion-MNIST.

One job trains an MLP 784-256-128-10 with all of them and several seeds:

    srun -n4 --mpi=pmix python3 python/bench/fashion.py --results fashion.jsonl

Each training adds a line to the file of results. A training that has a line is not repeated, so the script can be
interrupted and continues. At the end it prints a table. On several nodes, GLOO_SOCKET_IFNAME names the interface of
the network between them.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
from sluice.torch._flat import verify
from torch import nn
from torch.nn.functional import cross_entropy

import ways

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
from fashion_gloo import read  # noqa: E402

SPARSE = "up=topk(0.01) down=topk(0.05) signal=momentum(%s) warmup=1epoch"
NAMES = ["gloo",
         "gloo, ranks renumbered",
         "gloo, added in rank order",
         "gloo, float64",
         "gloo, fp16 hook",
         "gloo, PowerSGD rank 2",
         "compress: up=all down=all",
         f"compress: {SPARSE % 0.9}",
         f"compress: {SPARSE % 0.95}"]


def network():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def train(job, name, seed, args, data):
    """Trains once. Returns a row of the table, which is the same on all ranks."""
    x, y, test_x, test_y = data
    torch.manual_seed(seed)
    model = network()
    if name == "gloo, float64":
        model.double()
        x, test_x = x.double(), test_x.double()
    rank = (job.rank + (name == "gloo, ranks renumbered")) % job.workers
    steps = min(len(x) // (job.workers * args.batch), args.steps)
    way = ways.Way(name, job, model, lambda m, momentum: torch.optim.SGD(
        m.parameters(), lr=args.lr, momentum=0.0 if momentum else args.momentum), steps_per_epoch=steps)
    slower = torch.optim.lr_scheduler.LambdaLR(
        way.optimizer, lambda i: 1 - i / (steps * args.epochs) if args.falling else 1.0)
    times, before = [], ways.sent_on_the_wire()
    for epoch in range(args.epochs):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1000 * seed + epoch))
        total = 0.0
        for rows in order[:steps * job.workers * args.batch].view(steps, job.workers, args.batch)[:, rank]:
            began = time.perf_counter()
            way.optimizer.zero_grad()
            loss = cross_entropy(way.model(x[rows]), y[rows])
            loss.backward()
            way.optimizer.step()
            times.append(time.perf_counter() - began)
            slower.step()
            total += loss.item()
    total, wire = job.sum([total, ways.sent_on_the_wire() - before])
    with torch.no_grad():
        right = (model(test_x).argmax(1) == test_y).float().mean().item()
        whole = cross_entropy(model(x), y).item()
    digest = verify(job, model.named_parameters())
    row = {"way": name, "seed": seed, "ranks": job.workers, "steps": steps * args.epochs,
           "loss": total / steps / job.workers, "loss_of_all_rows": whole, "accuracy": right,
           "sent_bytes": way.sent(steps * args.epochs), "wire_bytes": int(wire),
           "ms_a_step": 1000 * statistics.median(times), "digest": f"{digest:016x}",
           "torch": torch.__version__, "load": os.getloadavg()[0]}
    way.close()
    return row


def table(rows):
    print(f"{'':66} {'loss, 3rd epoch':>26} {'accuracy':>9} {'MB sent':>9} {'ms a step':>9}")
    dense = {row["seed"]: row for row in rows if row["way"] == "gloo"}
    for name in dict.fromkeys(row["way"] for row in rows):
        of = [row for row in rows if row["way"] == name]

        def mean(key, of=of):
            return statistics.mean(row[key] for row in of)

        off = max((abs(row["loss"] - dense[row["seed"]]["loss"]) for row in of if row["seed"] in dense),
                  default=float("nan"))
        wire = f", on the wire {mean('wire_bytes') / 1e6:.1f}" if of[0]["wire_bytes"] else ""
        print(f"{name:66} {mean('loss'):.6f} off by {off:.1e} {mean('accuracy'):9.4f} "
              f"{mean('sent_bytes') / 1e6:9.1f} {mean('ms_a_step'):9.1f}  ({len(of)} seeds{wire})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--results", default="fashion.jsonl")
    parser.add_argument("--ways", default=";".join(NAMES), help="separated by semicolons")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1 << 30, help="largest number of steps per epoch")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--falling", action="store_true", help="the rate falls linearly to zero")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--table", metavar="FILE", help="only print the table of an earlier run")
    args = parser.parse_args()
    if args.table:
        with open(args.table, encoding="ascii") as file:
            table([json.loads(line) for line in file])
        return
    job = ways.start()
    rows = []
    if job.rank == 0 and os.path.exists(args.results):
        with open(args.results, encoding="ascii") as file:
            rows = [json.loads(line) for line in file]
    pieces = [(name, seed) for seed in map(int, args.seeds.split(",")) for name in args.ways.split(";")]
    done = [float((name, seed) in [(row["way"], row["seed"]) for row in rows]) for name, seed in pieces]
    data = (*read(args.data, "train"), *read(args.data, "t10k"))
    for (name, seed), skip in zip(pieces, job.sum(done)):
        if skip:
            continue
        row = train(job, name, seed, args, data)
        rows.append(row)
        if job.rank == 0:
            with open(args.results, "a", encoding="ascii") as file:
                print(json.dumps(row), file=file)
            print(json.dumps(row), flush=True)
    if job.rank == 0:
        table(rows)
    job.close()


if __name__ == "__main__":
    main()
