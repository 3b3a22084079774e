# SPDX-License-Identifier: BSD-3-Clause
"""Tests the recipes that torch optimizers select, and their momenta, in jobs of two ranks. torch.sh runs it."""
import logging
import os
import unittest
import warnings

import torch
from torch import nn

import ranks
import sluice
import sluice.torch
from test_torch import (DENSE, RANKS, SPARSE, join, needs_torch_2_6, network, refused, rows, sgd, step_of,
                        wrapped)


class Heard(logging.Handler):
    """Collects the lines that the package logs, and the warnings, while it is active."""

    def __enter__(self):
        self.lines = []
        logging.getLogger("sluice").addHandler(self)
        self._caught = warnings.catch_warnings(record=True)
        self._warned = self._caught.__enter__()
        warnings.simplefilter("always")
        return self

    def __exit__(self, *_):
        self._caught.__exit__(None, None, None)
        logging.getLogger("sluice").removeHandler(self)

    def emit(self, record):
        self.lines.append(record.getMessage())

    def warned(self, words):
        return sum(words in str(w.message) for w in self._warned)

    def places(self):
        """The files whose lines the warnings show."""
        return {os.path.basename(w.filename) for w in self._warned}


class Muon(torch.optim.SGD):
    """An optimizer with this name. What it computes does not matter here."""


class OfTheProgram(torch.optim.AdamW):
    """A class that a program has derived from one of torch."""


def adamw(model, betas=(0.9, 0.999), kind=torch.optim.AdamW):
    return kind(model.parameters(), lr=1e-2, betas=betas)


def betas_of(optimizer):
    return [tuple(group["betas"]) for group in optimizer.param_groups]


def selects(job):
    """The class of the optimizer selects the recipe, unless one was given."""
    def recipe_of(optimizer_of, recipe=None, **options):
        model = network()
        state = wrapped(job, model, recipe, optimizer=optimizer_of and optimizer_of(model), **options)[1]
        found = state.model.recipe
        state.close()
        return found

    def muon(model):
        return Muon(model.parameters(), lr=0.1)

    named = {name: recipe_of(None, name) for name in ("adamw", "sgd", "sgdm", "muon")}
    assert named["adamw"].get("up") == named["adamw"].get("down") == "topk(0.06),twomeans", named["adamw"]
    assert named["adamw"].get("clip") == "1" and named["sgd"].get("clip") == "none"
    assert named["sgdm"].get("signal") == "momentum(0.9),mask"
    suitable = (0.2, 0.99)
    for make, name in ((lambda m: adamw(m, suitable), "adamw"), (lambda m: adamw(m, suitable, torch.optim.Adam), "adamw"),
                       (lambda m: adamw(m, suitable, OfTheProgram), "adamw"), (sgd, "sgd"), (muon, "muon"),
                       (lambda m: [muon(m), adamw(m, suitable)], "muon"), (lambda m: (sgd(m), sgd(m)), "sgd")):
        assert recipe_of(make) == named[name], (name, recipe_of(make))
    assert recipe_of(adamw, DENSE).get("up") == "all,f32"
    assert recipe_of(lambda m: adamw(m, suitable), clip=0.5).get("clip") == "0.5"
    os.environ["SLUICE_RECIPE"] = SPARSE
    try:
        assert recipe_of(sgd).get("up") == "topk(0.1),f32"
    finally:
        del os.environ["SLUICE_RECIPE"]
    model = network()
    optimizer = sluice.torch.Optimizer(model, inner=sgd(model), job=job)
    assert optimizer.model.recipe == named["sgd"]
    optimizer.close()


def says_what_it_selects(job):
    model = network()
    os.environ["SLUICE_ADVICE"] = "yes"
    try:
        with Heard() as heard:
            wrapped(job, model, None, optimizer=sgd(model))[1].close()
    finally:
        os.environ["SLUICE_ADVICE"] = "no"
    said = [line for line in heard.lines if "no recipe was given, so SGD selects sgd of sluice_recipe(7)" in line]
    assert len(said) == (job.rank == 0), heard.lines


def trained(job, recipe, betas, **options):
    """Returns the digest after a few steps, and the output."""
    model = network()
    optimizer = adamw(model, betas)
    with Heard() as heard:
        ddp, state = wrapped(job, model, recipe, optimizer=optimizer, **options)
        for step in range(5):
            step_of(ddp, optimizer, rows(step, job.rank))
    digest = state.verify()
    state.close()
    return digest, heard, optimizer


