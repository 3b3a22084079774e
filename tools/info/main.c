/* SPDX-License-Identifier: BSD-3-Clause
 * sluice-info: shows what this node has, what Sluice will use of it, and why. --check adds
 * verdicts. */
#include "sluice.h"
#include "tools/info/probes.h"
#include "tools/refused_option.h"
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
	EXIT_WARNINGS = 1,
	EXIT_FAILURES = 2,
	EXIT_BAD_USAGE = 3,
	PREFIX_BYTES = 320,
	RANKS_MOST = 1024
};

/* The bytes that a rank with a small model registers. --memlock checks another number. */
static const uint64_t default_need = 64 << 20;

static void print_help(void)
{
	fputs("Usage: sluice-info [--check | --json | --slurm-prolog] [OPTION]...\n"
	      "Show what this node has and what Sluice will use of it, and why.\n"
	      "\n"
	      "  --check          one verdict per line: ok|warn|FAIL NAME: FINDING; REMEDY\n"
	      "                   (in a Slurm step of several nodes it begins with the node: n1: "
	      "ok ...)\n"
	      "  --slurm-prolog   the same for a Slurm TaskProlog: only what is wrong, as \"print "
	      "...\" lines;\n"
	      "                   warnings do not count for the status\n"
	      "  --json           everything, as one JSON object\n"
	      "  --need-verbs     RDMA that is missing or unusable is a failure, not a warning\n"
	      "  --memlock SIZE   locked memory that a rank needs (K, M, G allowed; default 64M): "
	      "what\n"
	      "                   sluice_model_open() logs for the model\n"
	      "  --ranks N        the RDMA device of each of N ranks of this node, and why\n"
	      "  --card           what the RDMA device does, measured by opening it\n"
	      "  --help, --version\n"
	      "\n"
	      "Status: 0 all is well, 1 warnings, 2 failures, 3 wrong usage.\n",
	      stdout);
}

/* Returns 0 or -1. */
static int parse_bytes(const char *text, uint64_t *out)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);
	int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : *end == 'T' ? 40 : 0;

	if (*text < '0' || *text > '9' || end[shift != 0] || !value || value > UINT64_MAX >> shift)
		return -1;
	*out = (uint64_t)value << shift;
	return 0;
}

/* Returns 0 or -1. */
static int parse_ranks(const char *text, int *out)
{
	char *end;
	const long value = strtol(text, &end, 10);

	if (*end || value < 1 || value > RANKS_MOST)
		return -1;
	*out = (int)value;
	return 0;
}

static int status_of(enum verdict verdict, int warnings_count)
{
	return verdict == VERDICT_FAIL                   ? EXIT_FAILURES :
	       verdict == VERDICT_WARN && warnings_count ? EXIT_WARNINGS :
							   EXIT_SUCCESS;
}

/* In a step on several nodes srun mixes the lines, so each line begins with the node's name. */
static const char *line_prefix(const char *before, char prefix[PREFIX_BYTES])
{
	const char *nodes = getenv("SLURM_STEP_NUM_NODES");
	int several = nodes && strtol(nodes, NULL, 10) > 1;

	snprintf(prefix, PREFIX_BYTES, "%s%s%s", before, several ? node_name() : "",
		 several ? ": " : "");
	return prefix;
}

int main(int argc, char **argv)
{
	static const struct option table[] = { { "check", no_argument, NULL, 'c' },
					       { "json", no_argument, NULL, 'j' },
					       { "slurm-prolog", no_argument, NULL, 'p' },
					       { "need-verbs", no_argument, NULL, 'v' },
					       { "memlock", required_argument, NULL, 'm' },
					       { "card", no_argument, NULL, 'd' },
					       { "ranks", required_argument, NULL, 'r' },
					       { "sysfs", required_argument, NULL,
						 's' }, /* used by tests: another root directory */
					       { "help", no_argument, NULL, 'h' },
					       { "version", no_argument, NULL, 'V' },
					       { NULL, 0, NULL, 0 } };
	struct node node = { .root = "", .memlock_need = default_need };
	struct report report = { 0 };
	int key, card = 0, mode = 0, modes = 0, status;
	char refused[REFUSED_BYTES], prefix[PREFIX_BYTES];

	opterr = 0;
	while ((key = getopt_long(argc, argv, ":", table, NULL)) != -1)
		switch (key) {
		case 'h': print_help(); return fflush(stdout) ? EXIT_FAILURES : EXIT_SUCCESS;
		case 'V':
			printf("sluice-info (Sluice) %s\n", sluice_version(NULL));
			return fflush(stdout) ? EXIT_FAILURES : EXIT_SUCCESS;
		case 'v': node.needs_verbs = 1; break;
		case 'd': card = 1; break;
		case 's': node.root = optarg; break;
		case 'm':
			if (!parse_bytes(optarg, &node.memlock_need)) /* 64M */
				break;
			fprintf(stderr,
				"sluice-info: --memlock takes a size such as 64M, not \"%s\"\n",
				optarg);
			return EXIT_BAD_USAGE;
		case 'r':
			if (!parse_ranks(optarg, &node.ranks))
				break;
			fprintf(stderr,
				"sluice-info: --ranks takes a number from 1 to %d, not \"%s\"\n",
				RANKS_MOST, optarg);
			return EXIT_BAD_USAGE;
		case 'c':
		case 'j':
		case 'p':
			modes += mode != key;
			mode = key;
			break;
		case ':':
			fprintf(stderr,
				"sluice-info: option %s needs an argument; see sluice-info "
				"--help\n",
				argv[optind - 1]);
			return EXIT_BAD_USAGE;
		default:
			fprintf(stderr,
				"sluice-info: unknown, ambiguous or malformed option %s; "
				"see sluice-info --help\n",
				refused_option(argv, table, refused));
			return EXIT_BAD_USAGE;
		}
	if (optind < argc || modes > 1) {
		fprintf(stderr, "sluice-info: %s; see sluice-info --help\n",
			modes > 1 ? "one of --check, --json and --slurm-prolog" :
				    "it takes options only");
		return EXIT_BAD_USAGE;
	}

	probe_sluice(&node, &report);
	probe_rdma(&node, &report);
	probe_fabric(&node, &report);
	probe_memlock(&node, &report);
	probe_shm(&node, &report);
	probe_launcher(&node, &report);
	probe_gpu(&node, &report);
	probe_cards_of_ranks(node.ranks, &report);
	if (card)
		probe_card(&report);
	if (mode == 'j')
		report_print_json(&report, sluice_version(NULL), stdout);
	else if (mode == 'p')
		report_print_check(&report, VERDICT_WARN,
				   line_prefix("print sluice-info: ", prefix), stdout);
	else if (mode == 'c')
		report_print_check(&report, VERDICT_OK, line_prefix("", prefix), stdout);
	else
		report_print_text(&report, stdout);
	status = status_of(report_verdict(&report), mode != 'p');
	report_free(&report);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "sluice-info: cannot write to stdout\n");
		return EXIT_FAILURES;
	}
	return status;
}
