#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures recipes for AdamW with the small GPT of simulated_gpt.py, and compares the losses with criteria.

    python/bench/simulated_table.py RESULTS run TEXT [RUN...]    runs what RESULTS lacks
    python/bench/simulated_table.py RESULTS table                prints the table, and PASS or FAIL for each criterion
    python/bench/simulated_table.py RESULTS draw DIRECTORY       draws the losses against steps, bytes and seconds

RESULTS is a file with a line of JSON for each run, so a run that was stopped goes on where it was. A RUN is ROW, ROW/SEEDS
or ROW/SEEDS/STEPS, such as A/1-5 or dense/1,3/2000. Without any, all runs of the criteria are made: 71, each of which takes
a minute or two of an idle core. python/bench/simulated_table.jsonl holds the results that doc/performance.md shows.

A criterion compares the means of the seeds that both rows have. "table" ends with status 1 if one fails or has no runs.

The seconds of "draw" are computed and not measured. A step takes the processor time of its run, divided by the number of
ranks, plus the time of 3/4 of the bytes of a rank at --rate: a quarter of the parameters belongs to the rank's own shard.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

RANKS, POINTS = 4, 20
ALL, A = "up=all down=all update=none", "adamw"
POSITIONS = "up=topk({0}),{1} down=topk({0}),{1} memory=residual update=none dense=none coding=small"
DRIFT = ("up=topk(0.04),e3m0 down=topk(0.04),e3m0 signal=drift memory=residual keep={} when=every(1) update=sgd rate=1 "
         "dense=none coding=small")
LOCAL = ("up=topk(0.2),twomeans down=topk(0.2),twomeans signal=drift memory=residual keep={} when=every(10) dense=none "
         "coding=small")


def row(title, recipe, beta1, beta2, rate, *options):
    return title, recipe, ["--betas", str(beta1), str(beta2), "--lr", str(rate), *options]


ROWS = {
    "dense": row("dense", ALL, 0.7, 0.99, 4e-3),
    "A": row("6 % twomeans (`adamw`)", A, 0.2, 0.99, 4e-3),
    "dense.9": row("dense, usual betas", ALL, 0.9, 0.95, 3e-3),
    "1%.9": row("1 % f32, usual betas", POSITIONS.format(0.01, "f32"), 0.9, 0.95, 3e-3),
    "1%": row("1 % f32", POSITIONS.format(0.01, "f32"), 0.2, 0.99, 4e-3),
    "A.9": row("`adamw`, beta1 0.9", A, 0.9, 0.99, 4e-3),
    "uniform2": row("6 % uniform(2)", POSITIONS.format(0.06, "uniform(2)"), 0.2, 0.99, 4e-3),
    "uniform4": row("4 % uniform(4)", POSITIONS.format(0.04, "uniform(4)"), 0.2, 0.99, 4e-3),
    "keep0": row("drift in each step, 4 % e3m0, `keep=0`", DRIFT.format(0), 0.9, 0.95, 6e-3),
    "keep1": row("drift in each step, 4 % e3m0, `keep=1`", DRIFT.format(1), 0.9, 0.95, 6e-3),
    "shard": row("6 % twomeans, `shard-adamw`",
                 "shard-adamw up=topk(0.06),twomeans down=topk(0.06),twomeans dense=none coding=small", 0.2, 0.99, 4e-3),
    "e3m0.9": row("4 % e3m0, usual betas", POSITIONS.format(0.04, "e3m0"), 0.9, 0.95, 3e-3),
    "e3m0.5": row("4 % e3m0, beta1 0.5", POSITIONS.format(0.04, "e3m0"), 0.5, 0.95, 3e-3),
    "local4": row("`local4`", "local4", 0.7, 0.99, 6e-3),
    "diloco": row("`diloco when=every(10) rate=0.4`", "diloco when=every(10) rate=0.4", 0.7, 0.99, 4e-3),
    "keep0-10": row("10 local steps, 20 % twomeans, `keep=0`", LOCAL.format(0), 0.7, 0.99, 3e-3),
    "keep1-10": row("10 local steps, 20 % twomeans, `keep=1`", LOCAL.format(1), 0.7, 0.99, 3e-3),
    "muon": row("dense, Muon", ALL, 0.7, 0.99, 6e-3, "--inner", "muon"),
    "local4-muon": row("`local4`, Muon", "local4", 0.7, 0.99, 6e-3, "--inner", "muon"),
}
CRITERIA = [  # row, row that is subtracted, steps, wanted seeds, least and largest difference
    ("A", "dense", 1000, 5, None, 0.035),
    ("A", "dense", 2000, 5, None, 0.02),
    ("1%.9", "A", 1000, 3, 0.25, None),
    ("1%", "A", 1000, 3, 0.07, None),
    ("A.9", "A", 1000, 3, 0.10, None),
    ("e3m0.9", "e3m0.5", 1000, 3, 0.10, None),
    ("uniform2", "A", 1000, 3, 0.25, None),
    ("shard", "A", 1000, 3, None, 0.02),
    ("keep0", "keep1", 1000, 3, 0.15, None),
    ("local4-muon", "muon", 1000, 3, None, 0.10),
]
LEAST_FACTOR = 65  # of the bytes of a dense job to those of A, each way
DRAWN = ("dense", "dense.9", "A", "shard", "keep1", "A.9", "1%.9", "uniform2")
QUEUE = ["dense/1-5", "A/1-5", "dense/1/2000", "A/1/2000", *(f"{name}/1-3" for name in ROWS if name not in ("dense", "A")),
         "dense/2-5/2000", "A/2-5/2000"]


