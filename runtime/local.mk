# Lowest first: a folder uses those above it.
library_sources += $(include_HEADERS)

# The text of a recipe, and what it says of each step.
library_sources += \
	runtime/recipe/budgets.c runtime/recipe/budgets.h \
	runtime/recipe/methods.c runtime/recipe/methods.h \
	runtime/recipe/recipe.c runtime/recipe/recipe.h \
	runtime/recipe/recipe_direction.c \
	runtime/recipe/recipe_exclusions.c \
	runtime/recipe/recipe_values.c \
	runtime/recipe/recipe_words.c runtime/recipe/recipe_words.h \
	runtime/recipe/schedule.c runtime/recipe/schedule.h

# What other programs see of a rank: pages, metrics and traces. No job.
library_sources += \
	runtime/metrics/copy.c runtime/metrics/find.c runtime/metrics/seen.h \
	runtime/metrics/http.c runtime/metrics/http.h \
	runtime/metrics/metrics.c runtime/metrics/metrics.h \
	runtime/metrics/openmetrics.c runtime/metrics/openmetrics.h \
	runtime/metrics/out_file.c runtime/metrics/out_file.h \
	runtime/metrics/page_layout.h \
	runtime/metrics/trace.c runtime/metrics/trace.h \
	runtime/metrics/trace_text.c runtime/metrics/trace_text.h

# Ranks, their progress, collectives and windows; alone in a process or as a simulated one.
library_sources += \
	runtime/job/broadcast.c runtime/job/broadcast.h \
	runtime/job/budget.c runtime/job/budget.h \
	runtime/job/client.c runtime/job/client.h \
	runtime/job/collective.c runtime/job/collective.h \
	runtime/job/connect.c runtime/job/connect.h \
	runtime/job/describe.c runtime/job/describe.h \
	runtime/job/failure.c runtime/job/failure.h \
	runtime/job/findings.c runtime/job/findings.h \
	runtime/job/group.c runtime/job/group.h \
	runtime/job/heart.c runtime/job/heart.h \
	runtime/job/hubs.c runtime/job/hubs.h \
	runtime/job/job.c \
	runtime/job/join.c runtime/job/join.h \
	runtime/job/key_file.c runtime/job/key_file.h \
	runtime/job/pair_keys.c runtime/job/pair_keys.h \
	runtime/job/living.c runtime/job/living.h \
	runtime/job/lines.c runtime/job/lines.h \
	runtime/job/members.c runtime/job/members.h \
	runtime/job/messages.c runtime/job/messages.h \
	runtime/job/page.c runtime/job/page.h \
	runtime/job/peers.c runtime/job/peers.h \
	runtime/job/place.c runtime/job/place.h \
	runtime/job/threads.c runtime/job/threads.h \
	runtime/job/probe.c runtime/job/probe.h \
	runtime/job/progress.c runtime/job/progress.h \
	runtime/job/progress_token.h \
	runtime/job/reach.c runtime/job/reach.h \
	runtime/job/reporter.c runtime/job/reporter.h \
	runtime/job/ways.c runtime/job/ways.h \
	runtime/job/sim_rank.c runtime/job/sim_rank.h \
	runtime/job/simulate.c \
	runtime/job/split.c runtime/job/split.h \
	runtime/job/state.h \
	runtime/job/swap.c runtime/job/swap.h \
	runtime/job/token.c runtime/job/token.h \
	runtime/job/traffic.c \
	runtime/job/window.c runtime/job/window.h \
	runtime/job/window_move.c runtime/job/window_move.h \
	runtime/job/window_state.h

# What both halves of a model share: where everything lies, and what they say to each other.
library_sources += \
	runtime/model/bits.c runtime/model/bits.h \
	runtime/model/census.c runtime/model/census.h \
	runtime/model/compressor.c runtime/model/compressor.h \
	runtime/model/delta_log.c runtime/model/delta_log.h \
	runtime/model/device_half.c runtime/model/device_half.h \
	runtime/model/growth.c runtime/model/growth.h \
	runtime/model/home.c runtime/model/home.h \
	runtime/model/kept.c runtime/model/kept.h \
	runtime/model/layout.c runtime/model/layout.h \
	runtime/model/measure.c runtime/model/measure.h \
	runtime/model/model.c runtime/model/model.h runtime/model/model_parts.h \
	runtime/model/plan.c runtime/model/plan.h \
	runtime/model/read.c \
	runtime/model/rulebook.c runtime/model/rulebook.h \
	runtime/model/shown.c runtime/model/shown.h \
	runtime/model/snapshot.c runtime/model/snapshot.h \
	runtime/model/stopwatch.c runtime/model/stopwatch.h \
	runtime/model/tensors.c runtime/model/tensors.h \
	runtime/model/tiling.c runtime/model/tiling.h \
	runtime/model/transform.c runtime/model/transform.h \
	runtime/model/update.c runtime/model/update.h \
	runtime/model/vector.c runtime/model/vector.h \
	runtime/model/worth.c runtime/model/worth.h

