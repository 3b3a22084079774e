# SPDX-License-Identifier: BSD-3-Clause
"""Tests sluice.torch on the CPU, in jobs of two ranks. torch.sh runs it."""
import contextlib
import copy
import functools
import gc
import io
import itertools
import os
import socket
import subprocess
import sys
import tracemalloc
import unittest
import unittest.mock
import warnings

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import ranks
import sluice
import sluice.torch
from ranks import refused

DENSE = "up=all down=all"
SPARSE = "up=topk(0.1) down=topk(0.2)"
RANKS = 2
torch_version = [int(n) for n in torch.__version__.split(".")[:2]]


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 4))


def rows(step, rank, count=6):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(count, 12, generator=generator)
    return x, x[:, :4].argmax(1)


def all_rows(step):
    pairs = [rows(step, rank) for rank in range(RANKS)]
    return torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs])


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def step_of(model, optimizer, batch):
    optimizer.zero_grad()
    loss = cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def expected(steps, seed=0):
    """Trains in one process, with the rows of all ranks."""
    model = network(seed)
    optimizer = sgd(model)
    for step in range(steps):
        step_of(model, optimizer, all_rows(step))
    return model


def check_close(model, wanted, tolerance=1e-5):
    for (name, a), b in zip(model.named_parameters(), wanted.parameters()):
        assert torch.allclose(a, b, atol=tolerance), f"{name} is off by {(a - b).abs().max()}"


def join(job):
    sluice.torch.process_group(job)
    assert torch.distributed.get_world_size() == RANKS and torch.distributed.get_rank() == job.rank


def wrapped(job, model, recipe, **options):
    ddp_options = {k: options.pop(k) for k in ("gradient_as_bucket_view", "find_unused_parameters",
                                               "bucket_cap_mb", "static_graph") if k in options}
    # torch 1.13 ends the first bucket at this size, whatever bucket_cap_mb is
    first = torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
    if "bucket_cap_mb" in ddp_options:
        torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = int(ddp_options["bucket_cap_mb"] * 1e6)
    ddp = DistributedDataParallel(model, **ddp_options)
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = first
    return ddp, sluice.torch.compress(ddp, recipe, job=job, **options)


# ---- DistributedDataParallel: both ranks call each function --------------------------------

def ddp_dense(job):
    for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True},
                    {"bucket_cap_mb": 0.0005}):
        model = network(job.rank)  # rank 1 begins with different parameters, and receives rank 0's
        ddp, state = wrapped(job, model, DENSE, **options)
        optimizer = sgd(ddp)
        for step in range(5):
            step_of(ddp, optimizer, rows(step, job.rank))
        check_close(model, expected(5))
        state.verify()
        stats = state.stats()
        assert stats["steps"] == 5, stats
        assert stats["copied_bytes"] == 0, f"{options}: the hook copies"
        if "bucket_cap_mb" in options:
            assert len(state._segments) > 2, "there is one bucket only"
        state.close()


def rank_compresses_in_the_job_of_the_group(job, _):
    """compress() without job= takes the job of the process group, and not a new job of one rank."""
    sluice.torch.process_group(job)
    model = network()
    ddp = DistributedDataParallel(model)
    state = sluice.torch.compress(ddp, DENSE)
    optimizer = sgd(ddp)
    for step in range(5):
        step_of(ddp, optimizer, rows(step, job.rank))
    check_close(model, expected(5))
    state.close()


def rank_adds_in_rank_order(job, _):
    """With up=all down=all the mean is ((g0 + g1) + ...) * (1 / ranks) in float32, bit for bit."""
    sluice.torch.process_group(job)
    model, alone = network(), network()
    ddp, state = wrapped(job, model, DENSE, bucket_cap_mb=0.0005)
    optimizer, reference = sgd(ddp), sgd(alone)
    for step in range(8):
        step_of(ddp, optimizer, rows(step, job.rank))
        sums = [torch.zeros_like(p) for p in alone.parameters()]
        for rank in range(job.workers):
            reference.zero_grad()
            x, y = rows(step, rank)
            cross_entropy(alone(x), y).backward()
            for total, p in zip(sums, alone.parameters()):
                total += p.grad
        for total, p in zip(sums, alone.parameters()):
            p.grad = total * (1.0 / job.workers)
        reference.step()
        for (name, a), b in zip(model.named_parameters(), alone.parameters()):
            assert torch.equal(a, b), f"step {step}: {name} is off by {(a - b).abs().max()}"
    job.close()


def ddp_range_by_range(job):
    """Pulls bucket by bucket. The result has the bits of one pull of the whole vector."""
    digests, ranges = [], []
    for at_once in (True, False):
        ddp, state = wrapped(job, network(), SPARSE, bucket_cap_mb=0.0001)
        model, pull_range = state.model, state.model.pull_range
        if at_once:
            model.pull_begin, model.pull_range = model.pull, lambda begin, count: None
        else:
            model.pull_range = lambda begin, count: (ranges.append(count), pull_range(begin, count))
        optimizer = sgd(ddp)
        for step in range(6):
            step_of(ddp, optimizer, rows(step, job.rank))
        digests.append(state.verify())
        state.close()
    assert digests[0] == digests[1]
    assert len(ranges) > 2 * 6 and sum(ranges) == 6 * state.layout.count, ranges


def ddp_sparse(job):
    model = network()
    ddp, state = wrapped(job, model, SPARSE)
    optimizer = sgd(ddp)
    losses = [step_of(ddp, optimizer, rows(step, job.rank, 30)).item() for step in range(60)]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5]), losses
    state.verify()
    stats = state.stats()
    assert 0 < stats["pushed_elements"] < 0.2 * 60 * state.layout.count, stats
    state.close()


def ddp_accumulates(job):
    model, alone = network(), network()
    ddp, state = wrapped(job, model, DENSE)
    optimizer, reference = sgd(ddp), sgd(alone)
    for step in range(3):
        optimizer.zero_grad()
        reference.zero_grad()
        with ddp.no_sync():
            cross_entropy(ddp(rows(2 * step, job.rank)[0]), rows(2 * step, job.rank)[1]).backward()
        cross_entropy(ddp(rows(2 * step + 1, job.rank)[0]), rows(2 * step + 1, job.rank)[1]).backward()
        for part in (2 * step, 2 * step + 1):
            x, y = all_rows(part)
            cross_entropy(alone(x), y).backward()
        optimizer.step()
        reference.step()
    check_close(model, alone)
    assert state.stats()["steps"] == 3
    state.close()


class Branches(nn.Module):
    """Computes the two halves in this order, which is also the order of their gradients."""

    def __init__(self, order=(0, 1), used=(0, 1)):
        super().__init__()
        torch.manual_seed(0)
        self.halves = nn.ModuleList([nn.Linear(12, 4), nn.Linear(12, 4)])
        self.never = nn.Linear(3, 3)
        self.order, self.used = order, used

    def forward(self, x):
        parts = {}
        for i in self.order:
            if i in self.used:
                parts[i] = torch.relu(self.halves[i](x))
        return sum(parts[i] for i in sorted(parts))


def ddp_unused(job):
    """Has a layer that only rank 1 uses, and one that no rank uses."""
    model = Branches(used=(0, 1) if job.rank else (0,))
    ddp, state = wrapped(job, model, DENSE, find_unused_parameters=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    before = model.halves[1].weight.detach().clone()
    for step in range(4):
        step_of(ddp, optimizer, rows(step, job.rank))
    assert not torch.equal(model.halves[1].weight, before), "rank 0 did not receive what rank 1 learned"
    assert model.never.weight.grad is None
    state.verify()
    state.close()


def ddp_unused_strided(job):
    """Only rank 1 uses a layer whose weight is not contiguous. It gets the same mean as over Gloo."""
    results = []
    for recipe in (None, DENSE):
        model = Branches(used=(0, 1) if job.rank else (0,))
        model.halves[1].weight.data = model.halves[1].weight.data.t().contiguous().t()
        ddp = DistributedDataParallel(model, find_unused_parameters=True)
        state = sluice.torch.compress(ddp, recipe, job=job) if recipe else None
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for step in range(3):
            step_of(ddp, optimizer, rows(step, job.rank))
        results.append(model)
        if state:
            state.verify()
            state.close()
    check_close(*results)


class Tasks(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.heads = nn.Linear(12, 8), nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)])

    def forward(self, x, task):
        return self.heads[task](torch.relu(self.body(x)))


def ddp_tasks(job):
    """Each task has its own backward and does not use the head of the other. Coarse levels leave residuals in the mean of
    the head that no rank uses. The gradients are those of Gloo, and within a level of them."""
    gradients = []
    for recipe in (None, DENSE, "up=all,uniform(8) down=all,uniform(8)"):
        model = Tasks()
        ddp = DistributedDataParallel(model, find_unused_parameters=True)
        state = sluice.torch.compress(ddp, recipe, job=job) if recipe else None
        for step in range(2):
            model.zero_grad(set_to_none=True)
            for task in (0, 1):
                x, y = rows(2 * step + task, job.rank)
                cross_entropy(ddp(x, task), y).backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
        if state:
            state.close()
    for wanted, exact, coarse in zip(*gradients):
        assert torch.allclose(exact, wanted, atol=1e-6), (exact, wanted)
        assert (coarse - wanted).norm() < 0.1 * wanted.norm(), (coarse, wanted)


def ddp_unused_and_watched(job):
    """A mean that is given to a parameter is not taken for a gradient that the script has clipped."""
    def train():
        model = Tasks()
        ddp, state = wrapped(job, model, "up=topk(0.5),uniform(3) down=topk(0.5),uniform(3) signal=momentum(0.9)",
                             find_unused_parameters=True)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for step in range(6):
            optimizer.zero_grad(set_to_none=True)
            for task in (0, 1):
                x, y = rows(2 * step + task, job.rank)
                (cross_entropy(ddp(x, task), y) * (-1) ** step).backward()
            optimizer.step()
        state.verify()
        state.close()

    assert warned_of_clipping(train)[1] == 0


