/* SPDX-License-Identifier: BSD-3-Clause
 * See shared.h. */
#include "shared.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32 };

/* An access; block_met 0: there was none. */
struct access {
	uint32_t block_met, warp_met; /* number of barriers before it */
	uint32_t line;
	uint16_t thread;
	uint8_t lanes, warps; /* this access stands for several lanes or warps */
};

struct ptx_touched {
	struct access read, write;
	int is_atomic, written;
};

void ptx_shared_open(struct ptx_shared *s, uint32_t bytes)
{
	*s = (struct ptx_shared){ .bytes = bytes };
	s->touched = calloc(bytes + 1u, sizeof *s->touched);
	if (!s->touched)
		abort();
}

void ptx_shared_close(struct ptx_shared *s)
{
	free(s->touched);
}

void ptx_shared_begin(struct ptx_shared *s)
{
	memset(s->touched, 0, s->bytes * sizeof *s->touched);
	memset(s->warp_met, 0, sizeof s->warp_met);
	s->block_met = 1;
}

void ptx_shared_block_met(struct ptx_shared *s)
{
	s->block_met++;
}

void ptx_shared_warp_met(struct ptx_shared *s, unsigned warp)
{
	s->warp_met[warp]++;
}

/* Returns 1 if the thread's current access and that access are not ordered. */
static int at_once(const struct ptx_shared *s, const struct access *a, unsigned thread)
{
	if (a->block_met != s->block_met)
		return 0;
	if (a->warps || a->thread / LANES != thread / LANES)
		return 1;
	return a->warp_met == s->warp_met[thread / LANES] && (a->lanes || a->thread != thread);
}

static void note(const struct ptx_shared *s, struct access *a, unsigned thread, unsigned line)
{
	const uint32_t warp_met = s->warp_met[thread / LANES];
	const int again = a->block_met == s->block_met;
	const int warps = again && (a->warps || a->thread / LANES != thread / LANES);
	const int lanes = again && a->warp_met == warp_met && (a->lanes || a->thread != thread);

	*a = (struct access){ s->block_met,     warp_met,       line,
			      (uint16_t)thread, (uint8_t)lanes, (uint8_t)warps };
}

static int touch_byte(struct ptx_shared *s, struct ptx_touched *b, enum ptx_access access,
		      unsigned thread, unsigned line, char *why, size_t cap)
{
	const int both_atomic = access == PTX_ADDS && b->is_atomic;
	const struct access *other = NULL;

	if (access != PTX_WRITES && !b->written) {
		snprintf(why, cap, "nobody has written this shared memory");
		return -1;
	}
	if (!both_atomic && at_once(s, &b->write, thread))
		other = &b->write;
	else if (access != PTX_READS && at_once(s, &b->read, thread))
		other = &b->read;
	if (other) {
		snprintf(why, cap,
			 "thread %u %s the same shared memory at line %u, with no barrier "
			 "in between",
			 other->thread, other == &b->write ? "writes" : "reads", other->line);
		return -1;
	}
	if (access == PTX_READS) {
		note(s, &b->read, thread, line);
		return 0;
	}
	note(s, &b->write, thread, line);
	b->is_atomic = access == PTX_ADDS;
	b->written = 1;
	return 0;
}

int ptx_shared_touch(struct ptx_shared *s, uint64_t offset, size_t bytes, enum ptx_access access,
		     unsigned thread, unsigned line, char *why, size_t cap)
{
	if (offset + bytes > s->bytes) {
		snprintf(why, cap, "%zu bytes at %llu are beyond the %u bytes of shared memory",
			 bytes, (unsigned long long)offset, s->bytes);
		return -1;
	}
	for (size_t i = 0; i < bytes; i++)
		if (touch_byte(s, &s->touched[offset + i], access, thread, line, why, cap))
			return -1;
	return 0;
}
