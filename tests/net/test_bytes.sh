# SPDX-License-Identifier: BSD-3-Clause
# What the interfaces sent is what Sluice counts, but for headers: at most 5 % and what frames of 1500
# bytes add (66 of 1514 bytes), and the start of the job, in which Slurm and PMIx talk.
# limit: 60 s
. "$TOP/tests/net/lib.sh"

before=$(sent_bytes)
job_ok start 4 $small --recipe "up=all down=all update=sgd" --shards 4 --limit 64
start=$(($(sent_bytes) - before)) counted_start=$(carried start ofi)
before=$(sent_bytes)
job_ok dense 4 $small --recipe "up=all down=all update=sgd" --shards 4 --epochs 2
sent=$(($(sent_bytes) - before - start)) counted=$(($(carried dense ofi) - counted_start))
ratio=$(awk -v s=$sent -v c=$counted 'BEGIN { printf "%.4f", s / c }')
echo "| start: $counted_start counted; $counted bytes counted, $sent sent by the interfaces: $ratio of it (and $start for the start of a job)"
awk -v r=$ratio 'BEGIN { exit !(r >= 1 && r <= 1.05 * 1514 / 1448) }' ||
	fail "the interfaces sent $ratio times what Sluice counts"
