/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors in pieces of which some are in GPU memory: the bits of one vector of floats in host
 * memory. Parameters and means in 16 bits in GPU memory: the bits of those in host memory. And a
 * broadcast from GPU memory. */
#include "four_tensors.h"
#include "gpu_rank.h"
#include "narrow.h"
#include "ranks.h"
#include "worker/device_vectors.h"
#include "worker/state.h"
#include "worker/target.h"
#include "cases.h"
#include <string.h>

enum { STEPS = 3, PIECES = 4 };

static const uint64_t lengths[PIECES] = { 701, 1, 598, 200 };
static const int some[PIECES] = { 1, 0, 1, 1 }, every[PIECES] = { 1, 1, 1, 1 },
		 none_there[PIECES] = { 0 };

/* A vector in pieces, and the same vector in host memory. */
struct pieces {
	sluice_segment of[PIECES];
	struct memory memory[PIECES];
	const int *on_device; /* which pieces are on the device */
	uint8_t here[PIECES][COUNT * sizeof(float)];
};

static size_t bytes_of(const sluice_segment *s)
{
	return s->count * (s->type == SLUICE_F32 ? sizeof(float) : sizeof(uint16_t));
}

static void open_pieces(struct pieces *p, const int types[2], const int on_device[PIECES])
{
	p->on_device = on_device;
	for (int i = 0; i < PIECES; i++) {
		p->of[i] = (sluice_segment){ p->here[i], lengths[i], types[i % 2], 0 };
		if (!on_device[i])
			continue;
		CHECK_OK(device()->alloc(MEMORY_DEVICE, bytes_of(&p->of[i]), &p->memory[i]));
		p->of[i].data = p->memory[i].address;
	}
}

static void close_pieces(struct pieces *p)
{
	for (int i = 0; i < PIECES; i++)
		if (p->on_device[i])
			device()->release(&p->memory[i]);
}

static void move(struct pieces *p, int home)
{
	for (int i = 0; i < PIECES; i++) {
		void *here = p->here[i], *there = p->of[i].data;
		if (p->on_device[i])
			CHECK_OK(device()->copy(home ? here : there, home ? there : here,
						bytes_of(&p->of[i]), NULL));
	}
	CHECK_OK(device()->wait(NULL));
}

/* Stores the upper halves of floats whose lower halves are zero. */
static void put(struct pieces *p, const float *from)
{
	for (int i = 0; i < PIECES; i++)
		for (uint64_t j = 0; j < lengths[i]; j++, from++) {
			uint32_t bits;
			memcpy(&bits, from, sizeof bits);
			if (p->of[i].type == SLUICE_F32)
				((float *)(void *)p->here[i])[j] = *from;
			else
				((uint16_t *)(void *)p->here[i])[j] = (uint16_t)(bits >> 16);
		}
	move(p, 0);
}

/* Checks that each element is that of flat, or with 16 bits one of its neighbours. */
static void check_pieces(struct pieces *p, const float *flat)
{
	move(p, 1);
	for (int i = 0; i < PIECES; i++)
		for (uint64_t j = 0; j < lengths[i]; j++, flat++)
			if (p->of[i].type == SLUICE_F32) {
				CHECK(!memcmp(p->here[i] + j * sizeof *flat, flat, sizeof *flat));
			} else {
				const uint16_t code = ((uint16_t *)(void *)p->here[i])[j];
				const float had = narrow_value(code, SLUICE_BF16);
				CHECK(fabsf(had - *flat) <= fabsf(*flat) / 256);
			}
}

static void shorten(float *values)
{
	for (int i = 0; i < COUNT; i++) {
		uint32_t bits;
		memcpy(&bits, &values[i], sizeof bits);
		bits &= 0xffff0000;
		memcpy(&values[i], &bits, sizeof bits);
	}
}

