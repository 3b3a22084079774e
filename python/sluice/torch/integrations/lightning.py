# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch Lightning: a strategy for its Trainer."""
import os
from typing import Any, Optional

from lightning.pytorch.strategies import DDPStrategy

from .._ddp import Compression, compress
from . import load_part, save_part


class SluiceStrategy(DDPStrategy):
    """DDPStrategy whose gradients Sluice exchanges. The state of the compression is saved with each checkpoint.

        trainer = lightning.Trainer(strategy=SluiceStrategy("up=topk(0.01) down=topk(0.05)"), devices=2, ...)

    recipe and compress_options, a dictionary: see sluice.torch.compress(). The other arguments are those of DDPStrategy.
    Each rank writes a file CHECKPOINT.sluice-rankR next to a checkpoint, and reads it when the training is resumed.
    compression is what compress() returned, and totals, after the training, what its totals() returned.
    """

    def __init__(self, recipe: Any = None, compress_options: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self._recipe, self._options = recipe, dict(compress_options or {})
        self._resumed: Optional[str] = None
        self.compression: Optional[Compression] = None
        self.totals: Any = None

    def _file(self, path: Any) -> str:
        return f"{os.fspath(path)}.sluice-rank{self.global_rank}"

    def setup(self, trainer: Any) -> None:
        super().setup(trainer)
        if hasattr(self.model, "register_comm_hook"):  # not if the model is only evaluated
            self._options.setdefault("scaler", getattr(self.precision_plugin, "scaler", None))
            self.compression = compress(self.model, self._recipe, optimizer=self.optimizers, **self._options)

    def save_checkpoint(self, checkpoint: Any, filepath: Any, storage_options: Any = None) -> None:
        if self.compression is not None and "optimizer_states" in checkpoint:
            os.makedirs(os.path.dirname(os.path.abspath(filepath)), exist_ok=True)
            save_part(self.compression, self._file(filepath))
        super().save_checkpoint(checkpoint, filepath, storage_options=storage_options)

    def remove_checkpoint(self, filepath: Any) -> None:
        super().remove_checkpoint(filepath)
        try:
            os.unlink(self._file(filepath))
        except FileNotFoundError:
            pass

    def load_checkpoint(self, checkpoint_path: Any, *args: Any, **options: Any) -> Any:
        path = os.fspath(checkpoint_path)  # save_last="link" makes a link
        self._resumed = os.path.realpath(path) if os.path.islink(path) else path
        return super().load_checkpoint(checkpoint_path, *args, **options)

    def load_optimizer_state_dict(self, checkpoint: Any) -> None:
        super().load_optimizer_state_dict(checkpoint)
        if self.compression is not None and self._resumed is not None:
            load_part(self.compression, self._file(self._resumed))

    def on_train_end(self) -> None:
        super().on_train_end()
        if self.compression is not None:
            self.totals = self.compression.totals()

    def teardown(self) -> None:
        if self.compression is not None:
            self.compression.close()
            self.compression = None
        super().teardown()
