# SPDX-License-Identifier: BSD-3-Clause
"""What users do with a training script: it works, or an error says what to write. torch.sh runs it.

Cases of other files are not repeated: launchers, clipping, states of one rank, sparse layers, loss scales, uneven rows
(test_torch.py), other collectives (test_group.py), momenta (test_named.py) and changed recipes (test_change.py).
"""
import copy
import gc
import io
import logging
import os
import pickle
import types
import unittest
import warnings
import weakref

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ranks
import sluice
import sluice.torch
from ranks import refused
from sluice.torch.integrations import load_part, save_part
from sluice.torch.integrations.accelerate import compress as compress_accelerated

RANKS = 2
torch_version = [int(n) for n in torch.__version__.split(".")[:2]]
DENSE, SPARSE = "up=all down=all", "up=topk(0.2) down=topk(0.4)"


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def step_of(model, optimizer, job, step):
    generator = torch.Generator().manual_seed(10 * step + job.rank)
    optimizer.zero_grad()
    model(torch.randn(5, 6, generator=generator) + job.rank).pow(2).mean().backward()
    optimizer.step()


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), lr=0.1, **options)


def copies(job):
    """Copies and pickles of a compressed DDP model work. Objects that have connections refuse both."""
    ddp = DistributedDataParallel(network())
    state = sluice.torch.compress(ddp, SPARSE, job=job)
    optimizer = sgd(ddp)
    mean = torch.optim.swa_utils.AveragedModel(ddp)
    for step in range(2):
        step_of(ddp, optimizer, job, step)
        mean.update_parameters(ddp)
    assert int(mean.n_averaged) == 2
    for name, p in copy.deepcopy(ddp).module.named_parameters():
        assert torch.equal(p, dict(ddp.module.named_parameters())[name]), name
    pickle.loads(pickle.dumps(ddp))
    torch.save({"ddp": ddp, "state": state.state_dict(), "optimizer": optimizer.state_dict()}, io.BytesIO())
    other = network()
    exchanging = sluice.torch.Optimizer(other, SPARSE, inner=sgd(other), job=job)
    third = network()
    local = sluice.torch.LocalSteps(third, sgd(third), "local4 when=every(2)", job=job, buffers="own")
    for thing in (state, exchanging, local):
        for how in (copy.deepcopy, pickle.dumps):
            refused(lambda: how(thing), f"{type(thing).__name__} cannot be pickled or copied", TypeError)
    refused(lambda: copy.copy(job), "a sluice.Job cannot be pickled", TypeError)
    refused(lambda: copy.copy(state.model), "a sluice.Model cannot be pickled", TypeError)
    local.model.close()
    exchanging.close()
    state.close()


def many_models(job):
    """More models than one might think of, for example the networks of a multi-task training."""
    wrapped = [DistributedDataParallel(nn.Linear(3, 2)) for _ in range(20)]
    states = [sluice.torch.compress(ddp, DENSE, job=job) for ddp in wrapped]
    for ddp in wrapped:
        ddp(torch.full((2, 3), 1.0 + job.rank)).sum().backward()
        assert torch.equal(ddp.module.weight.grad, torch.full((2, 3), 3.0))
    for state in states:
        assert state.stats()["memory_bytes"] < 200000, "a small model needs much memory"
        state.close()


def statistics_of_norm_layers(job):
    """Without DDP, each rank has its own running statistics: they begin equal, verify() warns, and the mean is equal."""
    model = network(job.rank)
    model[1].running_mean.fill_(float(job.rank))
    optimizer = sluice.torch.Optimizer(model, DENSE, inner=sgd(model), job=job)
    assert not model[1].running_mean.any(), "the buffers of rank 0 were not sent"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.verify()
        assert not caught
        step_of(model, optimizer, job, 0)
        own = model[1].running_mean.clone()
        optimizer.verify()
    assert len(caught) == 1 and "buffer 1.running_mean differs" in str(caught[0].message), caught
    wanted = [torch.empty(8) for _ in range(RANKS)]
    torch.distributed.all_gather(wanted, own)
    optimizer.average_buffers()
    assert torch.allclose(model[1].running_mean, sum(wanted) / RANKS) and int(model[1].num_batches_tracked) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.verify()
    optimizer.close()


class Counting(nn.Linear):
    """A layer that replaces a buffer in forward(), and has one that torch does not write to."""

    def __init__(self):
        super().__init__(3, 2)
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("mask", torch.arange(3).expand(2, 3))

    def forward(self, x):
        self.seen = self.seen + x.mean()
        return super().forward(x)