static void train(sluice_job *job, int rank, const char *recipe, const int types[2], int in_ranges)
{
	static struct pieces params, grads;
	float flat[COUNT], mean[COUNT], grad[COUNT];
	const int none = strstr(recipe, "update=none") != NULL;
	sluice_model *a = NULL, *b = NULL;
	sluice_model_attr attr = attributes(recipe, 3);
	check_of = recipe;
	open_pieces(&params, types, some);
	open_pieces(&grads, types, some);
	for (int i = 0; i < COUNT; i++)
		flat[i] = noise(2, 0, 0, (uint64_t)i);
	shorten(flat);
	put(&params, flat);
	CHECK_OK(sluice_model_open(job, &attr, flat, &a));
	attr.segments = params.of;
	attr.n_segments = PIECES;
	attr.param_type = types[1];
	CHECK_OK(sluice_model_open(job, &attr, NULL, &b));
	check_pieces(&params, flat);
	for (uint64_t step = 1; step <= STEPS; step++) {
		fill_gradient(grad, rank, step, flat);
		shorten(grad);
		put(&grads, grad);
		CHECK_OK(sluice_push(a, grad));
		CHECK_OK(sluice_push_vector(b, IN_PIECES(grads.of, PIECES)));
		CHECK_OK(sluice_pull(a, none ? mean : flat));
		const sluice_segment *target = none ? grads.of : params.of;
		if (in_ranges) {
			CHECK_OK(sluice_pull_begin(b, IN_PIECES(target, PIECES)));
			CHECK_OK(sluice_pull_range(b, 100, COUNT - 100));
			CHECK_OK(sluice_pull_range(b, 0, 100));
		} else if (none || step % 2) {
			CHECK_OK(sluice_pull_vector(b, IN_PIECES(target, PIECES)));
		} else {
			CHECK_OK(sluice_pull(b, NULL));
		}
		check_pieces(none ? &grads : &params, none ? mean : flat);
	}
	sluice_model_close(&b);
	sluice_model_close(&a);
	close_pieces(&params);
	close_pieces(&grads);
	check_of = NULL;
}

/* Compares pieces that are all in GPU memory with the same pieces in host memory. */
static void train_there(sluice_job *job, int rank, const char *recipe, const int types[2],
			int in_ranges)
{
	static struct pieces params[2], grads[2];
	float flat[COUNT], grad[COUNT];
	const int none = strstr(recipe, "update=none") != NULL;
	const int compressed_there = types[0] == types[1] && !strstr(recipe, "every");
	sluice_model *model[2] = { NULL, NULL };

	check_of = recipe;
	for (int i = 0; i < COUNT; i++)
		flat[i] = noise(2, 0, 0, (uint64_t)i) * (i % 7 ? 1.0f : -0.0f);
	shorten(flat);
	for (int m = 0; m < 2; m++) {
		sluice_model_attr attr = attributes(recipe, 3);
		open_pieces(&params[m], types, m ? every : none_there);
		open_pieces(&grads[m], types, m ? every : none_there);
		put(&params[m], flat);
		attr.segments = params[m].of;
		attr.n_segments = PIECES;
		attr.param_type = types[1];
		attr.grad_type = types[0] == types[1] ? types[0] : SLUICE_F32;
		CHECK_OK(sluice_model_open(job, &attr, NULL, &model[m]));
	}
	for (uint64_t step = 1; step <= STEPS; step++) {
		fill_gradient(grad, rank, step, flat);
		shorten(grad);
		for (int m = 0; m < 2; m++) {
			struct pieces *to = none ? &grads[m] : &params[m];
			put(&grads[m], grad);
			CHECK_OK(sluice_push_vector(model[m], IN_PIECES(grads[m].of, PIECES)));
			if (in_ranges) {
				CHECK_OK(sluice_pull_begin(model[m], IN_PIECES(to->of, PIECES)));
				CHECK_OK(sluice_pull_range(model[m], 100, COUNT - 100));
				CHECK_OK(sluice_pull_range(model[m], 0, 100));
			} else if (none || step % 2) {
				CHECK_OK(sluice_pull_vector(model[m], IN_PIECES(to->of, PIECES)));
			} else {
				CHECK_OK(sluice_pull(model[m], NULL));
			}
			move(to, 1);
		}
		CHECK(on_device_selects(model[1]->worker) == compressed_there);
		for (int i = 0; i < PIECES; i++)
			CHECK(!memcmp((none ? grads : params)[0].here[i],
				      (none ? grads : params)[1].here[i],
				      bytes_of(&params[0].of[i])));
	}
	for (int m = 0; m < 2; m++) {
		sluice_model_close(&model[m]);
		close_pieces(&params[m]);
		close_pieces(&grads[m]);
	}
	check_of = NULL;
}

