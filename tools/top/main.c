/* SPDX-License-Identifier: BSD-3-Clause
 * sluice-top: shows what the ranks of running jobs do. It only reads, so neither its end nor a bug
 * in it affects a job. */
#include "base/clock.h"
#include "metrics/openmetrics.h"
#include "metrics/trace_text.h"
#include "sluice.h"
#include "tools/refused_option.h"
#include "tools/top/nodes.h"
#include "tools/top/relay.h"
#include "tools/top/show.h"
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { EXIT_NONE = 1, EXIT_BAD_USAGE = 3, WIDTH = 100, WIDTH_LEAST = 80, LOOKS = 4 };
enum { PATIENCE_MS = 5000 };
enum mode { MODE_LIVE, MODE_ONCE, MODE_JSON, MODE_OPENMETRICS, MODE_MERGE, MODE_RELAY };

struct options {
	enum mode mode;
	const char *job; /* NULL: all */
	int all, rank;
	int interval_ms;
	int all_nodes;
	struct nodes *nodes; /* while all_nodes; NULL: this node */
};

static void print_help(void)
{
	fputs("Usage: sluice-top [--job ID[.STEP]] [--nodes | --all] [--rank R] [--interval S]\n"
	      "       sluice-top --once | --json | --openmetrics [--job ID[.STEP]] [--nodes | "
	      "--all] [--rank R]\n"
	      "       sluice-top --merge FILE...\n"
	      "Show what the ranks of your jobs do, on this node or on all nodes of a Slurm job.\n"
	      "\n"
	      "  --job ID[.STEP]  ranks of this Slurm job or step; - stands for ranks without "
	      "Slurm\n"
	      "                   (default: the job of this shell, or else the only job here)\n"
	      "  --nodes          ranks of all nodes of a Slurm job: srun starts a reader on each\n"
	      "  --all            ranks of all your jobs on this node\n"
	      "  --rank R         one rank in detail\n"
	      "  --interval S     seconds between two looks, 0.1 to 60 (default 1)\n"
	      "  --once           print one screen, after one interval\n"
	      "  --json           print everything once, as one JSON object\n"
	      "  --openmetrics    print everything once, as OpenMetrics text\n"
	      "  --merge          join the files of SLUICE_TRACE, and print the trace\n"
	      "  --help, --version\n"
	      "\n"
	      "q or Ctrl-C ends it.\n"
	      "Status: 0 ranks were shown, 1 none was found, 3 wrong usage.\n",
	      stdout);
}

/* ---- the terminal -------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;
static struct termios saved;
static int saved_valid;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

static void terminal_begin(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction action = { .sa_handler = on_signal };
	struct termios raw;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
	if (isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &saved)) {
		saved_valid = 1;
		raw = saved;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	fputs("\033[?1049h\033[?25l", stdout); /* another screen, without a cursor */
}

static void terminal_end(void)
{
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	if (saved_valid)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved);
}

static void screen_size(int *width, int *height)
{
	struct winsize size;

	*width = WIDTH;
	*height = 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return;
	*width = size.ws_col < WIDTH_LEAST ? WIDTH_LEAST : size.ws_col;
	*height = size.ws_row;
}

/* Waits for this time, and reads what other nodes send. Returns 1 if the user wants to leave, or if
 * the other nodes send no more. */
static int wait_for_key(const struct options *o, int ms)
{
	struct pollfd fds[2] = { { .fd = saved_valid ? STDIN_FILENO : -1, .events = POLLIN },
				 { .fd = o->nodes ? nodes_fd(o->nodes) : -1, .events = POLLIN } };
	const uint64_t end = now_ns() + (uint64_t)ms * 1000000;
	char c;

	for (uint64_t now; !stopped && (now = now_ns()) < end;) {
		if (poll(fds, 2, (int)((end - now) / 1000000 + 1)) <= 0)
			continue;
		if (fds[1].revents && nodes_read(o->nodes))
			return 1;
		if (!fds[0].revents)
			continue;
		if (read(STDIN_FILENO, &c, 1) <= 0)
			fds[0].fd = -1; /* the terminal has gone; signals remain */
		else if (c == 'q' || c == 'Q')
			stopped = 1;
	}
	return stopped;
}

