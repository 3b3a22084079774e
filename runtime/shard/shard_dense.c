/* SPDX-License-Identifier: BSD-3-Clause
 * A step in which every worker sends every coordinate as a float, and every coordinate is
 * published. Instead of one pass for each message, the shard makes one pass over all messages. At
 * each coordinate it adds them in rank order, so the result has the same bits as with one pass for
 * each. Called by shard.c.
 *
 * The pass also writes the change into the next log entry, and updates the copy, the residual and
 * the velocity. A message's checksum can be compared only when its last byte has been read. If a
 * message is then found to be wrong, its sender is blamed, nothing is published, and the job ends.
 * So nobody reads the corrupted vectors.
 *
 * This path is not used if workers may be lost (on_failure=continue). In that mode a push counts as
 * soon as it is taken, and a wrong push does not end the job. */
#include "shard/shard_dense.h"
#include "base/error.h"
#include "base/team.h"
#include "compress/dense.h"
#include "compress/sparse.h"
#include "model/compressor.h"
#include "shard/gather.h"
#include "shard/inbox.h"
#include "shard/publish.h"
#include "shard/shard_device.h"
#include "shard/state.h"
#include <stdlib.h>
#include <string.h>

/* The next message of one worker. */
struct dense_message {
	struct taken t;
	const uint8_t *payload; /* in the slot; NULL if this path has summed no message yet */
};

/* The checksum of one part of a message, and whether a value in it is not finite. */
struct checked {
	uint32_t crc;
	int nonfinite;
};
enum { CHECKED_IN_LINE = 64 / sizeof(struct checked) };

struct dense_sum {
	/* `takes` is 1 if a step of this version and choice may take the fast path. Each poll needs
	 * this value, but computes it only if version or choice have changed. */
	uint64_t version;
	unsigned chosen;
	int takes;
	struct checked *checked;   /* entry part * stride + worker */
	size_t stride;             /* whole cache lines, because threads write to different parts */
	struct dense_message of[]; /* one for each worker */
};

/* Used where no coordinate is bad. It is larger than any coordinate of a shard. */
#define NONE_BAD UINT32_MAX

/* Returns 1 if both directions and the state of this step allow the fast path. The workers may
 * still send something else. */
static int expected(struct shard *shard)
{
	const uint64_t version = shard->version + 1,
		       live = (gather_counted(shard) ? TRAIT(COUNTED) : 0) |
			      (shard_device_takes(shard) ? TRAIT(SHARD_ON_DEVICE) : 0) |
			      (shard->model.measure->on ? TRAIT(MEASURED) : 0);
	struct dense_sum *dense = shard->dense;

	if (dense->version != version || dense->chosen != shard->chosen) {
		dense->version = version;
		dense->chosen = shard->chosen;
		dense->takes = plan_takes(
			shard->rules.plan, PATH_DENSE_SUM,
			rulebook_step(&shard->rules, version, shard->chosen).traits);
	}
	return dense->takes && plan_takes(shard->rules.plan, PATH_DENSE_SUM, live);
}

/* Reads the headers. Returns DENSE_READY if all messages have arrived and are dense. */
static enum dense_outcome look_at_headers(struct shard *shard)
{
	for (int w = 0; w < shard->job->workers; w++)
		if (!inbox_has(shard, w))
			return DENSE_WAITS;
	for (int w = 0; w < shard->job->workers; w++) {
		struct dense_message *of = &shard->dense->of[w];

		if (inbox_take(shard, w, &gather_intake, INBOX_HEADER, &of->t))
			return DENSE_WAITS;
		if (!dense_plain(&of->t.m))
			return DENSE_NONE;
		if (!gather_same_rate(shard, w, of->t.m.lr, !w))
			return DENSE_WAITS;
		of->payload = of->t.slot + MESSAGE_HEADER_BYTES;
	}
	return DENSE_READY;
}

/* Computes one piece of the sum, from coordinate `at` on. This rank's own message is added in place
 * and without checks, because no other rank can write there and its values are finite. */
static void sum_piece(const struct shard *shard, uint32_t at, uint32_t n, struct checked *checked,
		      float *sum)
{
	float value[DENSE_PIECE];

	memset(sum, 0, n * sizeof *sum); /* 0 + -0 is 0 */
	for (int w = 0; w < shard->job->workers; w++) {
		const uint8_t *from = shard->dense->of[w].payload + sizeof *sum * at;

		if (w == shard->job->rank) {
			sparse_add(sum, NULL, (const float *)(const void *)from, n);
			continue;
		}
		checked[w].nonfinite |= dense_take(from, n, value, &checked[w].crc);
		sparse_add(sum, NULL, value, n);
	}
}

/* Called after the pass. Returns 1 if the payload of every other rank's message has the checksum of
 * its header and only finite values. Otherwise refuses the first message that does not. */
static int all_right(struct shard *shard, const struct crc_part *part, unsigned parts)
{
	const int workers = shard->job->workers;

	for (int w = 0; w < workers; w++) {
		struct crc_part crc[TEAM_PARTS];
		int nonfinite = 0;

		if (w == shard->job->rank)
			continue;
		for (unsigned i = 0; i < parts; i++) {
			const struct checked *checked =
				&shard->dense->checked[i * shard->dense->stride + (size_t)w];

			crc[i] = (struct crc_part){ checked->crc, part[i].bytes };
			nonfinite |= checked->nonfinite;
		}
		if (crc32c_of_parts(crc, parts) != shard->dense->of[w].t.payload_crc)
			inbox_refuse(shard, w, "the payload's checksum is wrong");
		else if (nonfinite)
			inbox_refuse(shard, w, message_nonfinite);
		else
			continue;
		return 0;
	}
	return 1;
}

