# SPDX-License-Identifier: BSD-3-Clause
# It reads pages of ranks and opens no job.
bin_PROGRAMS += sluice-top
noinst_LTLIBRARIES += libtop.la
libtop_la_SOURCES = tools/json.h \
	tools/top/json_text.c \
	tools/top/nodes.c tools/top/nodes.h \
	tools/top/relay.c tools/top/relay.h \
	tools/top/screen.c tools/top/show.h \
	tools/top/waits.c tools/top/waits.h
libtop_la_LIBADD = libinternal.la
sluice_top_SOURCES = tools/top/main.c tools/refused_option.h
sluice_top_LDADD = libtop.la
