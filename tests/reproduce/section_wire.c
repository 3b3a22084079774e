/* SPDX-License-Identifier: BSD-3-Clause
 * Section 17: the traffic. Compares elements with their formula, bytes with the header and coded
 * lengths computed here from the sent supports, and bits per position with those that random
 * supports need. */
#include "tests/reproduce/sections.h"
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include "compress/message.h"
#include "worker/agree.h"
#include "worker/lane.h"
#include "worker/state.h"
#include <math.h>
#include <string.h>

enum { WORKERS = 4 };

/* ---- lengths, computed independently --------------------------------------- */

static uint64_t padded(uint64_t bytes)
{
	return (bytes + 3) / 4 * 4;
}

static uint64_t delta_bytes(const uint32_t *index, uint32_t count)
{
	enum { BLOCK = 128 };
	uint64_t bytes = padded((count + BLOCK - 1) / BLOCK);

	for (uint32_t at = 0; at < count; at += BLOCK) {
		uint32_t n = count - at < BLOCK ? count - at : BLOCK, largest = 0, width = 0;

		for (uint32_t i = at; i < at + n; i++) {
			uint32_t gap = i ? index[i] - index[i - 1] - 1 : index[0];

			largest = gap > largest ? gap : largest;
		}
		for (; largest; largest >>= 1)
			width++;
		bytes += ((uint64_t)n * width + 7) / 8;
	}
	return padded(bytes);
}

static uint64_t rice_bytes(const uint32_t *index, uint32_t count, uint32_t span)
{
	uint64_t mean = (uint64_t)span * 45426 / 65536 / count, bits = 0;
	unsigned low = 0;

	while (mean >> (low + 1))
		low++;
	for (uint32_t i = 0; i < count; i++)
		bits += ((i ? index[i] - index[i - 1] - 1 : index[0]) >> low) + 1;
	return padded(((uint64_t)count * low + 7) / 8 + (bits + 7) / 8);
}

/* Returns the size of the positions in the shortest coding that is allowed. */
static uint64_t position_bytes(const uint32_t *index, uint32_t count, uint32_t span, int small)
{
	uint64_t least = 4ull * count;
	uint64_t delta = delta_bytes(index, count), bitmap = padded((span + 7) / 8);

	if (!count)
		return 0;
	if (index[count - 1] - index[0] == count - 1)
		return 4; /* consecutive positions only need their beginning */
	least = delta < least ? delta : least;
	least = bitmap < least ? bitmap : least;
	if (small) {
		uint64_t rice = rice_bytes(index, count, span);

		least = rice < least ? rice : least;
	}
	return least;
}

enum values { F32, F16, UNIFORM_4, GRID_4 }; /* how values are encoded; uniform in blocks of 512 */

static uint64_t bytes_of_values(enum values values, uint64_t n)
{
	switch (values) {
	case F32: return 4 * n;
	case F16: return padded(2 * n);
	case UNIFORM_4: return padded((n + 511) / 512 * 4 + (n + 1) / 2);
	case GRID_4: return padded((n + 1) / 2);
	}
	return 0;
}

/* Returns the size of a message with that support. Messages with values in few bits are never
 * dense. */
static uint64_t expected_bytes(const uint32_t *index, uint32_t count, uint32_t span, int small,
			       enum values values)
{
	uint64_t pairs = position_bytes(index, count, span, small) + bytes_of_values(values, count);
	uint64_t dense = values <= F16 ? bytes_of_values(values, span) : UINT64_MAX;

	return MESSAGE_HEADER_BYTES + (dense < pairs ? dense : pairs);
}

/* ---- a run whose messages are decoded again -------------------------------- */

struct tally {
	uint64_t up, down, up_bytes, down_bytes; /* elements and expected bytes */
	uint64_t least, most;                    /* elements of a single push */
	int small, seeded;                       /* seeded: there are no positions in pushes */
	enum values up_values, down_values;
	uint8_t *copy;
	uint32_t *index;
	float *value;
};

/* Decodes a message. Returns its elements and adds its expected length. */
static uint32_t recount(struct tally *t, const uint8_t *bytes, size_t n, int up, uint64_t *expected)
{
	const enum values values = up ? t->up_values : t->down_values;
	struct message m;
	const char *why;

	if (message_copy(NULL, bytes, n, t->copy, n, &m, &why) ||
	    message_decode(NULL, &m, t->copy, t->index, t->value, &why))
		return 0;
	if ((up && t->seeded) || m.coding == CODING_DENSE)
		*expected += MESSAGE_HEADER_BYTES + bytes_of_values(values, m.count);
	else
		*expected += expected_bytes(t->index, m.count, m.span, t->small, values);
	return m.count;
}

