/* SPDX-License-Identifier: BSD-3-Clause
 * Steps in which everything is sent: the same bits as message by message, which a measured model takes, and nothing
 * of what does not check reaches what is kept. Bytes are spoilt on their way into a message, and between two looks. */
#include "base/bytes.h"
#include "compress/dense.h"
#include "shard/shard.h"
#include "worker/worker.h"
#include "ranks.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

enum { ROOM = DENSE_PIECE + 8 };
static const uint32_t lengths[] = { 0, 1, 3, 4, 5, 255, DENSE_PIECE - 1, DENSE_PIECE };
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static void fill(float *value, uint32_t n, uint64_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		value[i] = i % 7 ? noise(seed, 0, 0, i) : -0.0f;
}

static void put__every_length_and_place__same_bytes_and_checksum_and_none_beside(void **state)
{
	float value[ROOM];
	uint8_t room[sizeof(float) * (ROOM + 8)], expected[sizeof room];
	(void)state;
	fill(value, ROOM, 1);
	for (size_t l = 0; l < COUNT_OF(lengths); l++)
		for (size_t place = 0; place < 4; place++)
			for (int past_caches = 0; past_caches < 2; past_caches++) {
				const size_t bytes = lengths[l] * sizeof *value, at = place * sizeof *value;
				uint32_t crc = 17;
				memset(room, 0x5a, sizeof room);
				memset(expected, 0x5a, sizeof expected);
				memcpy(expected + at, value, bytes);
				dense_put(value, lengths[l], room + at, &crc, past_caches);
				dense_put_end();
				assert_memory_equal(room, expected, sizeof room);
				assert_int_equal(crc, crc32c(17, value, bytes));
			}
}

static void take__every_length__copies_and_continues_the_checksum(void **state)
{
	float from[ROOM], value[ROOM], expected[ROOM];
	(void)state;
	fill(from, ROOM, 2);
	for (size_t l = 0; l < COUNT_OF(lengths); l++) {
		uint32_t crc = 5;
		memset(value, 0x5a, sizeof value);
		memset(expected, 0x5a, sizeof expected);
		memcpy(expected, from + 1, lengths[l] * sizeof *from);
		assert_int_equal(dense_take((uint8_t *)(from + 1), lengths[l], value, &crc), 0);
		assert_memory_equal(value, expected, sizeof value);
		assert_int_equal(crc, crc32c(5, from + 1, lengths[l] * sizeof *from));
	}
}

static void take__a_value_that_is_not_finite_anywhere__is_refused(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	float from[DENSE_PIECE], value[DENSE_PIECE];
	uint32_t crc = 0;
	(void)state;
	for (size_t l = 1; l < COUNT_OF(lengths); l++)
		for (size_t b = 0; b < COUNT_OF(bad); b++)
			for (uint32_t at = 0; at < lengths[l]; at += at + 3 < lengths[l] ? 3 : 1) {
				fill(from, DENSE_PIECE, 3);
				from[at] = bad[b];
				assert_int_equal(dense_take((uint8_t *)from, lengths[l], value, &crc), SLUICE_EWIRE);
			}
}

static void scaled__every_length__is_the_product(void **state)
{
	float from[ROOM], value[ROOM];
	(void)state;
	fill(from, ROOM, 4);
	for (size_t l = 0; l < COUNT_OF(lengths); l++) {
		memset(value, 0x5a, sizeof value);
		dense_scaled(from, -0.3f, lengths[l], value);
		for (uint32_t i = 0; i < lengths[l]; i++)
			assert_int_equal(float_bits(value[i]), float_bits(-0.3f * from[i]));
		assert_int_equal(float_bits(value[lengths[l]]), 0x5a5a5a5a);
	}
}

