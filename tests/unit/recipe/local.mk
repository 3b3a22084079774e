# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/recipe/.
check_PROGRAMS += \
	tests/unit/test_budgets \
	tests/unit/test_recipe \
	tests/unit/test_recipe_print \
	tests/unit/test_recipe_refused \
	tests/unit/test_schedule
recipe_text = tests/unit/recipe/recipe_text.c tests/unit/recipe/recipe_text.h
tests_unit_test_budgets_SOURCES = tests/unit/recipe/test_budgets.c tests/unit/random.h
tests_unit_test_recipe_SOURCES = tests/unit/recipe/test_recipe.c $(recipe_text)
tests_unit_test_recipe_print_SOURCES = tests/unit/recipe/test_recipe_print.c $(recipe_text)
tests_unit_test_recipe_refused_SOURCES = tests/unit/recipe/test_recipe_refused.c $(recipe_text)
tests_unit_test_schedule_SOURCES = tests/unit/recipe/test_schedule.c
if BUILD_TRAIN
check_PROGRAMS += tests/unit/test_methods
tests_unit_test_methods_SOURCES = tests/unit/recipe/test_methods.c
tests_unit_test_methods_LDADD = libtrain.la $(LDADD)
endif