/* Handles a step with an agreed support, whose positions are sent once and values without them.
 * Returns the elements of the push. */
static uint64_t recount_agreed(struct tally *t, const struct seat *seat, uint32_t s)
{
	const struct shard_layout *at = &seat->model->layout.shards[s];
	uint32_t n;
	const uint32_t *support = agree_support(seat->model->worker->agreed, s, &n);
	const uint64_t positions = MESSAGE_HEADER_BYTES +
				   position_bytes(support, n, at->span, t->small);
	const uint64_t values = MESSAGE_HEADER_BYTES + 4ull * n;
	size_t bytes;
	const uint8_t *delta = lane_received(seat->model->worker->lanes, s, &bytes);

	t->up_bytes += values;
	t->down_bytes += positions;
	if (at->sketch_cells) {
		t->up_bytes += MESSAGE_HEADER_BYTES + 4ull * at->sketch_cells;
		t->down += recount(t, delta, bytes, 0, &t->down_bytes);
	} else {
		int leader = schedule_leader(seat->step + 1, seat->run->workers);

		t->up_bytes += seat->rank == leader ? positions :
						      MESSAGE_HEADER_BYTES; /* consents */
		t->down += n;
		t->down_bytes += values;
	}
	return n;
}

static int recount_step(struct seat *seat)
{
	struct tally *t = seat->run->context;
	const struct worker *w = seat->model->worker;
	uint64_t up = 0;

	if ((seat->step + 1) % seat->model->recipe.every.period)
		return 0; /* a step without messages */
	for (uint32_t s = 0; s < seat->model->layout.n_shards; s++) {
		size_t bytes;
		if (w->agreed) {
			up += recount_agreed(t, seat, s);
			continue;
		}
		const uint8_t *message = lane_sent(seat->model->worker->lanes, s, &bytes);

		up += recount(t, message, bytes, 1, &t->up_bytes);
		message = lane_received(seat->model->worker->lanes, s, &bytes);
		t->down += recount(t, message, bytes, 0, &t->down_bytes);
	}
	t->up += up;
	t->least = up < t->least ? up : t->least;
	t->most = up > t->most ? up : t->most;
	return 0;
}

static void gaussian(const struct problem *p, const float *x, const struct sample *at, float *grad)
{
	const struct random_stream s = draw_stream(DRAW_NOISE, at->seed, (unsigned)at->worker,
						   at->step);

	(void)x;
	draw_normals(&s, p->count, grad);
}

static int count_messages(struct page *page, struct run *run, struct tally *t, struct outcome *out)
{
	size_t n = run->problem->count;

	t->copy = zeroed(MESSAGE_HEADER_BYTES + 8 * n + 64, 1);
	t->index = zeroed(n, sizeof *t->index);
	t->value = zeroed(n, sizeof *t->value);
	t->least = UINT64_MAX;
	run->after = recount_step;
	run->context = t;
	int rc = run_recipe(run, out);

	page_about(page, run->recipe, &out->sum);
	free(out->x);
	free(t->copy);
	free(t->index);
	free(t->value);
	return rc;
}

/* ---- elements and bytes ---------------------------------------------------- */

enum formula { EXACTLY, AT_MOST, BETWEEN, ON_AVERAGE };

struct prediction {
	enum formula formula;
	double elements, other; /* other: the most, or the allowed deviation of the mean */
};

struct method {
	const char *name, *recipe;
	struct prediction up, down; /* prediction for a push, and for a pull */
	int seeded;                 /* as in struct tally */
	enum values up_values, down_values;
};

static int meets(const struct prediction *p, double mean, double least, double most)
{
	switch (p->formula) {
	case EXACTLY: return least == p->elements && most == p->elements;
	case AT_MOST: return most <= p->elements;
	case BETWEEN: return least >= p->elements && most <= p->other;
	case ON_AVERAGE: return fabs(mean - p->elements) <= p->other;
	}
	return 0;
}

static void describe(const struct prediction *p, char *text, size_t cap)
{
	switch (p->formula) {
	case EXACTLY: snprintf(text, cap, "%.0f", p->elements); break;
	case AT_MOST: snprintf(text, cap, "≤ %.0f", p->elements); break;
	case BETWEEN: snprintf(text, cap, "%.0f to %.0f", p->elements, p->other); break;
	case ON_AVERAGE: snprintf(text, cap, "%.0f ± %.0f", p->elements, p->other); break;
	}
}

