/* SPDX-License-Identifier: BSD-3-Clause
 * Section 15: nothing is lost. At every step, for every method with an error memory, the model
 * minus the content of the memories equals the start minus all gradients. Other methods send the
 * right values on average. */
#include "tests/reproduce/sections.h"
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include "shard/state.h"
#include "worker/lane.h"
#include "worker/state.h"
#include <math.h>
#include <string.h>

enum { D = 200, WORKERS = 4 };

/* Only one rank runs at a time, so all write here. */
struct ledger {
	float start[D];
	float residual[WORKERS][D];
	double moved[WORKERS][D],
		size[WORKERS][D]; /* sums of rate x gradient, and of its magnitude */
	double worst;             /* deviation / (1e-6 of the moved amount) */
	int lighter;              /* 1: something sent is lighter than something kept */
};

static void noisy(const struct problem *p, const float *x, const struct sample *at, float *grad)
{
	const struct random_stream s = draw_stream(DRAW_NOISE, at->seed, (unsigned)at->worker,
						   at->step);

	draw_normals(&s, p->count, grad);
	for (size_t j = 0; j < p->count; j++)
		grad[j] += 0.1f * (x[j] - (float)at->worker);
}

static void somewhere(const struct problem *p, unsigned seed, float *x)
{
	const struct random_stream s = draw_stream(DRAW_START, seed, 0, 0);

	draw_normals(&s, p->count, x);
}

/* Returns what the shard keeps back of coordinate j. */
static double held_back(const sluice_model *server, size_t j)
{
	for (uint32_t s = 0; s < server->n_own; s++) {
		const struct shard *shard = &server->shards[s];

		if (j >= shard->at->begin && j - shard->at->begin < shard->at->span)
			return shard_residual(shard) ?
				       (double)shard_residual(shard)[j - shard->at->begin] :
				       0;
	}
	return 0;
}

static void compare(struct ledger *book, const struct seat *seat)
{
	for (size_t j = 0; j < D; j++) {
		double there = (double)seat->x[j] + held_back(seat->server, j);
		double want = (double)book->start[j], size = fabs(want);

		for (int w = 0; w < WORKERS; w++) {
			there -= (double)book->residual[w][j] / WORKERS;
			want -= book->moved[w][j] / WORKERS;
			size += book->size[w][j] / WORKERS;
		}
		book->worst = fmax(book->worst, fabs(there - want) / (1e-6 * size));
	}
}

/* Returns 1 if everything sent is at least as heavy as everything that stays. */
static int heaviest_first(const struct seat *seat)
{
	size_t bytes;
	const uint8_t *slot = lane_sent(seat->model->worker->lanes, 0, &bytes);
	uint8_t copy[MESSAGE_HEADER_BYTES + 8 * D];
	uint32_t index[D];
	float value[D], least = INFINITY, most = 0;
	struct message m;
	const char *why;

	if (message_copy(NULL, slot, bytes, copy, sizeof copy, &m, &why) ||
	    message_decode(NULL, &m, copy, index, value, &why))
		return 0;
	for (uint32_t i = 0; i < m.count; i++)
		least = fminf(least, value[i] != 0 ? fabsf(value[i]) : INFINITY);
	for (size_t j = 0; j < D; j++)
		most = fmaxf(most, fabsf(worker_residual(seat->model->worker)[j]));
	return least >= most;
}

/* Noise is part of the gradient, so the noise of the push is drawn again. */
static void draw_noise(const struct seat *seat, float noise[D])
{
	const struct recipe *recipe = &seat->model->recipe;
	const struct random_stream s = { .purpose = RANDOM_NOISE,
					 .rank = (uint32_t)seat->rank,
					 .step = seat->step + 1,
					 .seed = recipe->seed };

	random_normal_run(&s, 0, D, noise);
	for (size_t j = 0; j < D; j++)
		noise[j] *= recipe->signal.noise;
}

static int enter(struct seat *seat)
{
	struct ledger *book = seat->run->context;
	float noise[D] = { 0 };

	if (seat->model->recipe.signal.noise > 0)
		draw_noise(seat, noise);
	for (size_t j = 0; j < D; j++) {
		double moved = (double)seat->lr * ((double)seat->grad[j] + (double)noise[j]);

		book->moved[seat->rank][j] += moved;
		book->size[seat->rank][j] += fabs(moved);
	}
	if (worker_residual(seat->model->worker))
		memcpy(book->residual[seat->rank], worker_residual(seat->model->worker),
		       sizeof book->residual[0]);
	if (seat->model->recipe.up.select == SELECT_THRESHOLD && seat->run->shards < 2)
		book->lighter |= !heaviest_first(seat);
	int rc = sluice_barrier(seat->job);

	if (!rc && !seat->rank)
		compare(book, seat);
	return rc ? rc : sluice_barrier(seat->job);
}

static void conserve(struct page *page, const char *method, const char *recipe, uint32_t shards)
{
	const struct claim claim = {
		method, "nothing is lost",
		"x - mean e + ε = x0 - Σ η mean g at every step, within 1e-6 Σ|η g|"
	};
	struct ledger *book = zeroed(1, sizeof *book);
	const struct problem p = {
		.name = "noisy quadratic", .count = D, .start = somewhere, .gradient = noisy
	};
	/* With a decaying rate, each residual keeps the rate at which it arose. */
	struct run run = { .label = method,
			   .problem = &p,
			   .recipe = recipe,
			   .workers = WORKERS,
			   .shards = shards,
			   .lr = 0.05f,
			   .decay = 200,
			   .steps = page->options.quick ? 20 : 500,
			   .seed = 1,
			   .after = enter,
			   .context = book };
	struct outcome out;
	char deferred[96] = "";

	p.start(&p, run.seed, book->start);
	int rc = run_recipe(&run, &out);

	free(out.x);
	page_run(page, &run, &out);
	if (out.sum.deferred)
		snprintf(deferred, sizeof deferred,
			 "; %llu waited for room, the heaviest went first%s",
			 (unsigned long long)out.sum.deferred, book->lighter ? " not always" : "");
	if (rc)
		page_row_without(page, &claim, &out);
	else
		page_row(page, &claim,
			 book->worst <= 1 && !book->lighter ? VERDICT_HOLDS : VERDICT_FAILS,
			 "%u shard%s: at most %.2g of it over %llu steps%s", shards,
			 shards > 1 ? "s" : "", book->worst, (unsigned long long)run.steps,
			 deferred);
	free(book);
}

