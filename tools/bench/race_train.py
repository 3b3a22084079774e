#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains over links of limited rate, dense and sparse, and measures the seconds until an accuracy on the test set.

    tools/bench/race_train.py [--rates 100mbit,1gbit] [--ranks 4] [--accuracy 0.87]

The model for Fashion-MNIST and the two recipes are those of ./quickstart. Hosts are network namespaces of this machine
(tools/devcluster), so root and mpirun.openmpi are needed. Seconds are measured by the trainer from the first step. They
include computing, for which the hosts share this machine's processors. Accuracy is measured after each epoch.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BITS, Network, Unavailable

HERE = os.path.dirname(os.path.abspath(__file__))
RECIPES = {"dense": "up=all down=all update=momentum(0.9)",
           "sparse": "up=topk(0.01) down=topk(0.05) signal=momentum(0.9) memory=residual warmup=1epoch update=sgd"}


def train(network, args, rate, name):
    metrics = os.path.join(args.output, f"{rate}-{name}.jsonl")
    if os.path.exists(metrics):
        os.remove(metrics)
    out = network.mpirun(args.ranks, [args.train, "--recipe", RECIPES[name], "--data", args.data, "--model",
                                      "mlp:256,128", "--epochs", str(args.epochs), "--batch", "64", "--lr", "0.05",
                                      "--seed", "1", "--metrics", metrics],
                         variables={"OPENBLAS_NUM_THREADS": "1"},
                         timeout=3600)
    final = dict(pair.split("=") for pair in re.search(r"^final (.*)$", out, re.M).group(1).split())
    with open(metrics) as f:
        lines = [json.loads(line) for line in f]
    reached = next((line for line in lines if line.get("accuracy", 0) >= args.accuracy), None)
    return {"rate": rate, "recipe": name, "ranks": args.ranks, "wanted": args.accuracy,
            "seconds": reached and reached["seconds"], "steps": reached and reached["step"],
            "bytes": reached and reached["pushed_total"] + reached["pulled_total"],
            "final_accuracy": float(final["accuracy"]), "final_seconds": float(final["seconds"]),
            "digest": final["digest"]}, metrics


def table(rows, accuracy):
    print(f"| link | recipe | seconds to {accuracy} | MB pushed and pulled before that | final accuracy | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for r in rows:
        seconds, moved = (f"{r['seconds']:.1f}", f"{r['bytes'] / 1e6:.0f}") if r["seconds"] else ("not reached", "-")
        print(f"| {r['rate']} | {r['recipe']} | {seconds} | {moved} | {r['final_accuracy']:.4f} | "
              f"{r['final_seconds']:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="1gbit,100mbit", help="of " + ",".join(BITS))
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--accuracy", type=float, default=0.87)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="of dataset-fashion-mnist")
    parser.add_argument("--train", default="build/sluice-train")
    parser.add_argument("--output", default="race", help="folder of train.jsonl, the metrics and the picture")
    args = parser.parse_args()
    args.train, args.output = os.path.abspath(args.train), os.path.abspath(args.output)
    rates = args.rates.split(",")
    if not set(rates) <= set(BITS):
        sys.exit(f"race_train: --rates {args.rates}: there are {', '.join(BITS)}")
    if not os.access(args.train, os.X_OK):
        sys.exit(f"race_train: no program {args.train}: build first, or name it by --train")
    if not os.path.isdir(args.data):
        sys.exit(f"race_train: no {args.data}: install Debian's package dataset-fashion-mnist, or name it by --data")
    os.makedirs(args.output, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("race_train: ended by a signal"))  # cleans up the hosts
    rows, files = [], []
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Network(args.ranks, folder) as network:
                for rate in rates:
                    network.limit(rate)
                    for name in RECIPES:
                        row, metrics = train(network, args, rate, name)
                        rows.append(row)
                        files.append(f"{metrics}={name}, {rate}")
        except Unavailable as error:
            sys.exit(f"race_train: {error}")
    with open(os.path.join(args.output, "train.jsonl"), "w") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)
    table(rows, args.accuracy)
    subprocess.run([os.path.join(HERE, "../plot/sluice-plot"), "--panel", "accuracy-seconds", "--output",
                    os.path.join(args.output, "train.svg"), *files], check=True)


if __name__ == "__main__":
    main()
