# SPDX-License-Identifier: BSD-3-Clause
"""Hosts on one machine that share nothing but a network, for race.py, race_moves.py and race_train.py. They are the
nodes of devcluster --net, without its Slurm. Open MPI's mpirun starts programs on them, and is the PMIx server that
Sluice joins. Needs root."""
import contextlib
import os
import shutil
import signal
import subprocess
import threading

# The rates of links, with devcluster's names for them, and in bits per second.
BITS = {"100mbit": 1e8, "1gbit": 1e9, "10gbit": 1e10, "unlimited": None}
CARD = "wire"
CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/devcluster/devcluster")


class Unavailable(Exception):
    """Something cannot be run. The text says why."""


def run(command, timeout=600, **more):
    """Runs a command and returns its output. If it fails, the error contains its messages."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **more)
    except OSError as error:
        raise Unavailable(f"{command[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command)[-200:]} did not end within {timeout} s")
    if done.returncode:
        raise Unavailable(f"{' '.join(command)[-200:]} ended with status {done.returncode}: "
                          f"{done.stderr.decode(errors='replace').strip()[-600:]}")
    return done.stdout.decode()


class Network:
    def __init__(self, hosts, folder):
        self.hosts, self.folder = hosts, os.path.join(folder, "hosts")
        self.agent = os.path.join(folder, "agent")

    @staticmethod
    def name(host):
        return f"n{host + 1}"

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    def up(self):
        run([CLUSTER, "start", "--bare", "-n", str(self.hosts), "--net", "unlimited", "-d", self.folder])
        # mpirun uses this in place of ssh. It gets the name of a host, and the words of a command for the host's
        # shell.
        with open(self.agent, "w") as f:
            f.write(f"""#!/bin/sh
while case $1 in -*) ;; *) false ;; esac; do shift; done
name=$1; shift
exec '{CLUSTER}' exec -d '{self.folder}' $name sh -c "$*"
""")
        os.chmod(self.agent, 0o755)

    def down(self):
        """Ends the hosts and the programs on them. A second signal does not interrupt this."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            if os.path.isdir(self.folder):
                run([CLUSTER, "stop", "-d", self.folder])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def limit(self, rate):
        """Limits the rate of each host's link, in both directions."""
        run([CLUSTER, "rate", "-d", self.folder, rate])

    def at(self, host, command):
        return [CLUSTER, "exec", "-d", self.folder, self.name(host), *command]

    def sent(self, hosts):
        """Returns the bytes that the interface of each of the first hosts has sent so far."""
        return [int(run(self.at(host, ["cat", f"/sys/class/net/{CARD}/statistics/tx_bytes"]))) for host in range(hosts)]

    def mpirun(self, ranks, command, options=(), variables=None, timeout=600):
        """Runs one rank on each of the first hosts. Hides any Slurm of this program from Open MPI and Sluice."""
        mpirun = shutil.which("mpirun.openmpi")
        if not mpirun:
            raise Unavailable("no mpirun.openmpi here (Debian's package openmpi-bin)")
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "PMI", "OMPI"))}
        # Each host seems to have all processors of this machine, but the hosts share them.
        variables = {"SLUICE_THREADS": "1", **(variables or {})}
        bare.update(variables, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        exports = [word for name in variables for word in ("-x", name)]
        return run(self.at(0, [mpirun, "-np", str(ranks), "-H", ",".join(map(self.name, range(ranks))),
                               "--bind-to", "none", "--mca", "plm", "rsh", "--mca", "ras", "^slurm",
                               "--mca", "plm_rsh_agent", self.agent, "--mca", "oob_tcp_if_include", CARD,
                               *options, *exports, *command]), timeout, env=bare)


class Resident:
    """A program that stays on the first hosts and obeys the lines on its standard input. Rank 0 answers each."""

    def __init__(self, network, hosts, command, variables):
        self.programs = []
        for host in range(hosts):
            heard = subprocess.PIPE if host == 0 else subprocess.DEVNULL
            self.programs.append(subprocess.Popen(
                network.at(host, command), stdin=subprocess.PIPE, stdout=heard, stderr=heard,
                env={**os.environ, **variables, "RANK": str(host)}))

    def complaint(self):
        """Ends rank 0, and returns the last line of its error output."""
        self.programs[0].kill()
        lines = self.programs[0].stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a message"

    def ask(self, line, timeout=600):
        late = threading.Timer(timeout, self.programs[0].kill)
        late.start()
        try:
            for program in self.programs:
                program.stdin.write(line.encode() + b"\n")
                program.stdin.flush()
            answer = self.programs[0].stdout.readline().decode().strip()
        except OSError:
            answer = ""
        finally:
            late.cancel()
        if not answer:
            raise Unavailable(self.complaint())
        return answer

    def end(self):
        for program in self.programs:
            with contextlib.suppress(OSError):  # closing writes pending input, which fails if the program has ended
                program.stdin.close()  # the program ends at the end of its input
        for program in self.programs:
            try:
                program.wait(10)
            except subprocess.TimeoutExpired:  # its processes on the host end with the network
                program.kill()
                program.wait()
