/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the provider of libfabric on this node and its interface. A table has a row for each
 * provider, and rules select the interface. Called by ofi_fabric.c and sluice-info. */
#ifndef RDMA_OFI_PROVIDER_H
#define RDMA_OFI_PROVIDER_H
#include "rdma/ofi_library.h"

/* How a put announces itself. The best way comes first. */
enum ofi_notice {
	OFI_NOTICE_WIDE,   /* 8 bytes in the peer's completion queue */
	OFI_NOTICE_NARROW, /* each put has a number in 4 bytes there, and libfabric names the
			      sender (ofi_count.h) */
	OFI_NOTICE_MESSAGE /* a separate message of 8 bytes, sent when the put is in place */
};

struct ofi_row;

struct ofi_choice {
	const struct ofi_library *library;
	const struct ofi_row *row; /* the provider's known properties */
	struct fi_info *info;      /* the chosen entry; ofi_choice_end() frees it */
	char text[160];            /* "net on eth0, 192.0.2.2 (libfabric 1.17)" */
};

/* Chooses a provider and an entry of it. provider: its name in libfabric; if it is NULL or "", the
 * first row of the table that exists here is chosen. interface: the name of an interface or of a
 * domain, or an address; if it is NULL or "", the first one is chosen that is neither loopback nor
 * made for containers. Fails with SLUICE_ENOSUPP, which is not logged, and a sentence that names
 * what is missing and the remedy. *out is then zero and needs no ofi_choice_end(). */
int ofi_choose(const char *provider, const char *interface, struct ofi_choice *out);
/* Returns the name by which SLUICE_PROVIDER selects this provider. */
const char *ofi_choice_name(const struct ofi_choice *choice);
/* Returns 1 if the provider uses the kernel's sockets. */
int ofi_choice_is_tcp(const struct ofi_choice *choice);
/* Returns 1 if only fi_writedata() sends data with a put. */
int ofi_choice_data_by_call(const struct ofi_choice *choice);
/* Returns 1 if a completed put may not be in place yet, whatever was requested. */
int ofi_choice_is_unplaced(const struct ofi_choice *choice);
/* ofi_choice_has_descriptor() returns 1 if the provider has a descriptor on which to sleep.
 * ofi_choice_naps() returns 1 if this descriptor sometimes does not report an event. */
int ofi_choice_has_descriptor(const struct ofi_choice *choice);
int ofi_choice_naps(const struct ofi_choice *choice);
/* Returns 1 if a put that announces itself uses up a receive. */
int ofi_choice_takes_receives(const struct ofi_choice *choice);
/* Returns 1 if the provider claims to register GPU memory, and its card may be able to read the
 * data of puts from there. */
int ofi_choice_has_device_memory(const struct ofi_choice *choice);
/* Returns the size in bytes of a key that the application chooses. */
size_t ofi_choice_key_bytes(const struct ofi_choice *choice);
/* Returns the kind of announcement that getinfo promises; only a trial shows whether it works. */
enum ofi_notice ofi_choice_notice(const struct ofi_choice *choice);
/* Returns a known defect of the choice with its remedy, or NULL. */
const char *ofi_choice_defect(const struct ofi_choice *choice);
void ofi_choice_end(struct ofi_choice *choice); /* accepts zero */
#endif
