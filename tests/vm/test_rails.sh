# SPDX-License-Identifier: BSD-3-Clause
# Nodes have several cards in several networks. Every job starts within 15 s and ends with the bits of shared
# memory, or all ranks name the cause at once. Node n1 has the devices a1 and a2, and n2 has b1 and b2. a1 and
# b1 are on one switch, a2 and b2 on another.
. "$TOP/tests/vm/lib.sh"

modprobe -a 8021q || skip "no module 8021q in the virtual machine"
devices="a1 a2 b1 b2"

mac_of() { # DEVICE
	local i=0 name
	for name in $devices; do
		i=$((i + 1))
		[ $name != $1 ] || echo "02:00:00:00:01:0$i"
	done
}

for switch in 1 2; do
	ip link add sw$switch mtu 9000 type bridge forward_delay 0
	ip link set sw$switch up
done
for name in $devices; do
	switch=${name#?}
	ip link add n$name mtu 9000 address "$(mac_of $name)" type veth peer name p$name mtu 9000
	ip link set p$name master sw$switch up
	ip link set n$name up
	rdma link add $name type rxe netdev n$name
done
trap 'for name in $devices; do rdma link delete $name; ip link delete n$name; done; ip link delete sw1; ip link delete sw2' EXIT

# addresses DEVICE ADDRESS...: assigns these addresses in this order. "100:ADDRESS" is on VLAN 100 of the
# device.
addresses() {
	local device=$1 address interface
	shift
	[ ! -e /sys/class/net/n$device.100 ] || ip link delete n$device.100
	ip addr flush dev n$device
	for address in "$@"; do
		interface=n$device
		case $address in
		100:*)
			interface=n$device.100
			ip link add link n$device name $interface type vlan id 100
			ip link set $interface up
			address=${address#100:}
			;;
		esac
		ip addr add "$address" dev "$interface"
	done
}

# cards N1 N2: sets SLUICE_DEVICE on each node
cards() {
	export RANK_HOOK="case \$SLURMD_NODENAME in n1) SLUICE_DEVICE=$1 ;; *) SLUICE_DEVICE=$2 ;; esac"
}

sum=
export SLUICE_BOOT_TIMEOUT=15 SLUICE_LOG=warn,rdma+info
train_job() { job_ok "$1" 4 "$train" "${small[@]}" --digest --shards 4 --recipe "$sparse"; }

# same NAME [TRANSPORT]: a job of four ranks must end with the digest of shm, and its bytes must use TRANSPORT
# (verbs)
same() {
	local name=$1 transport=${2:-verbs}
	train_job "$name"
	[ "$(final "$name" digest)" = "$sum" ] || { show "$name"; fail "$name: digest $(final "$name" digest), over shm $sum"; }
	[ "$(bytes_over "$name" "$transport")" -gt 0 ] || { show "$name"; fail "$name: no byte over $transport"; }
	echo "| $name: digest of shm, over $transport: $(grep -h 'pairs\? of ranks' "$SCRATCH/$name".err.0 | sed 's/^.*verbs: //' | head -n 1)"
}

SLUICE_TRANSPORT=shm train_job shm
sum=$(final shm digest)
[ -n "$sum" ] || { show shm; fail "no digest"; }

# Two rails without a route between them. The ranks of a node use its cards in turn.
addresses a1 10.11.0.1/24
addresses a2 10.12.0.1/24
addresses b1 10.11.0.2/24
addresses b2 10.12.0.2/24
cards a1,a2 b1,b2
same rails
says "$SCRATCH/rails.err.0" 'verbs: a1 port 1 .*one of 2 that ranks take in turn' || fail "rank 0 is not on a1"
says "$SCRATCH/rails.err.1" 'verbs: a2 port 1 .*one of 2 that ranks take in turn' || fail "rank 1 is not on a2"
says "$SCRATCH/rails.err.0" 'verbs: [0-9]+ pairs of ranks connect through cards of one network' ||
	fail "the log does not name the networks"

# only one node has both rails
cards a1,a2 b2
same half

# one card has no address, and another is in a different network
addresses b1
cards a1,a2 b1,b2
same no_address
addresses b1 10.15.0.2/24
same elsewhere

# The cards share only a VLAN. The kernel lists its address first on one node and second on the other.
addresses a1 10.14.0.1/24 100:10.13.0.1/24
addresses b1 100:10.13.0.2/24 10.15.0.2/24
cards a1 b1
same vlan
SLUICE_GID_NET=10.13.0.0/16 same vlan_by_name
says "$SCRATCH/vlan_by_name.err.0" 'verbs: a1 port 1 .*10\.13\.0\.1' || fail "SLUICE_GID_NET is ignored"

# Without a common network or a route, the ranks report it or use another transport.
addresses a1 10.11.0.1/24
addresses b2 10.12.0.2/24
cards a1 b2
job cut 4 "$train" "${small[@]}" --digest && fail "ranks without a route started"
a1='a1 10\.11\.0\.1/24 \(RoCE\)' b2='b2 10\.12\.0\.2/24 \(RoCE\)'
for rank in 0 1 2 3; do # a rank names its own card first
	[ "$rank" -lt 2 ] && pair="$a1.*$b2" || pair="$b2.*$a1"
	says "$SCRATCH/cut.err.$rank" \
		"share no network, and a trial found no route .*$pair: (no route|a trial connection) to 10\\.1[12]\\.0\\.[12]" ||
		fail "rank $rank does not name the cause"
done
SLUICE_TRANSPORT=verbs,ofi same fallback ofi
says "$SCRATCH/fallback.err.0" 'verbs: 4 pairs of ranks share no network, and a trial found no route; they use ofi' ||
	fail "the fallback is not named"
