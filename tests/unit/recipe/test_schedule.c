/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of a recipe: phases, warm-up, and the number of coordinates for a density. */
#include "recipe/schedule.h"
#include "base/log.h"
#include "sluice.h"
#include "cases.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void swallow(int level, const char *line, void *context)
{
}

static int silence(void **state)
{
	log_set_sink(swallow, NULL);
	return 0;
}

static struct schedule compile(const char *text, struct recipe *recipe, uint64_t steps_per_epoch)
{
	struct schedule s;
	memset(&s, 0xa5, sizeof s);
	assert_int_equal(recipe_parse(text, recipe), 0);
	assert_int_equal(schedule_compile(recipe, steps_per_epoch, 0, &s), 0);
	return s;
}

TEST(compile__any_recipe__is_one_phase_up_then_one_down)
{
	static const struct {
		const char *text;
		enum phase_payload payload[2];
	} cases[] = {
		{ "up=all down=all", { PAYLOAD_VALUES, PAYLOAD_VALUES } },
		{ "up=topk(0.1) down=all", { PAYLOAD_PAIRS, PAYLOAD_VALUES } },
		{ "up=all down=topk(0.1)", { PAYLOAD_VALUES, PAYLOAD_PAIRS } },
		{ "up=topk(1%) down=topk(5%)", { PAYLOAD_PAIRS, PAYLOAD_PAIRS } },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct recipe recipe;
		struct schedule s = compile(cases[i].text, &recipe, 0);
		assert_int_equal(s.n_phases, 2);
		assert_int_equal(s.phases[0].direction, PHASE_UP);
		assert_int_equal(s.phases[1].direction, PHASE_DOWN);
		for (int p = 0; p < 2; p++) {
			assert_int_equal(s.phases[p].payload, cases[i].payload[p]);
			assert_int_equal(s.phases[p].close, CLOSE_ALL_LIVING);
		}
	}
}

/* Only the coordinates of the leader's selection are published, unless the update changes others
 * too. */
TEST(compile__agreed_support__is_published_where_nothing_else_moves)
{
	static const struct {
		const char *text;
		int decays, moves_all;
		enum phase_payload last;
	} cases[] = {
		{ "up=cyclic(0.1) down=all", 0, 0, PAYLOAD_AGREED },
		{ "up=cyclic(0.1) down=all", 1, 1, PAYLOAD_VALUES },
		{ "up=topk(0.1) down=topk(0.1)", 1, 1, PAYLOAD_PAIRS },
		{ "up=cyclic(0.1) down=all decay=0.1", 0, 1, PAYLOAD_VALUES },
		{ "up=cyclic(0.1) down=all update=ema(0.5)", 0, 1, PAYLOAD_VALUES },
		{ "up=cyclic(0.1) down=all update=adam(0,0.9,1e-8)", 0, 1, PAYLOAD_VALUES },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct recipe recipe;
		struct schedule s;
		assert_int_equal(recipe_parse(cases[i].text, &recipe), 0);
		assert_int_equal(schedule_compile(&recipe, 0, cases[i].decays, &s), 0);
		assert_int_equal(s.moves_all, cases[i].moves_all);
		assert_int_equal(s.phases[s.n_phases - 1].payload, cases[i].last);
	}
}

TEST(compile__warmup_in_epochs_without_their_length__fails_EINVAL)
{
	struct recipe recipe;
	struct schedule s;
	assert_int_equal(recipe_parse("up=topk(0.01) warmup=2epochs", &recipe), 0);
	assert_int_equal(schedule_compile(&recipe, 0, 0, &s), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "steps_per_epoch"));
	assert_int_equal(schedule_compile(&recipe, 50, 0, &s), 0);
	assert_int_equal(s.warmup_steps, 100);
}

TEST(compile__fractional_epochs__become_whole_steps)
{
	struct recipe recipe;
	assert_int_equal(compile("up=topk(0.01) warmup=0.5epoch", &recipe, 101).warmup_steps, 50);
	assert_int_equal(compile("up=topk(0.01) warmup=7", &recipe, 101).warmup_steps, 7);
	assert_int_equal(compile("up=topk(0.01)", &recipe, 101).warmup_steps, 0);
	/* Densities are per exchange, and every(5) makes one exchange in five steps. */
	assert_int_equal(
		compile("up=topk(0.01) when=every(5) warmup=40", &recipe, 101).warmup_steps, 8);
}

/* The step of a fragment's exchange is the first after which it counts, and the fragments take
 * turns every H / F steps. */
TEST(fragments__exchange_in_turn__once_in_a_period)
{
	static const char *const recipes[] = { "signal=drift when=every(6),fragments(3)",
					       "signal=drift when=every(5),fragments(5)",
					       "signal=drift when=every(4)", "up=topk(0.1)" };
	struct recipe r;

	for (size_t i = 0; i < sizeof(recipes) / sizeof(*recipes); i++) {
		assert_int_equal(recipe_parse(recipes[i], &r), 0);
		for (uint64_t step = 1; step <= 40; step++) {
			const uint32_t next = schedule_next_fragment(&r, step - 1);
			uint32_t exchanged = 0;

			for (uint32_t f = 0; f < r.every.fragments; f++) {
				const uint64_t was = schedule_exchanges(&r, f, step - 1),
					       now = schedule_exchanges(&r, f, step);

				assert_int_equal(
					was, step <= (f + 1) * recipe_interval(&r) ?
						     0 :
						     (step - 1 - (f + 1) * recipe_interval(&r)) /
								     r.every.period +
							     1);
				if (now == was)
					continue;
				exchanged++;
				assert_int_equal(f, next);
				assert_int_equal(now, was + 1);
				assert_int_equal(schedule_exchange_step(&r, f, now), step);
			}
			assert_int_equal(exchanged, step % recipe_interval(&r) == 0);
		}
	}
}

