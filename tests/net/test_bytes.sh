# SPDX-License-Identifier: BSD-3-Clause
# The interfaces send the bytes that Sluice counts, plus headers. At most 5 % may be added, besides the
# headers of frames of 1500 bytes (66 of 1514 bytes) and the start of the job, when Slurm and PMIx
# communicate.
. "$TOP/tests/net/lib.sh"

before=$(sent_bytes)
job_ok start 4 $small --recipe "up=all down=all update=sgd" --shards 4 --limit 64
start=$(($(sent_bytes) - before)) counted_start=$(carried start ofi)
before=$(sent_bytes)
job_ok dense 4 $small --recipe "up=all down=all update=sgd" --shards 4 --epochs 2
sent=$(($(sent_bytes) - before - start)) counted=$(($(carried dense ofi) - counted_start))
ratio=$(awk -v s=$sent -v c=$counted 'BEGIN { printf "%.4f", s / c }')
echo "| $counted bytes counted, $sent sent by the interfaces: ratio $ratio;" \
	"start of the job: $counted_start counted, $start sent"
awk -v r=$ratio 'BEGIN { exit !(r >= 1 && r <= 1.05 * 1514 / 1448) }' ||
	fail "the interfaces sent $ratio times the bytes that Sluice counts"
