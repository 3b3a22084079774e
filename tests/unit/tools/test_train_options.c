/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of sluice-train: defaults, values at and beyond their ranges, combinations; and
 * the directory that --checkpoint names. */
#include "sluice.h"
#include "tools/train/folder.h"
#include "tools/train/options.h"
#include "cases.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct options options;
static enum options_action action;
static struct complaint complaint;

static int parse(const char *first, const char *second, const char *third)
{
	char *argv[] = { "sluice-train", (char *)first, (char *)second, (char *)third, NULL };
	int argc = 1;

	while (argv[argc])
		argc++;
	complaint.text[0] = '\0';
	return options_parse(argc, argv, &options, &action, &complaint);
}

static void refuse(const char *first, const char *second, const char *part)
{
	if (parse(first, second, NULL) != -1)
		fail_msg("%s %s was taken", first, second ? second : "");
	if (!strstr(complaint.text, part))
		fail_msg("\"%s\" lacks \"%s\"", complaint.text, part);
}

TEST(parse__nothing_gives_defaults)
{
	unsetenv("SLUICE_RECIPE");
	assert_int_equal(parse(NULL, NULL, NULL), 0);
	assert_int_equal(action, OPTIONS_TRAIN);
	assert_string_equal(options.data, DEFAULT_DATA);
	assert_string_equal(options.model, "mlp:256,128");
	assert_non_null(strstr(options.recipe, "up=topk(0.01) down=topk(0.05)"));
	assert_true(options.epochs == 5 && options.batch == 64 && options.seed == 1 &&
		    !options.limit);
	assert_true(options.lr == 0.05f && options.lr_decay == 1);
	assert_true(options.sleep_rank == -1 && options.nan_rank == -1);
	assert_int_equal(options.on_failure, 0); /* the library decides */
	assert_int_equal(options.measure, 0);
	assert_int_equal(parse("--measure", NULL, NULL), 0);
	assert_int_equal(options.measure, 1);
	assert_int_equal(options.plan, 0);
}

TEST(parse__plan_takes_the_recipe_that_it_describes)
{
	assert_int_equal(parse("--plan", "up=all", NULL), 0);
	assert_int_equal(action, OPTIONS_TRAIN); /* the size of the model depends on the data */
	assert_int_equal(options.plan, 1);
	assert_string_equal(options.recipe, "up=all");
	refuse("--plan", NULL, "needs an argument");
}

TEST(parse__recipe_of_two_options__is_refused_and_the_last_of_one_counts)
{
	refuse("--dense", "--recipe=up=all", "--dense and --recipe both give a recipe");
	refuse("--rec=up=all", "--method=topk", "--recipe and --method both give a recipe");
	refuse("--method=local4", "--plan=up=all", "--method and --plan both give a recipe");
	assert_int_equal(parse("--recipe=up=all", "--recipe=down=all", NULL), 0);
	assert_string_equal(options.recipe, "down=all");
}

TEST(parse__inner__is_one_of_two_and_adamw_goes_with_the_cpu_and_without_checkpoints)
{
	assert_int_equal(parse(NULL, NULL, NULL), 0);
	assert_int_equal(options.inner, INNER_NONE);
	assert_int_equal(parse("--inner", "sgd", NULL), 0);
	assert_int_equal(options.inner, INNER_SGD);
	assert_int_equal(parse("--inner", "adamw", NULL), 0);
	assert_int_equal(options.inner, INNER_ADAMW);
	refuse("--inner", "adam", "--inner takes sgd or adamw, not \"adam\"");
	refuse("--inner=adamw", "--device=cuda", "so it excludes --device cuda");
	refuse("--inner=adamw", "--checkpoint=dir", "moments that checkpoints do not contain");
	assert_int_equal(parse("--inner=sgd", "--checkpoint=dir", "--device=cuda"), 0);
}

TEST(parse__char__names_the_data)
{
	assert_int_equal(parse("--model=char:a.txt.gz", NULL, NULL), 0);
	assert_string_equal(options.data, "a.txt.gz");
	refuse("--model=char:a", "--data=b", "--model char:a names its data: leave out --data");
	refuse("--model=char:a", "--test=b", "leave out --test");
	refuse("--data=" DEFAULT_DATA, "--model=char:a", "leave out --data");
}

TEST(parse__accumulate__goes_with_the_cpu_only)
{
	assert_int_equal(parse("--quiet", NULL, NULL), 0);
	assert_int_equal(options.accumulate, 0);
	assert_int_equal(parse("--accumulate", NULL, NULL), 0);
	assert_int_equal(options.accumulate, 1);
	assert_int_equal(parse("--accumulate", "--device", "cuda"), -1);
	assert_non_null(strstr(complaint.text, "excludes --device cuda"));
}

TEST(parse__recipe_option_beats_environment_beats_default)
{
	setenv("SLUICE_RECIPE", "up=all", 1);
	assert_int_equal(parse(NULL, NULL, NULL), 0);
	assert_null(options.recipe); /* the library decides */
	assert_int_equal(parse("--recipe", "down=all", NULL), 0);
	assert_string_equal(options.recipe, "down=all");
	assert_int_equal(parse("--dense", NULL, NULL), 0);
	assert_string_equal(options.recipe, "up=all down=all update=momentum(0.9)");
	unsetenv("SLUICE_RECIPE");
}

