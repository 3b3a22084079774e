# SPDX-License-Identifier: BSD-3-Clause
# Trains asynchronously with a slow rank. The other ranks run ahead of it by the number of updates that the
# recipe allows, and no further. At anchors, all ranks have the same bits.
. "$TOP/tests/cluster/lib.sh"

most() { tail -n 1 "$1" | sed -n 's/.*"staleness_most":\([0-9]*\).*/\1/p'; }

job_ok synchronous 4 $small --shards 1 --recipe "up=all down=all" --sleep 1:8:2 --metrics synchronous.json
[ "$(most synchronous.json)" = 0 ] || fail "synchronous pushes are $(most synchronous.json) versions behind"

# While rank 1 sleeps with the parameters of its step 7, shard 0 on rank 0 counts 12 pushes of the other
# ranks.
job_ok slow 4 $small --shards 1 --recipe "up=all down=all when=async(12)" --lr 0.02 --sleep 1:8:5 --metrics slow.json
echo "| staleness with a rank that sleeps: at most $(most slow.json)"
[ "$(most slow.json)" = 12 ] || fail "staleness at most $(most slow.json), but async(12) allows 12"
accuracy=$(final slow accuracy)
awk -v a="$accuracy" 'BEGIN { exit !(a > 0.5) }' || fail "accuracy $accuracy"

job_ok anchors 4 $small --shards 3 --lr 0.05 --digest --metrics anchors.json --sleep 2:5:2 \
	--recipe "up=all,uniform(4) down=all,uniform(4) signal=svrg(40) when=async(6)"
[ "$(most anchors.json)" -le 6 ] || fail "staleness at most $(most anchors.json) with async(6)"
echo "| anchors: $(tail -n 1 anchors.out)"
