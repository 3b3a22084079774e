/* SPDX-License-Identifier: BSD-3-Clause
 * See dense.h. */
#include "dense.h"
#include "base/bytes.h"
#include "select.h"
#include "sluice.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Four values at once, in registers that every current machine has. */
typedef float lanes __attribute__((vector_size(16), aligned(4), may_alias));
enum { LANES = sizeof(lanes) / sizeof(float) };

int dense_plain(const struct message *m)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && m->kind != MESSAGE_SUPPORT &&
	       m->coding == CODING_DENSE && m->values.type == VALUE_F32 &&
	       m->payload_bytes == (uint64_t)m->count * sizeof(float);
}

int dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc)
{
	memcpy(value, from, n * sizeof *value);
	/* Prevents the compiler from reading the values from their source again. */
	__asm__ volatile("" : : "r"(value), "r"(from) : "memory");
	*crc = crc32c(*crc, value, n * sizeof *value);
	return first_nonfinite(value, n) == n ? 0 : SLUICE_EWIRE;
}

#if defined(__SSE2__)
/* Does the same as memcpy(), but with stores that bypass the caches. */
static void put_past_caches(uint8_t *to, const float *value, size_t n)
{
	size_t i = 0;

	for (; i < n && (uintptr_t)(to + sizeof *value * i) % sizeof(__m128) != 0; i++)
		memcpy(to + sizeof *value * i, value + i, sizeof *value);
#pragma GCC unroll 4
	for (; i + 4 <= n; i += 4)
		_mm_stream_ps((float *)(void *)(to + sizeof *value * i), _mm_loadu_ps(value + i));
	memcpy(to + sizeof *value * i, value + i, sizeof *value * (n - i));
}

void dense_put_end(void)
{
	_mm_sfence();
}
#else
static void put_past_caches(uint8_t *to, const float *value, size_t n)
{
	memcpy(to, value, n * sizeof *value);
}

void dense_put_end(void)
{
}
#endif

void dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc, int past_caches)
{
	*crc = crc32c(*crc, value, n * sizeof *value);
	if (past_caches)
		put_past_caches(to, value, n);
	else
		memcpy(to, value, n * sizeof *value);
}

void dense_scaled(const float *from, float scale, uint32_t count, float *value)
{
	const lanes scales = { scale, scale, scale, scale };
	const size_t n = count;
	size_t i = 0;

#pragma GCC unroll 4
	for (; i + LANES <= n; i += LANES)
		*(lanes *)(value + i) = scales * *(const lanes *)(from + i);
	for (; i < n; i++)
		value[i] = scale * from[i];
}
