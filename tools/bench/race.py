#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares a step of Sluice with the dense allreduces of other systems, over links of limited rate.

    tools/bench/race.py --rates 1gbit --ranks 4 --count 10000000        takes a few minutes
    tools/bench/race.py                                                 runs missing cells for 8 minutes
    tools/bench/race.py --draw race/race.jsonl                          makes tables and pictures of earlier runs

Rows are added to race.jsonl, and a row that is there is not run again. To continue, call race.py once more. --fresh
starts over. A cell is all systems with one rate, number of ranks and number of parameters. It is run as a whole.

Hosts are network namespaces of this machine (tools/devcluster), so root is needed. Each host has one rank, and the
hosts share the processors. In each round, every system runs once, one after another. The figures are medians of the
rounds' medians, and ratios are medians of the ratios within a round. Systems:

    openmpi   MPI_Allreduce over TCP            needs openmpi-bin, libopenmpi-dev and gcc
    gloo      torch.distributed's all_reduce    needs PyTorch in --python (Debian: python3-torch)
    nccl      the same on GPUs, over sockets    needs PyTorch with CUDA, and a GPU for each rank
    dense, 1%, 1%-4bit, 0.1%                    steps of Sluice, sparse both ways
    0.1%-acc                                    of a gradient that was added to the residual where it was computed

A system that is missing is skipped, and the reason is printed. If the reason may disappear, such as too little free
memory or a program that failed, it is not kept in race.jsonl. The next call runs that cell again, after the cells that
were never run. Bytes are those that the interface of the busiest host has sent for a step, without the start of the
run. Counted bytes are those of Sluice's statistics.
"""
import argparse
import glob
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from allreduce import PROGRAM
from network import BITS, CARD, Network, Resident, Unavailable, run

RECIPES = {"dense": "up=all down=all",
           "1%": "up=topk(0.01) down=topk(0.01)",
           "1%-4bit": "up=topk(0.01),uniform(4) down=topk(0.01),uniform(4)",
           "0.1%": "up=topk(0.001) down=topk(0.001)",
           "0.1%-acc": "up=topk(0.001) down=topk(0.001)"}
# The share of a dense step's bytes, roughly. The number of steps in a round depends on it.
SHARES = {"1%": 0.015, "1%-4bit": 0.005, "0.1%": 0.0015, "0.1%-acc": 0.0015}
OTHERS = ["openmpi", "gloo", "nccl"]
SYSTEMS = OTHERS + list(RECIPES)
# In a picture: what the systems are, and colours with a contrast of 3 or more with white.
MEANINGS = {"openmpi": "allreduce of Open MPI", "gloo": "allreduce of Gloo", "nccl": "allreduce of NCCL",
            "dense": "Sluice, all coordinates", "1%": "Sluice, 1 % of the coordinates",
            "1%-4bit": "Sluice, 1 %, values in 4 bits", "0.1%": "Sluice, 0.1 % of the coordinates",
            "0.1%-acc": "Sluice, 0.1 %, gradients accumulated"}
COLOURS = ["505050", "7a5c00", "5040c0", "0060b0", "c04000", "a0307f", "007850", "c00020"]
# The largest number of bytes of memory per rank and parameter.
MEMORY = {"dense": 48}
MEMORY_OF_OTHERS = 16
WARMUP = 2
MOST_STEPS = 15
MANY_BYTES, MOST_BYTE_STEPS = 40_000_000, 400

TORCH = r"""
import os, statistics, sys, time
import torch
import torch.distributed as dist
backend = sys.argv[1]
rank, size = int(os.environ["RANK"]), int(sys.argv[2])
sizes = [int(n) for n in sys.argv[3].split(",")]
torch.set_num_threads(1)
if backend == "nccl":
    torch.cuda.set_device(rank)
dist.init_process_group(backend, init_method="tcp://n1:29500", rank=rank, world_size=size)
groups = {n: dist.new_group(list(range(n))) for n in sizes}
wait = torch.cuda.synchronize if backend == "nccl" else lambda: None
for line in sys.stdin:
    ranks, count, times, warmup = map(int, line.split())
    if rank >= ranks:
        continue
    grad = torch.ones(count, device="cuda" if backend == "nccl" else "cpu")
    took = []
    for i in range(warmup + times):
        dist.barrier(group=groups[ranks])
        wait()
        began = time.perf_counter()
        dist.all_reduce(grad, group=groups[ranks])
        wait()
        took.append((time.perf_counter() - began) * 1e3)
    if rank == 0:
        print(statistics.median(took[warmup:]), flush=True)
