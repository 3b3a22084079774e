/* SPDX-License-Identifier: BSD-3-Clause
 * The set of workers in the job's epoch, and the set that the last collective counted. In a job
 * that does not continue without lost workers, both have all workers. living.c owns the two sets,
 * members.c changes them with the token held, and every file may read them. */
#ifndef RUNTIME_LIVING_H
#define RUNTIME_LIVING_H
#include "sluice.h"
#include <stdint.h>

struct living; /* job.living; NULL unless on_failure=continue */

/* Returns 1 if the rank is alive in this epoch. A server is always alive, because its loss ends the
 * job. */
int job_living(const sluice_job *job, int rank);
/* Returns 1 if the rank's contribution to the last collective counts. All ranks get the same
 * answer. */
int round_has(const sluice_job *job, int rank);
/* Returns the lowest worker of the last collective. It does the work that only one rank must do.
 * All ranks get the same answer. */
int round_leader(const sluice_job *job);

/* ---- for members.c ---- */
int living_open(sluice_job *job); /* all workers are alive; 0 or SLUICE_ENOMEM */
void living_close(sluice_job *job);
void living_drop(sluice_job *job, int worker);
/* Both return MEMBERS_BYTES bytes, in which worker w is bit w % 8 of byte w / 8. */
const uint8_t *living_bits(const sluice_job *job);
const uint8_t *living_round_bits(const sluice_job *job);
/* Sets the workers that count in the last collective. */
void living_count(sluice_job *job, const uint8_t *bits);
static inline int living_bit(const uint8_t *bits, int worker)
{
	return bits[worker / 8] >> worker % 8 & 1;
}
#endif