/* Prints the lines of a screen, and clears the rest of each line and of the screen. */
static void put_screen(const char *text, int height)
{
	fputs("\033[H", stdout);
	for (int row = 1; *text && row < height; row++) {
		const size_t n = strcspn(text, "\n");

		fprintf(stdout, "%.*s\033[K\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
	fputs(*text ? "... more lines: enlarge the window, or use --rank\033[K" : "\033[J", stdout);
	fflush(stdout);
}

/* ---- finding ----------------------------------------------------------------------------- */

/* Prints on stderr how many nodes have answered, and the last line of srun. */
static void explain_nodes(const struct nodes *nodes, const char *what)
{
	const char *said = nodes_said(nodes);
	int of;
	const int heard = nodes_heard(nodes, &of);

	fprintf(stderr, "sluice-top: %s; ", what);
	if (of)
		fprintf(stderr, "%d of %d nodes have answered", heard, of);
	else
		fputs("no node has answered", stderr);
	fprintf(stderr, "%s%s\n", *said ? "; the last line of srun is: " : "", said);
}

static void explain_none(const struct options *o, const struct seen *seen)
{
	char job[80] = "";

	if (o->job)
		snprintf(job, sizeof(job), " of job %.60s", o->job);
	fprintf(stderr,
		"sluice-top: no rank%s of this user runs on %s; a job with SLUICE_TOP=no is not "
		"shown\n",
		job,
		o->nodes ? "the nodes of the job" :
			   "this node. For all nodes of a Slurm job use --nodes");
	if (seen->refused)
		fprintf(stderr, "sluice-top: %d page%s could not be read: %s\n", seen->refused,
			seen->refused == 1 ? "" : "s", seen->why);
}

/* Removes all ranks but the wanted one, for --json. */
static void keep_rank(struct seen *seen, int rank)
{
	size_t n = 0;

	for (size_t i = 0; i < seen->n; i++)
		if (seen->ranks[i].who.rank == rank)
			seen->ranks[n++] = seen->ranks[i];
	seen->n = n;
}

static int read_ranks(const struct options *o, struct seen *seen)
{
	if (!(o->nodes ? nodes_look(o->nodes, seen) : seen_find(o->job, seen)))
		return 0;
	fprintf(stderr, "sluice-top: the ranks cannot be read: %s\n", strerror(errno));
	return EXIT_NONE;
}

/* Looks at the ranks once. Returns 0, or prints a sentence on stderr and returns the exit
 * status. */
static int look(const struct options *o, struct seen *seen)
{
	int several = 0;

	if (read_ranks(o, seen))
		return EXIT_NONE;
	for (size_t i = 1; i < seen->n && !o->job && !o->all; i++)
		if (strcmp(seen->ranks[i].who.job, seen->ranks[0].who.job)) {
			fprintf(stderr, "%s %s", several++ ? "," : "sluice-top: your jobs here are",
				*seen->ranks[i - 1].who.job ? seen->ranks[i - 1].who.job : "-");
			while (i + 1 < seen->n &&
			       !strcmp(seen->ranks[i].who.job, seen->ranks[i + 1].who.job))
				i++;
			if (i + 1 == seen->n)
				fprintf(stderr, ", %s: choose with --job, or use --all\n",
					seen->ranks[i].who.job);
		}
	if (several)
		return EXIT_NONE;
	if (seen->n)
		return 0;
	explain_none(o, seen);
	return EXIT_NONE;
}

static int has_rank(const struct seen *seen, int rank)
{
	for (size_t i = 0; i < seen->n; i++)
		if (rank < 0 || seen->ranks[i].who.rank == rank)
			return 1;
	fprintf(stderr, "sluice-top: rank %d is not among the ranks that were found\n", rank);
	return 0;
}

/* Waits until a look of one node, or with `all` of each node, has arrived. A busy Slurm may start
 * srun's step late, so this prints at intervals what it waits for. Returns 0, or -1 if srun has
 * ended before that. */
static int await_nodes(const struct options *o, int all)
{
	uint64_t warn_ns = now_ns() + (uint64_t)PATIENCE_MS * 1000000;
	int heard = 0, of = 0;

	while (!heard || (all && heard < of)) {
		struct pollfd fd = { .fd = nodes_fd(o->nodes), .events = POLLIN };

		if (poll(&fd, 1, PATIENCE_MS) > 0 && nodes_read(o->nodes)) {
			explain_nodes(o->nodes, "srun has ended");
			return -1;
		}
		heard = nodes_heard(o->nodes, &of);
		if (now_ns() < warn_ns)
			continue;
		explain_nodes(o->nodes, "waits for the nodes of the job");
		warn_ns = now_ns() + (uint64_t)PATIENCE_MS * 1000000;
	}
	return 0;
}

/* ---- the modes ------------------------------------------------------------------------------ */

static int run_text(const struct options *o, struct seen *seen)
{
	if (o->rank >= 0)
		keep_rank(seen, o->rank);
	if (o->mode == MODE_JSON)
		show_json(seen, stdout);
	else
		openmetrics_print(seen, stdout);
	return EXIT_SUCCESS;
}

static int run_merge(char **files, int n)
{
	struct trace_merge merge;
	int failed = 0;

	trace_merge_begin(&merge, stdout);
	for (int i = 0; i < n; i++) {
		FILE *from = fopen(files[i], "re");
		const char *why = from ? trace_merge_add(&merge, from) : strerror(errno);

		if (from)
			fclose(from);
		if (why)
			fprintf(stderr, "sluice-top: %s cannot be joined: %s\n", files[i], why);
		failed |= why != NULL;
	}
	trace_merge_end(&merge);
	return failed ? EXIT_NONE : EXIT_SUCCESS;
}

/* Prints the pages of this node at each interval, for the viewer of another sluice-top. */
static int run_relay(const struct options *o)
{
	const char *nodes = getenv("SLURM_STEP_NUM_NODES");
	const int n = nodes ? (int)strtol(nodes, NULL, 10) : 1;
	struct seen seen;

	while (!read_ranks(o, &seen)) {
		const int rc = relay_print(&seen, n, stdout);

		seen_free(&seen);
		if (rc || fflush(stdout))
			break;
		wait_for_key(o, o->interval_ms);
	}
	return EXIT_NONE;
}

/* A new look at another node arrives within two intervals. */
static int run_once(const struct options *o, struct seen *seen)
{
	struct view view = { .before = seen, .rank = o->rank, .nodes = o->nodes != NULL };
	struct seen now;
	int height, rc;

	screen_size(&view.width, &height);
	wait_for_key(o, o->nodes ? 2 * o->interval_ms : o->interval_ms);
	rc = look(o, &now);
	if (!rc)
		show_screen(&now, &view, stdout);
	seen_free(&now);
	return rc;
}

static void print_heard(const struct nodes *nodes, FILE *to)
{
	int of, heard = nodes_heard(nodes, &of);

	if (heard < of)
		fprintf(to, "%d of %d nodes have answered\n", heard, of);
}

/* Draws at each interval. Rates are those since the oldest of a few looks. */
static int run_live(const struct options *o, struct seen *first)
{
	struct seen looks[LOOKS] = { *first };
	int rc = 0;

	*first = (struct seen){ 0 };
	terminal_begin();
	for (unsigned n = 1; !rc; n++) {
		struct seen *now = &looks[n % LOOKS];
		struct view view = { .before = &looks[(n > LOOKS - 1 ? n + 1 : 0) % LOOKS],
				     .rank = o->rank,
				     .nodes = o->nodes != NULL,
				     .color = 1 };
		char *text = NULL;
		size_t bytes;
		int height;
		FILE *to;

		if (wait_for_key(o, o->interval_ms))
			break;
		seen_free(now);
		rc = read_ranks(o, now);
		to = rc || !now->n ? NULL : open_memstream(&text, &bytes);
		if (!to)
			break;
		screen_size(&view.width, &height);
		show_screen(now, &view, to);
		if (o->nodes)
			print_heard(o->nodes, to);
		if (!fclose(to))
			put_screen(text, height);
		free(text);
	}
	terminal_end();
	for (int i = 0; i < LOOKS; i++)
		seen_free(&looks[i]);
	if (o->nodes && !stopped)
		explain_nodes(o->nodes, "no rank is shown any more");
	return rc;
}

static int run_look(const struct options *o)
{
	struct seen seen = { 0 };
	int rc = look(o, &seen);

	if (!rc && !has_rank(&seen, o->rank))
		rc = EXIT_NONE;
	if (!rc)
		rc = o->mode == MODE_ONCE ? run_once(o, &seen) :
		     o->mode == MODE_LIVE ? run_live(o, &seen) :
					    run_text(o, &seen);
	seen_free(&seen);
	return rc;
}

static int run_nodes(struct options *o)
{
	int rc = EXIT_NONE;

	o->nodes = nodes_begin(o->job, o->interval_ms);
	if (!o->nodes) {
		fprintf(stderr, "sluice-top: srun cannot be started: %s\n", strerror(errno));
		return EXIT_NONE;
	}
	if (!await_nodes(o, o->mode != MODE_LIVE))
		rc = run_look(o);
	nodes_end(o->nodes);
	return rc;
}

/* ---- the command line ----------------------------------------------------------------------- */

static int bad_usage(const char *format, const char *what)
{
	fputs("sluice-top: ", stderr);
	fprintf(stderr, "%s%s; see sluice-top --help\n", format, what);
	return EXIT_BAD_USAGE;
}

/* Returns 1 if another option has set another mode. */
static int set_mode(struct options *o, enum mode mode)
{
	const int another = o->mode != MODE_LIVE && o->mode != mode;

	o->mode = mode;
	return another;
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option table[] = { { "job", required_argument, NULL, 'j' },
					       { "all", no_argument, NULL, 'a' },
					       { "rank", required_argument, NULL, 'r' },
					       { "interval", required_argument, NULL, 'i' },
					       { "once", no_argument, NULL, 'o' },
					       { "json", no_argument, NULL, 'J' },
					       { "openmetrics", no_argument, NULL, 'M' },
					       { "merge", no_argument, NULL, 'm' },
					       { "nodes", no_argument, NULL, 'n' },
					       { "relay", no_argument, NULL, 'R' },
					       { "help", no_argument, NULL, 'h' },
					       { "version", no_argument, NULL, 'V' },
					       { NULL, 0, NULL, 0 } };
	char refused[REFUSED_BYTES], *end;
	double seconds;
	long rank;
	int key, modes = 0;

	opterr = 0;
	while ((key = getopt_long(argc, argv, ":", table, NULL)) != -1)
		switch (key) {
		case 'h': print_help(); return -1;
		case 'V': printf("sluice-top (Sluice) %s\n", sluice_version(NULL)); return -1;
		case 'j': o->job = optarg; break;
		case 'a': o->all = 1; break;
		case 'o': modes |= set_mode(o, MODE_ONCE); break;
		case 'J': modes |= set_mode(o, MODE_JSON); break;
		case 'M': modes |= set_mode(o, MODE_OPENMETRICS); break;
		case 'm': modes |= set_mode(o, MODE_MERGE); break;
		case 'n': o->all_nodes = 1; break;
		case 'R': o->mode = MODE_RELAY; break;
		case 'r':
			rank = strtol(optarg, &end, 10);
			if (*end || end == optarg || rank < 0 || rank > 1 << 20)
				return bad_usage("--rank takes a number, not ", optarg);
			o->rank = (int)rank;
			break;
		case 'i':
			seconds = strtod(optarg, &end);
			if (*end || end == optarg || !(seconds >= 0.1 && seconds <= 60))
				return bad_usage("--interval takes 0.1 to 60 seconds, not ",
						 optarg);
			o->interval_ms = (int)(seconds * 1000);
			break;
		case ':': return bad_usage(argv[optind - 1], " needs an argument");
		default:
			return bad_usage("unknown, ambiguous or malformed option ",
					 refused_option(argv, table, refused));
		}
	if (modes)
		return bad_usage("only one of --once, --json, --openmetrics and --merge", "");
	if (o->mode == MODE_MERGE && (o->job || o->all || o->all_nodes || o->rank >= 0))
		return bad_usage("--merge takes files only, without another option", "");
	if (o->mode == MODE_MERGE)
		return optind < argc ? 0 : bad_usage("--merge needs files", "");
	if (optind < argc)
		return bad_usage("it takes options only, not ", argv[optind]);
	if (o->job && o->all)
		return bad_usage("one of --job and --all", "");
	if (!o->job && !o->all && getenv("SLURM_JOB_ID"))
		o->job = getenv("SLURM_JOB_ID");
	if (o->all_nodes && (o->all || !o->job || !isdigit((unsigned char)*o->job)))
		return bad_usage("--nodes needs --job with the number of a Slurm job", "");
	if (o->mode == MODE_LIVE && !isatty(STDOUT_FILENO))
		o->mode = MODE_ONCE;
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = { .rank = -1, .interval_ms = 1000 };
	int rc = parse(argc, argv, &o);

	if (rc < 0)
		return fflush(stdout) ? EXIT_NONE : EXIT_SUCCESS;
	if (rc)
		return rc;
	rc = o.mode == MODE_MERGE ? run_merge(argv + optind, argc - optind) :
	     o.mode == MODE_RELAY ? run_relay(&o) :
	     o.all_nodes          ? run_nodes(&o) :
				    run_look(&o);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "sluice-top: cannot write to stdout\n");
		return EXIT_NONE;
	}
	return rc;
}
