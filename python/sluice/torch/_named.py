# SPDX-License-Identifier: BSD-3-Clause
"""The recipe that suits a torch optimizer, and the betas that suit a recipe.

Called by _ddp.py and _optimizer.py when a model is opened, and before each step, because schedulers and
checkpoints change betas too.
"""
import logging
import os
import warnings
import weakref
from typing import Any, List, Optional, Union

from ..errors import InvalidError
from ..job import Job
from ..recipe import Recipe

_BETAS = (0.2, 0.99)  # what adapt=True sets
_MOST_BETA1, _LEAST_BETA2 = 0.5, 0.95  # a warning otherwise
_METHODS = {"Adam": "adamw", "AdamW": "adamw", "SGD": "sgdm"}  # Muon is a name of many classes
_log = logging.getLogger("sluice")


def optimizers_of(optimizer: Any, adapt: bool, what: str) -> List[Any]:
    """Returns the optimizers that a program passed as one, as several, or not at all. Raises an error before a model is
    opened if adapt makes no sense for them."""
    found = [] if optimizer is None else list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    for one in found:
        if not hasattr(one, "param_groups"):
            raise InvalidError(f"{what}: optimizer={type(one).__name__}, must be a torch optimizer, or a list of those that "
                               "train the model")
        if adapt and _method_of(one) is None:
            raise InvalidError(f"{what}: adapt=True changes the betas of Adam and AdamW, and {type(one).__name__} is "
                               "neither: leave it out")
    if adapt and not found:
        raise InvalidError(f"{what}: adapt=True changes the betas of an optimizer: pass optimizer= too")
    return found


def _method_of(optimizer: Any) -> Optional[str]:
    """The recipe for the first of its classes that is known."""
    for kind in type(optimizer).__mro__:
        if "Muon" in kind.__name__:
            return "muon"
        if kind.__name__ in _METHODS:
            return _METHODS[kind.__name__]
    return None


def _is_adam(optimizer: Any) -> bool:
    return _method_of(optimizer) == "adamw"


def chosen(recipe: Union[str, Recipe, None], optimizers: List[Any], job: Job, what: str) -> Union[str, Recipe, None]:
    """Returns the recipe, or the name of the one that suits the optimizers if neither the program nor
    SLUICE_RECIPE names one."""
    if not optimizers or str(recipe or "").strip() or os.environ.get("SLUICE_RECIPE", "").strip():
        return recipe
    found = []
    for one in optimizers:
        method = _method_of(one)
        if method is None:
            raise InvalidError(f"{what}: no recipe was given, and Sluice knows none for {type(one).__name__}: pass "
                               "\"adamw\" if it divides by the size of the gradients as Adam does, \"sgdm\" if it does not, "
                               "or \"up=all down=all\", which sends everything")
        found.append(method)
    # Muon trains only matrices, so AdamW trains the rest of such a model.
    if set(found) == {"muon", "adamw"}:
        found = ["muon"]
    if len(set(found)) > 1:
        raise InvalidError(f"{what}: no recipe was given, and the optimizers " +
                           " and ".join(f"{type(one).__name__} ({method})" for one, method in zip(optimizers, found)) +
                           " need different ones: pass one of these names")
    if job.rank == 0 and os.environ.get("SLUICE_ADVICE") != "no":
        _log.warning("%s: no recipe was given, so %s selects the recipe %s of sluice_recipe(7). Give it by name to leave "
                     "this line out.", what, " and ".join(type(one).__name__ for one in optimizers), found[0])
    return found[0]


def _delay(recipe: Recipe) -> bool:
    """Returns whether a coordinate waits in a residual. recipe: that of an open model."""
    everything = all((recipe.get(way) or "").split(",")[0] == "all" for way in ("up", "down"))
    return not everything and recipe.get("memory") != "none"


