# SPDX-License-Identifier: BSD-3-Clause
# Checks the packets on the wire. They have the traffic class 106 (DSCP 26, ECN), or the class that the user
# sets, and so do those of the connection manager. Nodes whose interfaces have different MTUs use the smaller
# one.
# quick: 1
. "$TOP/tests/vm/lib.sh"

classes=$(program tests/vm/classes)
dense=(--shards 2 --dense --digest)
restore() { ip link set v2 mtu 9000; }
trap restore EXIT

# watched NAME: runs the job, and counts its packets on the wire of node 1
watched() {
	local watcher
	"$classes" p1 >"$1.classes" 2>&1 &
	watcher=$!
	job_ok "$1" 4 "$train" "${small[@]}" "${dense[@]}"
	kill -TERM $watcher
	wait $watcher
	[ -s "$1.classes" ] || fail "$1: no RoCE packet passed p1"
}
# only NAME CLASS: fails if a packet has another class. Rejects of the connection manager (308 bytes) may have
# class 0.
only() {
	echo "| $1: traffic class, packets, bytes of the longest: $(tr '\n' ' ' <"$1.classes")"
	[ "$(grep -v '^0 [0-9]* 308$' "$1.classes" | cut -d' ' -f1)" = "$2" ] ||
		fail "$1: not all packets have the traffic class $2"
}
longest() { cut -d' ' -f3 "$1.classes" | sort -n | tail -n 1; }

watched usual
only usual 106
[ "$(longest usual)" -gt 4096 ] || fail "with 9000 bytes on both sides, packets have $(longest usual)"
digest=$(final usual digest)

SLUICE_TRAFFIC_CLASS=184 watched given
only given 184
[ "$(final given digest)" = "$digest" ] || fail "given: the digest differs"

ip link set v2 mtu 1500
watched mixed
only mixed 106
[ "$(longest mixed)" -le 1500 ] || fail "a packet of $(longest mixed) bytes was sent to a node that takes 1500"
[ "$(final mixed digest)" = "$digest" ] || fail "mixed: the digest differs"
