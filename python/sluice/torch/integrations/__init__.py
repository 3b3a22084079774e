# SPDX-License-Identifier: BSD-3-Clause
"""sluice.torch in frameworks that own the training loop: modules accelerate, transformers and lightning.

Each rank's state of the compression is in a file next to the framework's checkpoint, because its size is that of a model, and
rank 0 of these frameworks writes only its own state.
"""
import os
from typing import Any, Optional

import torch

from ...errors import InvalidError


def save_part(state: Any, path: str) -> None:
    """Writes this rank's state. A file that exists is complete."""
    part = f"{path}.part"
    torch.save(state.state_dict(), part)
    os.replace(part, path)


def load_part(state: Any, path: str) -> int:
    """Loads what save_part() wrote, and returns the completed steps. Collective: if a rank cannot read its file, it fails on all
    ranks."""
    why: Optional[Exception] = None
    try:
        saved = torch.load(path, weights_only=True)
    except Exception as error:  # of any kind, because the other ranks wait in load_state_dict()
        saved, why = {}, error
    try:
        return state.load_state_dict(saved)
    except InvalidError as error:
        if why is None:
            raise
        if not isinstance(why, FileNotFoundError):
            raise InvalidError(f"rank {state.job.rank} cannot read {path}, which has the residuals of this rank: "
                               f"{type(why).__name__}: {why}") from why
        raise InvalidError(f"rank {state.job.rank} has no file {path}, which has the residuals of this rank: resume from a "
                           "checkpoint that was saved with Sluice and the same number of ranks, on the nodes that have its "
                           "files") from error
