#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints the results of gpt_race.py as tables in Markdown, and combines curves and step times:

    python3 python/bench/gpt_table.py [--curves DIR] RESULTS...

The time to a loss is computed: the steps of a way's curve until its validation loss is that at the end of the dense
training, times the measured time of its step on that network. The curves did not run on these networks, which change no
loss. With --curves, the curves of seed 1 are written with these seconds, one in each file, for sluice-plot.
"""
import argparse
import json
import os
import re
import statistics

DENSE, POWER, FREEZE, WARM = "dense", "PowerSGD", ", freeze", 50  # WARM: dense steps of the way with FREEZE
ALONE = "no exchange"


def rows_of(files):
    rows = []
    for path in files:
        with open(path, encoding="ascii") as file:
            rows += [json.loads(line) for line in file]
    return rows


def curves_of(rows):
    """Returns way: (rate, other rates, seed: step: row). Of several rates of a way, it is the one with the lower loss
    on rows that are not reported, at the last step for which each of them has that loss."""
    found, best = {}, {}
    for row in rows:
        found.setdefault(row["way"], {}).setdefault(row["lr"], {}).setdefault(row["seed"], {})[row["step"]] = row
    for name, rates in found.items():
        judged = {lr: {step: row["other_rows"] for step, row in seeds.get(1, {}).items() if "other_rows" in row}
                  for lr, seeds in rates.items()}
        shared = set.intersection(*(set(of) for of in judged.values()))
        lr = min(rates, key=lambda lr: judged[lr][max(shared)] if shared else 0)
        best[name] = lr, sorted(set(rates) - {lr}), rates[lr]
    return best


def losses(curves, steps):
    """Returns way: seed: the validation loss at this step."""
    return {name: {seed: of[steps]["validation_loss"] for seed, of in seeds.items() if steps in of}
            for name, (_, _, seeds) in curves.items()}


def better_dense(found):
    names = [name for name in found if name.startswith(DENSE) and 1 in found[name]]
    return min(names, key=lambda name: found[name][1], default=None)


def reached(curve, loss):
    """Returns the first validated step whose loss is not above this one, or None."""
    return next((step for step in sorted(curve) if curve[step]["validation_loss"] <= loss), None)


def table(head, lines):
    print("| " + " | ".join(head) + " |\n" + "| --- " * len(head) + "|")
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def loss_table(curves, steps):
    found, lines = losses(curves, steps), []
    best = better_dense(found)
    for name, (lr, others, seeds) in curves.items():
        if not found[name]:
            continue
        seed = min(found[name])
        row, dense = seeds[seed][steps], curves[best][2][seed][steps] if best else None
        keys = "pushed_total", "pulled_total"
        common = [s for s in found[name] if best and s in found[best]]
        behind = statistics.mean(found[name][s] - found[best][s] for s in common) if common else None
        lines.append([name, f"{lr:g}" + "".join(f" (not {other:g})" for other in others),
                      ", ".join(f"{found[name][s]:.4f}" for s in sorted(found[name])),
                      "" if behind is None else f"{behind:+.4f}", " / ".join(f"{row[key] / 1e6:.1f}" for key in keys),
                      " / ".join(f"{dense[key] / max(1, row[key]):.1f}" for key in keys) if dense else ""])
    chosen = any(others for _, others, _ in curves.values())
    print(f"Loss after {steps} steps.{' The rates were chosen on rows other than those of this table.' * chosen}\n")
    table(["way", "rate", "validation loss of each seed", f"above '{best}', mean", "MB up / down, all ranks",
           "times fewer"], lines)


def step_table(times, links, names):
    lines = []
    for name in names:
        cells = [times.get((name, link)) for link in links]
        lines.append([name] + [f"{1000 * cell['seconds']:.0f}" if cell else "" for cell in cells] +
                     [f"{cell['wire_bytes'] / 1e6:.3f}" if cell else "" for cell in cells[:1]])
    print("Milliseconds of a step, and MB that all interfaces together sent in one.\n")
    table(["way"] + links + ["MB a step"], lines)


def seconds_of(times, link, name, steps):
    """Returns the time of `steps` steps, or None if it was not measured."""
    def of(name):
        row = times.get((re.sub(", betas.*", "", name), link))
        return row and row["seconds"]
    if name.endswith(FREEZE):
        dense, sparse = of(name), of(name[:-len(FREEZE)])
        return min(steps, WARM) * dense + max(0, steps - WARM) * sparse if dense and sparse else None
    return steps * of(name) if of(name) else None


def time_table(curves, times, links, steps, seed, target):
    """Prints the time of each way to the loss at the end of the curve that target names."""
    loss, lines, took = curves[target][2][seed][steps]["validation_loss"], [], {}
    for name, (_, _, seeds) in curves.items():
        if seed in seeds:
            count = reached(seeds[seed], loss)
            lines.append([name, str(count) if count else f"not in {max(seeds[seed])}"])
            took.update({(name, link): count and seconds_of(times, link, name, count) for link in links})

    def fastest(link, kind):
        return min((seconds for (name, other), seconds in took.items()
                    if seconds and other == link and name.startswith(kind)), default=None)

    for line in lines:
        for link in links:
            mine = took[line[0], link]
            line += [f"{mine:.0f}" if mine else ""] + [
                f"{fastest(link, kind) / mine:.2f}" if mine and fastest(link, kind) else "" for kind in (DENSE, POWER)]
    print(f"Seed {seed}: time to {loss:.4f}, the loss of '{target}' after {steps} steps. Computed: the first validated "
          "step with this loss, times the measured time of a step. The factors compare with the faster dense training "
          "and with PowerSGD.\n")
    table(["way", "steps"] + [cell for link in links for cell in (f"s, {link}", "than dense", "than PowerSGD")], lines)


def write_curves(folder, curves, times, links):
    os.makedirs(folder, exist_ok=True)
    for name, (_, _, seeds) in curves.items():
        for link in links or ["steps"]:
            path = os.path.join(folder, f"{re.sub('[^a-z0-9]+', '-', name.lower())}.{link}.jsonl")
            with open(path, "w", encoding="ascii") as file:
                for step, row in sorted(seeds.get(1, {}).items()):
                    print(json.dumps({**row, "seconds": seconds_of(times, link, name, step)}), file=file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+")
    parser.add_argument("--parameters", type=int, help="of the model, if the results have several")
    parser.add_argument("--curves", metavar="DIR", help="write the curves of seed 1 with seconds into this directory")
    args = parser.parse_args()
    rows = rows_of(args.results)
    for count in sorted({row["parameters"] for row in rows}):
        if args.parameters not in (None, count):
            continue
        mine = [row for row in rows if row["parameters"] == count]
        curves = curves_of([row for row in mine if "step" in row])
        times = {(row["way"], row["link"]): row for row in mine if "link" in row}
        steps = min((max(seeds[1]) for name, (_, _, seeds) in curves.items() if name.startswith(DENSE)), default=0)
        links = list(dict.fromkeys(link for _, link in times))
        print(f"## {count} parameters, {mine[0]['ranks']} ranks with {mine[0]['batch']} rows of {mine[0]['length']}\n")
        if curves:
            loss_table(curves, steps)
        if times:
            step_table(times, links, list(dict.fromkeys(name for name, _ in times)))
        for seed in sorted({seed for _, _, seeds in curves.values() for seed in seeds} if times else ()):
            for target, (_, _, seeds) in curves.items():
                if target.startswith((DENSE, POWER)) and steps in seeds.get(seed, {}):
                    time_table(curves, times, links, steps, seed, target)
        if args.curves:
            write_curves(os.path.join(args.curves, str(count)), curves, times, links)


if __name__ == "__main__":
    main()