def ddp_unused_and_frozen_later(job):
    """A parameter that is frozen in the middle of a run gets no mean of what residuals have of it."""
    model = network()
    ddp, state = wrapped(job, model, SPARSE, find_unused_parameters=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    frozen = next(model.parameters())
    for step in range(8):
        if step == 3:
            frozen.requires_grad_(False)
            before = frozen.clone()
        step_of(ddp, optimizer, rows(step, job.rank))
    assert torch.equal(frozen, before)
    state.verify()
    state.close()


def ddp_frozen(job):
    model = network()
    for p in model[2].parameters():
        p.requires_grad_(False)
    before = model[2].weight.detach().clone()
    ddp, state = wrapped(job, model, DENSE)
    assert state.layout.count == sum(p.numel() for p in model.parameters() if p.requires_grad)
    optimizer = torch.optim.SGD([p for p in ddp.parameters() if p.requires_grad], lr=0.1)
    for step in range(3):
        step_of(ddp, optimizer, rows(step, job.rank))
    assert torch.equal(model[2].weight, before)
    state.verify()
    with torch.no_grad():
        model[2].weight[1, 1] += job.rank
    refused(state.verify, "2.weight differs between the workers")
    for p in model[2].parameters():
        p.requires_grad_(True)
    refused(lambda: step_of(ddp, optimizer, rows(3, job.rank)), "2.weight was not known when Sluice was told",
            (RuntimeError, sluice.InvalidError))  # torch 1.13 raises every exception as RuntimeError
    state.close()


def ddp_other_order(job):
    results = []
    for order in ((0, 1), (1, 0) if job.rank else (0, 1)):
        model = Branches(order)
        model.never = None
        ddp, state = wrapped(job, model, DENSE, bucket_cap_mb=0.0001)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for step in range(4):
            step_of(ddp, optimizer, rows(step, job.rank))
        results.append(state.verify())
        state.close()
    assert results[0] == results[1], "the result depends on the order of gradients on rank 1"


def ddp_whole_vector(job):
    """With clip=, the gradient is pushed in one piece, because clipping needs all of it."""
    model = network()
    ddp, state = wrapped(job, model, DENSE + " clip=1000")
    optimizer = sgd(ddp)
    for step in range(4):
        step_of(ddp, optimizer, rows(step, job.rank))
    check_close(model, expected(4))
    assert not state._ranges and state.stats()["copied_bytes"] == 0
    state.close()


def ddp_bfloat16(job):
    model = network().to(torch.bfloat16)
    ddp, state = wrapped(job, model, DENSE)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(3):
        x, y = rows(step, job.rank)
        optimizer.zero_grad()
        cross_entropy(ddp(x.to(torch.bfloat16)).float(), y).backward()
        optimizer.step()
    state.verify()
    assert model[0].weight.grad.dtype == torch.bfloat16 and model[0].weight.grad.abs().sum() > 0
    assert state.stats()["copied_bytes"] == 0
    state.close()


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(12, 8).to(torch.bfloat16), nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x.to(torch.bfloat16))).float())


def ddp_mixed_types(job):
    """One layer is bfloat16 and one float32. The buckets have two types, and nothing is copied."""
    model = Mixed()
    ddp, state = wrapped(job, model, DENSE)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    losses = []
    for step in range(20):
        losses.append(step_of(ddp, optimizer, rows(step, job.rank, 30)).item())
        grads = [p.grad.float().flatten() for p in model.parameters()]
        means = job.sum([g.sum().item() for g in grads])
        for g, mean in zip(grads, means):  # the means are equal on all ranks
            assert abs(g.sum().item() - mean / RANKS) < 1e-6
    assert sum(losses[-5:]) < sum(losses[:5]), losses
    state.verify()
    assert state.stats()["copied_bytes"] == 0
    state.close()


class Scaler:
    """Has what the hook uses of a GradScaler."""

    def __init__(self):
        self.scale = 1024.0

    def get_scale(self):
        return self.scale


def ddp_overflow(job):
    """A step in which rank 1 overflows changes no parameter on any rank. The scale may change."""
    digests = []
    for overflows in (False, True):
        model, scaler = network(), Scaler()
        ddp, state = wrapped(job, model, SPARSE, scaler=scaler)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for step in range(5):
            if overflows and step == 2:
                optimizer.zero_grad()
                x, y = rows(77, job.rank)
                (cross_entropy(ddp(x), y) * (float("inf") if job.rank else scaler.scale)).backward()
                for p in model.parameters():
                    assert torch.isinf(p.grad).all(), "the scaler of this rank would not skip the step"
                scaler.scale /= 2
            optimizer.zero_grad()
            x, y = rows(step, job.rank)
            (cross_entropy(ddp(x), y) * scaler.scale).backward()
            for p in model.parameters():
                p.grad.mul_(1 / scaler.scale)
            optimizer.step()
        digests.append(state.verify())
        assert state.stats()["skipped_steps"] == int(overflows)
        state.close()
    assert digests[0] == digests[1], "the skipped step changed the result"


def ddp_overflow_unused(job):
    """After a step in which rank 1 overflows, a layer that no rank uses has no gradient, or the one that it had."""
    for earlier in (False, True):
        model, scaler = Branches(used=(0,)), Scaler()
        ddp, state = wrapped(job, model, SPARSE, scaler=scaler, find_unused_parameters=True)
        x, y = rows(0, job.rank)
        for factor in (scaler.scale, float("inf") if job.rank else scaler.scale, scaler.scale):
            model.zero_grad(set_to_none=True)
            if earlier:
                model.never.weight.grad = torch.zeros(3, 3)
            (cross_entropy(ddp(x), y) * factor).backward()
            assert torch.isinf(model.halves[0].weight.grad).all() == state.skipped
            grad = model.never.weight.grad
            assert model.never.bias.grad is None and (not grad.any() if earlier else grad is None), grad
        assert state.skipped_steps == 1
        state.close()


def ddp_scaler_disabled(job):
    """A disabled GradScaler skips no step, so compress() does as without one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.cuda.amp is deprecated
        scaler = torch.cuda.amp.GradScaler(enabled=False)
    ddp, state = wrapped(job, network(), DENSE + " nonfinite=skip-all", scaler=scaler)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = cross_entropy(ddp(rows(step, job.rank)[0]), rows(step, job.rank)[1])
        scaler.scale(loss * float("nan") if job.rank and step == 1 else loss).backward()
        assert state.skipped == (step == 1)
        scaler.step(optimizer)
        scaler.update()
    assert all(bool(p.isfinite().all()) for p in ddp.parameters()), "the disabled scaler made a step with infinite gradients"
    state.verify()
    state.close()
    wrapped(job, network(), DENSE, scaler=scaler, uneven=True)[1].close()


def skip_all(job):
    """If a gradient of rank 1 has NaN, no optimizer makes the step, as if its rows did not exist."""
    recipe, digests = DENSE + " nonfinite=skip-all", []

    def ddp(model):
        wrapper, state = wrapped(job, model, recipe, uneven=True)
        optimizer = sgd(wrapper)
        return wrapper, optimizer, state, lambda: state.skipped or optimizer.step(), lambda: state.join(optimizer)

    def inner(model):
        optimizer = sluice.torch.Optimizer(model, recipe, inner=sgd(model), job=job, uneven=True)
        return model, optimizer, optimizer, optimizer.step, optimizer.join

    for make in (ddp, inner):
        for spoilt in (False, True):
            model, optimizer, state, make_step, join_others = make(network())
            for step in range(6 - 2 * (1 - job.rank)):
                for loss_scale in (float("nan") if job.rank else 1.0, 1.0) if spoilt and step in (2, 5) else (1.0,):
                    optimizer.zero_grad()
                    x, y = rows(step, job.rank)
                    (cross_entropy(model(x), y) * loss_scale).backward()
                    make_step()
            assert join_others() == (0 if job.rank else 2 + spoilt)
            digests.append(state.verify())
            assert state.stats()["skipped_steps"] == 2 * spoilt and state.model.step == 7, state.stats()
            state.close()
    assert len(set(digests)) == 1, digests


def ddp_two_models(job):
    models = [network(), network(5)]
    pairs = [wrapped(job, model, DENSE) for model in models]
    optimizers = [sgd(ddp) for ddp, _ in pairs]
    for step in range(3):
        for (ddp, _), optimizer in zip(pairs, optimizers):
            step_of(ddp, optimizer, rows(step, job.rank))
    check_close(models[0], expected(3))
    check_close(models[1], expected(3, 5))
    for _, state in pairs:
        state.close()


def ddp_resumed(job, folder):
    def part(steps, resume=None, save=False, as_bytes=False):
        model = network()
        file = io.BytesIO()
        ddp, state = wrapped(job, model, SPARSE)
        optimizer = sgd(ddp)
        if resume:
            model.load_state_dict(resume[0])
            optimizer.load_state_dict(copy.deepcopy(resume[1]))  # torch 2 would change the saved state
            if as_bytes:
                assert state.load_state_dict(torch.load(io.BytesIO(resume[2]))) == steps[0]
            else:
                assert state.restore(os.path.join(folder, "saved")) == steps[0]
        for step in steps:
            step_of(ddp, optimizer, rows(step, job.rank))
        if save:
            state.checkpoint(os.path.join(folder, "saved"))
            torch.save(state.state_dict(), file)
        digest = state.verify()
        state.close()
        return digest, (model.state_dict(), optimizer.state_dict(), file.getvalue())

    whole, _ = part(range(10))
    _, saved = part(range(6), save=True)
    for as_bytes in (False, True):
        resumed, _ = part(range(6, 10), saved, as_bytes=as_bytes)
        assert resumed == whole, f"the resumed run ends with different parameters (as bytes: {as_bytes})"
    _, state = wrapped(job, network(), SPARSE)
    refused(lambda: state.load_state_dict({f"rank{1 - job.rank}": torch.zeros(8, dtype=torch.uint8)}),
            f"and not of rank {job.rank}")
    state.close()


def state_of_rank_0(job):
    """If only rank 0 calls state_dict(), it does not wait. All ranks refuse that state, and name the reason."""
    def ddp(model):
        wrapper, state = wrapped(job, model, SPARSE)
        return wrapper, sgd(wrapper), state

    def plain(model):
        optimizer = sluice.torch.Optimizer(model, SPARSE, inner=sgd(model), job=job)
        return model, optimizer, optimizer

    for make in (ddp, plain):
        model, optimizer, state = make(network())
        parts = []
        for step in range(6):
            step_of(model, optimizer, rows(step, job.rank))
            if step == 2 and job.rank == 0:
                only = state.state_dict()
            if step == 3:
                parts = [state.state_dict(), state.collective_state_dict()]
        state.verify()
        state.close()
        if job.rank:
            only = {**parts[0], "compression": {"rank0": torch.zeros(8, dtype=torch.uint8)}} if make is plain else {
                "rank0": torch.zeros(8, dtype=torch.uint8)}
        _, _, state = make(network())
        refused(lambda: state.load_state_dict(only), "rank 1 (node n1): sluice_state_load: state is NULL"
                if job.rank == 0 else "the state is of rank0 and not of rank 1: every rank saves its own part")
        for part in parts:
            state.load_state_dict(part)
            assert state.model.step == 4
            state.close()
            _, _, state = make(network())
        state.close()


def ddp_workers_of_a_loader(job):
    """DataLoader forks. Its children inherit the job and must not use it."""
    x, y = rows(0, job.rank, 24)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=6, num_workers=2)
    model = network()
    ddp, state = wrapped(job, model, DENSE)
    optimizer = sgd(ddp)
    for batch in loader:
        step_of(ddp, optimizer, batch)
    state.verify()
    assert state.stats()["steps"] == 4
    state.close()


def ddp_buffers(job):
    """The process group gives all ranks the running means of rank 0's norm layers."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    ddp, state = wrapped(job, model, DENSE)
    optimizer = sgd(ddp)
    for step in range(3):
        step_of(ddp, optimizer, rows(step, job.rank))
    ddp(rows(9, job.rank)[0])  # each forward pass begins with the buffers of rank 0
    state.verify()
    state.close()


