/* SPDX-License-Identifier: BSD-3-Clause
 * Section 13: estimates of a distribution from messages of few bits. Workers of a simulated job
 * send their counts; each adds up what all sent. */
#include "tests/reproduce/sections.h"
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include "compress/histogram.h"
#include "sluice_estimate.h"
#include <math.h>
#include <string.h>

/* ---- a histogram with few pieces, one sample per server -------------------- */

enum { N = 65536, PIECES = 8 };

static double l1(const double *a, const double *b, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += fabs(a[i] - b[i]);
	return sum;
}

/* Makes p flat on pieces with random ends and masses. */
static void draw_pieces(double *p)
{
	const struct random_stream s = draw_stream(DRAW_SHAPE, 5, 0, 0);
	uint8_t begins[N] = { 0 };
	double sum = 0, height = 1;

	for (uint64_t i = 1; i < PIECES; i++)
		begins[draw_below(&s, i, N)] = 1;
	for (size_t j = 0; j < N; j++) {
		if (begins[j])
			height = -log(draw_uniform(&s, 100 + j));
		sum += p[j] = height;
	}
	for (size_t j = 0; j < N; j++)
		p[j] /= sum;
}

static void draw_samples(const double *p, unsigned owner, size_t n, uint32_t *sample)
{
	const struct random_stream s = draw_stream(DRAW_SHAPE, 6, owner, 0);
	double *cumulative = zeroed(N, sizeof *cumulative), sum = 0;

	for (size_t j = 0; j < N; j++)
		cumulative[j] = sum += p[j];
	for (size_t i = 0; i < n; i++) {
		double u = draw_uniform(&s, i) * sum;
		uint32_t low = 0, high = N - 1;

		while (low < high) {
			uint32_t middle = (low + high) / 2;

			if (cumulative[middle] > u)
				high = middle;
			else
				low = middle + 1;
		}
		sample[i] = low;
	}
	free(cumulative);
}

/* Runs both phases. Returns the l1 error, and the bits that were sent. */
static double learn_pieces(const double *p, double epsilon, double *bits, size_t *servers,
			   double *naive)
{
	const size_t intervals = (size_t)ceil(2 * PIECES / epsilon), first = 4 * intervals - 1;
	const size_t second = (size_t)ceil((double)intervals / epsilon / epsilon);
	uint32_t *sample = zeroed(first + second, sizeof *sample),
		 *end = zeroed(intervals, sizeof *end);
	uint64_t *count = zeroed(intervals, sizeof *count);
	double *estimate = zeroed(N, sizeof *estimate), error = NAN;
	size_t made = 0;

	draw_samples(p, 1, first + second, sample);
	if (!sluice_intervals_cut(sample, first, N, intervals, end, &made)) {
		for (size_t i = first; i < first + second; i++)
			count[sluice_interval_of(end, made, sample[i])]++;
		if (!sluice_estimate_intervals(end, count, made, N, estimate))
			error = l1(p, estimate, N);
	}
	*servers = first + second;
	*bits = (double)first * log2(N) + (double)second * ceil(log2((double)made));
	sluice_estimate_samples(sample, first + second, N, estimate);
	*naive = l1(p, estimate, N);
	free(sample);
	free(end);
	free(count);
	free(estimate);
	return error;
}

static void pieces(struct page *page)
{
	static const struct claim claim = { "histogram", "few pieces are learnt from few bits",
					    "ℓ1 ≤ 1.1 ε, n = 65536, 8 pieces, ε = 0.2 and 0.1" };
	static const double epsilons[] = { 0.2, 0.1 };
	double *p = zeroed(N, sizeof *p), worst = 0;

	draw_pieces(p);
	page_text(page, "8 pieces of 65536, one sample a server. naive: the same samples, one "
			"frequency each; to reach ε alone they would take n/ε² × 16 bits.\n\n"
			"| ε | servers | bits | ℓ1 | naive | bits to reach ε naively |\n"
			"| --- | --- | --- | --- | --- | --- |\n");
	for (int i = 0; i < 2; i++) {
		const double e = epsilons[i];
		double bits, naive;
		size_t servers;
		double error = learn_pieces(p, e, &bits, &servers, &naive);

		worst = fmax(worst, error / e);
		page_text(page, "| %g | %zu | %.3g | %.3f | %.2f | %.2g |\n", e, servers, bits,
			  error, naive, N / e / e * log2(N));
	}
	page_text(page, "\n");
	page_row(page, &claim, worst <= 1.1 ? VERDICT_HOLDS : VERDICT_FAILS, "at worst %.2f ε",
		 worst);
	free(p);
}

