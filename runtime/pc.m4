# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_STATIC_LINK: what a program that links libsluice.a needs besides it, for runtime/sluice.pc.in. Called after the
# other macros of libraries. Sets PC_LIBS (flags of the linker).
#
# These are flags and no packages: pkg-config looks up packages of Requires.private even for --cflags, and a program
# that links libsluice.so needs none of them. A package whose static list does not link, as Debian's hwloc with -ludev,
# gives its shared list. An rpath is a decision of the program, not of a library.
AC_DEFUN([SLUICE_STATIC_LINK], [
	PC_LIBS=
	sluice_packages=
	AS_IF([test "$have_verbs" = yes], [sluice_packages="libibverbs librdmacm libcrypto"],
		[test "$have_libfabric" = yes], [sluice_packages="libcrypto"])
	AS_IF([test "$have_hwloc" = yes], [sluice_packages="$sluice_packages hwloc"])
	AS_IF([test "$enable_static" = yes], [
		sluice_save_LIBS="$LIBS"
		sluice_flags=
		for sluice_package in $sluice_packages; do
			AC_MSG_CHECKING([whether pkg-config --static --libs $sluice_package links])
			LIBS="$($PKG_CONFIG --static --libs $sluice_package) $sluice_save_LIBS"
			AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
				[sluice_links=yes sluice_static=--static], [sluice_links=no sluice_static=])
			AC_MSG_RESULT([$sluice_links])
			sluice_flags="$sluice_flags $($PKG_CONFIG $sluice_static --libs $sluice_package)"
		done
		LIBS="$sluice_save_LIBS"
		sluice_next=
		for sluice_flag in $sluice_flags $PMIX_LIBS; do
			AS_CASE([$sluice_next$sluice_flag],
				[-Wl,-rpath|-Wl,-R|-Wl,--rpath], [sluice_next=skip],
				[skip*], [sluice_next=],
				[-Wl,-rpath*|-Wl,--rpath*|-Wl,-R*|-R*|-Wl,--enable-new-dtags|-Wl,--disable-new-dtags], [],
				[PC_LIBS="$PC_LIBS $sluice_flag"])
		done
		PC_LIBS="$PC_LIBS -pthread -ldl -lm $LIBS"
	])
	AC_SUBST([PC_LIBS])
])

# SLUICE_RELOCATE: an installed tree works where it is moved to. Sets PC_PREFIX, PC_LIBDIR and PC_INCLUDEDIR for
# runtime/sluice.pc.in, and RPATH_LDFLAGS for programs that use libsluice.so: paths relative to the file that contains
# them. Folders that share only / with each other are named in full. Called after LT_INIT, whose own rpath names the
# folder of configure: it is taken away, and libtool then runs programs of the build folder by LD_LIBRARY_PATH. So is
# LD_RUN_PATH, which libtool would set in its place, and to text that has a dollar sign.
AC_DEFUN([SLUICE_RELOCATE], [
	hardcode_libdir_flag_spec= runpath_var=
	sluice_prefix=$prefix sluice_exec_prefix=$exec_prefix
	AS_IF([test "$prefix" = NONE], [sluice_prefix=$ac_default_prefix])
	AS_IF([test "$exec_prefix" = NONE], [sluice_exec_prefix=$sluice_prefix])
	# The value of a variable such as libdir, as "make install" will expand it.
	sluice_expand() { (
		prefix=$sluice_prefix exec_prefix=$sluice_exec_prefix
		eval "sluice_path=\$$[]1"
		for sluice_depth in 1 2 3; do
			eval "sluice_path=$sluice_path"
		done
		printf '%s\n' "$sluice_path"
	) }
	# "../lib" for /usr/bin and /usr/lib; nothing if they share only /.
	sluice_relative() {
		sluice_from=$[]1 sluice_up=
		until test -z "$sluice_from"; do
			AS_CASE([$[]2/], ["$sluice_from"/*], [break])
			sluice_from=${sluice_from%/*} sluice_up=../$sluice_up
		done
		sluice_rest=${2#"$sluice_from"}
		test -z "$sluice_from" || printf '%s\n' "$sluice_up${sluice_rest#/}"
	}
	sluice_below_prefix() {
		case $[]1 in
		("$sluice_prefix"/*) printf '${prefix}%s\n' "${1#"$sluice_prefix"}" ;;
		(*) printf '%s\n' "$[]1" ;;
		esac
	}
	sluice_libdir=$(sluice_expand libdir)
	sluice_to_lib=$(sluice_relative "$(sluice_expand bindir)" "$sluice_libdir")
	AS_IF([test -n "$sluice_to_lib"], [RPATH_LDFLAGS="-Wl,-rpath,'\$\$ORIGIN/$sluice_to_lib'"],
		[RPATH_LDFLAGS="-Wl,-rpath,$sluice_libdir"])
	AS_IF([test "$enable_shared" = no], [RPATH_LDFLAGS="$RPATH_LDFLAGS $DIR_LDFLAGS"])
	sluice_to_prefix=$(sluice_relative "$(sluice_expand pkgconfigdir)" "$sluice_prefix")
	AS_IF([test -n "$sluice_to_prefix"], [PC_PREFIX="\${pcfiledir}/${sluice_to_prefix%/}"], [PC_PREFIX=$sluice_prefix])
	PC_LIBDIR=$(sluice_below_prefix "$sluice_libdir")
	PC_INCLUDEDIR=$(sluice_below_prefix "$(sluice_expand includedir)")
	CMAKE_TO_INCLUDE=$(sluice_relative "$sluice_libdir/cmake/Sluice" "$(sluice_expand includedir)")
	CMAKE_TO_INCLUDE=${CMAKE_TO_INCLUDE%/}
	AC_SUBST([CMAKE_TO_INCLUDE])
	AC_SUBST([RPATH_LDFLAGS])
	AC_SUBST([DIR_LDFLAGS])
	AC_SUBST([PC_PREFIX])
	AC_SUBST([PC_LIBDIR])
	AC_SUBST([PC_INCLUDEDIR])
])

# SLUICE_LOOK_IN(NAME): the packages of --with-NAME=DIR are searched below DIR first, in all later calls of pkg-config, and
# programs look for their libraries there. Sets sluice_rpath, and adds it to DIR_LDFLAGS, which libsluice.so is linked with.
AC_DEFUN([SLUICE_LOOK_IN], [
	sluice_rpath=
	for sluice_folder in "$with_$1/lib64" "$with_$1/lib/$($CC -print-multiarch 2>/dev/null)" "$with_$1/lib"; do
		AS_IF([test -d "$sluice_folder/pkgconfig"], [
			PKG_CONFIG_PATH="$sluice_folder/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
			sluice_rpath="-Wl,-rpath,$sluice_folder"
		])
	done
	AS_IF([test -z "$sluice_rpath"],
		[AC_MSG_ERROR([--with-$1=$with_$1: there is no pkgconfig folder in $with_$1/lib or lib64])])
	DIR_LDFLAGS="$DIR_LDFLAGS $sluice_rpath"
	export PKG_CONFIG_PATH
])
