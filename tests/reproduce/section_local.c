/* SPDX-License-Identifier: BSD-3-Clause
 * Section 14: AdamW with an exchange every 15 steps (DiLoCo, its streaming form, SparseLoCo), and
 * with sparse means of the gradients in every step. All on the next character of a text. */
#include "tests/reproduce/sections.h"
#include "tests/reproduce/memory.h"
#include "tests/reproduce/pool.h"
#include "tools/train/inner.h"
#include <math.h>
#include <string.h>

enum { WORKERS = 8, BATCH = 32, STEPS = 6000, PERIOD = 15, RISE = 50, SEEDS = 5 };

#define LR 4e-3

/* ---- a step ---------------------------------------------------------------- */

struct training {
	float beta1, beta2;
	struct inner inner[WORKERS];
};

/* The rate rises over the first steps, and then falls to a tenth as a cosine. */
static float rate(const struct seat *seat)
{
	const double step = (double)seat->step + 1, steps = (double)seat->run->steps;
	const double turn = step > RISE ? (step - RISE) / (steps - RISE) : 0;

	return (float)(LR * fmin(1, step / RISE) * (0.1 + 0.45 * (1 + cos(M_PI * turn))));
}

static int descend(struct seat *seat)
{
	static const struct compute cpu = { .ops = &compute_cpu };
	struct training *t = seat->run->context;
	struct inner *inner = &t->inner[seat->rank];

	if (!seat->step &&
	    inner_open(inner, INNER_ADAMW, seat->run->problem->count, t->beta1, t->beta2))
		return SLUICE_ENOMEM;
	return inner_step(inner, &cpu, seat->x, seat->grad, rate(seat));
}

/* The worker trains by itself, and the library exchanges how far it has drifted. */
static int step_alone(struct seat *seat)
{
	seat_gradient(seat, seat->x, seat->grad);
	int rc = descend(seat);

	if (!rc)
		rc = sluice_push(seat->model, seat->x);
	return rc ? rc : sluice_pull(seat->model, seat->x);
}

/* Each worker makes the same step with the mean that it pulls. */
static int step_with_mean(struct seat *seat)
{
	seat_gradient(seat, seat->x, seat->grad);
	int rc = sluice_push(seat->model, seat->grad);

	if (!rc)
		rc = sluice_pull(seat->model, seat->grad);
	return rc ? rc : descend(seat);
}

static int common(struct seat *seat, float *point)
{
	return sluice_point(seat->model, seat->x, point);
}

/* ---- the runs -------------------------------------------------------------- */

/* How a row trains: with an exchange in each step and these betas of AdamW, or with local steps. */
enum way { USUAL, LOW, MIXED, LOCAL, LOCAL_BY_OUTPUT };

static const struct {
	float beta1, beta2;
	int period;
	enum text_order order;
} ways[] = { [USUAL] = { .9f, .95f, 1, TEXT_BY_INPUT },
	     [LOW] = { .2f, .99f, 1, TEXT_BY_INPUT },
	     [MIXED] = { .9f, .99f, 1, TEXT_BY_INPUT },
	     [LOCAL] = { .9f, .95f, PERIOD, TEXT_BY_INPUT },
	     [LOCAL_BY_OUTPUT] = { .9f, .95f, PERIOD, TEXT_BY_OUTPUT } };

struct row {
	const char *label, *recipe;
	enum way way;
	const char *figure; /* or NULL */
	uint32_t shards;    /* 0: one */
	int seeds;          /* SEEDS where three do not decide a criterion */
};

#define DRIFT  "signal=drift when=every(15)"
#define STREAM "when=every(15),fragments(3),late(1),mix(0.5)"
#define SPARSE(values, memory)                                                                     \
	"up=block-topk(64,4096)" values " down=all memory=" memory                                 \
	" rate=1 dense=none coding=small " DRIFT
#define ONE_PERCENT "up=topk(0.01) down=topk(0.01) memory=residual update=none dense=none"

enum {
	DENSE,
	AVERAGING,
	DILOCO_7,
	DILOCO_4,
	STREAMING,
	STREAMING_4_BITS,
	SPARSE_F32,
	SPARSE_TWOMEANS,
	SPARSE_UNIFORM,
	FORGETFUL,
	SPARSE_BY_OUTPUT,
	FORGETFUL_BY_OUTPUT,
	LASTING_F32,
	LASTING_TWOMEANS,
	LASTING_UNIFORM,
	BOUNDED,
	MOMENTUM,
	SENDERS,
	DENSE_LOW,
	ADAMW,
	ADAMW_USUAL,
	PERCENT,
	PERCENT_LOW,
	ROWS
};