def ddp_refused(job):
    with_shards = sluice.Recipe(DENSE, update="sgd")
    for recipe, why in ((with_shards, "update=sgd, but a torch optimizer steps here"),
                        ("up=topx(0.1)", 'did you mean "topk"')):
        try:
            wrapped(job, network(), recipe)
        except sluice.InvalidError as error:
            assert why in str(error), error
        else:
            raise AssertionError(f"{recipe} was not refused")
    try:
        sluice.torch.compress(network(), DENSE, job=job)
    except TypeError as error:
        assert "not a DistributedDataParallel" in str(error)
    else:
        raise AssertionError("a bare model was not refused")


def uneven(job):
    """Rank 1 has three batches fewer. In the remaining steps, the mean is that of rank 0."""
    def ddp(model):
        wrapper, state = wrapped(job, model, DENSE, uneven=True)
        optimizer = sgd(wrapper)
        return wrapper, optimizer, state, lambda after_step: state.join(optimizer, after_step)

    def plain(model):
        optimizer = sluice.torch.Optimizer(model, DENSE, inner=sgd(model), job=job, uneven=True)
        return model, optimizer, optimizer, optimizer.join

    def shards(model):
        optimizer = sluice.torch.Optimizer(model, DENSE, lr=0.1, job=job, uneven=True)
        return model, optimizer, optimizer, optimizer.join

    digests = []
    for make in (ddp, plain, shards):
        for falling in (False, True):  # with True, the rate changes in each step
            model, optimizer, state, join_others = make(network())
            after_step = None
            if falling:
                after_step = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 ** step).step
            for step in range(6 - 3 * job.rank):
                step_of(model, optimizer, rows(step, job.rank))
                if after_step:
                    after_step()
            assert join_others(after_step) == 3 * job.rank
            digests.append(state.verify())
            assert state.model.step == 7, state.model.step  # the last step has no gradient
            assert optimizer.param_groups[0]["lr"] == (0.1 * 0.5 ** 6 if falling else 0.1)
            state.close()
    assert digests[:2] == digests[2:4] and len(set(digests)) == 4, digests
    model, optimizer, _, _ = shards(network())
    optimizer.found_inf = torch.tensor(0.0)  # as a scaler does
    refused(optimizer.step, "a GradScaler lets the ranks agree")
    optimizer.close()
    try:
        wrapped(job, network(), DENSE, uneven=True, find_unused_parameters=True)
    except sluice.InvalidError as error:
        assert "find_unused_parameters=True lets the ranks agree" in str(error)
    else:
        raise AssertionError("find_unused_parameters was not refused")


def uneven_clipped(job):
    """A rank without batches clips the mean as the others do. The clipping is that of all means, which changes the result."""
    digests = []
    for limit in (0.05, 1e6):
        for inner in (False, True):
            model = network()
            if inner:
                ddp, optimizer = model, sluice.torch.Optimizer(model, DENSE, inner=sgd(model), job=job, uneven=True)
                clipped = ((lambda: optimizer.clip_grad_norm_(limit)),
                           (lambda: nn.utils.clip_grad_norm_(model.parameters(), limit)))
                state, join_others = optimizer, optimizer.join
            else:
                ddp, state = wrapped(job, model, DENSE, uneven=True)
                optimizer = sgd(ddp)
                clipped = 2 * ((lambda: nn.utils.clip_grad_norm_(ddp.parameters(), limit)),)
                join_others = functools.partial(state.join, optimizer)
            for step in range(6 - 3 * job.rank):
                optimizer.zero_grad()
                cross_entropy(ddp(rows(step, job.rank)[0]), rows(step, job.rank)[1]).backward()
                clipped[0]()
                optimizer.step()
            counted = []
            join_others(before_step=lambda: counted.append(clipped[len(counted) % 2]()))
            assert len(counted) == 3 * job.rank
            digests.append(state.verify())
            state.close()
    assert digests[0] == digests[1] != digests[2] == digests[3], digests
    shards = sluice.torch.Optimizer(network(), DENSE, lr=0.1, job=job, uneven=True)
    refused(lambda: shards.join(before_step=list), "the shards make the step, so no rank has the mean")
    shards.close()


def uneven_from_the_start(job):
    """A rank that has no batch, or one, takes part when DDP orders its buckets again."""
    for idle, few in ((1, 0), (1, 1), (0, 1), (1, 2)):
        for options in ({}, {"bucket_cap_mb": 0.0005}):
            ddp, state = wrapped(job, network(), DENSE, uneven=True, **options)
            optimizer = sgd(ddp)
            steps = few if job.rank == idle else 4
            for step in range(steps):
                step_of(ddp, optimizer, rows(step, job.rank))
            assert state.join(optimizer) == 4 - steps
            step_of(ddp, optimizer, rows(9, job.rank))
            state.verify()
            state.close()
    refused(lambda: wrapped(job, network(), DENSE, uneven=True, static_graph=True), "static_graph=True lets the ranks agree")


def ddp_without_steps(job):
    """A loop like that of a GAN: the discriminator has two backwards per step, and one through it trains the generator."""
    def train(recipe, way, **options):
        ddp, state = wrapped(job, network(), recipe, **options)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for step in range(5):
                optimizer.zero_grad()
                x, y = rows(step, job.rank)
                for _ in range(way in ("two", "no_sync")):
                    with ddp.no_sync() if way == "no_sync" else contextlib.nullcontext():
                        cross_entropy(ddp(x), y).backward()
                cross_entropy(ddp(x), y).backward()
                torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=0.1).step()
                if way == "class":
                    with torch.no_grad():
                        [p.sub_(0.1 * p.grad) for p in ddp.parameters()]
                elif not state.skipped:
                    optimizer.step()
                if way == "through":
                    with_gradient = x.clone().requires_grad_(True)
                    cross_entropy(ddp(with_gradient), y).backward()
                if way == "skip" and step == 2:
                    (cross_entropy(ddp(x), y) * float("nan" if job.rank else "1")).backward()
                    assert state.skipped
        state.verify()
        state.close()
        return sum("two backwards have exchanged gradients without a step" in str(w.message) for w in caught)

    expected = int(torch_version >= [2, 0] and job.rank == 0)
    for recipe, warned in ((DENSE, 0), (SPARSE, expected), (DENSE + " signal=momentum(0.9)", expected)):
        for way in ("once", "two", "through", "no_sync", "class"):
            assert train(recipe, way) == (warned if way in ("two", "through") else 0), (recipe, way)
    assert train(SPARSE + " nonfinite=skip-all", "skip") == 0


def ddp_two_momenta(job):
    model = network()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wrapped(job, model, "sketched", optimizer=sgd(model))[1].close()
    assert any("SGD also has momentum" in str(w.message) for w in caught) == (job.rank == 0), caught


def recipe_of_environment(job):
    model = network()
    os.environ["SLUICE_RECIPE"] = SPARSE
    try:
        _, state = wrapped(job, model, None)
        optimizer = sluice.torch.Optimizer(model, inner=sgd(model), job=job)
        for opened in (state, optimizer):
            assert str(opened.model.recipe).startswith("up=topk(0.1),"), opened.model.recipe
            assert opened.model.recipe.get("update") == "none"
            opened.close()
        os.environ["SLUICE_RECIPE"] += " update=sgd"
        refused(lambda: wrapped(job, model, None), "SLUICE_RECIPE says update=sgd, but a torch optimizer steps here")
    finally:
        del os.environ["SLUICE_RECIPE"]


def warned_of_clipping(run):
    """Returns run()'s result and the number of warnings that a gradient was reduced."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run()
    return result, sum("was made smaller" in str(w.message) for w in caught)


def clip(model):
    return nn.utils.clip_grad_norm_(model.parameters(), 0.01)


def ddp_clip(job):
    """compress(clip=) means the same as the recipe's clip=."""
    digests = []
    for recipe, limit in ((SPARSE + " clip=0.5", None), (SPARSE, 0.5), (SPARSE + " clip=0.5", 0.5)):
        ddp, state = wrapped(job, network(), recipe, clip=limit)
        optimizer = sgd(ddp)
        for step in range(4):
            step_of(ddp, optimizer, rows(step, job.rank))
        digests.append(state.verify())
        state.close()
    assert len(set(digests)) == 1, digests
    refused(lambda: wrapped(job, network(), SPARSE + " clip=1", clip=0.5), "clip=0.5, but the recipe has clip=1")
    refused(lambda: wrapped(job, network(), SPARSE, clip=0), "clip=0, must be finite and > 0")


