# SPDX-License-Identifier: BSD-3-Clause
"""The library's error codes as exceptions. The text is the library's sentence."""
from __future__ import annotations

from typing import Dict, Type

from ._abi import CONSTANTS


class Error(Exception):
    """A call of the library failed. ``str()`` is its sentence: what failed, where, why, what to do.

    ``code`` is the SLUICE_E* value. The subclasses also derive from the built-in exception of that
    kind, where there is one.
    """

    code = 0


class InvalidError(Error, ValueError):
    """SLUICE_EINVAL: an argument, option, recipe or call order is wrong."""

    code = CONSTANTS["SLUICE_EINVAL"]


class OutOfMemoryError(Error, MemoryError):
    """SLUICE_ENOMEM: memory, descriptors or another local resource ran out."""

    code = CONSTANTS["SLUICE_ENOMEM"]


class NotSupportedError(Error, NotImplementedError):
    """SLUICE_ENOSUPP: not supported here; the message names the requirement."""

    code = CONSTANTS["SLUICE_ENOSUPP"]


class AgainError(Error):
    """SLUICE_EAGAIN: a queue is full."""

    code = CONSTANTS["SLUICE_EAGAIN"]


class WaitTimeoutError(Error, TimeoutError):
    """SLUICE_ETIMEDOUT: a wait reached its limit; the sentence names the rank."""

    code = CONSTANTS["SLUICE_ETIMEDOUT"]


class DeviceError(Error):
    """SLUICE_EDEVICE: a transport or its device failed."""

    code = CONSTANTS["SLUICE_EDEVICE"]


class BootError(Error):
    """SLUICE_EBOOT: the launcher or PMIx failed."""

    code = CONSTANTS["SLUICE_EBOOT"]


class GPUError(Error):
    """SLUICE_EGPU: CUDA failed."""

    code = CONSTANTS["SLUICE_EGPU"]


class PeerError(Error, ConnectionError):
    """SLUICE_EPEER: another rank is lost, left early, or differs from this one."""

    code = CONSTANTS["SLUICE_EPEER"]


class WireError(Error):
    """SLUICE_EWIRE: bytes of a peer or of a checkpoint were refused."""

    code = CONSTANTS["SLUICE_EWIRE"]


class NumericError(Error, ArithmeticError):
    """SLUICE_ENUMERIC: a gradient holds NaN or infinity, or a sum overflowed."""

    code = CONSTANTS["SLUICE_ENUMERIC"]


class FileError(Error, OSError):
    """SLUICE_EIO: a file could not be read or written."""

    code = CONSTANTS["SLUICE_EIO"]


BY_CODE: Dict[int, Type[Error]] = {
    kind.code: kind
    for kind in (InvalidError, OutOfMemoryError, NotSupportedError, AgainError, WaitTimeoutError,
                 DeviceError, BootError, GPUError, PeerError, WireError, NumericError, FileError)
}