"""


class Race:
    def __init__(self, args, network, folder):
        self.args, self.network, self.folder = args, network, folder
        # The programs that stay on the hosts; the systems that failed in this call, and why; what the machine lacks
        # for a system.
        self.resident, self.broken, self.absent = {}, {}, {}
        self.program = None

    # ---- one run of each system: returns the median in ms, and Sluice's counts --------------

    def openmpi(self, ranks, count, steps, warmup):
        if not self.program:
            source, program = (os.path.join(self.folder, name) for name in ("allreduce.c", "allreduce"))
            with open(source, "w") as f:
                f.write(PROGRAM)
            run(["mpicc.openmpi", "-O2", source, "-o", program])
            self.program = program
        tcp = "--mca pml ob1 --mca btl tcp,self --mca mpi_yield_when_idle 1".split()
        out = self.network.mpirun(ranks, [self.program, str(count), str(steps), str(warmup)],
                                  tcp + ["--mca", "btl_tcp_if_include", CARD])
        return float(out), None

    def torch(self, backend, ranks, count, steps, warmup):
        if backend not in self.resident:
            most = max(self.args.ranks)
            program = os.path.join(self.folder, "torch_allreduce.py")
            with open(program, "w") as f:
                f.write(TORCH)
            variables = {"GLOO_SOCKET_IFNAME": CARD, "NCCL_SOCKET_IFNAME": CARD, "NCCL_P2P_DISABLE": "1",
                         "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"}
            self.resident[backend] = Resident(
                self.network, most, [self.args.python, program, backend, str(most),
                                     ",".join(map(str, self.args.ranks))], variables)
        return float(self.resident[backend].ask(f"{ranks} {count} {steps} {warmup}")), None

    def sluice(self, name, ranks, count, steps, warmup):
        out = self.network.mpirun(ranks, [self.args.bench, "step", "--count", str(count), "--steps", str(steps),
                                          "--warmup", str(warmup), "--recipe", RECIPES[name], "--json"] +
                                  (["--accumulate"] if name == "0.1%-acc" else []))
        return json.loads(out)["ms_p50"], json.loads(out)

    def once(self, system, ranks, count, steps, warmup):
        if system == "openmpi":
            return self.openmpi(ranks, count, steps, warmup)
        if system in OTHERS:
            return self.torch(system, ranks, count, steps, warmup)
        return self.sluice(system, ranks, count, steps, warmup)

    # ---- a cell: all systems at one rate, one number of ranks and one number of parameters -----

    def seconds_of_step(self, system, rate, ranks, count):
        """Estimates the time of a step: its bytes on the wire, and passes over the vectors."""
        bytes_each = 8 * count * (ranks - 1) / ranks * SHARES.get(system, 1)
        return bytes_each * 8 / (BITS[rate] or 2e10) + count * ranks * 5e-9

    def missing(self, system):
        """Returns what the system needs and this machine does not have."""
        if system not in ("gloo", "nccl") and not shutil.which("mpirun.openmpi"):
            return "no mpirun.openmpi here (Debian's package openmpi-bin)"
        if system == "openmpi" and not shutil.which("mpicc.openmpi"):
            return "no mpicc.openmpi here (Debian's package libopenmpi-dev)"
        if system in ("gloo", "nccl"):
            try:
                run([self.args.python, "-c", "import torch.distributed"])
            except Unavailable:
                return f"{self.args.python} has no PyTorch (Debian's package python3-torch, or --python)"
        gpus = len(glob.glob("/dev/nvidia[0-9]*"))
        if system == "nccl" and gpus < max(self.args.ranks):
            return f"{gpus} GPUs here for {max(self.args.ranks)} ranks, and NCCL needs one for each"
        return None

    def bytes_needed(self, system, ranks, count):
        return MEMORY.get(system, MEMORY_OF_OTHERS) * count * ranks

    def lasting(self, system, rate, ranks, count):
        """Returns why this machine can never run the system with these options, or None."""
        if system not in self.absent:
            self.absent[system] = self.missing(system)
        if self.absent[system]:
            return self.absent[system]
        needed, memory = self.bytes_needed(system, ranks, count), bytes_of_memory("MemTotal")
        if needed > memory:
            return f"needs {needed / 1e9:.0f} GB of memory, and this machine has {memory / 1e9:.0f}"
        step = self.seconds_of_step(system, rate, ranks, count)
        if step > self.args.longest:
            return f"a step takes {step:.0f} s on this wire (--longest)"
        return None

    def refusal(self, system, rate, ranks, count):
        why = self.lasting(system, rate, ranks, count) or self.broken.get(system)
        needed, free = self.bytes_needed(system, ranks, count), bytes_of_memory("MemAvailable")
        if not why and needed > free:
            why = f"needs {needed / 1e9:.0f} GB of memory, and {free / 1e9:.0f} are free now"
        return why

    def bytes_per_step(self, system, ranks, count, steps):
        """Returns the busiest interface's bytes per step: the difference of a long and a short run, per step."""
        sent = []
        for n, warmup in ((steps, WARMUP), (1, 0)):
            before = self.network.sent(ranks)
            _, result = self.once(system, ranks, count, n, warmup)
            sent.append([b - a for a, b in zip(before, self.network.sent(ranks))])
            if n == steps:
                counted = result
        wire = max(a - b for a, b in zip(*sent)) / (steps + WARMUP - 1)
        if not counted:
            return wire, None
        # Each rank also sends the parts that others get from it. If all shards have the same size, it sends as much
        # as it gets.
        ofi = next(t for t in counted["transports"] if t["name"] == "ofi")
        return wire, (ofi["put_bytes"] + ofi["get_bytes"]) / steps

    def steps(self, system, rate, ranks, count):
        return max(1, min(MOST_STEPS, int(self.args.seconds / self.seconds_of_step(system, rate, ranks, count))))

    def byte_steps(self, system, rate, ranks, count):
        """Returns a number of steps whose bytes are far more than those of occasional messages."""
        more = min(MOST_BYTE_STEPS, int(MANY_BYTES / (8 * count * SHARES.get(system, 1))))
        return max(2, self.steps(system, rate, ranks, count), more)

    def seconds_of_cell(self, rate, ranks, count, with_bytes):
        """Estimates the time of a cell, including the start of each run."""
        total = 0
        for system in self.args.systems:
            if self.refusal(system, rate, ranks, count):
                continue
            step, begin = self.seconds_of_step(system, rate, ranks, count), 2 + count * ranks * 2e-8
            total += self.args.rounds * (begin + step * (self.steps(system, rate, ranks, count) + WARMUP))
            if with_bytes:
                total += 2 * begin + step * (self.byte_steps(system, rate, ranks, count) + WARMUP + 1)
        return total

    def cell(self, rate, ranks, count, with_bytes):
        rows = {s: {"rate": rate, "ranks": ranks, "count": count, "system": s, "ms": None, "rounds": []}
                for s in self.args.systems}
        for _ in range(self.args.rounds):
            for system, row in rows.items():
                if "why" in row:
                    continue
                row["why"] = self.refusal(system, rate, ranks, count)
                if row["why"]:
                    continue
                del row["why"]
                try:
                    row["rounds"].append(self.once(system, ranks, count, self.steps(system, rate, ranks, count),
                                                   WARMUP)[0])
                    if with_bytes and "bytes" not in row:
                        row["bytes"], row["counted"] = self.bytes_per_step(
                            system, ranks, count, self.byte_steps(system, rate, ranks, count))
                except Unavailable as error:
                    row["why"] = str(error)
                    if system in OTHERS:  # it would fail in the next cell too
                        self.broken[system] = row["why"]
        for row in rows.values():
            if row["rounds"] and "why" not in row:
                row["ms"] = statistics.median(row["rounds"])
        rivals = [rows[s]["rounds"] for s in OTHERS if s in rows and rows[s]["ms"]]
        for system in RECIPES:
            if rivals and system in rows and rows[system]["ms"]:
                best = map(min, zip(*rivals))
                rows[system]["ratio"] = statistics.median(b / own for b, own in zip(best, rows[system]["rounds"]))
        return list(rows.values())

    def settled(self, rows, cell):
        """Returns whether nothing is left to run: each system has its figure, or cannot have one."""
        return all(rows.get((*cell, system), {}).get("ms") is not None or self.lasting(system, *cell)
                   for system in self.args.systems)

    def run(self, rows, out):
        """Runs the cells that are not in rows, and adds them to rows and out. Returns the number of cells left."""
        began, ran, left = time.monotonic(), 0, 0
        cells = [(rate, ranks, count) for count in self.args.count for ranks in self.args.ranks
                 for rate in sorted(self.args.rates, key=lambda r: -(BITS[r] or 1e12))]
        # Cells that failed before may fail again, so they run after all others.
        tried = {key[:3] for key in rows}
        for rate, ranks, count in sorted(cells, key=lambda cell: cell in tried):
            if self.settled(rows, (rate, ranks, count)):
                continue
            with_bytes = not any(row.get("bytes") for key, row in rows.items() if key[1:3] == (ranks, count))
            spent = time.monotonic() - began
            about = self.seconds_of_cell(rate, ranks, count, with_bytes)
            # A cell that is too long for any call is run if no other has been run before it in this call.
            if ran and spent + about > 60 * self.args.minutes:
                left += 1
                continue
            ran += 1
            self.network.limit(rate)
            for row in self.cell(rate, ranks, count, with_bytes):
                if row["ms"] is not None or self.lasting(row["system"], rate, ranks, count):
                    rows[key_of(row)] = row
                    out.write(json.dumps(row) + "\n")
                if "why" in row:
                    print(f"race: {rate}, {ranks} ranks, {count} parameters: no {row['system']}: {row['why']}",
                          file=sys.stderr)
            out.flush()
        return left

    def end(self):
        for resident in self.resident.values():
            resident.end()


