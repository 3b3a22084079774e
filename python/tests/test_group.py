# SPDX-License-Identifier: BSD-3-Clause
"""Tests sluice.torch.process_group() and the backend "sluice" on the CPU. torch.sh runs it."""
import os
import socket
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ranks
import sluice
import sluice.torch
from ranks import refused

RANKS = 3
torch_version = [int(n) for n in torch.__version__.split(".")[:2]]


def column(rank, dtype=torch.float32):
    return torch.tensor([rank + 1, 10 * rank], dtype=dtype)


def objects(rank, size):
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * (100 * rank)})
    assert [o["rank"] for o in found] == list(range(size)) and len(found[1]["text"]) == 100
    found = [None] * size if rank == 1 else None
    dist.gather_object(f"of {rank}", found, dst=1)
    assert rank != 1 or found == [f"of {r}" for r in range(size)]
    found = [rank, "text"] if rank == 2 else [None, None]
    dist.broadcast_object_list(found, src=2)
    assert found == [2, "text"]
    found = [None]
    dist.scatter_object_list(found, [f"to {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert found == [f"to {rank}"]


def collectives(rank, size):
    rows = [column(r) for r in range(size)]
    total = sum(rows)
    found = column(rank)
    dist.reduce(found, dst=1)
    assert rank != 1 or torch.equal(found, total)
    found = [torch.zeros(2) for _ in range(size)] if rank == 2 else None
    dist.gather(column(rank), found, dst=2)
    assert rank != 2 or torch.equal(torch.stack(found), torch.stack(rows))
    found = torch.zeros(2)
    dist.scatter(found, [10 * row for row in rows] if rank == 0 else None, src=0)
    assert torch.equal(found, 10 * rows[rank])
    if torch_version >= [2, 6]:
        found = torch.zeros(2 * size)
        dist.all_gather_into_tensor(found, column(rank))
        assert torch.equal(found, torch.cat(rows))
        found = torch.zeros(2)
        dist.reduce_scatter_tensor(found, torch.cat(rows))
        assert torch.equal(found, size * rows[rank])
        found = torch.zeros(2)
        dist.reduce_scatter(found, rows)
        assert torch.equal(found, size * rows[rank])
        found = torch.zeros(size)
        dist.all_to_all_single(found, torch.full((size,), float(rank)))
        assert found.tolist() == list(range(size))
        dist.monitored_barrier()
        assert dist.get_process_group_ranks(dist.group.WORLD) == list(range(size))
    else:
        refused(dist.monitored_barrier, "only implemented for GLOO", RuntimeError)
    found = column(rank)
    dist.all_reduce(found, dist.ReduceOp.PRODUCT)
    assert torch.equal(found, rows[0] * rows[1] * rows[2])
    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.bool):
        for count in (3, 9000):  # Gloo does large ones
            found = torch.full((count, 2), rank, dtype=dtype)
            dist.all_reduce(found, async_op=True).wait()
            assert torch.equal(found, torch.full((count, 2), sum(range(size)), dtype=dtype)), (dtype, count)
            found = [torch.zeros(count, dtype=dtype) for _ in range(size)]
            dist.all_gather(found, torch.full((count,), rank, dtype=dtype))
            assert torch.equal(torch.stack(found)[:, -1], torch.arange(size).to(dtype))
            found = torch.full((count,), rank, dtype=dtype)
            dist.all_reduce(found, dist.ReduceOp.MAX)
            assert found[-1] == torch.tensor(size - 1, dtype=dtype)
    refused(lambda: dist.all_gather([torch.zeros(2, 3)] * size, torch.ones(3)), "has the shape (2, 3)")
    found = torch.full((3,), float(rank))
    dist.all_reduce(found, dist.ReduceOp.AVG)
    assert found.tolist() == [1, 1, 1]
    found = torch.full((3,), rank - 3)
    dist.all_reduce(found, dist.ReduceOp.AVG)
    assert found.tolist() == [-2, -2, -2]
    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (size,))
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [1.0] * size


def integers(rank, size):
    """The sums are exact, and wrap as those of Gloo do."""
    for mine, wanted in (([2**60 + 1, -(2**60) - 1, rank], [3 * (2**60 + 1), -3 * (2**60 + 1), 3]),
                         ([2**53 + rank, -rank, 2**31 * rank], [3 * 2**53 + 3, -3, 3 * 2**31]),
                         ([2**62, -(2**62), -1], [3 * 2**62 - 2**64, 2**64 - 3 * 2**62, -3])):
        found = torch.tensor(mine)
        dist.all_reduce(found)
        assert found.tolist() == wanted, (found, wanted)
    found = torch.tensor([2**31 - 1, 7], dtype=torch.int32)
    dist.all_reduce(found)
    assert found.tolist() == [3 * (2**31 - 1) - 2**32, 21]
    found = torch.tensor([200], dtype=torch.uint8)
    dist.all_reduce(found)
    assert found.tolist() == [600 % 256]
    found = torch.tensor([], dtype=torch.int64)
    dist.all_reduce(found)


