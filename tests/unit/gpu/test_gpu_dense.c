/* SPDX-License-Identifier: BSD-3-Clause
 * Pushes of all coordinates on the device: each part's payload, checksum and scale are those of
 * message_encode(), and the residual keeps what the messages leave, for every coding, type of
 * gradients and treatment of NaN, and for parts that begin anywhere. */

#include "base/bytes.h"
#include "compress/few_bits.h"
#include "compress/message.h"
#include "gpu.h"
#include "narrow.h"
#include "random.h"
#include "cases.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	PARTS_MOST = 64,
	COUNT = 21007,
	STEPS = 3,
	HEADER = MESSAGE_HEADER_BYTES,
	RANK = 3,
	SEED = 11,
	OPERATIONS_MOST = 8
};
#define SCALE      0.3f
#define GRAD_SCALE 0.3f
#define MOMENTUM   0.9f

struct variant {
	struct value_coding coding;
	size_t parts;
	unsigned blocks; /* most blocks of a kernel; 0: any number */
	int type;        /* of gradients */
	int fresh, velocity, zero, judge, left;
	int bad_step; /* the step whose gradient has NaN; STEPS: none */
	size_t shift; /* shift of the gradient, in elements */
};

/* The vectors on one side, and the memory for payloads. */
struct side {
	float *residual, *velocity, *grad, *got;
	uint8_t *codes, *encoded;
	float *residual_there, *velocity_there;
	uint8_t *grad_there, *payloads;
	struct memory landing;
	struct device_part part[PARTS_MOST];
	size_t room;
	struct device_compressor *compressor;
};

static size_t width_of(int type)
{
	return type == SLUICE_F32 ? sizeof(float) : narrow_bytes(type);
}

/* Makes parts of unequal lengths, the first of which has one coordinate. */
static void make_parts(const struct variant *v, struct side *s)
{
	for (size_t p = 0; p < v->parts; p++) {
		const size_t begin = p ? 1 + (COUNT - 1) * p / v->parts : 0;
		const size_t end = p + 1 < v->parts ? 1 + (COUNT - 1) * (p + 1) / v->parts : COUNT;

		s->part[p] = (struct device_part){ .begin = (uint32_t)begin,
						   .span = (uint32_t)(end - begin),
						   .payload = s->payloads + p * s->room,
						   .copy = (uint8_t *)s->landing.address +
							   p * s->room };
	}
}

static void side_open(const struct variant *v, struct side *s, struct random *r)
{
	const size_t bytes = COUNT * sizeof(float);
	const struct device_shape shape = {
		.n = COUNT, .k = 0, .parts = v->parts, .blocks = v->blocks
	};

	s->room = message_bound(COUNT, COUNT, (struct value_coding){ VALUE_F32, 0, 0, 0 });
	s->residual = memory(bytes);
	s->velocity = memory(bytes);
	s->grad = memory(bytes);
	s->got = memory(bytes);
	s->codes = memory((COUNT + v->shift) * sizeof(float));
	s->encoded = memory(s->room);
	for (size_t i = 0; i < COUNT; i++) {
		s->residual[i] = i % 5 ? random_normal(r) : 0;
		s->velocity[i] = random_normal(r);
	}
	s->residual_there = gpu_memory(s->residual, bytes);
	s->velocity_there = gpu_memory(s->velocity, bytes);
	s->grad_there = gpu_memory(NULL, bytes + v->shift * sizeof(float));
	s->payloads = gpu_memory(NULL, v->parts * s->room);
	assert_int_equal(gpu()->alloc(MEMORY_HOST, v->parts * s->room, &s->landing), 0);
	assert_int_equal(gpu()->open(&shape, &s->compressor), 0);
	make_parts(v, s);
}

static void side_close(struct side *s)
{
	gpu()->close(&s->compressor);
	gpu()->release(&s->landing);
	gpu_free(s->residual_there);
	gpu_free(s->velocity_there);
	gpu_free(s->grad_there);
	gpu_free(s->payloads);
	free(s->residual);
	free(s->velocity);
	free(s->grad);
	free(s->got);
	free(s->codes);
	free(s->encoded);
}

