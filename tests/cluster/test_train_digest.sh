# SPDX-License-Identifier: BSD-3-Clause
# Synchronous training gives the same bits on all ranks at every step (--digest), in two runs, and with the
# shards on dedicated servers.
. "$TOP/tests/cluster/lib.sh"

for run in a b; do
	job_ok $run 4 $small --recipe "$sparse" --shards 4 --digest
done
job_ok servers 8 $small --recipe "$sparse" --shards 4 --servers 4 --digest
a=$(final a digest) b=$(final b digest) servers=$(final servers digest)
echo "| digests: $a, again $b, with servers=4 $servers"
[ -n "$a" ] || fail "no digest in the last line: $(tail -n 1 a.out)"
[ "$a" = "$b" ] || fail "two equal runs end with different parameters"
[ "$a" = "$servers" ] || fail "dedicated servers change the result"

# The same job in one process has the same bits and counts the same bytes.
"$train" --simulate 4 $small --recipe "$sparse" --shards 4 --digest > simulated.out 2> simulated.err ||
	fail "--simulate 4 failed: $(tail -n 3 simulated.err)"
# --servers 0 takes precedence over the variable.
SLUICE_SERVERS=1 "$train" --simulate 4 $small --recipe "$sparse" --shards 4 --servers 0 >none.out 2>none.err ||
	fail "--servers 0 failed: $(tail -n 3 none.err)"
[ "$(final none digest)" = "$a" ] || fail "--servers 0 does not take precedence over SLUICE_SERVERS"
[ "$(final simulated digest)" = "$a" ] || fail "four simulated ranks end with different parameters"
[ "$(final simulated pushed)/$(final simulated pulled)" = "$(final a pushed)/$(final a pulled)" ] ||
	fail "simulated ranks count different bytes: $(tail -n 1 simulated.out), real ones: $(tail -n 1 a.out)"

job_ok other 4 $small --recipe "$sparse" --shards 4 --seed 2
[ "$(final other digest)" != "$a" ] || fail "another seed ends with the same parameters"

# A text, which each rank reads, and local steps of AdamW.
awk 'BEGIN { srand(3); for (i = 0; i < 20000; i++) printf "%c", 97 + int(20 * rand() * rand()) }' >text
local="--model char:$PWD/text --batch 16 --epochs 2 --recipe local4 --inner adamw --lr 0.002 --digest"
job_ok text 4 $local
"$train" --simulate 4 $local >simulated_text.out 2>simulated_text.err ||
	fail "--simulate 4 with a text failed: $(tail -n 3 simulated_text.err)"
for field in digest loss pushed pulled; do
	[ -n "$(final text $field)" ] && [ "$(final text $field)" = "$(final simulated_text $field)" ] ||
		fail "text: $field is $(final text $field), but $(final simulated_text $field) with simulated ranks"
done
echo "| text: loss $(final text loss), digest $(final text digest), the same as simulated"
