#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fashion-MNIST with PyTorch Lightning: torchrun --nproc_per_node 2 with_lightning.py [--checkpoint FILE]

The training writes this file after the first of two epochs, and begins from it if it exists. With --recipe none, the
gradients go through Gloo.
"""
import argparse
import os

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from sluice.torch.integrations.lightning import SluiceStrategy
from torch import nn
from torch.nn.functional import cross_entropy

from fashion import read


class Network(lightning.LightningModule):
    def __init__(self, checkpoint):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
        self.checkpoint = checkpoint

    def training_step(self, batch, _):
        self.loss = cross_entropy(self.layers(batch[0]), batch[1])
        return self.loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class SaveFirstEpoch(lightning.Callback):
    def on_train_epoch_end(self, trainer, module):
        if module.checkpoint and trainer.current_epoch == 0:
            trainer.save_checkpoint(module.checkpoint)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="samples of a rank in a step")
    parser.add_argument("--recipe", default="up=topk(0.05) down=topk(0.05)")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()

    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*read(args.data, "train")), args.batch)
    module = Network(args.checkpoint)
    strategy = DDPStrategy() if args.recipe == "none" else SluiceStrategy(args.recipe)
    trainer = lightning.Trainer(strategy=strategy, accelerator="cpu", devices=ranks, max_epochs=2,
                                limit_train_batches=args.steps // 2, callbacks=[SaveFirstEpoch()], logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    resumed = args.checkpoint if args.checkpoint and os.path.exists(args.checkpoint) else None
    trainer.fit(module, loader, ckpt_path=resumed)
    digest = sum(p.double().abs().sum().item() for p in module.parameters())
    if trainer.is_global_zero:
        print(f"final loss={module.loss.item():.6f} parameters={digest!r}")
        totals = getattr(strategy, "totals", None)
        if totals:
            print(f"{100 * totals['saved']:.1f} % of the bytes were saved")


if __name__ == "__main__":
    main()
