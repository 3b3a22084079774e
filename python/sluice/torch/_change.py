# SPDX-License-Identifier: BSD-3-Clause
"""Changes the recipe in the middle of a training run.

A model keeps its recipe, so another model is opened, which takes over what the first one has not delivered
(sluice_hand_over(3)). Called by _ddp.py, _fsdp.py and _optimizer.py.
"""
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from ..errors import InvalidError
from ..job import Job
from ..model import Model, with_rank_bytes
from ..recipe import Recipe
from ._flat import with_update_none

_COUNTERS = ("steps", "control_bytes", "pushed_elements", "pulled_elements", "deferred_elements", "nonfinite_elements",
             "compress_ns", "push_ns", "wait_ns", "pull_ns", "apply_ns", "device_ns", "skipped_pushes", "guard_raises",
             *(own + key for own in ("", "own_") for key in ("pushed_bytes", "pulled_bytes", "dense_bytes")))
_ROOM = 1024  # bytes of a recipe that are compared


def wanted_recipe(job: Job, recipe: Union[str, Recipe], count: int, workers: int, steps_per_epoch: int,
                  clip: Optional[float], what: str) -> Recipe:
    """Returns the recipe to open, after all ranks have agreed on it. Collective; an error leaves everything as it was.

    count and workers are those of the models.
    """
    why: Optional[Exception] = None
    text = str(recipe or "")
    try:
        if not text.strip():
            raise InvalidError(f"{what}: the recipe is empty, give one such as \"up=all down=all\"")
        wanted = with_update_none(recipe, what, clip)
        # Without it, a dense recipe has no residual, and could not send that of the old one.
        if wanted.get("memory") is None and wanted.complete(count, workers, steps_per_epoch=steps_per_epoch
                                                            ).get("memory") == "none":
            wanted = Recipe(wanted, memory="residual")
        text = str(wanted.complete(count, workers, steps_per_epoch=steps_per_epoch))
    except (InvalidError, ValueError) as error:
        why, text = error, f"? {text}"
    mine = text.encode()[:_ROOM]
    texts = [row.rstrip(b"\0").decode(errors="replace") for row in job.gather(mine + bytes(_ROOM - len(mine)))]
    if why is not None:
        raise why
    for rank, other in enumerate(texts):
        if other != texts[0] or other.startswith("? "):
            raise InvalidError(f"{what}: rank {rank} gives the recipe '{other.removeprefix('? ')}'"
                               + (", which is wrong" if other.startswith("? ") else f" and rank 0 '{texts[0]}'")
                               + ": all ranks must give the same recipe after the same step. The old one stays in use")
    return wanted


def succeed_all(olds: Sequence[Model], open_new: Callable[[], List[Model]]) -> List[Model]:
    """Opens the models that follow, hands over to them, and closes the old ones. Collective, between two steps.

    After an error, the old models are as they were.
    """
    news = open_new()
    try:
        for old, new in zip(olds, news):
            old.hand_over(new)
            if old.measures:
                new.measure()
    except BaseException:
        for new in news:
            new.close()
        raise
    for old in olds:
        old.close()
    return news


def succeed(old: Model, open_new: Callable[[], Model]) -> Model:
    """succeed_all() for one model."""
    return succeed_all([old], lambda: [open_new()])[0]


class Counters:
    """The counters of the models that were closed, so that a change of the recipe does not set them back."""

    def __init__(self) -> None:
        self._earlier: Dict[str, int] = {}

    def add(self, stats: Dict[str, Any]) -> None:
        for key in _COUNTERS:
            self._earlier[key] = self._earlier.get(key, 0) + stats.get(key, 0)

    def on(self, stats: Dict[str, Any]) -> Dict[str, Any]:
        """Returns stats, which counts from a change on, as counted from the beginning."""
        if not self._earlier:
            return stats
        return with_rank_bytes({key: value + self._earlier[key] if key in self._earlier else value
                                for key, value in stats.items()})
