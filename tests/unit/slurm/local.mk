# SPDX-License-Identifier: BSD-3-Clause
# Bootstrap: records, and the conversation with a launcher, against a fake of PMIx.
check_PROGRAMS += \
	tests/unit/test_callbacks \
	tests/unit/test_record \
	tests/unit/test_key_file
tests_unit_test_callbacks_SOURCES = tests/unit/slurm/test_callbacks.c
tests_unit_test_record_SOURCES = tests/unit/slurm/test_record.c
tests_unit_test_key_file_SOURCES = tests/unit/slurm/test_key_file.c tests/unit/thinned.h

if HAVE_PMIX
check_PROGRAMS += tests/unit/test_bootstrap
tests_unit_test_bootstrap_SOURCES = tests/unit/slurm/test_bootstrap.c $(fake_pmix)
else
EXTRA_DIST += tests/unit/slurm/test_bootstrap.c $(fake_pmix)
endif
