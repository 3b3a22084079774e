# The job, its progress, and the two halves of a model.
library_sources += \
	runtime/sluice.h \
	runtime/budget.c runtime/budget.h \
	runtime/census.c runtime/census.h \
	runtime/checkpoint.c runtime/checkpoint.h \
	runtime/checkpoint_file.c runtime/checkpoint_file.h \
	runtime/checkpoint_folder.c runtime/checkpoint_folder.h \
	runtime/checkpoint_rounds.c runtime/checkpoint_rounds.h \
	runtime/collective.c \
	runtime/delta_log.c runtime/delta_log.h \
	runtime/durable.c runtime/durable.h \
	runtime/job.c runtime/job.h \
	runtime/join.c \
	runtime/innovation.c \
	runtime/layout.c runtime/layout.h \
	runtime/lazy.c runtime/lazy.h \
	runtime/local_steps.c \
	runtime/measure.c runtime/measure.h \
	runtime/members.c \
	runtime/model.c runtime/model_open.c runtime/model.h \
	runtime/on_device.c runtime/on_device.h \
	runtime/peers.c \
	runtime/place.c runtime/place.h \
	runtime/progress.c \
	runtime/push_range.c \
	runtime/recipe.c runtime/recipe.h \
	runtime/async.c runtime/async.h runtime/shard_async.c \
	runtime/recipe_async.c runtime/recipe_dynamics.c runtime/recipe_values.c runtime/recipe_when.c runtime/recipe_words.c runtime/recipe_words.h \
	runtime/reduce.c runtime/reduce.h \
	runtime/schedule.c runtime/schedule.h \
	runtime/recall.c \
	runtime/shard.c runtime/shard_agree.c runtime/shard_setup.c \
	runtime/signal.c \
	runtime/sparse.c runtime/sparse.h \
	runtime/simulate.c runtime/simulate.h \
	runtime/spread.c \
	runtime/step.c \
	runtime/tiling.c runtime/tiling.h \
	runtime/traffic.c \
	runtime/update.c runtime/update.h \
	runtime/watch.c \
	runtime/window.c runtime/window.h runtime/window_move.c \
	runtime/worker.c runtime/worker_agree.c runtime/worker_setup.c \
	runtime/worth.c runtime/worth.h
