# SPDX-License-Identifier: BSD-3-Clause
"""A model: one flat vector of float32 parameters that a job trains together."""
from __future__ import annotations

import ctypes
import logging
import math
import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _abi
from ._library import check, lib, setting
from ._vector import F32, GRADIENTS, NAMES, PARAMETERS, Pieces, vector
from .errors import InvalidError
from .recipe import Recipe, Rules, Tensors, attributes

if TYPE_CHECKING:
    from .job import Job

_advised = False


def _advise(job: "Job", recipe: Any, count: int) -> None:
    """One line of rank 0 if the recipe says nothing of compression, because then there is none."""
    global _advised
    words = Recipe(str(recipe or "").strip() or setting("SLUICE_RECIPE") or None)
    dense = "up" not in words and "down" not in words and all(words.get(key) is not None for key in words.keys())
    if _advised or not dense or job.rank != 0 or job.workers < 2 or setting("SLUICE_ADVICE") == "no":
        return
    _advised = True
    logging.getLogger("sluice").warning(
        "no recipe was given, so each step sends the whole gradient, %.1f MB in float32, and receives as much. "
        "'up=all,uniform(8) down=all,uniform(8)' takes a quarter of these bytes, and 'up=topk(0.01) down=topk(0.05)' "
        "about 3 %% of those up and 8 %% of those down; see sluice_recipe(7). Give 'up=all down=all' to leave this "
        "line out.", 4e-6 * count)


def _in_pieces(pieces: Pieces) -> Any:
    return ctypes.byref(_abi.sluice_vector(segments=ctypes.cast(pieces.array, ctypes.POINTER(_abi.sluice_segment)),
                                           n_segments=pieces.n))


_BYTES = ("pushed_bytes", "pulled_bytes", "dense_bytes")


def _saved(pushed: float, pulled: float, dense: float) -> Optional[float]:
    return 1 - (pushed + pulled) / dense if dense else None


def with_rank_bytes(stats: Dict[str, Any]) -> Dict[str, Any]:
    """stats and the bytes of this rank that include its own shards, and the share that the recipe saved."""
    for key in _BYTES:
        stats["rank_" + key] = stats[key] + stats["own_" + key]
    stats["saved"] = _saved(*(stats["rank_" + key] for key in _BYTES))
    return stats


def totals_of(job: "Job", stats: Dict[str, Any]) -> Dict[str, Any]:
    """The sums over the workers of the job of what with_rank_bytes() returned. Collective."""
    sums = job.sum([float(stats["rank_" + key]) for key in _BYTES])
    return {**{key: int(value) for key, value in zip(_BYTES, sums)}, "saved": _saved(*sums)}


