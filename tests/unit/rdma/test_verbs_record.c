/* SPDX-License-Identifier: BSD-3-Clause
 * The record of the verbs transport, and the network over which two ranks with such records
 * connect. A rank is written as its addresses, own card first: "10.1.0.1/24", with "ib:" before it
 * on InfiniBand. A port without IP is written as its GID and P_Key: "gid:fe80::1/ffff". */
#include "rdma/carrier.h"
#include "rdma/verbs_record.h"
#include "rdma/transport.h"
#include "sluice.h"
#include "cases.h"
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_port(struct verbs_record *record, const char *text)
{
	struct verbs_card *card = &record->cards[record->n_cards++];
	char gid[64];

	assert_int_equal(sscanf(text, "gid:%63[^/]/%hx", gid, &card->pkey), 2);
	assert_int_equal(inet_pton(AF_INET6, gid, card->gid.raw), 1);
	card->link_layer = IBV_LINK_LAYER_INFINIBAND;
	card->port = 1;
	card->mtu = IBV_MTU_4096;
	card->prefix = 64;
	card->lid = 7;
	snprintf(card->device, sizeof(card->device), "card%d", record->n_cards - 1);
	record->qpn = 0x1234;
	record->qkey = 0x7fedcba9;
}

static void add_card(struct verbs_record *record, const char *text)
{
	struct verbs_card *card = &record->cards[record->n_cards++];
	struct sockaddr_in *in = (void *)&card->address;
	struct sockaddr_in6 *in6 = (void *)&card->address;
	const int infiniband = !strncmp(text, "ib:", 3);
	char address[64];

	assert_int_equal(sscanf(text + 3 * infiniband, "%63[^/]/%hhu", address, &card->prefix), 2);
	card->link_layer = infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
	card->port = 1;
	card->mtu = IBV_MTU_4096;
	snprintf(card->device, sizeof(card->device), "card%d", record->n_cards - 1);
	card->address.ss_family = strchr(address, ':') ? AF_INET6 : AF_INET;
	assert_int_equal(inet_pton(card->address.ss_family, address,
				   card->address.ss_family == AF_INET ? (void *)&in->sin_addr :
									(void *)&in6->sin6_addr),
			 1);
}

static struct verbs_record record_of(int rank, const char *text)
{
	struct verbs_record record = { .rank = rank, .port = 4711 };
	char copy[512], *rest = copy;

	snprintf(copy, sizeof(copy), "%s", text);
	for (const char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
		(strncmp(word, "gid:", 4) ? add_card : add_port)(&record, word);
	return record;
}

/* ---- pairs of cards ------------------------------------------------------------- */

/* Both sides must compute the same pair of cards. */
static struct pairing pairing_of(const char *a, const char *b)
{
	const struct verbs_record of_a = record_of(0, a), of_b = record_of(1, b);
	struct network x[NETWORKS_MOST], y[NETWORKS_MOST];
	const int n_x = verbs_record_networks(&of_a, x), n_y = verbs_record_networks(&of_b, y);
	const struct pairing m = network_pairing(x, n_x, y, n_y),
			     other = network_pairing(y, n_y, x, n_x);