def ddp_clipped_mean(job):
    """Warns once if the script reduces a mean with momentum. Steps of an optimizer cause no warning."""
    def train(recipe, make, between, with_view=False, scaler=None):
        ddp, state = wrapped(job, network(), recipe, gradient_as_bucket_view=with_view, scaler=scaler)
        optimizer = make(ddp.parameters())
        other = torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=0.1)
        for step in range(4):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            x, y = rows(step, job.rank)
            (cross_entropy(ddp(x), y) * (scaler.scale if scaler else 1)).backward()
            between(ddp)
            other.step()
            optimizer.step()
        state.verify()
        state.close()

    momentum = SPARSE + " signal=momentum(0.9)"
    newer = torch_version >= [2, 0]

    def plain(parameters):
        return torch.optim.SGD(parameters, lr=0.1)

    for recipe, wanted in ((momentum, newer), (SPARSE, 0)):
        for with_view in (False, True):
            _, warned = warned_of_clipping(lambda: train(recipe, plain, clip, with_view))
            assert warned == wanted, (recipe, with_view, warned)
    makers = [plain, lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
              lambda p: torch.optim.AdamW(p, lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1)]
    if newer:
        makers += [lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
                   lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1, foreach=True)]
    if torch_version >= [2, 6]:
        makers.append(lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, fused=True))
    for make in makers:
        for with_view in (False, True):
            _, warned = warned_of_clipping(lambda: train(momentum, make, lambda ddp: None, with_view))
            assert warned == 0, make(network().parameters())

    # The script removes the scale of a GradScaler, without and with clipping.
    scaler = Scaler()

    def unscale(ddp):
        for p in ddp.parameters():
            p.grad.mul_(1 / scaler.scale)

    for with_view in (False, True):
        _, warned = warned_of_clipping(lambda: train(momentum, plain, unscale, with_view, scaler))
        assert warned == 0, with_view
        _, warned = warned_of_clipping(lambda: train(momentum, plain, lambda ddp: (unscale(ddp), clip(ddp)), with_view, scaler))
        assert warned == newer, with_view


def ddp_twice(job):
    """Changes the recipe in the middle of a training, and copies the model."""
    model = network()
    ddp, state = wrapped(job, model, DENSE)
    refused(lambda: sluice.torch.compress(ddp, SPARSE, job=job), "this model is already compressed: call close()")
    optimizer = sgd(ddp)
    for step in range(2):
        step_of(ddp, optimizer, rows(step, job.rank))
    file = io.BytesIO()
    torch.save(ddp, file)
    options = {"weights_only": False} if torch_version >= [2, 0] else {}
    for other in (copy.deepcopy(ddp), torch.load(io.BytesIO(file.getvalue()), **options)):
        step_of(other, sgd(other), rows(2, job.rank))  # a step of plain DDP
        compressed = sluice.torch.compress(other, SPARSE, job=job)
        step_of(other, sgd(other), rows(3, job.rank))
        assert compressed.verify() and compressed.stats()["steps"] == 1
        compressed.close()
    assert state.stats()["steps"] == 2
    state.close()
    state = sluice.torch.compress(ddp, DENSE, job=job)
    for step in range(2, 4):
        step_of(ddp, optimizer, rows(step, job.rank))
    check_close(model, expected(4))
    assert state.stats()["steps"] == 2
    state.close()


class Table(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.last = nn.Embedding(12, 8, sparse=sparse), nn.Linear(8, 4)
        self.nothing = nn.Parameter(torch.zeros(0))
        self.other = nn.Identity()
        self.other.sparse = True  # an attribute of the program's own, in a module without weights

    def forward(self, x):
        return self.last(self.table(x.argmax(1))) + self.nothing.sum()


def ddp_sparse_and_empty(job):
    """Sparse gradients are refused, and the parameter is named. A parameter without elements is allowed."""
    refused(lambda: wrapped(job, Table(True), DENSE), "table.weight has sparse gradients")
    ddp, state = wrapped(job, Table(False), SPARSE)
    optimizer = sgd(ddp)
    for step in range(3):
        step_of(ddp, optimizer, rows(step, job.rank))
    state.verify()
    state.close()
    for recipe, of_model in itertools.product((DENSE, SPARSE), (False, True)):
        model, alone = Table(True), Table(False)
        optimizer, reference = sluice.torch.Optimizer(model, recipe, inner=sgd(model), job=job), sgd(alone)
        for step in range(3):
            (model if of_model else optimizer).zero_grad()  # the model's drops the dense gradients
            x, y = rows(step, job.rank)
            cross_entropy(model(x), y).backward()
            optimizer.step()
            step_of(alone, reference, all_rows(step))
        if recipe == DENSE:
            check_close(model, alone)
        optimizer.verify()
        optimizer.close()


def rank_ddp(job, folder):
    join(job)
    for check in (ddp_dense, ddp_sparse, ddp_accumulates, ddp_unused, ddp_unused_strided, ddp_tasks,
                  ddp_unused_and_watched, ddp_unused_and_frozen_later, ddp_frozen,
                  ddp_other_order, ddp_range_by_range, ddp_whole_vector, ddp_bfloat16, ddp_mixed_types,
                  ddp_overflow, ddp_overflow_unused, ddp_scaler_disabled, skip_all, ddp_two_models,
                  ddp_workers_of_a_loader, ddp_buffers, ddp_refused, ddp_two_momenta,
                  recipe_of_environment, uneven, uneven_clipped, uneven_from_the_start,
                  ddp_without_steps, ddp_clip, ddp_clipped_mean, ddp_twice, ddp_sparse_and_empty):
        print(check.__name__, flush=True)
        check(job)
    ddp_resumed(job, folder)
    state_of_rank_0(job)
    job.close()


# ---- the optimizer -------------------------------------------------------------------------------

def optimizer_steps(job, make, steps, before=None):
    model = network(job.rank)
    optimizer = make(model)
    for step in range(steps):
        if before:
            before(step, model, optimizer)
        else:
            optimizer.zero_grad()
        cross_entropy(model(rows(step, job.rank)[0]), rows(step, job.rank)[1]).backward()
        optimizer.step()
    digest = optimizer.verify()
    return model, optimizer, digest


def optimizer_clips(job):
    """Clips the mean, as over Gloo, and not each rank's gradient."""
    def train(between, recipe=DENSE, clip_one=None):
        model = network(job.rank)
        optimizer = sluice.torch.Optimizer(model, recipe, inner=sgd(model), clip=clip_one, job=job)
        for step in range(4):
            (optimizer if step % 2 else model).zero_grad()
            x, y = rows(step, job.rank)
            cross_entropy(model(x), y).backward()
            between(model, optimizer)
            optimizer.step()
        assert optimizer.stats()["steps"] == 4
        optimizer.verify()
        optimizer.close()
        return model

    alone = network()
    reference = sgd(alone)
    for step in range(4):
        reference.zero_grad()
        x, y = all_rows(step)
        cross_entropy(alone(x), y).backward()
        clip(alone)
        reference.step()

    def synchronized(model, optimizer):
        optimizer.synchronize()
        clip(model)

    for between in (lambda _, optimizer: optimizer.clip_grad_norm_(0.01), synchronized):
        model, warned = warned_of_clipping(lambda: train(between))
        check_close(model, alone, 1e-6)
        assert warned == 0
        _, warned = warned_of_clipping(lambda: train(between, SPARSE + " signal=momentum(0.9)"))
        assert warned == 1, warned
    assert warned_of_clipping(lambda: train(lambda model, _: clip(model)))[1] == 1
    assert warned_of_clipping(lambda: train(lambda *_: None, SPARSE + " signal=momentum(0.9)", 0.5))[1] == 0

    # Each backward pass after synchronize() makes the earlier mean stale. A program may skip step().
    model = network()
    optimizer = sluice.torch.Optimizer(model, DENSE, inner=sgd(model), job=job)
    for step in range(3):
        model.zero_grad()
        cross_entropy(model(rows(step, job.rank)[0]), rows(step, job.rank)[1]).backward()
        optimizer.synchronize()
    optimizer.step()
    assert optimizer.stats()["steps"] == 3
    optimizer.close()

    # zero_grad() does so, too, also if the next gradient comes from no backward.
    model = network()
    optimizer = sluice.torch.Optimizer(model, DENSE, inner=sgd(model), job=job)
    for step in range(2):
        optimizer.zero_grad()
        for p in model.parameters():
            p.grad.fill_(job.rank + step)
        optimizer.synchronize()
    optimizer.step()
    assert optimizer.stats()["steps"] == 2 and (model[0].bias.grad == 1.5).all(), model[0].bias.grad
    optimizer.verify()
    optimizer.close()
    model = network()
    optimizer = sluice.torch.Optimizer(model, DENSE, lr=0.1, job=job)
    refused(lambda: optimizer.clip_grad_norm_(1.0), "the shards make the step")
    optimizer.close()
    refused(lambda: sluice.torch.Optimizer(model, DENSE, inner=torch.optim.LBFGS(model.parameters()), job=job),
            "inner=LBFGS computes several gradients in a step")
    optimizer = sluice.torch.Optimizer(model, DENSE, inner=sgd(model), job=job)
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=4)  # it reads the momentum of inner
    optimizer.close()


def optimizer_frozen_later(job):
    """inner leaves a parameter alone that is frozen in the middle of a run, as torch does without Sluice."""
    model = network()
    optimizer = sluice.torch.Optimizer(model, SPARSE, inner=torch.optim.AdamW(model.parameters(), lr=0.01), job=job)
    frozen = next(model.parameters())
    for step in range(8):
        if step == 3:
            frozen.requires_grad_(False)
            before = frozen.clone()
        optimizer.zero_grad()
        x, y = rows(step, job.rank)
        cross_entropy(model(x), y).backward()
        optimizer.step()
    assert torch.equal(frozen, before)
    optimizer.verify()
    optimizer.close()


