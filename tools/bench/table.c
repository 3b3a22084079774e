/* SPDX-License-Identifier: BSD-3-Clause
 * See table.h. */
#include "tools/bench/table.h"
#include "tools/json.h"
#include <math.h>
#include <string.h>

static int rows; /* number of printed rows, for the commas of JSON */
static int with_limits;

/* Writes the perftest commands whose latency and bandwidth can be compared with this row, or "". */
static void perftest_commands(enum test test, size_t bytes, char *latency, char *bandwidth,
			      size_t capacity)
{
	static const char *const programs[][2] = {
		[TEST_PUT] = { "ib_write_lat", "ib_write_bw" },
		[TEST_GET] = { "ib_read_lat", "ib_read_bw" },
		[TEST_NOTIFY] = { "ib_send_lat", "ib_send_bw" },
		[TEST_STEP] = { "", "" },
		[TEST_SELECT] = { "", "" },
	};

	latency[0] = bandwidth[0] = '\0';
	if (test == TEST_STEP || test == TEST_SELECT)
		return;
	snprintf(latency, capacity, "%s -F -s %zu -d DEVICE -x GID", programs[test][0], bytes);
	snprintf(bandwidth, capacity, "%s -F -s %zu -d DEVICE -x GID", programs[test][1], bytes);
}

void table_begin(const struct options *o, sluice_job *job, int second, const char *transport,
		 int limits, int settings)
{
	rows = 0;
	with_limits = limits;
	if (o->json) {
		printf("{\"tool\":\"sluice-bench\",\"version\":");
		json_text(stdout, sluice_version(NULL));
		printf(",\"test\":\"%s\",\"transport\":", test_name(o->test));
		json_text(stdout, transport);
		printf(",\"ranks\":[0,%d],\"nodes\":[", second);
		json_text(stdout, sluice_node(job, 0));
		putchar(',');
		json_text(stdout, sluice_node(job, second));
		printf("],\"rows\":[");
		return;
	}
	printf("%s: rank 0 (%s) with rank %d (%s) over %s; Sluice %s\n", test_name(o->test),
	       sluice_node(job, 0), second, sluice_node(job, second), transport,
	       sluice_version(NULL));
	if (limits)
		puts("limit: memcpy and cache-line ping-pong between the same two processes, same "
		     "run; x: Sluice / limit");
	else if (o->limit && !strcmp(transport, "verbs"))
		puts("limit: compare with the perftest commands below (server: without, client: "
		     "with the server's name; sluice-info names DEVICE and GID)");
	else if (o->limit)
		puts("limit: not measured, the two ranks share no memory");
	if (settings)
		printf("%7s %7s ", "windows", "relaxed");
	printf("%10s %10s %10s %10s %11s %12s", "bytes", "p50 us", "p99 us", "max us", "MB/s",
	       "messages/s");
	puts(limits ? "  limit us     x   limit MB/s     x" : "");
}

static void put_json(const struct options *o, const char *transport, const struct row *r)
{
	char latency[96], bandwidth[96];
	const struct {
		const char *name;
		double value;
	} fields[] = {
		{ "us_p50", r->us.p50 },
		{ "us_p99", r->us.p99 },
		{ "us_max", r->us.max },
		{ "bytes_per_second", r->bandwidth },
		{ "messages_per_second", r->rate },
		{ "limit_us", r->limit_us },
		{ "limit_bytes_per_second", r->limit_bandwidth },
	};

	printf("%s\n{\"bytes\":%zu,\"rounds\":%zu", rows ? "," : "", r->bytes, r->us.n);
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (i < 5 || o->limit) {
			printf(",\"%s\":", fields[i].name);
			json_number(stdout, fields[i].value);
		}
	if (r->windows)
		printf(",\"windows\":\"%s\",\"relaxed_ordering\":\"%s\"", r->windows, r->ordering);
	if (o->limit && !strcmp(transport, "verbs")) {
		perftest_commands(o->test, r->bytes, latency, bandwidth, sizeof latency);
		printf(",\"compare\":[");
		json_text(stdout, latency);
		putchar(',');
		json_text(stdout, bandwidth);
		putchar(']');
	}
	putchar('}');
}

void table_row(const struct options *o, const char *transport, const struct row *r)
{
	char latency[96], bandwidth[96];

	if (o->json) {
		put_json(o, transport, r);
		rows++;
		return;
	}
	if (r->windows)
		printf("%7s %7s ", r->windows, r->ordering);
	printf("%10zu %10.2f %10.2f %10.2f %11.1f %12.0f", r->bytes, r->us.p50, r->us.p99,
	       r->us.max, r->bandwidth / 1e6, r->rate);
	if (with_limits)
		printf("  %8.2f %5.2f %12.1f %5.2f", r->limit_us, r->us.p50 / r->limit_us,
		       r->limit_bandwidth / 1e6, r->bandwidth / r->limit_bandwidth);
	putchar('\n');
	if (o->limit && !strcmp(transport, "verbs")) {
		perftest_commands(o->test, r->bytes, latency, bandwidth, sizeof latency);
		printf("%10s   %s; %s\n", "", latency, bandwidth);
	}
	fflush(stdout);
	rows++;
}

void table_end(const struct options *o)
{
	if (o->json)
		printf("\n]}\n");
}
