/* SPDX-License-Identifier: BSD-3-Clause
 * A worker whose shards have two holders each, over a transport that only records posts: both
 * holders get each message, a slot is free when both have consumed it, and publications come from
 * the holder whose epoch is current. */
#include "base/bytes.h"
#include "base/error.h"
#include "job/peers.h"
#include "model/home.h"
#include "rdma/ring.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, SHARDS = 2, HOLDERS = 2, REMOTE_BYTES = 1 << 20, BYTES = 256 };

/* Ranks 1 and 2 hold both shards. Rank 0 is the worker. */
static struct {
	struct transport transport[RANKS];
	struct endpoint endpoint[RANKS];
	struct peer peers[RANKS];
	struct rank_record records[RANKS];
	sluice_job job;
	struct worker worker;
	sluice_model model;
	int full[RANKS];  /* 1: the queue to that rank is full */
	int ended[RANKS]; /* 1: that rank's memory can no longer be opened */
	unsigned posted[RANKS];
	struct transfer last[RANKS];
	uint8_t bytes[RANKS][BYTES]; /* the bytes that the last put wrote */
} w;

/* ---- the transport, and the job above it ----------------------------------- */

struct region_there {
	struct remote remote;
	uint8_t memory[REMOTE_BYTES];
};

static int note_post(struct endpoint *e, const struct transfer *t)
{
	if (w.full[e->peer])
		return SLUICE_EAGAIN;
	w.posted[e->peer]++;
	w.last[e->peer] = *t;
	assert_true(t->bytes <= BYTES);
	if (t->kind == TRANSFER_PUT_NOTIFY)
		memcpy(w.bytes[e->peer], t->local, t->bytes);
	return 0;
}

static int describe(struct endpoint *e, const struct region *region,
		    uint8_t descriptor[REGION_DESCRIPTOR_BYTES])
{
	memset(descriptor, 1, REGION_DESCRIPTOR_BYTES);
	return 0;
}

static int open_there(struct endpoint *e, const uint8_t descriptor[REGION_DESCRIPTOR_BYTES],
		      struct remote **out)
{
	struct region_there *there;

	if (w.ended[e->peer])
		return fail_quietly(SLUICE_EPEER, "there is no such file");
	there = calloc(1, sizeof(*there));
	assert_non_null(there);
	there->remote = (struct remote){ .endpoint = e, .bytes = REMOTE_BYTES };
	*out = &there->remote;
	return 0;
}

static void close_there(struct remote **remote)
{
	free(*remote);
	*remote = NULL;
}

static void *memory_of(struct remote *remote)
{
	return ((struct region_there *)(void *)remote)->memory;
}

static const struct transport_ops ops = { .name = "noted",
					  .describe = describe,
					  .remote_open = open_there,
					  .remote_close = close_there,
					  .post = note_post,
					  .address = memory_of };

int __wrap_descriptors_swap(sluice_job *job, int rc, const char *what, const uint8_t *mine,
			    size_t n, uint8_t *theirs);
int __wrap_collective_agree(sluice_job *job, int rc, const char *what);
void __wrap_progress_take(sluice_job *job);
void __wrap_progress_release(sluice_job *job);
int __wrap_progress_until(sluice_job *job, int (*done)(void *),
			  void (*describe)(void *, char *, size_t), void *context);

int __wrap_descriptors_swap(sluice_job *job, int rc, const char *what, const uint8_t *mine,
			    size_t n, uint8_t *theirs)
{
	memset(theirs, 1, RANKS * n * REGION_DESCRIPTOR_BYTES);
	return rc;
}

int __wrap_collective_agree(sluice_job *job, int rc, const char *what)
{
	return rc;
}

void __wrap_progress_take(sluice_job *job)
{
}

void __wrap_progress_release(sluice_job *job)
{
}

static char waits_for[200];

/* Makes a wait time out unless it ends at once. */
int __wrap_progress_until(sluice_job *job, int (*done)(void *),
			  void (*describe_wait)(void *, char *, size_t), void *context)
{
	if (done(context))
		return 0;
	describe_wait(context, waits_for, sizeof(waits_for));
	return SLUICE_ETIMEDOUT;
}