def other_buffers(job):
    model = Counting()
    optimizer = sluice.torch.Optimizer(model, DENSE, inner=sgd(model), job=job)
    model(torch.full((2, 3), float(job.rank)))
    optimizer.average_buffers()
    assert model.seen.item() == (RANKS - 1) / 2 and model.mask[1].tolist() == [0, 1, 2]
    optimizer.close()


def unreadable_part(job, folder):
    """A file of rank 1 that is no state of it: the error is on both ranks, and rank 1 names the file."""
    ddp = DistributedDataParallel(network())
    state = sluice.torch.compress(ddp, DENSE, job=job)
    step_of(ddp, sgd(ddp), job, 0)
    path = os.path.join(folder, f"part{job.rank}")
    save_part(state, path)
    state.close()
    if job.rank:
        with open(path, "wb") as file:
            file.write(b"cut off")
    state = sluice.torch.compress(ddp, DENSE, job=job)
    refused(lambda: load_part(state, path), ("rank 1", f"rank 1 cannot read {path}")[job.rank])
    state.close()


def one_rank_alone(job):
    """Only rank 0 loads a checkpoint: verify() names a parameter."""
    ddp = DistributedDataParallel(network())
    state = sluice.torch.compress(ddp, DENSE, job=job)
    if job.rank == 0:
        ddp.module.load_state_dict(network(5).state_dict())
    refused(state.verify, "0.weight differs between the workers")
    state.close()


def schedules(job):
    """A schedule that moves momenta needs a momentum of the optimizer; without it, rates may begin at 0."""
    model = network()
    optimizer = sluice.torch.Optimizer(model, DENSE, lr=0.1, job=job)
    refused(lambda: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=4), "cycle_momentum", ValueError)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=4, cycle_momentum=False)
    for step in range(3):
        step_of(model, optimizer, job, step)
        scheduler.step()
    optimizer.close()
    refused(lambda: sluice.torch.Optimizer(model, DENSE, job=job, inner=torch.optim.LBFGS(model.parameters())),
            "take an optimizer whose step() needs no closure")


def texts(job):
    """The remedy is in the sentence."""
    for text, why in (("up=topk(0.01), down=all", "leave out the last comma"), ("topk(0.01)", "did you mean up=topk(0.01)"),
                      ("up=topk 0.01", "write up=topk(0.01)"), ("fp16", "up=all,f16"), ("dgc", "sgdm"),
                      ("int8", "uniform(8)"), ("powersgd", "does not factorize matrices")):
        refused(sluice.Recipe(text).complete, why)


def unfrozen(job):
    """A parameter that is unfrozen in the middle is named."""
    model = network()
    model[0].weight.requires_grad_(False)
    ddp = DistributedDataParallel(model)
    state = sluice.torch.compress(ddp, DENSE, job=job)
    optimizer = sgd(ddp)
    step_of(ddp, optimizer, job, 0)
    model[0].weight.requires_grad_(True)
    refused(lambda: step_of(ddp, optimizer, job, 1), "0.weight was not known", (sluice.InvalidError, RuntimeError))
    state.close()


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def no_recipe(job):
    """Without a recipe everything is sent, and rank 0 says so."""
    lines = Lines()
    logging.getLogger("sluice").addHandler(lines)
    del os.environ["SLUICE_ADVICE"]
    state = sluice.torch.compress(DistributedDataParallel(network()), job=job)
    os.environ["SLUICE_ADVICE"] = "no"
    assert sum("no recipe was given" in line for line in lines.lines) == (job.rank == 0), lines.lines
    state.close()


def eight_bits(job):
    """Gradients of 8 bits have a mean, which torch itself cannot make. Parameters of 8 bits are refused by name."""
    if not hasattr(torch, "float8_e4m3fn"):
        return
    mean = torch.zeros(3)
    for dtype, kind in ((torch.float8_e4m3fn, sluice.F8_E4M3FN), (torch.float8_e5m2, sluice.F8_E5M2)):
        with job.open(mean, "up=all down=all update=none", grad_type=kind) as model:
            model.push(torch.tensor([1.0, -2.0, 0.5 + job.rank]).to(dtype))
            model.pull(mean)
            assert mean.tolist() == [1, -2, 1], (dtype, mean)
        layer = nn.Linear(3, 3)
        layer.weight = nn.Parameter(layer.weight.detach().to(dtype))
        for options in ({"lr": 0.1}, {"inner": torch.optim.SGD(layer.parameters(), lr=0.1)}):
            refused(lambda options=options: sluice.torch.Optimizer(layer, DENSE, job=job, **options),
                    f"parameter weight is of {dtype}: Sluice trains float32, float16 and bfloat16")
        refused(lambda: sluice.torch.LocalSteps(layer, torch.optim.SGD(layer.parameters(), lr=0.1), "local4", job=job),
                f"parameter weight is of {dtype}")