def optimizer_moved_gradients(job):
    """The gradients get other memory, which does not change the result."""
    def limited(model):
        for p in model.parameters():
            p.grad.data = p.grad.data.clamp(-10, 10)

    def convolutions():
        torch.manual_seed(0)
        return nn.Sequential(nn.Unflatten(1, (3, 2, 2)), nn.Conv2d(3, 4, 2), nn.Flatten())

    for make, move, inner in ((network, lambda model: model.double().float(), True), (network, limited, True),
                              (convolutions, lambda model: model.to(memory_format=torch.channels_last), True),
                              (network, limited, False)):
        model, alone = make(), make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of gradients that have other strides than the parameter
            optimizer = (sluice.torch.Optimizer(model, DENSE, inner=sgd(model), job=job) if inner else
                         sluice.torch.Optimizer(model, DENSE + " update=momentum(0.9)", lr=0.1, job=job))
            reference = sgd(alone)
            for step in range(6):
                optimizer.zero_grad()
                if move is not limited and step == 2:
                    move(model)
                x, y = rows(step, job.rank)
                cross_entropy(model(x), y).backward()
                if move is limited or step == 4:
                    move(model)
                optimizer.step()
                step_of(alone, reference, all_rows(step))
        check_close(model, alone)
        optimizer.verify()
        if inner and move is not limited:
            model.to(torch.bfloat16)
            refused(optimizer.step, "0.weight is now of torch.bfloat16 on cpu" if make is network else
                    "1.weight is now of torch.bfloat16 on cpu")
        optimizer.close()


def optimizer_other_orders(job):
    """The elements of a weight are in the same order in memory on all ranks, or it is refused."""
    for differs in (False, True):
        model = network()
        if job.rank or not differs:
            model[2].weight.data = model[2].weight.data.t().contiguous().t()
        for make in (lambda: sluice.torch.Optimizer(model, DENSE, lr=0.1, job=job),
                     lambda: sluice.torch.Optimizer(model, DENSE, inner=sgd(model), job=job),
                     lambda: sluice.torch.LocalSteps(model, sgd(model), "diloco", job=job)):
            if differs:
                refused(make, "2.weight are in another order in memory on rank 1 than on rank 0")
            else:
                make().close()


def optimizer_shared_memory(job):
    """Parameters that share memory would be torn apart. The same parameter in two modules is one."""
    tied, twice = ([nn.Linear(8, 8, bias=False) for _ in range(2)] for _ in range(2))
    tied[1].weight, twice[1].weight = tied[0].weight, nn.Parameter(twice[0].weight)
    flat = torch.randn(2, 8, 8)
    apart = [nn.Linear(8, 8, bias=False) for _ in range(2)]
    for layer, weight in zip(apart, flat):
        layer.weight = nn.Parameter(weight)
    for make in (lambda model: sluice.torch.Optimizer(model, DENSE, lr=0.1, job=job),
                 lambda model: sluice.torch.LocalSteps(model, sgd(model), "diloco", job=job)):
        for layers in tied, apart:
            make(nn.Sequential(*layers)).close()
        refused(lambda: make(nn.Sequential(*twice)), "0.weight and 1.weight share memory")


def optimizer_loads_inner(job):
    """inner loads its own state, which replaces its groups. A scheduler of the optimizer still sets the rate of inner."""
    model = network()
    inner = sgd(model)
    optimizer = sluice.torch.Optimizer(model, DENSE, inner=inner, job=job)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 ** step)
    inner.load_state_dict(copy.deepcopy(inner.state_dict()))
    step_of(model, optimizer, rows(0, job.rank))
    scheduler.step()
    assert optimizer.param_groups is inner.param_groups and inner.param_groups[0]["lr"] == 0.05
    optimizer.param_groups = [dict(inner.param_groups[0], lr=0.025)]
    assert inner.param_groups[0]["lr"] == 0.025
    optimizer.close()


def optimizer_empty(job):
    """A parameter without elements, also in a group with its own weight decay."""
    for groups in (False, True):
        model, alone = Table(False), Table(False)
        params = [{"params": [model.table.weight, model.nothing], "weight_decay": 0.1},
                  {"params": model.last.parameters()}] if groups else model
        optimizer = sluice.torch.Optimizer(params, DENSE, lr=0.1, job=job)
        reference = torch.optim.SGD([{"params": [alone.table.weight], "weight_decay": 0.1 if groups else 0},
                                     {"params": alone.last.parameters()}], lr=0.1)
        for step in range(3):
            step_of(model, optimizer, rows(step, job.rank))
            step_of(alone, reference, all_rows(step))
        check_close(model, alone)
        optimizer.close()


# Pairs of a recipe whose shards step, and the optimizer of torch that makes the same steps.
STEPPERS = ((" decay=0.01", lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01)),
            (" update=adam(0.5,0.9,1e-3) decay=0.01",
             lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.01)),
            (" update=adamw(0.5,0.9,1e-3,0.01)",
             lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.01)))


def optimizer_rate_zero(job):
    """The schedule begins and ends with rate 0. A step with rate 0 changes nothing."""
    rates = (0.0, 0.05, 0.1, 0.05, 0.0)
    for begin, (words, make) in itertools.product((0.0, 0.1), STEPPERS):
        model, alone = network(), network()
        optimizer = sluice.torch.Optimizer(model, DENSE + words, lr=begin, job=job)
        reference = make(alone.parameters())
        for step, rate in enumerate(rates):
            optimizer.param_groups[0]["lr"] = reference.param_groups[0]["lr"] = rate
            step_of(model, optimizer, rows(step, job.rank))
            step_of(alone, reference, all_rows(step))
            check_close(model, alone)
        optimizer.close()
    refused(lambda: sluice.torch.Optimizer(network(), DENSE, lr=-1, job=job), "lr=-1, must be finite and >= 0")
    refused(lambda: sluice.torch.Optimizer([{"params": network().parameters(), "lr": 0.1}], DENSE, lr=0, job=job),
            "lr=0, but a group has another lr")


