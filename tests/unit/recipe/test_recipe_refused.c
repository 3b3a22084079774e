/* SPDX-License-Identifier: BSD-3-Clause
 * The recipe language: the key phrase of every refusal. */
#include "recipe_text.h"
#include "sluice.h"
#include "cases.h"
#include <float.h>
#include <stdio.h>
#include <string.h>

TEST(recipe_parse__unknown_words_are_answered_with_the_nearest)
{
	struct recipe r;

	assert_int_equal(recipe_parse("up=topkk(0.01)", &r), SLUICE_EINVAL);
	assert_string_equal(sluice_last_error(),
			    "recipe: unknown word \"topkk\" in \"up=topkk(0.01)\": did you mean "
			    "\"topk\"? up= takes " SELECTION_FORMS
			    ", then f32, f16, bf16, uniform(BITS[,BLOCK]), grid(BITS), "
			    "round(WIDTH), twomeans or e3m0");
	expect_refused("auto auto", "auto is given twice");
	expect_refused("auto(0.1) auto", "auto is given twice");
	expect_refused("auto(0.1) down=all", "\"down=all\" together with auto");
	for (int i = 0; i < 8; i++)
		expect_refused((const char *[]){ "auto(0.02)", "auto(1)", "auto()", "auto(0.1",
						 "auto(0.1)x", "auto(-0.1)", "auto(1e-2%%)",
						 "auto(1e-2%)" }[i],
			       "names no budget: write auto(0.1), auto(0.01) or auto(0.001)");
	expect_refused("auto up=all", "\"up=all\" together with auto");
	expect_refused("down=topk(0.1) auto", "\"down=topk(0.1)\" together with auto");
	expect_refused("auto warmup=5", "\"warmup=5\" together with auto");
	expect_refused("auto memory=none", "\"memory=none\" together with auto");
	expect_refused("auto memory=lowpass(0.1)", "together with auto");
	expect_refused(
		"auto signal=innovation",
		"\"signal=innovation\" together with auto|which \"signal=innovation\" excludes");
	expect_refused("auto signal=svrg(3) when=async(4)",
		       "\"signal=svrg(3)\" together with auto");
	expect_refused("auto update=average", "\"update=average\" together with auto");
	expect_refused("automatic", "begin with the word auto or the name of a method");
	expect_refused("ups=all", "unknown key \"ups\"|did you mean \"up\"?|keys are up, down,");
	expect_refused("colour=red", "unknown key \"colour\" in \"colour=red\": keys are up");
	expect_refused("colour=red",
		       "keys are up, |, seed, when, rate, keep, quorum, grace, guard and "
		       "freeze"); /* all keys */
	expect_refused("block",
		       "\"block\" has no \"=\"|keys are up, |, seed, when, rate, keep, quorum, "
		       "grace, guard and freeze");
	expect_refused("FP16",
		       "\"FP16\" is a name in other libraries: write \"up=all,f16 down=all,f16\"");
	expect_refused("dgc up=all", "write \"sgdm\": momentum is in the library");
	expect_refused("scalcom", "\"scalcom\" has no \"=\"|the method \"scalecom\"?");
	expect_refused("topk(0.1) down=all", "did you mean up=topk(0.1) or down=topk(0.1)?");
	expect_refused("=all", "unknown key \"\"");
	expect_refused("up=global", "global lacks its density in \"up=global\"");
	expect_refused("up=global(2)", "\"2\" in \"up=global(2)\" is not possible: density");
	expect_refused("up=global(0.1,)",
		       "\"\" in \"up=global(0.1,)\" is not a number|number of steps");
	expect_refused("up=global(0.1,0)",
		       "\"0\" in \"up=global(0.1,0)\" is not possible|1 to 1000000");
	expect_refused("up=global(0.1,1.5)", "\"1.5\"|is not possible");
	expect_refused("up=global(0.1,5,6)", "\"6\" is one number too many for global");
	expect_refused("down=global(,5)", "\"\"|is not a number");
	expect_refused("up=threshold(auto)", "\"auto\"|global(DENSITY) finds one");
	expect_refused("up=all,twomean", "did you mean \"twomeans\"?");
	expect_refused("up=all,e3m1", "did you mean \"e3m0\"?");
	expect_refused("up=all,f8_e5m2",
		       "\"f8_e5m2\" in \"up=all,f8_e5m2\" is a type of gradients|write uniform(8)");
	expect_refused("up=twomeans", "write up=all,twomeans or up=topk(DENSITY),twomeans");
	expect_refused("up=all,fp16", "unknown word \"fp16\"|did you mean \"f16\"?");
	expect_refused("up=sieve(5)", "unknown word \"sieve\" in \"up=sieve(5)\": up= takes");
	expect_refused("signal=momentun(0.9)", "did you mean \"momentum\"?|signal= takes");
	expect_refused("signal=momentum(0.9),maks", "did you mean \"mask\"?");
	expect_refused("memory=resid", "did you mean \"residual\"?|memory= takes");
	expect_refused("memory=residual(outsid)",
		       "unknown placement \"outsid\"|did you mean \"outside\"?");
	expect_refused("memory=residual()", "unknown placement \"\"");
	expect_refused("update=nestrov(0.9)", "did you mean \"nesterov\"?|update= takes");
	expect_refused("warmup=1epch", "unknown unit \"epch\"|did you mean \"epoch\"?|1epoch");
	expect_refused("warmup=5days", "unknown unit \"days\" in \"warmup=5days\": warmup= takes");
	expect_refused("nonfinite=abrot", "did you mean \"abort\"?|nonfinite= takes");
}

