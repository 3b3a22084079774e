/* SPDX-License-Identifier: BSD-3-Clause
 * Measures transfers between two ranks. Latency: each round waits for the previous one. For put
 * and notify it is half a round trip of a ping-pong, for get the time of the call. Bandwidth and
 * rate: the median of a few bursts of messages, each timed until the last message has arrived. With
 * --limit, the machine's own figures follow. */
#include "tools/bench/moves.h"
#include "base/clock.h"
#include "tools/bench/pair.h"
#include "tools/bench/raw.h"
#include "tools/bench/samples.h"
#include "tools/bench/table.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BURSTS = 5, LEAST_ROUNDS = 20, MOST_ROUNDS = 200000 };

/* Settings of the card that --limit varies. */
struct way {
	const char *windows, *ordering; /* SLUICE_MEMORY_WINDOWS, SLUICE_RELAXED_ORDERING */
};
static const struct way ways[] = {
	{ "auto", "all" }, { "auto", "no" }, { "no", "all" }, { "no", "no" }
};

struct run {
	const struct options *options;
	struct way way; /* NULL, NULL: the settings of the environment */
	struct pair pair;
	struct raw raw;
	struct samples latencies;
	uint64_t stamp; /* the stamp of the last polled round */
};

/* ---- rounds ---------------------------------------------------------------- */

static int round_put(struct run *r, size_t bytes)
{
	struct pair *p = &r->pair;
	int rc = 0;

	/* The bytes of a put must not change before the other rank has answered it. */
	r->stamp++;
	if (p->role == ROLE_SECOND)
		rc = stamp_poll(p, p->in, bytes, r->stamp);
	stamp_write(p->out, bytes, r->stamp);
	if (!rc)
		rc = pair_put(p, bytes, 0);
	if (!rc && p->role == ROLE_FIRST)
		rc = stamp_poll(p, p->in, bytes, r->stamp);
	return rc;
}

static int round_notify(struct run *r, size_t bytes)
{
	struct pair *p = &r->pair;
	int first = p->role == ROLE_FIRST, rc = 0;

	if (first)
		rc = pair_put(p, bytes, 1);
	if (!rc)
		rc = pair_wait(p);
	if (!rc && !first)
		rc = pair_put(p, bytes, 1);
	return rc;
}

static int round_get(struct run *r, size_t bytes)
{
	struct pair *p = &r->pair;

	return p->role == ROLE_FIRST ?
		       sluice_region_get(p->region, p->other, p->half, p->in, bytes, 0) :
		       0;
}

static int play(struct run *r, size_t bytes, uint64_t rounds, struct samples *us)
{
	double share = r->options->test == TEST_GET ? 1000 : 2000;
	int rc = 0;

	for (uint64_t i = 0; i < rounds && !rc; i++) {
		uint64_t began = now_ns();

		rc = r->options->test == TEST_PUT ? round_put(r, bytes) :
		     r->options->test == TEST_GET ? round_get(r, bytes) :
						    round_notify(r, bytes);
		if (us)
			samples_add(us, (double)(now_ns() - began) / share);
	}
	return rc ? rc : sluice_region_flush(r->pair.region);
}

/* Posts `count` messages and waits until all have arrived. *took_out receives the seconds. */
static int burst(struct run *r, size_t bytes, uint64_t count, double *took_out)
{
	struct pair *p = &r->pair;
	enum test test = r->options->test;
	uint64_t began = now_ns();
	int rc = 0;

	if (p->role == ROLE_SECOND && test != TEST_GET) {
		/* Waits for each notify, as an application would. */
		for (uint64_t i = 0; i < (test == TEST_NOTIFY ? count : 1) && !rc; i++)
			rc = pair_wait(p);
		if (!rc)
			rc = pair_put(p, 1, 1);
	} else if (p->role == ROLE_FIRST) {
		for (uint64_t i = 0; i < count && !rc; i++)
			rc = test == TEST_GET ?
				     sluice_region_get(p->region, p->other, p->half, p->in, bytes,
						       SLUICE_POSTED) :
				     pair_put(p, bytes, test == TEST_NOTIFY || i == count - 1);
		if (!rc && test != TEST_GET)
			rc = pair_wait(p);
	}
	if (!rc)
		rc = sluice_region_flush(p->region);
	*took_out = (double)(now_ns() - began) * 1e-9;
	return rc;
}

