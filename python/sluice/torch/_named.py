# SPDX-License-Identifier: BSD-3-Clause
"""The recipe that suits a torch optimizer, and the momentum that suits a recipe.

Called by _ddp.py, _fsdp.py and _optimizer.py when a model is opened, and before each step, because schedulers and
checkpoints change momenta too.
"""
import logging
import warnings
import weakref
from typing import Any, Iterable, List, Optional, Union

from .._library import setting
from ..errors import InvalidError
from ..job import Job
from ..recipe import Recipe

_BETAS = (0.2, 0.99)  # what adapt=True sets
_MOST_MOMENTUM, _LEAST_BETA2 = 0.5, 0.95  # a warning otherwise
_METHODS = {"Adam": "adamw", "AdamW": "adamw", "SGD": "sgd"}  # Muon is a name of many classes
_MOVED = "momentum_in_recipe"  # of a param group: the momentum that adapt=True took; torch saves it in state_dict()
_log = logging.getLogger("sluice")


def optimizers_of(optimizer: Any, parameters: Iterable[Any], adapt: bool, what: str) -> List[Any]:
    """Returns the optimizers that a program passed as one, as several, or not at all. Raises an error before a model is
    opened if one has none of these parameters, or if adapt makes no sense for them."""
    found = [] if optimizer is None else list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    ids = {id(p) for p in parameters}
    for one in found:
        if not hasattr(one, "param_groups"):
            raise InvalidError(f"{what}: optimizer={type(one).__name__}, must be a torch optimizer, or a list of those that "
                               "train the model")
        if not any(id(p) in ids for group in one.param_groups for p in group["params"]):
            raise InvalidError(f"{what}: {type(one).__name__} has no parameter of the model: pass the optimizer that trains it, "
                               "made after fully_shard() replaced the parameters; if it trains copies of them, leave optimizer= "
                               "out and name the recipe")
        if adapt and _method_of(one) is None:
            raise InvalidError(f"{what}: adapt=True changes the momentum of SGD and the betas of Adam and AdamW, and "
                               f"{type(one).__name__} is none of these: leave it out")
        if adapt and _method_of(one) == "sgd":
            for group in one.param_groups:
                if group.get("dampening") and (group.get("momentum") or group.get(_MOVED)):
                    d = float(group["dampening"])
                    raise InvalidError(f"{what}: adapt=True moves the momentum of {type(one).__name__} to the recipe, which has "
                                       f"no dampening, but a group has dampening={d:g}, so steps would be "
                                       + (f"{1 / (1 - d):g} times as long: leave dampening out and multiply lr by {1 - d:g}"
                                          if d < 1 else "of another length: leave dampening out"))
    if adapt and not found:
        raise InvalidError(f"{what}: adapt=True changes the momentum of an optimizer: pass optimizer= too")
    return found


def _method_of(optimizer: Any) -> Optional[str]:
    """The recipe for the first of its classes that is known."""
    for kind in type(optimizer).__mro__:
        if "Muon" in kind.__name__:
            return "muon"
        if kind.__name__ in _METHODS:
            return _METHODS[kind.__name__]
    return None


def _momenta_of(optimizer: Any) -> List[float]:
    """The different momenta of its groups, or the first betas."""
    found = {float(group["betas"][0]) if "betas" in group else float(group.get("momentum") or 0)
             for group in optimizer.param_groups}
    return sorted(found)


def _movable_of(optimizer: Any) -> List[float]:
    """The different momenta of the groups of SGD, or those that adapt=True has taken before."""
    return sorted({float(group.get("momentum") or group.get(_MOVED) or 0) for group in optimizer.param_groups})


def chosen(recipe: Union[str, Recipe, None], optimizers: List[Any], adapt: bool, job: Job,
           what: str) -> Union[str, Recipe, None]:
    """Returns the recipe, or the one that suits the optimizers if neither the program nor SLUICE_RECIPE names one."""
    if not optimizers or str(recipe or "").strip() or setting("SLUICE_RECIPE").strip():
        return recipe
    found = []
    for one in optimizers:
        method = _method_of(one)
        if method is None:
            raise InvalidError(f"{what}: no recipe was given, and Sluice knows none for {type(one).__name__}: pass "
                               "\"adamw\" if it divides by the size of the gradients as Adam does, \"sgd\" if it does not, "
                               "or \"up=all down=all\", which sends everything")
        found.append(method)
    # Muon trains only matrices, so AdamW trains the rest of such a model.
    if set(found) == {"muon", "adamw"}:
        found = ["muon"]
    if len(set(found)) > 1:
        raise InvalidError(f"{what}: no recipe was given, and the optimizers " +
                           " and ".join(f"{type(one).__name__} ({method})" for one, method in zip(optimizers, found)) +
                           " need different ones: pass one of these names")
    method = found[0]
    momenta = sorted({m for one in optimizers for m in _movable_of(one)})
    if method == "sgd" and adapt and momenta != [0]:
        if len(momenta) > 1:
            raise InvalidError(f"{what}: adapt=True moves the momentum to the recipe, but the groups of SGD have several, "
                               f"{' and '.join(f'{m:g}' for m in momenta)}: give all groups the same momentum")
        method = f"sgdm signal=momentum({momenta[0]:g})"
    if job.rank == 0 and setting("SLUICE_ADVICE") != "no":
        _log.warning("%s: no recipe was given, so %s selects %s of sluice_recipe(7). Pass it as the recipe to leave "
                     "this line out.", what, " and ".join(type(one).__name__ for one in optimizers), method)
    return method


def _delay(recipe: Recipe) -> bool:
    """Returns whether a coordinate waits in a residual. recipe: the recipe of an open model."""
    everything = all((recipe.get(way) or "").split(",")[0] == "all" for way in ("up", "down"))
    return not everything and recipe.get("memory") != "none"


