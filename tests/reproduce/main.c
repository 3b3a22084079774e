/* SPDX-License-Identifier: BSD-3-Clause
 * reproduce: runs the reproductions of the published methods through the runtime and writes one
 * page. Each section runs in its own process, a few at a time. If one dies, its row reports
 * that. */
#include "tests/reproduce/memory.h"
#include "tests/reproduce/page.h"
#include "base/clock.h"
#include <errno.h>
#include <getopt.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECTIONS_MOST = 32, PARTS = 3 };

struct part {
	pid_t pid;
	FILE *file; /* rows, runs and text, each followed by a zero byte */
	char *text[PARTS];
	int status;
	double seconds;
	uint64_t started;
};

static const char usage[] =
	"Usage: reproduce [OPTION]...\n"
	"Run the reproductions of the published methods and write the page of their results.\n"
	"\n"
	"  --output FILE   the page (default RESULTS.md)\n"
	"  --a9a FILE      the public a9a set, LIBSVM text, plain or .gz (default $A9A)\n"
	"  --text FILE     tiny Shakespeare, plain or .gz, for section 14 (default $TEXT)\n"
	"  --figures DIR   where runs leave what sluice-plot draws (default: nowhere)\n"
	"  --only N[,N]..  these sections only\n"
	"  --jobs N        sections at a time, and runs of section 14 (default 2)\n"
	"  --quick         small sizes: whether everything still runs; no criterion is judged by "
	"it\n"
	"  --help          this text\n"
	"\n"
	"Exit status: 0, 1 if a criterion failed or the page could not be written, 2 for wrong "
	"options.\n";

/* Warnings of the guard against divergence in this section, in memory that is shared with the
 * processes of its runs. */
static struct guard {
	atomic_int n;
	char first[400];
} * guard;

/* The row of a run has the reason why it ended. The same log line from hundreds of ranks would hide
 * it. */
static void listen(int level, const char *line, void *context)
{
	const char *warning = strstr(line, ": the training ");

	(void)level;
	(void)context;
	if (warning && !atomic_fetch_add(&guard->n, 1))
		snprintf(guard->first, sizeof(guard->first), "%s", warning + 2);
}

/* Fails if the guard has warned, because every run should converge. */
static void judge_guard(struct page *page)
{
	static const struct claim silent = { "guard=warn",
					     "no training is taken for one that diverges",
					     "no warning in any run of the section" };

	if (guard->n)
		page_row(page, &silent, VERDICT_FAILS, "%d warnings, the first: %s", guard->n,
			 guard->first);
}

static void write_section(const struct section *s, const struct options *options, FILE *file)
{
	struct page page;

	guard = mmap(NULL, sizeof(*guard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (guard == MAP_FAILED) {
		perror("reproduce: no memory for a section");
		_exit(2);
	}
	page_open(&page, s->number, options);
	s->write(&page);
	judge_guard(&page);
	page_close(&page);
	fwrite(page.rows, 1, page.rows_bytes + 1, file);
	fwrite(page.runs, 1, page.runs_bytes + 1, file);
	fwrite(page.text, 1, page.text_bytes + 1, file);
	fflush(file);
	_exit(ferror(file) ? 2 : page.failed ? 1 : 0);
}

static int start_section(const struct section *s, const struct options *options, struct part *part)
{
	part->file = tmpfile();
	part->started = now_ns();
	fflush(NULL);
	part->pid = part->file ? fork() : -1;
	if (part->pid < 0) {
		perror("reproduce: cannot start a section");
		return -1;
	}
	if (!part->pid)
		write_section(s, options, part->file);
	return 0;
}

/* Reads the three texts of a section that has ended. */
static void read_part(struct part *part)
{
	size_t capacity = 0;

	rewind(part->file);
	for (int i = 0; i < PARTS; i++)
		if (getdelim(&part->text[i], &capacity, '\0', part->file) < 0) {
			free(part->text[i]);
			part->text[i] = NULL;
		} else {
			capacity = 0;
		}
	fclose(part->file);
}

static int end_section(struct part *parts, size_t n)
{
	int status;
	pid_t pid = wait(&status);

	for (size_t i = 0; i < n; i++)
		if (pid > 0 && parts[i].pid == pid) {
			parts[i].status = status;
			parts[i].seconds = (double)(now_ns() - parts[i].started) / 1e9;
			parts[i].pid = 0;
			read_part(&parts[i]);
			return 0;
		}
	return -1;
}

static int run_sections(const struct section **wanted, size_t n, const struct options *options,
			struct part *parts)
{
	size_t started = 0, ended = 0;

	while (ended < n) {
		if (started < n && started - ended < (size_t)options->jobs) {
			if (start_section(wanted[started], options, &parts[started]))
				return -1;
			started++;
		} else {
			if (end_section(parts, n))
				return -1;
			ended++;
		}
	}
	return 0;
}

static void print_part(FILE *out, const struct section *s, const struct part *part)
{
	fprintf(out, "\n## %d. %s\n\n", s->number, s->title);
	if (!part->text[0])
		return;
	if (part->text[1] && *part->text[1])
		fprintf(out,
			"| run | recipe | bytes up | bytes down | elements up | elements down | s "
			"|\n"
			"| --- | --- | --- | --- | --- | --- | --- |\n%s\n",
			part->text[1]);
	fputs(part->text[2] ? part->text[2] : "", out);
}

static void print_page(FILE *out, const struct section **wanted, size_t n, const struct part *parts,
		       const char *command, double seconds)
{
	char date[32];
	time_t now = time(NULL);
	struct utsname machine = { .machine = "" };

	strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&now));
	uname(&machine);
	fprintf(out,
		"# Reproductions of the published methods\n\n"
		"Written by `make reproduce` (%s) on %s, %s %s, in %.0f s. To repeat a section:\n"
		"`tests/reproduce/reproduce --only N`.\n\n"
		"Every run goes through the runtime: sluice_push(), messages, the shard's "
		"reduction and\n"
		"update, publishing, sluice_pull(), on ranks of sluice_simulate(): W workers and "
		"one server\n"
		"that owns the only shard, so that every message crosses and is counted. Bytes are "
		"sums over\n"
		"all steps and workers, headers included; elements are means of a step of a "
		"worker. Objectives\n"
		"are evaluated in double precision at the float32 parameters. A section in which "
		"the guard\n"
		"against divergence warned has a row that fails.\n\n"
		"| section | method | claim | criterion | observed | verdict | recipe | bytes up / "
		"down |\n"
		"| --- | --- | --- | --- | --- | --- | --- | --- |\n",
		command, date, machine.sysname, machine.machine, seconds);
	for (size_t i = 0; i < n; i++)
		if (parts[i].text[0])
			fputs(parts[i].text[0], out);
		else
			fprintf(out,
				"| %d | %s | - | - | the section ended by %s %d | **fails** | - | "
				"- |\n",
				wanted[i]->number, wanted[i]->title,
				WIFSIGNALED(parts[i].status) ? "signal" : "status",
				WIFSIGNALED(parts[i].status) ? WTERMSIG(parts[i].status) :
							       WEXITSTATUS(parts[i].status));
	for (size_t i = 0; i < n; i++)
		print_part(out, wanted[i], &parts[i]);
	fprintf(out, "\n## Time\n\n| section | s |\n| --- | --- |\n");
	for (size_t i = 0; i < n; i++)
		fprintf(out, "| %d | %.0f |\n", wanted[i]->number, parts[i].seconds);
}