/* ---- one size -------------------------------------------------------------- */

/* Returns how many rounds of `each` seconds fill the requested time. */
static double fitting(const struct options *o, double each)
{
	double n = o->repeat ? (double)o->repeat :
			       floor(o->seconds / fmax(each, 1e-9)); /* fmax() keeps NaN out */

	if (o->repeat)
		return n;
	return n < LEAST_ROUNDS ? LEAST_ROUNDS : n > MOST_ROUNDS ? MOST_ROUNDS : n;
}

static int measure_latency(struct run *r, size_t bytes, struct row *row, uint64_t *rounds_out)
{
	struct pair *p = &r->pair;
	uint64_t warmup = r->options->warmup ? r->options->warmup : 1;
	double rounds = 0, calls = r->options->test == TEST_GET ? 1 : 2;
	int talks = p->role != ROLE_BYSTANDER, rc = 0;

	if (samples_open(&r->latencies, warmup))
		return SLUICE_ENOMEM;
	if (talks)
		rc = play(r, bytes, warmup, &r->latencies);
	/* The median is used because a single round that was not scheduled must not shorten the
	 * measurement. */
	rounds = fitting(r->options, samples_summary(&r->latencies).p50 * calls * 1e-6);
	samples_close(&r->latencies);
	if (!rc)
		rc = pair_agree(p, &rounds);
	if (rc || samples_open(&r->latencies, (size_t)rounds))
		return rc ? rc : SLUICE_ENOMEM;
	if (talks)
		rc = play(r, bytes, (uint64_t)rounds, &r->latencies);
	row->us = samples_summary(&r->latencies);
	samples_close(&r->latencies);
	*rounds_out = (uint64_t)rounds;
	return rc ? rc : sluice_barrier(p->job);
}

static int measure_bandwidth(struct run *r, size_t bytes, struct row *row, uint64_t *count_out)
{
	struct pair *p = &r->pair;
	struct samples took;
	double count = 0, seconds = 0, least = INFINITY;
	uint64_t warmup = r->options->warmup ? r->options->warmup : 1;
	int rc = 0;

	for (int i = 0; i < BURSTS && !rc; i++) {
		rc = burst(r, bytes, warmup, &seconds);
		least = seconds < least ? seconds : least;
	}
	count = ceil(fitting(r->options, least / (double)warmup) / BURSTS);
	if (!rc)
		rc = pair_agree(p, &count);
	if (rc || samples_open(&took, BURSTS))
		return rc ? rc : SLUICE_ENOMEM;
	for (int i = 0; i < BURSTS && !rc; i++) {
		rc = sluice_barrier(p->job);
		if (!rc)
			rc = burst(r, bytes, (uint64_t)count, &seconds);
		samples_add(&took, seconds);
	}
	seconds = samples_summary(&took).p50;
	samples_close(&took);
	row->rate = count / seconds;
	row->bandwidth = row->rate * (double)bytes;
	*count_out = (uint64_t)count;
	return rc ? rc : sluice_barrier(p->job);
}

/* Measures memcpy with the same message sizes and counts. */
static int measure_limit(struct run *r, size_t bytes, uint64_t rounds, uint64_t count,
			 struct row *row)
{
	struct pair *p = &r->pair;
	struct samples us, took;
	int is_get = r->options->test == TEST_GET, rc = 0;