/* The rows with SPARSE differ from sparseloco in their values and memories only. */
static const struct row rows[ROWS] = {
	[DENSE] = { "dense", "up=all down=all update=none", USUAL, "local", 0, 3 },
	[AVERAGING] = { "averaging", "up=all down=all memory=none rate=1 " DRIFT, LOCAL, "local", 0,
			3 },
	[DILOCO_7] = { "DiLoCo, rate 0.7", "diloco when=every(15)", LOCAL, NULL, 0, SEEDS },
	[DILOCO_4] = { "DiLoCo, rate 0.4", "diloco when=every(15) rate=0.4", LOCAL, "local", 0,
		       SEEDS },
	[STREAMING] = { "streaming, f32", "streaming-diloco up=all down=all memory=none " STREAM,
			LOCAL, NULL, 3, 3 },
	[STREAMING_4_BITS] = { "streaming, e3m0", "streaming-diloco " STREAM, LOCAL, "local", 3,
			       3 },
	[SPARSE_F32] = { "SparseLoCo, f32", SPARSE("", "residual(decay=0.95)"), LOCAL, NULL, 0,
			 SEEDS },
	[SPARSE_TWOMEANS] = { "SparseLoCo, twomeans", "sparseloco when=every(15)", LOCAL, "local",
			      0, SEEDS },
	[SPARSE_UNIFORM] = { "SparseLoCo, uniform(2)",
			     SPARSE(",uniform(2)", "residual(decay=0.95)"), LOCAL, NULL, 0, SEEDS },
	[FORGETFUL] = { "no error feedback, f32", SPARSE("", "none"), LOCAL, "local", 0, SEEDS },
	[SPARSE_BY_OUTPUT] = { "SparseLoCo, f32, out × in", SPARSE("", "residual(decay=0.95)"),
			       LOCAL_BY_OUTPUT, NULL, 0, SEEDS },
	[FORGETFUL_BY_OUTPUT] = { "no error feedback, f32, out × in", SPARSE("", "none"),
				  LOCAL_BY_OUTPUT, NULL, 0, SEEDS },
	[LASTING_F32] = { "β 1, f32", SPARSE("", "residual"), LOCAL, NULL, 0, 1 },
	[LASTING_TWOMEANS] = { "β 1, twomeans", SPARSE(",twomeans", "residual"), LOCAL, "local", 0,
			       SEEDS },
	[LASTING_UNIFORM] = { "β 1, uniform(2)", SPARSE(",uniform(2)", "residual"), LOCAL, NULL, 0,
			      1 },
	[BOUNDED] = { "β 1, twomeans, down 5 %", "sparseloco-down when=every(15)", LOCAL, "local",
		      0, SEEDS },
	[MOMENTUM] = { "SparseLoCo, twomeans, Nesterov",
		       "sparseloco when=every(15) update=nesterov(0.9) rate=0.4", LOCAL, NULL, 0,
		       1 },
	[SENDERS] = { "SparseLoCo, twomeans, senders",
		      "sparseloco when=every(15) clip=median reduce=senders", LOCAL, NULL, 0, 1 },
	[DENSE_LOW] = { "dense, .2 .99", "up=all down=all update=none", LOW, "adamw", 0, 1 },
	[ADAMW] = { "adamw, .2 .99", "adamw", LOW, "adamw", 0, 1 },
	[ADAMW_USUAL] = { "adamw, .9 .99", "adamw", MIXED, "adamw", 0, 1 },
	[PERCENT] = { "1 % f32, .9 .95", ONE_PERCENT, USUAL, "adamw", 0, 1 },
	[PERCENT_LOW] = { "1 % f32, .2 .99", ONE_PERCENT, LOW, "adamw", 0, 1 },
};

/* The runs of all seeds, and their results. */
struct series {
	struct page *page;
	struct problem text[TEXT_ORDERS];
	struct run run[ROWS][SEEDS];
	struct result result[ROWS][SEEDS];
};

static void prepare(struct series *s, int i, int seed)
{
	struct training *t = zeroed(1, sizeof *t);
	const struct row *row = &rows[i];
	struct run *run = &s->run[i][seed];

	*run = (struct run){ .label = row->label,
			     .problem = &s->text[ways[row->way].order],
			     .recipe = row->recipe,
			     .workers = s->page->options.quick ? 2 : WORKERS,
			     .shards = row->shards,
			     .lr = (float)LR,
			     .steps = s->page->options.quick ? 2 * PERIOD : STEPS,
			     .seed = (unsigned)seed + 1,
			     .step = ways[row->way].period > 1 ? step_alone : step_with_mean,
			     .measured = ways[row->way].period > 1 ? common : NULL,
			     .context = t };
	t->beta1 = ways[row->way].beta1;
	t->beta2 = ways[row->way].beta2;
	if (!seed && row->figure)
		page_curve(s->page, run, row->figure, row->label, 20 * PERIOD);
	if (run->curve) /* the page has room for one path */
		run->curve = strcpy(zeroed(strlen(run->curve) + 1, 1), run->curve);
}