def keeps(recipe: Recipe) -> bool:
    """Returns whether a part of each gradient stays for later steps, in a residual or a momentum. recipe: the recipe of an
    open model."""
    return recipe.get("memory") != "none" or "momentum" in (recipe.get("signal") or "")


class Momenta:
    """Changes the momenta of optimizers, or warns once on rank 0 if they do not suit the recipe.

    A coordinate waits in the residuals and arrives as the sum of the values that waited. This sum already acts as a
    momentum.

    recipe: a complete one, in which the names of methods are spelled out.
    depth: the number of calls from a method of this class up to the program, whose line a warning shows.
    """

    def __init__(self, recipe: Recipe, optimizers: List[Any], adapt: bool, job: Job, what: str, depth: int) -> None:
        self._what, self._depth, self._first = what, depth, job.rank == 0
        self._all = [weakref.ref(one) for one in optimizers]
        self._use(recipe)
        for one in optimizers if adapt else ():
            self._adapt(one)
        self._check("has", "")

    def _use(self, recipe: Recipe) -> None:
        self._delay, self._signal = _delay(recipe), recipe.get("signal") or ""
        self._watched = self._all if self._first and (self._delay or "momentum" in self._signal) else []

    def change(self, recipe: Recipe) -> None:
        """The next steps have this recipe."""
        self._use(recipe)
        self._check("has", "")

    def _adapt(self, one: Any) -> None:
        kind, momenta = _method_of(one), _movable_of(one)
        why = ("Sluice does not know what suits it" if kind == "muon" else
               "the recipe lets no coordinate wait in a residual" if kind == "adamw" and not self._delay else
               "it has no momentum" if momenta == [0] and kind == "sgd" else
               "the recipe has no signal=momentum" if kind == "sgd" and "momentum" not in self._signal else None)
        if why is not None:
            self._say(one, f"leaves {{}} as it is: {why}")
        elif kind == "adamw":
            before = {tuple(map(float, group["betas"])) for group in one.param_groups}
            self._set(one, betas=_BETAS)
            if before != {_BETAS}:
                self._say(one, f"changed the betas of {{}} from {' and '.join(map(str, sorted(before)))} to {_BETAS}")
        elif _momenta_of(one) != [0]:  # else an earlier call has taken it
            nesterov = any(group.get("nesterov") for group in one.param_groups)
            for group in one.param_groups:
                group[_MOVED] = float(group["momentum"])
            self._set(one, momentum=0.0, nesterov=False)
            decays = any(group.get("weight_decay") for group in one.param_groups) and momenta[-1] < 1
            self._say(one, f"changed the momentum of {{}} from {' and '.join(f'{m:g}' for m in momenta)} to 0, because the "
                           f"recipe has signal={self._signal}" + nesterov * (
                               ", and nesterov to False, because the momentum of a recipe is a plain one") + decays * (
                               ". The weight decay of the optimizer is not part of that momentum: multiply weight_decay by "
                               f"{1 / (1 - momenta[-1]):g} to keep its effect"))

    @staticmethod
    def _set(one: Any, **settings: Any) -> None:
        for of in (*one.param_groups, one.defaults):  # the defaults are for groups that are added later
            of.update((key, value) for key, value in settings.items() if key in of)

    def _say(self, one: Any, text: str) -> None:
        if self._first:
            _log.warning("%s: adapt=True %s", self._what, text.format(type(one).__name__))

    def check(self) -> None:
        """Before a step."""
        if self._watched:
            self._check("now has", " A scheduler such as OneCycleLR changes momenta unless it has cycle_momentum=False, "
                                   "and load_state_dict() of an optimizer restores those that were saved.")

    def _check(self, has: str, after: str) -> None:
        for one in (ref() for ref in self._watched):
            text = one is not None and self._complaint(one, has)
            if text:
                self._watched = []
                warnings.warn(text + after, stacklevel=self._depth)
                return

    def _complaint(self, one: Any, has: str) -> Optional[str]:
        name, kind, most = type(one).__name__, _method_of(one), _momenta_of(one)[-1]
        if "momentum" in self._signal:
            if not most:
                return None
            adam = any("betas" in group for group in one.param_groups)
            remedy = ("a recipe without signal=, and betas=(0.2, 0.99)" if adam else
                      "signal=momentum(0.9) with SGD without momentum, or an optimizer with momentum and no signal=")
            return (f"the recipe says signal={self._signal} and {name} also {has} momentum "
                    f"({'beta1' if adam else 'momentum'}={most:g}): steps are amplified twice. Use one of them: {remedy}.")
        waits = ("With this recipe a coordinate waits in a residual and arrives as the sum of several steps, which is a "
                 "momentum already, so")
        if kind == "adamw":
            for beta1, beta2 in (map(float, group["betas"]) for group in one.param_groups):
                if beta1 > _MOST_MOMENTUM or beta2 < _LEAST_BETA2:
                    why = f"beta1 above {_MOST_MOMENTUM}" if beta1 > _MOST_MOMENTUM else f"beta2 below {_LEAST_BETA2}"
                    return (f"{name} {has} betas=({beta1:g}, {beta2:g}). {waits} {why} costs accuracy. Write {name}(..., "
                            f"betas={_BETAS}), or pass adapt=True to {self._what}().")
        elif kind == "sgd" and most > _MOST_MOMENTUM:
            return (f"{name} {has} momentum={most:g}. {waits} a momentum in the optimizer costs accuracy. Write {name}(..., "
                    f"momentum=0) and add signal=momentum({most:g}) to the recipe, or pass adapt=True and no recipe to "
                    f"{self._what}().")
        return None