def other_group(job):
    """A model whose process group has some of the ranks, such as those of a pipeline stage."""
    if torch_version < [2, 1]:
        return  # new_group() needs all ranks, one group after the other
    stage = torch.distributed.new_group([job.rank], use_local_synchronization=True)
    ddp = DistributedDataParallel(network(job.rank), process_group=stage)
    before = ddp.module[0].weight.detach().clone()
    refused(lambda: sluice.torch.compress(ddp, DENSE, job=job), "the process group of the model has 1 ranks and the job 2 workers")
    refused(lambda: sluice.torch.compress(ddp, DENSE), "give job=sluice.torch.default_job().split(COLOR, KEY)")
    assert torch.equal(ddp.module[0].weight, before), "the parameters were changed"
    with sluice.torch.compress(ddp, DENSE, job=job.split(job.rank, 0)):
        step_of(ddp, sgd(ddp), job, 0)
    alone = network(job.rank)
    step_of(alone, sgd(alone), job, 0)
    assert torch.equal(ddp.module[0].weight, alone[0].weight), "other ranks took part"


def with_gaps(job):
    layer = nn.Linear(6, 3)
    layer.weight = nn.Parameter(layer.weight.detach()[:, :4])
    wanted = "parameter weight is a view with gaps or repeated elements: make it contiguous"
    refused(lambda: sluice.torch.compress(DistributedDataParallel(layer), DENSE, job=job), wanted)
    for options in ({"lr": 0.1}, {"inner": torch.optim.SGD(layer.parameters(), lr=0.1)}):
        refused(lambda options=options: sluice.torch.Optimizer(layer, DENSE, job=job, **options), wanted)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(40)), nn.Parameter(torch.zeros(40))

    def forward(self, row, with_b):
        return (self.a * row).sum() + ((self.b * row).sum() if with_b else 0)


def unused_parameters(job):
    """A parameter that no rank uses in a step gets the values of earlier steps that have waited for it, exactly once."""
    for options in ({}, {"gradient_as_bucket_view": True}):
        for to_none in (True, False):
            model = Two()
            ddp = DistributedDataParallel(model, find_unused_parameters=True, **options)
            with sluice.torch.compress(ddp, "up=topk(0.05) down=topk(0.1)", job=job) as state:
                total, wanted = torch.zeros(40), torch.zeros(40)
                for step in range(120):
                    rows = [torch.randint(-40, 40, (40,), generator=torch.Generator().manual_seed(2 * step + rank)).float()
                            for rank in range(RANKS)]
                    used = [step < 20 and (step % 3 > 0 or rank == 0) for rank in range(RANKS)]
                    model.zero_grad(set_to_none=to_none)
                    ddp(rows[job.rank] if step < 20 else torch.zeros(40), used[job.rank]).backward()
                    total += 0 if model.b.grad is None else model.b.grad
                    wanted += sum(row for row, one in zip(rows, used) if one) / RANKS if any(used) else 0
                residual = torch.empty(state.layout.count)
                state.model.residual(residual)
                assert not residual.any(), "values still wait"
                assert torch.equal(total, wanted), (options, to_none, total - wanted)