static void train_all(sluice_job *job, int rank, void *argument)
{
	static const char *const recipes[] = { "up=all down=all", "up=topk(0.05) down=topk(0.1)",
					       "up=topk(0.05) down=all update=none clip=1",
					       "up=topk(0.1) down=all when=every(2)" };
	static const int kinds[2][2] = { { SLUICE_F32, SLUICE_F32 }, { SLUICE_F32, SLUICE_BF16 } };
	for (int i = 0; i < 16; i++)
		train(job, rank, recipes[i / 4], kinds[i % 2], i / 2 % 2);
}

TEST_IN_JOB(push_and_pull__all_pieces_on_a_gpu__stay_there, 2)
{
	static const char *const recipes[] = {
		"up=all down=all",
		"up=topk(0.05) down=topk(0.1)",
		"up=topk(0.05) down=all update=none clip=1",
		"up=topk(0.05),f16 down=all signal=momentum(0.9) update=momentum(0.5)",
		"up=topk(0.05) down=all when=every(2)",
	};
	static const int types[][2] = { { SLUICE_F32, SLUICE_F32 },
					{ SLUICE_BF16, SLUICE_BF16 },
					{ SLUICE_F32, SLUICE_BF16 } };

	device();
	for (size_t r = 0; r < sizeof recipes / sizeof recipes[0]; r++)
		for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
			train_there(job, rank, recipes[r], types[t], (r + t) % 2 != 0);
}

TEST(push_and_pull__pieces_on_a_gpu__as_in_host_memory)
{
	run_in_job(2, train_all, NULL);
}

/* One vector of 16 bits on the device, also after its state was saved and loaded. */
TEST_IN_JOB(pull__of_16_bits_on_a_gpu__as_in_host_memory, 2)
{
	static uint8_t state[64 << 10];
	uint16_t code[COUNT];
	float flat[COUNT] = { 0 }, grad[COUNT];
	struct memory there = { 0 };
	sluice_model *a = NULL, *b = NULL;
	size_t bytes = 0;
	sluice_model_attr attr = attributes("up=topk(0.1) down=all update=momentum(0.9)", 2);
	CHECK_OK(device()->alloc(MEMORY_DEVICE, sizeof code, &there));
	CHECK_OK(device()->zero(there.address, sizeof code, NULL));
	CHECK_OK(sluice_model_open(job, &attr, flat, &a));
	attr.param_type = SLUICE_BF16;
	CHECK_OK(sluice_model_open(job, &attr, there.address, &b));
	for (uint64_t step = 1; step <= STEPS; step++) {
		fill_gradient(grad, rank, step, flat);
		if (step == STEPS) {
			CHECK_OK(sluice_state_size(b, &bytes));
			CHECK(bytes <= sizeof state);
			CHECK_OK(sluice_state_save(b, state, bytes, 0));
			sluice_model_close(&b);
			CHECK_OK(device()->zero(there.address, sizeof code, NULL));
			CHECK_OK(sluice_model_open(job, &attr, there.address, &b));
			CHECK_OK(sluice_state_load(b, state, bytes, there.address, NULL));
		}
		CHECK_STEP(a, grad, flat);
		CHECK_STEP(b, grad, there.address);
		CHECK_OK(device()->copy(code, there.address, sizeof code, NULL));
		CHECK_OK(device()->wait(NULL));
		for (int i = 0; i < COUNT; i++)
			CHECK(fabsf(narrow_value(code[i], SLUICE_BF16) - flat[i]) <=
			      fabsf(flat[i]) / 256);
	}
	sluice_model_close(&b);
	sluice_model_close(&a);
	device()->release(&there);
}

