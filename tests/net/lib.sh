# SPDX-License-Identifier: BSD-3-Clause
# Functions that the tests in this folder share, in addition to those of tests/cluster. There are four nodes
# n1 to n4 with one rank each. They share nothing but a network, to which each node has the interface "wire".
. "$TOP/tests/cluster/lib.sh"
nodes=4
unset SLUICE_TRANSPORT # so that the job itself must find that it needs libfabric
export SLUICE_LOST_AFTER=30s # unless a test sets another time; the machine may be busy

on() { "$TOP/tools/devcluster/devcluster" exec "$@"; } # NODE COMMAND...

# Prints the process that holds the namespaces of a node, or nothing.
holder() { # NODE
	local p
	for p in $(pgrep -x sluice-node); do
		grep -qzxF "DEVCLUSTER_HOLDS=$1" "/proc/$p/environ" &&
			grep -qzxF "DEVCLUSTER_DIR=$(dirname "$SLURM_CONF")" "/proc/$p/environ" && echo "$p" && return
	done
}

# Adds a second network between the nodes, with the interface "control" on each. It disappears with the nodes.
control_network() {
	local i first=$(holder n1) node
	[ -n "$first" ] || fail "no process holds the namespaces of n1"
	nsenter -t "$first" -n sh -c 'ip link add control type bridge forward_delay 0 && ip link set control up &&
		ip addr add 10.77.0.1/24 dev control' || fail "no control network"
	for i in 2 3 4; do
		node=$(holder n$i)
		nsenter -t "$first" -n ip link add c$i type veth peer name control netns "$node" &&
			nsenter -t "$first" -n ip link set c$i master control up &&
			nsenter -t "$node" -n ip link set control up &&
			nsenter -t "$node" -n ip addr add 10.77.0.$i/24 dev control || fail "no control network to n$i"
	done
}
no_control_network() {
	nsenter -t "$(holder n1)" -n sh -c 'for i in 2 3 4; do ip link del c$i; done; ip link del control'
}

# on_one_node NAME OPTION...: runs the job of four ranks on one node, where they communicate through shm.
on_one_node() {
	SLUICE_TRANSPORT=shm nodes=1 job_ok "$1" 4 "${@:2}"
}

wait_for_file() { # FILE
	local tries
	for ((tries = 0; tries < 500; tries++)); do
		[ ! -e "$1" ] || return 0
		sleep 0.02
	done
	fail "no file $1"
}

