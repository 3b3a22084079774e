# SPDX-License-Identifier: BSD-3-Clause
"""Recipes: lines of text that describe how gradients and deltas are compressed."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Iterable, Optional, Sequence, Tuple, Union

from ._abi import CONSTANTS, sluice_model_attr, sluice_tensor, sluice_tensor_rule
from ._library import check, lib

Tensors = Sequence[Union[Tuple[str, int], Tuple[str, int, int]]]
Rules = Sequence[Tuple[float, float]]


def attributes(recipe: Optional[str], *, tensors: Optional[Tensors] = None, pieces: Any = None,
               rules: Optional[Rules] = None, **members: Any) -> sluice_model_attr:
    """A filled sluice_model_attr. It refers to the objects it was made of.

    members: members of the struct with the same names.
    """
    attr = sluice_model_attr()
    attr.size = ctypes.sizeof(attr)
    for name, value in members.items():
        setattr(attr, name, int(value) if isinstance(value, bool) else value)
    if tensors:
        array = (sluice_tensor * len(tensors))()
        for element, (name, size, *_) in zip(array, tensors):
            element.name, element.count = name.encode(), size
        attr.tensors, attr.n_tensors = array, len(tensors)
        attr.columns = (ctypes.c_uint64 * len(tensors))(*(sum(columns) for _, _, *columns in tensors))
    attr.recipe = None if recipe is None else recipe.encode()
    if pieces is not None:
        attr.segments, attr.n_segments = pieces.array, pieces.n
    if rules is not None:
        if len(rules) != len(tensors or ()):
            raise ValueError(f"there are {len(rules)} rules and {len(tensors or ())} tensors: each tensor needs one")
        attr.rules = (sluice_tensor_rule * len(rules))(*(sluice_tensor_rule(*rule) for rule in rules))
    return attr


class Recipe:
    """A recipe, as sluice_recipe(7) describes it: words KEY=VALUE, or the name of a method.

    >>> str(Recipe("up=topk(0.01) down=topk(0.05)", signal="momentum(0.9)", update="none"))
    'up=topk(0.01) down=topk(0.05) signal=momentum(0.9) update=none'

    A keyword replaces the word of that key. ``complete()`` lets the library check all words and
    spell out the defaults.
    """

    def __init__(self, text: Union[str, "Recipe", None] = None, **words: str) -> None:
        self._words: Dict[str, Optional[str]] = {}
        for word in str(text or "").split():
            key, equals, value = word.partition("=")
            if key in self._words:
                raise ValueError(f"recipe: {key} appears twice in '{text}'; give it once")
            self._words[key] = value if equals else None
        for key, value in words.items():
            self._words[key] = str(value)

    def __str__(self) -> str:
        return " ".join(k if v is None else f"{k}={v}" for k, v in self._words.items())

    def __repr__(self) -> str:
        return f"sluice.Recipe({str(self)!r})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Recipe) and self._words == other._words

    def __hash__(self) -> int:
        return hash(str(self))

    def __contains__(self, key: str) -> bool:
        return key in self._words

    def keys(self) -> Iterable[str]:
        """The keys of its words, and the names of methods."""
        return self._words.keys()

    def get(self, key: str, default: Optional[str] = None) -> Optional[str]:
        """Returns the value of a word as it was written, or default if the recipe lacks the word."""
        return self._words.get(key, default)

    def plan(self, count: int, workers: int = 4, servers: int = 0,
             tensors: Optional[Tensors] = None, shards: int = 0, steps_per_epoch: int = 0) -> str:
        """Returns a text that describes what the library does with this recipe for count float32 parameters.

        It needs no job. Raises InvalidError with the library's sentence if a word is wrong.
        """
        return self._plan(CONSTANTS["SLUICE_PLAN_TEXT"], count, workers, servers, tensors, shards, steps_per_epoch)

    def plan_items(self, count: int, workers: int = 4, servers: int = 0,
                   tensors: Optional[Tensors] = None, shards: int = 0,
                   steps_per_epoch: int = 0) -> Dict[str, str]:
        """As plan(), for programs: returns the keys of sluice_plan(3) and their values.

        >>> Recipe("up=topk(0.01)").plan_items(1000)["ranges"]
        'yes'
        """
        text = self._plan(CONSTANTS["SLUICE_PLAN_KEYS"], count, workers, servers, tensors, shards,
                          steps_per_epoch)
        return {key: value for key, _, value in (line.partition("=") for line in text.splitlines())}

    def _plan(self, form: int, count: int, workers: int, servers: int, tensors: Optional[Tensors],
              shards: int, steps_per_epoch: int) -> str:
        attr = attributes(str(self), tensors=tensors, count=count, shards=shards, steps_per_epoch=steps_per_epoch)
        length = lib.sluice_plan(ctypes.byref(attr), workers, servers, form, None, 0)
        check(length)
        text = ctypes.create_string_buffer(length + 1)
        check(lib.sluice_plan(ctypes.byref(attr), workers, servers, form, text, length + 1))
        return text.value.decode()

    def complete(self, count: int = 1 << 20, workers: int = 4, servers: int = 0,
                 steps_per_epoch: int = 1000) -> "Recipe":
        """This recipe with all defaults spelled out. Raises InvalidError if a word is wrong."""
        return Recipe(self.plan_items(count, workers, servers, steps_per_epoch=steps_per_epoch)["recipe"])
