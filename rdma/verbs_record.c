/* SPDX-License-Identifier: BSD-3-Clause
 * See verbs_record.h. */
#include "rdma/verbs_record.h"
#include "base/bytes.h"
#include "base/error.h"
#include "rdma/transport.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum {
	MAGIC = 0x32425256,
	HEAD_BYTES = 10,
	FIELD_HEAD_BYTES = 2,
	CARD_HEAD_BYTES = 5,
	GID_BYTES = 16,
	BY_GID_BYTES = GID_BYTES + 5,
	NAME_MOST = sizeof(((struct verbs_card *)0)->device) - 1,
	CARD_MOST = CARD_HEAD_BYTES + BY_GID_BYTES + NAME_MOST,
	DATAGRAMS_BYTES = 8,
	SUBNET_BYTES = 8,
	LID_MOST = 0xbfff, /* the highest LID of a port */
	PKEY_FULL = 0x8000,
	QPN_LEAST = 2,
	QPN_MOST = 0xffffff
};
enum field { FIELD_CARD = 1, FIELD_DATAGRAMS = 2 };
_Static_assert(HEAD_BYTES + NETWORKS_MOST * (FIELD_HEAD_BYTES + CARD_MOST) + FIELD_HEAD_BYTES +
			       DATAGRAMS_BYTES <=
		       TRANSPORT_RECORD_BYTES,
	       "the cards do not fit into a record");
_Static_assert(CARD_MOST <= UINT8_MAX, "a card is too long for a field");

struct verbs_card verbs_card_of(const struct verbs_device *device)
{
	struct verbs_card card = { .link_layer = device->port_attr.link_layer,
				   .port = device->port,
				   .mtu = (uint8_t)device->port_attr.active_mtu,
				   .prefix = device->prefix,
				   .address = device->address };

	if (verbs_device_by_gid(device)) {
		card.gid = device->gid;
		card.lid = device->infiniband ? device->port_attr.lid : 0;
		card.pkey = device->pkey;
		card.global = (uint8_t)verbs_device_global(device);
	}
	snprintf(card.device, sizeof(card.device), "%.31s", device->name);
	return card;
}

int verbs_card_by_gid(const struct verbs_card *card)
{
	return card->address.ss_family == AF_UNSPEC;
}

/* ---- addresses ---------------------------------------------------------------------- */

/* Returns the bytes of an address. There are 4 or 16, depending on its family. */
static uint8_t *address_bytes(struct sockaddr_storage *address, size_t *n)
{
	struct sockaddr_in *in = (void *)address;
	struct sockaddr_in6 *in6 = (void *)address;

	*n = address->ss_family == AF_INET ? 4 : 16;
	return address->ss_family == AF_INET ? (uint8_t *)&in->sin_addr :
					       (uint8_t *)&in6->sin6_addr;
}

static size_t copy_address(const struct sockaddr_storage *address, uint8_t out[16])
{
	struct sockaddr_storage copy = *address;
	size_t n;
	const uint8_t *bytes = address_bytes(&copy, &n);

	memcpy(out, bytes, n);
	return n;
}

const char *verbs_card_text(const struct verbs_card *card, char text[VERBS_CARD_TEXT])
{
	const char *kind = card->link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
	char host[INET6_ADDRSTRLEN] = "?";
	uint8_t bytes[16];

	if (verbs_card_by_gid(card)) {
		inet_ntop(AF_INET6, card->gid.raw, host, sizeof(host));
		snprintf(text, VERBS_CARD_TEXT, "%s %s, P_Key 0x%04x (%s)", card->device, host,
			 card->pkey, kind);
		return text;
	}
	copy_address(&card->address, bytes);
	inet_ntop(card->address.ss_family, bytes, host, sizeof(host));
	snprintf(text, VERBS_CARD_TEXT, "%s %s/%u (%s)", card->device, host, card->prefix, kind);
	return text;
}

struct sockaddr_storage verbs_record_listener(const struct verbs_record *record)
{
	struct sockaddr_storage at = record->cards[0].address;

	if (at.ss_family == AF_INET)
		((struct sockaddr_in *)(void *)&at)->sin_port = htons(record->port);
	else
		((struct sockaddr_in6 *)(void *)&at)->sin6_port = htons(record->port);
	return at;
}

