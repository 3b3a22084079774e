# SPDX-License-Identifier: BSD-3-Clause
"""The communication hook of DistributedDataParallel.

As soon as back-propagation has filled a bucket, its gradients are pushed in place, by ranges. The last bucket
of a step begins the pull of the mean into the buckets. The future of each bucket then completes when the mean
of its parameters has arrived, while the means of later buckets are still on the network. DDP calls the hooks of
all buckets before it waits for a future.
"""
import warnings
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import torch

from ..errors import InvalidError, NumericError
from ..job import Job
from ..model import Model, totals_of
from ..recipe import Recipe
from ._change import Counters, succeed, wanted_recipe
from ._flat import TYPES, Layout, NotPickled, load_state, saved_state, verify, with_update_none
from ._group import default_job
from ._named import Momenta, chosen, keeps, optimizers_of
from ._watch import Used, Watch, after_backward, before_steps

_Segments = List[Tuple[int, int, int]]  # of a bucket: offset in it, begin in the flat vector, count
_Waiting = List[Tuple[Any, torch.Tensor, _Segments]]  # a future, its bucket, and the bucket's ranges


def has_signal_momentum(recipe: Recipe) -> bool:
    return "momentum" in (recipe.get("signal") or "")


def warn_of_clipped_mean(recipe: Recipe, where: str) -> None:
    """Warns once for a model, whose recipe is passed."""
    warnings.warn(
        f"the mean gradient was made smaller {where}, and the recipe says signal={recipe.get('signal')}: the limit then "
        "holds for gradients with momentum, and what it cuts off is lost, which costs accuracy. Leave clip_grad_norm_() "
        "out and give clip=1.0 (or another limit) to sluice.torch, which clips each rank's gradient before momentum and "
        "compression", stacklevel=3)


class _Steps:
    """Notes whether an optimizer of these parameters has made a step since the last exchange (torch 2.0 or later)."""

    def __init__(self, parameters: List[torch.nn.Parameter]) -> None:
        self._ids = {id(p) for p in parameters}
        self.made = True
        self._seen = False  # an optimizer that is not derived from torch's is never seen
        me = weakref.ref(self)
        self._hook = before_steps(lambda stepping, *_: _note_step(me(), stepping))

    def note(self, optimizer: torch.optim.Optimizer) -> None:
        if not self.made and any(id(p) in self._ids for group in optimizer.param_groups for p in group["params"]):
            self.made = self._seen = True

    def missing(self) -> bool:
        """Before an exchange. Returns whether the last one had no step."""
        found = self._seen and not self.made
        self.made = False
        return found

    def close(self) -> None:
        self._hook.remove()


def _note_step(steps: Optional[_Steps], optimizer: torch.optim.Optimizer) -> None:
    if steps is not None:
        steps.note(optimizer)


def _no_reducer() -> None:
    return None


class _Slot:
    """The state of DDP's hook, which torch registers once: the compression that is open now.

    A copy of the DDP model has its own reducer without a hook, and an empty slot.
    """

    def __init__(self) -> None:
        self.reducer: Callable[[], Any] = _no_reducer
        self.compression: Optional["Compression"] = None

    def __reduce__(self) -> Any:
        return _Slot, ()


