# SPDX-License-Identifier: BSD-3-Clause
"""The position of each parameter in the flat vector of a model."""
import ctypes
from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch

from .._library import check, lib, setting
from .._vector import BF16, F16, F32
from ..errors import Error, InvalidError
from ..job import Job
from ..model import Model
from ..recipe import Recipe

TYPES = {torch.float32: F32, torch.float16: F16, torch.bfloat16: BF16}


class Layout:
    """names, parameters and begins, in the order of the flat vector, and count, its length."""

    def __init__(self, named: Iterable[Tuple[str, torch.nn.Parameter]]) -> None:
        self.names: List[str] = []
        self.parameters: List[torch.nn.Parameter] = []
        self.begins: List[int] = []
        self.count = 0
        for name, parameter in named:
            if parameter.dtype not in TYPES:
                raise InvalidError(f"parameter {name} is of {parameter.dtype}: Sluice trains float32, "
                                   "float16 and bfloat16; freeze it with requires_grad_(False)")
            if parameter.device.type not in ("cpu", "cuda"):
                raise InvalidError(f"parameter {name} is on {parameter.device}: move it to the host or "
                                   "to a CUDA device before this call")
            if not parameter.is_contiguous() and torch.empty_like(parameter, device="meta").stride() != parameter.stride():
                raise InvalidError(f"parameter {name} is a view with gaps or repeated elements: make it contiguous")
            self.names.append(name)
            self.parameters.append(parameter)
            self.begins.append(self.count)
            self.count += parameter.numel()
        if not self.count:
            raise InvalidError("there is no parameter with requires_grad: nothing would be trained")
        self._place: Dict[int, int] = {id(p): i for i, p in enumerate(self.parameters)}

    def tensors(self) -> List[Tuple[str, int, int]]:
        """Returns the tensors that have elements, because the library accepts no empty tensor."""
        return [(name, p.numel(), columns_of(p)) for name, p in zip(self.names, self.parameters) if p.numel()]

    def place(self, parameter: torch.nn.Parameter) -> int:
        """Returns its index in the three lists."""
        try:
            return self._place[id(parameter)]
        except KeyError:
            raise self._unknown(f"a parameter of shape {tuple(parameter.shape)}") from None

    def check_known(self, named: Iterable[Tuple[str, torch.nn.Parameter]]) -> None:
        """Refuses parameters that would be trained with only this rank's gradients, if at all."""
        for name, p in named:
            if id(p) not in self._place and p.requires_grad:
                raise self._unknown(name)

    def check_apart(self) -> None:
        """Refuses parameters that share memory, which would have several places in the vector. Views with gaps may be
        interleaved, and are not compared."""
        spans = sorted((p.data_ptr(), p.data_ptr() + p.numel() * p.element_size(), name)
                       for name, p in zip(self.names, self.parameters)
                       if p.numel() == 1 + sum((size - 1) * stride for size, stride in zip(p.shape, p.stride())))
        for (_, end, one), (begin, _, other) in zip(spans, spans[1:]):
            if begin < end:
                raise InvalidError(f"{one} and {other} share memory, but each would be exchanged by itself: for tied "
                                   "weights give both modules the same parameter, as in head.weight = embedding.weight")

    @staticmethod
    def _unknown(name: str) -> InvalidError:
        return InvalidError(f"{name} was not known when Sluice was told of the model, so its gradient "
                            "is not exchanged: add and unfreeze parameters before that, or open a new one")

    def view(self, flat: torch.Tensor, index: int) -> torch.Tensor:
        """Returns the part of flat for one parameter, with the parameter's shape and order in memory."""
        p, begin = self.parameters[index], self.begins[index]
        part = flat[begin:begin + p.numel()]
        if p.is_contiguous():
            return part.view(p.shape)
        return part.as_strided(p.shape, p.stride())

    def gather(self, flat: torch.Tensor) -> None:
        """Copies the parameters into flat."""
        with torch.no_grad():
            for i, p in enumerate(self.parameters):
                self.view(flat, i).copy_(p)

    def scatter(self, flat: torch.Tensor) -> None:
        """Copies flat into the parameters."""
        with torch.no_grad():
            for i, p in enumerate(self.parameters):
                p.copy_(self.view(flat, i))


