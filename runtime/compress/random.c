/* SPDX-License-Identifier: BSD-3-Clause
 * See random.h. philox.h generates a single quad. This file compiles the portable version of the
 * kernel that generates runs of quads, and chooses a version. Pure. */
#include "random_wide.h"

void random_quad(const struct random_stream *s, uint64_t quad, uint32_t out[4])
{
	philox_quad(s, quad, out);
}

uint32_t random_at(const struct random_stream *s, uint64_t coordinate)
{
	uint32_t four[4];

	random_quad(s, coordinate / 4, four);
	return four[coordinate % 4];
}

/* ---- the choice ---- */

const struct random_kernels *const random_versions[] = {
#if defined(__x86_64__)
	&random_avx2,
#endif
	&random_portable, NULL
};

const struct random_kernels *random_kernels(void)
{
	static const void *_Atomic chosen;

	return kernels_chosen(random_versions, &chosen);
}

/* ---- many ---- */

void random_run(const struct random_stream *s, uint64_t first, size_t n, uint32_t *out)
{
	const size_t offset = first % 4;
	uint32_t numbers[RANDOM_RUN];
	size_t whole;

	if (offset && n) { /* takes what is left of the first quad */
		const size_t here = n < 4 - offset ? n : 4 - offset;

		random_quad(s, first / 4, numbers);
		memcpy(out, numbers + offset, here * sizeof(*out));
		first += here;
		n -= here;
		out += here;
	}
	whole = n - n % RANDOM_RUN;
	if (whole)
		random_kernels()->run(s, first / 4, whole, out);
	first += whole;
	n -= whole;
	out += whole;
	if (n > RANDOM_RUN / 4) {
		random_kernels()->run(s, first / 4, RANDOM_RUN, numbers);
		memcpy(out, numbers, n * sizeof(*out));
		return;
	}
	for (size_t i = 0; i < n; i += 4) {
		random_quad(s, (first + i) / 4, numbers);
		memcpy(out + i, numbers, (n - i < 4 ? n - i : 4) * sizeof(*out));
	}
}
