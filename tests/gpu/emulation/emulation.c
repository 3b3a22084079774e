/* SPDX-License-Identifier: BSD-3-Clause
 * Runs kernels on the CPU (cuda_runtime.h). A block is a system thread, its threads are coroutines
 * that change places only where CUDA's threads must meet: in warp functions and barriers. Blocks of
 * a cooperative launch really run at the same time; those of other launches take turns. The order
 * of coroutines differs between launches, so errors that depend on the order are found. */
#include "coroutine.h"
#include "runtime.h"
#include <pthread.h>
#include <stdlib.h>

/* The distance between stacks is an odd number of cache lines. Otherwise all their tops would share
 * a few sets of the caches. */
enum { THREADS_MOST = 256, WARP = 32, STACK_BYTES = (128 << 10) + 64 };

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ENTER(fake, stack, bytes)   __sanitizer_start_switch_fiber(fake, stack, bytes)
#define ENTERED(fake, stack, bytes) __sanitizer_finish_switch_fiber(fake, stack, bytes)
#else
#define ENTER(fake, stack, bytes)   (void)(fake)
#define ENTERED(fake, stack, bytes) (void)(fake)
#endif

/* Without this, valgrind would mistake a switch between stacks for a huge frame. */
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_STACK_REGISTER(begin, end)       0
#define VALGRIND_STACK_DEREGISTER(id)             (void)(id)
#define VALGRIND_MAKE_MEM_UNDEFINED(begin, bytes) 0
#endif

struct warp {
	uint64_t given[2][WARP]; /* values of this exchange and of the previous one, which may
				    still be read */
	unsigned arrived, meeting;
};

struct coroutine {
	coroutine_state state;
	char *stack;
	unsigned stack_id; /* valgrind's */
	void *fake;
	const unsigned *watched; /* the thread must not be woken before this has changed ... */
	unsigned seen;           /* ... from this value; NULL: it can run at once */
	int done;
	struct emulated_place place;
};

struct block {
	struct coroutine thread[THREADS_MOST];
	struct warp warp[THREADS_MOST / WARP];
	coroutine_state scheduler;
	void *scheduler_fake;
	const void *scheduler_stack;
	size_t scheduler_bytes;
	unsigned now, threads, arrived, barrier;
	struct launch *launch;
	unsigned arrivals;  /* of the launch, when this block last returned from waiting */
	struct block *next; /* next unused block */
	char *stacks;
};

struct launch {
	void (*kernel)(const void *);
	const void *args;
	unsigned grid, threads, next;
	pthread_mutex_t lock;
	pthread_cond_t arrived;
	unsigned arrivals;
};

/* Accessed at every step of a kernel, so access must not need a call. */
static _Thread_local struct block *block __attribute__((tls_model("initial-exec")));

/* ---- meeting points -------------------------------------------------------- */

const struct emulated_place *emulated_here(void)
{
	return &block->thread[block->now].place;
}

/* Switches to the scheduler and back. */
static void give_way(void)
{
	struct coroutine *self = &block->thread[block->now];

	ENTER(self->done ? NULL : &self->fake, block->scheduler_stack, block->scheduler_bytes);
	coroutine_switch(&self->state, &block->scheduler);
	ENTERED(self->fake, &block->scheduler_stack, &block->scheduler_bytes);
}

static void wait_for_change(const unsigned *counter, unsigned seen)
{
	struct coroutine *self = &block->thread[block->now];

	if (*counter != seen)
		return;
	self->watched = counter;
	self->seen = seen;
	give_way();
	self->watched = NULL;
}

const uint64_t *emulated_exchange(uint64_t mine)
{
	struct warp *w = &block->warp[block->now / WARP];
	const unsigned meeting = w->meeting;

	w->given[meeting % 2][block->now % WARP] = mine;
	if (++w->arrived == WARP) {
		w->arrived = 0;
		w->meeting++;
	}
	wait_for_change(&w->meeting, meeting);
	return w->given[meeting % 2];
}

void emulated_block_barrier(void)
{
	const unsigned barrier = block->barrier;

	if (++block->arrived == block->threads) {
		block->arrived = 0;
		block->barrier++;
	}
	wait_for_change(&block->barrier, barrier);
}

/* Counts the arrivals at all barriers of the launch together. Blocks sleep instead of spinning,
 * because spinning would take processors from blocks that have not arrived. */
void emulated_arrive(uint32_t *counter)
{
	struct launch *l = block->launch;

	__atomic_fetch_add(counter, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&l->lock);
	l->arrivals++;
	pthread_cond_broadcast(&l->arrived);
	pthread_mutex_unlock(&l->lock);
}

/* Returns at once if a block has arrived since the last return, so no arrival is missed. */
void emulated_await_arrival(void)
{
	struct launch *l = block->launch;

	pthread_mutex_lock(&l->lock);
	while (l->arrivals == block->arrivals)
		pthread_cond_wait(&l->arrived, &l->lock);
	block->arrivals = l->arrivals;
	pthread_mutex_unlock(&l->lock);
}