/* ---- a worker --------------------------------------------------------------- */

static void open_job(void)
{
	memset(&w, 0, sizeof(w));
	w.job = (sluice_job){ .root = &w.job,
			      .size = RANKS,
			      .servers = 2,
			      .workers = 1,
			      .peers = w.peers,
			      .records = w.records,
			      .membership_epoch = 1 };
	for (int r = 0; r < RANKS; r++) {
		w.transport[r].ops = &ops;
		w.endpoint[r] = (struct endpoint){ .transport = &w.transport[r], .peer = r };
		w.peers[r].endpoint = &w.endpoint[r];
	}
}

static void open_worker(uint32_t holders)
{
	const sluice_model_attr attr = { .size = sizeof(attr), .count = 64, .shards = SHARDS };
	sluice_model *model = &w.model;

	open_job();
	model->job = &w.job;
	model->worker = &w.worker;
	model->recipe.every.period = model->recipe.every.fragments = 1;
	assert_int_equal(recipe_parse("up=topk(0.5)", &model->recipe), 0);
	assert_int_equal(schedule_compile(&model->recipe, 0, 0, &model->schedule), 0);
	assert_int_equal(
		layout_make(&attr, &model->recipe, &model->schedule, RANKS, 1, &model->layout), 0);
	assert_int_equal(holdings_make(&model->layout, holders, &model->layout.holdings), 0);
	assert_int_equal(home_open(&w.job, &model->layout, &model->home), 0);
	assert_int_equal(homes_exchange(&model->home, 1), 0);
	const struct lanes_attr of = { .job = &w.job,
				       .layout = &model->layout,
				       .home = model->home,
				       .step = &w.worker.step,
				       .n_phases = model->schedule.n_phases,
				       .stats = &model->stats,
				       .stopwatch = &model->stopwatch };
	assert_int_equal(lanes_open(&of, &w.worker.lanes), 0);
	lanes_restart(model->worker->lanes, &model->recipe, 0, 1);
}

static void close_worker(void)
{
	lanes_close(&w.worker.lanes);
	home_close(&w.model.home);
	layout_free(&w.model.layout);
}

static void stage(uint32_t shard, uint8_t byte)
{
	const struct message m = { .kind = MESSAGE_PUSH };

	memset(lane_slot(w.worker.lanes, shard, lane_next_seq(w.worker.lanes, shard)), byte, 64);
	lane_stage(w.worker.lanes, shard, &m, 64, NULL);
}

static void push(uint32_t shard, uint8_t byte)
{
	stage(shard, byte);
	assert_int_equal(lane_post(w.worker.lanes, shard), 1);
}

/* Writes a notice of holder k of the shard to the worker. */
static int notice(uint32_t shard, uint32_t k, uint64_t version, uint64_t consumed)
{
	uint8_t *line = (uint8_t *)(uintptr_t)home_notice(w.model.home, shard, k);

	put_le64(line, version);
	put_le64(line + 8, version * 64);
	put_le64(line + 16, consumed);
	put_le32(line + 24, 64);
	put_le32(line + 28, crc32c(0, line, 28));
	return lane_notice(w.worker.lanes, shard, home_holder(w.model.home, shard, k)->at.rank);
}

static int rank_of(uint32_t shard, uint32_t k)
{
	return home_holder(w.model.home, shard, k)->at.rank;
}

/* ---- cases ------------------------------------------------------------------ */

