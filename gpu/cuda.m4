# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_CHECK_CUDA: --with-cuda=auto|yes|no|DIR. Finds nvcc (DIR/bin, then PATH).
# This release has no GPU module: the check only says what a build with one would find.
AC_DEFUN([SLUICE_CHECK_CUDA], [
	AC_ARG_WITH([cuda],
		[AS_HELP_STRING([--with-cuda=auto|yes|no|DIR], [GPU module built with nvcc (auto)])],
		[], [with_cuda=auto])
	AS_CASE([$with_cuda],
		[no], [cuda_summary="no (--with-cuda=no)"],
		[
			AS_CASE([$with_cuda],
				[auto|yes], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])],
				[AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
			AS_IF([test -z "$NVCC" && test "$with_cuda" != auto],
				[AC_MSG_ERROR([--with-cuda=$with_cuda, but nvcc was not found: name the toolkit folder, --with-cuda=DIR])])
			AS_IF([test -n "$NVCC" && test "$with_cuda" != auto],
				[AC_MSG_ERROR([--with-cuda=$with_cuda: this release has no GPU module yet; use auto or no])])
			AS_IF([test -n "$NVCC"],
				[cuda_summary="$NVCC found; the GPU module itself is not part of this release"],
				[cuda_summary="no (nvcc not found)"])
		])
])