# ---- table and picture ---------------------------------------------------------------------

def bytes_of_memory(field):
    """Returns a field of /proc/meminfo, in bytes."""
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(field + ":"))


def key_of(row):
    return row["rate"], row["ranks"], row["count"], row["system"]


def load(path):
    """Reads the rows of earlier calls. Of several rows for one figure, the last one counts."""
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return {key_of(row): row for row in map(json.loads, f)}


def cells_of(rows):
    found = {}
    for row in rows:
        found.setdefault((row["count"], row["rate"]), {})[row["system"]] = row
    return sorted(found.items(), key=lambda cell: (cell[0][0], BITS[cell[0][1]] or 1e12))


def text_of(row):
    if not row or row["ms"] is None:
        return "-"
    ratio = f" ({row['ratio']:.3g}x)" if "ratio" in row else ""
    return f"{row['ms']:.4g}{ratio}"


def table(rows):
    print("Medians in ms of an allreduce or a step; in brackets the time of the best allreduce relative to it.")
    for ranks in sorted({r["ranks"] for r in rows}):
        here = [r for r in rows if r["ranks"] == ranks]
        systems = [s for s in SYSTEMS if any(r["system"] == s and r["ms"] for r in here)]
        print(f"\n{ranks} ranks\n\n| parameters | link | {' | '.join(systems)} |")
        print("| --- | --- |" + " --- |" * len(systems))
        for (count, rate), cell in cells_of(here):
            link = "no limit" if rate == "unlimited" else rate
            print(f"| {count:.0e} | {link} | {' | '.join(text_of(cell.get(s)) for s in systems)} |")
    told = [r for r in rows if r.get("bytes")]
    if told:
        print("\nBytes that the busiest interface sent per step, and their ratio to the bytes that Sluice counted.")
        for r in told:
            share = f", {r['bytes'] / r['counted']:.3f} of {r['counted']:.0f}" if r.get("counted") else ""
            print(f"{r['count']:.0e} parameters, {r['ranks']} ranks, {r['system']:<8}{r['bytes']:14.0f}{share}")


