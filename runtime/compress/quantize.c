/* SPDX-License-Identifier: BSD-3-Clause
 * Values in messages. message.c calls this for every message, and the sender keeps the difference
 * between value and decoded[] in its residual. For f16, the machine's conversion instructions are
 * used where they exist; they give the same bits as the portable functions. */
#include "quantize.h"
#include "sluice.h"
#include "value_codes.h"
#include "value_kernels.h"
#include <assert.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>
#endif

/* ---- four at once, in vectors of the compiler, for which every machine has registers ---- */

enum {
	AT_ONCE = 4,
	DECODE_PIECE = 2048,
	/* messages have the byte order of this machine */
	LITTLE_ENDIAN_FLOATS = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
};
typedef uint32_t words __attribute__((vector_size(4 * AT_ONCE)));
typedef uint16_t shorts __attribute__((vector_size(2 * AT_ONCE)));

static inline words load_words(const float *v)
{
	words bits;

	memcpy(&bits, v, sizeof(bits));
	return bits;
}

/* ---- types and scales ---- */

size_t value_bytes(enum value_type type)
{
	return type == VALUE_F32 ? 4 : value_eight(type) ? 1 : 2;
}

float value_scale(enum value_type type, const float *v, size_t n)
{
	return type == VALUE_F16 ? f16_scale_of(value_kernels()->largest(v, n)) : 1;
}

int value_scale_valid(enum value_type type, float scale)
{
	uint32_t bits = float_bits(scale);
	uint32_t exponent = bits >> 23; /* with the sign above the exponent */

	if (type != VALUE_F16)
		return scale == 1;
	return !(bits & 0x7fffff) && exponent >= 1 && exponent <= 253;
}

/* ---- by the machine's instructions: return how many values they did, a multiple of 8 or 4 --- */

#if defined(__x86_64__)

/* The result is kept, because cpuid traps under a hypervisor. __builtin_cpu_supports() also checks
 * that the operating system saves the AVX registers, but some compilers do not accept f16c
 * there. */
static int machine_converts(void)
{
	static atomic_int known; /* 0: not determined yet; 1: no; 2: yes */
	unsigned eax, ebx, ecx, edx;
	int answer = atomic_load_explicit(&known, memory_order_relaxed);

	if (!answer) {
		answer = __builtin_cpu_supports("avx") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) &&
					 (ecx & bit_F16C) ?
				 2 :
				 1;
		atomic_store_explicit(&known, answer, memory_order_relaxed);
	}
	return answer == 2;
}

/* The conversion ignores the flush-to-zero mode, and its rounding mode is part of the
 * instruction. */
__attribute__((target("avx,f16c"))) static size_t f16_encode_fast(float scale, const float *v,
								  size_t n, uint8_t *out,
								  float *decoded)
{
	const __m256 by = _mm256_set1_ps(scale), back = _mm256_set1_ps(1 / scale);
	const __m256 high = _mm256_set1_ps(f16_limit(scale));
	const __m256 low = _mm256_set1_ps(-f16_limit(scale));
	size_t i;

	if (!machine_converts())
		return 0;
	for (i = 0; i + 8 <= n; i += 8) {
		__m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(v + i), by);
		__m128i code;

		scaled = _mm256_min_ps(_mm256_max_ps(scaled, low), high);
		code = _mm256_cvtps_ph(scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
		_mm_storeu_si128((__m128i *)(out + 2 * i), code);
		if (decoded)
			_mm256_storeu_ps(decoded + i, _mm256_mul_ps(_mm256_cvtph_ps(code), back));
	}
	return i;
}

__attribute__((target("avx,f16c"))) static size_t f16_decode_fast(float scale, const uint8_t *in,
								  size_t n, float *v)
{
	const __m256 back = _mm256_set1_ps(1 / scale);
	size_t i;

	if (!machine_converts())
		return 0;
	for (i = 0; i + 8 <= n; i += 8) {
		__m128i code = _mm_loadu_si128((const __m128i *)(in + 2 * i));

		_mm256_storeu_ps(v + i, _mm256_mul_ps(_mm256_cvtph_ps(code), back));
	}
	return i;
}

#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

static size_t f16_encode_fast(float scale, const float *v, size_t n, uint8_t *out, float *decoded)
{
	const float32x4_t high = vdupq_n_f32(f16_limit(scale)), low = vnegq_f32(high);
	size_t i;

	for (i = 0; i + 4 <= n; i += 4) {
		float32x4_t scaled = vmulq_n_f32(vld1q_f32(v + i), scale);
		float16x4_t code = vcvt_f16_f32(vminq_f32(vmaxq_f32(scaled, low), high));

		vst1_u8(out + 2 * i, vreinterpret_u8_f16(code));
		if (decoded)
			vst1q_f32(decoded + i, vmulq_n_f32(vcvt_f32_f16(code), 1 / scale));
	}
	return i;
}

