/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of sluice-train. One table drives getopt_long; main.c calls options_parse()
 * before anything else. */
#include "tools/train/options.h"
#include "tools/train/network.h"
#include "tools/refused_option.h"
#include "recipe/methods.h"
#include "sluice.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPARSE_RECIPE                                                                              \
	"up=topk(0.01) down=topk(0.05) signal=momentum(0.9) memory=residual warmup=1epoch "        \
	"update=sgd"
#define DENSE_RECIPE "up=all down=all update=momentum(0.9)"
enum { SIMULATED_MOST = 4096 };

enum option_key {
	OPTION_DATA = 256,
	OPTION_TEST,
	OPTION_MODEL,
	OPTION_DEVICE,
	OPTION_RECIPE,
	OPTION_DENSE,
	OPTION_METHOD,
	OPTION_METHODS,
	OPTION_PLAN,
	OPTION_EPOCHS,
	OPTION_LIMIT,
	OPTION_BATCH,
	OPTION_LR,
	OPTION_LR_DECAY,
	OPTION_INNER,
	OPTION_SMOOTHNESS,
	OPTION_SEED,
	OPTION_METRICS,
	OPTION_DIGEST,
	OPTION_MEASURE,
	OPTION_SERVERS,
	OPTION_ON_FAILURE,
	OPTION_SHARDS,
	OPTION_SIMULATE,
	OPTION_CHECKPOINT,
	OPTION_EVERY,
	OPTION_RESUME,
	OPTION_SLEEP,
	OPTION_NAN,
	OPTION_PROGRESS,
	OPTION_QUIET,
	OPTION_ACCUMULATE,
	OPTION_HELP,
	OPTION_VERSION
};

/* Its address shows that --data was not given. */
static const char default_data[] = DEFAULT_DATA;

static const struct option option_table[] = {
	{ "data", required_argument, NULL, OPTION_DATA },
	{ "test", required_argument, NULL, OPTION_TEST },
	{ "model", required_argument, NULL, OPTION_MODEL },
	{ "device", required_argument, NULL, OPTION_DEVICE },
	{ "recipe", required_argument, NULL, OPTION_RECIPE },
	{ "dense", no_argument, NULL, OPTION_DENSE },
	{ "method", required_argument, NULL, OPTION_METHOD },
	{ "methods", no_argument, NULL, OPTION_METHODS },
	{ "plan", required_argument, NULL, OPTION_PLAN },
	{ "accumulate", no_argument, NULL, OPTION_ACCUMULATE },
	{ "epochs", required_argument, NULL, OPTION_EPOCHS },
	{ "limit", required_argument, NULL, OPTION_LIMIT },
	{ "batch", required_argument, NULL, OPTION_BATCH },
	{ "lr", required_argument, NULL, OPTION_LR },
	{ "lr-decay", required_argument, NULL, OPTION_LR_DECAY },
	{ "inner", required_argument, NULL, OPTION_INNER },
	{ "smoothness", required_argument, NULL, OPTION_SMOOTHNESS },
	{ "seed", required_argument, NULL, OPTION_SEED },
	{ "metrics", required_argument, NULL, OPTION_METRICS },
	{ "digest", no_argument, NULL, OPTION_DIGEST },
	{ "measure", no_argument, NULL, OPTION_MEASURE },
	{ "servers", required_argument, NULL, OPTION_SERVERS },
	{ "on-failure", required_argument, NULL, OPTION_ON_FAILURE },
	{ "shards", required_argument, NULL, OPTION_SHARDS },
	{ "simulate", required_argument, NULL, OPTION_SIMULATE },
	{ "checkpoint", required_argument, NULL, OPTION_CHECKPOINT },
	{ "every", required_argument, NULL, OPTION_EVERY },
	{ "resume", no_argument, NULL, OPTION_RESUME },
	{ "sleep", required_argument, NULL, OPTION_SLEEP },
	{ "nan", required_argument, NULL, OPTION_NAN },
	{ "progress", required_argument, NULL, OPTION_PROGRESS },
	{ "quiet", no_argument, NULL, OPTION_QUIET },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ NULL, 0, NULL, 0 }
};

