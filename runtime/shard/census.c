/* SPDX-License-Identifier: BSD-3-Clause
 * See census.h. */
#include "shard/census.h"
#include "base/bytes.h"
#include "base/error.h"
#include "model/model.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* 2 mantissa bits: thresholds within a few per cent of the density. 8 bits a count: sums of counts to a few
 * parts in a thousand, in some hundred bytes. */
enum { MANTISSA_BITS = 2, COUNT_BITS = 8, NOTE_HEADER = 24, BODY_HEADER = 8, MAGIC = 0x314e4c53 };

/* Of the way to what the threshold says, at each exchange. What waits in a residual lies close below the
 * threshold, so that a small difference of thresholds looks like a large one of counts: going all the way
 * overshoots, and never settles. */
static const double step_of_the_way = 0.3;

static int is_global(const struct direction *d)
{
	return selection_kinds[d->select].global;
}

static int exchanges(const struct direction *d, uint64_t step)
{
	return is_global(d) && step && (step - 1) % d->every == 0;
}

/* Whether a note goes with the push, or with the delta, of this step. */
static int push_has_note(const sluice_model *model, uint32_t shard, uint64_t step)
{
	return model->census && (exchanges(&model->recipe.down, step - 1) ||
				 (!shard && exchanges(&model->recipe.up, step)));
}

static int delta_has_note(const sluice_model *model, uint32_t shard, uint64_t version)
{
	return model->census && (exchanges(&model->recipe.down, version) ||
				 (!shard && exchanges(&model->recipe.up, version)));
}

static size_t histogram_most(void)
{
	const struct sluice_histogram bins = { .bins = histogram_bins(MANTISSA_BITS) };

	return histogram_bound(&bins, COUNT_BITS);
}

size_t census_room(const struct recipe *recipe, uint32_t shard)
{
	return is_global(&recipe->down) || (is_global(&recipe->up) && !shard)
		? (NOTE_HEADER + BODY_HEADER + histogram_most() + 7) & ~(size_t)7 : 0;
}

/* ---- shares ---------------------------------------------------------------------------------------- */

static uint64_t count_of(const struct constituent *c, double density, uint64_t n)
{
	double k = c->share * density * (double)n + 0.5;

	return k < (double)n ? (uint64_t)k : n;
}

uint64_t census_up_count(const sluice_model *model, double density, uint64_t n)
{
	return count_of(&model->census->worker.up, density, n);
}

uint64_t census_down_count(const sluice_model *model, const struct shard *shard, double density, uint64_t n)
{
	return count_of(&model->census->shard.down[shard - model->shards], density, n);
}

/* The answer to its histogram has come; level 0: fewer than asked for are not zero. */
static void move_share(struct constituent *c, float level, double density)
{
	double equal_part = density * (double)c->histogram->total;

	if (level > 0 && equal_part > 0)
		c->share += step_of_the_way * (histogram_above(c->histogram, level) / equal_part - c->share);
	histogram_clear(c->histogram);
}

static double density_of(const sluice_model *model, const struct direction *d, uint64_t step)
{
	return schedule_density(&model->schedule, d, step);
}

/* ---- notes ---------------------------------------------------------------------------------------- */

struct note {
	float level;
	const uint8_t *histogram;
	size_t histogram_bytes;
};

/* The histogram may be in its place already. */
static size_t note_write(const struct note *note, uint32_t shard, uint64_t seq, uint8_t *out)
{
	size_t used = BODY_HEADER + note->histogram_bytes, body = (used + 3) & ~(size_t)3;
	uint8_t *b = out + NOTE_HEADER;

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
	return NOTE_HEADER + body;
}

static int refuse(const char **why, const char *what)
{
	*why = what;
	return SLUICE_EWIRE;
}

/* Copies bytes that a peer may be changing: after the barrier the compiler reads them no second time. */
static void copy_once(uint8_t *to, const uint8_t *from, size_t n)
{
	memcpy(to, from, n);
	__asm__ volatile("" : : "r"(to), "r"(from) : "memory");
}

