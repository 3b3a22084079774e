# SPDX-License-Identifier: BSD-3-Clause
"""A process group of torch.distributed over the Sluice job.

DistributedDataParallel needs a process group for a few small things: it compares the parameters' shapes, copies
the buffers of rank 0 to every rank, and finds out which parameters were used. This group does that with the
collectives of the job. All other calls are done by a Gloo group of the same ranks, or by a given group. The
gradients go through the communication hook of sluice.torch.compress().
"""
import ctypes
import fcntl
import inspect
import os
import socket
import struct
import threading
from datetime import timedelta
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from .._library import check, lib
from ..bootstrap import Bootstrap
from ..errors import BootError, Error, InvalidError
from ..job import RENDEZVOUS, Job
from ._flat import bytes_of, host_of

_default_job: Optional[Job] = None
_store_of_default: Any = None  # the store through which its ranks found each other


def _of_attempt(store: Any) -> Any:
    """Returns the store without the keys of an attempt that failed, which torchrun's store keeps."""
    return dist.PrefixStore(f"sluice.{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


class StoreBootstrap(Bootstrap):
    """Lets the ranks of a job find each other through a store of torch.distributed, such as a TCPStore."""

    def __init__(self, store: Any, rank: int, ranks: int, node: str = "") -> None:
        super().__init__(rank, ranks, node)
        self._store = _of_attempt(store)

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
    global _store_of_default
    _store_of_default = None
    if dist.is_initialized() and dist.get_backend() != "sluice":
        store = dist.distributed_c10d._get_default_store()
        return Job(bootstrap=StoreBootstrap(store, dist.get_rank(), dist.get_world_size()))
    names = _names_of_rank()
    if names and all(os.environ.get(name) for name in RENDEZVOUS[2:]):
        rank, ranks = _numbers(*names)
        store, rank, ranks = next(dist.rendezvous("env://", rank, ranks))
        _store_of_default = store
        return Job(bootstrap=StoreBootstrap(store, rank, ranks))
    return Job()


def _names_of_rank() -> Optional[Tuple[str, str]]:
    """Returns the variables with this rank and the number of ranks: those of torch, or of the launcher of an MPI."""
    for names in (RENDEZVOUS[:2], ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")):
        if all(os.environ.get(name) for name in names):
            return names
    return None


def _numbers(rank_name: str, ranks_name: str) -> Tuple[int, int]:
    """Refuses numbers that would make torch wait for ranks that do not exist."""
    rank, ranks = os.environ[rank_name], os.environ[ranks_name]
    if not (rank.isdecimal() and ranks.isdecimal() and int(rank) < int(ranks)):
        raise InvalidError(f"{rank_name}={rank} and {ranks_name}={ranks} do not fit together: {rank_name} must be a number "
                           f"from 0 to {ranks_name} - 1, so correct what the launcher sets")
    return int(rank), int(ranks)


def default_job() -> Job:
    """Returns the job that sluice.torch uses if none is given; the first call joins it, collectively.

    It is the job of the default process group, if process_group() has made that one. Its ranks are those of the
    default process group, if there is one. Otherwise they find each other by
    ``env://``, as in ``init_process_group()``, if RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are all set. The first
    two may also be OMPI_COMM_WORLD_RANK and _SIZE, or PMI_RANK and PMI_SIZE, as mpirun sets them.
    Otherwise they are those of the srun step, or of an mpirun that has PMIx. A process without any of these is a job of one.
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
    """The store of a group without Gloo, whose members have already found each other. All of them make the same
    calls, so each has its own copy of all keys and counters."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self._members, self._values = members, {}

    def set(self, key: str, value: Any) -> None:
        self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        if key not in self._values:
            raise InvalidError(f"the store of sluice.torch.process_group(others=None) has no key '{key}': code that "
                               "exchanges addresses through a store needs a group with Gloo, so leave out others=")
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


# ---- where Gloo listens ----------------------------------------------------------------------------

def _rows(job: Job, mine: str, room: int) -> List[str]:
    return [row.rstrip(b"\0").decode() for row in job.gather(mine.encode()[:room].ljust(room, b"\0"))]


def _addresses() -> List[str]:
    """Returns the IPv4 addresses of this node's interfaces. Its names may lead the other nodes elsewhere."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            try:
                found.append(socket.inet_ntoa(fcntl.ioctl(any_socket, _SIOCGIFADDR, struct.pack("256s", name.encode()))[20:24]))
            except OSError:  # the interface has none
                pass
    return found


def _connect(hosts: List[str], port: int) -> str:
    """Returns this rank's address and that of rank 0, as both appear on the first path that connects."""
    for host in hosts:
        try:
            with socket.create_connection((host, port), _CONNECT_S) as way:
                here, there = way.getsockname()[0], way.getpeername()[0]
        except OSError:
            continue
        if not there.startswith(("127.", "::1")):  # this node itself
            return f"{here} {there}"
    return ""


def _meet(job: Job, store: Any) -> Tuple[Any, str]:
    """Returns the store, or a new one on rank 0, and the address of this rank that the others reach. Collective."""
    if job.workers == 1:
        return store or dist.HashStore(), "127.0.0.1"
    listener: Any = None
    if job.rank == 0:
        listener = (dist.TCPStore("127.0.0.1", 0, job.workers, True, wait_for_workers=False) if store is None else
                    socket.create_server(("", 0), family=socket.AF_INET6, backlog=job.workers, dualstack_ipv6=True)
                    if socket.has_dualstack_ipv6() else socket.create_server(("", 0), backlog=job.workers))
        port = listener.port if store is None else listener.getsockname()[1]
        names = [os.environ.get("MASTER_ADDR", ""), job.node(0), socket.gethostname(), *_addresses()]
        said = f"{port} " + " ".join(dict.fromkeys(name for name in names if name))
        while len(said.encode()) > _ROOM:
            said = said.rpartition(" ")[0]
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            machine = file.read().strip() + os.readlink("/proc/self/ns/net")
    except OSError:  # a sandbox hides them
        machine = f"rank {job.rank}"
    said = job.broadcast((said if job.rank == 0 else "").encode()[:_ROOM].ljust(_ROOM, b"\0")).rstrip(b"\0").decode()
    port, *hosts = said.split()
    machines = _rows(job, machine, 128)
    far = [rank for rank in range(job.workers) if machines[rank] != machines[0]]
    found = _rows(job, _connect(hosts, int(port)) if job.rank in far else "", 128)
    for rank in far:
        if not found[rank]:
            raise BootError(f"rank {rank} (node {job.node(rank)}) cannot connect to port {port} of rank 0 (node {job.node(0)}), "
                            f"whose names are {', '.join(hosts)}, for the calls that Gloo does: set MASTER_ADDR on rank 0 to a "
                            "name that all nodes reach, or use sluice.torch.process_group(others=None), which does without Gloo")
    there = found[far[0]].split()[1] if far else "127.0.0.1"
    here, master = found[job.rank].split() if job.rank in far else (there, there)
    if store is None:
        store = listener if job.rank == 0 else dist.TCPStore(master, int(port), job.workers, False, wait_for_workers=False)
    elif job.rank == 0:
        listener.close()
    return store, here


def _gloo(store: Any, rank: int, size: int, host: str, timeout: timedelta) -> Any:
    """Makes a Gloo group. Its waits have no time limit, because _Work ends them if a rank is lost. So the members meet
    here first, with a limit."""
    store.set(f"here.{rank}", "")
    try:
        store.wait([f"here.{member}" for member in range(size)], timeout)
    except RuntimeError as error:
        missing = [member for member in range(size) if not _has(store, f"here.{member}")]
        raise BootError(f"ranks {', '.join(map(str, missing))} of a process group of {size} did not make it within "
                        f"{timeout.total_seconds():.0f} s: look for the cause in their output") from error
    make = dist.ProcessGroupGloo.create_device
    lazy = {"lazy_init": True} if "lazy_init" in (make.__doc__ or "") else {}  # connects when two ranks first exchange
    names = os.environ.get("GLOO_SOCKET_IFNAME", "")
    options = dist.ProcessGroupGloo._Options()
    options._timeout = _FOREVER
    options._devices = ([make(interface=name, **lazy) for name in names.split(",")] if names else
                        [make(hostname=host, **lazy)])
    return dist.ProcessGroupGloo(store, rank, size, options)


def _has(store: Any, key: str) -> bool:
    try:
        store.wait([key], timedelta(milliseconds=10))
    except RuntimeError:
        return False
    return True


# ---- groups ----------------------------------------------------------------------------------------

# torch.compile() calls these methods as they are: it cannot trace what they do with the library.
_uncompiled: Any = getattr(torch, "_disable_dynamo", None) or (lambda method: method)
_HAS_BACKENDS = hasattr(dist.ProcessGroup, "_register_backend")  # torch 2: a group has a backend for each device


class _Work(torch._C._distributed_c10d.Work):
    """A call that Gloo does. If it fails, the error names the rank that was lost."""

    def __init__(self, group: "_Others", work: Any, pairwise: bool) -> None:
        super().__init__()
        self._group, self._work, self._pairwise = group, work, pairwise
        self._future: Any = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if timeout:
            return self._work.wait(timeout)
        while True:
            try:
                # Gloo closes a connection whose wait for a message ends by a timeout.
                return self._work.wait() if self._pairwise else self._work.wait(_POLL)
            except RuntimeError as error:
                if self._pairwise or self._work.is_completed() or self._group.failed_elsewhere():
                    self._group.fail(error)

    def is_completed(self) -> bool:
        return self._work.is_completed()

    def is_success(self) -> bool:
        return self._work.is_success()

    def exception(self) -> Any:
        return self._work.exception()

    def result(self) -> Any:
        return self._work.result()

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        return self._work.source_rank()

    _source_rank = source_rank

    def get_future(self) -> Any:
        """DistributedDataParallel without a hook waits for it, and must also learn that a rank is lost."""
        if self._future is None:
            self._future = torch.futures.Future()
            threading.Thread(target=self._complete, daemon=True).start()
        return self._future

    def _complete(self) -> None:
        try:
            self.wait()
            self._future.set_result(self._work.result())
        except Exception as error:  # the waiting thread raises it
            self._future.set_exception(error)


class _Others(dist.ProcessGroup):
    """A group whose calls are done by Gloo or by a given group: the base of the job's group, and each new_group()."""

    def __init__(self, job: Job, rank: int, size: int, store: Any = None, host: str = "", given: Any = None,
                 timeout: timedelta = timedelta(minutes=30)) -> None:
        if _HAS_BACKENDS and store is not None:
            super().__init__(store, rank, size)
        else:
            super().__init__(rank, size)
        self._job, self._host, self._does = job, host, given
        self._store = _of_attempt(store) if host else store
        self._watched = host != ""
        self._has_cpu = self._watched or given is not None and _does_cpu(given)
        if host:
            gloo = self._does = _gloo(dist.PrefixStore("gloo", self._store), rank, size, host, timeout)
            if _HAS_BACKENDS:
                self._does = dist.ProcessGroup(store, rank, size)
                for group in (self._does, self):
                    _register(group, {torch.device(name): gloo for name in ("cpu", "cuda")})
        elif given is not None and _HAS_BACKENDS:
            _register(self, {device: given._get_backend(device) for device in given._device_types})

    def getBackendName(self) -> str:
        return "sluice"

    @property
    def group_name(self) -> str:
        """torch.compile() finds a group by this name; torch's own group has one for each backend."""
        return dist.distributed_c10d._get_process_group_name(self)

    @_uncompiled
    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        if self._does is None:
            raise InvalidError(f"sluice.torch.process_group(others=None) does not support {name}: leave out others=, so "
                               "that Gloo does it, or give a group that does")
        try:
            work = getattr(self._does, name)(*args, **options)
        except RuntimeError as error:
            if not self._watched or "/gloo/" not in str(error) or name == "monitored_barrier":
                raise
            self.fail(error)
        if not self._watched or work is None:
            return work
        return _Work(self, work, name in _PAIRWISE)

    def failed_elsewhere(self) -> bool:
        """Returns whether a call of another rank has failed, so that this rank must not wait longer."""
        try:
            return self._store.add(_FAILED, 0) > 0
        except RuntimeError:
            return True  # rank 0, which has the store, is lost

    def fail(self, error: Exception) -> None:
        """Raises the error of Gloo, or that of the job if a rank is lost. Every rank comes here."""
        # A thread of Gloo may wait for a lost rank without a limit, and the destructor waits for the thread.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._does))
        try:
            self._store.add(_FAILED, 1)
        except RuntimeError:
            pass
        try:
            self._job.barrier()
        except Error as cause:
            raise cause from error
        raise error


def _does_cpu(group: Any) -> bool:
    if _HAS_BACKENDS:
        return any(device.type == "cpu" for device in group._device_types)
    return isinstance(group, dist.ProcessGroupGloo)


def _register(group: Any, backends: Dict[Any, Any]) -> None:
    for device, backend in backends.items():
        kind = dist.Backend.backend_type_map.get(backend.name().lower(), dist.ProcessGroup.BackendType.CUSTOM)
        if device == next(iter(backends)):
            group._set_default_backend(kind)
        group._register_backend(device, kind, backend)


_PAIRWISE = ("send", "recv", "recv_anysource")
_FAILED = "failed"
_FOREVER = timedelta(days=3650)
_POLL = timedelta(seconds=1)
_CONNECT_S = 5
_SIOCGIFADDR = 0x8915
_ROOM = 1000


def _forward(name: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return self._call(name, *args, **options)
    return method


for _name in ("_allgather_base", "_reduce_scatter_base", "all_gather_single", "all_gather_single_coalesced",
              "all_to_all_single", "allgather", "allgather_coalesced", "allgather_into_tensor_coalesced", "allreduce",
              "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "gather_into_tensor",
              "gather_single", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_single",
              "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced", "scatter", *_PAIRWISE):
    if hasattr(dist.ProcessGroup, _name):
        setattr(_Others, _name, _forward(_name))


class _Group(_Others):
    """The group of a job, which does the calls of DistributedDataParallel itself."""

    @_uncompiled
    def broadcast(self, tensors: List[torch.Tensor], opts: Any) -> Any:
        root = opts.rootRank if hasattr(opts, "rootRank") else int(opts)
        for tensor in tensors:
            broadcast(self._job, tensor, root)
        return _done(tensors)

    @_uncompiled
    def allreduce(self, tensors: List[torch.Tensor], opts: Any = None) -> Any:
        """Large sums are left to Gloo from torch 2 on. Before, torch takes no future from a _Work, and
        DistributedDataParallel without a hook needs one."""
        op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
        if not any(op == known for known in _OPERATIONS) or any(t.layout != torch.strided for t in tensors) or (
                op != dist.ReduceOp.AVG and _HAS_BACKENDS and all(map(self._is_large, tensors))):
            return self._call("allreduce", tensors, *([] if opts is None else [opts]))
        for tensor in tensors:
            if op == dist.ReduceOp.SUM or op == dist.ReduceOp.AVG:
                found = self._sum(tensor.detach())
                if op == dist.ReduceOp.AVG:
                    found = found.div(self.size(), rounding_mode=None if found.is_floating_point() else "trunc")
            else:
                rows = torch.stack(self._rows(tensor))
                found = rows.amax(0) if op == dist.ReduceOp.MAX else rows.amin(0)
            tensor.detach().copy_(found)
        return _done(tensors)

    def _is_large(self, tensor: torch.Tensor) -> bool:
        """Returns whether Gloo is faster: the job's own collectives have small messages."""
        return (self._has_cpu and tensor.device.type == "cpu" and tensor.dtype in _GLOO_KNOWS and
                tensor.numel() * tensor.element_size() > _SMALL)

    def _sum(self, tensor: torch.Tensor) -> torch.Tensor:
        exact = tensor.is_floating_point() or tensor.dtype == torch.bool
        if exact:
            sums = tensor.to("cpu", torch.float64, copy=True).contiguous()
        else:  # the sums of both halves are exact in float64
            whole = tensor.to("cpu", torch.int64)
            sums = torch.stack([whole >> 32, whole & 0xffffffff]).double()
        if sums.numel():
            check(lib.sluice_sum(self._job._at(), _doubles(sums), sums.numel()))
        if exact:
            return sums
        high, low = sums.long()
        return (high << 32) + low

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
        if all(map(self._is_large, inputs)):
            return self._call("allgather", outputs, inputs, *([] if opts is None else [opts]))
        for output, tensor in zip(outputs, inputs):
            other = next((place for place in output if place.shape != tensor.shape), None)
            if other is not None:
                raise InvalidError(f"all_gather: an output has the shape {tuple(other.shape)}, but each rank gives "
                                   f"{tuple(tensor.shape)}: make all outputs like the input")
            for place, row in zip(output, self._rows(tensor)):
                place.detach().copy_(row)
        return _done(outputs)

    @_uncompiled
    def barrier(self, opts: Any = None) -> Any:
        self._job.barrier()
        return _done([])


_SMALL = 16384  # bytes
_GLOO_KNOWS = (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8)  # uint8: object collectives
_OPERATIONS = (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX, dist.ReduceOp.MIN)


def _doubles(tensor: torch.Tensor) -> Any:
    return ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_double))


def process_group(job: Optional[Job] = None, others: Any = "gloo") -> Any:
    """Makes the process group of a job, which becomes the default one of torch.distributed if there is none
    yet.

        sluice.torch.process_group()
        model = DistributedDataParallel(model)

    Collective over the workers. job: None takes sluice.torch.default_job(). Afterwards
    ``torch.distributed.get_rank()`` and ``get_world_size()`` work as with Gloo.

    The job does what DistributedDataParallel needs. others: what does the other calls. This is a Gloo group by
    default, or the default group of torch.distributed if there is one; or a given group of the same ranks. None
    refuses them, and needs no TCP connections.
    """
    global _default_job, _groups_made
    job = default_job() if job is None else job
    if not job.is_worker:
        raise InvalidError(f"rank {job.rank} is a dedicated server: it has no gradients, and calls "
                           "Model.serve() in place of a training loop")
    if dist.is_initialized():
        world = dist.group.WORLD
        if isinstance(world, _Group) and world._job is job:
            return world
        return _Group(job, job.rank, job.workers, given=world if others == "gloo" else others)
    register_backend()
    store, host = _Store(job.workers), ""
    if others == "gloo":
        known = _store_of_default if job is _default_job else None
        _groups_made += 1  # an earlier group has left its keys in the store
        store, host = _meet(job, known and dist.PrefixStore(f"group{_groups_made}", _of_attempt(known)))
    _joining.append((job, store, host, None if others == "gloo" else others))
    try:
        dist.init_process_group("sluice", store=store, rank=job.rank,
                                world_size=job.workers, timeout=timedelta(seconds=600))
    finally:
        _joining.pop()
    _default_job = job  # compress() without job= exchanges between the ranks of the default group
    return dist.group.WORLD


_groups_made = 0  # the same on all ranks
_joining: List[Any] = []  # the job whose group is being made, its store, this rank's address and the given group


def _make(store: Any, rank: int, size: int, timeout: Any) -> Any:
    """Makes a group for torch.distributed."""
    global _default_job
    if dist.is_initialized():  # new_group()
        world = dist.distributed_c10d._get_default_group()
        if not isinstance(world, _Group) or not world._watched:
            raise InvalidError("new_group(backend='sluice') needs sluice.torch.process_group() as the default group, with "
                               "Gloo: give the name of the backend that does the calls of this group")
        group = _Others(world._job, rank, size, store, world._host, timeout=timeout)
        group._store = world._store  # a call that fails in one group ends the waits in all groups
        return group
    if not _joining:  # init_process_group("sluice")
        job = Job(bootstrap=StoreBootstrap(store, rank, size))
        if job.workers != size:
            job.close()
            raise InvalidError(f"init_process_group('sluice'): the job has {size - job.workers} dedicated servers, which are in "
                               "no process group: join with sluice.Job(), and give it to sluice.torch.process_group()")
        _default_job = job
        return _Group(job, rank, size, *_meet(job, store))
    job, _, host, given = _joining[-1]
    return _Group(job, rank, size, store, host, given)


def register_backend() -> None:
    """Makes ``torch.distributed.init_process_group("sluice")`` possible."""
    if not hasattr(dist.Backend, "SLUICE"):
        known = inspect.signature(dist.Backend.register_backend).parameters
        devices = {"devices": ["cpu", "cuda"]} if "devices" in known else {}
        dist.Backend.register_backend("sluice", _make, **devices)