def columns_of(parameter: torch.Tensor) -> int:
    """Returns the length of the rows of a tensor in memory, or 0 if it is a single row. A convolution has a row for each
    of its first dimension."""
    strides = [stride for size, stride in zip(parameter.shape, parameter.stride()) if size > 1]
    return max(strides) if len(strides) > 1 and parameter.numel() % max(strides) == 0 else 0


def order_of(p: torch.Tensor) -> Tuple[int, ...]:
    """The order in memory of the elements of a parameter: its strides, without those that are never used."""
    return tuple(stride for stride, size in zip(p.stride(), p.shape) if size > 1)


def check_orders(job: Job, model: Model, layout: Layout, what: str) -> None:
    """Refuses parameters whose elements are in another order in memory than on rank 0, because the flat vector has this
    order. Collective, after the model was opened. DistributedDataParallel checks it itself."""
    texts = [repr(order_of(p)).encode() for p in layout.parameters if p.numel()]
    rows = job.gather(b"".join(lib.sluice_digest(text, len(text)).to_bytes(8, "little") for text in texts))
    for i, (name, _, _) in enumerate(layout.tensors()):
        for rank, row in enumerate(rows):
            if row[8 * i:8 * i + 8] != rows[0][8 * i:8 * i + 8]:
                model.close()
                raise InvalidError(f"{what}: the elements of {name} are in another order in memory on rank {rank} than "
                                   "on rank 0, so each would be exchanged as another one: call "
                                   "model.to(memory_format=) with the same format on all ranks")


def host_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor in host memory with the values that torch reads, because views may negate the stored
    ones."""
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Returns a copy of a tensor's bytes. Torch itself gives access to them only through numpy."""
    host = host_of(tensor)
    return ctypes.string_at(host.data_ptr(), host.numel() * host.element_size())


def digests(tensors: Iterable[torch.Tensor]) -> List[int]:
    """A 64-bit hash of each tensor's bytes."""
    found = []
    for tensor in tensors:
        host = host_of(tensor)
        found.append(lib.sluice_digest(host.data_ptr(), host.numel() * host.element_size()))
    return found


def verify(job: Job, named: Iterable[Tuple[str, torch.Tensor]]) -> int:
    """Compares tensors over the workers; returns one digest of them all.

    Collective. Raises InvalidError on every worker, with the name of the first tensor that differs
    and the ranks whose bytes are not those of rank 0.
    """
    pairs = list(named)
    mine = (ctypes.c_uint64 * len(pairs))(*digests(t for _, t in pairs))
    rows = [(ctypes.c_uint64 * len(pairs)).from_buffer_copy(row) for row in job.gather(bytes(mine))]
    for i, (name, _) in enumerate(pairs):
        others = [str(rank) for rank, row in enumerate(rows) if row[i] != rows[0][i]]
        if others:
            raise InvalidError(
                f"{name} differs between the workers: rank{'s' * (len(others) > 1)} "
                f"{', '.join(others)} of {len(rows)} have other bytes than rank 0. A parameter may only "
                "be changed in the same way on all ranks")
    return lib.sluice_digest(mine, ctypes.sizeof(mine))


def _once(buffer: torch.Tensor) -> torch.Tensor:
    """Returns a view that has each value in memory once, because torch does not write to what expand() returned."""
    return buffer[tuple(slice(1) if stride == 0 else slice(None) for stride in buffer.stride())]


def buffers_of(module: torch.nn.Module) -> List[Tuple[str, torch.Tensor]]:
    """Returns the buffers that average() and broadcast() can change."""
    return [(name, _once(b)) for name, b in module.named_buffers() if b.numel() and b.layout == torch.strided]


