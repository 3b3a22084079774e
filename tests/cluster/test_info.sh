# SPDX-License-Identifier: BSD-3-Clause
# Runs sluice-info inside a job. It finds PMIx and Slurm and checks the SLUICE_* variables. Its three formats
# and its status agree with each other.
. "$TOP/tests/cluster/lib.sh"
info=$BUILD/sluice-info
[ -x "$info" ] || skip "sluice-info was not built"

ask() { # NAME OPTION...: sets $status
	local name=$1
	shift
	timeout 30 srun --mpi=pmix -N1 -n1 "$info" "$@" >"$name" 2>"$name.err"
	status=$?
}

export SLUICE_TRANSPORT=shm
ask check --check
[ $status = 0 ] || { cat check; fail "status $status on a node without faults"; }
for line in 'ok pmix: ' 'ok slurm-pmix: ' 'ok shm-memory: ' 'ok transports: allowed, best first: self shm ' \
	'ok environment: '; do
	says check "^$line" || fail "no verdict for $line"
done
if grep -qvE '^(ok|warn|FAIL) [a-z][^:]*(:[0-9]+)?: ' check; then cat check; fail "a line is not a verdict"; fi
ask text
says text '^ +slurm +slurm(-wlm)? [0-9]' || fail "no version of Slurm"
says text '^ +SLUICE_TRANSPORT +self,shm \(environment\)' || fail "the setting is not shown"
says text '^ +slurm-job +job [0-9]+, step [0-9]+' || fail "the job is not seen"

# In a step of several nodes, each line begins with the name of its node. The rest is the same as on one node.
timeout 30 srun --mpi=pmix -N2 -n2 "$info" --check >both 2>both.err || { cat both; fail "-N2: status $?"; }
for node in n1 n2; do
	sed -n "s/^$node: //p" both >both.$node
	cmp check both.$node || fail "--check of $node under srun -N2 differs from that of one node"
done
[ "$(wc -l <both)" = $((2 * $(wc -l <check))) ] || { cat both; fail "a line names no node"; }

# a recipe that the library would refuse
SLUICE_RECIPE='up=topq(0.01)' ask recipe --check
[ $status = 2 ] && says recipe '^FAIL environment: .*SLUICE_RECIPE="up=topq\(0.01\)".*did you mean' || fail "recipe: status $status"

# A mistyped name of a variable causes a warning. A wrong value, or a requirement of RDMA that is not met, is
# a failure.
export SLUICE_LOST_AFTR=1s
ask typo --check
[ $status = 1 ] && says typo '^warn environment: .*did you mean SLUICE_LOST_AFTER' || fail "typo: status $status"
ask prolog --slurm-prolog
[ $status = 0 ] && says prolog '^print sluice-info: warn environment: ' || fail "prolog: status $status"
[ "$(wc -l <prolog)" = 1 ] || fail "the prolog prints more than the fault"
unset SLUICE_LOST_AFTR
SLUICE_SPIN=soon ask wrong --check
[ $status = 2 ] && says wrong '^FAIL environment: .*soon' || fail "wrong value: status $status"
if [ ! -d /sys/class/infiniband ]; then
	ask need --check --need-verbs
	[ $status = 2 ] && says need '^FAIL (rdma-devices|transports): .*; ' || fail "--need-verbs: status $status"
	ask need.prolog --slurm-prolog --need-verbs
	[ $status = 2 ] && says need.prolog '^print sluice-info: FAIL ' || fail "--slurm-prolog: status $status"
fi

ask json --json
if command -v python3 >/dev/null; then
	python3 -c '
import json
o = json.load(open("json"))
names = {f["name"] for f in o["findings"]}
assert o["verdict"] == "ok" and {"pmix", "memlock", "SLUICE_SPIN"} <= names, o
assert all(f["verdict"] in ("info", "ok", "warn", "FAIL") and f["finding"] for f in o["findings"]), o' ||
		fail "JSON"
fi
ask misspelt --chekc
[ $status = 3 ] && says misspelt.err 'did you mean --check\?' || fail "misspelt: status $status"
ask usage --check --json
[ $status = 3 ] && says usage.err 'one of --check, --json and --slurm-prolog' || fail "usage: status $status"
