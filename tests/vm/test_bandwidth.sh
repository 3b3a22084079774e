# SPDX-License-Identifier: BSD-3-Clause
# Compares sluice-bench with perftest, in the same machine and run. There are five alternating rounds, and a
# table of the medians. The figures are not checked, but both programs must succeed.
. "$TOP/tests/vm/lib.sh"

bench=$(program sluice-bench)
[ -x "$bench" ] || fail "no sluice-bench"

# note NAME VALUE: records one figure of this round
note() {
	[ -n "$2" ] || fail "$1: no figure"
	echo "$1 $2" >>figures
}
field() { # FILE BYTES NAME: prints a field of sluice-bench's JSON row for that size
	grep "\"bytes\":$2," "$1" | sed -n "s/.*\"$3\":\\([0-9.e+]*\\).*/\\1/p"
}
mib() { awk -v b="${1:-0}" 'BEGIN { if (b > 0) printf "%.2f\n", b / 1048576 }'; } # perftest's MB

for ((round = 1; round <= ${BENCH_ROUNDS:-5}; round++)); do
	for tool in write read; do
		for size in 65536:200 1048576:40; do
			bytes=${size%:*}
			perf ib_${tool}_bw -s "$bytes" -n "${size#*:}" >perf.out || { cat perf.out perf.server; fail "ib_${tool}_bw"; }
			note ib_${tool}_bw:"$bytes" "$(awk -v b="$bytes" '$1 == b { print $4 }' perf.out)"
		done
		what=$([ $tool = write ] && echo put || echo get)
		job_ok $what 2 "$bench" $what --sizes 64K,1M --seconds 2 --json
		for bytes in 65536 1048576; do
			note $what:$bytes "$(mib "$(field $what.out $bytes bytes_per_second)")"
		done
	done
	for pair in write:put send:notify; do
		perf ib_${pair%:*}_lat -s 8 -n 2000 >perf.out || { cat perf.out perf.server; fail "ib_${pair%:*}_lat"; }
		note ib_${pair%:*}_lat:8 "$(awk '$1 == 8 { print $5 }' perf.out)"
		# perftest never sleeps. This lets a wait of Sluice sleep only after it has taken longer than any
		# message takes.
		SLUICE_SPIN=10ms job_ok lat 2 "$bench" "${pair#*:}" --sizes 8 --seconds 1 --json
		note "${pair#*:}":8 "$(field lat.out 8 us_p50)"
	done
done

median() { # NAME
	awk -v name="$1" '$1 == name { print $2 }' figures | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
row() { # WHAT OURS THEIRS BOUND UNIT
	awk -v what="$1" -v a="$(median "$2")" -v b="$(median "$3")" -v n="$2" -v m="${3%:*}" -v bound="$4" -v unit="$5" \
		'BEGIN { printf "| %-26s %10.2f %s  %-13s %10.2f %s  ratio %.2f (wanted %s)\n", what, a, unit, m, b, unit, a / b, bound }'
}
echo "| medians of ${BENCH_ROUNDS:-5} alternating runs, n1 to n2 (rxe1 to rxe2):"
row "put 64 KiB" put:65536 ib_write_bw:65536 ">= 0.95" MiB/s
row "put 1 MiB" put:1048576 ib_write_bw:1048576 ">= 0.95" MiB/s
row "get 64 KiB" get:65536 ib_read_bw:65536 ">= 0.95" MiB/s
row "get 1 MiB" get:1048576 ib_read_bw:1048576 ">= 0.95" MiB/s
row "put 8 B, peer polls" put:8 ib_write_lat:8 "<= 1.25" us
row "put 8 B with notify" notify:8 ib_send_lat:8 "<= 1.25" us
sed 's/^/figure /' figures
