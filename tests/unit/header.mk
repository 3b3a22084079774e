# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_header
tests_unit_test_header_SOURCES = tests/unit/test_header.c
TESTS += tests/unit/header_alone.sh tests/unit/layers.sh
# A program that links the installed library would need the sanitizers' flags, and a preloaded library them first.
if !WITH_SANITIZER
TESTS += tests/unit/install.sh
endif
EXTRA_DIST += tests/unit/header_alone.sh tests/unit/install.sh tests/unit/layers.sh tests/unit/valgrind.supp
