/* SPDX-License-Identifier: BSD-3-Clause
 * Packing on the device against message_encode(), byte by byte, and sparse updates compared with
 * runtime/compress/sparse.c. */

#include "base/bytes.h"
#include "compress/few_bits.h"
#include "compress/message.h"
#include "compress/select.h"
#include "gpu.h"
#include "random.h"
#include "compress/sparse.h"
#include "cases.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { SLACK = 64 };

/* ---- packing --------------------------------------------------------------- */

struct list {
	uint32_t *index, count, span, base;
	float *value;
};

/* Lists about one in `every` coordinates of a span, clustered by kind. */
static struct list list_of(uint32_t span, uint32_t every, int kind, struct random *r)
{
	struct list l = { .index = memory((size_t)span * 4),
			  .value = memory((size_t)span * 4),
			  .span = span,
			  .base = kind & 1 ? 123456 : 0 };

	for (uint32_t i = 0; i < span; i++) {
		int take = every < 2     ? 1 :
			   kind % 3 == 2 ? i / 300 % every == 0 :
					   random_bits(r) % every == 0;

		if (!take)
			continue;
		l.index[l.count] = i;
		l.value[l.count++] = gpu_value(kind, r);
	}
	return l;
}

static void expect_same_bytes(const struct list *l, enum value_type type, int densest,
			      size_t seen[CODING_RUN + 1])
{
	struct message m = { .kind = MESSAGE_PUSH,
			     .values = { .type = type },
			     .densest = densest,
			     .parts = 1,
			     .span = l->span,
			     .count = l->count,
			     .lr = 1 };
	size_t cap = message_bound(l->span, l->count, (struct value_coding){ .type = type }),
	       count = l->count * 4;
	uint8_t *here = memory(cap), *got = memory(cap + SLACK);
	float *decoded = memory(count), *got_decoded = memory(count);
	uint32_t *shifted = memory(count);
	size_t bytes = message_encode(NULL, &m, l->index, l->value, decoded, here, cap) -
		       MESSAGE_HEADER_BYTES;
	struct device_selector *s;
	struct device_packed packed;

	for (uint32_t i = 0; i < l->count; i++)
		shifted[i] = l->index[i] + l->base;
	uint8_t *payload = gpu_memory(NULL, cap + SLACK);
	uint32_t *index = gpu_memory(shifted, count);
	float *value = gpu_memory(l->value, count);
	const struct device_pack call = { .index = index,
					  .value = value,
					  .decoded = value,
					  .payload = payload,
					  .base = l->base,
					  .count = l->count,
					  .span = l->span,
					  .value_type = type,
					  .densest = densest };
	assert_int_equal(gpu_selector(l->span, l->count, NULL, 0, &s), 0);
	assert_int_equal(gpu_kernels()->pack(s, &call, NULL), 0);
	assert_int_equal(gpu_kernels()->packed(s, &packed, NULL), 0);
	assert_int_equal(packed.coding, m.coding);
	assert_int_equal(packed.payload_bytes, bytes);
	assert_true(packed.scale == m.scale);
	gpu_fetch(got, payload, cap + SLACK);
	gpu_fetch(got_decoded, value, count);
	assert_memory_equal(got, here + MESSAGE_HEADER_BYTES, bytes);
	for (size_t i = bytes; i < cap + SLACK; i++)
		assert_int_equal(got[i], POISON); /* nothing after the payload is written */
	assert_memory_equal(got_decoded, decoded, count);
	seen[packed.coding]++;
	gpu_kernels()->selector_close(&s);
	gpu_free(payload);
	gpu_free(index);
	gpu_free(value);
	free(here);
	free(got);
	free(decoded);
	free(got_decoded);
	free(shifted);
}

TEST(pack__any_list_gives_the_bytes_of_the_encoder)
{
	static const uint32_t spans[] = { 1, 31, 32, 33, 127, 128, 129, 1000, 40000, 100001 };
	static const uint32_t every[] = { 1, 2, 3, 10, 40, 1000, 30000 };
	size_t seen[CODING_RUN + 1] = { 0 };

	for (size_t s = 0; s < sizeof(spans) / sizeof(spans[0]); s++)
		for (size_t e = 0; e < sizeof(every) / sizeof(every[0]); e++) {
			int kind = (int)(s + e);
			struct random r = { s * 10 + e + 1 };
			struct list l = list_of(spans[s], every[e], kind, &r);

			for (int type = VALUE_F32; type <= VALUE_BF16; type++)
				expect_same_bytes(&l, (enum value_type)type, 0, seen);
			expect_same_bytes(&l, VALUE_BF16, 1, seen);
			free(l.index);
			free(l.value);
		}
	for (int coding = 0; coding <= CODING_RUN; coding++) /* each was the shortest for some
								list */
		assert_true(seen[coding] > 0);
}

