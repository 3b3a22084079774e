# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/. Those with several ranks fork them (ranks.c) and need no launcher.
ranks = tests/unit/ranks.c tests/unit/ranks.h tests/unit/thinned.h

check_PROGRAMS += \
	tests/unit/test_schedule \
	tests/unit/test_plan \
	tests/unit/test_census \
	tests/unit/test_layout \
	tests/unit/test_open_memory \
	tests/unit/test_delta_log \
	tests/unit/test_reduce \
	tests/unit/test_candidates \
	tests/unit/test_waiting_messages \
	tests/unit/test_update \
	tests/unit/test_step \
	tests/unit/test_dense \
	tests/unit/test_dense_spoilt \
	tests/unit/test_dense_step \
	tests/unit/test_grad_type \
	tests/unit/test_accumulator \
	tests/unit/test_rate_zero \
	tests/unit/test_push_range \
	tests/unit/test_pull_range \
	tests/unit/test_segments \
	tests/unit/test_skip \
	tests/unit/test_rules \
	tests/unit/test_uneven \
	tests/unit/test_state \
	tests/unit/test_memory \
	tests/unit/test_growth \
	tests/unit/test_guard_raise \
	tests/unit/test_worth \
	tests/unit/test_token \
	tests/unit/test_place \
	tests/unit/test_reach \
	tests/unit/test_conservation \
	tests/unit/test_dynamics \
	tests/unit/test_stats \
	tests/unit/test_collective \
	tests/unit/test_split \
	tests/unit/test_many_models \
	tests/unit/test_different_calls \
	tests/unit/test_join \
	tests/unit/test_region_api \
	tests/unit/test_continue \
	tests/unit/test_continue_checkpoint \
	tests/unit/test_continue_refused \
	tests/unit/test_region_delayed \
	tests/unit/test_transports \
	tests/unit/test_failure \
	tests/unit/test_last_error \
	tests/unit/test_phases \
	tests/unit/test_lazy \
	tests/unit/test_arguments \
	tests/unit/test_overflow \
	tests/unit/test_async \
	tests/unit/test_svrg \
	tests/unit/test_simulate \
	tests/unit/test_slow_rank \
	tests/unit/test_lost_notice \
	tests/unit/test_hostile_rank \
	tests/unit/test_unload \
	tests/unit/example
tests_unit_test_schedule_SOURCES = tests/unit/test_schedule.c
tests_unit_test_plan_SOURCES = tests/unit/test_plan.c $(ranks)
tests_unit_test_plan_CPPFLAGS = $(AM_CPPFLAGS) -DRECIPE_PAGE=\"$(abs_top_srcdir)/man/sluice_recipe.7\"
tests_unit_test_layout_SOURCES = tests/unit/test_layout.c tests/unit/layout_recipes.h
# Counts what an open allocates.
tests_unit_test_open_memory_SOURCES = tests/unit/test_open_memory.c tests/unit/layout_recipes.h $(ranks)
tests_unit_test_open_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=free \
	-Wl,--wrap=aligned_alloc \
	-Wl,--wrap=region_open -Wl,--wrap=region_close
# Looks at its own pages.
tests_unit_test_memory_SOURCES = tests/unit/test_memory.c tests/unit/scratch.h tools/bench/resident.c \
	tools/bench/resident.h $(ranks)
tests_unit_test_census_SOURCES = tests/unit/test_census.c tests/unit/scratch.h $(ranks)
tests_unit_test_delta_log_SOURCES = tests/unit/test_delta_log.c tests/unit/random.h
tests_unit_test_reduce_SOURCES = tests/unit/test_reduce.c tests/unit/random.h tests/unit/thinned.h
tests_unit_test_candidates_SOURCES = tests/unit/test_candidates.c tests/unit/random.h tests/unit/thinned.h
tests_unit_test_waiting_messages_SOURCES = tests/unit/test_waiting_messages.c $(ranks)
tests_unit_test_update_SOURCES = tests/unit/test_update.c tests/unit/random.h
tests_unit_test_step_SOURCES = tests/unit/test_step.c $(ranks)
dense_values = tests/unit/dense_values.h $(ranks)
tests_unit_test_dense_SOURCES = tests/unit/test_dense.c $(dense_values)
# Spoils bytes between who makes and who reads them.
tests_unit_test_dense_spoilt_SOURCES = tests/unit/test_dense_spoilt.c tests/unit/gpu_rank.c tests/unit/gpu_rank.h $(dense_values)
spoilt_on_emulated_gpu = tests/unit/test_dense_spoilt
$(spoilt_on_emulated_gpu): libsluice_emulated.la
tests_unit_test_dense_step_SOURCES = tests/unit/test_dense_step.c $(dense_values)
tests_unit_test_dense_spoilt_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dense_put -Wl,--wrap=message_head
tests_unit_test_token_SOURCES = tests/unit/test_token.c
tests_unit_test_place_SOURCES = tests/unit/test_place.c tests/unit/scratch.h
tests_unit_test_reach_SOURCES = tests/unit/test_reach.c
tests_unit_test_place_LDADD = $(LDADD) $(HWLOC_LIBS)
tests_unit_test_growth_SOURCES = tests/unit/test_growth.c $(ranks)
tests_unit_test_guard_raise_SOURCES = tests/unit/test_guard_raise.c tests/unit/scratch.h $(ranks)
# Is told what steps took.
tests_unit_test_worth_SOURCES = tests/unit/test_worth.c $(ranks)
tests_unit_test_worth_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=worth_note
tests_unit_test_grad_type_SOURCES = tests/unit/test_grad_type.c tests/unit/narrow.h $(ranks)
tests_unit_test_rate_zero_SOURCES = tests/unit/test_rate_zero.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_accumulator_SOURCES = tests/unit/test_accumulator.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_push_range_SOURCES = tests/unit/test_push_range.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_state_SOURCES = tests/unit/test_state.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_uneven_SOURCES = tests/unit/test_uneven.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_pull_range_SOURCES = tests/unit/test_pull_range.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_rules_SOURCES = tests/unit/test_rules.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_skip_SOURCES = tests/unit/test_skip.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_segments_SOURCES = tests/unit/test_segments.c tests/unit/four_tensors.h \
	tests/unit/narrow.h $(ranks)
