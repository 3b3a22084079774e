#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the build into a temporary folder, moves the installation, and uses it as a user does. A program is
# compiled with the flags from pkg-config, without any other package, against libsluice.so and against
# libsluice.a, and is run. The programs must find the library, and the library must find the GPU module, in
# the new place. Run in the build folder.
set -u
top_srcdir=${top_srcdir:-${srcdir:-$(dirname "$0")/../..}}
CC=${CC:-cc}
skip() { echo "skipped: $*"; exit 77; }
wrong() { echo "wrong: $*"; failed=1; }
failed=0
for tool in "${CC%% *}" make pkg-config readelf; do
	command -v "$tool" >/dev/null || skip "$tool is not installed"
done
where=$(cd "${TMPDIR:-.}" && pwd -P)
above=$where
while [ "$above" != / ]; do # the library refuses modules below another user's folder
	case $(stat -c %u "$above") in 0 | "$(id -u)") ;; *) where=/tmp ;; esac
	above=$(dirname "$above")
done
tmp=$(mktemp -d "$where/install.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# The installation is one folder, far from the prefix that configure was given.
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make install DESTDIR="$tmp/staged" >"$tmp/log" 2>&1 ||
	{ tail -n 20 "$tmp/log"; wrong "make install"; exit 1; }
prefix=$(sed -n 's/^prefix = //p' Makefile)
mv "$tmp/staged$prefix" "$tmp/moved" || exit 1
pc=$(find "$tmp/moved" -name sluice.pc)
lib=${pc%/pkgconfig/sluice.pc}
modules=$lib/sluice
there=$prefix${modules#"$tmp/moved"} # where configure put the modules
# Only this package is visible, as on a node without the -dev packages of other libraries.
export PKG_CONFIG_LIBDIR=${pc%/sluice.pc}
unset SLUICE_GPU PKG_CONFIG_PATH

flags() { pkg-config "$@" sluice; }
program() { # FILE FLAG...: compiles the example of sluice(7)
	local file=$1
	shift
	$CC -o "$file" "$top_srcdir/tests/unit/example.c" "$@" >"$tmp/log" 2>&1 ||
		{ cat "$tmp/log"; wrong "does not link: $*"; return 1; }
}
needs() { readelf -d "$1" | grep -q 'NEEDED.*\[libsluice\.so'; }

flags --cflags --libs >"$tmp/log" 2>&1 || { cat "$tmp/log"; wrong "pkg-config fails without other packages"; }
for binary in "$tmp"/moved/bin/*; do
	case $(readelf -d "$binary" 2>/dev/null) in *R*PATH*"$prefix"*) wrong "$binary has a RUNPATH below $prefix" ;; esac
done
# A library that configure found in a folder of its own (--with-libfabric=DIR) is loaded from there. libtool forgets paths
# of convenience libraries, so the link of libsluice.so itself names them.
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -n -W "$top_srcdir/runtime/libsluice.map" DIR_LDFLAGS=-Wl,-rpath,/of/its/own libsluice.la 2>"$tmp/log" |
	grep -q 'mode=link.*-rpath,/of/its/own.*libsluice\.la' || { cat "$tmp/log"; wrong "libsluice.so is linked without DIR_LDFLAGS"; }
for flag in $(sed -n 's/^DIR_LDFLAGS = //p' Makefile); do
	[ ! -e "$lib/libsluice.so" ] || readelf -d "$lib/libsluice.so" | grep -q "R.*PATH.*${flag#-Wl,-rpath,}" ||
		wrong "libsluice.so does not look for libraries in ${flag#-Wl,-rpath,}"
done
version=$(sed -n 's/^VERSION = //p' Makefile)
for program in "$tmp"/moved/bin/* "$tmp/moved/share/sluice/devcluster"; do
	"$program" --version >"$tmp/log" 2>&1 || { cat "$tmp/log"; wrong "${program##*/} does not run in its new place"; }
	grep -q "^${program##*/} (Sluice) $version\( \|$\)" "$tmp/log" ||
		{ cat "$tmp/log"; wrong "${program##*/} --version does not print its name and version $version"; }
done
if [ -x "$tmp/moved/bin/sluice-train" ]; then # a job of one process, which needs no launcher
	awk 'BEGIN { for (i = 0; i < 64; i++) printf "%d 1:%g 2:%g\n", i % 2, i % 2 + i / 512, 1 - i / 64 }' >"$tmp/points.svm"
	(cd / && PATH=$tmp/moved/bin:$PATH sluice-train --data "$tmp/points.svm" --model softmax --batch 8 --epochs 2 \
		--metrics "$tmp/metrics.jsonl") >"$tmp/log" 2>&1 && grep -q '^final ' "$tmp/log" ||
		{ cat "$tmp/log"; wrong "sluice-train does not train in its new place"; }
	if ! command -v jq >/dev/null || ! command -v gnuplot >/dev/null; then
		echo "not tested with sluice-plot: jq or gnuplot is not installed"
	else
		"$tmp/moved/bin/sluice-plot" --output "$tmp/plot.svg" "$tmp/metrics.jsonl" >"$tmp/log" 2>&1 && [ -s "$tmp/plot.svg" ] ||
			{ cat "$tmp/log"; wrong "sluice-plot does not plot in its new place"; }
	fi
fi
lua=
for program in lua lua5.4 lua5.3 lua5.2 lua5.1; do
	[ -n "$lua" ] || ! command -v $program >/dev/null || lua=$program
done
if [ -z "$lua" ]; then
	echo "not tested with the module file: Lua is not installed"
else # the functions that Lmod offers to a module file
	cat >"$tmp/lmod.lua" <<-'END'
		function myFileName() return arg[1] end
		function myModuleVersion() return arg[1]:match("([^/]*)%.lua$") end
		function pathJoin(a, b) return a .. "/" .. b end
		function prepend_path(name, value) print(name .. "=" .. value) end
		function help() end
		whatis, conflict = help, help
		dofile(arg[1])
	END
	"$lua" "$tmp/lmod.lua" "$tmp/moved/share/sluice/modulefiles/sluice/$version.lua" >"$tmp/log" 2>&1
	for line in "PATH=$tmp/moved/bin" "LD_LIBRARY_PATH=$lib" "PKG_CONFIG_PATH=$lib/pkgconfig" "CMAKE_PREFIX_PATH=$tmp/moved"; do
		grep -qxF "$line" "$tmp/log" || { cat "$tmp/log"; wrong "the module file does not set $line"; }
	done
fi
for how in '' --static; do
	# shellcheck disable=SC2086
	case $(flags $how --libs) in *rpath*) wrong "pkg-config $how --libs names an rpath: $(flags $how --libs)" ;; esac
