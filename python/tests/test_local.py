# SPDX-License-Identifier: BSD-3-Clause
"""sluice.torch.LocalSteps in jobs of two and three ranks; run by local.sh."""
import copy
import gc
import hashlib
import importlib.util
import io
import os
import time
import unittest
import warnings

import numpy
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import ranks
import sluice
import sluice.torch
from sluice.torch._flat import average
import test_torch
from test_torch import network, refused, rows, sgd

LocalSteps = sluice.torch.LocalSteps
RANKS = 2
KEEPS = "up=topk(0.1) down=topk(0.2) signal=drift memory=residual(decay=0.9) when=every(5) keep=0.5 dense=none"


def numpy_methods():
    """tests/oracle/methods.py."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(here, "..", "..", "tests", "oracle", "methods.py")
    spec = importlib.util.spec_from_file_location("oracle_methods", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are made orthogonal."""

    def __init__(self, params, lr, momentum=0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                m.mul_(group["momentum"]).add_(p.grad)
                x = p.grad + group["momentum"] * m
                x = (x.t() if x.shape[0] > x.shape[1] else x) / (x.norm() + 1e-7)
                for _ in range(5):
                    a = x @ x.t()
                    x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
                p.sub_(x if x.shape == p.shape else x.t(), alpha=group["lr"])


def adamw(model):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)


def muon(model):
    named = list(model.parameters())
    return [Muon([p for p in named if p.dim() == 2], 0.02), torch.optim.AdamW([p for p in named if p.dim() != 2], lr=0.01)]


def one_step(job, model, local, step):
    local.zero_grad()
    loss = cross_entropy(model(rows(step, job.rank)[0]), rows(step, job.rank)[1])
    loss.backward()
    local.step()
    return loss.item()


def train(job, make, recipe, steps, **options):
    model = network(job.rank)  # that of rank 0 counts
    local = LocalSteps(model, make(model), recipe, job=job, **options)
    losses = [one_step(job, model, local, step) for step in range(steps)]
    return model, local, losses


def same_on_all(job, data):
    return len(set(job.gather(hashlib.sha256(data).digest()))) == 1


def own_bytes(model):
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters())


# ---- numbers: each function is called in all ranks ---------------------------------------------------

class Pull(nn.Module):
    """Its gradient is the distance to a target, in exact float32."""

    def __init__(self, start):
        super().__init__()
        self.first = nn.Parameter(torch.from_numpy(start[:200].copy()).view(10, 20))
        self.rest = nn.Parameter(torch.from_numpy(start[200:].copy()))

    def backward(self, gradient):
        self.first.grad = torch.from_numpy(gradient[:200]).view(10, 20)
        self.rest.grad = torch.from_numpy(gradient[200:])

    def vector(self):
        return torch.cat([p.detach().reshape(-1) for p in self.parameters()]).numpy()


def oracle(job):
    """SGD inside: all bits are those of numpy by the pages' formulas."""
    methods, n, lr = numpy_methods(), 600, numpy.float32(0.125)
    for every, keep, decay, update, m, down in ((3, 0.6, 0.9, "nesterov", 0.9, 0.15), (5, 0.0, 1.0, "sgd", 0.0, None),
                                                (1, 1.0, 1.0, "sgd", 0.0, 0.15)):
        start = numpy.random.default_rng(3).standard_normal(n).astype(numpy.float32)
        reference = methods.Drift(start.copy(), job.workers, 2, every=every, decay=decay,
                                  keep=keep, rate=0.5, up=0.1, down=down, update=update, m=m)
        model = Pull(start + numpy.float32(job.rank))  # rank 0's counts
        momentum = f"({m})" if m else ""
        local = LocalSteps(model, torch.optim.SGD(model.parameters(), lr=float(lr)),
                           f"up=topk(0.1) down={f'topk({down})' if down else 'all'} signal=drift dense=none rate=0.5 "
                           f"memory=residual(decay={decay}) update={update}{momentum} when=every({every}) keep={keep}",
                           job=job, shards=2)
        for step in range(4 * every + 2):
            noise = numpy.random.default_rng(step)
            gradients = []
            for rank in range(job.workers):
                noisy = noise.standard_normal(n).astype(numpy.float32)
                gradients.append(reference.held(rank) - numpy.float32(rank) + noisy)
            model.backward(gradients[job.rank])
            local.step()
            reference.step(gradients, lr)
            assert numpy.array_equal(model.vector(), reference.held(job.rank)), (every, step)
            with local.common():
                assert numpy.array_equal(model.vector(), reference.x), (every, step)
            assert numpy.array_equal(model.vector(), reference.held(job.rank))
        local.verify()
        local.close()