static int seeds(const struct series *s, int i)
{
	return s->page->options.quick ? 1 : rows[i].seeds;
}

static void make_runs(struct series *s)
{
	const struct run *runs[ROWS * SEEDS];
	struct result *results = zeroed(ROWS * SEEDS, sizeof *results), *result = results;
	size_t n = 0;

	for (int seed = SEEDS; seed-- > 0;)
		for (int i = 0; i < ROWS; i++)
			if (seed < seeds(s, i)) {
				prepare(s, i, seed);
				runs[n++] = &s->run[i][seed];
			}
	pool_run(runs, results, n, s->page->options.jobs);
	for (int seed = SEEDS; seed-- > 0;)
		for (int i = 0; i < ROWS; i++)
			if (seed < seeds(s, i))
				s->result[i][seed] = *result++;
	free(results);
}

/* ---- the page -------------------------------------------------------------- */

/* Returns the mean of the losses. */
static double mean(const struct series *s, int i)
{
	double sum = 0;

	for (int seed = 0; seed < seeds(s, i); seed++)
		sum += s->result[i][seed].value;
	return sum / seeds(s, i);
}

/* Returns the values sent up by seed 1, as a share of the coordinates of all exchanges. */
static double share(const struct series *s, int i)
{
	const struct run *run = &s->run[i][0];
	const double steps = (double)run->steps / ways[rows[i].way].period;

	return (double)s->result[i][0].out.sum.up_elements / steps / run->workers /
	       (double)run->problem->count;
}

