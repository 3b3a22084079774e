# SPDX-License-Identifier: BSD-3-Clause
# The cards of two machines are in different networks with a route between them, as in a fabric where each
# node has its own network. A trial connection finds the route, and the job over verbs ends with the bits of
# shared memory.
# machines: 2
. "$TOP/tests/vm/lib.sh"

join() { # OWN OTHER: prints commands for eth0: the address OWN and a route to the network of OTHER
	echo "ip address add $1/24 dev eth0 && ip route add ${2%.*}.0/24 dev eth0 src $1"
}
sh -c "$(join 10.16.0.1 10.17.0.2)" || fail "no route on vm1"
srun -N1 -n1 -w n2 sh -c "$(join 10.17.0.2 10.16.0.1)" || fail "no route on vm2"
export SLUICE_GID_NET=10.16.0.0/15 SLUICE_LOG=warn,rdma+info

options=("${small[@]}" --shards 4 --digest --recipe "$sparse")
nodes=1 SLUICE_TRANSPORT=shm job_ok route-shm 4 "$train" "${options[@]}"
job_ok route-verbs 4 "$train" "${options[@]}"
echo "| digest over shm $(final route-shm digest), over a route $(final route-verbs digest)"
[ -n "$(final route-shm digest)" ] && [ "$(final route-shm digest)" = "$(final route-verbs digest)" ] ||
	fail "the digests differ"
grep -q 'share no network and connect by a route, which a trial found' route-verbs.err.0 ||
	{ show route-verbs; fail "the log does not name the route"; }
