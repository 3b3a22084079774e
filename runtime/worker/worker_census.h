/* SPDX-License-Identifier: BSD-3-Clause
 * The worker half of a census (model/census.h). */
#ifndef RUNTIME_WORKER_CENSUS_H
#define RUNTIME_WORKER_CENSUS_H
#include "model/census.h"
#include "worker/hooks.h"

struct worker_census {
	struct constituent up;
	struct sluice_histogram *shards; /* sum of the histograms of all shards in this step
					    (down=global) */
	float up_level, down_level;      /* the newest thresholds; down_level is that of the last
					    step */
	uint8_t *note; /* memory for a private copy of a note, or for making a message */
	size_t message_bytes;
};

/* Writes the note that follows a push, and returns its length. */
size_t census_note_push(struct worker *w, uint32_t shard, uint64_t seq, uint8_t *out);

/* Sets *up and *down to the newest thresholds. Leaves them unchanged if the recipe takes no
 * census. */
void census_thresholds(const struct worker_census *c, double *up, double *down);

/* Save and restore the state between two steps, for checkpoints. census_judge_worker() returns
 * NULL, or the reason why these numbers are not valid. */
enum { CENSUS_WORKER_NUMBERS = 2 };
void census_save_worker(const struct worker_census *c, uint64_t *numbers);
const char *census_judge_worker(const struct recipe *recipe, const uint64_t *numbers);
void census_restore_worker(struct worker_census *c, const uint64_t *numbers);

extern const struct step_hooks census_hooks;
#endif
