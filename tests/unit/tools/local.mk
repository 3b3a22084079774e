# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of tools/.
check_PROGRAMS += \
	tests/unit/test_bench \
	tests/unit/test_info \
	tests/unit/test_top
tests_unit_test_bench_SOURCES = tests/unit/tools/test_bench.c
tests_unit_test_bench_LDADD = libbench.la $(cases) -lm
tests_unit_test_info_SOURCES = tests/unit/tools/test_info.c tests/unit/scratch.h tests/unit/two_gpus.h
tests_unit_test_info_CPPFLAGS = $(AM_CPPFLAGS) -DSOURCE='"$(abs_top_srcdir)"'
tests_unit_test_info_LDADD = libinfo.la $(cases)
tests_unit_test_top_SOURCES = tests/unit/tools/test_top.c $(ranks)
tests_unit_test_top_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=region_memfd
tests_unit_test_top_LDADD = libtop.la $(cases)
if BUILD_TRAIN
check_PROGRAMS += \
	tests/unit/test_agree \
	tests/unit/test_idx \
	tests/unit/test_inner \
	tests/unit/test_libsvm \
	tests/unit/test_models \
	tests/unit/test_report \
	tests/unit/test_text \
	tests/unit/test_train_cuda \
	tests/unit/test_train_options
# The collectives are the test's own.
tests_unit_test_agree_SOURCES = tests/unit/tools/test_agree.c tools/train/agree.c tools/train/agree.h
tests_unit_test_agree_LDADD = $(cases)
tests_unit_test_idx_SOURCES = tests/unit/tools/test_idx.c tests/unit/tools/train_files.h
tests_unit_test_idx_LDADD = libtrain.la $(cases)
tests_unit_test_inner_SOURCES = tests/unit/tools/test_inner.c
tests_unit_test_inner_LDADD = libtrain.la $(cases) -lm
tests_unit_test_libsvm_SOURCES = tests/unit/tools/test_libsvm.c tests/unit/tools/train_files.h
tests_unit_test_libsvm_LDADD = libtrain.la $(cases)
tests_unit_test_models_SOURCES = tests/unit/tools/test_models.c
tests_unit_test_models_LDADD = libtrain.la $(cases) -lm
tests_unit_test_report_SOURCES = tests/unit/tools/test_report.c \
	tools/train/metrics.c tools/train/metrics.h tools/train/report.c tools/train/report.h
tests_unit_test_report_LDADD = libtrain.la $(LDADD)
tests_unit_test_text_SOURCES = tests/unit/tools/test_text.c tests/unit/tools/train_files.h
tests_unit_test_text_LDADD = libtrain.la $(cases)
tests_unit_test_train_cuda_SOURCES = tests/unit/tools/test_train_cuda.c tests/unit/random.h
tests_unit_test_train_cuda_CPPFLAGS = $(AM_CPPFLAGS) \
	-DEMULATED_TRAIN_MODULE=\"$(abs_top_builddir)/.libs/libsluice_train_emulated.so\"
tests_unit_test_train_cuda_DEPENDENCIES = tests/unit/libcases.la libtrain.la libsluice_train_emulated.la libcublas_emulated.la
tests_unit_test_train_cuda_LDADD = libtrain.la $(cases) -lm -ldl
tests_unit_test_train_options_SOURCES = tests/unit/tools/test_train_options.c
tests_unit_test_train_options_LDADD = libtrain.la $(LDADD)
# With the program itself.
dist_check_SCRIPTS += tests/unit/tools/diverging.sh tests/unit/tools/left_out.sh \
	tests/unit/tools/local_steps.sh
TESTS += tests/unit/tools/left_out.sh tests/unit/tools/local_steps.sh
# It looks at losses, which sanitizers do not change.
if !WITH_SANITIZER
TESTS += tests/unit/tools/diverging.sh
endif
endif
