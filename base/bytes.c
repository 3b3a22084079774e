/* SPDX-License-Identifier: BSD-3-Clause
 * CRC32C of data that is sent or written to disk, and the 64-bit digest that compares replicas. The
 * CRC uses CPU instructions where the CPU has them, and tables elsewhere. */
#include "base/bytes.h"
#include "sluice.h"

#include <pthread.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_CRC_INSTRUCTIONS 1
#define CRC_TARGET            "sse4.2"
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define HAVE_CRC_INSTRUCTIONS 1
#if defined(__clang__)
#define CRC_TARGET "crc"
#else
#include <arm_acle.h>
#define CRC_TARGET "+crc"
#endif
#endif

/* ---- CRC32C: reflected polynomial 0x1EDC6F41 ------------------------------- */

enum { SLICES = 8 };
static const uint32_t reflected_polynomial = 0x82F63B78u;

/* slice_table[s][b] is the remainder of byte b followed by s zero bytes. */
static uint32_t slice_table[SLICES][256];
static pthread_once_t slice_table_once = PTHREAD_ONCE_INIT;

static void build_slice_table(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t r = b;

		for (int bit = 0; bit < 8; bit++)
			r = (r >> 1) ^ (r & 1 ? reflected_polynomial : 0);
		slice_table[0][b] = r;
	}
	for (int s = 1; s < SLICES; s++) {
		for (int b = 0; b < 256; b++) {
			uint32_t r = slice_table[s - 1][b];

			slice_table[s][b] = (r >> 8) ^ slice_table[0][r & 0xff];
		}
	}
}

uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	const uint32_t(*t)[256] = (const uint32_t(*)[256])slice_table;
	uint32_t r = ~crc;

	pthread_once(&slice_table_once, build_slice_table);
	for (; n >= SLICES; n -= SLICES, p += SLICES) {
		uint32_t low = r ^ get_le32(p);
		uint32_t high = get_le32(p + 4);

		r = t[7][low & 0xff] ^ t[6][low >> 8 & 0xff] ^ t[5][low >> 16 & 0xff] ^
		    t[4][low >> 24] ^ t[3][high & 0xff] ^ t[2][high >> 8 & 0xff] ^
		    t[1][high >> 16 & 0xff] ^ t[0][high >> 24];
	}
	for (; n > 0; n--, p++)
		r = (r >> 8) ^ t[0][(r ^ *p) & 0xff];
	return ~r;
}

#ifdef HAVE_CRC_INSTRUCTIONS
#if defined(__x86_64__)
static int have_crc_instructions(void)
{
	return __builtin_cpu_supports("sse4.2");
}

#define crc_of_8(r, word) ((uint32_t)_mm_crc32_u64((r), (word)))
#define crc_of_1(r, byte) _mm_crc32_u8((r), (byte))
#else
static int have_crc_instructions(void)
{
	const unsigned long hwcap_crc32 = 1ul << 7;

	return (getauxval(AT_HWCAP) & hwcap_crc32) != 0;
}

#if defined(__clang__) /* clang's arm_acle.h declares these only if the target of the whole file   \
			  has them */
#define crc_of_8(r, word) __builtin_arm_crc32cd((r), (word))
#define crc_of_1(r, byte) __builtin_arm_crc32cb((r), (byte))
#else
#define crc_of_8(r, word) __crc32cd((r), (word))
#define crc_of_1(r, byte) __crc32cb((r), (byte))
#endif
#endif

/* Each CRC instruction waits for the result of the one before it, but three independent ones run in
 * parallel. The input is therefore read as three streams of STREAM bytes each. Before two
 * remainders are joined, the first one is advanced over STREAM zero bytes, because it stands that
 * far to the left of the second. */
enum { STREAM = 1024 };
static uint32_t shift_table[4][256];
static pthread_once_t shift_table_once = PTHREAD_ONCE_INIT;

__attribute__((target(CRC_TARGET))) static void build_shift_table(void)
{
	for (int byte = 0; byte < 4; byte++)
		for (uint32_t b = 0; b < 256; b++) {
			uint32_t r = b << 8 * byte;

			for (int i = 0; i < STREAM / 8; i++)
				r = crc_of_8(r, 0);
			shift_table[byte][b] = r;
		}
}

static inline uint32_t shifted(uint32_t r)
{
	return shift_table[0][r & 0xff] ^ shift_table[1][r >> 8 & 0xff] ^
	       shift_table[2][r >> 16 & 0xff] ^ shift_table[3][r >> 24];
}

