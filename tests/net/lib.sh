# SPDX-License-Identifier: BSD-3-Clause
# What the tests in this folder share, besides what they share with tests/cluster: four nodes n1 to n4,
# each with one rank, and between them nothing but the interface "wire" of each.
. "$TOP/tests/cluster/lib.sh"
nodes=4
export SLUICE_TRANSPORT=shm,ofi
export SLUICE_LOST_AFTER=30s # where a test does not say otherwise: the machine may be busy

on() { "$TOP/slurm/devcluster" exec "$@"; } # NODE COMMAND...

# on_one_node NAME OPTION...: the job of four ranks on one node, which reach each other through shm.
on_one_node() {
	SLUICE_TRANSPORT=shm nodes=1 job_ok "$1" 4 "${@:2}"
}

# The bytes that all nodes have sent so far, with all headers.
sent_bytes() {
	local i
	for i in 1 2 3 4; do
		on n$i cat /sys/class/net/wire/statistics/tx_bytes
	done | awk '{ sum += $1 } END { printf "%d\n", sum }'
}

# What job NAME counted on one transport: the number behind "ofi=" in its report.
carried() { # NAME TRANSPORT
	sed -n "s/.*bytes by transport.*\\b$2=\\([0-9]*\\).*/\\1/p" "$SCRATCH/$1.err.0"
}
