#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small GPT on four simulated ranks with AdamW, at the shards or at the workers, or with local steps.

    python/bench/simulated_gpt.py TEXT "up=topk(0.04),uniform(4) down=topk(0.04),uniform(4) update=adamw(0.2,0.99,1e-8,0.1)"
    python/bench/simulated_gpt.py TEXT "up=topk(0.04),uniform(4) down=topk(0.04),uniform(4) update=none"
    python/bench/simulated_gpt.py TEXT local4 --inner muon --betas 0.7 0.99

With update=none, the workers pull the mean and make the step of AdamW with --betas and --decay. With signal=drift, each
worker has its own AdamW. With --inner muon, Muon replaces AdamW for the matrices of the blocks. TEXT is a text file, which
may be compressed by gzip. Its last tenth is used for validation. Prints a line of JSON with the loss, and the factor by
which the ranks pushed and pulled fewer bytes than a dense job. Bytes for a rank's own shards are included. "curve" has the
loss at --points equally spaced steps, and "sent" the bytes that a rank has pushed and pulled by then, as the mean of the
ranks. "cpu" is the processor time of a step of all ranks in seconds, without the losses. "digest" is a hash of the parameters.
With signal=drift, the loss is that of the common parameters. If keep= is above 0, "own" is the loss of rank 0's parameters,
and "loss_of_the_mean" that of the mean of all ranks.

