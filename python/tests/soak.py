# SPDX-License-Identifier: BSD-3-Clause
"""Makes many steps and compares the memory of the process after a fifth of them and at the end: soak.py WAY STEPS

Only soak runs it, with two ranks. WAY is compress, inner, shards, local or replicate.
"""
import ctypes
import gc
import os
import sys

import sluice.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SPARSE = "up=topk(0.05) down=topk(0.05)"
MOST = 1 << 20  # bytes that the process may have more at the end


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def memory():
    """Returns the bytes that malloc() has given out, and those of the process in memory."""
    gc.collect()
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo
    found = libc.mallinfo2()
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return found.uordblks + found.hblkhd, resident


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def prepared(way, job):
    """Returns a model, an object with step() and zero_grad(), and what Sluice returned."""
    model = network()
    if way == "compress":
        ddp = DistributedDataParallel(model)
        return ddp, sgd(ddp), sluice.torch.compress(ddp, SPARSE, job=job)
    if way == "inner":
        optimizer = sluice.torch.Optimizer(model, SPARSE, inner=sgd(model), job=job)
    elif way == "shards":
        optimizer = sluice.torch.Optimizer(model, SPARSE, lr=0.01, job=job)
    elif way == "local":
        optimizer = sluice.torch.LocalSteps(model, sgd(model), "local4 when=every(10)", job=job)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (job.workers, 1), mesh_dim_names=("replicate", "shard"))
        for part in (model[0], model[2], model):
            fully_shard(part, mesh=mesh["shard"])
        return model, sgd(model), sluice.torch.replicate(model, mesh["shard"], SPARSE, job=job)
    return model, optimizer, optimizer


def main(way, steps):
    sluice.torch.process_group()
    job = sluice.torch.default_job()
    model, optimizer, state = prepared(way, job)
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(job.rank))
    before = (0, 0)
    for step in range(steps):
        if step == steps // 5:
            before = memory()
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    after = memory()
    state.verify()
    state.close()
    dist.destroy_process_group()
    used, resident = (b - a for a, b in zip(before, after))
    kept = f"after {steps // 5} of {steps} steps {before[1] / 1e6:.1f} MB, at the end {resident / 1e3:+.0f} kB; malloc {used} B"
    flat = "ASAN_OPTIONS" in os.environ or max(used, resident) <= MOST
    if job.rank == 0 or not flat:
        print(f"{'flat' if flat else 'wrong: memory grows'}: {kept}", flush=True)
    sys.exit(not flat)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
