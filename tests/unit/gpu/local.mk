# SPDX-License-Identifier: BSD-3-Clause
# The GPU module through its table: on the CPU here, on a GPU in tests/gpu/run, with the same programs.
check_PROGRAMS += \
	tests/unit/test_gpu_approximate \
	tests/unit/test_gpu_dense \
	tests/unit/test_gpu_fold \
	tests/unit/test_gpu_gradient \
	tests/unit/test_gpu_messages \
	tests/unit/test_gpu_plan \
	tests/unit/test_gpu_select \
	tests/unit/test_gpu_sketch \
	tests/unit/test_ptx
# A table and its memory.
gpu = tests/unit/gpu/gpu.c tests/unit/gpu/gpu.h tests/unit/random.h
gpu_vectors = tests/unit/gpu/gpu_vectors.c tests/unit/gpu/gpu_vectors.h tests/unit/vector_kinds.h $(gpu)
tests_unit_test_gpu_approximate_SOURCES = tests/unit/gpu/test_gpu_approximate.c $(gpu_vectors)
tests_unit_test_gpu_dense_SOURCES = tests/unit/gpu/test_gpu_dense.c tests/unit/narrow.h $(gpu)
tests_unit_test_gpu_fold_SOURCES = tests/unit/gpu/test_gpu_fold.c tests/unit/narrow.h $(gpu)
tests_unit_test_gpu_gradient_SOURCES = tests/unit/gpu/test_gpu_gradient.c tests/unit/narrow.h $(gpu)
tests_unit_test_gpu_messages_SOURCES = tests/unit/gpu/test_gpu_messages.c $(gpu)
tests_unit_test_gpu_plan_SOURCES = tests/unit/gpu/test_gpu_plan.c gpu/plan.c gpu/plan.h
tests_unit_test_gpu_select_SOURCES = tests/unit/gpu/test_gpu_select.c $(gpu_vectors)
tests_unit_test_gpu_sketch_SOURCES = tests/unit/gpu/test_gpu_sketch.c $(gpu)
# The machine that executes PTX.
tests_unit_test_ptx_SOURCES = tests/unit/gpu/test_ptx.c $(ptx_machine)
tests_unit_test_ptx_CPPFLAGS = $(AM_CPPFLAGS) -DFAULTS=\"$(abs_top_srcdir)/tests/gpu/ptx/faults.ptx\"
