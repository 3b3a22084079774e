#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fashion-MNIST with Hugging Face accelerate: torchrun --nproc_per_node 2 with_accelerate.py [--checkpoint DIRECTORY]

The training begins from the checkpoint if the directory exists, and otherwise writes it after half of the steps. With
--recipe none, the gradients go through Gloo.
"""
import argparse
import os

import sluice.torch
import sluice.torch.integrations.accelerate
import torch
from accelerate import Accelerator
from torch import nn
from torch.nn.functional import cross_entropy

from fashion import read


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="samples of a rank in a step")
    parser.add_argument("--recipe", default="up=topk(0.05) down=topk(0.05)")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()

    accelerator = Accelerator(cpu=True)
    torch.manual_seed(1)
    rows = torch.utils.data.TensorDataset(*read(args.data, "train"))
    loader = torch.utils.data.DataLoader(rows, args.batch, drop_last=True)
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    state = None
    if args.recipe != "none":
        state = sluice.torch.integrations.accelerate.compress(accelerator, model, args.recipe, optimizer=optimizer)

    begin = 0
    if args.checkpoint and os.path.exists(args.checkpoint):
        accelerator.load_state(args.checkpoint)
        begin = args.steps // 2
    batches = iter(accelerator.skip_first_batches(loader, begin) if begin else loader)
    for step in range(begin, args.steps):
        if args.checkpoint and step == args.steps // 2 and not begin:
            accelerator.save_state(args.checkpoint)
        x, y = next(batches)
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
    loss = accelerator.reduce(loss.detach(), "mean").item()
    digest = sum(p.double().abs().sum().item() for p in model.parameters())
    if accelerator.is_main_process:
        print(f"final loss={loss:.6f} parameters={digest!r}")
    if state is not None:
        state.verify()
        state.close()
    accelerator.end_training()


if __name__ == "__main__":
    main()
