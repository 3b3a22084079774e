# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_STATIC_LINK: what a program that links libsluice.a needs besides it, for runtime/sluice.pc.in. Called after the
# other macros of libraries. Sets PC_REQUIRES (packages) and PC_LIBS (flags of the linker).
#
# Without libsluice.a both are empty: pkg-config looks up packages of Requires.private even for --cflags, and a program
# that links libsluice.so needs none of them. A package whose own static list does not link, as Debian's hwloc with
# -ludev, is named by its flags. An rpath is a decision of the program, not of a library.
AC_DEFUN([SLUICE_STATIC_LINK], [
	PC_REQUIRES= PC_LIBS=
	sluice_packages=
	AS_IF([test "$have_verbs" = yes], [sluice_packages="libibverbs librdmacm libcrypto"],
		[test "$have_libfabric" = yes], [sluice_packages="libcrypto"])
	AS_IF([test "$have_hwloc" = yes], [sluice_packages="$sluice_packages hwloc"])
	AS_IF([test "$enable_static" = yes], [
		sluice_save_LIBS="$LIBS"
		for sluice_package in $sluice_packages; do
			AC_MSG_CHECKING([whether pkg-config --static --libs $sluice_package links])
			LIBS="$($PKG_CONFIG --static --libs $sluice_package) $sluice_save_LIBS"
			AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
				[sluice_links=yes PC_REQUIRES="$PC_REQUIRES $sluice_package"],
				[sluice_links=no PC_LIBS="$PC_LIBS $($PKG_CONFIG --libs $sluice_package)"])
			AC_MSG_RESULT([$sluice_links])
		done
		LIBS="$sluice_save_LIBS"
		sluice_next=
		for sluice_flag in $PMIX_LIBS; do
			AS_CASE([$sluice_next$sluice_flag],
				[-Wl,-rpath|-Wl,-R|-Wl,--rpath], [sluice_next=skip],
				[skip*], [sluice_next=],
				[-Wl,-rpath*|-Wl,--rpath*|-Wl,-R*|-R*|-Wl,--enable-new-dtags|-Wl,--disable-new-dtags], [],
				[PC_LIBS="$PC_LIBS $sluice_flag"])
		done
		PC_LIBS="$PC_LIBS -pthread -ldl -lm $LIBS"
	])
	AC_SUBST([PC_REQUIRES])
	AC_SUBST([PC_LIBS])
])
