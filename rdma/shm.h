/* SPDX-License-Identifier: BSD-3-Clause
 * What of the shm transport is not behind its table (transport.h): for tests that write what only a
 * hostile peer would. */
#ifndef RDMA_SHM_H
#define RDMA_SHM_H
#include "rdma/mailbox.h"
#include "rdma/transport.h"

/* The ring of the peer's mailbox that takes this rank's notifies. */
struct mailbox_ring *shm_ring_to(struct endpoint *e);
#endif