# The half that pushes and pulls. It and the next one do not know each other.
library_sources += \
	runtime/worker/agree.c runtime/worker/agree.h \
	runtime/worker/async.c runtime/worker/async.h \
	runtime/worker/compressor_ops.h \
	runtime/worker/dense.c runtime/worker/dense.h \
	runtime/worker/device.c runtime/worker/device.h \
	runtime/worker/device_push.c runtime/worker/device_push.h \
	runtime/worker/device_vectors.c runtime/worker/device_vectors.h \
	runtime/worker/guard.c runtime/worker/guard.h \
	runtime/worker/hooks.c runtime/worker/hooks.h \
	runtime/worker/lane.c runtime/worker/lane.h \
	runtime/worker/lazy.c runtime/worker/lazy.h \
	runtime/worker/local.c runtime/worker/local.h \
	runtime/worker/nonfinite.c runtime/worker/nonfinite.h \
	runtime/worker/parts.c runtime/worker/parts.h \
	runtime/worker/pull.c runtime/worker/pull.h \
	runtime/worker/push.c runtime/worker/push.h \
	runtime/worker/quorum.c runtime/worker/quorum.h \
	runtime/worker/signal.c runtime/worker/signal.h \
	runtime/worker/source.c runtime/worker/source.h \
	runtime/worker/state.h \
	runtime/worker/step.c runtime/worker/step.h \
	runtime/worker/target.c runtime/worker/target.h \
	runtime/worker/upload.c runtime/worker/upload.h \
	runtime/worker/watch.c runtime/worker/watch.h \
	runtime/worker/worker.c runtime/worker/worker.h \
	runtime/worker/worker_bits.c runtime/worker/worker_bits.h \
	runtime/worker/worker_census.c runtime/worker/worker_census.h \
	runtime/worker/worker_measure.c runtime/worker/worker_measure.h \
	runtime/worker/worker_setup.c runtime/worker/worker_setup.h

# The half that sums and publishes.
library_sources += \
	runtime/shard/agreed.c runtime/shard/agreed.h \
	runtime/shard/gather.c runtime/shard/gather.h \
	runtime/shard/inbox.c runtime/shard/inbox.h \
	runtime/shard/lazy_sum.c runtime/shard/lazy_sum.h \
	runtime/shard/median.c runtime/shard/median.h \
	runtime/shard/publish.c runtime/shard/publish.h \
	runtime/shard/reduce.c runtime/shard/reduce.h \
	runtime/shard/shard.c runtime/shard/shard.h \
	runtime/shard/shard_async.c runtime/shard/shard_async.h \
	runtime/shard/shard_bits.c runtime/shard/shard_bits.h \
	runtime/shard/shard_census.c runtime/shard/shard_census.h \
	runtime/shard/shard_dense.c runtime/shard/shard_dense.h \
	runtime/shard/shard_device.c runtime/shard/shard_device.h \
	runtime/shard/shard_hooks.c runtime/shard/shard_hooks.h \
	runtime/shard/shard_quorum.c runtime/shard/shard_quorum.h \
	runtime/shard/shard_setup.c runtime/shard/shard_setup.h \
	runtime/shard/state.h

# What outlives the job.
library_sources += \
	runtime/checkpoint/checkpoint.c runtime/checkpoint/checkpoint.h \
	runtime/checkpoint/checkpoint_contents.c runtime/checkpoint/checkpoint_contents.h \
	runtime/checkpoint/checkpoint_file.c runtime/checkpoint/checkpoint_file.h \
	runtime/checkpoint/checkpoint_folder.c runtime/checkpoint/checkpoint_folder.h \
	runtime/checkpoint/checkpoint_rounds.c runtime/checkpoint/checkpoint_rounds.h \
	runtime/checkpoint/durable.c runtime/checkpoint/durable.h

# The calls that join the parts: open and close, what events reach, serving, statistics.
library_sources += \
	runtime/calls/events.c runtime/calls/events.h \
	runtime/calls/hand_over.c \
	runtime/calls/compare.c runtime/calls/compare.h \
	runtime/calls/model_open.c runtime/calls/model_open.h \
	runtime/calls/plan_text.c \
	runtime/calls/serve.c \
	runtime/calls/set.c \
	runtime/calls/spread.c runtime/calls/spread.h \
	runtime/calls/stats.c

# Prints the lists of sluice_methods(7); see man/local.mk.
noinst_PROGRAMS += runtime/recipe/methodsdoc
runtime_recipe_methodsdoc_SOURCES = runtime/recipe/methodsdoc.c
runtime_recipe_methodsdoc_LDADD = libinternal.la

# The binary interface that older programs were compiled with (doc/abi.md, tests/unit/abi.sh).
EXTRA_DIST += runtime/libsluice.abi runtime/estimate/libsluice_estimate.abi
abi-baseline:
	$(AM_V_GEN)CC="$(CC)" $(SHELL) $(srcdir)/tests/unit/abi.sh write
.PHONY: abi-baseline
