# SPDX-License-Identifier: BSD-3-Clause
"""Changes the recipe in the middle of a training run: nothing is lost, and ranks that disagree get errors. torch.sh runs it."""
import io
import os
import unittest
import warnings

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ranks
import sluice
import sluice.torch
from ranks import refused

RANKS = 2
COUNT = 96
DENSE = "up=all down=all"
torch_version = [int(n) for n in torch.__version__.split(".")[:2]]


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(COUNT // 2))

    def forward(self, row):
        return (self.weight * row).sum()


class Whole(nn.Module):
    """Its gradient is the given row, so that sums of gradients are exact."""

    def __init__(self):
        super().__init__()
        self.a, self.b = Half(), Half()

    def forward(self, row):
        return self.a(row[:COUNT // 2]) + self.b(row[COUNT // 2:])

    def gradient(self):
        grads = [half.weight.grad for half in (self.a, self.b)]
        return torch.cat([grad.full_tensor() if hasattr(grad, "full_tensor") else grad for grad in grads])


def row_of(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randint(-40, 40, (COUNT,), generator=generator).float()


def mean_of(steps):
    return sum(row_of(step, rank) for step in steps for rank in range(RANKS)) / RANKS


class Hook:
    def __init__(self, job, recipe, **options):
        self.model, self.rank = Whole(), job.rank
        self.ddp = DistributedDataParallel(self.model)
        self.state = sluice.torch.compress(self.ddp, recipe, job=job, **options)
        self.sum = torch.zeros(COUNT)

    def step(self, step, factor=1.0):
        self.ddp.zero_grad()
        (factor * self.ddp(row_of(step, self.rank))).backward()
        self.sum += self.model.gradient()


class Inner:
    def __init__(self, job, recipe, **options):
        self.model, self.rank = Whole(), job.rank
        self.sum = torch.zeros(COUNT)
        self.state = sluice.torch.Optimizer(self.model, recipe, job=job,
                                            inner=torch.optim.SGD(self.model.parameters(), lr=1.0), **options)

    def step(self, step, factor=1.0):
        self.state.zero_grad()
        (factor * self.model(row_of(step, self.rank))).backward()
        self.state.synchronize()
        self.sum += self.model.gradient()
        self.state.step()


def nothing_is_lost(job):
    """After a dense step, everything has arrived. All numbers are small integers, so the sums are exact."""
    for make in (Hook, Inner):
        run = make(job, "up=topk(0.05) down=topk(0.1)")
        for step in range(4):
            run.step(step)
        assert not torch.equal(run.sum, mean_of(range(4))), "the sparse recipe sends everything, so the test shows nothing"
        before = run.state.stats()
        assert before["residual_norm"] > 0
        run.state.change("up=topk(0.3) down=topk(0.5)")
        for step in range(4, 6):
            run.step(step)
        run.state.change(DENSE)
        run.step(6)
        assert torch.equal(run.sum, mean_of(range(7))), (make, run.sum - mean_of(range(7)))
        after = run.state.stats()
        assert after["residual_norm"] == 0 and after["shard_residual_norm"] == 0, after
        assert after["steps"] == 7 and after["pushed_elements"] > before["pushed_elements"], (before, after)
        assert after["rank_dense_bytes"] * 4 == before["rank_dense_bytes"] * 7, (before, after)
        assert 0 < run.state.totals()["saved"] < 1
        run.state.change("up=topk(0.05) down=all,uniform(8)")  # back to a sparse one, and rounded values
        for step in range(7, 10):
            run.step(step)
        run.state.change(DENSE)
        run.step(10)
        assert torch.allclose(run.sum, mean_of(range(11)), rtol=0, atol=1e-3)
        run.state.verify()
        run.state.close()


def a_limit_holds_for_gradients(job):
    """clip= of the new recipe does not cut off a part of the residual."""
    run = Hook(job, "up=topk(0.05) down=topk(0.1)")
    for step in range(3):
        run.step(step)
    run.state.change(DENSE, clip=0.001)
    run.step(3, factor=0.0)
    assert torch.equal(run.sum, mean_of(range(3)))
    run.state.close()


def an_equal_recipe_changes_nothing(job):
    """The residual and the momentum of a worker go on as if nothing had happened."""
    for recipe in ("up=topk(0.05) down=all signal=momentum(0.9)", "up=topk(0.1),bf16 down=all",
                   "up=all down=all signal=momentum(0.5),nomask"):
        sums = []
        for change in (False, True):
            run = Hook(job, recipe)
            for step in range(6):
                if change and step == 3:
                    run.state.change(recipe)
                run.step(step)
            sums.append(run.sum)
            run.state.close()
        assert torch.equal(*sums), recipe


def ranks_disagree(job):
    run = Hook(job, "up=topk(0.05) down=all")
    run.step(0)
    model = run.state.model
    given = ("up=topk(0.1) down=all", "up=topk(0.2) down=all")[job.rank]
    refused(lambda: run.state.change(given), "rank 1 gives the recipe 'up=topk(0.2)")
    refused(lambda: run.state.change(given), "and rank 0 'up=topk(0.1)")
    wrong = "up=topk(0.1) dawn=all"
    refused(lambda: run.state.change((DENSE, wrong)[job.rank]),
            ("rank 1 gives the recipe 'up=topk(0.1) dawn=all', which is wrong", "dawn")[job.rank])
    refused(lambda: run.state.change(wrong), "dawn")
    refused(lambda: run.state.change("up=all down=all update=sgd"), "a torch optimizer steps here")
    refused(lambda: run.state.change("shard-adamw"), "says update=adamw(0.2,0.99,1e-08,0.1), but a torch optimizer steps")
    for empty in ("", None):
        refused(lambda: run.state.change(empty), "the recipe is empty")
    refused(lambda: run.state.change("up=topk(0.1) down=all memory=none"), "would lose the residual")
    assert run.state.model is model and not model.closed, "an error has changed the recipe"
    run.step(1)
    run.state.change(DENSE)
    run.step(2)
    assert torch.equal(run.sum, mean_of(range(3)))
    run.state.close()
    for make in (Hook, Inner):
        run = make(job, DENSE, uneven=True)
        refused(lambda: run.state.change(DENSE), "uneven=True")
        run.state.close()
    model = Whole()
    optimizer = sluice.torch.Optimizer(model, DENSE, lr=0.1, job=job)
    refused(lambda: optimizer.change(DENSE), "make the step with inner=")
    optimizer.close()


def resumed_after_a_change(job):
    """A checkpoint belongs to the recipe in use, and a resumed run ends with the same sum."""
    def begun():
        run = Hook(job, "up=topk(0.05) down=topk(0.1)")
        for step in range(3):
            run.step(step)
        run.state.change("up=topk(0.2) down=topk(0.2)")
        run.step(3)
        return run

    run = begun()
    file = io.BytesIO()
    torch.save(run.state.state_dict(), file)
    run.step(4)
    run.state.close()
    again = Hook(job, "up=topk(0.2) down=topk(0.2)")
    again.sum = run.sum.clone()
    again.state.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    run = begun()
    before = run.sum.clone()
    run.step(4)
    again.sum = before
    again.step(4)
    assert torch.equal(again.sum, run.sum)
    again.state.close()
    run.state.close()


def momenta_are_judged_again(job):
    """The new recipe and the momentum of the optimizer are compared as at the beginning."""
    model = Whole()
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = sluice.torch.compress(ddp, DENSE, job=job, optimizer=optimizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        state.change("up=topk(0.1) down=all")
    assert len(caught) == (job.rank == 0), [str(w.message) for w in caught]
    state.close()


def schedule(job):
    """The example of doc/pytorch.md: a density schedule by hand, and dense in the last epoch."""
    run = Hook(job, "up=topk(0.3) down=topk(0.3)")
    epochs, step = 4, 0
    for epoch in range(epochs):
        if epoch == epochs - 1:
            run.state.change("up=all down=all")
        elif epoch:
            density = 0.3 / 2 ** epoch
            run.state.change(f"up=topk({density}) down=topk({density})")
        for _ in range(2):
            run.step(step)
            step += 1
    assert torch.equal(run.sum, mean_of(range(step))) and run.state.stats()["steps"] == step
    run.state.close()


def many_changes(job):
    """A change keeps nothing of the models before it."""
    run = Hook(job, "up=topk(0.1) down=topk(0.1)")
    for step in range(40):
        run.state.change(f"up=topk({0.1 + 0.01 * (step % 2)}) down=topk(0.1)")
        run.step(step)
    run.state.change(DENSE)
    run.step(40)
    assert torch.equal(run.sum, mean_of(range(41))) and len(job._models) == 1
    run.state.close()


def rank_changes(job, _):
    sluice.torch.process_group(job)
    for check in (nothing_is_lost, a_limit_holds_for_gradients, an_equal_recipe_changes_nothing, ranks_disagree,
                  resumed_after_a_change, momenta_are_judged_again, schedule, many_changes):
        print(check.__name__, flush=True)
        check(job)
    job.close()


def rank_fsdp(job, folder):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("gloo", rank=job.rank, world_size=4,
                                         store=torch.distributed.FileStore(folder + "/store", 4))
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = Whole()
    for part in (model.b, model):
        fully_shard(part, mesh=mesh["shard"])
    state = sluice.torch.replicate(model, mesh["shard"], "up=topk(0.3) down=topk(0.3)", job=job)
    state.change("up=topk(0.1) down=topk(0.1)")  # before a model is open
    total = torch.zeros(COUNT)

    def step_of(step):
        nonlocal total
        model.zero_grad()
        model(row_of(step, job.rank)).backward()
        total += model.gradient()

    for step in range(3):
        step_of(step)
    refused(lambda: state.change(("up=all", "up=all", "up=all", "up=topk(0.5)")[job.rank]), "rank 3 gives the recipe")
    before = state.recipe
    refused(lambda: state.change(DENSE + " memory=none"), "would lose the residual")
    assert state.recipe == before and len(state._models()) == 2
    state.change(DENSE)
    step_of(3)
    wanted = sum(row_of(step, rank) for step in range(4) for rank in range(4)) / 4
    assert torch.equal(total, wanted), total - wanted
    assert state.stats()["steps"] == 4 and state.verify()
    state.close()
    job.close()
    torch.distributed.destroy_process_group()


class Test(unittest.TestCase):
    def test_changes(self):
        ranks.run(RANKS, "rank_changes").all_well()

    @unittest.skipIf(torch_version < [2, 6], "needs torch 2.6 or later")
    def test_fsdp(self):
        ranks.run(4, "rank_fsdp").all_well()


if __name__ == "__main__":
    assert os.environ.get("SLUICE_LIBRARY"), "run torch.sh, which sets the library"
    unittest.main(verbosity=2)