/* Makes ordinary values, zeros of both signs, denormal values and large values. */
static float value_of(size_t i, struct random *r)
{
	const uint32_t bits = random_bits(r);

	switch (i % 97) {
	case 0: return bits & 1 ? -0.0f : 0.0f;
	case 1: return bits_float(bits & 0x807fffff);
	case 2: return random_normal(r) * 1e30f;
	case 3: return random_normal(r) * 1e-30f;
	default: return random_normal(r);
	}
}

/* Makes the gradient of a step as it is on the device, and its values in grad[]. */
static void make_gradient(const struct variant *v, struct side *s, int step, struct random *r)
{
	const size_t width = width_of(v->type);

	for (size_t i = 0; i < COUNT; i++) {
		const int bad = step == v->bad_step && i % 5000 == 321;

		if (v->type == SLUICE_F32) {
			s->grad[i] = bad ? NAN : value_of(i, r);
			memcpy(s->codes + (v->shift + i) * width, &s->grad[i], width);
			continue;
		}
		const uint16_t code = bad ? narrow_spoilt(v->type, 1) :
					    narrow_code(random_bits(r), v->type);

		narrow_put(s->codes, v->shift + i, code, v->type);
		s->grad[i] = narrow_scaled(code, v->type);
	}
	assert_int_equal(gpu()->copy(s->grad_there + v->shift * width, s->codes + v->shift * width,
				     COUNT * width, NULL),
			 0);
}

/* Adds the gradient as signal.c does. Returns 1 if the gradient is refused. */
static int add_here(const struct variant *v, struct side *s, int step)
{
	if (step == v->bad_step && v->judge)
		return 1;
	for (size_t i = 0; i < COUNT; i++) {
		float add = SCALE * (isfinite(s->grad[i]) || !v->zero ? s->grad[i] : 0.0f);

		if (v->velocity)
			add = s->velocity[i] = MOMENTUM * s->velocity[i] + add;
		s->residual[i] = v->fresh ? add : s->residual[i] + add;
	}
	return 0;
}

static void expect_part(const struct variant *v, struct side *s, size_t p, int step, float range,
			int empty, const struct device_sent *sent)
{
	static const uint32_t nothing;
	const struct device_part *part = &s->part[p];
	float *value = s->residual + part->begin;
	struct message m = { .kind = MESSAGE_PUSH,
			     .values = v->coding,
			     .parts = 1,
			     .span = part->span,
			     .lr = 1,
			     .stream = { RANDOM_ROUND, RANK, (uint64_t)step, SEED },
			     .first = part->begin,
			     .range = range };
	float *decoded = memory(part->span * sizeof(float));
	const size_t bytes = message_encode(NULL, &m, empty ? &nothing : NULL, value, decoded,
					    s->encoded, s->room) -
			     HEADER;

	assert_true(sent->packed);
	assert_int_equal(sent->count, empty ? 0 : part->span);
	assert_int_equal(sent->coding, m.coding);
	assert_int_equal(sent->payload_bytes, bytes);
	assert_int_equal(float_bits(sent->scale), float_bits(m.scale));
	assert_memory_equal(part->copy, s->encoded + HEADER, bytes);
	for (size_t i = bytes; i < s->room; i++)
		assert_int_equal(part->copy[i], POISON); /* no further byte was written */
	assert_int_equal(sent->crc, crc32c(0, s->encoded + HEADER, bytes));
	for (uint32_t i = 0; i < part->span && !empty; i++)
		value[i] -= decoded[i];
	free(decoded);
}

static struct device_push push_of(const struct variant *v, const struct side *s, int step)
{
	return (struct device_push){
		.payload = DEVICE_DENSE,
		.select = { .residual = s->residual_there,
			    .grad = s->grad_there + v->shift * width_of(v->type),
			    .grad_type = v->type,
			    .grad_scale = GRAD_SCALE,
			    .scale = SCALE,
			    .judge = v->judge,
			    .fresh = v->fresh,
			    .zero = v->zero,
			    .velocity = v->velocity ? s->velocity_there : NULL,
			    .momentum = MOMENTUM },
		.values = { .type = (int)v->coding.type,
			    .bits = v->coding.bits,
			    .block = v->coding.block,
			    .purpose = RANDOM_ROUND,
			    .rank = RANK,
			    .seed = SEED,
			    .step = (uint64_t)step },
		.sends_left = v->left,
		.parts = s->part,
	};
}

