/* SPDX-License-Identifier: BSD-3-Clause
 * See pair.h. */
#include "tools/bench/pair.h"
#include "base/clock.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 4096, PROBE_BYTES = 4096, TRANSPORTS_MAX = 8 };
enum { SPINS_PER_LOOK = 2048, SPINS_PER_CALL = 64 };
static const uint64_t ask_every_ns = 100000000, give_up_ns = 60000000000;

/* Finds the transport whose counters grow when PROBE_BYTES are put. */
static int name_transport(struct pair *pair)
{
	sluice_transport_stats before[TRANSPORTS_MAX] = { { .size = sizeof before[0] } };
	sluice_transport_stats after[TRANSPORTS_MAX] = { { .size = sizeof after[0] } };
	uint64_t most = 0;
	size_t n = 0;
	int rc = sluice_transports(pair->job, before, TRANSPORTS_MAX, &n);

	if (!rc)
		rc = sluice_region_put(pair->region, pair->other, 0, pair->out, PROBE_BYTES, 0);
	if (!rc)
		rc = sluice_transports(pair->job, after, TRANSPORTS_MAX, &n);
	for (size_t t = 0; !rc && t < n && t < TRANSPORTS_MAX; t++) {
		uint64_t grown = after[t].put_bytes - before[t].put_bytes;

		if (grown > most) {
			most = grown;
			snprintf(pair->transport, sizeof(pair->transport), "%s", after[t].name);
			pair->by_polling = after[t].by_polling != 0;
		}
	}
	return rc;
}

int pair_open(struct pair *pair, sluice_job *job, int second, size_t most)
{
	int rank = sluice_rank(job), rc;

	*pair = (struct pair){ .job = job, .first = 0, .second = second };
	pair->role = rank == 0 ? ROLE_FIRST : rank == second ? ROLE_SECOND : ROLE_BYSTANDER;
	pair->other = rank == 0 ? second : 0;
	pair->half = (most + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	rc = sluice_region_open(job, 2 * pair->half, &pair->region);
	if (rc)
		return rc;
	pair->in = sluice_region_base(pair->region);
	pair->out = pair->in + pair->half;
	/* Writes all pages first, so that the kernel's zeroing of pages is not measured. */
	memset(pair->in, 1, 2 * pair->half);
	rc = sluice_barrier(job);
	if (!rc && pair->role != ROLE_BYSTANDER)
		rc = name_transport(pair);
	return rc ? rc : sluice_barrier(job);
}

void pair_close(struct pair *pair)
{
	sluice_region_close(&pair->region);
}

int pair_agree(struct pair *pair, double *value)
{
	if (pair->role != ROLE_FIRST)
		*value = 0;
	return sluice_sum(pair->job, value, 1);
}

int pair_put(struct pair *pair, size_t bytes, int notify)
{
	return sluice_region_put(pair->region, pair->other, 0, pair->out, bytes,
				 SLUICE_POSTED | (notify ? SLUICE_NOTIFY : 0));
}

int pair_wait(struct pair *pair)
{
	return sluice_region_wait(pair->region, pair->other, ++pair->notified);
}

void stamp_write(uint8_t *message, size_t bytes, uint64_t round)
{
	message[0] = message[bytes - 1] = (uint8_t)(round % 255 + 1);
}

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

int stamp_poll(struct pair *pair, const uint8_t *message, size_t bytes, uint64_t round)
{
	const volatile uint8_t *first = message, *last = message + bytes - 1;
	uint8_t stamp = (uint8_t)(round % 255 + 1);
	uint64_t began = 0, asked = 0;

	for (unsigned spins = 1; *last != stamp || *first != stamp; spins++) {
		uint64_t now;
		int rc = 0;

		relax();
		/* If messages arrive only by polling, this loop also calls the library instead of
		 * relying on the thread. */
		if (pair->by_polling && spins % SPINS_PER_CALL == 0)
			rc = sluice_region_wait(pair->region, pair->other, 0);
		if (rc)
			return rc;
		if (spins % SPINS_PER_LOOK)
			continue;
		sched_yield(); /* the other rank may need this processor */
		now = now_ns();
		if (!began)
			began = asked = now;
		if (now - asked < ask_every_ns)
			continue;
		asked = now;
		rc = sluice_region_wait(pair->region, pair->other, 0);
		if (rc)
			return rc;
		if (now - began > give_up_ns) {
			fprintf(stderr, "sluice-bench: rank %d has not written for 60 s\n",
				pair->other);
			return SLUICE_ETIMEDOUT;
		}
	}
	atomic_thread_fence(memory_order_acquire);
	return 0;
}
