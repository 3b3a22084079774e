# SPDX-License-Identifier: BSD-3-Clause
"""Sluice as the replicate dimension of FSDP2.

fully_shard() shards a model over the ranks of one node, and reduce-scatters gradients there. Its
all-reduce hook is then called with this rank's piece. The ranks that hold the same piece form a group, and the
hook of each module pushes and pulls in a model of that group. The first hook opens the models of all modules, for
pieces of the length that the parameters promise.
"""
import functools
import os
import shutil
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import torch

from .._vector import F32
from ..errors import InvalidError
from ..job import Job
from ..model import Model, totals_of, with_rank_bytes
from ..recipe import Recipe
from ._change import Counters, succeed_all, wanted_recipe
from ._flat import NotPickled, TYPES, bytes_of, verify, with_update_none
from ._group import broadcast, default_job
from ._named import Momenta, chosen, keeps, optimizers_of


_UNOPENED = "no-gradient-yet"
_TOGETHER = 1 << 26  # the most gradients of models that are opened in one call, which copies their parameters


def _own_parameters(module: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """The parameters that fully_shard() has put into the piece of this module."""
    yield from module.parameters(recurse=False)
    for child in module.children():
        if not hasattr(child, "set_all_reduce_hook"):
            yield from _own_parameters(child)


def _expected_count(module: torch.nn.Module, ranks: int) -> int:
    """The number of gradients in a rank's piece of the module, if each trainable parameter gets one."""
    count = 0
    for p in set(_own_parameters(module)):
        if p.requires_grad and p.numel():
            rows = p.shape[getattr(p.placements[0], "dim", 0)] if hasattr(p, "placements") and p.dim() else 1
            count += -(-rows // ranks) * (p.numel() // rows)
    return count


def _promised_count(module: torch.nn.Module) -> Optional[int]:
    """The same number as FSDP has it now, which also knows lists of modules, ignored_params and tensor parallelism, or None
    if this version of torch does not tell it."""
    group = getattr(module._get_fsdp_state(), "_fsdp_param_group", None)
    trained = [one for one in getattr(group, "fsdp_params", ()) if one.sharded_param.requires_grad]
    if not all(hasattr(one, "padded_sharded_param_size") for one in trained):
        return None
    return sum(one.padded_sharded_param_size.numel() for one in trained) or None


def _root_of(mesh: Any) -> Any:
    if hasattr(mesh, "_get_root_mesh"):
        return mesh._get_root_mesh()
    from torch.distributed.device_mesh import _mesh_resources  # before torch 2.9
    return _mesh_resources.get_root_mesh(mesh)


class _Piece:
    """The hook of one module: its piece of the gradient, in a model of the group."""

    def __init__(self, owner: "Replication", name: str, index: int, expected: int,
                 promised: Callable[[], Optional[int]]) -> None:
        self._owner, self._name, self._index, self._promised = owner, name, index, promised
        self._mean: Optional[torch.Tensor] = None
        self._short = False
        self._opened: Optional[Model] = None
        self.model: Optional[Model] = None  # that of _opened from the first backward of this module on
        self.expected = expected
        self._like: Tuple[torch.Tensor, int] = (torch.empty(0), 0)
        self._counters = Counters()

    @property
    def key(self) -> str:
        """Returns the name of this rank's part in a state_dict(), which no other rank uses."""
        return f"rank{self._owner.rank}.module{self._index}"

    def folder(self, folder: str) -> str:
        return os.path.join(folder, f"piece{self._owner.color}", f"module{self._index}")

    def checkpoint(self, folder: str) -> None:
        """Writes the model, or an empty file if the module has had no gradient yet. Passes on a state that waits."""
        path, restored = self.folder(folder), self._owner.restored
        if self.model is None and self.waits():
            if restored is None:
                raise InvalidError(f"Replication.checkpoint: {self._name or 'the model'} has had no gradient since its state was "
                                   "loaded from bytes, so its state is not in a model: save state_dict()")
            if self._owner.group.rank == 0 and os.path.abspath(restored) != os.path.abspath(folder):
                shutil.copytree(self.folder(restored), path, dirs_exist_ok=True)
            return
        os.makedirs(path, exist_ok=True)
        if self.model is not None:
            self.model.checkpoint(path)
        elif not os.listdir(path):
            with open(os.path.join(path, _UNOPENED), "wb"):
                pass

    def part(self, save: Callable[[Model], bytearray]) -> torch.Tensor:
        """Returns the state: empty if the module has had no gradient yet. Passes on a state that waits."""
        if self.model is not None:
            return torch.frombuffer(save(self.model), dtype=torch.uint8)
        if self.waits() and self._owner.loaded is None:
            raise InvalidError(f"Replication.state_dict: {self._name or 'the model'} has had no gradient since restore(), so its "
                               "state is not in a model: save it with checkpoint()")
        return torch.empty(0, dtype=torch.uint8) if self._owner.loaded is None else self._owner.loaded[self.key]

    def waits(self) -> bool:
        """Returns whether the first gradient of this module loads a state."""
        restored, loaded = self._owner.restored, self._owner.loaded
        if self.model is not None:
            return False
        if restored is not None:
            path = self.folder(restored)
            return not os.path.isdir(path) or os.listdir(path) != [_UNOPENED]
        return loaded is not None and loaded[self.key].numel() > 0

    def request(self, like: torch.Tensor, count: int) -> Dict[str, Any]:
        """Returns the arguments of a model for pieces of this type and length."""
        stream = torch.cuda.current_stream(like.device).cuda_stream if like.is_cuda else None
        start = torch.zeros(count, dtype=torch.float32, device=like.device)
        # A mean of 16 bits is written in place of the gradient, except in GPU memory, where it would be copied
        # through host memory.
        self._short = TYPES[like.dtype] != F32
        self._mean = start if like.is_cuda and self._short else None
        self._like = like.new_empty(0), count
        return {"params": start, "recipe": self._owner.recipe, "grad_type": TYPES[like.dtype], "stream": stream,
                **self._owner.options}

    def take(self, model: Model) -> None:
        self._opened = model

    def _open(self, piece: torch.Tensor) -> Model:
        """Returns the model for pieces like this one. The first piece of a run opens the models of all modules."""
        if piece.dtype not in TYPES:
            raise InvalidError(f"the gradients of {self._name or 'the model'} are of {piece.dtype}: Sluice "
                               "takes float32, float16 and bfloat16")
        self._check_whole(piece)
        self._owner.open_all(piece)
        like, count = self._like
        if self._opened is not None and (count != piece.numel() or like.dtype != piece.dtype or like.device != piece.device):
            self.forget()  # the expectation was wrong, on all replicas alike
        if self._opened is None:
            self._opened = self._owner.group.open(**self.request(piece, piece.numel()))
        return self._opened

    def _check_whole(self, piece: torch.Tensor) -> None:
        """FSDP leaves out parameters that a backward has not used, and does not say which ones."""
        promised = self._promised() if self._owner.keeps else None
        if promised not in (None, piece.numel()):
            raise InvalidError(f"sluice.torch.replicate: {self._name or 'the model'} has {promised} gradients on this rank, but "
                               f"only {piece.numel()} in this backward, which has not used all of its parameters. When others "
                               "are used, these would get the residual or momentum of the wrong parameters. Call fully_shard() "
                               "for each branch of the forward too, and freeze parameters that are never used with "
                               "requires_grad_(False) before replicate()")

    def forget(self) -> None:
        """Closes the model if it was opened with the others and no gradient has come yet."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _load(self, model: Model, piece: torch.Tensor) -> None:
        """Gives a model the state that restore() or load_state_dict() has chosen."""
        restored, loaded = self._owner.restored, self._owner.loaded
        start = torch.zeros(piece.numel(), dtype=torch.float32, device=piece.device)
        if restored is not None:
            model.restore(self.folder(restored), start)
        elif loaded is not None:
            model.state_load(bytes_of(loaded[self.key]), start)

    def request_again(self) -> Dict[str, Any]:
        """Returns the arguments of the model that follows, with the owner's new recipe."""
        return self.request(*self._like)

    def change(self, model: Model, stats: Dict[str, Any]) -> None:
        """Replaces the model. stats: those of the old one."""
        self.model = model
        self._counters.add(stats)

    def stats(self) -> Optional[Dict[str, Any]]:
        return None if self.model is None else self._counters.on(self.model.stats())

    def __call__(self, piece: torch.Tensor) -> None:
        if self.model is None:
            model = self._open(piece)
            if self.waits():
                self._load(model, piece)
            self.model = model
        self._owner.before(self)
        self.model.push(piece)
        if self._mean is None:
            self.model.pull([piece] if self._short else piece)
        else:
            self.model.pull(self._mean)
            piece.copy_(self._mean.view_as(piece))
            self._owner.copied_bytes += piece.numel() * piece.element_size()


def _batches(pieces: Iterable[_Piece]) -> Iterator[List[_Piece]]:
    """Divides pieces into batches of at most _TOGETHER gradients, or of one piece."""
    batch: List[_Piece] = []
    for piece in pieces:
        if batch and sum(one.expected for one in batch) + piece.expected > _TOGETHER:
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


class Replication(NotPickled):
    """The result of sluice.torch.replicate(): one model of the group for each module of FSDP."""

    def __init__(self, module: torch.nn.Module, mesh: Any, recipe: Union[str, Recipe, None],
                 job: Optional[Job], optimizer: Any, adapt: bool, options: Dict[str, Any]) -> None:
        modules = [(n, m) for n, m in module.named_modules() if hasattr(m, "set_all_reduce_hook")]
        if not modules:
            raise TypeError(f"sluice.torch.replicate: {type(module).__name__} has no module of FSDP2: call "
                            "fully_shard() first, with the mesh of one node")
        optimizers = optimizers_of(optimizer, module.parameters(), adapt, "sluice.torch.replicate")
        root = _root_of(mesh)
        if job is None and root.ndim > 2:
            raise InvalidError(f"sluice.torch.replicate: the mesh is part of one with {root.ndim} dimensions, and all ranks at "
                               "the same position in it would be taken for replicas: give job=sluice.torch.default_job()."
                               "split(COLOR, KEY), with an equal COLOR on the ranks that differ only in replicate and shard")
        job = default_job() if job is None else job
        recipe = chosen(recipe, optimizers, adapt, job, "sluice.torch.replicate")
        self.recipe = with_update_none(recipe, "sluice.torch.replicate")
        self.options, self.copied_bytes = options, 0
        self.restored: Optional[str] = None
        self.loaded: Optional[Dict[str, torch.Tensor]] = None
        self.job, self.rank, self._module = job, job.rank, module
        # The first backward opens the models. A wrong word is refused and momenta are changed before that.
        complete = self.recipe.complete(sum(tensor.numel() for _, tensor in self._locals()),
                                        job.workers // mesh.size(), steps_per_epoch=options["steps_per_epoch"])
        self.keeps = keeps(complete)
        self.color = mesh.get_local_rank()
        group = job.split(self.color, job.rank)
        assert group is not None
        self.group: Job = group
        for _, tensor in self._locals():
            broadcast(self.group, tensor, 0)
        self._pieces: List[_Piece] = []
        self._open_next = True  # the next piece opens all models
        for index, (name, part) in enumerate(modules):
            piece = _Piece(self, name, index, _expected_count(part, mesh.size()), functools.partial(_promised_count, part))
            self._pieces.append(piece)
            part.set_all_reduce_hook(piece)
        self._stepping: Optional[_Piece] = None  # the piece that is the first one in each step
        self._momenta = Momenta(complete, optimizers, adapt, job, "sluice.torch.replicate", depth=5)

    def open_all(self, like: torch.Tensor) -> None:
        """Opens the models of all modules in a few calls, for gradients of the type of the first one."""
        if not self._open_next:
            return
        self._open_next = False
        for now in _batches(piece for piece in self._pieces if piece.expected):
            for piece, model in zip(now, self.group.open_many([piece.request(like, piece.expected) for piece in now])):
                piece.take(model)

    def change(self, recipe: Union[str, Recipe]) -> None:
        """Continues with another recipe, as Compression.change() does. Collective over all ranks, between two steps."""
        what = "Replication.change"
        if any(piece.waits() for piece in self._pieces):
            raise InvalidError(f"{what}: the first backward loads the state, with the recipe that it was saved with: make a step "
                               "with all modules before this call")
        count = sum(tensor.numel() for _, tensor in self._locals())
        wanted = wanted_recipe(self.job, recipe, count, self.group.workers, self.options["steps_per_epoch"], None, what)
        old, self.recipe = self.recipe, wanted
        try:
            for now in _batches(piece for piece in self._pieces if piece.model is not None):
                stats = [piece.model.stats() for piece in now]
                models = succeed_all([piece.model for piece in now],
                                     lambda: self.group.open_many([piece.request_again() for piece in now]))
                for piece, model, earlier in zip(now, models, stats):
                    piece.change(model, earlier)
        except BaseException:
            self.recipe = old  # a recipe that a model refuses is refused in the first batch
            raise
        for piece in self._pieces:
            if piece.model is None:
                piece.forget()
        complete = self.recipe.complete(count, self.group.workers, steps_per_epoch=self.options["steps_per_epoch"])
        self.keeps = keeps(complete)
        self._momenta.change(complete)

    def before(self, piece: _Piece) -> None:
        """Called before a piece is pushed."""
        if self._stepping is None:
            self._stepping = piece
        if self._stepping is piece:
            self._momenta.check()

    def _locals(self) -> Iterator[Tuple[str, torch.Tensor]]:
        for name, p in self._module.named_parameters():
            yield name, p.detach().to_local() if hasattr(p, "to_local") else p.detach()

    def _models(self) -> List[Model]:
        return [piece.model for piece in self._pieces if piece.model is not None]

    def checkpoint(self, folder: Any) -> None:
        """Writes residuals and counters below folder, which all ranks see. Collective, between steps."""
        for piece in self._pieces:
            piece.checkpoint(os.fspath(folder))

    def restore(self, folder: Any) -> None:
        """Makes the first backward restore the checkpoint."""
        self._must_be_new("restore")
        self.restored = os.fspath(folder)

    def state_dict(self) -> Dict[str, torch.Tensor]:
        """This rank's parts of what checkpoint() writes, as a uint8 tensor for each module.

        Between two steps, after the first one, which opens the models. It waits for no other rank.
        """
        return self._state_dict(Model.state_part)

    def collective_state_dict(self) -> Dict[str, torch.Tensor]:
        """state_dict() on all ranks together, which fails on all of them if they are not at the same step."""
        return self._state_dict(Model.state_save)

    def _state_dict(self, save: Callable[[Model], bytearray]) -> Dict[str, torch.Tensor]:
        if not self._models():
            raise InvalidError("Replication.state_dict: no step was made yet, so there is no state: call it "
                               "after a backward")
        return {piece.key: piece.part(save) for piece in self._pieces}

    def empty_state_dict(self, metadata: Any) -> Dict[str, torch.Tensor]:
        """Tensors of the sizes in a checkpoint of torch.distributed.checkpoint, to load into before the first backward.

            reader = FileSystemReader(directory)
            compression = state.empty_state_dict(reader.read_metadata())
            torch.distributed.checkpoint.load({"compression": compression}, storage_reader=reader)
            state.load_state_dict(compression)
        """
        keys, sizes = [piece.key for piece in self._pieces], {}
        for name, of in metadata.state_dict_metadata.items():
            key = name[name.rfind("rank"):]
            if key in keys and hasattr(of, "size") and sizes.setdefault(key, of.size) != of.size:
                raise InvalidError(f"the checkpoint has {key} of several models, with different sizes: save the state of each "
                                   "model in its own checkpoint")
        missing = [key for key in keys if key not in sizes]
        if missing:
            raise InvalidError(f"the checkpoint has no {missing[0]}: every rank loads the parts that it saved itself, of an "
                               "equal model and in a job of as many ranks")
        return {key: torch.empty(sizes[key], dtype=torch.uint8) for key in keys}

    def load_state_dict(self, state: Dict[str, torch.Tensor]) -> None:
        """Makes the first backward load this rank's state_dict()."""
        self._must_be_new("load_state_dict")
        missing = [piece.key for piece in self._pieces if piece.key not in state]
        if missing:
            raise InvalidError(f"the state has {', '.join(sorted(state)) or 'nothing'} and not {missing[0]}: every "
                               "rank loads the parts that it saved itself, of an equal model")
        self.loaded = dict(state)

    def _must_be_new(self, what: str) -> None:
        if self._models():
            raise InvalidError(f"Replication.{what}: steps have already been made: call it before the first "
                               "backward")

    def verify(self) -> int:
        """Compares the pieces over the replicas. Returns their digest, or raises an error that names a
        parameter."""
        return verify(self.group, self._locals())

    def stats(self) -> Dict[str, Any]:
        """steps, the bytes of all modules together as in Model.stats(), and copied_bytes, which the hooks copied."""
        found: Dict[str, Any] = {"steps": 0, "copied_bytes": self.copied_bytes}
        keys = [own + key for own in ("", "own_") for key in ("pushed_bytes", "pulled_bytes", "dense_bytes")]
        found.update(dict.fromkeys(keys, 0))
        for stats in filter(None, (piece.stats() for piece in self._pieces)):
            found["steps"] = max(found["steps"], stats["steps"])
            for key in keys:
                found[key] += stats[key]
        return with_rank_bytes(found)

    def totals(self) -> Dict[str, Any]:
        """Model.totals() of all modules together, over all ranks of the job. Collective."""
        return totals_of(self.job, self.stats())

    def close(self) -> None:
        """Closes models and group, collectively, after the same number of steps on all ranks."""
        self.group.close()


def replicate(module: torch.nn.Module, mesh: Any, recipe: Union[str, Recipe, None] = None, *,
              job: Optional[Job] = None, optimizer: Any = None, adapt: bool = False, shards: int = 0,
              steps_per_epoch: int = 0, memory_bytes: int = 0) -> Replication:
    """Lets the replicas of an FSDP2 model exchange their gradients through Sluice.

        mesh = init_device_mesh("cuda", (nodes, gpus), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh["shard"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.2, 0.99))
        sluice.torch.replicate(model, mesh["shard"], optimizer=optimizer)

    Collective over all ranks, after fully_shard() and before the first backward. Each rank gets the
    parameters of the first replica. Each module for which fully_shard() was called becomes a model; a group has
    up to 65535 of them.

    mesh: the mesh passed to fully_shard(), with one dimension. Ranks at the same position in it are replicas.
    recipe, job, optimizer, adapt, shards, steps_per_epoch, memory_bytes: as for compress(). clip= in a recipe limits the
        piece of each module.
    """
    return Replication(module, mesh, recipe, job, optimizer, adapt,
                       {"shards": shards, "steps_per_epoch": steps_per_epoch,
                        "memory_bytes": memory_bytes})
