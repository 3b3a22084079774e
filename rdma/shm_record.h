/* SPDX-License-Identifier: BSD-3-Clause
 * The address record of the shm transport: how a peer on this machine finds the process, its
 * mailbox and the pipe that wakes it. Only shm.c uses it. */
#ifndef RDMA_SHM_CARD_H
#define RDMA_SHM_CARD_H
#include "rdma/mapping.h"
#include "rdma/process.h"
#include "rdma/transport.h"

struct shm_record {
	int rank, size;
	struct process process;
	uint32_t capacity; /* capacity of each ring of the mailbox, a power of two */
	int wake_fd;       /* write end of the pipe, in the process's table */
	uint8_t mailbox[REGION_HEAD_BYTES];
	uint8_t control[REGION_HEAD_BYTES]; /* the job's control region; zeros: none */
};

enum { SHM_RECORD_BYTES = 192 };

void shm_record_encode(const struct shm_record *record, uint8_t out[SHM_RECORD_BYTES]);
/* Decodes a record, which may be hostile. Returns SLUICE_EWIRE unless the record is valid for rank
 * peer in a job of that size. The mailbox's descriptor is compared with capacity and size. */
int shm_record_decode(const uint8_t *bytes, size_t len, int peer, int size, struct shm_record *out,
		      struct descriptor *mailbox_out);
#endif