TEST(recipe_parse__the_largest_float_as_it_is_printed__is_read)
{
	struct recipe r;

	assert_int_equal(recipe_parse("clip=3.4028235e+38", &r), 0);
	assert_true(r.clip.norm == FLT_MAX);
}

TEST(recipe_parse__numbers_that_no_float_holds__are_named_with_the_range)
{
	static const char *const words[] = { "clip=1e300",
					     "clip=1e-60",
					     "clip=1e999",
					     "decay=1e39",
					     "decay=1e-46",
					     "up=threshold(1e300)",
					     "up=all,round(1e39)",
					     "signal=momentum(1e-60)",
					     "signal=gradient,noise(1e300)",
					     "when=lazy(3,1e300)",
					     "memory=lowpass(1e-60)",
					     "update=ema(1e-60)" };
	char phrase[128];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		snprintf(phrase, sizeof phrase,
			 "in \"%s\" is outside of the range of floats, 1.4e-45 to 3.4e+38: ",
			 words[i]);
		expect_refused(words[i], phrase);
	}
}

TEST(recipe_parse__a_comma_for_the_blank__is_named_with_the_right_text)
{
	expect_refused("up=topk(0.01),down=all",
		       "a \",\" stands between two words in \"up=topk(0.01),down=all\"|"
		       "write a space there, as in \"up=topk(0.01) down=all\"");
	expect_refused("up=topk(0.01),f16,down=topk(0.05),f16",
		       "as in \"up=topk(0.01),f16 down=topk(0.05)\"");
	expect_refused("up=all;down=all", "a \";\" stands between|\"up=all down=all\"");
	expect_refused("warmup=5,up=all", "as in \"warmup=5 up=all\"");
	expect_refused("dense=*bias*,up=all", "as in \"dense=*bias* up=all\"");
	parsed("dense=a=b,upper=c"); /* upper is no key of a recipe */
}

TEST(recipe_parse__a_number_without_parentheses__is_answered_with_them)
{
	expect_refused("up=topk0.1", "\"topk0.1\" in \"up=topk0.1\": did you mean \"topk(0.1)\"?");
	expect_refused("up=topk=1%", "did you mean \"topk(1%)\"?");
	expect_refused("down=tensor-topk0.1", "did you mean \"tensor-topk(0.1)\"?");
	expect_refused("up=all,uniform4", "did you mean \"uniform(4)\"?");
	expect_refused("signal=momentum0.9", "did you mean \"momentum(0.9)\"?");
	expect_refused("up=all0.1", "unknown word \"all0.1\"|up= takes all"); /* takes none */
	expect_refused("up=all,f1", "unknown word \"f1\"|up= takes all");
}

TEST(recipe_parse__counts_where_they_do_not_belong__are_refused)
{
	expect_refused("up=topk(31)", "\"31\" in \"up=topk(31)\"|at most 1|"
				      "write topk(k=31) for 31 coordinates, or topk(31%) for 31 in "
				      "a hundred");
	expect_refused("up=topk(1000)", "write topk(k=1000) for 1000 coordinates");
	expect_refused("up=cyclic(1.5,chunks)", "write cyclic(1.5%) for 1.5 in a hundred");
	expect_refused("up=tensor-topk(5)", "write tensor-topk(5%) for 5 in a hundred");
	expect_refused("up=topk(k=0)", "\"k=0\"|a whole number from 1 to 4294967295");
	expect_refused("up=topk(k=1.5)", "\"k=1.5\"|a whole number");
	expect_refused("up=topk(k=5%)", "\"k=5%\"|a whole number");
	expect_refused("up=topk(k=4294967296)", "a whole number");
	expect_refused("up=tensor-topk(k=5)",
		       "\"k=5\"|is a count, and tensor-topk takes a density alone");
	expect_refused("up=block(k=5) down=block(k=5) update=average",
		       "block takes a density alone");
}

