#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains the GPT of examples/gpt.py with AdamW in several ways, and measures how long each takes on a network:

    srun -n4 --mpi=pmix python3 python/bench/gpt_race.py curve TEXT --results curves.jsonl --ways "dense;adamw"
    srun -n4 --mpi=pmix python3 python/bench/gpt_race.py times TEXT --results times.jsonl --link 1gbit

"curve" writes the validation loss and the bytes of all ranks against steps. A curve that is already complete in the
file is not repeated. "times" measures the time of a step and the bytes at the interfaces. The ways take turns in one
job, so that other load on the machine affects all of them. On several nodes, GLOO_SOCKET_IFNAME names the interface of
the network between them. gpt_table.py prints the results. With --together N, one process makes the steps of N ranks that
exchange dense gradients: the mean loss of all their rows has the mean of their gradients. It computes each step once
instead of N times, and its bytes are those that N ranks would send over Gloo.
"""
import argparse
import gzip
import json
import os
import statistics
import sys
import time

import torch

import ways

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
from gpt import GPT, adamw, batch, loss_of  # noqa: E402

USUAL, LOW = (0.9, 0.999), (0.2, 0.99)  # betas of AdamW
WAYS = {  # name: the way of ways.py, and the betas of the workers' AdamW
    "dense": ("gloo", USUAL),
    "dense, betas 0.2 0.99": ("gloo", LOW),
    "PowerSGD rank 4": ("gloo, PowerSGD rank 4", USUAL),
    "PowerSGD rank 4, betas 0.2 0.99": ("gloo, PowerSGD rank 4", LOW),
    "8 bits": ("compress: up=all,uniform(8) down=all,uniform(8)", USUAL),
    "adamw": ("adapt: adamw", USUAL),
    "shard-adamw": ("optimizer: shard-adamw update=adamw(0.2,0.99,1e-8,0.01)", USUAL),
    "shard-adamw, dense first": ("optimizer: shard-adamw update=adamw(0.2,0.99,1e-8,0.01) warmup=dense(50)", USUAL),
    "shard-adamw, freeze": ("optimizer: shard-adamw update=adamw(0.2,0.99,1e-8,0.01) warmup=dense(50) freeze=50",
                            USUAL),
    "local4": ("local: local4", USUAL),
    "sparseloco": ("local: sparseloco when=every(10)", USUAL),
}
ALONE = "no exchange"
PERIOD = 10  # steps between two exchanges of local4 and sparseloco


class Training:
    """A model that is trained in one of the ways, with the rows, rates and seeds of examples/gpt.py."""

    def __init__(self, job, args, text, name):
        self.job, self.args, (symbols, self.train, self.validation) = job, args, text
        self.name, self.step, self.times, self.wire = name, 0, [], 0
        self.ranks = range(args.together) if args.together else [job.rank]
        kind, betas = WAYS.get(name, (name, USUAL))
        torch.manual_seed(args.seed)
        self.model = GPT(symbols, args.width, args.layers, args.heads, args.length)
        self.way = ways.Way(kind, job, self.model,
                            lambda m, _: adamw(m.parameters(), args.lr, betas))

    def rows(self, text, rows, seed):
        """Returns the rows of the ranks of this process. A rank adds its number to the seed."""
        parts = [batch(text, rows, self.args.length, torch.Generator().manual_seed(seed + rank)) for rank in self.ranks]
        return [torch.cat(tensors) for tensors in zip(*parts)]

    def make_step(self):
        seed = (self.args.seed * 1000003 + self.step) * 4096
        self.way.optimizer.zero_grad()
        with self.way.exchange():
            loss_of(self.way.model, *self.rows(self.train, self.args.batch, seed)).backward()
        self.way.optimizer.step()
        self.step += 1

    def loss(self, seed=0):
        """Returns the loss of the rows that examples/gpt.py uses, or of other rows. Collective."""
        with torch.no_grad(), self.way.common():
            mine = loss_of(self.model, *self.rows(self.validation, 64, seed)).item()
        return self.job.sum([mine])[0] / self.job.workers

    def round(self, steps):
        """Makes steps and adds the mean time of one to times."""
        before, began = ways.sent_on_the_wire(), time.perf_counter()
        for _ in range(steps):
            self.make_step()
        self.job.barrier()  # a way is as fast as its slowest rank
        self.times.append((time.perf_counter() - began) / steps)
        self.wire += (ways.sent_on_the_wire() - before) / steps

    def facts(self):
        args = self.args
        return {"way": self.name, "parameters": sum(p.numel() for p in self.model.parameters()),
                "ranks": self.args.together or self.job.workers, "batch": args.batch, "length": args.length}


def text_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    symbols = data.unique()
    data = torch.searchsorted(symbols, data)
    return len(symbols), data[:len(data) * 9 // 10], data[len(data) * 9 // 10:]


def lines_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="ascii") as file:
        return [json.loads(line) for line in file]


def write(job, path, row):
    if job.rank == 0:
        print(*(f"{key}={value:.6g}" if isinstance(value, float) else f"{key}={value}" for key, value in row.items()),
              flush=True)
        with open(path, "a", encoding="ascii") as file:
            print(json.dumps(row), file=file)


def curve(job, args, text, done):
    for name in args.ways:
        training = Training(job, args, text, name)
        facts = {**training.facts(), "lr": args.lr, "seed": args.seed}
        if any(row.get("step", 0) >= args.steps and facts.items() <= row.items() for row in done):
            continue
        began = time.perf_counter()
        while training.step < args.steps:
            training.make_step()
            if training.step % args.report and training.step < args.steps:
                continue
            pushed, pulled = training.way.moved(training.step, args.together or job.workers)
            row = {**facts, "step": training.step, "validation_loss": training.loss(), "pushed_total": pushed,
                   "pulled_total": pulled}
            if training.step >= args.steps or training.step % 1000 == 0:
                row.update(other_rows=training.loss(1000), seconds=time.perf_counter() - began)
            write(job, args.results, row)
        training.way.close()


def times(job, args, text, _):
    trainings = [Training(job, args, text, name) for name in args.ways]
    for training in trainings:
        for _ in range(3):
            training.make_step()
        training.round(2)
        training.length = PERIOD if job.sum(training.times)[0] < job.workers or "local" in training.name else 4
        training.times, training.wire = [], 0
    for _ in range(args.rounds):
        for training in trainings:
            training.round(training.length)
    for training in trainings:
        wire = job.sum([training.wire])[0] / args.rounds
        write(job, args.results, {**training.facts(), "link": args.link, "seconds": statistics.median(training.times),
                                  "rounds": training.times, "steps": training.length, "wire_bytes": int(wire),
                                  "load": os.getloadavg()[0], "torch": torch.__version__})
        training.way.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=("curve", "times"))
    parser.add_argument("text", help="a text file, which may be compressed by gzip")
    parser.add_argument("--ways", type=lambda text: text.split(";"), help="separated by semicolons")
    parser.add_argument("--results", required=True, help="a file to which each row is added, as JSON")
    parser.add_argument("--link", default="none", help="a name for the network")
    parser.add_argument("--rounds", type=int, default=3, help="of each way, for times")
    parser.add_argument("--steps", type=int, default=1000, help="of a curve")
    parser.add_argument("--report", type=int, default=50, help="steps between validations")
    parser.add_argument("--batch", type=int, default=4, help="rows of a rank in a step")
    parser.add_argument("--length", type=int, default=64, help="characters of a row")
    parser.add_argument("--width", type=int, default=144)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--together", type=int, default=0, metavar="N", help="dense ranks that one process stands for")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not args.ways:
        args.ways = list(WAYS)
        if args.work == "times":  # the others take as long as a way of the list
            args.ways = [ALONE, *(name for name in WAYS if "betas" not in name and "first" not in name)]
    if args.work == "times" and args.rounds > 4 and any("freeze" in name for name in args.ways):
        parser.error("--rounds: at most 4 with freeze, whose first 50 steps are dense and are the ones to time")
    done = lines_of(args.results)
    job = ways.start()
    if args.together and (job.workers > 1 or args.work == "times" or any("dense" not in name for name in args.ways)):
        parser.error("--together: only for curves of dense ways in a job of one process")
    {"curve": curve, "times": times}[args.work](job, args, text_of(args.text), done)
    job.close()


if __name__ == "__main__":
    main()
