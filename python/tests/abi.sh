#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compares the declarations in the Python package with the public headers, as a C compiler sees them.
. "$(dirname "$0")/run.sh"
CC=${CC:-cc}
command -v "${CC%% *}" >/dev/null || skip "${CC%% *} is not installed"
find_python ctypes python3
tmp=$(mktemp -d "${TMPDIR:-.}/sluice-abi-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
headers=${tests%/python/tests}/runtime
"$python" "$tests/abi.py" layout "$headers" >"$tmp/layout.c" || exit 1
$CC -I"$headers" -o "$tmp/layout" "$tmp/layout.c" || exit 1
"$tmp/layout" >"$tmp/layout.txt" || exit 1
"$python" "$tests/abi.py" compare "$headers" "$tmp/layout.txt"