def draw(rows, ranks, count, path):
    """Plots time against link rate, one line per system. A link without a limit is to the right of the others."""
    beyond = 1e11
    blocks, titles = [], []
    for system in SYSTEMS:
        points = sorted((BITS[r["rate"]] or beyond, r["ms"]) for r in rows
                        if (r["ranks"], r["count"], r["system"]) == (ranks, count, system) and r["ms"])
        if points:
            titles.append(system)
            blocks.append("\n".join(f"{x:g} {y:g}" for x, y in points))
    if not blocks:
        raise Unavailable(f"nothing was measured with {ranks} ranks and {count} parameters")
    plots = ", ".join(f"$d index {i} with linespoints linewidth 2 linecolor rgb '#{COLOURS[SYSTEMS.index(title)]}' "
                      f"pointtype {SYSTEMS.index(title) + 4} title '{MEANINGS[title]}'" for i, title in enumerate(titles))
    script = f"""set terminal svg size 840,540 font 'sans,13' background 'white'
set output '{path}'
set logscale xy
set grid linecolor rgb '#dddddd'
set key below samplen 2
set xlabel "rate of each link (logarithmic)\\n " offset 0,0.5
set ylabel 'ms (logarithmic), lower is better'
set title 'Time of a training step, or of an allreduce, of {count:,} parameters on {ranks} ranks'
set xrange [7e7:1.5e11]
set xtics ('100 Mb/s' 1e8, '1 Gb/s' 1e9, '10 Gb/s' 1e10, 'no limit' {beyond:g})
$d << E
""" + "\n\n\n".join(blocks) + f"\nE\nplot {plots}\n"
    try:
        subprocess.run(["gnuplot"], input=script.encode(), check=True)
    except OSError:
        raise Unavailable("no gnuplot here, so no picture is drawn")


