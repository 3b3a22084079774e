#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Exact top-k of libsluice beside what else finds the k largest magnitudes on this machine.

    python3 tools/bench/peers.py [--n 100000000] [--rounds 5] [--lib build/.libs/libsluice.so]

Every method runs once in each round, one after another, in one thread; medians, and ratios within a round to
one read of the vector. numpy is needed; torch and a C++ compiler are used where they are there. All answers
are compared with numpy's: the same magnitudes must come out.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np

NTH_ELEMENT = r"""
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
extern "C" void nth(const float *x, size_t n, size_t k, uint32_t *order, uint32_t *out)
{
	std::iota(order, order + n, 0u);
	std::nth_element(order, order + k, order + n,
			 [x](uint32_t a, uint32_t b) { return std::fabs(x[a]) > std::fabs(x[b]); });
	std::copy(order, order + k, out);
}
// A copy of the values and no indices: the least that the library can do.
extern "C" float nth_value(const float *x, size_t n, size_t k, float *copy)
{
	std::transform(x, x + n, copy, [](float v) { return std::fabs(v); });
	std::nth_element(copy, copy + k - 1, copy + n, [](float a, float b) { return a > b; });
	return copy[k - 1];
}
"""


def pointer(array, kind):
    return array.ctypes.data_as(ctypes.POINTER(kind))


def sluice(path, n, k):
    lib = ctypes.CDLL(path)
    index, value = np.empty(k, np.uint32), np.empty(k, np.float32)
    selected = ctypes.c_size_t()

    def run(x):
        rc = lib.sluice_topk(pointer(x, ctypes.c_float), ctypes.c_size_t(n), ctypes.c_size_t(k),
                             pointer(index, ctypes.c_uint32), pointer(value, ctypes.c_float),
                             ctypes.byref(selected))
        if rc:
            sys.exit("sluice_topk failed")
        return index[: selected.value]

    return run


def nth_element(n, k):
    folder = tempfile.mkdtemp()
    source, library = os.path.join(folder, "nth.cc"), os.path.join(folder, "nth.so")
    with open(source, "w") as f:
        f.write(NTH_ELEMENT)
    try:
        subprocess.run(["c++", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    lib = ctypes.CDLL(library)
    lib.nth_value.restype = ctypes.c_float
    order, out = np.empty(n, np.uint32), np.empty(k, np.uint32)

    def with_indices(x):
        lib.nth(pointer(x, ctypes.c_float), ctypes.c_size_t(n), ctypes.c_size_t(k),
                pointer(order, ctypes.c_uint32), pointer(out, ctypes.c_uint32))
        return out

    copy = order.view(np.float32)

    def of_values(x):
        lib.nth_value(pointer(x, ctypes.c_float), ctypes.c_size_t(n), ctypes.c_size_t(k),
                      pointer(copy, ctypes.c_float))
        return None

    return with_indices, of_values


def methods_for(args, k):
    n = args.n
    found = {"read": lambda x: (np.max(x), None)[1], "sluice_topk": sluice(args.lib, n, k)}
    found["numpy argpartition"] = lambda x: np.argpartition(np.abs(x), n - k)[n - k:]
    found["numpy partition, values only"] = lambda x: (np.partition(np.abs(x), n - k), None)[1]
    nth = nth_element(n, k)
    if nth:
        found["std::nth_element"], found["std::nth_element, values only"] = nth
    try:
        import torch
        torch.set_num_threads(1)
        found["torch.topk"] = lambda x: torch.topk(torch.from_numpy(x).abs(), k, sorted=False)[1].numpy()
    except ImportError:
        pass
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--density", type=float, action="append")
    parser.add_argument("--lib", default="build/.libs/libsluice.so")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.lib = os.path.abspath(args.lib)
    x = np.random.default_rng(1).standard_normal(args.n, dtype=np.float32)
    rows = []
    for density in args.density or [0.001, 0.01, 0.1]:
        k = max(1, round(args.n * density))
        methods = methods_for(args, k)
        times = {name: [] for name in methods}
        wanted = np.sort(np.abs(x[np.argpartition(np.abs(x), args.n - k)[args.n - k:]]))
        for _ in range(args.rounds):
            for name, run in methods.items():
                began = time.perf_counter()
                answer = run(x)
                times[name].append(time.perf_counter() - began)
                if answer is not None and not np.array_equal(np.sort(np.abs(x[answer])), wanted):
                    sys.exit(f"{name}: another answer than numpy's")
        for name in methods:
            ratio = statistics.median(t / r for t, r in zip(times[name], times["read"]))
            own = statistics.median(t / s for t, s in zip(times[name], times["sluice_topk"]))
            rows.append({"density": density, "method": name, "ms": statistics.median(times[name]) * 1e3,
                         "x_read": ratio, "x_sluice": own})
    if args.json:
        print(json.dumps({"n": args.n, "rounds": args.rounds, "numpy": np.__version__, "rows": rows}))
        return
    print(f"n {args.n}, Gaussian, one thread, medians of {args.rounds} rounds, numpy {np.__version__}")
    for row in rows:
        print(f"{row['density']:>7.3%}  {row['method']:<30} {row['ms']:>10.1f} ms  {row['x_read']:>7.2f} x read"
              f"  {row['x_sluice']:>6.2f} x sluice")


if __name__ == "__main__":
    main()
