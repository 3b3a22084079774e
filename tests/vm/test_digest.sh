# SPDX-License-Identifier: BSD-3-Clause
# A job over verbs ends with the bits of simulated ranks, including with dense messages and with dedicated servers.
# All bytes between ranks go over verbs.
# quick: 1
. "$TOP/tests/vm/lib.sh"

over_verbs() { # NAME OPTION...
	local name=$1-verbs
	shift
	SLUICE_TRANSPORT=verbs job_ok "$name" 4 "$train" "${small[@]}" --digest "$@"
	[ "$(bytes_over "$name" verbs)" -gt 0 ] || fail "$name: no byte over verbs"
	[ "$(bytes_over "$name" shm)" = 0 ] || [ -z "$(bytes_over "$name" shm)" ] ||
		fail "$name: bytes over shm although only verbs is allowed"
}

# same NAME OF: the digest of NAME over verbs is that of OF
same() {
	local found wanted
	found=$(final "$1-verbs" digest) wanted=$(final "$2" digest)
	echo "| $1: digest over verbs $found, of simulated ranks $wanted; bytes over verbs $(bytes_over "$1-verbs" verbs)"
	[ -n "$wanted" ] || { show "$2"; fail "$2: no digest"; }
	[ "$found" = "$wanted" ] || fail "$1: the digests differ"
}

compare() { # NAME OPTION...
	simulated "$1" 4 "${small[@]}" --digest "${@:2}"
	over_verbs "$@"
	same "$1" "$1"
}

compare sparse --shards 4 --recipe "$sparse"
compare dense --shards 2 --dense
# Two of four ranks are servers, so two are workers.
simulated servers 2 "${small[@]}" --digest --shards 4 --recipe "$sparse"
over_verbs servers --shards 4 --servers 2 --recipe "$sparse"
same servers servers
# The servers forward control messages, and the workers are not connected with each other.
SLUICE_MESH=2 over_verbs hubs --shards 4 --servers 2 --recipe "$sparse"
same hubs servers
# All ranks connect with rank 0, and with each other when the model is opened: the queues of the cards grow.
SLUICE_MESH=2 over_verbs later --shards 4 --recipe "$sparse"
same later sparse