/* The gaps have every width up to the widest in a shard. For Rice codes most are shorter. */
TEST(pack__any_width_of_gaps)
{
	size_t seen[CODING_RUN + 1] = { 0 };

	for (unsigned i = 0; i < 64; i++) {
		const unsigned width = i / 2;
		const int densest = i & 1;
		struct random r = { i + 1 };
		struct list l = { .index = memory(400 * 4),
				  .value = memory(400 * 4),
				  .span = UINT32_MAX };
		uint64_t next = 0;

		while (l.count < 400) {
			next += (random_bits(&r) & ((1u << width) - 1)) >>
				(densest ? random_bits(&r) % 8 : 0);
			if (next >= l.span)
				break;
			l.index[l.count] = (uint32_t)next++;
			l.value[l.count++] = gpu_value(0, &r);
		}
		l.span = (uint32_t)next + 5 > 100000 ? (uint32_t)next + 5 : 100000;
		expect_same_bytes(&l, VALUE_F16, densest, seen);
		free(l.index);
		free(l.value);
	}
	assert_true(seen[CODING_DELTA] > 10 && seen[CODING_RICE] > 10);
}

/* ---- a push ---------------------------------------------------------------- */

enum {
	PARTS = 5,
	PARTS_MOST = 64,
	PART = 7000,
	HEADER = MESSAGE_HEADER_BYTES,
	RANK = 3,
	SEED = 11,
	OPERATIONS_MOST = 8
};

static size_t n_parts = PARTS;
static unsigned most_blocks; /* 0: any number */

/* Five parts have different lengths, and the last one has a small capacity. Other numbers of parts
 * have equal parts. */
static struct device_part part_of(size_t p, size_t k)
{
	static const uint32_t begin[PARTS + 1] = { 0, 1, 300, PART, 4 * PART, 5 * PART };
	const size_t n = 5 * PART, first = n * p / n_parts;

	if (n_parts != PARTS)
		return (struct device_part){ .begin = (uint32_t)first,
					     .span = (uint32_t)(n * (p + 1) / n_parts - first),
					     .capacity = (uint32_t)k };
	return (struct device_part){ .begin = begin[p],
				     .span = begin[p + 1] - begin[p],
				     .capacity = p == PARTS - 1 ? 10 : (uint32_t)k };
}

/* In one step, the numbers of the coordinates exceed 32 bits from the middle of the vector on. */
static uint64_t first_of(uint64_t step)
{
	return step == 2 ? UINT32_MAX - (uint64_t)2 * PART : 0;
}

/* Computes the same push on the CPU: the selection, then the encoder for each part. residual
 * becomes that of the device. */
