# SPDX-License-Identifier: BSD-3-Clause
"""Hugging Face accelerate: compress() after Accelerator.prepare()."""
import os
from typing import Any

from .._ddp import Compression
from .._ddp import compress as compress_ddp
from . import load_part, save_part


def _inner(optimizer: Any) -> Any:
    if isinstance(optimizer, (list, tuple)):
        return [_inner(one) for one in optimizer]
    return getattr(optimizer, "optimizer", optimizer)  # of an AcceleratedOptimizer


def compress(accelerator: Any, model: Any, recipe: Any = None, *, optimizer: Any = None, name: str = "sluice",
             **options: Any) -> Compression:
    """Compresses a model that accelerator.prepare() returned. Its state goes through save_state() and load_state().

        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        state = sluice.torch.integrations.accelerate.compress(accelerator, model, optimizer=optimizer)

    Collective. save_state() writes a file NAME-rankR.pt on each rank into the directory of the checkpoint. A script that
    compresses two models gives each its own name. The other arguments are those of sluice.torch.compress(); scaler= is the
    accelerator's. The model must be a DistributedDataParallel, so accelerate needs several processes.
    """
    options.setdefault("scaler", accelerator.scaler)
    state = compress_ddp(model, recipe, optimizer=_inner(optimizer), **options)

    def file_in(folder: Any) -> str:
        return os.path.join(folder, f"{name}-rank{state.job.rank}.pt")

    def save(_models: Any, _weights: Any, folder: Any) -> None:
        if not state.model.closed:
            save_part(state, file_in(folder))

    def load(_models: Any, folder: Any) -> None:
        if not state.model.closed:
            load_part(state, file_in(folder))

    accelerator.register_save_state_pre_hook(save)
    accelerator.register_load_state_pre_hook(load)
    return state
