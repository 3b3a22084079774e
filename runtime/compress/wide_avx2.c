/* SPDX-License-Identifier: BSD-3-Clause
 * Compiles the kernels for AVX2, with any build flags. They run only if the processor has it. */
#if defined(__x86_64__)
#define WIDE_AVX2
#include "index_wide.h"
#include "select_wide.h"
#include "sketch_wide.h"
#include "value_wide.h"
#else
typedef int no_avx2_on_this_machine;
#endif