static void expect_same_push(float *residual, const float *grad, size_t n, size_t k,
			     struct value_coding coding, uint64_t step, uint8_t *landing,
			     size_t room, const struct device_sent *sent)
{
	uint32_t *index = memory(n * 4), *relative = memory(n * 4), from = 0, found;
	float *value = memory(n * 4), *decoded = memory(n * 4);
	uint8_t *here = memory(room);
	const struct span all = { 0, n, 0 };
	struct selector *s;
	const struct select_call call = { .residual = residual,
					  .grad = grad,
					  .scale = 0.5f,
					  .spans = &all,
					  .n_spans = 1,
					  .k = k,
					  .index = index };

	assert_int_equal(selector_open(n, &s), 0);
	found = (uint32_t)select_run(s, &call, NULL);
	const float range = largest_magnitude(residual, n);
	for (size_t p = 0; p < n_parts; p++) {
		const struct device_part part = part_of(p, k);
		struct message m = { .kind = MESSAGE_PUSH,
				     .values = coding,
				     .parts = 1,
				     .span = part.span,
				     .lr = 1,
				     .stream = { RANDOM_ROUND, RANK, step, SEED },
				     .densest = step & 1,
				     .first = first_of(step) + part.begin,
				     .range = range };
		uint32_t count = 0;

		for (; from + count < found && index[from + count] < part.begin + part.span;
		     count++) {
			relative[count] = index[from + count] - part.begin;
			value[count] = residual[index[from + count]];
		}
		assert_int_equal(sent[p].first, from);
		assert_int_equal(sent[p].count, count);
		assert_int_equal(sent[p].packed, count <= part.capacity);
		from += count;
		m.count = count;
		if (!sent[p].packed)
			continue;
		size_t bytes = message_encode(NULL, &m, relative, value, decoded, here, room) -
			       HEADER;
		assert_int_equal(sent[p].coding, m.coding);
		assert_int_equal(sent[p].payload_bytes, bytes);
		assert_true(sent[p].scale == m.scale);
		assert_memory_equal(landing + p * room, here + HEADER, bytes);
		for (size_t i = bytes; i < room; i++)
			assert_int_equal(landing[p * room + i],
					 POISON); /* no further byte was written */
		assert_int_equal(sent[p].crc, crc32c(0, here + HEADER, bytes));
		for (uint32_t i = 0; i < count; i++)
			residual[part.begin + relative[i]] -= decoded[i];
	}
	assert_int_equal(from, found);
	selector_close(&s);
	free(index);
	free(relative);
	free(value);
	free(decoded);
	free(here);
}

static int all_packed(const struct device_sent *sent)
{
	size_t n = 0;

	while (n < n_parts && sent[n].packed)
		n++;
	return n == n_parts;
}

/* Settles parts that the device did not pack as if nothing had been sent, so everything stays. */
static void settle_unsent(struct device_compressor *c, float *residual,
			  const struct device_sent *sent, size_t selected)
{
	float *rest = memory(selected * sizeof(float));
	uint32_t *index = memory(selected * sizeof(*index));

	for (size_t p = 0; p < n_parts; p++)
		if (!sent[p].packed)
			assert_int_equal(gpu()->fetch(c, sent[p].first, sent[p].count, index,
						      rest + sent[p].first, NULL),
					 0);
	assert_int_equal(gpu()->settle(c, residual, NULL, sent, rest, NULL, NULL), 0);
	free(rest);
	free(index);
}

/* Returns how many kernels, copies and clearings were enqueued since the last call. On a real GPU
 * nothing is counted. */
static unsigned widest; /* the most blocks of any of these kernels */

static unsigned count_operations(void)
{
	struct emulated_counts seen;

	gpu_count(&seen);
	widest = seen.widest;
	return seen.kernels + seen.sets + seen.copies;
}

