/* SPDX-License-Identifier: BSD-3-Clause
 * See machine.h. Every thread has its own program counter, as on GPUs since Volta. Threads take
 * turns of a few or many instructions, in an order that differs between launches, and meet at
 * barriers and warp instructions. */
#include "machine.h"
#include "compute.h"
#include "shared.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, THREADS_MOST = 256, ALIGNMENT = 16, RANGES = 16, WAITING_LOOP = 16 };

enum waits { RUNS, AT_WARP, AT_BLOCK, GONE };

struct thread {
	uint64_t *r;
	char *local;
	uint32_t at;
	enum waits waits;
	uint64_t done, slept; /* instructions so far, and at the time of the last sleep */
};

struct block {
	unsigned index, left, arrived;
	struct thread thread[THREADS_MOST];
	struct ptx_shared shared;
	char *memory;
};

struct launch {
	const struct ptx_kernel *kernel;
	const char *params;
	unsigned grid, threads;
	ptx_memory_function memory;
	struct {
		const char *base;
		size_t bytes;
	} known[RANGES]; /* ranges of device memory that were last accessed */
	unsigned next;
	uint64_t random;
	struct ptx_counts done;
};

/* A thread's current instruction, which messages name. */
struct here {
	struct launch *l;
	struct block *b;
	unsigned t;
	const struct ptx_instruction *in;
};

