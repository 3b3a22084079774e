# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of base/ and of the recipe language.
check_PROGRAMS += \
	tests/unit/test_bytes \
	tests/unit/test_env \
	tests/unit/test_log \
	tests/unit/test_nearest \
	tests/unit/test_recipe \
	tests/unit/test_recipe_print \
	tests/unit/test_recipe_refused \
	tests/unit/test_room
tests_unit_test_bytes_SOURCES = tests/unit/test_bytes.c
tests_unit_test_env_SOURCES = tests/unit/test_env.c
tests_unit_test_log_SOURCES = tests/unit/test_log.c
tests_unit_test_nearest_SOURCES = tests/unit/test_nearest.c
recipe_text = tests/unit/recipe_text.c tests/unit/recipe_text.h
tests_unit_test_recipe_SOURCES = tests/unit/test_recipe.c $(recipe_text)
tests_unit_test_recipe_print_SOURCES = tests/unit/test_recipe_print.c $(recipe_text)
tests_unit_test_recipe_refused_SOURCES = tests/unit/test_recipe_refused.c $(recipe_text)
tests_unit_test_room_SOURCES = tests/unit/test_room.c tests/unit/scratch.h
