/* SPDX-License-Identifier: BSD-3-Clause
 * Which provider of libfabric is used on this node, and over which interface: a table with a row
 * for each provider, and the rules for interfaces. Called by ofi_fabric.c and sluice-info. */
#ifndef RDMA_OFI_PROVIDER_H
#define RDMA_OFI_PROVIDER_H
#include "rdma/ofi_library.h"

/* How a put announces itself, the best first. */
enum ofi_notice {
	OFI_NOTICE_WIDE,   /* 8 bytes in the peer's completion queue */
	OFI_NOTICE_NARROW, /* 4 bytes there, and the provider names the sender */
	OFI_NOTICE_MESSAGE /* a message of 8 bytes, once the put is in place */
};

struct ofi_row;

struct ofi_choice {
	const struct ofi_library *library;
	const struct ofi_row *row; /* what is known of the provider */
	struct fi_info *info;      /* of the one that was chosen; ofi_choice_end() frees it */
	char text[160];            /* "net on eth0, 192.0.2.2 (libfabric 1.17)" */
};

/* provider: its name as libfabric has it; NULL or "": the first row of the table that is there.
 * interface: the name of an interface or of a domain, or an address; NULL or "": the first one that
 * is neither loopback nor made for containers. SLUICE_ENOSUPP with a sentence that says what is
 * missing and what to do; not logged: the caller knows whether it matters. A failure leaves *out
 * zero, and nothing to end. */
int ofi_choose(const char *provider, const char *interface, struct ofi_choice *out);
/* It goes through the sockets of the kernel. */
int ofi_choice_is_tcp(const struct ofi_choice *choice);
/* Whether it has a descriptor that may be slept on, and whether that misses something now and then.
 */
int ofi_choice_has_descriptor(const struct ofi_choice *choice);
int ofi_choice_naps(const struct ofi_choice *choice);
/* A put that announces itself uses up a receive. */
int ofi_choice_takes_receives(const struct ofi_choice *choice);
/* It registers a GPU's memory, so it says, and may read puts from there. */
int ofi_choice_has_device_memory(const struct ofi_choice *choice);
/* Of a key that is chosen here, in bytes. */
size_t ofi_choice_key_bytes(const struct ofi_choice *choice);
/* What getinfo promises; only a trial tells whether it is so. */
enum ofi_notice ofi_choice_notice(const struct ofi_choice *choice);
/* What is known to be wrong with what was chosen, with what to do; NULL: nothing. */
const char *ofi_choice_defect(const struct ofi_choice *choice);
void ofi_choice_end(struct ofi_choice *choice); /* also of one that is zero */
#endif