def adapts(job):
    """With adapt=True, training gives the result of an optimizer that had these betas from the beginning."""
    first = job.rank == 0
    digest, heard, optimizer = trained(job, None, (0.9, 0.999), adapt=True)
    assert betas_of(optimizer) == [(0.2, 0.99)] and optimizer.defaults["betas"] == (0.2, 0.99)
    assert heard.lines.count("sluice.torch.compress: adapt=True changed the betas of AdamW from (0.9, 0.999) to "
                             "(0.2, 0.99)") == first, heard.lines
    assert not heard.warned("betas"), heard.lines
    by_hand, heard, _ = trained(job, "adamw", (0.2, 0.99))
    assert by_hand == digest and not heard.lines and not heard.warned("betas")

    unchanged, heard, optimizer = trained(job, None, (0.9, 0.999))
    assert unchanged != digest and betas_of(optimizer) == [(0.9, 0.999)]
    assert heard.warned("AdamW has betas=(0.9, 0.999)") == first
    assert heard.places() == ({"test_torch.py"} if first else set()), heard.places()  # wrapped() calls compress()
    assert heard.warned("so beta1 above 0.5 costs accuracy. Write AdamW(..., betas=(0.2, 0.99)), or pass adapt=True to "
                        "sluice.torch.compress()") == first
    for betas, words in (((0.2, 0.9), "beta2 below 0.95"), ((0.5, 0.95), None), ((0.0, 0.999), None)):
        heard = trained(job, SPARSE, betas)[1]
        assert heard.warned("costs accuracy") == (first and words is not None), betas
        assert not words or heard.warned(words) == first

    # No residual delays anything here, so the usual betas are right.
    for recipe in (DENSE, "up=random(0.5) down=all"):
        digest, heard, optimizer = trained(job, recipe, (0.9, 0.999), adapt=True)
        assert betas_of(optimizer) == [(0.9, 0.999)] and not heard.warned("betas")
        assert sum("adapt=True leaves AdamW as it is: the recipe lets no" in line for line in heard.lines) == first


def adapts_sgd(job):
    """The momentum of SGD moves to a recipe that was not given."""
    def run(recipe, momentum, adapt, **settings):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum, **settings)
        with Heard() as heard:
            ddp, state = wrapped(job, model, recipe, optimizer=optimizer, adapt=adapt)
            for step in range(5):
                step_of(ddp, optimizer, rows(step, job.rank))
        found = state.verify(), state.model.recipe.get("signal"), optimizer.param_groups[0]["momentum"], heard
        state.close()
        return found

    first = job.rank == 0
    digest, signal, momentum, heard = run(None, 0.8, True, nesterov=True)
    assert (signal, momentum) == ("momentum(0.8),mask", 0) and not heard.warned("momentum")
    assert heard.lines.count("sluice.torch.compress: adapt=True changed the momentum of SGD from 0.8 to 0, because the "
                             "recipe has signal=momentum(0.8),mask, and nesterov to False, because the momentum of a recipe "
                             "is a plain one") == first, heard.lines
    by_hand, signal, _, heard = run("sgdm signal=momentum(0.8)", 0, False)
    assert by_hand == digest and not heard.lines and not heard.warned("momentum")
    heard = run(None, 0.9, True, weight_decay=1e-4)[3]
    assert sum("multiply weight_decay by 10 to keep its effect" in line for line in heard.lines) == first, heard.lines
    assert not any("nesterov" in line for line in heard.lines), heard.lines
    for recipe, dampening, why in ((None, 0.75, "dampening=0.75, so steps would be 4 times as long: leave dampening out and "
                                    "multiply lr by 0.25"), ("sgdm", 1, "of another length: leave dampening out")):
        refused(lambda: run(recipe, 0.9, True, dampening=dampening), why)
    run(None, 0, True, dampening=0.5)
    run(None, 0.9, False, dampening=0.5)
    _, _, momentum, heard = run("sgdm", 0.9, True)
    assert momentum == 0 and not heard.warned("momentum")

    # A second call, or one after load_state_dict(), still knows the momentum that the first call took.
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8)
    wrapped(job, model, None, optimizer=optimizer, adapt=True)[1].close()
    loaded = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8)
    loaded.load_state_dict(optimizer.state_dict())
    for later in optimizer, loaded:
        with Heard() as heard:
            state = wrapped(job, model, None, optimizer=later, adapt=True)[1]
        assert state.model.recipe.get("signal") == "momentum(0.8),mask" and later.param_groups[0]["momentum"] == 0
        assert not any("adapt=True" in line for line in heard.lines), heard.lines
        state.close()

    unchanged, signal, momentum, heard = run(None, 0.9, False)
    assert unchanged != digest and (signal, momentum) == ("gradient", 0.9)
    assert heard.warned("SGD has momentum=0.9.") == first
    assert heard.warned("Write SGD(..., momentum=0) and add signal=momentum(0.9) to the recipe, or pass adapt=True and no "
                        "recipe to sluice.torch.compress()") == first
    for recipe, momentum, why in ((SPARSE, 0.9, "the recipe has no signal=momentum"), (None, 0, "it has no momentum")):
        _, signal, kept, heard = run(recipe, momentum, True)
        assert (signal, kept) == ("gradient", momentum)
        assert sum(f"adapt=True leaves SGD as it is: {why}" in line for line in heard.lines) == first, heard.lines
    assert not run(None, 0.5, False)[3].warned("momentum") and not run(DENSE, 0.9, False)[3].warned("momentum")
    model = network()
    with Heard() as heard:
        wrapped(job, model, None, optimizer=Muon(model.parameters(), lr=0.1, momentum=0.9), adapt=True)[1].close()
    assert sum("leaves Muon as it is: Sluice does not know what suits it" in line for line in heard.lines) == first
    assert not heard.warned("momentum")


