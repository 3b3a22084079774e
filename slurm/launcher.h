/* SPDX-License-Identifier: BSD-3-Clause
 * What bootstrap.c needs from a launcher, so that only pmix_calls.c knows PMIx. Every call returns
 * within the timeout given at open, plus the timeout of Finalize for a launcher that does not
 * answer. */
#ifndef SLURM_LAUNCHER_H
#define SLURM_LAUNCHER_H
#include <stddef.h>
#include <stdint.h>

struct launcher;

/* Returns 1 if this build supports a launcher, 0 if it was configured without PMIx. */
int launcher_supported(void);

/* Joins the launcher that started this process. Returns 0 with *out NULL if no launcher did.
 * SLUICE_EBOOT, SLUICE_ETIMEDOUT or SLUICE_ENOMEM with the message set. */
int launcher_open(int timeout_ms, struct launcher **out);

int launcher_rank(const struct launcher *l);
int launcher_size(const struct launcher *l);
const char *launcher_name(const struct launcher *l); /* "PMIx 4.2.2" */
const char *launcher_node(const struct launcher *l); /* "" if the launcher does not say */

/* Receives the bytes of one rank, which are valid during the call only. Returns 0, or an error that
 * ends the exchange. */
typedef int (*launcher_take_fn)(void *context, int rank, const uint8_t *bytes, size_t n);

/* Gives mine[0..n) to all ranks and hands the bytes of every rank, own one included, to take(), in
 * rank order. Collective, once. Leaves the launcher in any case, also after an error: from here on
 * the death of a peer is ours to notice, and does not end the step. SLUICE_EPEER: a rank on this
 * node ended before all had met; then the launcher was asked to end the step, because it gives no
 * other way to tell the ranks on other nodes. */
int launcher_exchange(struct launcher *l, const uint8_t *mine, size_t n, launcher_take_fn take,
		      void *context);

/* Leaves the launcher if launcher_exchange() did not. Accepts a pointer to NULL. */
void launcher_close(struct launcher **l);
#endif
