/* SPDX-License-Identifier: BSD-3-Clause
 * The rounds of a checkpoint or restore: each rank says one word, and after each round all ranks
 * know alike whether all could do their part. Called by checkpoint.c, over collective_run(). */
#ifndef RUNTIME_CHECKPOINT_ROUNDS_H
#define RUNTIME_CHECKPOINT_ROUNDS_H
#include "checkpoint/checkpoint_folder.h"
#include "model/model.h"

enum { ROW_BYTES = MAIL_BYTES, ROW_TEXT = 40, ROW_TEXT_BYTES = ROW_BYTES - ROW_TEXT };
_Static_assert((int)CHECKPOINT_DIR_BYTES <= (int)ROW_TEXT_BYTES &&
		       (int)ERROR_TEXT_BYTES <= (int)ROW_TEXT_BYTES,
	       "a directory and an error text fit a row");

/* What a rank says in a round. */
struct word {
	int status; /* 0 or SLUICE_E*: then text is the error's */
	uint32_t model;
	uint64_t step;
	uint64_t digest; /* of the directory's text as the application gave it */
	uint64_t bytes;  /* of a file: the speaker's, or (restore, rank 0) the listener's */
	uint32_t crc;
	uint32_t generation;
	char text[ROW_TEXT_BYTES]; /* rank 0: the absolute directory */
};

struct meeting {
	sluice_model *model;
	enum collective op;
	uint8_t *said, *heard; /* size rows each */
	struct word mine;
	struct word terms; /* the leader's: place and step */
	int leader;        /* round_leader() of the last round */
	int complete;      /* no worker was lost before */
	struct checkpoint_place place;
	int lost; /* the last round failed with the job: others may still be at work */
};

int meeting_open(sluice_model *model, enum collective op, struct meeting **out);
void meeting_close(struct meeting **m);
/* What that rank said in the last round; all zeros if it is lost. */
void meeting_heard(const struct meeting *m, int rank, struct word *out);
/* All say m->mine (after a failure with the thread's last error). sums: of each listener's file, or
 * NULL. Fails only with the job. */
int meeting_speak(struct meeting *m, const struct checkpoint_sum *sums);
/* 0 if all could do their part; else the code of the first that could not, on every rank alike. A
 * rank that failed itself keeps its own message. */
int meeting_verdict(const struct meeting *m);
/* The first round: every rank learns the leader's step and place, or why there is none. The leader
 * says its directory in m->mine.text; *again_out: a rank that said nothing of the kind has become
 * the leader, so that the round is to be repeated, by all alike. */
int meeting_agree(struct meeting *m, const struct checkpoint_sum *sums, const char *function,
		  int *again_out);
#endif