TEST(recipe_parse__impossible_blocks__are_refused_with_the_rule)
{
	expect_refused("up=block-topk", "block-topk lacks its numbers in \"up=block-topk\"|write "
					"up=block-topk(64,4096)");
	expect_refused("up=block-topk(0,4096)", "\"0,4096\" in \"up=block-topk(0,4096)\" is not "
						"possible|K from 1 to N");
	expect_refused("up=block-topk(65,64)", "\"65,64\"|K from 1 to N");
	expect_refused("down=block-topk(64,16385)", "\"64,16385\"|N is a whole number from 1 to "
						    "16384");
	expect_refused("up=block-topk(64,0)", "\"64,0\"|from 1 to 16384");
	expect_refused("up=block-topk(0.01)", "\"0.01\"|sends K of every N");
	expect_refused("up=block-topk(64)", "\"64\"|of every N consecutive coordinates");
	expect_refused("up=block-topk(64,4096,2)", "\"64,4096,2\"|of every N");
	expect_refused("up=block-topk(k=64,4096)", "\"k=64,4096\"|of every N");
	expect_refused("up=block-topk(1.5,64)", "\"1.5,64\"|a whole number");
	expect_refused("up=block-topk(-1,64)", "\"-1,64\"|K from 1 to N");
	expect_refused("up=block-topk64", "did you mean \"block-topk(64)\"?");
	expect_refused("up=block-topk(1,8) down=block-topk(1,8) update=average", "update=average");
}

TEST(recipe_parse__two_methods_or_auto_beside_one__are_refused)
{
	expect_refused("bitopk scalecom", "\"bitopk\" and \"scalecom\" are two methods");
	expect_refused("method=bitopk scalecom", "\"bitopk\" and \"scalecom\" are two methods");
	expect_refused("method=bitopk auto", "auto cannot be combined with the method \"bitopk\"");
	expect_refused("method=scalcom", "\"method=scalcom\" names no method|method=scalecom\"?");
	expect_refused("method=", "\"method=\" names no method|sluice-train --methods");
	expect_refused("bitopk auto", "auto cannot be combined with the method \"bitopk\"");
	expect_refused("auto bitopk", "auto cannot be combined with the method \"bitopk\"");
	expect_refused("scalecom down=topk(0.1)", "write down=all");
}

TEST(recipe_parse__densities_outside_are_refused_with_the_reason)
{
	expect_refused("up=topk(0)",
		       "\"0\" in \"up=topk(0)\"|density must be above 0 and at most 1");
	expect_refused("up=topk(2)",
		       "\"2\" in \"up=topk(2)\"|density must be above 0 and at most 1");
	expect_refused("down=topk(101%)", "\"101%\"|density must be above 0");
	expect_refused("up=topk(-0.1)", "\"-0.1\"|density must be above 0");
	expect_refused("up=topk(0e5)", "density must be above 0");
	expect_refused("up=topk(1e999)", "density must be above 0");
	expect_refused("up=topk(1e-999)", "density must be above 0");
	expect_refused("up=topk", "topk lacks its density|write up=topk(0.01)");
	expect_refused("up=topk()", "is not a number|density must be");
	expect_refused("up=topk(half)", "\"half\"|is not a number|density must be");
	expect_refused("up=topk(0,01)", "\"0,01\"|is not a number");
	expect_refused("up=topk(nan)", "\"nan\"|is not a number");
	expect_refused("up=topk(inf)", "is not a number");
	expect_refused("up=topk(0x1p-3)", "is not a number");
	expect_refused("up=topk(0.1%%)", "is not a number");
	expect_refused("up=topk(1e-1%)", "is not a number");
	expect_refused("up=topk(0.1x)", "\"0.1x\"|is not a number");
}

TEST(recipe_parse__momenta_outside_are_refused_with_the_reason)
{
	expect_refused("signal=momentum(1)", "\"1\"|a momentum must be at least 0 and below 1");
	expect_refused("signal=momentum(-0.5)", "\"-0.5\"|a momentum must be at least 0");
	expect_refused("update=momentum(1.5)", "\"1.5\"|a momentum must be at least 0 and below 1");
	expect_refused("update=nesterov(0.99999999999)", "below 1"); /* is 1 as a float */
	expect_refused("update=momentum(1e99)", "below 1");
	expect_refused("update=momentum", "momentum lacks its factor|write update=momentum(0.9)");
	expect_refused("signal=momentum", "momentum lacks its factor|write signal=momentum(0.9)");
	expect_refused("signal=momentum(much)", "\"much\"|is not a number");
	expect_refused("update=momentum(0.9%)", "\"0.9%\"|is not a number");
}