class Model:
    """Opens a model. Collective over all ranks, with equal arguments; a difference is named.

    params: [count], a tensor or anything with the buffer protocol or __dlpack__, in host or CUDA
        memory, of float32, float16 or bfloat16; or a list of such vectors that together are one. For 16
        bits the library keeps a copy in float32. Those of rank 0 become version 0 on every rank and are
        written into params. A dedicated server may pass None, and then gives count and param_type.
    recipe: see sluice_recipe(7); None takes SLUICE_RECIPE, else the empty recipe, which has up=topk(0.01) and
        down=topk(0.05).
    tensors: (name, elements) of the parts of the vector, for messages and for dense=; or (name, elements, columns)
        with the length of a tensor's rows, for transform=.
    shards: 0 takes the smaller of the number of workers and count / 65536, rounded up. If every step is dense
        (up=all down=all), 0 takes up to 32 shards for each worker, of at least 65536 parameters.
    lr: the first learning rate; 0 takes 0.01.
    steps_per_epoch: for a recipe that counts epochs.
    memory_bytes: opening fails above this; 0 takes SLUICE_MEMORY.
    stream: a cudaStream_t, as ``torch.cuda.Stream.cuda_stream``.
    grad_type: sluice.F32, F16, BF16, F8_E4M3FN or F8_E5M2, the type of all gradients in one vector.
    param_type: that of params, and of the mean with update=none. None: what params has.
    uneven: workers may run out of gradients, see idle_step().
    rules: for each of tensors a factor of the learning rate, and the weight decay in place of that of
        the recipe. See sluice_model_open(3), also for recipes that cannot have them.
    device_shards: the shards of this rank sum, update and publish on a GPU even if params is in host memory. If
        params is in GPU memory, SLUICE_DEVICE_SHARDS decides, by default for the GPU where the recipe allows it.

    Each step is one push and then one pull. A model is used by one thread at a time.
    """

    def __init__(self, job: "Job", params: Any, recipe: Union[str, Recipe, None] = None, *,
                 count: Optional[int] = None, tensors: Optional[Tensors] = None, shards: int = 0,
                 lr: float = 0.0, steps_per_epoch: int = 0, memory_bytes: int = 0,
                 stream: Optional[int] = None, grad_type: int = F32, uneven: bool = False,
                 param_type: Optional[int] = None, rules: Optional[Rules] = None,
                 device_shards: bool = False) -> None:
        options = dict(count=count, tensors=tensors, shards=shards, lr=lr, steps_per_epoch=steps_per_epoch,
                       memory_bytes=memory_bytes, stream=stream, grad_type=grad_type, uneven=uneven, param_type=param_type,
                       rules=rules, device_shards=device_shards)
        attr, address = self._prepare(job, params, recipe, **options)
        handle = ctypes.c_void_p()
        check(lib.sluice_model_open(job._at(), ctypes.byref(attr), address, ctypes.byref(handle)))
        self._opened(handle)

    @classmethod
    def _open_many(cls, job: "Job", requests: Sequence[Dict[str, Any]]) -> "List[Model]":
        models = [cls.__new__(cls) for _ in requests]
        prepared = [model._prepare(job, **request) for model, request in zip(models, requests)]
        n = len(models)
        attrs = (_abi.sluice_model_attr * n)(*(attr for attr, _ in prepared))
        params = (ctypes.c_void_p * n)(*(address for _, address in prepared))
        handles = (ctypes.c_void_p * n)()
        check(lib.sluice_models_open(job._at(), n, attrs, params, handles))
        for model, handle in zip(models, handles):
            model._opened(ctypes.c_void_p(handle))
        return models

    def _prepare(self, job: "Job", params: Any, recipe: Union[str, Recipe, None] = None, *,
                 count: Optional[int] = None, stream: Optional[int] = None, grad_type: int = F32, uneven: bool = False,
                 param_type: Optional[int] = None, device_shards: bool = False,
                 **options: Any) -> "Tuple[_abi.sluice_model_attr, Optional[int]]":
        """Checks the arguments of __init__(). Returns the attributes and the address of the parameters."""
        self._handle: Optional[ctypes.c_void_p] = None
        if grad_type not in GRADIENTS:
            raise ValueError(f"grad_type is {grad_type}, but must be "
                             + ", ".join(f"{kind} ({NAMES[kind]})" for kind in GRADIENTS))
        any_type, start = PARAMETERS, None
        self._pieces: Optional[Pieces] = None  # of the parameters, if that is how they were given
        if isinstance(params, (list, tuple)):
            self._pieces = Pieces(params, "params", count, writable=True)
            kinds = {of.type for of in self._pieces.vectors} - {F32}
            if param_type is None:
                param_type = kinds.pop() if len(kinds) == 1 else F32
            count = self._pieces.count
        elif params is not None:
            start = vector(params, "params", count, any_type if param_type is None else (param_type,),
                           writable=True)
            param_type, count = start.type, start.count
        elif count is None:
            if not options.get("tensors"):
                raise ValueError("a model without params needs count")
            count = sum(size for _, size, *_ in options["tensors"])
        self.count, self._grad_type, self._stream = count, grad_type, stream
        self._param_type = param_type or F32
        self._pushed: List[Any] = []  # what the library may still use, until the pull ends
        self._own: Any = self._pieces or start  # with signal=drift, what a checkpoint reads: the vector of the last pull
        self._missing = 0  # coordinates of a pull in ranges
        self._job, self._given = job, recipe
        options = {"tensors": None, "rules": None, **options}
        attr = attributes(None if recipe is None else str(recipe), pieces=self._pieces, count=count, stream=stream,
                          grad_type=grad_type, uneven=bool(uneven), param_type=self._param_type,
                          device_shards=bool(device_shards), **options)
        return attr, None if start is None else start.address

    def _opened(self, handle: ctypes.c_void_p) -> None:
        self._handle, self.measures = handle, False
        self._job._models.append(self)
        if self.recipe.get("signal") == "drift" or self.recipe.get("update") == "average":
            self._grad_type = F32  # of the parameters that are pushed
        if self.recipe.get("signal") != "drift":
            self._own = None
        _advise(self._job, self._given, self.count)

    def _at(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise InvalidError("the model is closed: open it again with sluice.Job.open()")
        self._job._at()
        return self._handle

    # ---- a step ---------------------------------------------------------------------------------

    def _params(self, params: Any, what: str) -> Optional[int]:
        """Returns the address of all parameters, or of a mean. None means the pieces passed at open."""
        if params is None and self._pieces is not None:
            self._keep(self._pieces)
            return None
        found = vector(params, what, self.count, (self._param_type,), writable=True)
        self._keep(found)
        return found.address

    def _keep(self, found: Any) -> None:
        if self._own is not None:
            self._own = found

    def push(self, grad: Any, scales: Optional[Sequence[Any]] = None) -> None:
        """Pushes grad[count], the mean gradient of this worker's samples, of the type grad_type.

        With update=average or signal=drift it is this worker's parameters.

        grad: a vector, or a list of vectors that together are one and may differ in type. None means that there
        is no gradient, because the step needs none (wanted).
        scales: for a list, the factors of 8-bit codes; None: see set_grad_scale().
        """
        if isinstance(grad, (list, tuple, Pieces)):
            pieces = grad if isinstance(grad, Pieces) else Pieces(grad, "grad", self.count, types=GRADIENTS, scales=scales)
            self._pushed.append(pieces)
            check(lib.sluice_push_vector(self._at(), _in_pieces(pieces)))
            return
        if scales is not None:
            raise ValueError("scales belong to a list of vectors: the scale of one is set by set_grad_scale()")
        if grad is None:
            check(lib.sluice_push(self._at(), None))
            return
        found = vector(grad, "grad", self.count, (self._grad_type,))
        self._pushed.append(found)
        check(lib.sluice_push(self._at(), found.address))

    def push_pair(self, grad: Any, before: Any) -> None:
        """With signal=storm and svrg: pushes the gradients of one sample at params and at point()."""
        found = [vector(each, what, self.count, (self._grad_type,)) for each, what in ((grad, "grad"), (before, "before"))]
        self._pushed += found
        check(lib.sluice_push_pair(self._at(), found[0].address, found[1].address))

    def point(self, params: Any, point: Any) -> None:
        """Writes the point at which the recipe needs a gradient to point[count], given the params of the last
        pull. With signal=drift these are the common parameters, to be evaluated and saved."""
        here = vector(params, "params", self.count, (F32,))
        there = vector(point, "point", self.count, (F32,), writable=True)
        check(lib.sluice_point(self._at(), here.address, there.address))

    def accumulator(self) -> "tuple[Any, float]":
        """Returns the residual, to which the program adds scale times its gradient before it passes the
        residual to push(), and scale.

        A ctypes array of floats, in host memory of the library, valid until the model is closed. The program
        must not access it between a push and the end of its pull. scale changes with the learning rate.
        """
        address, scale = ctypes.POINTER(ctypes.c_float)(), ctypes.c_float()
        check(lib.sluice_accumulator(self._at(), ctypes.byref(address), ctypes.byref(scale)))
        return ctypes.cast(address, ctypes.POINTER(ctypes.c_float * self.count)).contents, scale.value

    def residual(self, residual: Any) -> None:
        """Copies the values that this worker has not sent yet to residual[count], float32 in host memory.

        They are zeros if the recipe has no residual. Between two steps.
        """
        check(lib.sluice_residual(self._at(), vector(residual, "residual", self.count, (F32,), writable=True).address))

    def hand_over(self, to: "Model") -> None:
        """Moves what this model has not delivered yet to another one, opened for the same parameters with another recipe.

        On all workers after the same step, and before the first push to the other model. Close this one
        afterwards. See sluice_hand_over(3).
        """
        check(lib.sluice_hand_over(self._at(), to._at()))

    def push_range(self, grad: Any, begin: int, count: int) -> None:
        """Pushes the gradient of the coordinates begin .. begin+count-1; grad has count elements.

        The ranges of a step come in any order and cover each coordinate once.
        """
        found = vector(grad, "grad", count, (self._grad_type,))
        self._pushed.append(found)
        check(lib.sluice_push_range(self._at(), found.address, begin, count))

    def pull(self, params: Any = None) -> None:
        """Waits for the shards' answer and adds the change to params[count], in place.

        With update=none, params becomes the decoded mean of all gradients instead. With update=average,
        the selected parameters become their mean. With signal=drift, params becomes the new common
        parameters at an exchange, and does not change between exchanges.
        params: a vector, or a list of vectors that together are one; None: the list of the model.
        """
        if isinstance(params, (list, tuple, Pieces)):
            pieces = params if isinstance(params, Pieces) else Pieces(params, "params", self.count, writable=True)
            self._keep(pieces)
            check(lib.sluice_pull_vector(self._at(), _in_pieces(pieces)))
        else:
            check(lib.sluice_pull(self._at(), self._params(params, "params")))
        self._pushed.clear()

    def pull_begin(self, target: Any) -> None:
        """Begins a pull into target, which is as in pull(), and does not wait.

        The library writes into target until the ranges of pull_range() cover it.
        """
        if isinstance(target, (list, tuple)):
            pieces = Pieces(target, "target", self.count, writable=True)
            self._pushed.append(pieces)
            self._keep(pieces)
            check(lib.sluice_pull_begin(self._at(), _in_pieces(pieces)))
        else:
            found = vector(target, "target", self.count, (self._param_type,), writable=True)
            self._pushed.append(found)
            self._keep(found)
            check(lib.sluice_pull_begin(self._at(), ctypes.byref(_abi.sluice_vector(data=found.address))))
        self._missing = self.count

    def pull_range(self, begin: int, count: int) -> None:
        """Waits until the coordinates begin .. begin+count-1 of target are complete.

        The ranges of a step come in any order and cover each coordinate once; the last one ends the step.
        """
        check(lib.sluice_pull_range(self._at(), begin, count))
        self._missing -= count
        if self._missing == 0:
            self._pushed.clear()

    def idle_step(self, target: Any) -> bool:
        """Makes a step for which this worker has no gradient left, and pulls into target.

        target: as in pull(), in one vector. Returns whether any worker pushed a gradient. Each worker calls this
        until it returns False. Needs uneven=True.
        """
        more = ctypes.c_int()
        check(lib.sluice_idle_step(self._at(), self._params(target, "target"), ctypes.byref(more)))
        return bool(more.value)

    def serve(self) -> None:
        """Serves the shards of a dedicated server until the workers close the model."""
        check(lib.sluice_serve(self._at()))

    def _set(self, what: str, value: float) -> None:
        check(lib.sluice_set(self._at(), _abi.CONSTANTS[what], value))

    def _step(self) -> _abi.sluice_model_step:
        step = _abi.sluice_model_step()
        step.size = ctypes.sizeof(step)
        check(lib.sluice_step_info(self._at(), ctypes.byref(step)))
        return step

    def set_lr(self, lr: float) -> None:
        """The learning rate of the following pushes, 0 or above and equal on all workers.

        A step with rate 0 changes no parameter and loses no value of a residual.
        """
        self._set("SLUICE_LR", lr)

    def set_grad_scale(self, scale: Any) -> None:
        """Sets the factor of the codes of 8-bit gradients for the following pushes, initially 1.

        This is the scale of torch._scaled_mm, which converts codes back to gradients. If it is a tensor of one
        element on a GPU, the host waits for its value.
        """
        self._set("SLUICE_GRAD_SCALE", float(scale))

    def raise_flags(self, flags: int) -> None:
        """Adds flags, whose low eight bits are sent with the next push."""
        lib.sluice_raise(self._at(), flags)

    @property
    def raised(self) -> int:
        """The flags that any worker raised for the last completed step. They are equal on all workers; with quorum=,
        workers get them after different steps."""
        return self._step().raised

    @property
    def skipped(self) -> bool:
        """With nonfinite=skip-all: whether all workers skipped the last push, because the gradient of one had
        NaN or infinity."""
        return bool(self._step().skipped)

    @property
    def wanted(self) -> bool:
        """With when=lazy-server: whether the next step needs a gradient; if not, push(None) is enough.
        Otherwise True."""
        return bool(self._step().wanted)

    @property
    def anchor_due(self) -> bool:
        """With signal=svrg: whether the next push is at an anchor and takes the full gradient."""
        return bool(self._step().anchor_due)

    def set_smoothness(self, smoothness: float) -> None:
        """With when=lazy-server: the Lipschitz constant of the gradient of this worker's loss."""
        self._set("SLUICE_SMOOTHNESS", smoothness)

    def set_weight(self, weight: float) -> None:
        """With quorum=: the weight of this worker's following drifts in the mean of an exchange, such as the samples or
        tokens on which it has trained; initially 1."""
        self._set("SLUICE_WEIGHT", float(weight))

    @property
    def counted(self) -> int:
        """With quorum=: the number of workers in the newest exchange; 0 if this worker was too far behind to learn it.
        Otherwise the number of workers."""
        return self._step().counted

    @property
    def missed(self) -> int:
        """With quorum=: the number of exchanges that closed without this worker between its last two. Otherwise 0."""
        return self._step().missed

    @property
    def exchanges(self) -> int:
        """The number of exchanges of the job that this worker's common parameters include, also those that it missed."""
        return self._step().exchanges

    # ---- state ----------------------------------------------------------------------------------

    def checkpoint(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the whole state below folder, which must have the same name on all ranks.

        Collective over the workers, between two steps. The previous checkpoint stays valid until the new one is
        complete. Its files have mode 0600.
        """
        check(lib.sluice_checkpoint(self._at(), os.fsencode(folder)))

    def restore(self, folder: Union[str, "os.PathLike[str]"], params: Any) -> int:
        """Restores a checkpoint into a freshly opened model; returns the completed steps.

        params[count] receives the parameters, except with update=none.
        """
        steps = ctypes.c_uint64()
        check(lib.sluice_restore(self._at(), os.fsencode(folder), self._params(params, "params"),
                                 ctypes.byref(steps)))
        return steps.value

    def state_save(self) -> bytearray:
        """The same state as bytes: this rank's part, of a size that stays the same for a model.

        Collective over the workers, between two steps, in a job without dedicated servers.
        """
        return self._state(0)

    def state_part(self) -> bytearray:
        """This rank's part of the state without the other ranks: not collective, between two steps.

        The parts that all workers save after the same step form one save. The part of one rank alone cannot be
        loaded. Not with signal=innovation, global or quorum= in the recipe.
        """
        return self._state(_abi.CONSTANTS["SLUICE_STATE_PART"])

    def _state(self, flags: int) -> bytearray:
        size = ctypes.c_size_t()
        check(lib.sluice_state_size(self._at(), ctypes.byref(size)))
        state = bytearray(size.value)
        at = (ctypes.c_char * len(state)).from_buffer(state)
        check(lib.sluice_state_save(self._at(), ctypes.addressof(at), len(state), flags))
        return state

    def state_load(self, state: Any, params: Any) -> int:
        """Loads the result of state_save() or state_part() of the same rank; returns the completed steps.

        Collective over the workers, as restore(). A rank without a part passes None, and all ranks fail.
        """
        found, steps = None if state is None else bytes(state), ctypes.c_uint64()
        check(lib.sluice_state_load(self._at(), found, len(found or b""), self._params(params, "params"),
                                    ctypes.byref(steps)))
        return steps.value

    # ---- figures --------------------------------------------------------------------------------

    @property
    def recipe(self) -> Recipe:
        """The recipe in use, with all defaults spelled out."""
        return Recipe(lib.sluice_recipe_text(self._at()).decode())

    @property
    def step(self) -> int:
        """Completed steps, including those before a restore."""
        return self._step().steps

    @property
    def in_sync(self) -> bool:
        """Whether the parameters have the same bits on all workers after the last pull."""
        return bool(self._step().in_sync)

    def measure(self, on: bool = True) -> None:
        """Switches the measuring of compression errors on or off."""
        self._set("SLUICE_MEASURE", on)
        self.measures = on

    def stats(self) -> Dict[str, Any]:
        """The counters of this rank since the model was opened: bytes, elements, and nanoseconds.

        The keys are the members of sluice_model_stats; see sluice_stats(3). A value that was not measured is
        None, such as compression_error while measure() is off. rank_pushed_bytes, rank_pulled_bytes and
        rank_dense_bytes also include the bytes for this rank's own shards, which are not sent. On rank 0 of a
        small model, which has a single shard there, only these three are not 0. saved is the share of
        rank_dense_bytes that the recipe saved, and None before the first step. totals() adds up all workers.
        """
        stats = _abi.sluice_model_stats()
        stats.size = ctypes.sizeof(stats)
        check(lib.sluice_stats(self._at(), ctypes.byref(stats)))
        found: Dict[str, Any] = {}
        for field in _abi.sluice_model_stats._fields_[1:]:
            value = getattr(stats, field[0])
            unknown = isinstance(value, float) and math.isnan(value)
            found[field[0]] = None if unknown else list(value) if isinstance(value, ctypes.Array) else value
        return with_rank_bytes(found)

    def totals(self) -> Dict[str, Any]:
        """pushed_bytes, pulled_bytes and dense_bytes of all workers, and the share of the last that was saved.

        Collective over the workers: call it on every rank.
        """
        return totals_of(self._job, self.stats())

    # ---- the end --------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._handle is None

    def close(self) -> None:
        """Closes the model on all ranks, collectively, with a bounded wait. It may be called again."""
        if self._handle is None:
            return
        lib.sluice_model_close(ctypes.byref(self._handle))
        self._handle = None
        self._pushed.clear()
        self._job._models.remove(self)

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a sluice.Model cannot be pickled or copied, because it has connections: save what state_part() returns")

    def __repr__(self) -> str:
        if self.closed:
            return "<sluice.Model, closed>"
        return f"<sluice.Model, {self.count} parameters, step {self.step}, {self.recipe}>"
