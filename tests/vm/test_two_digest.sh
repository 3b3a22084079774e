# SPDX-License-Identifier: BSD-3-Clause
# A job on two machines over verbs ends with the bits of simulated ranks on one of them. All bytes between ranks go
# over verbs.
# machines: 2
# quick: 1
. "$TOP/tests/vm/lib.sh"

for what in sparse dense; do
	options=("${small[@]}" --shards 4 --digest --recipe "$sparse")
	[ $what = sparse ] || options=("${small[@]}" --shards 4 --digest --dense)
	simulated $what 4 "${options[@]}"
	job_ok $what-verbs 4 "$train" "${options[@]}"
	[ "$(node_of 0) $(node_of 3)" = "n1 n2" ] || fail "the job did not run on both machines"
	echo "| $what: digest of simulated ranks $(final $what digest), on two over verbs $(final $what-verbs digest); bytes over verbs $(bytes_over $what-verbs verbs)"
	[ -n "$(final $what digest)" ] || fail "no digest"
	[ "$(final $what digest)" = "$(final $what-verbs digest)" ] || fail "the digests differ"
	[ "$(bytes_over $what-verbs verbs)" -gt 0 ] || fail "no byte over verbs"
done
