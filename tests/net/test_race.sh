# SPDX-License-Identifier: BSD-3-Clause
# Checks how tools/bench/race.py handles programs that fail. A program that stays on a host and ends, or does
# not answer, is ended and its reason is reported. It does not prevent the cleaning up. If something failed in
# a cell, the next call runs that cell again. A cell that the machine cannot run is not tried again.
. "$TOP/tests/net/lib.sh"

unset SLURM_CONF
PYTHONDONTWRITEBYTECODE=1 python3 - "$TOP/tools/bench" "$SCRATCH" <<'P' || fail "see the lines above"
import argparse, io, json, os, sys
sys.path.insert(0, sys.argv[1])
from network import Network, Resident, Unavailable, run
from race import Race

def refused(resident, line, **more):
    try:
        resident.ask(line, **more)
    except Unavailable as error:
        return str(error)
    raise AssertionError("it answered")

with Network(2, sys.argv[2]) as network:
    shell = ["sh", "-c", "echo begun >&2; read line; echo $line; [ $RANK = 1 ] || exit; while read line; do :; done"]
    ends = Resident(network, 2, shell, {})
    assert ends.ask("first") == "first"
    ends.programs[0].wait()
    ends.programs[0].stdin.write(b"what it will not read")  # closing it would try to write this
    assert refused(ends, "second") == "begun"
    ends.end()
    assert [program.poll() is None for program in ends.programs] == [False, False]

    hangs = Resident(network, 1, ["sh", "-c", "echo $$ >hangs; echo slow >&2; exec sleep 100"], {})
    assert refused(hangs, "anything", timeout=1) == "slow"
    hangs.end()
    assert hangs.programs[0].returncode == -9, hangs.programs[0].returncode
    with open("hangs") as f:  # the program itself was killed, not the one that started it on its host
        assert int(f.read()) == hangs.programs[0].pid

    try:
        run(network.at(1, ["sh", "-c", "echo why >&2; exit 3"]))
        raise AssertionError("status 3 was not reported as a failure")
    except Unavailable as error:
        assert "status 3: why" in str(error), error
assert not os.path.exists(network.folder)

class Fake(Race):
    """Runs no program. "gloo" fails once."""
    def __init__(self, options):
        super().__init__(options, argparse.Namespace(limit=lambda rate: None), None)
        self.ran = []

    def missing(self, system):
        return "no GPU" if system == "nccl" else None

    def bytes_per_step(self, *_):
        return 1, None

    def once(self, system, ranks, count, steps, warmup):
        self.ran.append((ranks, system))
        if system == "gloo" and ranks == 2 and not os.path.exists("mended"):
            raise Unavailable("it is out of order")
        return 2.0 if system == "gloo" else 1.0, None

options = argparse.Namespace(rates=["1gbit"], ranks=[2, 4], count=[1000], systems=["gloo", "nccl", "1%"], rounds=1,
                             seconds=1, longest=8, minutes=8)
rows, written = {}, io.StringIO()
first = Fake(options)
assert first.run(rows, written) == 0
kept = [json.loads(line) for line in written.getvalue().splitlines()]
assert [(r["ranks"], r["system"]) for r in kept] == [(2, "nccl"), (2, "1%"), (4, "nccl"), (4, "1%")], kept
# The system has failed in this call, so it was not tried with 4 ranks. Its cells were not kept as impossible
# either.
assert first.ran.count((2, "gloo")) == 1 and (4, "gloo") not in first.ran, first.ran
open("mended", "w").close()
second = Fake(options)
second.run(rows, written)
assert {(2, "gloo"), (4, "gloo")} <= set(second.ran) and not any(s == "nccl" for _, s in second.ran), second.ran
assert rows["1gbit", 2, 1000, "gloo"]["ms"] == 2.0 and rows["1gbit", 4, 1000, "1%"]["ratio"] == 2.0, rows
third = Fake(options)
assert third.run(rows, written) == 0 and not third.ran, third.ran
P
echo "| failed cells are tried again, impossible ones are not, and nothing prevents the cleaning up"
