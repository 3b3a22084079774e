/* SPDX-License-Identifier: BSD-3-Clause
 * Dense steps under attack: a message that fails a check ends the job, its sender is named, and its
 * values are not used. The test damages bytes on their way into a message. */
#include "base/bytes.h"
#include "compress/dense.h"
#include "shard/state.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "dense_values.h"
#include "gpu_rank.h"
#include "ranks.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <string.h>

struct attack {
	const char *recipe, *says;
	uint32_t at; /* coordinate in shard VICTIM (a push) or ATTACKER (a delta) */
	int nan;     /* 1: a NaN with the right checksum; 0: a changed bit with the wrong one */
	void (*header)(struct message *m);
	int from_log; /* 1: in the delta; 0: in the push */
	int on_gpu;   /* 1: the parameters are on the GPU, and must not get any part of a bad
			 delta */
};
enum {
	VICTIM,
	ATTACKER,
	ONLOOKER,
	RANKS,
	COUNT = 3 * (2 * DENSE_PIECE + 5),
	SPAN = COUNT / 3,
	STEP = 3
};

static const struct attack *spoil; /* set in the attacking process during the attack */
static uintptr_t spoil_begin;      /* address of the payload */

void __real_dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc, int past_caches);
void __wrap_dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc, int past_caches);
void __wrap_dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc, int past_caches)
{
	const uintptr_t byte = spoil ? spoil_begin + spoil->at * sizeof *value : 0;
	const int here = spoil && !spoil->header && byte >= (uintptr_t)to &&
			 byte < (uintptr_t)to + n * sizeof *value;
	float other[DENSE_PIECE];
	memcpy(other, value, n * sizeof *value);
	if (here && spoil->nan)
		other[(byte - (uintptr_t)to) / sizeof *value] = NAN;
	__real_dense_put(other, n, to, crc, past_caches);
	if (here && !spoil->nan)
		to[byte - (uintptr_t)to] ^= 0x10;
}

size_t __real_message_head(struct message *m, uint32_t payload_crc, uint8_t *out);
size_t __wrap_message_head(struct message *m, uint32_t payload_crc, uint8_t *out);
size_t __wrap_message_head(struct message *m, uint32_t payload_crc, uint8_t *out)
{
	struct message other = *m;
	const int here = spoil && spoil->header &&
			 m->kind == (spoil->from_log ? MESSAGE_DELTA : MESSAGE_PUSH) &&
			 m->shard == (spoil->from_log ? ATTACKER : VICTIM);
	if (here)
		spoil->header(&other);
	return __real_message_head(&other, payload_crc, out);
}

/* Return the addresses of the attacker's push of this step at the victim, and of its delta. */
static uintptr_t push_there(const sluice_model *model)
{
	return (uintptr_t)lane_slot_there(model->worker->lanes, VICTIM,
					  lane_next_seq(model->worker->lanes, VICTIM)) +
	       MESSAGE_HEADER_BYTES;
}

static uintptr_t delta_here(const sluice_model *model)
{
	const struct shard_layout *at = &model->layout.shards[ATTACKER];
	const size_t entry = (MESSAGE_HEADER_BYTES + SPAN * sizeof(float) + 7) & ~(size_t)7;
	const uint64_t position = (STEP - 1) * entry % at->log_bytes; /* the log has room for
									 three */
	return (uintptr_t)home_log(model->home, ATTACKER) + position + MESSAGE_HEADER_BYTES;
}

/* Copies the parameters from GPU memory if they are there. */
static void from_there(const struct memory *there, float params[COUNT])
{
	if (!there->address)
		return;
	CHECK_OK(device()->copy(params, there->address, COUNT * sizeof *params, NULL));
	CHECK_OK(device()->wait(NULL));
}

static void under_attack(sluice_job *job, int rank, void *argument)
{
	const struct attack *attack = argument;
	static float params[COUNT], before[COUNT], grad[COUNT];
	int rc = 0;
	struct memory there = { 0 };
	float *target = attack->on_gpu ? device_floats(device(), &there, params, COUNT) : params;
	sluice_model *model = OPEN(job, target, .count = COUNT, .shards = RANKS, .lr = 0.1f,
				   .recipe = attack->recipe);
	CHECK(model->layout.shards[VICTIM].span == SPAN &&
	      home_rank(model->home, ATTACKER) == ATTACKER);
	log_capture();
	for (uint64_t step = 1; step <= STEP && !rc; step++) {
		fill(grad, COUNT, 10 * step + (uint64_t)rank);
		rc = sluice_barrier(job); /* the attack may be noticed while a rank is in the
					     barrier */
		CHECK(!rc || (step == STEP && rank != ATTACKER));
		from_there(&there, params);
		memcpy(before, params, sizeof params);
		if (step == STEP && rank == ATTACKER) {
			spoil_begin = attack->from_log ? delta_here(model) : push_there(model);
			spoil = attack;
		}
		if (!rc)
			rc = try_step(model, grad, target);
		if (!rc && step == STEP) /* some ranks had their part before it was noticed */
			rc = sluice_barrier(job);
	}
	CHECK(rc != 0);
	CHECK(error_says("rank 1 (node n1)", attack->says));
	const int harmed = !attack->from_log || rank != ATTACKER;
	CHECK(!harmed || model->worker->step.done == STEP - 1);
	CHECK(sluice_push(model, grad) && error_says("rank 1 (node n1)", attack->says));
	CHECK(attack->from_log || rank != VICTIM || model->shards[0].version == STEP - 1);
	from_there(&there, params);
	if (harmed && (!attack->from_log || attack->header ||
		       attack->on_gpu)) { /* otherwise a part of it was added */
		const uint64_t of = attack->from_log ? ATTACKER : VICTIM;
		CHECK(!memcmp(params + of * SPAN, before + of * SPAN, SPAN * sizeof *params));
	}
	sluice_model_close(&model);
	if (there.address)
		device()->release(&there);
}