def any_optimizer(job):
    digests = set()
    for make in (lambda model: torch.optim.SGD(model.parameters(), lr=0.1), adamw, muon,
                 lambda model: torch.optim.RMSprop(model.parameters(), lr=0.003)):
        for recipe in ("diloco when=every(5) rate=0.4", "sparseloco when=every(4) dense=none", "sparseloco-down when=every(4)", KEEPS):
            _, local, losses = train(job, make, recipe, 60)
            if "diloco" in recipe:
                assert sum(losses[-10:]) < 0.95 * sum(losses[:10]), losses
            digests.add(local.verify())
            local.close()
    assert len(digests) == 16, "two trainings ended alike"
    model = network(job.rank)
    local = LocalSteps(model, torch.optim.LBFGS(model.parameters(), lr=0.2, max_iter=3, line_search_fn="strong_wolfe"),
                       "diloco when=every(2) update=sgd rate=1", job=job)

    def closure():
        local.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        return loss
    x, y = rows(0, job.rank, 50)
    losses = [float(local.step(closure)) for _ in range(10)]
    assert losses[-1] < 0.95 * losses[0], losses
    local.verify()
    local.close()


def step_of_the_script(job):
    """advance() after a step that the script makes, with a schedule, is step()."""
    _, local, _ = train(job, sgd, "diloco when=every(3)", 9)
    digest = local.verify()
    local.close()
    model = network(job.rank)
    optimizer = sgd(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1)
    local, due = LocalSteps(model, optimizer, "diloco when=every(3)", job=job), []
    for step in range(9):
        optimizer.zero_grad()
        cross_entropy(model(rows(step, job.rank)[0]), rows(step, job.rank)[1]).backward()
        optimizer.step()
        schedule.step()
        due.append(local.advance())
        assert local.in_sync == due[-1]
    assert due == 3 * [False, False, True] and local.verify() == digest
    stats, totals = local.stats(), local.totals()
    assert stats["steps"] == 9 and totals["pushed_bytes"] > 0
    local.close()


# ---- the common parameters ------------------------------------------------------------------------

def common_point(job):
    model, local, _ = train(job, adamw, KEEPS, 15)
    for step in (15, 16, 17, 18, 19, 20):
        own = own_bytes(model)
        assert not local.in_sync and not same_on_all(job, own)
        with local.common():
            assert local.in_sync and same_on_all(job, own_bytes(model))
            with local.common():
                assert own_bytes(model) != own
            for call, name in ((local.step, "step()"), (local.advance, "advance()"), (local.state_dict, "state_dict()"),
                               (lambda: local.checkpoint("x"), "checkpoint()")):
                refused(call, f"{name} inside of common(), where the parameters are not this rank's own")
            assert local.verify()
        assert own_bytes(model) == own
        try:
            with local.common():
                raise KeyError("evaluation failed")
        except KeyError:
            assert own_bytes(model) == own
        one_step(job, model, local, step)
    local.close()
    model, local, _ = train(job, adamw, "diloco when=every(5)", 10)
    own = own_bytes(model)
    with local.common():
        assert local.in_sync and own_bytes(model) == own and same_on_all(job, own)
    local.close()


