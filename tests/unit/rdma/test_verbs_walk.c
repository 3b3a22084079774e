/* SPDX-License-Identifier: BSD-3-Clause
 * Every fallible call of the verbs transport fails once: the n-th call of a whole run (open,
 * connect, move, reconnect, move again, close), for n = 1, 2, ... until a run has fewer calls. Each
 * run succeeds or ends with an error and a message, and nothing is left open. */
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include "verbs_pair.h"
#include "cases.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 8192, LIVES_MAX = 2000 };

void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return fake_fails("calloc", ENOMEM) ? NULL : __real_calloc(n, size);
}

static struct verbs_pair pair;
static int without_ip;

struct memories {
	struct region *inbox, *near;
	struct remote *to_inbox;
};

static void swallow(int level, const char *line, void *context)
{
}

static int post(struct memories *m, enum transfer_kind kind, uint32_t imm)
{
	return verbs_transport.post(pair.e[0],
				    &(struct transfer){ .kind = kind,
							.remote = m->to_inbox,
							.local_region = m->near,
							.local = m->near->base,
							.bytes = kind == TRANSFER_GET ? 0 : 4000,
							.imm = imm,
							.cookie = imm });
}

/* Returns 0 or an error; -1 with a message means that the test has failed. */
static int move_once(struct memories *m, uint32_t number)
{
	int rc = post(m, TRANSFER_PUT_NOTIFY, number);

	if (rc == 0 && pair_wait(&pair, 1, EVENT_IMM, (int)number + 1) < 0)
		rc = pair_count(&pair, 0, EVENT_GONE) + pair_count(&pair, 1, EVENT_GONE) > 0 ?
			     SLUICE_EPEER :
			     -1;
	if (rc == 0)
		assert_memory_equal(m->inbox->base, m->near->base, 4000);
	return rc;
}

static int live(struct memories *m)
{
	int rc = pair_open(&pair, 32);

	if (rc == 0)
		rc = region_open(BYTES, REGION_WRITE, "inbox", &m->inbox);
	if (rc == 0)
		rc = region_open(BYTES, 0, "near", &m->near);
	if (rc == 0)
		rc = pair_share(&pair, 1, m->inbox, &m->to_inbox);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < BYTES; i++)
		((uint8_t *)m->near->base)[i] = (uint8_t)(i * 13 + 5);
	rc = move_once(m, 0);
	fake_cm_cut(1);
	if (without_ip)
		fake_pairs_cut();
	if (rc == 0)
		rc = move_once(m, 1);
	return rc;
}

static void end_life(struct memories *m)
{
	verbs_transport.remote_close(&m->to_inbox);
	region_close(&m->inbox);
	region_close(&m->near);
	pair_close(&pair);
}

TEST(every_call__fails_once__error_with_a_message_or_recovery_and_nothing_left)
{
	unsigned n, errors = 0, recoveries = 0;
	const char *leak;

	log_set_sink(swallow, NULL);
	for (n = 1; n < LIVES_MAX; n++) {
		struct memories m = { 0 };
		int rc;

		fake_reset();
		if (without_ip)
			fake.link_layer = IBV_LINK_LAYER_INFINIBAND;
		fake.no_ip = without_ip;
		fake.fail_call = n;
		fail_quietly(0, "%s", "");
		rc = live(&m);
		if (rc == -1)
			fail_msg("call %u (%s): the peer neither got its notify nor is gone", n,
				 fake_counts.failed);
		if (rc != 0 && rc != SLUICE_EPEER && sluice_last_error()[0] == '\0')
			fail_msg("call %u (%s): error %d without a word", n, fake_counts.failed,
				 rc);
		end_life(&m);
		leak = fake_leak();
		if (leak != NULL)
			fail_msg("call %u (%s), status %d: %s", n, fake_counts.failed, rc, leak);
		if (fake_counts.failed[0] == '\0') {
			assert_int_equal(rc, 0); /* untouched */
			break;
		}
		errors += rc != 0;
		recoveries += rc == 0;
	}
	print_message("%u calls: %u errors, %u recoveries\n", n - 1, errors, recoveries);
	assert_in_range(n, 50, LIVES_MAX - 1);
	assert_true(errors > 0 && recoveries > 0);
}

int main(void)
{
	int failed = run_cases(NULL, NULL);

	pair_memory_windows = "no";
	failed += run_cases(NULL, NULL);
	without_ip = 1;
	return failed + run_cases(NULL, NULL);
}