void options_print_help(void)
{
	fputs("Usage: srun --mpi=pmix -n RANKS sluice-train [OPTION]...\n"
	      "Train a model on all ranks of the job, with gradients and model deltas compressed "
	      "by Sluice.\n"
	      "Without srun: a job of one rank.\n"
	      "\n"
	      "Data and model\n"
	      "  --data PATH         directory of IDX files (train-images-idx3-ubyte[.gz] and the "
	      "other three), or\n"
	      "                      a LIBSVM text file[.gz]; default " DEFAULT_DATA "\n"
	      "  --test PATH         directory of IDX files, or LIBSVM file, to measure accuracy "
	      "on\n"
	      "  --model NAME        softmax, logreg, linreg, mlp:H1,H2,... or char:FILE, which "
	      "predicts the next\n"
	      "                      character of this text[.gz]; default mlp:256,128\n"
	      "  --device NAME       cpu, or cuda: vectors in GPU memory, products by cuBLAS; "
	      "default cpu\n"
	      "  --limit N           use the first N training samples only\n"
	      "\n"
	      "Training\n"
	      "  --recipe TEXT       how to compress, see sluice_recipe(7); default SLUICE_RECIPE, "
	      "else\n"
	      "                      \"" SPARSE_RECIPE "\"\n"
	      "  --dense             the same as --recipe \"" DENSE_RECIPE "\"\n"
	      "  --method NAME       a published method: its recipe with its usual values\n"
	      "  --methods           list the methods with use, paper, recipe and cost, and exit\n"
	      "  --plan TEXT         print what this recipe will do to the model, and exit without "
	      "training\n"
	      "  --accumulate        add gradients to the residual where they are computed "
	      "(sluice_accumulator):\n"
	      "                      no gradient vector, shorter steps\n"
	      "  --epochs N          passes over the training samples; default 5\n"
	      "  --batch N           samples per worker and step; default 64\n"
	      "  --lr X              learning rate; default 0.05\n"
	      "  --lr-decay X        multiply the learning rate by X after each epoch; default 1\n"
	      "  --inner NAME        the optimizer of workers that train by themselves, with "
	      "signal=drift or\n"
	      "                      update=average: sgd or adamw; default sgd\n"
	      "  --smoothness X      Lipschitz constant of a worker's gradient, for "
	      "when=lazy-server\n"
	      "  --seed N            order of the samples and first parameters; default 1\n"
	      "\n"
	      "Job\n"
	      "  --servers N         the last N ranks only own shards; default SLUICE_SERVERS, "
	      "else 0\n"
	      "  --on-failure WHAT   when a rank is lost: abort, or continue without a lost worker "
	      "(needs\n"
	      "                      --servers); default SLUICE_ON_FAILURE, else abort\n"
	      "  --shards N          shards the model is cut into; default: the library chooses\n"
	      "  --simulate N        run a job of N ranks inside this process: same bits and "
	      "bytes, no network\n"
	      "  --checkpoint DIR    write checkpoints below DIR: at the end, and after SIGTERM or "
	      "SIGUSR1\n"
	      "  --every N           and every N steps\n"
	      "  --resume            continue from the checkpoint in DIR, if there is one\n"
	      "\n"
	      "Reports\n"
	      "  --metrics FILE      one JSON object per step; with --resume, appended\n"
	      "  --measure           compression errors in the metrics; takes up to two passes a "
	      "step\n"
	      "  --digest            check after every step that all replicas have the same bits\n"
	      "  --progress WHEN     live line: auto (stderr is a terminal), always, never\n"
	      "  --quiet             print nothing but errors and the last line\n"
	      "\n"
	      "For tests and demonstrations\n"
	      "  --sleep RANK:STEP:SECONDS  that rank sleeps before its push of that step\n"
	      "  --nan RANK:STEP            one gradient value of that rank and step becomes NaN\n"
	      "\n"
	      "  --help, --version\n"
	      "\n"
	      "SIGTERM and SIGUSR1 stop the job after the current step (with --checkpoint: saved, "
	      "status 0);\n"
	      "SIGUSR2 prints what a rank is waiting for. The last line on stdout is "
	      "machine-readable.\n",
	      stdout);
}