static int count_all(struct shard *shard)
{
	for (int w = 0; w < shard->job->workers; w++)
		if (!gather_count(shard, w, &shard->dense->of[w].t.m))
			return 0;
	return 1;
}

/* Looks in a piece of the change for a value that is not finite. Returns the shard's coordinate of
 * the first one, or `bad` if an earlier piece had one. */
static uint32_t look_for_bad(uint32_t bad, uint32_t at, const float *change, uint32_t n)
{
	const uint32_t finite = (uint32_t)first_nonfinite(change, n);

	return bad == NONE_BAD && finite < n ? at + finite : bad;
}

/* Adds the residual that earlier sparse steps left, if any, to the change, and clears it. So the
 * residual is zero after the first dense step. */
static void with_residual(struct shard *shard, uint32_t at, float *change, uint32_t n)
{
	float *residual = shard_residual(shard) ? shard_residual(shard) + at : NULL;
	uint32_t any = 0;

	for (uint32_t i = 0; residual && i < n; i++) {
		any |= float_bits(residual[i]);
		change[i] = residual[i] + change[i];
	}
	if (any)
		memset(residual, 0, n * sizeof *residual);
}

/* Arguments and results of change_part(). */
struct pass {
	struct shard *shard;
	uint8_t *payload; /* of the publication */
	struct {
		uint32_t bad; /* the first coordinate at which the change is not finite, or
				 NONE_BAD */
		int left;     /* 1: a parameter is not finite */
	} found[TEAM_PARTS];
	struct crc_part crc[TEAM_PARTS];
};

static void change_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct pass *of = context;
	struct shard *shard = of->shard;
	struct update update = update_of_step(shard->rules.update, shard->version + 1,
					      shard->at->begin);
	const unsigned divisor = (unsigned)shard->job->workers;
	struct checked *checked = shard->dense->checked + part * shard->dense->stride;
	uint32_t bad = NONE_BAD, crc = 0, n;
	int left = 0;
	float change[DENSE_PIECE];

	memset(checked, 0, divisor * sizeof *checked);
	for (uint32_t at = (uint32_t)begin; at < end; at += n) {
		n = dense_here(of->payload, (uint32_t)end, at);
		sum_piece(shard, at, n, checked, change);
		update.first = shard->at->begin + at;
		update_apply(&update, change, averages_at(shard->averages, at), shard->copy + at, n,
			     divisor, gather_lr(shard));
		with_residual(shard, at, change, n);
		bad = look_for_bad(bad, at, change, n);
		dense_put(change, n, of->payload + sizeof *change * at, &crc,
			  shard->at->past_caches);
		left |= !publish_follow(shard, at, NULL, change, n);
	}
	dense_put_end();
	of->found[part].bad = bad;
	of->found[part].left = left;
	of->crc[part] = (struct crc_part){ crc, (end - begin) * sizeof *change };
}

/* Makes the pass. Returns 1 if everything that was read and computed is right. Otherwise the job
 * fails. */
static int change_all(struct shard *shard, uint8_t *payload, uint32_t *crc)
{
	struct pass of = { .shard = shard, .payload = payload };
	const unsigned parts = team_split(scratch_team(shard->scratch), shard->at->span,
					  VECTOR_LINE, change_part, &of);
	int left = 0;

	if (!all_right(shard, of.crc, parts))
		return 0;
	for (unsigned i = 0; i < parts; i++) {
		if (of.found[i].bad != NONE_BAD) {
			publish_overflowed(shard, of.found[i].bad);
			return 0;
		}
		left |= of.found[i].left;
	}
	if (left)
		publish_param_overflowed(shard);
	*crc = crc32c_of_parts(of.crc, parts);
	return !left;
}

int shard_dense_open(struct shard *shard)
{
	const size_t workers = (size_t)shard->job->workers;
	struct dense_sum *dense = calloc(1, sizeof(*dense) + workers * sizeof(dense->of[0]));

	shard->dense = dense;
	if (dense) {
		dense->stride = (workers + CHECKED_IN_LINE - 1) / CHECKED_IN_LINE * CHECKED_IN_LINE;
		dense->checked = aligned_alloc(64, team_parts(scratch_team(shard->scratch)) *
							   dense->stride * sizeof(*dense->checked));
	}
	return dense && dense->checked ? 0 :
					 fail(SLUICE_ENOMEM, "no memory for shard %u", shard->id);
}

void shard_dense_close(struct shard *shard)
{
	if (shard->dense)
		free(shard->dense->checked);
	free(shard->dense);
	shard->dense = NULL;
}

int shard_dense_summed(const struct shard *shard)
{
	return shard->dense->of[0].payload != NULL;
}

enum dense_outcome shard_dense_advance(struct shard *shard)
{
	const struct shard_layout *at = shard->at;
	struct message m;
	uint32_t crc = 0;

	if (!expected(shard))
		return DENSE_NONE;
	const enum dense_outcome seen = look_at_headers(shard);
	if (seen != DENSE_READY)
		return seen;
	uint8_t *entry = publish_reserve(shard, READERS_EVERYBODY);
	candidates_forget(compressor_candidates(shard->compressor));
	if (!change_all(shard, entry + MESSAGE_HEADER_BYTES, &crc) || !count_all(shard))
		return DENSE_WAITS;
	m = publish_delta(shard, at->span);
	m.coding = CODING_DENSE;
	m.scale = 1;
	m.payload_bytes = at->span * (uint32_t)sizeof(float);
	size_t bytes = message_head(&m, crc, entry);
	publish_commit(shard, READERS_EVERYBODY, &m, bytes);
	publish_step_ends(shard);
	return DENSE_PUBLISHED;
}
