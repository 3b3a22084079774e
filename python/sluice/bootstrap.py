# SPDX-License-Identifier: BSD-3-Clause
"""How the ranks of a job find each other without srun: through a store that the program provides.

``sluice.Job(bootstrap=...)`` takes an object with the members of Bootstrap. ``Folder`` uses a directory that
all ranks share, ``sluice.torch.StoreBootstrap`` a torch store.
"""
from __future__ import annotations

import ctypes
import os
import re
import secrets
import stat
import time
from typing import Any, Dict, List, Optional, Set, Union
from urllib.parse import quote

from . import _abi

_ETIMEDOUT = _abi.CONSTANTS["SLUICE_ETIMEDOUT"]
_REFUSED = 1
_jobs = 0  # that were joined by callbacks: every job has keys of its own


class Bootstrap:
    """The base class. rank: this process, 0 .. ranks-1. node: its name in messages."""

    def __init__(self, rank: int, ranks: int, node: str = "") -> None:
        self.rank, self.ranks, self.node = rank, ranks, node

    def put(self, key: str, value: bytes) -> None:
        """Stores value, so that get() of this key returns it on all ranks."""
        raise NotImplementedError

    def get(self, key: str, timeout: float) -> bytes:
        """Waits at most timeout seconds until the key was put, and returns its value. Otherwise raises
        TimeoutError."""
        raise NotImplementedError

    def end(self, joined: bool) -> None:
        """Ends the exchange of one job. joined: all ranks have got all values, which can be removed.

        Otherwise other ranks may still need the values, to learn why this rank failed.
        """


_TOKEN_BYTES = 16
_RUN, _HELLO, _VALUE = "sluice-run", "sluice-hello.", "sluice-value."
_POLL_S, _POLL_MOST_S = 0.002, 0.05


