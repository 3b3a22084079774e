# SPDX-License-Identifier: BSD-3-Clause
"""Runs jobs of several processes for the tests, without a launcher. The processes find each other through a folder.

A test calls run(N, "name", ...) with the name of a function in its own file. Each rank calls
function(job, folder, ...). A rank that does not end in time is killed. The ranks' nodes have the names n0, n1, and so on. If
the file has a class Meeting, the ranks use it instead of sluice.Folder.

A rank is a fork of a server that has imported the packages of the test once, because torch takes longer to import than
most ranks run. Forks have the same seed of hashes, and variables such as OMP_NUM_THREADS are those of the server. With
fresh=True or with flags, a rank is a new interpreter, whose shutdown is tested, too.
"""
import atexit
import contextlib
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback

LIMIT_S = 300
PACKAGES = []  # The server always imports these,
USUAL = ["numpy", "torch", "torch.distributed", "sluice", "sluice.torch"]  # and those that the test has imported.
LONGEST_FOLDER = 60  # The server has a socket in the folder of temporary files, whose path can have 107 bytes.


class Results(list):
    """A list with (status, output on both streams) for each rank."""

    def all_well(self):
        for rank, (status, said) in enumerate(self):
            if status != 0:
                raise AssertionError(f"rank {rank} ended with status {status} and printed:\n{said}")
        return self


def refused(call, why, kind=None):
    """Checks that a call raises an error of this kind, by default InvalidError, whose text has `why`."""
    import sluice

    try:
        call()
    except kind or sluice.InvalidError as error:
        assert why in str(error), error
    else:
        raise AssertionError(f"no error says '{why}'")


def forked(environment, said, function, arguments):
    """Runs in a fork of the server, and prints into the file `said`."""
    os.setsid()
    with open(said, "ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.environ.clear()
    os.environ.update(environment)
    status = 0
    try:
        function(*arguments)
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()  # multiprocessing does not call them
    sys.exit(status)


class Fork:
    """Runs function(*arguments) in a fork of the server. Has the methods of subprocess.Popen that ended() needs."""

    context = multiprocessing.get_context("forkserver")

    def __init__(self, environment, said, function, *arguments):
        self.context.set_forkserver_preload(PACKAGES + [name for name in USUAL if name in sys.modules])
        self.process = self.context.Process(target=forked, args=(environment, said.name, function, arguments))
        self.process.start()
        self.pid = self.process.pid

    def wait(self, seconds=None):
        self.process.join(seconds)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(self.pid, seconds)
        return self.process.exitcode


def start(environment, said, function, *arguments, script=(), flags=(), fresh=False):
    """Starts function(*arguments), which a new interpreter runs as `script` with these arguments."""
    if fresh or flags or len(tempfile.gettempdir()) > LONGEST_FOLDER:
        return subprocess.Popen([sys.executable, *flags, *script, *arguments], stdout=said, stderr=subprocess.STDOUT,
                                env=environment, start_new_session=True)
    return Fork(environment, said, function, *arguments)


def kill(process):
    for send in (os.killpg, os.kill):  # a rank that has just started has no process group yet
        with contextlib.suppress(ProcessLookupError):
            send(process.pid, signal.SIGKILL)
    process.wait()


def ended(processes):
    """Waits for a list of (process, its output's file), and returns Results. Leaves no process behind."""
    end = time.monotonic() + LIMIT_S
    results = Results()
    try:
        for process, said in processes:
            try:
                status = process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                kill(process)
                status = f"none: killed after {LIMIT_S} s"
            said.seek(0)
            results.append((status, said.read()))
            said.close()
    except BaseException:
        for process, _ in processes:
            kill(process)
        raise
    return results


def run(ranks, function, *arguments, flags=(), fresh=False, **environment):
    """Runs a function of the calling test on each rank, and returns Results."""
    test = os.path.abspath(sys.modules["__main__"].__file__)
    environment = {**os.environ, "SLUICE_LOST_AFTER": "10s", "SLUICE_WAIT_TIMEOUT": "60s", **environment}
    with tempfile.TemporaryDirectory(prefix="sluice-ranks-") as folder:
        os.mkdir(os.path.join(folder, "meet"), 0o700)
        processes = []
        for rank in range(ranks):
            said = open(os.path.join(folder, f"said.{rank}"), "w+", encoding="utf-8")
            words = [test, function, folder, str(rank), str(ranks), *map(str, arguments)]
            processes.append((start(environment, said, main, *words, script=[os.path.abspath(__file__)], flags=flags,
                                    fresh=fresh), said))
        return ended(processes)


def main(test, function, folder, rank, ranks, *arguments):
    import sluice

    sys.path.insert(0, os.path.dirname(test))
    module = importlib.import_module(os.path.basename(test)[:-3])
    meeting = getattr(module, "Meeting", sluice.Folder)
    job = sluice.Job(bootstrap=meeting(os.path.join(folder, "meet"), int(rank), int(ranks), f"n{rank}"))
    getattr(module, function)(job, folder, *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
