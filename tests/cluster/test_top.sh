# SPDX-License-Identifier: BSD-3-Clause
# sluice-top shows a running job and never harms it: its steps go on while viewers are killed, a stopped rank
# shows as the one for which others wait, another user sees nothing, and no page outlives the job.
. "$TOP/tests/cluster/lib.sh"
top=$BUILD/sluice-top
[ -x "$top" ] || skip "sluice-top was not built"
for tool in jq setpriv script; do
	command -v $tool >/dev/null || skip "no $tool"
done
outside=
stopped=
trap '[ -z "$stopped" ] || kill -CONT "$stopped"; rm -rf "$outside"' EXIT

# Another cluster on the machine can have a job of the same number, so only this test's processes count.
own=[]
json() {
	"$top" --job "$id" --json 2>/dev/null |
		jq --argjson own "$own" '.ranks |= map(select(.pid as $pid | $own | index($pid) != null))'
}
steps() { json | jq '[.ranks[] | select(.rank == 0).models[].steps] | max // 0'; }

# Waits until the filter is true of the JSON text, for 300 s at most.
wait_json() { # FILTER
	local tries text
	for ((tries = 0; tries < 3000; tries++)); do
		text=$(json) && [ -n "$text" ] && jq -e "$1" >/dev/null 2>&1 <<<"$text" && return 0
		sleep 0.1
	done
	jq . <<<"$text" | head -60
	return 1
}
wait_steps() { wait_json "[.ranks[] | select(.rank == 0).models[].steps] | max > $1"; } # STEPS

# The lost rank must not end the job while it is stopped.
job_limit=900
SLUICE_LOST_AFTER=1h SLUICE_WAIT_TIMEOUT=2h job_start top 4 $small --epochs 100000 --recipe "$sparse"
id=
for ((tries = 0; tries < 3000; tries++)); do
	id=$(squeue -h -t R -o %A 2>/dev/null | tail -n 1)
	[ -z "$id" ] || break
	sleep 0.1
done
[ -n "$id" ] || fail "no job appeared in squeue"
for ((tries = 0; tries < 3000; tries++)); do
	own=[$(ranks | awk '{ print $2 }' | paste -sd ,)]
	[ "$(jq length <<<"$own")" != 4 ] || break
	sleep 0.1
done
wait_json '.ranks | length == 4' || { show top; fail "4 ranks are not shown"; }
wait_steps 5 || { show top; fail "rank 0 does not make 5 steps"; }

# Each of the outputs.
"$top" --job "$id" --once --interval 0.2 >once || { show top; fail "--once: status $?"; }
[ "$(grep -cE '^ +[0-3] n[12] ' once)" -ge 4 ] || { cat once; fail "--once does not show 4 ranks"; }
"$top" --job "$id" --rank 2 --once --interval 0.2 | grep -q "pushed_bytes" || fail "--rank 2 has no numbers"
"$top" --job "$id.99" --once >none 2>&1 && fail "a step that does not exist was found"
says none "no rank of job $id.99" || fail "no sentence about a missing step"
"$top" --job "$id" --json --openmetrics >none 2>&1
[ $? = 3 ] && says none "one of --once, --json, --openmetrics and --merge" || fail "two outputs at once are not refused"

# Viewers that are killed at some moment.
for ((i = 0; i < 10; i++)); do
	before=$(steps)
	script -qec "stty rows 40 cols 120; exec '$top' --job $id --interval 0.1" /dev/null >screen.$i 2>&1 </dev/null &
	viewer=$!
	for ((tries = 0; tries < 3000; tries++)); do
		grep -qs "split of a step" screen.$i && break
		sleep 0.1
	done
	child=$(pgrep -P "$viewer") && kill -KILL $child
	wait "$viewer" 2>/dev/null
	grep -q "split of a step" screen.$i || { cat -v screen.$i | head; fail "the viewer drew nothing"; }
	wait_steps "$before" || { show top; fail "no step after viewer $i was killed"; }
done

# Another user, with a copy of the program, because the folder of the build may be closed to others.
if [ "$(id -u)" = 0 ]; then
	outside=$(mktemp -d /tmp/sluice-top-test.XXXXXX) || fail "no folder in /tmp"
	chmod 755 "$outside"
	program_file=$BUILD/.libs/sluice-top
	[ -x "$program_file" ] || program_file=$top
	cp "$program_file" "$outside/sluice-top" && chmod 755 "$outside/sluice-top" || fail "no copy of the program"
	other() { (cd / && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$outside/sluice-top" "$@"); }
	other --version >version || fail "another user cannot run the program"
	other --job "$id" --json >foreign 2>&1 && { cat foreign; fail "another user sees the job"; }
	says foreign "no rank of job $id of this user" || fail "no sentence for another user"
fi

# A stopped rank. The others wait for it.
stopped=$(json | jq '.ranks[] | select(.rank == 2).pid')
kill -STOP "$stopped" || fail "rank 2 cannot be stopped"
wait_json '[.ranks[] | select(.rank != 2) | (.waits.for // []) | index(2)] | any' ||
	{ show top; fail "nobody is shown to wait for rank 2"; }
"$top" --job "$id" --once --interval 0.2 >once
says once '^ +2 n[12] .*STOPPED' || fail "rank 2 is not shown as stopped"
before=$(steps)
kill -CONT "$stopped"
stopped=
wait_steps $((before + 1)) || { show top; fail "no step after rank 2 continued"; }

scancel -s KILL "$id"
wait "$job_pid"
for ((tries = 0; tries < 3000; tries++)); do
	[ "$(json | jq '.ranks | length')" -gt 0 ] 2>/dev/null || break
	sleep 0.1
done
[ $tries -lt 3000 ] || fail "the job has ended, but is shown"
"$top" --job "$id.99" --json >gone 2>&1 && fail "a step that has ended is shown"
says gone "no rank of job $id" || fail "no sentence after the end"
echo "| 4 ranks shown, 10 viewers killed, last step $before"
