/* SPDX-License-Identifier: BSD-3-Clause
 * See verbs_two.h. */
#include "verbs_two.h"
#include "base/log.h"
#include "sluice.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

struct verbs_pair pair;
char logged[65536];

static void take_line(int level, const char *line, void *context)
{
	size_t used = strlen(logged);

	(void)level;
	(void)context;
	snprintf(logged + used, sizeof(logged) - used, "%s\n", line);
}

int fabric_setup(void **state)
{
	(void)state;
	logged[0] = '\0';
	log_set_sink(take_line, NULL);
	fake_reset();
	return 0;
}

void open_pair(uint32_t queue_depth)
{
	int rc = pair_open(&pair, queue_depth);

	if (rc != 0)
		fail_msg("%s\n%s", sluice_last_error(), logged);
}

void close_pair(void)
{
	const char *leak;

	pair_close(&pair);
	leak = fake_leak();
	if (leak != NULL)
		fail_msg("%s", leak);
}

void fill(void *bytes, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(i * 31 + seed + i / 251);
}

int post(int side, enum transfer_kind kind, struct remote *to, const struct region *from, size_t at,
	 size_t n, uint32_t imm)
{
	return verbs_transport.post(pair.e[side],
				    &(struct transfer){ .kind = kind,
							.remote = to,
							.offset = at,
							.local_region = from,
							.local = (uint8_t *)from->base + at,
							.bytes = n,
							.imm = imm,
							.cookie = imm });
}

void check_numbers(int side, int n)
{
	for (int i = 0, seen = 0; i < pair.n_events[side]; i++)
		if (pair.events[side][i].kind == EVENT_IMM)
			assert_int_equal(pair.events[side][i].imm, seen++);
	assert_int_equal(pair_count(&pair, side, EVENT_IMM), n);
}

struct two share_two(void)
{
	struct two x = { 0 };

	assert_int_equal(region_open(BYTES, REGION_WRITE, "inbox", &x.inbox), 0);
	assert_int_equal(region_open(BYTES, REGION_READ, "log", &x.log), 0);
	assert_int_equal(region_open(BYTES, 0, "near", &x.near), 0);
	assert_int_equal(pair_share(&pair, 1, x.inbox, &x.to_inbox), 0);
	assert_int_equal(pair_share(&pair, 1, x.log, &x.to_log), 0);
	return x;
}

void close_two(struct two *x)
{
	verbs_transport.remote_close(&x->to_inbox);
	verbs_transport.remote_close(&x->to_log);
	region_close(&x->inbox);
	region_close(&x->log);
	region_close(&x->near);
}

struct two open_two(uint32_t queue_depth)
{
	open_pair(queue_depth);
	return share_two();
}

void close_all(struct two *x)
{
	close_two(x);
	close_pair();
}

struct large open_large(uint32_t queue_depth)
{
	struct large x = { 0 };

	open_pair(queue_depth);
	assert_int_equal(region_open(LARGE, REGION_WRITE | REGION_READ, "far", &x.far), 0);
	assert_int_equal(region_open(LARGE, 0, "near", &x.near), 0);
	assert_int_equal(pair_share(&pair, 1, x.far, &x.to), 0);
	fill(x.far->base, LARGE, 1);
	fill(x.near->base, LARGE, 2);
	return x;
}

void close_large(struct large *x)
{
	verbs_transport.remote_close(&x->to);
	region_close(&x->far);
	region_close(&x->near);
	close_pair();
}