static _Noreturn void fault(const struct here *h, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static _Noreturn void fault(const struct here *h, const char *format, ...)
{
	va_list list;

	fprintf(stderr, "kernel %s, line %u: %s: block %u of %u, thread %u: ", h->l->kernel->name,
		h->in->line, h->in->text, h->b->index, h->l->grid, h->t);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	abort();
}

static uint64_t dice(struct launch *l)
{
	l->random ^= l->random << 13;
	l->random ^= l->random >> 7;
	l->random ^= l->random << 17;
	return l->random;
}

/* ---- operands ------------------------------------------------------------------ */

static uint64_t special_value(const struct here *h, const struct ptx_operand *o)
{
	switch (o->kind) {
	case KIND_PARAMS: return (uint64_t)(uintptr_t)h->l->params + o->value;
	case KIND_LOCAL: return (uint64_t)(uintptr_t)h->b->thread[h->t].local + o->value;
	case KIND_TID: return h->t;
	case KIND_CTAID: return h->b->index;
	case KIND_NTID: return h->l->threads;
	case KIND_NCTAID: return h->l->grid;
	case KIND_REGISTER:
	case KIND_VALUE:
	case KIND_NOWHERE: break;
	}
	return 0;
}

static inline uint64_t value_of(const struct here *h, const struct ptx_operand *o)
{
	if (o->kind == KIND_REGISTER)
		return h->b->thread[h->t].r[o->number];
	return o->kind == KIND_VALUE ? o->value : special_value(h, o);
}

static void give(const struct here *h, uint64_t v)
{
	const struct ptx_operand *to = &h->in->to[0];

	if (to->kind == KIND_REGISTER)
		h->b->thread[h->t].r[to->number] = v;
}

/* ---- memory ---------------------------------------------------------------------- */

/* Fails unless this is memory that the kernel may access. */
static void check_global(const struct here *h, const char *p, size_t bytes, enum ptx_access access)
{
	struct launch *l = h->l;
	const char *base;
	size_t size;

	l->done.global_bytes += access == PTX_ADDS ? 0 : bytes;
	for (unsigned i = 0; i < RANGES; i++)
		if (p >= l->known[i].base && p + bytes <= l->known[i].base + l->known[i].bytes)
			return;
	if (!l->memory(p, &base, &size) || p + bytes > base + size)
		fault(h, "%zu bytes at %p are not memory of the device", bytes, (const void *)p);
	l->known[l->next % RANGES].base = base;
	l->known[l->next++ % RANGES].bytes = size;
}

static void check_shared(const struct here *h, uint64_t offset, size_t bytes,
			 enum ptx_access access)
{
	char why[256];

	if (ptx_shared_touch(&h->b->shared, offset, bytes, access, h->t, h->in->line, why,
			     sizeof why))
		fault(h, "%s", why);
}

/* Returns the memory at the instruction's address. */
static char *address_of(const struct here *h, enum ptx_access access)
{
	const struct ptx_instruction *in = h->in;
	const size_t bytes = (size_t)ptx_bytes(in->type) * in->vector;
	uint64_t at = value_of(h, &in->with[0]) + (uint64_t)in->offset;
	const char *shared = h->b->memory, *local = h->b->thread[h->t].local;
	char *p;

	if (in->space == SPACE_SHARED) {
		at = (uint32_t)at;
		if (at % bytes)
			fault(h, "shared address %llu is not a multiple of %zu",
			      (unsigned long long)at, bytes);
		check_shared(h, at, bytes, access);
		return h->b->memory + at;
	}
	p = (char *)(uintptr_t)at;
	if (at % bytes)
		fault(h, "address %p is not a multiple of %zu", (void *)p, bytes);
	if (in->space != SPACE_GLOBAL && p >= shared && p < shared + h->l->kernel->shared)
		check_shared(h, (uint64_t)(p - shared), bytes, access);
	else if (in->space != SPACE_GLOBAL && in->space != SPACE_PARAM && p >= local &&
		 p + bytes <= local + h->l->kernel->local)
		return p;
	else if (in->space != SPACE_GLOBAL && p >= h->l->params &&
		 p + bytes <= h->l->params + h->l->kernel->params && access == PTX_READS)
		return p;
	else if (in->space == SPACE_PARAM || in->space == SPACE_LOCAL)
		fault(h, "%p is outside of the kernel's parameters or local memory", (void *)p);
	else
		check_global(h, p, bytes, access);
	return p;
}

static void load(const struct here *h)
{
	const struct ptx_instruction *in = h->in;
	const size_t bytes = ptx_bytes(in->type);
	const char *p = address_of(h, PTX_READS);

	for (unsigned i = 0; i < in->vector; i++) {
		uint64_t v = 0;

		memcpy(&v, p + i * bytes, bytes);
		if (in->to[i].kind == KIND_REGISTER)
			h->b->thread[h->t].r[in->to[i].number] = ptx_whole(v, in->type);
	}
}

static void store(const struct here *h)
{
	const struct ptx_instruction *in = h->in;
	const size_t bytes = ptx_bytes(in->type);
	char *p = address_of(h, PTX_WRITES);

	for (unsigned i = 0; i < in->vector; i++) {
		const uint64_t v = value_of(h, &in->with[1 + i]);

		memcpy(p + i * bytes, &v, bytes);
	}
}

static void atomic(const struct here *h)
{
	const enum ptx_type type = h->in->type;
	const size_t bytes = ptx_bytes(type);
	char *p = address_of(h, PTX_ADDS);
	uint64_t was = 0, becomes = 0;
	const char *why;

	memcpy(&was, p, bytes);
	was = ptx_whole(was, type);
	why = ptx_combine(h->in, was, ptx_whole(value_of(h, &h->in->with[1]), type), &becomes);
	if (why)
		fault(h, "%s", why);
	memcpy(p, &becomes, bytes);
	if (h->in->op == OP_ATOM)
		give(h, was);
}

/* Also moves a word to two halves, and two halves to a word. */
static void move(const struct here *h)
{
	const struct ptx_instruction *in = h->in;
	const unsigned half = 4 * ptx_bytes(in->type);
	uint64_t *r = h->b->thread[h->t].r;
	const uint64_t low = value_of(h, &in->with[0]);

	if (in->n_to == 2 && in->n_with == 1) {
		const uint64_t mask = (UINT64_C(1) << half) - 1;

		if (in->to[0].kind == KIND_REGISTER)
			r[in->to[0].number] = low & mask;
		if (in->to[1].kind == KIND_REGISTER)
			r[in->to[1].number] = low >> half & mask;
	} else if (in->n_with == 2 && in->n_to == 1) {
		const uint64_t mask = (UINT64_C(1) << half) - 1;

		give(h, (low & mask) | (value_of(h, &in->with[1]) & mask) << half);
	} else if (in->n_with == 1 && in->n_to == 1) {
		give(h, ptx_whole(low, in->type));
	} else {
		fault(h, "a move that is not known");
	}
}

/* ---- warp functions ------------------------------------------------------------------ */

static uint32_t mask_of(const struct here *h)
{
	const struct ptx_instruction *in = h->in;

	return (uint32_t)value_of(h, &in->with[in->n_with - 1]);
}

/* Returns the lane from which this lane gets a value; *inside: there is such a lane. */
static unsigned source(const struct here *h, int *inside)
{
	const unsigned lane = h->t % LANES, by = (uint32_t)value_of(h, &h->in->with[1]) & 31;
	const uint32_t c = (uint32_t)value_of(h, &h->in->with[2]);
	const unsigned segment = c >> 8 & 31, clamp = c & 31;
	const unsigned most = (lane & segment) | (clamp & ~segment), least = lane & segment;
	int from;

	switch (h->in->mode) {
	case MODE_UP:
		from = (int)lane - (int)by;
		*inside = from >= (int)most;
		break;
	case MODE_DOWN:
		from = (int)(lane + by);
		*inside = from <= (int)most;
		break;
	case MODE_BFLY:
		from = (int)(lane ^ by);
		*inside = from <= (int)most;
		break;
	case MODE_IDX:
		from = (int)(least | (by & ~segment));
		*inside = from <= (int)most;
		break;
	default: fault(h, "a shuffle that is not known");
	}
	return *inside ? (unsigned)from : lane;
}

static void shuffle(struct here *h, unsigned first, uint32_t mask)
{
	uint64_t given[LANES], got[LANES];
	int inside[LANES];

	for (unsigned i = 0; i < LANES; i++) {
		h->t = first + i;
		given[i] = mask >> i & 1 ? value_of(h, &h->in->with[0]) : 0;
	}
	for (unsigned i = 0; i < LANES; i++) {
		h->t = first + i;
		if (!(mask >> i & 1))
			continue;
		const unsigned from = source(h, &inside[i]);
		if (!(mask >> from & 1))
			fault(h, "lane %u, from which a value is asked for, takes no part", from);
		got[i] = given[from];
	}
	for (unsigned i = 0; i < LANES; i++) {
		uint64_t *r = h->b->thread[first + i].r;

		if (!(mask >> i & 1))
			continue;
		if (h->in->to[0].kind == KIND_REGISTER)
			r[h->in->to[0].number] = got[i];
		if (h->in->n_to > 1 && h->in->to[1].kind == KIND_REGISTER)
			r[h->in->to[1].number] = (uint64_t)inside[i];
	}
}

static void vote_or_reduce(struct here *h, unsigned first, uint32_t mask)
{
	const enum ptx_type type = h->in->op == OP_VOTE ? TYPE_PRED : h->in->type;
	uint64_t all = 1, any = 0, ballot = 0, sum = 0, v;
	const char *why = NULL;
	int begun = 0;

	for (unsigned i = 0; i < LANES; i++) {
		h->t = first + i;
		if (!(mask >> i & 1))
			continue;
		v = ptx_whole(value_of(h, &h->in->with[0]), type);
		all &= v;
		any |= v;
		ballot |= v << i;
		if (h->in->op == OP_REDUX && begun)
			why = ptx_combine(h->in, sum, v, &sum);
		else
			sum = v;
		if (why)
			fault(h, "%s", why);
		begun = 1;
	}
	if (h->in->op == OP_VOTE)
		sum = h->in->mode == MODE_ALL ? all : h->in->mode == MODE_ANY ? any : ballot;
	for (unsigned i = 0; i < LANES; i++) {
		h->t = first + i;
		if (mask >> i & 1)
			give(h, sum);
	}
}

/* Continues with the lanes of thread t's warp when all lanes in its mask have reached the same
 * instruction. */
static void meet(struct here *h)
{
	const unsigned first = h->t / LANES * LANES, caller = h->t;
	struct thread *thread = h->b->thread;
	const uint32_t mask = mask_of(h), at = thread[h->t].at;

	if (!(mask >> caller % LANES & 1))
		fault(h, "the lane is not one of those that it names, %08x", mask);
	for (unsigned i = 0; i < LANES; i++) {
		if (!(mask >> i & 1))
			continue;
		if (thread[first + i].waits == GONE)
			fault(h, "lane %u, which is waited for, has ended", i);
		if (thread[first + i].waits != AT_WARP || thread[first + i].at != at)
			return;
		h->t = first + i;
		if (mask_of(h) != mask)
			fault(h, "lanes of a warp name others: %08x and %08x", mask_of(h), mask);
	}
	h->t = caller;
	if (h->in->op == OP_SHFL)
		shuffle(h, first, mask);
	else if (h->in->op == OP_VOTE || h->in->op == OP_REDUX)
		vote_or_reduce(h, first, mask);
	else
		ptx_shared_warp_met(&h->b->shared, first / LANES);
	for (unsigned i = 0; i < LANES; i++)
		if (mask >> i & 1) {
			thread[first + i].waits = RUNS;
			thread[first + i].at++;
		}
	h->t = caller;
}

static void arrive(struct here *h)
{
	struct block *b = h->b;

	if (value_of(h, &h->in->with[0]) || h->in->n_with > 1)
		fault(h, "a barrier that is not known");
	if (b->left != h->l->threads)
		fault(h, "threads of the block have ended before this barrier");
	b->thread[h->t].waits = AT_BLOCK;
	if (++b->arrived < h->l->threads)
		return;
	b->arrived = 0;
	ptx_shared_block_met(&b->shared);
	for (unsigned i = 0; i < h->l->threads; i++) {
		b->thread[i].waits = RUNS;
		b->thread[i].at++;
	}
}

static void compute(const struct here *h)
{
	uint64_t value[PTX_OPERANDS] = { 0 }, out = 0;
	const char *why;

	for (unsigned i = 0; i < h->in->n_with; i++)
		value[i] = value_of(h, &h->in->with[i]);
	why = ptx_compute(h->in, value, &out);
	if (why)
		fault(h, "%s", why);
	give(h, out);
}

/* Converts a shared variable's address to a generic address, and back. Addresses of other spaces do
 * not change. */
static uint64_t address_for_all(const struct here *h)
{
	const uint64_t base = (uint64_t)(uintptr_t)h->b->memory, at = value_of(h, &h->in->with[0]);

	if (h->in->space != SPACE_SHARED)
		return at;
	return h->in->mode == MODE_TO ? at - base : at + base;
}

/* ---- threads -------------------------------------------------------------------------- */

/* Returns 1 if the thread can continue at once. */
static int step(struct here *h)
{
	struct thread *t = &h->b->thread[h->t];
	const struct ptx_instruction *in = h->in;

	if (in->guarded && (int)(t->r[in->guard] & 1) == in->guard_negated) {
		t->at++;
		return 1;
	}
	switch (in->op) {
	case OP_BRA: t->at = in->target; return 1;
	case OP_RET:
		t->waits = GONE;
		h->b->left--;
		if (t->done > h->l->done.longest)
			h->l->done.longest = t->done;
		return 0;
	case OP_BAR:
		if (in->mode != MODE_WARP) {
			arrive(h);
			return t->waits == RUNS;
		}
		/* fallthrough */
	case OP_SHFL:
	case OP_VOTE:
	case OP_REDUX:
		t->waits = AT_WARP;
		meet(h);
		return t->waits == RUNS;
	case OP_NANOSLEEP:
		if (t->done - t->slept < WAITING_LOOP)
			t->done = t->slept;
		t->slept = t->done;
		t->at++;
		return 0;
	case OP_FENCE:
	case OP_MEMBAR: break;
	case OP_LD: load(h); break;
	case OP_ST: store(h); break;
	case OP_ATOM:
	case OP_RED: atomic(h); break;
	case OP_MOV: move(h); break;
	case OP_CVTA: give(h, address_for_all(h)); break;
	default: compute(h); break;
	}
	t->at++;
	return 1;
}

static void run_thread(struct launch *l, struct block *b, unsigned t, unsigned most)
{
	struct here h = { .l = l, .b = b, .t = t };

	while (most--) {
		h.t = t;
		h.in = &l->kernel->code[b->thread[t].at];
		l->done.instructions++;
		b->thread[t].done++;
		if (!step(&h))
			return;
	}
}

/* Runs all threads once, for few or many instructions, in an order of blocks, warps and lanes that
 * changes. */
static void run_round(struct launch *l, struct block **blocks, unsigned n)
{
	const uint64_t order = dice(l);
	const unsigned warps = l->threads / LANES,
		       most = order >> 40 & 3 ? 4096 : 1 + (order >> 44 & 15);

	for (unsigned i = 0; i < n * warps; i++) {
		const unsigned which = (unsigned)((i + (order & 0xffff)) % (n * warps));
		struct block *b = blocks[which % n];
		const unsigned odd = (unsigned)(order >> 16 & 31) | 1;

		for (unsigned lane = 0; lane < LANES; lane++) {
			const unsigned t = which / n * LANES +
					   (lane * odd + (unsigned)(order >> 24)) % LANES;

			if (b->thread[t].waits == RUNS)
				run_thread(l, b, t, most);
		}
	}
}

static void check_progress(struct launch *l, struct block **blocks, unsigned n, uint64_t before)
{
	if (l->done.instructions != before)
		return;
	for (unsigned i = 0; i < n; i++)
		for (unsigned t = 0; t < l->threads; t++) {
			const struct here h = { l, blocks[i], t,
						&l->kernel->code[blocks[i]->thread[t].at] };

			if (blocks[i]->thread[t].waits == AT_WARP)
				fault(&h, "its lanes wait for each other at different places");
			if (blocks[i]->thread[t].waits == AT_BLOCK)
				fault(&h, "not all threads come to this barrier");
		}
}

/* ---- blocks ---------------------------------------------------------------------------- */

static void *room(size_t bytes)
{
	void *p = NULL;

	if (posix_memalign(&p, ALIGNMENT, bytes ? bytes : ALIGNMENT))
		abort();
	return p;
}

static struct block *block_new(const struct launch *l)
{
	const struct ptx_kernel *k = l->kernel;
	struct block *b = calloc(1, sizeof *b);

	if (!b)
		abort();
	b->memory = room(k->shared);
	for (unsigned t = 0; t < l->threads; t++) {
		b->thread[t].r = room(k->registers * sizeof(uint64_t));
		b->thread[t].local = room(k->local);
	}
	ptx_shared_open(&b->shared, k->shared);
	return b;
}

static void block_begin(struct launch *l, struct block *b, unsigned index)
{
	b->index = index;
	b->left = l->threads;
	b->arrived = 0;
	for (unsigned t = 0; t < l->threads; t++) {
		b->thread[t].at = 0;
		b->thread[t].waits = RUNS;
		b->thread[t].done = b->thread[t].slept = 0;
	}
	ptx_shared_begin(&b->shared);
}

static void block_free(struct block *b, unsigned threads)
{
	ptx_shared_close(&b->shared);
	for (unsigned t = 0; t < threads; t++) {
		free(b->thread[t].r);
		free(b->thread[t].local);
	}
	free(b->memory);
	free(b);
}

static int all_ended(struct block **blocks, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (blocks[i]->left)
			return 0;
	return 1;
}

struct ptx_counts ptx_run(const struct ptx_kernel *kernel, unsigned grid, unsigned threads,
			  const void *params, int together, ptx_memory_function memory)
{
	static _Thread_local uint64_t launches;
	struct launch l = { .kernel = kernel,
			    .params = params,
			    .grid = grid,
			    .threads = threads,
			    .memory = memory,
			    .random = (++launches) * UINT64_C(0x9e3779b97f4a7c15) };
	const unsigned at_once = together ? grid : 1;
	struct block **blocks = calloc(at_once, sizeof *blocks);

	if (!blocks || threads > THREADS_MOST || threads % LANES)
		abort();
	for (unsigned i = 0; i < at_once; i++)
		blocks[i] = block_new(&l);
	for (unsigned begun = 0; begun < grid; begun += at_once) {
		for (unsigned i = 0; i < at_once; i++)
			block_begin(&l, blocks[i], begun + i);
		while (!all_ended(blocks, at_once)) {
			const uint64_t before = l.done.instructions;

			run_round(&l, blocks, at_once);
			check_progress(&l, blocks, at_once, before);
		}
	}
	for (unsigned i = 0; i < at_once; i++)
		block_free(blocks[i], threads);
	free(blocks);
	return l.done;
}