def draw_all(rows, folder):
    for ranks, count in sorted({(r["ranks"], r["count"]) for r in rows if r["ms"]}):
        path = os.path.join(folder, f"race-{ranks}-{count}.svg")
        try:
            draw(rows, ranks, count, path)
        except Unavailable as error:
            print(f"race: {error}", file=sys.stderr)


# ---- options -------------------------------------------------------------------------------

def list_of(known, convert=str):
    def parse(text):
        items = [convert(word) for word in text.split(",")]
        for item in items:
            if known and item not in known:
                raise argparse.ArgumentTypeError(f"{item} is not one of {', '.join(map(str, known))}")
        return items
    return parse


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=list_of(BITS), default=list(BITS), help="of " + ",".join(BITS))
    parser.add_argument("--ranks", type=list_of(None, int), default=[2, 4, 8])
    parser.add_argument("--count", type=list_of(None, int), default=[10**7, 10**6, 10**8], help="parameters")
    parser.add_argument("--systems", type=list_of(SYSTEMS), default=SYSTEMS, help="of " + ",".join(SYSTEMS).replace("%", "%%"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1, help="approximate time for the steps of a run")
    parser.add_argument("--longest", type=float, default=8, help="longest step in seconds; longer ones are left out")
    parser.add_argument("--minutes", type=float, default=8, help="no cell begins that would end later than this")
    parser.add_argument("--fresh", action="store_true", help="forget what is in race.jsonl")
    parser.add_argument("--bench", default="build/sluice-bench")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python that has PyTorch (default: Debian's)")
    parser.add_argument("--output", default="race", help="folder of race.jsonl and the pictures")
    parser.add_argument("--draw", metavar="FILE", help="run nothing, only draw the rows of this race.jsonl")
    return parser.parse_args()


def main():
    args = options()
    path = args.draw or os.path.join(args.output, "race.jsonl")
    rows, left = {} if args.fresh else load(path), 0
    if not args.draw:
        args.bench = os.path.abspath(args.bench)
        if not os.access(args.bench, os.X_OK):
            sys.exit(f"race: no program {args.bench}: build first, or name it by --bench")
        os.makedirs(args.output, exist_ok=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("race: ended by a signal"))  # cleans up the hosts
        with tempfile.TemporaryDirectory() as folder, open(path, "w" if args.fresh else "a") as out:
            try:
                with Network(max(args.ranks), folder) as network:
                    race = Race(args, network, folder)
                    try:
                        left = race.run(rows, out)
                    finally:
                        race.end()
            except Unavailable as error:
                sys.exit(f"race: {error}")
    table(list(rows.values()))
    draw_all(list(rows.values()), os.path.dirname(path) or ".")
    if left:
        print(f"race: {left} cells are left after {args.minutes:g} minutes (--minutes): call race.py again to continue",
              file=sys.stderr)


if __name__ == "__main__":
    main()
