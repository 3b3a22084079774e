# SPDX-License-Identifier: BSD-3-Clause
# A worker is stopped for 30 s in a job that continues without it. Neither device counts a receiver-not-ready
# error.
. "$TOP/tests/vm/lib.sh"
stopped=
trap '[ -z "$stopped" ] || kill -9 "$stopped" 2>/dev/null' EXIT

rnr() { echo $(($(counters rxe1 rcvd_rnr_err send_rnr_err retry_rnr_exceeded_err) + $(counters rxe2 rcvd_rnr_err send_rnr_err retry_rnr_exceeded_err))); }
export SLUICE_ON_FAILURE=continue
before=$(rnr)
job_start stopped 4 "$train" "${small[@]}" --epochs 100000 --servers 1 --shards 4 --recipe "$sparse" --metrics metrics
wait_lines metrics 3 40 || { show stopped; fail "no step was done within 40 s"; }
stopped=$(pid_of 1)
kill -STOP "$stopped"
start=$(now_ms)
took=$(wait_named stopped 1 "$start" 8000 0 2 3) ||
	{ show stopped; fail "not all others name rank 1 as lost after $took ms"; }
lines=$(wc -l <metrics)
sleep $((30 - took / 1000))
more=$(($(wc -l <metrics) - lines))
[ $more -ge 10 ] || { show stopped; fail "the job did $more steps without rank 1"; }
kill -CONT "$stopped"
sleep 2
errors=$(($(rnr) - before))
kill -TERM "$(pid_of 0)"
wait_gone "$(now_ms)" 15000 "$(pid_of 0)" "$(pid_of 2)" "$(pid_of 3)" >/dev/null ||
	{ show stopped; fail "the other ranks do not end"; }
says stopped.err.0 'stopped by a signal after step' || { show stopped; fail "the job did not end well"; }
wait_gone "$(now_ms)" 10000 "$stopped" >/dev/null || { show stopped; fail "the rank that was dropped does not end"; }
wait "$job_pid"
echo "| rank 1 stopped for 30 s, lost after $took ms; $more steps without it; $errors receiver-not-ready errors"
[ $errors = 0 ] || fail "$errors receiver-not-ready errors"
