# SPDX-License-Identifier: BSD-3-Clause
"""Local steps: each rank trains with its own torch optimizer, and the ranks exchange how far they have drifted.

The parameters stay where they are. At an exchange they are pushed and pulled in place, as a vector in pieces, and the
library keeps the common ones in host memory.
"""
import contextlib
import re
import warnings
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Optional, Sequence, Tuple, Union

import torch
from torch.nn.parallel import DistributedDataParallel

from .._library import setting
from .._vector import Pieces
from ..errors import InvalidError
from ..job import Job
from ..recipe import Recipe
from ._flat import Layout, NotPickled, average, buffers_of, check_orders, load_state, order_of, saved_state, verify
from ._group import broadcast, default_job
from ._optimizer import Optimizer

_NAME = "sluice.torch.LocalSteps"


def _recipe_of(given: Union[str, Recipe, None], count: int, workers: int, steps_per_epoch: int) -> Recipe:
    """Returns the whole recipe, which must have signal=drift."""
    text = str(given or "").strip() or setting("SLUICE_RECIPE").strip() or "diloco"
    recipe = Recipe(text).complete(count, workers, steps_per_epoch=steps_per_epoch or 1000)
    if recipe.get("signal") != "drift":
        raise InvalidError(f"{_NAME}: the recipe '{text}' has signal={recipe.get('signal')}, so the ranks would exchange "
                           "gradients. Take a recipe with signal=drift, such as diloco, sparseloco or local4, or use "
                           "sluice.torch.Optimizer(inner=) with this one")
    return recipe


def _run(p: torch.Tensor) -> torch.Tensor:
    """The elements of a parameter as one vector, in their order in memory."""
    p = p.detach()
    return p.view(-1) if p.is_contiguous() else p.as_strided((p.numel(),), (1,))


def _saved_buffers(model: torch.nn.Module) -> FrozenSet[str]:
    """The names of the buffers of state_dict(). It gives those of a module in checkpoint_wrapper() other names."""
    saved = model.state_dict()
    places = {value.data_ptr() for value in saved.values() if torch.is_tensor(value) and value.layout == torch.strided}
    places -= {p.data_ptr() for p in model.parameters() if p.layout == torch.strided}
    return frozenset(saved) | {name for name, b in buffers_of(model) if b.data_ptr() in places}


