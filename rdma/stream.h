/* SPDX-License-Identifier: BSD-3-Clause
 * Limits the large pieces of a kind (puts, or gets) under way to a peer, because everything else to
 * that peer waits behind them: over TCP in the stream of the connection, over verbs in the queue
 * pair. The limit is the number of pieces that the link carries in one round trip plus wait_ns:
 * fewer would leave the link idle, and more would only delay everything else. Both the rate and the
 * round trip are measured. Called by ofi_flow.c and sendlog.c. */
#ifndef RDMA_STREAM_H
#define RDMA_STREAM_H
#include <stddef.h>
#include <stdint.h>

enum { STREAM_SMALL_BYTES = 1 << 17 /* pieces up to this size do not count */ };

struct stream_limits {
	size_t piece_bytes; /* at most */
	int begin;          /* pieces at once before anything was measured */
	int least, most;
	uint64_t wait_ns;
};

struct stream {
	const struct stream_limits *limits;
	int now, most;
	uint64_t fastest_ns; /* time of the fastest full-size piece; 0: none has ended */
	/* Pieces ended since since_ns. idle: the limit was not always reached, so these pieces show
	 * no rate. */
	uint64_t since_ns;
	int ends, idle;
};

static inline struct stream stream_new(const struct stream_limits *limits)
{
	return (struct stream){ .limits = limits, .most = limits->begin, .idle = 1 };
}

static inline int stream_is_full(const struct stream *s)
{
	return s->now >= s->most;
}

static inline void stream_post(struct stream *s)
{
	s->now++;
}

/* Called when the connection broke, so that nothing is under way any more. */
static inline void stream_break(struct stream *s)
{
	s->now = s->ends = 0;
	s->idle = 1;
}

/* Sets the limit from the rate of the last ended pieces. */
static inline void stream_adapt(struct stream *s, uint64_t now_ns)
{
	const struct stream_limits *l = s->limits;
	const uint64_t each = (now_ns - s->since_ns) / (uint64_t)s->ends;
	const uint64_t most = each ? 1 + (s->fastest_ns + l->wait_ns) / each : (uint64_t)l->most;

	s->most = most < (uint64_t)l->least ? l->least :
		  most > (uint64_t)l->most  ? l->most :
					      (int)most;
}

/* A piece has ended. */
static inline void stream_end(struct stream *s, size_t bytes, uint64_t took_ns, uint64_t now_ns)
{
	if (bytes == s->limits->piece_bytes && (!s->fastest_ns || took_ns < s->fastest_ns))
		s->fastest_ns = took_ns;
	s->idle |= !stream_is_full(s);
	s->now--;
	if (++s->ends < s->most)
		return;
	if (!s->idle)
		stream_adapt(s, now_ns);
	s->ends = s->idle = 0;
	s->since_ns = now_ns;
}
#endif
