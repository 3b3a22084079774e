# SPDX-License-Identifier: BSD-3-Clause
"""How the ranks of a job meet where srun does not start them: a store of the program's own.

``sluice.Job(bootstrap=...)`` takes an object with the members of Bootstrap. ``Folder`` is one for
processes that see one folder; ``sluice.torch.StoreBootstrap`` is one over a store of torch.
"""
from __future__ import annotations

import ctypes
import os
import time
from typing import Any, List, Union

from . import _abi

_ETIMEDOUT = _abi.CONSTANTS["SLUICE_ETIMEDOUT"]
_REFUSED = 1
_jobs = 0  # that were joined by callbacks: every job has keys of its own


class Bootstrap:
    """The base class. rank: this process, 0 .. ranks-1. node: its name in messages."""

    def __init__(self, rank: int, ranks: int, node: str = "") -> None:
        self.rank, self.ranks, self.node = rank, ranks, node

    def put(self, key: str, value: bytes) -> None:
        """Makes value what get() of this key returns on all ranks."""
        raise NotImplementedError

    def get(self, key: str, timeout: float) -> bytes:
        """Waits until the key was put, at most timeout seconds. TimeoutError: it was not."""
        raise NotImplementedError


class Folder(Bootstrap):
    """The ranks meet in a folder that all of them see, and that is empty before: a file for each key."""

    def __init__(self, folder: Union[str, "os.PathLike[str]"], rank: int, ranks: int,
                 node: str = "") -> None:
        super().__init__(rank, ranks, node)
        self._folder = os.fspath(folder)

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, key.replace("/", "_"))

    def put(self, key: str, value: bytes) -> None:
        path = self._path(key)
        with open(f"{path}.{self.rank}.part", "wb") as file:
            file.write(value)
        os.rename(f"{path}.{self.rank}.part", path)

    def get(self, key: str, timeout: float) -> bytes:
        end = time.monotonic() + timeout
        while True:
            try:
                with open(self._path(key), "rb") as file:
                    return file.read()
            except FileNotFoundError:
                if time.monotonic() >= end:
                    raise TimeoutError(f"no {self._path(key)}") from None
                time.sleep(0.005)


class Callbacks:
    """A sluice_bootstrap that calls an object of Python. It must live until sluice_init() returned.

    errors: what the object raised, for the exception of the job.
    """

    def __init__(self, bootstrap: Any) -> None:
        global _jobs
        self.errors: List[BaseException] = []
        self._bootstrap = bootstrap
        self.struct = _abi.sluice_bootstrap()
        self.struct.size = ctypes.sizeof(self.struct)
        self.struct.rank, self.struct.ranks = bootstrap.rank, bootstrap.ranks
        self.struct.node = (getattr(bootstrap, "node", "") or "").encode() or None
        self.struct.name = f"sluice{_jobs}".encode()
        _jobs += 1
        self.struct.put = _abi.put_function(self._put)
        self.struct.get = _abi.get_function(self._get)

    def _put(self, _: Any, key: bytes, value: int, size: int) -> int:
        try:
            self._bootstrap.put(key.decode(), ctypes.string_at(value, size))
        except BaseException as error:  # pylint: disable=broad-except
            self.errors.append(error)
            return _REFUSED
        return 0

    def _get(self, _: Any, key: bytes, value: int, room: int, size: Any, timeout_ms: int) -> int:
        try:
            found = self._bootstrap.get(key.decode(), timeout_ms / 1000)
        except TimeoutError:
            return _ETIMEDOUT
        except BaseException as error:  # pylint: disable=broad-except
            self.errors.append(error)
            return _REFUSED
        size[0] = len(found)
        if len(found) <= room:
            ctypes.memmove(value, found, len(found))
        return 0
