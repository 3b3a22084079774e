/* SPDX-License-Identifier: BSD-3-Clause
 * Jobs whose shards keep few coordinates in lists until all messages are there, beside jobs whose
 * shards add every message to the sum of the whole shard: the same bits, whether a recipe asks for
 * the sum or not. */
#include "same_bits.h"
#include "shard/state.h"
#include "thinned.h"
#include "cases.h"
#include "model/model.h"
#include <string.h>

enum { COUNT = 60000, STEPS = 12, RANKS = 3 };

static const char *const recipes[] = {
	"up=topk(0.001) down=topk(0.001)",
	"up=topk(0.004) down=topk(0.001)", /* few coordinates for two workers, too many for three */
	"up=topk(0.0005),f16 down=topk(0.002),bf16",
	"up=topk(0.001) down=topk(0.001) warmup=6steps", /* at first more coordinates than lists
							    hold, later fewer */
	"up=topk(0.001) down=topk(0.001) reset=5",
	"up=topk(0.001) down=topk(0.001) update=momentum(0.9)",
	"up=topk(0.001) down=topk(0.001) memory=none",
	"up=topk(0.001) down=all",
	"up=randk(0.001) down=randk(0.001)",
	"up=threshold(0.9999) down=threshold(0.5)", /* often no coordinate at all */
	"up=variance(1.5) down=topk(0.001)",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

struct plan {
	const char *const *recipes;
	size_t n;
	const struct way *lists, *summed;
};

static void draw(float *grad, const float *params, const struct side *s)
{
	for (uint64_t i = 0; i < COUNT; i++)
		grad[i] = noise(4, s->step, (uint64_t)s->rank, i);
}

/* Sets the shard so that everything is added to the sum. */
static void open_summed(struct side *s)
{
	side_open(s);
	for (uint32_t i = 0; i < s->model->n_own; i++)
		s->model->shards[i].reduction.room = 0;
}

static void push_fifths(struct side *s, const float *grad)
{
	for (uint64_t i = 0; i < 5; i++)
		CHECK_OK(sluice_push_range(s->model, grad + i * (COUNT / 5), i * (COUNT / 5),
					   COUNT / 5));
}

static void train(sluice_job *job, int rank, void *argument)
{
	const struct plan *plan = argument;

	log_capture();
	for (size_t r = 0; r < plan->n; r++)
		if (!thinned(r + (size_t)sluice_size(job), 3))
			same_bits(job,
				  &(struct training){ .attr = ATTR(.count = COUNT, .lr = 0.1f,
								   .recipe = plan->recipes[r],
								   .shards = 2),
						      .steps = STEPS,
						      .gradient = draw },
				  plan->lists, plan->summed);
}

static const struct way lists = { 0 }, summed = { .open = open_summed },
			lists_of_fifths = { .push = push_fifths },
			summed_of_fifths = { .open = open_summed, .push = push_fifths };

TEST(train__messages_wait_or_are_added_to_the_sum__same_bits)
{
	run_in_job(2, train, &(struct plan){ recipes, RECIPES, &lists, &summed });
	run_in_job(3, train, &(struct plan){ recipes, RECIPES, &lists, &summed });
}

TEST(train__gradients_in_ranges__same_bits)
{
	run_in_job(3, train,
		   &(struct plan){ recipes, RECIPES, &lists_of_fifths, &summed_of_fifths });
}

/* With one worker, the order of pushes and thus the bits are determined. */
TEST(train__async__same_bits)
{
	static const char *const async[] = {
		"up=topk(0.001) down=all,f16 when=async(4)",
		"up=topk(0.001) down=all when=async(4) update=momentum(0.5)",
	};

	run_in_job(1, train,
		   &(struct plan){ async, sizeof async / sizeof *async, &lists, &summed });
}
