/* SPDX-License-Identifier: BSD-3-Clause
 * The pieces in flight over a stream, on simulated links with a rate and a round-trip time. */
#include "rdma/stream.h"
#include "cases.h"
#include <stdio.h>

enum { PIECES = 4000, WARM = 1000, PIECE = 1 << 19, MOST = 16 };

static const struct stream_limits limits = { .piece_bytes = PIECE,
					     .begin_bytes = PIECE,
					     .least_bytes = PIECE,
					     .begin = 2,
					     .least = 2,
					     .most = MOST,
					     .wait_ns = 5000000 };
struct link {
	double bits, way_s; /* way_s: the round trip */
	double used, most_wait_s;
};

/* Sends pieces one after another through the link, as many at a time as the stream allows. used:
 * the used share of the rate; most_wait_s: the longest time that a piece waited behind others.
 * known: an earlier small transfer has shown the round trip. */
static void run(struct link *l, const struct stream_limits *its, int known)
{
	static double posted[PIECES], ends[PIECES];
	static size_t sizes[PIECES];
	struct stream s = stream_new(its);
	double now = 0, free_at = 0, bytes = 0;
	int next = 0, done = 0;

	l->most_wait_s = 0;
	if (known)
		stream_alone(&s, (uint64_t)(l->way_s * 1e9));
	while (done < PIECES) {
		while (next < PIECES && !stream_is_full(&s)) {
			const double begins = free_at > now ? free_at : now;

			posted[next] = now;
			sizes[next] = s.piece;
			free_at = begins + 8 * (double)s.piece / l->bits;
			ends[next++] = free_at + l->way_s;
			stream_post(&s);
			if (next > WARM && begins - now > l->most_wait_s)
				l->most_wait_s = begins - now;
		}
		now = ends[done];
		bytes += done < WARM ? 0 : (double)sizes[done];
		if (!done && its->least_bytes < its->piece_bytes)
			stream_alone(&s, (uint64_t)((now - posted[0]) * 1e9));
		stream_end(&s, sizes[done], (uint64_t)((now - posted[done]) * 1e9),
			   (uint64_t)(now * 1e9));
		done++;
	}
	l->used = 8 * bytes / l->bits / (ends[PIECES - 1] - ends[WARM - 1]);
}

static void all_lengths(const struct stream_limits *its, int known)
{
	static struct link links[] = {
		{ .bits = 1e8, .way_s = 0.0002 },  { .bits = 1e8, .way_s = 0.02 },
		{ .bits = 1e8, .way_s = 0.2 },     { .bits = 1e9, .way_s = 0.0002 },
		{ .bits = 1e9, .way_s = 0.01 },    { .bits = 1e9, .way_s = 0.05 },
		{ .bits = 1e10, .way_s = 0.0001 }, { .bits = 1e10, .way_s = 0.004 },
	};

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		struct link *l = &links[i];
		const double each = 8 * PIECE / l->bits;

		run(l, its, known);
		if (l->used < 0.95)
			fail_msg("%.0f b/s, %g s: only %.3f of it is used", l->bits, l->way_s,
				 l->used);
		/* One piece more than may wait, and the least that is under way. */
		if (l->most_wait_s > (double)its->wait_ns * 1e-9 + 2 * each)
			fail_msg("%.0f b/s, %g s: a piece waits for %g s", l->bits, l->way_s,
				 l->most_wait_s);
	}
}

TEST(links__of_all_lengths__are_used_whole_and_nothing_waits_long)
{
	all_lengths(&limits, 0);
	for (int lost_after_ms = 1000; lost_after_ms <= 25000; lost_after_ms *= 5) {
		const struct stream_limits tcp = stream_limits_over_tcp(lost_after_ms);

		all_lengths(&tcp, 0);
		all_lengths(&tcp, 1);
	}
}

/* However long the round trip, the bytes in flight are limited. */
TEST(link__very_long__gets_eight_megabytes_at_a_time)
{
	struct link l = { .bits = 1e10, .way_s = 0.1 };
	const double most = 8.0 * MOST * PIECE / l.way_s / l.bits;
	const struct stream_limits tcp = stream_limits_over_tcp(5000);

	run(&l, &limits, 0);
	assert_true(l.used > 0.95 * most && l.used < 1.05 * most);
	run(&l, &tcp, 1);
	assert_true(l.used > 0.95 * most && l.used < 1.05 * most);
}

/* ---- many senders, one receiver ------------------------------------------------------------- */

enum { SENDERS = 8, QUEUE = SENDERS * MOST };

/* The pieces of all senders in the one queue of the receiver's link. */
struct incast {
	struct stream of[SENDERS];
	struct queued {
		int sender;
		size_t bytes;
		double posted, ends;
	} queue[QUEUE];
	int first, n, active;
	double bits, now, free_at, most_wait_s, bytes;
};

