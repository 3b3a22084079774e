/* SPDX-License-Identifier: BSD-3-Clause
 * See census.h. */
#include "model/census.h"
#include "base/bytes.h"
#include "base/error.h"
#include <float.h>
#include <string.h>

/* Counts are sent in 8 bits. A histogram then takes some hundred bytes, and sums of histograms are
 * accurate to a few parts in a thousand. */
enum { COUNT_BITS = 8, BODY_HEADER = NOTE_HEADER_BYTES - NOTE_FRAME_BYTES, MAGIC = 0x314e4c53 };

/* The threshold implies a new share. At each exchange, a share moves this fraction of the distance
 * to it. Most values in a residual are just below the threshold, so a small difference of
 * thresholds makes a large difference of counts. A share that moved the whole distance would
 * overshoot and not converge. */
static const double step_of_the_way = 0.3;

static int is_global(const struct direction *d)
{
	return selection_kinds[d->select].global;
}

int census_exchanges(const struct direction *d, uint64_t step)
{
	return is_global(d) && step && (step - 1) % d->every == 0;
}

int census_push_has_note(const struct recipe *recipe, uint32_t shard, uint64_t step)
{
	return census_exchanges(&recipe->down, step - 1) ||
	       (!shard && census_exchanges(&recipe->up, step));
}

int census_delta_has_note(const struct recipe *recipe, uint32_t shard, uint64_t version)
{
	return census_exchanges(&recipe->down, version) ||
	       (!shard && census_exchanges(&recipe->up, version));
}

static size_t histogram_most(void)
{
	const struct sluice_histogram bins = { .bins = histogram_bins(CENSUS_MANTISSA_BITS) };

	return histogram_bound(&bins, COUNT_BITS);
}

size_t census_room(const struct recipe *recipe, uint32_t shard)
{
	return is_global(&recipe->down) || (is_global(&recipe->up) && !shard) ?
		       (NOTE_HEADER_BYTES + histogram_most() + 7) & ~(size_t)7 :
		       0;
}

/* ---- shares ---------------------------------------------------------------- */

uint64_t constituent_count(const struct constituent *c, double density, uint64_t n)
{
	double k = c->share * density * (double)n + 0.5;

	/* A participant that selects no coordinate would never send its values, which would stay in
	 * the residual. */
	if (k < 1)
		k = 1;
	return k < (double)n ? (uint64_t)k : n;
}

void constituent_answered(struct constituent *c, float level, double density)
{
	double equal_part = density * (double)c->histogram->total;

	if (level > 0 && equal_part > 0)
		c->share += step_of_the_way *
			    (histogram_above(c->histogram, level) / equal_part - c->share);
	histogram_clear(c->histogram);
}

/* ---- notes ----------------------------------------------------------------- */

size_t note_write(const struct note *note, uint32_t shard, uint64_t seq, uint8_t *out)
{
	size_t used = BODY_HEADER + note->histogram_bytes, body = (used + 3) & ~(size_t)3;
	uint8_t *b = out + NOTE_FRAME_BYTES;

	put_le32(b, float_bits(note->level));
	put_le32(b + 4, (uint32_t)note->histogram_bytes);
	if (note->histogram_bytes)
		memmove(b + BODY_HEADER, note->histogram, note->histogram_bytes);
	memset(b + used, 0, body - used);
	put_le32(out, MAGIC);
	put_le32(out + 4, (uint32_t)body);
	put_le64(out + 8, seq);
	put_le32(out + 16, shard);
	put_le32(out + 20, crc32c(crc32c(0, out, 20), b, body));
	return NOTE_FRAME_BYTES + body;
}

/* Copies bytes that a peer may be changing. The barrier prevents the compiler from reading these
 * bytes a second time. */
static void copy_note(uint8_t *to, const uint8_t *from, size_t n)
{
	memcpy(to, from, n);
	__asm__ volatile("" : : "r"(to), "r"(from) : "memory");
}

