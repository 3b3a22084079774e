# SPDX-License-Identifier: BSD-3-Clause
"""A process group of torch.distributed over the Sluice job.

DistributedDataParallel needs a process group for a few small things: it compares the parameters' shapes, copies
the buffers of rank 0 to every rank, and finds out which parameters were used. This group does that with the
collectives of the job, so no NCCL, Gloo, TCP port or MASTER_ADDR is needed. It does not carry gradients, which
go through the communication hook of sluice.torch.compress().
"""
import ctypes
import inspect
import os
from datetime import timedelta
from typing import Any, List, Optional

import torch
import torch.distributed as dist

from .._library import check, lib
from ..bootstrap import Bootstrap
from ..errors import InvalidError
from ..job import RENDEZVOUS, Job
from ._flat import bytes_of, host_of

_default_job: Optional[Job] = None


class StoreBootstrap(Bootstrap):
    """Lets the ranks of a job find each other through a store of torch.distributed, such as a TCPStore."""

    def __init__(self, store: Any, rank: int, ranks: int, node: str = "") -> None:
        super().__init__(rank, ranks, node)
        # torchrun's store keeps the keys of the attempt that failed.
        self._store = dist.PrefixStore(f"sluice.{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)

    def put(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        try:
            self._store.wait([key], timedelta(seconds=max(timeout, 0.001)))
        except RuntimeError as error:
            if "imeout" in str(error) or "imed out" in str(error):
                raise TimeoutError(str(error)) from None
            raise
        return self._store.get(key)


def _join() -> Job:
    if dist.is_initialized() and dist.get_backend() != "sluice":
        store = dist.distributed_c10d._get_default_store()
        return Job(bootstrap=StoreBootstrap(store, dist.get_rank(), dist.get_world_size()))
    if all(os.environ.get(name) for name in RENDEZVOUS):
        _check_rendezvous()
        store, rank, ranks = next(dist.rendezvous("env://"))
        return Job(bootstrap=StoreBootstrap(store, rank, ranks))
    return Job()


def _check_rendezvous() -> None:
    """Refuses numbers that would make torch wait for ranks that do not exist."""
    rank, ranks = os.environ["RANK"], os.environ["WORLD_SIZE"]
    if not (rank.isdecimal() and ranks.isdecimal() and int(rank) < int(ranks)):
        raise InvalidError(f"RANK={rank} and WORLD_SIZE={ranks} do not fit together: RANK must be a number from 0 to "
                           "WORLD_SIZE - 1, so correct what the launcher sets")


def default_job() -> Job:
    """Returns the job that sluice.torch uses if none is given; the first call joins it, collectively.

    It is the job of the default process group, if process_group() has made that one. Its ranks are those of the
    default process group, if there is one. Otherwise they find each other by
    ``env://``, as in ``init_process_group()``, if RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are all set.
    Otherwise they are those of the srun step. A process without any of these is a job of one.
    """
    global _default_job
    if _default_job is None or _default_job.closed:
        _default_job = _join()
    return _default_job


def _fill(tensor: torch.Tensor, data: bytes) -> None:
    if data:
        source = torch.frombuffer(bytearray(data), dtype=tensor.dtype)
        tensor.detach().copy_(source.reshape(tensor.shape))


def broadcast(job: Job, tensor: torch.Tensor, root: int) -> None:
    """Copies a tensor of worker root to all workers."""
    host = host_of(tensor)
    if host.numel():
        check(lib.sluice_broadcast(job._at(), host.data_ptr(), host.numel() * host.element_size(), root))
    if host.data_ptr() != tensor.data_ptr():
        tensor.detach().copy_(host)


def _done(result: Any) -> Any:
    future = torch.futures.Future()
    future.set_result(result)
    return torch._C._distributed_c10d._create_work_from_future(future)


class _Store(dist.Store):
    """The store of a group whose members have already found each other. All of them make the same calls, so
    each has its own copy of all keys and counters."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self._members, self._values = members, {}

    def set(self, key: str, value: Any) -> None:
        self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        if key not in self._values:
            raise InvalidError(f"the store of sluice.torch.process_group() has no key '{key}': code that "
                               "exchanges addresses through a store needs another process group")
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        value = int(self._values.get(key, b"0")) + amount * self._members
        self._values[key] = str(value).encode()
        return value

    def check(self, keys: List[str]) -> bool:
        return all(key in self._values for key in keys)

    def wait(self, keys: List[str], timeout: Any = None) -> None:
        for key in keys:
            self.get(key)

    def set_timeout(self, timeout: Any) -> None:
        pass


# torch.compile() calls these methods as they are: it cannot trace what they do with the library.
_uncompiled: Any = getattr(torch, "_disable_dynamo", None) or (lambda method: method)


class _Group(dist.ProcessGroup):
    def __init__(self, job: Job) -> None:
        super().__init__(job.rank, job.workers)
        self._job, self._rank, self._size = job, job.rank, job.workers

    def getBackendName(self) -> str:
        return "sluice"

    @property
    def group_name(self) -> str:
        """torch.compile() finds a group by this name; torch's own group has one for each backend."""
        return dist.distributed_c10d._get_process_group_name(self)

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def _no(self, what: str) -> InvalidError:
        return InvalidError(f"sluice.torch.process_group() does not support {what}: use Gloo or NCCL for it, and "
                            "give DistributedDataParallel its group by process_group=")

    @_uncompiled
    def broadcast(self, tensors: List[torch.Tensor], opts: Any) -> Any:
        root = opts.rootRank if hasattr(opts, "rootRank") else int(opts)
        for tensor in tensors:
            broadcast(self._job, tensor, root)
        return _done(tensors)

    @_uncompiled
    def allreduce(self, tensors: List[torch.Tensor], opts: Any = None) -> Any:
        op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
        for tensor in tensors:
            if op == dist.ReduceOp.SUM or op == dist.ReduceOp.AVG:
                sums = tensor.detach().to("cpu", torch.float64, copy=True).contiguous()
                if sums.numel():
                    check(lib.sluice_sum(self._job._at(), _doubles(sums), sums.numel()))
                if op == dist.ReduceOp.AVG:
                    sums /= self._size
                tensor.detach().copy_(sums)
            elif op == dist.ReduceOp.MAX or op == dist.ReduceOp.MIN:
                rows = self._rows(tensor)
                stacked = torch.stack(rows)
                found = stacked.amax(0) if op == dist.ReduceOp.MAX else stacked.amin(0)
                tensor.detach().copy_(found)
            else:
                raise self._no(f"allreduce with {op}")
        return _done(tensors)

    def _rows(self, tensor: torch.Tensor) -> List[torch.Tensor]:
        rows = []
        for data in self._job.gather(bytes_of(tensor)):
            row = torch.empty(tensor.shape, dtype=tensor.dtype)
            _fill(row, data)
            rows.append(row)
        return rows

    @_uncompiled
    def allgather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor],
                  opts: Any = None) -> Any:
        for output, tensor in zip(outputs, inputs):
            for place, row in zip(output, self._rows(tensor)):
                place.detach().copy_(row)
        return _done(outputs)

    @_uncompiled
    def barrier(self, opts: Any = None) -> Any:
        self._job.barrier()
        return _done([])