With --real, the ranks are the four processes of srun or mpirun. Each of them computes the gradients of all ranks in
the same batch as the simulation, and pushes its own gradient. The simulated ranks therefore have the same digest. With
--real, only the digest is printed.
"""
import argparse
import ctypes
import gzip
import hashlib
import json
import math
import time

import torch
from torch.nn.functional import cross_entropy, embedding, gelu, layer_norm

from sluice._abi import CONSTANTS, sluice_model_stats
from sluice._library import check, lib
from sluice.job import Job
from sluice.recipe import Recipe, attributes

LENGTH, WORKERS, ROWS, WIDTH, LAYERS, HEADS = 64, 4, 4, 96, 2, 4
CLIP, WARMUP, LOWEST = 1.0, 50, 0.1  # largest norm of a worker's gradient; steps; final share of the rate
MOMENTUM = 0.95  # of Muon
RANK_MAIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Net:
    """Has one vector of parameters for each worker, and computes all workers in one batch."""

    def __init__(self, symbols, workers):
        self.symbols, self.shapes = symbols, {}  # name: (shape, standard deviation; 0 for zeros, -1 for ones)
        self.shapes.update(tok=((symbols, WIDTH), 0.06), pos=((LENGTH, WIDTH), 0.02))
        for i in range(LAYERS):
            for name, a, b, scale in (("qkv", 1, 3, 1), ("out", 1, 1, 0.5), ("upw", 1, 4, 1), ("dnw", 4, 1, 0.5)):
                self.shapes[f"{name}{i}"] = ((a * WIDTH, b * WIDTH), scale / (a * WIDTH) ** 0.5)
                self.shapes[f"{name}{i}b"] = ((b * WIDTH,), 0)
            for name in "n1", "n2":
                self.shapes.update({f"{name}{i}g": ((WIDTH,), -1), f"{name}{i}b": ((WIDTH,), 0)})
        self.shapes.update(nfg=((WIDTH,), -1), nfb=((WIDTH,), 0), head=((WIDTH, symbols), 0.5 / WIDTH ** 0.5),
                           headb=((symbols,), 0))
        self.count = sum(math.prod(shape) for shape, _ in self.shapes.values())
        self.params, self.grads = torch.empty(workers, self.count), torch.zeros(workers, self.count)
        self.of, at = {}, 0
        for name, (shape, _) in self.shapes.items():
            part = slice(at, at + math.prod(shape))
            self.of[name] = self.params[:, part].view(workers, *shape).detach().requires_grad_()
            self.of[name].grad = self.grads[:, part].view(workers, *shape)
            at = part.stop
        self.future = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)

    def start(self, seed):
        generator = torch.Generator().manual_seed(seed)
        return torch.cat([torch.ones(math.prod(shape)) if std < 0 else
                          torch.randn(math.prod(shape), generator=generator) * std
                          for shape, std in self.shapes.values()])

    def linear(self, x, name):
        return torch.baddbmm(self.of[name + "b"].unsqueeze(1), x, self.of[name])

    def norm(self, x, name):
        return torch.addcmul(self.of[name + "b"].unsqueeze(1), layer_norm(x, (WIDTH,)), self.of[name + "g"].unsqueeze(1))

    def loss(self, x, y):
        """Returns the sum of the workers' mean losses. The dimensions of x are workers, rows and places."""
        workers, rows, _ = x.shape
        table = self.of["tok"].reshape(workers * self.symbols, WIDTH)
        z = embedding(x + torch.arange(workers).view(-1, 1, 1) * self.symbols, table) + self.of["pos"].unsqueeze(1)
        z = z.view(workers, rows * LENGTH, WIDTH)
        for i in range(LAYERS):
            q, k, v = self.linear(self.norm(z, f"n1{i}"), f"qkv{i}").view(
                workers * rows, LENGTH, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            scores = (q @ k.transpose(-1, -2)) * (WIDTH // HEADS) ** -0.5 + self.future
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(workers, rows * LENGTH, WIDTH)
            z = z + self.linear(mixed, f"out{i}")
            hidden = gelu(self.linear(self.norm(z, f"n2{i}"), f"upw{i}"), approximate="tanh")
            z = z + self.linear(hidden, f"dnw{i}")
        scores = self.linear(self.norm(z, "nf"), "head")
        return cross_entropy(scores.view(-1, self.symbols), y.reshape(-1), reduction="sum") / (rows * LENGTH)

    def gradients(self, x, y):
        """Returns the gradient of each worker. Its norm is at most CLIP."""
        self.grads.zero_()
        with torch.enable_grad():
            self.loss(x, y).backward()
        return self.grads.mul_((CLIP / (self.grads.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1))


def orthogonal(z):
    """z: matrices of the same shape."""
    tall = z.shape[1] > z.shape[2]
    x = z.transpose(1, 2) if tall else z
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x.transpose(1, 2) if tall else x


class Inner:
    """AdamW, and with muon=True Muon for the matrices of the blocks. Each row of params has its own state."""

    def __init__(self, params, shapes, args):
        self.params, self.shapes, self.betas, self.decay, self.done = params, shapes, args.betas, args.decay, 0
        self.m, self.v = torch.zeros_like(params), torch.zeros_like(params)
        self.mu = torch.zeros_like(params) if args.inner == "muon" else None

    def step(self, grads, lr):
        (b1, b2), self.done = self.betas, self.done + 1
        self.m.lerp_(grads, 1 - b1)
        self.v.mul_(b2).addcmul_(grads, grads, value=1 - b2)
        change = self.m / (1 - b1 ** self.done) / ((self.v / (1 - b2 ** self.done)).sqrt() + 1e-8)
        if self.mu is not None:
            self.mu.mul_(MOMENTUM).add_(grads)
            at = 0
            for name, (shape, _) in self.shapes.items():
                part = slice(at, at + math.prod(shape))
                at = part.stop
                if len(shape) == 2 and name not in ("tok", "pos", "head"):
                    z = (grads[:, part] + MOMENTUM * self.mu[:, part]).view(-1, *shape)
                    change[:, part] = (orthogonal(z) * 0.2 * max(shape) ** 0.5).reshape(len(z), -1)
        self.params.mul_(1 - lr * self.decay).sub_(change, alpha=lr)


def draw(text, workers, rows, generator):
    at = torch.randint(len(text) - LENGTH - 1, (workers, rows, 1), generator=generator) + torch.arange(LENGTH + 1)
    return text[at][..., :-1], text[at][..., 1:]


class Training:
    """The state that the simulated ranks share. Only one of them runs at any time."""

    def __init__(self, args):
        with (gzip.open if args.text.endswith(".gz") else open)(args.text, "rb") as file:
            data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
        symbols = data.unique()
        data = torch.searchsorted(symbols, data)
        cut = len(data) * 9 // 10
        self.args, self.train = args, data[:cut]
        self.net, self.judge = Net(len(symbols), WORKERS), Net(len(symbols), 1)
        self.rows = draw(data[cut:], 1, 256, torch.Generator().manual_seed(7))
        self.generator = torch.Generator().manual_seed(args.seed * 1000 + 5)
        self.x = self.net.start(args.seed)
        self.whole = Recipe(args.recipe).complete(self.net.count, WORKERS)
        self.drifts, self.at_worker = self.whole.get("signal") == "drift", self.whole.get("update") == "none"
        if self.drifts:
            self.net.params.copy_(self.x)
        self.inner = Inner(self.net.params if self.drifts else self.x.view(1, -1), self.net.shapes, args)
        self.drawn = self.done = 0
        self.every = max(1, args.steps // args.points)
        self.curve, self.own, self.sent, self.bytes, self.error, self.ends = [], [], {}, [0, 0, 0], None, []
        self.judging = 0.0  # processor time of the losses

    def rate(self, step):
        falling = 0.5 * (1 + math.cos(math.pi * step / self.args.steps))
        return self.args.lr * min(1, step / WARMUP) * (LOWEST + (1 - LOWEST) * falling)

    def prepare(self, step):
        """Called by each rank. The first one in a step computes the gradients of all ranks."""
        if self.drawn < step:
            self.drawn = step
            if not self.drifts:
                self.net.params.copy_(self.x)
            self.net.gradients(*draw(self.train, WORKERS, ROWS, self.generator))
            if self.drifts:
                self.inner.step(self.net.grads, self.rate(step))

    def finish(self, step, pulled):
        """Called by each rank after its pull. The first one in a step changes the shared parameters. With signal=drift,
        pulled is the common vector."""
        if self.done >= step:
            return
        self.done = step
        if self.at_worker:
            self.inner.step(pulled.view(1, -1), self.rate(step))
        else:
            self.x.copy_(pulled)
        if self.is_point(step):
            self.curve.append(self.loss(self.x))
            if self.drifts and self.whole.get("keep") != "0":
                self.own.append(self.loss(self.net.params[0]))

    def is_point(self, step):
        return step % self.every == 0 or step == self.args.steps

    def loss(self, x):
        began = time.process_time()
        self.judge.params[0] = x
        loss = round(float(self.judge.loss(*self.rows)), 4)
        self.judging += time.process_time() - began
        return loss

    def count(self, model, step):
        """Called by each rank at each point, and returns its bytes: pushed, pulled, and those of a dense job."""
        stats = sluice_model_stats()
        stats.size = ctypes.sizeof(stats)
        check(lib.sluice_stats(model, ctypes.byref(stats)))
        found = [getattr(stats, f"{way}_bytes") + getattr(stats, f"own_{way}_bytes") for way in ("pushed", "pulled", "dense")]
        self.sent[step] = self.sent.get(step, 0) + (found[0] + found[1]) / WORKERS
        return found

    def rank(self, job):
        rank, params, model = lib.sluice_rank(job), self.x.clone(), ctypes.c_void_p()
        tensors = [(name, math.prod(shape), shape[-1] if len(shape) > 1 else 0)
                   for name, (shape, _) in self.net.shapes.items()]
        attr = attributes(self.args.recipe, count=self.net.count, lr=self.args.lr, tensors=tensors)
        check(lib.sluice_model_open(job, ctypes.byref(attr), params.data_ptr(), ctypes.byref(model)))
        for step in range(1, self.args.steps + 1):
            self.prepare(step)
            if self.drifts:
                mine = self.net.params[rank].data_ptr()
                check(lib.sluice_push(model, mine))
                check(lib.sluice_pull(model, mine))
                check(lib.sluice_barrier(job))  # the first rank's next step is that of all, who must have pulled
                if self.is_point(step):
                    check(lib.sluice_point(model, mine, params.data_ptr()))
                    self.finish(step, params)
                    found = self.count(model, step)
                continue
            check(lib.sluice_set(model, CONSTANTS["SLUICE_LR"], self.rate(step)))
            check(lib.sluice_push(model, self.net.grads[rank].data_ptr()))
            check(lib.sluice_pull(model, params.data_ptr()))
            self.finish(step, params)
            if self.is_point(step):
                found = self.count(model, step)
        self.bytes = [a + b for a, b in zip(self.bytes, found)]
        self.ends.append(params)
        lib.sluice_model_close(ctypes.byref(model))

    def join(self, job):
        """Trains as a rank of a real job. Returns the digest, which all ranks share."""
        if job.workers != WORKERS:
            raise SystemExit(f"the job has {job.workers} ranks, must be {WORKERS}")
        with torch.no_grad():
            self.rank(job._at())
        digests = job.gather(self.digest().encode())
        assert len(set(digests)) == 1, f"the ranks have different parameters: {digests}"
        return self.digest()

    def digest(self):
        return hashlib.sha256(self.x.numpy().tobytes()).hexdigest()[:16]

    def run(self):
        def rank_main(job, _):
            try:
                with torch.no_grad():
                    self.rank(job)
            except Exception as error:  # an exception cannot pass through the C code that calls this
                self.error = self.error or error
                return -1
            return 0

        lib.sluice_simulate.argtypes = [ctypes.c_void_p, ctypes.c_int, RANK_MAIN, ctypes.c_void_p]
        began = time.process_time()
        code = lib.sluice_simulate(None, WORKERS, RANK_MAIN(rank_main), None)
        if self.error:
            raise self.error
        check(code)
        cpu = (time.process_time() - began - self.judging) / self.args.steps
        assert all(torch.equal(end, self.ends[0]) for end in self.ends), "the ranks have different parameters"
        pushed, pulled, dense = self.bytes
        if self.drifts:  # the library counts dense exchanges only in the steps that have an exchange
            dense = 2 * 4 * self.net.count * WORKERS * self.args.steps
        mean = {"loss_of_the_mean": self.loss(self.net.params.mean(0)), "own": self.own} if self.own else {}
        return {"recipe": self.args.recipe, "inner": self.args.inner, "betas": self.args.betas, "seed": self.args.seed,
                "steps": self.args.steps, "lr": self.args.lr, "loss": self.curve[-1], **mean,
                "times_fewer_pushed": round(dense / 2 / pushed, 1),
                "times_fewer_pulled": round(dense / 2 / pulled, 1), "curve": self.curve,
                "sent": [round(sent) for _, sent in sorted(self.sent.items())], "cpu": round(cpu, 4),
                "digest": self.digest()}


def options_of(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("recipe")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--points", type=int, default=10, help="losses of the curve")
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--betas", type=float, nargs=2, default=(0.2, 0.99), help="betas of the workers' AdamW")
    parser.add_argument("--decay", type=float, default=0.1, help="weight decay of the workers' optimizer")
    parser.add_argument("--inner", choices=("adamw", "muon"), default="adamw", help="optimizer of the workers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="train as a rank of a real job")
    return parser.parse_args(arguments)


def main():
    args = options_of()
    torch.set_num_threads(1)
    if not args.real:
        print(json.dumps(Training(args).run()), flush=True)
        return
    with Job() as job:
        digest = Training(args).join(job)
        if job.rank == 0:
            print(json.dumps({"recipe": args.recipe, "seed": args.seed, "steps": args.steps, "digest": digest}), flush=True)


if __name__ == "__main__":
    main()
