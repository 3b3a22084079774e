# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_CHECK_VERBS: --with-verbs=auto|yes|no|DIR. Finds libibverbs, librdmacm and, for the proof that a peer
# belongs to the job, OpenSSL's libcrypto. Sets HAVE_VERBS (config.h), VERBS_CFLAGS, VERBS_LIBS, have_verbs
# and verbs_summary.
AC_DEFUN([SLUICE_CHECK_VERBS], [
	AC_ARG_WITH([verbs],
		[AS_HELP_STRING([--with-verbs=auto|yes|no|DIR], [RDMA transport over libibverbs and librdmacm (auto)])],
		[], [with_verbs=auto])
	have_verbs=no sluice_rpath=
	AS_CASE([$with_verbs], [/*], [SLUICE_LOOK_IN([verbs])])
	verbs_missing="--with-verbs=no"
	AS_CASE([$with_verbs],
		[no], [],
		[auto|yes|/*], [
			PKG_CHECK_MODULES([VERBS], [libibverbs librdmacm libcrypto >= 1.1.1], [
				sluice_save_CPPFLAGS="$CPPFLAGS"
				sluice_save_LIBS="$LIBS"
				CPPFLAGS="$CPPFLAGS $VERBS_CFLAGS"
				LIBS="$VERBS_LIBS $LIBS"
				AC_MSG_CHECKING([whether libibverbs and librdmacm are new enough])
				AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stddef.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>]], [[return ibv_query_gid_table(NULL, NULL, 0, 0) == 0 &&
	rdma_set_option(NULL, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, NULL, 0) == 0 &&
	ibv_reg_dmabuf_mr(NULL, 0, 0, 0, 0, 0) == NULL && ibv_is_fork_initialized() == IBV_FORK_ENABLED;]])],
					[have_verbs=yes], [verbs_missing="rdma-core is older than version 35"])
				AC_MSG_RESULT([$have_verbs])
				CPPFLAGS="$sluice_save_CPPFLAGS"
				LIBS="$sluice_save_LIBS"
			], [verbs_missing="libibverbs, librdmacm or libcrypto not found: install libibverbs-dev librdmacm-dev libssl-dev"])
		],
		[AC_MSG_ERROR([--with-verbs takes auto, yes, no or an absolute path, not "$with_verbs"])])

	AS_IF([test "$have_verbs" = yes], [
		VERBS_LIBS="$VERBS_LIBS $sluice_rpath"
		AC_DEFINE([HAVE_VERBS], [1], [Define to 1 to build the RDMA transport.])
		verbs_summary="yes (libibverbs $($PKG_CONFIG --modversion libibverbs), libcrypto $($PKG_CONFIG --modversion libcrypto))"
	], [
		AS_CASE([$with_verbs], [no|auto], [], [AC_MSG_ERROR([--with-verbs=$with_verbs, but $verbs_missing])])
		VERBS_CFLAGS= VERBS_LIBS=
		verbs_summary="no ($verbs_missing)"
	])
	AC_SUBST([VERBS_CFLAGS])
	AC_SUBST([VERBS_LIBS])
])
