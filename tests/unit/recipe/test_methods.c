/* SPDX-License-Identifier: BSD-3-Clause
 * Every named method is a recipe that the library accepts, and all names differ. */
#include "recipe/methods.h"
#include "recipe/recipe.h"
#include "sluice.h"
#include "cases.h"
#include <string.h>

TEST(methods__each__is_a_recipe_and_is_found_by_its_name)
{
	struct recipe r;

	for (size_t i = 0; i < n_methods; i++) {
		assert_int_equal(recipe_parse(methods[i].recipe, &r), 0);
		assert_ptr_equal(method_find(methods[i].name), &methods[i]);
	}
	assert_null(method_find("scale"));
}

TEST(foreign_names__each__is_answered_with_a_recipe)
{
	struct recipe r;

	for (size_t i = 0; i < n_foreign_names; i++) {
		assert_null(method_find(foreign_names[i].name));
		assert_int_equal(recipe_parse(foreign_names[i].name, &r), SLUICE_EINVAL);
		assert_non_null(strstr(sluice_last_error(), foreign_names[i].recipe));
		assert_int_equal(recipe_parse(foreign_names[i].recipe, &r), 0);
	}
}

TEST(recipe_parse__adamw_as_a_method_and_as_an_update__are_two_words)
{
	struct recipe r;

	assert_int_equal(recipe_parse("adamw", &r), 0);
	assert_int_equal(r.update, UPDATE_NONE);
	assert_int_equal(recipe_parse("adamw clip=none update=adamw(0.2,0.99,1e-8,0.1)", &r), 0);
	assert_int_equal(r.update, UPDATE_ADAMW);
	assert_true(r.clip.norm == 0);
	assert_int_equal(recipe_parse("adamw sgdm", &r), SLUICE_EINVAL);
}

TEST(recipe_parse__what_theory_forbids__is_refused_with_the_reason)
{
	struct recipe r;

	assert_int_equal(recipe_parse("up=random(0.1) memory=residual", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("down=variance(1) memory=residual", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=randk(0.1) dense=*bias*", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=threshold(0)", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("down=cyclic(0.1)", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=cyclic(0.1) memory=none", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=cyclic(0.1) down=topk(0.1)", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=cyclic(0.1,lumps)", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=sketch(0.1,4)", &r),
			 SLUICE_EINVAL); /* four rows have no middle one */
	assert_int_equal(recipe_parse("up=sketch(0.1,5,0)", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=sketch(0.1,5,1,4,1)", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=sketch(0.1),f16", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=sketch(0.1) update=momentum(0.9)", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=all when=lazy(10,0.1)", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=topk(0.1) signal=innovation memory=residual", &r),
			 SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=random(0.1) signal=innovation", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=all,f16 signal=innovation when=lazy-server(5,1)", &r),
			 SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=all signal=innovation when=lazy(0,1)", &r),
			 SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=all signal=innovation when=lazy(5,0)", &r),
			 SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=all signal=innovation when=lazy(5,1,0)", &r),
			 SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=all signal=innovation when=lazy(5,1,9)", &r), 0);
	assert_int_equal(r.memory.kind, MEMORY_NONE);
	assert_int_equal(recipe_parse("up=all when=every(0)", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=topk(0.1) memory=residual(outside) when=every(4)", &r),
			 SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=all when=every(4) update=none", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=block(0.1)", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=block(0.1) down=all update=average", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=topk(0.1) down=topk(0.1) update=average", &r),
			 SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=all down=all update=average nonfinite=skip", &r),
			 SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=all down=all update=average nonfinite=zero", &r),
			 SLUICE_EINVAL);
	assert_int_equal(recipe_parse("up=random(0.1)", &r), 0);
	assert_int_equal(r.memory.kind, MEMORY_NONE);
}

TEST(recipe_print__agreed_supports__reads_back_as_it_was)
{
	static const char *const texts[] = {
		"up=cyclic(0.1)",
		"up=cyclic(1%,chunks),f16",
		"up=sketch(0.01)",
		"up=sketch(0.002,7,2.5,3) memory=residual(outside)",
		"up=all signal=innovation when=lazy(10,0.1)",
		"up=all,grid(4) signal=innovation when=lazy(9,0.08,100)",
		"up=all signal=innovation when=lazy-server(10,1)",
		"up=all,uniform(4) memory=none when=every(4)",
		"up=block(0.1) down=block(0.1) update=average"
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char text[RECIPE_TEXT_BYTES];
		struct recipe r, again;

		assert_int_equal(recipe_parse(texts[i], &r), 0);
		recipe_print(&r, text);
		assert_int_equal(recipe_parse(text, &again), 0);
		assert_memory_equal(&r, &again, sizeof(r));
	}
	assert_int_equal(recipe_parse("up=sketch(0.01)", &(struct recipe){ 0 }), 0);
}