static int note_read(const uint8_t *from, size_t n, uint32_t shard, uint64_t seq, uint8_t *copy,
		     struct note *note, const char **why)
{
	uint8_t *b = copy + NOTE_HEADER;

	if (n < NOTE_HEADER + BODY_HEADER)
		return refuse(why, "there is no room for the note that must follow");
	copy_once(copy, from, NOTE_HEADER);

	size_t body = get_le32(copy + 4);

	if (get_le32(copy) != MAGIC || body < BODY_HEADER || body > n - NOTE_HEADER ||
	    body > BODY_HEADER + histogram_most())
		return refuse(why, "no note follows, or one that is too long");
	copy_once(b, from + NOTE_HEADER, body);
	if (get_le32(copy + 20) != crc32c(crc32c(0, copy, 20), b, body))
		return refuse(why, "the note's checksum is wrong");
	if (get_le64(copy + 8) != seq || get_le32(copy + 16) != shard)
		return refuse(why, "the note belongs to another message");
	*note = (struct note){ bits_float(get_le32(b)), b + BODY_HEADER, get_le32(b + 4) };
	if (!(note->level >= 0 && note->level <= FLT_MAX))
		return refuse(why, "the threshold is not a finite number >= 0");
	if (note->histogram_bytes > body || ((BODY_HEADER + note->histogram_bytes + 3) & ~(size_t)3) != body)
		return refuse(why, "the note's lengths disagree");
	for (size_t i = BODY_HEADER + note->histogram_bytes; i < body; i++)
		if (b[i])
			return refuse(why, "padding after the note is not zero");
	return 0;
}

/* sum: NULL where none was to come. */
static int add_histogram(struct sluice_histogram *sum, const struct note *note, const char **why)
{
	if (!note->histogram_bytes)
		return 0;
	if (!sum)
		return refuse(why, "the note brings a histogram out of turn");
	return histogram_merge(sum, note->histogram, note->histogram_bytes, why);
}

/* Looks at x and writes what was seen as a message; 0 bytes if there is NaN or infinity, which is refused
 * elsewhere. What the message says is kept, with its rounding: so the shares of all add up. */
static size_t see(struct constituent *c, const float *x, const struct span *spans, size_t n_spans,
		  const struct random_stream *stream, uint8_t *out)
{
	histogram_clear(c->histogram);
	for (size_t s = 0; s < n_spans; s++)
		if (!spans[s].exempt)
			histogram_see(c->histogram, x + spans[s].begin, spans[s].end - spans[s].begin);
	if (histogram_take(c->histogram))
		return 0;

	size_t bytes = histogram_encode(c->histogram, COUNT_BITS, stream, out);
	const char *why;

	histogram_clear(c->histogram);
	return histogram_merge(c->histogram, out, bytes, &why) ? 0 : bytes; /* it always is merged */
}

/* Workers are below 2^23: a shard's numbers are no worker's. */
static struct random_stream stream_of(const sluice_model *model, uint32_t who, uint64_t step)
{
	return (struct random_stream){ .purpose = RANDOM_COUNT, .rank = who, .step = step,
				       .seed = model->recipe.seed };
}

/* ---- worker half --------------------------------------------------------------------------------------- */

void census_look(sluice_model *model)
{
	const struct worker *w = model->worker;
	const struct layout *l = &model->layout;

	if (!model->census || !exchanges(&model->recipe.up, w->step))
		return;

	struct worker_census *c = &model->census->worker;
	const struct random_stream stream = stream_of(model, (uint32_t)model->job->rank, w->step);

	/* Who leaves its gradient out has no say. */
	c->message_bytes = w->skip ? 0 : see(&c->up, w->residual, l->spans, l->n_spans, &stream, c->note);
}

