#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Uses gcov to find the files of runtime/worker that a push of up=topk(0.01) on the host enters, and those
# that its pull enters. They must be the lists below. The files of a method that the recipe does not use must
# not be entered in a step.
set -u
export LC_ALL=C
push="guard hooks lane push signal source step upload worker"
pull="dense guard hooks lane pull push step target watch worker"

top=$(cd "${top_srcdir:-$(dirname "$0")/../../..}" && pwd) built=$(pwd)
command -v gcc >/dev/null && command -v gcov >/dev/null && [ -x libtool ] ||
	{ echo "skipped: there is no gcc, gcov or libtool"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/hot-path.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
for f in "$top"/runtime/worker/*.c; do
	gcc -std=gnu11 -O0 --coverage -fprofile-abs-path -pthread -I"$built" -I"$top" -I"$top/runtime" -c "$f" \
		-o "$work/$(basename "$f" .c).o" || exit 1
done
gcc -std=gnu11 -O0 -I"$top/runtime" -c "$top/tests/unit/worker/hot_path.c" -o "$work/main.main" || exit 1
./libtool --quiet --tag=CC --mode=link gcc --coverage -pthread -o "$work/hot_path" "$work"/*.o -Wl,"$work/main.main" libinternal.la || exit 1

# entered CALL: prints the files whose lines were executed in that call of the 6th step.
entered() {
	rm -f "$work"/*.gcda
	SLUICE_LOG=error "$work/hot_path" "$1" || exit 1
	for data in "$work"/*.gcda; do
		name=$(basename "$data" .gcda)
		(cd "$work" && gcov -n "$data" 2>/dev/null) | grep -A1 "worker/$name\.c'" | grep -q 'executed:0\.00%' || echo "$name"
	done | sort | tr '\n' ' ' | sed 's/ $//'
}

bad=0
for call in push pull; do
	eval "expected=\$$call"
	is=$(entered $call) || exit 1
	echo "a $call enters $(echo "$is" | wc -w) files of runtime/worker: $is"
	[ "$is" = "$expected" ] || { echo "expected: $expected"; bad=1; }
done
exit $bad
