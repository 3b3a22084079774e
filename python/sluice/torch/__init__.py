# SPDX-License-Identifier: BSD-3-Clause
"""Sluice in PyTorch.

``compress`` is for DistributedDataParallel, ``replicate`` for the replicas of FSDP2, and ``Optimizer``
for scripts without either.
"""
from ._ddp import Compression, compress
from ._fsdp import Replication, replicate
from ._group import StoreBootstrap, default_job, process_group
from ._optimizer import Optimizer

__all__ = ["Compression", "Optimizer", "Replication", "StoreBootstrap", "compress", "default_job", "process_group",
           "replicate"]
