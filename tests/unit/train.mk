# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += \
	tests/unit/test_idx \
	tests/unit/test_libsvm \
	tests/unit/test_methods \
	tests/unit/test_models \
	tests/unit/test_report \
	tests/unit/test_train_options \
	tests/unit/test_agree
tests_unit_test_idx_SOURCES = tests/unit/test_idx.c tests/unit/train_files.h
tests_unit_test_idx_LDADD = libtrain.la $(CMOCKA_LIBS)
tests_unit_test_libsvm_SOURCES = tests/unit/test_libsvm.c tests/unit/train_files.h
tests_unit_test_libsvm_LDADD = libtrain.la $(CMOCKA_LIBS)
tests_unit_test_methods_SOURCES = tests/unit/test_methods.c
tests_unit_test_methods_LDADD = libtrain.la $(LDADD)
tests_unit_test_models_SOURCES = tests/unit/test_models.c
tests_unit_test_models_LDADD = libtrain.la $(CMOCKA_LIBS) -lm
tests_unit_test_report_SOURCES = tests/unit/test_report.c \
	tools/train/metrics.c tools/train/metrics.h tools/train/report.c tools/train/report.h
tests_unit_test_report_LDADD = libtrain.la $(LDADD)
tests_unit_test_train_options_SOURCES = tests/unit/test_train_options.c
tests_unit_test_train_options_LDADD = libtrain.la $(CMOCKA_LIBS)
# The collectives are the test's own.
tests_unit_test_agree_SOURCES = tests/unit/test_agree.c tools/train/agree.c tools/train/agree.h
tests_unit_test_agree_LDADD = $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_train_cuda
tests_unit_test_train_cuda_SOURCES = tests/unit/test_train_cuda.c tests/unit/random.h
tests_unit_test_train_cuda_CPPFLAGS = $(AM_CPPFLAGS) \
	-DEMULATED_TRAIN_MODULE=\"$(abs_top_builddir)/.libs/libsluice_train_emulated.so\"
tests_unit_test_train_cuda_DEPENDENCIES = libtrain.la libsluice_train_emulated.la libcublas_emulated.la
tests_unit_test_train_cuda_LDADD = libtrain.la $(CMOCKA_LIBS) -lm -ldl
# With the program itself.
dist_check_SCRIPTS += tests/unit/diverging.sh
TESTS += tests/unit/diverging.sh
