# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += sluice-bench
# What needs no job, for the unit tests too.
noinst_LTLIBRARIES += libbench.la
libbench_la_SOURCES = tools/bench/options.c tools/bench/options.h \
	tools/bench/samples.c tools/bench/samples.h \
	tools/json.h
sluice_bench_SOURCES = tools/bench/main.c \
	tools/bench/moves.c tools/bench/moves.h \
	tools/bench/pair.c tools/bench/pair.h \
	tools/bench/raw.c tools/bench/raw.h \
	tools/bench/select.c tools/bench/select.h \
	tools/bench/select_data.c tools/bench/select_data.h \
	tools/bench/step.c tools/bench/step.h \
	tools/bench/table.c tools/bench/table.h
sluice_bench_LDADD = libbench.la libsluice.la -lm
