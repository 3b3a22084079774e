#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a ConvNet on Fashion-MNIST for 225 steps, and measures the cost of clipping before and after momentum.

    torchrun --nproc_per_node 2 python/bench/clipping.py

Prints the accuracy of the dense recipe and of a sparse one with signal=momentum. Each is trained without clipping,
with clip=1.0, and with torch's clip_grad_norm_(1.0) after backward(), for which sluice.torch prints a warning.
"""
import argparse
import os
import sys

import sluice.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
from fashion_gloo import read  # noqa: E402

DENSE = "up=all down=all"
SPARSE = "up=topk(0.01) down=topk(0.05) signal=momentum(0.9) warmup=1epoch"
STEPS, ROWS, EPOCH = 225, 64, 100


def network(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10))


def train(data, recipe, clip, clip_mean):
    (x, y), (test_x, test_y) = data
    net = network()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9 if recipe == DENSE else 0.0)
    order = torch.Generator().manual_seed(7)
    with sluice.torch.compress(model, recipe, clip=clip, steps_per_epoch=EPOCH, optimizer=optimizer) as state:
        for _ in range(STEPS):
            rows = torch.randint(0, len(x), (dist.get_world_size(), ROWS), generator=order)[dist.get_rank()]
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).backward()
            if clip_mean:
                nn.utils.clip_grad_norm_(model.parameters(), clip_mean)
            optimizer.step()
        state.verify()
    net.eval()
    with torch.no_grad():
        right = sum((net(a).argmax(1) == b).sum().item() for a, b in zip(test_x.split(1000), test_y.split(1000)))
    return right / len(test_y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()
    torch.set_num_threads(1)
    sluice.torch.process_group()
    data = [((x - 0.286) / 0.353, y) for x, y in (read(args.data, "train"), read(args.data, "t10k"))]
    for name, recipe in (("dense", DENSE), ("sparse", SPARSE)):
        for clip, clip_mean in ((None, None), (1.0, None), (None, 1.0)):
            accuracy = train(data, recipe, clip, clip_mean)
            if dist.get_rank() == 0:
                print(f"{name} clip={clip} clip_grad_norm_={clip_mean} accuracy={accuracy:.4f}", flush=True)
    sluice.torch.default_job().close()


if __name__ == "__main__":
    main()