TEST(recipe_parse__other_numbers_outside_are_refused)
{
	expect_refused("clip=0", "\"0\"|above 0, or none");
	expect_refused("clip=-1", "\"-1\"|above 0, or none");
	expect_refused("clip=1e-60", "above 0"); /* is 0 as a float */
	expect_refused("clip=1e60", "\"1e60\"");
	expect_refused("clip=no", "\"no\"|is not a number|or none");
	expect_refused("transform=dct(0)", "\"0\" in \"transform=dct(0)\"|1 to 64");
	expect_refused("transform=dct(65)", "\"65\"|the longest side of a block, 1 to 64");
	expect_refused("transform=dct(8.5)", "\"8.5\"|1 to 64");
	expect_refused("transform=dct(wide)", "\"wide\"|1 to 64");
	expect_refused("transform=dct", "dct lacks its number|write transform=dct(64)");
	expect_refused("transform=dct(8),dct(8)", "one value too many");
	expect_refused("transform=fft(8)",
		       "unknown word \"fft\"|transform= takes dct(SIDE) or none");
	expect_refused("transform=none(8)", "\"none\" takes no argument");
	expect_refused("clip=medium", "\"medium\"|is not a number|or median");
	expect_refused("reduce=sender", "unknown word \"sender\"|did you mean \"senders\"?");
	expect_refused("reduce=senders(2)", "\"senders\" takes no argument");
	expect_refused("reduce=senders,mean", "\"mean\" is one value too many");
	expect_refused("reduce=", "\"reduce=\" has no value: reduce= takes mean or senders");
	expect_refused("decay=-1", "\"-1\"|0 or above");
	expect_refused("decay=1e60", "\"1e60\"|0 or above");
	expect_refused("decay=none", "\"none\"|is not a number");
	expect_refused("memory=residual(decay=0)", "\"decay=0\"|above 0 and at most 1");
	expect_refused("memory=residual(decay=1.5)", "\"decay=1.5\"|above 0 and at most 1");
	expect_refused("memory=residual(inside,decay=)", "is not a number|above 0 and at most 1");
	expect_refused("rate=0 signal=drift", "\"0\" in \"rate=0\"|above 0");
	expect_refused("rate=-1 signal=drift", "\"-1\" in \"rate=-1\"|above 0");
	expect_refused("signal=drift keep=1.1", "\"1.1\" in \"keep=1.1\"|from 0 to 1");
	expect_refused("signal=drift keep=all", "is not a number|from 0 to 1");
	expect_refused("signal=drift when=every(0)", "\"0\" in \"when=every(0)\"|1 to 1000000");
	expect_refused("signal=drift when=every(1.5)", "\"1.5\"|1 to 1000000");
	expect_refused("signal=drift when=every", "\"every\"|takes a number of steps");
	expect_refused("warmup=-5", "\"-5\"|cannot be negative");
	expect_refused("warmup=1.5", "\"1.5\"|whole number");
	expect_refused("warmup=1e13", "at most 1e12");
	expect_refused("warmup=long", "\"long\" in \"warmup=long\" is not a length|1epoch");
	expect_refused("warmup=inf", "is not a length");
}

