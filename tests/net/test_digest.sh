# SPDX-License-Identifier: BSD-3-Clause
# If the ranks share only a network, each recipe ends with the same bits as over shared memory.
# limit: 300 s
. "$TOP/tests/net/lib.sh"

both="up=topk(0.01) down=topk(0.01) signal=momentum(0.9) memory=residual update=sgd"
dense="up=all down=all update=momentum(0.9)"

same() { # NAME OPTION...: compares the digest and the counted messages of both runs
	local name=$1 field
	job_ok $name-net 4 $small --shards 4 "${@:2}" --digest
	on_one_node $name-shm $small --shards 4 "${@:2}" --digest
	for field in digest pushed pulled; do
		[ -n "$(final $name-net $field)" ] && [ "$(final $name-net $field)" = "$(final $name-shm $field)" ] ||
			fail "$name: $field is '$(final $name-net $field)' on the network, '$(final $name-shm $field)' in shared memory"
	done
	# all bytes that do not stay in a rank cross the network and are counted there
	[ "$(carried $name-net shm)" = 0 ] && [ "$(carried $name-shm ofi)" = 0 ] ||
		fail "$name: wrong transport: $(carried $name-net shm) bytes through shm, $(carried $name-shm ofi) over ofi"
	[ "$(carried $name-net ofi)" -gt 0 ] || fail "$name: no bytes on the network"
	echo "| $name: digest $(final $name-net digest) on both, $(carried $name-net ofi) bytes on the network"
}

same topk --recipe "$both"
same dense --recipe "$dense"
# a rate at which none of the methods diverges, as some do at the usual rate
for method in scalecom laq sketched pqasgd demo shard-adamw; do
	same $method --method $method --lr 0.002
done
for method in local4 sparseloco; do
	same $method --method $method --lr 0.002 --inner adamw
done
same streaming-diloco --method streaming-diloco --lr 0.002 --inner adamw --shards 6 # a multiple of its fragments