static void peek__a_header__is_what_a_copy_says_whatever_the_payload_is(void **state)
{
	static uint8_t bytes[4096], copy[4096];
	float value[100];
	struct message m = { .kind = MESSAGE_PUSH, .parts = 1, .span = 100, .lr = 0.5f, .rank = 3 }, seen, copied;
	const char *why = "";
	uint32_t crc = 0;
	(void)state;
	fill(value, 100, 5);
	size_t n = message_encode(&m, NULL, value, value, bytes, sizeof bytes);
	assert_int_equal(message_copy(bytes, n, copy, sizeof copy, &copied, &why), 0);
	assert_int_equal(message_peek(bytes, n, &seen, &crc, &why), 0);
	assert_true(dense_plain(&seen) && seen.rank == 3 && seen.count == 100 && copied.count == 100);
	assert_int_equal(crc, crc32c(0, value, sizeof value));
	bytes[n - 1] ^= 1;
	assert_int_equal(message_peek(bytes, n, &seen, &crc, &why), 0);
	assert_int_equal(message_copy(bytes, n, copy, sizeof copy, &copied, &why), SLUICE_EWIRE);
	assert_int_equal(message_peek(bytes, n - 1, &seen, &crc, &why), SLUICE_EWIRE); /* it does not fit */
	assert_int_equal(message_peek(bytes, MESSAGE_HEADER_BYTES - 1, &seen, &crc, &why), SLUICE_EWIRE);
	bytes[12] ^= 1;
	assert_int_equal(message_peek(bytes, n, &seen, &crc, &why), SLUICE_EWIRE);
	assert_non_null(strstr(why, "header's checksum"));
}

/* ---- bytes that are spoilt on their way ------------------------------------------------------- */

struct attack {
	const char *recipe, *says;
	uint32_t at;                 /* coordinate of shard VICTIM (a push) or ATTACKER (a delta) */
	int nan;                     /* a NaN under the right checksum, else a bit under the wrong one */
	void (*header)(struct message *m);
	int from_log;                /* the delta, else the push */
	int second_look;             /* the victim sees other bytes when it adds */
};
enum { VICTIM, ATTACKER, ONLOOKER, RANKS, COUNT = 3 * (2 * DENSE_PIECE + 5), SPAN = COUNT / 3, STEP = 3 };

static const struct attack *spoil;   /* in the process that does it, while it does */
static uintptr_t spoil_begin;        /* where the payload lies, and what was seen of it */
static int looks;

void __real_dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc, int past_caches);
void __wrap_dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc, int past_caches);
void __wrap_dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc, int past_caches)
{
	const uintptr_t byte = spoil ? spoil_begin + spoil->at * sizeof *value : 0;
	const int here = spoil && !spoil->header && !spoil->second_look && byte >= (uintptr_t)to &&
			 byte < (uintptr_t)to + n * sizeof *value;
	float other[DENSE_PIECE];
	memcpy(other, value, n * sizeof *value);
	if (here && spoil->nan)
		other[(byte - (uintptr_t)to) / sizeof *value] = NAN;
	__real_dense_put(other, n, to, crc, past_caches);
	if (here && !spoil->nan)
		to[byte - (uintptr_t)to] ^= 0x10;
}

int __real_dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc);
int __wrap_dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc);
int __wrap_dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc)
{
	const uintptr_t begin = spoil && spoil->second_look ? spoil_begin : 0;
	uint8_t other[DENSE_PIECE * sizeof *value];
	const size_t bytes = n * sizeof *value, at = begin ? spoil->at * sizeof *value : 0;
	if (!begin || (uintptr_t)from > begin + at || (uintptr_t)from + bytes <= begin + at || ++looks != 2)
		return __real_dense_take(from, n, value, crc);
	memcpy(other, from, bytes);
	other[begin + at - (uintptr_t)from] ^= 0x10;
	return __real_dense_take(other, n, value, crc);
}

size_t __real_message_head(struct message *m, uint32_t payload_crc, uint8_t *out);
size_t __wrap_message_head(struct message *m, uint32_t payload_crc, uint8_t *out);
size_t __wrap_message_head(struct message *m, uint32_t payload_crc, uint8_t *out)
{
	struct message other = *m;
	const int here = spoil && spoil->header && m->kind == (spoil->from_log ? MESSAGE_DELTA : MESSAGE_PUSH) &&
			 m->shard == (spoil->from_log ? ATTACKER : VICTIM);
	if (here)
		spoil->header(&other);
	return __real_message_head(&other, payload_crc, out);
}

/* Where the attacker's push of this step will lie at the victim; and its delta, as it sees it or another. */
static uintptr_t push_there(const sluice_model *model)
{
	return (uintptr_t)dense_slot(model, VICTIM, model->worker->up[VICTIM].ring.next_seq) + MESSAGE_HEADER_BYTES;
}

