/* SPDX-License-Identifier: BSD-3-Clause
 * A UD queue pair of a port: short datagrams to and from anybody who knows its number and Q_Key.
 * Datagrams may be lost, duplicated or reordered. A datagram that comes while no receive is posted
 * is lost. Datagrams have their own domain and completion queues, so their bytes reach no other
 * memory, and a flood of them does not delay transfers. Called by carrier_ud.c. */
#ifndef RDMA_DATAGRAMS_H
#define RDMA_DATAGRAMS_H
#include "rdma/verbs_device.h"
#include <stddef.h>
#include <stdint.h>

enum { DATAGRAM_BYTES = 192, DATAGRAM_WHY_BYTES = 200 };

struct datagram {
	uint8_t bytes[DATAGRAM_BYTES];
	size_t n;
	uint32_t qpn; /* the sender's queue pair, as the sender's card wrote it */
};

struct datagrams;
/* Opens a queue pair with a random Q_Key. Returns 0 or SLUICE_E*. */
int datagrams_open(struct ibv_context *context, const struct verbs_device *device,
		   struct datagrams **out);
void datagrams_close(struct datagrams **d);
uint32_t datagrams_qpn(const struct datagrams *d);
uint32_t datagrams_qkey(const struct datagrams *d);
/* Returns a descriptor that becomes readable when a datagram has arrived, and stays so until
 * datagrams_next() has returned 0. */
int datagrams_fd(const struct datagrams *d);

/* Makes an address handle. On failure, returns NULL and sets errno. */
struct ibv_ah *datagrams_address(struct datagrams *d, struct ibv_ah_attr *to);
/* Ends an address handle when the datagrams that were sent to it have left. Waits up to 100 ms for
 * that. */
void datagrams_forget(struct datagrams *d, struct ibv_ah *ah);
/* Sends n <= DATAGRAM_BYTES bytes. Returns 0, or -1 with the reason in why. */
int datagrams_send(struct datagrams *d, struct ibv_ah *to, uint32_t qpn, uint32_t qkey,
		   const void *bytes, size_t n, char why[DATAGRAM_WHY_BYTES]);
/* Takes a datagram. Returns 0 if there is none, or if the queue pair stops again and again. */
int datagrams_next(struct datagrams *d, struct datagram *out);
#endif