# Stops the ranks until the program that disturbs the job has begun. Otherwise the job might end before.
halt() {
	mapfile -t halted < <(ranks | awk '{ print $2 }')
	[ ${#halted[@]} = 4 ] || fail "${#halted[@]} of 4 ranks are running"
	trap go_on EXIT
	kill -STOP "${halted[@]}"
}
go_on() {
	kill -CONT "${halted[@]}" 2>/dev/null
	trap - EXIT
}

# Fails unless job NAME has ended with the digest of the job "undisturbed".
same_digest() { # NAME [WHERE]
	local wanted=$(final undisturbed digest) found=$(final "$1" digest)
	[ -n "$wanted" ] && [ "$found" = "$wanted" ] ||
		fail "the digest${2:+ }${2-} is '$found', but '$wanted' in the undisturbed job"
}

# Prints the bytes that all nodes have sent so far, including the headers that interfaces count.
sent_bytes() {
	local i
	for i in 1 2 3 4; do
		on n$i cat /sys/class/net/wire/statistics/tx_bytes
	done | awk '{ sum += $1 } END { printf "%d\n", sum }'
}

# Prints the bytes that job NAME counted on one transport, such as the number after "ofi=" in its report.
carried() { # NAME TRANSPORT
	sed -n "s/.*bytes by transport.*\\b$2=\\([0-9]*\\).*/\\1/p" "$SCRATCH/$1.err.0"
}

# Starts a job that trains until something ends it, and waits for its first steps. Sets pid[RANK]. Each node
# has one rank.
endless() { # NAME OPTION...
	local name=$1 line rank number node list
	job_start "$name" 4 "${@:2}" --epochs 100000 --metrics "$SCRATCH/$name.metrics"
	wait_lines "$SCRATCH/$name.metrics" 3 60 || { show "$name"; fail "no step was done within 60 s"; }
	mapfile -t list < <(ranks)
	[ ${#list[@]} = 4 ] || { show "$name"; fail "${#list[@]} of 4 ranks are running"; }
	for line in "${list[@]}"; do
		read -r rank number node <<<"$line"
		pid[rank]=$number
	done
	[ -z "${NET_LIBFABRIC-}" ] || grep -q " $NET_LIBFABRIC/libfabric\." "/proc/${pid[0]}/maps" ||
		fail "rank 0 does not use the library in $NET_LIBFABRIC" # tests/net/run --libfabric
}
pid=()

# Waits until each rank except those in LOST has named one of LOST as lost and has ended. Sets took to a text
# with both times.
all_name() { # NAME START LIMIT_MS LOST...
	local name=$1 start=$2 limit=$3 rank others=() lost="${*:4}" named
	for rank in "${!pid[@]}"; do
		[[ " $lost " == *" $rank "* ]] || others+=("$rank")
	done
	for rank in "${others[@]}"; do
		until grep -qE "rank [${lost// /}] \(node n[1-9]\) is lost" "$SCRATCH/$name.err.$rank" 2>/dev/null; do
			[ $(($(now_ms) - start)) -le "$limit" ] ||
				{ show "$name"; fail "rank $rank does not name rank $lost as lost within $limit ms"; }
			sleep 0.02
		done
	done
	named=$(($(now_ms) - start))
	took=$(wait_gone "$start" "$limit" $(for rank in "${others[@]}"; do echo "${pid[rank]}"; done)) ||
		{ show "$name"; fail "other ranks still run after $took ms"; }
	took="after $named ms and ended after $took ms"
}

# Prints the processor time that a process has used, in hundredths of a second.
processor_time() { # PID
	sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

# ---- damage while a job trains: test_reset and test_flips --------------------------------------------

# Prints the connections of the job's ranks on NODE to ranks on other nodes: lines "FROM TO", each "ADDRESS:PORT".
connections() { # NODE
	on "$1" ss -Htnp state established | awk '/sluice-train/ {
		from = $3; to = $4
		sub(/:[0-9]*$/, "", from); sub(/:[0-9]*$/, "", to)
		if (from != to && to ~ /^198\.1[89]\./) print $3, $4 }'
}

# Waits for a job that was damaged, and sets how. It is "right digest", or "ended and named" if each rank has named
# a rank and its node. After the training, one such rank is enough. Returns 1 if the job ended in another way, or
# if SECONDS passed without a step.
how_it_ended() { # NAME SECONDS
	local name=$1 limit=$(($2 * 1000)) start=$(now_ms) steps=0 now status least named
	while kill -0 "$job_pid" 2>/dev/null; do
		now=$(wc -l 2>/dev/null <"$SCRATCH/$name.metrics")
		[ "$now" = "$steps" ] || steps=$now start=$(now_ms)
		if [ $(($(now_ms) - start)) -gt "$limit" ]; then
			kill -KILL $(ranks | awk '{ print $2 }') 2>/dev/null
			wait "$job_pid"
			how="it hangs: it did no step in $2 s"
			return 1
		fi
		sleep 0.05
	done
	wait "$job_pid"
	status=$?
	how="wrong digest"
	[ ! -s "$SCRATCH/$name.out" ] || (same_digest "$name") >/dev/null || return 1
	how="right digest"
	[ $status != 0 ] || return 0
	how="ended and named" least=4
	[ ! -s "$SCRATCH/$name.out" ] || how="right digest, and named at the end" least=1
	named=$(grep -lE "rank [0-3] \(node n[1-4]\)" "$SCRATCH/$name".err.* | wc -l)
	[ "$named" -lt $least ] || return 0
	how="ended with status $status, named by $named ranks"
	return 1
}

# Prints how often each result occurs in FILE, which has one result per line.
counts() { # FILE
	sort "$1" | uniq -c | awk '{ n = $1; $1 = ""; printf "%s%s: %d", (NR > 1 ? "," : ""), $0, n }'
}
