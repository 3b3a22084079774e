/* SPDX-License-Identifier: BSD-3-Clause
 * Which provider of libfabric is used on this node, and over which interface: a table with a row
 * for each provider, and the rules for interfaces. Called by ofi_fabric.c and sluice-info. */
#ifndef RDMA_OFI_PROVIDER_H
#define RDMA_OFI_PROVIDER_H
#include "rdma/ofi_library.h"

struct ofi_choice {
	const struct ofi_library *library;
	struct fi_info *info; /* of the one that was chosen; ofi_choice_end() frees it */
	int tcp;              /* it goes through the sockets of the kernel */
	char text[160];       /* "net on eth0, 192.0.2.2 (libfabric 1.17)" */
};

/* provider: its name as libfabric has it; NULL or "": the first row of the table that is there.
 * interface: the name of an interface or of a domain, or an address; NULL or "": the first one that
 * is neither loopback nor made for containers. SLUICE_ENOSUPP with a sentence that says what is
 * missing and what to do; not logged: the caller knows whether it matters. */
int ofi_choose(const char *provider, const char *interface, struct ofi_choice *out);
void ofi_choice_end(struct ofi_choice *choice);
#endif
