/* SPDX-License-Identifier: BSD-3-Clause
 * The transport over libfabric under the rules of providers that are simulated (fake_ofi.h): EFA,
 * Slingshot and Omni-Path; libraries that are absent or too old; and every call failing once. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "tests/fakes/ofi/fake_ofi.h"
#include "rdma/auth.h"
#include "rdma/ofi_flow.h"
#include "rdma/ofi_library.h"
#include "rdma/ofi_provider.h"
#include "rdma/transport.h"
#include "sluice.h"
#include "thinned.h"
#include "cases.h"
#include <errno.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	LOST_MS = 400,
	WAIT_MS = 60000,
	LINE = 256,
	EVENTS = 1024,
	BYTES = 3 << 20, /* some pieces */
	WALK_BYTES = 4096,
	WALK_LOST_MS = 100,
	LIVES_MAX = 1000
};

static const struct transport_ops *const ops = &ofi_transport;

struct pair {
	struct region *control[2], *inbox, *near, *back;
	struct transport *t[2];
	struct endpoint *e[2];
	struct remote *to_inbox;
	struct event events[2][EVENTS];
	int n[2];
};
static char logged[8192];
static pthread_mutex_t logged_lock =
	PTHREAD_MUTEX_INITIALIZER; /* the transport's thread logs, too */
static const char *provider;       /* NULL: the preferred one */
static size_t bytes = BYTES;
static int lost_ms = LOST_MS;

/* 1: random numbers are not available. */
static int no_random;

ssize_t __real_getrandom(void *to, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t n, unsigned flags)
{
	if (!no_random)
		return __real_getrandom(to, n, flags);
	errno = ENOSYS;
	return -1;
}

static void take_line(int level, const char *line, void *context)
{
	pthread_mutex_lock(&logged_lock);
	const size_t used = strlen(logged);

	if (used + strlen(line) + 2 < sizeof(logged))
		snprintf(logged + used, sizeof(logged) - used, "%s\n", line);
	pthread_mutex_unlock(&logged_lock);
}

static int has_logged(const char *text)
{
	pthread_mutex_lock(&logged_lock);
	const int has = strstr(logged, text) != NULL;

	pthread_mutex_unlock(&logged_lock);
	return has;
}

static int setup(void **state)
{
	logged[0] = '\0';
	log_set_sink(take_line, NULL);
	unsetenv("FI_CXI_ENABLE_WRITEDATA");
	provider = NULL;
	fake_ofi_reset();
	return 0;
}
/* ---- a pair --------------------------------------------------------------------------- */

static void poll_both(struct pair *p)
{
	for (int r = 0; r < 2; r++)
		p->n[r] += ops->poll(p->t[r], p->events[r] + p->n[r], EVENTS - p->n[r]);
	sched_yield();
}

static int count(const struct pair *p, int side, enum event_kind kind)
{
	int n = 0;

	for (int i = 0; i < p->n[side]; i++)
		n += p->events[side][i].kind == kind;
	return n;
}

/* Returns 0, or -1 after many seconds. */
static int wait_for(struct pair *p, int side, enum event_kind kind, int n)
{
	const uint64_t until = now_ns() + (uint64_t)WAIT_MS * 1000000;

	while (count(p, side, kind) < n) {
		if (now_ns() > until ||
		    (kind != EVENT_GONE && (count(p, 0, EVENT_GONE) || count(p, 1, EVENT_GONE))))
			return -1;
		poll_both(p);
	}
	return 0;
}

static int join(struct pair *p)
{
	const uint64_t until = now_ns() + (uint64_t)WAIT_MS * 1000000;

	for (;;) {
		const int a = ops->ready(p->e[0]), b = ops->ready(p->e[1]);

		if (a < 0 || b < 0)
			return a < 0 ? a : b;
		if (a && b)
			return 0;
		if (now_ns() > until)
			return -1;
		poll_both(p);
	}
}

static int open_side(struct pair *p, int r, uint8_t *card, size_t *n)
{
	static const uint8_t key[2][AUTH_KEY_BYTES] = { { 7 }, { 7 } };
	const struct peer_keys keys = { .rank = r, .size = 2, .wire_version = 1, .key = key };
	struct transport_config config = { .rank = r,
					   .size = 2,
					   .queue_depth = 32,
					   .control_line_bytes = LINE,
					   .provider = provider,
					   .lost_after_ms = lost_ms };
	int rc = region_open(2 * LINE, REGION_WRITE, "control", &p->control[r]);

	config.control = p->control[r];
	if (!rc)
		rc = ops->open(&config, &p->t[r]);
	if (!rc)
		rc = ops->admit(p->t[r], &keys);
	return rc ? rc : ops->record(p->t[r], card, n);
}

/* Returns 0, -1 after many seconds, or SLUICE_E*. Open objects stay open until close_pair(). */
static int open_pair(struct pair *p)
{
	uint8_t cards[2][TRANSPORT_RECORD_BYTES], descriptor[REGION_DESCRIPTOR_BYTES];
	size_t n[2];
	int rc = 0;

	memset(p, 0, sizeof(*p));
	for (int r = 0; r < 2 && !rc; r++)
		rc = open_side(p, r, cards[r], &n[r]);
	fake_ofi.holds = 0;
	for (int r = 0; r < 2 && !rc; r++)
		rc = ops->connect(p->t[r], 1 - r, cards[1 - r], n[1 - r], &p->e[r]);
	if (!rc)
		rc = join(p);
	if (!rc)
		rc = region_open(bytes, REGION_WRITE | REGION_READ, "inbox", &p->inbox);
	if (!rc)
		rc = region_open(bytes, 0, "near", &p->near);
	if (!rc)
		rc = region_open(bytes, 0, "back", &p->back);
	if (!rc)
		rc = ops->describe(p->e[1], p->inbox, descriptor);
	return rc ? rc : ops->remote_open(p->e[0], descriptor, &p->to_inbox);
}

