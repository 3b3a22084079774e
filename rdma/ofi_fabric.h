/* SPDX-License-Identifier: BSD-3-Clause
 * The objects of libfabric that one transport opens: a domain, one endpoint for reliable datagrams,
 * its completion queue and its table of addresses. Called by the other files of this transport with
 * its lock held, because libfabric is opened for use by one thread at a time. */
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

/* Opens an endpoint. provider and interface are those of ofi_choose(). ports: the TCP ports,
 * "LOW-HIGH"; NULL and "" allow any port. SLUICE_ENOSUPP means that no provider is usable. */
int ofi_fabric_open(const char *provider, const char *interface, const char *ports,
		    struct ofi_fabric **out);
/* Closes the endpoint. From then on, no operation completes. */
void ofi_fabric_stop(struct ofi_fabric *f);
/* Frees the fabric. All registrations must have been closed. */
void ofi_fabric_close(struct ofi_fabric **f);

const char *ofi_fabric_provider(const struct ofi_fabric *f);
const char *ofi_fabric_text(const struct ofi_fabric *f); /* provider and interface, for the log */
/* Returns a warning for users who did not name the provider, or NULL. */
const char *ofi_fabric_caution(const struct ofi_fabric *f);
int ofi_fabric_is_tcp(const struct ofi_fabric *f);
/* Returns 1 if the bytes of a completed put may still be missing in the peer's memory, whatever
 * completion level was requested. */
int ofi_fabric_is_unplaced(const struct ofi_fabric *f);
/* Returns how the peer learns that a put has arrived: as the provider promises, or by messages if a
 * trial has failed. */
enum ofi_notice ofi_fabric_notice(const struct ofi_fabric *f);
/* Returns 1 if incoming notices have 32 bits and the sender's name. */
int ofi_fabric_is_narrow(const struct ofi_fabric *f);
void ofi_fabric_use_notice(struct ofi_fabric *f, enum ofi_notice notice);
/* Returns the number of receives to post if peers may have this many notices under way. */
size_t ofi_fabric_receives(const struct ofi_fabric *f, size_t notices);
/* Returns 1 if the descriptor sometimes does not report an event. */
int ofi_fabric_naps(const struct ofi_fabric *f);
/* Returns 1 if puts to one peer are placed in the order of posting. */
int ofi_fabric_is_ordered(const struct ofi_fabric *f);
const char *ofi_fabric_error(const struct ofi_fabric *f, ssize_t error); /* of a negative return */

/* Writes the address of this endpoint. */
int ofi_fabric_name(const struct ofi_fabric *f, void *name, size_t cap, size_t *len_out);
size_t ofi_fabric_name_bytes(const struct ofi_fabric *f);
/* Inserts a peer's address. The address must be as long as this rank's. */
int ofi_fabric_insert(struct ofi_fabric *f, const void *name, fi_addr_t *out);

/* Registers memory. access: FI_REMOTE_READ and so on. The key is random if the provider lets the
 * application choose it. */
int ofi_fabric_register(struct ofi_fabric *f, const void *base, size_t bytes, uint64_t access,
			const char *what, struct fid_mr **out);
/* Returns 1 if the provider claims to register GPU memory. */
int ofi_fabric_has_device_memory(const struct ofi_fabric *f);
/* Registers device memory as a local buffer. Returns 0, or a negative error of libfabric, which is
 * not logged. */
int ofi_fabric_register_device(struct ofi_fabric *f, const struct memory *memory,
			       struct fid_mr **out);
void ofi_fabric_unregister(struct fid_mr **mr);
/* Returns 1 if local memory must be registered. The descriptor of the registration is then passed
 * with each operation. */
int ofi_fabric_wants_local(const struct ofi_fabric *f);
/* Returns the address by which peers name the first byte of a registration. This is the byte's
 * address here, or 0. */
uint64_t ofi_fabric_origin(const struct ofi_fabric *f, const void *base);

/* The arguments of a put, get or message. */
struct ofi_piece {
	void *local;
	size_t bytes;
	void *desc; /* NULL if local memory needs no registration */
	fi_addr_t to;
	uint64_t address, key;
	/* with `announce`: the number that the peer receives with the put; narrow notices carry
	 * only its lower 32 bits */
	uint64_t data;
	int announce; /* 1: the peer receives `data` once the bytes are in place */
	int placed;   /* 1: the operation completes only when the bytes are in place at the peer */
	struct fi_context2 *context;
};
/* Each of these returns 0, -FI_EAGAIN (poll, then try again), or another negative error of
 * libfabric. */
ssize_t ofi_fabric_put(struct ofi_fabric *f, const struct ofi_piece *piece);
ssize_t ofi_fabric_get(struct ofi_fabric *f, const struct ofi_piece *piece);
ssize_t ofi_fabric_send(struct ofi_fabric *f, const struct ofi_piece *piece);
/* Sends a message of n <= 8 bytes. The bytes are copied, and there is no completion. */
ssize_t ofi_fabric_inject(struct ofi_fabric *f, const void *bytes, size_t n, fi_addr_t to);
ssize_t ofi_fabric_receive(struct ofi_fabric *f, const struct ofi_piece *piece);

/* A completion from fi_cq_read(), or the failure of an operation. */
struct ofi_completion {
	void *context;
	int notice; /* 1: a notice of a peer's put; context is then the context of the receive
		       that the notice used, or NULL */
	uint64_t flags, data;
	fi_addr_t from; /* the sender of a narrow notice */
	size_t bytes;
	int error;      /* 0, or libfabric's positive error code */
	int broken;     /* 1: the connection to the peer no longer exists */
	char text[120]; /* an explanation of the error */
};
/* Fills up to n entries of out and returns their number. Also drives the progress of operations. */
int ofi_fabric_poll(struct ofi_fabric *f, struct ofi_completion *out, int n);

/* Returns a descriptor that is readable when there may be completions to poll. Returns -1 if the
 * provider has none; the caller must then poll from time to time. */
int ofi_fabric_fd(const struct ofi_fabric *f);
/* Returns 1 if nothing is waiting, so a thread may sleep on the descriptor. */
int ofi_fabric_may_sleep(struct ofi_fabric *f);
#endif
