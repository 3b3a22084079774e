# SPDX-License-Identifier: BSD-3-Clause
# Runs sluice-bench between two nodes of the cluster. Every test prints figures and valid JSON and counts its
# bytes on the transport that it names. It refuses what it cannot measure with one sentence. The figures
# themselves are not checked.
. "$TOP/tests/cluster/lib.sh"
program=$BUILD/sluice-bench
[ -x "$program" ] || skip "sluice-bench was not built"

for test in put get notify; do
	job_ok "$test" 2 "$test" --sizes 8,4K,1M --seconds 0.05 --limit
	says "$test.out" "^$test: rank 0 \(n1\) with rank 1 \(n2\) over [a-z]+; Sluice " || fail "no heading"
	[ "$(grep -cE '^ +(8|4096|1048576) +[0-9.]+ ' "$test.out")" = 3 ] || { show "$test"; fail "not three rows"; }
	sed -n 's/^ *\(8\|1048576\) /| '"$test"' \1: /p' "$test.out"
	job_ok "$test.json" 2 "$test" --sizes 8..64 --repeat 20 --json
	if command -v python3 >/dev/null; then
		python3 -c '
import json, sys
o = json.load(open(sys.argv[1]))
assert o["test"] == sys.argv[2] and o["nodes"] == ["n1", "n2"], o
assert [r["bytes"] for r in o["rows"]] == [8, 16, 32, 64], o
assert all(r["rounds"] == 20 and 0 < r["us_p50"] <= r["us_p99"] <= r["us_max"] for r in o["rows"]), o
assert all(r["bytes_per_second"] > 0 for r in o["rows"]), o' "$test.json.out" "$test" || fail "JSON of $test"
	fi
done

# If there are more ranks than processors, sluice-bench warns once, on whichever nodes the ranks are.
# Otherwise it does not warn.
program=$SCRATCH/pinned
printf '#!/bin/sh\nexec taskset -c "${CORES:?}" "%s" "$@"\n' "$BUILD/sluice-bench" >"$program"
chmod +x "$program"
core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
shared='warning: 2 ranks share 1 processor on the machine of rank 0'
for test in put step; do
	CORES=$core job_ok crowd.$test 2 $test --repeat 20
	[ "$(cat crowd.$test.err.* | grep -c "$shared")" = 1 ] || { show crowd.$test; fail "$test: no warning"; }
done
if [ "$(nproc)" -ge 2 ]; then
	CORES=$(taskset -cp $$ | sed 's/.*: //') job_ok room 2 notify --sizes 64 --repeat 20
	cat room.err.* | grep 'ranks share' && fail "a warning although each rank has a processor"
fi
program=$BUILD/sluice-bench
# A checksum is only computed for writing. A column that was not measured has a dash.
timeout 60 "$program" codec --n 100K --density 0.01 --steps 3 >codec.out || fail "codec"
says codec.out '^crc32c +[0-9.]+ +[0-9.]+ +[0-9.]+ +- +-$' || fail "codec: crc32c"
grep -i nan codec.out && fail "codec prints a value that is not a number"

# The first pair is measured while two other ranks wait.
job_ok pair 4 notify --with 1 --sizes 64 --repeat 50
says pair.out '^notify: rank 0 \(n1\) with rank 1 \(n1\)' || fail "--with 1 was ignored"

job_ok step 4 step --count 100K --steps 20 --limit
says step.out '^push and pull on rank 0: p50 [0-9.]+ ms.*\(20 steps\)' || fail "no times"
says step.out '^per worker and step: pushed [0-9]+ bytes' || fail "no bytes"
# 20 steps push one message per shard and step: one put with notify for each of the two shards of 100K, and
# the notices.
says step.out '^rank 0 over self, per step: 2\.0 puts \([0-9]+ bytes, 2\.0 with notify\), 1\.0 gets' || fail "self"
sed -n 's/^push and pull/| step of 100K, 4 workers: &/p' step.out

# The time line has rows of all workers: what the calls did, and what the shards did, which not every rank owns.
job_ok timeline 4 step --count 100K --steps 20 --timeline
bar=' +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9]+ +\|[ .#]{64}\|$'
for rank in 0 1 2 3; do
	for what in compress push apply; do
		says timeline.out "^ +$rank +$what$bar" || fail "no row $what of rank $rank"
	done
done
says timeline.out "^ +[0-3] +publish$bar" || fail "no shard publishes"
job_ok timeline.json 2 step --count 100K --steps 5 --timeline --json
if command -v python3 >/dev/null; then
	python3 -c '
import json, sys
o = json.load(open(sys.argv[1]))["timeline"]
assert o["ms"] > 0 and [w["rank"] for w in o["workers"]] == [0, 1], o
for w in o["workers"]:
    assert {s["kind"] for s in w["slices"]} >= {"compress", "push", "apply"}, w
    assert all(s["begin_ms"] <= s["end_ms"] and s["thread"] > 0 for s in w["slices"]), w
assert any(s["kind"] == "publish" for w in o["workers"] for s in w["slices"]), o' \
		timeline.json.out || fail "JSON of the time line"
fi
if command -v jq >/dev/null && command -v gnuplot >/dev/null; then
	"$TOP/tools/bench/timeline-plot" -o timeline.svg "timeline.json.out=two ranks" || fail "timeline-plot"
	says timeline.svg 'two ranks' || fail "the picture of the time line has no title"
fi
srun_options=(--export=ALL,SLUICE_SERVERS=1)
job_ok servers 3 step --count 10K --steps 5 --gradient zeros --json
srun_options=()
grep -q '"workers":2,"servers":1' servers.out || fail "the server is not counted"

refused() { # NAME RANKS SENTENCE OPTION...: status 1 or 2, with the sentence on stderr
	local name=$1 ranks=$2 sentence=$3 status=0
	shift 3
	job "$name" "$ranks" "$@" || status=$?
	[ $status = 1 ] || [ $status = 2 ] || fail "$name: status $status"
	cat "$name".err.* | grep -q "$sentence" || { show "$name"; fail "$name: no rank prints: $sentence"; }
}
refused alone 2 'names no rank of this job' put --with 5
refused typo 2 'there is no test "putt"' putt
refused sizes 2 'cannot take "8,,9"' put --sizes 8,,9
[ "$(cat typo.err.* | wc -l)" = 1 ] || fail "more than one rank complains"
"$program" put >one.out 2>&1 && fail "a job of one measured something"
says one.out 'needs two ranks: srun -n2 --mpi=pmix sluice-bench put' || fail "a job of one rank is not told why"