done

for file in share/sluice/train.sbatch share/sluice/devcluster share/bash-completion/completions/sluice-train; do
	[ -e "$tmp/moved/$file" ] || wrong "$file is not installed"
done
if [ -e "$tmp/moved/etc" ] || mkdir "$tmp/moved/etc"; then # the file of settings moves with the tree, too
	case $(sed -n 's/^sysconfdir = //p' Makefile) in
	'${prefix}/etc')
		echo 'SLUICE_MESH = 77' >"$tmp/moved/etc/sluice.conf"
		(umask 022 && chmod 644 "$tmp/moved/etc/sluice.conf" && chmod 755 "$tmp/moved/etc")
		env -u SLUICE_CONF -u SLUICE_MESH XDG_CONFIG_HOME="$tmp" "$tmp/moved/bin/sluice-info" >"$tmp/log" 2>&1
		grep -q 'SLUICE_MESH.*77 (.*/moved/etc/sluice.conf line 1)' "$tmp/log" ||
			{ grep -e MESH -e conf "$tmp/log"; wrong "sluice.conf is not found in the moved tree"; }
		rm "$tmp/moved/etc/sluice.conf" ;;
	esac
fi
if command -v cmake >/dev/null && [ -e "$lib/libsluice.so" ]; then
	mkdir "$tmp/cmake"
	cp "$top_srcdir/tests/unit/example.c" "$tmp/cmake/"
	printf '%s\n' 'cmake_minimum_required(VERSION 3.10)' 'project(example C)' 'find_package(Sluice 0.1 REQUIRED)' \
		'add_executable(example example.c)' 'target_link_libraries(example Sluice::sluice)' >"$tmp/cmake/CMakeLists.txt"
	{ cmake -S "$tmp/cmake" -B "$tmp/cmake/build" -DCMAKE_PREFIX_PATH="$tmp/moved" -DCMAKE_C_COMPILER="${CC%% *}" &&
		env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake --build "$tmp/cmake/build" && "$tmp/cmake/build/example"; } >"$tmp/log" 2>&1 ||
		{ tail -n 20 "$tmp/log"; wrong "a program built by CMake does not work"; }
else
	echo "not tested with CMake: it is not installed"
fi

if [ ! -e "$lib/libsluice.so" ]; then
	echo "not tested with libsluice.so: configured with --disable-shared"
