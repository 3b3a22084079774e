# SPDX-License-Identifier: BSD-3-Clause
# Eight workers push a dense model to one server at once, whose link of 100 Mb/s needs more than ten seconds
# for their bytes. A process may be silent for only one second, and only the bytes that arrive show that it
# lives. No rank is lost, and the digest is the same as over shared memory. If a worker is stopped during
# this, it is lost and named.
# limit: 300 s
. "$TOP/tests/net/lib.sh"
parameters=4000000
options="--data $SCRATCH/rows --model logreg --batch 8 --lr 0.01 --servers 1 --shards 1 --digest"
recipe="up=all down=topk(0.001) memory=residual update=sgd"

incast() { # NAME OPTION...
	SLUICE_LOST_AFTER=1s nodes=9 job_limit=150 job_ok "$1" 9 $options --recipe "$recipe" --epochs 1 "${@:2}"
}
received() { on n9 cat /sys/class/net/wire/statistics/rx_bytes; }

survives() { # NAME CONTROL-NETWORK
	local before=$(received) bytes
	incast "$1"
	bytes=$(($(received) - before))
	! grep -h 'is lost' "$1".err.* || fail "a rank was lost"
	same_digest "$1"
	[ $bytes -ge 125000000 ] || fail "only $bytes bytes reached the server, which take less than ten seconds"
	echo "| $((bytes / 1000000)) MB to one server over 100 Mb/s, $2: no rank was lost," \
		"digest $(final "$1" digest) as over shared memory, links that seemed silent: $(grep -h 'has been silent' "$1".err.* | wc -l)"
}

stopped() {
	local tries line rank number node before=$(received)
	SLUICE_LOST_AFTER=1s nodes=9 job_limit=150 job_start stopped 9 $options --recipe "$recipe" --epochs 100
	for ((tries = 0; tries < 1200; tries++)); do
		[ $(($(received) - before)) -lt 60000000 ] || break # a quarter is the initial parameters
		sleep 0.05
	done
	while read -r rank number node; do
		pid[rank]=$number
	done < <(ranks)
	[ ${#pid[@]} = 9 ] || { show stopped; fail "${#pid[@]} of 9 ranks are running"; }
	trap 'kill -9 ${pid[3]} 2>/dev/null' EXIT
	start=$(now_ms)
	kill -STOP "${pid[3]}"
	all_name stopped "$start" 30000 3
	kill -9 "${pid[3]}"
	wait "$job_pid" && fail "srun ended with status 0"
	echo "| rank 3 stopped during the incast: the others named it $took"
}

if [ "${1-}" = nine ]; then
	SLUICE_CONTROL_INTERFACE=lo survives alone "no control network"
	[ "${QUICK:-0}" = 0 ] || exit 0
	survives beside "the control network uses the same wire"
	stopped
	exit 0
fi

awk -v n=$parameters 'BEGIN {
	srand(1)
	for (row = 0; row < 64; row++) {
		line = row % 2 ? "+1" : "-1"
		for (k = 0; k < 20; k++)
			line = line " " 1 + int((k + rand()) * n / 20) ":" 1 + int(9 * rand())
		print line (row ? "" : " " n ":1")
	}
}' >rows
srun_options=(--overcommit)
SLUICE_TRANSPORT=shm nodes=1 job_ok undisturbed 9 $options --recipe "$recipe" --epochs 1
srun_options=()
"$TOP/tools/devcluster/devcluster" run -n 9 -c 8 --net 100mbit -- bash "$0" nine || fail "the part on nine nodes failed"
