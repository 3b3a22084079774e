#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the wheel, installs it in a new virtual environment without a network, and uses it as on a machine that has no
# Sluice: with and without the optional libraries, next to an installed library of the same and of another version, and
# next to the project that has the name sluice in the Python index. Compares the wheel's tag with its symbols. With the
# argument "all" (make check-wheel), this happens with every Python in PATH, and once more with a wheel that pip builds
# from the source distribution while the autotools are out of reach. Run in the build folder.
. "$(dirname "$0")/run.sh"
unset SLUICE_LIBRARY PYTHONPATH LD_LIBRARY_PATH VIRTUAL_ENV MAKEFLAGS MFLAGS MAKELEVEL
CC=${CC:-cc}
source=${tests%/python/tests} build=$PWD failed=0
wrong() { echo "wrong: $*"; failed=1; }
for tool in make strip readelf objdump "${CC%% *}"; do
	command -v "$tool" >/dev/null || skip "$tool is not installed"
done
find_python ctypes,venv,ensurepip python3-venv
tmp=$(cd "${TMPDIR:-/tmp}" && mktemp -d "$PWD/sluice-wheel-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

make -s wheel WHEEL_DIR="$tmp/dist" >"$tmp/log" 2>&1 || { tail -n 20 "$tmp/log"; wrong "make wheel"; exit 1; }
wheel=$(echo "$tmp"/dist/libsluice-*.whl)
[ -f "$wheel" ] || { wrong "make wheel wrote $(ls "$tmp/dist")"; exit 1; }

# ---- the tag ---------------------------------------------------------------------------------------

"$python" -m zipfile -e "$wheel" "$tmp/inside" || exit 1
tag=$(echo "$wheel" | sed 's/.*manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/')
for file in "$tmp"/inside/sluice/lib/libsluice.so.0 "$tmp"/inside/sluice/lib/sluice/*.so "$tmp"/inside/sluice/bin/*; do
	[ -f "$file" ] || continue
	needs=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1)
	[ "$(printf '%s\n' "$needs" "$tag" | sort -V | tail -n 1)" = "$tag" ] ||
		wrong "${file##*/} needs glibc $needs, but the tag of the wheel is $tag"
	others=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(lib(c|m|dl|rt|pthread)|ld-.*)\.so\.[0-9]+$')
	[ -z "$others" ] || wrong "${file##*/} is linked with $others"
done
[ -f "$tmp/inside/sluice/lib/libsluice.so.0" ] || wrong "the wheel has no library"

# ---- in a virtual environment -----------------------------------------------------------------------

# Files that are no libraries hide those of the machine, for libraries that are opened by name.
mkdir "$tmp/hidden" "$tmp/bare" "$tmp/other" || exit 1
for library in libcrypto.so.3 libfabric.so.1 libhwloc.so.15 libibverbs.so.1 libpmix.so.2 librdmacm.so.1; do
	echo hidden >"$tmp/hidden/$library"
done
echo hidden | tee "$tmp/bare/libsluice.so.0" >"$tmp/hidden/libsluice.so.0"
cat >"$tmp/other.c" <<'END'
const char *sluice_version(void *unused);
const char *sluice_version(void *unused)
{
	(void)unused;
	return "0.1.99 (wire 10)";
}
END
$CC -shared -fPIC -Wl,-soname,libsluice.so.0 -o "$tmp/other/libsluice.so.0" "$tmp/other.c" || exit 1
export PKG_CONFIG_LIBDIR="$tmp/bare" SLUICE_LOG=error
unset PKG_CONFIG_PATH

# says WHAT PATTERN COMMAND...: the command ends well and prints a line that matches the pattern. sluice.info ends with 1
# if the node lacks something.
says() {
	local what pattern status
	what=$1 pattern=$2 status=0
	shift 2
	(cd "$tmp" && timeout 120 "$@") >"$tmp/log" 2>&1 || status=$?
	case $status$* in 0* | 1*sluice.info) ;; *) cat "$tmp/log"; wrong "$what: $* ended with $status" ;; esac
	grep -qE "$pattern" "$tmp/log" || { cat "$tmp/log"; wrong "$what: no line has '$pattern'"; return 1; }
}