def pairs(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    found = torch.zeros(2)
    sent = dist.isend(column(rank), after)
    dist.recv(found, before)
    sent.wait()
    assert torch.equal(found, column(before))
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, column(rank), after), dist.P2POp(dist.irecv, found, before)])
    for work in works:
        work.wait()
    if rank == 0:
        senders = [dist.recv(found) for _ in range(size - 1)]
        assert sorted(senders) == list(range(1, size)), senders
    else:
        dist.send(column(rank), 0)


def subgroups(rank, size):
    for options in ({}, {"backend": "gloo"}, {"backend": "sluice"}):
        pair = dist.new_group([0, 2], **options)
        if rank != 1:
            found = torch.full((2,), 2**60 + rank)
            dist.all_reduce(found, group=pair)
            assert found.tolist() == [2**61 + 2] * 2
            assert dist.get_world_size(pair) == 2 and dist.get_rank(pair) == rank // 2
            objects_of_pair = [None, None]
            dist.all_gather_object(objects_of_pair, rank, group=pair)
            assert objects_of_pair == [0, 2]
            dist.barrier(group=pair)
    dist.barrier()


def mesh(rank, size, folder):
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    ring = init_device_mesh("cpu", (size,), mesh_dim_names=("shard",))
    plane = init_device_mesh("cpu", (size, 1), mesh_dim_names=("a", "b"))
    assert ring.size() == size and plane["a"].size() == size
    whole = torch.arange(12.0).reshape(6, 2)
    placed = distribute_tensor(whole, ring, [Shard(0)])
    assert torch.equal(placed.full_tensor(), whole)
    assert (placed * 2).sum().full_tensor().item() == 2 * whole.sum().item()
    path = os.path.join(folder, "saved")
    checkpoint.save({"placed": placed, "plain": whole}, checkpoint_id=path)
    loaded = {"placed": distribute_tensor(torch.zeros(6, 2), ring, [Shard(0)]), "plain": torch.zeros(6, 2)}
    checkpoint.load(loaded, checkpoint_id=path)
    assert torch.equal(loaded["placed"].full_tensor(), whole) and torch.equal(loaded["plain"], whole)


def sharded(rank, size):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    alone, model = nn.Linear(6, 3), nn.Linear(6, 3)
    model.load_state_dict(alone.state_dict())
    fully_shard(model)
    rows = torch.arange(size * 6.0).reshape(size, 6)
    model(rows[rank:rank + 1]).square().sum().backward()
    alone(rows).square().sum().div(size).backward()
    assert torch.allclose(model.weight.grad.full_tensor(), alone.weight.grad)