def rank_optimizer(job, folder):
    def shards(model, **options):
        return sluice.torch.Optimizer(model, DENSE + " update=momentum(0.9)", lr=0.1, job=job, **options)

    def inner(model, recipe=DENSE):
        return sluice.torch.Optimizer(model, recipe, inner=sgd(model), job=job)

    for make in (shards, inner):
        model, optimizer, _ = optimizer_steps(job, make, 5)
        check_close(model, expected(5))
        assert optimizer.stats()["copied_bytes"] == 0
        optimizer.close()

    # gradients that are new tensors, as after model.zero_grad(set_to_none=True), and a frozen layer
    def fresh(_, model, __):
        for p in model.parameters():
            p.grad = None

    model, optimizer, _ = optimizer_steps(job, shards, 5, fresh)
    check_close(model, expected(5))
    assert optimizer.stats()["copied_bytes"] > 0

    # one rank changes a parameter by hand
    with torch.no_grad():
        model[4].bias[2] += job.rank
    try:
        optimizer.verify()
    except sluice.InvalidError as error:
        assert "4.bias differs between the workers: rank 1 of 2" in str(error), error
    else:
        raise AssertionError("the change was not detected")

    # parameters that were moved are not silently left out
    model[2].bias.data = model[2].bias.data.clone()
    try:
        step_of(model, optimizer, rows(0, job.rank))
    except sluice.InvalidError as error:
        assert "2.bias was moved to other memory" in str(error), error
    else:
        raise AssertionError("a parameter that steps cannot change was not detected")
    optimizer.close()

    # parameters of 16 bits: small steps are not lost, because shards and pulls use 32 bits
    def halves(steps):
        model = network().to(torch.bfloat16)
        optimizer = sluice.torch.Optimizer(model, DENSE, lr=1e-4, job=job)
        before = model[4].bias.detach().float().clone()
        for _ in range(steps):
            optimizer.zero_grad()
            model[4].bias.float().sum().backward()
            optimizer.step()
        optimizer.verify()
        assert optimizer.stats()["copied_bytes"] == 0
        optimizer.close()
        return before - model[4].bias.float()

    assert (halves(1).abs() < 5e-4).all() and ((halves(200) - 0.02).abs() < 2e-3).all(), halves(200)
    for recipe in (DENSE, SPARSE):
        model = network().to(torch.bfloat16)
        optimizer = inner(model, recipe)
        for step in range(3):
            optimizer.zero_grad()
            x, y = rows(step, job.rank)
            cross_entropy(model(x.to(torch.bfloat16)).float(), y).backward()
            optimizer.step()
        optimizer.verify()
        assert optimizer.stats()["copied_bytes"] == 0
        optimizer.close()

    # A frozen layer also begins with the parameters of rank 0. Later it is unfrozen, which is too late.
    for make in (shards, inner):
        model = network(job.rank)
        model[2].requires_grad_(False)
        optimizer = make(model)
        for step in range(2):
            step_of(model, optimizer, rows(step, job.rank))
        optimizer.verify()
        assert torch.equal(model[2].weight, network()[2].weight)
        model[2].requires_grad_(True)
        refused(lambda: step_of(model, optimizer, rows(2, job.rank)), "2.weight was not known when Sluice was told")
        optimizer.close()

    # parameters that only inner has
    model = network()
    refused(lambda: sluice.torch.Optimizer(model[:3].parameters(), DENSE, inner=sgd(model), job=job),
            "parameter 4 of group 0 was not known")
    optimizer = sluice.torch.Optimizer(model[:3].parameters(), DENSE, inner=sgd(model[:3]), job=job)
    optimizer.add_param_group({"params": list(model[4].parameters())})
    refused(lambda: step_of(model, optimizer, rows(0, job.rank)), "parameter 0 of group 1 was not known")
    optimizer.close()

    # groups with different rates and weight decays, which a scheduler reduces together
    def groups(model):
        return [{"params": model[:3].named_parameters(), "weight_decay": 0.1},
                {"params": model[4].named_parameters(prefix="4"), "lr": 0.02}]

    def falls(optimizer):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.7 ** step)

    for words, make in STEPPERS:
        model, alone = network(), network()
        optimizer = sluice.torch.Optimizer(groups(model), DENSE + words, lr=0.1, job=job)
        reference = make([{"params": list(alone[:3].parameters()), "weight_decay": 0.1},
                          {"params": list(alone[4].parameters()), "lr": 0.02}])
        schedulers = [falls(optimizer), falls(reference)]
        for step in range(4):
            step_of(model, optimizer, rows(step, job.rank))
            step_of(alone, reference, all_rows(step))
            for scheduler in schedulers:
                scheduler.step()
        check_close(model, alone, 1e-6 if "adam" not in words else 1e-5)
        if words != STEPPERS[-1][0]:
            optimizer.close()
    assert optimizer.layout.names[-1] == "4.bias"
    for key, value, why in (("weight_decay", 0.2, "group 1 has weight_decay=0.2"),
                            ("lr", 0.02, "group 1 has lr=0.02, and group 0 has")):
        before = optimizer.param_groups[1].get(key)
        optimizer.param_groups[1][key] = value
        refused(optimizer.step, why)
        optimizer.param_groups[1][key] = before
    optimizer.close()
    refused(lambda: sluice.torch.Optimizer(groups(model), DENSE, inner=sgd(model), job=job), "without groups")
    refused(lambda: sluice.torch.Optimizer([{"params": [], "momentum": 1}], DENSE, lr=1, job=job), "has momentum=")
    refused(lambda: sluice.torch.Optimizer(groups(model), "sketched", lr=1, job=job), "rules are not possible with")

    # recipes for which a gradient at the parameters is not what is pushed
    for words, why in (("update=average", "update=average, so the library takes the parameters"),
                       ("update=ema(0.1) signal=igt(0.1)", "signal=igt, so gradients belong to another point")):
        refused(lambda: sluice.torch.Optimizer(network(), f"{DENSE} {words}", lr=0.1, job=job), why)

    # a scheduler changes the rate of the shards
    def slower(step, model, optimizer):
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] = 0.1 if step < 2 else 0.05

    model, optimizer, _ = optimizer_steps(
        job, lambda m: sluice.torch.Optimizer(m, DENSE, lr=0.1, job=job), 4, slower)
    alone = network()
    reference = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(4):
        reference.param_groups[0]["lr"] = 0.1 if step < 2 else 0.05
        step_of(alone, reference, all_rows(step))
    check_close(model, alone)
    optimizer.close()

    # interrupted and resumed: the checkpoint has parameters and residuals, and another rate than the next step
    def rising(step, _, optimizer):
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] = 0.05 if step < 5 else 0.1

    def go_on(model, optimizer):
        for step in range(5, 8):
            rising(step, model, optimizer)
            step_of(model, optimizer, rows(step, job.rank))
        digest = optimizer.verify()
        optimizer.close()
        return digest

    def sparse(model):
        return sluice.torch.Optimizer(model, SPARSE, lr=0.1, job=job)

    _, optimizer, whole = optimizer_steps(job, sparse, 8, rising)
    optimizer.close()
    _, optimizer, _ = optimizer_steps(job, sparse, 5, rising)
    optimizer.checkpoint(os.path.join(folder, "optimizer"))
    saved = optimizer.state_dict()
    optimizer.close()
    model = network(3)
    optimizer = sparse(model)
    assert optimizer.restore(os.path.join(folder, "optimizer")) == 5
    assert go_on(model, optimizer) == whole
    model = network(3)
    optimizer = sparse(model)
    optimizer.load_state_dict(saved)
    assert go_on(model, optimizer) == whole

    optimizer_clips(job)
    optimizer_rate_zero(job)
    optimizer_moved_gradients(job)
    optimizer_frozen_later(job)
    optimizer_other_orders(job)
    optimizer_shared_memory(job)
    optimizer_loads_inner(job)
    optimizer_empty(job)

    # momentum in the recipe and in the optimizer
    for recipe, warned in ((DENSE + " signal=momentum(0.9)", True), ("sketched", True), ("scalecom", False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            inner(network(), recipe).close()
        assert any("SGD also has momentum" in str(w.message) for w in caught) == (warned and job.rank == 0), (
            recipe, caught)

    # an overflow that only the scaler of one rank has seen
    model = network()
    optimizer = inner(model)
    optimizer.zero_grad()
    cross_entropy(model(rows(0, job.rank)[0]), rows(0, job.rank)[1]).backward()
    before = model[0].weight.detach().clone()
    optimizer.found_inf, optimizer.grad_scale = torch.tensor(float(job.rank)), torch.tensor(2.0)
    optimizer.step()
    assert torch.equal(model[0].weight, before) and optimizer.stats()["skipped_steps"] == 1
    optimizer.close()
    job.close()


# ---- features of newer versions of torch -------------------------------------------------------------

def rank_scaler(job, _):
    """Uses torch's GradScaler. If rank 1 overflows, no rank makes that step."""
    join(job)
    for with_ddp in (True, False):
        model = network()
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        if with_ddp:
            forward, state = wrapped(job, model, SPARSE, scaler=scaler)
            optimizer = sgd(forward)
        else:
            forward, optimizer = model, sluice.torch.Optimizer(model, SPARSE, lr=0.1, job=job)
            state = optimizer
        for step in range(6):
            optimizer.zero_grad()
            x, y = rows(step, job.rank)
            loss = cross_entropy(forward(x), y)
            scaler.scale(loss * 1e39 if job.rank == 1 and step == 3 else loss).backward()
            scaler.step(optimizer)
            scaler.update()
            assert state.skipped == (step == 3)
        state.verify()
        stats = state.stats()
        assert (stats["steps"], stats["skipped_steps"]) == (5, 1), stats
        assert scaler.get_scale() == (512.0 if with_ddp or job.rank == 1 else 1024.0), scaler.get_scale()
        state.close()

    # unscale_() is not mistaken for clipping, and the mean is clipped after the scale was removed
    def train(between, overflows):
        model, scaler = network(), torch.amp.GradScaler("cpu", init_scale=1024.0)
        optimizer = sluice.torch.Optimizer(model, DENSE + " nonfinite=skip-all", inner=sgd(model), job=job)
        for step in range(6):
            optimizer.zero_grad()
            x, y = rows(step, job.rank)
            loss = cross_entropy(model(x), y)
            scaler.scale(loss * 1e39 if overflows and job.rank == 1 and step == 3 else loss).backward()
            between(scaler, model, optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert optimizer.verify() and optimizer.stats()["skipped_steps"] == overflows
        optimizer.close()

    def unscaled(scaler, _, optimizer):
        scaler.unscale_(optimizer)

    def clipped(scaler, _, optimizer):
        scaler.unscale_(optimizer)
        assert optimizer.clip_grad_norm_(0.01) < 10

    def clipped_here(scaler, model, optimizer):
        scaler.unscale_(optimizer)
        clip(model)

    for between, overflows, wanted in ((unscaled, 1, 0), (clipped, 1, 0), (clipped_here, 0, 1)):
        assert warned_of_clipping(lambda: train(between, overflows))[1] == wanted, between
    refused(lambda: train(lambda *parts: parts[2].synchronize(), 0), "call scaler.unscale_(optimizer) before")
    job.close()


def rank_compile(job, _):
    join(job)
    digests = []

    def compiled(model):
        return torch.compile(model, backend="aot_eager")

    for way in ("not", "before compress()", "after it", "within"):
        ddp = DistributedDataParallel(compiled(network()) if way == "within" else network())
        forward = compiled(ddp) if way == "before compress()" else ddp
        state = sluice.torch.compress(ddp, DENSE, job=job)
        if way == "after it":
            forward = compiled(ddp)
        optimizer = sgd(ddp)
        for step in range(3):
            step_of(forward, optimizer, rows(step, job.rank))
        digests.append(state.verify())
        state.close()
    assert len(set(digests)) == 1, digests
    job.close()


def rank_distributed_checkpoint(job, folder):
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    torch.distributed.init_process_group("gloo", rank=job.rank, world_size=RANKS,
                                         store=torch.distributed.FileStore(folder + "/store", RANKS))
    path = os.path.join(folder, "distributed")

    def part(steps, resume=False, save=False):
        model = network()
        ddp, state = wrapped(job, model, SPARSE)
        optimizer = sgd(ddp)
        if resume:
            saved = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)), sluice=state.state_dict())
            checkpoint.load(saved, checkpoint_id=path)
            set_state_dict(model, optimizer, model_state_dict=saved["model"],
                           optim_state_dict=saved["optimizer"])
            assert state.load_state_dict(saved["sluice"]) == steps[0]
        for step in steps:
            step_of(ddp, optimizer, rows(step, job.rank))
        if save:
            checkpoint.save(dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)),
                                 sluice=state.state_dict()), checkpoint_id=path)
        digest = state.verify()
        state.close()
        return digest

    whole = part(range(8))
    part(range(5), save=True)
    assert part(range(5, 8), resume=True) == whole, "the resumed run ends with different parameters"
    job.close()
    torch.distributed.destroy_process_group()


# ---- FSDP2 ---------------------------------------------------------------------------------------

FSDP_RANKS = 4


