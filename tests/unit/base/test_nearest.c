/* SPDX-License-Identifier: BSD-3-Clause
 * Which known word is offered for a mistyped one. */
#include "base/nearest.h"
#include "cases.h"

#include <string.h>

static const char *const known[] = { "all",      "topk",     "f32",      "f16",
				     "bf16",     "gradient", "momentum", "residual",
				     "nesterov", "nomask",   "mask" };
enum { KNOWN = sizeof(known) / sizeof(known[0]) };

static void expect(const char *word, const char *wanted)
{
	const char *near = nearest_word(word, known, KNOWN);

	if (!wanted)
		assert_null(near);
	else if (!near)
		fail_msg("nothing is near \"%s\", wanted \"%s\"", word, wanted);
	else
		assert_string_equal(near, wanted);
}

TEST(nearest_word__one_letter_off_is_found)
{
	expect("topkk", "topk");
	expect("top", "topk");
	expect("tpok", "topk"); /* a swap of neighbours counts as one change */
	expect("al", "all");
	expect("gradiant", "gradient");
	expect("momentun", "momentum");
	expect("bf61", "bf16");
}

TEST(nearest_word__case_is_ignored)
{
	expect("TopK", "topk");
	expect("F16", "f16");
}

TEST(nearest_word__beginning_is_found)
{
	expect("resid", "residual");
	expect("nest", "nesterov");
}

TEST(nearest_word__closest_of_several_wins)
{
	expect("nmask", "nomask");
	expect("maks", "mask");
	expect("f31", "f32"); /* both are equally near: the first known word */
}

TEST(nearest_word__unrelated_words_have_none)
{
	char longest[400];

	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	expect("sketch", NULL);
	expect("x", NULL);
	expect("", NULL);
	expect(longest, NULL);
	assert_null(nearest_word("topk", known, 0));
}

TEST(nearest_word__one_letter_words_are_not_exchanged)
{
	static const char *const letters[] = { "a", "b" };

	assert_null(nearest_word("c", letters, 2));
	assert_string_equal(nearest_word("A", letters, 2), "a");
}
