# SPDX-License-Identifier: BSD-3-Clause
"""The ways to exchange gradients that ddp.py, fashion.py and gpt_race.py compare, and the counting of their bytes."""
import contextlib
import fcntl
import os
import socket
import struct

import sluice
import sluice.torch
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

INTERFACE = os.environ.get("GLOO_SOCKET_IFNAME", "")


def own_address():
    """Returns the address of Gloo's interface. Without an interface, all ranks are on this machine."""
    if not INTERFACE:
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        SIOCGIFADDR = 0x8915
        answer = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", INTERFACE.encode()))
    return socket.inet_ntoa(answer[20:24])


def start():
    """Joins the job, and a Gloo group of the same ranks. Returns the job."""
    job = sluice.torch.default_job()
    where, store = b"", None
    if job.rank == 0:
        store = dist.TCPStore(own_address(), 0, job.workers, True, wait_for_workers=False)
        where = f"{own_address()} {store.port}".encode()
    host, port = job.broadcast(where.ljust(64))[:64].split()
    if store is None:
        store = dist.TCPStore(host.decode(), int(port), job.workers, False, wait_for_workers=False)
    dist.init_process_group("gloo", store=store, rank=job.rank, world_size=job.workers)
    return job


def sent_on_the_wire():
    """Returns the bytes that this node's interface has sent, or 0 without an interface.

    An interface of a network namespace counts a large segment with one header, before it is cut into packets. So it
    counts fewer headers than a real network has.
    """
    if not INTERFACE:
        return 0
    with open(f"/sys/class/net/{INTERFACE}/statistics/tx_bytes", encoding="ascii") as file:
        return int(file.read())


def add_in_rank_order(_, bucket):
    """A hook that gathers the gradients over Gloo, and adds them in the order of Sluice's shards."""
    mine = bucket.buffer()
    rows = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, mine)
    total = rows[0].clone()
    for row in rows[1:]:
        total += row
    future = torch.futures.Future()
    future.set_result(total.mul_(1.0 / len(rows)))
    return future


class Way:
    """A way to exchange gradients: model (for the forward pass), optimizer and, with Sluice, state.

    name is KIND or KIND: RECIPE. optimizer is a function that makes an optimizer for a module. The optimizer has no
    momentum if the recipe has.
    """

    def __init__(self, name, job, module, optimizer, steps_per_epoch=0, **ddp):
        self.name, self.job, self.module, self.state, self._power = name, job, module, None, None
        kind, _, recipe = name.partition(": ")
        if kind == "optimizer":
            shards = "update=none" not in recipe
            inner = optimizer(module, "momentum" in recipe)
            self.model = module
            self.optimizer = self.state = sluice.torch.Optimizer(
                module, recipe, job=job, steps_per_epoch=steps_per_epoch,
                **({"lr": inner.param_groups[0]["lr"]} if shards else {"inner": inner}))
            return
        if kind == "local":
            self.model = module
            self.optimizer = self.state = sluice.torch.LocalSteps(module, optimizer(module, False), recipe, job=job)
            return
        # The Gloo of torch 1.13 cannot send the GPT's buffer of type bool.
        module._ddp_params_and_buffers_to_ignore = [name for name, _ in module.named_buffers()]
        # Over Gloo, PowerSGD's callbacks of several buckets run in a different order on each rank, and fail. So there
        # is only one bucket. torch 1.13 ends the first bucket at this size, whatever bucket_cap_mb is.
        usual = dist._DEFAULT_FIRST_BUCKET_BYTES
        if "PowerSGD" in kind:
            dist._DEFAULT_FIRST_BUCKET_BYTES, ddp["bucket_cap_mb"] = 1 << 32, 4096
        self.model = DistributedDataParallel(module, gradient_as_bucket_view=True, **ddp)
        dist._DEFAULT_FIRST_BUCKET_BYTES = usual
        self.optimizer = optimizer(module, "momentum" in recipe)
        if kind == "gloo, fp16 hook":
            self.model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif kind.startswith("gloo, PowerSGD rank "):
            self._power = powerSGD_hook.PowerSGDState(
                None, matrix_approximation_rank=int(kind.split()[-1]), start_powerSGD_iter=2)
            self.model.register_comm_hook(self._power, powerSGD_hook.powerSGD_hook)
        elif kind == "gloo, added in rank order":
            self.model.register_comm_hook(None, add_in_rank_order)
        elif kind == "compress":
            self.state = sluice.torch.compress(self.model, recipe, job=job, steps_per_epoch=steps_per_epoch)
        elif kind == "adapt":
            self.state = sluice.torch.compress(self.model, recipe, job=job, steps_per_epoch=steps_per_epoch,
                                               optimizer=self.optimizer, adapt=True)
        elif kind not in ("gloo", "gloo, ranks renumbered", "gloo, float64", "no exchange"):
            raise ValueError(f"no way to exchange gradients is named '{kind}'")

    def exchange(self):
        """Returns a context for the backward pass. Without an exchange, each rank keeps its own gradients."""
        return self.model.no_sync() if self.name == "no exchange" else contextlib.nullcontext()

    def common(self):
        """Returns a context in which the module has the parameters that all ranks share."""
        return self.state.common() if self.name.startswith("local: ") else contextlib.nullcontext()

    def moved(self, steps, ranks=None):
        """Returns the bytes of gradients and of answers that all ranks together have sent, without network headers.

        For Gloo, these are the two halves of its ring, which has the ranks of the job, or as many as ranks says. This
        call is collective.
        """
        if self.state:
            stats = self.state.stats()
            return [int(part) for part in self.job.sum([stats["pushed_bytes"], stats["pulled_bytes"]])]
        ranks = ranks or self.job.workers
        ring = ranks - 1
        values = steps * sum(p.numel() for p in self.module.parameters())
        if self.name == "no exchange":
            return [0, 0]
        if self._power:
            _, before, after = self._power.compression_stats()
            values += int(after - before)
        if self.name == "gloo, added in rank order":
            ring = ranks * (ranks - 1) // 2
        return [ring * values * {"gloo, fp16 hook": 2, "gloo, float64": 8}.get(self.name, 4)] * 2

    def sent(self, steps):
        """Returns the sum of moved(). This call is collective."""
        return sum(self.moved(steps))

    def close(self):
        if self.state:
            self.state.close()