def fragments(job):
    """Each exchange is of another part, which is then the same on all ranks."""
    model = network(job.rank)
    local, due = LocalSteps(model, sgd(model), "diloco when=every(6),fragments(3) rate=0.4", job=job, shards=3), []
    for step in range(12):
        local.zero_grad()
        cross_entropy(model(rows(step, job.rank)[0]), rows(step, job.rank)[1]).backward()
        local.optimizers[0].step()
        due.append(local.advance())
        own, third = own_bytes(model), local.layout.count // 3 * 4
        same = [same_on_all(job, own[at * third + 8:(at + 1) * third - 8]) for at in range(3)]
        assert not local.in_sync and same == [due[-1] and step // 2 % 3 == at for at in range(3)], (step, same)
    assert due == 6 * [False, True]
    local.verify()
    local.close()


def late(job):
    """An exchange comes three steps after its push, without mix() with the same parameters on all ranks."""
    model = network(job.rank)
    local, due = LocalSteps(model, sgd(model), "diloco when=every(4),late(3) rate=0.4", job=job), []
    for step in range(12):
        local.zero_grad()
        cross_entropy(model(rows(step, job.rank)[0]), rows(step, job.rank)[1]).backward()
        local.optimizers[0].step()
        due.append(local.advance())
        assert due[-1] == local.in_sync == same_on_all(job, own_bytes(model)), step
    assert due == 6 * [False] + [True] + 3 * [False] + [True, False]
    local.verify()
    local.close()


def storages():
    gc.collect()
    return {t.storage().data_ptr() for t in gc.get_objects() if type(t) in (torch.Tensor, nn.Parameter)}


def no_second_copy(job):
    """Between steps no tensor exists beyond those of the model and its optimizer."""
    warnings.simplefilter("ignore")
    model = network()
    optimizer = adamw(model)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    before = storages()
    local = LocalSteps(model, optimizer, KEEPS, job=job)
    for _ in range(7):
        local.step()
        with local.common():
            pass
    assert storages() <= before, "LocalSteps keeps tensors"
    local.close()
    warnings.simplefilter("default")


# ---- state --------------------------------------------------------------------------------------------

def resumed(job, folder):
    """In the middle of a period, at an exchange, and before the first: the run ends with the same bits."""
    def part(make, recipe, steps, saved=None, as_file=False, save=False):
        model = network(7 * job.rank + 1)
        local = LocalSteps(model, make(model), recipe, job=job)
        if saved and as_file:
            for optimizer, state in zip(local.optimizers, copy.deepcopy(saved[0]["optimizers"])):
                optimizer.load_state_dict(state)
            assert local.restore(os.path.join(folder, "saved")) == steps[0]
        elif saved:
            assert local.load_state_dict(torch.load(io.BytesIO(saved[1]))) == steps[0]
        for step in steps:
            one_step(job, model, local, step)
        if save:
            state, file = local.state_dict(), io.BytesIO()
            torch.save(state, file)
            saved = copy.deepcopy(state), file.getvalue()
            local.checkpoint(os.path.join(folder, "saved"))
        digest, own = local.verify(), own_bytes(model)
        local.close()
        return (digest, own), saved

    for make, recipe in ((adamw, KEEPS), (muon, KEEPS), (muon, "diloco when=every(5)"),
                         (adamw, "local4 when=every(6),fragments(2)"),
                         (adamw, "streaming-diloco when=every(6),fragments(2),late(2),mix(0.5)")):
        whole, _ = part(make, recipe, range(18))
        for middle in 2, 5, 12:
            _, saved = part(make, recipe, range(middle), save=True)
            for as_file in (False, True):
                assert part(make, recipe, range(middle, 18), saved, as_file)[0] == whole, (recipe, middle, as_file)
    local = LocalSteps(*(lambda m: (m, muon(m)))(network()), KEEPS, job=job)
    refused(lambda: local.load_state_dict({"optimizers": [], "compression": {}}), "the state is of 0 optimizers, but there are 2")
    refused(lambda: local.load_state_dict({"optimizers": [{}, {}], "compression": {}}),
            f"the state is of no rank and not of rank {job.rank}")
    state = local.state_dict()
    if job.rank:  # rank 0 has the right number, and must not wait for the others
        state["optimizers"] = state["optimizers"][:1]
    refused(lambda: local.load_state_dict(state), "the state is of 1 optimizers, but there are 2" if job.rank else
            "rank 1 (node n1): sluice_state_load: state is NULL")
    local.close()


def moved(job):
    """Memory that an optimizer or the script gives to a parameter is followed."""
    digests = []
    for moves in (False, True):
        model = network(job.rank)
        local = LocalSteps(model, adamw(model), KEEPS, job=job)
        for step in range(12):
            if moves and step in (4, 7, 9):
                for p in list(model.parameters())[step % 3:]:
                    p.data = p.data.clone()
            if moves and step == 4:
                refused(local.state_dict, "state_dict() after a parameter was moved to other memory: make a step first")
            one_step(job, model, local, step)
        digests.append((local.verify(), own_bytes(model)))
        local.close()
    assert digests[0] == digests[1]


# ---- what is not a trained parameter --------------------------------------------------------------

class Normed(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.norm, self.last = nn.Linear(12, 20), nn.BatchNorm1d(20), nn.Linear(20, 4)
        self.register_buffer("mask", torch.rand(300) + seed, persistent=False)
        self.empty = nn.Parameter(torch.empty(0))
        self.first.requires_grad_(False)

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


def frozen_and_buffers(job):
    for buffers in "mean", "own":
        model = Normed(job.rank)
        local = LocalSteps(model, adamw(model), "diloco when=every(4)", job=job, buffers=buffers)
        first = model.first.weight.detach().numpy().tobytes()
        assert same_on_all(job, first)
        for step in range(8):
            one_step(job, model, local, step)
            mean = model.norm.running_mean.numpy()
            assert same_on_all(job, mean.tobytes()) == (buffers == "mean" and step % 4 == 3), (buffers, step)
        assert model.first.weight.detach().numpy().tobytes() == first
        assert int(model.norm.num_batches_tracked) == 8 and not same_on_all(job, model.mask.numpy().tobytes())
        model.norm.running_mean.fill_(job.rank)
        model.norm.running_var.fill_(float("nan") if job.rank else 3)
        average(job, local._averaged())
        if buffers == "mean":
            assert model.norm.running_mean.tolist() == 20 * [0.5] and model.norm.running_var.tolist() == 20 * [3]
        local.verify()
        model.first.requires_grad_(True)
        for optimizer in local.optimizers:
            optimizer.add_param_group({"params": list(model.first.parameters())})
        refused(local.step, "parameter 0 of group 1 was not known")
        local.close()


def renamed_buffers(job):
    """Buffers are averaged that state_dict() has under other names, as for modules in torch's checkpoint_wrapper()."""
    def rename(_, state, *__):
        for name in [name for name in state if name.startswith("norm.")]:
            state[name.replace("norm.", "other.")] = state.pop(name)

    model = Normed(job.rank)
    model.register_buffer("sparse", torch.eye(3).to_sparse())  # is left alone
    model._register_state_dict_hook(rename)
    local = LocalSteps(model, adamw(model), "diloco when=every(4)", job=job)
    for step in range(4):
        one_step(job, model, local, step)
    assert same_on_all(job, model.norm.running_mean.numpy().tobytes())
    assert not same_on_all(job, model.mask.numpy().tobytes())
    local.close()


# ---- what is refused, and NaN -----------------------------------------------------------------------

def refusals(job):
    model = network()

    def no(why, model=model, optimizer=None, recipe="diloco", **options):
        refused(lambda: LocalSteps(model, sgd(model) if optimizer is None else optimizer, recipe, job=job, **options), why)

    no("every(P) takes a number of steps, 1 to 1000000", recipe="diloco when=every(0)")
    no("the recipe 'up=topk(0.1) down=all' has signal=gradient, so the ranks would exchange gradients. Take a recipe with "
       "signal=drift, such as diloco", recipe="up=topk(0.1) down=all")
    no("write update=sgd, momentum, nesterov or sign", recipe="diloco update=none")
    no("buffers='all', must be \"mean\" or \"own\"", buffers="all")
    sluice.torch.process_group(job)
    no("give the module that it wraps", DistributedDataParallel(model))
    no("give the torch optimizer itself", optimizer=sluice.torch.Optimizer(model, "up=all", lr=0.1, job=job))
    no("the list of optimizers is empty", optimizer=[])
    no("float is not an optimizer: it has no param_groups", optimizer=0.1)
    no("no optimizer has parameter 2.weight", optimizer=torch.optim.SGD(model[0].parameters(), lr=0.1))
    no("parameter 2 of group 0 is not a parameter of the model", model[0], sgd(model))
    no("parameter 4.weight is of torch.bfloat16, and small steps would be lost in it", nn.Sequential(
        *network()[:4], nn.Linear(8, 4, dtype=torch.bfloat16)))
    no("parameter weight is of torch.float64", nn.Linear(2, 2).double())
    gaps = nn.Linear(4, 4)
    gaps.weight = nn.Parameter(torch.zeros(4, 8)[:, ::2])
    no("parameter weight is a view with gaps", gaps)
    two = LocalSteps(model, muon(model), job=job)
    assert two.model.recipe.get("when") == "every(30)" and two.distance == 30
    refused(lambda: two.step(lambda: None), "step(closure) with 2 optimizers: call their step() yourself")
    two.close()
    refused(lambda: sluice.torch.Optimizer(network(), "diloco", lr=0.1, job=job), "use sluice.torch.LocalSteps")
    for recipe in "diloco", "when=every(3) local4", "up=topk(0.1) signal=drift":
        refused(lambda: sluice.torch.Optimizer(model, recipe, inner=sgd(model), job=job),
                "the recipe has signal=drift, so the ranks exchange parameters and not gradients: use sluice.torch.LocalSteps")
        refused(lambda: sluice.torch.compress(DistributedDataParallel(model), recipe, job=job),
                "sluice.torch.compress: the recipe has signal=drift")
    torch.distributed.destroy_process_group()


def transposed(job):
    """Parameters in another order in memory."""
    digests = []
    for turn in (False, True):
        model = network(job.rank)
        if turn:
            for layer in model[::2]:
                layer.weight = nn.Parameter(layer.weight.detach().t().contiguous().t())
        local = LocalSteps(model, sgd(model), "diloco when=every(2)", job=job)
        for step in range(6):
            one_step(job, model, local, step)
        digests.append(torch.cat([p.detach().contiguous().reshape(-1) for p in model.parameters()]))
        local.verify()
        local.close()
    assert torch.allclose(digests[0], digests[1], atol=1e-6)


def other_memory_format(job):
    """Memory in another order is refused after the exchanged vector was made, except if no element has another place."""
    model = nn.Sequential(nn.Conv2d(8, 4, 1), nn.Conv2d(4, 4, 2), nn.Flatten(), nn.Linear(4, 4))
    local = LocalSteps(model, sgd(model), "diloco when=every(2)", job=job)
    before = own_bytes(model)
    model[0].to(memory_format=torch.channels_last)
    with local.common():
        pass
    model(torch.ones(3, 8, 2, 2)).sum().backward()
    local.step()
    local.step()
    local.verify()
    assert own_bytes(model) != before
    model.to(memory_format=torch.channels_last)
    refused(local.advance, "the elements of parameter 1.weight are now in another order in memory")
    refused(local.common().__enter__, "call model.to(memory_format=) before LocalSteps is made")
    model.to(memory_format=torch.contiguous_format)
    local.step()
    local.close()


def nan_and_skip(job):
    model, local, _ = train(job, adamw, "diloco when=every(4) nonfinite=skip", 8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(8, 24):
            if step == 9 and job.rank == 1:
                with torch.no_grad():
                    model[0].weight.grad.fill_(float("nan"))
                local.step()
            else:
                one_step(job, model, local, step)
            finite = all(bool(p.isfinite().all()) for p in model.parameters())
            assert finite == (job.rank == 0 or step not in (9, 10)), step
    said = [str(w.message) for w in caught if "were NaN" in str(w.message)]
    assert len(said) == job.rank, said
    if said:
        assert said[0].startswith("the parameters of rank 1 were NaN or infinite after step 12: it has left out its drift and "
                                  "continues from the common parameters, with an empty state of AdamW"), said
    local.verify()
    local.close()


def rank_nan(job, _):
    model, local, _ = train(job, adamw, "diloco when=every(4)", 6)
    job.barrier()  # else rank 1 may end the job while rank 0 is in train()
    if job.rank == 1:
        with torch.no_grad():
            model[2].bias.fill_(float("nan"))
    try:
        for step in 6, 7:
            one_step(job, model, local, step)
    except sluice.Error as error:
        print(type(error).__name__, error)
    else:
        raise AssertionError("an exchange of NaN")
    job.close()


def rank_all(job, folder):
    for check in (any_optimizer, step_of_the_script, common_point, fragments, late, no_second_copy, moved,
                  frozen_and_buffers, renamed_buffers, transposed, other_memory_format, nan_and_skip, refusals):
        print(check.__name__, flush=True)
        check(job)
    resumed(job, folder)
    job.close()


def rank_oracle(job, _):
    oracle(job)
    job.close()


def rank_quorum(job, folder):
    """The last rank sleeps until the others have made three more exchanges, and then continues."""
    recipe, last = "diloco when=every(3) quorum=2 grace=0.2", job.workers - 1
    model = network(job.rank)
    normed = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    refused(lambda: LocalSteps(normed, adamw(normed), recipe, job=job), "buffers=\"own\"")
    local = LocalSteps(model, adamw(model), recipe, job=job)
    local.set_weight(32)
    refused(lambda: local.set_weight(0), "SLUICE_WEIGHT is 0")
    done = [os.path.join(folder, f"done.{rank}") for rank in range(last)]
    for step in range(15):
        while job.rank == last and step == 4 and not all(map(os.path.exists, done)):
            time.sleep(0.01)
        one_step(job, model, local, step)
        if job.rank < last and step == 11:
            open(done[job.rank], "w", encoding="utf-8").close()
        if job.rank == last and step == 5:
            assert local.model.missed >= 2
    assert local.model.exchanges >= 5
    local.catch_up()
    assert same_on_all(job, own_bytes(model))
    local.verify()
    assert (local.stats()["missed_exchanges"] >= 2) == (job.rank == last)
    state = local.state_dict()
    local.close()
    again = network(job.rank)
    other = LocalSteps(again, adamw(again), recipe, job=job)
    assert other.load_state_dict(state) == 15
    assert own_bytes(again) == own_bytes(model)
    other.close()
    job.close()


class Local(unittest.TestCase):
    def test_quorum(self):
        ranks.run(3, "rank_quorum").all_well()

    def test_all(self):
        ranks.run(RANKS, "rank_all").all_well()

    def test_numbers_of_numpy(self):
        for workers in 1, 2, 3:
            ranks.run(workers, "rank_oracle").all_well()

    def test_nan_of_an_inner_optimizer(self):
        (_, said_0), (_, said_1) = ranks.run(RANKS, "rank_nan").all_well()
        self.assertIn("the parameters that rank 1 (node n1) pushed at step 8 are NaN", said_1)
        self.assertIn("nonfinite=skip", said_1)
        self.assertIn("rank 1 (node n1)", said_0)

    def test_keeps_nothing(self):
        with sluice.Job() as job:
            model = nn.Linear(8, 4)
            local = LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.01), "diloco when=every(3)", job=job)
            x = torch.ones(2, 8)

            def step():
                local.zero_grad()
                model(x).sum().backward()
                local.step()
            test_torch.Torch.flat(self, step)
            local.close()


if __name__ == "__main__":
    unittest.main()
