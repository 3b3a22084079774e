#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""torch.topk of |x| on the GPU, for the table of tests/gpu/run: torch_topk.py [N]."""
import sys

try:
    import torch
except ImportError:
    sys.exit("torch is not installed: torch.topk was not measured")
if not torch.cuda.is_available():
    sys.exit("torch sees no GPU: torch.topk was not measured")
n = int(sys.argv[1]) if len(sys.argv) > 1 else 250_000_000
x = torch.randn(n, device="cuda")
for k in n // 1000, n // 100:
    times = []
    for _ in range(7):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.topk(x.abs(), k, sorted=False)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    print(f"torch {torch.__version__} topk of |x| | {n:10d} | {k / n:6.3f} | {sorted(times)[3]:9.4f}")
