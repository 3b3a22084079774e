# SPDX-License-Identifier: BSD-3-Clause
# A job under Slurm with SLUICE_METRICS and SLUICE_TRACE: one file has the numbers of all ranks while the job runs and
# is gone after it, promtool accepts it where it is installed, the trace is one JSON text with the steps of all ranks,
# and the traces that a killed job leaves can be joined.
# limit: 900 s
. "$TOP/tests/cluster/lib.sh"
top=$BUILD/sluice-top
[ -x "$top" ] || skip "sluice-top was not built"
command -v jq >/dev/null || skip "no jq"

metrics() { cat "$SCRATCH"/metrics-*.prom 2>/dev/null; }
# Waits until the file has a value above LEAST of the first model's steps for RANKS ranks, for 300 s at most.
wait_steps() { # RANKS LEAST
	local tries
	for ((tries = 0; tries < 3000; tries++)); do
		[ "$(metrics | awk -v least="$2" '/^sluice_steps_total/ && $2 > least' | wc -l)" -ge "$1" ] && return 0
		sleep 0.1
	done
	return 1
}

job_limit=900
export SLUICE_METRICS=$SCRATCH/metrics-%j.prom SLUICE_TRACE=$SCRATCH/trace.json
job_start killed 4 $small --epochs 100000 --recipe "$sparse"
wait_steps 4 5 || { show killed; metrics | head; fail "the file does not show 5 steps of 4 ranks"; }
metrics >text
[ "$(ls "$SCRATCH"/metrics-*.prom | wc -l)" = 1 ] || { ls "$SCRATCH"; fail "not one file for the machine"; }
tail -n 1 text | grep -qxF "# EOF" || fail "the file does not end with # EOF"
[ "$(grep -c '^sluice_waiting_seconds{slurm_job="[0-9]*",slurm_step="[0-9]*",node="n[12]",rank="[0-3]"} ' text)" = 4 ] ||
	{ grep waiting text; fail "not 4 ranks with their labels"; }
if command -v promtool >/dev/null; then
	promtool check metrics <text >checked 2>&1
	[ $? != 1 ] || { cat checked; fail "promtool cannot read the file"; }
fi
id=$(sed -n 's/^sluice_ranks{slurm_job="\([0-9]*\)".*/\1/p' text | head -n 1)
"$top" --job "$id" --openmetrics >now || { show killed; fail "--openmetrics: status $?"; }
grep '^# ' now | cmp -s - <(grep '^# ' text) || fail "sluice-top and the job write different families"

# The job is killed after it has written its traces.
for ((tries = 0; tries < 3000; tries++)); do
	[ "$(ls "$SCRATCH"/trace.json.[0-3] 2>/dev/null | wc -l)" = 4 ] && break
	sleep 0.1
done
[ $tries -lt 3000 ] || { show killed; fail "the ranks write no traces"; }
mkdir parts && cp "$SCRATCH"/trace.json.[0-3] parts
scancel -s KILL "$id"
wait "$job_pid"
# Slurm does not kill all ranks at once. If rank 0 sees the others die, it ends by itself and joins the traces.
[ -e "$SCRATCH/trace.json" ] || [ "$(ls "$SCRATCH"/trace.json.[0-3] | wc -l)" = 4 ] || fail "traces of the killed job are lost"
"$top" --merge parts/trace.json.[0-3] >joined || fail "--merge: status $?"
jq -e '[.traceEvents[] | select(.name == "process_name")] | length == 4' joined >/dev/null ||
	fail "the joined trace does not have 4 ranks"

# A job that ends well leaves one trace and no metrics.
export SLUICE_METRICS=$SCRATCH/ended-%j.prom SLUICE_TRACE=$SCRATCH/ended.json
job_ok ended 4 $small --limit 320 --recipe "$sparse"
ls "$SCRATCH"/ended-* >/dev/null 2>&1 && fail "the metrics are not removed"
[ "$(ls "$SCRATCH"/ended.json*)" = "$SCRATCH/ended.json" ] || { ls "$SCRATCH"; show ended; fail "the traces are not joined"; }
jq -e '[.traceEvents[] | select(.ph == "X" and (.name | startswith("step ")))] |
	(map(.pid) | unique) == [0, 1, 2, 3] and all(.dur > 0)' "$SCRATCH/ended.json" >/dev/null ||
	fail "the trace does not have steps of 4 ranks"
for name in compress push wait apply program; do
	jq -e --arg name $name '[.traceEvents[] | select(.name == $name) | .pid] | unique | length == 4' \
		"$SCRATCH/ended.json" >/dev/null || fail "$name is not in the trace of 4 ranks"
done
echo "| $(grep -c . text) lines of metrics, $(jq '.traceEvents | length' "$SCRATCH/ended.json") events in the trace"