int note_read(const uint8_t *from, size_t n, uint32_t shard, uint64_t seq, uint8_t *copy,
	      struct note *note, const char **why)
{
	uint8_t *b = copy + NOTE_FRAME_BYTES;

	if (n < NOTE_HEADER_BYTES)
		return refuse_bytes(why, "the message leaves no room for its note");
	copy_note(copy, from, NOTE_FRAME_BYTES);

	size_t body = get_le32(copy + 4);

	if (get_le32(copy) != MAGIC || body < BODY_HEADER || body > n - NOTE_FRAME_BYTES ||
	    body > BODY_HEADER + histogram_most())
		return refuse_bytes(why, "the note is missing or too long");
	copy_note(b, from + NOTE_FRAME_BYTES, body);
	if (get_le32(copy + 20) != crc32c(crc32c(0, copy, 20), b, body))
		return refuse_bytes(why, "the note's checksum is wrong");
	if (get_le64(copy + 8) != seq || get_le32(copy + 16) != shard)
		return refuse_bytes(why, "the note belongs to another message");
	*note = (struct note){ bits_float(get_le32(b)), b + BODY_HEADER, get_le32(b + 4) };
	if (!(note->level >= 0 && note->level <= FLT_MAX))
		return refuse_bytes(why, "the threshold is not a finite number >= 0");
	if (note->histogram_bytes > body ||
	    ((BODY_HEADER + note->histogram_bytes + 3) & ~(size_t)3) != body)
		return refuse_bytes(why, "the note's lengths disagree");
	for (size_t i = BODY_HEADER + note->histogram_bytes; i < body; i++)
		if (b[i])
			return refuse_bytes(why, "padding after the note is not zero");
	return 0;
}

int note_add(const struct note *note, struct sluice_histogram *sum, const char **why)
{
	if (!note->histogram_bytes)
		return 0;
	if (!sum)
		return refuse_bytes(why, "the note has a histogram in a step without one");
	return histogram_merge(sum, note->histogram, note->histogram_bytes, why);
}

size_t constituent_look(struct constituent *c, const float *x, const struct span *spans,
			size_t n_spans, const struct random_stream *stream, uint8_t *out)
{
	histogram_clear(c->histogram);
	for (size_t s = 0; s < n_spans; s++)
		if (!spans[s].exempt)
			histogram_see(c->histogram, x + spans[s].begin,
				      spans[s].end - spans[s].begin);
	if (histogram_take(c->histogram))
		return 0;

	size_t bytes = histogram_encode(c->histogram, COUNT_BITS, stream, out);
	const char *why;

	histogram_clear(c->histogram);
	/* this rank made the message, so the merge cannot fail */
	return histogram_merge(c->histogram, out, bytes, &why) ? 0 : bytes;
}

struct random_stream census_stream(const struct recipe *recipe, uint32_t who, uint64_t step)
{
	return (struct random_stream){
		.purpose = RANDOM_COUNT, .rank = who, .step = step, .seed = recipe->seed
	};
}

/* ---- memory ---------------------------------------------------------------- */

uint64_t constituent_memory(void)
{
	return sizeof(struct constituent) + (uint64_t)histogram_bytes(CENSUS_MANTISSA_BITS);
}

int constituent_open(struct constituent *c)
{
	c->share = 1;
	return histogram_open(CENSUS_MANTISSA_BITS, &c->histogram);
}

uint64_t constituent_save(const struct constituent *c)
{
	uint64_t bits;

	memcpy(&bits, &c->share, sizeof(bits));
	return bits;
}

static double share_of(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

const char *constituent_judge(const struct direction *d, uint64_t bits)
{
	const double share = share_of(bits);

	if (!(share >= 0 && share <= (double)UINT32_MAX))
		return "the share is not between 0 and 2^32 equal parts";
	if (!is_global(d) && share != 1)
		return "the share is not 1, although the recipe has no global selection";
	return NULL;
}

void constituent_restore(struct constituent *c, uint64_t bits)
{
	c->share = share_of(bits);
}