/* ---- one vector of 16 bits, which the device rounds itself ---- */

enum { NARROW_STEPS = 6, RANGES_AT = 2, HOME_AT = 3, RESTORED_AT = 5, HUGE_ONE = 7 };

struct narrow_case {
	const char *recipe;
	int staged; /* the recipe looks at all parameters, which is the host's */
};

static void codes_there(uint16_t *codes, void *there, int back)
{
	CHECK_OK(device()->copy(back ? (void *)codes : there, back ? there : codes,
				COUNT * sizeof *codes, NULL));
	CHECK_OK(device()->wait(NULL));
}

static void pull_narrow(sluice_model *model, void *target, int in_ranges)
{
	if (in_ranges) {
		CHECK_OK(sluice_pull_begin(model, &(sluice_vector){ .data = target }));
		CHECK_OK(sluice_pull_range(model, 100, COUNT - 100));
		CHECK_OK(sluice_pull_range(model, 0, 100));
	} else {
		CHECK_OK(sluice_pull(model, target));
	}
}

/* Closes b, and continues from its state. */
static void restore(sluice_job *job, const sluice_model_attr *attr, void *there, sluice_model **b)
{
	static uint8_t state[256 << 10];
	size_t bytes = 0;
	CHECK_OK(sluice_state_size(*b, &bytes));
	CHECK(bytes <= sizeof state);
	CHECK_OK(sluice_state_save(*b, state, bytes, 0));
	sluice_model_close(b);
	CHECK_OK(device()->zero(there, COUNT * sizeof(uint16_t), NULL));
	CHECK_OK(sluice_model_open(job, attr, there, b));
	CHECK_OK(sluice_state_load(*b, state, bytes, there, NULL));
}

static void train_rounded(sluice_job *job, int rank, const struct narrow_case *c, int type)
{
	uint16_t here[COUNT], codes[COUNT], start[COUNT];
	float grad[COUNT], unused[COUNT] = { 0 };
	struct memory memory = { 0 }, grad_memory = { 0 };
	sluice_model *a = NULL, *b = NULL;
	const int none = strstr(c->recipe, "update=none") != NULL;
	sluice_model_attr attr = attributes(c->recipe, 2);
	check_of = c->recipe;
	attr.param_type = type;
	attr.lr = 0.5f;
	CHECK_OK(device()->alloc(MEMORY_DEVICE, sizeof codes, &memory));
	CHECK_OK(device()->alloc(MEMORY_DEVICE, sizeof grad, &grad_memory));
	for (uint32_t i = 0; i < COUNT; i++)
		here[i] = start[i] = narrow_code(i * 2654435761u, type);
	codes_there(start, memory.address, 0);
	CHECK_OK(sluice_model_open(job, &attr, here, &a));
	CHECK_OK(sluice_model_open(job, &attr, memory.address, &b));
	for (int step = 1; step <= NARROW_STEPS; step++) {
		fill_gradient(grad, rank, (uint64_t)step, unused);
		grad[HUGE_ONE] = step == HOME_AT ? 1e7f : grad[HUGE_ONE];
		CHECK_OK(device()->copy(grad_memory.address, grad, sizeof grad, NULL));
		CHECK_OK(device()->wait(NULL));
		CHECK_OK(sluice_push(a, grad));
		pull_narrow(a, here, 0);
		if (step == RESTORED_AT && !none)
			restore(job, &attr, memory.address, &b);
		CHECK_OK(sluice_push(b, step % 2 ? grad_memory.address : (void *)grad));
		if (step == HOME_AT) {
			codes_there(codes, memory.address, 1);
			pull_narrow(b, codes, 0);
			CHECK(!target_there(b->worker->into));
			codes_there(codes, memory.address, 0);
		} else {
			pull_narrow(b, memory.address, step == RANGES_AT);
			CHECK(target_there(b->worker->into) == !c->staged);
			codes_there(codes, memory.address, 1);
		}
		CHECK(!memcmp(codes, here, sizeof here));
		if (type == SLUICE_F16 && step == HOME_AT && strstr(c->recipe, "up=all"))
			CHECK((codes[HUGE_ONE] & 0x7fff) == 0x7c00); /* infinite */
	}
	CHECK(memcmp(codes, start, sizeof codes));
	sluice_model_close(&b);
	sluice_model_close(&a);
	device()->release(&memory);
	device()->release(&grad_memory);
	check_of = NULL;
}