static void close_pair(struct pair *p)
{
	ops->remote_close(&p->to_inbox);
	for (int r = 0; r < 2; r++)
		ops->close(&p->t[r]);
	for (int r = 0; r < 2; r++)
		region_close(&p->control[r]);
	region_close(&p->inbox);
	region_close(&p->near);
	region_close(&p->back);
}

static void check_closed(struct pair *p)
{
	const char *leak;

	close_pair(p);
	leak = fake_ofi_leak();
	if (leak)
		fail_msg("%s\n%s", leak, logged);
}

static void must_open(struct pair *p)
{
	const int rc = open_pair(p);

	if (rc)
		fail_msg("%d: %s\n%s", rc, sluice_last_error(), logged);
}

static int post(struct pair *p, enum transfer_kind kind, size_t at, size_t n, uint32_t number)
{
	const struct region *local = kind == TRANSFER_GET ? p->back : p->near;

	return ops->post(p->e[0], &(struct transfer){ .kind = kind,
						      .remote = p->to_inbox,
						      .offset = at,
						      .local_region = local,
						      .local = (uint8_t *)local->base + at,
						      .bytes = n,
						      .imm = number,
						      .cookie = number });
}

#define CASE(name) TEST_WITH(name, setup, NULL)

/* ---- libraries ------------------------------------------------------------------------- */

static void refused_with(const char *first, const char *second)
{
	const struct transport_config config = {
		.size = 2, .queue_depth = 4, .lost_after_ms = 1000, .provider = provider
	};
	struct transport *t = NULL;

	assert_int_equal(ops->open(&config, &t), SLUICE_ENOSUPP);
	if (!strstr(sluice_last_error(), first) || !strstr(sluice_last_error(), second))
		fail_msg("\"%s\" lacks \"%s\" or \"%s\"", sluice_last_error(), first, second);
	assert_null(strchr(sluice_last_error(), '\n'));
	assert_null(fake_ofi_leak());
}

/* These tests run first, because a loaded library stays loaded. */
CASE(library__absent__says_what_to_install)
{
	fake_ofi.absent = 1;
	refused_with("libfabric cannot be loaded", "install it (Debian: libfabric1");
	assert_string_equal(getenv("FI_CXI_ENABLE_WRITEDATA"), "1");
}

CASE(library__without_a_function__says_which)
{
	fake_ofi.lacks = "fi_dupinfo";
	refused_with("has no function fi_dupinfo", "damaged");
}

CASE(library__too_old__says_which_version_is_needed)
{
	fake_ofi.version = FI_VERSION(1, 11);
	refused_with("libfabric 1.11 is too old", "1.17 or later");
}

CASE(library__without_providers__says_so)
{
	fake_ofi.no_providers = 1;
	refused_with("has none of the providers", "none at all");
}

CASE(choice__any_call_fails__nothing_or_all_is_chosen)
{
	unsigned n, failures = 0;

	for (n = 1; n == 1 || fake_ofi_counts.failed[0]; n++) {
		struct ofi_choice choice, zero = { 0 };
		int rc;

		memset(&choice, 0xff, sizeof(choice));
		fake_ofi_plays_efa();
		fake_ofi.fail_call = n;
		rc = ofi_choose(NULL, NULL, &choice);
		failures += rc != 0;
		assert_int_equal(!rc, choice.info != NULL);
		assert_true(!rc || !memcmp(&choice, &zero, sizeof(choice)));
		ofi_choice_end(&choice);
		assert_null(fake_ofi_leak());
	}
	assert_true(failures >= 3); /* the hints, the available providers, and the choice */
}

static void allow_data(const char *value)
{
	setenv("FI_CXI_ENABLE_WRITEDATA", value, 1);
}

static const char *defect_now(void)
{
	struct ofi_choice choice;
	const char *text;

	assert_int_equal(ofi_choose(NULL, NULL, &choice), 0);
	text = ofi_choice_defect(&choice);
	ofi_choice_end(&choice);
	return text;
}

/* Checks the card that local rank `local` takes from those that the list allows. */
static void expect_card(const char *local, const char *list, const char *name)
{
	struct ofi_choice choice;

	setenv("SLURM_LOCALID", local, 1);
	assert_int_equal(ofi_choose(NULL, list, &choice), 0);
	assert_string_equal(choice.info->domain_attr->name, name);
	ofi_choice_end(&choice);
	assert_null(fake_ofi_leak());
	unsetenv("SLURM_LOCALID");
}

CASE(choice__four_cards__ranks_of_a_node_use_all)
{
	fake_ofi_plays_cxi(1);
	fake_ofi.nics = 4;
	expect_card("0", NULL, "cxi0");
	expect_card("1", NULL, "cxi1");
	expect_card("2", NULL, "cxi2");
	expect_card("3", NULL, "cxi3");
	expect_card("1", "cxi[2-3]", "cxi3");
	expect_card("2", "^cxi[0-1],cxi3", "cxi2");
	fake_ofi_plays_efa(); /* each card is listed for efa-direct first, and then for efa */
	fake_ofi.nics = 4;
	expect_card("0", NULL, "cxi0");
	expect_card("3", NULL, "cxi3");
	expect_card("1", "cxi[2-3]", "cxi3");
	fake_ofi_reset();
	fake_ofi.nics = 4;
	fake_ofi.provider = "tcp"; /* two addresses may not be able to reach each other */
	fake_ofi.prov_version = FI_VERSION(122, 0);
	fake_ofi.version = FI_VERSION(1, 22);
	fake_ofi.mr_mode = 0;
	expect_card("1", NULL, "cxi0");
	assert_int_equal(ofi_choose(NULL, "eth0,,eth1", &(struct ofi_choice){ 0 }), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "SLUICE_INTERFACE"));
}

