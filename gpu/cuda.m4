# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_CHECK_CUDA: --with-cuda=auto|yes|no|DIR finds nvcc (DIR/bin, then PATH) and the static CUDA runtime, and
# compiles one kernel for the -gencode list, none of which may be below sm_80 (__reduce_add_sync). GENCODE="..." at
# configure replaces the list. The oldest CUDA is that of __grid_constant__, 11.7, and of C compilers that can still be
# installed, 12.0.
m4_define([SLUICE_CUDA_FLOOR], [12000])
AC_DEFUN([SLUICE_CHECK_CUDA], [
	AC_ARG_WITH([cuda],
		[AS_HELP_STRING([--with-cuda=auto|yes|no|DIR], [GPU module built with nvcc (auto)])],
		[], [with_cuda=auto])
	AC_ARG_VAR([GENCODE], [-gencode options of nvcc: the GPUs that the module is built for])
	have_cuda=no
	AS_CASE([$with_cuda],
		[no], [cuda_summary="no (--with-cuda=no)"],
		[auto|yes], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])],
		[AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
	AS_IF([test "$with_cuda" != no], [
		AS_IF([test -n "$NVCC"], [SLUICE_TRY_NVCC], [cuda_summary="no (nvcc not found)"])
		AS_IF([test "$have_cuda" = no && test "$with_cuda" != auto],
			[AC_MSG_ERROR([--with-cuda=$with_cuda: $cuda_summary; name the toolkit's folder, --with-cuda=DIR])])
	])
	AM_CONDITIONAL([HAVE_CUDA], [test "$have_cuda" = yes])
])

AC_DEFUN([SLUICE_TRY_NVCC], [
	# The toolkit is where nvcc really is: /usr/bin/nvcc may be a link.
	cuda_dir=$(dirname "$(dirname "$(readlink -f "$NVCC")")")
	# Blackwell's code is part of the default where nvcc knows it; PTX is for whatever comes later.
	AS_IF([test -z "$GENCODE"], [
		GENCODE="-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90"
		AS_IF(["$NVCC" --list-gpu-code 2>/dev/null | grep -qx sm_100],
			[GENCODE="$GENCODE -gencode arch=compute_100,code=sm_100 -gencode arch=compute_100,code=compute_100"],
			[GENCODE="$GENCODE -gencode arch=compute_90,code=compute_90"])
	])
	# NVIDIA's packages have lib64, those of Debian and Ubuntu a folder for the architecture.
	for cuda_lib in "$cuda_dir/lib64" "$cuda_dir/lib/$($CC -print-multiarch 2>/dev/null)" "$cuda_dir/lib"; do
		test ! -f "$cuda_lib/libcudart_static.a" || break
	done
	CUDA_CPPFLAGS="-I$cuda_dir/include -DCUDA_LIBRARY_FOLDER='\"$cuda_lib\"'"
	CUDA_LIBS="$cuda_lib/libcudart_static.a -ldl -lrt"
	# Same bits as the CPU: no contraction to multiply-add, denormals kept. No C++ runtime in the module.
	NVCCFLAGS="-O2 --fmad=false --ftz=false --compiler-options=-fno-exceptions,-fno-threadsafe-statics"
	AC_SUBST([CUDA_CPPFLAGS])
	AC_SUBST([CUDA_LIBS])
	AC_SUBST([NVCCFLAGS])
	AC_MSG_CHECKING([whether $NVCC compiles for $GENCODE])
	AS_MKDIR_P([conftest.dir])
	cuda_version=$("$NVCC" --version 2>/dev/null | sed -n 's/.*release \([[0-9]]*\)\.\([[0-9]]*\).*/\1 \2/p' |
		while read -r major minor; do echo $((major * 1000 + minor * 10)); done)
	printf '%s\n' '#include <cuda_runtime.h>' '#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800' \
		'#error the kernels need compute capability 8.0' '#endif' 'extern "C" __global__ void set(float *x) { *x = 1; }' \
		'extern "C" int start(void **a) { return cudaLaunchKernel((const void *)set, dim3(1), dim3(1), a, 0, 0); }' \
		>conftest.dir/kernel.cu
	AS_IF([test "${cuda_version:-0}" -lt SLUICE_CUDA_FLOOR],
		[cuda_summary="no ($NVCC is of CUDA $((cuda_version / 1000)).$((cuda_version % 1000 / 10)), and dnl
m4_eval(SLUICE_CUDA_FLOOR / 1000).m4_eval(SLUICE_CUDA_FLOOR % 1000 / 10) is the oldest that is supported)"],
		[! $NVCC $NVCCFLAGS $GENCODE -c conftest.dir/kernel.cu -o conftest.dir/kernel.o >&AS_MESSAGE_LOG_FD 2>&1],
		[cuda_summary="no ($NVCC does not compile a kernel for $GENCODE: see config.log)"],
		[! test -f "$cuda_lib/libcudart_static.a"],
		[cuda_summary="no ($cuda_lib/libcudart_static.a is missing)"],
		[
			have_cuda=yes
			cuda_summary="yes ($NVCC, $(echo "$GENCODE" | sed 's/-gencode arch=compute_[[0-9a-z]]*,code=//g'))"
		])
	rm -rf conftest.dir
	AC_MSG_RESULT([$have_cuda])
])