static void push_steps(size_t n, size_t k, struct value_coding coding, struct random *r)
{
	const size_t bytes = n * sizeof(float),
		     room = message_bound((uint32_t)n, (uint32_t)n,
					  (struct value_coding){ VALUE_F32, 0, 0, 0 });
	float *residual = memory(bytes), *grad = memory(bytes), *got = memory(bytes);
	struct device_part parts[PARTS_MOST];
	struct device_sent sent[PARTS_MOST];
	struct device_selected selected;
	struct device_compressor *c;
	struct memory landing;

	for (size_t i = 0; i < n; i++)
		residual[i] = random_normal(r);
	float *there = gpu_memory(residual, bytes), *grad_there = gpu_memory(NULL, bytes);
	uint8_t *payloads = gpu_memory(NULL, n_parts * room);
	const struct device_shape shape = {
		.n = n, .k = k, .parts = n_parts, .blocks = most_blocks
	};
	assert_int_equal(gpu()->alloc(MEMORY_HOST, n_parts * room, &landing), 0);
	assert_int_equal(gpu()->open(&shape, &c), 0);
	uint8_t *pinned = landing.address;
	for (size_t p = 0; p < n_parts; p++) {
		parts[p] = part_of(p, k);
		parts[p].payload = payloads + p * room;
		parts[p].copy = pinned + p * room;
	}
	for (int step = 0; step < 3; step++) {
		const struct device_push push = { .payload = DEVICE_PAIRS,
						  .select = { .residual = there,
							      .grad = grad_there,
							      .scale = 0.5f,
							      .k = k,
							      .judge = DEVICE_JUDGE_LATE },
						  .values = { .type = (int)coding.type,
							      .bits = coding.bits,
							      .block = coding.block,
							      .purpose = RANDOM_ROUND,
							      .rank = RANK,
							      .seed = SEED,
							      .step = (uint64_t)step,
							      .first = first_of((uint64_t)step) },
						  .densest = step & 1,
						  .settle = step > 0,
						  .parts = parts };
		for (size_t i = 0; i < n; i++)
			grad[i] = random_normal(r);
		memset(pinned, POISON, n_parts * room);
		assert_int_equal(gpu()->copy(grad_there, grad, bytes, NULL), 0);
		count_operations();
		assert_int_equal(gpu()->push(c, &push, NULL), 0);
		assert_in_range(count_operations(), 0, OPERATIONS_MOST);
		assert_true(!most_blocks || widest <= most_blocks);
		assert_int_equal(gpu()->pushed(c, &selected, sent, NULL), 0);
		expect_same_push(residual, grad, n, k, coding, (uint64_t)step, pinned, room, sent);
		assert_int_equal(selected.settled, step > 0 && all_packed(sent));
		if (!selected.settled)
			settle_unsent(c, there, sent, selected.n);
		gpu_fetch(got, there, bytes);
		assert_memory_equal(got, residual, bytes);
	}
	gpu()->close(&c);
	assert_null(c);
	gpu()->release(&landing);
	gpu_free(there);
	gpu_free(grad_there);
	gpu_free(payloads);
	free(residual);
	free(grad);
	free(got);
}

TEST(push__each_part_has_the_bytes_and_the_checksum_of_the_encoder)
{
	static const size_t ks[] = { 0, 1, 50, 3000, 5 * PART };
	struct random r = { 77 };

	for (size_t i = 0; i < sizeof(ks) / sizeof(ks[0]); i++)
		for (size_t c = 0; c < GPU_CODINGS; c++)
			push_steps(5 * PART, ks[i], gpu_codings[c], &r);
}

/* Each part has a team of blocks, or each block has several parts. All cases also assert that a
 * push takes at most OPERATIONS_MOST operations. */
TEST(push__any_number_of_parts_has_the_bytes_of_the_encoder)
{
	static const size_t numbers[] = { 1, 2, 3, PARTS_MOST };
	static const struct value_coding codings[] = {
		{ .type = VALUE_F32 },
		{ .type = VALUE_UNIFORM, .bits = 3, .block = 8 },
		{ .type = VALUE_GRID, .bits = 5 },
		{ .type = VALUE_TWOMEANS, .bits = 2, .block = UNIFORM_BLOCK },
		{ .type = VALUE_E3M0, .bits = 4, .block = UNIFORM_BLOCK },
	};
	struct random r = { 78 };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		n_parts = numbers[i];
		for (size_t c = 0; c < sizeof(codings) / sizeof(codings[0]); c++)
			push_steps(5 * PART, 3000, codings[c], &r);
	}
	n_parts = PARTS;
}

TEST(push__takes_no_more_blocks_than_it_may)
{
	struct random r = { 79 };

	for (most_blocks = 1; most_blocks < 3; most_blocks++)
		push_steps(5 * PART, 3000,
			   (struct value_coding){ .type = VALUE_UNIFORM, .bits = 3, .block = 8 },
			   &r);
	most_blocks = 0;
}

TEST(push__values_that_no_message_may_carry_are_refused)
{
	const struct device_shape shape = { .n = 32, .k = 1, .parts = 1 };
	float *there = gpu_memory(NULL, 32 * sizeof(float));
	struct device_part part = { .span = 32, .capacity = 1, .payload = gpu_memory(NULL, SLACK) };
	struct device_push push = { .payload = DEVICE_PAIRS,
				    .select = { .residual = there, .grad = there, .k = 1 },
				    .values = { .type = VALUE_UNIFORM, .bits = 4, .block = 12 },
				    .parts = &part };
	struct device_compressor *c;

	assert_int_equal(gpu()->open(&shape, &c), 0);
	assert_int_equal(gpu()->push(c, &push, NULL), -1); /* the length of blocks must be a
							      multiple of eight */
	push.values.bits = 9;
	push.values.block = 64;
	assert_int_equal(gpu()->push(c, &push, NULL), -1);
	push.values = (struct device_values){ .type = VALUE_GRID, .bits = 9 };
	assert_int_equal(gpu()->push(c, &push, NULL), -1);
	gpu()->close(&c);
	gpu_free(part.payload);
	gpu_free(there);
}

