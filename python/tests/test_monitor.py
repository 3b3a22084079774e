# SPDX-License-Identifier: BSD-3-Clause
"""Tests sluice.torch.Monitor on the CPU, in jobs of two ranks. torch.sh runs it."""
import io
import unittest

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import ranks
import sluice
import sluice.torch
from ranks import refused

SPARSE = "up=topk(0.1),uniform(4) down=topk(0.2) memory=residual"


class Writer:
    def __init__(self):
        self.rows = []

    def add_scalar(self, name, value, step):
        self.rows.append((step, name, float(value)))

    def of(self, name):
        return [(step, value) for step, row, value in self.rows if row == "sluice/" + name]


class Run:
    def __init__(self):
        self.logged = []

    def log(self, values, step):
        self.logged.append((step, values))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(40, 50), nn.ReLU(), nn.Linear(50, 4))


def train(model, optimizer, monitor, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        x = torch.randn(8, 40)
        cross_entropy(model(x), x[:, :4].argmax(1)).backward()
        optimizer.step()
        monitor.step()


def hook(job, _):
    sluice.torch.process_group(job)
    ddp = DistributedDataParallel(network())
    writer, out = Writer(), io.StringIO()
    with sluice.torch.compress(ddp, SPARSE, job=job) as state:
        with sluice.torch.Monitor(state, writer, every=4, error=True, out=out) as monitor:
            train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), monitor, 10)
            stats = state.stats()
        lines = out.getvalue().splitlines()
        totals = state.totals()
    if job.rank:
        assert not lines, lines
    else:
        count = sum(p.numel() for p in ddp.parameters())
        assert len(lines) == 2, lines
        assert lines[0].startswith(f"sluice: 2 workers over shm, {count} parameters: a dense step pushes 9.02 kB per worker"), lines[0]
        assert "; recipe up=topk(0.1),uniform(4" in lines[0], lines[0]
        assert lines[1].startswith("sluice: 10 steps in "), lines[1]
        assert f"({100 * totals['saved']:.2f} % saved); rank 0 waited " in lines[1], lines[1]
    for name in ("mb_up", "mb_down", "times_fewer", "step_ms", "wait_ms", "share", "residual_norm", "density_up",
                 "compression_error"):
        assert [step for step, _ in writer.of(name)] == [4, 8], (name, writer.rows)
    for step, value in writer.of("density_up") + writer.of("share") + writer.of("compression_error"):
        assert 0 < value < 1, (step, value)
    assert all(value == 4 for _, value in writer.of("bits_up")), writer.of("bits_up")
    # both records together have the bytes of eight of the ten equal steps
    sent = 4e6 * sum(value for _, value in writer.of("mb_up"))
    assert 0.75 * stats["rank_pushed_bytes"] < sent < 0.85 * stats["rank_pushed_bytes"], (sent, stats)
    job.close()


def tensors(job, _):
    """The sums over tensors are those of the model, also after a change of the recipe."""
    sluice.torch.process_group(job)
    ddp = DistributedDataParallel(network())
    writer = Writer()
    state = sluice.torch.compress(ddp, SPARSE, job=job)
    with sluice.torch.Monitor(state, writer, every=2, lines=False, tensors=True) as monitor:
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        train(ddp, optimizer, monitor, 2)
        norm = dict(writer.of("residual_norm"))[2]
        parts = {name: dict(writer.of(f"tensors/{name}/residual_norm"))[2] for name in state.layout.names}
        assert abs(sum(part ** 2 for part in parts.values()) - norm ** 2) < 1e-4 * norm ** 2, (parts, norm)
        density = {name: dict(writer.of(f"tensors/{name}/density_down"))[2] for name in state.layout.names}
        assert all(0 <= share <= 1 for share in density.values()) and 0 < min(density.values()) < 1, density
        state.change("up=all down=all")
        train(ddp, optimizer, monitor, 2)
        assert dict(writer.of("residual_norm"))[4] == 0, writer.rows
        assert dict(writer.of("mb_up"))[4] > dict(writer.of("mb_up"))[2], writer.rows
        torch.set_default_dtype(torch.float64)
        assert monitor._of_tensors(), "a record must not depend on the default type"
    refused(lambda: sluice.torch.Monitor(state.model, tensors=True), "tensors=True, but Model does not know the tensors")
    state.close()
    job.close()


def errors(job, _):
    """Each record has the compression error, from the first step on, and if the measured step is the first with a recipe."""
    sluice.torch.process_group(job)
    for every, change_after, steps in ((1, 0, [1, 2, 3, 4]), (3, 2, [3]), (2, 2, [2, 4])):
        ddp, writer = DistributedDataParallel(network()), Writer()
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        with sluice.torch.compress(ddp, SPARSE, job=job) as state:
            with sluice.torch.Monitor(state, writer, every=every, error=True, lines=False) as monitor:
                for step in range(4):
                    if step == change_after:
                        state.change("up=topk(0.2) down=topk(0.2)")
                    train(ddp, optimizer, monitor, 1)
        assert [step for step, _ in writer.of("compression_error")] == steps, (every, writer.rows)
    job.close()


def others(job, _):
    for make in (lambda m: sluice.torch.Optimizer(m, SPARSE, lr=0.1, job=job),
                 lambda m: sluice.torch.LocalSteps(m, torch.optim.SGD(m.parameters(), lr=0.1), "diloco when=every(2)",
                                                   job=job)):
        model, run, seen = network(), Run(), []
        state = make(model)
        with sluice.torch.Monitor(state, run, every=2, lines=False) as monitor:
            train(model, state, monitor, 4)
        assert [step for step, _ in run.logged] == [2, 4], run.logged
        assert all(values["sluice/times_fewer"] > 0 for _, values in run.logged), run.logged
        with sluice.torch.Monitor(state, lambda values, step: seen.append(step), every=1, prefix="", lines=False) as monitor:
            train(model, state, monitor, 2)
        assert seen == [5, 6], seen
        for bad, why in (({"every": 0}, "every=0, must be an integer of at least 1"), ({"every": 1.5}, "every=1.5, must be"),
                         ({"writer": 3}, "must have add_scalar")):
            refused(lambda bad=bad: sluice.torch.Monitor(state, **bad), why)
        state.close()
    job.close()


def first_line(job, _):
    """The warm-up of this recipe counts epochs."""
    out = io.StringIO()
    state = sluice.torch.Optimizer(nn.Linear(400, 401), SPARSE + " warmup=1epoch", lr=0.1, steps_per_epoch=5, job=job)
    sluice.torch.Monitor(state, out=out).close()
    if job.rank == 0:
        assert "160801 parameters: a dense step pushes 643 kB per worker; recipe up=" in out.getvalue(), out.getvalue()
    state.close()
    job.close()


class MonitorTest(unittest.TestCase):
    def test_first_line(self):
        ranks.run(2, "first_line").all_well()

    def test_hook(self):
        ranks.run(2, "hook").all_well()

    def test_tensors(self):
        ranks.run(2, "tensors").all_well()

    def test_errors(self):
        ranks.run(2, "errors").all_well()

    def test_others(self):
        ranks.run(2, "others").all_well()


if __name__ == "__main__":
    unittest.main()