def _first_momentum(optimizer: Any) -> Optional[str]:
    """Returns the setting that makes an optimizer keep a running mean of gradients."""
    for group in optimizer.param_groups:
        if group.get("momentum"):
            return f"momentum={group['momentum']}"
        if "betas" in group and float(group["betas"][0]):
            return f"beta1={float(group['betas'][0]):g}"
    return None


def _warn_of_two_momenta(recipe: Recipe, optimizers: List[Any], depth: int) -> bool:
    if "momentum" not in (recipe.get("signal") or ""):
        return False
    for one in optimizers:
        setting, name = _first_momentum(one), type(one).__name__
        if setting is None:
            continue
        remedy = ("a recipe without signal=, and betas=(0.2, 0.99)" if setting.startswith("beta1") else
                  "signal=momentum(0.9) with SGD without momentum, or an optimizer with momentum and no signal=")
        warnings.warn(f"the recipe says signal={recipe.get('signal')} and {name} also has momentum ({setting}): steps are "
                      f"amplified twice. Use one of them: {remedy}", stacklevel=depth)
        return True
    return False


class Betas:
    """Changes Adam's betas, or warns once of betas that do not suit the recipe.

    A coordinate waits in the residuals and arrives as the sum of what waited, which is a momentum already.

    recipe: that of an open model, in which the names of methods are spelled out.
    depth: the number of calls from a method of this class up to the program, whose line a warning shows.
    """

    def __init__(self, recipe: Recipe, optimizers: List[Any], adapt: bool, job: Job, what: str, depth: int) -> None:
        self._what, self._told, self._depth = what, job.rank != 0, depth
        self._adams: List[Any] = []
        if adapt:
            self._adapt(recipe, optimizers, job)
        if _warn_of_two_momenta(recipe, optimizers, depth) or not _delay(recipe):
            return
        self._adams = [weakref.ref(one) for one in optimizers if _is_adam(one)]
        self._check("has", "")

    def _adapt(self, recipe: Recipe, optimizers: List[Any], job: Job) -> None:
        for one in optimizers:
            name, before = type(one).__name__, set()
            if not _delay(recipe) or not _is_adam(one):
                if job.rank == 0:
                    _log.warning("%s: adapt=True leaves %s as it is: %s", self._what, name, "it has no betas"
                                 if not _is_adam(one) else "the recipe lets no coordinate wait in a residual")
                continue
            for group in one.param_groups:
                before.add(tuple(map(float, group["betas"])))
                group["betas"] = _BETAS
            if "betas" in one.defaults:
                one.defaults["betas"] = _BETAS  # of groups that are added later
            if job.rank == 0 and before != {_BETAS}:
                _log.warning("%s: adapt=True changed the betas of %s from %s to %s", self._what, name,
                             " and ".join(map(str, sorted(before))), _BETAS)

    def check(self) -> None:
        """Before a step."""
        if self._adams and not self._told:
            self._check("now has", " A scheduler such as OneCycleLR changes beta1 unless it has cycle_momentum=False, and "
                                   "load_state_dict() of an optimizer restores the betas that were saved.")

    def _check(self, has: str, after: str) -> None:
        for one in (ref() for ref in self._adams):
            for group in () if one is None else one.param_groups:
                beta1, beta2 = map(float, group["betas"])
                if self._told or (beta1 <= _MOST_BETA1 and beta2 >= _LEAST_BETA2):
                    continue
                self._told = True
                name = type(one).__name__
                why = (f"beta1 above {_MOST_BETA1}" if beta1 > _MOST_BETA1 else f"beta2 below {_LEAST_BETA2}")
                warnings.warn(
                    f"{name} {has} betas=({beta1:g}, {beta2:g}). With this recipe a coordinate waits in a residual and "
                    f"arrives as the sum of several steps, which is a momentum already, so {why} costs accuracy. Write "
                    f"{name}(..., betas={_BETAS}), or pass adapt=True to {self._what}().{after}", stacklevel=self._depth)
