# SPDX-License-Identifier: BSD-3-Clause
"""Notices that a script makes gradients smaller between a backward and the step, as clipping does.

Torch counts the writes to a tensor, so a step whose gradients were not written costs no comparison of values.
Called by _ddp.py and _optimizer.py.
"""
import math
from typing import Any, Callable, List, Tuple

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