size_t census_note_push(sluice_model *model, uint32_t shard, uint64_t seq, uint8_t *out)
{
	const uint64_t step = model->worker->step;

	if (!push_has_note(model, shard, step))
		return 0;

	const struct worker_census *c = &model->census->worker;
	struct note note = { .level = exchanges(&model->recipe.down, step - 1) ? c->down_level : 0 };

	if (!shard && exchanges(&model->recipe.up, step)) {
		note.histogram = c->note;
		note.histogram_bytes = c->message_bytes;
	}
	return note_write(&note, shard, seq, out);
}

int census_take_delta(sluice_model *model, uint32_t shard, const uint8_t *from, size_t n,
		      const char **why)
{
	const struct direction *up = &model->recipe.up;
	const uint64_t step = model->worker->step;
	struct note note;

	if (!delta_has_note(model, shard, step))
		return 0;

	struct worker_census *c = &model->census->worker;

	if (note_read(from, n, shard, step, c->note, &note, why) ||
	    add_histogram(exchanges(&model->recipe.down, step) ? c->shards : NULL, &note, why))
		return SLUICE_EWIRE;
	if (!shard && exchanges(up, step)) {
		c->up_level = note.level;
		move_share(&c->up, note.level, density_of(model, up, step));
	}
	return 0;
}

void census_end_step(sluice_model *model)
{
	const struct direction *down = &model->recipe.down;
	const uint64_t step = model->worker->step;

	if (!model->census || !exchanges(down, step))
		return;

	struct worker_census *c = &model->census->worker;

	c->down_level = histogram_quantile(c->shards, density_of(model, down, step));
	histogram_clear(c->shards);
}

/* ---- shard half ------------------------------------------------------------------------------------------ */

static struct constituent *own_share(const sluice_model *model, const struct shard *shard)
{
	return &model->census->shard.down[shard - model->shards];
}

int census_take_push(sluice_model *model, struct shard *shard, uint64_t seq, const uint8_t *from,
		     size_t n, const char **why)
{
	const struct direction *down = &model->recipe.down;
	const uint64_t step = shard->version + 1;
	struct note note;

	if (!push_has_note(model, shard->id, step))
		return 0;
	if (note_read(from, n, shard->id, seq, model->census->shard.note, &note, why) ||
	    add_histogram(!shard->id && exchanges(&model->recipe.up, step) ? model->census->shard.workers
									   : NULL, &note, why))
		return SLUICE_EWIRE;
	if (!shard->counted && exchanges(down, step - 1))
		move_share(own_share(model, shard), note.level, density_of(model, down, step - 1));
	return 0;
}

size_t census_note_delta(sluice_model *model, struct shard *shard, uint8_t *out)
{
	const struct direction *up = &model->recipe.up, *down = &model->recipe.down;
	const uint64_t version = shard->version + 1;
	struct note note = { .histogram = out + NOTE_HEADER + BODY_HEADER };

	if (!delta_has_note(model, shard->id, version))
		return 0;
	if (!shard->id && exchanges(up, version)) {
		note.level = histogram_quantile(model->census->shard.workers,
						density_of(model, up, version));
		histogram_clear(model->census->shard.workers);
	}
	if (exchanges(down, version)) {
		const struct random_stream stream = stream_of(model, shard->id | 1u << 23, version);

		note.histogram_bytes = see(own_share(model, shard),
					   shard->residual ? shard->residual : shard->reduction.sum,
					   shard->spans, shard->n_spans, &stream,
					   out + NOTE_HEADER + BODY_HEADER);
	}
	return note_write(&note, shard->id, version, out);
}

/* ---- checkpoints -------------------------------------------------------------------------------------------- */

static uint64_t bits_of(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static int read_share(uint64_t bits, double *share)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	if (!(x >= 0 && x <= (double)UINT32_MAX))
		return fail(SLUICE_EWIRE, "the checkpoint holds a share of %g of an equal part", x);
	*share = x;
	return 0;
}

size_t census_shard_numbers(void)
{
	return 1 + histogram_bins(MANTISSA_BITS);
}

