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

usable() { # LIBRARY
	if [ ! -e "$1" ]; then
		echo "skipped: there is no shared library $1"
	elif ldd "$1" | grep -qE 'lib(asan|tsan|ubsan)'; then
		echo "skipped: $1 has sanitizers, and python has none"
	else
		tested=1
		return
	fi
	return 1
}

processes() {
	if [ ! -x tests/oracle/processes ]; then
		echo "skipped: tests/oracle/processes was not built, because there is no cmocka"
		return
	fi
	tested=1
	[ -s "$file" ] || oracle write "$file" || return
	tests/oracle/processes "$file"
}

failed=0 tested=
if [ $# -gt 0 ]; then
	! usable "$1" || oracle installed "$1" || failed=1
else
	file=$(mktemp "${TMPDIR:-.}/sluice-oracle-XXXXXX") || exit
	trap 'rm -f "$file"' EXIT
	! usable .libs/libsluice.so || oracle simulate .libs/libsluice.so "$file" || failed=1
	processes || failed=1
fi
[ -n "$tested" ] || exit 77
exit $failed