def adapts_groups(job):
    """All groups change, including one added later, with several optimizers and with Optimizer(inner=)."""
    model = network()
    parts = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "betas": (0.8, 0.95)}]
    one, other = torch.optim.AdamW(parts), Muon(model[4].parameters(), lr=0.1)
    state = wrapped(job, model, None, optimizer=[other, one], adapt=True)[1]
    assert betas_of(one) == [(0.2, 0.99)] * 2
    one.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    assert betas_of(one) == [(0.2, 0.99)] * 3
    state.close()
    model = network()
    with Heard() as heard:
        sluice.torch.Optimizer(model, inner=adamw(model), job=job).close()
    assert heard.places() == ({"test_named.py"} if job.rank == 0 else set()), heard.places()
    optimizer = sluice.torch.Optimizer(model, inner=adamw(model), adapt=True, job=job)
    assert betas_of(optimizer) == betas_of(optimizer.inner) == [(0.2, 0.99)]
    optimizer.close()


def scheduler_changes_beta1(job):
    """OneCycleLR resets the momentum in each step, which causes one warning."""
    for inner in (False, True):
        model = network()
        optimizer = adamw(model)
        if inner:
            trains, state = model, sluice.torch.Optimizer(model, inner=optimizer, adapt=True, job=job)
        else:
            trains, state = wrapped(job, model, None, optimizer=optimizer, adapt=True)
        steps = state if inner else optimizer
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=10)
        with Heard() as heard:
            for step in range(3):
                step_of(trains, steps, rows(step, job.rank))
                schedule.step()
        assert heard.warned("AdamW now has betas=(0.95, 0.99)") == (job.rank == 0)
        assert heard.warned("cycle_momentum=False") == (job.rank == 0)
        state.close()
    model = network()
    optimizer = sgd(model)
    ddp, state = wrapped(job, model, None, optimizer=optimizer, adapt=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=10)
    with Heard() as heard:
        for step in range(3):
            step_of(ddp, optimizer, rows(step, job.rank))
            schedule.step()
    assert heard.warned("SGD also now has momentum (momentum=0.95)") == (job.rank == 0)
    state.close()


def two_momenta(job):
    for betas, expected in (((0.9, 0.999), True), ((0.2, 0.99), True), ((0.0, 0.99), False)):
        model = network()
        with Heard() as heard:
            wrapped(job, model, SPARSE + " signal=momentum(0.9)", optimizer=adamw(model, betas))[1].close()
        assert heard.warned(f"AdamW also has momentum (beta1={betas[0]:g}): steps are amplified twice") == (expected and job.rank == 0)
        assert not heard.warned("costs accuracy")
    model = network()
    with Heard() as heard:
        wrapped(job, model, SPARSE + " signal=momentum(0.9)", optimizer=sgd(model))[1].close()
    assert heard.warned("SGD also has momentum (momentum=0.9)") == (job.rank == 0)
    assert heard.places() == ({"test_torch.py"} if job.rank == 0 else set())


