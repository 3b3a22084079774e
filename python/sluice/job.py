# SPDX-License-Identifier: BSD-3-Clause
"""A job: all processes of one srun step, or one process that was started alone."""
from __future__ import annotations

import atexit
import ctypes
import math
import os
from typing import Any, Dict, List, Optional, Sequence, Set, Union

from . import _abi
from ._library import check, failure, lib
from .bootstrap import Callbacks
from .errors import InvalidError
from .model import Model
from .recipe import Recipe

ON_FAILURE = {"": 0, "abort": _abi.CONSTANTS["SLUICE_ABORT"],
              "continue": _abi.CONSTANTS["SLUICE_CONTINUE"]}
# The variables of torch's env://, which torchrun and other launchers set.
RENDEZVOUS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_open_jobs: Set[Job] = set()  # until they are closed, also those that the program has no name for


def _milliseconds(seconds: float) -> int:
    """Rounds away from 0, which takes the default."""
    return int(math.copysign(math.ceil(abs(seconds) * 1000), seconds))


class Job:
    """Joins the job of this srun step (``srun --mpi=pmix``); alone, a process is a job of one.

    Collective over all ranks. Times are in seconds; 0 takes the SLUICE_* variable of that name. A job
    is closed by ``close()``, at the end of a ``with`` block, or when the interpreter ends. Closing is
    collective: all ranks close their models after the same step.

    servers: the number of dedicated servers: the last ranks, which own shards and do not train.
    on_failure: "abort" or "continue", see sluice_init(3).
    bootstrap: how the ranks find each other without PMIx, see sluice.bootstrap.
    """

    def __init__(self, *, servers: int = 0, lost_after: float = 0, warn_after: float = 0,
                 wait_timeout: float = 0, on_failure: str = "", bootstrap: Any = None) -> None:
        if on_failure not in ON_FAILURE:
            raise ValueError(f"on_failure is '{on_failure}', but must be 'abort' or 'continue'")
        attr = _abi.sluice_job_attr()
        attr.size = ctypes.sizeof(attr)
        attr.servers, attr.on_failure = servers, ON_FAILURE[on_failure]
        attr.lost_after_ms = _milliseconds(lost_after)
        attr.warn_after_ms = _milliseconds(warn_after)
        attr.wait_timeout_ms = _milliseconds(wait_timeout)
        self._begin()
        handle = ctypes.c_void_p()
        callbacks = None
        if bootstrap is not None:
            callbacks = Callbacks(bootstrap)
            attr.bootstrap = ctypes.pointer(callbacks.struct)
        code = lib.sluice_init(ctypes.byref(attr), ctypes.byref(handle))
        if code >= 0:
            self._handle = handle
            _open_jobs.add(self)
        if callbacks is not None:
            callbacks.end(code >= 0)
        if code < 0:
            raise failure(code) from (callbacks.errors[0] if callbacks and callbacks.errors else None)
        if bootstrap is None:
            self._check_alone()

    def _check_alone(self) -> None:
        """Refuses to train alone if a launcher has started several processes."""
        for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"):
            world = os.environ.get(name, "")
            if world.isdecimal() and int(world) > 1:
                break
        else:
            return
        if self.size > 1:
            return
        self.close()
        missing = [name for name in RENDEZVOUS if not os.environ.get(name)]
        raise InvalidError(
            f"{name}={world}, but this process is a job of one, because there is no PMIx"
            + (f" and {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set" if missing else "")
            + ": start with srun --mpi=pmix, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT and join with "
            f"sluice.torch.process_group(), or give bootstrap=. For a job of one, unset {name}")

    def _begin(self) -> None:
        self._handle: Optional[ctypes.c_void_p] = None
        self._models: List[Model] = []
        self._groups: List[Job] = []
        self._pid = os.getpid()

    def split(self, color: int, key: int = 0) -> Optional["Job"]:
        """Makes one group of all ranks that give the same color, which is 0 or more.

        In a group, ranks are numbered by their keys, and ranks with the same key by their ranks in this job. A group
        is a job of its ranks, with its own models and collectives. With a negative color the rank is in no group and
        gets None. Collective over all ranks. Closing the job closes its groups first.
        """
        handle = ctypes.c_void_p()
        check(lib.sluice_split(self._at(), color, key, ctypes.byref(handle)))
        if not handle:
            return None
        group = Job.__new__(Job)
        group._begin()
        group._handle = handle
        self._groups.append(group)
        return group

    def _at(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise InvalidError("the job is closed: open another one with sluice.Job()")
        if os.getpid() != self._pid:
            raise InvalidError(f"the job belongs to process {self._pid}, of which this one is a fork: "
                               "only that process may use it")
        return self._handle

    # ---- who takes part -------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """This process, 0 .. size-1."""
        return lib.sluice_rank(self._at())

    @property
    def size(self) -> int:
        """Number of ranks."""
        return lib.sluice_size(self._at())

    @property
    def workers(self) -> int:
        """Number of workers, which are ranks 0 .. workers-1."""
        return lib.sluice_workers(self._at())

    @property
    def living(self) -> int:
        """Number of workers that are not lost, as far as this rank knows now."""
        return lib.sluice_living(self._at())

    @property
    def is_worker(self) -> bool:
        return self.rank < self.workers

    def node(self, rank: int) -> str:
        """Node name of a rank; "" if there is no such rank."""
        return lib.sluice_node(self._at(), rank).decode()

    # ---- collectives over the workers -----------------------------------------------------------

    def barrier(self) -> None:
        """Waits until all workers have called it."""
        check(lib.sluice_barrier(self._at()))

    def sum(self, values: Sequence[float]) -> List[float]:
        """Returns the sums of values over the workers, as float64, with the same bits on every worker."""
        array = (ctypes.c_double * len(values))(*values)
        check(lib.sluice_sum(self._at(), array, len(values)))
        return list(array)

    def gather(self, mine: bytes) -> List[bytes]:
        """Returns the bytes that each worker passed, by rank. All must pass the same number of bytes."""
        rows = [bytearray() for _ in range(self.workers)]
        most = _abi.CONSTANTS["SLUICE_GATHER_MAX"]
        for begin in range(0, len(mine), most):
            piece = mine[begin:begin + most]
            room = ctypes.create_string_buffer(len(piece) * len(rows))
            check(lib.sluice_gather(self._at(), piece, len(piece), room))
            for rank, row in enumerate(rows):
                row += room.raw[rank * len(piece):(rank + 1) * len(piece)]
        return [bytes(row) for row in rows]

    def broadcast(self, data: bytes, root: int = 0) -> bytes:
        """Returns the bytes of worker root on every worker. All must pass the same number of bytes."""
        room = bytearray(data)
        if room:
            at = (ctypes.c_char * len(room)).from_buffer(room)
            check(lib.sluice_broadcast(self._at(), ctypes.addressof(at), len(room), root))
        return bytes(room)

    # ---- models and figures ---------------------------------------------------------------------

    def open(self, params: Any, recipe: Union[str, Recipe, None] = None, **options: Any) -> Model:
        """Opens a model: ``Model(job, params, recipe, ...)``, which has the options."""
        return Model(self, params, recipe, **options)

    def open_many(self, requests: Sequence[Dict[str, Any]]) -> List[Model]:
        """Opens several models with fewer waits: ``job.open_many([dict(params=a), dict(params=b, shards=2)])``.

        requests: for each model the arguments of open() as a dictionary. On all ranks, with equal ones.
        """
        return Model._open_many(self, requests)

    def transports(self) -> Dict[str, Dict[str, int]]:
        """What each transport has moved for this rank: puts, gets, notifies, and their bytes."""
        number = ctypes.c_size_t()
        first = _abi.sluice_transport_stats()
        first.size = ctypes.sizeof(first)
        check(lib.sluice_transports(self._at(), ctypes.byref(first), 0, ctypes.byref(number)))
        rows = (_abi.sluice_transport_stats * number.value)()
        if rows:
            rows[0].size = ctypes.sizeof(first)
            check(lib.sluice_transports(self._at(), rows, number, ctypes.byref(number)))
        names = [name for name, _ in _abi.sluice_transport_stats._fields_ if name not in ("size", "name")]
        return {row.name.decode(): {name: getattr(row, name) for name in names} for row in rows}

    def log_waits(self) -> None:
        """Logs every wait of this rank: for whom, for what, since when."""
        lib.sluice_log_waits(self._at())

    # ---- the end --------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._handle is None

    def close(self) -> None:
        """Closes the models, the newest first, and leaves the job. It may be called again."""
        if self._handle is None:
            return
        for group in reversed(self._groups):
            group.close()
        if os.getpid() == self._pid:
            for model in reversed(self._models[:]):
                model.close()
        lib.sluice_finalize(ctypes.byref(self._handle))
        self._handle = None
        _open_jobs.discard(self)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a sluice.Job cannot be pickled or copied, because it has connections: each process makes another one")

    def __repr__(self) -> str:
        if self.closed:
            return "<sluice.Job, closed>"
        return f"<sluice.Job, rank {self.rank} of {self.size} on {self.node(self.rank)}>"


def _close_all() -> None:
    # Also after an uncaught exception: a rank that waits for a step of one that has closed the model
    # fails at once and names it, and need not find out by heartbeats.
    for job in list(_open_jobs):
        if job._pid == os.getpid():
            job.close()


atexit.register(_close_all)
