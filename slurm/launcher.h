/* SPDX-License-Identifier: BSD-3-Clause
 * What bootstrap.c needs from whoever started the ranks: a table that each kind of launcher fills.
 * pmix_calls.c is the launcher of srun and of others that serve PMIx; callbacks.c is a program that
 * brings a store of its own. Every call returns within the timeout given at open, plus the timeout
 * of PMIx's Finalize for a launcher that does not answer, plus what a callback takes longer than it
 * was allowed. */
#ifndef SLURM_LAUNCHER_H
#define SLURM_LAUNCHER_H
#include "sluice.h"
#include <stddef.h>
#include <stdint.h>

enum { LAUNCHER_ROUNDS = 2 };

/* The first member of the struct of each kind. */
struct launcher {
	const struct launcher_ops *ops;
};

/* Receives the bytes of one rank, which are valid during the call only. Returns 0, or an error that
 * ends the exchange. */
typedef int (*launcher_take_fn)(void *context, int rank, const uint8_t *bytes, size_t n);

struct launcher_ops {
	int (*rank)(const struct launcher *l);
	int (*size)(const struct launcher *l);
	const char *(*name)(const struct launcher *l); /* "PMIx 4.2.2" */
	const char *(*node)(const struct launcher *l); /* "" if the launcher does not say */
	/* Gives mine[0..n) to all ranks and hands the bytes of every rank, own one included, to
	 * take(), in rank order. Collective; at most LAUNCHER_ROUNDS times, and not after an error.
	 * SLUICE_EPEER: a rank on this node ended before all had met; then PMIx was asked to end
	 * the step, because it gives no other way to tell the ranks on other nodes. */
	int (*exchange)(struct launcher *l, const uint8_t *mine, size_t n, launcher_take_fn take,
			void *context);
	/* Leaves the launcher: from here on the death of a peer is ours to notice, and does not end
	 * the step. Called at most once, after the exchanges, whether or not they succeeded. */
	int (*leave)(struct launcher *l);
	/* Leaves the launcher if that was not done, and frees it. */
	void (*close)(struct launcher *l);
};

/* Returns 1 if this build supports PMIx, else 0. */
int pmix_supported(void);
/* Joins the PMIx launcher that started this process. Returns 0 with *out NULL if none did.
 * SLUICE_EBOOT, SLUICE_ETIMEDOUT or SLUICE_ENOMEM with the message set. Messages name the node as
 * in `node` unless the launcher gives another name. */
int pmix_open(int timeout_ms, const char *node, struct launcher **out);

/* Uses the program's callbacks, which are copied. SLUICE_EINVAL or SLUICE_ENOMEM. */
int callbacks_open(const sluice_bootstrap *callbacks, int timeout_ms, struct launcher **out);
#endif
