/* SPDX-License-Identifier: BSD-3-Clause
 * Puts of this rank to itself. When libfabric was opened: whether a put announces itself as the
 * provider promises, which some do not do. Before device memory is used: whether the provider
 * really reads it. To oneself and not to each neighbour: that would be a message and a wait for
 * each of them, who may come late, when a job starts. A peer's card says what its own trial showed,
 * and puts that find no such promise kept later have messages follow them (ofi_flow.c). Called by
 * ofi.c with its lock held. */
#ifndef RDMA_OFI_TRIAL_H
#define RDMA_OFI_TRIAL_H
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_messages.h"

struct ofi_trial;

/* Tries what is promised, and has the fabric use messages where it does not work. Receives must be
 * posted. 0 or SLUICE_E*, with *out to be closed in either case. */
int ofi_trial_open(struct ofi_fabric *fabric, struct ofi_messages *messages,
		   struct ofi_trial **out);
/* What drives the transport while a trial waits for a completion, which comes by
 * ofi_trial_is_of(). */
struct ofi_driver {
	void (*progress)(void *context);
	void *context;
};
enum { OFI_TRIAL_WHY_BYTES = 160 };
/* 0: the provider reads this device memory, which is registered as mr, where it is. -1 and why
 * not. */
int ofi_trial_of_device(struct ofi_trial *t, const struct fid_mr *mr, const struct memory *memory,
			const struct ofi_driver *driver, char why[OFI_TRIAL_WHY_BYTES]);
/* Whether a completion is of a trial, which may have given up on it before it came. */
int ofi_trial_is_of(struct ofi_trial *t, const struct ofi_completion *c);
/* Ends its registrations; libfabric may still have its put, until the fabric is stopped. */
void ofi_trial_end(struct ofi_trial *t);
void ofi_trial_close(struct ofi_trial **t);
#endif
