# SPDX-License-Identifier: BSD-3-Clause
# Functions that the tests of the Python package share. Sourced in the build folder. find_python sets python
# to the first python3 that has the requested modules. The tests use the library and the package of this tree.
set -u
tests=$(cd "$(dirname "$0")" && pwd)
SLUICE_LIBRARY=$PWD/.libs/libsluice.so
PYTHONPATH=${tests%/tests}${PYTHONPATH:+:$PYTHONPATH}
PYTHONDONTWRITEBYTECODE=1
OMP_NUM_THREADS=1
export SLUICE_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS
unset SLUICE_RECIPE SLUICE_SERVERS SLUICE_MEMORY
export SLUICE_CONF=off

skip() { echo "skipped: $*"; exit 77; }
[ -e "$SLUICE_LIBRARY" ] || skip "there is no shared library $SLUICE_LIBRARY"

# Debian's packages work with Debian's python3, which may not be the first python3 in PATH.
find_python() { # MODULES DEBIAN_PACKAGE
	for python in ${PYTHON:-} python3 /usr/bin/python3; do
		"$python" -c "import sys, $1; sys.exit(sys.version_info < (3, 9))" 2>/dev/null && return
	done
	skip "no python3 (3.9 or later) with $1; on Debian: apt-get install $2"
}