/* ---- magnitudes of gradients, many samples per server ---------------------- */

enum { WORKERS = 16, EACH = 100000, BINS_MOST = 512, ROOM = 4096 };

/* Squared exponentials whose scale grows with the worker's number. */
static void draw_gradient(int worker, uint64_t draw, float *out)
{
	const struct random_stream s = draw_stream(DRAW_SHAPE, 7, (unsigned)worker, draw);

	for (size_t j = 0; j < EACH; j++) {
		double u = log(draw_uniform(&s, j));

		out[j] = (float)(u * u * (1 + worker));
	}
}

struct census {
	int bits;      /* a count */
	uint64_t draw; /* number of the gradients' draw */
	double share;
	size_t bytes, most_bytes; /* total and largest size of the workers' messages of exponents */
	uint64_t merged[BINS_MOST], exact[BINS_MOST];
	uint64_t above; /* number of coordinates above the threshold of `share`, over all workers */
	float threshold;
	char why[256];
};

/* The message of a worker, after its length. */
struct letter {
	uint8_t bytes[SLUICE_GATHER_MAX];
};

static int send_all(sluice_job *job, const void *message, size_t bytes, struct letter *all)
{
	struct letter mine = { { 0 } };

	if (bytes + 2 > sizeof mine)
		return SLUICE_EINVAL;
	memcpy(mine.bytes + 2, message, bytes);
	mine.bytes[0] = (uint8_t)bytes;
	mine.bytes[1] = (uint8_t)(bytes >> 8);
	return sluice_gather(job, &mine, sizeof mine, all);
}

static size_t letter_bytes(const struct letter *l)
{
	return l->bytes[0] | (size_t)l->bytes[1] << 8;
}

static void add_counts(const sluice_histogram *h, uint64_t *sum)
{
	for (uint32_t b = 0; b < h->bins && b < BINS_MOST; b++)
		sum[b] += h->count[b];
}

/* Uses bins of one power of two each. Worker 0 merges all messages. */
static int exponents(sluice_job *job, struct census *c, const float *a, struct letter *all)
{
	sluice_histogram *h = NULL, *sum = NULL;
	uint8_t message[ROOM];
	size_t bytes = 0;
	const int rank = sluice_rank(job);
	int rc = sluice_histogram_open(0, &h);

	rc = rc ? rc : sluice_histogram_open(0, &sum);
	rc = rc ? rc : sluice_histogram_add(h, a, EACH);
	if (!rc)
		add_counts(h, c->exact);
	rc = rc ? rc :
		  sluice_histogram_encode(h, c->bits, (uint64_t)rank + 1, message, sizeof message,
					  &bytes);
	c->bytes += bytes;
	c->most_bytes = bytes > c->most_bytes ? bytes : c->most_bytes;
	rc = rc ? rc : send_all(job, message, bytes, all);
	for (int w = 0; w < WORKERS && !rc; w++)
		rc = sluice_histogram_merge(sum, all[w].bytes + 2, letter_bytes(&all[w]));
	if (!rc && !rank)
		add_counts(sum, c->merged);
	sluice_histogram_close(&h);
	sluice_histogram_close(&sum);
	return rc;
}

static int one_threshold(sluice_job *job, struct census *c, const float *a, struct letter *all)
{
	sluice_histogram *h = NULL, *sum = NULL;
	uint8_t message[ROOM];
	size_t bytes = 0;
	int rc = sluice_histogram_open(2, &h);

	rc = rc ? rc : sluice_histogram_open(2, &sum);
	rc = rc ? rc : sluice_histogram_add(h, a, EACH);
	rc = rc ? rc :
		  sluice_histogram_encode(h, c->bits, (uint64_t)sluice_rank(job) + 1, message,
					  sizeof message, &bytes);
	rc = rc ? rc : send_all(job, message, bytes, all);
	for (int w = 0; w < WORKERS && !rc; w++)
		rc = sluice_histogram_merge(sum, all[w].bytes + 2, letter_bytes(&all[w]));
	rc = rc ? rc : sluice_histogram_quantile(sum, c->share, &c->threshold);
	for (size_t j = 0; j < EACH && !rc; j++)
		c->above += a[j] >= c->threshold;
	sluice_histogram_close(&h);
	sluice_histogram_close(&sum);
	return rc;
}

