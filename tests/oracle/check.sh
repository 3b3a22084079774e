#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compares the library with the numpy versions of its methods, bit by bit. The methods run in simulated jobs
# in the shared library and, if tests/oracle/processes was built, also in separate processes. With an
# argument, only that shared library is tested. make installcheck passes the installed library.
set -u
here=$(dirname "$0")
export SLUICE_LOG=error
unset SLUICE_RECIPE SLUICE_SERVERS SLUICE_MEMORY

# Debian's numpy works with Debian's python3, which may not be the first python3 in PATH.
python=
for candidate in ${PYTHON:-} python3 /usr/bin/python3; do
	if "$candidate" -c 'import numpy' 2>/dev/null; then
		python=$candidate
		break
	fi
done
[ -n "$python" ] || {
	echo "skipped: no python3 with numpy; on Debian: apt-get install python3-numpy"
	exit 77
}

oracle() { "$python" -B "$here/oracle.py" "$@"; }

simulate() { # LIBRARY
	if [ ! -e "$1" ]; then
		echo "skipped: there is no shared library $1"
	elif ldd "$1" | grep -qE 'lib(asan|tsan|ubsan)'; then
		echo "skipped: $1 has sanitizers, and python has none"
	else
		tested=1
		oracle simulate "$1"
	fi
}

processes() {
	if [ ! -x tests/oracle/processes ]; then
		echo "skipped: tests/oracle/processes was not built, because there is no cmocka"
		return
	fi
	file=$(mktemp "${TMPDIR:-.}/sluice-oracle-XXXXXX") || return
	trap 'rm -f "$file"' EXIT
	tested=1
	oracle write "$file" && tests/oracle/processes "$file"
}

failed=0 tested=
simulate "${1:-.libs/libsluice.so}" || failed=1
[ $# -gt 0 ] || processes || failed=1
[ -n "$tested" ] || exit 77
exit $failed
