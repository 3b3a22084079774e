# SPDX-License-Identifier: BSD-3-Clause
# What the tests of the Python package share: sourced with the build folder as the current one. Sets python to the
# first python3 that has the modules which are asked for, and tests the library and the package that lie here.
set -u
tests=$(cd "$(dirname "$0")" && pwd)
SLUICE_LIBRARY=$PWD/.libs/libsluice.so
PYTHONPATH=${tests%/tests}${PYTHONPATH:+:$PYTHONPATH}
PYTHONDONTWRITEBYTECODE=1
OMP_NUM_THREADS=1
export SLUICE_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS
unset SLUICE_RECIPE SLUICE_SERVERS SLUICE_MEMORY

skip() { echo "skipped: $*"; exit 77; }
[ -e "$SLUICE_LIBRARY" ] || skip "there is no shared library $SLUICE_LIBRARY"

# Debian's packages serve Debian's python3, which need not be the first one of PATH.
find_python() { # MODULES DEBIAN_PACKAGE
	for python in ${PYTHON:-} python3 /usr/bin/python3; do
		"$python" -c "import sys, $1; sys.exit(sys.version_info < (3, 9))" 2>/dev/null && return
	done
	skip "no python3 (3.9 or later) with $1; on Debian: apt-get install $2"
}
