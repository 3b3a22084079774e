# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_CHECK_VERBS: --with-verbs=auto|yes|no. Finds libibverbs and librdmacm.
# This release has no verbs transport: the check only says what a build with one would find.
AC_DEFUN([SLUICE_CHECK_VERBS], [
	AC_ARG_WITH([verbs],
		[AS_HELP_STRING([--with-verbs=auto|yes|no], [RDMA transport over libibverbs and librdmacm (auto)])],
		[], [with_verbs=auto])
	have_verbs=no
	AS_CASE([$with_verbs],
		[no], [verbs_summary="no (--with-verbs=no)"],
		[auto|yes], [
			PKG_CHECK_MODULES([VERBS], [libibverbs librdmacm], [
				have_verbs=yes
				verbs_summary="libraries found ($($PKG_CONFIG --modversion libibverbs)); the transport itself is not part of this release"
			], [verbs_summary="no (libibverbs, librdmacm not found: install libibverbs-dev librdmacm-dev)"])
			AS_IF([test "$with_verbs$have_verbs" = yesno],
				[AC_MSG_ERROR([--with-verbs=yes, but libibverbs and librdmacm were not found: install libibverbs-dev librdmacm-dev])])
			AS_IF([test "$with_verbs" = yes],
				[AC_MSG_ERROR([--with-verbs=yes: this release has no verbs transport yet; use auto or no])])
		],
		[AC_MSG_ERROR([--with-verbs takes auto, yes or no, not "$with_verbs"])])
])