TEST_IN_JOB(pull__of_16_bits_on_a_gpu__the_bits_of_16_bits_in_host_memory, 2)
{
	static const struct narrow_case cases[] = {
		{ "up=all down=all", 0 },
		{ "up=all down=all update=momentum(0.9)", 0 },
		{ "up=topk(0.05) down=topk(0.1)", 0 },
		{ "up=topk(0.05),f16 down=all,bf16 update=momentum(0.9) dense=*.bias", 0 },
		{ "up=sketch(0.05,5,1.6,4) down=all", 0 },
		{ "up=cyclic(0.1) down=all", 0 },
		{ "up=all down=all update=none", 0 },
		{ "up=topk(0.05) down=topk(0.1),uniform(4,16) update=none clip=1", 0 },
		{ "up=topk(0.1) down=all when=every(2)", 1 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		train_rounded(job, rank, &cases[i], SLUICE_F16);
		train_rounded(job, rank, &cases[i], SLUICE_BF16);
	}
}

/* Each CUDA call in the first pull on the device fails in turn, and is reported. */
static int pull_failing(int rank, void *argument)
{
	enum { CALLS = 40 };
	static void (*fail_later)(unsigned, int);
	static float grad[COUNT];
	static uint16_t codes[COUNT];
	struct memory there = { 0 };
	int failed = 0, succeeded = 0;
	device_look_up("emulated_fail", &fail_later);
	CHECK_OK(device()->alloc(MEMORY_DEVICE, sizeof codes, &there));
	log_capture();
	for (unsigned call = 0; call < CALLS; call++) {
		sluice_job *job = rank_join(NULL);
		sluice_model_attr attr = attributes(argument, 1);
		attr.param_type = SLUICE_BF16;
		sluice_model *model = rank_open(job, codes, attr);
		fill_gradient(grad, 0, 1, grad);
		CHECK_OK(sluice_push(model, grad));
		fail_later(call, 719);
		int rc = sluice_pull(model, there.address);
		fail_later(1u << 30, 0);
		CHECK(!rc || (rc == SLUICE_EGPU && error_says("cudaErrorLaunchFailure", NULL)));
		failed += rc != 0;
		succeeded += !rc;
		sluice_model_close(&model);
		sluice_finalize(&job);
	}
	CHECK(failed > 3 && succeeded > 3);
	device()->release(&there);
	return 0;
}

/* The same for a whole step of pieces on the device. */
static int step_failing(int rank, void *argument)
{
	enum { CALLS = 90 };
	static const int types[2] = { SLUICE_F32, SLUICE_BF16 };
	static void (*fail_later)(unsigned, int);
	static struct pieces params, grads;
	static float flat[COUNT];
	int failed = 0, succeeded = 0;
	device_look_up("emulated_fail", &fail_later);
	open_pieces(&params, types, every);
	open_pieces(&grads, (const int[]){ SLUICE_F32, SLUICE_F32 }, every);
	fill_gradient(flat, 0, 1, flat);
	put(&params, flat);
	put(&grads, flat);
	log_capture();
	for (unsigned call = 0; call < CALLS; call++) {
		sluice_job *job = rank_join(NULL);
		sluice_model_attr attr = attributes("up=topk(0.1) down=all", 1);
		attr.segments = params.of;
		attr.n_segments = PIECES;
		attr.param_type = SLUICE_BF16;
		sluice_model *model = rank_open(job, NULL, attr);
		fail_later(call, 719);
		int rc = sluice_push_vector(model, IN_PIECES(grads.of, PIECES));
		if (!rc)
			rc = sluice_pull(model, NULL);
		fail_later(1u << 30, 0);
		CHECK(!rc || (rc == SLUICE_EGPU && error_says("cudaErrorLaunchFailure", NULL)));
		failed += rc != 0;
		succeeded += !rc;
		sluice_model_close(&model);
		sluice_finalize(&job);
	}
	CHECK(failed > 30 && succeeded > 3);
	close_pieces(&params);
	close_pieces(&grads);
	return 0;
}

TEST(step__of_pieces__calls_of_a_gpu_fail__it_is_said)
{
	if (device_is_real())
		skip();
	run_ranks(1, step_failing, NULL);
}

TEST(pull__of_16_bits__calls_of_a_gpu_fail__it_is_said)
{
	if (device_is_real())
		skip();
	run_ranks(1, pull_failing, "up=topk(0.1) down=all");
	run_ranks(1, pull_failing, "up=topk(0.1) down=all update=none");
}

/* Rank 1 has the bytes on its device. Rank 0 receives them on its device, rank 2 in host memory. */
TEST_IN_JOB(broadcast__from_and_to_a_gpu__as_in_host_memory, 3)
{
	enum { MOST = 9 << 20 };
	static uint8_t here[MOST];
	static const size_t sizes[] = { 0, 1, 5000, MOST };
	struct memory there = { 0 };
	CHECK_OK(device()->alloc(MEMORY_DEVICE, MOST, &there));
	for (int i = 0; i < 4; i++) {
		memset(here, 0, sizeof here);
		for (size_t j = 0; j < sizes[i] && rank == 1; j++)
			here[j] = (uint8_t)(j * 7 + j / 1000 + (size_t)i);
		CHECK_OK(device()->copy(there.address, here, MOST, NULL));
		CHECK_OK(device()->wait(NULL));
		CHECK_OK(sluice_broadcast(job, rank == 2 ? (void *)here : there.address, sizes[i],
					  1));
		if (rank != 2) {
			CHECK_OK(device()->copy(here, there.address, MOST, NULL));
			CHECK_OK(device()->wait(NULL));
		}
		for (size_t j = 0; j < sizes[i]; j++)
			CHECK(here[j] == (uint8_t)(j * 7 + j / 1000 + (size_t)i));
	}
	device()->release(&there);
}

/* Each CUDA call on one rank fails in turn. The other ranks do not wait for it. They learn of the
 * failure unless they already had their bytes. */
static void broadcast_failing(sluice_job *job, int rank, void *argument)
{
	enum { CALLS = 24, LARGE = 9 << 20 };
	static void (*fail_later)(unsigned, int);
	const int culprit = *(const int *)argument;
	struct memory there = { 0 };
	int failed = 0;
	device_look_up("emulated_fail", &fail_later);
	CHECK_OK(device()->alloc(MEMORY_DEVICE, LARGE, &there));
	log_capture();
	for (unsigned call = 0; call < CALLS; call++) {
		int mine, all[3];
		fail_later(rank == culprit ? call : 1u << 30, 719);
		mine = sluice_broadcast(job, there.address, LARGE, 1);
		fail_later(1u << 30, 0);
		CHECK(!mine ||
		      error_says(rank == culprit ? "cudaErrorLaunchFailure" : "rank", NULL));
		CHECK_OK(sluice_gather(job, &mine, sizeof mine, all));
		for (int r = 0; r < 3; r++)
			CHECK((all[r] != 0) == (all[culprit] != 0));
		failed += mine != 0;
	}
	CHECK(failed > 3 && failed < CALLS);
	device()->release(&there);
}

TEST(broadcast__calls_of_a_gpu_fail_on_one_rank__all_hear_of_it)
{
	if (device_is_real())
		skip();
	for (int culprit = 0; culprit < 2; culprit++)
		run_in_job(3, broadcast_failing, &culprit);
}

/* ---- vectors in one piece, of a type that may differ from the model's ---- */

/* A vector in host memory, and the same on a device. */
struct twin {
	float here[COUNT], back[COUNT];
	struct memory there;
	size_t bytes;
	int type;
};

static void open_twin(struct twin *t, int type, int rank, uint64_t step)
{
	*t = (struct twin){ .type = type, .bytes = COUNT * sizeof(float) };
	for (size_t i = 0; i < COUNT; i++) {
		t->here[i] = noise(1, step, (uint64_t)rank, i);
		if (type != SLUICE_F32)
			narrow_put(t->here, i, narrow_code((uint32_t)(i * 2654435761u), type),
				   type);
	}
	if (type != SLUICE_F32)
		t->bytes = COUNT * narrow_bytes(type);
	CHECK_OK(device()->alloc(MEMORY_DEVICE, t->bytes, &t->there));
	CHECK_OK(device()->copy(t->there.address, t->here, t->bytes, NULL));
	CHECK_OK(device()->wait(NULL));
}

static void check_twin(struct twin *t)
{
	CHECK_OK(device()->copy(t->back, t->there.address, t->bytes, NULL));
	CHECK_OK(device()->wait(NULL));
	CHECK(!memcmp(t->back, t->here, t->bytes));
}

struct one_piece {
	const char *recipe;
	int grad, grad_type, param, param_type; /* types of the pieces, and of the model */
};

static void train_one_piece(sluice_job *job, int rank, const struct one_piece *c)
{
	static struct twin params, grads;
	sluice_model *model[2] = { NULL, NULL };
	sluice_model_attr attr = attributes(c->recipe, 3);

	check_of = c->recipe;
	attr.grad_type = c->grad_type;
	attr.param_type = c->param_type;
	open_twin(&params, c->param, 0, 0);
	for (int m = 0; m < 2; m++) {
		const sluice_segment piece = { m ? params.there.address : params.here, COUNT,
					       c->param, 0 };
		attr.segments = &piece;
		attr.n_segments = 1;
		CHECK_OK(sluice_model_open(job, &attr, NULL, &model[m]));
	}
	for (uint64_t step = 1; step <= STEPS; step++) {
		open_twin(&grads, c->grad, rank, step);
		for (int m = 0; m < 2; m++) {
			const sluice_segment grad = { m ? grads.there.address : grads.here, COUNT,
						      c->grad, 0 };
			const sluice_segment to = { m ? params.there.address : params.here, COUNT,
						    c->param, 0 };
			CHECK_OK(sluice_push_vector(model[m], IN_PIECES(&grad, 1)));
			CHECK_OK(sluice_pull_vector(model[m], IN_PIECES(&to, 1)));
		}
		CHECK(on_device_selects(model[1]->worker) ==
		      (c->grad == c->grad_type && !strstr(c->recipe, "every")));
		check_twin(&params);
		device()->release(&grads.there);
	}
	for (int m = 0; m < 2; m++)
		sluice_model_close(&model[m]);
	device()->release(&params.there);
	check_of = NULL;
}

static int train_all_of_one_piece(int rank, void *argument)
{
	static const char *const recipes[] = { "up=all down=all", "up=topk(0.05) down=topk(0.1)",
					       "up=all down=all update=none",
					       "up=topk(0.1) down=topk(0.1) update=none",
					       "up=topk(0.1) down=all when=every(2)" };
	static const int types[] = { SLUICE_F32, SLUICE_F16, SLUICE_BF16, SLUICE_F8_E4M3FN,
				     SLUICE_F8_E5M2 };
	sluice_job *job = rank_join(NULL);

	(void)argument;
	for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++)
		for (int i = 0; i < 25; i++) {
			struct one_piece c = { recipes[r], types[i % 5], types[i / 5], types[i % 3],
					       types[i / 3 % 3] };

			if (c.param_type == SLUICE_F32 && !strstr(c.recipe, "none"))
				c.param = SLUICE_F32; /* for which there is a 32-bit copy */
			train_one_piece(job, rank, &c);
		}
	sluice_finalize(&job);
	return 0;
}

TEST(step__of_one_piece_of_another_type_on_a_gpu__as_in_host_memory)
{
	run_ranks(2, train_all_of_one_piece, NULL);
}