/* ---- sparse updates -------------------------------------------------------- */

static void compare_update(size_t n, uint32_t every, int dense, int assign)
{
	struct random r = { n + every };
	struct list l = list_of((uint32_t)n, dense ? 1 : every, 0, &r);
	float *vector = memory(n * 4), *got = memory(n * 4), *there;
	const struct device_shape shape = { .n = n, .k = 1, .landed = 3 * n / 2 };
	struct device_compressor *c;
	uint32_t *index;
	float *value;

	for (size_t i = 0; i < n; i++)
		vector[i] = random_normal(&r);
	there = gpu_memory(vector, n * 4);
	assert_int_equal(gpu()->open(&shape, &c), 0);
	/* The second list is placed next to the first one, or only after the stream has used that
	 * one. */
	for (int times = 0; times < 2; times++) {
		assert_int_equal(gpu()->land(c, l.count, &index, &value, NULL), 0);
		memcpy(index, l.index, l.count * sizeof(*index));
		memcpy(value, l.value, l.count * sizeof(*value));
		const struct device_apply call = { .vector = there,
						   .index = dense ? NULL : index,
						   .value = value,
						   .count = l.count,
						   .assign = assign };
		assert_int_equal(gpu()->apply(c, &call, NULL), 0);
		if (assign)
			for (uint32_t i = 0; i < l.count; i++)
				vector[l.index[i]] = l.value[i];
		else
			sparse_add(vector, dense ? NULL : l.index, l.value, l.count);
	}
	assert_int_equal(gpu()->land(c, (uint32_t)shape.landed + 1, &index, &value, NULL), -1);
	gpu_fetch(got, there, n * 4);
	assert_memory_equal(got, vector, n * 4);
	gpu()->close(&c);
	gpu_free(there);
	free(vector);
	free(got);
	free(l.index);
	free(l.value);
}

