/* SPDX-License-Identifier: BSD-3-Clause
 * The reports of the leader, which is rank 0 unless it is lost. The live line shows the leader's
 * own bytes, because no message is sent for it; the lines per epoch and the last line are sums over
 * all workers. */
#include "tools/train/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
	LINE_BYTES = 512,
	BYTES_TEXT = 16,
	TRAFFIC_TEXT = 4 * BYTES_TEXT + 64,
	BAR_CELLS = 20,
	DEFAULT_COLUMNS = 120
};

static const double redraw_seconds = 0.1, plain_seconds = 10;

double report_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* "1.23 MB" */
static const char *bytes_text(double bytes, char text[BYTES_TEXT])
{
	static const char *const unit[] = { "B", "kB", "MB", "GB", "TB" };
	size_t i = 0;

	while (bytes >= 999.5 && i + 1 < sizeof(unit) / sizeof(unit[0])) {
		bytes /= 1000;
		i++;
	}
	snprintf(text, BYTES_TEXT, "%.*f %s", i && bytes < 99.95 ? 1 : 0, bytes, unit[i]);
	return text;
}

/* Returns "up 1.2 MB down 3.4 MB (dense 50.0 MB)", or the traffic within ranks if nothing was
 * sent. */
static const char *traffic_text(const struct traffic *t, char text[TRAFFIC_TEXT])
{
	const int within = t->pushed + t->pulled == 0 && t->own_pushed + t->own_pulled > 0;
	char up[BYTES_TEXT], down[BYTES_TEXT], dense[BYTES_TEXT];

	snprintf(text, TRAFFIC_TEXT, "%sup %s down %s (dense %s)",
		 within ? "nothing over the network, within ranks " : "",
		 bytes_text(within ? t->own_pushed : t->pushed, up),
		 bytes_text(within ? t->own_pulled : t->pulled, down),
		 bytes_text(within ? t->own_dense : t->dense, dense));
	return text;
}

static size_t terminal_columns(void)
{
	struct winsize size;
	const char *columns = getenv("COLUMNS");

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return columns && atoi(columns) > 0 ? (size_t)atoi(columns) : DEFAULT_COLUMNS;
}

static void clear_live_line(struct report *report)
{
	if (report->drawn)
		fputs("\r\033[K", stderr);
	report->drawn = 0;
}

