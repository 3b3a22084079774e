/* SPDX-License-Identifier: BSD-3-Clause
 * Limits the large pieces of a kind (puts, or gets) under way to a peer over TCP, which has one
 * stream for everything. The limit is the number of pieces that the link carries in one round trip
 * plus STREAM_WAIT_NS: fewer would leave a long path idle, and more would only delay everything
 * else. Both the rate and the round trip are measured. Called by ofi_flow.c. */
#ifndef RDMA_OFI_STREAM_H
#define RDMA_OFI_STREAM_H
#include <stddef.h>
#include <stdint.h>

enum {
	STREAM_PIECE_BYTES = 1 << 19, /* at most */
	STREAM_SMALL_BYTES = 1 << 17, /* pieces up to this size do not count */
	STREAM_LEAST = 2,
	STREAM_MOST = 16, /* 8 MiB: more than Linux buffers by default (tcp_wmem) */
	STREAM_WAIT_NS = 5000000
};

struct ofi_stream {
	int now, most;
	uint64_t fastest_ns; /* time of the fastest full-size piece; 0: none has ended */
	/* Pieces ended since since_ns. idle: the limit was not always reached, so they show no
	 * rate. */
	uint64_t since_ns;
	int ends, idle;
};

#define OFI_STREAM_NEW ((struct ofi_stream){ .most = STREAM_LEAST, .idle = 1 })

static inline int ofi_stream_is_full(const struct ofi_stream *s)
{
	return s->now >= s->most;
}

static inline void ofi_stream_post(struct ofi_stream *s)
{
	s->now++;
}

/* Sets the limit from the rate of the last ended pieces. */
static inline void ofi_stream_adapt(struct ofi_stream *s, uint64_t now_ns)
{
	const uint64_t each = (now_ns - s->since_ns) / (uint64_t)s->ends;
	const uint64_t most = each ? 1 + (s->fastest_ns + STREAM_WAIT_NS) / each : STREAM_MOST;

	s->most = most < STREAM_LEAST ? STREAM_LEAST : most > STREAM_MOST ? STREAM_MOST : (int)most;
}

/* One has ended. */
static inline void ofi_stream_end(struct ofi_stream *s, size_t bytes, uint64_t took_ns,
				  uint64_t now_ns)
{
	if (bytes == STREAM_PIECE_BYTES && (!s->fastest_ns || took_ns < s->fastest_ns))
		s->fastest_ns = took_ns;
	s->idle |= !ofi_stream_is_full(s);
	s->now--;
	if (++s->ends < s->most)
		return;
	if (!s->idle)
		ofi_stream_adapt(s, now_ns);
	s->ends = s->idle = 0;
	s->since_ns = now_ns;
}
#endif
