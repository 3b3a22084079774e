# SPDX-License-Identifier: BSD-3-Clause
"""An optimizer for scripts without DistributedDataParallel.

All gradients are views of one flat vector, which is pushed in place. Without inner= the parameters are views of
another flat vector, which the pull changes in place, and the shards make the step.
"""
import inspect
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import torch

from .._library import setting
from ..errors import InvalidError
from ..job import Job
from ..model import Model, totals_of
from ..recipe import Recipe
from ._change import Counters, succeed, wanted_recipe
from ._ddp import has_signal_momentum, warn_of_clipped_mean
from ._flat import TYPES, Layout, NotPickled, average, buffers_of, check_orders, digests, load_state, saved_state, \
    verify, with_clip, with_update_none
from ._group import broadcast, default_job
from ._named import Momenta, chosen, optimizers_of
from ._watch import Watch, after_backward


_Named = List[Tuple[str, torch.nn.Parameter]]


def _groups(params: Any) -> List[Tuple[_Named, Dict[str, Any]]]:
    """Returns the groups of parameters, each with its own settings; one group if params has no groups."""
    if isinstance(params, torch.nn.Module):
        params = params.named_parameters()
    items, found, count = list(params), [], 0
    if not any(isinstance(item, dict) for item in items):
        items = [{"params": items}]
    for item in items:
        if not isinstance(item, dict):
            raise InvalidError("sluice.torch.Optimizer takes parameters or groups of parameters, and not both")
        own = {key: value for key, value in item.items() if key != "params"}
        other = sorted(set(own) - {"lr", "weight_decay"})
        if other:
            raise InvalidError(f"sluice.torch.Optimizer: a group of parameters has {other[0]}=: a group can "
                               "only have lr and weight_decay, and update= of the recipe sets the rest")
        pairs = [p if isinstance(p, tuple) else (f"parameter {count + i}", p)
                 for i, p in enumerate(item["params"])]
        count += len(pairs)
        found.append((pairs, own))
    return found


def _decay_of(recipe: Recipe) -> float:
    """The weight decay of a complete recipe."""
    update = recipe.get("update") or ""
    if update.startswith("adamw("):
        return float(update.rstrip(")").split(",")[3])
    return float(recipe.get("decay") or 0)