static void push_and_count(const struct variant *v, struct side *s, int step)
{
	const struct device_push push = push_of(v, s, step);
	struct emulated_counts seen;

	gpu_count(&seen);
	assert_int_equal(gpu()->push(s->compressor, &push, NULL), 0);
	gpu_count(&seen);
	assert_in_range(seen.kernels + seen.sets + seen.copies, 0, OPERATIONS_MOST);
	assert_int_equal(seen.pageable, 0);
	assert_int_equal(seen.loaded_late, 0);
	assert_true(!v->blocks || seen.widest <= v->blocks);
}

static void run(const struct variant *v)
{
	struct random r = { v->parts * 100 + (size_t)v->coding.bits + 7 };
	const size_t bytes = COUNT * sizeof(float);
	struct device_sent sent[PARTS_MOST];
	struct device_selected selected;
	struct side s;

	side_open(v, &s, &r);
	for (int step = 0; step < STEPS; step++) {
		const int spoilt = step == v->bad_step;

		make_gradient(v, &s, step, &r);
		memset(s.landing.address, POISON, v->parts * s.room);
		push_and_count(v, &s, step);
		const int refused = add_here(v, &s, step);
		const float range = largest_magnitude(s.residual, COUNT);
		assert_int_equal(gpu()->pushed(s.compressor, &selected, sent, NULL), 0);
		assert_int_equal(selected.settled, 1);
		assert_int_equal(selected.nonfinite,
				 spoilt && (v->zero || v->judge) ? (COUNT + 4678) / 5000 : 0);
		if (refused) {
			assert_int_equal(selected.first_nonfinite, 321);
			assert_true(isnan(selected.bad));
		}
		if (!refused || v->left)
			assert_true(selected.largest == range);
		for (size_t p = 0; p < v->parts; p++)
			expect_part(v, &s, p, step, range, refused && !v->left, &sent[p]);
		if (!v->fresh) {
			gpu_fetch(s.got, s.residual_there, bytes);
			assert_memory_equal(s.got, s.residual, bytes);
		}
		if (v->velocity) {
			gpu_fetch(s.got, s.velocity_there, bytes);
			assert_memory_equal(s.got, s.velocity, bytes);
		}
	}
	side_close(&s);
}

TEST(push_dense__any_coding__has_the_bytes_of_the_encoder)
{
	for (size_t c = 0; c < GPU_CODINGS; c++)
		for (int fresh = 0; fresh < 2; fresh++)
			for (int velocity = 0; velocity < 2; velocity++)
				run(&(struct variant){ .coding = gpu_codings[c],
						       .parts = 5,
						       .fresh = fresh,
						       .velocity = velocity,
						       .bad_step = STEPS });
}

/* Each part has a team of blocks, or each block has several parts. */
TEST(push_dense__any_number_of_parts_and_blocks__has_the_bytes_of_the_encoder)
{
	static const size_t numbers[] = { 1, 2, 3, PARTS_MOST };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		for (size_t c = 0; c < GPU_CODINGS; c++)
			run(&(struct variant){ .coding = gpu_codings[c],
					       .parts = numbers[i],
					       .blocks = (unsigned)(c + i) % 4,
					       .bad_step = STEPS });
}

TEST(push_dense__any_type_of_gradients__has_the_bytes_of_the_encoder)
{
	static const int types[] = { SLUICE_F32, SLUICE_F16, SLUICE_BF16, SLUICE_F8_E4M3FN,
				     SLUICE_F8_E5M2 };

	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (size_t c = 0; c < GPU_CODINGS; c += 2)
			run(&(struct variant){ .coding = gpu_codings[c],
					       .parts = 3,
					       .type = types[t],
					       .fresh = (int)t % 2,
					       .shift = t + c,
					       .bad_step = STEPS });
}

TEST(push_dense__of_a_refused_gradient__is_empty_and_changes_nothing)
{
	for (size_t c = 0; c < GPU_CODINGS; c++)
		for (int velocity = 0; velocity < 2; velocity++)
			run(&(struct variant){ .coding = gpu_codings[c],
					       .parts = 3,
					       .type = c % 2 ? SLUICE_BF16 : SLUICE_F32,
					       .velocity = velocity,
					       .judge = DEVICE_JUDGE_FIRST,
					       .bad_step = 1 });
}