class LocalSteps(NotPickled):
    """Trains with local steps: each rank uses its own optimizer, and the ranks exchange their drifts now and then.

        local = sluice.torch.LocalSteps(model, torch.optim.AdamW(model.parameters()), "diloco when=every(30)")
        for x, y in batches:
            local.zero_grad()
            loss(model(x), y).backward()
            local.step()
        with local.common():
            evaluate(model)

    Collective over the workers, and so is each step() that ends with an exchange. Every rank gets the parameters and
    buffers of rank 0.

    model: a module, not wrapped by DistributedDataParallel, whose trainable parameters are float32 and on one device.
        Frozen parameters are not exchanged and must stay frozen.
    optimizer: any torch optimizer, or a list of optimizers that together have all trainable parameters, such as Muon
        for the matrices and AdamW for the rest. Their state is never exchanged.
    recipe: see LOCAL STEPS of sluice_recipe(7); None takes SLUICE_RECIPE, else diloco. when=every(H) sets the number of
        steps between exchanges.
    buffers: "mean" averages the floating-point buffers of state_dict(), such as the statistics of norm layers, at each
        exchange. "own" leaves each rank its own, and is needed with quorum= in the recipe if there are any.
    job: None takes sluice.torch.default_job().
    shards, steps_per_epoch, memory_bytes: see sluice.Model.

    All ranks make the same number of steps. With nonfinite=skip in the recipe, a rank whose parameters became NaN or
    infinite continues from the common parameters, and with an empty optimizer state if that is not finite either.
    """

    def __init__(self, model: torch.nn.Module, optimizer: Any, recipe: Union[str, Recipe, None] = None, *,
                 job: Optional[Job] = None, buffers: str = "mean", shards: int = 0, steps_per_epoch: int = 0,
                 memory_bytes: int = 0) -> None:
        self.job = default_job() if job is None else job
        if not self.job.is_worker:
            raise InvalidError(f"rank {self.job.rank} is a dedicated server: it has no parameters to train, and calls "
                               "Model.serve() in place of a training loop")
        if isinstance(model, DistributedDataParallel):
            raise InvalidError(f"{_NAME}: DistributedDataParallel exchanges gradients in each step: give the module that "
                               "it wraps")
        if buffers not in ("mean", "own"):
            raise InvalidError(f"{_NAME}: buffers={buffers!r}, must be \"mean\" or \"own\"")
        self.optimizers: List[Any] = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        self._module = model
        self.layout = self._checked_layout()
        parameters = self.layout.parameters
        self._check_optimizers()
        whole = _recipe_of(recipe, self.layout.count, self.job.workers, steps_per_epoch)
        self._means, self._lasting = buffers == "mean", _saved_buffers(model)
        self._quorum = whole.get("quorum") is not None
        if self._quorum and self._averaged():
            raise InvalidError(f"{_NAME}: buffers=\"mean\" averages the buffers of all ranks at each exchange, and would "
                               "wait for a rank that misses one (quorum=): give buffers=\"own\"")
        device = parameters[0].device
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
        self.model = self.job.open([_run(p) for p in parameters if p.numel()], whole, tensors=self.layout.tensors(),
                                   shards=shards, steps_per_epoch=steps_per_epoch, memory_bytes=memory_bytes,
                                   stream=stream)
        check_orders(self.job, self.model, self.layout, _NAME)
        self._pieces = self.model._pieces
        self._addresses, self._orders = self._where(), [order_of(p) for p in parameters]
        words = dict(re.findall(r"(every|fragments|late)\((\d+)", whole.get("when") or ""))
        self.distance = int(words.get("every", 1)) // int(words.get("fragments", 1))  # of two exchanges, in steps
        self.late = int(words.get("late", 0))  # steps from the push of an exchange to the pull that applies it
        self._skips, self._bad = whole.get("nonfinite") == "skip", 0
        for tensor in [p for p in model.parameters() if not p.requires_grad] + self._buffers():
            broadcast(self.job, tensor, 0)
        self._inside = False  # of common()

    # ---- what is refused --------------------------------------------------------------------------

    def _checked_layout(self) -> Layout:
        trained = [(name, p) for name, p in self._module.named_parameters() if p.requires_grad]
        for name, p in trained:
            if hasattr(p, "placements"):
                raise InvalidError(f"{_NAME}: parameter {name} is a DTensor, of which this rank has a part: each rank needs "
                                   "the whole model for local steps")
            if p.dtype in (torch.float16, torch.bfloat16):
                raise InvalidError(f"{_NAME}: parameter {name} is of {p.dtype}, and small steps would be lost in it: keep "
                                   "the parameters in float32 and compute with torch.autocast()")
        layout = Layout(trained)
        layout.check_apart()
        device = layout.parameters[0].device
        for name, p in zip(layout.names, layout.parameters):
            if p.device != device:
                raise InvalidError(f"{_NAME}: parameter {name} is on {p.device} and {layout.names[0]} on {device}: the "
                                   "model must be on one device")
        return layout

    def _check_optimizers(self) -> None:
        if not self.optimizers:
            raise InvalidError(f"{_NAME}: the list of optimizers is empty")
        for optimizer in self.optimizers:
            if isinstance(optimizer, Optimizer):
                raise InvalidError(f"{_NAME}: a sluice.torch.Optimizer exchanges gradients in each step: give the torch "
                                   "optimizer itself")
            if not hasattr(optimizer, "param_groups"):
                raise InvalidError(f"{_NAME}: {type(optimizer).__name__} is not an optimizer: it has no param_groups")
        mine = {id(p) for p in self._module.parameters()}
        stepped = set()
        for name, p in self._stepped():
            if id(p) not in mine:
                raise InvalidError(f"{_NAME}: {name} is not a parameter of the model, so it would differ between the ranks: "
                                   "give the module that has all parameters of the optimizer")
            stepped.add(id(p))
        for name, p in zip(self.layout.names, self.layout.parameters):
            if id(p) not in stepped:
                raise InvalidError(f"{_NAME}: no optimizer has parameter {name}, so it would never change: give it to an "
                                   "optimizer, or freeze it with requires_grad_(False)")

    def _buffers(self) -> List[torch.Tensor]:
        """The buffers of state_dict(), which forward() may have replaced by other tensors."""
        return [b for name, b in buffers_of(self._module) if name in self._lasting]

    def _averaged(self) -> List[torch.Tensor]:
        return [b for b in self._buffers() if b.is_floating_point()] if self._means else []

    def _stepped(self) -> Iterator[Tuple[str, torch.nn.Parameter]]:
        """The parameters of the optimizers."""
        for o, optimizer in enumerate(self.optimizers):
            of = f" of optimizer {o}" if len(self.optimizers) > 1 else ""
            for g, group in enumerate(optimizer.param_groups):
                for i, p in enumerate(group["params"]):
                    yield f"parameter {i} of group {g}{of}", p

    def _outside(self, what: str) -> None:
        if self._inside:
            raise InvalidError(f"{_NAME}: {what} inside of common(), where the parameters are not this rank's own: call it "
                               "after the block")

    def _where(self) -> List[int]:
        return [p.data_ptr() for p in self.layout.parameters]

    def _check_orders(self) -> None:
        """Refuses parameters whose elements are in another order than at the start, which the vectors of the library keep."""
        for name, p, order in zip(self.layout.names, self.layout.parameters, self._orders):
            if order_of(p) != order:
                raise InvalidError(f"{_NAME}: the elements of parameter {name} are now in another order in memory, so each would "
                                   "be exchanged as another one: call model.to(memory_format=) before LocalSteps is made")

    def _settle(self) -> None:
        """Before the library uses the parameters: some optimizers and .to() give a parameter other memory."""
        addresses = self._where()
        if addresses != self._addresses:
            self._checked_layout()
            self._check_orders()
            self._pieces = Pieces([_run(p) for p in self.layout.parameters if p.numel()], "params", self.layout.count,
                                  writable=True)
            self._addresses = addresses

    def _check_settled(self, what: str) -> None:
        self._outside(what)
        if self._where() != self._addresses:
            raise InvalidError(f"{_NAME}: {what} after a parameter was moved to other memory: make a step first")

    # ---- a step -----------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Calls zero_grad() of the optimizers."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=set_to_none)

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Makes the optimizers' step and calls advance(). Returns what the optimizer returns."""
        self._outside("step()")
        if closure is None:
            results = [optimizer.step() for optimizer in self.optimizers]
        elif len(self.optimizers) > 1:
            raise InvalidError(f"{_NAME}: step(closure) with {len(self.optimizers)} optimizers: call their step() "
                               "yourself, and then advance()")
        else:
            results = [self.optimizers[0].step(closure)]
        self.advance()
        return results[0]

    @torch.no_grad()
    def advance(self) -> bool:
        """Counts a step that the script has made itself, for example by GradScaler.step(), and makes the exchange if
        it is due. Returns whether the parameters have those of an exchange: with late(T), T steps after it began."""
        self._outside("advance()")
        self.layout.check_known(self._stepped())
        self._settle()
        self.model.push(self._pieces)
        self.model.pull(self._pieces)
        since_first = self.model.step - self.late - self.distance
        if since_first < 0 or since_first % self.distance:
            return False
        averaged = self._averaged()
        if averaged:
            average(self.job, averaged)
        if self._skips:
            self._recover()  # its warning may be an error, and the other ranks take part in average()
        return True

    def _recover(self) -> None:
        """After nonfinite=skip has replaced this rank's parameters."""
        bad = self.model.stats()["nonfinite_elements"]
        if bad == self._bad:
            return
        self._bad, cleared = bad, []
        for optimizer in self.optimizers:
            values = [v for state in optimizer.state.values() for v in (state.values() if isinstance(state, dict) else ())]
            if any(torch.is_tensor(v) and v.is_floating_point() and not bool(v.isfinite().all()) for v in values):
                optimizer.state.clear()
                cleared.append(type(optimizer).__name__)
        warnings.warn(f"the parameters of rank {self.job.rank} were NaN or infinite after step {self.model.step}: it has left "
                      "out its drift and continues from the common parameters"
                      + (f", with an empty state of {' and '.join(cleared)}" if cleared else "")
                      + ". Lower the learning rate or clip the gradients", stacklevel=4)

    # ---- the common parameters ----------------------------------------------------------------------

    @property
    def in_sync(self) -> bool:
        """Whether the parameters are the common ones now: inside of common(), and after an exchange unless the recipe has
        keep=, fragments() or mix()."""
        return self._inside or self.model.in_sync

    @contextlib.contextmanager
    def common(self) -> Iterator[None]:
        """Within the block the parameters of the model are the common ones, those of the last exchange, which have the
        same bits on all ranks. Evaluate and save these. Afterwards this rank's own are back.

        Not collective. Changes to parameters within the block are lost. Buffers stay this rank's own, which differ
        between exchanges. While the block runs, the rank's own parameters are in host memory.
        """
        if self._inside:
            yield
            return
        if self._where() != self._addresses:
            self._check_orders()
        other = torch.empty(self.layout.count, dtype=torch.float32, device="cpu")
        self.model.point(other, other)
        self._swap(other)
        self._inside = True
        try:
            yield
        finally:
            self._swap(other)
            self._inside = False

    @torch.no_grad()
    def _swap(self, other: torch.Tensor) -> None:
        for begin, p in zip(self.layout.begins, self.layout.parameters):
            part, run = other[begin:begin + p.numel()], _run(p)
            held = run.to("cpu", copy=True)  # a GPU that is nearly full has no room for a second copy
            run.copy_(part)
            part.copy_(held)

    # ---- state and figures --------------------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """"optimizers": their states; "compression": this rank's part of what checkpoint() writes, in which are its
        parameters and the common ones. After any step. It waits for no other rank, except with quorum=, but to resume,
        every rank needs the state that it saved itself after the same step.
        """
        self._check_settled("state_dict()")
        return {"optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
                "compression": saved_state(self.job, self.model, together=self._quorum)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> int:
        """Loads what state_dict() gave to this rank, before the first step; returns the completed steps.

        Collective: if a rank does not have its own part of the same step, it fails on all ranks. The state_dict()
        of the model has the frozen parameters and the buffers; load it after LocalSteps was made.
        """
        self._check_settled("load_state_dict()")
        states: Sequence[Any] = state_dict["optimizers"]
        differ = len(states) != len(self.optimizers)
        steps = load_state(self.job, self.model, state_dict["compression"], None,
                           f"{_NAME}: the state is of {len(states)} optimizers, but there are {len(self.optimizers)}" if differ else "")
        for optimizer, state in zip(self.optimizers, states):
            optimizer.load_state_dict(state)
        return steps

    def checkpoint(self, folder: Any) -> None:
        """Writes parameters, common parameters, residuals, momenta of the shards and counters below folder.

        Collective, after any step; all ranks share folder. The states of the optimizers are not included: each
        rank saves them itself.
        """
        self._check_settled("checkpoint()")
        self.model.checkpoint(folder)

    def restore(self, folder: Any) -> int:
        """Restores a checkpoint before the first step; returns the completed steps."""
        self._check_settled("restore()")
        return self.model.restore(folder, None)

    def set_weight(self, weight: float) -> None:
        """With quorum=: the weight of this rank's following drifts in the mean of an exchange; see Model.set_weight()."""
        self.model.set_weight(weight)

    @torch.no_grad()
    def catch_up(self) -> None:
        """With quorum=: brings the newest common parameters, which late ranks have made since the last exchange of this
        one. Collective, directly after an exchange, such as that of the last step."""
        self._check_settled("catch_up()")
        self.job.barrier()
        self.model.pull(self._pieces)

    def verify(self) -> int:
        """Compares the common parameters over the workers; returns their digest, else names one that differs. Collective.
        With quorum=, catch_up() comes first."""
        with self.common():
            return verify(self.job, self._module.named_parameters())

    def stats(self) -> Dict[str, Any]:
        """Model.stats()."""
        return self.model.stats()

    def totals(self) -> Dict[str, Any]:
        """The bytes of all workers: see Model.totals(). Collective."""
        return self.model.totals()

    def close(self) -> None:
        """Closes the model, collectively, after the same number of steps on all ranks."""
        self.model.close()
