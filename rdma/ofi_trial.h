/* SPDX-License-Identifier: BSD-3-Clause
 * A put of this rank to itself when libfabric was opened: whether a put announces itself as the
 * provider promises, which some do not do. Called by ofi.c with its lock held. */
#ifndef RDMA_OFI_TRIAL_H
#define RDMA_OFI_TRIAL_H
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_letters.h"

struct ofi_trial;

/* Tries what is promised, and has the fabric use messages where it does not work. Receives must be
 * posted. 0 or SLUICE_E*, with *out to be closed in either case. */
int ofi_trial_open(struct ofi_fabric *fabric, struct ofi_letters *letters, struct ofi_trial **out);
/* Whether a completion is of the trial, which gave up on it before it came. */
int ofi_trial_is_of(const struct ofi_trial *t, const struct ofi_completion *c);
/* Ends its registrations; libfabric may still have its put, until the fabric is stopped. */
void ofi_trial_end(struct ofi_trial *t);
void ofi_trial_close(struct ofi_trial **t);
#endif
