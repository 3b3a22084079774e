# SPDX-License-Identifier: BSD-3-Clause
"""Sluice: data-parallel training that sends a small part of each gradient.

    import sluice
    with sluice.Job() as job, job.open(params, "up=topk(0.01) down=topk(0.05)", lr=0.05) as model:
        for step in range(steps):
            model.push(backward(params))    # the mean gradient of this rank's samples, float32
            model.pull(params)              # all ranks now have the same params

Start it with ``srun -n4 --mpi=pmix python3 script.py``. For PyTorch see ``sluice.torch``, which must be
imported explicitly.
"""
from . import errors
from ._library import path as library_path
from ._library import version as library_version
from ._vector import BF16, F16, F32, F8_E4M3FN, F8_E5M2
from ._version import VERSION as __version__
from .bootstrap import Bootstrap, Folder
from .errors import (BootError, DeviceError, Error, FileError, GPUError, InvalidError,
                     NotSupportedError, NumericError, OutOfMemoryError, PeerError, WaitTimeoutError,
                     WireError)
from .job import Job
from .model import Model
from .recipe import Recipe

__all__ = ["BF16", "BootError", "Bootstrap", "DeviceError", "Error", "F16", "F32", "F8_E4M3FN", "F8_E5M2",
           "FileError", "Folder", "GPUError", "InvalidError", "Job", "Model", "NotSupportedError",
           "NumericError", "OutOfMemoryError", "PeerError", "Recipe", "WaitTimeoutError", "WireError",
           "__version__", "errors", "library_path", "library_version"]
