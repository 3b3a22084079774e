# SPDX-License-Identifier: BSD-3-Clause
# The same job ends with the same bits over verbs and over shared memory, including with dense messages and
# with dedicated servers. All bytes between ranks go over verbs.
# quick: 1
. "$TOP/tests/vm/lib.sh"

compare() { # NAME RANKS OPTION...
	local name=$1 ranks=$2 shm verbs
	shift 2
	SLUICE_TRANSPORT=shm job_ok "$name-shm" "$ranks" "$train" "${small[@]}" --digest "$@"
	SLUICE_TRANSPORT=verbs job_ok "$name-verbs" "$ranks" "$train" "${small[@]}" --digest "$@"
	shm=$(final "$name-shm" digest) verbs=$(final "$name-verbs" digest)
	echo "| $name: digest over shm $shm, over verbs $verbs; bytes over verbs $(bytes_over "$name-verbs" verbs), shm $(bytes_over "$name-verbs" shm)"
	[ -n "$shm" ] || { show "$name-shm"; fail "$name: no digest"; }
	[ "$shm" = "$verbs" ] || fail "$name: the digests differ"
	[ "$(bytes_over "$name-verbs" verbs)" -gt 0 ] || fail "$name: no byte over verbs"
	[ "$(bytes_over "$name-verbs" shm)" = 0 ] || [ -z "$(bytes_over "$name-verbs" shm)" ] ||
		fail "$name: bytes over shm although only verbs is allowed"
}

compare sparse 4 --shards 4 --recipe "$sparse"
of_sparse=$(final sparse-verbs digest)
compare dense 4 --shards 2 --dense
compare servers 4 --shards 4 --servers 2 --recipe "$sparse"
of_servers=$(final servers-verbs digest)
# The servers forward control messages, and the workers are not connected with each other.
export SLUICE_MESH=2
compare hubs 4 --shards 4 --servers 2 --recipe "$sparse"
[ "$(final hubs-verbs digest)" = "$of_servers" ] || fail "hubs: another digest than without them"
# All ranks connect with rank 0, and with each other when the model is opened: the queues of the cards grow.
compare later 4 --shards 4 --recipe "$sparse"
[ "$(final later-verbs digest)" = "$of_sparse" ] || fail "later: another digest than with all connections at the start"
