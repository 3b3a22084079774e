# SPDX-License-Identifier: BSD-3-Clause
# A cable changes bits that the TCP checksum does not detect. No result may be wrong, and no rank may wait
# forever for lost data. FLIPS_RANDOM is the number of tries with a changed bit anywhere, FLIPS_AIMED with one
# in the key of a small put.
# limit: 7200 s
. "$TOP/tests/net/lib.sh"
anywhere=${FLIPS_RANDOM:-$(repeats 6)} aimed=${FLIPS_AIMED:-$(repeats 2)}
options="$small --shards 4 --digest --epochs 40"

on_one_node undisturbed $options --recipe "$sparse"
export FLIPS=$SCRATCH/flips sparse options anywhere aimed DEVCLUSTER_CABLE=$TOP/tests/net/flipping_cable
"$TOP/tools/devcluster/devcluster" run -n 4 -c 8 --net unlimited,0ms -- bash -c '
	. "$TOP/tests/net/lib.sh"
	export SLUICE_LOST_AFTER=5s
	misses=0 # jobs that ended before a bit was changed; they are repeated
	for ((try = 0; try < anywhere + aimed && misses <= 5 + (anywhere + aimed) / 5; )); do
		where=any kind=anywhere
		[ $((RANDOM % 2)) = 0 ] || where=head
		[ $try -lt $anywhere ] || where=at:46:80 kind=aimed
		rm -f flips.log
		job_start flips 4 $options --recipe "$sparse" --metrics "$SCRATCH/flips.metrics"
		wait_lines flips.metrics 10 60 || { show flips; fail "no step was done within 60 s"; }
		of_the_job=$(for node in n1 n2 n3 n4; do connections $node; done | tr " " -)
		echo "1 $((RANDOM % 100)) $where" $of_the_job >flips.new && mv flips.new flips
		how_it_ended flips 10 || { show flips; touch wrong; }
		if [ -e flips.log ]; then
			try=$((try + 1))
			echo "$kind, $how" >>flips.tries
			echo "$how: $(head -n 1 flips.log)"
		else
			misses=$((misses + 1))
		fi
		rm -f flips.[emos]* flips
	done' || fail "the tries did not end"
echo "| $anywhere bits anywhere and $aimed in the key of a put: $(counts flips.tries)"
[ ! -e wrong ] || fail "see above"
[ "$(wc -l <flips.tries)" = $((anywhere + aimed)) ] || fail "too many jobs ended before a bit was changed"
