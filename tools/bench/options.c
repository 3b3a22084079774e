/* SPDX-License-Identifier: BSD-3-Clause
 * See options.h. */
#include "tools/bench/options.h"
#include "tools/bench/axes.h"
#include "tools/refused_option.h"
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const tests[] = { "put", "get", "notify", "step", "select", "codec", "reduce" };
static const char *const gradients[] = { "gaussian", "laplace", "zeros" };
static const enum distribution gradient_kinds[] = { DISTRIBUTION_GAUSSIAN, DISTRIBUTION_LAPLACE,
						    DISTRIBUTION_ZEROS };
static const char *const distributions[DISTRIBUTIONS] = { "gaussian", "laplace", "student",
							  "zeros",    "sparse",  "constant",
							  "equal",    "sorted",  "hintwrong" };

enum { SIZE_LARGEST = 1 << 30 };

const char *test_name(enum test test)
{
	return tests[test];
}

const char *distribution_name(enum distribution distribution)
{
	return distributions[distribution];
}

void options_print_help(void)
{
	fputs("Usage: srun -n2 --mpi=pmix sluice-bench put|get|notify [OPTION]...\n"
	      "       srun --mpi=pmix sluice-bench step [OPTION]...\n"
	      "       sluice-bench select|codec|reduce [OPTION]...\n"
	      "Measure what the regions of Sluice move between two ranks, a whole push and pull, "
	      "selection\n"
	      "alone, writing and reading messages, or what a shard does with them.\n"
	      "\n"
	      "  put      latency: an 8-byte (or larger) put that the peer sees by polling its "
	      "window, half a\n"
	      "           round trip; bandwidth and message rate: puts posted one after another\n"
	      "  get      latency of one get; bandwidth and message rate: gets posted one after "
	      "another\n"
	      "  notify   the same as put, but each carries a notify and the peer waits for it\n"
	      "  step     push and pull of a synthetic model on all ranks, with its time split\n"
	      "  select   exact top-k compared with one pass over the same memory; needs no job\n"
	      "  codec    writing and reading positions, values and messages, next to a copy; "
	      "needs "
	      "no job\n"
	      "  reduce   adding a step's messages at a shard, publishing, applying, next to plain "
	      "passes; needs no\n"
	      "           job\n"
	      "\n"
	      "put, get, notify\n"
	      "  --sizes LIST     bytes: 8,64,4K,1M or 8..4M (doubling); default "
	      "8,64,512,4K,32K,64K,256K,1M,4M\n"
	      "  --with RANK      rank 0 measures with this rank; default: the last one\n"
	      "\n"
	      "step\n"
	      "  --count N        parameters, K and M allowed; default 1M (2^20)\n"
	      "  --recipe TEXT    see sluice_recipe(7); default SLUICE_RECIPE, else the library's\n"
	      "  --gradient KIND  gaussian, laplace or zeros; default gaussian\n"
	      "  --shards N       of the model; default: the library's number\n"
	      "  --accumulate     gradients are added to the residual by the program "
	      "(sluice_accumulator), outside of the\n"
	      "                   measured time, instead of being pushed\n"
	      "  --timeline       print what each worker did during one step, and when\n"
	      "  --seed N         of the gradients; default 1\n"
	      "\n"
	      "select, codec, reduce\n"
	      "  --n N            elements; default 10000000\n"
	      "  --k N            selected ones, or\n"
	      "  --density X      their share; default 0.001, 0.01 and 0.1 one after another\n"
	      "  --seed N         of the vectors; default 1\n"
	      "  --distribution KIND  gaussian, laplace, student (t, 3 degrees), zeros, sparse "
	      "(0.1 % not zero),\n"
	      "                   constant, equal (magnitudes), sorted or, of select, hintwrong; "
	      "default gaussian\n"
	      "  --threads N      of the selector of select; default 1\n"
	      "  --messages N     that a shard gets in a step of reduce; default 4\n"
	      "\n"
	      "step, select\n"
	      "  --device NAME    cpu, or cuda: vectors in GPU memory; default cpu\n"
	      "  --axes           with --device cuda: 2^16 to 2^28 elements (at most --n or "
	      "--count), 2^3 to 2^23\n"
	      "                   coordinates (of select at most --k), bits of three entropies; of "
	      "step, K in the\n"
	      "                   recipe is the number of coordinates\n"
	      "  --rivals FILE    of select on a GPU: others' selections compared with Sluice's, "
	      "by a "
	      "module built from\n"
	      "                   tests/gpu/rivals.cu\n"
	      "  --torch COMMAND  and torch.topk, by a command such as 'python3 "
	      "tests/gpu/torch_topk.py'\n"
	      "\n"
	      "All\n"
	      "  --steps N, --repeat N  rounds per size, or steps; default: as many as fit into "
	      "--seconds\n"
	      "  --seconds X      per measurement; default 0.3, for step, select, codec and reduce "
	      "3\n"
	      "  --warmup N       rounds or steps before measuring; default 20, for step 5, "
	      "select, codec and reduce 3\n"
	      "  --limit          print next to each figure the limit of the machine, measured in "
	      "the same run:\n"
	      "                   memcpy and a cache-line ping-pong between the same two "
	      "processes; over verbs,\n"
	      "                   the perftest command to compare with (select, codec and reduce "
	      "always do)\n"
	      "  --json           one JSON object\n"
	      "  --help, --version\n",
	      stdout);
}