TEST(recipe_parse__misplaced_pieces_are_refused)
{
	expect_refused("up", "\"up\" has no \"=\"|KEY=VALUE");
	expect_refused("up=all garbage", "\"garbage\" has no \"=\"");
	expect_refused("up=all up=topk(0.1)",
		       "up= is given twice, as \"up=all\" and as \"up=topk(0.1)\"");
	expect_refused("up=", "\"up=\" has no value|up= takes");
	expect_refused("dense=", "\"dense=\" has no value");
	expect_refused("up=all,",
		       "a value is missing in \"up=all,\": leave out the last comma|up= takes");
	expect_refused("up=,f16", "a value is missing");
	expect_refused("up=f16", "does not say which coordinates are sent|up=all,f16");
	expect_refused("up=all,topk(0.1)", "\"topk\" is a second selection");
	expect_refused("up=all,f16,f32", "\"f32\" is one value too many in \"up=all,f16,f32\"");
	expect_refused("up=all,f16,f32,f32,f32,f32", "\"f32\" is one value too many");
	expect_refused("up=all(3)", "\"all\" takes no argument");
	expect_refused("up=all,f16(3)", "\"f16\" takes no argument");
	expect_refused("up=topk(0.1", "lacks a closing parenthesis");
	expect_refused("up=topk( 0.1 )", "\"up=topk(\" lacks a closing parenthesis|no spaces");
	expect_refused("up=topk(0.1)x", "unexpected \"x\" after the parenthesis");
	expect_refused("up=topk(0.1)(2)", "unexpected \"(2)\"");
	expect_refused("signal=mask", "does not name the signal|momentum(0.9),mask");
	expect_refused("signal=gradient,mask", "\"mask\" is one value too many");
	expect_refused("signal=momentum(0.9),gradient", "\"gradient\" is a second signal");
	expect_refused("signal=momentum(0.9),mask(1)", "\"mask\" takes no argument");
	expect_refused("signal=momentum(0.9),mask,nomask", "\"nomask\" is one value too many");
	expect_refused("memory=none(inside)", "\"none\" takes no argument");
	expect_refused("memory=residual,none", "\"none\" is one value too many");
	expect_refused("memory=residual(inside),none", "\"none\" is one value too many");
	expect_refused("memory=residual(inside,outside)", "inside or outside once");
	expect_refused("memory=residual(decay=.9,decay=.8)", "decay=B once");
	expect_refused("memory=residual(decay=.9,outsid)", "\"outsid\"|did you mean \"outside\"");
	expect_refused("memory=residual(decay=.9),mask", "\"mask\" is one value too many");
	expect_refused("update=sgd(0.1)", "\"sgd\" takes no argument");
	expect_refused("update=sgd,none", "\"none\" is one value too many");
	expect_refused("update=sign(1)", "\"sign\" takes no argument");
	expect_refused("nonfinite=skip,zero", "\"zero\" is one value too many");
	expect_refused("nonfinite=skip(1)", "\"skip\" takes no argument");
	expect_refused("dense=a,,b", "a pattern is empty");
	expect_refused("dense=a,", "a pattern is empty");
	expect_refused("dense=none,a", "\"none\" stands next to patterns");
	expect_refused("up=all\x01", "byte 0x01 at position 7 is a control character");
}

TEST(recipe_parse__guard_raise_without_a_density_to_raise__is_refused)
{
	expect_refused("up=all down=all guard=raise", "guard=raise with all|write guard=warn");
	expect_refused("up=all,uniform(4) down=all guard=raise", "guard=raise with all");
	expect_refused("up=topk(0.1) memory=none guard=raise", "memory=none|nothing waits");
	expect_refused("auto guard=raise", "with auto|densities itself");
	expect_refused("up=threshold(0.1) guard=raise", "with threshold or variance|level");
	expect_refused("up=topk(0.1) down=threshold(0.1) guard=raise", "with threshold");
	expect_refused("up=global(0.1) guard=raise", "with global|earlier steps");
	expect_refused("up=sketch(0.1) guard=raise", "with sketch|size of a sketch");
	expect_refused("up=topk(0.1) down=all when=async(2) guard=raise", "with when=async");
	expect_refused("up=topk(0.1) guard=rais", "\"rais\"|raise");
}

TEST(recipe_parse__adam_with_impossible_words__is_refused)
{
	expect_refused("update=adam", "\"adam\"|adam(BETA1,BETA2,EPS) takes two betas");
	expect_refused("update=adam(0.9,0.99)", "\"0.9,0.99\"|for example adam(0.2,0.99,1e-8)");
	expect_refused("update=adam(0.9,0.99,1e-8,0.1)", "\"0.9,0.99,1e-8,0.1\"");
	expect_refused("update=adamw(0.9,0.99,1e-8)", "adamw(BETA1,BETA2,EPS,DECAY)");
	expect_refused("update=adam(1,0.99,1e-8)", "\"1\"|at least 0 and below 1");
	expect_refused("update=adam(0.9,1.5,1e-8)", "\"1.5\"|at least 0 and below 1");
	expect_refused("update=adam(0.9,0.99999999999,1e-8)", "below 1"); /* 1 as a float */
	expect_refused("update=adam(0.9,-0.1,1e-8)", "\"-0.1\"|at least 0");
	expect_refused("update=adam(0.9,0.99,0)", "\"0\"|EPS, above 0");
	expect_refused("update=adam(nan,0.99,1e-8)", "\"nan\"|is not a number");
	expect_refused("update=adam(,0.99,1e-8)", "is not a number");
	expect_refused("update=adamw(0.9,0.99,1e-8,-1)", "\"-1\"|DECAY, 0 or above");
	expect_refused("update=adam(0.9,0.99,1e-8) memory=residual(inside)",
		       "\"memory=residual(inside)\"|moments need gradients");
	expect_refused("update=adam(0.9,0.99,1e-8) memory=lowpass(0.1),inside", "with outside");
	expect_refused("update=adam(0.9,0.99,1e-8) when=every(2)", "when=every(2)|when=always");
	expect_refused("up=all down=all update=adam(0.9,0.99,1e-8) when=async(4)", "when=async");
	expect_refused("update=adamw(0.9,0.99,1e-8,0.1) decay=0.1", "its own decay");
}