CASE(defects__of_old_versions__are_told_with_a_remedy)
{
	assert_non_null(strstr(defect_now(), "install libfabric 1.18.1"));
	fake_ofi.provider = "tcp";
	fake_ofi.version = FI_VERSION(1, 18);
	fake_ofi.prov_version = FI_VERSION(118, 0);
	assert_non_null(strstr(defect_now(), "install libfabric 1.18.1"));
	fake_ofi.prov_version = FI_VERSION(118, 10);
	assert_null(defect_now());
	fake_ofi_plays_cxi(1);
	assert_non_null(strstr(defect_now(), "install libfabric 2.5.0"));
	fake_ofi_plays_cxi(0);
	allow_data("1");
	assert_null(defect_now());
	allow_data("no");
	assert_non_null(strstr(defect_now(), "unset the variable"));
}

static void expect_choice(const char *named, const char *text)
{
	struct ofi_choice choice;

	assert_int_equal(ofi_choose(named, NULL, &choice), 0);
	if (strncmp(choice.text, text, strlen(text)))
		fail_msg("the choice is %s", choice.text);
	ofi_choice_end(&choice);
	assert_null(fake_ofi_leak());
}

CASE(choice__two_fabrics_of_efa__efa_unless_efa_direct_is_named)
{
	struct ofi_choice choice;

	fake_ofi_plays_efa();
	expect_choice(NULL, "efa on fake0");
	expect_choice("efa", "efa on fake0");
	expect_choice("efa-direct", "efa-direct on fake0");
	fake_ofi.n_faces = 1; /* efa-direct alone does not match "efa" */
	assert_int_equal(ofi_choose("efa", NULL, &choice), SLUICE_ENOSUPP);
	assert_non_null(strstr(sluice_last_error(), "it has: efa-direct"));
	assert_int_equal(ofi_choose(NULL, NULL, &choice), SLUICE_ENOSUPP);
	fake_ofi.version = FI_VERSION(2, 0);
	assert_int_equal(ofi_choose("efa-direct", NULL, &choice), SLUICE_ENOSUPP);
	assert_non_null(strstr(sluice_last_error(), "install libfabric 2.1 or later"));
	assert_null(fake_ofi_leak());
}

/* Only the device shows the layer below psm3. Every machine has the interface lo. */
CASE(choice__psm3_on_a_network_interface__is_tcp_and_cautions)
{
	static const struct {
		const char *domain;
		int tcp;
	} domains[] = { { "irdma0", 0 },
			{ "autoselect:irdma0;irdma1", 0 },
			{ "lo", 1 },
			{ "autoselect:lo;eth1", 1 } };
	struct ofi_choice choice;
	struct pair p;

	for (int i = 0; i < 4; i++) {
		setup(NULL);
		fake_ofi.provider = "psm3";
		fake_ofi.version = FI_VERSION(1, 22);
		fake_ofi.domain = domains[i].domain;
		assert_int_equal(ofi_choose(NULL, NULL, &choice), 0);
		assert_int_equal(ofi_choice_is_tcp(&choice), domains[i].tcp);
		ofi_choice_end(&choice);
		must_open(&p);
		assert_int_equal(p.t[0]->caution != NULL, domains[i].tcp);
		if (domains[i].tcp)
			assert_non_null(strstr(p.t[0]->caution, "SLUICE_PROVIDER=psm3"));
		check_closed(&p);
	}
}

/* ---- what every provider does --------------------------------------------------------- */

static void fill(struct pair *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p->near->base)[i] = (uint8_t)(i * 31 + seed + i / 251);
}

/* At each notice all bytes of its put and of earlier ones must be in place. A get reads them
 * back. */
static void move_all(struct pair *p)
{
	static const size_t sizes[] = { 0, 8, 64, 4096, BYTES };
	int came = 0;

	for (unsigned round = 0; round < 6; round++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			fill(p, sizes[i], round * 7 + (unsigned)i);
			assert_int_equal(post(p, TRANSFER_PUT, 0, sizes[i] / 2, 0), 0);
			assert_int_equal(post(p, TRANSFER_PUT_NOTIFY, sizes[i] / 2,
					      sizes[i] - sizes[i] / 2,
					      0x80000000u + (unsigned)came),
					 0);
			if (wait_for(p, 1, EVENT_IMM, ++came))
				fail_msg("notice %d does not come: %s\n%s", came,
					 sluice_last_error(), logged);
			assert_memory_equal(p->inbox->base, p->near->base, sizes[i]);
		}
	for (int i = 0, seen = 0; i < p->n[1]; i++)
		if (p->events[1][i].kind == EVENT_IMM)
			assert_int_equal(p->events[1][i].imm, 0x80000000u + (unsigned)seen++);
	assert_int_equal(post(p, TRANSFER_GET, 0, BYTES, 9), 0);
	assert_int_equal(wait_for(p, 0, EVENT_DONE, 1), 0);
	assert_memory_equal(p->back->base, p->near->base, BYTES);
}

static void check_moves(int by_message)
{
	struct pair p;

	must_open(&p);
	fake_ofi_counts.notices = fake_ofi_counts.messages = 0;
	move_all(&p);
	assert_int_equal(fake_ofi_counts.notices > 0, !by_message);
	assert_int_equal(fake_ofi_counts.messages > 0, by_message);
	assert_int_equal(fake_ofi_counts.rights_errors, 0);
	check_closed(&p);
}

