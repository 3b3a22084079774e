# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_CHECK_LIBFABRIC: --with-libfabric=auto|yes|no|DIR. Finds the headers of libfabric and, for the proof that a
# peer belongs to the job, OpenSSL's libcrypto. The library itself is loaded when a job asks for it, so what is
# built here runs without it. Sets HAVE_LIBFABRIC (config.h), LIBFABRIC_CFLAGS, LIBFABRIC_LIBS, have_libfabric and
# libfabric_summary.
AC_DEFUN([SLUICE_CHECK_LIBFABRIC], [
	AC_ARG_WITH([libfabric],
		[AS_HELP_STRING([--with-libfabric=auto|yes|no|DIR], [transport over libfabric: TCP, EFA, Slingshot (auto)])],
		[], [with_libfabric=auto])
	have_libfabric=no sluice_rpath=
	AS_CASE([$with_libfabric], [/*], [SLUICE_LOOK_IN([libfabric])])
	libfabric_missing="--with-libfabric=no"
	AS_CASE([$with_libfabric],
		[no], [],
		[auto|yes|/*], [
			PKG_CHECK_MODULES([LIBFABRIC_HEADERS], [libfabric >= 1.17],
				[PKG_CHECK_MODULES([LIBFABRIC_CRYPTO], [libcrypto >= 1.1.1], [have_libfabric=yes],
					[libfabric_missing="libcrypto not found: install libssl-dev"])],
				[libfabric_missing="the headers of libfabric >= 1.17 were not found: install libfabric-dev"])
		],
		[AC_MSG_ERROR([--with-libfabric takes auto, yes, no or an absolute path, not "$with_libfabric"])])

	AS_IF([test "$have_libfabric" = yes], [
		AC_DEFINE([HAVE_LIBFABRIC], [1], [Define to 1 to build the transport over libfabric.])
		LIBFABRIC_CFLAGS="$LIBFABRIC_HEADERS_CFLAGS $LIBFABRIC_CRYPTO_CFLAGS"
		LIBFABRIC_LIBS="$LIBFABRIC_CRYPTO_LIBS $sluice_rpath"
		libfabric_summary="yes (headers of libfabric $($PKG_CONFIG --modversion libfabric))"
	], [
		AS_CASE([$with_libfabric], [no|auto], [],
			[AC_MSG_ERROR([--with-libfabric=$with_libfabric, but $libfabric_missing])])
		LIBFABRIC_CFLAGS= LIBFABRIC_LIBS=
		libfabric_summary="no ($libfabric_missing)"
	])
	AC_SUBST([LIBFABRIC_CFLAGS])
	AC_SUBST([LIBFABRIC_LIBS])
])
