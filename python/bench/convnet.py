#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a ConvNet on Fashion-MNIST for 225 steps with SGD, momentum 0.9 and OneCycleLR, with the recipes of compress(optimizer=).

    torchrun --nproc_per_node 2 python/bench/convnet.py

Prints, for each seed, the accuracy of the dense recipe, of the recipe that the optimizer selects, and of the one with
adapt=True, and how many times fewer bytes than dense ones the ranks pushed and pulled.
"""
import argparse

import sluice.torch
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from clipping import DENSE, ROWS, STEPS, network, read


def train(data, seed, recipe, adapt, rate, clip):
    (x, y), (test_x, test_y) = data
    net = network(seed)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    order = torch.Generator().manual_seed(7 + seed)
    with sluice.torch.compress(model, recipe, optimizer=optimizer, adapt=adapt, clip=clip) as state:
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=STEPS, cycle_momentum=False)
        for _ in range(STEPS):
            rows = torch.randint(0, len(x), (dist.get_world_size(), ROWS), generator=order)[dist.get_rank()]
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
        state.verify()
        totals = state.totals()
    net.eval()
    with torch.no_grad():
        right = sum((net(a).argmax(1) == b).sum().item() for a, b in zip(test_x.split(1000), test_y.split(1000)))
    dense = totals["dense_bytes"] / 2
    return right / len(test_y), dense / totals["pushed_bytes"], dense / totals["pulled_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--seeds", type=int, nargs="+", default=(1, 2, 3))
    parser.add_argument("--rate", type=float, default=0.05, help="the largest learning rate")
    parser.add_argument("--clip", type=float, help="the largest norm of a rank's gradient")
    args = parser.parse_args()
    torch.set_num_threads(1)
    sluice.torch.process_group()
    data = [((x - 0.286) / 0.353, y) for x, y in (read(args.data, "train"), read(args.data, "t10k"))]
    for seed in args.seeds:
        for name, recipe, adapt in (("dense", DENSE, False), ("optimizer=", None, False), ("adapt=True", None, True)):
            accuracy, up, down = train(data, seed, recipe, adapt, args.rate, args.clip)
            if dist.get_rank() == 0:
                print(f"seed={seed} {name} accuracy={accuracy:.4f} up={up:.1f}x down={down:.1f}x", flush=True)
    sluice.torch.default_job().close()


if __name__ == "__main__":
    main()