static void free_parts(struct part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (int t = 0; t < PARTS; t++)
			free(parts[i].text[t]);
}

static int write_page(const char *path, const struct section **wanted, size_t n,
		      const struct part *parts, const char *command, double seconds)
{
	FILE *out = fopen(path, "w");

	if (out)
		print_page(out, wanted, n, parts, command, seconds);
	if (!out || ferror(out) || fclose(out)) {
		fprintf(stderr, "reproduce: cannot write %s: %s\n", path, strerror(errno));
		return 1;
	}
	fprintf(stderr, "reproduce: wrote %s\n", path);
	for (size_t i = 0; i < n; i++)
		if (parts[i].status)
			return 1;
	return 0;
}

/* Returns 1 if the number is in the list N,N,... or the list is empty, and -1 if the list is
 * invalid. */
static int listed(const char *list, int number)
{
	while (list && *list) {
		char *end;
		long n = strtol(list, &end, 10);

		if (end == list || (*end && *end != ','))
			return -1;
		if (n == number)
			return 1;
		list = *end ? end + 1 : end;
		if (!*list)
			return 0;
	}
	return 1;
}

static int misuse(const char *what)
{
	fprintf(stderr, "reproduce: %s; see reproduce --help\n", what);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = { { "output", required_argument, NULL, 'o' },
						      { "a9a", required_argument, NULL, 'a' },
						      { "text", required_argument, NULL, 't' },
						      { "figures", required_argument, NULL, 'f' },
						      { "only", required_argument, NULL, 'n' },
						      { "jobs", required_argument, NULL, 'j' },
						      { "quick", no_argument, NULL, 'q' },
						      { "help", no_argument, NULL, 'h' },
						      { NULL, 0, NULL, 0 } };
	const char *output = "RESULTS.md", *only = NULL;
	struct options options = { .a9a = getenv("A9A"), .text = getenv("TEXT"), .jobs = 2 };
	const struct section *wanted[SECTIONS_MOST];
	struct part parts[SECTIONS_MOST] = { { .pid = 0 } };
	char command[512] = "";
	size_t n = 0;
	int c;

	for (int i = 0; i < argc; i++)
		snprintf(command + strlen(command), sizeof command - strlen(command), "%s%s",
			 i ? " " : "", argv[i]);
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		switch (c) {
		case 'o': output = optarg; break;
		case 'a': options.a9a = optarg; break;
		case 't': options.text = optarg; break;
		case 'f': options.figures = optarg; break;
		case 'n': only = optarg; break;
		case 'j': options.jobs = atoi(optarg); break;
		case 'q': options.quick = 1; break;
		case 'h': fputs(usage, stdout); return 0;
		default: return 2;
		}
	if (optind < argc)
		return misuse("takes options only");
	if (options.jobs < 1)
		return misuse("--jobs takes a number from 1");
	if (listed(only, 0) < 0)
		return misuse("--only takes numbers of sections");
	for (size_t i = 0; i < n_sections && n < SECTIONS_MOST; i++)
		if (listed(only, sections[i].number) == 1)
			wanted[n++] = &sections[i];
	if (!n)
		return misuse("--only names no section");
	sluice_set_log(listen, NULL);
	uint64_t start = now_ns();
	if (run_sections(wanted, n, &options, parts)) {
		fprintf(stderr, "reproduce: the sections could not be run\n");
		return 1;
	}
	int status = write_page(output, wanted, n, parts, command,
				(double)(now_ns() - start) / 1e9);

	free_parts(parts, n);
	return status;
}