def refuses(job):
    model = network()

    def compress(recipe=None, **options):
        return wrapped(job, model, recipe, **options)

    def adagrad():
        return torch.optim.Adagrad(model.parameters())

    refused(lambda: compress(optimizer=adagrad()), "no recipe was given, and Sluice knows none for Adagrad: pass \"adamw\"")
    refused(lambda: compress("adamw", optimizer=adagrad(), adapt=True), "and Adagrad is none of these: leave it out")
    refused(lambda: compress(adapt=True), "pass optimizer= too")
    refused(lambda: compress("adamw", optimizer="adamw"), "optimizer=str, must be a torch optimizer")
    refused(lambda: compress(optimizer=[sgd(model), adamw(network())]), "AdamW has no parameter of the model")
    refused(lambda: compress(optimizer=[sgd(model), adamw(model)]), "SGD (sgd) and AdamW (adamw) need different ones")
    refused(lambda: compress("adamw", scaler=True), "scaler=True, must be the GradScaler")
    refused(lambda: sluice.torch.Optimizer(model, inner=adagrad(), job=job), "Sluice knows none for Adagrad")
    refused(lambda: sluice.torch.Optimizer(model, inner=5, job=job), "inner=5, must be a torch optimizer")
    refused(lambda: sluice.torch.Optimizer(model, inner=adamw(network()), job=job), "is not a parameter of inner")
    refused(lambda: sluice.torch.Optimizer(model, SPARSE, lr=0.1, adapt=True, job=job), "without inner= the shards make the step")
    refused(lambda: compress("adamv"), "adamw")
    several = torch.optim.SGD([{"params": model[0].parameters(), "momentum": 0.5}, {"params": model[2].parameters()}],
                              lr=0.1, momentum=0.9)
    refused(lambda: compress(optimizer=several, adapt=True), "but the groups of SGD have several, 0.5 and 0.9")
    compress("adamw", optimizer=adagrad())[1].close()


def rank_named_fsdp(job, folder):
    """replicate() does the same, for two replicas of one rank."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("gloo", rank=job.rank, world_size=RANKS,
                                         store=torch.distributed.FileStore(folder + "/store", RANKS))
    mesh, first = init_device_mesh("cpu", (RANKS, 1), mesh_dim_names=("replicate", "shard"))["shard"], job.rank == 0

    def sharded():
        model = network()
        for layer in (model[0], model[2], model):
            fully_shard(layer, mesh=mesh)
        return model

    def run(recipe, betas, between=lambda optimizer: None, **options):
        model = sharded()
        optimizer = adamw(model, betas)
        with Heard() as heard:
            state = sluice.torch.replicate(model, mesh, recipe, job=job, optimizer=optimizer, **options)
            for step in range(4):
                step_of(model, optimizer, rows(step, job.rank))
                between(optimizer)
        digest = state.verify()
        state.close()
        return digest, state.recipe, optimizer, heard

    os.environ["SLUICE_ADVICE"] = "yes"
    by_hand, recipe, _, heard = run("adamw", (0.2, 0.99))
    assert recipe == sluice.Recipe("adamw update=none") and not heard.lines and not heard.warned("betas"), heard.lines
    digest, recipe, _, heard = run(None, (0.2, 0.99))
    assert digest == by_hand and recipe == sluice.Recipe("adamw update=none"), recipe
    assert sum("sluice.torch.replicate: no recipe was given, so AdamW selects adamw" in line
               for line in heard.lines) == first, heard.lines
    os.environ["SLUICE_ADVICE"] = "no"
    digest, _, optimizer, heard = run(None, (0.9, 0.999), adapt=True)
    assert digest == by_hand and betas_of(optimizer) == [(0.2, 0.99)] and not heard.warned("betas")
    assert heard.lines.count("sluice.torch.replicate: adapt=True changed the betas of AdamW from (0.9, 0.999) to "
                             "(0.2, 0.99)") == first, heard.lines
    digest, _, _, heard = run(None, (0.9, 0.999))
    assert digest != by_hand and heard.warned("or pass adapt=True to sluice.torch.replicate()") == first
    assert heard.places() == ({"test_named.py"} if first else set()), heard.places()
    assert not run(DENSE, (0.9, 0.999))[3].warned("betas")

    def later(optimizer):
        optimizer.param_groups[0]["betas"] = (0.95, 0.99)

    assert run(None, (0.2, 0.99), later)[3].warned("AdamW now has betas=(0.95, 0.99)") == first

    model = sharded()

    def replicate(recipe=None, **options):
        return sluice.torch.replicate(model, mesh, recipe, job=job, **options)

    refused(lambda: replicate(optimizer=torch.optim.Adagrad(model.parameters())), "Sluice knows none for Adagrad")
    refused(lambda: replicate("adamv"), "adamw")
    refused(lambda: replicate(adapt=True), "sluice.torch.replicate: adapt=True changes the momentum of an optimizer")
    refused(lambda: replicate(optimizer=[sgd(model), adamw(model)]), "SGD (sgd) and AdamW (adamw) need different ones")
    job.close()
    torch.distributed.destroy_process_group()


def rank_named(job, _):
    join(job)
    for check in (selects, says_what_it_selects, adapts, adapts_sgd, adapts_groups, scheduler_changes_beta1, two_momenta, refuses):
        print(check.__name__, flush=True)
        check(job)
    job.close()


class Named(unittest.TestCase):
    def test_named(self):
        ranks.run(RANKS, "rank_named").all_well()

    @needs_torch_2_6
    def test_named_fsdp(self):
        ranks.run(RANKS, "rank_named_fsdp").all_well()


if __name__ == "__main__":
    unittest.main()
