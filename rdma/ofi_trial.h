/* SPDX-License-Identifier: BSD-3-Clause
 * Tests by puts of this rank to itself. At opening: whether a put announces itself as the provider
 * promises, which some do not. Before device memory is used: whether the provider really reads it.
 * Testing with each neighbour would take a message and a wait for each, who may come late, when a
 * job starts. A peer's record contains the result of its own trial. If puts fail to announce
 * themselves later, messages follow them (ofi_flow.c). Called by ofi.c with its lock held. */
#ifndef RDMA_OFI_TRIAL_H
#define RDMA_OFI_TRIAL_H
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_messages.h"

struct ofi_trial;

/* Tests the promised notices, and makes the fabric use messages if they fail. Post receives before.
 * Close *out even after an error. */
int ofi_trial_open(struct ofi_fabric *fabric, struct ofi_messages *messages,
		   struct ofi_trial **out);
/* Drives the transport while a test waits for a completion, which ofi_trial_is_of() takes. */
struct ofi_driver {
	void (*progress)(void *context);
	void *context;
};
enum { OFI_TRIAL_WHY_BYTES = 160 };
/* 0: the provider reads this device memory, registered as mr, directly. -1 and why not. */
int ofi_trial_of_device(struct ofi_trial *t, const struct fid_mr *mr, const struct memory *memory,
			const struct ofi_driver *driver, char why[OFI_TRIAL_WHY_BYTES]);
/* Returns 1 if a completion is of a test, which may have given up before. */
int ofi_trial_is_of(struct ofi_trial *t, const struct ofi_completion *c);
/* Ends its registrations. libfabric may still have its put, until the fabric is stopped. */
void ofi_trial_end(struct ofi_trial *t);
void ofi_trial_close(struct ofi_trial **t);
#endif
