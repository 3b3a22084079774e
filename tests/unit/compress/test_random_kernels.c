/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of random numbers: every version generates what the definition gives. */
#include "compress/random_kernels.h"
#include "random.h"
#include "cases.h"

enum { MOST = 4 * RANDOM_RUN, GUARD = 0x5a5a5a5a };

TEST(random__any_version__is_as_defined)
{
	static const uint64_t firsts[] = {
		0, 5, 0xffffffffu, 4 * 0xfffffff0ull, 0x3fffffff0ull, 1ull << 35
	};
	static uint32_t wanted[MOST], got_numbers[MOST + 1];
	struct random r = { 25 };

	for (size_t i = 0; random_versions[i]; i++)
		for (unsigned round = 0; round < 60 && random_versions[i]->usable(); round++) {
			const struct random_stream s = { round, random_bits(&r),
							 (uint64_t)random_bits(&r) << 32 |
								 random_bits(&r),
							 random_bits(&r) };
			const uint64_t first = firsts[round % 6];
			const size_t n = RANDOM_RUN * (1 + random_bits(&r) % (MOST / RANDOM_RUN));
			got_numbers[n] = GUARD;
			for (size_t j = 0; j < n; j += 4)
				philox_quad(&s, first + j / 4, wanted + j);
			random_versions[i]->run(&s, first, n, got_numbers);
			assert_memory_equal(got_numbers, wanted, n * sizeof *wanted);
			assert_int_equal(got_numbers[n], GUARD);
		}
}
