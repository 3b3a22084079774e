# SPDX-License-Identifier: BSD-3-Clause
"""Hosts on one machine that share nothing but a network, for race.py, race_moves.py and race_train.py: the nodes of
devcluster --net, without its Slurm. Open MPI's mpirun starts programs there; it is also the PMIx server that
Sluice joins. Needs root."""
import contextlib
import os
import shutil
import signal
import subprocess
import threading

# The rates of links, as devcluster takes them, and in bits per second.
BITS = {"100mbit": 1e8, "1gbit": 1e9, "10gbit": 1e10, "unlimited": None}
CARD = "wire"
CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/devcluster/devcluster")


class Unavailable(Exception):
    """Something is missing here; the text says what."""


def run(command, timeout=600, **more):
    """Runs a command and returns what it printed. A failure says what the command complained of."""
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
        # What mpirun takes for ssh: the name of a host, and what follows a command for its shell.
        with open(self.agent, "w") as f:
            f.write(f"""#!/bin/sh
while case $1 in -*) ;; *) false ;; esac; do shift; done
name=$1; shift
exec '{CLUSTER}' exec -d '{self.folder}' $name sh -c "$*"
""")
        os.chmod(self.agent, 0o755)

    def down(self):
        """Ends the hosts and what runs there. A second signal does not interrupt that."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            if os.path.isdir(self.folder):
                run([CLUSTER, "stop", "-d", self.folder])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def limit(self, rate):
        """Limits what goes into and out of each host."""
        run([CLUSTER, "rate", "-d", self.folder, rate])

    def at(self, host, command):
        return [CLUSTER, "exec", "-d", self.folder, self.name(host), *command]

    def sent(self, hosts):
        """The bytes that each of the first hosts has sent so far, as its interface counts them."""
        return [int(run(self.at(host, ["cat", f"/sys/class/net/{CARD}/statistics/tx_bytes"]))) for host in range(hosts)]

    def mpirun(self, ranks, command, options=(), variables=None, timeout=600):
        """One rank on each of the first hosts. Neither Open MPI nor Sluice is to find a Slurm around this program."""
        mpirun = shutil.which("mpirun.openmpi")
        if not mpirun:
            raise Unavailable("no mpirun.openmpi here (Debian's package openmpi-bin)")
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "PMI", "OMPI"))}
        variables = variables or {}
        bare.update(variables, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        exports = [word for name in variables for word in ("-x", name)]
        return run(self.at(0, [mpirun, "-np", str(ranks), "-H", ",".join(map(self.name, range(ranks))),
                               "--bind-to", "none", "--mca", "plm", "rsh", "--mca", "ras", "^slurm",
                               "--mca", "plm_rsh_agent", self.agent, "--mca", "oob_tcp_if_include", CARD,
                               *options, *exports, *command]), timeout, env=bare)


class Resident:
    """A program that stays on the first hosts and does what lines on its standard input say. Rank 0 answers each."""

    def __init__(self, network, hosts, command, variables):
        self.programs = []
        for host in range(hosts):
            heard = subprocess.PIPE if host == 0 else subprocess.DEVNULL
            self.programs.append(subprocess.Popen(
                network.at(host, command), stdin=subprocess.PIPE, stdout=heard, stderr=heard,
                env={**os.environ, **variables, "RANK": str(host)}))

    def complaint(self):
        """What rank 0 said last before it ended."""
        self.programs[0].kill()
        lines = self.programs[0].stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"

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
            with contextlib.suppress(OSError):  # what one that has ended did not read is still to be written
                program.stdin.close()  # by which it ends
        for program in self.programs:
            try:
                program.wait(10)
            except subprocess.TimeoutExpired:  # what it has on its host ends with the network
                program.kill()
                program.wait()
