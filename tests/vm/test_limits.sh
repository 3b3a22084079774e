# SPDX-License-Identifier: BSD-3-Clause
# Too little locked memory, no /dev/infiniband, a port that is down, and no usable address. A job refuses each
# of these before it registers memory, with a sentence that says what to do. sluice-info --check prints the
# same.
# quick: 1
. "$TOP/tests/vm/lib.sh"

info=$(program sluice-info)
away=/dev/infiniband.away
restore() {
	[ ! -e $away ] || mv $away /dev/infiniband
	ip link set p1 up
	ip addr replace 10.3.0.1/24 dev v1
	ip neigh replace 10.3.0.2 lladdr 02:00:00:00:00:02 dev v1 nud permanent
}
trap restore EXIT

check_on_n1() { # NAME: without srun, which takes seconds
	SLURMD_NODENAME=n1 SLURM_PROCID=check "$TOP/tests/vm/rank" "$info" --check >"$1.info" 2>&1
}

# refused NAME PATTERN...: a job on n1 and sluice-info --check must fail with messages that match all patterns
refused() {
	local name=$1 began took pattern
	shift
	began=$(now_ms)
	job "$name" 4 "$train" "${small[@]}" && { show "$name"; fail "$name: the job ran"; }
	took=$(($(now_ms) - began))
	check_on_n1 "$name" &&
		{ cat "$name.info"; fail "$name: sluice-info --check finds nothing wrong"; }
	for pattern in "$@"; do
		cat "$name".err.* | grep -qiE -- "$pattern" || { show "$name"; fail "$name: no rank says $pattern"; }
		grep -qiE -- "$pattern" "$name.info" || { cat "$name.info"; fail "$name: sluice-info does not say $pattern"; }
	done
	[ $took -lt 20000 ] || fail "$name: refused only after $took ms"
	echo "| $name, after $took ms: $(cat "$name".err.* | grep -iE -- "$1" | head -n 1)"
}

if [ -x "$info" ]; then
	check_on_n1 ok ||
		{ cat ok.info; fail "sluice-info --check reports a fault on a node that has none"; }
else
	fail "no sluice-info"
fi

# root may lock any amount of memory. Without that capability it has the same limit as any user.
export RANK_HOOK='ulimit -l 64; set -- setpriv --bounding-set=-ipc_lock "$@"'
refused memlock 'locked memory' '65536|64 KiB' 'memlock' 'LimitMEMLOCK|limits'
unset RANK_HOOK

mv /dev/infiniband $away
refused no-device /dev/infiniband 'modprobe'
mv $away /dev/infiniband

ip link set p1 down
refused port-down 'rxe1.*(down|not active)|(down|not active).*rxe1'
restore

ip addr flush dev v1
refused no-gid 'GID|address'
restore
job_ok well 4 "$train" "${small[@]}"