TEST(recipe_parse__freeze_without_dense_steps__is_refused)
{
	expect_refused("freeze=4", "\"freeze=4\"|this recipe has another update");
	expect_refused("update=momentum(0.9) warmup=dense(4) freeze=4", "another update");
	expect_refused("update=adam(0.9,0.99,1e-8) freeze=4", "write warmup=dense(LENGTH)");
	expect_refused("update=adam(0.9,0.99,1e-8) warmup=4 freeze=4", "warmup=dense(LENGTH)");
	expect_refused("update=adam(0.9,0.99,1e-8) warmup=dense(3) freeze=4", "as many steps");
	expect_refused("update=adam(0.9,0.99,1e-8) warmup=dense(4) freeze=0", "\"0\"|1 to");
	expect_refused("freeze=soon", "\"soon\"|freeze= takes the last step");
}

TEST(recipe_parse__dense_warmup_of_what_is_never_dense__is_refused)
{
	expect_refused("warmup=dense(4", "lacks a closing parenthesis|dense(LENGTH)");
	expect_refused("warmup=dense()", "is not a length");
	expect_refused("warmup=dense(-4)", "cannot be negative");
	expect_refused("auto warmup=dense(4)", "together with auto");
	expect_refused("up=cyclic(0.1) warmup=dense(4)", "agree on the coordinates");
	expect_refused("up=sketch(0.1) warmup=dense(4)", "agree on the coordinates");
	expect_refused("up=randk(0.1) memory=residual warmup=dense(4)", "agree on");
	expect_refused("up=topk(0.1) down=global(0.1) warmup=dense(4)", "agree on");
	expect_refused("up=topk(0.1) memory=lowpass(0.1) warmup=dense(4)", "in 8 bits");
	expect_refused("up=topk(0.1) down=all when=async(4) warmup=dense(4)", "in 8 bits");
	expect_refused("signal=innovation up=all warmup=dense(4)", "in 8 bits");
}

TEST(recipe_parse__combinations_without_sense_are_refused)
{
	expect_refused("update=none decay=0.1", "\"decay=0.1\" with update=none|no update");
	expect_refused("signal=momentum(0.9),mask", "with up=all|nomask");
	expect_refused("up=all,f16 signal=momentum(0.9),mask", "with up=all");
	parsed("update=none decay=0");
	expect_refused("when=async(3) update=sign", "updates after each push");
	expect_refused("when=every(3) update=sign", "run plain SGD");
}

TEST(recipe_parse__pushes_that_cannot_be_compared__are_refused)
{
	static const char *const words[] = { "clip=median", "reduce=senders" };
	char text[200];

	for (size_t i = 0; i < 2; i++) {
		const char *const refused[][2] = {
			{ "when=async(3)", "with \"when=async(3)\"|when=always" },
			{ "signal=innovation when=lazy(3,1)", "with \"when=lazy(3,1)\"" },
			{ "signal=innovation", "with \"signal=innovation\"|write signal=gradient" },
			{ "up=cyclic(0.1)", "with \"up=cyclic(0.1)\"|write up=topk(DENSITY)" },
			{ "up=sketch(0.1)", "with \"up=sketch(0.1)\"" },
			{ "update=average", "update=average averages parameters" },
		};

		for (size_t j = 0; j < sizeof(refused) / sizeof(*refused); j++) {
			snprintf(text, sizeof(text), "%s %s", refused[j][0], words[i]);
			expect_refused(text, refused[j][1]);
		}
	}
	expect_refused("up=random(0.1) reduce=senders",
		       "\"reduce=senders\" with \"up=random(0.1)\"");
	parsed("up=random(0.1) clip=median");
	parsed("up=topk(0.1) signal=drift when=every(4),fragments(2) clip=median reduce=senders");
}