def compiled(rank, size):
    digests = []
    for way in (lambda ddp: ddp, lambda ddp: torch.compile(ddp, backend="aot_eager")):
        torch.manual_seed(rank)
        ddp = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
        model, optimizer = way(ddp), torch.optim.SGD(ddp.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            model(torch.full((2, 4), float(rank + step))).square().sum().backward()
            optimizer.step()
        digests.append([p.detach().clone() for p in ddp.parameters()])
        found = [None] * size
        dist.all_gather_object(found, digests[-1])
        assert all(torch.equal(a, b) for other in found for a, b in zip(other, digests[-1]))
    assert all(torch.allclose(a, b) for a, b in zip(*digests))


def everything(rank, size, folder):
    integers(rank, size)
    pairs(rank, size)
    objects(rank, size)
    collectives(rank, size)
    subgroups(rank, size)
    if torch_version >= [2, 6]:
        mesh(rank, size, folder)
        sharded(rank, size)
        compiled(rank, size)


def rank_everything(job, folder):
    sluice.torch.process_group(job)
    assert dist.get_backend() == "sluice" and sluice.torch.process_group(job) is dist.group.WORLD
    everything(job.rank, job.workers, folder)
    dist.destroy_process_group()
    job.close()


def rank_pairs_first(job, _):
    """The first call that Gloo does is one of two ranks."""
    sluice.torch.process_group(job)
    if job.rank == 1:
        dist.send(column(1), 2)
    elif job.rank == 2:
        found = torch.zeros(2)
        dist.recv(found, 1)
        assert torch.equal(found, column(1))
    job.barrier()


def rank_given(job, folder):
    """A group that exists already does the other calls, and keeps being the default group."""
    dist.init_process_group("gloo", rank=job.rank, world_size=job.workers,
                            store=dist.FileStore(folder + "/store", job.workers))
    group = sluice.torch.process_group(job)
    assert dist.get_backend() == "gloo"
    found = torch.full((2,), 2**60 + 1)
    group.allreduce([found]).wait()
    assert found.tolist() == [3 * (2**60 + 1)] * 2
    found = [torch.full((2,), job.rank + 2.0)]
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.PRODUCT
    group.allreduce(found, options).wait()
    assert found[0].tolist() == [24.0, 24.0]
    DistributedDataParallel(nn.Linear(2, 2), process_group=group)
    dist.destroy_process_group()


def rank_without(job, _):
    sluice.torch.process_group(job, others=None)
    DistributedDataParallel(nn.Linear(2, 2))
    integers(job.rank, job.workers)
    found = [None] * job.workers
    if torch_version < [2, 6]:  # torch 2 has an all_gather of small tensors
        dist.all_gather_object(found, job.rank)
    reduce = "process_group(others=None) does not support reduce: leave out others=, so that Gloo does it"
    refused(lambda: dist.reduce(torch.ones(2), 0), reduce)
    refused(lambda: dist.new_group([0, 1], backend="sluice") if job.rank < 2 else dist.reduce(torch.ones(2), 0),
            "new_group(backend='sluice') needs" if job.rank < 2 else reduce)


def rank_unreachable(job, _):
    """Rank 2 is on another machine, on which the names of rank 0 lead nowhere."""
    sluice.torch._group._addresses = lambda: ["127.0.0.1"]
    socket.gethostname = lambda: "n0"
    os.environ.pop("MASTER_ADDR", None)
    if job.rank == 2:
        os.readlink = lambda path: "net:[2]"
    refused(lambda: sluice.torch.process_group(job), "rank 2 (node n2) cannot connect to port", sluice.BootError)
    sluice.torch.process_group(job, others=None)
    dist.barrier()


def rank_dies(job, _, how):
    """The others wait in a call of Gloo, or for each other."""
    sluice.torch.process_group(job)
    found = [None] * job.workers
    dist.all_gather_object(found, job.rank)
    pair = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(9000))
    ddp = DistributedDataParallel(nn.Linear(100, 100))  # without compress()
    ddp(torch.ones(4, 100)).sum().backward()
    assert torch.equal(ddp.module.weight.grad, torch.full((100, 100), 4.0))
    if job.rank == 2:
        os._exit(3)
    if how == "pair" and job.rank == 0:
        dist.recv(torch.zeros(2), 2)
    elif how == "pair":
        dist.all_reduce(torch.ones(2), group=pair)  # waits for rank 0, which lives
    elif how == "model":
        ddp(torch.ones(4, 100)).sum().backward()
    else:
        dist.all_reduce(torch.ones(9000))


BACKEND = """
import os, sys, torch, torch.distributed as dist
sys.path.insert(0, sys.argv[1])
import test_group, sluice.torch
dist.init_process_group("sluice")
assert dist.get_backend() == "sluice" and sluice.torch.default_job().workers == 3
test_group.everything(dist.get_rank(), 3, sys.argv[2])
dist.destroy_process_group()
"""


AGAIN = """
import torch, torch.distributed as dist, sluice.torch
for attempt in range(3):
    sluice.torch.process_group()
    found = [None] * 3
    dist.all_gather_object(found, attempt)
    assert found == [attempt] * 3, found
    rows = torch.ones(100000) * (dist.get_rank() + attempt)
    dist.all_reduce(rows)
    assert rows[0] == 3 + 3 * attempt, rows[0]
    dist.destroy_process_group()
"""

class Group(unittest.TestCase):
    def test_everything(self):
        ranks.run(RANKS, "rank_everything").all_well()

    def test_pairs_first(self):
        ranks.run(RANKS, "rank_pairs_first").all_well()

    def test_given_group(self):
        ranks.run(RANKS, "rank_given").all_well()

    def test_without_gloo(self):
        ranks.run(RANKS, "rank_without").all_well()

    def test_unreachable(self):
        ranks.run(RANKS, "rank_unreachable").all_well()

    def test_names_the_dead(self):
        for how in ("all", "pair", "model"):
            with self.subTest(how):
                for rank, (status, said) in enumerate(ranks.run(RANKS, "rank_dies", how)[:2]):
                    self.assertEqual(status, 1, said)
                    self.assertIn("PeerError: rank 2 (node n2) is lost", said, rank)

    def environment(self, code, *arguments):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        processes = [subprocess.Popen(
            [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "localhost",
                 "MASTER_PORT": str(port)}) for rank in range(3)]
        for process in processes:
            said, _ = process.communicate(timeout=ranks.LIMIT_S)
            self.assertEqual(process.returncode, 0, said)

    def test_made_again(self):
        """The store of the launcher still has the keys of the earlier groups."""
        self.environment(AGAIN)

    def test_backend(self):
        with tempfile.TemporaryDirectory() as folder:
            self.environment(BACKEND, os.path.dirname(os.path.abspath(__file__)), folder)


if __name__ == "__main__":
    unittest.main()