def numbers(text):
    """Returns the numbers of "1,3-5"."""
    ends = [part.partition("-") for part in text.split(",")]
    return [number for first, _, last in ends for number in range(int(first), int(last or first) + 1)]


def runs_of(texts):
    """Returns (row, seed, steps) for each run that the texts name."""
    found = []
    for text in texts:
        name, seeds, steps, *rest = text.split("/") + ["1-3", "1000"][text.count("/"):]
        if name not in ROWS or rest:
            sys.exit(f"{text}: must be ROW, ROW/SEEDS or ROW/SEEDS/STEPS, and the rows are {' '.join(ROWS)}")
        found += [(name, seed, int(steps)) for seed in numbers(seeds)]
    return found


def read(path):
    """Returns the results of the file, by row, seed and steps."""
    found = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                result = json.loads(line)
                found[result["row"], result["seed"], result["steps"]] = result
    return found


def run(args):
    bench = os.path.join(os.path.dirname(os.path.abspath(__file__)), "simulated_gpt.py")
    for name, seed, steps in runs_of(args.runs or QUEUE):
        if (name, seed, steps) in read(args.results):
            continue
        _, recipe, options = ROWS[name]
        command = [sys.executable, bench, args.text, recipe, *options, "--seed", str(seed), "--steps", str(steps)]
        done = subprocess.run([*command, "--points", str(POINTS)], stdout=subprocess.PIPE, check=True)
        result = {"row": name, **json.loads(done.stdout)}
        with open(args.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        print(name, seed, steps, result["loss"], flush=True)


def losses_of(found, name, steps):
    """Returns the losses of a row by seed."""
    return {seed: result["loss"] for (row, seed, length), result in sorted(found.items()) if (row, length) == (name, steps)}


def difference_of(mine, other):
    """Returns the mean difference of the seeds that both have, and how many these are."""
    both = [mine[seed] - other[seed] for seed in mine if seed in other]
    return statistics.mean(both) if both else None, len(both)


def spread(losses):
    """Returns the range of the losses as text, or nothing for one seed."""
    return f"{min(losses.values()):.4f} to {max(losses.values()):.4f}" if len(losses) > 1 else ""


def table(args):
    found, failed = read(args.results), False
    for steps in sorted({steps for _, _, steps in found}):
        print(f"\n{steps} steps:\n\n| row | recipe | betas, rate | seeds | loss, mean | range | minus dense | "
              "fewer bytes pushed, pulled |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
        for name, (title, _, options) in ROWS.items():
            losses = losses_of(found, name, steps)
            if not losses:
                continue
            over, _ = difference_of(losses, losses_of(found, "dense", steps))
            first = found[name, min(losses), steps]
            print(f"| {name} | {title} | {options[1]} {options[2]}, {options[4]} | {' '.join(map(str, losses))} "
                  f"| {statistics.mean(losses.values()):.4f} | {spread(losses)} "
                  f"| {'' if over is None else f'{over:+.4f}'} "
                  f"| {first['times_fewer_pushed']} x, {first['times_fewer_pulled']} x |")
    print("\n| criterion | steps | seeds | measured | |\n| --- | --- | --- | --- | --- |")
    for name, other, steps, wanted, least, most in CRITERIA:
        difference, seeds = difference_of(losses_of(found, name, steps), losses_of(found, other, steps))
        bound = f"at least {least}" if most is None else f"at most {most}"
        good = seeds > 0 and (difference >= least if most is None else difference <= most)
        failed |= not good
        print(f"| {name} - {other} {bound} | {steps} | {seeds} of {wanted} | {f'{difference:.4f}' if seeds else ''} "
              f"| {('PASS' if good else 'FAIL') + ' so far' * (seeds < wanted) if seeds else 'NOT RUN'} |")
    least = min((result[f"times_fewer_{way}"] for result in found.values() for way in ("pushed", "pulled")
                 if result["row"] == "A"), default=0)
    good = least >= LEAST_FACTOR
    print(f"| A at least {LEAST_FACTOR} x each way | all | all | {least} x | {'PASS' if good else 'FAIL'} |")
    return failed or not good


def draw(args):
    plot = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "plot", "sluice-plot")
    found = read(args.results)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name in DRAWN:
            result = found.get((name, 1, 1000))
            if result is None:
                continue
            files.append(f"{folder}/{name}={ROWS[name][0].replace('`', '')}")
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                for i, (loss, sent) in enumerate(zip(result["curve"], result["sent"])):
                    step = result["steps"] * (i + 1) // len(result["curve"])
                    seconds = step * result["cpu"] / RANKS + sent * (RANKS - 1) / RANKS * 8 / args.rate
                    file.write(json.dumps({"step": step, "seconds": seconds, "validation_loss": loss,
                                           "pushed_total": sent * RANKS, "pulled_total": 0}) + "\n")
        title = "GPT with 242561 parameters, 4 ranks, seed 1"
        for axis, text, options in (("steps", title, ["validation"]), ("bytes", title, ["validation-bytes", "--log-bytes"]),
                                    ("seconds", f"{title}, computed for {args.rate / 1e9:g} Gb/s", ["validation-seconds"])):
            picture = os.path.join(args.directory, f"simulated-{axis}.svg")
            subprocess.run([plot, "--output", picture, "--title", text, "--panel", *options, *files], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("run")
    command.add_argument("text")
    command.add_argument("runs", nargs="*", metavar="RUN")
    command.set_defaults(call=run)
    commands.add_parser("table").set_defaults(call=table)
    command = commands.add_parser("draw")
    command.add_argument("directory")
    command.add_argument("--rate", type=float, default=1e9, help="of a rank's link, bits per second")
    command.set_defaults(call=draw)
    args = parser.parse_args()
    sys.exit(args.call(args))


if __name__ == "__main__":
    main()