def set_later(job):
    """Parameters that are set after sluice.torch.Optimizer(lr=) was made, where the library keeps a copy of them."""
    for dtype, recipe in ((torch.bfloat16, "up=all down=all update=sgd"), (torch.float32, "up=all down=all update=sgd decay=0.1")):
        layer = nn.Linear(4, 1).to(dtype)
        start = copy.deepcopy(layer.state_dict())
        optimizer = sluice.torch.Optimizer(layer, recipe, lr=0.5, job=job)
        layer.load_state_dict(start if job.rank == 0 else layer.state_dict())  # the same values
        layer(torch.ones(2, 4, dtype=dtype)).sum().backward()
        optimizer.step()
        for _ in range(2):  # there is one warning, because the step forgets the writing
            layer.load_state_dict({name: torch.full_like(value, 5) for name, value in start.items()})
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                optimizer.step()
                optimizer.step()
            assert ["weight was written since the last step" in str(one.message) for one in seen] == [True], seen
        optimizer.close()
        for fill in (lambda p: p.detach().fill_(5), lambda p: p.data.fill_(6)):  # torch counts the first of these writes only
            optimizer = sluice.torch.Optimizer(layer, recipe, lr=0.5, job=job)
            fill(layer.weight)
            refused(optimizer.step, "weight was set after sluice.torch.Optimizer was made")
            optimizer.close()
    layer = nn.Linear(4, 1, bias=False)  # without a copy, a step adds to the new values
    optimizer = sluice.torch.Optimizer(layer, "up=all down=all update=sgd", lr=0.5, job=job)
    layer.load_state_dict({"weight": torch.full((1, 4), 5.0)})
    layer(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    assert torch.equal(layer.weight, torch.full((1, 4), 4.0)), layer.weight
    optimizer.close()


def failed_backward(job):
    """After a backward that an exception has ended, the next ones are exchanged."""
    layer = nn.Linear(4, 1, bias=False)
    optimizer = sluice.torch.Optimizer(layer, DENSE, inner=sgd(layer), job=job)
    y = layer(torch.ones(1, 4))
    y.register_hook(lambda _: [][0])
    try:
        (y.sum() + (layer.weight * 2).sum()).backward()
    except IndexError:
        pass
    optimizer.zero_grad()
    for factor in (1, 2):
        (factor * (job.rank + 1) * layer(torch.ones(1, 4)).sum()).backward()
        optimizer.synchronize()
    optimizer.step()
    optimizer.verify()
    optimizer.close()


def loss_scale_of_accelerate(job):
    """compress() gets the accelerator's GradScaler. That of torch for CUDA is never enabled on the CPU."""
    scaler = types.SimpleNamespace(is_enabled=lambda: True, get_scale=lambda: 1.0)
    accelerator = types.SimpleNamespace(scaler=scaler, register_save_state_pre_hook=id, register_load_state_pre_hook=id)
    with compress_accelerated(accelerator, DistributedDataParallel(network()), DENSE, job=job) as state:
        assert state._scaler is accelerator.scaler


def models_end(job):
    """A compressed DDP model is freed when the script drops it."""
    alive = []
    for _ in range(3):
        ddp = DistributedDataParallel(network())
        with sluice.torch.compress(ddp, SPARSE, job=job):
            step_of(ddp, sgd(ddp), job, 0)
        alive.append(weakref.ref(ddp.module[0].weight))
        del ddp
    gc.collect()
    assert [one() for one in alive] == [None] * 3, "models are still alive"


def rank_works(job, folder):
    sluice.torch.process_group(job)
    for check in (copies, many_models, statistics_of_norm_layers, other_buffers, one_rank_alone, schedules, texts, unfrozen, no_recipe,
                  eight_bits, other_group, with_gaps, unused_parameters, set_later, failed_backward, models_end,
                  loss_scale_of_accelerate):
        print(check.__name__, flush=True)
        check(job)
    unreadable_part(job, folder)
    job.close()


def rank_spoils(job, _):
    """Without scaler=, an overflow is an error that also names this remedy."""
    sluice.torch.process_group(job)
    ddp = DistributedDataParallel(network())
    sluice.torch.compress(ddp, DENSE, job=job)
    loss = ddp(torch.ones(4, 6)).sum()
    (loss * float("inf") if job.rank else loss).backward()


def rank_ends(job, _):
    """One rank ends in the middle, while the other one sends buffers."""
    sluice.torch.process_group(job)
    ddp = DistributedDataParallel(network())
    sluice.torch.compress(ddp, DENSE, job=job)
    optimizer = sgd(ddp)
    for step in range(4):
        if job.rank and step == 2:
            raise KeyError("a mistake of the program")
        step_of(ddp, optimizer, job, step)


def rank_differs(job, _):
    sluice.torch.process_group(job)
    sluice.torch.compress(DistributedDataParallel(network()), (DENSE, SPARSE)[job.rank], job=job)


class Test(unittest.TestCase):
    def failed(self, function):
        found = ranks.run(RANKS, function)
        for status, said in found:
            self.assertEqual(status, 1, said)
        return [said for _, said in found]

    def test_works(self):
        ranks.run(RANKS, "rank_works").all_well()

    def test_spoils(self):
        said = self.failed("rank_spoils")
        self.assertIn("With a GradScaler, give it to compress() as scaler=", said[1])
        self.assertIn("the gradient of rank 1 (node n1) at step 1 is", said[0])

    def test_ends(self):
        said = self.failed("rank_ends")
        self.assertIn("KeyError: 'a mistake of the program'", said[1])
        self.assertIn("rank 1 (node n1)", said[0])
        self.assertRegex(said[0], "closed model 0 after 2 steps|that rank has ended early|this rank in closing a model")

    def test_different_recipes(self):
        for said in self.failed("rank_differs"):
            self.assertIn("opened different models", said)
            self.assertNotIn("collectives differ", said)


if __name__ == "__main__":
    assert os.environ.get("SLUICE_LIBRARY"), "run torch.sh, which sets the library"
    unittest.main(verbosity=2)
