/* SPDX-License-Identifier: BSD-3-Clause
 * Section 9: one worker's selection for all. */
#include "tests/reproduce/sections.h"
#include "tests/reproduce/memory.h"
#include "worker/state.h"
#include <math.h>
#include <string.h>

enum { WARMUP = 10, K = 250, MOST_WORKERS = 16 };

/* The traffic of each worker's steps after the warm-up, and its memory at the end. */
struct watch {
	uint64_t up_before[MOST_WORKERS], down_before[MOST_WORKERS];
	uint64_t up_least, up_most, down_least, down_most;
	float *memory[MOST_WORKERS]; /* NULL: not requested */
};

static void widen(uint64_t value, uint64_t *least, uint64_t *most)
{
	*least = value < *least ? value : *least;
	*most = value > *most ? value : *most;
}

static int compare_step(struct seat *seat)
{
	struct watch *w = seat->run->context;
	const int r = seat->rank;
	sluice_model_stats stats = { .size = offsetof(sluice_model_stats, residual_norm) };
	int rc = sluice_stats(seat->model, &stats);

	if (seat->step >= WARMUP) {
		widen(stats.pushed_elements - w->up_before[r], &w->up_least, &w->up_most);
		widen(stats.pulled_elements - w->down_before[r], &w->down_least, &w->down_most);
	}
	w->up_before[r] = stats.pushed_elements;
	w->down_before[r] = stats.pulled_elements;
	if (w->memory[r] && seat->step + 1 == seat->run->steps)
		memcpy(w->memory[r], worker_residual(seat->model->worker),
		       seat->run->problem->count * sizeof(float));
	return rc;
}

static double cosine_distance(float *const *memory, int workers, size_t n)
{
	double sum = 0;
	int pairs = 0;

	for (int a = 0; a < workers; a++)
		for (int b = 0; b < a; b++, pairs++) {
			double both = 0, first = 0, second = 0;

			for (size_t j = 0; j < n; j++) {
				both += (double)memory[a][j] * (double)memory[b][j];
				first += (double)memory[a][j] * (double)memory[a][j];
				second += (double)memory[b][j] * (double)memory[b][j];
			}
			sum += 1 - both / sqrt(first * second);
		}
	return sum / pairs;
}

static void accuracy_and_volume(struct page *page, const struct problem *p)
{
	static const struct claim accuracy = { "scalecom", "as good as dense",
					       "accuracy ≥ dense - 0.005, W = 4 and 16" };
	static const struct claim volume = {
		"scalecom", "the volume does not depend on W",
		"exactly k coordinates up and down in every step after the warm-up, W = 4 and 16"
	};
	static const int sizes[] = { 4, 16 };
	static const char *labels[] = { "dense", "local top-k", "scalecom" };
	static const char *recipes[] = {
		"up=all down=all", "up=topk(0.00982) down=all memory=residual(outside) warmup=10",
		"up=cyclic(0.00982) down=all memory=residual(outside) warmup=10"
	};
	double worst = INFINITY;
	int exact = 1;

	page_figure(page, "scalecom", "MLP, W = 16, k = 1 %");
	page_text(page,
		  "MLP 784-32-10, batch 32, rate 0.4, k = %d, %d steps of warm-up.\n\n"
		  "| W | recipe | accuracy | elements up after the warm-up | down |\n"
		  "| --- | --- | --- | --- | --- |\n",
		  K, WARMUP);
	for (int i = 0; i < (page->options.quick ? 1 : 2); i++) {
		double got[3];

		for (int r = 0; r < 3; r++) {
			struct watch w = { .up_least = UINT64_MAX, .down_least = UINT64_MAX };
			struct run run = { .label = labels[r],
					   .problem = p,
					   .recipe = recipes[r],
					   .workers = sizes[i],
					   .lr = 0.4f,
					   .steps = page->options.quick ? 15 : 250,
					   .seed = 1,
					   .after = compare_step,
					   .context = &w };
			struct outcome out;

			if (sizes[i] == 16)
				page_curve(page, &run, "scalecom", labels[r], 10);
			got[r] = accuracy_after(&run, &out, NULL);
			page_run(page, &run, &out);
			if (out.rc) {
				page_row_without(page, &accuracy, &out);
				return;
			}
			page_text(page, "| %d | %s | %.4f | %llu to %llu | %llu to %llu |\n",
				  sizes[i], labels[r], got[r], (unsigned long long)w.up_least,
				  (unsigned long long)w.up_most, (unsigned long long)w.down_least,
				  (unsigned long long)w.down_most);
			if (r == 2)
				exact &= w.up_least == K && w.up_most == K && w.down_least == K &&
					 w.down_most == K;
		}
		worst = fmin(worst, got[2] - got[0]);
	}
	page_text(page, "\n");
	page_row(page, &accuracy, worst >= -0.005 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "accuracy less dense: at worst %+.4f", worst);
	page_row(page, &volume, exact ? VERDICT_HOLDS : VERDICT_FAILS, "%s",
		 exact ? "always 250 up and 250 down" : "not always: see the table");
}

static void similarity(struct page *page, const struct problem *p)
{
	static const struct claim claim = {
		"scalecom", "the low-pass filter makes memories similar",
		"mean pairwise cosine distance falls strictly with β = 1, 0.3, 0.1"
	};
	static const char *betas[] = { "1", "0.3", "0.1" };
	double distance[3];

	for (int i = 0; i < 3; i++) {
		char recipe[128];
		struct watch w = { .up_least = UINT64_MAX, .down_least = UINT64_MAX };
		struct run run = { .label = "filter",
				   .problem = p,
				   .recipe = recipe,
				   .workers = 4,
				   .lr = 0.1f,
				   .steps = page->options.quick ? 15 : 250,
				   .seed = 1,
				   .after = compare_step,
				   .context = &w };
		struct outcome out;

		for (int m = 0; m < 4; m++)
			w.memory[m] = zeroed(p->count, sizeof(float));
		snprintf(recipe, sizeof recipe,
			 "up=cyclic(0.00982) down=all memory=lowpass(%s) warmup=10", betas[i]);
		int rc = run_recipe(&run, &out);

		free(out.x);
		page_run(page, &run, &out);
		distance[i] = cosine_distance(w.memory, 4, p->count);
		for (int m = 0; m < 4; m++)
			free(w.memory[m]);
		if (rc) {
			page_row_without(page, &claim, &out);
			return;
		}
	}
	page_row(page, &claim,
		 distance[0] > distance[1] && distance[1] > distance[2] ? VERDICT_HOLDS :
									  VERDICT_FAILS,
		 "%.3f, %.3f, %.3f", distance[0], distance[1], distance[2]);
}

void section_scalecom(struct page *page)
{
	const struct problem p = mlp_problem(32, 32);

	accuracy_and_volume(page, &p);
	similarity(page, &p);
}
