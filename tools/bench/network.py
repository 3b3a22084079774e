# SPDX-License-Identifier: BSD-3-Clause
"""Hosts on one machine that share nothing but a network, for race.py and race_train.py: a network namespace each, with
a host name and an interface of its own, joined by a bridge whose ports are limited in both directions. Open MPI's
mpirun starts programs there; it is also the PMIx server that Sluice joins. Needs root."""
import json
import os
import shutil
import subprocess
import threading

# Of tbf: a burst is what a network card would take in one go, and the limit is the queue of a switch's port.
LIMITS = {"100mbit": "rate 100mbit burst 64k limit 512k", "1gbit": "rate 1gbit burst 256k limit 2m",
          "10gbit": "rate 10gbit burst 2m limit 8m", "none": None}
BITS = {"100mbit": 1e8, "1gbit": 1e9, "10gbit": 1e10, "none": None}
CARD = "v0"
AS_HOST = 'hostname "$0"; exec "$@"'


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
        self.hosts, self.folder, self.name = hosts, folder, f"race{os.getpid()}"
        self.agent = os.path.join(folder, "agent")
        self.limited = False

    def space(self, host):
        return f"{self.name}-{host}"

    @staticmethod
    def address(host):
        return f"10.77.0.{host + 1}"

    def up(self):
        if os.geteuid():
            raise Unavailable("network namespaces need root")
        bridge = self.space("bridge")
        run(["ip", "netns", "add", bridge])
        for line in ("link add br0 type bridge", "link set br0 up"):
            run(["ip", "-n", bridge] + line.split())
        for host in range(self.hosts):
            space = self.space(host)
            run(["ip", "netns", "add", space])
            run(["ip", "-n", space, "link", "add", CARD, "type", "veth", "peer", "name", f"p{host}", "netns", bridge])
            for line in (f"link set p{host} master br0", f"link set p{host} up"):
                run(["ip", "-n", bridge] + line.split())
            for line in (f"addr add {self.address(host)}/24 dev {CARD}", f"link set {CARD} up", "link set lo up"):
                run(["ip", "-n", space] + line.split())
        # What mpirun takes for ssh: the host is an address, and what follows a command for its shell.
        with open(self.agent, "w") as f:
            f.write(f"""#!/bin/sh
while case $1 in -*) ;; *) false ;; esac; do shift; done
name={self.name}-$((${{1##*.}} - 1)); shift
exec ip netns exec $name unshare -u sh -c '{AS_HOST}' $name sh -c "$*"
""")
        os.chmod(self.agent, 0o755)

    def down(self):
        for host in ["bridge", *range(self.hosts)]:
            subprocess.run(["ip", "netns", "del", self.space(host)], stderr=subprocess.DEVNULL)

    def limit(self, rate):
        """Limits what goes into and out of each host."""
        ports = [(self.space(host), CARD) for host in range(self.hosts)]
        ports += [(self.space("bridge"), f"p{host}") for host in range(self.hosts)]
        for space, card in ports:
            if LIMITS[rate]:
                run(["tc", "-n", space, "qdisc", "replace", "dev", card, "root", "tbf", *LIMITS[rate].split()])
            elif self.limited:
                run(["tc", "-n", space, "qdisc", "del", "dev", card, "root"])
        self.limited = LIMITS[rate] is not None

    def sent(self, hosts):
        """The bytes that each of the first hosts has sent so far, with all headers, as its interface counts them."""
        return [json.loads(run(["ip", "-n", self.space(host), "-s", "-j", "link", "show", CARD]))[0]
                ["stats64"]["tx"]["bytes"] for host in range(hosts)]

    def at(self, host, command):
        return ["ip", "netns", "exec", self.space(host), "unshare", "-u", "sh", "-c", AS_HOST, self.space(host), *command]

    def mpirun(self, ranks, command, options=(), variables=None, timeout=600):
        """One rank on each of the first hosts. Neither Open MPI nor Sluice is to find a Slurm around this program."""
        mpirun = shutil.which("mpirun.openmpi")
        if not mpirun:
            raise Unavailable("no mpirun.openmpi here (Debian's package openmpi-bin)")
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "PMI", "OMPI"))}
        variables = variables or {}
        bare.update(variables, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        exports = [word for name in variables for word in ("-x", name)]
        return run(self.at(0, [mpirun, "-np", str(ranks), "-H", ",".join(map(self.address, range(ranks))),
                               "--bind-to", "none", "--mca", "plm", "rsh", "--mca", "ras", "^slurm",
                               "--mca", "plm_rsh_agent", self.agent, "--mca", "oob_tcp_if_include", CARD,
                               *options, *exports, *command]), timeout, env=bare)


class Resident:
    """A program that stays on the first hosts and does what lines on its standard input say. Rank 0 answers each."""

    def __init__(self, network, hosts, command, variables):
        self.programs = [subprocess.Popen(network.at(host, command), stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE if host == 0 else subprocess.DEVNULL,
                                          stderr=subprocess.PIPE if host == 0 else subprocess.DEVNULL,
                                          env={**os.environ, **variables, "RANK": str(host)}) for host in range(hosts)]

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
        late.cancel()
        if not answer:
            raise Unavailable(self.complaint())
        return answer

    def end(self):
        for program in self.programs:
            program.kill()
            program.wait()