__attribute__((target(CRC_TARGET))) static uint32_t crc32c_by_instructions(uint32_t crc,
									   const void *bytes,
									   size_t n)
{
	const uint8_t *p = bytes;
	uint32_t r = ~crc;

	if (n >= 3 * STREAM)
		pthread_once(&shift_table_once, build_shift_table);
	for (; n >= 3 * STREAM; n -= 3 * STREAM, p += 3 * STREAM) {
		uint32_t second = 0, third = 0;

#pragma GCC unroll 8 /* without unrolling, the loop counter costs a quarter of the time */
		for (int i = 0; i < STREAM; i += 8) {
			r = crc_of_8(r, get_le64(p + i));
			second = crc_of_8(second, get_le64(p + STREAM + i));
			third = crc_of_8(third, get_le64(p + 2 * STREAM + i));
		}
		r = shifted(shifted(r) ^ second) ^ third;
	}
	for (; n >= 8; n -= 8, p += 8)
		r = crc_of_8(r, get_le64(p));
	for (; n > 0; n--, p++)
		r = crc_of_1(r, *p);
	return ~r;
}
#endif

#if defined(__x86_64__)
/* ---- products without carry, two of them in each instruction of 32 bytes ----
 *
 * Moving a remainder of 16 bytes N bytes to the right replaces it by the sum of two products: its
 * first 8 bytes times x^(8 N + 31), and its last 8 bytes times x^(8 N - 33), both modulo the
 * polynomial and bit-reversed. Four remainders of 32 bytes move over the input in parallel. On Zen
 * 4 this is as fast as three streams of crc_of_8() for data in the L1 cache, and faster for data
 * from memory. */
enum { FOLDED = 4 * 32, FOLDS_LEAST = 4 * FOLDED };
#define FOLDS_TARGET "avx2,pclmul,vpclmulqdq,sse4.2"

static int have_folds(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
}

__attribute__((target(FOLDS_TARGET))) static inline __m256i fold_crc(__m256i r, __m256i by,
								     __m256i onto)
{
	return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(r, by, 0x00),
						 _mm256_clmulepi64_epi128(r, by, 0x11)),
				onto);
}

__attribute__((target(FOLDS_TARGET))) static inline __m256i powers(uint32_t first, uint32_t last)
{
	return _mm256_broadcastsi128_si256(_mm_set_epi64x(last, first));
}

__attribute__((target(FOLDS_TARGET))) static inline __m256i load_32(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* n is at least FOLDS_LEAST. */
__attribute__((target(FOLDS_TARGET))) static uint32_t crc32c_by_folds(uint32_t crc,
								      const uint8_t *p, size_t n)
{
	const __m256i by_128 = powers(0x6992cea2, 0x0d3b6092);
	const __m256i by_64 = powers(0x740eef02, 0x9e4addf8),
		      by_32 = powers(0x3da6d0cb, 0xba4fc28e);
	const __m256i by_16 = powers(0xf20c0dfe, 0x493c7d27);
	__m256i a = _mm256_xor_si256(load_32(p), _mm256_set_epi64x(0, 0, 0, (uint32_t)~crc));
	__m256i b = load_32(p + 32), c = load_32(p + 64), d = load_32(p + 96);

	for (p += FOLDED, n -= FOLDED; n >= FOLDED; p += FOLDED, n -= FOLDED) {
		a = fold_crc(a, by_128, load_32(p));
		b = fold_crc(b, by_128, load_32(p + 32));
		c = fold_crc(c, by_128, load_32(p + 64));
		d = fold_crc(d, by_128, load_32(p + 96));
	}
	a = fold_crc(fold_crc(a, by_64, c), by_32, fold_crc(b, by_64, d));
	/* The first half of the remainder lies 16 bytes before the second half, so it is moved by
	 * 16 bytes before the two are added. */
	a = fold_crc(a, by_16, _mm256_permute2x128_si256(a, a, 0x11));
	const __m128i left = _mm256_castsi256_si128(a);
	const uint32_t r = crc_of_8(crc_of_8(0, (uint64_t)_mm_cvtsi128_si64(left)),
				    (uint64_t)_mm_extract_epi64(left, 1));
	return crc32c_by_instructions(~r, p, n);
}
#endif

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
#if defined(__x86_64__)
	if (n >= FOLDS_LEAST && have_folds())
		return crc32c_by_folds(crc, bytes, n);
#endif
#ifdef HAVE_CRC_INSTRUCTIONS
	if (have_crc_instructions())
		return crc32c_by_instructions(crc, bytes, n);
#endif
	return crc32c_portable(crc, bytes, n);
}

