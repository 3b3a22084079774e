# SPDX-License-Identifier: BSD-3-Clause
# It looks at what the library has inside (transports, settings), so it is linked with all of it.
bin_PROGRAMS += sluice-info
noinst_LTLIBRARIES += libinfo.la
libinfo_la_SOURCES = tools/info/card.c \
	tools/info/choice.c \
	tools/info/fabric.c \
	tools/info/gpu.c \
	tools/info/launcher.c \
	tools/info/memlock.c \
	tools/info/node.c tools/info/node.h \
	tools/info/probes.h \
	tools/info/rdma.c \
	tools/info/report.c tools/info/report.h \
	tools/info/shm.c \
	tools/info/sluice.c
libinfo_la_CPPFLAGS = $(AM_CPPFLAGS) $(VERBS_CFLAGS)
libinfo_la_LIBADD = libinternal.la
sluice_info_SOURCES = tools/info/main.c tools/refused_option.h
sluice_info_LDADD = libinfo.la
