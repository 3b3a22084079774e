#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# abi.sh [write]: compares the binary interface of both libraries with their baselines, by the rules of
# doc/abi.md: a function may be added, and a struct that begins with its own size may grow at its end. Nothing
# else may change. The interface is that of a library without contents, which is compiled here from the public
# headers, so neither the compiler nor its options matter. The built libraries are compared, too, if they have
# debug information. Then each kind of change is made to a copy of the headers, to test this comparison itself.
# "make abi-baseline" writes new baselines. That belongs to a release, or to an intended change.
set -u
export LC_ALL=C
top_srcdir=${top_srcdir:-${srcdir:-$(dirname "$0")/../..}}
[ -f "$top_srcdir/runtime/sluice.h" ] || top_srcdir=$(dirname "$0")/../..
runtime=$top_srcdir/runtime
CC=${CC:-cc}
failed=0
skip() { echo "skipped: $*"; exit 77; }
wrong() { echo "wrong: $*"; failed=1; }
for tool in "${CC%% *}" abidw abidiff readelf; do
	command -v "$tool" >/dev/null || skip "$tool is not installed (Debian has abidw and abidiff in abigail-tools)"
done
abidw --help 2>&1 | grep -q -e --drop-undefined-syms || skip "this abidw is too old"
tmp=$(mktemp -d "${TMPDIR:-/tmp}/sluice-abi.XXXXXX") && tmp=$(cd "$tmp" && pwd) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
printf '#include <stddef.h>\nsize_t n;\n' >"$tmp/word.c"
$CC -c -o "$tmp/word.o" "$tmp/word.c" && readelf -h "$tmp/word.o" | grep -q 'Class: *ELF64' ||
	skip "the baselines are those of machines with 64 bits"

# One line for each library: its name, its map, its baseline.
libraries='libsluice runtime/libsluice.map runtime/libsluice.abi
libsluice_estimate runtime/estimate/libsluice_estimate.map runtime/estimate/libsluice_estimate.abi'

headers_of() { # LIBRARY FOLDER
	for header in "$2"/sluice*.h; do
		case $1:${header##*/} in
		libsluice_estimate:sluice_estimate.h | libsluice:sluice.h | libsluice:sluice_[!e]*.h) echo "$header" ;;
		esac
	done
}

# Compiles a library with the functions that the headers of FOLDER declare, and without their contents.
hollow() { # LIBRARY MAP FOLDER
	for header in $(headers_of "$1" "$3"); do
		printf '\n#include "%s"\n' "$header"
		tr '\n' ' ' <"$header" | sed 's|/\*|\n&|g; s|\*/|&\n|g' | sed '/^\/\*/d' | tr '\n' ' ' |
			sed 's/SLUICE_API/\n&/g' | sed -n 's/^\(SLUICE_API *[a-z][^;]*)\);.*/\1 { __builtin_trap(); }/p'
	done >"$3/$1.c"
	$CC -std=gnu11 -w -g -O0 -fPIC -shared -fvisibility=hidden -I"$3" -o "$3/$1.so" "$3/$1.c" \
		-Wl,-soname,"$1.so.0" -Wl,--version-script="$2"
}

# Writes the interface of a library, without the types that only other headers than those of FOLDER define.
describe() { # LIBRARY FOLDER FILE
	abidw --headers-dir "$2" --drop-private-types --exported-interfaces-only --no-architecture --no-corpus-path \
		--no-comp-dir-path --no-show-locs --no-elf-needed --drop-undefined-syms --no-parameter-names \
		--no-write-default-sizes "$1" >"$3"
}

