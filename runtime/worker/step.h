/* SPDX-License-Identifier: BSD-3-Clause
 * The current step of a worker: its progress, what it leaves out, and the flags and choices that
 * are sent with it. All files of worker/ read it, and only the functions here change it. Pure: no
 * model and no network. */
#ifndef RUNTIME_WORKER_STEP_H
#define RUNTIME_WORKER_STEP_H
#include "model/plan.h"
#include <stdint.h>

enum step_state {
	STEP_DONE,    /* pulled; the next push may come */
	STEP_PUSHED,  /* the whole gradient is pushed but not pulled */
	STEP_PUSHING, /* some ranges are pushed */
	STEP_PULLING  /* sluice_pull_begin() was called, and some ranges are still to be pulled */
};

/* How a pull in ranges handles the shards. PULL_BY_SHARD takes them one by one as they answer.
 * PULL_AT_ONCE takes all at the first range. PULL_ASKS does so too, without a push (when=async). */
enum pull_kind { PULL_NONE, PULL_BY_SHARD, PULL_AT_ONCE, PULL_ASKS, PULL_ENDED };

struct step {
	uint64_t number;   /* number of the last push, counted from 1 */
	uint64_t done;     /* number of completed steps; with when=every, there are several per
			      push */
	uint32_t fragment; /* the fragment of the last push */
	float lr;          /* the learning rate of the push that is not pulled yet, or otherwise of
			      the next push */
	float next_lr;     /* the learning rate of the next push */
	struct step_rule rule;
	enum step_state state;
	unsigned phase;       /* current phase of the schedule */
	int encoded;          /* 1: the messages of the phase are made */
	int unpushed;         /* 1: a pull without a push is under way (quorum=) */
	uint32_t shards_done; /* number of shards whose publication in this phase was handled */
	int left_out;         /* 1: the messages of this step are empty */
	int skipped;          /* 1: nothing is exchanged for the last push (nonfinite=skip-all) */
	uint64_t overflowed;  /* a coordinate whose value cannot be sent, because it is not
				 finite */
	float range; /* for a grid: largest magnitude of the whole vector, for all shards */
	float norm;  /* for all shards: with clip=median, the 2-norm of the selected values; with
			quorum=, the worker's weight */
	/* These two members change only with the token held. */
	int asked; /* 1: a pull is waiting, so deltas may be added to its vector */
	enum pull_kind pull;
	/* Flags of sluice_raise(): the flags that the next push sends, and the flags that the last
	 * pull received. */
	unsigned raise, raised;
	/* The step whose pull applies the exchange under way (late=); 0 if there is no such
	 * exchange. behind: 1 while the progress thread takes the exchange's publications and
	 * collects their flags in `arriving`. These members change only with the token held. */
	uint64_t due;
	int behind;
	unsigned arriving;
	/* The choice (rulebook_step()) that all workers use, and the choice that the next push
	 * proposes. They are equal unless this worker wants a change. */
	unsigned chosen, proposed;
};

/* Restarts the steps. Afterwards no step is under way, and the last push was number `number`, of
 * this fragment. rule: the rule of the next step. */
void step_restart(struct step *s, uint64_t number, uint32_t fragment, const struct step_rule *rule);
/* Sets the number of completed steps, at open and when a checkpoint is restored. */
void step_resume(struct step *s, uint64_t done);
void step_set_rate(struct step *s, float lr);

/* ---- a push ------------------------------------------------------------------ */
void step_begin(struct step *s, uint64_t number, uint32_t fragment, const struct step_rule *rule);
void step_become(struct step *s, enum step_state state);
/* Sets whether the messages of this step are empty. */
void step_leave_out(struct step *s, int left_out);
/* Called when all workers have agreed to exchange nothing for this push. The pull then reports the
 * flags. */
void step_skip(struct step *s, unsigned raised);
/* Called before the workers agree whether to skip a push. */
void step_unskip(struct step *s);
void step_set_range(struct step *s, float range);
void step_set_norm(struct step *s, float norm);
/* Records that the value at this coordinate cannot be sent. Returns SLUICE_ENUMERIC. */
int step_fail(struct step *s, uint64_t coordinate);
void step_encoded(struct step *s);
/* Called at the end of a push. Its messages contain the raised flags. */
void step_sent(struct step *s);

/* ---- the phases -------------------------------------------------------------- */
/* Called when the messages of the first phase were made without a push (when=async). */
void step_unpushed(struct step *s);
/* Called before and after a pull without a push between exchanges (quorum=). */
void step_pull_alone(struct step *s, int on);
void step_phase_ends(struct step *s);
/* Called when the publication of one shard has been handled. */
void step_shard_ends(struct step *s, unsigned raised);

/* ---- a pull ------------------------------------------------------------------ */
void step_set_asked(struct step *s, int asked);
void step_set_pull(struct step *s, enum pull_kind kind);
/* Begins to collect the flags of this pull. */
void step_pull(struct step *s);
void step_end(struct step *s);
/* Ends a step that counts as completed, because the application has its result. */
void step_complete(struct step *s);

/* ---- an exchange that is applied late ---------------------------------------- */
void step_go_behind(struct step *s, uint64_t due);
/* Called when all publications of the exchange are taken. */
void step_arrive(struct step *s);
/* Called when the exchange is applied. Its flags are then those of the last pull. */
void step_apply_late(struct step *s);
/* Called after step_restart(), if the exchange has arrived but is not applied. */
void step_resume_late(struct step *s, uint64_t due);

/* ---- flags and choices ------------------------------------------------------- */
void step_raise(struct step *s, unsigned flags);
void step_propose(struct step *s, unsigned choice);
/* Adopts the choice that a publication has made for all workers. */
void step_adopt(struct step *s, unsigned choice);
/* Sets the choices from a checkpoint. rule: the rule of the next step. */
void step_restore(struct step *s, unsigned chosen, unsigned proposed, const struct step_rule *rule);
#endif
