/* SPDX-License-Identifier: BSD-3-Clause
 * Tests that a rank makes by puts to itself. At opening it tests whether a put announces itself as
 * the provider promises, because some do not. Before device memory is used it tests whether the
 * provider can read it. A test with each peer would delay the start of a job; instead a peer's
 * record contains the result of that peer's trial. If a later put fails to announce itself, a
 * message follows it (ofi_flow.c). Called by ofi.c with its lock held. */
#ifndef RDMA_OFI_TRIAL_H
#define RDMA_OFI_TRIAL_H
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_messages.h"

struct ofi_trial;

/* Tests the promised notices. If they fail, makes the fabric use messages. Receives must be posted
 * before. *out must be closed even after an error. */
int ofi_trial_open(struct ofi_fabric *fabric, struct ofi_messages *messages,
		   struct ofi_trial **out);
/* The functions by which a test drives the transport while it waits for a completion. The transport
 * passes each completion to ofi_trial_is_of(). */
struct ofi_driver {
	void (*progress)(void *context);
	void *context;
};
enum { OFI_TRIAL_WHY_BYTES = 160 };
/* Tests whether the provider can read this device memory directly. The memory is registered as mr.
 * Returns 0 if it can, and otherwise -1 with the reason in why. */
int ofi_trial_of_device(struct ofi_trial *t, const struct fid_mr *mr, const struct memory *memory,
			const struct ofi_driver *driver, char why[OFI_TRIAL_WHY_BYTES]);
/* Returns 1 if a completion belongs to a test, even one that was given up. */
int ofi_trial_is_of(struct ofi_trial *t, const struct ofi_completion *c);
/* Ends the trial's registrations. libfabric may hold its put until the fabric is stopped. */
void ofi_trial_end(struct ofi_trial *t);
void ofi_trial_close(struct ofi_trial **t);
#endif
