# SPDX-License-Identifier: BSD-3-Clause
"""Sluice in PyTorch.

``compress`` is for DistributedDataParallel, ``replicate`` for the replicas of FSDP2, and ``Optimizer``
for scripts without either. With ``LocalSteps`` the ranks train by themselves and exchange now and then.
"""
try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    import sys as _sys
    raise ModuleNotFoundError(
        f"sluice.torch needs torch, which {_sys.executable} does not have: install it there, or make the virtual "
        "environment with --system-site-packages by a Python that has it, as /usr/bin/python3 has Debian's "
        "python3-torch", name=error.name) from None

from ._ddp import Compression, compress
from ._fsdp import Replication, replicate
from ._group import StoreBootstrap, default_job, process_group, register_backend
from ._local import LocalSteps
from ._monitor import Monitor
from ._optimizer import Optimizer

register_backend()

__all__ = ["Compression", "LocalSteps", "Monitor", "Optimizer", "Replication", "StoreBootstrap", "compress", "default_job",
           "process_group", "replicate"]