/* ---- one block ------------------------------------------------------------- */

static void begin(void)
{
	ENTERED(NULL, &block->scheduler_stack, &block->scheduler_bytes);
	block->launch->kernel(block->launch->args);
	block->thread[block->now].done = 1;
	give_way();
}

static void start(struct block *b, unsigned t, unsigned index, unsigned grid)
{
	struct coroutine *c = &b->thread[t];

	*c = (struct coroutine){ .stack = b->stacks + (size_t)t * STACK_BYTES,
				 .place = { .thread = { t, 0, 0 },
					    .block = { index, 0, 0 },
					    .grid = { grid, 1, 1 },
					    .threads = { b->threads, 1, 1 } } };
	(void)VALGRIND_MAKE_MEM_UNDEFINED(c->stack, STACK_BYTES);
	c->stack_id = VALGRIND_STACK_REGISTER(c->stack, c->stack + STACK_BYTES);
	coroutine_make(&c->state, c->stack, STACK_BYTES, begin);
}

static void run_block(struct block *b, unsigned index, unsigned grid)
{
	unsigned left = b->threads, order = index * 7 + grid;

	memset(b->warp, 0, sizeof b->warp);
	b->arrived = b->barrier = 0;
	for (unsigned t = 0; t < b->threads; t++)
		start(b, t, index, grid);
	while (left) {
		unsigned warps = b->threads / WARP, odd = 2 * (order++ % 16) + 1;

		/* runs all threads once, in an order of warps and lanes that changes */
		for (unsigned i = 0; i < b->threads; i++) {
			unsigned t = (i / WARP + order) % warps * WARP + (i * odd + order) % WARP;
			struct coroutine *c = &b->thread[t];

			if (c->done || (c->watched && *c->watched == c->seen))
				continue;
			b->now = t;
			ENTER(&b->scheduler_fake, c->stack, STACK_BYTES);
			coroutine_switch(&b->scheduler, &c->state);
			ENTERED(b->scheduler_fake, NULL, NULL);
			if (c->done)
				VALGRIND_STACK_DEREGISTER(c->stack_id);
			left -= c->done;
		}
	}
}

/* ---- blocks between launches ----------------------------------------------- */

/* Stacks are kept between launches: the kernel would have to clear their many megabytes of pages
 * for every launch. */
static struct {
	pthread_mutex_t lock;
	struct block *first;
} shelf = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct block *take_block(void)
{
	pthread_mutex_lock(&shelf.lock);
	struct block *b = shelf.first;
	if (b)
		shelf.first = b->next;
	pthread_mutex_unlock(&shelf.lock);
	if (!b && (!(b = calloc(1, sizeof *b)) ||
		   !(b->stacks = malloc((size_t)THREADS_MOST * STACK_BYTES))))
		abort();
	return b;
}

static void put_block(struct block *b)
{
	pthread_mutex_lock(&shelf.lock);
	b->next = shelf.first;
	shelf.first = b;
	pthread_mutex_unlock(&shelf.lock);
}

__attribute__((destructor)) static void free_blocks(void)
{
	for (struct block *b = shelf.first; b; b = shelf.first) {
		shelf.first = b->next;
		free(b->stacks);
		free(b);
	}
}

/* ---- a launch -------------------------------------------------------------- */

static void *run_blocks(void *argument)
{
	struct launch *l = argument;
	struct block *b = take_block();

	b->launch = l;
	b->arrivals = 0;
	b->threads = l->threads;
	block = b;
	for (unsigned index; (index = __atomic_fetch_add(&l->next, 1, __ATOMIC_SEQ_CST)) < l->grid;)
		run_block(b, index, l->grid);
	block = NULL;
	put_block(b);
	return NULL;
}

void emulated_run_kernel(const void *kernel, unsigned grid, unsigned threads, const void *args,
			 unsigned at_once)
{
	struct launch l = { .args = args,
			    .grid = grid,
			    .threads = threads,
			    .lock = PTHREAD_MUTEX_INITIALIZER,
			    .arrived = PTHREAD_COND_INITIALIZER };
	pthread_t workers[EMULATED_MULTIPROCESSORS];

	if (emulated_run_ptx(kernel, grid, threads, args, at_once))
		return;
	memcpy(&l.kernel, &kernel, sizeof kernel);
	if (threads > THREADS_MOST || threads % WARP || at_once > EMULATED_MULTIPROCESSORS)
		abort();
	for (unsigned i = 1; i < at_once; i++)
		if (pthread_create(&workers[i], NULL, run_blocks, &l))
			abort();
	run_blocks(&l);
	for (unsigned i = 1; i < at_once; i++)
		pthread_join(workers[i], NULL);
}