struct network verbs_card_network(const struct verbs_card *card)
{
	uint8_t address[16] = { 0 };
	int family;

	if (verbs_card_by_gid(card)) {
		memcpy(address, card->gid.raw, SUBNET_BYTES);
		put_le16(address + SUBNET_BYTES, card->pkey);
		return network_of(card->link_layer, NETWORK_BY_GID, address,
				  (SUBNET_BYTES + sizeof(card->pkey)) * 8);
	}
	family = copy_address(&card->address, address) == 4 ? 4 : 6;
	return network_of(card->link_layer, family, address, card->prefix);
}

int verbs_record_networks(const struct verbs_record *record, struct network out[NETWORKS_MOST])
{
	for (int i = 0; i < record->n_cards; i++)
		out[i] = verbs_card_network(&record->cards[i]);
	return record->n_cards;
}

/* ---- bytes -------------------------------------------------------------------------- */

static size_t encode_by_gid(const struct verbs_card *card, uint8_t *bytes)
{
	memcpy(bytes, card->gid.raw, GID_BYTES);
	put_le16(bytes + GID_BYTES, card->lid);
	put_le16(bytes + GID_BYTES + 2, card->pkey);
	bytes[GID_BYTES + 4] = card->global;
	return BY_GID_BYTES;
}

static size_t encode_card(const struct verbs_card *card, uint8_t *bytes)
{
	const size_t name = strnlen(card->device, NAME_MOST);
	const int by_gid = verbs_card_by_gid(card);
	size_t n;

	bytes[0] = card->link_layer;
	bytes[1] = card->port;
	bytes[2] = card->mtu;
	bytes[3] = card->prefix;
	n = by_gid ? encode_by_gid(card, bytes + CARD_HEAD_BYTES) :
		     copy_address(&card->address, bytes + CARD_HEAD_BYTES);
	bytes[4] = by_gid ? 0 : n == 4 ? 4 : 6;
	memcpy(bytes + CARD_HEAD_BYTES + n, card->device, name);
	return CARD_HEAD_BYTES + n + name;
}

size_t verbs_record_encode(const struct verbs_record *record, uint8_t *bytes)
{
	size_t at = HEAD_BYTES;

	put_le32(bytes, MAGIC);
	put_le32(bytes + 4, (uint32_t)record->rank);
	put_le16(bytes + 8, record->port);
	for (int i = 0; i < record->n_cards; i++) {
		const size_t n = encode_card(&record->cards[i], bytes + at + FIELD_HEAD_BYTES);

		bytes[at] = FIELD_CARD;
		bytes[at + 1] = (uint8_t)n;
		at += FIELD_HEAD_BYTES + n;
	}
	if (record->qpn) {
		bytes[at] = FIELD_DATAGRAMS;
		bytes[at + 1] = DATAGRAMS_BYTES;
		put_le32(bytes + at + FIELD_HEAD_BYTES, record->qpn);
		put_le32(bytes + at + FIELD_HEAD_BYTES + 4, record->qkey);
		at += FIELD_HEAD_BYTES + DATAGRAMS_BYTES;
	}
	return at;
}

/* Returns the number of bytes of an address of this family, or 0 if the family is unknown. */
static size_t family_bytes(uint8_t family)
{
	switch (family) {
	case 0: return BY_GID_BYTES;
	case 4: return 4;
	case 6: return 16;
	default: return 0;
	}
}

/* The GID and LID must belong to one port. Without a GRH, only the LID leads to the port. */
static int decode_by_gid(const uint8_t *bytes, struct verbs_card *out)
{
	memcpy(out->gid.raw, bytes, GID_BYTES);
	out->lid = get_le16(bytes + GID_BYTES);
	out->pkey = get_le16(bytes + GID_BYTES + 2);
	out->global = bytes[GID_BYTES + 4];
	return !bytes[0] || bytes[0] == 0xff || out->lid > LID_MOST || !(out->pkey & PKEY_FULL) ||
			       out->pkey == PKEY_FULL || out->global > 1 ||
			       (!out->global && !out->lid) ||
			       (!out->global && out->link_layer == IBV_LINK_LAYER_ETHERNET) ||
			       out->prefix != SUBNET_BYTES * 8 ?
		       -1 :
		       0;
}

