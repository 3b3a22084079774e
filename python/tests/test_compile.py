# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile() of models whose gradients Sluice exchanges: torch 2.15, by newer_torch.

The backend is aot_eager, which traces and splits the model like the default one and needs no C++ compiler. COMPILE_BACKEND
names another one, such as inductor.
"""
import os
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import ranks
import sluice
import sluice.torch

ranks.LIMIT_S = 900  # torch.compile() of four ranks takes minutes on two busy processors

BACKEND = os.environ.get("COMPILE_BACKEND", "aot_eager")
DENSE, SPARSE = "up=all down=all", "up=topk(0.2) down=topk(0.4)"
STEPS = 3


def plain(model):
    return model


def of_the_whole(model):
    return torch.compile(model, backend=BACKEND)


def of_the_module(model):
    """Compiles in place, as FSDP2 needs it."""
    model.compile(backend=BACKEND)
    return model


def network():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3)), nn.Linear(6, 3))


def train(model, rank):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        x = torch.randn(5, 6, generator=torch.Generator().manual_seed(10 * step + rank))
        optimizer.zero_grad()
        cross_entropy(model(x), x[:, :3].argmax(1)).backward()
        optimizer.step()
    return [p.full_tensor() if hasattr(p, "full_tensor") else p.detach().clone() for p in model.parameters()]


def same(found, wanted, what):
    for a, b in zip(found, wanted):
        assert torch.equal(a, b), f"{what}: {(a - b).abs().max()}"


def parallel(job, way, recipe):
    """Trains a DDP model whose buckets are small, so that torch splits its graph at each bucket."""
    dist._DEFAULT_FIRST_BUCKET_BYTES = 100  # torch.compile() reads it too
    ddp = DistributedDataParallel(network(), bucket_cap_mb=0.0001)
    state = sluice.torch.compress(ddp, recipe, job=job) if recipe else None
    found = train(way(ddp), job.rank)
    if state is not None:
        assert state.stats()["steps"] == STEPS, state.stats()
        state.verify()
        state.close()
    return found


def rank_ddp(job, folder):
    store = dist.FileStore(folder + "/store", job.size)
    dist.init_process_group("gloo", rank=job.rank, world_size=job.size, store=store)
    same(parallel(job, of_the_whole, DENSE), parallel(job, of_the_whole, None), "dense is not Gloo")
    same(parallel(job, of_the_whole, SPARSE), parallel(job, plain, SPARSE), "compiled is not eager")
    model = DistributedDataParallel(of_the_whole(network()))
    state = sluice.torch.compress(model, SPARSE, job=job)
    same(train(model, job.rank), parallel(job, plain, SPARSE), "a compiled module in DDP is not eager")
    state.close()
    job.close()
    dist.destroy_process_group()


def sharded(job, mesh, way, recipe):
    """Trains with FSDP2: with a recipe in Sluice's replicate(), and without one in FSDP's own HSDP."""
    from torch.distributed.fsdp import fully_shard

    model, dimension = network(), mesh["shard"] if recipe else mesh
    for part in (*model[:-1], model):
        fully_shard(part, mesh=dimension)
    state = sluice.torch.replicate(model, dimension, recipe, job=job) if recipe else None
    found = train(way(model), job.rank)
    if state is not None:
        assert state.stats()["steps"] == STEPS, state.stats()
        state.verify()
        state.close()
    return found


def by_blocks(model):
    for part in model:
        part.compile(backend=BACKEND)
    return model


def rank_fsdp(job, folder):
    from torch.distributed.device_mesh import init_device_mesh

    store = dist.FileStore(folder + "/store", job.size)
    dist.init_process_group("gloo", rank=job.rank, world_size=job.size, store=store)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    native, eager = sharded(job, mesh, of_the_module, None), sharded(job, mesh, plain, SPARSE)
    same(sharded(job, mesh, of_the_module, DENSE), native, "dense is not FSDP's HSDP")
    for way in (of_the_module, by_blocks):
        same(sharded(job, mesh, way, SPARSE), eager, f"{way.__name__}: compiled is not eager")
    job.close()
    dist.destroy_process_group()


@unittest.skipUnless(hasattr(torch, "compile"), "torch.compile() needs torch 2.0")
class Compiled(unittest.TestCase):
    def test_ddp(self):
        ranks.run(2, "rank_ddp", SLUICE_WAIT_TIMEOUT="600s").all_well()

    def test_fsdp(self):
        try:
            from torch.distributed.fsdp import fully_shard  # noqa: F401
        except ImportError:
            self.skipTest("FSDP2 needs torch 2.6")
        ranks.run(4, "rank_fsdp", SLUICE_WAIT_TIMEOUT="600s").all_well()


if __name__ == "__main__":
    unittest.main()