TEST(parse__servers__0_is_not_the_same_as_no_option)
{
	assert_int_equal(parse(NULL, NULL, NULL), 0);
	assert_true(options.servers == 0 && !options.no_servers);
	assert_int_equal(parse("--servers=0", NULL, NULL), 0);
	assert_true(options.servers == 0 && options.no_servers);
	assert_int_equal(parse("--servers=0", "--servers=2", NULL), 0);
	assert_true(options.servers == 2 && !options.no_servers);
	refuse("--servers", "x", "--servers takes a whole number");
}

TEST(parse__numbers_are_strict)
{
	assert_int_equal(parse("--epochs=1000000", "--lr", "1e-3"), 0);
	assert_true(options.epochs == 1000000 && options.lr == 1e-3f);
	refuse("--epochs", "0", "--epochs takes a whole number from 1 to 1000000, not \"0\"");
	refuse("--epochs", "1000001", "--epochs");
	refuse("--epochs", "3x", "\"3x\"");
	refuse("--epochs", " 3", "\" 3\"");
	refuse("--epochs", "+3", "\"+3\"");
	refuse("--epochs", "", "\"\"");
	refuse("--batch", "-1", "\"-1\"");
	refuse("--limit", "4294967296", "--limit");
	refuse("--seed", "99999999999999999999", "--seed");
	refuse("--metrics", "-", "name a file");
	refuse("--lr", "0", "--lr takes a number above 0");
	refuse("--lr", "nan", "--lr");
	refuse("--lr", "inf", "--lr");
	refuse("--lr", " 0.05", "--lr takes a number above 0");
	refuse("--lr", "-0.05", "--lr takes a number above 0");
	refuse("--lr-decay", "0.5x", "--lr-decay");
	refuse("--progress", "often", "--progress takes auto, always or never");
}

TEST(parse__moments)
{
	assert_int_equal(parse("--sleep=3:10:2.5", "--nan=0:1", NULL), 0);
	assert_true(options.sleep_rank == 3 && options.sleep_step == 10 &&
		    options.sleep_seconds == 2.5);
	assert_true(options.nan_rank == 0 && options.nan_step == 1);
	refuse("--sleep", "3:10", "RANK:STEP:SECONDS");
	refuse("--sleep", "3:10:nan", "RANK:STEP:SECONDS");
	refuse("--sleep", "3:0:1", "RANK:STEP:SECONDS");
	refuse("--sleep", "-3:1:1", "RANK:STEP:SECONDS");
	refuse("--nan", "3", "RANK:STEP");
	refuse("--nan", "3:1:1", "RANK:STEP");
}

TEST(parse__unknown_missing_and_stray_words_are_refused)
{
	refuse("--foo", NULL, "--foo; see sluice-train --help");
	refuse("--epochs", NULL, "--epochs needs an argument");
	refuse("--digest=1", NULL, "--digest=1");
	refuse("-x", NULL, "option -x; see");
	refuse("-lr", "0.1", "option -lr, did you mean --lr?; see");
	refuse("--quiet", "-lr", "option -lr, did you mean --lr?; see");
	refuse("--epcohs", "3", "option --epcohs, did you mean --epochs?; see");
	refuse("--checkpiont=x", NULL, "did you mean --checkpoint?");
	refuse("data", NULL, "\"data\" is not an option");
}

TEST(parse__every_and_resume_need_checkpoint)
{
	refuse("--every", "10", "--every needs --checkpoint");
	refuse("--resume", NULL, "--resume needs --checkpoint");
	assert_int_equal(parse("--checkpoint=d", "--resume", "--every=7"), 0);
	assert_true(options.every == 7 && options.resume);
}

TEST(parse__help_and_version_win_over_what_follows)
{
	assert_int_equal(parse("--help", "--foo", NULL), 0);
	assert_int_equal(action, OPTIONS_HELP);
	assert_int_equal(parse("--version", NULL, NULL), 0);
	assert_int_equal(action, OPTIONS_VERSION);
}

TEST(parse__on_failure__takes_its_two_words)
{
	assert_int_equal(parse("--on-failure", "continue", NULL), 0);
	assert_int_equal(options.on_failure, SLUICE_CONTINUE);
	assert_int_equal(parse("--on-failure=abort", NULL, NULL), 0);
	assert_int_equal(options.on_failure, SLUICE_ABORT);
	refuse("--on-failure", "continues", "abort or continue");
	refuse("--on-failure", "", "abort or continue");
}

TEST(folder_prepare__makes_it_or_says_why_not)
{
	char top[] = "/tmp/sluice-folder.XXXXXX", path[64], file[64], below[64];

	assert_non_null(mkdtemp(top));
	snprintf(path, sizeof(path), "%s/a", top);
	snprintf(below, sizeof(below), "%s/a/b/", top);
	snprintf(file, sizeof(file), "%s/file", top);
	for (int again = 0; again < 2; again++)
		assert_int_equal(folder_prepare(below, &complaint), 0);
	assert_int_equal(rmdir(below), 0);
	assert_int_equal(rmdir(path), 0);

	close(open(file, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(folder_prepare(file, &complaint), -1);
	assert_non_null(
		strstr(complaint.text, "/file: Not a directory; --checkpoint takes a directory"));
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rmdir(top), 0);

	assert_int_equal(folder_prepare("/proc/sluice/checkpoints", &complaint),
			 -1); /* even root cannot */
	assert_non_null(
		strstr(complaint.text, "cannot write checkpoints to /proc/sluice/checkpoints: "));
	assert_int_equal(folder_prepare("", &complaint), -1);
	assert_non_null(strstr(complaint.text, "--checkpoint takes a directory"));
}
