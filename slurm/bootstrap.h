/* SPDX-License-Identifier: BSD-3-Clause
 * Determines this process's rank and its peers: from the program's callbacks if there are any, else
 * from PMIx under srun --mpi=pmix or another PMIx launcher. Without a PMIx server the process is a
 * job of one rank. The exchange uses PMIx's Init, Put, Commit, Fence (collecting data) and Get,
 * once or twice, and then calls Finalize at once, because Slurm's plugin kills the step when a
 * process dies without having done so. */
#ifndef SLURM_BOOTSTRAP_H
#define SLURM_BOOTSTRAP_H
#include "sluice.h"
#include <stddef.h>
#include <stdint.h>

enum { RECORD_PAYLOAD_BYTES = 4096, NODE_NAME_BYTES = 64 };

/* The record of one rank. bootstrap.c sets and compares all members except the payload. */
struct rank_record {
	uint32_t wire_version;
	char version[32];           /* version of the package */
	char build[48];             /* build id: compiler and flags, but no date */
	uint8_t boot_id[16];        /* boot id of the running kernel */
	char node[NODE_NAME_BYTES]; /* name from the launcher, or else from gethostname() */
	uint32_t payload_bytes;
	uint8_t payload[RECORD_PAYLOAD_BYTES]; /* addresses of the transports, from the caller */
};

struct bootstrap;

/* Determines rank and size from the program's callbacks. If these are NULL, uses PMIx_Init.
 * timeout_ms limits each call to the launcher. If srun was started without --mpi=pmix
 * (SLURM_STEP_NUM_TASKS > 1 and no PMIx server), returns SLUICE_EBOOT with a message that gives the
 * exact command. */
int bootstrap_open(const sluice_bootstrap *callbacks, int timeout_ms, struct bootstrap **out);
int bootstrap_rank(const struct bootstrap *b);
int bootstrap_size(const struct bootstrap *b);
const char *bootstrap_node(const struct bootstrap *b);
/* Returns a text for the log, for example "PMIx 4.2.2 (Slurm 22.05.8)" or "alone". */
const char *bootstrap_origin(const struct bootstrap *b);

/* Sends this rank's payload and receives the records of all ranks: records_out[size], allocated by
 * malloc() and freed by the caller. The call is collective, and runs one fence that collects data,
 * limited by timeout_ms. It validates the sizes, magic numbers and CRCs of the records. If the wire
 * or package versions of two ranks differ, it returns SLUICE_EPEER with a message that names both
 * versions and both ranks. It may be called again with another payload, but not after an error or
 * after bootstrap_leave(). */
int bootstrap_exchange(struct bootstrap *b, const uint8_t *payload, size_t payload_bytes,
		       struct rank_record **records_out);
/* Finalizes PMIx after the last exchange. From then on the launcher does not end the step when a
 * rank dies, so the job itself has to detect that. */
int bootstrap_leave(struct bootstrap *b);
/* Leaves the launcher unless bootstrap_leave() has done so, and frees everything. Accepts a pointer
 * to NULL. */
void bootstrap_close(struct bootstrap **b);
#endif