class Compression(NotPickled):
    """The result of sluice.torch.compress(): the model of the job, and the state of the hook."""

    def __init__(self, ddp: Any, recipe: Union[str, Recipe, None], job: Optional[Job], scaler: Any,
                 optimizer: Any, adapt: bool, clip: Optional[float], options: Dict[str, Any]) -> None:
        self.job = default_job() if job is None else job
        if not self.job.is_worker:
            raise InvalidError(f"rank {self.job.rank} is a dedicated server: it has no gradients, and "
                               "calls Model.serve() in place of a training loop")
        group = getattr(ddp, "process_group", None)
        if group is not None and group.size() != self.job.workers:
            raise InvalidError(f"sluice.torch.compress: the process group of the model has {group.size()} ranks and the job "
                               f"{self.job.workers} workers, so it would also exchange with ranks outside of that group: give "
                               "job=sluice.torch.default_job().split(COLOR, KEY), with an equal COLOR on the ranks of the group")
        if scaler is not None and not getattr(scaler, "is_enabled", lambda: True)():
            scaler = None  # its step() skips nothing, so NaN would reach the parameters
        if scaler is not None and not hasattr(scaler, "get_scale"):
            raise InvalidError(f"sluice.torch.compress: scaler={scaler!r}, must be the GradScaler of the training")
        if options["uneven"]:
            self._check_uneven(ddp, scaler)
        ignored = getattr(ddp, "parameters_to_ignore", ())
        self._named = [(n, p) for n, p in ddp.module.named_parameters() if n not in ignored]
        # Back-propagation ends with the first layer, so most buckets are one range of this order.
        self.layout = Layout((n, p) for n, p in reversed(self._named) if p.requires_grad)
        self._check_dense(ddp)
        self._scaler = scaler
        self._ddp = weakref.ref(ddp)
        optimizers = optimizers_of(optimizer, ddp.module.parameters(), adapt, "sluice.torch.compress")
        recipe = chosen(recipe, optimizers, adapt, self.job, "sluice.torch.compress")
        wanted = with_update_none(recipe, "sluice.torch.compress", clip)
        types = {p.dtype for p in self.layout.parameters}
        self._dtype = min(types, key=str) if len(types) == 1 else torch.float32
        device = self.layout.parameters[0].device
        if any(p.device != device for p in self.layout.parameters):
            raise InvalidError("sluice.torch.compress: the parameters are on several devices, but a model of "
                               "Sluice is on one device: move all parameters there")
        self._device, self._options, self._one_type = device, options, len(types) == 1
        self._counters = Counters()
        if device.type == "cuda":
            options.setdefault("stream", torch.cuda.current_stream(device).cuda_stream)
        # Pieces in GPU memory would be copied through host memory, but one vector is not.
        self._mean: Optional[torch.Tensor] = None
        self.model = self._open(wanted)
        self._momenta = Momenta(self.model.recipe, optimizers, adapt, self.job, "sluice.torch.compress", depth=5)
        self._segments: Dict[Tuple[int, ...], _Segments] = {}
        self._waiting: _Waiting = []
        self.copied_bytes = 0
        self.skipped = False  # see compress()
        self.skipped_steps = 0
        self._watch: Optional[Watch] = None
        self._watching: Any = None
        self._steps: Optional[_Steps] = None
        self._begin_watching()
        self._used: Optional[Used] = Used(self.layout.parameters) if getattr(ddp, "find_unused_parameters", False) else None

    def _open(self, recipe: Recipe) -> Model:
        """Opens a model whose parameters are those of rank 0."""
        start = self._vector()
        self.layout.gather(start)
        model = self.job.open(start, recipe, tensors=self.layout.tensors(), grad_type=TYPES[self._dtype], **self._options)
        self.layout.scatter(start)
        plan = recipe.plan_items(self.layout.count, self.job.workers,
                                 steps_per_epoch=self._options.get("steps_per_epoch", 0))
        # Whether buckets are pushed one by one: only if they have one type, and if the recipe does not need
        # them all, because the library would copy them.
        self._ranges = self._one_type and plan["ranges"] == "yes"
        if self._device.type == "cuda":
            self._mean = start
        return model

    def change(self, recipe: Union[str, Recipe], *, clip: Optional[float] = None) -> None:
        """Continues with another recipe.

            if epoch == epochs - 1:
                state.change("up=all down=all")

        Collective over the workers, between two steps: call it on every rank after the same optimizer's step. If the
        ranks give different recipes, it fails on all of them, and the old recipe stays in use.

        Nothing is lost: the residuals of all workers and shards become the residual of the new recipe, which gets
        memory=residual if it has none. A dense recipe sends all of it with its first gradient. If both recipes have
        signal=momentum, the momentum of each worker stays; otherwise it ends. The steps of warmup= and of the
        checkpoints count from here, and the counters of stats() continue.

        Both models exist until the residuals have moved, so each rank needs the memory of both.

        recipe, clip: as for compress().
        """
        what = "Compression.change"
        if self._options["uneven"]:
            raise InvalidError(f"{what}: uneven=True, but all ranks are needed, and one that is in join() cannot take part: "
                               "leave one of the two out")
        if self._waiting:
            raise InvalidError(f"{what}: a backward is under way: call it after the optimizer's step")
        wanted = wanted_recipe(self.job, recipe, self.layout.count, self.job.workers,
                               self._options.get("steps_per_epoch", 0), clip, what)
        old, ranges, mean = self.model, self._ranges, self._mean
        stats = old.stats()
        try:
            self.model = succeed(old, lambda: self._open(wanted))
        except BaseException:
            self._ranges, self._mean = ranges, mean
            raise
        self._counters.add(stats)
        self._momenta.change(self.model.recipe)
        self._stop_watching()
        self._begin_watching()

    def _begin_watching(self) -> None:
        if before_steps is not None and has_signal_momentum(self.model.recipe):
            self._watch = Watch(self.layout.parameters)
            me = weakref.ref(self)
            self._watching = before_steps(lambda stepping, *_: _before_step(me(), stepping))
        self._stop_steps()
        if before_steps is not None and self.job.rank == 0 and keeps(self.model.recipe):
            self._steps = _Steps(self.layout.parameters)

    def _stop_steps(self) -> None:
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    def _check_steps(self) -> None:
        """Before an exchange of a backward. DDP's join() calls the hook without one."""
        if self._steps is None or not _in_backward() or not self._steps.missing():
            return
        self._stop_steps()
        recipe = self.model.recipe
        warnings.warn(
            "two backwards have exchanged gradients without a step of the optimizer between them, and the recipe has "
            f"memory={recipe.get('memory')} and signal={recipe.get('signal')}: each exchange adds its gradients to the "
            "residual or momentum, from which later steps use them even if zero_grad() drops the mean. Do forward and backward within "
            "no_sync() of the DistributedDataParallel model in all backwards of a step but the last one, and in those that "
            "only pass through this model to train another one", stacklevel=5)

    def _check_dense(self, ddp: Any) -> None:
        trained = {id(p): name for name, p in self._named if p.requires_grad}
        for layer in ddp.module.modules():
            sparse = getattr(layer, "sparse", False) is True
            name = trained.get(id(getattr(layer, "weight", None))) if sparse else None
            if name:
                raise InvalidError(f"sluice.torch.compress: {name} has sparse gradients, which DistributedDataParallel does "
                                   "not give to a hook: make the layer with sparse=False, or use "
                                   "sluice.torch.Optimizer(inner=) without DistributedDataParallel")

    def _check_clipping(self, optimizer: torch.optim.Optimizer) -> None:
        """Before each step of any optimizer."""
        if self._watch is None or self.model.closed or not self._watch.steps(optimizer):
            return
        if self._watch.smaller():
            self._watch = None  # torch goes through its hooks, so none may be removed here
            warn_of_clipped_mean(self.model.recipe, "between backward() and the step")
        else:
            self._watch.forget()  # the optimizer itself may write to gradients

    def _stop_watching(self) -> None:
        self._watch = None
        if self._watching is not None:
            self._watching.remove()
            self._watching = None

    def _vector(self) -> torch.Tensor:
        return torch.empty(self.layout.count, dtype=torch.float32, device=self._device)

    @staticmethod
    def _check_uneven(ddp: Any, scaler: Any) -> None:
        """Refuses what needs all ranks: DDP's own exchanges would wait for the ranks that have ended."""
        why = ""
        if scaler is not None:
            why = "scaler= lets the ranks agree in each step"
        elif getattr(ddp, "find_unused_parameters", False):
            why = "find_unused_parameters=True lets the ranks agree in each step"
        elif getattr(ddp, "static_graph", False):
            why = "static_graph=True lets the ranks agree in the first step"
        elif getattr(ddp, "broadcast_buffers", False) and any(True for _ in ddp.module.buffers()):
            why = "broadcast_buffers=True sends buffers in each step"
        if why:
            raise InvalidError(f"sluice.torch.compress: uneven=True, but {why}, for which all ranks are needed: "
                               "leave one of the two out")

    # ---- a step ---------------------------------------------------------------------------------

    def _segments_of(self, bucket: Any) -> _Segments:
        parameters = bucket.parameters()
        key = tuple(map(id, parameters))
        found = self._segments.get(key)
        if found is None:
            found, offset = [], 0
            for p in parameters:
                begin, count = self.layout.begins[self.layout.place(p)], p.numel()
                if not count:
                    continue
                if found and found[-1][1] + found[-1][2] == begin:
                    found[-1] = (*found[-1][:2], found[-1][2] + count)
                else:
                    found.append((offset, begin, count))
                offset += count
            self._segments[key] = found
        return found

    def _push(self, buffer: torch.Tensor, segments: _Segments) -> None:
        try:
            for offset, begin, count in segments:
                self.model.push_range(buffer[offset:offset + count], begin, count)
        except NumericError as error:
            if self._scaler is not None:
                raise
            raise NumericError(f"{error}. With a GradScaler, give it to compress() as scaler=") from error

    def _pieces(self, waiting: _Waiting) -> List[torch.Tensor]:
        """Returns the buckets, cut and ordered like the flat vector."""
        found = [(begin, buffer[offset:offset + count])
                 for _, buffer, segments in waiting for offset, begin, count in segments]
        return [piece for _, piece in sorted(found, key=lambda pair: pair[0])]

    def _bucket(self, bucket: Any) -> Any:
        if bucket.index() == 0:
            self._waiting.clear()  # of a backward that an exception ended
            self.layout.check_known(self._named)
            self._momenta.check()
        buffer, segments = bucket.buffer(), self._segments_of(bucket)
        future: Any = torch.futures.Future()
        self._waiting.append((future, buffer, segments))
        if self._used is not None:
            self._used.note_others(bucket)
        if self._ranges and self._scaler is None:
            self._push(buffer, segments)
        if bucket.is_last():
            self._finish()
        return future

    def _finish(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._call_after_backward()
        if self._scaler is not None and not self._unscaled(waiting):
            return
        self._check_steps()
        if self._mean is not None:
            self._finish_on_device(waiting, self._mean)
            return
        pieces = self._pieces(waiting)
        if not self._ranges:
            self.model.push(pieces)
        self.model.pull_begin(pieces)
        self._note_skipped()
        for future, buffer, segments in waiting:
            for _, begin, count in segments:
                self.model.pull_range(begin, count)
            future.set_result(self._scaled(buffer))

    def _finish_on_device(self, waiting: _Waiting, mean: torch.Tensor) -> None:
        if not self._ranges:
            for _, buffer, segments in waiting:
                for offset, begin, count in segments:
                    mean[begin:begin + count].copy_(buffer[offset:offset + count])
                self.copied_bytes += buffer.numel() * mean.element_size()
            self.model.push(mean if self._dtype == torch.float32 else mean.to(self._dtype))
        self.model.pull(mean)
        self._note_skipped()
        for future, buffer, segments in waiting:
            for offset, begin, count in segments:
                buffer[offset:offset + count].copy_(mean[begin:begin + count])
            self.copied_bytes += buffer.numel() * buffer.element_size()
            future.set_result(self._scaled(buffer))

    def _call_after_backward(self) -> None:
        try:
            if self._watch is not None:
                self._watch.forget()
            if self._used is not None:
                after_backward(self._used.end_of_step())
            if self._watch is not None:
                after_backward(self._watch.note)  # after the means have been given, which are not the script's changes
        except RuntimeError:  # in DDP's join(), which calls the hook without a backward
            pass

    def _note_skipped(self) -> None:
        self.skipped = self.model.skipped
        self.skipped_steps += self.skipped
        if self.skipped and self._steps is not None:
            self._steps.made = True  # the script leaves it out

    def _scaled(self, buffer: torch.Tensor) -> torch.Tensor:
        return buffer if self._scaler is None else buffer.mul_(self._scaler.get_scale())

    def _unscaled(self, waiting: _Waiting) -> bool:
        """Divides by the loss scale and pushes. Returns False if some rank overflowed and all skip the step."""
        overflow = not all(bool(torch.isfinite(buffer).all()) for _, buffer, _ in waiting)
        if self.job.sum([float(overflow)])[0]:
            self.skipped = True
            self.skipped_steps += 1
            if self._used is not None:
                self._used.drop_means()
            for future, buffer, _ in waiting:
                future.set_result(buffer.fill_(float("inf")))  # so that every rank's scaler skips too
            return False
        for _, buffer, segments in waiting:
            buffer.mul_(1.0 / self._scaler.get_scale())
            if self._ranges:
                self._push(buffer, segments)
        return True

    def _idle_step(self, whole: torch.Tensor) -> bool:
        """Makes the exchanges of a step that another rank makes: DDP's, which orders the buckets again in the forward
        after the first backward, and that of the model. Returns False if no rank makes a step."""
        ddp = self._ddp() if self._options["uneven"] else None
        if ddp is None:
            return self.model.idle_step(whole)
        ddp.reducer._rebuild_buckets()
        more = self.model.idle_step(whole)
        if more:
            ddp.reducer._push_all_rebuilt_params()  # as the first backward does
        return more

    def join(self, optimizer: Any, after_step: Optional[Callable[[], Any]] = None,
             before_step: Optional[Callable[[], Any]] = None) -> int:
        """Makes the steps that other ranks still have samples for, with their gradients and optimizer.

        Each rank calls it when it has no samples left, and all return together, with equal parameters.
        after_step: called after each of these steps, also one that is skipped, for what the training loop
        does there on all ranks alike: ``after_step=scheduler.step`` where the rate changes in each step.
        before_step: called before the optimizer makes such a step, when each ``p.grad`` is the mean, for what the
        training loop does there on all ranks alike, such as clip_grad_norm_().
        Returns the number of steps. Needs uneven=True.
        """
        steps, whole = 0, self._vector()
        if self._watch is not None:
            self._watch.forget()
        while self._idle_step(whole):
            self._note_skipped()
            if not self.skipped:
                with torch.no_grad():
                    for i, p in enumerate(self.layout.parameters):
                        mean = self.layout.view(whole, i)
                        if p.grad is None:
                            p.grad = mean.to(p.dtype, copy=True)
                        else:
                            p.grad.copy_(mean)
                if before_step is not None:
                    before_step()
                optimizer.step()
            steps += 1
            if after_step is not None:
                after_step()
        return steps

    # ---- state and figures ----------------------------------------------------------------------

    def checkpoint(self, folder: Any) -> None:
        """Writes residuals and counters below folder, which all ranks share; see sluice.Model.checkpoint.

        Collective, between two steps. The script must save parameters and optimizer itself.
        """
        self.model.checkpoint(folder)

    def restore(self, folder: Any) -> int:
        """Restores what checkpoint() wrote, before the first step; returns the completed steps."""
        return self.model.restore(folder, self._vector())

    def state_dict(self) -> Dict[str, torch.Tensor]:
        """This rank's part of what checkpoint() writes, as one uint8 tensor, between two steps.

        It waits for no other rank. To resume, every rank needs the part that it saved itself after the same
        step. The tensor's name contains the rank, so that torch.distributed.checkpoint keeps the parts of all
        ranks.
        """
        return saved_state(self.job, self.model)

    def collective_state_dict(self) -> Dict[str, torch.Tensor]:
        """state_dict() on all ranks together, which fails on all of them if they are not at the same step."""
        return saved_state(self.job, self.model, together=True)

    def load_state_dict(self, state: Dict[str, torch.Tensor]) -> int:
        """Loads what state_dict() gave to this rank, before the first step; returns the completed steps.

        Collective: if a rank does not have its own part of the same step, it fails on all ranks.
        """
        return load_state(self.job, self.model, state, self._vector())

    def verify(self) -> int:
        """Compares the parameters over the workers; returns their digest, else names one that differs."""
        return verify(self.job, self._named)

    def stats(self) -> Dict[str, Any]:
        """Model.stats(), copied_bytes, which the hook itself copied between vectors, and skipped_steps."""
        return dict(self._counters.on(self.model.stats()), copied_bytes=self.copied_bytes,
                    skipped_steps=self.skipped_steps)

    def totals(self) -> Dict[str, Any]:
        """The bytes of all workers: see Model.totals(). Collective."""
        return totals_of(self.job, self.stats())

    def close(self) -> None:
        """Closes the model, collectively, after the same number of steps on all ranks.

        compress() may then be called again, with another recipe.
        """
        self._stop_watching()
        self._stop_steps()
        if self._used is not None:
            self._used.close()
        self.model.close()

    def __enter__(self) -> "Compression":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()


def _in_backward() -> bool:
    return getattr(torch._C, "_current_graph_task_id", int)() != -1  # torch 2.0 has no such function


def _before_step(compression: Optional[Compression], optimizer: torch.optim.Optimizer) -> None:
    if compression is not None:
        compression._check_clipping(optimizer)


def _hook(slot, bucket):  # DDP compares annotations, so there are none
    return slot.compression._bucket(bucket)


def _register(ddp: Any, state: Compression) -> None:
    """Makes state the model's compression. Torch takes a hook once for a model."""
    slot = getattr(ddp, "_sluice", None)
    if slot is None or slot.reducer() is not ddp.reducer:
        slot = _Slot()
        ddp.register_comm_hook(slot, _hook)
        slot.reducer, ddp._sluice = weakref.ref(ddp.reducer), slot  # the reducer owns the slot
    slot.compression = state


def _is_open(slot: Optional[_Slot]) -> bool:
    return slot is not None and slot.compression is not None and not slot.compression.model.closed


def compress(ddp: Any, recipe: Union[str, Recipe, None] = None, *, job: Optional[Job] = None,
             scaler: Any = None, optimizer: Any = None, adapt: bool = False, clip: Optional[float] = None,
             shards: int = 0, steps_per_epoch: int = 0, memory_bytes: int = 0, uneven: bool = False) -> Compression:
    """Lets a DistributedDataParallel model exchange its gradients through Sluice.

        sluice.torch.process_group()
        model = DistributedDataParallel(model)
        sluice.torch.compress(model, optimizer=optimizer)

    Collective over the workers. Every rank gets the parameters of rank 0. Afterwards each ``p.grad`` is the
    mean over the workers as the recipe sends it, with the same bits on all workers. A model has one
    compression at a time: close() the first one before compress() with another recipe. A copy or a
    pickle of the model is a plain DistributedDataParallel model, which may be compressed too.

    With nonfinite=skip-all in the recipe, or with scaler, all ranks skip a step if a gradient of any of
    them was not finite. Afterwards ``skipped`` of the returned object is True, and the program must leave out
    the optimizer's step; a GradScaler does so automatically.

    recipe: see sluice_recipe(7); None takes SLUICE_RECIPE, else the recipe that suits optimizer, else a dense one.
        update=none is added, because the optimizer is torch's.
    job: None takes sluice.torch.default_job().
    scaler: the GradScaler of mixed precision. Gradients are pushed without its scale, and if those of
        a rank are not finite, the step is skipped on all ranks before anything is pushed. One that was made with
        enabled=False counts as None.
    optimizer: the optimizer of the model, or a list of several. Each must have a parameter of the model. Without a recipe,
        its class selects adamw, sgd or muon of sluice_recipe(7). There is one warning, on rank 0, if recipe and optimizer
        both have momentum, or if the momentum or the betas of the optimizer do not suit the recipe.
    adapt: if the recipe selects coordinates, sets the betas of Adam and AdamW to (0.2, 0.99). Without a recipe, moves the
        momentum of SGD to that of the library (sgdm). Rank 0 logs what was changed.
    clip: the limit of each rank's gradient norm, as clip= in the recipe. With signal=momentum use it in place
        of clip_grad_norm_(). If a script then makes the mean smaller, there is one warning (torch 2.0 or
        later).
    uneven: ranks may have unequal numbers of steps; see Compression.join().
    shards, steps_per_epoch, memory_bytes: see sluice.Model.
    """
    if not hasattr(ddp, "register_comm_hook"):
        raise TypeError(f"sluice.torch.compress: {type(ddp).__name__} is not a DistributedDataParallel: wrap "
                        "the model in one, or use sluice.torch.Optimizer")
    if _is_open(getattr(ddp, "_sluice", None)):
        raise InvalidError("sluice.torch.compress: this model is already compressed: call close() of the first result "
                           "on all ranks after the same step, before you call compress() again")
    state = Compression(ddp, recipe, job, scaler, optimizer, adapt, clip,
                        {"shards": shards, "steps_per_epoch": steps_per_epoch,
                         "memory_bytes": memory_bytes, "uneven": uneven})
    try:
        _register(ddp, state)
    except BaseException:
        state.close()
        raise
    return state