TEST(apply__any_size_gives_the_bits_of_the_cpu)
{
	static const size_t sizes[] = { 1, 31, 32, 33, 255, 256, 257, 4095, 4097, 30000 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (int way = 0; way < 4; way++) {
			compare_update(sizes[s], 3, way & 1, way >> 1);
			compare_update(sizes[s], 100, way & 1, way >> 1);
		}
}

/* ---- values in few bits ---------------------------------------------------- */

static float few_bits_value(int kind, uint32_t i, struct random *r)
{
	switch (kind) {
	case 4: return 0;
	case 5: return i / 40 % 2 ? 0.0f : 3.0f; /* blocks of zeros, and blocks of ties */
	case 6: return random_bits(r) & 1 ? FLT_MAX : -FLT_MAX;
	default: return gpu_value(kind, r);
	}
}

static void compare_quantize(struct value_coding c, uint32_t n, int kind, int listed)
{
	/* With many values, some coordinates are beyond a multiple of 2^32, where the random
	 * numbers have another key. */
	const uint64_t first = n < 500 ? 1234567 : 0x2ffffff00;
	const struct rounding rounding = { .stream = { RANDOM_ROUND, 2, 77, 5 }, .first = first };
	struct random r = { n + c.bits };
	struct value_coding fitted = c;
	const size_t bytes = few_bits_bytes(&c, n), count = (size_t)n * 4;
	float *v = memory(count), *decoded = memory(count), *got_decoded = memory(count), scale;
	uint32_t *index = memory(count);
	uint8_t *here = memory(bytes + SLACK), *got = memory(bytes + SLACK);
	struct rounding on_cpu = rounding;
	struct device_selector *s;

	for (uint32_t i = 0, at = 0; i < n; i++) {
		v[i] = few_bits_value(kind, i, &r);
		index[i] = at += 1 + random_bits(&r) % 9;
	}
	on_cpu.index = listed ? index : NULL;
	const float wanted = few_bits_fit(&fitted, v, n, 0.5f);
	few_bits_encode(NULL, &fitted, wanted, v, n, &on_cpu, here, decoded);
	float *value = gpu_memory(v, count);
	uint32_t *there = gpu_memory(index, count);
	uint8_t *out = gpu_memory(NULL, bytes + SLACK);
	const struct device_quantize call = { .index = listed ? there : NULL,
					      .value = value,
					      .decoded = value,
					      .out = out,
					      .count = n,
					      .value_type = (int)c.type,
					      .bits = c.bits,
					      .block = c.block,
					      .range = 0.5f,
					      .purpose = RANDOM_ROUND,
					      .rank = 2,
					      .seed = 5,
					      .step = 77,
					      .first = first };
	assert_int_equal(gpu_selector(n, 1, NULL, 0, &s), 0);
	assert_int_equal(gpu_kernels()->quantize(s, &call, NULL), 0);
	assert_int_equal(gpu_kernels()->quantized(s, &scale, NULL), 0);
	assert_true(scale == wanted);
	gpu_fetch(got, out, bytes + SLACK);
	gpu_fetch(got_decoded, value, count);
	assert_memory_equal(got, here, bytes);
	for (size_t i = bytes; i < bytes + SLACK; i++)
		assert_int_equal(got[i], POISON); /* nothing after the payload is written */
	assert_memory_equal(got_decoded, decoded, count);
	gpu_kernels()->selector_close(&s);
	gpu_free(value);
	gpu_free(there);
	gpu_free(out);
	free(v);
	free(decoded);
	free(got_decoded);
	free(index);
	free(here);
	free(got);
}

TEST(quantize__any_bits_size_and_kind_gives_the_bytes_of_the_encoder)
{
	static const uint32_t sizes[] = {
		0, 1, 7, 8, 9, 31, 32, 33, 511, 512, 513, 2047, 2049, 5000
	};
	static const unsigned blocks[] = { 8, 40, 512, UNIFORM_BLOCK_MAX };
	const struct value_coding twomeans = { VALUE_TWOMEANS, 2, UNIFORM_BLOCK, 0 };
	const struct value_coding e3m0 = { VALUE_E3M0, 4, UNIFORM_BLOCK, 0 };

	for (unsigned bits = 1; bits <= VALUE_BITS_MAX; bits++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			const int kind = (int)(s + bits) % 7;

			compare_quantize((struct value_coding){ VALUE_UNIFORM, bits,
								blocks[(s + bits) % 4], 0 },
					 sizes[s], kind, (int)s % 2);
			compare_quantize((struct value_coding){ VALUE_GRID, bits, 0, 0 }, sizes[s],
					 kind, 0);
		}
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		compare_quantize(twomeans, sizes[s], (int)s % 7, (int)s % 2);
		compare_quantize(e3m0, sizes[s], (int)(s + 3) % 7, (int)s % 2);
	}
	compare_quantize(twomeans, 2049, 6, 0); /* sums that overflow */
	compare_quantize(twomeans, 100007, 0, 1);
	compare_quantize((struct value_coding){ VALUE_UNIFORM, 4, 512, 0 }, 100007, 0, 1);
	compare_quantize((struct value_coding){ VALUE_UNIFORM, 1, 512, 0 }, 100007, 0, 1);
	compare_quantize((struct value_coding){ VALUE_GRID, 3, 0, 0 }, 100007, 0, 1);
}

TEST(quantize__what_no_message_may_carry_is_refused)
{
	const struct device_quantize wide = { .value_type = VALUE_GRID, .bits = 9 };
	const struct device_quantize odd = { .value_type = VALUE_UNIFORM, .bits = 4, .block = 12 };
	const struct device_quantize other = { .value_type = VALUE_ROUND, .bits = 4 };
	const struct device_quantize short_block = { .value_type = VALUE_TWOMEANS,
						     .bits = 2,
						     .block = 256 };
	struct device_selector *s;

	assert_int_equal(gpu_selector(32, 1, NULL, 0, &s), 0);
	assert_int_equal(gpu_kernels()->quantize(s, &wide, NULL), -1);
	assert_int_equal(gpu_kernels()->quantize(s, &odd, NULL), -1);
	assert_int_equal(gpu_kernels()->quantize(s, &other, NULL), -1);
	assert_int_equal(gpu_kernels()->quantize(s, &short_block, NULL), -1);
	gpu_kernels()->selector_close(&s);
}
