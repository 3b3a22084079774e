# SPDX-License-Identifier: BSD-3-Clause
# A job on two machines over verbs ends with the same bits as on one of them over shared memory. All bytes
# between ranks go over verbs.
# machines: 2
# quick: 1
. "$TOP/tests/vm/lib.sh"

for what in sparse dense; do
	options=("${small[@]}" --shards 4 --digest --recipe "$sparse")
	[ $what = sparse ] || options=("${small[@]}" --shards 4 --digest --dense)
	nodes=1 SLUICE_TRANSPORT=shm job_ok $what-shm 4 "$train" "${options[@]}"
	job_ok $what-verbs 4 "$train" "${options[@]}"
	[ "$(node_of 0) $(node_of 3)" = "n1 n2" ] || fail "the job did not run on both machines"
	echo "| $what: digest on one machine over shm $(final $what-shm digest), on two over verbs $(final $what-verbs digest); bytes over verbs $(bytes_over $what-verbs verbs)"
	[ -n "$(final $what-shm digest)" ] || fail "no digest"
	[ "$(final $what-shm digest)" = "$(final $what-verbs digest)" ] || fail "the digests differ"
	[ "$(bytes_over $what-verbs verbs)" -gt 0 ] || fail "no byte over verbs"
done
