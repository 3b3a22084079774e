# SPDX-License-Identifier: BSD-3-Clause
# Networks that lose packets, or deliver them late or out of order, do not change any bit.
# long
# limit: 600 s
. "$TOP/tests/net/lib.sh"

options="$small --limit 1000 --shards 4 --digest"
on_one_node undisturbed $options --recipe "$sparse"
for ((round = 1; round <= ${LOSSY_ROUNDS:-1}; round++)); do
	for net in 100mbit,0ms,1% 100mbit,0ms,3% 100mbit,20ms/5ms; do
		"$TOP/tools/devcluster/devcluster" run -n 4 -c 8 --net "$net" -- bash -c '
			. "$TOP/tests/net/lib.sh"
			job_ok lossy 4 "$@"' - $options --recipe "$sparse" || fail "the job over $net failed"
		same_digest lossy "over $net"
		echo "| $net: digest $(final lossy digest) as undisturbed, $(final lossy seconds) s (undisturbed $(final undisturbed seconds) s)"
		rm -f lossy.*
	done
done
