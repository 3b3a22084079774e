/* SPDX-License-Identifier: BSD-3-Clause
 * The AVX-512 instructions that the kernels use, in C, lane by lane as the manual defines them: so
 * that the kernels' logic is tested on processors without them. Include it after immintrin.h, whose
 * names it takes over, and before the file whose kernels are to run; instructions that are missing
 * here do not compile there. */
#ifndef TESTS_AVX512_EMULATED_H
#define TESTS_AVX512_EMULATED_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Calls, because what is inlined by the hundred keeps a compiler with sanitizers busy for
 * minutes. */
#define EMULATED static __attribute__((noinline))
enum { EMULATED_LANES = 16 };
typedef struct {
	int32_t lane[EMULATED_LANES];
} emulated_ints;
typedef struct {
	float lane[EMULATED_LANES];
} emulated_floats;
typedef uint16_t emulated_mask;

EMULATED emulated_ints emulated_load_ints(const void *from)
{
	emulated_ints v;

	memcpy(&v, from, sizeof(v));
	return v;
}

EMULATED emulated_floats emulated_load_floats(const void *from)
{
	emulated_floats v;

	memcpy(&v, from, sizeof(v));
	return v;
}

EMULATED void emulated_store_ints(void *to, emulated_ints v)
{
	memcpy(to, &v, sizeof(v));
}

EMULATED void emulated_store_floats(void *to, emulated_floats v)
{
	memcpy(to, &v, sizeof(v));
}

EMULATED emulated_ints emulated_bits_of(emulated_floats v)
{
	return emulated_load_ints(&v);
}

EMULATED emulated_ints emulated_each_int(int32_t x)
{
	emulated_ints v;

	for (int i = 0; i < EMULATED_LANES; i++)
		v.lane[i] = x;
	return v;
}

EMULATED emulated_floats emulated_each_float(float x)
{
	emulated_floats v;

	for (int i = 0; i < EMULATED_LANES; i++)
		v.lane[i] = x;
	return v;
}

EMULATED emulated_ints emulated_and(emulated_ints a, emulated_ints b)
{
	for (int i = 0; i < EMULATED_LANES; i++)
		a.lane[i] &= b.lane[i];
	return a;
}

EMULATED emulated_ints emulated_add_ints(emulated_ints a, emulated_ints b)
{
	for (int i = 0; i < EMULATED_LANES; i++)
		a.lane[i] = (int32_t)((uint32_t)a.lane[i] + (uint32_t)b.lane[i]);
	return a;
}

EMULATED emulated_ints emulated_max(emulated_ints a, emulated_ints b)
{
	for (int i = 0; i < EMULATED_LANES; i++)
		a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
	return a;
}

EMULATED int32_t emulated_largest(emulated_ints v)
{
	int32_t largest = v.lane[0];

	for (int i = 1; i < EMULATED_LANES; i++)
		largest = v.lane[i] > largest ? v.lane[i] : largest;
	return largest;
}

EMULATED emulated_mask emulated_above(emulated_ints a, emulated_ints b)
{
	unsigned m = 0;

	for (int i = 0; i < EMULATED_LANES; i++)
		m |= (unsigned)(a.lane[i] > b.lane[i]) << i;
	return (emulated_mask)m;
}

EMULATED emulated_mask emulated_not_above(emulated_ints a, emulated_ints b)
{
	return (emulated_mask)~emulated_above(a, b);
}

/* The lanes of the mask, moved together at the lower end; zeros above them. */
EMULATED emulated_ints emulated_compress_ints(emulated_mask m, emulated_ints v)
{
	emulated_ints packed = { { 0 } };
	int n = 0;

	for (int i = 0; i < EMULATED_LANES; i++)
		if (m >> i & 1)
			packed.lane[n++] = v.lane[i];
	return packed;
}

EMULATED emulated_floats emulated_compress_floats(emulated_mask m, emulated_floats v)
{
	emulated_ints packed = emulated_compress_ints(m, emulated_bits_of(v));

	return emulated_load_floats(&packed);
}

EMULATED emulated_floats emulated_keep(emulated_mask m, emulated_floats v)
{
	for (int i = 0; i < EMULATED_LANES; i++)
		v.lane[i] = m >> i & 1 ? v.lane[i] : 0;
	return v;
}

/* Macros in one compiler or the other. */
#undef _mm512_setr_epi32
#undef _mm512_cmpgt_epi32_mask
#undef _mm512_cmple_epi32_mask

#define __m512i                     emulated_ints
#define __m512                      emulated_floats
#define __mmask16                   emulated_mask
#define _mm512_loadu_si512          emulated_load_ints
#define _mm512_loadu_ps             emulated_load_floats
#define _mm512_storeu_si512         emulated_store_ints
#define _mm512_storeu_ps            emulated_store_floats
#define _mm512_castps_si512         emulated_bits_of
#define _mm512_set1_epi32           emulated_each_int
#define _mm512_set1_ps              emulated_each_float
#define _mm512_setzero_ps()         emulated_each_float(0)
#define _mm512_setr_epi32(...)      ((emulated_ints){ { __VA_ARGS__ } })
#define _mm512_and_si512            emulated_and
#define _mm512_add_epi32            emulated_add_ints
#define _mm512_max_epi32            emulated_max
#define _mm512_reduce_max_epi32     emulated_largest
#define _mm512_cmpgt_epi32_mask     emulated_above
#define _mm512_cmple_epi32_mask     emulated_not_above
#define _mm512_maskz_compress_epi32 emulated_compress_ints
#define _mm512_maskz_compress_ps    emulated_compress_floats
#define _mm512_maskz_mov_ps         emulated_keep
#endif