static void count_method(struct page *page, const struct method *m, const struct problem *p)
{
	struct claim claim = { m->name, "elements and bytes as predicted",
			       "elements by the formula; bytes = headers + coded lengths exactly" };
	struct tally tally = { .seeded = m->seeded,
			       .up_values = m->up_values,
			       .down_values = m->down_values };
	struct run run = { .label = m->name,
			   .problem = p,
			   .recipe = m->recipe,
			   .workers = WORKERS,
			   .lr = 0.1f,
			   .steps = page->options.quick ? 4 : 20,
			   .seed = 1,
			   .step = strstr(m->recipe, "update=average") ? step_average : NULL };
	struct outcome out;
	char up[64], down[64];

	if (count_messages(page, &run, &tally, &out)) {
		page_row_without(page, &claim, &out);
		return;
	}
	double down_mean = down_per_step(&run, &out), up_mean = up_per_step(&run, &out);
	int elements = tally.up == out.sum.up_elements && tally.down == out.sum.down_elements &&
		       meets(&m->up, up_mean, (double)tally.least, (double)tally.most) &&
		       meets(&m->down, down_mean, down_mean, down_mean);
	int bytes = tally.up_bytes == out.sum.up_bytes && tally.down_bytes == out.sum.down_bytes;

	describe(&m->up, up, sizeof up);
	describe(&m->down, down, sizeof down);
	page_text(page,
		  "| `%s` | %s | %.1f (%llu to %llu) | %s | %.1f | %llu | %llu | %llu | %llu |\n",
		  m->recipe, up, up_mean, (unsigned long long)tally.least,
		  (unsigned long long)tally.most, down, down_mean,
		  (unsigned long long)tally.up_bytes, (unsigned long long)out.sum.up_bytes,
		  (unsigned long long)tally.down_bytes, (unsigned long long)out.sum.down_bytes);
	page_row(page, &claim, elements && bytes ? VERDICT_HOLDS : VERDICT_FAILS,
		 "up %.1f (%s), down %.1f (%s); bytes %s", up_mean, up, down_mean, down,
		 bytes ? "exact" : "differ");
}

static void methods(struct page *page)
{
	enum { D = 20000, K = 200 };
	const double all = D, k = K, together = all * (1 - pow(1 - k / all, WORKERS));
	const struct prediction whole = { EXACTLY, all, 0 }, quarter = { EXACTLY, all / 4, 0 };
	const struct prediction exactly_k = { EXACTLY, k, 0 };
	const struct prediction joined = { ON_AVERAGE, together, 5 * sqrt(together) };
	const struct prediction anything = { AT_MOST, all, 0 };
	const struct method table[] = {
		{ .name = "dense", .recipe = "up=all down=all", .up = whole, .down = whole },
		{ .name = "topk",
		  .recipe = "up=topk(0.01) down=all memory=residual",
		  .up = exactly_k,
		  .down = joined },
		{ .name = "bitopk",
		  .recipe = "up=topk(0.01) down=topk(0.01) memory=residual",
		  .up = exactly_k,
		  .down = exactly_k },
		{ .name = "bitopk, f16",
		  .recipe = "up=topk(0.01),f16 down=topk(0.01),f16 memory=residual",
		  .up = exactly_k,
		  .down = exactly_k,
		  .up_values = F16,
		  .down_values = F16 },
		{ .name = "threshold",
		  .recipe = "up=threshold(0.3) down=all memory=residual",
		  .up = anything,
		  .down = anything },
		{ .name = "gaussiank",
		  .recipe = "up=gaussiank(0.01) down=all memory=residual(outside)",
		  .up = { BETWEEN, ceil(2 * k / 3), floor(4 * k / 3) },
		  .down = { AT_MOST, 4 * WORKERS * k / 3, 0 } },
		{ .name = "unbiased",
		  .recipe = "up=random(0.01) down=all memory=none",
		  .up = { ON_AVERAGE, k, sqrt(k) },
		  .down = anything },
		{ .name = "randk",
		  .recipe = "up=randk(0.01) down=all memory=residual",
		  .up = exactly_k,
		  .down = exactly_k,
		  .seeded = 1 },
		{ .name = "scalecom",
		  .recipe = "up=cyclic(0.01) down=all memory=residual(outside)",
		  .up = exactly_k,
		  .down = exactly_k },
		{ .name = "sketched",
		  .recipe = "up=sketch(0.01,5,1.6,4) down=all memory=residual(outside)",
		  .up = { EXACTLY, 4 * k, 0 },
		  .down = exactly_k },
		{ .name = "top-k, 4 bits",
		  .recipe = "up=topk(0.01),uniform(4) down=all memory=residual",
		  .up = exactly_k,
		  .down = joined,
		  .up_values = UNIFORM_4 },
		{ .name = "4 bits",
		  .recipe = "up=all,uniform(4) down=all memory=none",
		  .up = whole,
		  .down = whole,
		  .up_values = UNIFORM_4 },
		{ .name = "4 bits both ways",
		  .recipe = "up=all,uniform(4) down=all,uniform(4) memory=none",
		  .up = whole,
		  .down = whole,
		  .up_values = UNIFORM_4,
		  .down_values = UNIFORM_4 },
		{ .name = "grid",
		  .recipe = "up=all,grid(4) down=all memory=residual",
		  .up = whole,
		  .down = whole,
		  .up_values = GRID_4 },
		{ .name = "lag-wk",
		  .recipe = "up=all down=all signal=innovation when=lazy(10,0.1)",
		  .up = anything,
		  .down = whole },
		{ .name = "laq",
		  .recipe = "up=all,grid(4) down=all signal=innovation when=lazy(10,0.08,100)",
		  .up = anything,
		  .down = whole,
		  .up_values = GRID_4 },
		{ .name = "pqasgd",
		  .recipe = "up=all,uniform(4) down=all memory=none when=every(4)",
		  .up = whole,
		  .down = quarter,
		  .up_values = UNIFORM_4 },
		{ .name = "sparse-average",
		  .recipe = "up=block(0.25) down=block(0.25) memory=none update=average",
		  .up = quarter,
		  .down = quarter },
	};
	const struct problem p = { .name = "Gaussian gradients",
				   .count = D,
				   .start = start_at_zero,
				   .gradient = gaussian };

	page_text(page,
		  "Elements of a push and of a pull, d = %d, k = %d, W = %d; bytes of all steps "
		  "and workers.\n\n| recipe | up, formula | up | down, formula | down | bytes up, "
		  "expected | counted | bytes down, expected | counted |\n"
		  "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
		  D, K, WORKERS);
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		count_method(page, &table[i], &p);
	page_text(page, "\n");
}

