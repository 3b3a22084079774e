# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_CHECK_HWLOC: --with-hwloc=auto|yes|no|DIR. Sets HAVE_HWLOC (config.h and conditional), HWLOC_CFLAGS,
# HWLOC_LIBS and hwloc_summary.
AC_DEFUN([SLUICE_CHECK_HWLOC], [
	AC_ARG_WITH([hwloc],
		[AS_HELP_STRING([--with-hwloc=auto|yes|no|DIR], [the progress thread beside its network card (auto)])],
		[], [with_hwloc=auto])
	have_hwloc=no sluice_rpath=
	AS_CASE([$with_hwloc], [/*], [SLUICE_LOOK_IN([hwloc])])
	hwloc_missing="--with-hwloc=no"
	AS_CASE([$with_hwloc],
		[no], [],
		[auto|yes|/*], [PKG_CHECK_MODULES([HWLOC], [hwloc >= 2.0], [have_hwloc=yes],
			[hwloc_missing="hwloc 2 not found: install libhwloc-dev"])],
		[AC_MSG_ERROR([--with-hwloc takes auto, yes, no or an absolute path, not "$with_hwloc"])])

	AS_IF([test "$have_hwloc" = yes], [
		HWLOC_LIBS="$HWLOC_LIBS $sluice_rpath"
		AC_DEFINE([HAVE_HWLOC], [1], [Define to 1 to place the progress thread by hwloc.])
		hwloc_summary="yes ($($PKG_CONFIG --modversion hwloc))"
	], [
		AS_CASE([$with_hwloc], [no|auto], [], [AC_MSG_ERROR([--with-hwloc=$with_hwloc, but $hwloc_missing])])
		HWLOC_CFLAGS= HWLOC_LIBS=
		hwloc_summary="no ($hwloc_missing)"
	])
	AM_CONDITIONAL([HAVE_HWLOC], [test "$have_hwloc" = yes])
	AC_SUBST([HWLOC_CFLAGS])
	AC_SUBST([HWLOC_LIBS])
])
