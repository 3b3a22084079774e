# SPDX-License-Identifier: BSD-3-Clause
"""Measures the steps of a transformer with 85 million parameters in sluice.torch, on one or two ranks that share a GPU.

Prints a table: without exchange, and then with several recipes, shards in host memory and on the GPU. Two ranks on one
GPU compute in turns, so their times compare only with each other. tests/gpu/run runs it.
"""
import os
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "tests"))
import ranks  # noqa: E402
import sluice  # noqa: E402
import sluice.torch  # noqa: E402

WIDTH, HEADS, LAYERS, ROWS, LENGTH = 768, 12, 12, 8, 512
WARM, STEPS = 4, 12
RECIPES = ("up=all down=all", "up=topk(0.01) down=topk(0.01) memory=residual",
           "up=topk(0.06),twomeans down=topk(0.06),twomeans memory=residual")


def step_ms(ddp, x, exchange):
    times = []
    for _ in range(WARM + STEPS):
        torch.cuda.synchronize()
        began = time.monotonic()
        ddp.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = ddp(x).float().square().mean() if exchange else ddp.module(x).float().square().mean()
        loss.backward()
        torch.cuda.synchronize()
        times.append(1e3 * (time.monotonic() - began))
    return statistics.median(times[WARM:])


def measure(job, _):
    sluice.torch.process_group(job)
    torch.manual_seed(job.rank)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).cuda()
    x = torch.randn(ROWS, LENGTH, WIDTH, device="cuda")
    where = "GPU" if os.environ.get("SLUICE_DEVICE_SHARDS") == "auto" else "host"
    for recipe in (None, *RECIPES):
        if recipe is None and where == "GPU":
            continue
        ddp = DistributedDataParallel(model)
        if recipe is None:
            ms, label = step_ms(ddp, x, False), "without exchange"
        else:
            with sluice.torch.compress(ddp, recipe, job=job) as state:
                ms, label = step_ms(ddp, x, True), recipe
                copied = state.stats()["copied_bytes"]
                label += f" ({copied} bytes copied)" if copied else ""
        if job.rank == 0:
            print(f"{job.workers:5} | {where:6} | {ms:8.2f} | {label}", flush=True)
        del ddp


def main():
    print("ranks | shards | ms a step | recipe")
    for workers in (1, 2):
        for shards in ("auto", "no"):
            results = ranks.run(workers, "measure", SLUICE_DEVICE_SHARDS=shards)
            print(results[0][1], end="", flush=True)
            results.all_well()


if __name__ == "__main__":
    main()
