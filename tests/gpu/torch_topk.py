#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures torch.topk of |residual += x| on the GPU, for sluice-bench --torch: torch_topk.py N:K:ANDS...

x has N Gaussian values (ANDS is -1), or bits with the entropy of ANDS as in tools/bench/axes.h. Prints a line
"N K ANDS MILLISECONDS" for each argument. The time is the median of the addition and the selection together."""
import sys

try:
    import torch
except ImportError:
    sys.exit("torch is not installed: torch.topk was not measured")
if not torch.cuda.is_available():
    sys.exit("torch sees no GPU: torch.topk was not measured")


def values(n, ands):
    if ands < 0:
        return torch.randn(n, device="cuda")
    word = torch.full((n,), 0x3FFFFFFF, dtype=torch.int32, device="cuda")
    for _ in range(ands + 1):
        word &= torch.randint(0, 1 << 30, (n,), dtype=torch.int32, device="cuda")
    return word.view(torch.float32)


def median_ms(x, k, warm=2, times=7):
    residual, measured = torch.empty_like(x), []
    for i in range(warm + times):
        residual.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        residual.add_(x)
        torch.topk(residual.abs(), k, sorted=False)
        end.record()
        end.synchronize()
        if i >= warm:
            measured.append(begin.elapsed_time(end))
    return sorted(measured)[times // 2]


x, made = None, None
for point in sys.argv[1:]:
    n, k, ands = map(int, point.split(":"))
    if made != (n, ands):
        x = None
        x, made = values(n, ands), (n, ands)
    print(n, k, ands, f"{median_ms(x, k):.6f}", flush=True)