static uintptr_t delta_there(const sluice_model *model)
{
	const struct shard_layout *at = &model->layout.shards[ATTACKER];
	struct remote *log = model->remote_logs[ATTACKER];
	const size_t entry = (MESSAGE_HEADER_BYTES + SPAN * sizeof(float) + 7) & ~(size_t)7;
	const uint64_t position = (STEP - 1) * entry % at->log_bytes; /* the log holds three */
	if (model->job->rank == ATTACKER)
		return (uintptr_t)model->log->base + at->log_offset + position + MESSAGE_HEADER_BYTES;
	return (uintptr_t)log->endpoint->transport->ops->readable(log) + at->log_offset + position +
	       MESSAGE_HEADER_BYTES;
}

static int is_zero(const float *x, size_t n)
{
	uint32_t any = 0;
	for (size_t i = 0; i < n; i++)
		any |= float_bits(x[i]);
	return !any;
}

static int under_attack(int rank, void *argument)
{
	const struct attack *attack = argument;
	static float params[COUNT], before[COUNT], grad[COUNT], copy[SPAN], velocity[SPAN];
	const int who = attack->second_look ? VICTIM : ATTACKER;
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .shards = RANKS, .lr = 0.1f,
				   .recipe = attack->recipe };
	int rc = 0;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(model->layout.shards[VICTIM].span == SPAN && model->layout.shards[ATTACKER].owner == ATTACKER);
	log_capture();
	for (uint64_t step = 1; step <= STEP && !rc; step++) {
		const struct shard *own = &model->shards[0];
		fill(grad, COUNT, 10 * step + (uint64_t)rank);
		CHECK_OK(sluice_barrier(job));
		memcpy(before, params, sizeof params);
		memcpy(copy, own->copy, sizeof copy);
		if (own->velocity)
			memcpy(velocity, own->velocity, sizeof velocity);
		if (step == STEP && rank == who) {
			spoil_begin = attack->from_log || attack->second_look ? delta_there(model) : push_there(model);
			spoil = attack;
		}
		rc = sluice_push(model, grad);
		if (!rc)
			rc = sluice_pull(model, params);
		if (!rc && step == STEP) /* some had their part before it was noticed */
			rc = sluice_barrier(job);
	}
	CHECK(rc != 0);
	CHECK(error_says("rank 1 (node n1)", attack->says));
	const struct shard *own = &model->shards[0];
	if (attack->second_look ? rank == VICTIM : attack->from_log && rank != ATTACKER) {
		/* Of the attacker's shard; the others are as they ought to be, before or behind the step. */
		const uint32_t piece = attack->second_look ? attack->at / DENSE_PIECE * DENSE_PIECE : 0;
		CHECK(!memcmp(params + SPAN + piece, before + SPAN + piece, (SPAN - piece) * sizeof *params));
	} else if (!attack->from_log && !attack->second_look && rank == VICTIM) {
		CHECK(own->version == STEP - 1 && !memcmp(own->copy, copy, sizeof copy));
		CHECK(!own->velocity || !memcmp(own->velocity, velocity, sizeof velocity));
		CHECK(attack->header || is_zero(own->reduction.sum, SPAN)); /* else that of rank 0 may be in it */
		CHECK(!memcmp(params, before, SPAN * sizeof *params));
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void all(const struct attack *attacks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct attack attack = attacks[i];
		run_ranks(RANKS, under_attack, &attack);
	}
}

static void as_rank_2(struct message *m) { m->rank = 2; }
static void of_another_step(struct message *m) { m->step++; }
static void of_another_version(struct message *m) { m->have_version++; }
static void with_a_choice(struct message *m) { m->chosen = 1; }
static void with_another_rate(struct message *m) { m->lr = 7; }
static void with_a_tail(struct message *m) { m->payload_bytes += 4; }
static void beyond_the_slot(struct message *m) { m->payload_bytes = UINT32_MAX - 200; }
static void as_f16(struct message *m) { m->values.type = VALUE_F16; }

#define SGD "up=all down=all"
#define MOMENTUM "up=all down=all update=momentum(0.9)"

