# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/model/.
check_PROGRAMS += \
	tests/unit/test_bits \
	tests/unit/test_delta_log \
	tests/unit/test_growth \
	tests/unit/test_guard_raise \
	tests/unit/test_layout \
	tests/unit/test_many_models \
	tests/unit/test_memory \
	tests/unit/test_open_memory \
	tests/unit/test_plan \
	tests/unit/test_rules \
	tests/unit/test_stopwatch \
	tests/unit/test_transform \
	tests/unit/test_update \
	tests/unit/test_worth
tests_unit_test_bits_SOURCES = tests/unit/model/test_bits.c tests/unit/random.h tests/unit/scratch.h $(ranks)
tests_unit_test_delta_log_SOURCES = tests/unit/model/test_delta_log.c tests/unit/random.h
tests_unit_test_growth_SOURCES = tests/unit/model/test_growth.c tests/unit/random.h $(ranks)
tests_unit_test_guard_raise_SOURCES = tests/unit/model/test_guard_raise.c tests/unit/scratch.h $(ranks)
tests_unit_test_layout_SOURCES = tests/unit/model/test_layout.c tests/unit/model/layout_recipes.h
tests_unit_test_many_models_SOURCES = tests/unit/model/test_many_models.c $(ranks)
# Looks at its own pages.
tests_unit_test_memory_SOURCES = tests/unit/model/test_memory.c tests/unit/scratch.h tools/bench/resident.c \
	tools/bench/resident.h $(ranks)
# Counts what an open allocates.
tests_unit_test_open_memory_SOURCES = tests/unit/model/test_open_memory.c tests/unit/model/layout_recipes.h $(ranks)
tests_unit_test_open_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=free \
	-Wl,--wrap=aligned_alloc \
	-Wl,--wrap=region_open -Wl,--wrap=region_close
tests_unit_test_plan_SOURCES = tests/unit/model/test_plan.c $(ranks)
tests_unit_test_plan_CPPFLAGS = $(AM_CPPFLAGS) -DRECIPE_PAGE=\"$(abs_top_srcdir)/man/sluice_recipe.7\"
tests_unit_test_rules_SOURCES = tests/unit/model/test_rules.c tests/unit/four_tensors.h $(ranks)
# Moves the clock.
tests_unit_test_stopwatch_SOURCES = tests/unit/model/test_stopwatch.c
tests_unit_test_stopwatch_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
tests_unit_test_transform_SOURCES = tests/unit/model/test_transform.c tests/unit/random.h
tests_unit_test_update_SOURCES = tests/unit/model/test_update.c tests/unit/random.h
# Is told what steps took.
tests_unit_test_worth_SOURCES = tests/unit/model/test_worth.c $(ranks)
tests_unit_test_worth_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=worth_note
