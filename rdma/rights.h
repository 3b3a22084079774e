/* SPDX-License-Identifier: BSD-3-Clause
 * The memory that the card may reach for each peer: registrations of regions, the keys given to
 * each peer, and the keys received from it. There are two methods to restrict a peer. With memory
 * windows of type 2B there is one protection domain and one registration of a region, and each peer
 * gets a window that is bound to its queue pair and ends with it. Without windows each peer gets
 * its own domain and registrations. With both methods no other peer can use a key.
 *
 * Keys change with the connection. When two ranks reconnect, each first writes a table of its
 * regions' new keys into the other's slot.
 *
 * Called by verbs.c, and by link.c as connections come and go. A region ends its registrations when
 * it closes, perhaps on a thread that does not poll. A lock protects the registrations; posting
 * does not take this lock. */
#ifndef RDMA_RIGHTS_H
#define RDMA_RIGHTS_H
#include "rdma/frame.h"
#include "rdma/sendlog.h"
#include "rdma/transport.h"
#include "rdma/verbs_device.h"

struct rights;      /* the rights of all peers of a transport */
struct rights_peer; /* the rights of one peer */

/* Opens the rights of a transport. windows: "auto" or NULL, "yes" or "no". ordering: "auto" or
 * NULL, "no" or "all". Logs the method, and the reason why windows are not used. */
int rights_open(struct ibv_context *context, const struct verbs_device *device, int rank, int size,
		const char *windows, const char *ordering, struct rights **out);
/* Ends all registrations. All peers must be closed first. */
void rights_close(struct rights **rights);
/* Returns the protection domain of shared objects. */
struct ibv_pd *rights_domain(const struct rights *rights);

struct rights_memory {
	uint8_t *slot;   /* SLOT_BYTES, which the peer may write */
	uint8_t *copies; /* the memory for small puts to the peer */
	size_t copies_bytes;
	/* The control region or NULL, and the part of it to which the peer may write. */
	const struct region *control;
	size_t control_from, control_bytes;
};
int rights_peer_open(struct rights *rights, int peer, const struct rights_memory *memory,
		     struct rights_peer **out);
/* Ends everything that was registered for the peer. */
void rights_peer_end(struct rights_peer *p);
/* Ends the peer's rights and frees them. Its open remotes must be closed first. */
void rights_peer_close(struct rights_peer **p);
struct ibv_pd *rights_peer_domain(const struct rights_peer *p);
uint32_t rights_copies_key(const struct rights_peer *p);

/* ---- what the peer may do here ---- */
/* Offers bytes [from, from + n) of a region to the peer. connected: 1 if there is a queue pair for
 * which to make a key. The key works once rights_bind() has returned 0. If there is none, the next
 * connection makes the key. */
int rights_offer(struct rights_peer *p, const struct region *region, size_t from, size_t n,
		 int connected);
/* Writes the descriptor of a region that was offered to the peer. */
int rights_describe(struct rights_peer *p, const struct region *region,
		    uint8_t descriptor[REGION_DESCRIPTOR_BYTES]);
/* Withdraws the offer of a region to the peer, because the region's keys cannot work. */
void rights_withdraw(struct rights_peer *p, const struct region *region);
/* Makes the keys of a new queue pair for all regions that were offered to the peer. */
int rights_connect(struct rights_peer *p);
/* Posts the bindings that make these keys valid. Returns 0, SLUICE_EAGAIN (the queue is full: poll
 * and call again), or another SLUICE_E*. */
int rights_bind(struct rights_peer *p, struct sendlog *log);
/* If request number `request` was one of these bindings and has failed, returns 1 with an
 * explanation. */
int rights_explain(struct rights_peer *p, uint64_t request, char why[200]);
/* Ends the windows. Called before the queue pair ends. */
void rights_disconnect(struct rights_peer *p);
/* Makes all keys of the peer invalid, and refuses it new ones. */
void rights_revoke(struct rights_peer *p);
/* Writes the slot and control region that the peer gets when it connects. */
int rights_greeting(struct rights_peer *p, uint32_t credits, struct slot_address *slot,
		    uint8_t control[REGION_HEAD_BYTES]);
/* Writes the table of the peer's keys and returns its length. */
size_t rights_table(struct rights_peer *p, uint8_t out[KEY_TABLE_BYTES]);

/* ---- what this rank may do there ---- */
/* rights_take_control() takes the values that the peer sent with the connection.
 * rights_take_table() takes the table of keys that the peer wrote; remotes that are already open
 * continue with these keys. If the table is invalid, it returns -1 and sets why. */
void rights_take_control(struct rights_peer *p, const uint8_t control[REGION_HEAD_BYTES]);
int rights_take_table(struct rights_peer *p, const uint8_t table[KEY_TABLE_BYTES], char why[200]);
/* Finds the current key of the peer's region with number id, for sendlog_renew_keys(). */
int rights_key_of(const void *rights_peer, uint32_t id, uint32_t window, uint32_t *rkey);
/* Opens a remote region from its descriptor. descriptor NULL stands for the peer's control
 * region. */
int rights_remote_open(struct rights_peer *p, struct endpoint *e, const uint8_t *descriptor,
		       struct remote **out);
void rights_remote_close(struct remote **remote);
struct sendlog_target rights_target(const struct remote *remote);

/* ---- what the card may do for this rank ---- */
/* Registers n bytes of a local region for transfers with the peer, or the whole region if that
 * serves all peers. SLUICE_ENOSUPP means that the card cannot reach this device memory. */
int rights_prepare(struct rights_peer *p, const struct region *region, const void *at, size_t n);
/* Finds the key for the local bytes of a transfer. If they are not registered, registers the region
 * first. SLUICE_ENOSUPP has the same meaning as above. */
int rights_local_key(struct rights_peer *p, const struct transfer *x, uint32_t *lkey_out);
#endif