void options_print_methods(void)
{
	for (size_t i = 0; i < n_methods; i++)
		printf("%s\n  for     %s\n  paper   %s\n  recipe  %s\n  cost    %s\n",
		       methods[i].name, methods[i].use, methods[i].paper, methods[i].recipe,
		       methods[i].cost);
}

static int parse_count(const char *option, const char *text, uint64_t low, uint64_t high,
		       uint64_t *out, struct complaint *complaint)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	/* Accepts only digits, because strtoull() would also accept spaces and signs. */
	if (text[0] < '0' || text[0] > '9' || *end || errno || value < low || value > high)
		return complain(complaint,
				"--%s takes a whole number from %llu to %llu, not \"%s\"", option,
				(unsigned long long)low, (unsigned long long)high, text);
	*out = value;
	return 0;
}

/* Parses a number above 0 and at most high. */
static int parse_rate(const char *option, const char *text, float high, float *out,
		      struct complaint *complaint)
{
	char *end;
	float value;

	errno = 0;
	value = strtof(text, &end);
	/* strtof() would also accept spaces and a sign in front. */
	if (!strchr("0123456789.", text[0]) || end == text || *end || errno ||
	    !(value > 0 && value <= high))
		return complain(complaint, "--%s takes a number above 0 and up to %g, not \"%s\"",
				option, (double)high, text);
	*out = value;
	return 0;
}

/* Parses RANK:STEP, followed by :SECONDS if seconds_out is not NULL. */
static int parse_moment(const char *option, const char *text, int64_t *rank_out, uint64_t *step_out,
			double *seconds_out, struct complaint *complaint)
{
	unsigned long rank;
	unsigned long long step;
	double seconds = 0;
	int read = 0, fields;

	if (seconds_out)
		fields = sscanf(text, "%9lu:%18llu:%lf%n", &rank, &step, &seconds, &read) == 3;
	else
		fields = sscanf(text, "%9lu:%18llu%n", &rank, &step, &read) == 2;
	if (!fields || text[read] || strchr(text, '-') || strchr(text, '+') || step < 1 ||
	    !(seconds >= 0 && seconds <= 86400))
		return complain(complaint, "--%s takes %s (ranks from 0, steps from 1), not \"%s\"",
				option, seconds_out ? "RANK:STEP:SECONDS" : "RANK:STEP", text);
	*rank_out = (int64_t)rank;
	*step_out = step;
	if (seconds_out)
		*seconds_out = seconds;
	return 0;
}

static int parse_progress(const char *text, enum progress_kind *out, struct complaint *complaint)
{
	if (!strcmp(text, "auto"))
		*out = PROGRESS_AUTO;
	else if (!strcmp(text, "always"))
		*out = PROGRESS_ALWAYS;
	else if (!strcmp(text, "never"))
		*out = PROGRESS_NEVER;
	else
		return complain(complaint, "--progress takes auto, always or never, not \"%s\"",
				text);
	return 0;
}

static int parse_inner(const char *text, enum inner_kind *out, struct complaint *complaint)
{
	if (!strcmp(text, "sgd"))
		*out = INNER_SGD;
	else if (!strcmp(text, "adamw"))
		*out = INNER_ADAMW;
	else
		return complain(complaint, "--inner takes sgd or adamw, not \"%s\"", text);
	return 0;
}

static int parse_on_failure(const char *text, int *out, struct complaint *complaint)
{
	if (!strcmp(text, "abort"))
		*out = SLUICE_ABORT;
	else if (!strcmp(text, "continue"))
		*out = SLUICE_CONTINUE;
	else
		return complain(complaint, "--on-failure takes abort or continue, not \"%s\"",
				text);
	return 0;
}