/* Parses DIGITS[K|M|G], between least and most. Returns 0 or -1. */
static int parse_count(const char *text, size_t length, uint64_t least, uint64_t most,
		       uint64_t *out)
{
	char copy[32], *end;
	unsigned long long value;

	if (length == 0 || length >= sizeof copy || !isdigit((unsigned char)*text))
		return -1;
	memcpy(copy, text, length);
	copy[length] = '\0';
	errno = 0;
	value = strtoull(copy, &end, 10);
	unsigned shift = *end == 'K' || *end == 'k' ? 10 :
			 *end == 'M' || *end == 'm' ? 20 :
			 *end == 'G' || *end == 'g' ? 30 :
						      0;
	if (errno || end[shift != 0] || value > most >> shift || value << shift < least)
		return -1;
	*out = value << shift;
	return 0;
}

int sizes_parse(const char *text, size_t sizes[SIZES_MAX], size_t *n_out)
{
	size_t n = 0;

	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ",");
		const char *dots = strstr(at, "..");
		uint64_t low, high;

		if (!dots || dots >= at + length)
			dots = NULL;
		if (parse_count(at, dots ? (size_t)(dots - at) : length, 1, SIZE_LARGEST, &low))
			return -1;
		high = low;
		if (dots && (parse_count(dots + 2, length - (size_t)(dots + 2 - at), low,
					 SIZE_LARGEST, &high)))
			return -1;
		for (uint64_t size = low; size <= high; size *= 2) {
			if (n == SIZES_MAX)
				return -1;
			sizes[n++] = (size_t)size;
		}
		at += length;
		if (!*at)
			break;
	}
	*n_out = n;
	return 0;
}

static const struct option table[] = { { "sizes", required_argument, NULL, 'z' },
				       { "with", required_argument, NULL, 'w' },
				       { "warmup", required_argument, NULL, 'u' },
				       { "repeat", required_argument, NULL, 'r' },
				       { "steps", required_argument, NULL, 'r' },
				       { "seconds", required_argument, NULL, 's' },
				       { "count", required_argument, NULL, 'c' },
				       { "recipe", required_argument, NULL, 'e' },
				       { "gradient", required_argument, NULL, 'g' },
				       { "seed", required_argument, NULL, 'd' },
				       { "n", required_argument, NULL, 'n' },
				       { "k", required_argument, NULL, 'k' },
				       { "density", required_argument, NULL, 'y' },
				       { "distribution", required_argument, NULL, 'b' },
				       { "threads", required_argument, NULL, 't' },
				       { "messages", required_argument, NULL, 'm' },
				       { "device", required_argument, NULL, 'v' },
				       { "axes", no_argument, NULL, 'x' },
				       { "rivals", required_argument, NULL, 'R' },
				       { "torch", required_argument, NULL, 'T' },
				       { "shards", required_argument, NULL, 'p' },
				       { "accumulate", no_argument, NULL, 'a' },
				       { "timeline", no_argument, NULL, 'L' },
				       { "limit", no_argument, NULL, 'l' },
				       { "json", no_argument, NULL, 'j' },
				       { "help", no_argument, NULL, 'h' },
				       { "version", no_argument, NULL, 'V' },
				       { NULL, 0, NULL, 0 } };

