/* SPDX-License-Identifier: BSD-3-Clause
 * The table of functions that bootstrap.c needs from a launcher. pmix_calls.c fills it for srun and
 * other launchers that serve PMIx, callbacks.c for a program with its own store. Every call returns
 * within the timeout given at open, plus the timeout of PMIx's Finalize if the launcher does not
 * answer, plus the time by which a callback exceeds its timeout. */
#ifndef SLURM_LAUNCHER_H
#define SLURM_LAUNCHER_H
#include "sluice.h"
#include <stddef.h>
#include <stdint.h>

enum { LAUNCHER_ROUNDS = 2 };

/* The first member of every kind of launcher's struct. */
struct launcher {
	const struct launcher_ops *ops;
};

/* Receives the bytes of one rank, which are valid only during the call. Returns 0, or an error that
 * ends the exchange. */
typedef int (*launcher_take_fn)(void *context, int rank, const uint8_t *bytes, size_t n);

struct launcher_ops {
	int (*rank)(const struct launcher *l);
	int (*size)(const struct launcher *l);
	const char *(*name)(const struct launcher *l); /* "PMIx 4.2.2" */
	const char *(*node)(const struct launcher *l); /* "" if the launcher does not provide a
							  name */
	/* Sends mine[0..n) to all ranks and passes the bytes of every rank, including this one, to
	 * take(), in rank order. Collective. May be called LAUNCHER_ROUNDS times, and not after an
	 * error. SLUICE_EPEER means that a rank on this node ended before all ranks had joined.
	 * exchange() has then already asked PMIx to end the step, which is the only way to inform
	 * the ranks on other nodes. */
	int (*exchange)(struct launcher *l, const uint8_t *mine, size_t n, launcher_take_fn take,
			void *context);
	/* Leaves the launcher. From then on the launcher does not end the step when a peer dies, so
	 * this library has to detect that. Called at most once, after the exchanges, whether or not
	 * they succeeded. */
	int (*leave)(struct launcher *l);
	/* Leaves the launcher if leave() was not called, and frees it. */
	void (*close)(struct launcher *l);
};

/* Returns 1 if this build supports PMIx, else 0. */
int pmix_supported(void);
/* Joins the PMIx launcher that started this process. If no PMIx launcher did, returns 0 and sets
 * *out to NULL. Fails with SLUICE_EBOOT, SLUICE_ETIMEDOUT or SLUICE_ENOMEM. Messages use the name
 * `node` unless the launcher gives another one. */
int pmix_open(int timeout_ms, const char *node, struct launcher **out);

/* Uses the program's callbacks, which it copies. Returns SLUICE_EINVAL or SLUICE_ENOMEM on
 * failure. */
int callbacks_open(const sluice_bootstrap *callbacks, int timeout_ms, struct launcher **out);
#endif