	if (samples_open(&us, rounds) || samples_open(&took, BURSTS))
		return SLUICE_ENOMEM;
	if (p->role == ROLE_FIRST) {
		raw_copy(&r->raw, bytes, count, !is_get);
		for (int i = 0; i < BURSTS; i++)
			samples_add(&took, raw_copy(&r->raw, bytes, count, !is_get));
		row->limit_bandwidth = (double)bytes * (double)count / samples_summary(&took).p50;
		for (uint64_t i = 0; is_get && i < rounds; i++)
			samples_add(&us, raw_copy(&r->raw, bytes, 1, 0) * 1e6);
	}
	rc = sluice_barrier(p->job);
	if (!rc && !is_get)
		rc = raw_ping_pong(&r->raw, p, bytes, rounds, &us);
	row->limit_us = samples_summary(&us).p50;
	samples_close(&us);
	samples_close(&took);
	return rc ? rc : sluice_barrier(p->job);
}

static int measure(struct run *r, size_t bytes)
{
	struct row row = { .bytes = bytes,
			   .limit_us = NAN,
			   .limit_bandwidth = NAN,
			   .windows = r->way.windows,
			   .ordering = r->way.ordering };
	uint64_t rounds = 0, count = 0;
	int rc = measure_latency(r, bytes, &row, &rounds);

	if (!rc)
		rc = measure_bandwidth(r, bytes, &row, &count);
	if (!rc && r->raw.shared && r->options->limit)
		rc = measure_limit(r, bytes, rounds, count, &row);
	if (!rc && r->pair.role == ROLE_FIRST)
		table_row(r->options, r->pair.transport, &row);
	return rc;
}

static int measure_sizes(struct run *r)
{
	int rc = 0;

	for (size_t i = 0; i < r->options->n_sizes && !rc; i++)
		rc = measure(r, r->options->sizes[i]);
	return rc;
}

/* Measures in a second job of the same ranks, with other settings of the card. */
static int measure_way(const struct options *options, int second, size_t most,
		       const struct way *way)
{
	struct run r = { .options = options, .way = *way };
	sluice_job *job = NULL;
	int rc;

	setenv("SLUICE_MEMORY_WINDOWS", way->windows, 1);
	setenv("SLUICE_RELAXED_ORDERING", way->ordering, 1);
	rc = sluice_init(NULL, &job);
	if (!rc)
		rc = pair_open(&r.pair, job, second, most);
	if (!rc)
		rc = measure_sizes(&r);
	pair_close(&r.pair);
	sluice_finalize(&job);
	return rc;
}

int moves_run(sluice_job *job, const struct options *options)
{
	struct run r = { .options = options };
	int size = sluice_size(job), second = options->with < 0 ? size - 1 : options->with, rc;
	size_t most = 4096;
	double shm = 0, verbs = 0;

	if (size < 2 || second >= size || second == 0 || sluice_workers(job) != size) {
		if (sluice_rank(job) == 0)
			fprintf(stderr,
				size < 2 ? "sluice-bench: %s needs two ranks: srun -n2 --mpi=pmix "
					   "sluice-bench %s\n" :
				second >= size ? "sluice-bench: %s: --with names no rank of this "
						 "job (sluice-bench %s)\n" :
						 "sluice-bench: %s needs workers only: unset "
						 "SLUICE_SERVERS (sluice-bench %s)\n",
				test_name(options->test), test_name(options->test));
		return -1;
	}
	for (size_t i = 0; i < options->n_sizes; i++)
		most = options->sizes[i] > most ? options->sizes[i] : most;
	rc = pair_open(&r.pair, job, second, most);
	shm = !strcmp(r.pair.transport, "shm");
	if (!rc)
		rc = pair_agree(&r.pair, &shm);
	verbs = options->limit && !strcmp(r.pair.transport, "verbs");
	if (!rc)
		rc = pair_agree(&r.pair, &verbs);
	if (!rc && options->limit && shm != 0)
		rc = raw_open(&r.raw, &r.pair);
	if (!rc && r.pair.role == ROLE_FIRST)
		table_begin(options, job, second, r.pair.transport, r.raw.shared != NULL,
			    verbs != 0);
	if (!rc && verbs == 0)
		rc = measure_sizes(&r);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && verbs != 0 && !rc; i++)
		rc = measure_way(options, second, most, &ways[i]);
	if (!rc && r.pair.role == ROLE_FIRST)
		table_end(options);
	raw_close(&r.raw);
	pair_close(&r.pair);
	return rc;
}