class Folder(Bootstrap):
    """The ranks find each other in a directory that all of them share.

    The folder belongs to the user of the job, and others cannot write to it. Only one job at a time can use it;
    files that an earlier job left are not read. Only their owner can read the files. They are removed when all
    ranks have joined.
    """

    # Each job has a random run number, which is part of the name of every value. Rank 0 makes it. The
    # other ranks each write a random token (_HELLO + rank), and rank 0 writes the run number and the
    # tokens that it has read (_RUN). A rank takes the run number from a file that holds its token: no
    # file of an earlier job does. Rank 0 reads the tokens as long as it waits for a value, because those
    # that it read at first may have been of an earlier job.

    def __init__(self, folder: Union[str, "os.PathLike[str]"], rank: int, ranks: int,
                 node: str = "") -> None:
        super().__init__(rank, ranks, node)
        self._folder = os.fspath(folder)
        self._at: Optional[int] = None  # the directory's descriptor, from the first put or get to the end
        self._forget()

    def _forget(self) -> None:
        self._run = b""
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._answered: Set[bytes] = set()
        self._unwritten: Dict[str, bytes] = {}  # values that wait for the run number
        self._written: List[str] = []  # names of files

    # ---- files ----------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._at is not None:
            return
        at = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        status = os.fstat(at)
        if status.st_uid != os.geteuid():
            why = f"belongs to user {status.st_uid}, and this process to user {os.geteuid()}"
        elif status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid):
            why = f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
        else:
            self._at = at
            return
        os.close(at)
        raise PermissionError(f"rank {self.rank} refuses the directory {self._folder}, which {why}: give a "
                              "directory that belongs to the user of the job, with mode 0700")

    def _create(self, name: str, data: bytes) -> None:
        """Writes a new file. From its length, readers know whether it is complete."""
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600,
                       dir_fd=self._at)
        with open(file, "wb") as stream:
            stream.write(len(data).to_bytes(8, "little") + data)

    def _replace(self, name: str, data: bytes) -> None:
        part = f"sluice-part.{secrets.token_hex(_TOKEN_BYTES)}"
        self._create(part, data)
        os.rename(part, name, src_dir_fd=self._at, dst_dir_fd=self._at)
        if name not in self._written:
            self._written.append(name)

    def _read(self, name: str) -> Optional[bytes]:
        """Returns the content of the file, or None if it does not exist or is not complete."""
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._at)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PermissionError(f"rank {self.rank} cannot read {os.path.join(self._folder, name)} "
                                  f"({error.strerror}): give the ranks an empty directory") from None
        with open(file, "rb") as stream:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise PermissionError(f"{os.path.join(self._folder, name)} is no file of this user: give the "
                                      "ranks an empty directory")
            data = stream.read()
        return data[8:] if len(data) >= 8 and int.from_bytes(data[:8], "little") == len(data) - 8 else None

    def _remove(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._at)
        except FileNotFoundError:
            pass

    # ---- the run number -------------------------------------------------------------------------

    def _begin(self) -> None:
        """Rank 0 makes the run number; the others request it."""
        self._open()
        if self.rank != 0:
            self._replace(f"{_HELLO}{self.rank}", self._token)
            return
        for name in os.listdir(self._at):
            if name.startswith(_VALUE):  # of an earlier job: those of this one need the run number
                self._remove(name)
        self._run = secrets.token_bytes(_TOKEN_BYTES)
        self._replace(_RUN, self._run)

    def _meet(self) -> None:
        """Rank 0 answers the ranks that request the run number; the others look for the answer."""
        answer = self._read(_RUN)
        if self.rank != 0:
            if self._read(f"{_HELLO}{self.rank}") != self._token:
                raise self._rival()
            tokens = answer or b""
            if self._token in (tokens[at:at + _TOKEN_BYTES] for at in range(_TOKEN_BYTES, len(tokens), _TOKEN_BYTES)):
                self._run = tokens[:_TOKEN_BYTES]
            return
        if answer is None or answer[:_TOKEN_BYTES] != self._run:
            raise self._rival()
        asked = {self._read(name) for name in os.listdir(self._at)
                 if re.fullmatch(re.escape(_HELLO) + "[0-9]+", name)}
        tokens = {token for token in asked if token is not None and len(token) == _TOKEN_BYTES}
        if tokens - self._answered:
            self._answered |= tokens
            self._replace(_RUN, self._run + b"".join(sorted(tokens)))

    def _rival(self) -> RuntimeError:
        return RuntimeError(f"another process meets in {self._folder} as rank {self.rank}: give every process of a "
                            "job its own rank, and every job that starts at the same time its own directory")

    # ---- values ---------------------------------------------------------------------------------

    def _name(self, key: str) -> str:
        return f"{_VALUE}{self._run.hex()}.{quote(key, safe='')}"

    def _write_values(self) -> None:
        for key, value in self._unwritten.items():
            try:
                self._create(self._name(key), value)
            except FileExistsError:
                raise self._rival() from None
            self._written.append(self._name(key))
        self._unwritten.clear()

    def put(self, key: str, value: bytes) -> None:
        if self._at is None:
            self._begin()
        self._unwritten[key] = bytes(value)
        if self._run:
            self._write_values()

    def get(self, key: str, timeout: float) -> bytes:
        if self._at is None:
            self._begin()
        end, pause = time.monotonic() + timeout, _POLL_S
        while True:
            if key in self._unwritten:
                return self._unwritten[key]
            if self.rank == 0 or not self._run:
                self._meet()
            if self._run:
                self._write_values()
                found = self._read(self._name(key))
                if found is not None:
                    return found
            if time.monotonic() >= end:
                raise TimeoutError(f"no rank has put the key {key} in {self._folder}" if self._run else
                                   f"rank 0 of this job is not in {self._folder}")
            time.sleep(pause)
            pause = min(pause * 1.5, _POLL_MOST_S)

    def end(self, joined: bool) -> None:
        if self._at is None:
            return
        try:
            if joined:
                for name in self._written:
                    self._remove(name)
        finally:
            os.close(self._at)
            self._at = None
            self._forget()


class Callbacks:
    """A sluice_bootstrap that calls an object of Python. It must live until sluice_init() returned.

    errors: the exceptions of the object, for the exception of the job.
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

    def end(self, joined: bool) -> None:
        """sluice_init() has returned."""
        end = getattr(self._bootstrap, "end", None)
        if end is not None:
            end(joined)

    def _put(self, _: Any, key: bytes, value: int, size: int) -> int:
        try:
            self._bootstrap.put(key.decode(), ctypes.string_at(value, size))
        except BaseException as error:  # pylint: disable=broad-except
            self.errors.append(error)
            return _REFUSED
        return 0

    def _get(self, _: Any, key: bytes, value: int, room: int, size: Any, timeout_ms: int) -> int:
        try:
            given = self._bootstrap.get(key.decode(), timeout_ms / 1000)
            if not isinstance(given, (bytes, bytearray, memoryview)):
                raise TypeError(f"{type(self._bootstrap).__name__}.get() returned {type(given).__name__} for "
                                f"{key.decode()}, but must return bytes")
            found = bytes(given)
            size[0] = len(found)
            if len(found) <= room:
                ctypes.memmove(value, found, len(found))
        except BaseException as error:  # pylint: disable=broad-except
            self.errors.append(error)
            return _ETIMEDOUT if isinstance(error, TimeoutError) else _REFUSED
        return 0