static void all(const struct attack *attacks, size_t n)
{
	setenv("SLUICE_DEVICE_SHARDS", "no", 1); /* shards on the host write what is spoilt */
	for (size_t i = 0; i < n; i++) {
		if (thinned(i, 3))
			continue;
		struct attack attack = attacks[i];
		run_in_job(RANKS, under_attack, &attack);
	}
}

static void as_rank_2(struct message *m)
{
	m->rank = 2;
}
static void of_another_step(struct message *m)
{
	m->step++;
}
static void of_another_version(struct message *m)
{
	m->have_version++;
}
static void with_a_choice(struct message *m)
{
	m->chosen = 1;
}
static void with_another_rate(struct message *m)
{
	m->lr = 7;
}
static void with_a_tail(struct message *m)
{
	m->payload_bytes += 4;
}
static void beyond_the_slot(struct message *m)
{
	m->payload_bytes = UINT32_MAX - 200;
}
static void as_f16(struct message *m)
{
	m->values.type = VALUE_F16;
}

TEST(push__that_does_not_check__is_refused_by_name_and_nothing_of_it_is_published)
{
	static const struct attack attacks[] = {
		{ .recipe = SGD, .says = "shard 0 was refused: the payload's checksum is wrong" },
		{ .recipe = SGD,
		  .says = "shard 0 was refused: the payload's checksum is wrong",
		  .at = SPAN - 1 },
		{ .recipe = SGD,
		  .says = "shard 0 was refused: the payload's checksum is wrong",
		  .at = DENSE_PIECE },
		{ .recipe = MOMENTUM,
		  .says = "shard 0 was refused: the payload's checksum is wrong",
		  .at = SPAN - 1 },
		{ .recipe = SGD, .says = "a value is NaN or infinite", .at = SPAN - 1, .nan = 1 },
		{ .recipe = MOMENTUM, .says = "a value is NaN or infinite", .nan = 1 },
		{ .recipe = SGD, .says = "rank 2 where 1 is expected", .header = as_rank_2 },
		{ .recipe = SGD, .says = "step 4 where 3 is expected", .header = of_another_step },
		{ .recipe = SGD, .says = "another version", .header = of_another_version },
		{ .recipe = SGD, .says = "its choice is not one", .header = with_a_choice },
		{ .recipe = MOMENTUM,
		  .says = "learning rates differ",
		  .header = with_another_rate },
		{ .recipe = SGD, .says = "was refused", .header = with_a_tail },
		{ .recipe = SGD, .says = "exceeds the slot", .header = beyond_the_slot },
		{ .recipe = SGD, .says = "was refused", .header = as_f16 },
	};
	all(attacks, COUNT_OF(attacks));
}

TEST(delta__that_does_not_check__is_refused_by_name_and_ends_the_job)
{
	static const struct attack attacks[] = {
		{ .recipe = SGD,
		  .says = "shard 1 from rank 1 (node n1) was refused: the payload's checksum is "
			  "wrong",
		  .from_log = 1 },
		{ .recipe = MOMENTUM,
		  .says = "shard 1 from rank 1 (node n1) was refused: the payload's checksum is "
			  "wrong",
		  .from_log = 1,
		  .at = SPAN - 1 },
		{ .recipe = MOMENTUM,
		  .says = "a value is NaN or infinite",
		  .from_log = 1,
		  .at = SPAN - 1,
		  .nan = 1 },
		{ .recipe = SGD,
		  .says = "shard 1 from rank 1 (node n1) was refused: the payload's checksum is "
			  "wrong",
		  .from_log = 1,
		  .at = SPAN - 1,
		  .on_gpu = 1 },
		{ .recipe = MOMENTUM,
		  .says = "a value is NaN or infinite",
		  .from_log = 1,
		  .nan = 1,
		  .on_gpu = 1 },
		{ .recipe = SGD,
		  .says = "another version",
		  .from_log = 1,
		  .header = of_another_version,
		  .on_gpu = 1 },
		{ .recipe = SGD,
		  .says = "rank 2 where 1 is expected",
		  .from_log = 1,
		  .header = as_rank_2 },
		{ .recipe = SGD,
		  .says = "another version",
		  .from_log = 1,
		  .header = of_another_version },
		{ .recipe = SGD,
		  .says = "shard 1 from rank 1",
		  .from_log = 1,
		  .header = with_a_tail },
	};
	all(attacks, COUNT_OF(attacks));
}