TEST(turn__seven_shards_of_three_ranks__takes_turns_from_the_next_rank_on)
{
	/* Rank 0 holds shards 0, 3 and 6, rank 1 shards 1 and 4, and rank 2 shards 2 and 5. */
	static const uint32_t turns[RANKS][7] = { { 1, 2, 4, 5, 0, 3, 6 },
						  { 2, 0, 5, 3, 6, 1, 4 },
						  { 0, 1, 3, 4, 6, 2, 5 } };
	const sluice_model_attr attr = { .size = sizeof(attr), .count = 64, .shards = 7 };
	sluice_model *model = &w.model;

	for (int rank = 0; rank < RANKS; rank++) {
		open_job();
		w.job.rank = rank;
		w.job.workers = RANKS;
		w.job.servers = 0;
		assert_int_equal(recipe_parse("up=all down=all", &model->recipe), 0);
		assert_int_equal(schedule_compile(&model->recipe, 0, 0, &model->schedule), 0);
		assert_int_equal(layout_make(&attr, &model->recipe, &model->schedule, RANKS, RANKS,
					     &model->layout),
				 0);
		assert_int_equal(holdings_make(&model->layout, 1, &model->layout.holdings), 0);
		assert_int_equal(home_open(&w.job, &model->layout, &model->home), 0);
		for (uint32_t i = 0; i < 7; i++)
			assert_int_equal(home_turn(model->home, i), turns[rank][i]);
		home_close(&model->home);
		layout_free(&model->layout);
	}
}

TEST(open__two_holders__each_shard_has_both_and_is_read_from_the_first)
{
	open_worker(HOLDERS);
	for (uint32_t s = 0; s < SHARDS; s++) {
		assert_int_equal(rank_of(s, 0), 1 + s);
		assert_int_equal(rank_of(s, 1), 2 - s);
		assert_int_equal(home_rank(w.model.home, s), rank_of(s, 0));
		assert_false(home_is_here(w.model.home, s));
		assert_false(holdings_has(w.model.layout.holdings, s, 0));
		for (uint32_t k = 0; k < HOLDERS; k++)
			assert_ptr_equal(home_holder(w.model.home, s, k)->window->endpoint,
					 &w.endpoint[rank_of(s, k)]);
	}
	close_worker();
}

/* A rank may end between its offer and the moment at which another rank opens the region. */
TEST(open_region__rank_has_ended__the_error_names_it_as_lost)
{
	const uint8_t descriptor[REGION_DESCRIPTOR_BYTES] = { 1 };
	struct remote *remote = NULL;

	open_worker(HOLDERS);
	w.ended[2] = 1;
	assert_int_equal(peers_open_region(&w.job, 2, descriptor, &remote), SLUICE_EPEER);
	assert_null(remote);
	assert_non_null(strstr(sluice_last_error(), "rank 2"));
	assert_non_null(strstr(sluice_last_error(), "is lost: there is no such file"));
	assert_int_equal(peers_open_region(&w.job, 1, descriptor, &remote), 0);
	close_there(&remote);
	close_worker();
}

TEST(post__two_holders__both_get_the_same_message)
{
	open_worker(HOLDERS);
	push(1, 0x51);
	for (uint32_t k = 0; k < HOLDERS; k++) {
		const struct holder *to = home_holder(w.model.home, 1, k);
		const struct transfer *t = &w.last[to->at.rank];
		const struct shard_layout *at = &w.model.layout.shards[1];

		assert_int_equal(w.posted[to->at.rank], 1);
		assert_ptr_equal(t->remote, to->window);
		assert_int_equal(t->offset, to->at.slots_offset +
						    ring_offset(at->slot_depth, at->slot_bytes, 1));
		assert_int_equal(t->bytes, 64);
		for (int i = 0; i < 64; i++)
			assert_int_equal(w.bytes[to->at.rank][i], 0x51);
	}
	assert_int_equal(w.posted[0], 0);
	assert_int_equal(w.model.stats.pushed_bytes, 2 * 64);
	close_worker();
}

TEST(post__one_queue_is_full__goes_to_the_other_and_once_to_each)
{
	open_worker(HOLDERS);
	w.full[2] = 1;
	stage(0, 1);
	assert_int_equal(lane_post(w.worker.lanes, 0), 0);
	assert_int_equal(lane_post(w.worker.lanes, 0), 0);
	assert_false(lane_posted(w.worker.lanes, 0));
	assert_int_equal(w.posted[1], 1);
	/* The holder that has the message may consume it meanwhile. */
	assert_int_equal(notice(0, 0, 1, 1), 1);
	w.full[2] = 0;
	assert_int_equal(lane_post(w.worker.lanes, 0), 1);
	assert_true(lane_posted(w.worker.lanes, 0));
	assert_int_equal(w.posted[1], 1);
	assert_int_equal(w.posted[2], 1);
	close_worker();
}