def rank_fsdp(job, folder):
    """Two replicas have two pieces each. Gloo works inside a replica, and Sluice between the replicas."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    torch.distributed.init_process_group("gloo", rank=job.rank, world_size=FSDP_RANKS,
                                         store=torch.distributed.FileStore(folder + "/store", FSDP_RANKS))
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))

    def shards(seed, mesh):
        model = network(seed)
        for layer in (model[0], model[2], model):
            fully_shard(layer, mesh=mesh)
        return model

    def trained(recipe, steps, save=None, restore=None):
        model = shards(job.rank // 2, mesh["shard"])  # the second replica begins with different parameters
        state = sluice.torch.replicate(model, mesh["shard"], recipe, job=job)
        optimizer = sgd(model)
        if restore:
            if restore[2] is None:
                state.restore(os.path.join(folder, "fsdp"))
            else:
                state.load_state_dict(torch.load(io.BytesIO(restore[2])))
            for p, value in zip(model.parameters(), restore[0]):
                p.data.to_local().copy_(value)
            optimizer.load_state_dict(copy.deepcopy(restore[1]))
        losses = [step_of(model, optimizer, rows(step, job.rank)).item() for step in steps]
        digest, file = state.verify(), io.BytesIO()
        if save:
            state.checkpoint(os.path.join(folder, "fsdp"))
            torch.save(state.state_dict(), file)
        assert state.stats()["steps"] == len(steps), state.stats()
        state.close()
        return model, losses, digest, ([p.to_local().detach().clone() for p in model.parameters()],
                                       optimizer.state_dict(), file.getvalue())

    model, losses, _, _ = trained(DENSE, range(4))
    alone = network()
    reference = sgd(alone)
    for step in range(4):
        pairs = [rows(step, rank) for rank in range(FSDP_RANKS)]
        step_of(alone, reference, (torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs])))
    for (name, p), wanted in zip(model.named_parameters(), alone.parameters()):
        assert isinstance(p, DTensor) and torch.allclose(p.full_tensor(), wanted, atol=1e-5), name

    # FSDP's HSDP, which uses Gloo between the replicas too
    native = shards(0, mesh)
    optimizer = sgd(native)
    for step, loss in enumerate(losses):
        wanted = step_of(native, optimizer, rows(step, job.rank)).item()
        assert abs(loss - wanted) < 1e-6, (step, loss, wanted)

    _, _, whole, _ = trained(SPARSE, range(6))
    _, _, _, saved = trained(SPARSE, range(4), save=True)
    for state in (None, saved[2]):  # from the folder, and from bytes
        _, _, resumed, _ = trained(SPARSE, range(4, 6), restore=(*saved[:2], state))
        assert resumed == whole, f"the resumed run ends with different parameters (as bytes: {state is not None})"
    os.environ["SLUICE_RECIPE"] = SPARSE
    state = sluice.torch.replicate(shards(0, mesh["shard"]), mesh["shard"], job=job)
    assert state.recipe == sluice.Recipe(SPARSE, update="none"), state.recipe
    for call, why in ((state.state_dict, "no step was made yet"),
                      (lambda: state.load_state_dict({}), f"not rank{job.rank}.module0")):
        try:
            call()
        except sluice.InvalidError as error:
            assert why in str(error), error
        else:
            raise AssertionError(f"no error says '{why}'")
    state.close()
    job.close()
    torch.distributed.destroy_process_group()


def fsdp_mesh(job, folder):
    from torch.distributed.device_mesh import init_device_mesh

    torch.distributed.init_process_group("gloo", rank=job.rank, world_size=FSDP_RANKS,
                                         store=torch.distributed.FileStore(folder + "/store", FSDP_RANKS))
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))


def fsdp_blocks(mesh, blocks, policy=None, idle=False):
    """idle: the second block has a parameter that the forward does not use."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(3)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(blocks)), nn.Linear(4, 2))
    if idle:
        model[1].idle = nn.Parameter(torch.ones(3, 3))
    for part in (*model[:-1], model):
        fully_shard(part, mesh=mesh, **({"mp_policy": policy} if policy else {}))
    return model