	assert_int_equal(m.kind, other.kind);
	assert_int_equal(m.a, other.b);
	assert_int_equal(m.b, other.a);
	if (m.kind == PAIRING_OWN || m.kind == PAIRING_OTHER)
		assert_memory_equal(&x[m.a], &y[m.b], sizeof(x[0]));
	return m;
}

TEST(two_ranks__of_many_kinds_of_nodes__meet_in_the_first_network_of_both)
{
	static const struct {
		const char *a, *b;
		struct pairing meets;
	} cases[] = {
		/* one network */
		{ "10.1.0.1/24", "10.1.0.2/24", { PAIRING_OWN, 0, 0 } },
		{ "fd00:1::1/64", "fd00:1::2/64", { PAIRING_OWN, 0, 0 } },
		{ "10.1.0.1/20", "10.1.15.2/20", { PAIRING_OWN, 0, 0 } },
		{ "10.1.0.1/20", "10.1.16.2/20", { PAIRING_ROUTE, 0, 0 } },
		/* Two rails: both ranks near the same one, near different ones, and a node with one
		 * rail. */
		{ "10.2.0.1/24 10.1.0.1/24", "10.2.0.2/24 10.1.0.2/24", { PAIRING_OWN, 0, 0 } },
		{ "10.1.0.1/24 10.2.0.1/24", "10.2.0.2/24 10.1.0.2/24", { PAIRING_OTHER, 0, 1 } },
		{ "10.1.0.1/24 10.3.0.1/24", "10.3.0.2/24 10.1.0.2/24", { PAIRING_OTHER, 1, 0 } },
		{ "10.1.0.1/24 10.2.0.1/24", "10.2.0.2/24", { PAIRING_OTHER, 1, 0 } },
		{ "10.1.0.1/24", "10.2.0.2/24", { PAIRING_ROUTE, 0, 0 } },
		{ "10.1.0.1/31", "10.1.0.2/31", { PAIRING_ROUTE, 0, 0 } },
		/* VLANs whose addresses the kernels list in different orders. */
		{ "10.1.0.1/24 10.9.0.1/24", "10.9.0.2/24 10.1.0.2/24", { PAIRING_OTHER, 1, 0 } },
		{ "10.8.0.1/24 10.9.0.1/24", "10.9.0.2/24 10.7.0.2/24", { PAIRING_OTHER, 1, 0 } },
		{ "10.8.0.1/24 10.9.0.1/24 10.7.0.1/24",
		  "10.6.0.2/24 10.7.0.2/24 10.9.0.2/24",
		  { PAIRING_OTHER, 1, 2 } },
		{ "10.8.0.1/24 10.9.0.1/24 10.4.0.1/24",
		  "10.6.0.2/24 10.4.0.2/24 10.9.0.2/24",
		  { PAIRING_OTHER, 2, 1 } },
		/* Two cards of a node in one network. */
		{ "10.1.0.1/24 10.1.0.3/24", "10.1.0.2/24 10.1.0.4/24", { PAIRING_OWN, 0, 0 } },
		{ "10.7.0.1/24 10.1.0.1/24 10.1.0.3/24",
		  "10.8.0.1/24 10.1.0.2/24 10.1.0.4/24",
		  { PAIRING_OTHER, 1, 1 } },
		/* InfiniBand and RoCE never form a pair, whatever their addresses. */
		{ "ib:10.1.0.1/24", "ib:10.1.0.2/24", { PAIRING_OWN, 0, 0 } },
		{ "ib:10.1.0.1/24", "10.1.0.2/24", { PAIRING_NONE, -1, -1 } },
		{ "ib:10.1.0.1/24 10.2.0.1/24", "10.2.0.2/24", { PAIRING_OTHER, 1, 0 } },
		{ "ib:10.1.0.1/24 10.2.0.1/24",
		  "10.2.0.2/24 ib:10.1.0.2/24",
		  { PAIRING_OTHER, 0, 1 } },
		/* Neither do IPv4 and IPv6. */
		{ "10.1.0.1/24", "fd00:1::2/64", { PAIRING_NONE, -1, -1 } },
		{ "10.1.0.1/24 fd00:1::1/64", "fd00:1::2/64", { PAIRING_OTHER, 1, 0 } },
		/* InfiniBand without IP: by subnet and partition, and no route leads out. */
		{ "gid:fe80::1/ffff", "gid:fe80::2/ffff", { PAIRING_OWN, 0, 0 } },
		{ "gid:fe80::1/ffff", "gid:fec0::2/ffff", { PAIRING_NONE, -1, -1 } },
		{ "gid:fe80::1/ffff", "gid:fe80::2/8001", { PAIRING_NONE, -1, -1 } },
		/* One of the nodes has IP, and both have it. */
		{ "ib:10.1.0.1/24 gid:fe80::1/ffff", "gid:fe80::2/ffff", { PAIRING_OTHER, 1, 0 } },
		{ "ib:10.1.0.1/24 gid:fe80::1/ffff",
		  "ib:10.1.0.2/24 gid:fe80::2/ffff",
		  { PAIRING_OWN, 0, 0 } },
		{ "ib:10.1.0.1/24 gid:fe80::1/ffff", "10.1.0.2/24", { PAIRING_NONE, -1, -1 } },
		/* Different IP networks in one subnet. */
		{ "ib:10.1.0.1/24 gid:fe80::1/ffff",
		  "ib:10.2.0.2/24 gid:fe80::2/ffff",
		  { PAIRING_OTHER, 1, 1 } },
		{ "ib:10.1.0.1/24 gid:fe80::1/ffff ib:10.2.0.1/24",
		  "ib:10.2.0.2/24 gid:fe80::2/ffff ib:10.1.0.2/24",
		  { PAIRING_OTHER, 0, 2 } },
		/* A storage card with IP, and compute cards without. */
		{ "gid:fe80::1/ffff ib:10.1.0.1/24",
		  "gid:fe80::2/ffff ib:10.1.0.2/24",
		  { PAIRING_OWN, 0, 0 } },
		/* A node whose cards have no address. */
		{ "10.1.0.1/24", "", { PAIRING_NONE, -1, -1 } },
		{ "", "", { PAIRING_NONE, -1, -1 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct pairing m = pairing_of(cases[i].a, cases[i].b),
				     *want = &cases[i].meets;

		if (m.kind != want->kind || m.a != want->a || m.b != want->b)
			fail_msg("case %zu: kind %d, cards %d and %d", i, m.kind, m.a, m.b);
	}
}

TEST(pair_of_cards__of_each_kind__is_carried_by_the_row_of_both)
{
	static const struct {
		const char *a, *b;
		const struct carrier_ops *row;
	} cases[] = {
		{ "10.1.0.1/24", "10.1.0.2/24", &carrier_cm },
		{ "10.1.0.1/24", "10.2.0.2/24", &carrier_cm }, /* by a route */
		{ "ib:10.1.0.1/24", "ib:10.1.0.2/24", &carrier_cm },
		{ "10.1.0.1/24", "ib:10.1.0.2/24", NULL },
		{ "10.1.0.1/24", "fd00::1/64", NULL },
		{ "gid:fe80::1/ffff", "gid:fe80::2/ffff", &carrier_ud },
		{ "gid:fe80::1/ffff", "gid:fec0::2/ffff", NULL },
		{ "gid:fe80::1/8001", "gid:fe80::2/8002", NULL },
		{ "gid:fe80::1/ffff", "ib:10.1.0.2/24", NULL }, /* it is known by its GID as well */
		{ "gid:fe80::1/ffff", "fe80::2/64", NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct verbs_record a = record_of(0, cases[i].a),
					  b = record_of(1, cases[i].b);

		assert_ptr_equal(carrier_between(&a.cards[0], &b.cards[0]), cases[i].row);
		assert_ptr_equal(carrier_between(&b.cards[0], &a.cards[0]), cases[i].row);
	}
}

/* Each rank of a node is near a different rail, and every node has all rails. */
TEST(pairs_across_eight_rails__use_all_rails_equally)
{
	char of[8][512] = { "" };
	int serves[8] = { 0 };

	for (int own = 0; own < 8; own++)
		for (int i = 0; i < 8; i++)
			snprintf(of[own] + strlen(of[own]), sizeof(of[own]) - strlen(of[own]),
				 "10.%d.0.1/24 ", (own + i) % 8);
	for (int a = 0; a < 8; a++)
		for (int b = 0; b < a; b++) {
			const struct pairing m = pairing_of(of[a], of[b]);

			assert_int_equal(m.kind, PAIRING_OTHER);
			assert_true(!m.a || !m.b);
			serves[(a + m.a) % 8]++;
		}
	for (int i = 0; i < 8; i++)
		assert_in_range(serves[i], 3, 4); /* 28 pairs */
}

/* ---- bytes ---------------------------------------------------------------------- */

static void expect_same(const struct verbs_record *a, const struct verbs_record *b)
{
	assert_int_equal(a->rank, b->rank);
	assert_int_equal(a->port, b->port);
	assert_int_equal(a->n_cards, b->n_cards);
	assert_int_equal(a->qpn, b->qpn);
	assert_int_equal(a->qkey, b->qkey);
	assert_memory_equal(a->cards, b->cards, (size_t)a->n_cards * sizeof(a->cards[0]));
}

TEST(record__encoded__is_read_as_it_was)
{
	struct verbs_record in = record_of(3, "10.1.0.1/24 fd00:1::1/64 ib:10.3.0.1/16"), out;
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	struct sockaddr_storage listener;
	char text[VERBS_CARD_TEXT];
	size_t n;

	in.cards[2].port = 2;
	in.cards[1].mtu = IBV_MTU_1024;
	snprintf(in.cards[0].device, sizeof(in.cards[0].device), "a_name_of_thirty-one_characters");
	n = verbs_record_encode(&in, bytes);
	assert_int_equal(verbs_record_decode(bytes, n, 3, &out), 0);
	expect_same(&in, &out);
	listener = verbs_record_listener(&out);
	assert_int_equal(ntohs(((struct sockaddr_in *)(void *)&listener)->sin_port), 4711);
	assert_int_equal(ntohl(((struct sockaddr_in *)(void *)&listener)->sin_addr.s_addr),
			 0x0a010001);
	assert_string_equal(verbs_card_text(&out.cards[0], text),
			    "a_name_of_thirty-one_characters 10.1.0.1/24 (RoCE)");
	assert_string_equal(verbs_card_text(&out.cards[2], text), "card2 10.3.0.1/16 (InfiniBand)");
	assert_int_equal(verbs_record_decode(bytes, n, 2, &out), SLUICE_EWIRE);
}

TEST(record__with_as_many_of_the_longest_cards_as_possible__fits)
{
	struct verbs_record in = { .port = 1 }, out;
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	size_t n;

	while (in.n_cards < NETWORKS_MOST) {
		struct verbs_card *card = &in.cards[in.n_cards];

		add_card(&in, "fd00:1::1/64");
		memset(card->device, 'm', sizeof(card->device) - 1);
	}
	n = verbs_record_encode(&in, bytes);
	assert_in_range(n, 1, sizeof(bytes));
	assert_int_equal(verbs_record_decode(bytes, n, 0, &out), 0);
	expect_same(&in, &out);
	/* Adds one more card. */
	memcpy(bytes + n, bytes + 10, 2 + bytes[11]);
	assert_int_equal(verbs_record_decode(bytes, n + 2 + bytes[11], 0, &out), SLUICE_EWIRE);
}

TEST(record__with_a_field_of_a_later_version__is_read_without_it)
{
	const struct verbs_record in = record_of(0, "10.1.0.1/24 10.2.0.1/24");
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	struct verbs_record out;
	size_t n = verbs_record_encode(&in, bytes);

	memcpy(bytes + n, "\xee\x03xyz", 5);
	assert_int_equal(verbs_record_decode(bytes, n + 5, 0, &out), 0);
	expect_same(&in, &out);
}

/* Decodes a copy of exactly n bytes, so that tools detect reads beyond the end. */
static int decode_exactly(const uint8_t *bytes, size_t n, struct verbs_record *out)
{
	uint8_t *copy = malloc(n + !n);
	int rc;

	memcpy(copy, bytes, n);
	rc = verbs_record_decode(copy, n, 0, out);
	free(copy);
	return rc;
}

static struct verbs_record without_ip(void)
{
	struct verbs_record record = record_of(
		0, "gid:fe80::2c9:300:1:2/8001 ib:10.1.0.1/24 gid:fe80::2c9:300:1:3/ffff");

	record.port = 0;
	record.cards[2].lid = 0;
	record.cards[2].global = 1;
	return record;
}

TEST(record_without_ip__encoded__is_read_as_it_was)
{
	const struct verbs_record in = without_ip();
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	const size_t n = verbs_record_encode(&in, bytes);
	char text[VERBS_CARD_TEXT];
	struct verbs_record out;

	assert_int_equal(verbs_record_decode(bytes, n, 0, &out), 0);
	expect_same(&in, &out);
	verbs_record_read_card(bytes, n, 0, text, sizeof(text));
	assert_string_equal(text, "card0 fe80::2c9:300:1:2, P_Key 0x8001 (InfiniBand)");
}

/* No honest rank sends it. */
TEST(record_with_ip_and_a_queue_pair_for_datagrams__encoded__is_read_as_it_was)
{
	struct verbs_record in = record_of(0, "10.1.0.1/24"), out;
	uint8_t bytes[TRANSPORT_RECORD_BYTES];

	in.qpn = 0x1234;
	in.qkey = 5;
	assert_int_equal(verbs_record_decode(bytes, verbs_record_encode(&in, bytes), 0, &out), 0);
	expect_same(&in, &out);
}

TEST(record_of_sixteen_ports_without_ip_and_longest_names__fits)
{
	struct verbs_record in = { 0 }, out;
	uint8_t bytes[TRANSPORT_RECORD_BYTES];

	for (int i = 0; i < NETWORKS_MOST; i++) {
		add_port(&in, "gid:fe80::1/ffff");
		snprintf(in.cards[i].device, sizeof(in.cards[i].device),
			 "a_name_of_thirty-one_characters");
	}
	assert_int_equal(verbs_record_decode(bytes, verbs_record_encode(&in, bytes), 0, &out), 0);
	expect_same(&in, &out);
}

/* What no honest rank sends is refused, each wrong thing alone. */
TEST(record_without_ip__with_an_impossible_address__is_refused)
{
	struct verbs_record in, out;
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	int i;

	for (i = 0;; i++) {
		struct verbs_card *card = &in.cards[0];

		in = without_ip();
		switch (i) {
		case 0: card->lid = 0; break;      /* and no GRH */
		case 1: card->lid = 0xc000; break; /* of a multicast group */
		case 2: card->lid = 0xffff; break;
		case 3: card->pkey = 0x7fff; break; /* a limited member */
		case 4: card->pkey = 0x8000; break; /* no partition */
		case 5: card->pkey = 0; break;
		case 6: card->gid.raw[0] = 0xff; break; /* of a multicast group */
		case 7: memset(&card->gid, 0, sizeof(card->gid)); break;
		case 8: card->global = 2; break;
		case 9: card->link_layer = IBV_LINK_LAYER_ETHERNET; break; /* and no GRH */
		case 10: card->prefix = 63; break;
		case 11: in.qpn = 0; break;
		case 12: in.qpn = 1; break; /* of the connection manager */
		case 13: in.qpn = 1 << 24; break;
		case 14: in.qkey = 0x80000000; break; /* of the kernel */
		case 15: card->mtu = 0; break;
		default: break;
		}
		if (i == 16)
			break;
		if (!verbs_record_decode(bytes, verbs_record_encode(&in, bytes), 0, &out))
			fail_msg("case %d is read", i);
	}
	assert_int_equal(verbs_record_decode(bytes, verbs_record_encode(&in, bytes), 0, &out), 0);
}

/* Without the field, or with two of them, a peer could not be reached, or not be known. */
TEST(record_without_ip__without_its_queue_pair_or_with_two__is_refused)
{
	const struct verbs_record in = without_ip();
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	const size_t n = verbs_record_encode(&in, bytes), field = 2 + 8;
	struct verbs_record out;

	assert_int_equal(decode_exactly(bytes, n - field, &out), SLUICE_EWIRE);
	memcpy(bytes + n, bytes + n - field, field);
	assert_int_equal(decode_exactly(bytes, n + field, &out), SLUICE_EWIRE);
	bytes[n - 1 - 8] = 7; /* the length of the first */
	assert_int_equal(decode_exactly(bytes, n, &out), SLUICE_EWIRE);
}

/* has_whole: the first card alone is a record as well. */
static void check_damaged(const struct verbs_record *in, int has_whole)
{
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	const size_t n = verbs_record_encode(in, bytes);
	const size_t whole = has_whole ? 10 + 2 + (size_t)bytes[11] : 0;
	struct verbs_record out;
	int refused = 0;

	for (size_t cut = 0; cut < n; cut++)
		assert_int_equal(decode_exactly(bytes, cut, &out),
				 whole && cut == whole ? 0 : SLUICE_EWIRE);
	for (size_t i = 0; i < n; i++)
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (uint8_t)(1 << bit);
			refused += decode_exactly(bytes, n, &out) != 0;
			for (int c = 0; c < out.n_cards && !decode_exactly(bytes, n, &out); c++) {
				const struct verbs_card *card = &out.cards[c];
				const int v4 = card->address.ss_family == AF_INET;

				assert_true(card->prefix <= (v4 ? 32 : 128));
				assert_in_range(strlen(card->device), 1, 31);
				assert_in_range(card->mtu, IBV_MTU_256, IBV_MTU_4096);
				assert_int_not_equal(card->port, 0);
				if (verbs_card_by_gid(card))
					assert_true(card->global || card->lid);
			}
			bytes[i] ^= (uint8_t)(1 << bit);
		}
	assert_true(refused > 64);
}

TEST(record__damaged__is_refused_or_valid_all_the_same)
{
	const struct verbs_record by_ip = record_of(0, "10.1.0.1/24 fd00:1::1/64"),
				  by_gid = without_ip();

	check_damaged(&by_ip, 1);
	check_damaged(&by_gid, 0);
}