TEST(slot__one_holder_has_not_consumed__is_not_free)
{
	open_worker(HOLDERS);
	for (uint8_t i = 0; i < SLOT_DEPTH; i++) {
		assert_int_equal(lanes_await_slots(w.worker.lanes, 1), 0);
		for (uint32_t s = 0; s < SHARDS; s++)
			push(s, i);
	}
	assert_int_equal(lanes_await_slots(w.worker.lanes, 1), SLUICE_ETIMEDOUT);
	assert_int_equal(notice(0, 0, 1, 1), 1);
	assert_int_equal(notice(1, 0, 1, 1), 1);
	assert_int_equal(notice(1, 1, 1, 1), 1);
	assert_int_equal(lanes_await_slots(w.worker.lanes, 1), SLUICE_ETIMEDOUT);
	assert_non_null(strstr(waits_for, "a free slot at shard 0 of rank 2"));
	assert_int_equal(notice(0, 1, 1, 1), 1);
	assert_int_equal(lanes_await_slots(w.worker.lanes, 1), 0);
	close_worker();
}

TEST(notice__holder_of_an_older_epoch__announces_nothing)
{
	open_worker(HOLDERS);
	notice(0, 1, 1, 0);
	assert_false(lane_announced(w.worker.lanes, 0, 1));
	notice(0, 0, 1, 0);
	assert_true(lane_announced(w.worker.lanes, 0, 1));
	lane_took(w.worker.lanes, 0, 1, 1);
	/* In epoch 2 the worker reads from the second holder. */
	home_move(w.model.home, 0, 1, 2);
	lanes_follow(w.worker.lanes);
	assert_int_equal(home_rank(w.model.home, 0), rank_of(0, 1));
	assert_int_equal(home_rank(w.model.home, 1), rank_of(1, 0));
	notice(0, 0, 2, 0);
	assert_false(lane_announced(w.worker.lanes, 0, 2));
	notice(0, 1, 2, 0);
	assert_true(lane_announced(w.worker.lanes, 0, 2));
	close_worker();
}

TEST(move__second_holder_has_announced_before__its_log_is_read)
{
	open_worker(HOLDERS);
	notice(1, 1, 1, 0);
	assert_false(lane_announced(w.worker.lanes, 1, 1));
	home_move(w.model.home, 1, 1, 2);
	lanes_follow(w.worker.lanes);
	assert_true(lane_announced(w.worker.lanes, 1, 1));
	lane_read(w.worker.lanes, 1);
	const struct holder *from = home_holder(w.model.home, 1, 1);
	const struct transfer *t = &w.last[from->at.rank];
	assert_int_equal(w.posted[from->at.rank], 1);
	assert_int_equal(w.posted[rank_of(1, 0)], 0);
	assert_int_equal(t->kind, TRANSFER_GET);
	assert_ptr_equal(t->remote, from->log);
	assert_int_equal(t->offset, from->at.log_offset);
	close_worker();
}

TEST(notice__rank_that_holds_nothing__is_refused)
{
	open_worker(1);
	assert_int_equal(lane_notice(w.worker.lanes, 0, rank_of(1, 0)), 0);
	assert_int_equal(lane_notice(w.worker.lanes, 0, 0), 0);
	assert_int_equal(notice(0, 0, 1, 0), 1);
	close_worker();
}

/* With two holders, a payload cannot be made directly in their windows. */
TEST(slot_there__mapped__is_that_of_an_only_holder)
{
	open_worker(1);
	assert_non_null(lane_slot_there(w.worker.lanes, 0, 1));
	close_worker();
	open_worker(HOLDERS);
	assert_null(lane_slot_there(w.worker.lanes, 0, 1));
	close_worker();
}
