/* SPDX-License-Identifier: BSD-3-Clause
 * The selection kernels for AVX-512 once more, for test_select_kernels.c: compiled for any processor, with
 * their instructions in C. */
#if defined(__x86_64__)
#include <immintrin.h>
#include "avx512_emulated.h"
#define select_avx512 select_emulated
/* No function of the file is for AVX-512 then. */
#define target(features)
#include "compress/select_avx512.c"
#else
typedef int no_avx512_on_this_machine;
#endif
