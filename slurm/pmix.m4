# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_CHECK_PMIX: --with-pmix=auto|yes|no|DIR. Finds PMIx by pkg-config, or below DIR. Sets HAVE_PMIX
# (config.h), PMIX_CFLAGS, PMIX_LIBS, have_pmix and pmix_summary.
AC_DEFUN([SLUICE_CHECK_PMIX], [
	AC_ARG_WITH([pmix],
		[AS_HELP_STRING([--with-pmix=auto|yes|no|DIR], [jobs of several processes, by srun --mpi=pmix (auto)])],
		[], [with_pmix=auto])
	have_pmix=no
	pmix_missing="pmix.h not found: install libpmix-dev"
	AS_CASE([$with_pmix],
		[no], [pmix_missing="--with-pmix=no"],
		[auto|yes], [
			PKG_CHECK_MODULES([PMIX], [pmix], [
				pmix_version=$($PKG_CONFIG --modversion pmix)
			], [
				PMIX_LIBS="${PMIX_LIBS:--lpmix}"
				pmix_version="version unknown"
			])
		],
		[/*], [
			PMIX_CFLAGS="-I$with_pmix/include"
			AS_IF([test -d "$with_pmix/lib64" && test ! -e "$with_pmix/lib/libpmix.so"],
				[pmix_libdir="$with_pmix/lib64"], [pmix_libdir="$with_pmix/lib"])
			PMIX_LIBS="-L$pmix_libdir -Wl,-rpath,$pmix_libdir -lpmix"
			DIR_LDFLAGS="$DIR_LDFLAGS -Wl,-rpath,$pmix_libdir"
			pmix_version="in $with_pmix"
			pmix_missing="no usable pmix.h and libpmix below $with_pmix"
		],
		[AC_MSG_ERROR([--with-pmix takes auto, yes, no or an absolute path, not "$with_pmix"])])

	AS_IF([test "$with_pmix" != no], [
		sluice_save_CPPFLAGS="$CPPFLAGS"
		sluice_save_LIBS="$LIBS"
		CPPFLAGS="$CPPFLAGS $PMIX_CFLAGS"
		LIBS="$PMIX_LIBS $LIBS"
		AC_CHECK_HEADER([pmix.h], [
			AC_MSG_CHECKING([whether libpmix has PMIx_Fence_nb])
			AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stddef.h>
#include <pmix.h>]], [[return PMIx_Fence_nb(NULL, 0, NULL, 0, NULL, NULL) != PMIX_ERR_TIMEOUT;]])],
				[have_pmix=yes],
				[pmix_missing="libpmix cannot be linked: install libpmix-dev; see config.log"])
			AC_MSG_RESULT([$have_pmix])
		])
		CPPFLAGS="$sluice_save_CPPFLAGS"
		LIBS="$sluice_save_LIBS"
	])

	AS_IF([test "$have_pmix" = yes], [
		AC_DEFINE([HAVE_PMIX], [1], [Define to 1 to find the processes of a job by PMIx.])
		pmix_summary="yes ($pmix_version)"
	], [
		AS_CASE([$with_pmix], [no|auto], [],
			[AC_MSG_ERROR([--with-pmix=$with_pmix, but $pmix_missing])])
		PMIX_CFLAGS= PMIX_LIBS=
		pmix_summary="no ($pmix_missing)"
	])
	AC_SUBST([PMIX_CFLAGS])
	AC_SUBST([PMIX_LIBS])
])