/* ---- bits per position ----------------------------------------------------- */

static void positions(struct page *page)
{
	static const struct claim claim = {
		"coding", "positions cost what random supports need",
		"bits an index at most 0.2 above the table of section 14: delta or bitmap, and Rice"
	};
	static const struct {
		double density, fast, small, entropy;
	} rows[] = { { 1e-3, 13.3, 11.49, 11.41 },
		     { 1e-2, 9.63, 8.09, 8.06 },
		     { 5e-2, 7.22, 5.97, 5.73 },
		     { 0.1, 6.19, 4.91, 4.69 },
		     { 0.25, 4.0, 3.28, 3.24 } };
	const size_t d = page->options.quick ? 20000 : 2000000;
	const struct problem p = { .name = "Gaussian gradients",
				   .count = d,
				   .start = start_at_zero,
				   .gradient = gaussian };
	double worst = 0;

	page_text(page,
		  "Bits a position of random supports, d = %zu.\n\n| density | coding=fast | "
		  "section 14 | coding=small | section 14, Rice | entropy |\n"
		  "| --- | --- | --- | --- | --- | --- |\n",
		  d);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		double bits[2];

		for (int small = 0; small < 2; small++) {
			char recipe[128];
			struct run run = { .label = "positions",
					   .problem = &p,
					   .recipe = recipe,
					   .workers = 1,
					   .lr = 1,
					   .steps = 1,
					   .seed = 1 };
			struct outcome out;

			snprintf(recipe, sizeof recipe,
				 "up=topk(%g) down=all memory=none coding=%s", rows[i].density,
				 small ? "small" : "fast");
			run_recipe(&run, &out);
			page_about(page, recipe, &out.sum);
			free(out.x);
			if (out.rc) {
				page_row_without(page, &claim, &out);
				return;
			}
			bits[small] = 8 * (double)(out.sum.up_bytes - MESSAGE_HEADER_BYTES) /
					      (double)out.sum.up_elements -
				      32;
		}
		worst = fmax(worst, fmax(bits[0] - rows[i].fast, bits[1] - rows[i].small));
		page_text(page, "| %g | %.2f | %.2f | %.2f | %.2f | %.2f |\n", rows[i].density,
			  bits[0], rows[i].fast, bits[1], rows[i].small, rows[i].entropy);
	}
	page_text(page, "\n");
	page_row(page, &claim, worst <= 0.2 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "at most %.2f bits above", worst);
}

void section_wire(struct page *page)
{
	methods(page);
	positions(page);
}