CASE(net__notices_of_8_bytes__all_bytes_before_each_notice)
{
	check_moves(0);
}

static const char *const efa_names[] = { "efa", "efa-direct" };

/* Neither fabric keeps an order, and puts complete before they are placed. */
CASE(efa__4_bytes_no_order_completed_too_early__all_bytes_before_each_notice)
{
	for (int i = 0; i < 2; i++) {
		setup(state);
		fake_ofi_plays_efa();
		provider = efa_names[i];
		check_moves(0);
		assert_true(fake_ofi_counts.swapped > 0 && fake_ofi_counts.early > 50);
		assert_int_equal(fake_ofi_counts.receives_used > 50, i);
	}
}

/* The count numbers rely on one property only: a card reports a put after the put's own bytes. */
CASE(efa__notice_before_its_own_bytes__is_found_by_these_tests)
{
	struct pair p;

	fake_ofi_plays_efa();
	must_open(&p);
	fill(&p, bytes, 1);
	fake_ofi.notices_first = 1;
	assert_int_equal(post(&p, TRANSFER_PUT_NOTIFY, 0, 64, 0), 0);
	assert_int_equal(wait_for(&p, 1, EVENT_IMM, 1), 0);
	assert_memory_not_equal(p.inbox->base, p.near->base, 64);
	check_closed(&p);
}

/* Notices must wait for an earlier put that is stuck. */
CASE(efa__immediates_of_many_kinds__come_whole_and_in_order)
{
	static const uint32_t imms[] = { 0,          1,          0x10000,    0x1ffff, 0xffffffff,
					 0xfffffffe, 0x80000000, 0x80000001, 5,       6 };
	enum { IMMS = sizeof(imms) / sizeof(imms[0]), ROUNDS = 600 };
	struct pair p;

	fake_ofi_plays_efa();
	must_open(&p);
	for (int i = 0, seen = 0; i < IMMS * ROUNDS; i++) {
		int rc;

		while ((rc = post(&p, i % 3 ? TRANSFER_PUT_NOTIFY : TRANSFER_PUT, 0, i % 2 * 8U,
				  imms[i % IMMS])) == SLUICE_EAGAIN)
			poll_both(&p);
		assert_int_equal(rc, 0);
		seen += i % 3 != 0;
		if (i % IMMS != IMMS - 1)
			continue;
		assert_int_equal(wait_for(&p, 1, EVENT_IMM, seen), 0);
		for (int k = 0, at = i - IMMS + 1; at <= i; at++)
			if (at % 3)
				assert_int_equal(p.events[1][k++].imm, imms[at % IMMS]);
		p.n[0] = p.n[1] = seen = 0;
	}
	check_closed(&p);
}

/* The first put is not acknowledged or placed for a long time, but all later ones are. */
CASE(efa__put_that_is_stuck__sender_stays_near_it)
{
	enum { PUTS = FLOW_TRANSFERS - 2, PIECES = 5 };
	struct pair p;

	fake_ofi_plays_efa();
	bytes = (PIECES - 1) * (size_t)FLOW_PIECE_BYTES + 8;
	lost_ms = 60000;
	must_open(&p);
	fake_ofi.holds = 1;
	fake_ofi.late = 20000; /* polls */
	assert_int_equal(post(&p, TRANSFER_PUT, 0, 8, 0), 0);
	fake_ofi.holds = 0;
	for (int i = 0; i < PUTS; poll_both(&p))
		i += !post(&p, TRANSFER_PUT, 0, bytes, 0);
	assert_int_equal(post(&p, TRANSFER_PUT_NOTIFY, 0, 8, 7), 0);
	assert_int_equal(wait_for(&p, 1, EVENT_IMM, 1), 0);
	check_closed(&p);
	bytes = BYTES;
	lost_ms = LOST_MS;
}

/* The receiver polls late, so notices without room in its queue must wait. */
CASE(efa__more_notices_than_the_queue_holds__wait_and_come_in_order)
{
	enum { NOTICES = 3000, IDLE_MS = 300 };
	struct event e[16];
	struct pair p;
	int posted = 0, seen = 0;
	uint64_t until;

	fake_ofi_plays_efa();
	lost_ms = 60000;
	must_open(&p);
	until = now_ns() + (uint64_t)IDLE_MS * 1000000;
	while (posted < NOTICES && now_ns() < until) {
		posted += !post(&p, TRANSFER_PUT_NOTIFY, 0, 8, (uint32_t)posted);
		ops->poll(p.t[0], e, 16);
		sched_yield();
	}
	until = now_ns() + (uint64_t)WAIT_MS * 1000000;
	while (seen < NOTICES && now_ns() < until) {
		const int n = ops->poll(p.t[1], e, 16);

		for (int i = 0; i < n; i++) {
			assert_int_equal(e[i].kind, EVENT_IMM);
			assert_int_equal(e[i].imm, seen++);
		}
		if (posted < NOTICES)
			posted += !post(&p, TRANSFER_PUT_NOTIFY, 0, 8, (uint32_t)posted);
		ops->poll(p.t[0], e, 16);
	}
	assert_int_equal(seen, NOTICES);
	check_closed(&p);
	lost_ms = LOST_MS;
}

CASE(efa__senders_not_named__is_refused_with_a_remedy)
{
	static const int errors[] = { FI_ENODATA, FI_EINVAL, FI_ENOSYS };

	for (int i = 0; i < 3; i++) {
		setup(state);
		fake_ofi_plays_efa();
		fake_ofi.names_nobody = errors[i];
		refused_with("carry no data that names the sender", "SLUICE_PROVIDER=tcp");
	}
}