/* Multiplies two polynomials modulo that of the CRC. The highest bit is the coefficient of x^0. */
static uint32_t product(uint32_t a, uint32_t b)
{
	uint32_t sum = 0;

	for (; a; a <<= 1) { /* without branches, which could not be predicted */
		sum ^= b & -(a >> 31);
		b = (b >> 1) ^ (reflected_polynomial & -(b & 1));
	}
	return sum;
}

/* power_table[i] is x^(8 * 2^i). */
static uint32_t power_table[64];
static pthread_once_t power_table_once = PTHREAD_ONCE_INIT;

static void build_power_table(void)
{
	power_table[0] = 1u << 23;
	for (int i = 1; i < 64; i++)
		power_table[i] = product(power_table[i - 1], power_table[i - 1]);
}

/* Multiplies a remainder by x^(8 n), the effect of n more bytes. */
static uint32_t moved(uint32_t remainder, uint64_t n)
{
	pthread_once(&power_table_once, build_power_table);
	for (; n; n &= n - 1)
		remainder = product(power_table[__builtin_ctzll(n)], remainder);
	return remainder;
}

/* The two inversions of a CRC cancel out between two parts. */
uint32_t crc32c_of_parts(const struct crc_part *part, unsigned n)
{
	uint32_t crc = part[0].crc;

	for (unsigned i = 1; i < n; i++)
		crc = moved(crc, part[i].bytes) ^ part[i].crc;
	return crc;
}

/* ---- digest ---------------------------------------------------------------------------------
 * Words w0, w1, ... are the little-endian 8-byte groups, the last block of four padded with zeros.
 * Word i goes to lane i mod 4: lane = rotl((lane ^ w) * ODD, 27) + ADD. Each of these steps, and
 * each final step, is a bijection of the lane for a fixed word and of the word for a fixed lane.
 * Two inputs of equal length that differ in one word therefore never have the same digest. */

enum { LANES = 4, BLOCK_BYTES = 8 * LANES };

/* Odd numbers without a pattern: fractions of the square roots of 2, 3, 5, 7 and 11, made odd. */
static const uint64_t odd_factor[LANES] = { 0x6A09E667F3BCC909u, 0xBB67AE8584CAA73Bu,
					    0x3C6EF372FE94F82Bu, 0xA54FF53A5F1D36F1u };
static const uint64_t end_factor = 0x510E527FADE682D1u;

static inline uint64_t rotate_left(uint64_t v, unsigned by)
{
	return v << by | v >> (64 - by);
}

static inline uint64_t lane_step(uint64_t lane, const uint8_t *word, uint64_t factor)
{
	return rotate_left((lane ^ get_le64(word)) * factor, 27) + end_factor;
}

static uint64_t spread(uint64_t h)
{
	h = (h ^ h >> 32) * end_factor;
	h = (h ^ h >> 29) * odd_factor[1];
	return h ^ h >> 32;
}

uint64_t digest64(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint8_t last[BLOCK_BYTES] = { 0 };
	/* These are four variables and not an array, because compilers then keep them in
	 * registers. */
	uint64_t a = odd_factor[0], b = odd_factor[1], c = odd_factor[2], d = odd_factor[3];

	for (size_t left = n; left > 0;) {
		size_t taken = left < BLOCK_BYTES ? left : BLOCK_BYTES;
		const uint8_t *block = p;

		if (taken < BLOCK_BYTES)
			block = memcpy(last, p, taken);
		a = lane_step(a, block, odd_factor[0]);
		b = lane_step(b, block + 8, odd_factor[1]);
		c = lane_step(c, block + 16, odd_factor[2]);
		d = lane_step(d, block + 24, odd_factor[3]);
		p += taken;
		left -= taken;
	}

	/* Without the length, padding would look like zeros in the input. */
	uint64_t h = spread((uint64_t)n + end_factor);

	h = spread(rotate_left(h, 17) ^ a);
	h = spread(rotate_left(h, 17) ^ b);
	h = spread(rotate_left(h, 17) ^ c);
	return spread(rotate_left(h, 17) ^ d);
}

uint64_t sluice_digest(const void *bytes, size_t n)
{
	return digest64(bytes, n);
}