static int parse_device(const char *text, const char **out, struct complaint *complaint)
{
	if (strcmp(text, "cpu") && strcmp(text, "cuda") && (strncmp(text, "cuda:", 5) || !text[5]))
		return complain(complaint,
				"--device takes cpu, cuda or cuda:FILE (the module), not \"%s\"",
				text);
	*out = text;
	return 0;
}

static int take_recipe(const char *option, const char *recipe, struct options *o,
		       struct complaint *complaint)
{
	const char *before = o->recipe_option;

	if (before && strcmp(before, option))
		return complain(complaint, "--%s and --%s both give a recipe: leave one out",
				before, option);
	o->recipe_option = option;
	o->recipe = recipe;
	return 0;
}

static int take_method(const char *name, struct options *o, struct complaint *complaint)
{
	const struct method *method = method_find(name);

	if (!method)
		return complain(complaint,
				"--method: no method is called \"%s\"; --methods lists them", name);
	return take_recipe("method", method->recipe, o, complaint);
}

/* Handles one option and its argument. Returns -1 with the complaint filled in. */
static int take_option(int key, const char *name, const char *text, struct options *o,
		       enum options_action *action, struct complaint *complaint)
{
	uint64_t count = 0;
	int rc = 0;

	switch (key) {
	case OPTION_DATA: o->data = text; break;
	case OPTION_TEST: o->test = text; break;
	case OPTION_MODEL: o->model = text; break;
	case OPTION_RECIPE: rc = take_recipe(name, text, o, complaint); break;
	case OPTION_DENSE: rc = take_recipe(name, DENSE_RECIPE, o, complaint); break;
	case OPTION_METHOD: rc = take_method(text, o, complaint); break;
	case OPTION_DEVICE: rc = parse_device(text, &o->device, complaint); break;
	case OPTION_METHODS: *action = OPTIONS_METHODS; break;
	case OPTION_PLAN:
		rc = take_recipe(name, text, o, complaint);
		o->plan = 1;
		break;
	case OPTION_METRICS:
		o->metrics = text;
		if (!strcmp(text, "-"))
			rc = complain(complaint, "--metrics - is not possible, because standard "
						 "output has other lines: name a file, or ./-");
		break;
	case OPTION_CHECKPOINT: o->checkpoint = text; break;
	case OPTION_DIGEST: o->digest = 1; break;
	case OPTION_MEASURE: o->measure = 1; break;
	case OPTION_RESUME: o->resume = 1; break;
	case OPTION_QUIET: o->quiet = 1; break;
	case OPTION_ACCUMULATE: o->accumulate = 1; break;
	case OPTION_HELP: *action = OPTIONS_HELP; break;
	case OPTION_VERSION: *action = OPTIONS_VERSION; break;
	case OPTION_EPOCHS: rc = parse_count(name, text, 1, 1000000, &o->epochs, complaint); break;
	case OPTION_LIMIT: rc = parse_count(name, text, 1, UINT32_MAX, &o->limit, complaint); break;
	case OPTION_BATCH: rc = parse_count(name, text, 1, 1 << 20, &o->batch, complaint); break;
	case OPTION_EVERY: rc = parse_count(name, text, 1, INT64_MAX, &o->every, complaint); break;
	case OPTION_SEED: rc = parse_count(name, text, 0, INT64_MAX, &o->seed, complaint); break;
	case OPTION_LR: rc = parse_rate(name, text, 1e6f, &o->lr, complaint); break;
	case OPTION_LR_DECAY: rc = parse_rate(name, text, 10, &o->lr_decay, complaint); break;
	case OPTION_INNER: rc = parse_inner(text, &o->inner, complaint); break;
	case OPTION_SMOOTHNESS:
		rc = parse_rate(name, text, 1e30f, &o->smoothness, complaint);
		break;
	case OPTION_PROGRESS: rc = parse_progress(text, &o->progress, complaint); break;
	case OPTION_ON_FAILURE: rc = parse_on_failure(text, &o->on_failure, complaint); break;
	case OPTION_SERVERS:
		rc = parse_count(name, text, 0, 1 << 20, &count, complaint);
		o->servers = (int)count;
		o->no_servers = !rc && !count;
		break;
	case OPTION_SHARDS:
		rc = parse_count(name, text, 1, 1 << 20, &count, complaint);
		o->shards = (uint32_t)count;
		break;
	case OPTION_SIMULATE:
		rc = parse_count(name, text, 1, SIMULATED_MOST, &count, complaint);
		o->simulate = (int)count;
		break;
	case OPTION_SLEEP:
		rc = parse_moment(name, text, &o->sleep_rank, &o->sleep_step, &o->sleep_seconds,
				  complaint);
		break;
	case OPTION_NAN:
		rc = parse_moment(name, text, &o->nan_rank, &o->nan_step, NULL, complaint);
		break;
	}
	return rc;
}