/* ---- right on average ------------------------------------------------------ */

struct draws {
	double sum[D], off2; /* sum of the received values; sum of |Q - g|^2 */
	float first[D];
};

static int push_again(struct seat *seat)
{
	struct draws *draws = seat->run->context;

	if (!seat->step) {
		seat_gradient(seat, seat->x, seat->grad);
		memcpy(draws->first, seat->grad, sizeof draws->first);
	}
	int rc = sluice_push(seat->model, seat->grad);

	rc = rc ? rc : sluice_pull(seat->model, seat->x);
	for (size_t j = 0; j < D && !rc; j++) {
		double off = (double)seat->x[j] - (double)seat->grad[j];

		draws->sum[j] += (double)seat->x[j];
		draws->off2 += off * off;
	}
	return rc;
}

/* The mean of n draws differs by the deviation of one draw divided by √n. Three times that is
 * allowed. */
static void average(struct page *page, const char *method, const char *recipe)
{
	const struct claim claim = { method, "right on average",
				     "‖mean Q - g‖ ≤ 3 √(E‖Q - g‖²/N) over N = 4000 draws" };
	const uint64_t n = page->options.quick ? 50 : 4000;
	const struct problem p = {
		.name = "one vector", .count = D, .start = somewhere, .gradient = noisy
	};
	struct draws *draws = zeroed(1, sizeof *draws);
	struct run run = { .label = method,
			   .problem = &p,
			   .recipe = recipe,
			   .workers = 1,
			   .lr = 1,
			   .steps = n,
			   .seed = 1,
			   .step = push_again,
			   .context = draws };
	struct outcome out;
	double off = 0;
	int rc = run_recipe(&run, &out);

	free(out.x);
	page_run(page, &run, &out);
	for (size_t j = 0; j < D; j++)
		off += pow(draws->sum[j] / (double)n - (double)draws->first[j], 2);
	double allowed = sqrt(draws->off2 / (double)n / (double)n);

	if (rc)
		page_row_without(page, &claim, &out);
	else
		page_row(page, &claim, sqrt(off) <= 3 * allowed ? VERDICT_HOLDS : VERDICT_FAILS,
			 "off by %.3g, one deviation is %.3g", sqrt(off), allowed);
	free(draws);
}

void section_conservation(struct page *page)
{
	conserve(page, "topk", "up=topk(0.025) down=all memory=residual(inside)", 1);
	conserve(page, "bitopk", "up=topk(0.025) down=topk(0.025) memory=residual(inside)", 1);
	conserve(page, "bitopk", "up=topk(0.025) down=topk(0.05) memory=residual(inside)", 3);
	conserve(page, "bitopk, f16",
		 "up=topk(0.025),f16 down=topk(0.025),f16 memory=residual(inside)", 2);
	conserve(page, "threshold", "up=threshold(0.2) down=all memory=residual(inside)", 1);
	conserve(page, "threshold, slot overflow",
		 "up=threshold(1e-30) down=all memory=residual(inside)", 1);
	conserve(page, "gaussiank", "up=gaussiank(0.025) down=all memory=residual(inside)", 1);
	conserve(page, "randk", "up=randk(0.025) down=all memory=residual(inside)", 1);
	conserve(page, "scalecom", "up=cyclic(0.025) down=all memory=residual(inside)", 1);
	conserve(page, "sketched", "up=sketch(0.025,5,4,4) down=all memory=residual(inside)", 2);
	conserve(page, "4 bits", "up=all,uniform(4) down=all memory=residual(inside)", 1);
	conserve(page, "1 bit", "up=all,uniform(1) down=all memory=residual(inside)", 1);
	conserve(page, "grid", "up=all,grid(4) down=all,grid(4) memory=residual(inside)", 2);
	conserve(page, "rounding", "up=all,round(0.1) down=all memory=residual(inside)", 1);
	conserve(page, "bitopk, 4 bits",
		 "up=topk(0.1),uniform(4) down=topk(0.1),uniform(4) memory=residual(inside)", 1);
	conserve(page, "saddle",
		 "up=topk(0.025) down=all signal=gradient,noise(0.5) memory=residual(inside)", 1);
	conserve(page, "reset", "up=topk(0.025) down=topk(0.025) memory=residual(inside) reset=50",
		 1);
	average(page, "unbiased", "up=random(0.05) down=all memory=none update=none");
	average(page, "unbiased, closed form", "up=variance(1) down=all memory=none update=none");
	average(page, "unbiased both ways",
		"up=random(0.2) down=random(0.2) memory=none update=none");
	average(page, "4 bits", "up=all,uniform(4,64) down=all memory=none update=none");
	average(page, "2 bits both ways",
		"up=all,uniform(2) down=all,uniform(2) memory=none update=none");
	average(page, "unbiased, 4 bits",
		"up=random(0.2),uniform(4) down=all memory=none update=none");
	average(page, "randk", "up=randk(0.05) down=all memory=none update=none");
}
