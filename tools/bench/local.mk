# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += sluice-bench
# Selection beside other libraries; not installed.
EXTRA_DIST += tools/bench/peers.py
# What needs no job, for the unit tests too.
noinst_LTLIBRARIES += libbench.la
libbench_la_SOURCES = tools/bench/options.c tools/bench/options.h \
	tools/bench/samples.c tools/bench/samples.h \
	tools/json.h
# The codings, which the library does not export.
noinst_LTLIBRARIES += libcodec.la
libcodec_la_SOURCES = base/bytes.c \
	runtime/compress/index_avx2.c \
	runtime/compress/index_coding.c \
	runtime/compress/index_kernels.c \
	runtime/compress/message.c \
	runtime/compress/quantize.c \
	runtime/compress/rice.c
libcodec_la_CPPFLAGS = $(AM_CPPFLAGS)
sluice_bench_SOURCES = tools/bench/main.c \
	tools/bench/codec.c tools/bench/codec.h \
	tools/bench/moves.c tools/bench/moves.h \
	tools/bench/pair.c tools/bench/pair.h \
	tools/bench/raw.c tools/bench/raw.h \
	tools/bench/select.c tools/bench/select.h \
	tools/bench/select_data.c tools/bench/select_data.h \
	tools/bench/step.c tools/bench/step.h \
	tools/bench/table.c tools/bench/table.h
sluice_bench_LDADD = libbench.la libcodec.la libsluice.la -lm