def fsdp_train(job, model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in steps:
        generator = torch.Generator().manual_seed(10 * step + job.rank)
        optimizer.zero_grad()
        model(torch.randn(3, 4, generator=generator)).float().pow(2).mean().backward()
        optimizer.step()
    return [p.full_tensor().detach().clone() for p in model.parameters()]


def rank_fsdp_deep(job, folder):
    """A model with 24 blocks and a root, which opens one model of the job for each, all in one call. Dense parameters are
    those of FSDP's HSDP, also in mixed precision, and if a module has fewer gradients than trainable parameters."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    mesh = fsdp_mesh(job, folder)
    for blocks, policy, idle in ((24, None, False), (1, MixedPrecisionPolicy(torch.bfloat16, torch.float32), False),
                                 (2, None, True)):
        model = fsdp_blocks(mesh["shard"], blocks, policy, idle)
        state = sluice.torch.replicate(model, mesh["shard"], DENSE, job=job)
        single, state.group.open = [], lambda open=state.group.open, **options: single.append(open(**options)) or single[-1]
        mine = fsdp_train(job, model, range(2))
        assert len(single) == idle, "models were opened one by one"
        assert len(state._models()) == blocks + 1
        assert all(one.stats()["memory_bytes"] < 200000 for one in state._models()), "a small module needs much memory"
        for p, wanted in zip(mine, fsdp_train(job, fsdp_blocks(mesh, blocks, policy, idle), range(2))):
            assert torch.equal(p, wanted), (blocks, policy, p - wanted)
        state.close()
    job.close()
    torch.distributed.destroy_process_group()


def rank_fsdp_branches(job, folder):
    """Two heads of one length are used in turn, and head 1 with a loss of 0. In one piece it gets the residual of head 0."""
    from torch.distributed.fsdp import fully_shard

    mesh = fsdp_mesh(job, folder)["shard"]

    class Headed(nn.Sequential):
        def forward(self, x, which):
            return sum(self[1 + i](torch.relu(self[0](x))) for i in which)

    def moved(recipe, way, both=False):
        torch.manual_seed(3)
        heads = [nn.Linear(16, 4), nn.Linear(16, 4)]
        model = Headed(nn.Linear(12, 16), *heads, nn.Linear(3, 3).requires_grad_(False))
        for part in {"each": heads, "list": [heads], "none": []}[way] + [model]:
            fully_shard(part, mesh=mesh)
        state = sluice.torch.replicate(model, mesh, recipe, job=job)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before = heads[1].weight.full_tensor().detach().clone()
        for step in range(8):
            optimizer.zero_grad()
            x, y = rows(step, job.rank)
            (cross_entropy(model(x, (0, 1) if both else (step % 2,)), y) * (1 - step % 2)).backward()
            optimizer.step()
        state.verify()
        state.close()
        return not torch.equal(heads[1].weight.full_tensor(), before)

    sparse = "up=topk(0.1) down=topk(0.1)"
    for recipe, way in ((DENSE, "none"), (DENSE, "each"), (sparse, "each"), (DENSE + " signal=momentum(0.9)", "each")):
        assert not moved(recipe, way), (recipe, way)
    for way in ("none", "each", "list"):
        assert moved(sparse, way, both=True), way
    refused(lambda: moved(sparse, "none"), "the model has 172 gradients on this rank, but only 138 in this backward")
    job.close()
    torch.distributed.destroy_process_group()


def rank_fsdp_unopened(job, folder):
    """A module that had no gradient when the state was saved: it is frozen, or used later."""
    mesh, saved = fsdp_mesh(job, folder), os.path.join(folder, "unopened")

    def opened(values=None):
        model = fsdp_blocks(mesh["shard"], 2)
        model[0].requires_grad_(False)
        for p, value in zip(model.parameters(), values or ()):
            p.detach().to_local().copy_(value)
        return model, sluice.torch.replicate(model, mesh["shard"], SPARSE, job=job)

    def passed_on():
        """The second block has a state and is frozen when the run is resumed, and its state is saved once more."""
        copied = saved + "2"
        for load, save, again in ((lambda s: s.restore(saved), lambda s: s.checkpoint(copied), lambda s, _: s.restore(copied)),
                                  (lambda s: s.load_state_dict(part), lambda s: s.state_dict(), lambda s, d: s.load_state_dict(d))):
            model, state = opened(values)
            load(state)
            model[1].requires_grad_(False)
            fsdp_train(job, model, range(2, 3))
            refused(lambda: state.change(DENSE), "make a step with all modules")
            kept = save(state)
            if kept is not None:
                key = f"rank{job.rank}.module1"
                assert torch.equal(kept[key], part[key]), "the state that waits was not passed on"
            state.close()
            model, state = opened(values)
            again(state, kept)
            fsdp_train(job, model, range(2, 3))
            assert len(state._models()) == 2
            state.close()

    def continued(model, state):
        fsdp_train(job, model, range(2, 3))
        model[0].requires_grad_(True)
        ended = fsdp_train(job, model, range(3, 5))
        assert len(state._models()) == 3
        state.close()
        return ended

    model, state = opened()
    fsdp_train(job, model, range(2))
    values = [p.detach().to_local().clone() for p in model.parameters()]
    state.checkpoint(saved)
    part = {name: value.clone() for name, value in state.state_dict().items()}
    assert sorted(value.numel() > 0 for value in part.values()) == [False, True, True], part
    whole = continued(model, state)
    for load in (lambda state: state.restore(saved), lambda state: state.load_state_dict(part)):
        model, state = opened(values)
        load(state)
        refused(lambda: state.change(DENSE), "the first backward loads the state")
        for p, wanted in zip(continued(model, state), whole):
            assert torch.equal(p, wanted), "the resumed run ends with different parameters"
    passed_on()
    refused(lambda: sluice.torch.Monitor(sluice.torch.replicate(fsdp_blocks(mesh["shard"], 1), mesh["shard"], SPARSE, job=job),
                                         error=True), "the modules of replicate() have one error each")
    stages = torch.distributed.device_mesh.init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("stage", "replicate", "shard"))
    refused(lambda: sluice.torch.replicate(fsdp_blocks(stages["shard"], 1), stages["shard"], SPARSE),
            "the mesh is part of one with 3 dimensions")
    job.close()
    torch.distributed.destroy_process_group()


def rank_fsdp_dcp(job, folder):
    """A run that torch.distributed.checkpoint has resumed, before the first backward, ends like an uninterrupted one."""
    import torch.distributed.checkpoint as dcp

    mesh, saved = fsdp_mesh(job, folder), os.path.join(folder, "dcp")
    model = fsdp_blocks(mesh["shard"], 1)
    state = sluice.torch.replicate(model, mesh["shard"], SPARSE, job=job)
    fsdp_train(job, model, range(2))
    dcp.save({"model": model.state_dict(), "compression": state.state_dict()}, checkpoint_id=saved)
    whole = fsdp_train(job, model, range(2, 4))
    state.close()

    model = fsdp_blocks(mesh["shard"], 1)
    state = sluice.torch.replicate(model, mesh["shard"], SPARSE, job=job)
    reader = dcp.FileSystemReader(saved)
    parts = {"model": model.state_dict(), "compression": state.empty_state_dict(reader.read_metadata())}
    dcp.load(parts, storage_reader=reader)
    model.load_state_dict(parts["model"])
    state.load_state_dict(parts["compression"])
    for p, wanted in zip(fsdp_train(job, model, range(2, 4)), whole):
        assert torch.equal(p, wanted), "the resumed run ends with different parameters"
    state.close()

    model = fsdp_blocks(mesh["shard"], 2)
    state = sluice.torch.replicate(model, mesh["shard"], SPARSE, job=job)
    refused(lambda: state.empty_state_dict(reader.read_metadata()), f"the checkpoint has no rank{job.rank}.module2")
    two = reader.read_metadata()
    two.state_dict_metadata[f"other.rank{job.rank}.module1"] = two.state_dict_metadata[f"compression.rank{job.rank}.module0"]
    refused(lambda: state.empty_state_dict(two), f"rank{job.rank}.module1 of several models")
    state.close()
    job.close()
    torch.distributed.destroy_process_group()


# ---- ends ------------------------------------------------------------------------------------------

class Stumbles(torch.autograd.Function):
    """Raises when its gradient is computed. By then, later layers have been pushed."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise RuntimeError("stumbled in a backward")


def rank_stumbles(job, _):
    join(job)
    model = network()
    ddp, _ = wrapped(job, model, DENSE, bucket_cap_mb=0.0001)
    optimizer = sgd(ddp)
    for step in range(4):
        if job.rank == 1 and step == 2:
            model[1].forward = Stumbles.apply
        step_of(ddp, optimizer, rows(step, job.rank))


def rank_leaves(job, _):
    """Closes neither the model nor the job nor the group."""
    join(job)
    ddp, _ = wrapped(job, network(), SPARSE)
    optimizer = sgd(ddp)
    for step in range(3):
        step_of(ddp, optimizer, rows(step, job.rank))
    plain = sluice.torch.Optimizer(network(), SPARSE, lr=0.1, job=job)
    plain.step()


def resident_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


needs_torch_2_6 = unittest.skipIf(torch_version < [2, 6], "needs torch 2.6 or later")


class Torch(unittest.TestCase):
    def test_ddp(self):
        ranks.run(RANKS, "rank_ddp").all_well()

    def test_optimizer(self):
        ranks.run(RANKS, "rank_optimizer").all_well()

    @needs_torch_2_6
    def test_scaler(self):
        ranks.run(RANKS, "rank_scaler").all_well()

    @needs_torch_2_6
    def test_compile(self):
        ranks.run(RANKS, "rank_compile").all_well()

    @needs_torch_2_6
    def test_distributed_checkpoint(self):
        ranks.run(RANKS, "rank_distributed_checkpoint").all_well()

    @needs_torch_2_6
    def test_fsdp(self):
        ranks.run(FSDP_RANKS, "rank_fsdp").all_well()

    @needs_torch_2_6
    def test_fsdp_of_25_modules(self):
        ranks.run(FSDP_RANKS, "rank_fsdp_deep").all_well()

    @needs_torch_2_6
    def test_fsdp_and_distributed_checkpoint(self):
        ranks.run(FSDP_RANKS, "rank_fsdp_dcp").all_well()

    @needs_torch_2_6
    def test_fsdp_unopened(self):
        ranks.run(FSDP_RANKS, "rank_fsdp_unopened").all_well()

    @needs_torch_2_6
    def test_fsdp_branches(self):
        ranks.run(FSDP_RANKS, "rank_fsdp_branches").all_well()

    def test_exception_in_a_backward(self):
        (status, said), (status_1, said_1) = ranks.run(RANKS, "rank_stumbles", fresh=True)
        self.assertEqual((status, status_1), (1, 1), said + said_1)
        self.assertIn("RuntimeError: stumbled in a backward", said_1)
        self.assertRegex(said, r"rank 1 \(node n1\)")

    def test_interpreter_ends_without_close(self):
        for status, said in ranks.run(RANKS, "rank_leaves", flags=["-X", "dev"]):
            self.assertEqual(status, 0, said)
            self.assertNotIn("Error", said)
            self.assertNotIn("sluice", said)

    def test_additions_are_in_rank_order(self):
        ranks.run(3, "rank_adds_in_rank_order").all_well()

    def test_compress_takes_the_job_of_the_group(self):
        ranks.run(2, "rank_compresses_in_the_job_of_the_group").all_well()

    def flat(self, step):
        """After a while, steps leave no object of this package and no memory. LEAK_STEPS is the number of steps."""
        steps = int(os.environ.get("LEAK_STEPS", "1000"))
        package = tracemalloc.Filter(True, os.path.join(os.path.dirname(sluice.__file__), "*"))
        for _ in range(300):
            step()
        gc.collect()
        tracemalloc.start()
        step()
        gc.collect()
        before, resident = tracemalloc.take_snapshot().filter_traces([package]), resident_kib()
        for _ in range(100):
            step()
        gc.collect()
        after = tracemalloc.take_snapshot().filter_traces([package])
        tracemalloc.stop()
        kept = [str(line) for line in after.compare_to(before, "lineno") if line.size_diff > 0]
        self.assertEqual(kept, [], "objects of the package that 100 steps left behind")
        for _ in range(steps):
            step()
        grown = resident_kib() - resident
        self.assertLess(grown, 1024, f"{grown} KiB more after {steps} steps")

    def test_optimizer_keeps_nothing(self):
        with sluice.Job() as job:
            model = nn.Linear(8, 4)
            optimizer = sluice.torch.Optimizer(model, SPARSE, lr=0.01, job=job)
            x = torch.ones(2, 8)

            def step():
                model.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            self.flat(step)
            optimizer.close()

    def test_hook_keeps_nothing(self):
        with sluice.Job() as job:
            ddp = DistributedDataParallel(network(), process_group=sluice.torch.process_group(job))
            state = sluice.torch.compress(ddp, SPARSE, job=job)
            optimizer = sgd(ddp)
            batch = rows(0, 0)
            self.flat(lambda: step_of(ddp, optimizer, batch))
            state.close()
        torch.distributed.destroy_process_group()

    def test_numpy_is_not_needed(self):
        code = ("import sys\nsys.modules['numpy'] = None\n"
                "import sluice.torch, torch\n"
                "sluice.torch.process_group()\n"
                "maximum, rows = torch.ones(3), [torch.zeros(2)]\n"
                "torch.distributed.all_reduce(maximum, torch.distributed.ReduceOp.MAX)\n"
                "torch.distributed.all_gather(rows, torch.ones(2))\n"
                "assert rows[0].tolist() == [1, 1]\n"
                "def optimizer():\n"
                "    return sluice.torch.Optimizer(torch.nn.Linear(3, 2), 'up=topk(0.5) down=all', lr=0.1)\n"
                "first, second = optimizer(), optimizer()\n"
                "first.step()\n"
                "second.load_state_dict(first.state_dict())\n"
                "assert first.verify() == second.verify() and second.model.step == 1\n")
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=ranks.LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_negative_bit(self):
        """A view that torch negates when it reads it. It shares the memory of the original tensor."""
        with sluice.Job() as job:
            mean, ones = torch.zeros(3), torch._neg_view(torch.ones(3))
            with job.open(mean, "up=all down=all update=none") as model:
                for call in (model.push, model.pull):
                    with self.assertRaisesRegex(ValueError, r"is a tensor with the negative bit: pass the result of its resolve_neg"):
                        call(ones)
                model.push(ones.resolve_neg())
                model.pull(mean)
            self.assertEqual(mean.tolist(), [-1, -1, -1])
            sluice.torch._group.broadcast(job, ones, 0)
            self.assertEqual(ones.tolist(), [-1, -1, -1])
            self.assertEqual(sluice.torch._flat.digests([ones]), sluice.torch._flat.digests([-torch.ones(3)]))
            self.assertEqual(sluice.torch._flat.bytes_of(ones), sluice.torch._flat.bytes_of(-torch.ones(3)))

    def environment(self, code, status=0, names=("RANK", "WORLD_SIZE"), **more):
        """Runs two processes with the variables of torch's env://, and returns their output."""
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        processes = [subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, names[0]: str(rank), names[1]: "2", "MASTER_ADDR": "localhost",
                 "MASTER_PORT": str(port), **more}) for rank in range(2)]
        texts = []
        for process in processes:
            said, _ = process.communicate(timeout=ranks.LIMIT_S)
            self.assertEqual(process.returncode, status, said)
            texts.append(said)
        return texts

    MEETS = ("import sluice.torch, torch\nsluice.torch.process_group()\n"
             "job = sluice.torch.default_job()\n"
             "assert job.sum([job.rank + 1]) == [3.0] and torch.distributed.get_world_size() == 2\n")

    def test_torchrun(self):
        """Sets the variables of torchrun. Here rank 0 has the store."""
        self.environment(self.MEETS, TORCHELASTIC_RUN_ID="test")

    def test_environment(self):
        """Sets the variables of another launcher, all or some of them. No process trains alone."""
        self.environment(self.MEETS, names=("PMI_RANK", "PMI_SIZE"))
        for said in self.environment(self.MEETS, 1, MASTER_PORT=""):
            self.assertIn("InvalidError: WORLD_SIZE=2, but this process is a job of one, because there is no PMIx and "
                          "MASTER_PORT is not set", said)
        for said in self.environment(self.MEETS, 1, RANK="2"):
            self.assertIn("InvalidError: RANK=2 and WORLD_SIZE=2 do not fit together", said)

    def test_restart_with_old_keys(self):
        """The store of torchrun outlives the processes of an attempt, and still has their keys."""
        store = torch.distributed.HashStore()
        for attempt in ("0", "1"):
            with unittest.mock.patch.dict(os.environ, TORCHELASTIC_RESTART_COUNT=attempt):
                bootstrap = sluice.torch.StoreBootstrap(store, 0, 1)
            with self.assertRaises(TimeoutError):
                bootstrap.get("sluice0/0", 0.1)
            bootstrap.put("sluice0/0", b"x")
            self.assertEqual(bootstrap.get("sluice0/0", 1), b"x")


if __name__ == "__main__":
    unittest.main()