static int count_together(sluice_job *job, void *context)
{
	struct census *c = context;
	float *a = zeroed(EACH, sizeof *a);
	struct letter *all = zeroed(WORKERS, sizeof *all);

	draw_gradient(sluice_rank(job), c->draw, a);
	int rc = exponents(job, c, a, all);

	rc = rc ? rc : one_threshold(job, c, a, all);
	if (rc && !c->why[0])
		snprintf(c->why, sizeof c->why, "%s", sluice_last_error());
	free(a);
	free(all);
	return rc;
}

static double census_error(const struct census *c)
{
	double sum = 0;

	for (int b = 0; b < BINS_MOST; b++)
		sum += fabs((double)c->merged[b] - (double)c->exact[b]);
	return sum / WORKERS / EACH;
}

static void gradients(struct page *page)
{
	static const struct claim few = {
		"histogram", "workers' histograms in few bits",
		"b = 8: ℓ1 ≤ 0.02 in ≤ 300 bits a worker on average, exponent bins, 10 draws"
	};
	static const struct claim one = {
		"histogram", "one threshold for all workers",
		"selected / wanted within 5 %, densities 0.001, 0.01, 0.1, two mantissa bits, b = 8"
	};
	static const int bits[] = { 4, 6, 8, 12 };
	static const double shares[] = { 0.001, 0.01, 0.1 };
	const sluice_job_attr attr = { .size = sizeof attr };
	const int draws = page->options.quick ? 1 : 10;
	double error_of_8 = NAN, bits_of_8 = NAN, worst = 0;
	size_t most_of_8 = 0;

	page_text(page,
		  "16 workers × 100000 squared exponentials, scale growing with the rank, %d "
		  "draws.\n\n"
		  "| bits a count | ℓ1 | bits a worker | at most |\n"
		  "| --- | --- | --- | --- |\n",
		  draws);
	for (int i = 0; i < 4; i++) {
		double error = 0, mean = 0;
		size_t most = 0;

		for (int draw = 0; draw < draws; draw++) {
			struct census c = { .bits = bits[i],
					    .share = 0.01,
					    .draw = (uint64_t)draw };

			if (sluice_simulate(&attr, WORKERS, count_together, &c)) {
				page_row(page, &few, VERDICT_FAILS, "the run ended: %s", c.why);
				return;
			}
			error = fmax(error, census_error(&c));
			mean += 8 * (double)c.bytes / WORKERS / draws;
			most = 8 * c.most_bytes > most ? 8 * c.most_bytes : most;
		}
		if (bits[i] == 8) {
			error_of_8 = error;
			bits_of_8 = mean;
			most_of_8 = most;
		}
		page_text(page, "| %d | %.4f | %.1f | %zu |\n", bits[i], error, mean, most);
	}
	page_text(page, "\n| density | threshold | selected / wanted |\n| --- | --- | --- |\n");
	for (int i = 0; i < 3; i++) {
		struct census c = { .bits = 8, .share = shares[i] };

		if (sluice_simulate(&attr, WORKERS, count_together, &c)) {
			page_row(page, &one, VERDICT_FAILS, "the run ended: %s", c.why);
			return;
		}
		double ratio = (double)c.above / (shares[i] * WORKERS * EACH);

		worst = fmax(worst, fabs(ratio - 1));
		page_text(page, "| %g | %.4g | %.3f |\n", shares[i], (double)c.threshold, ratio);
	}
	page_text(page, "\n");
	page_row(page, &few, error_of_8 <= 0.02 && bits_of_8 <= 300 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "ℓ1 at worst %.4f in %.1f bits a worker, at most %zu", error_of_8, bits_of_8,
		 most_of_8);
	page_row(page, &one, worst <= 0.05 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "off by at most %.1f %%", 100 * worst);
}

void section_histogram(struct page *page)
{
	pieces(page);
	gradients(page);
	global_threshold(page);
}
