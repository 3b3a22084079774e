# SPDX-License-Identifier: BSD-3-Clause
"""Tests sluice.torch with tensors on a GPU: two ranks, both on the first GPU, get the bits of the CPU.

The gradient of the model is known exactly, so that CPU and GPU push the same bits. tests/gpu/run runs it, and
CUDA=cpu compares the CPU with itself.
"""
import os
import sys
import unittest

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ranks
import sluice
import sluice.torch

STEPS = 6
SHAPES = ((300, 40), (40,), (40, 7), (7,))
DEVICE = os.environ.get("CUDA", "cuda:0")
MEANS = ("up=all down=all", "up=topk(0.1) down=topk(0.2) memory=residual",
         "up=topk(0.06),twomeans down=topk(0.06),twomeans memory=residual",
         "up=topk(0.05),uniform(4) down=all signal=momentum(0.9) clip=1 memory=residual",
         "up=block-topk(64,4096) down=topk(0.2) memory=residual")
SHARDS = ("up=topk(0.1) down=topk(0.2) memory=residual update=sgd",
          "up=topk(0.1) down=all memory=residual update=adamw(0.2,0.99,1e-8,0.1)",
          "up=all down=all update=momentum(0.9)")
LOCALS = ("diloco when=every(3)", "sparseloco when=every(2)", "local4 when=every(3)", "sparta when=every(2)")


class Products(nn.Module):
    """Its loss is the sum of products of each parameter and a factor, which is thus the gradient."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.tensors = nn.ParameterList(torch.randint(-64, 65, shape, generator=generator) / 64.0 for shape in SHAPES)

    def forward(self, factors):
        return sum((p * f).sum() for p, f in zip(self.tensors, factors))


def factors(step, rank, device):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return [(torch.randn(shape, generator=generator) * 1024).round().div(1024).to(device) for shape in SHAPES]


def copies(tensors):
    return [t.detach().to("cpu", copy=True) for t in tensors]


def both(job, recipe, train):
    """train(job, recipe, device) yields tensors in each step."""
    cpu = [copies(tensors) for tensors in train(job, recipe, "cpu")]
    gpu = [copies(tensors) for tensors in train(job, recipe, DEVICE)]
    assert len(cpu) == len(gpu) > 0
    for step, (wanted, found) in enumerate(zip(cpu, gpu)):
        for i, (a, b) in enumerate(zip(wanted, found)):
            assert torch.equal(a, b), (f"{recipe}: step {step}: tensor {i}: {(a != b).sum()} of {a.numel()} differ, "
                                       f"the largest by {(a - b).abs().max()}")


def hook(job, recipe, device):
    model = Products().to(device)
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.01)
    with sluice.torch.compress(ddp, recipe, job=job) as state:
        for step in range(STEPS):
            model.zero_grad()
            ddp(factors(step, job.rank, device)).backward()
            yield [p.grad for p in model.parameters()]
        state.verify()


def steps_of(job, device, model, optimizer):
    """Makes the steps of an optimizer of sluice.torch, and yields the model after each."""
    for step in range(STEPS):
        optimizer.zero_grad()
        model(factors(step, job.rank, device)).backward()
        optimizer.step()
        yield model
    optimizer.close()


def inner(job, recipe, device):
    model = Products().to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=0.125)
    for _ in steps_of(job, device, model, sluice.torch.Optimizer(model, recipe, inner=sgd, job=job)):
        yield [p.grad for p in model.parameters()]


def shards(job, recipe, device):
    model = Products().to(device)
    for _ in steps_of(job, device, model, sluice.torch.Optimizer(model, recipe, lr=0.01, job=job)):
        yield list(model.parameters())


def local(job, recipe, device):
    model = Products().to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=2.0**-6)
    for _ in steps_of(job, device, model, sluice.torch.LocalSteps(model, sgd, recipe, job=job)):
        yield list(model.parameters())


def run_hook(job, _):
    sluice.torch.process_group(job)
    for recipe in MEANS:
        both(job, recipe, hook)


def run_inner(job, _):
    for recipe in MEANS:
        both(job, recipe, inner)


def run_shards(job, _):
    for recipe in SHARDS:
        both(job, recipe, shards)


def run_local(job, _):
    for recipe in LOCALS:
        both(job, recipe, local)


def run_stream(job, _):
    """The model trains in a stream that is not the default one."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run_inner(job, _)


@unittest.skipUnless(DEVICE == "cpu" or torch.cuda.is_available(), "no GPU here")
class Cuda(unittest.TestCase):
    def test_hook(self):
        ranks.run(2, "run_hook").all_well()

    def test_inner(self):
        ranks.run(2, "run_inner").all_well()

    def test_shards(self):
        ranks.run(2, "run_shards").all_well()

    @unittest.skipIf(DEVICE == "cpu", "a shard on a GPU needs one")
    def test_shards_on_the_gpu(self):
        ranks.run(2, "run_shards", SLUICE_DEVICE_SHARDS="yes").all_well()

    def test_local(self):
        ranks.run(2, "run_local").all_well()

    @unittest.skipIf(DEVICE == "cpu", "a CPU has no streams")
    def test_stream(self):
        ranks.run(2, "run_stream").all_well()


if __name__ == "__main__":
    unittest.main()