tests_unit_test_conservation_SOURCES = tests/unit/test_conservation.c tests/unit/sent.h $(ranks)
tests_unit_test_dynamics_SOURCES = tests/unit/test_dynamics.c tests/unit/sent.h tests/unit/scratch.h $(ranks)
tests_unit_test_stats_SOURCES = tests/unit/test_stats.c tests/unit/sent.h $(ranks)
tests_unit_test_join_SOURCES = tests/unit/test_join.c $(ranks)
tests_unit_test_different_calls_SOURCES = tests/unit/test_different_calls.c $(ranks)
tests_unit_test_many_models_SOURCES = tests/unit/test_many_models.c $(ranks)
tests_unit_test_split_SOURCES = tests/unit/test_split.c $(ranks)
tests_unit_test_collective_SOURCES = tests/unit/test_collective.c $(ranks)
tests_unit_test_region_api_SOURCES = tests/unit/test_region_api.c $(ranks)
# Defines the table of transports.
tests_unit_test_region_delayed_SOURCES = tests/unit/test_region_delayed.c $(ranks)
tests_unit_test_transports_SOURCES = tests/unit/test_transports.c $(ranks)
tests_unit_test_failure_SOURCES = tests/unit/test_failure.c $(ranks)
tests_unit_test_last_error_SOURCES = tests/unit/test_last_error.c $(ranks)
# Take down what the shards count.
survivors = tests/unit/survivors.c tests/unit/survivors_oracle.c tests/unit/survivors.h tests/unit/scratch.h $(ranks)
tests_unit_test_continue_SOURCES = tests/unit/test_continue.c $(survivors)
tests_unit_test_continue_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=reduction_change -Wl,--wrap=dense_take
tests_unit_test_continue_checkpoint_SOURCES = tests/unit/test_continue_checkpoint.c $(survivors)
tests_unit_test_continue_checkpoint_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=reduction_change -Wl,--wrap=dense_take \
	-Wl,--wrap=checkpoint_manifest_write -Wl,--wrap=checkpoint_clean
tests_unit_test_continue_refused_SOURCES = tests/unit/test_continue_refused.c $(survivors)
tests_unit_test_continue_refused_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=reduction_change -Wl,--wrap=dense_take \
	-Wl,--wrap=reduction_add
tests_unit_test_phases_SOURCES = tests/unit/test_phases.c $(ranks)
async_problem = tests/unit/async_problem.c tests/unit/async_problem.h $(ranks)
tests_unit_test_async_SOURCES = tests/unit/test_async.c $(async_problem)
tests_unit_test_svrg_SOURCES = tests/unit/test_svrg.c $(async_problem)
tests_unit_test_svrg_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=upload_head
tests_unit_test_arguments_LDADD = libestimate.la $(LDADD)
tests_unit_test_arguments_SOURCES = tests/unit/test_arguments.c $(ranks)
tests_unit_test_overflow_SOURCES = tests/unit/test_overflow.c $(ranks)
tests_unit_test_lazy_SOURCES = tests/unit/test_lazy.c tests/unit/scratch.h $(ranks)
tests_unit_test_simulate_SOURCES = tests/unit/test_simulate.c $(ranks)
tests_unit_test_slow_rank_SOURCES = tests/unit/test_slow_rank.c $(ranks)
tests_unit_test_lost_notice_SOURCES = tests/unit/test_lost_notice.c $(ranks)
tests_unit_test_hostile_rank_SOURCES = tests/unit/test_hostile_rank.c $(ranks)

# Loads the shared library at run time, and nothing else of it.
tests_unit_test_unload_SOURCES = tests/unit/test_unload.c
tests_unit_test_unload_CPPFLAGS = $(AM_CPPFLAGS) -DLIBRARY=\"$(abs_top_builddir)/.libs/libsluice.so\"
tests_unit_test_unload_LDADD = $(CMOCKA_LIBS) -ldl
tests_unit_test_unload_DEPENDENCIES = libsluice.la

# The program of README and sluice(7): public header and library only, and nothing of the tests.
tests_unit_example_SOURCES = tests/unit/example.c
tests_unit_example_LDADD = libsluice.la

include $(top_srcdir)/tests/unit/checkpoint.mk
