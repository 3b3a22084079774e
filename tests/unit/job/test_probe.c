/* SPDX-License-Identifier: BSD-3-Clause
 * Queries over the control network, between probes of this process over loopback: who gets an
 * answer, what a refused connection shows, and what strangers can do. */
#include "job/probe.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "rdma/auth.h"
#include "sluice.h"
#include "cases.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { A, B, RANKS, DATAGRAM_BYTES = 40, WAIT_MS = 10000, QUIET_MS = 50 };

static struct probe *probes[RANKS];
static uint8_t records[RANKS][PROBE_RECORD_BYTES];
static size_t lengths[RANKS];
static uint8_t keys[RANKS][RANKS][AUTH_KEY_BYTES];
static struct peer_keys peer_keys[RANKS];

static void swallow(int level, const char *line, void *context)
{
}

static void open_both(int keys_differ)
{
	log_set_sink(swallow, NULL);
	for (int r = 0; r < RANKS; r++) {
		memset(keys[r], 7 + r * keys_differ, sizeof(keys[r]));
		peer_keys[r] = (struct peer_keys){
			.rank = r, .size = RANKS, .key = (const uint8_t(*)[AUTH_KEY_BYTES])keys[r]
		};
		assert_int_equal(probe_open(r, RANKS, "lo", "", &probes[r]), 0);
		probe_admit(probes[r], &peer_keys[r]);
		lengths[r] = probe_record(probes[r], records[r]);
		assert_true(lengths[r] >= 4 + 16 && lengths[r] <= PROBE_RECORD_BYTES);
	}
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(probe_meet(probes[r], 1 - r, records[1 - r], lengths[1 - r]), 0);
}

static void close_both(void)
{
	for (int r = 0; r < RANKS; r++)
		probe_close(&probes[r]);
}

/* Waits up to ms for a datagram and serves it. Returns 0 if none came. */
static int serve(int rank, int ms)
{
	struct pollfd fd = { .fd = probe_fd(probes[rank]), .events = POLLIN };

	if (poll(&fd, 1, ms) <= 0)
		return 0;
	probe_serve(probes[rank]);
	return 1;
}

/* A asks, B answers, and A takes the answer. */
static void ask_and_answer(uint64_t now)
{
	probe_ask(probes[A], B, now);
	assert_true(serve(B, WAIT_MS));
	assert_true(serve(A, WAIT_MS));
}

TEST(ports__of_a_range__are_used_once_each_and_then_missed)
{
	char ports[24] = "";
	uint8_t record[PROBE_RECORD_BYTES];
	struct probe *third;
	int first;

	/* Finds a pair of free ports by trying pairs. */
	log_set_sink(swallow, NULL);
	for (first = 20000 + getpid() % 20000;; first += 2) {
		snprintf(ports, sizeof(ports), "%d-%d", first, first + 1);
		if (!probe_open(0, RANKS, "lo", ports, &probes[0]) &&
		    !probe_open(1, RANKS, "lo", ports, &probes[1]))
			break;
		close_both();
	}
	for (int r = 0; r < RANKS; r++) {
		probe_record(probes[r], record);
		assert_int_equal(get_le16(record), first + r);
	}
	assert_int_equal(probe_open(2, RANKS, "lo", ports, &third), SLUICE_ENOMEM);
	assert_non_null(strstr(sluice_last_error(), "SLUICE_PORTS="));
	assert_non_null(strstr(sluice_last_error(), ports));
	probe_close(&third);
	close_both();
}

static char warning[512];

static void keep_warning(int level, const char *line, void *context)
{
	if (level == LOG_WARN)
		snprintf(warning, sizeof(warning), "%s", line);
}

TEST(interfaces__none_of_which_this_node_has__warn_with_the_setting)
{
	struct probe *probe;

	log_set_sink(keep_warning, NULL);
	assert_int_equal(probe_open(7, 8, "no_such0", "", &probe), 0);
	assert_non_null(strstr(warning, "rank 7"));
	assert_non_null(strstr(warning, "SLUICE_CONTROL_INTERFACE=no_such0"));
	probe_close(&probe);
	*warning = '\0';
	assert_int_equal(probe_open(7, 8, "lo", "", &probe), 0);
	assert_string_equal(warning, "");
	probe_close(&probe);
}

