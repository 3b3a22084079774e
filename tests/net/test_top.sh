# SPDX-License-Identifier: BSD-3-Clause
# sluice-top --nodes shows the ranks of all four nodes, none of which sees the processes of another. If the viewer is
# killed, its readers end on all nodes, and the job continues.
# limit: 600 s
. "$TOP/tests/net/lib.sh"
top=$BUILD/sluice-top
[ -x "$top" ] || skip "sluice-top was not built"
for tool in jq script; do
	command -v $tool >/dev/null || skip "no $tool"
done

endless top $small --recipe "$sparse" --shards 2
id=$(squeue -h -t R -o %A | tail -n 1)
[ "$(on n1 "$top" --job "$id" --json | jq '.ranks | length')" = 1 ] || fail "n1 alone does not show one rank"
said=$("$top" --nodes --once 2>&1)
[ $? = 3 ] && [[ $said = *"--nodes needs --job"* ]] || fail "--nodes without a job: $said"
said=$("$top" --nodes --job 99999 --once 2>&1) && fail "a job that does not exist was found"
[[ $said = *"srun has ended; no node has answered; the last line of srun is: squeue: job 99999 does not run"* ]] || fail "a job that does not exist: $said"

"$top" --nodes --job "$id" --json >all || { show top; fail "--nodes --json: status $?"; }
jq -e '[.ranks[] | [.rank, .node]] == [[0, "n1"], [1, "n2"], [2, "n3"], [3, "n4"]] and
	([.ranks[].models[0].steps] | all(. > 0))' all >/dev/null || { cat all; fail "--json does not show one rank per node"; }
"$top" --nodes --job "$id" --once --interval 0.5 >once || { cat once; fail "--nodes --once: status $?"; }
says once "4 of 4 ranks are shown, on 4 nodes" || { cat once; fail "--once does not count 4 nodes"; }
[ "$(grep -cE '^ +[0-3] n[1-4] +[0-9]+ +[0-9.]+ [CPWRA.]{16} ' once)" = 4 ] ||
	{ cat once; fail "--once does not show the rates of 4 ranks"; }

readers() { pgrep -f -- "^[^ ]*sluice-top --relay --job $id"; } # without srun, whose command line has the same words
view() { # starts a viewer and waits until it shows all ranks
	local tries
	rm -f screen # of an earlier viewer: the new one may open its file only after the first look
	script -qec "stty rows 40 cols 120; exec '$top' --nodes --job $id --interval 0.2" /dev/null >screen 2>&1 </dev/null &
	viewer=$!
	for ((tries = 0; tries < 1200; tries++)); do
		! grep -qs "4 of 4 ranks are shown" screen || break
		sleep 0.1
	done
	[ $tries -lt 1200 ] && [ "$(readers | wc -l)" = 4 ] || { cat -v screen | tail -n 30; fail "the viewer does not show 4 ranks"; }
}
no_readers() { # AFTER
	local tries
	for ((tries = 0; tries < 1200; tries++)); do
		[ -n "$(readers)" ] || return 0
		sleep 0.1
	done
	pgrep -af -- --relay
	fail "readers run after $1"
}
view
child=$(pgrep -P "$viewer") && kill -KILL $child
wait "$viewer"
no_readers "the viewer was killed"

# A viewer that misses a node says so and ends.
view
kill -KILL "$(readers | tail -n 1)"
wait "$viewer"
no_readers "one of them was killed"
says screen "no rank is shown any more; 4 of 4 nodes have answered; the last line of srun is: .*srun: " ||
	{ cat -v screen | tail -n 5; fail "the viewer does not say why it ended"; }
before=$(wc -l <"$SCRATCH/top.metrics")
wait_lines "$SCRATCH/top.metrics" $((before + 3)) 60 || { show top; fail "the job makes no steps after the viewer was killed"; }
scancel -s KILL "$id"
wait "$job_pid"
echo "| four ranks on four nodes shown; the readers of a killed viewer ended, and the viewer of a killed reader"
