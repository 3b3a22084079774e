/* SPDX-License-Identifier: BSD-3-Clause
 * The part of a rank's bootstrap record that describes the verbs transport to its peers: where the
 * rank listens or receives datagrams, and the cards of its node. The bytes come from other
 * processes and are hostile until verbs_record_decode() has accepted them. Called by verbs.c.
 *
 *   0  4 magic   4  4 rank   8  2 port of the listener, at the IP address of the first card, or 0
 *   then fields: 1 kind, 1 length, the bytes. Readers skip kinds that they do not know.
 *
 * FIELD_CARD, 1 to NETWORKS_MOST times, the card that the rank uses first:
 *   0 link layer   1 port   2 MTU (enum ibv_mtu)   3 prefix   4 family: 4, 6, or 0 without IP
 *   5 address, 4 or 16 bytes; without IP 21 bytes: GID 16, LID 2, P_Key 2, 1 if packets need a GRH
 *   then the name of the device, 1 to 31 printable characters
 * FIELD_DATAGRAMS, once if the first card is without IP:
 *   0 4 number of the UD queue pair   4 4 its Q_Key */
#ifndef RDMA_VERBS_RECORD_H
#define RDMA_VERBS_RECORD_H
#include "rdma/network.h"
#include "rdma/verbs_device.h"
#include <stddef.h>
#include <stdint.h>

/* An address of a port of the node. A port with several addresses counts as several cards. A port
 * without an IP address, which is known by its GID, counts as one more. */
struct verbs_card {
	char device[32];
	uint8_t link_layer; /* IBV_LINK_LAYER_INFINIBAND, or _ETHERNET for RoCE v2 */
	uint8_t port, mtu, prefix;
	struct sockaddr_storage address; /* its port number is 0; AF_UNSPEC: there is no IP
					    address */
	/* without IP */
	union ibv_gid gid;
	uint16_t lid, pkey;
	uint8_t global; /* 1: packets need a GRH */
};

struct verbs_card verbs_card_of(const struct verbs_device *device);
/* Returns 1 if ranks connect by the card's GID. */
int verbs_card_by_gid(const struct verbs_card *card);
/* Returns the network of a card: the IP network, or the partition of the subnet. */
struct network verbs_card_network(const struct verbs_card *card);

struct verbs_record {
	int rank;
	uint16_t port;      /* the port of the listener */
	uint32_t qpn, qkey; /* the number and the Q_Key of the UD queue pair */
	int n_cards;        /* at least 1; cards[0] listens */
	struct verbs_card cards[NETWORKS_MOST];
};

/* Writes the record. Returns the number of bytes, at most TRANSPORT_RECORD_BYTES. */
size_t verbs_record_encode(const struct verbs_record *record, uint8_t *bytes);
/* Reads a record. Returns 0 or SLUICE_EWIRE, which is not logged. SLUICE_EWIRE means that the bytes
 * are not a record of this rank, or, if rank is -1, of any rank. */
int verbs_record_decode(const uint8_t *bytes, size_t n, int rank, struct verbs_record *out);

/* Returns the IP address and port at which the record's rank listens. */
struct sockaddr_storage verbs_record_listener(const struct verbs_record *record);
/* Writes the network of each card to out[], in the order of the cards. Returns their number. */
int verbs_record_networks(const struct verbs_record *record, struct network out[NETWORKS_MOST]);

/* The same from bytes, and the name of a card. Both are for transport.h. */
int verbs_record_read_networks(const uint8_t *bytes, size_t n, struct network out[NETWORKS_MOST]);
void verbs_record_read_card(const uint8_t *bytes, size_t n, int card, char *text, size_t cap);

enum { VERBS_CARD_TEXT = 112 };
/* Writes for example "mlx5_0 10.3.0.1/24 (RoCE)" or "mlx5_0 fe80::2c9:300:1:2, P_Key 0xffff
 * (InfiniBand)". */
const char *verbs_card_text(const struct verbs_card *card, char text[VERBS_CARD_TEXT]);
#endif
