#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares runs that must end with the same parameters: dense over Sluice and over Gloo, resumed and uninterrupted.

    torchrun --nproc_per_node 2 python/bench/equal.py [--steps 40]

A ConvNet with BatchNorm learns Fashion-MNIST with SGD, momentum and OneCycleLR, and a GPT the characters of a text with AdamW.
Prints the last loss of rank 0 and the digest of all parameters and buffers of each run. Ends with status 1 if two runs that
must be equal differ. With more than two ranks, Gloo adds in another order, so that dense runs differ in their last bits.
"""
import argparse
import ctypes
import hashlib
import io
import os
import sys

import sluice.torch
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from clipping import DENSE, network, read

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
from gpt import GPT, batch, loss_of  # noqa: E402


class ConvNet:
    name, sparse = "ConvNet", "up=topk(0.01) down=topk(0.05)"

    def __init__(self, args):
        x, self.y = read(args.data, "train")
        self.x = (x - 0.286) / 0.353

    def parts(self, steps):
        net = network()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        return net, optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=steps)

    def loss(self, model, generator):
        rows = torch.randint(len(self.x), (64,), generator=generator)
        return cross_entropy(model(self.x[rows]), self.y[rows])


class Text:
    name, sparse = "GPT", "up=topk(0.01) down=topk(0.05)"

    def __init__(self, args):
        with open(args.text, "rb") as file:
            data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
        symbols = data.unique()
        self.data, self.symbols = torch.searchsorted(symbols, data), len(symbols)

    def parts(self, steps):
        torch.manual_seed(1)
        net = GPT(self.symbols, 96, 2, 4, 64)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        return net, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def loss(self, model, generator):
        return loss_of(model, *batch(self.data, 4, 64, generator))


def digest_of(net):
    values = torch.cat([value.detach().float().flatten() for value in net.state_dict().values()])
    return hashlib.blake2b(ctypes.string_at(values.data_ptr(), 4 * values.numel()), digest_size=8).hexdigest()


def train(task, steps, recipe, group=None, begin=0, end=None, saved=None):
    """Trains from step begin to end of a run of `steps` steps. Returns the loss, the digest, and what resumes the run."""
    net, optimizer, schedule = task.parts(steps)
    model = DistributedDataParallel(net, process_group=group)
    state = None if recipe is None else sluice.torch.compress(model, recipe)
    if saved:
        parts = torch.load(io.BytesIO(saved))
        net.load_state_dict(parts["net"])
        optimizer.load_state_dict(parts["optimizer"])
        schedule.load_state_dict(parts["schedule"])
        state.load_state_dict(parts["compression"])
    for step in range(begin, end or steps):
        loss = task.loss(model, torch.Generator().manual_seed(4096 * step + dist.get_rank()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(),
                "compression": state and state.state_dict()}, file)
    if state:
        state.verify()
        state.close()
    return loss.item(), digest_of(net), file.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--text", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "pytorch.md"))
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.set_num_threads(1)
    sluice.torch.process_group()
    gloo, steps, half, different = dist.new_group(backend="gloo"), args.steps, args.steps // 2, 0
    for task in (ConvNet(args), Text(args)):
        runs = {"Gloo": train(task, steps, None, gloo), "dense": train(task, steps, DENSE),
                "sparse": train(task, steps, task.sparse)}
        _, _, saved = train(task, steps, task.sparse, end=half)
        runs["sparse, resumed"] = train(task, steps, task.sparse, begin=half, saved=saved)
        for name, (loss, digest, _) in runs.items():
            if dist.get_rank() == 0:
                print(f"{task.name} {name}: loss={loss!r} digest={digest}", flush=True)
        for one, other in (("Gloo", "dense"), ("sparse", "sparse, resumed")):
            different |= runs[one][:2] != runs[other][:2]
    if dist.get_rank() == 0:
        print("different" if different else "equal", flush=True)
    sluice.torch.default_job().close()
    sys.exit(int(different))


if __name__ == "__main__":
    main()
