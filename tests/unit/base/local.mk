# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of base/.
check_PROGRAMS += \
	tests/unit/test_bytes \
	tests/unit/test_conf \
	tests/unit/test_device \
	tests/unit/test_env \
	tests/unit/test_local_rank \
	tests/unit/test_log \
	tests/unit/test_module \
	tests/unit/test_nearest \
	tests/unit/test_room \
	tests/unit/test_team
tests_unit_test_bytes_SOURCES = tests/unit/base/test_bytes.c
tests_unit_test_conf_SOURCES = tests/unit/base/test_conf.c tests/unit/scratch.h
tests_unit_test_device_SOURCES = tests/unit/base/test_device.c
tests_unit_test_device_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_DRIVER=\"$(abs_top_builddir)/tests/unit/.libs/libcuda.so.1\"
if HAVE_CUDA
tests_unit_test_device_CPPFLAGS += -DREAL_MODULE=\"$(abs_top_builddir)/.libs/libsluice_cuda.so\"
endif
tests_unit_test_device_DEPENDENCIES = tests/unit/libcases.la libinternal.la tests/unit/libcuda.la
tests_unit_test_env_SOURCES = tests/unit/base/test_env.c
tests_unit_test_local_rank_SOURCES = tests/unit/base/test_local_rank.c
tests_unit_test_log_SOURCES = tests/unit/base/test_log.c
# Configured for a folder that is on no machine; the program runs in copies of itself.
tests_unit_test_module_SOURCES = tests/unit/base/test_module.c base/module.c base/module.h
tests_unit_test_module_CPPFLAGS = $(AM_CPPFLAGS) -USLUICE_MODULE_DIR -USLUICE_LIB_DIR -USLUICE_BIN_DIR \
	-DSLUICE_MODULE_DIR=\"/nowhere/p/lib/sluice\" -DSLUICE_LIB_DIR=\"/nowhere/p/lib\" \
	-DSLUICE_BIN_DIR=\"/nowhere/p/bin\"
tests_unit_test_module_LDADD = $(cases) -ldl
tests_unit_test_nearest_SOURCES = tests/unit/base/test_nearest.c
tests_unit_test_room_SOURCES = tests/unit/base/test_room.c tests/unit/scratch.h
tests_unit_test_team_SOURCES = tests/unit/base/test_team.c
