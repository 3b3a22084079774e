# SPDX-License-Identifier: BSD-3-Clause
"""The library's error codes as exceptions. The text is the library's sentence."""
from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """A call of the library failed. ``str()`` is its sentence: what failed, where, why, what to do.

    ``code`` is the SLUICE_E* value. The subclasses also derive from the built-in exception of that
    kind, where there is one.
    """

    code = 0


class InvalidError(Error, ValueError):
    """SLUICE_EINVAL: an argument, option, recipe or call order is wrong."""

    code = -1


class OutOfMemoryError(Error, MemoryError):
    """SLUICE_ENOMEM: memory, descriptors or another local resource ran out."""

    code = -2


class NotSupportedError(Error, NotImplementedError):
    """SLUICE_ENOSUPP: not supported here; the sentence names what would be needed."""

    code = -3


class AgainError(Error):
    """SLUICE_EAGAIN: a queue is full."""

    code = -4


class WaitTimeoutError(Error, TimeoutError):
    """SLUICE_ETIMEDOUT: a wait reached its limit; the sentence names whom it waited for."""

    code = -5


class DeviceError(Error):
    """SLUICE_EDEVICE: a transport or its device failed."""

    code = -6


class BootError(Error):
    """SLUICE_EBOOT: the launcher or PMIx failed."""

    code = -7


class GPUError(Error):
    """SLUICE_EGPU: CUDA failed."""

    code = -8


class PeerError(Error, ConnectionError):
    """SLUICE_EPEER: another rank is lost, left early, or differs from this one."""

    code = -9


class WireError(Error):
    """SLUICE_EWIRE: bytes of a peer or of a checkpoint were refused."""

    code = -10


class NumericError(Error, ArithmeticError):
    """SLUICE_ENUMERIC: a gradient holds NaN or infinity, or a sum overflowed."""

    code = -11


class FileError(Error, OSError):
    """SLUICE_EIO: a file could not be read or written."""

    code = -12

    def __str__(self) -> str:  # OSError would format its arguments in its own way
        return str(self.args[0]) if self.args else ""


BY_CODE: Dict[int, Type[Error]] = {
    kind.code: kind
    for kind in (InvalidError, OutOfMemoryError, NotSupportedError, AgainError, WaitTimeoutError,
                 DeviceError, BootError, GPUError, PeerError, WireError, NumericError, FileError)
}