static void push__that_does_not_check__is_refused_by_name_and_nothing_of_it_is_kept(void **state)
{
	static const struct attack attacks[] = {
		{ .recipe = SGD, .says = "shard 0 was refused: the payload's checksum is wrong" },
		{ .recipe = SGD, .says = "shard 0 was refused: the payload's checksum is wrong", .at = SPAN - 1 },
		{ .recipe = SGD, .says = "shard 0 was refused: the payload's checksum is wrong", .at = DENSE_PIECE },
		{ .recipe = MOMENTUM, .says = "shard 0 was refused: the payload's checksum is wrong", .at = SPAN - 1 },
		{ .recipe = SGD, .says = "a value is NaN or infinite", .at = SPAN - 1, .nan = 1 },
		{ .recipe = MOMENTUM, .says = "a value is NaN or infinite", .nan = 1 },
		{ .recipe = SGD, .says = "rank 2 where 1 is expected", .header = as_rank_2 },
		{ .recipe = SGD, .says = "step 4 where 3 is expected", .header = of_another_step },
		{ .recipe = SGD, .says = "another version", .header = of_another_version },
		{ .recipe = SGD, .says = "chooses what there is not", .header = with_a_choice },
		{ .recipe = MOMENTUM, .says = "learning rates differ", .header = with_another_rate },
		{ .recipe = SGD, .says = "was refused", .header = with_a_tail },
		{ .recipe = SGD, .says = "exceeds the slot", .header = beyond_the_slot },
		{ .recipe = SGD, .says = "was refused", .header = as_f16 },
	};
	(void)state;
	all(attacks, COUNT_OF(attacks));
}

static void delta__that_does_not_check__is_refused_by_name_and_nothing_of_it_is_added(void **state)
{
	static const struct attack attacks[] = {
		{ .recipe = SGD, .says = "shard 1 from rank 1 (node n1): the payload's checksum is wrong", .from_log = 1 },
		{ .recipe = MOMENTUM, .says = "shard 1 from rank 1 (node n1): the payload's checksum is wrong",
		  .from_log = 1, .at = SPAN - 1 },
		{ .recipe = MOMENTUM, .says = "a value is NaN or infinite", .from_log = 1, .at = SPAN - 1, .nan = 1 },
		{ .recipe = SGD, .says = "rank 2 where 1 is expected", .from_log = 1, .header = as_rank_2 },
		{ .recipe = SGD, .says = "another version", .from_log = 1, .header = of_another_version },
		{ .recipe = SGD, .says = "shard 1 from rank 1", .from_log = 1, .header = with_a_tail },
	};
	(void)state;
	all(attacks, COUNT_OF(attacks));
}

static void delta__that_changes_while_it_is_read__is_refused_before_the_piece_is_added(void **state)
{
	static const struct attack attacks[] = {
		{ .recipe = SGD, .says = "changed while it was read", .second_look = 1 },
		{ .recipe = SGD, .says = "changed while it was read", .second_look = 1, .at = SPAN - 1 },
	};
	(void)state;
	all(attacks, COUNT_OF(attacks));
}

/* ---- the same bits ---------------------------------------------------------------------------- */

enum { STEPS = 6 };
struct shape {
	const char *recipe;
	uint64_t count;
	uint32_t shards;
	int worker_part, shard_part; /* expected to be dense in step 1 */
};

static float value_of(const struct shape *shape, uint64_t step, int rank, uint64_t i)
{
	if (rank == 1 && step == 3 && i == shape->count / 2 && strstr(shape->recipe, "nonfinite="))
		return NAN;
	return i % 11 == step ? -0.0f : noise(7, step, (uint64_t)rank, i);
}

static int exchange(sluice_model *model, const float *grad, float *params)
{
	const enum update_kind update = model->recipe.update;
	int rc = update == UPDATE_AVERAGE ? sluice_push_params(model, params) : sluice_push(model, grad);
	return rc ? rc : update == UPDATE_NONE ? sluice_pull_mean(model, params) : sluice_pull(model, params);
}