TEST(recipe_parse__what_a_transform_excludes__is_refused_with_the_word_to_write)
{
	static const char *const cases[][2] = {
		{ "signal=storm(0.1) update=ema(0.1)", "\"signal=storm(0.1)\"|signal=gradient" },
		{ "signal=igt(0.1) update=ema(0.1)", "\"signal=igt(0.1)\"" },
		{ "signal=innovation", "\"signal=innovation\"" },
		{ "signal=svrg(4) when=async(3)", "\"signal=svrg(4)\"" },
		{ "signal=gradient,noise(0.1)",
		  "\"signal=gradient,noise(0.1)\"|leave noise(R) out" },
		{ "update=average", "update=average" },
		{ "up=topk(0.1) memory=lowpass(0.1)", "\"memory=lowpass(0.1)\"" },
		{ "up=topk(0.1) memory=twostep(0.1)", "\"memory=twostep(0.1)\"" },
		{ "when=every(2)", "\"when=every(2)\"|signal=drift when=every(STEPS)" },
		{ "signal=drift when=every(4),fragments(2)", "\"when=every(4),fragments(2)\"" },
		{ "when=async(3)", "\"when=async(3)\"" },
		{ "signal=drift up=topk(0.1) keep=1", "\"keep=1\"|holds coefficients" },
		{ "auto", "with auto|write up=all" },
		{ "up=cyclic(0.1)", "up=cyclic(0.1)" },
		{ "up=sketch(0.1)", "up=sketch(0.1)" },
		{ "up=global(0.1)", "up=global(0.1)" },
		{ "up=block-topk(32,1024)", "\"up=block-topk(32,1024)\"|block-topk(32,4096)" },
	};
	char text[200];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(text, sizeof(text), "%s transform=dct(64)", cases[i][0]);
		expect_refused(text, cases[i][1]);
	}
	parsed("up=block-topk(32,4096) transform=dct(64)");
	parsed("up=topk(0.1) signal=drift when=every(4),late(2) transform=dct(7)");
	parsed("up=topk(0.1) memory=residual(inside) update=sign");
}

TEST(recipe_parse__what_a_drift_excludes__is_refused_with_the_word_to_write)
{
	static const char *const cases[][2] = {
		{ "update=none", "\"update=none\"|update=sgd, momentum, nesterov or sign" },
		{ "update=ema(0.1)", "\"update=ema(0.1)\"|write update=sgd" },
		{ "when=lazy(3,0.5)", "leaves out uploads|write signal=innovation" },
		{ "when=async(3)", "\"when=async(3)\"|write when=every(STEPS)" },
		{ "memory=residual(inside)", "\"memory=residual(inside)\"|write memory=residual" },
		{ "memory=lowpass(0.1)", "\"memory=lowpass(0.1)\"|residual(decay=B)" },
		{ "decay=0.1", "\"decay=0.1\"|the program's own optimizer" },
		{ "up=cyclic(0.1)", "signal=drift with up=cyclic(0.1)|write up=all" },
		{ "up=sketch(0.1)", "signal=drift with up=sketch(0.1)|write up=all" },
		{ "auto", "signal=drift with auto" },
		{ "up=topk(0.1) reset=5", "\"reset=5\"|reset=none" },
		{ "keep=0.5", "\"keep=0.5\" with memory=none|write memory=residual" },
		{ "nonfinite=skip-all when=every(2)", "skip-all with \"when=every(2)\"" },
		{ "nonfinite=skip-all", "\"nonfinite=skip-all\"|write nonfinite=skip" },
	};
	char text[200];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(text, sizeof(text), "signal=drift %s", cases[i][0]);
		expect_refused(text, cases[i][1]);
	}
	expect_refused("signal=drift(3)", "\"drift\" takes no argument");
	expect_refused("signal=drift,noise(1)", "\"signal=drift,noise(1)\" adds noise");
	expect_refused("up=topk(0.1) rate=0.5", "\"rate=0.5\" is the outer rate of signal=drift");
	expect_refused("up=topk(0.1) keep=0.5", "\"keep=0.5\"|write it with signal=drift");
	parsed("signal=drift keep=0");
}

TEST(recipe_parse__quorums_that_do_not_fit__are_refused)
{
	expect_refused("signal=drift when=every(3) quorum=0",
		       "\"0\" in \"quorum=0\"|from 1 to the number of workers");
	expect_refused("signal=drift when=every(3) quorum=-1", "\"-1\" in \"quorum=-1\"");
	expect_refused("signal=drift when=every(3) quorum=1.5", "\"1.5\" in \"quorum=1.5\"");
	expect_refused("signal=drift when=every(3) quorum=2 grace=-1",
		       "\"-1\" in \"grace=-1\"|0 to 1000000");
	expect_refused("signal=drift when=every(3) quorum=2 grace=1e7", "\"1e7\"|0 to 1000000");
	expect_refused("signal=drift when=every(3) quorum=2 grace=long", "is not a number");
	expect_refused("signal=drift when=every(3) grace=2", "write it with quorum=WORKERS");
	expect_refused("signal=drift quorum=2", "\"quorum=2\" with|write when=every(STEPS)");
	expect_refused("up=topk(0.1) when=every(3) quorum=2", "signal=drift when=every(STEPS)");
	expect_refused("update=average when=every(3) quorum=2", "signal=drift when=every(STEPS)");
	expect_refused("signal=drift when=every(4),fragments(2) quorum=2",
		       "\"when=every(4),fragments(2)\"|leave fragments, late and mix out");
	expect_refused("signal=drift when=every(4),late(1) quorum=2", "leave fragments, late");
	expect_refused("signal=drift when=every(4),mix(0.5) quorum=2", "leave fragments, late");
	expect_refused("up=global(0.1) signal=drift when=every(4) quorum=2",
		       "\"quorum=2\" with global|histograms");
	expect_refused("up=topk(0.1) signal=drift when=every(4) quorum=2 guard=raise",
		       "guard=raise with quorum|write guard=warn");
	assert_true(parsed("signal=drift when=every(3) quorum=2").quorum.grace == 10);
	assert_true(parsed("signal=drift when=every(3) quorum=2 grace=0").quorum.grace == 0);
}