# Prints the structs of the headers that begin with their own size, and may therefore grow at their end.
growing() { # FOLDER
	sed 's|/\*.*||' "$1"/sluice*.h | awk '
		/^typedef struct [a-z_]* \{/ { name = $3; first = 1; next }
		name != "" && first && /^\tsize_t size;/ { print name }
		{ first = 0 }'
}

# Removes the fields that such a struct has gained after its end in the baseline. A field that fits into the
# padding of the old struct stays, because the library cannot tell whether a program has set it.
without_growth() { # BASELINE FOLDER <DESCRIPTION
	growing "$2" >"$tmp/growing"
	[ -s "$tmp/growing" ] || wrong "no struct of the headers begins with its own size"
	awk -v quote="'" '
		function field(name, skipped) {
			skipped = length(name) + 2
			return match($0, name "=" quote "[^" quote "]*") ? substr($0, RSTART + skipped, RLENGTH - skipped) : ""
		}
		FILENAME != "-" && NF == 1 { grows[$1] = 1; next }
		/<class-decl/ { name = field("name"); bits = field("size-in-bits") }
		FILENAME != "-" { if (/<class-decl/ && name in grows) old[name] = bits; next }
		/<class-decl/ && name in old && bits + 0 > old[name] + 0 {
			sub("size-in-bits=" quote bits, "size-in-bits=" quote old[name])
		}
		/<data-member/ && name in old && field("layout-offset-in-bits") + 0 >= old[name] + 0 { cut = 1 }
		!cut { print }
		/<\/data-member/ { cut = 0 }
	' "$tmp/growing" "$1" -
}

# Two descriptions are compared, because abidiff takes types without a place in a source for private ones.
compare() { # BASELINE LIBRARY FOLDER
	describe "$2" "$3" "$tmp/described" || return
	without_growth "$1" "$3" <"$tmp/described" >"$tmp/cut"
	abidiff --exported-interfaces-only --no-architecture --no-corpus-path --no-added-syms "$1" "$tmp/cut" \
		>"$tmp/differences" 2>&1
}

copy_headers() { # FOLDER
	mkdir "$1" && cp "$runtime"/sluice*.h "$1/" && chmod u+w "$1"/*.h
}

built() { # LIBRARY BASELINE: compares what the build has made
	library=.libs/$1.so
	if [ ! -e "$library" ] || ! readelf -S "$library" | grep -q '\.debug_info'; then
		echo "not compared: $library was not built, or has no debug information"
	elif readelf --dyn-syms "$library" | grep -q -e __asan -e __tsan; then
		echo "not compared: $library has a sanitizer"
	else
		compare "$2" "$library" "$tmp/now" || { cat "$tmp/differences"; wrong "$library differs from $2"; }
	fi
}

# change NAME yes|no HEADER SED: changes a copy of a header, and looks whether abidiff allows it.
change() {
	copy_headers "$tmp/$1"
	sed "$4" "$runtime/$3" >"$tmp/$1/$3"
	if cmp -s "$runtime/$3" "$tmp/$1/$3"; then
		wrong "the change \"$1\" does not change $3; mend it in $0"
		return
	fi
	hollow libsluice "$tmp/map" "$tmp/$1" || { wrong "the change \"$1\" does not compile"; return; }
	if compare "$top_srcdir/runtime/libsluice.abi" "$tmp/$1/libsluice.so" "$tmp/$1"; then
		[ "$2" = yes ] || wrong "the change \"$1\" was not found"
	else
		[ "$2" = no ] || { cat "$tmp/differences"; wrong "the change \"$1\" is allowed, but was refused"; }
	fi
}

copy_headers "$tmp/now"
echo "$libraries" >"$tmp/libraries"
while read -r name map baseline; do
	hollow "$name" "$top_srcdir/$map" "$tmp/now" || { wrong "no library from the headers of $name"; continue; }
	if [ "${1-}" = write ]; then
		describe "$tmp/now/$name.so" "$tmp/now" "$tmp/described"
		sed "s| path='/[^']*/| path='|" "$tmp/described" >"$top_srcdir/$baseline"
		continue
	fi
	compare "$top_srcdir/$baseline" "$tmp/now/$name.so" "$tmp/now" || {
		cat "$tmp/differences"
		wrong "the headers of $name break programs that were compiled with $baseline; see doc/abi.md"
	}
	built "$name" "$top_srcdir/$baseline"
done <"$tmp/libraries"
[ "${1-}" != write ] || exit $failed

sed 's/^	sluice_rank;/&\n	sluice_added;/' "$runtime/libsluice.map" >"$tmp/map"
change function-added yes sluice.h 's/^SLUICE_API int sluice_rank(.*/&\nSLUICE_API int sluice_added(int);/'
change field-appended yes sluice.h 's/^} sluice_job_attr;/	double added;\n&/'
change function-removed no sluice.h '/^SLUICE_API int sluice_rank(/d'
change parameter-changed no sluice.h '/^SLUICE_API int sluice_barrier(/s/(/(int way, /'
change type-changed no sluice.h '/^SLUICE_API int sluice_size(/s/int/long/'
change field-in-gap no sluice.h '/^	const sluice_bootstrap \*bootstrap;/s/^/	int added;\n/'
change field-inserted no sluice.h '/sizeof(sluice_job_attr)/s/$/\n	double inserted;/'
change field-removed no sluice.h '/^	int wait_timeout_ms;/d'
change plain-struct-grown no sluice.h 's/^} sluice_tensor;/	double added;\n&/'
[ $failed = 0 ] && echo "the binary interface is that of the baselines, or larger"
exit $failed
