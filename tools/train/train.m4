# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_CHECK_TRAIN: --with-train=auto|yes|no. sluice-train needs a CBLAS (OpenBLAS) and zlib.
AC_DEFUN([SLUICE_CHECK_TRAIN], [
	AC_ARG_WITH([train],
		[AS_HELP_STRING([--with-train=auto|yes|no], [build sluice-train; needs OpenBLAS and zlib (auto)])],
		[], [with_train=auto])
	AS_CASE([$with_train], [auto|yes|no], [],
		[AC_MSG_ERROR([--with-train takes auto, yes or no, not "$with_train"])])
	build_train=no
	AS_IF([test "$with_train" = no], [train_summary="no (--with-train=no)"], [
		PKG_CHECK_MODULES([BLAS], [openblas], [have_blas=yes], [have_blas=no])
		PKG_CHECK_MODULES([ZLIB], [zlib], [have_zlib=yes], [have_zlib=no])
		AS_IF([test "$have_blas$have_zlib" = yesyes], [
			build_train=yes
			train_summary="yes (OpenBLAS $($PKG_CONFIG --modversion openblas), zlib $($PKG_CONFIG --modversion zlib))"
		], [
			train_summary="no (OpenBLAS: $have_blas, zlib: $have_zlib; install libopenblas-dev zlib1g-dev)"
			AS_IF([test "$with_train" = yes], [AC_MSG_ERROR([--with-train=yes: $train_summary])])
		])
	])
])