def average(job: Job, tensors: List[torch.Tensor]) -> None:
    """Each tensor becomes its mean over the workers on which it is finite. Collective."""
    sums = torch.cat([t.detach().reshape(-1).to("cpu", torch.float64) for t in tensors]
                     + [torch.ones(len(tensors), dtype=torch.float64, device="cpu")])
    places, at = [], 0
    for i, t in enumerate(tensors):
        places.append(sums[at:at + t.numel()])
        at += t.numel()
        if not bool(places[-1].isfinite().all()):
            places[-1].zero_()
            sums[i - len(tensors)] = 0
    check(lib.sluice_sum(job._at(), ctypes.cast(sums.data_ptr(), ctypes.POINTER(ctypes.c_double)), sums.numel()))
    for t, part, ranks in zip(tensors, places, sums[-len(tensors):].tolist()):
        if ranks:
            t.detach().copy_((part / ranks).view(t.shape))


class NotPickled:
    """The base class of objects that have a model of the job. They cannot be pickled or copied."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied, because it has connections: save what state_dict() "
                        "returns, on every rank")


def saved_state(job: Job, model: Model, together: bool = False) -> Dict[str, torch.Tensor]:
    """This rank's part of a model's state, as uint8, under a name that no other rank uses."""
    part = model.state_save() if together else model.state_part()
    return {f"rank{job.rank}": torch.frombuffer(part, dtype=torch.uint8)}


def load_state(job: Job, model: Model, state: Dict[str, torch.Tensor], params: Optional[torch.Tensor], wrong: str = "") -> int:
    """Loads this rank's part. wrong: why this rank cannot load the state, which then fails on all ranks."""
    mine = None if wrong else state.get(f"rank{job.rank}")
    if mine is None:
        try:
            model.state_load(None, params)  # so that the other ranks fail too, and do not wait
        except Error:
            pass
        raise InvalidError(wrong or f"the state is of {', '.join(sorted(state)) or 'no rank'} and not of rank {job.rank}: every "
                           "rank saves its own part and loads it again, so save state_dict() on all ranks")
    return model.state_load(bytes_of(mine), params)


def with_clip(text: Any, clip: Optional[float], what: str) -> Any:
    """Returns the recipe, or that of SLUICE_RECIPE, with clip=, which must not contradict the recipe."""
    if clip is None:
        return text
    if not 0 < clip < float("inf"):
        raise InvalidError(f"{what}: clip={clip}, must be finite and > 0")
    recipe = Recipe(str(text or "").strip() or setting("SLUICE_RECIPE") or None)
    said = recipe.get("clip", "none")
    try:
        agrees = said == "none" or float(str(said)) == clip
    except ValueError:
        agrees = True  # the library refuses the word
    if not agrees:
        raise InvalidError(f"{what}: clip={clip}, but the recipe has clip={said}: give one of the two")
    return recipe if said != "none" else Recipe(recipe, clip=repr(float(clip)))


def _method(word: str) -> Recipe:
    """Returns the whole recipe of a named method, or an empty one if there is none of this name."""
    try:
        return Recipe(word).complete()
    except InvalidError:
        return Recipe()  # the library refuses the word when the model is opened


def with_update_none(text: Any, what: str, clip: Optional[float] = None) -> Any:
    """Returns the recipe, or that of SLUICE_RECIPE, with update=none, which a torch optimizer needs.

    Refuses a recipe that says another update, and a named method whose own update is neither none nor sgd. clip: as in
    with_clip().
    """
    given = str(text or "").strip()
    recipe = Recipe(with_clip(given or setting("SLUICE_RECIPE") or None, clip, what))
    methods = [_method(key) for key in recipe.keys() if recipe.get(key) is None]
    if any(r.get("signal") == "drift" for r in (recipe, *methods)):
        raise InvalidError(f"{what}: {'the recipe' if given else 'SLUICE_RECIPE'} has signal=drift, so the ranks exchange "
                           "parameters and not gradients: use sluice.torch.LocalSteps")
    of_methods = [m.get("update", "none") for m in methods]
    update = recipe.get("update") or next((u for u in of_methods if u not in ("none", "sgd")), "none")
    if update != "none":
        raise InvalidError(f"{what}: {'the recipe' if given else 'SLUICE_RECIPE'} says update={update}, but a "
                           "torch optimizer steps here: say update=none, or use sluice.torch.Optimizer without inner=")
    return Recipe(recipe, update="none")