static size_t f16_decode_fast(float scale, const uint8_t *in, size_t n, float *v)
{
	size_t i;

	for (i = 0; i + 4 <= n; i += 4) {
		float16x4_t code = vreinterpret_f16_u8(vld1_u8(in + 2 * i));

		vst1q_f32(v + i, vmulq_n_f32(vcvt_f32_f16(code), 1 / scale));
	}
	return i;
}

#else

static size_t f16_encode_fast(float scale, const float *v, size_t n, uint8_t *out, float *decoded)
{
	(void)scale, (void)v, (void)n, (void)out, (void)decoded;
	return 0;
}

static size_t f16_decode_fast(float scale, const uint8_t *in, size_t n, float *v)
{
	(void)scale, (void)in, (void)n, (void)v;
	return 0;
}

#endif

/* ---- bf16: sixteen at once with AVX2, then four at once ---- */

#if defined(__x86_64__)
/* Eight codes in lanes of 32 bits, whose upper halves are zero. */
__attribute__((target("avx2"))) static inline __m256i bf16_codes(__m256i bits)
{
	const __m256i largest = _mm256_set1_epi32(BF16_LARGEST), sign = _mm256_set1_epi32(0x8000);
	const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
	const __m256i code = _mm256_srli_epi32(
		_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
	const __m256i magnitude = _mm256_min_epi32(_mm256_andnot_si256(sign, code), largest);

	return _mm256_or_si256(magnitude, _mm256_and_si256(code, sign));
}

__attribute__((target("avx2"))) static size_t bf16_encode_wide(const float *v, size_t n,
							       uint8_t *out, float *decoded)
{
	size_t i = 0;

	if (!kernels_avx2())
		return 0;
	for (; i + 16 <= n; i += 16) {
		const __m256i a = bf16_codes(
			_mm256_loadu_si256((const __m256i *)(const void *)(v + i)));
		const __m256i b = bf16_codes(
			_mm256_loadu_si256((const __m256i *)(const void *)(v + i + 8)));
		const __m256i codes = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);

		_mm256_storeu_si256((__m256i *)(void *)(out + 2 * i), codes);
		if (!decoded)
			continue;
		_mm256_storeu_si256((__m256i *)(void *)(decoded + i), _mm256_slli_epi32(a, 16));
		_mm256_storeu_si256((__m256i *)(void *)(decoded + i + 8), _mm256_slli_epi32(b, 16));
	}
	return i;
}

__attribute__((target("avx2"))) static size_t bf16_decode_wide(const uint8_t *in, size_t n,
							       float *v)
{
	size_t i = 0;

	if (!kernels_avx2())
		return 0;
	for (; i + 8 <= n; i += 8) {
		const __m256i code = _mm256_cvtepu16_epi32(
			_mm_loadu_si128((const __m128i *)(const void *)(in + 2 * i)));

		_mm256_storeu_si256((__m256i *)(void *)(v + i), _mm256_slli_epi32(code, 16));
	}
	return i;
}
#else
static size_t bf16_encode_wide(const float *v, size_t n, uint8_t *out, float *decoded)
{
	(void)v, (void)n, (void)out, (void)decoded;
	return 0;
}

static size_t bf16_decode_wide(const uint8_t *in, size_t n, float *v)
{
	(void)in, (void)n, (void)v;
	return 0;
}
#endif

static size_t bf16_encode_fast(const float *v, size_t n, uint8_t *out, float *decoded)
{
	size_t i = bf16_encode_wide(v, n, out, decoded);

	for (; LITTLE_ENDIAN_FLOATS && i + AT_ONCE <= n; i += AT_ONCE) {
		words bits = load_words(v + i), code = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
		words over = (words)((code & 0x7fff) > BF16_LARGEST);
		shorts halves;

		code = (over & ((bits >> 16 & 0x8000) | BF16_LARGEST)) | (~over & code);
		halves = __builtin_convertvector(code, shorts);
		memcpy(out + 2 * i, &halves, sizeof(halves));
		code <<= 16;
		if (decoded)
			memcpy(decoded + i, &code, sizeof(code));
	}
	return i;
}

static size_t bf16_decode_fast(const uint8_t *in, size_t n, float *v)
{
	size_t i = bf16_decode_wide(in, n, v);

	for (; LITTLE_ENDIAN_FLOATS && i + AT_ONCE <= n; i += AT_ONCE) {
		shorts halves;
		words bits;

		memcpy(&halves, in + 2 * i, sizeof(halves));
		bits = __builtin_convertvector(halves, words) << 16;
		memcpy(v + i, &bits, sizeof(bits));
	}
	return i;
}

