# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of base/ and of the recipe language.
check_PROGRAMS += \
	tests/unit/test_bytes \
	tests/unit/test_env \
	tests/unit/test_log \
	tests/unit/test_module \
	tests/unit/test_nearest \
	tests/unit/test_recipe \
	tests/unit/test_recipe_print \
	tests/unit/test_recipe_refused \
	tests/unit/test_room
tests_unit_test_bytes_SOURCES = tests/unit/test_bytes.c
tests_unit_test_env_SOURCES = tests/unit/test_env.c
tests_unit_test_log_SOURCES = tests/unit/test_log.c
# Configured for a folder that is on no machine; the program runs in copies of itself.
tests_unit_test_module_SOURCES = tests/unit/test_module.c base/module.c base/module.h
tests_unit_test_module_CPPFLAGS = $(AM_CPPFLAGS) -USLUICE_MODULE_DIR -USLUICE_LIB_DIR -USLUICE_BIN_DIR \
	-DSLUICE_MODULE_DIR=\"/nowhere/p/lib/sluice\" -DSLUICE_LIB_DIR=\"/nowhere/p/lib\" \
	-DSLUICE_BIN_DIR=\"/nowhere/p/bin\"
tests_unit_test_module_LDADD = $(CMOCKA_LIBS) -ldl
tests_unit_test_nearest_SOURCES = tests/unit/test_nearest.c
recipe_text = tests/unit/recipe_text.c tests/unit/recipe_text.h
tests_unit_test_recipe_SOURCES = tests/unit/test_recipe.c $(recipe_text)
tests_unit_test_recipe_print_SOURCES = tests/unit/test_recipe_print.c $(recipe_text)
tests_unit_test_recipe_refused_SOURCES = tests/unit/test_recipe_refused.c $(recipe_text)
tests_unit_test_room_SOURCES = tests/unit/test_room.c tests/unit/scratch.h
