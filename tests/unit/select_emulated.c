/* SPDX-License-Identifier: BSD-3-Clause
 * The selection kernels for AVX-512 once more, for test_select_kernels.c: compiled for AVX2, with
 * the other instructions in C. */
#if defined(__x86_64__)
#include "compress/select_find.h"
#include "avx512_emulated.h"
#define select_avx512 select_emulated
/* So no function of the file is for AVX-512. */
#define target(features) target("avx2,popcnt,prfchw")
#include "compress/select_avx512.c"
#else
typedef int no_avx512_on_this_machine;
#endif