static int decode_card(const uint8_t *bytes, size_t n, struct verbs_card *out)
{
	const size_t address = n > CARD_HEAD_BYTES ? family_bytes(bytes[4]) : 0;
	size_t room;

	if (!address || n <= CARD_HEAD_BYTES + address ||
	    n > CARD_HEAD_BYTES + address + NAME_MOST ||
	    (bytes[0] != IBV_LINK_LAYER_INFINIBAND && bytes[0] != IBV_LINK_LAYER_ETHERNET) ||
	    !bytes[1] || bytes[2] < IBV_MTU_256 || bytes[2] > IBV_MTU_4096 ||
	    bytes[3] > address * 8)
		return -1;
	*out = (struct verbs_card){
		.link_layer = bytes[0], .port = bytes[1], .mtu = bytes[2], .prefix = bytes[3]
	};
	if (!bytes[4]) {
		if (decode_by_gid(bytes + CARD_HEAD_BYTES, out))
			return -1;
	} else {
		out->address.ss_family = bytes[4] == 4 ? AF_INET : AF_INET6;
		memcpy(address_bytes(&out->address, &room), bytes + CARD_HEAD_BYTES, address);
	}
	n -= CARD_HEAD_BYTES + address;
	bytes += CARD_HEAD_BYTES + address;
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] <= ' ' || bytes[i] > '~')
			return -1;
		out->device[i] = (char)bytes[i];
	}
	return 0;
}

static int decode_datagrams(const uint8_t *bytes, size_t n, struct verbs_record *out)
{
	if (n != DATAGRAMS_BYTES || out->qpn)
		return -1;
	out->qpn = get_le32(bytes);
	out->qkey = get_le32(bytes + 4);
	return out->qpn < QPN_LEAST || out->qpn > QPN_MOST || out->qkey >> 31 ? -1 : 0;
}

/* Returns 1 if the record has what peers need to connect to its first card: the number of the UD
 * queue pair, or the port of the listener. */
static int is_complete(const struct verbs_record *record)
{
	if (!record->n_cards)
		return 0;
	return verbs_card_by_gid(&record->cards[0]) ? record->qpn != 0 : record->port != 0;
}

int verbs_record_decode(const uint8_t *bytes, size_t n, int rank, struct verbs_record *out)
{
	size_t at = HEAD_BYTES;

	memset(out, 0, sizeof(*out));
	if (n < HEAD_BYTES || get_le32(bytes) != MAGIC ||
	    (rank >= 0 && get_le32(bytes + 4) != (uint32_t)rank))
		goto invalid;
	out->rank = (int)get_le32(bytes + 4);
	out->port = get_le16(bytes + 8);
	while (at < n) {
		const uint8_t *field = bytes + at;

		if (n - at < FIELD_HEAD_BYTES || field[1] > n - at - FIELD_HEAD_BYTES)
			goto invalid;
		at += FIELD_HEAD_BYTES + field[1];
		if (field[0] == FIELD_CARD &&
		    (out->n_cards == NETWORKS_MOST ||
		     decode_card(field + FIELD_HEAD_BYTES, field[1], &out->cards[out->n_cards++])))
			goto invalid;
		if (field[0] == FIELD_DATAGRAMS &&
		    decode_datagrams(field + FIELD_HEAD_BYTES, field[1], out))
			goto invalid;
	}
	if (is_complete(out))
		return SLUICE_OK;
invalid:
	return fail_quietly(SLUICE_EWIRE,
			    "verbs: the record of rank %d (%zu bytes) names no valid address", rank,
			    n);
}

int verbs_record_read_networks(const uint8_t *bytes, size_t n, struct network out[NETWORKS_MOST])
{
	struct verbs_record record;
	int rc = verbs_record_decode(bytes, n, -1, &record);

	return rc ? rc : verbs_record_networks(&record, out);
}

void verbs_record_read_card(const uint8_t *bytes, size_t n, int card, char *text, size_t cap)
{
	char name[VERBS_CARD_TEXT] = "?";
	struct verbs_record record;

	if (!verbs_record_decode(bytes, n, -1, &record) && card < record.n_cards)
		verbs_card_text(&record.cards[card], name);
	snprintf(text, cap, "%s", name);
}
