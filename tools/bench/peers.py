#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares exact top-k of libsluice with other ways to find the k largest magnitudes on this machine.

    python3 tools/bench/peers.py [--n 100000000] [--rounds 5] [--lib build/.libs/libsluice.so]
                                 [--x86-simd-sort DIRECTORY]

In each round, every method runs once, one after another, in one thread. The figures are medians, and medians of the
ratios to one read of the vector in the same round. numpy is needed. torch and a C++ compiler are used if they are
installed, and x86-simd-sort if it is installed or the option names its sources. (numpy's sources have a copy in
numpy/_core/src/npysort/x86-simd-sort.) All answers must have the same magnitudes as numpy's.
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
// This copies the values and no indices, which is the least that the library can do.
extern "C" float nth_value(const float *x, size_t n, size_t k, float *copy)
{
	std::transform(x, x + n, copy, [](float v) { return std::fabs(v); });
	std::nth_element(copy, copy + k - 1, copy + n, [](float a, float b) { return a > b; });
	return copy[k - 1];
}
"""

# Keys and indices together, with the widest registers of this machine.
SIMD_SORT = r"""
#include <x86simdsort-static-incl.h>
#include <cmath>
#include <cstdint>
extern "C" void simd_select(const float *x, size_t n, size_t k, float *key, uint32_t *order, uint32_t *out)
{
	for (size_t i = 0; i < n; i++) {
		key[i] = std::fabs(x[i]);
		order[i] = (uint32_t)i;
	}
	x86simdsortStatic::keyvalue_select(key, order, k - 1, n, false, true);
	std::copy(order, order + k, out);
}
extern "C" float simd_select_value(const float *x, size_t n, size_t k, float *key)
{
	for (size_t i = 0; i < n; i++)
		key[i] = std::fabs(x[i]);
	x86simdsortStatic::qselect(key, k - 1, n, false, true);
	return key[k - 1];
}
"""
SIMD_SORT_HEADER = "x86simdsort-static-incl.h"


def pointer(array, kind):
    return array.ctypes.data_as(ctypes.POINTER(kind))


def sluice(path, n, k):
    lib = ctypes.CDLL(path)
    index, value = np.empty(k, np.uint32), np.empty(k, np.float32)
    selected = ctypes.c_size_t()
    size = 3 * ctypes.sizeof(ctypes.c_size_t) + 2 * ctypes.sizeof(ctypes.c_int)
    attr = (ctypes.c_size_t * 4)(size, n, k, 0)  # sluice_selector_attr

    def run(x):
        selector = ctypes.c_void_p()
        rc = lib.sluice_selector_open(attr, ctypes.byref(selector)) or lib.sluice_select(
            selector, pointer(x, ctypes.c_float), None, ctypes.c_size_t(k), pointer(index, ctypes.c_uint32),
            pointer(value, ctypes.c_float), ctypes.byref(selected))
        lib.sluice_selector_close(ctypes.byref(selector))
        if rc:
            sys.exit("sluice_select failed")
        return index[: selected.value]

    return run


def compiled(text, *options):
    """Compiles a C++ source. Returns the shared library, or None if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "peer.cc"), os.path.join(folder, "peer.so")
        with open(source, "w") as f:
            f.write(text)
        try:
            subprocess.run(["c++", "-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", *options, source, "-o",
                            library], check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return ctypes.CDLL(library)  # it stays loaded after the file is removed


def simd_sort_folder(named):
    """Returns the folder of the header, or None if it is not installed. A folder that was named must have it."""
    places = [named, os.path.join(named, "src")] if named else [
        os.path.join(root, place) for root in ("/usr/include", "/usr/local/include")
        for place in ("", "x86-simd-sort", "x86simdsort")]
    for place in places:
        if os.path.exists(os.path.join(place, SIMD_SORT_HEADER)):
            return place
    if named:
        sys.exit(f"no {SIMD_SORT_HEADER} in {named} or its src: name the folder of x86-simd-sort's sources")
    return None


def has_avx512():
    try:
        with open("/proc/cpuinfo") as f:
            return " avx512dq" in f.read()
    except OSError:
        return False


def simd_sort(folder, n, k, *options):
    lib = compiled(SIMD_SORT, "-I", folder, *options)
    if not lib:
        sys.exit(f"x86-simd-sort of {folder} cannot be compiled for this machine")
    lib.simd_select_value.restype = ctypes.c_float
    key, order, out = np.empty(n, np.float32), np.empty(n, np.uint32), np.empty(k, np.uint32)

    def with_indices(x):
        lib.simd_select(pointer(x, ctypes.c_float), ctypes.c_size_t(n), ctypes.c_size_t(k),
                        pointer(key, ctypes.c_float), pointer(order, ctypes.c_uint32),
                        pointer(out, ctypes.c_uint32))
        return out

    def of_values(x):
        lib.simd_select_value(pointer(x, ctypes.c_float), ctypes.c_size_t(n), ctypes.c_size_t(k),
                              pointer(key, ctypes.c_float))
        return None

    return with_indices, of_values


def nth_element(n, k):
    lib = compiled(NTH_ELEMENT)
    if not lib:
        return None
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
    found = {"read": lambda x: (np.max(x), None)[1], "sluice_select": sluice(args.lib, n, k)}
    found["numpy argpartition"] = lambda x: np.argpartition(np.abs(x), n - k)[n - k:]
    found["numpy partition, values only"] = lambda x: (np.partition(np.abs(x), n - k), None)[1]
    nth = nth_element(n, k)
    if nth:
        found["std::nth_element"], found["std::nth_element, values only"] = nth
    if args.simd_sort:
        found["x86-simd-sort"], found["x86-simd-sort, values only"] = simd_sort(args.simd_sort, n, k)
        # Some processors execute the instruction that compresses into memory slowly. On these, the code for AVX2 is
        # faster.
        if has_avx512():
            found["x86-simd-sort, AVX2"], found["x86-simd-sort, AVX2, values only"] = simd_sort(
                args.simd_sort, n, k, "-mno-avx512f")
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
    parser.add_argument("--x86-simd-sort", dest="simd_sort", metavar="DIRECTORY")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.simd_sort = simd_sort_folder(args.simd_sort)
    if not args.simd_sort:
        print("x86-simd-sort is not installed: name its sources by --x86-simd-sort", file=sys.stderr)
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
                    sys.exit(f"{name}: the answer differs from numpy's")
        for name in methods:
            ratio = statistics.median(t / r for t, r in zip(times[name], times["read"]))
            own = statistics.median(t / s for t, s in zip(times[name], times["sluice_select"]))
            rows.append({"density": density, "method": name, "ms": statistics.median(times[name]) * 1e3,
                         "x_read": ratio, "x_sluice": own})
    if args.json:
        print(json.dumps({"n": args.n, "rounds": args.rounds, "numpy": np.__version__, "rows": rows}))
        return
    print(f"n {args.n}, Gaussian, one thread, medians of {args.rounds} rounds, numpy {np.__version__}")
    for row in rows:
        print(f"{row['density']:>7.3%}  {row['method']:<33} {row['ms']:>10.1f} ms  {row['x_read']:>7.2f} x read"
              f"  {row['x_sluice']:>6.2f} x sluice")


if __name__ == "__main__":
    main()
