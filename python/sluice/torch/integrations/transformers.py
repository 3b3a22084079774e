# SPDX-License-Identifier: BSD-3-Clause
"""Hugging Face transformers: a callback for Trainer."""
import os
from typing import Any, Optional

from transformers import TrainerCallback

from ...errors import InvalidError
from .._ddp import Compression, compress
from . import load_part, save_part
from .accelerate import _inner


class SluiceCallback(TrainerCallback):
    """Compresses the gradients of a Trainer, and saves and restores its state with the Trainer's checkpoints.

        trainer = Trainer(model=model, args=TrainingArguments(..., max_grad_norm=0), ...)
        trainer.add_callback(SluiceCallback(trainer))

    trainer: the Trainer, which must run in several processes with DistributedDataParallel.
    recipe and options: see sluice.torch.compress(), which begins with the training and ends with it.
    checkpoint: the directory that train(resume_from_checkpoint=) resumes from. None takes checkpoint-STEP in the output
        directory, where the Trainer saves. False begins with empty residuals, for a checkpoint that was saved without Sluice.

    compression is what compress() returned, and totals, after the training, what its totals() returned.
    """

    def __init__(self, trainer: Any, recipe: Any = None, *, checkpoint: Any = None, **options: Any) -> None:
        self._trainer, self._recipe, self._checkpoint, self._options = trainer, recipe, checkpoint, options
        self.compression: Optional[Compression] = None
        self.totals: Any = None

    def _file(self, folder: Any) -> str:
        assert self.compression is not None
        return os.path.join(folder, f"sluice-rank{self.compression.job.rank}.pt")

    @staticmethod
    def _saved_at(args: Any, state: Any) -> str:
        return os.path.join(args.output_dir, f"checkpoint-{state.global_step}")

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        ddp = self._trainer.model_wrapped
        if not hasattr(ddp, "register_comm_hook"):
            raise InvalidError(f"SluiceCallback: the Trainer wraps the model in {type(ddp).__name__} and not in "
                               "DistributedDataParallel: start several processes with torchrun, or leave the callback out")
        self._options.setdefault("scaler", self._trainer.accelerator.scaler)
        self.compression = compress(ddp, self._recipe, optimizer=_inner(kwargs.get("optimizer")), **self._options)
        if state.global_step and self._checkpoint is not False:
            load_part(self.compression, self._file(self._checkpoint or self._saved_at(args, state)))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.compression is not None and not args.save_only_model:
            save_part(self.compression, self._file(self._saved_at(args, state)))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.compression is not None:
            self.totals = self.compression.totals()
            self.compression.close()
            self.compression = None
