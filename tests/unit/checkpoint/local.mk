# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/checkpoint/. The linker replaces system calls (faults) and the collective (ranks are threads).
check_PROGRAMS += \
	tests/unit/test_checkpoint_contents \
	tests/unit/test_checkpoint_crash \
	tests/unit/test_checkpoint_damage \
	tests/unit/test_checkpoint_file \
	tests/unit/test_checkpoint_folder \
	tests/unit/test_checkpoint_restore \
	tests/unit/test_checkpoint_rounds \
	tests/unit/test_continue_checkpoint \
	tests/unit/test_state
rank_file = tests/unit/checkpoint/rank_file.c tests/unit/checkpoint/rank_file.h tests/unit/quiet.h tests/unit/scratch.h
checkpoint_ranks = tests/unit/checkpoint/checkpoint_ranks.c tests/unit/checkpoint/checkpoint_ranks.h tests/unit/checkpoint/checkpoint_fakes.c \
	tests/unit/quiet.h tests/unit/scratch.h
checkpoint_fakes = -Wl,--wrap=collective_run_about \
	-Wl,--wrap=job_check -Wl,--wrap=job_fail -Wl,--wrap=job_failed -Wl,--wrap=rank_text \
	-Wl,--wrap=sluice_is_worker -Wl,--wrap=progress_take -Wl,--wrap=progress_release \
	-Wl,--wrap=progress_poll \
	-Wl,--wrap=worker_restart -Wl,--wrap=shard_restart -Wl,--wrap=shard_publish_snapshot \
	-Wl,--wrap=model_read_snapshots -Wl,--wrap=fsync
tests_unit_test_checkpoint_contents_SOURCES = tests/unit/checkpoint/test_checkpoint_contents.c tests/unit/quiet.h \
	tests/unit/reseal.h tests/unit/scratch.h
tests_unit_test_checkpoint_crash_SOURCES = tests/unit/checkpoint/test_checkpoint_crash.c tests/unit/checkpoint/faulty_disk.c \
	tests/unit/checkpoint/faulty_disk.h tests/unit/quiet.h tests/unit/scratch.h
tests_unit_test_checkpoint_crash_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=open -Wl,--wrap=write \
	-Wl,--wrap=fsync -Wl,--wrap=close -Wl,--wrap=rename -Wl,--wrap=mkdir -Wl,--wrap=unlink \
	-Wl,--wrap=unlinkat -Wl,--wrap=rmdir
tests_unit_test_checkpoint_damage_SOURCES = tests/unit/checkpoint/test_checkpoint_damage.c $(rank_file)
tests_unit_test_checkpoint_file_SOURCES = tests/unit/checkpoint/test_checkpoint_file.c $(rank_file)
tests_unit_test_checkpoint_folder_SOURCES = tests/unit/checkpoint/test_checkpoint_folder.c tests/unit/quiet.h \
	tests/unit/scratch.h
tests_unit_test_checkpoint_restore_SOURCES = tests/unit/checkpoint/test_checkpoint_restore.c $(checkpoint_ranks)
tests_unit_test_checkpoint_restore_LDFLAGS = $(AM_LDFLAGS) $(checkpoint_fakes) -Wl,--wrap=checkpoint_file_load
tests_unit_test_checkpoint_rounds_SOURCES = tests/unit/checkpoint/test_checkpoint_rounds.c $(checkpoint_ranks)
tests_unit_test_checkpoint_rounds_LDFLAGS = $(AM_LDFLAGS) $(checkpoint_fakes)
tests_unit_test_continue_checkpoint_SOURCES = tests/unit/checkpoint/test_continue_checkpoint.c $(survivors)
tests_unit_test_continue_checkpoint_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=reduction_change -Wl,--wrap=dense_take \
	-Wl,--wrap=checkpoint_manifest_write -Wl,--wrap=checkpoint_clean
tests_unit_test_state_SOURCES = tests/unit/checkpoint/test_state.c tests/unit/four_tensors.h $(ranks)
