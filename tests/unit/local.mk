# SPDX-License-Identifier: BSD-3-Clause
# What the unit tests of several directories share. A directory here has the tests of the directory of that name in the library, and its
# own local.mk; all programs are built in tests/unit. Programs with several ranks fork them (ranks.c) and need no launcher.
AM_CPPFLAGS += -I$(top_srcdir)/tests/unit
# Cases register themselves; a program without a main() gets one.
check_LTLIBRARIES += tests/unit/libcases.la
tests_unit_libcases_la_SOURCES = tests/unit/cases.c tests/unit/cases.h tests/unit/cases_main.c tests/unit/libfabric_leaks.h
cases = tests/unit/libcases.la $(CMOCKA_LIBS)
ranks = tests/unit/ranks.c tests/unit/ranks.h tests/unit/thinned.h
# Compares two models of a recipe, step by step.
same_bits = tests/unit/same_bits.c tests/unit/same_bits.h $(ranks)
dense_values = tests/unit/dense_values.h $(ranks)
async_problem = tests/unit/async_problem.c tests/unit/async_problem.h $(ranks)
# Take down what the shards count.
survivors = tests/unit/survivors.c tests/unit/survivors_oracle.c tests/unit/survivors.h tests/unit/scratch.h $(ranks)
# A rank with vectors in GPU memory; two models, of which one has them there; on a device that lags.
gpu_rank = tests/unit/gpu_rank.c tests/unit/gpu_rank.h $(same_bits)
gpu_step = tests/unit/gpu_step.c tests/unit/gpu_step.h $(gpu_rank)
gpu_lag = tests/unit/gpu_lag.c tests/unit/gpu_lag.h $(gpu_step)

# Known to all sources, so that a file which tests share is compiled once and not for each of them.
AM_CPPFLAGS += -DEMULATED_MODULE=\"$(abs_top_builddir)/.libs/libsluice_emulated.so\" \
	-DEMULATED_RUNTIME=\"$(abs_top_builddir)/.libs/libcudart_emulated.so\"
# ./quickstart test runs the programs with the sanitizers and in valgrind, which also finds reads of memory that was never written. It
# leaves these programs out of valgrind:
# Every thread of a block is a coroutine, which takes minutes.
slow_in_valgrind = \
	tests/unit/test_gpu_approximate \
	tests/unit/test_gpu_dense \
	tests/unit/test_gpu_enqueue \
	tests/unit/test_gpu_failing \
	tests/unit/test_gpu_fold \
	tests/unit/test_gpu_gradient \
	tests/unit/test_gpu_in_place \
	tests/unit/test_gpu_late \
	tests/unit/test_gpu_messages \
	tests/unit/test_gpu_select \
	tests/unit/test_gpu_shard \
	tests/unit/test_gpu_sketch \
	tests/unit/test_gpu_step
# Programs that take the most time there and run little that the others do not. All check programs but the 13 above ran 33252
# lines of the library (gcov, 2026-11-30). No program that is left in valgrind ran 1294 of these; test_gpu_segments ran 345 of
# them, test_candidates 191, and test_verbs_walk 173. test_memory and test_open_memory count pages and allocations, which
# valgrind changes.
long_in_valgrind = \
	tests/unit/test_accumulator \
	tests/unit/test_bits \
	tests/unit/test_candidates \
	tests/unit/test_census \
	tests/unit/test_connect_many \
	tests/unit/test_conservation \
	tests/unit/test_continue \
	tests/unit/test_continue_checkpoint \
	tests/unit/test_continue_refused \
	tests/unit/test_different_calls \
	tests/unit/test_dynamics \
	tests/unit/test_gpu_segments \
	tests/unit/test_grad_type \
	tests/unit/test_growth \
	tests/unit/test_guard_raise \
	tests/unit/test_hubs \
	tests/unit/test_lazy \
	tests/unit/test_link_away \
	tests/unit/test_lost_notice \
	tests/unit/test_memory \
	tests/unit/test_message_round_trip \
	tests/unit/test_models \
	tests/unit/test_ofi_job \
	tests/unit/test_ofi_rules \
	tests/unit/test_open_memory \
	tests/unit/test_overflow \
	tests/unit/test_phases \
	tests/unit/test_push_range \
	tests/unit/test_quantize \
	tests/unit/test_recipe_print \
	tests/unit/test_reduce \
	tests/unit/test_select \
	tests/unit/test_shm_processes \
	tests/unit/test_simulate \
	tests/unit/test_slow_rank \
	tests/unit/test_split \
	tests/unit/test_stats \
	tests/unit/test_step \
	tests/unit/test_threads \
	tests/unit/test_uniform \
	tests/unit/test_verbs_broken \
	tests/unit/test_verbs_job \
	tests/unit/test_verbs_memlock \
	tests/unit/test_verbs_walk \
	tests/unit/test_waiting_messages \
	tests/unit/test_worth
not_in_valgrind = $(slow_in_valgrind) $(long_in_valgrind)
# Of these, ./quickstart test runs only with the sanitizers what computes the same bits there and would take long in both builds. The
# sanitizers leave out the largest vectors of test_gpu_approximate and test_gpu_select (GPU_TEST_SMALL).
only_in_sanitizer = \
	tests/unit/test_connect_many \
	tests/unit/test_gpu_dense \
	tests/unit/test_gpu_enqueue \
	tests/unit/test_gpu_failing \
	tests/unit/test_gpu_fold \
	tests/unit/test_gpu_gradient \
	tests/unit/test_gpu_in_place \
	tests/unit/test_gpu_late \
	tests/unit/test_gpu_messages \
	tests/unit/test_gpu_segments \
	tests/unit/test_gpu_shard \
	tests/unit/test_gpu_sketch \
	tests/unit/test_gpu_step \
	tests/unit/test_hubs \
	tests/unit/test_link_away \
	tests/unit/test_ofi_job \
	tests/unit/test_ofi_rules \
	tests/unit/test_slow_rank \
	tests/unit/test_verbs_broken \
	tests/unit/test_verbs_job \
	tests/unit/test_verbs_memlock \
	tests/unit/test_verbs_walk
# They mostly wait, so ./quickstart test runs them with the sanitizers beside other programs.
waiting = \
	tests/unit/test_bootstrap \
	tests/unit/test_continue \
	tests/unit/test_continue_checkpoint \
	tests/unit/test_continue_refused \
	tests/unit/test_link_away \
	tests/unit/test_slow_rank
on_emulated_gpu = $(slow_in_valgrind) \
	tests/unit/test_dense_spoilt \
	tests/unit/test_device \
	tests/unit/test_gpu_capture \
	tests/unit/test_gpu_devices \
	tests/unit/test_gpu_segments
$(on_emulated_gpu): libsluice_emulated.la

# The program of README and sluice(7): public header and library only, and nothing of the tests.
check_PROGRAMS += tests/unit/example
tests_unit_example_SOURCES = tests/unit/example.c
tests_unit_example_LDADD = libsluice.la

TESTS += tests/unit/abi.sh tests/unit/header_alone.sh tests/unit/layers.sh
# A program that links the installed library would need the sanitizers' flags, and a preloaded library them first.
if !WITH_SANITIZER
TESTS += tests/unit/install.sh
endif
EXTRA_DIST += tests/same-bits tests/unit/abi.sh tests/unit/header_alone.sh tests/unit/install.sh tests/unit/layers.sh tests/unit/valgrind.supp
