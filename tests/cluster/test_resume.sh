# SPDX-License-Identifier: BSD-3-Clause
# After SIGUSR1 to any one rank, the job finishes the step, writes a checkpoint and ends with status 0. When
# it is resumed, it ends with the digest of a run that was not interrupted. The same holds for a periodic
# checkpoint.
. "$TOP/tests/cluster/lib.sh"

options="$small --epochs 2 --shards 4"
job_ok whole 4 $options --recipe "$sparse"
steps=$(final whole steps) digest=$(final whole digest)
[ -n "$digest" ] || fail "no digest: $(tail -n 1 whole.out)"

# the pause only makes sure that the signal arrives during the run
job_start first 4 $options --recipe "$sparse" --checkpoint saved --metrics metrics --sleep 0:20:2
wait_lines metrics 19 30 || { show first; fail "no 19 steps within 30 s"; }
kill -USR1 "$(ranks | awk '$1 == 2 { print $2 }')"
wait "$job_pid" || { show first; fail "the interrupted job did not end with status 0"; }
says first.out '^interrupted step=' || fail "the interrupted job does not name the step"
stopped_at=$(sed -n 's/^interrupted step=\([0-9]*\).*/\1/p' first.out)
[ "$stopped_at" -ge 19 ] && [ "$stopped_at" -lt "$steps" ] || fail "stopped at step $stopped_at of $steps"
job_ok second 4 $options --recipe "$sparse" --checkpoint saved --resume --metrics metrics
echo "| interrupted at step $stopped_at of $steps; digest $(final second digest), uninterrupted $digest"
[ "$(final second digest)" = "$digest" ] || fail "the resumed run ends with different parameters"
[ "$(final second steps)" = "$steps" ] || fail "the resumed run counts $(final second steps) steps"
total=$(sed -n '$s/.*"pushed_total":\([0-9]*\),.*/\1/p' metrics)
[ "$total" = "$(final whole pushed)" ] ||
	fail "the continued metrics end with $total bytes pushed, the uninterrupted run with $(final whole pushed)"

# a killed job continues from the last periodic checkpoint
job_start third 4 $options --recipe "$sparse" --checkpoint periodic --every 10 --metrics metrics3 --sleep 3:35:5
wait_lines metrics3 34 30 || { show third; fail "no 34 steps within 30 s"; }
kill -9 "$(ranks | awk '$1 == 1 { print $2 }')"
wait "$job_pid"
job_ok fourth 4 $options --recipe "$sparse" --checkpoint periodic --resume
[ "$(final fourth digest)" = "$digest" ] || fail "a run resumed after a kill ends with different parameters"

# a job whose options end before the checkpoint says that it has nothing to train
job_ok shorter 4 $options --epochs 1 --quiet --recipe "$sparse" --checkpoint periodic --resume
grep -qh 'nothing is left to train' shorter.err.* || { show shorter; fail "a checkpoint after the last step is not mentioned"; }

# a job with another recipe must refuse these residuals
job fifth 4 $options --recipe "up=topk(0.02) memory=residual update=sgd" --checkpoint saved --resume &&
	fail "a checkpoint of another recipe was accepted"
grep -qh recipe fifth.err.* || { show fifth; fail "the refusal does not mention the recipe"; }

# With --accumulate, gradients are added to the residual where they are computed. The checkpoint contains the
# accumulator.
plain="up=topk(0.01) down=topk(0.05) memory=residual update=momentum(0.9)"
job_ok added 4 $options --recipe "$plain" --accumulate --checkpoint sums --every 20
job_start sixth 4 $options --recipe "$plain" --accumulate --checkpoint half --every 10 --metrics metrics6 --sleep 3:35:5
wait_lines metrics6 34 30 || { show sixth; fail "no 34 steps within 30 s"; }
kill -9 "$(ranks | awk '$1 == 1 { print $2 }')"
wait "$job_pid"
job_ok seventh 4 $options --recipe "$plain" --accumulate --checkpoint half --resume
echo "| accumulated: digest $(final added digest), killed and resumed $(final seventh digest), loss $(final added loss)"
[ "$(final seventh digest)" = "$(final added digest)" ] ||
	fail "a run with --accumulate ends with different parameters when it is resumed after a kill"