CASE(efa__notices_that_get_lost__is_refused_with_a_remedy)
{
	const struct transport_config config = { .size = 2,
						 .queue_depth = 4,
						 .lost_after_ms = 1000 };
	struct transport *t = NULL;

	fake_ofi_plays_efa();
	fake_ofi.drops_notices = 1;
	assert_int_equal(ops->open(&config, &t), SLUICE_EDEVICE);
	assert_non_null(strstr(sluice_last_error(), "it did not arrive"));
	assert_non_null(strstr(sluice_last_error(), "set SLUICE_PROVIDER"));
	assert_null(fake_ofi_leak());
}

/* The completion of the trial's put comes early. Then this process polls without success, and after
 * that it does not run for longer than the trial may take. */
CASE(efa__process_that_does_not_run_for_a_second_of_the_trial__is_accepted)
{
	struct pair p;

	fake_ofi_plays_efa();
	fake_ofi.stall_after = 120;
	must_open(&p);
	assert_int_equal(fake_ofi.stall_after, 0);
	check_closed(&p);
}

/* Sluice sets the variable when it loads libfabric, which happens once in a process. */
CASE(cxi__keys_of_the_provider_and_data_by_writedata__all_bytes_before_each_notice)
{
	fake_ofi_plays_cxi(0);
	allow_data("1");
	check_moves(0);
	assert_int_equal(fake_ofi_counts.early,
			 0); /* writedata() completes by the endpoint's flags */
}

CASE(cxi__data_forbidden__random_keys_and_messages)
{
	struct ofi_choice choice;

	fake_ofi_plays_cxi(0);
	allow_data("0");
	assert_int_equal(ofi_choose(NULL, NULL, &choice), 0);
	assert_int_equal(choice.info->domain_attr->mr_mode & FI_MR_PROV_KEY, 0);
	ofi_choice_end(&choice);
	check_moves(1);
}

CASE(old_cxi__promises_notices_and_has_none__messages_follow)
{
	fake_ofi_plays_cxi(1);
	allow_data("1");
	check_moves(1);
	assert_true(has_logged("Function not implemented"));
	assert_true(has_logged("sluice-info --check"));
}

CASE(opx__no_descriptor__all_bytes_before_each_notice)
{
	fake_ofi_plays_opx();
	check_moves(0);
}

/* Returns the bytes in flight to a peer that does not answer yet. */
static uint64_t under_way(struct pair *p, enum transfer_kind kind)
{
	uint64_t most;

	fill(p, bytes, 5);
	fake_ofi.holds = 1;
	assert_int_equal(post(p, kind, 0, BYTES, 5), 0);
	for (int i = 0; i < 10; i++)
		poll_both(p);
	most = fake_ofi_counts.under_way;
	fake_ofi.holds = 0;
	if (kind == TRANSFER_GET) {
		assert_int_equal(wait_for(p, 0, EVENT_DONE, 1), 0);
		assert_memory_equal(p->back->base, p->inbox->base, BYTES);
	} else {
		assert_int_equal(wait_for(p, 1, EVENT_IMM, 1), 0);
		assert_memory_equal(p->inbox->base, p->near->base, BYTES);
	}
	return most;
}

/* They share a stream with small messages and gets, and no answer has shown the rate yet. */
CASE(net__large_put_and_get__two_short_pieces_of_each_are_under_way)
{
	struct pair p;

	must_open(&p);
	assert_int_equal(under_way(&p, TRANSFER_PUT_NOTIFY), 2 << 14);
	assert_int_equal(under_way(&p, TRANSFER_GET), 2 << 14);
	check_closed(&p);
}

CASE(opx__large_get__all_of_it_is_under_way)
{
	struct pair p;

	fake_ofi_plays_opx();
	must_open(&p);
	assert_int_equal(under_way(&p, TRANSFER_GET), BYTES);
	check_closed(&p);
}

/* ---- device memory ---------------------------------------------------------------------- */

/* Host memory that stands for device memory. It may only be used through a registration as device
 * memory. */
static uint8_t on_device[WALK_BYTES];

static const struct memory device_memory = {
	.place = MEMORY_DEVICE, .address = on_device, .bytes = sizeof(on_device), .fd = -1
};

static struct region *open_device(void)
{
	struct region *region = NULL;

	fake_ofi.device = on_device;
	fake_ofi.device_bytes = sizeof(on_device);
	for (size_t i = 0; i < sizeof(on_device); i++)
		on_device[i] = (uint8_t)(i * 7 + 3);
	assert_int_equal(region_open_device(&device_memory, 0, &region), 0);
	return region;
}

static int put_device(struct pair *p, const struct region *device)
{
	return ops->post(p->e[0], &(struct transfer){ .kind = TRANSFER_PUT_NOTIFY,
						      .remote = p->to_inbox,
						      .local_region = device,
						      .local = on_device,
						      .bytes = sizeof(on_device),
						      .imm = 1 });
}

static void play_tcp_with_device_memory(void)
{
	fake_ofi_reset(); /* this provider can copy device memory, and so can the fake */
	fake_ofi.hmem = HMEM_READS;
}

static void play_efa_with(int hmem)
{
	fake_ofi_plays_efa();
	fake_ofi.hmem = hmem;
}