static int check_together(const struct options *o, struct complaint *complaint)
{
	if (!o->checkpoint && (o->every || o->resume))
		return complain(complaint, "--%s needs --checkpoint DIR",
				o->every ? "every" : "resume");
	if (o->accumulate && strcmp(o->device, "cpu"))
		return complain(complaint,
				"--accumulate adds in host memory, so it excludes --device %s",
				o->device);
	if (o->inner == INNER_ADAMW && strcmp(o->device, "cpu"))
		return complain(complaint,
				"--inner adamw steps in host memory, so it excludes --device %s",
				o->device);
	if (o->inner == INNER_ADAMW && o->checkpoint)
		return complain(complaint,
				"--inner adamw has moments that checkpoints do not contain: leave "
				"out --checkpoint, or use --inner sgd");
	return 0;
}

/* The text of --model char:FILE is the data, and a part of it the test set. */
static int take_text(struct options *o, struct complaint *complaint)
{
	const char *text = model_text(o->model);

	if (!text)
		return 0;
	if (o->data != default_data || o->test)
		return complain(complaint, "--model %.200s names its data: leave out --%s",
				o->model, o->test ? "test" : "data");
	o->data = text;
	return 0;
}

int options_parse(int argc, char **argv, struct options *options, enum options_action *action,
		  struct complaint *complaint)
{
	char start[2];
	const int configured = sluice_setting("SLUICE_RECIPE", start, sizeof(start)) > 0;
	char refused[REFUSED_BYTES];
	int key, index = 0;

	*action = OPTIONS_TRAIN;
	*options = (struct options){
		.data = default_data,
		.model = "mlp:256,128",
		.device = "cpu",
		.recipe = configured ? NULL : SPARSE_RECIPE,
		.epochs = 5,
		.batch = 64,
		.seed = 1,
		.lr = 0.05f,
		.lr_decay = 1,
		.sleep_rank = -1,
		.nan_rank = -1,
	};
	opterr = 0; /* every rank parses, but only one prints the complaint */
	optind = 0; /* restarts parsing, even if the last parse ended inside an argument */
	while ((key = getopt_long(argc, argv, ":", option_table, &index)) != -1) {
		if (key == ':')
			return complain(complaint,
					"option %s needs an argument; see sluice-train --help",
					argv[optind - 1]);
		if (key == '?')
			return complain(complaint,
					"unknown, ambiguous or malformed option %s; see "
					"sluice-train --help",
					refused_option(argv, option_table, refused));
		if (take_option(key, option_table[index].name, optarg, options, action, complaint))
			return -1;
		if (*action != OPTIONS_TRAIN)
			return 0;
	}
	if (optind < argc)
		return complain(complaint, "\"%s\" is not an option; data is named by --data PATH",
				argv[optind]);
	return check_together(options, complaint) || take_text(options, complaint) ? -1 : 0;
}
