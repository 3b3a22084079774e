# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_header
tests_unit_test_header_SOURCES = tests/unit/test_header.c
TESTS += tests/unit/header_alone.sh tests/unit/layers.sh
EXTRA_DIST += tests/unit/header_alone.sh tests/unit/layers.sh tests/unit/valgrind.supp