static int both_ways(int rank, void *argument)
{
	const struct shape *shape = argument;
	const size_t bytes = shape->count * sizeof(float);
	float *grad = malloc(bytes), *params[2] = { malloc(bytes), malloc(bytes) };
	sluice_job *job = rank_join(NULL);
	sluice_model *model[2] = { NULL };
	sluice_model_attr attr = { .size = sizeof attr, .count = shape->count, .shards = shape->shards,
				   .recipe = shape->recipe, .lr = 0.3f };
	CHECK(grad && params[0] && params[1]);
	for (int m = 0; m < 2; m++) {
		for (uint64_t i = 0; i < shape->count; i++)
			params[m][i] = noise(1, 0, 0, i);
		CHECK_OK(sluice_model_open(job, &attr, params[m], &model[m]));
	}
	CHECK_OK(sluice_measure(model[1], 1)); /* which looks at each message, and at the accumulator */
	for (uint64_t step = 1; step <= STEPS; step++) {
		for (uint64_t i = 0; i < shape->count; i++)
			grad[i] = value_of(shape, step, rank, i);
		for (uint64_t i = 0; i < shape->count && model[0]->recipe.update == UPDATE_AVERAGE; i++)
			params[0][i] = params[1][i] = params[0][i] + grad[i];
		for (int m = 0; m < 2; m++)
			CHECK_OK(exchange(model[m], grad, params[m]));
		CHECK(!memcmp(params[0], params[1], bytes));
		check_same(job, params[0], bytes);
		for (uint32_t s = 0; s < model[0]->n_own; s++) {
			const struct shard *own = &model[0]->shards[s], *other = &model[1]->shards[s];
			const size_t span = own->at->span * sizeof(float);
			CHECK(!memcmp(own->copy, other->copy, span));
			CHECK(!own->residual || !memcmp(own->residual, other->residual, span));
			CHECK(!own->velocity || !memcmp(own->velocity, other->velocity, span));
			CHECK(is_zero(own->reduction.sum, own->at->span));
			CHECK(step > 1 || !own->inboxes[0].payload == !shape->shard_part);
			CHECK(!other->inboxes[0].payload);
		}
		CHECK(step > 1 || model[0]->worker->up[0].placed == shape->worker_part);
		CHECK(!model[1]->worker->up[0].placed);
		for (uint64_t i = 0; i < shape->count && model[0]->recipe.memory != MEMORY_NONE; i++)
			CHECK(float_bits(model[0]->worker->residual[i]) == float_bits(model[1]->worker->residual[i]));
		CHECK_OK(sluice_barrier(job)); /* nobody goes on before all have looked */
	}
	for (int m = 0; m < 2; m++) {
		sluice_model_close(&model[m]);
		free(params[m]);
	}
	free(grad);
	sluice_finalize(&job);
	return 0;
}

