/* SPDX-License-Identifier: BSD-3-Clause
 * The objects of libfabric that one transport opens: a domain, one endpoint for reliable datagrams,
 * its completion queue and its table of addresses. Called by the other files of this transport.
 * Whoever calls holds the transport's lock: libfabric is told that one thread at a time is in it.
 */
#ifndef RDMA_OFI_FABRIC_H
#define RDMA_OFI_FABRIC_H
#include "base/memory.h"
#include "rdma/ofi_provider.h"
#include "rdma/transport.h"
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <stddef.h>
#include <stdint.h>

struct ofi_fabric;

/* provider and interface as ofi_choose() takes them. SLUICE_ENOSUPP: there is none to use. */
int ofi_fabric_open(const char *provider, const char *interface, struct ofi_fabric **out);
/* No operation completes any more. */
void ofi_fabric_stop(struct ofi_fabric *f);
/* After everything that was registered was closed. */
void ofi_fabric_close(struct ofi_fabric **f);

const char *ofi_fabric_provider(const struct ofi_fabric *f);
const char *ofi_fabric_text(
	const struct ofi_fabric *f); /* of provider and interface, for the log */
/* What a user should know who did not name the provider; NULL: nothing. */
const char *ofi_fabric_caution(const struct ofi_fabric *f);
int ofi_fabric_is_tcp(const struct ofi_fabric *f);
/* How a put announces itself: as is promised, until a trial shows something else. */
enum ofi_notice ofi_fabric_notice(const struct ofi_fabric *f);
/* Notices that come are of 32 bits, with the name of the sender. */
int ofi_fabric_is_narrow(const struct ofi_fabric *f);
void ofi_fabric_use_notice(struct ofi_fabric *f, enum ofi_notice notice);
/* How many receives are to wait for peers that may send so many notices at once. */
size_t ofi_fabric_receives(const struct ofi_fabric *f, size_t notices);
/* The descriptor misses something now and then. */
int ofi_fabric_naps(const struct ofi_fabric *f);
/* Puts to one peer are placed in the order in which they were posted. */
int ofi_fabric_is_ordered(const struct ofi_fabric *f);
const char *ofi_fabric_error(const struct ofi_fabric *f, ssize_t error); /* of a negative return */

/* The address of the own endpoint. */
int ofi_fabric_name(const struct ofi_fabric *f, void *name, size_t cap, size_t *len_out);
size_t ofi_fabric_name_bytes(const struct ofi_fabric *f);
/* The name came from a peer, and has as many bytes as the own. */
int ofi_fabric_insert(struct ofi_fabric *f, const void *name, fi_addr_t *out);

/* Registers memory. access: FI_REMOTE_READ and so on. The key is chosen at random where the
 * provider lets the application choose. */
int ofi_fabric_register(struct ofi_fabric *f, const void *base, size_t bytes, uint64_t access,
			const char *what, struct fid_mr **out);
/* Whether a GPU's memory can be registered, so the provider says. */
int ofi_fabric_has_device_memory(const struct ofi_fabric *f);
/* Registers it as a local buffer. 0, or a negative error of libfabric, which is not logged. */
int ofi_fabric_register_device(struct ofi_fabric *f, const struct memory *memory,
			       struct fid_mr **out);
void ofi_fabric_unregister(struct fid_mr **mr);
/* Whether local memory needs a registration, whose descriptor goes with each operation. */
int ofi_fabric_wants_local(const struct ofi_fabric *f);
/* How a peer names the first byte of a registration: by its address here, or by 0. */
uint64_t ofi_fabric_origin(const struct ofi_fabric *f, const void *base);

/* What a put, get or message is made of. */
struct ofi_piece {
	void *local;
	size_t bytes;
	void *desc; /* NULL where local memory needs no registration */
	fi_addr_t to;
	uint64_t address, key;
	uint64_t data; /* of a put that announces itself; its lower half alone where that is narrow
			*/
	int announce;  /* the peer gets data after the bytes are in place */
	int placed;    /* complete only when the bytes are in place at the peer */
	struct fi_context2 *context;
};
/* 0, -FI_EAGAIN (progress, then try again), or another negative error of libfabric. */
ssize_t ofi_fabric_put(struct ofi_fabric *f, const struct ofi_piece *piece);
ssize_t ofi_fabric_get(struct ofi_fabric *f, const struct ofi_piece *piece);
ssize_t ofi_fabric_send(struct ofi_fabric *f, const struct ofi_piece *piece);
/* A message of n bytes, at most 8, which are copied: nothing completes. */
ssize_t ofi_fabric_inject(struct ofi_fabric *f, const void *bytes, size_t n, fi_addr_t to);
ssize_t ofi_fabric_receive(struct ofi_fabric *f, const struct ofi_piece *piece);

/* One completion: what fi_cq_read() gave, or the error of an operation. */
struct ofi_completion {
	void *context;
	int notice; /* a put of a peer announces itself; context: of the receive it used up, or NULL
		     */
	uint64_t flags, data;
	fi_addr_t from; /* of a narrow notice */
	size_t bytes;
	int error;      /* 0, or of libfabric, positive */
	int broken;     /* it says that there is no connection to the peer any more */
	char text[120]; /* what the error means */
};
/* How many were put into out, at most n; also drives the progress of what is under way. */
int ofi_fabric_poll(struct ofi_fabric *f, struct ofi_completion *out, int n);

/* Readable when there may be something to poll; -1: the provider has none, so look now and then. */
int ofi_fabric_fd(const struct ofi_fabric *f);
/* 1: nothing is waiting, so one may sleep on the descriptor. */
int ofi_fabric_may_sleep(struct ofi_fabric *f);
#endif