enum {
	MOVES = 1 << TEST_PUT | 1 << TEST_GET | 1 << TEST_NOTIFY,
	STEP = 1 << TEST_STEP,
	VECTORS = 1 << TEST_SELECT | 1 << TEST_CODEC | 1 << TEST_REDUCE
};

/* Returns a bit mask of the tests that use an option. All other tests refuse it. */
static unsigned tests_with(int key)
{
	switch (key) {
	case 'z':
	case 'w': return MOVES;
	case 'a':
	case 'p':
	case 'c':
	case 'e':
	case 'L':
	case 'g': return STEP;
	case 'd': return STEP | VECTORS;
	case 'n':
	case 'k':
	case 'y':
	case 'b': return VECTORS;
	case 'R':
	case 'T':
	case 't': return 1 << TEST_SELECT;
	case 'x':
	case 'v': return 1 << TEST_SELECT | STEP;
	case 'm': return 1 << TEST_REDUCE;
	case 'l': return MOVES | STEP;
	default: return MOVES | STEP | VECTORS;
	}
}

/* Returns 0, or -1 if the option does not accept the argument. */
static int take(int key, const char *text, struct options *o)
{
	uint64_t number;
	char *end;
	int kind;

	switch (key) {
	case 'z': return sizes_parse(text, o->sizes, &o->n_sizes);
	case 'w':
		if (parse_count(text, strlen(text), 1, 65535, &number))
			return -1;
		o->with = (int)number;
		return 0;
	case 'u': return parse_count(text, strlen(text), 0, 1000000, &o->warmup);
	case 'r': return parse_count(text, strlen(text), 1, 10000000, &o->repeat);
	case 'c': return parse_count(text, strlen(text), 1, UINT32_MAX, &o->count);
	case 'p': return parse_count(text, strlen(text), 1, 0xffffff, &o->shards);
	case 'd': return parse_count(text, strlen(text), 0, INT64_MAX, &o->seed);
	case 's':
		o->seconds = strtod(text, &end);
		return end == text || *end || !(o->seconds > 0 && o->seconds <= 3600) ? -1 : 0;
	case 'g':
		kind = word_index(text, gradients, 3);
		o->gradient = gradient_kinds[kind < 0 ? 0 : kind];
		return kind < 0 ? -1 : 0;
	case 'e': o->recipe = text; return 0;
	case 'n': return parse_count(text, strlen(text), 1, UINT32_MAX, &o->n);
	case 'k': return parse_count(text, strlen(text), 1, UINT32_MAX, &o->k);
	case 'y':
		o->density = strtod(text, &end);
		return end == text || *end || !(o->density > 0 && o->density <= 1) ? -1 : 0;
	case 'b':
		kind = word_index(text, distributions, DISTRIBUTIONS);
		o->distribution = (enum distribution)(kind < 0 ? 0 : kind);
		return kind < 0 ? -1 : 0;
	case 'v': o->cuda = !strcmp(text, "cuda"); return o->cuda || !strcmp(text, "cpu") ? 0 : -1;
	case 'R': o->rivals = text; return 0;
	case 'T': o->torch = text; return 0;
	case 't':
		if (parse_count(text, strlen(text), 1, 256, &number))
			return -1;
		o->threads = (int)number;
		return 0;
	case 'm':
		if (parse_count(text, strlen(text), 1, 256, &number))
			return -1;
		o->messages = (int)number;
		return 0;
	}
	return 0;
}

static int complain(char complaint[COMPLAINT_BYTES], const char *what, const char *text)
{
	snprintf(complaint, COMPLAINT_BYTES, "%s%s%.100s%s; see sluice-bench --help", what,
		 text ? " \"" : "", text ? text : "", text ? "\"" : "");
	return -1;
}

/* Checks combinations of arguments. given[] marks the rows of the table that the command line
 * has. */