void report_say(struct report *report, const char *format, ...)
{
	va_list arguments;

	if (!report->speaks)
		return;
	clear_live_line(report);
	fputs("sluice-train: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

void report_begin(struct report *report, const struct options *options, int rank,
		  uint64_t first_step, uint64_t steps, uint64_t steps_per_epoch,
		  double images_per_step)
{
	*report = (struct report){
		.options = options,
		.leads = rank == 0,
		.speaks = rank == 0 && !options->quiet,
		.live = options->progress == PROGRESS_ALWAYS ||
			(options->progress == PROGRESS_AUTO && isatty(STDERR_FILENO)),
		.steps = steps,
		.steps_per_epoch = steps_per_epoch,
		.images_per_step = images_per_step,
		.began = report_clock(),
		.first_step = first_step,
		.accuracy = -1,
	};
	report->shown = report->epoch_began = report->began;
}

void report_leader(struct report *report, int leads, int lost)
{
	report->leads = leads;
	report->lost = lost;
	report->speaks = leads && !report->options->quiet;
}

/* Writes the progress line, with the most important parts first, because a narrow terminal may cut
 * it. */
static void compose(const struct report *report, const struct traffic *own, uint64_t step,
		    double now, char line[LINE_BYTES])
{
	uint64_t epoch = (step - 1) / report->steps_per_epoch;
	uint64_t in_epoch = step - epoch * report->steps_per_epoch;
	size_t cells = (size_t)(BAR_CELLS * in_epoch / report->steps_per_epoch);
	double per_step = (now - report->began) / (double)(step - report->first_step);
	double left = per_step * (double)(report->steps - step);
	double epoch_seconds = now - report->epoch_began;
	char bar[BAR_CELLS + 1], moved[TRAFFIC_TEXT], accuracy[32] = "";

	memset(bar, '=', cells);
	memset(bar + cells, ' ', BAR_CELLS - cells);
	bar[BAR_CELLS] = '\0';
	if (report->accuracy >= 0)
		snprintf(accuracy, sizeof(accuracy), " accuracy %.4f", report->accuracy);
	snprintf(line, LINE_BYTES,
		 "epoch %llu/%llu [%s] %lld:%02lld left, loss %.4f%s, %s, %.0f images/s",
		 (unsigned long long)epoch + 1, (unsigned long long)report->options->epochs, bar,
		 (long long)left / 60, (long long)left % 60,
		 report->loss_sum / (double)report->loss_steps, accuracy, traffic_text(own, moved),
		 epoch_seconds > 0 ?
			 (double)report->loss_steps * report->images_per_step / epoch_seconds :
			 0);
}

void report_step(struct report *report, sluice_model *model, uint64_t step, double loss)
{
	double now, pause = report->live ? redraw_seconds : plain_seconds;
	struct traffic own;
	char line[LINE_BYTES];

	report->loss_sum += loss;
	report->loss_steps++;
	if (!report->speaks || report->options->progress == PROGRESS_NEVER)
		return;
	now = report_clock();
	if (now - report->shown < pause || traffic_own(model, &own))
		return;
	report->shown = now;
	compose(report, &own, step, now, line);
	if (!report->live) {
		report_say(report, "%s", line);
		return;
	}
	line[terminal_columns() < LINE_BYTES ? terminal_columns() - 1 : LINE_BYTES - 1] = '\0';
	fprintf(stderr, "\r%s\033[K", line);
	report->drawn = 1;
}

void report_epoch(struct report *report, const struct network *network, uint64_t epoch,
		  const struct score *test, const struct traffic *total)
{
	double now = report_clock(), loss = test->loss / test->rows;
	char moved[TRAFFIC_TEXT], rmse[32] = "";

	report->accuracy = test->correct / test->rows;
	if (network->loss == LOSS_SQUARED)
		snprintf(rmse, sizeof(rmse), ", rmse %.4f", sqrt(loss));
	report_say(report,
		   "epoch %llu/%llu: loss %.4f, test loss %.4f%s, accuracy %.4f; so far %s; "
		   "%.0f images/s",
		   (unsigned long long)epoch, (unsigned long long)report->options->epochs,
		   report->loss_steps ? report->loss_sum / (double)report->loss_steps : (double)NAN,
		   loss, rmse, report->accuracy, traffic_text(total, moved),
		   now > report->epoch_began ?
			   (double)report->loss_steps * report->images_per_step /
				   (now - report->epoch_began) :
			   0);
	report->loss_sum = 0;
	report->loss_steps = 0;
	report->epoch_began = now;
}

void report_carried(struct report *report, const struct carried *carried)
{
	char line[LINE_BYTES] = "";

	for (int i = 0; i < CARRIERS; i++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), " %s=%.0f",
			 carrier_names[i], carried->bytes[i]);
	report_say(report, "bytes by transport, put and got by all workers:%s", line);
}

static int flush_last_line(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	fputs("sluice-train: cannot write the last line to stdout\n", stderr);
	return -1;
}

int report_final(struct report *report, uint64_t step, const struct score *test,
		 const struct traffic *total, uint64_t digest)
{
	clear_live_line(report);
	if (!report->leads)
		return 0;
	printf("final accuracy=%.4f loss=%.4f steps=%llu seconds=%.2f pushed=%.0f pulled=%.0f "
	       "dense=%.0f "
	       "digest=%016llx lost=%d\n",
	       test->correct / test->rows, test->loss / test->rows, (unsigned long long)step,
	       report_clock() - report->began, total->pushed, total->pulled, total->dense,
	       (unsigned long long)digest, report->lost);
	return flush_last_line();
}

int report_interrupted(struct report *report, uint64_t step, const char *checkpoint)
{
	clear_live_line(report);
	if (!report->leads)
		return 0;
	printf("interrupted step=%llu checkpoint=%s\n", (unsigned long long)step, checkpoint);
	return flush_last_line();
}