TEST(question__of_a_rank_with_the_key__is_answered_with_its_time)
{
	const uint64_t now = now_ns();

	open_both(0);
	assert_int_equal(probe_answered_ns(probes[A], B), 0);
	ask_and_answer(now);
	assert_int_equal(probe_answered_ns(probes[A], B), now);
	/* A late answer to an earlier question proves nothing new. */
	ask_and_answer(now - 1);
	assert_int_equal(probe_answered_ns(probes[A], B), now);
	assert_int_equal(probe_answered_ns(probes[B], A), 0);
	close_both();
}

TEST(question__of_a_rank_with_another_key__is_not_answered)
{
	open_both(1);
	probe_ask(probes[A], B, now_ns());
	assert_true(serve(B, WAIT_MS));
	assert_false(serve(A, QUIET_MS));
	assert_int_equal(probe_answered_ns(probes[A], B), 0);
	close_both();
}

TEST(process__ends_after_it_answered__refuses)
{
	const uint64_t now = now_ns();

	open_both(0);
	ask_and_answer(now);
	assert_int_equal(probe_refused_ns(probes[A], B), 0);
	probe_close(&probes[B]);
	probe_ask(probes[A], B, now_ns());
	assert_true(serve(A, WAIT_MS));
	assert_true(probe_refused_ns(probes[A], B) > now);
	close_both();
}

/* On another node the same address may belong to something else, such as a bridge on this node. */
TEST(refusal__of_an_address_that_never_answered__shows_nothing)
{
	open_both(0);
	probe_close(&probes[B]);
	probe_ask(probes[A], B, now_ns());
	assert_true(serve(A, WAIT_MS));
	assert_int_equal(probe_refused_ns(probes[A], B), 0);
	close_both();
}

/* ---- datagrams of others -------------------------------------------------------------- */

static void send_to_a(const uint8_t *bytes, size_t n)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(get_le16(records[A])),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(sendto(fd, bytes, n, 0, (struct sockaddr *)&to, sizeof(to)), n);
	assert_true(serve(A, WAIT_MS));
	close(fd);
}

TEST(datagrams__of_every_length_and_with_wrong_fields__change_nothing)
{
	uint8_t bytes[DATAGRAM_BYTES + 8] = { 0 }, tag[32];

	open_both(0);
	for (size_t n = 0; n <= sizeof(bytes); n++)
		send_to_a(bytes, n);
	/* The datagrams have the right key, but a wrong label, sender, receiver, address or
	 * time. */
	static const struct {
		uint32_t label, from, to, address;
		uint64_t time;
	} wrong[] = {
		{ 0, B, A, 0, 1 },
		{ AUTH_PROOF, B, A, 0, 1 },
		{ AUTH_BEAT, RANKS, A, 0, 1 },
		{ AUTH_BEAT, UINT32_MAX, A, 0, 1 },
		{ AUTH_BEAT, B, B, 0, 1 },
		{ AUTH_BEAT, B, A, PROBE_ADDRESSES, 1 },
		{ AUTH_BEAT, B, A, UINT32_MAX, 1 },
		{ AUTH_BEAT, B, A, 0, UINT64_MAX },
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		put_le32(bytes, wrong[i].label);
		put_le32(bytes + 4, wrong[i].from);
		put_le32(bytes + 8, wrong[i].to);
		put_le32(bytes + 12, wrong[i].address);
		put_le64(bytes + 16, wrong[i].time);
		if (auth_hmac(keys[A][B], bytes, 24, tag))
			skip(); /* the build has no crypto library */
		memcpy(bytes + 24, tag, AUTH_TAG_BYTES);
		send_to_a(bytes, DATAGRAM_BYTES);
	}
	assert_int_equal(probe_answered_ns(probes[A], B), 0);
	ask_and_answer(now_ns());
	assert_true(probe_answered_ns(probes[A], B) > 0);
	close_both();
}

TEST(record__cut_or_with_impossible_counts__is_refused)
{
	uint8_t bytes[PROBE_RECORD_BYTES + 16];

	open_both(0);
	memset(bytes, 1, sizeof(bytes));
	assert_int_equal(probe_meet(probes[A], B, NULL, 0), 0); /* B has no control network */
	for (size_t n = 1; n < lengths[B]; n++)
		assert_int_equal(probe_meet(probes[A], B, records[B], n), SLUICE_EWIRE);
	put_le16(bytes + 2, PROBE_ADDRESSES + 1);
	assert_int_equal(probe_meet(probes[A], B, bytes, 4 + (PROBE_ADDRESSES + 1) * 16),
			 SLUICE_EWIRE);
	memcpy(bytes, records[B], lengths[B]);
	put_le16(bytes, 0);
	assert_int_equal(probe_meet(probes[A], B, bytes, lengths[B]), SLUICE_EWIRE);
	close_both();
}
