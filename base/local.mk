# SPDX-License-Identifier: BSD-3-Clause
# Errors, log lines, environment, bytes: what every other folder stands on.
library_sources += \
	base/arguments.c base/arguments.h \
	base/both.h base/shrink.h \
	base/bytes.c base/bytes.h \
	base/clock.h \
	base/conf.c base/conf.h \
	base/device.c base/device.h base/device_kernels.h \
	base/env.c base/env.h \
	base/env_table.c base/env_table.h \
	base/error.c base/error.h \
	base/local_rank.h \
	base/log.c base/log.h \
	base/log_configure.c \
	base/memory.h \
	base/module.c base/module.h \
	base/nearest.c base/nearest.h \
	base/team.c base/team.h \
	base/thread.h \
	base/room.c base/room.h \
	base/wire_version.h

# Prints the list of environment variables for sluice(7); see man/local.mk.
noinst_PROGRAMS += base/envdoc
base_envdoc_SOURCES = base/envdoc.c
base_envdoc_LDADD = libinternal.la