CASE(device_memory__of_providers_that_read_it__is_put_from_where_it_is)
{
	struct region *device;
	struct pair p;

	for (int i = 0; i < 3; i++) {
		setup(NULL);
		if (i == 0)
			fake_ofi_plays_efa();
		else if (i == 1)
			fake_ofi_plays_cxi(1); /* uses messages, so that there was no other trial */
		else
			fake_ofi_plays_opx();
		fake_ofi.hmem = HMEM_READS;
		must_open(&p);
		move_all(&p);
		device = open_device();
		assert_int_equal(ops->prepare(p.e[0], NULL, NULL, 0), 1);
		assert_int_equal(ops->prepare(p.e[0], device, device->base, device->bytes), 1);
		assert_int_equal(ops->prepare(p.e[0], device, device->base, device->bytes), 1);
		for (size_t b = 0; b < sizeof(on_device); b++) /* unchanged */
			assert_int_equal(on_device[b], (uint8_t)(b * 7 + 3));
		assert_int_equal(put_device(&p, device), 0);
		assert_int_equal(wait_for(&p, 1, EVENT_IMM, count(&p, 1, EVENT_IMM) + 1), 0);
		assert_memory_equal(p.inbox->base, on_device, sizeof(on_device));
		region_close(&device);
		check_closed(&p);
	}
}

CASE(device_memory__not_registered_or_dead__is_not_used)
{
	static const char *const says[] = { [HMEM_NONE] = "registers no device memory",
					    [HMEM_DEAD] = "read back bytes that differ",
					    [HMEM_REFUSED] = "fi_mr_regattr" };
	struct region *device;
	struct pair p;

	for (int hmem = HMEM_NONE; hmem <= HMEM_REFUSED + 1; hmem++) {
		if (hmem == HMEM_READS)
			continue;
		setup(NULL);
		log_configure("rdma+info");
		if (hmem > HMEM_REFUSED)
			play_tcp_with_device_memory();
		else
			play_efa_with(hmem);
		must_open(&p);
		device = open_device();
		assert_int_equal(ops->prepare(p.e[0], NULL, NULL, 0),
				 hmem != HMEM_NONE && hmem <= HMEM_REFUSED);
		assert_int_equal(ops->prepare(p.e[0], device, device->base, device->bytes), 0);
		assert_int_equal(ops->prepare(p.e[0], device, device->base, device->bytes), 0);
		if (!has_logged(says[hmem > HMEM_REFUSED ? HMEM_NONE : hmem]))
			fail_msg("case %d: %s", hmem, logged);
		assert_int_equal(put_device(&p, device), SLUICE_ENOSUPP);
		if (hmem != HMEM_DEAD)
			move_all(&p);
		region_close(&device);
		check_closed(&p);
		log_configure("warn");
	}
}

/* The trial's put stays in flight: the memory is reported as refused, and the put may end at any
 * time. */
CASE(device_memory__trial_does_not_end__is_not_used_and_nothing_breaks)
{
	struct region *device;
	struct pair p;

	play_efa_with(HMEM_READS);
	must_open(&p);
	device = open_device();
	fake_ofi.holds = 1;
	assert_int_equal(ops->prepare(p.e[0], device, device->base, device->bytes), 0);
	fake_ofi.holds = 0;
	move_all(&p);
	region_close(&device);
	check_closed(&p);
}

/* ---- what a trial finds -------------------------------------------------------------- */

CASE(notices__that_get_lost__messages_follow)
{
	fake_ofi_plays_opx();
	fake_ofi.drops_notices = 1;
	/* The fake counts the dropped notices, which are only those of the trial. */
	check_moves(1);
	assert_true(has_logged("did not arrive"));
}

/* The trial's put ends after the trial was given up. It must not count as a transfer, or as
 * a put of an unknown peer. */
CASE(trial__that_ends_late__is_forgotten)
{
	struct pair p;

	for (int i = 0; i < 2; i++) {
		setup(NULL);
		if (i)
			fake_ofi_plays_efa();
		fake_ofi.holds = 1;
		must_open(&p);
		move_all(&p);
		assert_false(has_logged("notice"));
		check_closed(&p);
	}
}

CASE(notices__refused_after_the_trial_agreed__messages_follow)
{
	struct pair p;

	fake_ofi_plays_cxi(0);
	allow_data("1");
	must_open(&p);
	fake_ofi.no_writedata = 1;
	move_all(&p);
	check_closed(&p);
}

/* ---- what goes wrong ------------------------------------------------------------------ */

CASE(put__refused_for_ever__peer_is_gone_by_name)
{
	struct pair p;

	must_open(&p);
	fake_ofi.refuses = 1;
	assert_int_equal(post(&p, TRANSFER_GET, 0, 64, 5), 0);
	assert_int_equal(wait_for(&p, 0, EVENT_GONE, 1), 0);
	for (int i = 0; i < p.n[0]; i++) {
		assert_int_equal(p.events[0][i].peer, 1);
		assert_int_equal(p.events[0][i].status, SLUICE_EPEER);
	}
	assert_int_equal(count(&p, 0, EVENT_DONE), 1);
	assert_int_equal(post(&p, TRANSFER_GET, 0, 64, 6), SLUICE_EPEER);
	assert_non_null(strstr(sluice_last_error(), "rank 1"));
	fake_ofi.refuses = 0;
	check_closed(&p);
}

/* Posts a put that is refused, stops itself, and returns 1 if the put arrives afterwards. */
static int put_across_a_stop(void)
{
	struct pair p;

	lost_ms = WAIT_MS;
	if (open_pair(&p))
		return 0;
	fill(&p, 64, 9);
	fake_ofi.refuses = 1;
	if (post(&p, TRANSFER_PUT_NOTIFY, 0, 64, 5))
		return 0;
	poll_both(&p);
	raise(SIGSTOP);
	fake_ofi.refuses = 0;
	return !wait_for(&p, 1, EVENT_IMM, 1) && !memcmp(p.inbox->base, p.near->base, 64);
}