/* ---- many values ---- */

static void f32_copy_out(const float *v, size_t n, uint8_t *out)
{
	if (LITTLE_ENDIAN_FLOATS && n)
		memcpy(out, v, 4 * n);
	for (size_t i = 0; !LITTLE_ENDIAN_FLOATS && i < n; i++)
		put_le32(out + 4 * i, float_bits(v[i]));
}

static void f32_copy_in(const uint8_t *in, size_t n, float *v)
{
	if (LITTLE_ENDIAN_FLOATS && n)
		memcpy(v, in, 4 * n);
	for (size_t i = 0; !LITTLE_ENDIAN_FLOATS && i < n; i++)
		v[i] = bits_float(get_le32(in + 4 * i));
}

/* Encodes the values from `first` on, which the vector instructions have not handled. */
static void f16_encode_rest(float scale, const float *v, size_t first, size_t n, uint8_t *out,
			    float *decoded)
{
	const float limit = f16_limit(scale);

	for (size_t i = first; i < n; i++) {
		float scaled = v[i] * scale;
		uint16_t code;

		scaled = scaled > limit ? limit : scaled < -limit ? -limit : scaled;
		code = f16_encode_inline(scaled);
		put_le16(out + 2 * i, code);
		if (decoded)
			decoded[i] = f16_decode_inline(code) * (1 / scale);
	}
}

void values_encode(enum value_type type, float scale, const float *v, size_t n, uint8_t *out,
		   float *decoded)
{
	assert(value_scale_valid(type, scale));
	switch (type) {
	case VALUE_F32:
		f32_copy_out(v, n, out);
		if (decoded && decoded != v && n)
			memmove(decoded, v, 4 * n);
		break;
	case VALUE_F16:
		f16_encode_rest(scale, v, f16_encode_fast(scale, v, n, out, decoded), n, out,
				decoded);
		break;
	case VALUE_BF16:
		for (size_t i = bf16_encode_fast(v, n, out, decoded); i < n; i++) {
			uint16_t code = bf16_encode_inline(v[i]);

			put_le16(out + 2 * i, code);
			if (decoded)
				decoded[i] = bf16_decode_inline(code);
		}
		break;
	case VALUE_UNIFORM:
	case VALUE_GRID:
	case VALUE_ROUND:
	case VALUE_TWOMEANS:
	case VALUE_E3M0: /* few_bits.h */
	case VALUE_F8_E4M3FN:
	case VALUE_F8_E5M2: break;
	}
}

static void decode_piece(enum value_type type, float scale, const uint8_t *in, size_t n, float *v)
{
	switch (type) {
	case VALUE_F32: f32_copy_in(in, n, v); break;
	case VALUE_F16:
		for (size_t i = f16_decode_fast(scale, in, n, v); i < n; i++)
			v[i] = f16_decode_inline(get_le16(in + 2 * i)) * (1 / scale);
		break;
	case VALUE_BF16:
		for (size_t i = bf16_decode_fast(in, n, v); i < n; i++)
			v[i] = bf16_decode_inline(get_le16(in + 2 * i));
		break;
	case VALUE_UNIFORM:
	case VALUE_GRID:
	case VALUE_ROUND:
	case VALUE_TWOMEANS:
	case VALUE_E3M0: /* few_bits.h */
	case VALUE_F8_E4M3FN:
	case VALUE_F8_E5M2: break;
	}
}

int values_decode(enum value_type type, float scale, const uint8_t *in, size_t n, float *v)
{
	const struct value_kernels *k = value_kernels();
	uint32_t largest = 0;

	for (size_t i = 0, here; i < n; i += here) { /* the values are checked while they are in
							the cache */
		uint32_t most;

		here = n - i < DECODE_PIECE ? n - i : DECODE_PIECE;
		decode_piece(type, scale, in + i * value_bytes(type), here, v + i);
		most = k->largest(v + i, here);
		largest = most > largest ? most : largest;
	}
	return largest < F32_INFINITY ? 0 : SLUICE_EWIRE;
}

void values_widen(enum value_type type, float scale, const uint8_t *in, size_t n, float *v)
{
	if (type == VALUE_F8_E4M3FN)
		for (size_t i = 0; i < n; i++)
			v[i] = scale * e4m3fn_decode_inline(in[i]);
	else if (type == VALUE_F8_E5M2)
		for (size_t i = 0; i < n; i++)
			v[i] = scale * e5m2_decode_inline(in[i]);
	else
		(void)values_decode(type, 1, in, n,
				    v); /* callers look for values that are not finite */
}