static void step__any_recipe__same_bits_as_message_by_message(void **state)
{
	static struct shape shapes[] = {
		{ SGD, 4001, 3, 1, 1 },
		{ MOMENTUM, 4001, 3, 1, 1 },
		{ "up=all down=all update=nesterov(0.5) decay=0.01", 4001, 3, 1, 1 },
		{ "up=all down=all update=sgd decay=0.01", 4001, 3, 1, 1 },
		{ "up=all down=all update=ema(0.3)", 4001, 3, 1, 1 },
		{ "up=all down=all update=none", 4001, 3, 1, 1 },
		{ "up=all down=all update=average", 4001, 3, 1, 1 },
		{ "up=all down=all memory=residual", 4001, 3, 1, 1 },
		{ "up=all down=all memory=residual update=momentum(0.9)", 4001, 3, 1, 1 },
		{ "up=all down=all signal=momentum(0.9)", 4001, 3, 0, 1 },
		{ "up=all down=all clip=1", 4001, 3, 0, 1 },
		{ "up=all down=all nonfinite=skip", 4001, 3, 0, 1 },
		{ "up=all down=all nonfinite=zero", 4001, 3, 0, 1 },
		{ "up=all,bf16 down=all memory=none", 4001, 3, 0, 0 },
		{ "up=all down=all,bf16 memory=none", 4001, 3, 1, 0 },
		{ "up=topk(0.1) down=topk(0.2) reset=2", 4001, 3, 0, 0 },
		{ "up=topk(0.1) down=topk(0.2) reset=2 update=momentum(0.9)", 4001, 3, 0, 0 },
		{ "up=all down=topk(0.2)", 4001, 3, 1, 0 },
		{ "auto", 4001, 3, 1, 1 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(shapes); i++)
		run_ranks(3, both_ways, &shapes[i]);
}

static void step__any_length__same_bits_as_message_by_message(void **state)
{
	static struct shape shapes[] = {
		{ SGD, 1, 1, 1, 1 },
		{ SGD, 2, 2, 1, 1 },
		{ MOMENTUM, 7, 3, 1, 1 },
		{ SGD, DENSE_PIECE - 1, 1, 1, 1 },
		{ SGD, DENSE_PIECE, 1, 1, 1 },
		{ MOMENTUM, DENSE_PIECE + 1, 1, 1, 1 },
		{ SGD, 3 * DENSE_PIECE, 3, 1, 1 },
		{ SGD, 2 * (2 * DENSE_PIECE + 1) + 1, 2, 1, 1 },
		{ SGD, (1 << 20) + 3, 1, 1, 1 }, /* past the caches */
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(shapes); i++)
		run_ranks(shapes[i].count > 1 << 20 ? 2 : 3, both_ways, &shapes[i]);
}

/* ---- a gradient that is not finite ------------------------------------------------------------ */

static int push_nan(int rank, void *argument)
{
	static float params[COUNT], grad[COUNT];
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .shards = RANKS, .recipe = SGD };
	(void)argument;
	log_capture();
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK_OK(sluice_barrier(job));
	fill(grad, COUNT, 3);
	grad[COUNT - 1] = rank == 1 ? NAN : 0;
	int rc = sluice_push(model, grad);
	if (rank == 1)
		CHECK(rc == SLUICE_ENUMERIC);
	else if (!rc)
		rc = sluice_pull(model, params);
	CHECK(rc != 0 && error_says("rank 1 (node n1)", "NaN"));
	CHECK(is_zero(params, COUNT) && model->shards[0].version == 0);
	for (int w = 0; w < RANKS; w++) /* nothing of it was posted */
		CHECK(model->shards[0].inboxes[w].arrived <= (w != 1));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void push__nan_in_the_last_coordinate__ends_the_job_and_nothing_is_posted(void **state)
{
	(void)state;
	run_ranks(RANKS, push_nan, NULL);
}

/* ---- sums that overflow ----------------------------------------------------------------------- */

static int overflow(int rank, void *argument)
{
	static float params[COUNT], before[COUNT], grad[COUNT];
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .shards = RANKS, .recipe = argument };
	log_capture();
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	fill(grad, COUNT, 3);
	CHECK_OK(exchange(model, grad, params));
	memcpy(before, params, sizeof params);
	CHECK_OK(sluice_barrier(job));
	grad[2 * SPAN - 1] = 3e38f; /* the last of shard 1 */
	int rc = exchange(model, grad, params);
	if (!rc) /* the other shards were there sooner */
		rc = sluice_barrier(job);
	CHECK(rc == (rank == 1 ? SLUICE_ENUMERIC : SLUICE_EPEER));
	CHECK(error_says("shard 1 at rank 1 (node n1) in step 2 is NaN or infinite", "lower the learning rate"));
	CHECK(!memcmp(params + SPAN, before + SPAN, SPAN * sizeof *params));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void step__sums_that_overflow__end_the_job_before_anybody_adds_them(void **state)
{
	(void)state;
	run_ranks(RANKS, overflow, SGD);
	run_ranks(RANKS, overflow, MOMENTUM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put__every_length_and_place__same_bytes_and_checksum_and_none_beside),
		cmocka_unit_test(take__every_length__copies_and_continues_the_checksum),
		cmocka_unit_test(take__a_value_that_is_not_finite_anywhere__is_refused),
		cmocka_unit_test(scaled__every_length__is_the_product),
		cmocka_unit_test(peek__a_header__is_what_a_copy_says_whatever_the_payload_is),
		cmocka_unit_test(push__that_does_not_check__is_refused_by_name_and_nothing_of_it_is_kept),
		cmocka_unit_test(delta__that_does_not_check__is_refused_by_name_and_nothing_of_it_is_added),
		cmocka_unit_test(delta__that_changes_while_it_is_read__is_refused_before_the_piece_is_added),
		cmocka_unit_test(step__any_recipe__same_bits_as_message_by_message),
		cmocka_unit_test(step__any_length__same_bits_as_message_by_message),
		cmocka_unit_test(step__sums_that_overflow__end_the_job_before_anybody_adds_them),
		cmocka_unit_test(push__nan_in_the_last_coordinate__ends_the_job_and_nothing_is_posted),
	};
	return cmocka_run_group_tests_name("dense", tests, NULL, NULL);
}