try() { # PYTHON WHEEL
	local env run site
	env=$tmp/env run="$tmp/env/bin/python -m sluice"
	rm -rf "$env"
	"$1" -m venv --system-site-packages "$env" >"$tmp/log" 2>&1 || { cat "$tmp/log"; wrong "$1 -m venv"; return 1; }
	"$env/bin/python" -m pip install -q --no-index --no-deps --disable-pip-version-check "$2" >"$tmp/log" 2>&1 ||
		{ cat "$tmp/log"; wrong "pip of $1 does not install ${2##*/}"; return 1; }
	site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
	says "$1, alone" '^All passed in' env LD_LIBRARY_PATH="$tmp/bare" $run.selftest
	grep -E '^(passed|skipped)' "$tmp/log"
	[ "$(grep -c '^passed' "$tmp/log")" -ge 3 ] || wrong "the selftest passed fewer than three cases"
	says "$1, alone" 'carried by this package' env LD_LIBRARY_PATH="$tmp/bare" $run.info

	says "$1, without the optional libraries" '^passed: top-k' env LD_LIBRARY_PATH="$tmp/hidden" \
		"$env/bin/python" -c 'import sys; sys.modules["torch"] = None; from sluice.selftest import main; main()'
	says "$1, without the optional libraries" 'carried by this package' env LD_LIBRARY_PATH="$tmp/hidden" $run.info
	for library in $missing; do
		grep -q "$library" "$tmp/log" || { cat "$tmp/log"; wrong "sluice.info does not name $library, which is missing"; }
	done

	says "$1, next to the library of this build" 'found by the dynamic linker' env LD_LIBRARY_PATH="$build/.libs" $run.info
	says "$1, next to another version" 'not used: .*other/libsluice.so.0 is Sluice 0.1.99' env LD_LIBRARY_PATH="$tmp/other" $run.info
	grep -q 'carried by this package' "$tmp/log" || { cat "$tmp/log"; wrong "another version is used"; }

	mkdir "$site/sluice-0.3.1.dist-info"
	"$env/bin/python" -c 'import sluice.torch' >"$tmp/log" 2>&1 && wrong "the package is used next to another project sluice"
	grep -q 'sluice-0.3.1.dist-info belongs to another project' "$tmp/log" ||
		{ cat "$tmp/log"; wrong "the other project is not named"; }
}

# The libraries that this build was made for.
missing=libpmix.so.2
nm -u .libs/libinfo.a | grep -q ' ibv_get_device_list$' && missing="$missing libibverbs.so.1 librdmacm.so.1"
nm -u .libs/libinfo.a | grep -q ' HMAC$' && missing="$missing libcrypto.so.3"
nm -u .libs/libinfo.a | grep -q ' hwloc_topology_init$' && missing="$missing libhwloc.so.15"
nm -u .libs/libinfo.a | grep -q ' PMIx_Init$' || missing=${missing#libpmix.so.2}
try "$python" "$wheel"
[ "${1:-}" = all ] || { [ $failed = 0 ] && echo "${wheel##*/} works"; exit $failed; }

# ---- all Pythons, and from source -------------------------------------------------------------------

for other in ${PYTHONS:-python3.9 python3.10 python3.11 python3.12 python3.13 python3.14}; do
	"$other" -c 'import ctypes, ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || continue
	echo "$("$other" --version), $(command -v "$other"):"
	try "$other" "$wheel"
done

make -s sdist WHEEL_DIR="$tmp/source" >"$tmp/log" 2>&1 || { tail -n 20 "$tmp/log"; wrong "make sdist"; exit 1; }
mkdir "$tmp/tools" "$tmp/built"
for tool in aclocal autoconf autoheader autom4te automake autoreconf libtool libtoolize; do
	printf '#!/bin/sh\necho "$0 was called" >>"%s/called"\nexit 1\n' "$tmp" >"$tmp/tools/$tool"
	chmod 755 "$tmp/tools/$tool"
done
rm -rf "$tmp/env"
"$python" -m venv "$tmp/env" && env -u PKG_CONFIG_LIBDIR PATH="$tmp/tools:$PATH" "$tmp/env/bin/python" -m pip wheel -q --no-index --no-deps \
	--disable-pip-version-check --config-settings=configure="--with-cuda=no CFLAGS=-O0" -w "$tmp/built" \
	"$tmp"/source/libsluice-*.tar.gz >"$tmp/log" 2>&1 || { tail -n 30 "$tmp/log"; wrong "pip builds no wheel from the sdist"; }
[ ! -e "$tmp/called" ] || { cat "$tmp/called"; wrong "the sdist calls the autotools"; }
try "$python" "$(echo "$tmp"/built/*.whl)"
[ $failed = 0 ] && echo "${wheel##*/} works, and so does the source distribution"
exit $failed
