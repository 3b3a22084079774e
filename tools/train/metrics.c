/* SPDX-License-Identifier: BSD-3-Clause
 * One JSON object per step. pushed, pulled, dense and loss are over all workers; times, densities,
 * counts and norms are rank 0's. */
#include "tools/train/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int traffic_own(sluice_model *model, struct traffic *own)
{
	/* The size excludes residual_norm, which would cost a pass over the residual. */
	sluice_model_stats stats = { .size = offsetof(sluice_model_stats, residual_norm) };
	int rc = sluice_stats(model, &stats);

	if (!rc && !stats.pushed_bytes && !stats.pulled_bytes) {
		stats = (sluice_model_stats){ .size = sizeof(stats) }; /* for the own_* members,
									  which come after
									  residual_norm */
		rc = sluice_stats(model, &stats);
	}
	if (rc)
		return rc;
	own->pushed = (double)stats.pushed_bytes;
	own->pulled = (double)stats.pulled_bytes;
	own->dense = (double)stats.dense_bytes;
	own->own_pushed = (double)stats.own_pushed_bytes;
	own->own_pulled = (double)stats.own_pulled_bytes;
	own->own_dense = (double)stats.own_dense_bytes;
	return 0;
}

const char *const carrier_names[CARRIERS] = { "self", "shm", "verbs", "ofi" };

int carried_own(sluice_job *job, struct carried *own)
{
	enum { MOST = 8 };
	sluice_transport_stats stats[MOST] = { { .size = sizeof(stats[0]) } };
	size_t n = 0;
	int rc = sluice_transports(job, stats, MOST, &n);

	if (rc)
		return rc;
	*own = (struct carried){ { 0 } };
	for (size_t t = 0; t < n && t < MOST; t++)
		for (int i = 0; i < CARRIERS; i++)
			if (!strcmp(stats[t].name, carrier_names[i]))
				own->bytes[i] = (double)stats[t].put_bytes +
						(double)stats[t].get_bytes;
	return 0;
}

static const char line_begin[] = "{\"step\":";

static int number_in(const char *line, const char *key, double *value)
{
	const char *at = strstr(line, key);

	return at && sscanf(at + strlen(key), "%lf", value) == 1;
}

/* Reads the totals of the last line of a regular file. Removes what follows it, which is a part of
 * a line that a killed job was writing. Returns -1 if the file does not end so. */
static int continue_file(struct metrics *m, int fd)
{
	enum { LONGEST = 1 << 16 };
	char tail[LONGEST + 1];
	const off_t size = lseek(fd, 0, SEEK_END), begin = size > LONGEST ? size - LONGEST : 0;

	if (size < 0 || pread(fd, tail, (size_t)(size - begin), begin) != size - begin)
		return -1;
	tail[size - begin] = 0;
	char *end = strrchr(tail, '\n'), *rest = end ? end + 1 : tail;
	if (strncmp(rest, line_begin, strnlen(rest, strlen(line_begin))))
		return -1;
	if (end) {
		*end = 0;
		const char *last = strrchr(tail, '\n');

		last = last ? last + 1 : tail;
		if (strncmp(last, line_begin, strlen(line_begin)) ||
		    !number_in(last, "\"pushed_total\":", &m->before.pushed) ||
		    !number_in(last, "\"pulled_total\":", &m->before.pulled) ||
		    !number_in(last, "\"dense_total\":", &m->before.dense) ||
		    !number_in(last, "\"seconds\":", &m->seconds_before))
			return -1;
	}
	return *rest ? ftruncate(fd, begin + (rest - tail)) : 0;
}

