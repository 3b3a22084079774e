#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fashion-MNIST with the Trainer of transformers: torchrun --nproc_per_node 2 with_trainer.py [--checkpoint DIRECTORY]

The Trainer writes a checkpoint after half of the steps to this directory, and begins from it if it exists. With --recipe
none, the gradients go through Gloo.
"""
import argparse
import os
import tempfile

import torch
from sluice.torch.integrations.transformers import SluiceCallback
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainingArguments

from fashion import read


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x, labels):
        scores = self.layers(x)
        self.loss = cross_entropy(scores, labels)
        return {"loss": self.loss, "logits": scores}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="samples of a rank in a step")
    parser.add_argument("--recipe", default="up=topk(0.05) down=topk(0.05)")
    parser.add_argument("--checkpoint")
    args = parser.parse_args()

    half = args.steps // 2
    x, y = read(args.data, "train")
    rows = [{"x": picture, "labels": label} for picture, label in zip(x, y)]
    torch.manual_seed(1)
    unused = tempfile.TemporaryDirectory()
    trainer = Trainer(model=Network(), train_dataset=rows, args=TrainingArguments(
        output_dir=args.checkpoint or unused.name, max_steps=args.steps, per_device_train_batch_size=args.batch,
        learning_rate=0.001, use_cpu=True, ddp_backend="gloo", ddp_find_unused_parameters=False, max_grad_norm=0,
        logging_strategy="no", report_to=[],
        save_strategy="steps" if args.checkpoint else "no", save_steps=half, disable_tqdm=True))
    callback = SluiceCallback(trainer, args.recipe)
    if args.recipe != "none":
        trainer.add_callback(callback)
    resumed = args.checkpoint and os.path.join(args.checkpoint, f"checkpoint-{half}")
    trainer.train(resume_from_checkpoint=resumed if resumed and os.path.isdir(resumed) else None)
    digest = sum(p.double().abs().sum().item() for p in trainer.model.parameters())
    if trainer.is_world_process_zero():
        print(f"final loss={trainer.model.loss.item():.6f} parameters={digest!r}")
        if callback.totals:
            print(f"{100 * callback.totals['saved']:.1f} % of the bytes were saved")


if __name__ == "__main__":
    main()
