# SPDX-License-Identifier: BSD-3-Clause
# The ports have no IP addresses. Ranks connect by datagrams, and the job ends with the bits of shared memory. The
# devices are soft-RoCE devices whose interfaces have only link-local addresses, so packets have a GRH. Node n1 has
# the device l1, and n2 has l2.
. "$TOP/tests/vm/lib.sh"

local_of() { echo "fe80::ff:fe00:20$1"; } # I: link-local address of the hardware address 02:00:00:00:02:0I

ip link add sw3 mtu 9000 type bridge forward_delay 0
ip link set sw3 up
for i in 1 2; do
	ip link add nl$i mtu 9000 address "02:00:00:00:02:0$i" type veth peer name pl$i mtu 9000
	ip link set pl$i master sw3 up
	ip link set nl$i up
	ip -6 neigh replace "$(local_of $((3 - i)))" lladdr "02:00:00:00:02:0$((3 - i))" dev nl$i nud permanent
	rdma link add l$i type rxe netdev nl$i
done
trap 'for i in 1 2; do rdma link delete l$i; ip link delete nl$i; done; ip link delete sw3' EXIT
# The kernel uses an address only after it has found no duplicate in the network.
for ((tries = 0; tries < 50; tries++)); do
	ip -6 addr show tentative | grep -q fe80 || break
	sleep 0.1
done
for i in 1 2; do
	[ "$(cat /sys/class/infiniband/l$i/ports/1/gids/0)" = "fe80:0000:0000:0000:0000:00ff:fe00:020$i" ] ||
		fail "GID 0 of l$i is $(cat /sys/class/infiniband/l$i/ports/1/gids/0)"
done

export RANK_HOOK='case $SLURMD_NODENAME in n1) SLUICE_DEVICE=l1 ;; *) SLUICE_DEVICE=l2 ;; esac'
export SLUICE_BOOT_TIMEOUT=30 SLUICE_LOG=warn,rdma+info

# Without SLUICE_GID_INDEX, ranks do not use such a port.
SLUICE_TRANSPORT=verbs job none 4 "$train" "${small[@]}" --digest && fail "ranks used a port without SLUICE_GID_INDEX"
says "$SCRATCH/none.err.0" 'l1 port 1 has no usable GID' || fail "rank 0 does not name the reason"

SLUICE_TRANSPORT=shm job_ok shm 4 "$train" "${small[@]}" --digest --shards 4 --recipe "$sparse"
SLUICE_GID_INDEX=0 job_ok verbs 4 "$train" "${small[@]}" --digest --shards 4 --recipe "$sparse"
[ -n "$(final shm digest)" ] || { show shm; fail "no digest"; }
[ "$(final shm digest)" = "$(final verbs digest)" ] || { show verbs; fail "the digests differ"; }
[ "$(bytes_over verbs verbs)" -gt 0 ] || fail "no byte over verbs"
says "$SCRATCH/verbs.err.0" 'verbs: l1 port 1 \(Ethernet.*GID fe80::ff:fe00:201 QP 0x' || fail "rank 0 does not name its GID"
echo "| digest over shm $(final shm digest), over verbs without IP $(final verbs digest); bytes over verbs $(bytes_over verbs verbs)"
