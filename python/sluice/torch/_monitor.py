# SPDX-License-Identifier: BSD-3-Clause
"""Shows what Sluice does while a model trains: lines at the start and at the end, and scalars for a writer."""
import sys
import time
from typing import Any, Dict, List, Optional, TextIO

import torch

from ..errors import InvalidError

_TIMES = ("compress", "push", "wait", "pull", "apply")  # the parts of a step in Model.stats()


def _bytes(n: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            break
        n /= 1000
    else:
        unit = "TB"
    return f"{n:.3g} {unit}" if n < 1000 else f"{n:.0f} {unit}"


def _models(of: Any) -> List[Any]:
    if hasattr(of, "_models"):
        return list(of._models())
    return [getattr(of, "model", of)]


def _fewer(stats: Dict[str, Any]) -> Optional[float]:
    sent = stats["rank_pushed_bytes"] + stats["rank_pulled_bytes"]
    return stats["rank_dense_bytes"] / sent if sent else None


class Monitor:
    """Records the costs and savings of Sluice once in `every` steps.

        with sluice.torch.Monitor(state, SummaryWriter()) as monitor:
            for x, y in batches:
                ...
                optimizer.step()
                monitor.step()

    of: what compress(), replicate(), Optimizer() or LocalSteps() returned, or a sluice.Model.
    writer: an object with add_scalar(name, value, step), as TensorBoard's, one with log(values, step=), as a run of
        Weights & Biases, or a function of a dictionary and the step. None writes no scalars. Ranks may have different
        writers; usually rank 0 has one.
    every: the number of calls of step() between two records. A record reads the residual once, which takes about as long
        as adding two vectors. Between records, step() only counts.
    error: also measures the compression error, in the last step before each record. That step takes longer, and is
        made on the host if the shards are on a GPU. Not with replicate().
    tensors: also records, for each parameter, residual_norm and, where the ranks exchange gradients for a torch optimizer,
        density_down, the share of coordinates that the last mean contains. Their names begin with tensors/NAME/. Not with
        replicate(). Call step() before the gradients are set to zero.
    lines: whether rank 0 writes the lines of the start and of the end.
    out: where it writes them; None stands for standard error.
    prefix: what the names of the scalars begin with.

    The scalars are those of this rank, for a step since the last record: mb_up, mb_down, times_fewer (than a dense
    exchange), step_ms, compress_ms, push_ms, wait_ms, pull_ms, apply_ms, share (of all these in the step), and the
    current residual_norm, density_up, density_down, bits_up, bits_down, compression_error and compression_error_down. What the
    recipe does not have, or was not measured, is left out.
    """

    def __init__(self, of: Any, writer: Any = None, every: int = 100, *, error: bool = False, tensors: bool = False,
                 lines: bool = True, out: Optional[TextIO] = None, prefix: str = "sluice/") -> None:
        if every < 1 or every % 1:
            raise InvalidError(f"sluice.torch.Monitor: every={every}, must be an integer of at least 1")
        if writer is not None and not (hasattr(writer, "add_scalar") or hasattr(writer, "log") or callable(writer)):
            raise InvalidError(f"sluice.torch.Monitor: writer is {writer!r}, must have add_scalar() or log(), or be a "
                               "function of a dictionary and the step")
        if tensors and not hasattr(of, "layout"):
            raise InvalidError(f"sluice.torch.Monitor: tensors=True, but {type(of).__name__} does not know the tensors: leave it out")
        if error and hasattr(of, "_models"):
            raise InvalidError("sluice.torch.Monitor: error=True, but the modules of replicate() have one error each: leave it out, "
                               "and call measure() of a sluice.Model")
        self._tensors = tensors
        self._of, self._writer, self._every, self._error, self._out, self._prefix = of, writer, every, error, out, prefix
        self._job = of._job if hasattr(of, "_job") else of.job
        self._lines = lines and self._job.rank == 0
        self._started = False
        self._count = 0
        self._began = self._since = time.monotonic()
        self._first = self._last = of.stats()
        self._start_once()
        if error and every == 1:
            self._measure(True)

    # ---- lines ----------------------------------------------------------------------------------

    def _write(self, line: str) -> None:
        print(line, file=self._out or sys.stderr, flush=True)

    def _start_once(self) -> None:
        """The modules of replicate() open their models in the first step."""
        models = _models(self._of)
        if self._lines and models and not self._started:
            self._started = True
            self._write(self._start(models))

    def _start(self, models: List[Any]) -> str:
        workers = getattr(self._of, "group", self._job).workers  # of replicate(): the replicas
        count = sum(model.count for model in models)
        recipes = sorted({str(model.recipe) for model in models})
        ways = [name for name in self._job.transports() if name != "self"]
        return (f"sluice: {workers} workers over {' and '.join(ways) or 'no transport'}, {count} parameters: a dense step "
                f"pushes {_bytes(4 * count)} per worker; recipe {' | '.join(recipes)}")

    def _end(self, totals: Dict[str, Any], stats: Dict[str, Any], seconds: float) -> str:
        steps = stats["steps"] - self._first["steps"]
        line = f"sluice: {steps} steps in {seconds:.1f} s"
        if totals["dense_bytes"]:
            line += (f"; all workers pushed {_bytes(totals['pushed_bytes'])} and pulled {_bytes(totals['pulled_bytes'])} "
                     f"instead of {_bytes(totals['dense_bytes'])} ({100 * totals['saved']:.2f} % saved)")
        if steps and "wait_ns" in stats:
            spent = {name: (stats[name + "_ns"] - self._first[name + "_ns"]) / 1e6 / steps for name in _TIMES}
            line += (f"; rank 0 waited {spent['wait']:.2f} ms of a step, and Sluice took "
                     f"{sum(spent.values()) * steps / 10 / max(seconds, 1e-9):.1f} % of the time")
        if stats.get("compression_error") is not None:
            line += f"; compression error of the last push {stats['compression_error']:.3g}"
        return line

    # ---- scalars --------------------------------------------------------------------------------

    def _record(self) -> None:
        now, stats = time.monotonic(), self._of.stats()
        last, self._last = self._last, stats
        since, self._since = self._since, now
        steps = stats["steps"] - last["steps"]
        if not steps:
            return
        delta = {key: (stats[key] - last[key]) / steps for key in stats
                 if isinstance(stats[key], (int, float)) and isinstance(last.get(key), (int, float))}
        ms = 1e3 * (now - since) / steps
        values = {"mb_up": delta["rank_pushed_bytes"] / 1e6, "mb_down": delta["rank_pulled_bytes"] / 1e6,
                  "times_fewer": _fewer(delta), "step_ms": ms}
        if "wait_ns" in delta:
            values.update({f"{name}_ms": delta[name + "_ns"] / 1e6 for name in _TIMES})
            values["share"] = sum(delta[name + "_ns"] for name in _TIMES) / 1e6 / ms
        values.update({key: stats.get(key) for key in ("residual_norm", "density_up", "density_down", "bits_up", "bits_down",
                                                       "compression_error", "compression_error_down")})
        if self._tensors:
            values.update(self._of_tensors())
        known = {self._prefix + key: value for key, value in values.items() if value is not None}
        if hasattr(self._writer, "add_scalar"):
            for key, value in known.items():
                self._writer.add_scalar(key, value, stats["steps"])
        elif hasattr(self._writer, "log"):
            self._writer.log(known, step=stats["steps"])
        else:
            self._writer(known, stats["steps"])

    def _of_tensors(self) -> Dict[str, float]:
        layout, recipe, found = self._of.layout, self._of.model.recipe, {}
        residual = None
        if recipe.get("memory") != "none":
            residual = torch.empty(layout.count, dtype=torch.float32, device="cpu")
            self._of.model.residual(residual)
        for name, p, begin in zip(layout.names, layout.parameters, layout.begins):
            if residual is not None:
                found[f"tensors/{name}/residual_norm"] = float(residual[begin:begin + p.numel()].norm())
            if recipe.get("update") == "none" and p.grad is not None and p.numel():
                found[f"tensors/{name}/density_down"] = int(p.grad.count_nonzero()) / p.numel()
        return found

    def _measure(self, on: bool) -> None:
        for model in _models(self._of):
            model.measure(on)

    def step(self) -> None:
        """Call it after each step. It exchanges nothing."""
        self._count += 1
        self._start_once()
        due = self._count % self._every
        if self._error and due == self._every - 1:
            self._measure(True)
        if due:
            return
        if self._writer is not None:
            self._record()
        if self._error and self._every > 1:
            self._measure(False)

    # ---- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Writes the line of the end. Collective over the workers; call it before the model is closed."""
        if self._of is None:
            return
        totals, stats = self._of.totals(), self._of.stats()
        line = self._end(totals, stats, time.monotonic() - self._began)
        if self._lines:
            self._write(line)
        self._of = None

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
