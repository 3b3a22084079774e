#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A small GPT that learns the characters of a text, with AdamW.

Every rank gets the mean of the compressed gradients, with which AdamW makes its step. With --ddp the gradients come
from DistributedDataParallel, else from sluice.torch.Optimizer. With --local-steps, each rank makes steps with its own
gradients, and the ranks exchange how far they have drifted.
"""
import argparse
import contextlib
import gzip
import json
import os
import sys
import time

import sluice.torch
import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, softmax
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("future", torch.ones(length, length).triu(1).bool(), persistent=False)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (part.view(rows, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, dim=2))
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        scores = scores.masked_fill(self.future[:length, :length], float("-inf"))
        mixed = (softmax(scores, dim=3) @ v).transpose(1, 2).reshape(rows, length, width)
        x = x + self.out(mixed)
        return x + self.down(gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, symbols, width, layers, heads, length):
        super().__init__()
        self.symbols, self.places = nn.Embedding(symbols, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, length) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.symbols(x) + self.places(places))))


def batch(text, rows, length, generator):
    begins = torch.randint(len(text) - length - 1, (rows,), generator=generator)
    x = torch.stack([text[b:b + length + 1] for b in begins])
    return x[:, :-1], x[:, 1:]


def loss_of(model, x, y):
    return cross_entropy(model(x).flatten(0, 1), y.flatten())


def adamw(parameters, lr, betas):
    """Returns an AdamW that makes its step in one pass over memory, if torch has one for processors.

    The other one takes the roots of all variances in a separate pass, which is slow where they are zero. Sparse means
    leave many of them at zero.
    """
    version = [int(part) for part in torch.__version__.split(".")[:2]]
    return torch.optim.AdamW(parameters, lr=lr, betas=betas, **({"fused": True} if version >= [2, 4] else {}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", help="a text file, which may be compressed by gzip")
    parser.add_argument("--recipe", help="default: the recipe for AdamW")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--ddp", action="store_true", help="use DistributedDataParallel and compress()")
    way.add_argument("--local-steps", dest="local", metavar="RECIPE",
                     help="local steps with this recipe, such as 'local4 when=every(10)'")
    parser.add_argument("--betas", type=float, nargs=2, default=(0.9, 0.999), help="of AdamW")
    parser.add_argument("--adapt", action="store_true", help="let Sluice change the betas")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=8, help="rows of a rank in a step")
    parser.add_argument("--length", type=int, default=64, help="characters of a row")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=int, default=100, help="steps between validations")
    parser.add_argument("--metrics", help="a file for each validation, with the seconds and the bytes of all ranks "
                        "since the start, as lines of JSON that sluice-plot draws")
    parser.add_argument("--checkpoint", help="a directory to resume from and to save in, with a file for each rank")
    args = parser.parse_args()
    if args.local and (args.recipe or args.adapt or args.ddp):
        parser.error("--local-steps has its own recipe and changes no betas: leave out --recipe, --adapt and --ddp")

    if args.ddp:
        sluice.torch.process_group()
    job = sluice.torch.default_job()
    with (gzip.open if args.text.endswith(".gz") else open)(args.text, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    symbols = data.unique()
    data = torch.searchsorted(symbols, data)
    train, validation = data[:len(data) * 9 // 10], data[len(data) * 9 // 10:]

    torch.manual_seed(args.seed)
    model = GPT(len(symbols), args.width, args.layers, args.heads, args.length)
    optimizer = adamw(model.parameters(), args.lr, args.betas)
    trained, judged = model, contextlib.nullcontext
    if args.local:
        state = optimizer = sluice.torch.LocalSteps(model, optimizer, args.local)
        judged = state.common
    elif args.ddp:
        trained = DistributedDataParallel(model)
        state = sluice.torch.compress(trained, args.recipe, optimizer=optimizer, adapt=args.adapt)
    else:
        state = optimizer = sluice.torch.Optimizer(model, args.recipe, inner=optimizer, adapt=args.adapt)
    begin = 0
    saved = os.path.join(args.checkpoint or "", f"rank{job.rank}.pt")
    if args.checkpoint and os.path.exists(saved):
        parts = torch.load(saved)
        model.load_state_dict(parts["model"])
        optimizer.load_state_dict(parts["optimizer"])
        if args.ddp:
            state.load_state_dict(parts["compression"])
        begin = state.model.step
    if job.rank == 0:
        print(f"{state.layout.count} parameters, {job.workers} workers, from step {begin}", flush=True)

    began = time.perf_counter()
    for step in range(begin, args.steps):
        generator = torch.Generator().manual_seed((args.seed * 1000003 + step) * 4096 + job.rank)
        optimizer.zero_grad()
        loss_of(trained, *batch(train, args.batch, args.length, generator)).backward()
        optimizer.step()
        if job.rank == 0 and sys.stderr.isatty():
            print(f"\r[{'#' * (40 * (step + 1) // args.steps):40}] {step + 1}/{args.steps} ", end="", file=sys.stderr)
        if (step + 1) % args.report == 0 or step + 1 == args.steps:
            generator = torch.Generator().manual_seed(job.rank)
            with torch.no_grad(), judged():
                mine = loss_of(model, *batch(validation, 64, args.length, generator)).item()
            loss, totals = job.sum([mine])[0] / job.workers, state.totals()
            if job.rank == 0:
                seconds = time.perf_counter() - began
                if sys.stderr.isatty():
                    print("\r", " " * 60, "\r", end="", file=sys.stderr)
                print(f"step={step + 1} validation_loss={loss:.4f} "
                      f"ms_a_step={1000 * seconds / (step + 1 - begin):.1f}", flush=True)
                if args.metrics:
                    with open(args.metrics, "a", encoding="ascii") as file:
                        print(json.dumps({"step": step + 1, "validation_loss": loss, "seconds": seconds,
                                          "pushed_total": totals["pushed_bytes"],
                                          "pulled_total": totals["pulled_bytes"]}), file=file)
    if args.checkpoint:
        os.makedirs(args.checkpoint, exist_ok=True)
        parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        if args.ddp:
            parts["compression"] = state.state_dict()
        torch.save(parts, saved)
    totals, digest = state.totals(), state.verify()
    if job.rank == 0:
        print(f"final pushed={totals['pushed_bytes']} pulled={totals['pulled_bytes']} "
              f"dense={totals['dense_bytes']} digest={digest:016x}")


if __name__ == "__main__":
    main()