def _doubles(tensor: torch.Tensor) -> Any:
    return ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_double))


def process_group(job: Optional[Job] = None) -> Any:
    """Makes the process group of a job, which becomes the default one of torch.distributed if there is none
    yet.

        sluice.torch.process_group()
        model = DistributedDataParallel(model)

    Collective over the workers. job: None takes sluice.torch.default_job(). Afterwards
    ``torch.distributed.get_rank()`` and ``get_world_size()`` work as with Gloo.
    """
    global _default_job
    job = default_job() if job is None else job
    if not job.is_worker:
        raise InvalidError(f"rank {job.rank} is a dedicated server: it has no gradients, and calls "
                           "Model.serve() in place of a training loop")
    if dist.is_initialized():
        return _Group(job)
    if not hasattr(dist.Backend, "SLUICE"):
        def make(store: Any, rank: int, size: int, timeout: Any) -> _Group:
            return _Group(_joining[-1])

        known = inspect.signature(dist.Backend.register_backend).parameters
        devices = {"devices": ["cpu", "cuda"]} if "devices" in known else {}
        dist.Backend.register_backend("sluice", make, **devices)
    _joining.append(job)
    try:
        dist.init_process_group("sluice", store=_Store(job.workers), rank=job.rank,
                                world_size=job.workers, timeout=timedelta(seconds=600))
    finally:
        _joining.pop()
    _default_job = job  # compress() without job= exchanges between the ranks of the default group
    return dist.group.WORLD


_joining: List[Job] = []  # the job whose group is being made
