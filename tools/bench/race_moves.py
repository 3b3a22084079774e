#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares puts, gets and notifies of Sluice with iperf3 and fi_pingpong, over a link of limited rate.

    tools/bench/race_moves.py [--rate 1gbit] [--rounds 3]

The two hosts are network namespaces of this machine (tools/devcluster), so root and mpirun.openmpi are needed. In each
round, all programs run once, one after another. The figures are medians of the rounds, and medians of the ratios within
a round. Bandwidths are compared with iperf3 (one stream of TCP). The latency of 8 bytes is compared with fi_pingpong
(libfabric-bin) over the same provider of libfabric, both ends of which spin. fi_pingpong sends messages, so its half
round trip corresponds to a put with notify.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BITS, Network, Unavailable, run

TESTS = ("put", "get", "notify")
SIZES = (65536, 1 << 20)


def beside(network, server, client):
    """Runs a server on the second host and then a client on the first. Returns the client's output."""
    waiting = subprocess.Popen(network.at(1, server), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        return run(network.at(0, client), 60)
    finally:
        waiting.kill()
        waiting.wait()


def iperf(network):
    out = beside(network, ["iperf3", "-s", "-1"], ["iperf3", "-c", network.name(1), "-t", "2", "-J"])
    return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8


def pingpong(network, provider):
    command = ["fi_pingpong", "-e", "rdm", "-p", provider, "-S", "8", "-I", "1000"]
    out = beside(network, command, command + [network.name(1)])
    words, names = (line.split() for line in reversed(out.strip().splitlines()[-2:]))
    return float(words[names.index("usec/xfer")])


def moves(network, args):
    found = {}
    for test in TESTS:
        out = json.loads(network.mpirun(2, [args.bench, test, "--sizes", "8," + ",".join(map(str, SIZES)), "--json"]))
        for row in out["rows"]:
            found[test, row["bytes"]] = row
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="1gbit", choices=list(BITS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--provider", default="net", help="libfabric's provider for fi_pingpong (from 1.18 on: tcp)")
    parser.add_argument("--bench", default="build/sluice-bench")
    args = parser.parse_args()
    args.bench = os.path.abspath(args.bench)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("race_moves: ended by a signal"))  # cleans up the hosts
    own, streams, pings = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Network(2, folder) as network:
                network.limit(args.rate)
                for _ in range(args.rounds):
                    streams.append(iperf(network))
                    pings.append(pingpong(network, args.provider))
                    own.append(moves(network, args))
        except Unavailable as error:
            sys.exit(f"race_moves: {error}")
    print(f"{args.rate}, medians of {args.rounds} rounds: iperf3 {statistics.median(streams) / 1e6:.1f} MB/s, "
          f"fi_pingpong {statistics.median(pings):.1f} us")
    for test in TESTS:
        for size in SIZES:
            rates = [found[test, size]["bytes_per_second"] for found in own]
            share = statistics.median(r / s for r, s in zip(rates, streams))
            print(f"{test:<7}{size:8} bytes: {statistics.median(rates) / 1e6:7.1f} MB/s, {share:.3f} of iperf3")
        latencies = [found[test, 8]["us_p50"] for found in own]
        share = statistics.median(u / p for u, p in zip(latencies, pings))
        print(f"{test:<7}{8:8} bytes: {statistics.median(latencies):7.1f} us, {share:.2f} of fi_pingpong's half round trip"
              + (" (a get takes a whole one)" if test == "get" else ""))


if __name__ == "__main__":
    main()