void census_save_worker(const sluice_model *model, uint64_t *numbers)
{
	const struct worker_census *c = &model->census->worker;

	numbers[0] = bits_of(c->up.share);
	numbers[1] = (uint64_t)float_bits(c->up_level) << 32 | float_bits(c->down_level);
}

void census_save_shard(const sluice_model *model, uint32_t own, uint64_t *numbers)
{
	const struct constituent *c = &model->census->shard.down[own];

	numbers[0] = bits_of(c->share);
	memcpy(numbers + 1, c->histogram->count, c->histogram->bins * sizeof(*numbers));
}

int census_restore_worker(sluice_model *model, const uint64_t *numbers)
{
	struct worker_census *c = &model->census->worker;
	float up = bits_float((uint32_t)(numbers[1] >> 32)), down = bits_float((uint32_t)numbers[1]);

	if (!(up >= 0 && up <= FLT_MAX && down >= 0 && down <= FLT_MAX))
		return fail(SLUICE_EWIRE, "the checkpoint holds the thresholds %g and %g", (double)up,
			    (double)down);
	c->up_level = up;
	c->down_level = down;
	return read_share(numbers[0], &c->up.share);
}

int census_restore_shard(sluice_model *model, uint32_t own, const uint64_t *numbers)
{
	struct constituent *c = &model->census->shard.down[own];
	uint64_t total = 0;

	for (uint32_t i = 0; i < c->histogram->bins; i++) {
		if (numbers[1 + i] > UINT32_MAX)
			return fail(SLUICE_EWIRE, "the checkpoint holds a histogram of more than a shard");
		total += numbers[1 + i];
	}
	memcpy(c->histogram->count, numbers + 1, c->histogram->bins * sizeof(*numbers));
	c->histogram->total = total;
	return read_share(numbers[0], &c->share);
}

/* ---- open and close ---------------------------------------------------------------------------------------- */

enum { HISTOGRAMS = 3 }; /* besides one for each own shard */

uint64_t census_memory(const struct recipe *recipe, uint32_t n_own)
{
	if (!census_room(recipe, 0))
		return 0;
	return sizeof(struct census) + 2 * census_room(recipe, 0) + n_own * sizeof(struct constituent) +
	       (HISTOGRAMS + n_own) * (uint64_t)histogram_bytes(MANTISSA_BITS);
}

int census_open(sluice_model *model)
{
	size_t room = census_room(&model->recipe, 0);
	int rc = 0;

	if (!room)
		return 0;

	struct census *c = model->census = calloc(1, sizeof(*c));

	if (c) {
		c->worker.note = malloc(room);
		c->shard.note = malloc(room);
		c->shard.down = calloc(model->n_own, sizeof(*c->shard.down));
	}
	if (!c || !c->worker.note || !c->shard.note || (model->n_own && !c->shard.down))
		return fail(SLUICE_ENOMEM, "no memory for the census of a model");

	struct sluice_histogram **all[HISTOGRAMS] = { &c->worker.up.histogram, &c->worker.shards,
						      &c->shard.workers };

	for (int i = 0; i < HISTOGRAMS && !rc; i++)
		rc = histogram_open(MANTISSA_BITS, all[i]);
	for (uint32_t i = 0; i < model->n_own && !rc; i++) {
		c->shard.down[i].share = 1;
		rc = histogram_open(MANTISSA_BITS, &c->shard.down[i].histogram);
	}
	c->worker.up.share = 1;
	return rc;
}

void census_close(sluice_model *model)
{
	struct census *c = model->census;

	if (!c)
		return;
	for (uint32_t i = 0; c->shard.down && i < model->n_own; i++)
		free(c->shard.down[i].histogram);
	free(c->shard.down);
	free(c->shard.workers);
	free(c->shard.note);
	free(c->worker.up.histogram);
	free(c->worker.shards);
	free(c->worker.note);
	free(c);
	model->census = NULL;
}