elif program "$tmp/shared" $(flags --cflags --libs); then
	needs "$tmp/shared" || wrong "the program does not use libsluice.so"
	export LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	"$tmp/shared" >"$tmp/log" 2>&1 || { cat "$tmp/log"; wrong "the program with libsluice.so fails"; }

	# A driver that treats all memory as GPU memory makes the library look for its module. The module whose
	# kernels run on the CPU knows which memory is the host's, so the program ends well. Without the module it
	# cannot.
	driver=$PWD/tests/unit/.libs/libcuda.so.1
	module=$PWD/.libs/libsluice_emulated.so
	absent="libsluice_cuda.so is neither in $modules nor in $there"
	if [ ! -e "$driver" ] || [ ! -e "$module" ]; then
		wrong "$driver or $module was not built"
	elif [ -e "$there/libsluice_cuda.so" ]; then
		echo "the search for modules was not tested, because $there has one already"
	else
		mkdir -p "$modules" && cp "$module" "$modules/libsluice_cuda.so"
		LD_PRELOAD=$driver "$tmp/shared" >"$tmp/log" 2>&1 ||
			{ cat "$tmp/log"; wrong "the library does not find the module in $modules"; }
		(cd / && PATH=$tmp/moved/bin:$PATH sluice-info) >"$tmp/log" 2>&1
		grep -q gpu-module "$tmp/log" && ! grep -q 'there is no GPU module' "$tmp/log" ||
			{ grep gpu-module "$tmp/log"; wrong "sluice-info does not find the module in $modules"; }
		rm "$modules/libsluice_cuda.so"
		LD_PRELOAD=$driver "$tmp/shared" >"$tmp/log" 2>&1 &&
			wrong "the program succeeds with GPU memory but without a module"
		grep -q "there is no GPU module ($absent)" "$tmp/log" ||
			{ cat "$tmp/log"; wrong "no message names the places of the module: $absent"; }
	fi
	module=$PWD/.libs/libsluice_train_emulated.so
	if [ ! -x "$tmp/moved/bin/sluice-train" ]; then
		echo "not tested with sluice-train: it was not built"
	elif [ ! -e "$there/libsluice_train_cuda.so" ]; then
		mkdir -p "$modules" && cp "$module" "$modules/libsluice_train_cuda.so"
		"$tmp/moved/bin/sluice-train" --device cuda --data /dev/null >"$tmp/log" 2>&1
		grep -q 'has no module for GPUs' "$tmp/log" &&
			{ cat "$tmp/log"; wrong "sluice-train does not find its module in $modules"; }
		rm "$modules/libsluice_train_cuda.so"
		"$tmp/moved/bin/sluice-train" --device cuda --data /dev/null >"$tmp/log" 2>&1
		grep -q "(libsluice_train_cuda.so is neither in $modules nor in $there)" "$tmp/log" ||
			{ cat "$tmp/log"; wrong "sluice-train does not say where it looked for its module"; }
	fi
fi

# Tests the other library. Its program does not need libsluice, and it has its own last error.
cat >"$tmp/estimate.c" <<'END'
#include <sluice_estimate.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
	const uint32_t sample[4] = { 0, 1, 1, 5 };
	double p[2];
	int good = sluice_estimate_samples(sample, 3, 2, p) == 0 && p[1] > 0.6;

	return !good || sluice_estimate_samples(sample, 4, 2, p) != SLUICE_EINVAL ||
	       !strstr(sluice_estimate_last_error(), "sample 3 is 5, not below n=2");
}
END
for how in shared static; do
	[ $how = static ] && linked=a more=--static || linked=so more=
	if [ ! -e "$lib/libsluice_estimate.$linked" ]; then
		echo "not tested with libsluice_estimate.$linked: it was not built"
		continue
	fi
	[ $how = shared ] || rm -f "$lib"/libsluice_estimate.so*
	# shellcheck disable=SC2046
	$CC -o "$tmp/estimate" "$tmp/estimate.c" $(pkg-config $more --cflags --libs sluice_estimate) \
		>"$tmp/log" 2>&1 || { cat "$tmp/log"; wrong "a program does not link libsluice_estimate.$linked"; continue; }
	needs "$tmp/estimate" && wrong "a program of libsluice_estimate.$linked uses libsluice.so"
	"$tmp/estimate" >"$tmp/log" 2>&1 || { cat "$tmp/log"; wrong "the program with libsluice_estimate.$linked fails"; }
done

if [ ! -e "$lib/libsluice.a" ]; then
	echo "not tested with libsluice.a: configured with --disable-static"
else
	rm -f "$lib"/libsluice.so*
	if program "$tmp/static" $(flags --static --cflags --libs); then
		needs "$tmp/static" && wrong "the program with libsluice.a uses libsluice.so"
		"$tmp/static" >"$tmp/log" 2>&1 || { cat "$tmp/log"; wrong "the program with libsluice.a fails"; }
	fi
fi
[ $failed = 0 ] && echo "the installation works in its new place"
exit $failed
