# Lowest first: a folder uses those above it.
library_sources += runtime/sluice.h

# The text of a recipe, and what it says of each step.
library_sources += \
	runtime/recipe/recipe.c runtime/recipe/recipe.h \
	runtime/recipe/recipe_async.c \
	runtime/recipe/recipe_dynamics.c \
	runtime/recipe/recipe_values.c \
	runtime/recipe/recipe_when.c \
	runtime/recipe/recipe_words.c runtime/recipe/recipe_words.h \
	runtime/recipe/schedule.c runtime/recipe/schedule.h

# Ranks, their progress, collectives and windows; alone in a process or as a simulated one.
library_sources += \
	runtime/job/budget.c runtime/job/budget.h \
	runtime/job/client.c runtime/job/client.h \
	runtime/job/collective.c \
	runtime/job/job.c runtime/job/job.h \
	runtime/job/join.c \
	runtime/job/members.c \
	runtime/job/peers.c \
	runtime/job/place.c runtime/job/place.h \
	runtime/job/progress.c \
	runtime/job/simulate.c runtime/job/simulate.h \
	runtime/job/traffic.c \
	runtime/job/window.c runtime/job/window.h \
	runtime/job/window_move.c

# The half that pushes and pulls.
library_sources += \
	runtime/worker/async.c runtime/worker/async.h \
	runtime/worker/innovation.c \
	runtime/worker/lazy.c runtime/worker/lazy.h \
	runtime/worker/local_steps.c \
	runtime/worker/push_range.c \
	runtime/worker/signal.c \
	runtime/worker/worker.c \
	runtime/worker/worker_agree.c \
	runtime/worker/worker_setup.c

# The half that sums and publishes.
library_sources += \
	runtime/shard/census.c runtime/shard/census.h \
	runtime/shard/delta_log.c runtime/shard/delta_log.h \
	runtime/shard/reduce.c runtime/shard/reduce.h \
	runtime/shard/shard.c \
	runtime/shard/shard_agree.c \
	runtime/shard/shard_async.c \
	runtime/shard/shard_setup.c \
	runtime/shard/update.c runtime/shard/update.h

# What both halves share, and the calls of a step.
library_sources += \
	runtime/model/layout.c runtime/model/layout.h \
	runtime/model/measure.c runtime/model/measure.h \
	runtime/model/model.c runtime/model/model.h \
	runtime/model/model_open.c \
	runtime/model/on_device.c runtime/model/on_device.h \
	runtime/model/spread.c \
	runtime/model/step.c \
	runtime/model/tiling.c runtime/model/tiling.h \
	runtime/model/watch.c \
	runtime/model/worth.c runtime/model/worth.h

# The calls that join the parts.
library_sources += \
	runtime/calls/events.c runtime/calls/events.h

# What outlives the job.
library_sources += \
	runtime/checkpoint/checkpoint.c runtime/checkpoint/checkpoint.h \
	runtime/checkpoint/checkpoint_file.c runtime/checkpoint/checkpoint_file.h \
	runtime/checkpoint/checkpoint_folder.c runtime/checkpoint/checkpoint_folder.h \
	runtime/checkpoint/checkpoint_rounds.c runtime/checkpoint/checkpoint_rounds.h \
	runtime/checkpoint/durable.c runtime/checkpoint/durable.h \
	runtime/checkpoint/recall.c
