# SPDX-License-Identifier: BSD-3-Clause
# The reproductions of the published methods: "make reproduce" writes the page of their results, of which
# RESULTS.md is the last one kept. "make check" runs small ones only.
noinst_PROGRAMS += tests/reproduce/reproduce
tests_reproduce_reproduce_SOURCES = \
	tests/reproduce/draw.c tests/reproduce/draw.h \
	tests/reproduce/harness.c tests/reproduce/harness.h \
	tests/reproduce/lazy.c tests/reproduce/lazy.h \
	tests/reproduce/main.c \
	tests/reproduce/memory.h \
	tests/reproduce/mlp.c \
	tests/reproduce/page.c tests/reproduce/page.h \
	tests/reproduce/pool.c tests/reproduce/pool.h \
	tests/reproduce/problem.h \
	tests/reproduce/quad.c \
	tests/reproduce/regression.c \
	tests/reproduce/rows.c \
	tests/reproduce/sections.c tests/reproduce/sections.h \
	tests/reproduce/section_conservation.c \
	tests/reproduce/section_gaussiank.c \
	tests/reproduce/section_average.c \
	tests/reproduce/section_ecx.c \
	tests/reproduce/section_global.c \
	tests/reproduce/section_histogram.c \
	tests/reproduce/section_lazy.c \
	tests/reproduce/section_local.c \
	tests/reproduce/section_saddle.c \
	tests/reproduce/section_scalecom.c \
	tests/reproduce/section_sketch.c \
	tests/reproduce/section_svrg.c \
	tests/reproduce/section_threshold.c \
	tests/reproduce/section_topk.c \
	tests/reproduce/section_unbiased.c \
	tests/reproduce/section_wire.c \
	tests/reproduce/text.c
tests_reproduce_reproduce_CPPFLAGS = $(AM_CPPFLAGS) $(BLAS_CFLAGS)
tests_reproduce_reproduce_LDADD = libtrain.la libestimate.la libinternal.la $(BLAS_LIBS) -lm

dist_check_SCRIPTS += tests/reproduce/check.sh
TESTS += tests/reproduce/check.sh
EXTRA_DIST += tests/reproduce/RESULTS.md tests/reproduce/figures

# The a9a set, LIBSVM text, plain or gzip: make reproduce A9A=FILE. Section 14 needs TEXT=FILE, tiny Shakespeare,
# plain or gzip, and adds an hour of a core. To keep the page, copy it and its
# figures to tests/reproduce/ of the source tree.
figures = tests/reproduce/figures
reproduce: tests/reproduce/reproduce
	mkdir -p $(figures)
	tests/reproduce/reproduce --figures $(figures) --output tests/reproduce/RESULTS.md; status=$$?; \
	$(srcdir)/tests/reproduce/figures.sh $(srcdir)/tools/plot/sluice-plot \
		tests/reproduce/RESULTS.md $(figures) && exit $$status
EXTRA_DIST += tests/reproduce/figures.sh