static int check_together(const struct options *o, const char *given,
			  char complaint[COMPLAINT_BYTES])
{
	char what[64];

	for (int i = 0; table[i].name; i++)
		if (given[i] && !(tests_with(table[i].val) >> o->test & 1)) {
			snprintf(what, sizeof what, "%s has no option", tests[o->test]);
			return complain(complaint, what, table[i].name);
		}
	if (o->k && o->density > 0)
		return complain(complaint, "--k and --density exclude each other: give one of them",
				NULL);
	if (o->k > o->n)
		return complain(complaint, "--k is more than --n", NULL);
	if (o->distribution == DISTRIBUTION_HINTWRONG && o->test != TEST_SELECT)
		return complain(
			complaint,
			"only the select test uses hints, so only it accepts --distribution",
			"hintwrong");
	if (o->accumulate && o->cuda)
		return complain(complaint,
				"--accumulate adds in host memory, so it excludes --device",
				"cuda");
	if ((o->axes || o->rivals || o->torch) && !o->cuda) {
		snprintf(what, sizeof what, "--%s",
			 o->axes   ? "axes" :
			 o->rivals ? "rivals" :
				     "torch");
		return complain(complaint, strcat(what, " needs --device"), "cuda");
	}
	for (int i = 0; table[i].name && o->axes; i++)
		if (given[i] && strchr("ybglL", table[i].val))
			return complain(complaint,
					"--axes varies the vectors itself, so it excludes",
					table[i].name);
	if (o->axes && (o->test == TEST_STEP ? o->count : o->n) < AXES_ELEMENTS_LEAST)
		return complain(complaint, "--axes needs at least 65536 elements: raise",
				o->test == TEST_STEP ? "--count" : "--n");
	return 0;
}

/* Sets the longest vector of the axes if the command line does not. */
static void set_axes(struct options *o, const char *given)
{
	for (int i = 0; table[i].name; i++) {
		o->n = !given[i] && table[i].val == 'n' ? AXES_ELEMENTS_MOST : o->n;
		o->count = !given[i] && table[i].val == 'c' ? AXES_ELEMENTS_MOST : o->count;
	}
}

int options_parse(int argc, char **argv, struct options *out, char complaint[COMPLAINT_BYTES])
{
	struct options o = {
		.with = -1, .count = 1 << 20, .seed = 1, .n = 10000000, .threads = 1, .messages = 4
	};
	char what[64], given[sizeof table / sizeof *table] = { 0 }, refused[REFUSED_BYTES];
	int key, index = 0, given_warmup = 0, kind;

	optind = 0; /* restarts parsing, also after a parse that ended within a word */
	opterr = 0;
	sizes_parse("8,64,512,4K,32K,64K,256K,1M,4M", o.sizes, &o.n_sizes);
	while ((key = getopt_long(argc, argv, ":", table, &index)) != -1) {
		if (key == ':')
			return complain(complaint, "an argument is missing for", argv[optind - 1]);
		if (key == '?') {
			snprintf(complaint, COMPLAINT_BYTES,
				 "unknown, ambiguous or malformed option %s; see sluice-bench "
				 "--help",
				 refused_option(argv, table, refused));
			return -1;
		}
		given[index] = 1;
		o.action = key == 'h' ? ACTION_HELP : key == 'V' ? ACTION_VERSION : o.action;
		o.json |= key == 'j';
		o.limit |= key == 'l';
		o.timeline |= key == 'L';
		o.accumulate |= key == 'a';
		o.axes |= key == 'x';
		given_warmup |= key == 'u';
		snprintf(what, sizeof what, "--%s cannot take", table[index].name);
		if (optarg && take(key, optarg, &o))
			return complain(complaint, what, optarg);
	}
	if (o.axes)
		set_axes(&o, given);
	if (o.action == ACTION_RUN) {
		if (optind == argc)
			return complain(
				complaint,
				"name a test: put, get, notify, step, select, codec or reduce",
				NULL);
		kind = word_index(argv[optind], tests, sizeof tests / sizeof *tests);
		if (kind < 0)
			return complain(complaint, "there is no test", argv[optind]);
		if (optind + 1 < argc)
			return complain(complaint, "name only one test, not also",
					argv[optind + 1]);
		o.test = (enum test)kind;
		if (check_together(&o, given, complaint))
			return -1;
	}
	if (!given_warmup)
		o.warmup = o.test == TEST_STEP ? 5 : o.test >= TEST_SELECT ? 3 : 20;
	if (o.seconds == 0)
		o.seconds = o.test >= TEST_STEP && !o.axes ? 3 : 0.3;
	*out = o;
	return 0;
}
