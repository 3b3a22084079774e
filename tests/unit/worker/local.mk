# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/worker/.
check_PROGRAMS += \
	tests/unit/test_accumulator \
	tests/unit/test_conservation \
	tests/unit/test_dense_spoilt \
	tests/unit/test_dense_step \
	tests/unit/test_drift \
	tests/unit/test_dynamics \
	tests/unit/test_gpu_capture \
	tests/unit/test_gpu_devices \
	tests/unit/test_gpu_enqueue \
	tests/unit/test_gpu_failing \
	tests/unit/test_gpu_in_place \
	tests/unit/test_gpu_late \
	tests/unit/test_gpu_segments \
	tests/unit/test_gpu_step \
	tests/unit/test_grad_type \
	tests/unit/test_hand_over \
	tests/unit/test_home \
	tests/unit/test_lazy \
	tests/unit/test_overflow \
	tests/unit/test_phases \
	tests/unit/test_pull_range \
	tests/unit/test_push_range \
	tests/unit/test_rate_zero \
	tests/unit/test_segments \
	tests/unit/test_shrink \
	tests/unit/test_skip \
	tests/unit/test_stats \
	tests/unit/test_streaming \
	tests/unit/test_svrg \
	tests/unit/test_transform_job \
	tests/unit/test_uneven
tests_unit_test_accumulator_SOURCES = tests/unit/worker/test_accumulator.c tests/unit/four_tensors.h $(same_bits)
tests_unit_test_conservation_SOURCES = tests/unit/worker/test_conservation.c tests/unit/worker/sent.h $(ranks)
# Spoils bytes between who makes and who reads them.
tests_unit_test_dense_spoilt_SOURCES = tests/unit/worker/test_dense_spoilt.c $(gpu_rank) tests/unit/dense_values.h
tests_unit_test_dense_spoilt_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dense_put -Wl,--wrap=message_head
tests_unit_test_dense_step_SOURCES = tests/unit/worker/test_dense_step.c $(dense_values) tests/unit/same_bits.c tests/unit/same_bits.h
tests_unit_test_drift_SOURCES = tests/unit/worker/test_drift.c tests/unit/worker/drifts.h tests/unit/worker/sent.h $(ranks)
tests_unit_test_dynamics_SOURCES = tests/unit/worker/test_dynamics.c tests/unit/worker/sent.h tests/unit/scratch.h $(ranks)
tests_unit_test_gpu_capture_SOURCES = tests/unit/worker/test_gpu_capture.c $(gpu_rank)
tests_unit_test_gpu_devices_SOURCES = tests/unit/worker/test_gpu_devices.c tests/unit/narrow.h $(gpu_rank)
tests_unit_test_gpu_enqueue_SOURCES = tests/unit/worker/test_gpu_enqueue.c $(gpu_lag)
tests_unit_test_gpu_failing_SOURCES = tests/unit/worker/test_gpu_failing.c tests/unit/scratch.h $(gpu_step)
tests_unit_test_gpu_in_place_SOURCES = tests/unit/worker/test_gpu_in_place.c $(gpu_rank)
tests_unit_test_gpu_late_SOURCES = tests/unit/worker/test_gpu_late.c $(gpu_lag)
tests_unit_test_gpu_segments_SOURCES = tests/unit/worker/test_gpu_segments.c tests/unit/four_tensors.h \
	tests/unit/narrow.h $(gpu_rank)
tests_unit_test_gpu_step_SOURCES = tests/unit/worker/test_gpu_step.c tests/unit/narrow.h $(gpu_step)
tests_unit_test_grad_type_SOURCES = tests/unit/worker/test_grad_type.c tests/unit/narrow.h $(same_bits)
tests_unit_test_hand_over_SOURCES = tests/unit/worker/test_hand_over.c $(ranks)
tests_unit_test_home_SOURCES = tests/unit/worker/test_home.c
tests_unit_test_home_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=descriptors_swap -Wl,--wrap=collective_agree \
	-Wl,--wrap=progress_take -Wl,--wrap=progress_release -Wl,--wrap=progress_until
tests_unit_test_lazy_SOURCES = tests/unit/worker/test_lazy.c tests/unit/scratch.h $(ranks)
tests_unit_test_overflow_SOURCES = tests/unit/worker/test_overflow.c $(ranks)
tests_unit_test_phases_SOURCES = tests/unit/worker/test_phases.c $(ranks)
tests_unit_test_pull_range_SOURCES = tests/unit/worker/test_pull_range.c tests/unit/four_tensors.h $(same_bits)
tests_unit_test_push_range_SOURCES = tests/unit/worker/test_push_range.c tests/unit/four_tensors.h $(same_bits)
tests_unit_test_rate_zero_SOURCES = tests/unit/worker/test_rate_zero.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_segments_SOURCES = tests/unit/worker/test_segments.c tests/unit/four_tensors.h \
	tests/unit/narrow.h $(ranks)
tests_unit_test_shrink_SOURCES = tests/unit/worker/test_shrink.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_skip_SOURCES = tests/unit/worker/test_skip.c tests/unit/four_tensors.h $(ranks)
tests_unit_test_stats_SOURCES = tests/unit/worker/test_stats.c tests/unit/worker/sent.h $(ranks)
tests_unit_test_streaming_SOURCES = tests/unit/worker/test_streaming.c tests/unit/worker/drifts.h tests/unit/worker/sent.h $(ranks)
tests_unit_test_svrg_SOURCES = tests/unit/worker/test_svrg.c $(async_problem)
tests_unit_test_svrg_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=upload_head
tests_unit_test_transform_job_SOURCES = tests/unit/worker/test_transform_job.c tests/unit/worker/sent.h $(ranks)
tests_unit_test_uneven_SOURCES = tests/unit/worker/test_uneven.c tests/unit/four_tensors.h $(ranks)

# gcov does not count what a sanitizer adds, and needs the objects of one compiler.
if !WITH_SANITIZER
TESTS += tests/unit/worker/hot_path.sh
endif
EXTRA_DIST += tests/unit/worker/hot_path.sh tests/unit/worker/hot_path.c
