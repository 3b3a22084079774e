/* SPDX-License-Identifier: BSD-3-Clause
 * Public regions over a transport that, as a network does, reads local memory some time after
 * post() returned: what is posted waits in a short queue and is copied at later polls. Memory that
 * is reused too early shows as wrong bytes at the peer. */
#include "ranks.h"
#include "sluice_region.h"
#include "rdma/transport.h"
#include "cases.h"
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

enum { QUEUE = 24, POLLS_OF_DELAY = 3, INLINE_BYTES = 64 };

/* ---- shm with delays --------------------------------------------------------- */

struct waiting {
	struct endpoint *endpoint;
	struct transfer transfer;
	uint8_t inlined[INLINE_BYTES];
	int polls;
};
static struct waiting queue[QUEUE];
static unsigned head, tail;
static unsigned longest;
static struct transport_ops delayed;

static int delayed_open(const struct transport_config *config, struct transport **out)
{
	int rc = shm_transport.open(config, out);
	if (!rc)
		(*out)->ops = &delayed;
	return rc;
}

/* Gets from this rank are answered only when it is too late, by bytes 0xee. */
static int silent = -1;
static struct transfer unanswered[QUEUE];
static atomic_uint *n_unanswered; /* counter of rank 0, which all ranks can read */
static int answers_late;

static int delayed_post(struct endpoint *e, const struct transfer *x)
{
	if (e->peer == silent && x->kind == TRANSFER_GET && *n_unanswered < QUEUE) {
		unanswered[*n_unanswered] = *x;
		++*n_unanswered;
		return 0;
	}
	if (tail - head == QUEUE)
		return SLUICE_EAGAIN;
	struct waiting *w = &queue[tail++ % QUEUE];
	*w = (struct waiting){ .endpoint = e, .transfer = *x };
	if (x->bytes && !x->local_region) {
		memcpy(w->inlined, x->local, x->bytes);
		w->transfer.local = w->inlined;
	}
	if (tail - head > longest)
		longest = tail - head;
	return 0;
}

static int delayed_poll(struct transport *t, struct event *events, int n)
{
	while (head != tail && queue[head % QUEUE].polls++ >= POLLS_OF_DELAY) {
		struct waiting *w = &queue[head % QUEUE];
		if (shm_transport.post(w->endpoint, &w->transfer) == SLUICE_EAGAIN)
			break;
		head++;
	}
	for (unsigned i = 0; answers_late && i < *n_unanswered; i++)
		memset(unanswered[i].local, 0xee, unanswered[i].bytes);
	return shm_transport.poll(t, events, n);
}

static int delayed_arm(struct transport *t)
{
	return head != tail ? 1 : shm_transport.sleep.arm(t);
}

const struct transport_ops *const transports[] = { &self_transport, &delayed, NULL };

static void use_delayed(void)
{
	delayed = shm_transport;
	delayed.open = delayed_open;
	delayed.post = delayed_post;
	delayed.poll = delayed_poll;
	delayed.sleep.arm = delayed_arm;
	delayed.copies_at_post = 0;
}

/* ---- tests ----------------------------------------------------------------- */

static void fill(uint8_t *bytes, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)((i * 2654435761u >> 9) + seed);
}

static int is_filled(const uint8_t *bytes, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != (uint8_t)((i * 2654435761u >> 9) + seed))
			return 0;
	return 1;
}

enum { MIB = 1 << 20, WINDOW = 3 * MIB + 100 };
static const size_t sizes[] = { 1, 64, 65, 4096, 65536, 65537, MIB, 3 * MIB };
enum { SIZES = sizeof sizes / sizeof *sizes };

static void bounce(sluice_job *job, int rank, void *argument)
{
	sluice_region *region = NULL;
	uint8_t *buffer = malloc(3 * MIB);
	int peer = 1 - rank;
	CHECK(buffer != NULL);
	CHECK_OK(sluice_region_open(job, WINDOW, &region));
	uint8_t *own = sluice_region_base(region);
	for (unsigned s = 0; s < SIZES; s++) {
		size_t n = sizes[s];
		fill(buffer, n, s * 10 + (unsigned)rank);
		CHECK_OK(sluice_region_put(region, peer, s, buffer, n, 1));
		memset(buffer, 0, n); /* the buffer may be reused */
		CHECK_OK(sluice_region_wait(region, peer, s + 1));
		CHECK(is_filled(own + s, n, s * 10 + (unsigned)peer));
		CHECK_OK(sluice_region_get(region, peer, s, buffer, n, 0));
		CHECK(is_filled(buffer, n, s * 10 + (unsigned)rank));
		CHECK_OK(sluice_barrier(job));
	}
	/* Many small puts, each with different bytes in the same buffer. */
	for (unsigned i = 0; i < 300; i++) {
		size_t n = 40 + i % 60; /* sizes near the inline size */
		fill(buffer, n, i);
		CHECK_OK(sluice_region_put(region, peer, (size_t)i * 100, buffer, n, i == 299));
	}
	CHECK_OK(sluice_region_wait(region, peer, SIZES + 1));
	for (unsigned i = 0; i < 300; i++)
		CHECK(is_filled(own + (size_t)i * 100, 40 + i % 60, i));
	CHECK(longest > 4); /* transfers did overlap */
	sluice_region_close(&region);
	free(buffer);
}