TEST(density__without_warmup__is_the_recipes_at_every_step)
{
	struct recipe recipe;
	struct schedule s = compile("up=topk(0.01) down=all", &recipe, 0);
	for (uint64_t step = 1; step < 100; step++) {
		assert_true(schedule_density(&s, &recipe.up, step) == 0.01);
		assert_true(schedule_density(&s, &recipe.down, step) == 1.0);
	}
	assert_true(schedule_largest_density(&s, &recipe.up) == 0.01);
}

TEST(values__of_a_dense_warmup__are_those_of_8_bits_and_then_the_recipes)
{
	struct recipe recipe;
	struct schedule s = compile("up=topk(0.01),f16 down=all reset=4 warmup=dense(10)", &recipe,
				    0);

	for (uint64_t step = 1; step <= 12; step++) {
		const int reset = step % 4 == 0, dense = step <= 10 && !reset;
		const struct value_coding up = schedule_values(&s, &recipe.up, step),
					  down = schedule_values(&s, &recipe.down, step);

		assert_int_equal(schedule_warms_up_dense(&s, step), dense);
		assert_int_equal(up.type, dense ? VALUE_UNIFORM : reset ? VALUE_F32 : VALUE_F16);
		assert_int_equal(down.type, dense ? VALUE_UNIFORM : VALUE_F32);
		assert_true(!dense || (up.bits == 8 && up.block == UNIFORM_BLOCK));
		assert_true(schedule_density(&s, &recipe.up, step) == 0.01);
	}
	assert_true(schedule_largest_density(&s, &recipe.up) == 0.01);
}

TEST(compile__freeze_after_a_warmup_in_epochs__fails_EINVAL)
{
	struct recipe recipe;
	struct schedule s;

	assert_int_equal(recipe_parse("update=adam(0.9,0.99,1e-8) warmup=dense(2epochs) freeze=101",
				      &recipe),
			 0);
	assert_int_equal(schedule_compile(&recipe, 50, 0, &s), SLUICE_EINVAL);
	assert_non_null(
		strstr(sluice_last_error(), "freeze=101 is after the dense warm-up of 100"));
	assert_int_equal(schedule_compile(&recipe, 51, 0, &s), 0);
}

TEST(density__during_warmup__falls_geometrically_from_a_quarter)
{
	struct recipe recipe;
	struct schedule s = compile("up=topk(0.01) down=topk(0.05) warmup=100", &recipe, 0);
	assert_true(schedule_density(&s, &recipe.up, 1) == 0.25);
	assert_true(schedule_largest_density(&s, &recipe.up) == 0.25);
	double ratio = schedule_density(&s, &recipe.up, 2) / 0.25;
	assert_true(fabs(pow(ratio, 100) - 0.01 / 0.25) < 1e-9);
	for (uint64_t step = 2; step <= 100; step++) {
		double now = schedule_density(&s, &recipe.up, step);
		double before = schedule_density(&s, &recipe.up, step - 1);
		assert_true(fabs(now / before - ratio) < 1e-12);
		assert_true(now > 0.01);
		assert_true(schedule_density(&s, &recipe.down, step) > 0.05);
	}
	assert_true(schedule_density(&s, &recipe.up, 101) == 0.01);
	assert_true(schedule_density(&s, &recipe.down, UINT64_MAX) == 0.05);
}

TEST(density__warmup_of_a_dense_direction__changes_nothing)
{
	struct recipe recipe;
	struct schedule s = compile("up=topk(0.5) down=all warmup=10", &recipe, 0);
	for (uint64_t step = 1; step < 20; step++) {
		assert_true(schedule_density(&s, &recipe.up, step) == 0.5);
		assert_true(schedule_density(&s, &recipe.down, step) == 1.0);
	}
}

TEST(count__density_times_n__rounds_up_and_stays_in_1_to_n)
{
	assert_int_equal(schedule_count(0.01, 0), 0);
	assert_int_equal(schedule_count(0.01, 1), 1);
	assert_int_equal(schedule_count(0.01, 100), 1);
	assert_int_equal(schedule_count(0.01, 101), 2);
	assert_int_equal(schedule_count(0.01, 25450), 255);
	assert_int_equal(schedule_count(0.05, 200), 10); /* 0.05 * 200 is a little above 10 */
	assert_int_equal(schedule_count(0.1, 10), 1);
	assert_int_equal(schedule_count(1e-9, 1000), 1);
	assert_int_equal(schedule_count(1.0, 1000), 1000);
	assert_int_equal(schedule_count(1.0, UINT32_MAX), UINT32_MAX);
	for (uint64_t n = 1; n < 3000; n++) {
		uint64_t k = schedule_count(0.3, n);
		assert_true(k >= 1 && k <= n);
		assert_true((double)k >= 0.3 * (double)n - 1e-6 && (double)k < 0.3 * (double)n + 1);
	}
}

int main(void)
{
	return run_cases(silence, NULL);
}
