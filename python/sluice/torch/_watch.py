# SPDX-License-Identifier: BSD-3-Clause
"""Notices that a script makes gradients smaller between a backward and the step, as clipping does, and which parameters a
backward has used.

Torch counts the writes to a tensor, so a step whose gradients were not written costs no comparison of values.
Called by _ddp.py and _optimizer.py.
"""
import functools
import math
from typing import Any, Callable, Iterable, List, Set, Tuple

import torch

try:
    from torch.optim.optimizer import register_optimizer_step_pre_hook as before_steps
except ImportError:
    before_steps = None  # before torch 2.0

_TENSORS, _ELEMENTS = 16, 64  # the size of a sample: tensors, and elements of each


def after_backward(call: Callable[[], Any]) -> None:
    """Calls it when the current backward has ended and DDP has written its gradients."""
    queue = torch.autograd.Variable._execution_engine.queue_callback
    queue(lambda: queue(call))  # callbacks that DDP itself queues come between


class Used:
    """The parameters that this rank has used, for DistributedDataParallel(find_unused_parameters=True).

    If no rank has used a parameter in a step, DDP drops its mean. With a residual, that mean has values of earlier steps,
    so they are given to the parameter here.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self._ids: Set[int] = set()
        ids = self._ids
        self._hooks = [p.register_hook(functools.partial(_note_used, ids, id(p))) for p in parameters]
        self._others: List[Tuple[torch.nn.Parameter, torch.Tensor]] = []

    def note_others(self, bucket: Any) -> None:
        """Takes the parameters of a bucket that this rank has not used, and the places of their means. Parameters
        that were frozen later are left out, because a mean would move them."""
        if bucket.index() == 0:
            self._others = []  # of a backward that an exception ended
        # DDP stores a mean with the strides of the parameter, but bucket.gradients() has contiguous views.
        self._others += [(p, mean if p.is_contiguous() else mean.as_strided(p.shape, p.stride()))
                         for p, mean in zip(bucket.parameters(), bucket.gradients())
                         if p.requires_grad and id(p) not in self._ids]

    def end_of_step(self) -> Callable[[], None]:
        """Forgets the step. Returns a function for after_backward(), which gives the means to the parameters."""
        self._ids.clear()
        return functools.partial(_give_means, self._others)

    def drop_means(self) -> None:
        """Gives no means in a step that is skipped, also after end_of_step()."""
        self._others.clear()

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()


def _note_used(ids: Set[int], of: int, _: torch.Tensor) -> None:
    ids.add(of)


@torch.no_grad()
def _give_means(pairs: List[Tuple[torch.nn.Parameter, torch.Tensor]]) -> None:
    for p, mean in pairs:
        if p.grad is not None:
            p.grad.copy_(mean)  # DDP puts p.grad into the bucket, so the mean contains it
        elif mean.any():
            p.grad = torch.empty_like(p).copy_(mean)
    pairs.clear()  # they keep DDP's buckets


def _first(grad: torch.Tensor) -> torch.Tensor:
    return grad.detach().reshape(-1)[:_ELEMENTS]


class Watch:
    """note() stores a sample of the gradients; smaller() compares it with their current values."""

    def __init__(self, parameters: List[torch.nn.Parameter]) -> None:
        whole = [p for p in parameters if p.is_contiguous() and p.numel()]
        self._parameters = whole[::math.ceil(len(whole) / _TENSORS) or 1]
        self._ids = {id(p) for p in self._parameters}
        self._noted: List[Tuple[torch.nn.Parameter, int, int, torch.Tensor]] = []

    def note(self) -> None:
        self._noted = [(p, id(p.grad), p.grad._version, _first(p.grad).clone()) for p in self._parameters
                       if p.grad is not None and p.grad.is_contiguous()]

    def forget(self) -> None:
        self._noted = []

    def steps(self, optimizer: torch.optim.Optimizer) -> bool:
        """Returns whether it is an optimizer of watched parameters."""
        return any(id(p) in self._ids for group in optimizer.param_groups for p in group["params"])

    def smaller(self) -> bool:
        """Returns whether a gradient is now smaller, and not by a power of 2, which would be the scale of a
        GradScaler."""
        for p, grad_id, version, before in self._noted:
            if p.grad is None or (id(p.grad), p.grad._version) == (grad_id, version):
                continue
            place = int(before.abs().argmax())
            was, now = abs(float(before[place])), abs(float(_first(p.grad)[place]))
            if 0 < now < 0.999 * was and math.isfinite(was) and math.frexp(now / was)[0] != 0.5:
                return True
        return False
