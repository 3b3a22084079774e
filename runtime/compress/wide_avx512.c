/* SPDX-License-Identifier: BSD-3-Clause
 * The sweeps compiled for AVX-512, with any build flags. They run only if the processor has it. */
#if defined(__x86_64__)
#define WIDE_AVX512
#include "select_wide.h"
#else
typedef int no_avx512_on_this_machine;
#endif