def _check_inner(inner: torch.optim.Optimizer) -> None:
    if not hasattr(inner, "param_groups"):
        raise InvalidError(f"sluice.torch.Optimizer: inner={inner!r}, must be a torch optimizer")
    closure = inspect.signature(inner.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InvalidError(f"sluice.torch.Optimizer: inner={type(inner).__name__} computes several gradients in a step, and "
                           "Sluice exchanges one: take an optimizer whose step() needs no closure")


def _backward_of(optimizer: Optional["Optimizer"]) -> None:
    if optimizer is not None:
        optimizer._note_backward()


class Optimizer(NotPickled, torch.optim.Optimizer):
    """Exchanges gradients through Sluice and makes the step.

        optimizer = sluice.torch.Optimizer(model, "up=topk(0.01) down=topk(0.05)", lr=0.05)
        optimizer = sluice.torch.Optimizer(model, "up=topk(0.01) down=topk(0.05)",
                                           inner=torch.optim.AdamW(model.parameters()))

    Collective over the workers. Every rank gets the parameters of rank 0, and of a module also the buffers.

    params: a module, its named_parameters(), whose names then appear in messages, or its parameters(). Frozen
        parameters must stay frozen: a step refuses parameters that were unfrozen later.
        Without inner also groups, ``{"params": ..., "lr": ..., "weight_decay": ...}``; a group without
        weight_decay has the recipe's decay=, or that of update=adamw. Not all recipes can have groups, see rules in
        sluice_model_open(3).
    recipe: see sluice_recipe(7); None takes SLUICE_RECIPE, else the recipe that suits inner, as for compress(), else
        the empty recipe, up=topk(0.01) down=topk(0.05). Without inner the shards make the step that update= names.
    lr: the learning rate of the shards. A scheduler may change ``param_groups[0]["lr"]``, or the rates of
        all groups by one factor. A step with rate 0 changes no parameter.
    inner: an optimizer over the same parameters and no others. It makes its step with the mean gradient, and
        update=none is added to the recipe. Its ``param_groups`` are those of this optimizer.
    adapt: as for compress(), for the momentum of inner.
    job: None takes sluice.torch.default_job().
    clip: the limit of each rank's gradient norm, as clip= in the recipe.
    uneven: ranks may have unequal numbers of steps; see join().
    shards, steps_per_epoch, memory_bytes: see sluice.Model.

    With nonfinite=skip-all in the recipe, inner makes no step if some rank's gradient was not finite.
    A GradScaler works with it: ``scaler.step(optimizer)`` pushes gradients without the scale, and
    a step in which some rank overflowed is skipped by all before anything is pushed. ``skipped`` is then true on all
    ranks, although the scales of the GradScalers may differ: let a scheduler depend on it and not on a scale.
    """

    _step_supports_amp_scaling = True
    inner: Optional[torch.optim.Optimizer] = None

    @property
    def param_groups(self) -> List[Dict[str, Any]]:  # type: ignore[override]
        """The groups of inner, which its load_state_dict() replaces, or those of this optimizer."""
        return self.__dict__["param_groups"] if self.inner is None else self.inner.param_groups

    @param_groups.setter
    def param_groups(self, groups: List[Dict[str, Any]]) -> None:
        if self.inner is None:
            self.__dict__["param_groups"] = groups  # where torch's __setstate__() sets them
        else:
            self.inner.param_groups = groups

    def __init__(self, params: Union[torch.nn.Module, Iterable[Any]],
                 recipe: Union[str, Recipe, None] = None, *, lr: Optional[float] = None,
                 inner: Optional[torch.optim.Optimizer] = None, adapt: bool = False, job: Optional[Job] = None,
                 clip: Optional[float] = None, shards: int = 0, steps_per_epoch: int = 0,
                 memory_bytes: int = 0, uneven: bool = False) -> None:
        self.job = default_job() if job is None else job
        if not self.job.is_worker:
            raise InvalidError(f"rank {self.job.rank} is a dedicated server: it has no gradients, and "
                               "calls Model.serve() in place of a training loop")
        if (lr is None) == (inner is None):
            raise InvalidError("sluice.torch.Optimizer takes either lr=, with which the shards make the step, "
                               "or inner=, an optimizer that makes the step with the mean gradient")
        if lr is not None and not 0 <= lr < float("inf"):
            raise InvalidError(f"sluice.torch.Optimizer: lr={lr}, must be finite and >= 0")
        if inner is not None:
            _check_inner(inner)
        elif adapt:
            raise InvalidError("sluice.torch.Optimizer: adapt=True changes the betas of inner=, but without inner= the "
                               "shards make the step: write betas in the recipe, as in update=adamw(0.2,0.99,1e-8,0.1)")
        groups = _groups(params)
        if inner is not None and any(own for _, own in groups):
            raise InvalidError("sluice.torch.Optimizer: with inner= its groups have lr and weight_decay: give here "
                               "all parameters without groups")
        self._module = params if isinstance(params, torch.nn.Module) else None
        self._given = [pair for pairs, _ in groups for pair in pairs]
        self._given_ids = {id(p) for _, p in self._given}
        self.layout = Layout((name, p) for name, p in self._given if p.requires_grad)
        parameters = self.layout.parameters
        device, dtype = parameters[0].device, parameters[0].dtype
        if any(p.device != device or p.dtype != dtype for p in parameters):
            raise InvalidError("sluice.torch.Optimizer: the parameters are on several devices or of several "
                               "types: open one optimizer for each")
        super().__init__([{"params": [p for _, p in pairs if p.requires_grad], **own} for pairs, own in groups],
                         {"lr": lr} if inner is None else inner.defaults)
        self.inner = inner
        if inner is None:
            self.layout.check_apart()  # each gets a place in one vector
            recipe = with_clip(recipe, clip, "sluice.torch.Optimizer")
        rules = None if inner is not None else self._rules(recipe, lr, steps_per_epoch)
        if inner is not None:
            known = {id(p) for group in inner.param_groups for p in group["params"]}
            for name, p in zip(self.layout.names, parameters):
                if id(p) not in known:
                    raise InvalidError(f"{name} is not a parameter of inner: it would get gradients and "
                                       "never change. Give both the same parameters")
            optimizers = optimizers_of(inner, parameters, adapt, "sluice.torch.Optimizer")
            recipe = with_update_none(chosen(recipe, optimizers, adapt, self.job, "sluice.torch.Optimizer"),
                                      "sluice.torch.Optimizer with inner=", clip)
        self.layout.check_known(self._everything())
        self._grad = torch.zeros(self.layout.count, dtype=dtype, device=device)
        # The library writes a mean of 16 bits in place of the gradient. In GPU memory it would be copied
        # through host memory.
        self._pieces = dtype != torch.float32 and device.type != "cuda"
        self._flat = torch.empty(self.layout.count, device=device,
                                 dtype=dtype if inner is None else torch.float32)
        self.layout.gather(self._flat)
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
        self._options = {"shards": shards, "lr": lr or 0.0, "steps_per_epoch": steps_per_epoch, "memory_bytes": memory_bytes,
                         "stream": stream, "grad_type": TYPES[dtype], "uneven": uneven, "rules": rules}
        self._counters = Counters()
        self.model = self._open(self._flat, recipe)
        check_orders(self.job, self.model, self.layout, "sluice.torch.Optimizer")
        self._lr, self._uneven = lr or None, uneven  # 0 takes the library's default here, and is set before a push
        # p.grad is a view. A script can give it other memory through p.grad.data, but it never has the place.
        self._places = [self.layout.view(self._grad, i) for i in range(len(parameters))]
        self._views = [place.detach() for place in self._places]
        if inner is None:
            if self.model.recipe.get("signal") == "drift":
                self.model.close()
                raise InvalidError("the recipe says signal=drift, so the library takes the parameters that a "
                                   "program's own optimizer has changed: use sluice.torch.LocalSteps, or say "
                                   "signal=gradient")
            if self.model.recipe.get("update") == "average":
                self.model.close()
                raise InvalidError("the recipe has update=average, so the library takes the parameters after each "
                                   "rank's own steps, and not gradients: use sluice.torch.LocalSteps, or set "
                                   "update=sgd")
            if (self.model.recipe.get("signal") or "").startswith("igt"):
                self.model.close()
                raise InvalidError("the recipe has signal=igt, so gradients belong to another point than the "
                                   "parameters, which a torch script does not have: call push(), pull() and point() "
                                   "of a sluice.Model")
            if self.model.recipe.get("update") == "none":
                self.model.close()
                raise InvalidError("the recipe has update=none, so nothing would step: give inner= an "
                                   "optimizer, or set update=sgd, momentum(0.9), nesterov(0.9) or "
                                   "adamw(0.2,0.99,1e-8,0.1)")
            with torch.no_grad():
                for i, p in enumerate(parameters):
                    p.data = self.layout.view(self._flat, i)
        else:
            self.layout.scatter(self._flat)  # those of rank 0
            self._momenta = Momenta(self.model.recipe, optimizers, adapt, self.job, "sluice.torch.Optimizer", depth=4)
            if dtype == torch.float32:
                self._flat = self._grad  # the mean takes the gradient's place
        for _, p in self._everything():
            if not p.requires_grad:
                broadcast(self.job, p, 0)
        for _, b in self._buffers():
            broadcast(self.job, b, 0)
        # A step writes parameters of 16 bits from a copy that the library keeps, and weight decay shrinks such a copy.
        self._copied = inner is None and (dtype != torch.float32 or _decay_of(self.model.recipe) != 0
                                          or any(decay for _, decay in rules or ()))
        self._remember(True)
        self.copied_bytes = 0
        self.skipped = False  # whether the ranks agreed to skip the last step
        self.skipped_steps = 0
        self._exchanged = False  # by synchronize(), since the last backward or zero_grad()
        self._own = Watch(parameters) if inner is not None else None  # the gradients of this rank
        self._mean = Watch(parameters) if inner is not None and has_signal_momentum(self.model.recipe) else None
        if inner is not None:
            me, self._in_backward = weakref.ref(self), False
            self._hooks = [p.register_hook(lambda _: _backward_of(me())) for p in parameters]
        self.zero_grad()

    def _open(self, start: torch.Tensor, recipe: Any) -> Model:
        return self.job.open(start, recipe, tensors=self.layout.tensors(), **self._options)

    def change(self, recipe: Union[str, Recipe], *, clip: Optional[float] = None) -> None:
        """Continues with another recipe, as Compression.change() does. Needs inner=.

        Collective over the workers, between two steps.
        """
        what = "sluice.torch.Optimizer.change"
        if self.inner is None:
            raise InvalidError(f"{what}: the shards make the step, and their momenta belong to the recipe: make the step "
                               "with inner=, or let warmup= of the recipe change the density")
        if self._uneven:
            raise InvalidError(f"{what}: uneven=True, but all ranks are needed, and one that is in join() cannot take part: "
                               "leave one of the two out")
        wanted = wanted_recipe(self.job, recipe, self.layout.count, self.job.workers,
                               self._options["steps_per_epoch"], clip, what)
        stats = self.model.stats()

        def open_new() -> Model:
            start = torch.empty(self.layout.count, dtype=torch.float32, device=self._grad.device)
            self.layout.gather(start)
            return self._open(start, wanted)

        self.model = succeed(self.model, open_new)
        self._counters.add(stats)
        self._momenta.change(self.model.recipe)
        self._mean = Watch(self.layout.parameters) if has_signal_momentum(self.model.recipe) else None

    def _rules(self, recipe: Any, lr: Any, steps_per_epoch: int) -> Optional[List[Tuple[float, float]]]:
        """Returns the rule of each tensor, if a group has its own rate or weight decay."""
        if not lr and any(group["lr"] for group in self.param_groups):
            raise InvalidError("sluice.torch.Optimizer: lr=0, but a group has another lr: the shards keep the proportions "
                               "of the rates, so give lr above 0 and let a scheduler begin at 0")
        self._factors = [group["lr"] / lr if lr else 1.0 for group in self.param_groups]
        self._decays = [group.get("weight_decay") for group in self.param_groups]
        # The group whose rate determines that of the shards: if possible, one whose rate equals it.
        self._leading = self._factors.index(1.0 if 1.0 in self._factors else max(self._factors))
        if set(self._factors) == {1.0} and set(self._decays) == {None}:
            return None
        usual = 0.0
        if None in self._decays:
            text = str(recipe or "").strip() or setting("SLUICE_RECIPE") or None
            usual = _decay_of(Recipe(text).complete(steps_per_epoch=steps_per_epoch or 1000))
        return [(factor, usual if decay is None else decay)
                for group, factor, decay in zip(self.param_groups, self._factors, self._decays)
                for p in group["params"] if p.numel()]

    def _everything(self) -> Iterator[Tuple[str, torch.nn.Parameter]]:
        """Returns all parameters, including frozen ones and those that only the groups have, such as those of
        inner."""
        yield from self._given
        for g, group in enumerate(self.param_groups):
            for i, p in enumerate(group["params"]):
                if id(p) not in self._given_ids:
                    yield f"parameter {i} of group {g}", p

    def _buffers(self) -> List[Tuple[str, torch.Tensor]]:
        """Returns the buffers of the module, which forward() may have replaced by other tensors. Without
        DistributedDataParallel, each rank updates the statistics of norm layers with its own samples."""
        return [] if self._module is None else buffers_of(self._module)

    # ---- a step ---------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Sets all gradients to zero; they stay views of the flat vector, also with set_to_none."""
        self._in_backward = self._exchanged = False  # also after a backward that an exception ended, or without a step
        self._grad.zero_()
        self._set_views()

    def _renew_views(self) -> None:
        """Replaces views that have other memory now, after model.to() or after a script has set p.grad.data."""
        for i, (name, p, place) in enumerate(zip(self.layout.names, self.layout.parameters, self._places)):
            if p.dtype != place.dtype or p.device != place.device:
                raise InvalidError(f"{name} is now of {p.dtype} on {p.device}, but the optimizer was made for {place.dtype} on "
                                   f"{place.device}, so its gradient cannot be exchanged: call model.to() before you make the "
                                   "optimizer")
            if self._views[i].data_ptr() != place.data_ptr():
                self._views[i] = place.detach()

    def _set_views(self) -> None:
        self._renew_views()
        for p, view in zip(self.layout.parameters, self._views):
            p.grad = view

    def _note_backward(self) -> None:
        """Called at each gradient of a backward: the earlier mean is no longer valid for a step."""
        if not self._in_backward:
            self._in_backward, self._exchanged = True, False
            after_backward(self._backward_ended)

    def _backward_ended(self) -> None:
        self._in_backward = False
        if self._own is not None:
            self._own.note()

    def _check_own(self) -> None:
        """Before a push with inner."""
        if self._own is not None and self._own.smaller():
            self._own = None
            warnings.warn("this rank's gradient was made smaller after backward() and before the ranks exchange it. If "
                          "torch's clip_grad_norm_() did so, it clips each rank's gradient and not the mean: call "
                          "optimizer.clip_grad_norm_(1.0) (or another limit) instead, or with signal=momentum in "
                          "the recipe give clip=1.0 to sluice.torch.Optimizer", stacklevel=4)
        elif self._own is not None:
            self._own.forget()

    def _check_mean(self) -> None:
        """Before inner steps."""
        if self._mean is not None and self._mean.smaller():
            self._mean = None
            warn_of_clipped_mean(self.model.recipe, "between synchronize() and the step")
        elif self._mean is not None:
            self._mean.forget()

    def _collect(self) -> None:
        """Copies gradients that are not views of the flat vector, which happens after model.zero_grad()."""
        self.layout.check_known(self._everything())
        self._renew_views()
        for p, view in zip(self.layout.parameters, self._views):
            if p.grad is view:
                continue
            if p.grad is None:
                view.zero_()
            elif p.grad.layout != torch.strided or p.grad.data_ptr() != view.data_ptr():
                view.copy_(p.grad if p.grad.layout == torch.strided else p.grad.to_dense())
                self.copied_bytes += view.numel() * view.element_size()
            p.grad = view

    def _overflowed(self) -> bool:
        """With a GradScaler: the ranks agree whether to skip the step, and divide by the scale."""
        found = getattr(self, "found_inf", None)
        if found is None:
            return False
        if self._uneven:
            raise InvalidError("sluice.torch.Optimizer: uneven=True, but a GradScaler lets the ranks agree in each "
                               "step, for which all ranks are needed: leave one of the two out")
        if self.job.sum([float(found)])[0]:
            self._note_skipped(True)
            return True
        scale = getattr(self, "grad_scale", None)
        if scale is not None:
            self._grad.mul_(1.0 / float(scale))
        return False

    def _note_skipped(self, skipped: bool) -> None:
        self.skipped = skipped
        self.skipped_steps += skipped

    def _step_of_inner(self) -> None:
        """inner makes a step, but not with parameters that were frozen later: their gradient of zero would move them."""
        frozen = [(p, view) for p, view in zip(self.layout.parameters, self._views) if not p.requires_grad]
        for p, _ in frozen:
            p.grad = None
        try:
            self.inner.step()
        finally:
            for p, view in frozen:
                p.grad = view

    def _tell_rate(self) -> None:
        """Before each push: a scheduler may have changed the rate of the shards."""
        if self.inner is None:
            lr = self.param_groups[self._leading]["lr"] / self._factors[self._leading]
            for g, (group, factor, decay) in enumerate(zip(self.param_groups, self._factors, self._decays)):
                if abs(group["lr"] - lr * factor) > 1e-6 * abs(lr * factor):
                    raise InvalidError(f"group {g} has lr={group['lr']}, and group {self._leading} has "
                                       f"lr={self.param_groups[self._leading]['lr']}: the shards keep the proportions "
                                       "of the rates with which the optimizer was made, so change all by one factor")
                if group.get("weight_decay") != decay:
                    raise InvalidError(f"group {g} has weight_decay={group.get('weight_decay')}: the shards keep that "
                                       f"with which the optimizer was made, {decay}")
            if lr != self._lr:
                self.model.set_lr(lr)
                self._lr = lr

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Pushes the gradients, pulls the mean or the change, and makes the step. Collective."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.inner is not None:
            self._in_backward = False  # also after a backward that an exception ended
            if self._exchanged and getattr(self, "grad_scale", None) is not None:
                raise InvalidError("sluice.torch.Optimizer: the gradients had the scale of the GradScaler when "
                                   "synchronize() sent them: call scaler.unscale_(optimizer) before synchronize()")
            if self._exchanged or self._exchange():
                self._check_mean()
                if not self.model.skipped:
                    self._step_of_inner()
            self._exchanged = False
            return loss
        self._check_unchanged()
        self._collect()
        if self._overflowed():
            return loss
        self._tell_rate()
        self.model.push(self._grad)
        self.model.pull(self._flat)
        self._check_views()
        self._remember(False)
        self._note_skipped(self.model.skipped)
        return loss

    def _exchange(self) -> bool:
        """Computes the mean of the gradients over the workers. Returns False if the ranks agree to skip the
        step."""
        self._momenta.check()
        self._check_own()
        self._collect()
        if self._overflowed():
            return False
        self.model.push(self._grad)
        self.model.pull([self._grad] if self._pieces else self._flat)
        if self._flat is not self._grad and not self._pieces:
            self._grad.copy_(self._flat)
            self.copied_bytes += self._grad.numel() * self._grad.element_size()
        self._note_skipped(self.model.skipped)
        return not self.skipped

    @torch.no_grad()
    def synchronize(self) -> None:
        """Makes each ``p.grad`` the mean over the workers, with which step() then makes the step. Collective.

            loss.backward()
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        Without it step() exchanges the gradients. Needs inner=, because otherwise the shards make the step. With a
        GradScaler call ``scaler.unscale_(optimizer)`` before, and add nonfinite=skip-all to the recipe.
        """
        if self.inner is None:
            raise InvalidError("sluice.torch.Optimizer.synchronize: the shards make the step, so no rank has the mean: "
                               "give clip= to sluice.torch.Optimizer, or make the step with inner=")
        self._in_backward = False  # also after a backward that an exception ended
        if self._exchanged:
            return
        self._exchange()
        self._exchanged = True
        if self._mean is not None:
            self._mean.note()

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Clips the norm of the mean over the workers; returns the norm before.

        Collective, like synchronize(). With signal=momentum in the recipe use clip= instead.
        """
        self.synchronize()
        return torch.nn.utils.clip_grad_norm_(self.layout.parameters, max_norm, norm_type)

    def join(self, after_step: Optional[Callable[[], Any]] = None,
             before_step: Optional[Callable[[], Any]] = None) -> int:
        """Makes the steps that other ranks still have samples for, with their gradients.

        Each rank calls it when it has no samples left, and all return together, with equal parameters.
        after_step: called after each of these steps, also one that is skipped, for what the training loop
        does there on all ranks alike: ``after_step=scheduler.step`` where the rate changes in each step.
        before_step: with inner=, called before it makes such a step, when each ``p.grad`` is the mean, for what the
        training loop does there on all ranks alike: ``before_step=lambda: optimizer.clip_grad_norm_(1.0)``.
        Returns the number of steps. Needs uneven=True.
        """
        if before_step is not None and self.inner is None:
            raise InvalidError("sluice.torch.Optimizer.join: the shards make the step, so no rank has the mean that before_step= "
                               "could change: leave it out, and give clip= to sluice.torch.Optimizer")
        steps = 0
        while True:
            self._tell_rate()
            self._check_unchanged()
            if not self.model.idle_step(self._flat):
                return steps
            self._remember(False)
            self._note_skipped(self.model.skipped)
            if not self.skipped and self.inner is not None:
                if self._flat is not self._grad:
                    self._grad.copy_(self._flat)
                self._set_views()
                if before_step is not None:
                    self._exchanged = True  # so that clip_grad_norm_() takes this mean
                    before_step()
                    self._exchanged = False
                self._step_of_inner()
            steps += 1
            if after_step is not None:
                after_step()

    def _remember(self, loaded: bool) -> None:
        """Remembers the parameters as the library has written them. loaded: 1 at the start and after a checkpoint, when a
        script may load the same values once more."""
        if self._copied:
            self._versions = [p._version for p in self.layout.parameters]
            self._digests = digests(self.layout.parameters) if loaded else []

    def _check_unchanged(self) -> None:
        if not self._copied:
            return
        now = digests(self.layout.parameters) if self._digests else []  # torch does not count writes through p.data
        for i, (name, p) in enumerate(zip(self.layout.names, self.layout.parameters)):
            if now[i] == self._digests[i] if now else p._version == self._versions[i]:
                continue
            why = ("because the library keeps a copy of parameters of 16 bits, or that have a weight decay: set parameters before "
                   "the optimizer is made, or load its state, too")
            if now:
                raise InvalidError(f"{name} was set after sluice.torch.Optimizer was made, and this step would not begin with the "
                                   f"new value, {why}")
            # A script may also have set it to other values for an evaluation, and back.
            warnings.warn(f"{name} was written since the last step of sluice.torch.Optimizer. This step does not begin with a value "
                          f"other than the one of that step, {why}", stacklevel=4)
            break

    def _check_views(self) -> None:
        start, size = self._flat.data_ptr(), self._flat.element_size()
        for name, p, begin in zip(self.layout.names, self.layout.parameters, self.layout.begins):
            if p.numel() and p.data_ptr() != start + size * begin:  # without elements it has no address
                raise InvalidError(f"{name} was moved to other memory since the optimizer was made, so steps no "
                                   "longer reach it: call model.to() before, and use copy_() to set parameters")

    # ---- state and figures ----------------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """"optimizer": the state of inner, or the learning rate; "compression": this rank's part of what
        checkpoint() writes. Between two steps. It waits for no other rank, but to resume, every rank needs the
        state that it saved itself after the same step.
        """
        return self._state_dict(False)

    def collective_state_dict(self) -> Dict[str, Any]:
        """state_dict() on all ranks together, which fails on all of them if they are not at the same step."""
        return self._state_dict(True)

    def _state_dict(self, together: bool) -> Dict[str, Any]:
        own = super().state_dict() if self.inner is None else self.inner.state_dict()
        return {"optimizer": own, "compression": saved_state(self.job, self.model, together)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Loads what state_dict() gave to this rank, before the first step.

        Collective: if a rank does not have its own part of the same step, it fails on all ranks.
        """
        load_state(self.job, self.model, state_dict["compression"], self._flat)
        self._remember(True)
        if self.inner is None:
            super().load_state_dict(state_dict["optimizer"])
        else:
            self.inner.load_state_dict(state_dict["optimizer"])
            self.zero_grad()
        self._lr = None  # the library now has the rate of the checkpoint

    def checkpoint(self, folder: Any) -> None:
        """Writes residuals, momenta, counters and, without inner, parameters below folder.

        Collective, between two steps; all ranks share folder. The state of inner is not included.
        """
        self.model.checkpoint(folder)

    def restore(self, folder: Any) -> int:
        """Restores a checkpoint before the first step; returns the completed steps.

        The learning rate is that of param_groups.
        """
        steps = self.model.restore(folder, self._flat)
        self._remember(True)
        if self._flat is self._grad:
            self.zero_grad()
        self._lr = None
        return steps

    def verify(self) -> int:
        """Compares the parameters over the workers; returns their digest, else names one that differs.

        Buffers of a module, such as the running statistics of BatchNorm, may differ, because each rank updates them
        with its own samples. There is then one warning; see average_buffers().
        """
        found = verify(self.job, self._everything())
        buffers = self._buffers()
        if buffers:
            try:
                verify(self.job, buffers)
            except InvalidError as error:
                warnings.warn(f"the parameters are equal, but the buffer {str(error).partition('. ')[0]}: each rank has updated "
                              "it with its own samples. Call average_buffers() on all ranks before you evaluate or save",
                              stacklevel=2)
        return found

    def average_buffers(self) -> None:
        """Each floating-point buffer of the module becomes its mean over the workers, and the others become those of
        rank 0. Collective. Call it before evaluating or saving a model with BatchNorm."""
        buffers = [b for _, b in self._buffers()]
        means = [b for b in buffers if b.is_floating_point()]
        if means:
            average(self.job, means)
        for b in buffers:
            if not b.is_floating_point():
                broadcast(self.job, b, 0)

    def stats(self) -> Dict[str, Any]:
        """Model.stats(), copied_bytes, which the optimizer itself copied between vectors, and skipped_steps."""
        return dict(self._counters.on(self.model.stats()), copied_bytes=self.copied_bytes,
                    skipped_steps=self.skipped_steps)

    def totals(self) -> Dict[str, Any]:
        """The bytes of all workers: see Model.totals(). Collective."""
        return totals_of(self.job, self.stats())

    def close(self) -> None:
        """Closes the model, collectively, after the same number of steps on all ranks."""
        for hook in getattr(self, "_hooks", ()):
            hook.remove()
        self.model.close()
