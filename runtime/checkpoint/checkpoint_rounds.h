/* SPDX-License-Identifier: BSD-3-Clause
 * The rounds of a checkpoint or restore. In a round, each rank sends a struct word to all others.
 * All ranks then know whether every rank could do its part. Called by checkpoint.c, over
 * collective_run(). */
#ifndef RUNTIME_CHECKPOINT_ROUNDS_H
#define RUNTIME_CHECKPOINT_ROUNDS_H
#include "checkpoint/checkpoint_folder.h"
#include "model/model.h"

enum { ROW_BYTES = COLLECTIVE_BYTES, ROW_TEXT = 40, ROW_TEXT_BYTES = ROW_BYTES - ROW_TEXT };
_Static_assert((int)CHECKPOINT_DIR_BYTES <= (int)ROW_TEXT_BYTES &&
		       (int)ERROR_TEXT_BYTES <= (int)ROW_TEXT_BYTES,
	       "a directory and an error text fit a row");

/* A rank's message in one round. */
struct word {
	int status; /* 0 or SLUICE_E*; if it is not 0, text is the error message */
	uint32_t model;
	uint64_t step;
	uint64_t digest; /* of the directory's path, exactly as the application passed it */
	struct checkpoint_sum sum; /* the sum of the file that the rank has written */
	uint32_t generation;
	char text[ROW_TEXT_BYTES]; /* rank 0: the absolute path of the directory */
};

struct meeting {
	sluice_model *model;
	enum collective op;
	uint8_t *said, *heard; /* said: one row; heard: `size` rows */
	struct word mine;
	struct word terms; /* the leader's place and step */
	int leader;        /* round_leader() of the last round */
	int complete;      /* 1 if no worker had been lost before */
	struct checkpoint_place place;
	int lock; /* of checkpoint_lock(), or -1 */
	int lost; /* 1: the job failed in the last round, so other ranks may still be working */
};

int meeting_open(sluice_model *model, enum collective op, struct meeting **out);
void meeting_close(struct meeting **m);
/* Copies the rank's message of the last round to *out, or zeros if the rank is lost. */
void meeting_heard(const struct meeting *m, int rank, struct word *out);
/* Makes a round, in which all ranks send m->mine. Returns 0 if all ranks could do their part, and
 * otherwise the code of the first rank that could not. Every rank gets the same result. A rank that
 * failed keeps its own error message. */
int meeting_judge(struct meeting *m);
/* Makes the first round, in which every rank receives the leader's step and place, or the reason
 * for a failure. The leader sends its directory in m->mine.text. *again_out becomes 1 if a rank
 * that did not send a directory is now the leader. All ranks then repeat the round. */
int meeting_agree(struct meeting *m, const char *function, int *again_out);
/* Makes rounds after which every rank has its own sum. The leader passes the sums, one for each
 * rank. On the other ranks sums is NULL. Fails only if the job has failed. */
int meeting_share_sums(struct meeting *m, const struct checkpoint_sum *sums,
		       struct checkpoint_sum *own_out);
#endif
