# SPDX-License-Identifier: BSD-3-Clause
"""``python -m sluice.selftest``: trains with two ranks on this machine, and compares with the exact result.

The ranks are processes that meet in a temporary directory, so no launcher is needed. They push and pull dense and
top-k gradients, and with torch they train a DistributedDataParallel model. All values are small integers and
halves, so every result is exact.
"""
import array
import os
import subprocess
import sys
import tempfile
import time
from typing import Callable, List, Sequence, Tuple

RANKS, COUNT, STEPS, KEPT, LIMIT_S = 2, 4096, 6, 41, 120


def _gradient(rank: int, step: int) -> List[float]:
    """Even integers, so that the mean of two ranks is exact, of which no two in one vector have the same magnitude."""
    return [2.0 * (i + 1) * (-1) ** (i + rank) for i in
            ((j * 1021 + 97 * step + 500 * rank) % COUNT for j in range(COUNT))]


def _mean(vectors: Sequence[Sequence[float]]) -> List[float]:
    return [sum(values) / len(vectors) for values in zip(*vectors)]


def _compare(what: str, found: Sequence[float], exact: Sequence[float]) -> None:
    for i, (one, other) in enumerate(zip(found, exact)):
        if one != other:
            raise AssertionError(f"{what}: coordinate {i} is {one!r}, but must be {other!r}")


def dense(job: "sluice.Job") -> str:  # type: ignore[name-defined]  # noqa: F821
    mean = array.array("f", bytes(4 * COUNT))
    with job.open(mean, "up=all down=all update=none") as model:
        for step in range(STEPS):
            model.push(array.array("f", _gradient(job.rank, step)))
            model.pull(mean)
            _compare(f"step {step}", mean, _mean([_gradient(rank, step) for rank in range(RANKS)]))
        moved = model.totals()["pushed_bytes"]
    return f"{STEPS} exact means of {COUNT} values, {moved:.0f} bytes pushed"


def topk(job: "sluice.Job") -> str:  # type: ignore[name-defined]  # noqa: F821
    """Each rank sends its KEPT largest values. It adds the others to its next gradient."""
    mean = array.array("f", bytes(4 * COUNT))
    kept = [[0.0] * COUNT for _ in range(RANKS)]
    with job.open(mean, f"up=topk(k={KEPT}) down=all memory=residual update=none") as model:
        for step in range(STEPS):
            model.push(array.array("f", _gradient(job.rank, step)))
            model.pull(mean)
            sent = []
            for rank in range(RANKS):
                signal = [a + b for a, b in zip(kept[rank], _gradient(rank, step))]
                largest = set(sorted(range(COUNT), key=lambda i: -abs(signal[i]))[:KEPT])
                sent.append([x if i in largest else 0.0 for i, x in enumerate(signal)])
                kept[rank] = [0.0 if i in largest else x for i, x in enumerate(signal)]
            _compare(f"step {step}", mean, _mean(sent))
        moved = model.totals()["pushed_bytes"]
    return f"{STEPS} exact means of the {KEPT} largest values of each rank, {moved:.0f} bytes pushed"


def ddp(job: "sluice.Job") -> str:  # type: ignore[name-defined]  # noqa: F821
    import torch

    import sluice.torch

    torch.set_num_threads(1)
    torch.manual_seed(job.rank)
    sluice.torch.process_group(job)
    net = torch.nn.Linear(16, 4)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.arange(parameter.numel()).view_as(parameter) % 5 - 2 + job.rank)  # rank 0's count
    wrapped = torch.nn.parallel.DistributedDataParallel(net)
    state = sluice.torch.compress(wrapped, "up=all down=all")
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.5)
    alone = [(torch.arange(p.numel()).view_as(p) % 5 - 2).float() for p in net.parameters()]
    for step in range(STEPS):
        rows = [((torch.arange(8 * 16) * 7 + 3 * step + rank) % 5 - 2).float().view(8, 16) for rank in range(RANKS)]
        optimizer.zero_grad()
        wrapped(rows[job.rank]).sum().backward()
        optimizer.step()
        total = sum(row.sum(0) for row in rows) / RANKS
        alone = [alone[0] - 0.5 * total.expand(4, 16), alone[1] - 0.5 * 8]
        for parameter, exact in zip(net.parameters(), alone):
            _compare(f"step {step}", parameter.detach().flatten().tolist(), exact.flatten().tolist())
    state.close()
    torch.distributed.destroy_process_group()
    return f"torch {torch.__version__}, {STEPS} exact steps of DistributedDataParallel"


CASES: List[Tuple[str, Callable[..., str]]] = [("dense", dense), ("top-k", topk), ("DDP", ddp)]


def _has_torch() -> bool:
    from importlib.util import find_spec
    return find_spec("torch") is not None


def rank_main(folder: str, rank: int) -> int:
    import sluice

    job = sluice.Job(bootstrap=sluice.Folder(folder, rank, RANKS, "selftest"))
    if rank == 0:
        print("passed: join: 2 ranks, by " + ", ".join(
            name for name in job.transports() if name != "self"), flush=True)
    for name, case in CASES:
        if case is ddp and not _has_torch():
            said = "skipped: DDP: this Python has no torch"
        else:
            said = f"passed: {name}: {case(job)}"
        job.barrier()
        if rank == 0:
            print(said, flush=True)
    job.close()
    return 0


def main() -> int:
    if len(sys.argv) == 4 and sys.argv[1] == "--rank":
        return rank_main(sys.argv[3], int(sys.argv[2]))
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    from .info import lines
    print("\n".join(lines()), flush=True)
    began = time.monotonic()
    # Variables of a launcher would make each rank look for the launcher's job.
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("PMIX_", "PMI_", "SLURM_")) and name not in ("RANK", "WORLD_SIZE")}
    # Both ranks train, even if the site sets SLUICE_SERVERS.
    environment.update(SLUICE_LOG=os.environ.get("SLUICE_LOG", "error"), SLUICE_ADVICE="no", SLUICE_SERVERS="0",
                       SLUICE_ON_FAILURE="abort")
    bad = False
    with tempfile.TemporaryDirectory(prefix="sluice-selftest-") as folder:
        ranks = [subprocess.Popen([sys.executable, "-m", "sluice.selftest", "--rank", str(rank), folder],
                                  env=environment) for rank in range(RANKS)]
        for rank, process in enumerate(ranks):
            try:
                status = process.wait(max(0.1, began + LIMIT_S - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
                print(f"FAILED: rank {rank} did not end within {LIMIT_S} s", file=sys.stderr)
            if status:
                bad = True
                print(f"FAILED: rank {rank} ended with status {status}", file=sys.stderr)
    print(f"{'FAILED' if bad else 'All passed'} in {time.monotonic() - began:.1f} s. python -m sluice.info shows what "
          "this node has, and what is missing.")
    return bad


if __name__ == "__main__":
    sys.exit(main())
