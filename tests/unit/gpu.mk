# SPDX-License-Identifier: BSD-3-Clause
# The GPU module through its table: on the CPU here, on a GPU in tests/gpu/run, with the same programs.
emulated_module = -DEMULATED_MODULE=\"$(abs_top_builddir)/.libs/libsluice_emulated.so\"
# Every thread of a block is a coroutine there: minutes each. The sanitizers see them.
slow_in_valgrind = tests/unit/test_gpu_select tests/unit/test_gpu_gradient tests/unit/test_gpu_fold \
	tests/unit/test_gpu_messages tests/unit/test_gpu_step tests/unit/test_gpu_failing tests/unit/test_gpu_enqueue \
	tests/unit/test_gpu_late tests/unit/test_gpu_in_place
check_PROGRAMS += tests/unit/test_gpu_select
tests_unit_test_gpu_select_SOURCES = tests/unit/test_gpu_select.c tests/unit/gpu.c tests/unit/gpu.h \
	tests/unit/gpu_vectors.c tests/unit/gpu_vectors.h tests/unit/vector_kinds.h \
	tests/unit/random.h
tests_unit_test_gpu_select_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_select_DEPENDENCIES = libinternal.la libsluice_emulated.la
# Two models in a rank, one of them in GPU memory.
gpu_step = tests/unit/gpu_step.c tests/unit/gpu_step.h $(ranks)
check_PROGRAMS += tests/unit/test_gpu_step
tests_unit_test_gpu_step_SOURCES = tests/unit/test_gpu_step.c tests/unit/narrow.h $(gpu_step)
tests_unit_test_gpu_step_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_step_DEPENDENCIES = libinternal.la libsluice_emulated.la
check_PROGRAMS += tests/unit/test_gpu_failing
tests_unit_test_gpu_failing_SOURCES = tests/unit/test_gpu_failing.c tests/unit/scratch.h $(gpu_step)
tests_unit_test_gpu_failing_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_failing_DEPENDENCIES = libinternal.la libsluice_emulated.la
check_PROGRAMS += tests/unit/test_gpu_enqueue
gpu_lag = tests/unit/gpu_lag.c tests/unit/gpu_lag.h $(gpu_step)
tests_unit_test_gpu_enqueue_SOURCES = tests/unit/test_gpu_enqueue.c $(gpu_lag)
tests_unit_test_gpu_enqueue_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_enqueue_DEPENDENCIES = libinternal.la libsluice_emulated.la
check_PROGRAMS += tests/unit/test_gpu_late
tests_unit_test_gpu_late_SOURCES = tests/unit/test_gpu_late.c $(gpu_lag)
tests_unit_test_gpu_late_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_late_DEPENDENCIES = libinternal.la libsluice_emulated.la
check_PROGRAMS += tests/unit/test_device
# Its name and version give it the soname of CUDA's driver.
check_LTLIBRARIES += tests/unit/libcuda.la
tests_unit_libcuda_la_SOURCES = tests/unit/fake_driver.c
tests_unit_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -shared -rpath /nowhere
tests_unit_test_device_SOURCES = tests/unit/test_device.c
tests_unit_test_device_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module) \
	-DFAKE_DRIVER=\"$(abs_top_builddir)/tests/unit/.libs/libcuda.so.1\"
if HAVE_CUDA
tests_unit_test_device_CPPFLAGS += -DREAL_MODULE=\"$(abs_top_builddir)/.libs/libsluice_cuda.so\"
endif
tests_unit_test_device_DEPENDENCIES = libinternal.la libsluice_emulated.la tests/unit/libcuda.la
check_PROGRAMS += tests/unit/test_gpu_gradient
tests_unit_test_gpu_gradient_SOURCES = tests/unit/test_gpu_gradient.c tests/unit/gpu.c tests/unit/gpu.h \
	tests/unit/narrow.h tests/unit/random.h
tests_unit_test_gpu_gradient_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_gradient_DEPENDENCIES = libinternal.la libsluice_emulated.la
check_PROGRAMS += tests/unit/test_gpu_capture
tests_unit_test_gpu_capture_SOURCES = tests/unit/test_gpu_capture.c $(ranks)
tests_unit_test_gpu_capture_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_capture_DEPENDENCIES = libinternal.la libsluice_emulated.la
check_PROGRAMS += tests/unit/test_gpu_fold
tests_unit_test_gpu_fold_SOURCES = tests/unit/test_gpu_fold.c tests/unit/gpu.c tests/unit/gpu.h \
	tests/unit/narrow.h tests/unit/random.h
tests_unit_test_gpu_fold_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_fold_DEPENDENCIES = libinternal.la libsluice_emulated.la
check_PROGRAMS += tests/unit/test_gpu_plan
tests_unit_test_gpu_plan_SOURCES = tests/unit/test_gpu_plan.c gpu/plan.c gpu/plan.h
check_PROGRAMS += tests/unit/test_gpu_messages
tests_unit_test_gpu_messages_SOURCES = tests/unit/test_gpu_messages.c tests/unit/gpu.c tests/unit/gpu.h \
	tests/unit/random.h
tests_unit_test_gpu_messages_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_messages_DEPENDENCIES = libinternal.la libsluice_emulated.la
check_PROGRAMS += tests/unit/test_gpu_sketch
tests_unit_test_gpu_sketch_SOURCES = tests/unit/test_gpu_sketch.c tests/unit/gpu.c tests/unit/gpu.h tests/unit/random.h
tests_unit_test_gpu_sketch_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_sketch_DEPENDENCIES = libinternal.la libsluice_emulated.la
check_PROGRAMS += tests/unit/test_gpu_approximate
tests_unit_test_gpu_approximate_SOURCES = tests/unit/test_gpu_approximate.c tests/unit/gpu.c tests/unit/gpu.h \
	tests/unit/gpu_vectors.c tests/unit/gpu_vectors.h tests/unit/vector_kinds.h \
	tests/unit/random.h
tests_unit_test_gpu_approximate_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_approximate_DEPENDENCIES = libinternal.la libsluice_emulated.la
check_PROGRAMS += tests/unit/test_gpu_in_place
tests_unit_test_gpu_in_place_SOURCES = tests/unit/test_gpu_in_place.c $(ranks)
tests_unit_test_gpu_in_place_CPPFLAGS = $(AM_CPPFLAGS) $(emulated_module)
tests_unit_test_gpu_in_place_DEPENDENCIES = libinternal.la libsluice_emulated.la
