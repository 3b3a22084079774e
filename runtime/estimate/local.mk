# SPDX-License-Identifier: BSD-3-Clause
# libsluice_estimate: needs no job, and links the few objects of base/ and compress/ that it calls, so a
# program that only estimates loads no transport and no launcher.
noinst_LTLIBRARIES += libestimate.la
libestimate_la_SOURCES = runtime/estimate/estimate.c runtime/estimate/histogram_calls.c

lib_LTLIBRARIES += libsluice_estimate.la
libsluice_estimate_la_SOURCES = \
	base/arguments.c base/error.c base/log.c \
	runtime/compress/counts.c \
	runtime/compress/histogram.c \
	runtime/compress/kernels.c \
	runtime/compress/random.c runtime/compress/random_avx2.c
libsluice_estimate_la_LIBADD = libestimate.la -lm
libsluice_estimate_la_LDFLAGS = $(AM_LDFLAGS) -version-info $(SLUICE_VERSION_INFO) \
	-Wl,--version-script=$(top_srcdir)/runtime/estimate/libsluice_estimate.map -Wl,-z,defs -no-undefined
EXTRA_libsluice_estimate_la_DEPENDENCIES = $(top_srcdir)/runtime/estimate/libsluice_estimate.map
EXTRA_DIST += runtime/estimate/libsluice_estimate.map
pkgconfig_DATA += runtime/estimate/sluice_estimate.pc
