/* SPDX-License-Identifier: BSD-3-Clause
 * Limits how many large pieces of a kind (puts or gets) are under way to a peer, because everything
 * else to that peer waits behind them: over TCP in the stream of the connection, over verbs in the
 * queue pair. The limit is the number of pieces that the link carries in one round trip plus
 * wait_ns. Fewer pieces would leave the link idle, and more would only delay everything else. Both
 * the rate and the round trip are measured. Where the peer's share of the link is so small that one
 * piece takes longer than long_ns, as in an incast, pieces are halved, so that some end while a
 * heartbeat waits. Called by ofi_flow.c and sendlog.c. */
#ifndef RDMA_STREAM_H
#define RDMA_STREAM_H
#include "base/clock.h"
#include <stddef.h>
#include <stdint.h>

enum {
	STREAM_SMALL_BYTES = 1 << 17, /* shorter pieces count only if they have the full size */
	/* A piece over TCP takes at most this share of the time after which a silent peer is lost,
	 * so that the peer shows a sign of life in time even where segments are dropped and sent
	 * again. Before anything was measured, a peer is assumed to have an eighth of a link of
	 * 100 Mb/s. */
	STREAM_PIECES_PER_LOST_AFTER = 50,
	STREAM_ASSUMED_BYTES_PER_MS = 1500
};

struct stream_limits {
	size_t piece_bytes; /* at most */
	size_t begin_bytes; /* the size of pieces before any was measured */
	size_t least_bytes; /* pieces are never shorter */
	int begin;          /* number of pieces under way before any was measured */
	int least, most;
	uint64_t wait_ns;
	uint64_t long_ns; /* pieces that take longer are halved */
};

struct stream {
	const struct stream_limits *limits;
	size_t piece; /* bytes of a full-size piece */
	int now, most;
	uint64_t fastest_ns; /* time of the fastest full-size piece; 0: none has ended */
	uint64_t alone_ns;   /* time of the fastest transfer with nothing before it; 0: unknown */
	/* The pieces that have ended since since_ns. idle: 1 if the limit was not always reached,
	 * so that these pieces show no rate. */
	uint64_t since_ns;
	int ends, idle;
};

/* Returns the limits of a connection over TCP. Up to 8 MiB are under way, more than Linux buffers
 * by default (tcp_wmem). */
static inline struct stream_limits stream_limits_over_tcp(int lost_after_ms)
{
	struct stream_limits limits = { .piece_bytes = 1 << 19,
					.begin_bytes = STREAM_SMALL_BYTES,
					.least_bytes = 1 << 14,
					.begin = 2,
					.least = 3,
					.most = 16,
					.wait_ns = 5000000,
					.long_ns = (uint64_t)lost_after_ms * NS_PER_MS /
						   STREAM_PIECES_PER_LOST_AFTER };

	while (limits.begin_bytes > limits.least_bytes &&
	       limits.begin_bytes * NS_PER_MS / STREAM_ASSUMED_BYTES_PER_MS > limits.long_ns)
		limits.begin_bytes /= 2;
	return limits;
}

static inline struct stream stream_new(const struct stream_limits *limits)
{
	return (struct stream){
		.limits = limits, .piece = limits->begin_bytes, .most = limits->begin, .idle = 1
	};
}

/* Returns 1 if a piece of this size counts toward the limit. Small pieces do not. */
static inline int stream_counts(const struct stream *s, size_t bytes)
{
	return bytes > STREAM_SMALL_BYTES || bytes >= s->piece;
}

static inline int stream_is_full(const struct stream *s)
{
	return s->now >= s->most;
}

static inline void stream_post(struct stream *s)
{
	s->now++;
}

/* Called when the connection has broken, so nothing is under way any more. */
static inline void stream_break(struct stream *s)
{
	s->now = s->ends = 0;
	s->idle = 1;
}

/* Called when a transfer has ended that was posted while nothing else was under way to the peer.
 * The fastest such transfer took one round trip, like a heartbeat in an idle network. If several
 * ranks send to one at the same time, their pieces do not show the round trip, because all of them
 * wait in the same queue. */
static inline void stream_alone(struct stream *s, uint64_t took_ns)
{
	if (!s->alone_ns || took_ns < s->alone_ns)
		s->alone_ns = took_ns;
}

/* Doubles the size of pieces on a fast or long link, and halves it where the link gives this stream
 * a small share. */
static inline void stream_resize(struct stream *s, uint64_t each, uint64_t most, int under_way)
{
	const struct stream_limits *l = s->limits;
	const uint64_t takes = (uint64_t)under_way * each;

	if (s->piece < l->piece_bytes &&
	    (most > (uint64_t)l->most || 8 * each <= 3 * l->long_ns || takes < 2 * s->alone_ns)) {
		s->piece *= 2;
		s->most = s->most / 2 > l->least ? s->most / 2 : l->least;
	} else if (s->piece > l->least_bytes && each > l->long_ns && s->most <= 2 * l->least &&
		   takes > 4 * s->alone_ns) {
		s->piece /= 2;
		s->most = l->least;
	}
}

/* Sets the limit on the bytes under way. It follows from the rate at which the latest pieces have
 * ended. */
static inline void stream_adapt(struct stream *s, uint64_t now_ns)
{
	const struct stream_limits *l = s->limits;
	const uint64_t each = (now_ns - s->since_ns) / (uint64_t)s->ends;
	const uint64_t whole = s->alone_ns ? s->alone_ns + each : s->fastest_ns;
	const uint64_t most = each ? 1 + (whole + l->wait_ns) / each : (uint64_t)l->most;
	const int under_way = s->most;

	s->most = most < (uint64_t)l->least ? l->least :
		  most > (uint64_t)l->most  ? l->most :
					      (int)most;
	stream_resize(s, each, most, under_way);
}

/* Called when a piece has ended. */
static inline void stream_end(struct stream *s, size_t bytes, uint64_t took_ns, uint64_t now_ns)
{
	if (bytes == s->piece && (!s->fastest_ns || took_ns < s->fastest_ns))
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