static void incast_step(struct incast *c)
{
	for (int i = 0; i < c->active; i++)
		while (!stream_is_full(&c->of[i])) {
			struct queued *q = &c->queue[(c->first + c->n++) % QUEUE];
			const double begins = c->free_at > c->now ? c->free_at : c->now;

			c->free_at = begins + 8 * (double)c->of[i].piece / c->bits;
			*q = (struct queued){ i, c->of[i].piece, c->now, c->free_at };
			stream_post(&c->of[i]);
		}
	const struct queued *q = &c->queue[c->first];

	c->now = q->ends;
	c->bytes += (double)q->bytes;
	if (q->ends - q->posted > c->most_wait_s)
		c->most_wait_s = q->ends - q->posted;
	stream_end(&c->of[q->sender], q->bytes, (uint64_t)((q->ends - q->posted) * 1e9),
		   (uint64_t)(c->now * 1e9));
	c->first = (c->first + 1) % QUEUE;
	c->n--;
}

static void incast_of(struct incast *c, const struct stream_limits *its, double bits, int active)
{
	*c = (struct incast){ .bits = bits, .active = active };
	for (int i = 0; i < SENDERS; i++) {
		c->of[i] = stream_new(its);
		stream_alone(&c->of[i], 200000);
	}
}

static void incast_until(struct incast *c, double end)
{
	while (c->now < end)
		incast_step(c);
}

/* A heartbeat waits behind the pieces of all senders, from the first one on. At 100 Mb/s a megabyte
 * takes 85 ms. */
static void eight_senders(int lost_after_ms, double longest_wait_s)
{
	static struct incast c;
	struct link alone = { .bits = 1e9, .way_s = 0.0002 };
	const struct stream_limits tcp = stream_limits_over_tcp(lost_after_ms);

	incast_of(&c, &tcp, 1e8, SENDERS);
	incast_until(&c, 20);
	if (c.most_wait_s > longest_wait_s)
		fail_msg("a piece takes %g s", c.most_wait_s);
	assert_true(8 * c.bytes / c.bits > 0.95 * 20);

	/* The link is fast, then slow once all senders have begun. */
	incast_of(&c, &tcp, 1e9, 1);
	incast_until(&c, 1);
	assert_true(c.of[0].piece > 4 * tcp.least_bytes);
	c.bits = 1e8;
	c.active = SENDERS;
	incast_until(&c, 3);
	c.most_wait_s = 0;
	incast_until(&c, 10);
	if (c.most_wait_s > longest_wait_s)
		fail_msg("a piece takes %g s on a link that became slow", c.most_wait_s);
	run(&alone, &tcp, 1);
	assert_true(alone.used > 0.95);
}

/* The longest waits are a twelfth and a nineteenth of the time after which a silent peer is lost. */
TEST(incast__of_eight__delays_nothing_for_long_and_then_one_uses_the_link)
{
	eight_senders(1000, 0.085);
	eight_senders(5000, 0.26);
}

/* If three ranks send to one at 1 Gb/s, a whole piece of each takes 13 ms. With the default of
 * SLUICE_LOST_AFTER that is short, so all pieces stay whole. The pieces of a stream that begins
 * late grow, too, although the others already fill the queue. */
TEST(incast__of_three_with_more_patience__keeps_the_pieces_whole)
{
	const struct stream_limits tcp = stream_limits_over_tcp(5000);
	static struct incast c;

	incast_of(&c, &tcp, 1e9, 2);
	incast_until(&c, 1);
	c.active = 3;
	incast_until(&c, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(c.of[i].piece, PIECE);
}

/* Sparse messages of a default job are not cut before the first rate was measured. */
TEST(pieces_before_a_measurement__are_shorter_if_peers_are_lost_soon)
{
	assert_int_equal(stream_limits_over_tcp(5000).begin_bytes, STREAM_SMALL_BYTES);
	assert_int_equal(stream_limits_over_tcp(1000).begin_bytes, 1 << 14);
	assert_int_equal(stream_limits_over_tcp(100).begin_bytes, 1 << 14);
}

/* A piece of the size ends at each tick, and another one is posted. */
static void tick(struct stream *s, int n, uint64_t each_ns, uint64_t took_ns, size_t bytes,
		 uint64_t *now_ns)
{
	for (int i = 0; i < n; i++) {
		while (!stream_is_full(s))
			stream_post(s);
		*now_ns += each_ns;
		stream_end(s, bytes, took_ns, *now_ns);
	}
}

TEST(stream__slower_than_before__falls_to_the_least)
{
	struct stream s = stream_new(&limits);
	uint64_t now = 1;

	tick(&s, 100, 1000000, 4000000, PIECE, &now);
	assert_int_equal(s.most, 1 + 4 + 5);
	tick(&s, 100, 20000000, 200000000, PIECE, &now);
	assert_int_equal(s.most, limits.least);
	assert_int_equal(s.fastest_ns, 4000000);
	/* Short pieces do not show how long a whole one takes. */
	tick(&s, 100, 1000000, 1000000, STREAM_SMALL_BYTES + 1, &now);
	assert_int_equal(s.fastest_ns, 4000000);
}

/* A program that seldom sends a piece shows no rate. */
TEST(stream__with_pauses__stays_as_it_was)
{
	struct stream s = stream_new(&limits);
	uint64_t now = 1;

	tick(&s, 100, 1000000, 4000000, PIECE, &now);
	while (s.now)
		stream_end(&s, PIECE, 4000000, now += 1000000);
	for (int i = 0; i < 100; i++) {
		stream_post(&s);
		stream_end(&s, PIECE, 4000000, now += 1000000000);
	}
	assert_int_equal(s.most, 1 + 4 + 5);
	assert_int_equal(s.now, 0);
}
