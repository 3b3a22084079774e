#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fashion-MNIST with FSDP2: every node holds a replica, divided among its ranks.

Inside a node, Gloo (or NCCL, with --device cuda) exchanges the pieces; between nodes, Sluice does. It needs
torch 2.6 or later. hsdp.sbatch sets the variables that torch.distributed needs.
"""
import argparse

import sluice.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

from fashion_gloo import read


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pieces", type=int, default=2, help="ranks of a node, which hold one replica")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recipe", default="up=topk(0.01) down=topk(0.05) signal=momentum(0.9) warmup=1epoch")
    args = parser.parse_args()

    job = sluice.torch.default_job()
    device = torch.device(args.device, job.rank % args.pieces if args.device == "cuda" else 0)
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo", rank=job.rank,
                            world_size=job.workers)
    mesh = init_device_mesh(args.device, (job.workers // args.pieces, args.pieces),
                            mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(args.seed)
    x, y = (part.to(device) for part in read(args.data, "train"))
    steps = len(x) // (job.workers * args.batch)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                          nn.Linear(128, 10)).to(device)
    fully_shard(model[0], mesh=mesh["shard"])
    fully_shard(model, mesh=mesh["shard"])
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    state = sluice.torch.replicate(model, mesh["shard"], args.recipe, job=job, optimizer=optimizer, steps_per_epoch=steps)

    for epoch in range(args.epochs):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(args.seed + epoch))
        total = 0.0
        for rows in order[:steps * job.workers * args.batch].view(steps, job.workers, -1)[:, job.rank]:
            optimizer.zero_grad()
            loss = cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            total += loss.item()
        if job.rank == 0:
            print(f"epoch={epoch + 1} loss={total / steps:.6f}", flush=True)
    test_x, test_y = (part.to(device) for part in read(args.data, "t10k"))
    with torch.no_grad():
        accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
    totals, digest = state.totals(), state.verify()
    if job.rank == 0:
        print(f"final accuracy={accuracy:.4f} loss={total / steps:.6f} pushed={totals['pushed_bytes']} "
              f"pulled={totals['pulled_bytes']} dense={totals['dense_bytes']} digest={digest:016x}")
    state.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
