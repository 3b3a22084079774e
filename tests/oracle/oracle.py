#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the library with methods.py, bit by bit.

    oracle.py simulate LIBRARY FILE    calls LIBRARY by ctypes: all ranks by sluice_simulate(), and a job of one
                                       rank by sluice_init(). Writes FILE, too.
    oracle.py installed LIBRARY        the same with 1 and 3 ranks, because make check has tested the others
    oracle.py write FILE               writes gradients and the expected parameters, for
                                       tests/oracle/processes, which runs real processes

Without numpy, it ends with status 77, which make check shows as skipped.
"""
import ctypes
import re
import struct
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: this python3 has no numpy; on Debian: apt-get install python3-numpy")
    sys.exit(77)

import methods

RANKS = 1, 2, 3, 7
SHAPES = (1, 1), (2, 1), (31, 1), (31, 3), (1009, 1), (1009, 3)  # parameters, shards
STEPS = 14
# the learning rate falls twice, to numbers that no float32 holds exactly
SLUICE_LR = 1  # from sluice.h
RATES = np.array([0.1] * 5 + [0.07] * 5 + [0.003] * 4, np.float32)


class Case:
    """One recipe in one job. expected[step][rank] are the parameters that the rank must hold. With signal=drift, the
    program itself steps along the gradient."""

    def __init__(self, recipe, make, ranks, count, shards):
        self.recipe = recipe.replace("WORKERS", str(ranks))
        self.ranks, self.count, self.shards = ranks, count, shards
        random = np.random.default_rng(1000 * ranks + count)
        self.start = random.standard_normal(count).astype(np.float32)
        g = random.standard_normal((STEPS, ranks, count)) ** 3
        if "lazy" in recipe:  # the gradients converge, so that some uploads are left out
            g = g[0] + g * 0.7 ** np.arange(STEPS)[:, None, None] * (2 + np.arange(ranks)[:, None])
        g[2::4] = np.round(g[2::4] * 2) / 2  # ties, and zeros of both signs
        self.gradients = g.astype(np.float32)
        self.job = make(self.start, ranks, shards)
        self.drifts = "signal=drift" in recipe
        self.tensors = methods.tensors_of(count) if methods.transforms(recipe) else []
        self.expected = np.empty((STEPS, ranks, count), np.float32)
        for t in range(STEPS):
            self.job.step(list(self.gradients[t]), RATES[t])
            self.expected[t] = [self.job.held(i) for i in range(ranks)]

    def name(self):
        return f"{self.recipe}, {self.ranks} ranks, {self.count} parameters, {self.shards} shards"


def cases(ranks):
    for recipe, make in methods.recipes():
        if ranks == 1 and "clip=median" in recipe:  # refused
            continue
        fragments = re.search(r"fragments\((\d+)\)", recipe)
        for count, shards in SHAPES:
            shards *= int(fragments[1]) if fragments else 1
            if count == 31 and methods.transforms(recipe):  # there are fewer blocks
                shards = min(shards, 2)
            if count >= shards:
                yield Case(recipe, make, ranks, count, shards)


# ---- by ctypes ----------------------------------------------------------------------------------

class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("count", ctypes.c_uint64)]


class ModelAttr(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("count", ctypes.c_uint64), ("tensors", ctypes.c_void_p),
                ("n_tensors", ctypes.c_size_t), ("recipe", ctypes.c_char_p),
                ("shards", ctypes.c_uint32), ("lr", ctypes.c_float),
                ("steps_per_epoch", ctypes.c_uint64), ("memory_bytes", ctypes.c_uint64),
                ("stream", ctypes.c_void_p), ("grad_type", ctypes.c_int), ("uneven", ctypes.c_int),
                ("param_type", ctypes.c_int), ("segments", ctypes.c_void_p), ("n_segments", ctypes.c_size_t),
                ("rules", ctypes.c_void_p), ("device_shards", ctypes.c_int), ("columns", ctypes.c_void_p)]


RANK_MAIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.sluice_last_error.restype = ctypes.c_char_p
        self.c.sluice_version.restype = ctypes.c_char_p
        self.c.sluice_version.argtypes = [ctypes.c_char_p]
        self.c.sluice_set.argtypes = ctypes.c_void_p, ctypes.c_int, ctypes.c_double
        for name in "push", "pull":
            getattr(self.c, f"sluice_{name}").argtypes = ctypes.c_void_p, ctypes.c_void_p
        self.c.sluice_rank.argtypes = [ctypes.c_void_p]

    def ok(self, rc):
        if rc:
            raise RuntimeError(self.c.sluice_last_error().decode())

    def train(self, job, case):
        """Trains a case on this rank. Returns the parameters after each step."""
        params = case.start.copy() if self.c.sluice_rank(job) == 0 else np.zeros_like(case.start)
        attr = ModelAttr(size=ctypes.sizeof(ModelAttr), count=case.count,
                         recipe=case.recipe.encode(), shards=case.shards, lr=float(RATES[0]))
        n = len(case.tensors)
        columns = (ctypes.c_uint64 * n)(*(columns for _, columns in case.tensors))
        tensors = (Tensor * n)(*((b"t%d" % i, count) for i, (count, _) in enumerate(case.tensors)))
        if n:
            attr.n_tensors = n
            attr.tensors, attr.columns = ctypes.addressof(tensors), ctypes.addressof(columns)
        model = ctypes.c_void_p()
        got = np.empty_like(case.expected[:, 0])
        rank = self.c.sluice_rank(job)
        self.ok(self.c.sluice_model_open(ctypes.c_void_p(job), ctypes.byref(attr),
                                         ctypes.c_void_p(params.ctypes.data), ctypes.byref(model)))
        for t in range(STEPS):
            grad = np.ascontiguousarray(case.gradients[t, rank])
            if case.drifts:
                params -= RATES[t] * grad
            else:
                self.ok(self.c.sluice_set(model, SLUICE_LR, float(RATES[t])))
            pushed = params if case.drifts else grad
            self.ok(self.c.sluice_push(model, pushed.ctypes.data))
            self.ok(self.c.sluice_pull(model, params.ctypes.data))
            got[t] = params
        self.c.sluice_model_close(ctypes.byref(model))
        return got

    def simulate(self, ranks, all_cases):
        """Trains all cases on simulated ranks. Returns the results as got[rank][case]."""
        got = [[None] * len(all_cases) for _ in range(ranks)]

        def rank_main(job, _):
            rank = self.c.sluice_rank(job)
            try:
                for i, case in enumerate(all_cases):
                    got[rank][i] = self.train(job, case)
            except Exception as error:  # an exception cannot pass through the C code that calls this
                print(f"rank {rank}: {error}", file=sys.stderr)
                return -1
            return 0

        self.ok(self.c.sluice_simulate(None, ranks, RANK_MAIN(rank_main), None))
        return got

    def alone(self, all_cases):
        job = ctypes.c_void_p()
        self.ok(self.c.sluice_init(None, ctypes.byref(job)))
        got = [[self.train(job.value, case) for case in all_cases]]
        self.c.sluice_finalize(ctypes.byref(job))
        return got


def differences(case, got, rank, who):
    """Prints the first difference. Returns 1 if there is one."""
    expected = np.ascontiguousarray(case.expected[:, rank])
    wrong = got.view(np.uint32) != expected.view(np.uint32)
    if wrong.any():
        t, i = np.argwhere(wrong)[0]
        print(f"{who}: {case.name()}: after step {t} parameter {i} is {got[t, i]!r}, "
              f"methods.py says {expected[t, i]!r}; {wrong.sum()} of {wrong.size} differ")
    return int(wrong.any())


def compare(who, all_cases, got):
    return sum(differences(case, mine[i], rank, f"{who}, rank {rank}") for rank, mine in enumerate(got)
               for i, case in enumerate(all_cases))


def check_lazy(all_cases):
    """Returns 1 unless some uploads were sent and some left out, because then one case was not compared."""
    jobs = [c.job for c in all_cases if isinstance(c.job, methods.Lazy)]
    return int(not (any(j.skipped for j in jobs) and any(j.sent > j.workers for j in jobs)))


def simulate(path, computed):
    """computed[ranks] are the cases with this number of ranks."""
    library = Library(path)
    wrong = total = 0
    for ranks, all_cases in computed.items():
        total += len(all_cases)
        wrong += check_lazy(all_cases)
        wrong += compare("simulated", all_cases, library.simulate(ranks, all_cases))
        if ranks == 1:
            wrong += compare("alone", all_cases, library.alone(all_cases))
    print(f"{library.c.sluice_version(None).decode()}: {total} jobs of {STEPS} steps, "
          f"{wrong} differences")
    return wrong != 0


# ---- for tests/oracle/processes --------------------------------------------------------------------------

def write(path, computed):
    """Writes the cases to a file. Numbers are little-endian. The file begins with u32 cases, steps and f32 rate[steps].
    Each case has u32 ranks, count, shards, the length of the recipe with its final zeros (a multiple of 4), and the
    number of tensors. Then come the recipe, u32 count and columns of each tensor, and f32 start[count], gradient[step][rank][count] and expected[step][rank][count]."""
    with open(path, "wb") as out:
        everything = [case for all_cases in computed.values() for case in all_cases]
        out.write(struct.pack("<II", len(everything), STEPS) + RATES.tobytes())
        for case in everything:
            text = case.recipe.encode()
            text += b"\0" * (4 - len(text) % 4)
            out.write(struct.pack("<IIIII", case.ranks, case.count, case.shards, len(text), len(case.tensors)) + text)
            for tensor in case.tensors:
                out.write(struct.pack("<II", *tensor))
            for part in case.start, case.gradients, case.expected:
                out.write(part.astype("<f4").tobytes())


def main(command, *paths):
    computed = {ranks: list(cases(ranks)) for ranks in ((1, 3) if command == "installed" else RANKS)}
    if command != "installed":
        write(paths[-1], computed)
    return command != "write" and simulate(paths[0], computed)


if __name__ == "__main__":
    if len(sys.argv) - 2 != {"simulate": 2, "installed": 1, "write": 1}.get(sys.argv[1] if sys.argv[1:] else None):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
