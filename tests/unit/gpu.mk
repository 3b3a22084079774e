# SPDX-License-Identifier: BSD-3-Clause
# The GPU module through its table: on the CPU here, on a GPU in tests/gpu/run, with the same programs.
# Known to all sources, so that a file which tests share is compiled once and not for each of them.
AM_CPPFLAGS += -DEMULATED_MODULE=\"$(abs_top_builddir)/.libs/libsluice_emulated.so\" \
	-DEMULATED_RUNTIME=\"$(abs_top_builddir)/.libs/libcudart_emulated.so\"
# Every thread of a block is a coroutine there: minutes each. The sanitizers see them.
slow_in_valgrind = tests/unit/test_gpu_select tests/unit/test_gpu_gradient tests/unit/test_gpu_fold \
	tests/unit/test_gpu_messages tests/unit/test_gpu_step tests/unit/test_gpu_failing tests/unit/test_gpu_enqueue \
	tests/unit/test_gpu_late tests/unit/test_gpu_in_place tests/unit/test_gpu_approximate tests/unit/test_gpu_sketch \
	tests/unit/test_gpu_capture tests/unit/test_gpu_dense tests/unit/test_gpu_shard
on_emulated_gpu = \
	tests/unit/test_device \
	tests/unit/test_gpu_approximate \
	tests/unit/test_gpu_capture \
	tests/unit/test_gpu_dense \
	tests/unit/test_gpu_enqueue \
	tests/unit/test_gpu_failing \
	tests/unit/test_gpu_fold \
	tests/unit/test_gpu_gradient \
	tests/unit/test_gpu_in_place \
	tests/unit/test_gpu_late \
	tests/unit/test_gpu_messages \
	tests/unit/test_gpu_segments \
	tests/unit/test_gpu_select \
	tests/unit/test_gpu_shard \
	tests/unit/test_gpu_sketch \
	tests/unit/test_gpu_step
check_PROGRAMS += $(on_emulated_gpu) tests/unit/test_gpu_plan
$(on_emulated_gpu): libsluice_emulated.la

# A table and its memory.
gpu = tests/unit/gpu.c tests/unit/gpu.h tests/unit/random.h
gpu_vectors = tests/unit/gpu_vectors.c tests/unit/gpu_vectors.h tests/unit/vector_kinds.h $(gpu)
tests_unit_test_gpu_approximate_SOURCES = tests/unit/test_gpu_approximate.c $(gpu_vectors)
tests_unit_test_gpu_dense_SOURCES = tests/unit/test_gpu_dense.c tests/unit/narrow.h $(gpu)
tests_unit_test_gpu_fold_SOURCES = tests/unit/test_gpu_fold.c tests/unit/narrow.h $(gpu)
tests_unit_test_gpu_gradient_SOURCES = tests/unit/test_gpu_gradient.c tests/unit/narrow.h $(gpu)
tests_unit_test_gpu_messages_SOURCES = tests/unit/test_gpu_messages.c $(gpu)
tests_unit_test_gpu_select_SOURCES = tests/unit/test_gpu_select.c $(gpu_vectors)
tests_unit_test_gpu_sketch_SOURCES = tests/unit/test_gpu_sketch.c $(gpu)
tests_unit_test_gpu_plan_SOURCES = tests/unit/test_gpu_plan.c gpu/plan.c gpu/plan.h

# A rank with vectors in GPU memory; two models, of which one has them there; on a device that lags.
gpu_rank = tests/unit/gpu_rank.c tests/unit/gpu_rank.h $(ranks)
gpu_step = tests/unit/gpu_step.c tests/unit/gpu_step.h $(gpu_rank)
gpu_lag = tests/unit/gpu_lag.c tests/unit/gpu_lag.h $(gpu_step)
tests_unit_test_gpu_segments_SOURCES = tests/unit/test_gpu_segments.c tests/unit/four_tensors.h \
	tests/unit/narrow.h $(gpu_rank)
tests_unit_test_gpu_capture_SOURCES = tests/unit/test_gpu_capture.c tests/unit/narrow.h $(gpu_rank)
tests_unit_test_gpu_enqueue_SOURCES = tests/unit/test_gpu_enqueue.c $(gpu_lag)
tests_unit_test_gpu_failing_SOURCES = tests/unit/test_gpu_failing.c tests/unit/scratch.h $(gpu_step)
tests_unit_test_gpu_in_place_SOURCES = tests/unit/test_gpu_in_place.c $(gpu_rank)
tests_unit_test_gpu_late_SOURCES = tests/unit/test_gpu_late.c $(gpu_lag)
tests_unit_test_gpu_shard_SOURCES = tests/unit/test_gpu_shard.c tests/unit/scratch.h $(gpu_lag)
tests_unit_test_gpu_step_SOURCES = tests/unit/test_gpu_step.c tests/unit/narrow.h $(gpu_step)

# The machine that executes PTX.
check_PROGRAMS += tests/unit/test_ptx
tests_unit_test_ptx_SOURCES = tests/unit/test_ptx.c $(ptx_machine)
tests_unit_test_ptx_CPPFLAGS = $(AM_CPPFLAGS) -DFAULTS=\"$(abs_top_srcdir)/tests/gpu/ptx/faults.ptx\"

# Its name and version give it the soname of CUDA's driver.
check_LTLIBRARIES += tests/unit/libcuda.la
tests_unit_libcuda_la_SOURCES = tests/unit/fake_driver.c
tests_unit_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -shared -rpath /nowhere
tests_unit_test_device_SOURCES = tests/unit/test_device.c
tests_unit_test_device_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_DRIVER=\"$(abs_top_builddir)/tests/unit/.libs/libcuda.so.1\"
if HAVE_CUDA
tests_unit_test_device_CPPFLAGS += -DREAL_MODULE=\"$(abs_top_builddir)/.libs/libsluice_cuda.so\"
endif
tests_unit_test_device_DEPENDENCIES = libinternal.la tests/unit/libcuda.la