int metrics_open(struct metrics *metrics, const char *path, int append, struct complaint *complaint)
{
	metrics->path = path;
	struct stat is;
	const int regular = append && !stat(path, &is) && S_ISREG(is.st_mode);
	/* Only its owner can read a new file. */
	int fd = open(path,
		      O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC) |
			      (regular ? O_RDWR : O_WRONLY),
		      0600);

	if (regular && fd >= 0 && continue_file(metrics, fd)) {
		complain(complaint,
			 "%s does not end with a line of metrics: name another file with --metrics",
			 path);
		close(fd);
		return -1;
	}
	metrics->file = fd < 0 ? NULL : fdopen(fd, append ? "a" : "w");
	if (!metrics->file) {
		complain(complaint, "cannot write metrics to %s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return 0;
}

/* JSON has neither NaN nor infinity. */
static void put_number(FILE *file, const char *name, double value)
{
	if (isfinite(value))
		fprintf(file, ",\"%s\":%.9g", name, value);
	else
		fprintf(file, ",\"%s\":null", name);
}

static void put_bytes(FILE *file, const char *name, double value)
{
	fprintf(file, ",\"%s\":%.0f", name, value);
}

static void put_time(FILE *file, const char *name, uint64_t now_ns, uint64_t last_ns)
{
	fprintf(file, ",\"%s\":%.9f", name, (double)(now_ns - last_ns) * 1e-9);
}

/* Writes the counts of this step. */
static void put_counts(FILE *file, const sluice_model_stats *now, const sluice_model_stats *last,
		       int skipped)
{
	enum { BEHIND = sizeof(now->staleness) / sizeof(now->staleness[0]) };

	fprintf(file,
		",\"sent\":%llu,\"received\":%llu,\"deferred\":%llu,\"skipped\":%llu,"
		"\"staleness\":",
		(unsigned long long)(now->pushed_elements - last->pushed_elements),
		(unsigned long long)(now->pulled_elements - last->pulled_elements),
		(unsigned long long)(now->deferred_elements - last->deferred_elements),
		(unsigned long long)(now->skipped_pushes - last->skipped_pushes) +
			(unsigned long long)(skipped != 0));
	for (int i = 0; i < BEHIND; i++)
		fprintf(file, "%c%llu", i ? ',' : '[',
			(unsigned long long)(now->staleness[i] - last->staleness[i]));
	fprintf(file, "],\"staleness_most\":%llu", (unsigned long long)now->staleness_most);
}

static void put_line(struct metrics *m, const struct metrics_step *step, double loss,
		     const struct traffic *total, const struct carried *carried,
		     const sluice_model_stats *own)
{
	FILE *file = m->file;
	double took = step->seconds - m->last;

	fprintf(file, "%s%llu,\"epoch\":%llu", line_begin, (unsigned long long)step->step,
		(unsigned long long)step->epoch);
	put_number(file, "loss", loss);
	put_number(file, "lr", step->lr);
	if (step->test) {
		put_number(file, "accuracy", step->test->correct / step->test->rows);
		put_number(file, "test_loss", step->test->loss / step->test->rows);
	}
	put_bytes(file, "pushed", total->pushed - m->total.pushed);
	put_bytes(file, "pulled", total->pulled - m->total.pulled);
	put_bytes(file, "dense", total->dense - m->total.dense);
	put_bytes(file, "pushed_total", m->before.pushed + total->pushed);
	put_bytes(file, "pulled_total", m->before.pulled + total->pulled);
	put_bytes(file, "dense_total", m->before.dense + total->dense);
	for (int i = 0; i < CARRIERS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "bytes_%s", carrier_names[i]);
		put_bytes(file, name, carried->bytes[i] - m->carried.bytes[i]);
	}
	put_number(file, "seconds", m->seconds_before + step->seconds);
	put_number(file, "images_per_second", took > 0 ? step->images / took : 0);
	put_number(file, "density_up", own->density_up);
	put_number(file, "density_down", own->density_down);
	put_number(file, "bits_up", (double)own->bits_up);
	put_number(file, "bits_down", (double)own->bits_down);
	put_number(file, "residual_norm", own->residual_norm);
	put_number(file, "shard_residual_norm", own->shard_residual_norm);
	if (m->measured) {
		put_number(file, "compression_error", own->compression_error);
		put_number(file, "compression_error_down", own->compression_error_down);
	}
	if (own->threshold_up > 0)
		put_number(file, "threshold_up", own->threshold_up);
	if (own->threshold_down > 0)
		put_number(file, "threshold_down", own->threshold_down);
	put_counts(file, own, &m->own, step->skipped);
	put_time(file, "compress", own->compress_ns, m->own.compress_ns);
	put_time(file, "push", own->push_ns, m->own.push_ns);
	put_time(file, "wait", own->wait_ns, m->own.wait_ns);
	put_time(file, "pull", own->pull_ns, m->own.pull_ns);
	put_time(file, "apply", own->apply_ns, m->own.apply_ns);
	fputs("}\n", file);
}

/* Called once. The numbers that follow are lost, but the training continues. */
static void check_written(struct metrics *m, int failed)
{
	if (!failed || m->failed)
		return;
	m->failed = 1;
	fprintf(stderr, "sluice-train: rank 0: cannot write metrics to %s: %s; they end here\n",
		m->path, strerror(errno));
}

int metrics_write(struct metrics *m, sluice_job *job, sluice_model *model,
		  const struct metrics_step *step)
{
	sluice_model_stats own = { .size = sizeof(own) };
	struct traffic total;
	struct carried carried;
	double sums[5 + CARRIERS];
	int rc = traffic_own(model, &total);

	if (!rc)
		rc = carried_own(job, &carried);
	if (rc)
		return rc;
	sums[0] = total.pushed;
	sums[1] = total.pulled;
	sums[2] = total.dense;
	sums[3] = step->loss;
	sums[4] = 1; /* number of living workers */
	memcpy(sums + 5, carried.bytes, sizeof(carried.bytes));
	rc = sluice_sum(job, sums, 5 + CARRIERS);
	if (!rc && m->file)
		rc = sluice_stats(model, &own);
	if (rc || !m->file)
		return rc;
	total = (struct traffic){ .pushed = sums[0], .pulled = sums[1], .dense = sums[2] };
	memcpy(carried.bytes, sums + 5, sizeof(carried.bytes));
	if (!m->failed) {
		put_line(m, step, sums[3] / sums[4], &total, &carried, &own);
		check_written(m, fflush(m->file) || ferror(m->file));
	}
	m->total = total;
	m->carried = carried;
	m->own = own;
	m->last = step->seconds;
	return 0;
}

int metrics_close(struct metrics *m)
{
	if (m->file)
		check_written(m, fclose(m->file));
	m->file = NULL;
	return m->failed ? -1 : 0;
}