CASE(put__refused_while_the_process_was_stopped__arrives)
{
	const pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(!put_across_a_stop());
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	usleep(1500000);
	kill(child, SIGCONT);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

CASE(put__completion_with_an_error__peer_is_gone_with_the_reason)
{
	struct pair p;

	fake_ofi_plays_efa();
	must_open(&p);
	fake_ofi.fails = FI_EIO;
	assert_int_equal(post(&p, TRANSFER_GET, 0, 64, 5), 0);
	assert_int_equal(wait_for(&p, 0, EVENT_GONE, 1), 0);
	assert_non_null(strstr(p.events[0][p.n[0] - 1].text, "a get of 64 bytes failed"));
	check_closed(&p);
}

/* libfabric reconnects, but the bytes that the kernel had accepted are lost. */
CASE(put__lost_with_its_connection__peer_is_gone_with_the_reason)
{
	for (int notifies = 0; notifies < 2; notifies++) {
		struct pair p;

		fake_ofi_reset();
		must_open(&p);
		fake_ofi.resets = 1;
		assert_int_equal(post(&p, notifies ? TRANSFER_PUT_NOTIFY : TRANSFER_PUT, 0, 64, 5),
				 0);
		assert_int_equal(wait_for(&p, 0, EVENT_GONE, 1), 0);
		assert_non_null(strstr(p.events[0][p.n[0] - 1].text, "the connection to it broke"));
		check_closed(&p);
	}
}

CASE(notice__immediate_changed_on_the_way__is_dropped)
{
	for (int bit = 0; bit < 32; bit++) {
		struct pair p;

		fake_ofi_reset();
		logged[0] = '\0';
		must_open(&p);
		fake_ofi.flips = 1u << bit;
		assert_int_equal(post(&p, TRANSFER_PUT_NOTIFY, 0, 64, 5), 0);
		const uint64_t until = now_ns() + (uint64_t)WAIT_MS * 1000000;
		while (!has_logged("that no rank of this job sent") && !count(&p, 1, EVENT_IMM) &&
		       now_ns() < until)
			poll_both(&p);
		assert_true(has_logged("that no rank of this job sent"));
		assert_int_equal(count(&p, 1, EVENT_IMM), 0);
		check_closed(&p);
	}
}

CASE(put__after_revoke__is_refused)
{
	struct pair p;

	fake_ofi_plays_efa();
	must_open(&p);
	fill(&p, bytes, 3);
	ops->revoke(p.e[1]);
	assert_int_equal(post(&p, TRANSFER_PUT_NOTIFY, 0, 64, 5), 0);
	assert_int_equal(wait_for(&p, 0, EVENT_GONE, 1), 0);
	assert_int_equal(count(&p, 1, EVENT_IMM), 0);
	assert_memory_not_equal(p.inbox->base, p.near->base, 64);
	check_closed(&p);
}

CASE(describe__no_random_key__says_that_and_not_what_libfabric_would)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct region *other;
	struct pair p;

	must_open(&p);
	assert_int_equal(region_open(64, REGION_WRITE, "other", &other), 0);
	no_random = 1;
	assert_int_equal(ops->describe(p.e[1], other, descriptor), SLUICE_EDEVICE);
	no_random = 0;
	assert_non_null(strstr(sluice_last_error(), "getrandom"));
	assert_false(has_logged("fi_mr_reg"));
	assert_int_equal(ops->describe(p.e[1], other, descriptor), 0);
	region_close(&other);
	check_closed(&p);
}

/* ---- a job of many ranks, of which few connect ------------------------------------------- */

enum { MANY = 512, SOON = 2, PEERS = 12, PUTS = LINE / 8 };

/* Rank 0 of a large job, and the ranks that connect with it. */
struct star {
	struct region *control[1 + PEERS];
	struct transport *t[1 + PEERS];
	struct endpoint *to[1 + PEERS], *back[1 + PEERS];
	struct remote *line[1 + PEERS];
	uint8_t record[1 + PEERS][TRANSPORT_RECORD_BYTES];
	size_t record_bytes[1 + PEERS];
	int notices[1 + PEERS];
};

static void open_rank(struct star *s, int r)
{
	static const uint8_t key[MANY][AUTH_KEY_BYTES];
	const struct peer_keys keys = { .rank = r, .size = MANY, .wire_version = 1, .key = key };
	struct transport_config config = { .rank = r,
					   .size = MANY,
					   .expected = SOON,
					   .queue_depth = 32,
					   .control_line_bytes = LINE,
					   .lost_after_ms = WAIT_MS };

	assert_int_equal(region_open(MANY * LINE, REGION_WRITE, "control", &s->control[r]), 0);
	config.control = s->control[r];
	assert_int_equal(ops->open(&config, &s->t[r]), 0);
	assert_int_equal(ops->admit(s->t[r], &keys), 0);
	assert_int_equal(ops->record(s->t[r], s->record[r], &s->record_bytes[r]), 0);
}

static void poll_star(struct star *s)
{
	struct event events[64];

	for (int r = 0; r <= PEERS; r++) {
		const int n = ops->poll(s->t[r], events, 64);

		for (int i = 0; i < n; i++) {
			assert_int_equal(events[i].kind, EVENT_IMM);
			assert_int_equal(events[i].imm, s->notices[r]++);
		}
	}
	sched_yield();
}

static void connect_star(struct star *s)
{
	const uint64_t until = now_ns() + (uint64_t)WAIT_MS * 1000000;

	for (int r = 1; r <= PEERS; r++) {
		assert_int_equal(
			ops->connect(s->t[0], r, s->record[r], s->record_bytes[r], &s->to[r]), 0);
		assert_int_equal(
			ops->connect(s->t[r], 0, s->record[0], s->record_bytes[0], &s->back[r]), 0);
	}
	for (int r = 1; r <= PEERS && now_ns() < until;) {
		poll_star(s);
		r += ops->ready(s->to[r]) == 1 && ops->ready(s->back[r]) == 1;
	}
	for (int r = 1; r <= PEERS; r++)
		assert_int_equal(ops->control(s->to[r], &s->line[r]), 0);
}

