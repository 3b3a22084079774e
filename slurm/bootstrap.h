/* SPDX-License-Identifier: BSD-3-Clause
 * Who am I, who are my peers: PMIx under srun --mpi=pmix (or any PMIx launcher); without a PMIx
 * server, a job of one. PMIx is used through Init, Put, Commit, Fence (collecting data), Get, and
 * then finalized at once: Slurm's plugin kills the step when a process that has not finalized
 * dies. */
#ifndef SLURM_BOOTSTRAP_H
#define SLURM_BOOTSTRAP_H
#include <stddef.h>
#include <stdint.h>

enum { CARD_PAYLOAD_BYTES = 1024, NODE_NAME_BYTES = 64 };

/* One per rank; everything but payload is filled in and compared by bootstrap.c. */
struct card {
	uint32_t wire_version;
	char version[32];           /* package version */
	char build[48];             /* build id: compiler, flags, date-free */
	uint8_t boot_id[16];        /* of the kernel */
	char node[NODE_NAME_BYTES]; /* from the launcher, else gethostname */
	uint32_t payload_bytes;
	uint8_t payload[CARD_PAYLOAD_BYTES]; /* the caller's: transports' addresses */
};

struct bootstrap;

/* Learns rank and size (Init). timeout_ms bounds each launcher call. Errors: SLUICE_EBOOT with the
 * exact fix where srun was started without --mpi=pmix (SLURM_STEP_NUM_TASKS > 1, no PMIx
 * server). */
int bootstrap_open(int timeout_ms, struct bootstrap **out);
int bootstrap_rank(const struct bootstrap *b);
int bootstrap_size(const struct bootstrap *b);
const char *bootstrap_node(const struct bootstrap *b);
/* "PMIx 4.2.2 (Slurm 22.05.8)" or "alone" for the log. */
const char *bootstrap_origin(const struct bootstrap *b);

/* Gives this rank's payload, gets everyone's card: cards_out[size], malloc'ed, the caller frees.
 * One collecting fence, bounded by timeout_ms; then PMIx is finalized. Cards are validated (sizes,
 * magic, CRC); a different wire version or package version anywhere is SLUICE_EPEER with one
 * message naming both versions and both ranks. */
int bootstrap_exchange(struct bootstrap *b, const uint8_t *payload, size_t payload_bytes,
		       struct card **cards_out);
/* Frees (finalizes PMIx first if the exchange did not). Accepts pointer to NULL. */
void bootstrap_close(struct bootstrap **b);
#endif