TEST(push_dense__of_a_refused_gradient__may_send_what_is_left)
{
	for (int velocity = 0; velocity < 2; velocity++)
		run(&(struct variant){ .coding = { .type = VALUE_F32 },
				       .parts = 3,
				       .velocity = velocity,
				       .judge = DEVICE_JUDGE_FIRST,
				       .left = 1,
				       .bad_step = 1 });
}

TEST(push_dense__bad_values_as_zeros__are_counted)
{
	for (size_t c = 0; c < GPU_CODINGS; c += 3)
		run(&(struct variant){ .coding = gpu_codings[c],
				       .parts = 2,
				       .zero = 1,
				       .velocity = c % 2 != 0,
				       .bad_step = 2 });
}

/* The gradient is checked as it is added, or is finite itself. */
TEST(push_dense__whose_sum_is_not_finite__says_so)
{
	const struct variant v = { .coding = { .type = VALUE_F32 },
				   .parts = 3,
				   .judge = DEVICE_JUDGE_LATE,
				   .bad_step = 0 };
	struct device_sent sent[PARTS_MOST];
	struct device_selected selected;
	struct random r = { 5 };
	struct side s;

	side_open(&v, &s, &r);
	make_gradient(&v, &s, 0, &r);
	push_and_count(&v, &s, 0);
	assert_int_equal(gpu()->pushed(s.compressor, &selected, sent, NULL), 0);
	assert_int_equal(selected.nonfinite, (COUNT + 4678) / 5000);
	assert_int_equal(selected.first_nonfinite, 321);
	assert_true(isnan(selected.bad));
	for (size_t i = 0; i < COUNT; i++)
		s.residual[i] = FLT_MAX;
	assert_int_equal(gpu()->copy(s.residual_there, s.residual, COUNT * sizeof(float), NULL), 0);
	make_gradient(&v, &s, 1, &r);
	s.grad[0] = FLT_MAX;
	assert_int_equal(gpu()->copy(s.grad_there, s.grad, COUNT * sizeof(float), NULL), 0);
	push_and_count(&v, &s, 1);
	assert_int_equal(gpu()->pushed(s.compressor, &selected, sent, NULL), 0);
	assert_int_equal(selected.nonfinite, 0);
	assert_true(isinf(selected.largest));
	side_close(&s);
}

/* The counts begin with the second push, without work of earlier pushes. */
TEST(push_dense__reads_and_writes_each_vector_once)
{
	static const struct {
		struct variant v;
		unsigned bytes; /* a coordinate */
	} rows[] = {
		{ { .coding = { .type = VALUE_F32 } }, 4 + 4 + 4 },
		{ { .coding = { .type = VALUE_F32 }, .fresh = 1 }, 4 + 4 },
		{ { .coding = { .type = VALUE_F32 }, .type = SLUICE_BF16, .fresh = 1 }, 2 + 4 },
		{ { .coding = { .type = VALUE_BF16 }, .fresh = 1 }, 4 + 2 },
	};
	struct device_sent sent[PARTS_MOST];
	struct device_selected selected;
	struct emulated_counts seen;

	if (!gpu_counts_vectors())
		skip();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct variant v = rows[i].v;
		struct random r = { i };
		struct side s;

		v.parts = 3;
		v.judge = DEVICE_JUDGE_LATE;
		v.bad_step = STEPS;
		side_open(&v, &s, &r);
		for (int step = 0; step < 2; step++) {
			const struct device_push push = push_of(&v, &s, step);

			make_gradient(&v, &s, step, &r);
			assert_int_equal(gpu()->wait(NULL), 0);
			gpu_count(&seen);
			assert_int_equal(gpu()->push(s.compressor, &push, NULL), 0);
			assert_int_equal(gpu()->pushed(s.compressor, &selected, sent, NULL), 0);
			gpu_count(&seen);
		}
		print_message("%.2f bytes a coordinate\n", (double)seen.vector_bytes / COUNT);
		assert_int_equal(seen.vector_bytes, (uint64_t)rows[i].bytes * COUNT);
		side_close(&s);
	}
}
