# SPDX-License-Identifier: BSD-3-Clause
# A waiting rank uses little processor time: while rank 3 sleeps, each other rank uses less than 5 % of a
# core.
. "$TOP/tests/cluster/lib.sh"

ticks_of() { # prints the user and system time of process $1, in ticks
	sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

seconds=$(repeats 25)
job_start idle 4 $small --recipe "$sparse" --metrics metrics --sleep 3:8:$((seconds + 5))
wait_lines metrics 7 30 || { show idle; fail "no 7 steps within 30 s"; }
sleep 1 # the ranks no longer spin
declare -A before
while read -r rank pid node; do before[$rank]="$pid $(ticks_of "$pid")"; done < <(ranks)
[ ${#before[@]} = 4 ] || fail "${#before[@]} of 4 ranks are running"
sleep $seconds
for rank in 0 1 2 3; do
	read -r pid ticks <<<"${before[$rank]}"
	used=$(($(ticks_of "$pid") - ticks))
	percent=$((used * 1000 / ($(getconf CLK_TCK) * seconds)))
	echo "| rank $rank: $((percent / 10)).$((percent % 10)) % of a core while rank 3 sleeps"
	[ $percent -lt 50 ] || worst=$rank
done
wait "$job_pid" || { show idle; fail "the job did not end well"; }
[ -z "${worst-}" ] || fail "rank $worst is not idle"