/* Worker 2 does not answer a get of rank 0, is lost, and then answers. The job continues. */
enum { LATE_RANKS = 4, ALL_SLOTS = MIB, UNANSWERED = 5 };

static int late_get(int rank, void *argument)
{
	const sluice_job_attr attr = { .size = sizeof attr,
				       .servers = 1,
				       .on_failure = SLUICE_CONTINUE };
	static uint8_t buffer[ALL_SLOTS];
	sluice_job *job = rank_join(&attr);
	sluice_region *region = NULL;
	log_capture();
	CHECK_OK(sluice_region_open(job, ALL_SLOTS, &region));
	fill(sluice_region_base(region), ALL_SLOTS, (unsigned)rank);
	if (rank == 2) {
		CHECK_OK(sluice_region_wait(region, 0, 1));
		while (*n_unanswered < UNANSWERED)
			sched_yield();
		raise(SIGKILL);
	}
	if (rank == 0) {
		silent = 2;
		CHECK_OK(sluice_region_put(region, 2, 0, buffer, 8, 1));
		CHECK(sluice_region_get(region, 2, 0, buffer, ALL_SLOTS, 0) == SLUICE_EPEER);
		answers_late = 1;
		CHECK_OK(sluice_region_put(region, 1, 0, buffer, 8, 1)); /* rank 1 has filled its
									    window */
		CHECK_OK(sluice_region_wait(region, 1, 1));
		CHECK_OK(sluice_region_get(region, 1, 64, buffer, ALL_SLOTS - 64, 0));
		fill(sluice_region_base(region), ALL_SLOTS, 1);
		CHECK(!memcmp(buffer, (uint8_t *)sluice_region_base(region) + 64, ALL_SLOTS - 64));
		answers_late = 0;
	}
	if (rank == 1) {
		CHECK_OK(sluice_region_put(region, 0, 0, buffer, 8, 1));
		CHECK_OK(sluice_region_wait(region, 0, 1));
	}
	sluice_region_close(&region);
	sluice_finalize(&job);
	return 0;
}

TEST(get__answered_after_its_rank_was_lost__spoils_no_other_get)
{
	int status[LATE_RANKS];
	run_ranks_status(LATE_RANKS, late_get, NULL, NULL, 120000, status);
	for (int r = 0; r < LATE_RANKS; r++)
		assert_true(r == 2 ? WIFSIGNALED(status[r]) :
				     WIFEXITED(status[r]) && !WEXITSTATUS(status[r]));
}

TEST(put_and_get__from_foreign_memory__the_buffer_is_reusable_on_return)
{
	run_in_job(2, bounce, NULL);
}

TEST_IN_RANKS(own_window__500_blocks_in_flight__the_flush_waits_for_the_last, 2)
{
	enum { BLOCK = 1000, BLOCKS = 500, OUT = BLOCK * BLOCKS };
	sluice_job *job = rank_join(NULL);
	sluice_region *region = NULL;
	int peer = 1 - rank;
	CHECK_OK(sluice_region_open(job, 3 * OUT, &region));
	uint8_t *own = sluice_region_base(region);
	for (unsigned round = 0; round < 3; round++) {
		fill(own + OUT, OUT, round * 2 + (unsigned)rank);
		for (size_t b = 0; b < BLOCKS; b++)
			CHECK_OK(sluice_region_put(
				region, peer, b * BLOCK, own + OUT + b * BLOCK, BLOCK,
				SLUICE_POSTED | (b == BLOCKS - 1 ? SLUICE_NOTIFY : 0)));
		CHECK_OK(sluice_region_flush(region));
		memset(own + OUT, 0, OUT);
		CHECK_OK(sluice_region_wait(region, peer, round + 1));
		CHECK(is_filled(own, OUT, round * 2 + (unsigned)peer));
		for (size_t b = 0; b < BLOCKS; b++)
			CHECK_OK(sluice_region_get(region, peer, b * BLOCK,
						   own + 2 * OUT + b * BLOCK, BLOCK,
						   SLUICE_POSTED));
		CHECK_OK(sluice_region_flush(region));
		CHECK(is_filled(own + 2 * OUT, OUT, round * 2 + (unsigned)rank));
		CHECK_OK(sluice_barrier(job));
	}
	/* The blocking calls also do not return early. */
	fill(own + OUT, OUT, 77);
	CHECK_OK(sluice_region_put(region, peer, 0, own + OUT, OUT, 1));
	memset(own + OUT, 0, OUT);
	CHECK_OK(sluice_region_wait(region, peer, 4));
	CHECK(is_filled(own, OUT, 77));
	CHECK_OK(sluice_region_get(region, peer, 0, own + 2 * OUT, OUT, 0));
	CHECK(is_filled(own + 2 * OUT, OUT, 77));
	CHECK_OK(sluice_barrier(job));
	CHECK(longest == QUEUE); /* the queue was full, so EAGAIN occurred */
	sluice_region_close(&region);
	sluice_finalize(&job);
	return 0;
}

int main(void)
{
	use_delayed();
	n_unanswered = shared_memory(sizeof *n_unanswered);
	return run_cases(NULL, NULL);
}
