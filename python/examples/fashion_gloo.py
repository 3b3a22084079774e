#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fashion-MNIST with DistributedDataParallel over Gloo; fashion.py is the same script over Sluice."""
import argparse
import gzip
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def read(folder, part):
    """Pictures as float32[rows, 784] from 0 to 1, and labels as int64[rows]."""
    def values(name, header):
        with gzip.open(os.path.join(folder, f"{part}-{name}-ubyte.gz")) as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)
    return values("images-idx3", 16).view(-1, 784).float() / 255, values("labels-idx1", 8).long()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="rows of a rank in a step")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9, help="of the optimizer")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    x, y = read(args.data, "train")
    steps = len(x) // (ranks * args.batch)
    model = DistributedDataParallel(nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)

    began = time.perf_counter()
    for epoch in range(args.epochs):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(args.seed + epoch))
        total = 0.0
        for rows in order[:steps * ranks * args.batch].view(steps, ranks, args.batch)[:, rank]:
            optimizer.zero_grad()
            loss = cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            total += loss.item()
        if rank == 0:
            print(f"epoch={epoch + 1} loss={total / steps:.6f}", flush=True)
    seconds = time.perf_counter() - began
    with torch.no_grad():
        test_x, test_y = read(args.data, "t10k")
        accuracy = (model.module(test_x).argmax(1) == test_y).float().mean().item()
    if rank == 0:
        print(f"final accuracy={accuracy:.4f} loss={total / steps:.6f} "
              f"ms_a_step={1000 * seconds / (steps * args.epochs):.2f}")


if __name__ == "__main__":
    main()