/* Puts to all peers are under way at the same time, each from memory that is used again at once. */
static void put_small(struct star *s)
{
	const uint64_t until = now_ns() + (uint64_t)WAIT_MS * 1000000;

	fake_ofi.holds = 1;
	for (uint32_t k = 0; k < PUTS; k++)
		for (int r = 1; r <= PEERS; r++) {
			uint32_t words[2] = { (uint32_t)r, k };

			assert_int_equal(
				ops->post(s->to[r], &(struct transfer){ .kind = TRANSFER_PUT_NOTIFY,
									.remote = s->line[r],
									.offset = k * 8,
									.local = words,
									.bytes = 8,
									.imm = k }),
				0);
		}
	fake_ofi.holds = 0;
	for (int r = 1; r <= PEERS && now_ns() < until; r += s->notices[r] == PUTS)
		poll_star(s);
	for (int r = 1; r <= PEERS; r++)
		for (uint32_t k = 0; k < PUTS; k++) {
			const uint32_t words[2] = { (uint32_t)r, k };

			assert_memory_equal((uint8_t *)s->control[r]->base + k * 8, words, 8);
		}
}

CASE(member_of_512_ranks__has_copies_of_small_puts_for_the_peers_that_connect)
{
	static struct star s;
	uint64_t before;

	fake_ofi_plays_efa();
	open_rank(&s, 0);
	before = fake_ofi_counts.registered;
	assert_in_range(before, SOON * ofi_flow_copy_bytes(), MANY / 16 * ofi_flow_copy_bytes());
	for (int r = 1; r <= PEERS; r++)
		open_rank(&s, r);
	before = fake_ofi_counts.registered;
	connect_star(&s);
	print_message("%d more bytes for %d peers\n", (int)(fake_ofi_counts.registered - before),
		      PEERS);
	assert_in_range(fake_ofi_counts.registered - before, (PEERS - SOON) * ofi_flow_copy_bytes(),
			2 * PEERS * (ofi_flow_copy_bytes() + LINE));
	put_small(&s);
	for (int r = 0; r <= PEERS; r++) {
		ops->remote_close(&s.line[r]);
		ops->close(&s.t[r]);
		region_close(&s.control[r]);
	}
	assert_null(fake_ofi_leak());
}

/* ---- the walk -------------------------------------------------------------------------- */

/* Whichever call fails, device memory must be found to be usable or not. */
static int live_device(struct pair *p)
{
	struct region *device = open_device();
	const int rc = ops->prepare(p->e[0], device, device->base, device->bytes);

	region_close(&device);
	return rc < 0 ? rc : 0;
}

static int live(struct pair *p)
{
	int rc = open_pair(p);

	if (rc)
		return rc;
	fill(p, bytes, 1);
	rc = post(p, TRANSFER_PUT_NOTIFY, 0, WALK_BYTES, 1);
	if (!rc && !wait_for(p, 1, EVENT_IMM, 1))
		assert_memory_equal(p->inbox->base, p->near->base, WALK_BYTES);
	else if (!rc && !count(p, 0, EVENT_GONE) && !count(p, 1, EVENT_GONE))
		return -1;
	else
		return SLUICE_EPEER;
	return rc || !fake_ofi.hmem ? rc : live_device(p);
}

/* On a busy machine the short limit for a lost peer may expire although no call fails. */
static void live_untouched(void (*play)(void))
{
	struct pair p;
	int rc;

	play();
	lost_ms = WAIT_MS;
	rc = live(&p);
	if (rc)
		fail_msg("status %d, %d and %d events: %s\n%s", rc, p.n[0], p.n[1],
			 sluice_last_error(), logged);
	check_closed(&p);
	lost_ms = WALK_LOST_MS;
}

static void walk(void (*play)(void), unsigned least)
{
	unsigned n, errors = 0;

	for (n = 1; n < LIVES_MAX; n++) {
		struct pair p;
		const char *leak;
		int rc;

		if (thinned(n, 12))
			continue;
		play();
		fake_ofi.fail_call = n;
		fail_quietly(0, "%s", "");
		rc = live(&p);
		if (rc == -1)
			fail_msg("call %u (%s): the peer neither got its notice nor is gone", n,
				 fake_ofi_counts.failed);
		if (rc && !sluice_last_error()[0] && !count(&p, 0, EVENT_GONE) &&
		    !count(&p, 1, EVENT_GONE))
			fail_msg("call %u (%s): error %d without a word", n, fake_ofi_counts.failed,
				 rc);
		close_pair(&p);
		leak = fake_ofi_leak();
		if (leak)
			fail_msg("call %u (%s), status %d: %s", n, fake_ofi_counts.failed, rc,
				 leak);
		if (!fake_ofi_counts.failed[0])
			break;
		errors += rc != 0;
	}
	live_untouched(play);
	print_message("%u calls: %u errors\n", n - 1, errors);
	assert_in_range(n, least, LIVES_MAX - 1);
	assert_true(errors > 0);
}

static void play_efa_with_device_memory(void)
{
	play_efa_with(HMEM_READS);
}

static void play_old_cxi(void)
{
	fake_ofi_plays_cxi(1);
}

CASE(every_call__fails_once__error_with_a_message_or_recovery_and_nothing_left)
{
	bytes = WALK_BYTES;
	lost_ms = WALK_LOST_MS;
	walk(fake_ofi_reset, 40);
	walk(fake_ofi_plays_efa, 40);
	walk(play_old_cxi, 40);
	walk(play_efa_with_device_memory, 45);
}