static void show(const struct series *s)
{
	const struct counters *dense = &s->result[DENSE][0].out.sum;

	page_text(s->page, "| run | betas | seed 1 | 2 | 3 | 4 | 5 | mean | values up | bytes up | "
			   "down |\n"
			   "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
	for (int i = 0; i < ROWS; i++) {
		const struct counters *sum = &s->result[i][0].out.sum;

		page_text(s->page, "| %s | %g, %g | ", rows[i].label,
			  (double)ways[rows[i].way].beta1, (double)ways[rows[i].way].beta2);
		for (int seed = 0; seed < SEEDS; seed++)
			if (seed < seeds(s, i))
				page_text(s->page, "%.4f | ", s->result[i][seed].value);
			else
				page_text(s->page, "- | ");
		page_text(s->page, "%.4f | 1/%.0f | 1/%.0f | 1/%.0f |\n", mean(s, i),
			  1 / share(s, i), (double)dense->up_bytes / (double)sum->up_bytes,
			  (double)dense->down_bytes / (double)sum->down_bytes);
	}
	page_text(s->page, "\n");
}

/* A criterion on the losses of two rows: low <= first - second <= high. */
struct criterion {
	struct claim claim;
	int first, second;
	double low, high;
	double share; /* 0, or the most values that `first` sends in an exchange */
};

static const struct criterion criteria[] = {
	{ .claim = { "sparseloco", "error feedback is needed",
		     "loss without it ≥ that with it + 0.3, both f32, decay 0.95" },
	  .first = FORGETFUL,
	  .second = SPARSE_F32,
	  .low = 0.3,
	  .high = INFINITY },
	{ .claim = { "sparseloco", "2 bits a value are enough",
		     "loss with twomeans within 0.02 of f32" },
	  .first = SPARSE_TWOMEANS,
	  .second = SPARSE_F32,
	  .low = -0.02,
	  .high = 0.02 },
	{ .claim = { "sparseloco", "2 bits a value are enough",
		     "loss with uniform(2) within 0.02 of f32" },
	  .first = SPARSE_UNIFORM,
	  .second = SPARSE_F32,
	  .low = -0.02,
	  .high = 0.02 },
	{ .claim = { "sparseloco, β 1", "as good as diloco with few values",
		     "loss ≤ diloco (rate 0.7) + 0.01, values ≤ 1/60" },
	  .first = LASTING_TWOMEANS,
	  .second = DILOCO_7,
	  .low = -INFINITY,
	  .high = 0.01,
	  .share = 1.0 / 60 },
	{ .claim = { "sparseloco, β 1", "as good as DiLoCo at its better rate with few values",
		     "loss ≤ DiLoCo at rate 0.4 + 0.01, values ≤ 1/60" },
	  .first = LASTING_TWOMEANS,
	  .second = DILOCO_4,
	  .low = -INFINITY,
	  .high = 0.01,
	  .share = 1.0 / 60 },
	{ .claim = { "sparseloco-down", "the answer can be bounded too",
		     "loss ≤ DiLoCo at rate 0.4 + 0.03, down=topk(0.05)" },
	  .first = BOUNDED,
	  .second = DILOCO_4,
	  .low = -INFINITY,
	  .high = 0.03 },
	{ .claim = { "streaming-diloco", "4 bits are enough", "loss with e3m0 ≤ f32 + 0.02" },
	  .first = STREAMING_4_BITS,
	  .second = STREAMING,
	  .low = -INFINITY,
	  .high = 0.02 },
	{ .claim = { "streaming-diloco", "late fragments lose little",
		     "loss within 0.03 of averaging" },
	  .first = STREAMING,
	  .second = AVERAGING,
	  .low = -0.03,
	  .high = 0.03 },
};

/* Returns a run of the row that failed, or NULL. */
static const struct outcome *failed(const struct series *s, int i)
{
	for (int seed = 0; seed < seeds(s, i); seed++)
		if (s->result[i][seed].out.rc)
			return &s->result[i][seed].out;
	return NULL;
}

static void judge(const struct series *s, const struct criterion *c)
{
	const double difference = mean(s, c->first) - mean(s, c->second);
	const int holds = difference >= c->low && difference <= c->high &&
			  (c->share <= 0 || share(s, c->first) <= c->share);
	const struct outcome *out = failed(s, c->first);

	if (out || (out = failed(s, c->second))) {
		page_row_without(s->page, &c->claim, out);
		return;
	}
	page_about(s->page, rows[c->first].recipe, &s->result[c->first][0].out.sum);
	page_row(s->page, &c->claim, holds ? VERDICT_HOLDS : VERDICT_FAILS,
		 "%s %.4f, %s %.4f: difference %.4f, values 1/%.0f", rows[c->first].label,
		 mean(s, c->first), rows[c->second].label, mean(s, c->second), difference,
		 1 / share(s, c->first));
}

/* Shows a difference of two rows by seed. */
static void describe_difference(const struct series *s, int first, int second)
{
	if (failed(s, first) || failed(s, second))
		return;
	page_text(s->page, "%s minus %s, by seed:", rows[first].label, rows[second].label);
	for (int seed = 0; seed < seeds(s, first); seed++)
		page_text(s->page, " %+.4f",
			  s->result[first][seed].value - s->result[second][seed].value);
	page_text(s->page, "; mean %+.4f.\n\n", mean(s, first) - mean(s, second));
}

/* Opens the text once for each order of the weights. Returns 0, or -1 with why[]. */
static int open_texts(struct series *s, char *why, size_t cap)
{
	if (!s->page->options.text)
		return -1;
	for (int order = 0; order < TEXT_ORDERS; order++)
		if (text_problem(s->page->options.text, BATCH, order, &s->text[order], why, cap))
			return -1;
	return 0;
}

void section_local(struct page *page)
{
	struct series *s = zeroed(1, sizeof *s);
	char why[512] = "no text was named (--text, TEXT)";

	s->page = page;
	if (open_texts(s, why, sizeof why)) {
		page_row(page, &criteria[0].claim, VERDICT_NO_DATA, "%s", why);
		return;
	}
	make_runs(s);
	page_figure(page, "local", "AdamW, 8 workers, an exchange every 15 steps (dense: each)");
	page_figure(page, "adamw", "AdamW on the mean of 8 workers, an exchange in each step");
	page_text(
		page,
		"CHAR: the next character of a text from the 16 before it, d = %zu. AdamW, decay "
		"0.01, rate %g after %d steps and then a cosine to a tenth; %d workers, each with "
		"its own part of the text, batch %d, %d steps. Loss on 8000 places of the last "
		"tenth of the text, in float32. The vector has the weights of each layer in × out "
		"(y = x W), or where a row says so out × in, as torch has them. Streaming has "
		"three shards. β is the decay of the residual, and 0.95 where no other is named. "
		"Values and bytes are those of seed 1; bytes are shares of dense.\n\n",
		s->text[TEXT_BY_INPUT].count, LR, RISE, s->run[0][0].workers, BATCH,
		(int)s->run[0][0].steps);
	for (int i = 0; i < ROWS; i++)
		page_run(page, &s->run[i][0], &s->result[i][0].out);
	show(s);
	for (size_t i = 0; i < sizeof criteria / sizeof criteria[0]; i++)
		judge(s, &criteria[i]);
	describe_difference(s, LASTING_TWOMEANS, DILOCO_4);
	describe_difference(s, FORGETFUL, SPARSE_F32);
	describe_difference(s, FORGETFUL_BY_OUTPUT, SPARSE_BY_OUTPUT);
	free(s);
}