TEST(recipe_parse__fragments_that_do_not_fit__are_refused)
{
	expect_refused(
		"signal=drift when=every(30),fragments(4)",
		"\"when=every(30),fragments(4)\" is not possible|4 does not divide 30 steps");
	expect_refused("signal=drift when=every(30),fragments(60)", "60 does not divide 30");
	expect_refused("signal=drift when=every(30),fragments(3) nonfinite=zero",
		       "\"nonfinite=zero\": an exchange replaces one|write nonfinite=skip");
	expect_refused("signal=drift when=every(30),fragments(0)", "\"0\"|the number of parts");
	expect_refused("signal=drift when=every(30),fragments", "the number of parts");
	expect_refused("signal=drift when=every(30),fragments(3),fragments(3)", "too many");
	expect_refused("signal=drift when=every(30),fragment(3)", "did you mean \"fragments\"");
	expect_refused("signal=drift when=every(30),lazy(3,1)", "\"lazy\" is one value too many");
	expect_refused("signal=drift when=fragments(3)", "write when=every(STEPS),fragments(3)");
	expect_refused("when=lazy(3,1),fragments(3)", "too many");
	expect_refused("up=topk(0.1) when=every(30),fragments(3)",
		       "\"when=every(30),fragments(3)\" exchanges a part|write signal=drift");
	expect_refused("up=global(0.1) signal=drift when=every(4),fragments(2)", "with global");
	expect_refused("down=global(0.1) signal=drift when=every(4),late(1)",
		       "\"when=every(4),late(1)\" with down=global|leave late out");
	parsed("up=global(0.1) signal=drift when=every(4),late(1)");
	expect_refused("up=topk(0.1) signal=drift when=every(4),fragments(2) guard=raise",
		       "guard=raise with fragments|guard=warn");
	expect_refused("signal=drift when=every(30),late(30)",
		       "\"when=every(30),late(30)\"|begins after 30 steps|a smaller number");
	expect_refused("signal=drift when=every(30),late(10),fragments(3)", "a smaller number");
	expect_refused("signal=drift when=every(1),late(1)",
		       "begins after 1 step,|or leave late() out");
	expect_refused("signal=drift when=every(30),late(0)", "\"0\"|late(T) takes");
	expect_refused("signal=drift when=every(30),late", "late(T) takes the number of steps");
	expect_refused("signal=drift when=every(30),mix(1)", "\"1\"|at least 0 and below 1");
	expect_refused("signal=drift when=every(30),mix(-1)", "\"-1\"|at least 0 and below 1");
	expect_refused("signal=drift when=every(30),mix", "mix lacks its number|mix(0.5)");
	expect_refused("signal=drift when=every(30),late(1),mix(0),mix(0)", "too many");
	expect_refused("signal=drift when=every(30),fragments(2),late(1),mix(0),late(1)",
		       "too many");
	expect_refused("signal=drift when=late(3)", "write when=every(STEPS),late(3)");
	expect_refused("up=topk(0.1) when=every(30),late(3)", "write signal=drift, or leave late");
	expect_refused("up=topk(0.1) when=every(30),mix(0.5)", "write signal=drift, or leave late");
	expect_refused("up=topk(0.1) signal=drift when=every(4),late(2) guard=raise",
		       "guard=raise with late|guard=warn");
	parsed("signal=drift when=every(30),fragments(3),late(9),mix(0)");
	parsed("signal=drift when=every(30),fragments(30)");
	parsed("up=topk(0.1) when=every(30),fragments(1)");
}

TEST(recipe_parse__too_long_texts_are_refused)
{
	static char text[5000];

	memset(text, 'a', sizeof(text) - 1);
	expect_refused(text, "longer than 1023 characters");
	text[1023] = '\0';
	expect_refused(text, "has no \"=\"|...\"");
	memcpy(text, "dense=", 6);
	text[6 + 256] = '\0';
	expect_refused(text, "have 256 characters, but at most 255 fit");
	text[6 + 255] = '\0';
	parsed(text);
}

int main(void)
{
	return run_cases(swallow_log, NULL);
}
