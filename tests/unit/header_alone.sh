#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compiles each public header alone, with -pedantic, as C99 up to C17 and as C++. Nothing from the build is
# used: no config.h, and no macro that a user's program would not have.
set -u
top_srcdir=${top_srcdir:-${srcdir:-$(dirname "$0")/../..}}
[ -f "$top_srcdir/runtime/sluice.h" ] || top_srcdir=$(dirname "$0")/../..
failed=0

compile() { # COMPILER LANGUAGE STANDARD
	for header in "$top_srcdir"/runtime/sluice*.h; do
		header=${header##*/}
		printf '#include <%s>\n#include <%s>\nint code = SLUICE_EINVAL;\n' $header $header |
			$1 -x "$2" -std="$3" -pedantic -Wall -Wextra -Werror -fsyntax-only \
				-I"$top_srcdir/runtime" - || { echo "wrong: $header as $3"; failed=1; }
	done
}

cc=${CC:-cc} cxx=${CXX:-c++}
if command -v "${cc%% *}" >/dev/null; then
	for standard in c99 c11 c17; do compile "$cc" c $standard; done
else
	echo "skipped: no C compiler ($cc)"
fi
if command -v "${cxx%% *}" >/dev/null; then
	compile "$cxx" c++ c++11
else
	echo "skipped: no C++ compiler ($cxx)"
fi
exit $failed
