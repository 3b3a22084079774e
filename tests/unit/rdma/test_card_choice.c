/* SPDX-License-Identifier: BSD-3-Clause
 * Which card each rank of a node takes, on machines that imitate real ones in hwloc's XML, and
 * which cards a list allows. */
#include "rdma/card_list.h"
#include "rdma/card_choice.h"
#include "sluice.h"
#include "cases.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ----------------------------------------------------------------------- */

TEST(list__names_ranges_and_exclusions__as_documented)
{
	static const struct {
		const char *list, *name;
		int allowed;
		unsigned port;
	} rows[] = {
		{ "", "mlx5_0", 1, 0 },
		{ NULL, "mlx5_0", 1, 0 },
		{ "mlx5_1", "mlx5_1", 1, 0 },
		{ "mlx5_1", "mlx5_10", 0, 0 },
		{ "mlx5_10", "mlx5_1", 0, 0 },
		{ "mlx5_1:2", "mlx5_1", 1, 2 },
		{ "mlx5_0, mlx5_3:1", "mlx5_3", 1, 1 },
		{ "mlx5_0,mlx5_3:1", "mlx5_2", 0, 0 },
		{ "mlx5_[0-3],^mlx5_2", "mlx5_3", 1, 0 },
		{ "mlx5_[0-3],^mlx5_2", "mlx5_2", 0, 0 },
		{ "mlx5_[0-3],^mlx5_2", "mlx5_4", 0, 0 },
		{ "mlx5_[8-11]:2", "mlx5_10", 1, 2 },
		{ "mlx5_[8-11]", "mlx5_1", 0, 0 },
		{ "mlx5_[8-11]", "mlx5_110", 0, 0 },
		{ "mlx5_[0-9]_rail", "mlx5_4_rail", 1, 0 },
		{ "mlx5_*", "mlx5_bond_0", 1, 0 },
		{ "^mlx5_bond_0", "mlx5_bond_0", 0, 0 },
		{ "^mlx5_bond_0", "mlx5_1", 1, 0 },
		{ "^mlx5_0,mlx5_1", "mlx5_1", 0, 0 }, /* the syntax of NCCL_IB_HCA */
		{ "^mlx5_0,^mlx5_1", "mlx5_2", 1, 0 },
		{ "rocep1s0f[0-1]", "rocep1s0f1", 1, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned port = 77;
		const int allowed = card_list_allows(rows[i].list, rows[i].name, NULL, &port);

		assert_int_equal(card_list_check("SLUICE_DEVICE", rows[i].list, 1), 0);
		if (allowed != rows[i].allowed || port != rows[i].port)
			fail_msg("%s, %s: %d, port %u", rows[i].list, rows[i].name, allowed, port);
	}
}

TEST(list__two_names_of_a_card__either_counts)
{
	assert_true(card_list_allows("10.0.0.7,eth9", "eth0", "10.0.0.7", NULL));
	assert_true(card_list_allows("fe80::1", "eth0", "fe80::1", NULL));
	assert_false(card_list_allows("^10.0.0.7", "eth0", "10.0.0.7", NULL));
	assert_true(card_list_allows("^10.0.0.7", "eth1", "10.0.0.8", NULL));
	assert_true(card_list_is_open("^eth0"));
	assert_false(card_list_is_open("eth0"));
}

TEST(list__of_another_form__refused_with_the_form)
{
	static const char *const wrong[] = { "mlx5_0,,mlx5_1", "^",          ":1",     "mlx5_0:0",
					     "mlx5_0:x",       "mlx5_0:256", "mlx5_0:" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (card_list_check("SLUICE_DEVICE", wrong[i], 1) != SLUICE_EINVAL)
			fail_msg("%s was taken", wrong[i]);
		assert_non_null(strstr(sluice_last_error(), "SLUICE_DEVICE"));
		assert_non_null(strstr(sluice_last_error(), "mlx5_[4-7]"));
	}
	assert_int_equal(card_list_check("SLUICE_INTERFACE", "fe80::1", 0), 0);
}

/* ---- machines --------------------------------------------------------------------- */

#ifdef HAVE_HWLOC
#include <hwloc.h>

enum { CORES = 8 }; /* in each part */

/* A machine of parts (packages, or the quarters of one package). Each has PCIe switches, and each
 * switch has GPUs and cards. */
struct machine {
	int parts, quarters, switches, gpus, cards;
};
static const struct machine dgx_h100 = { 2, 0, 4, 1, 1 }, p5 = { 2, 0, 4, 1, 4 },
			    frontier = { 4, 1, 1, 0, 1 }, /* its GPUs are not CUDA devices */
	two_sockets = { 2, 0, 1, 0, 1 }, two_cards_on_one = { 1, 0, 2, 0, 1 };

static char xml[1 << 18];
static size_t written;
static int gp;

static void put(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	written += (size_t)vsnprintf(xml + written, sizeof(xml) - written, format, list);
	va_end(list);
	assert_true(written < sizeof(xml));
}

static void sets(uint32_t cores, uint32_t nodes)
{
	put(" cpuset=\"0x%08x\" complete_cpuset=\"0x%08x\" nodeset=\"0x%08x\" "
	    "complete_nodeset=\"0x%08x\" gp_index=\"%d\"",
	    cores, cores, nodes, nodes, ++gp);
}

static int bus_of(int number)
{
	return 16 + 24 * number;
}

static void put_switch(const struct machine *m, int number)
{
	const int bus = bus_of(number);

	put("<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" "
	    "bridge_pci=\"0000:[%02x-%02x]\">",
	    ++gp, bus, bus + 20);
	put("<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"1-1\" depth=\"1\" "
	    "bridge_pci=\"0000:[%02x-%02x]\" pci_busid=\"0000:%02x:00.0\" "
	    "pci_type=\"0604 [8086:2030] [0000:0000] 04\" pci_link_speed=\"31.5\">",
	    ++gp, bus + 1, bus + 19, bus);
	for (int g = 0; g < m->gpus; g++)
		put("<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%02x:00.0\" "
		    "pci_type=\"0302 [10de:2330] [10de:16c1] a1\" pci_link_speed=\"31.5\"/>",
		    ++gp, bus + 1 + g);
	for (int c = 0; c < m->cards; c++) {
		put("<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%02x:00.0\" "
		    "pci_type=\"0207 [15b3:1021] [15b3:0041] 00\" pci_link_speed=\"31.5\">",
		    ++gp, bus + 9 + c);
		put("<object type=\"OSDev\" gp_index=\"%d\" name=\"mlx5_%d\" osdev_type=\"3\"/>"
		    "</object>",
		    ++gp, number * m->cards + c);
	}
	put("</object></object>");
}

static uint32_t cores_of(int part)
{
	return 0xffu << CORES * part;
}

static void put_part(const struct machine *m, int part)
{
	put("<object type=\"%s\"", m->quarters ? "Group" : "Package");
	if (!m->quarters)
		put(" os_index=\"%d\"", part);
	sets(cores_of(part), 1u << part);
	put("><object type=\"NUMANode\" os_index=\"%d\"", part);
	sets(cores_of(part), 1u << part);
	put(" local_memory=\"1073741824\"/>");
	for (int i = part * CORES; i < (part + 1) * CORES; i++) {
		put("<object type=\"Core\" os_index=\"%d\"", i);
		sets(1u << i, 1u << part);
		put("><object type=\"PU\" os_index=\"%d\"", i);
		sets(1u << i, 1u << part);
		put("/></object>");
	}
	for (int s = 0; s < m->switches; s++)
		put_switch(m, part * m->switches + s);
	put("</object>");
}

static hwloc_topology_t build(const struct machine *m)
{
	const uint32_t all = (uint32_t)((UINT64_C(1) << CORES * m->parts) - 1);
	const uint32_t nodes = (1u << m->parts) - 1;
	hwloc_topology_t t;

	written = 0;
	gp = 0;
	put("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM "
	    "\"hwloc2.dtd\">\n<topology version=\"2.0\">"
	    "<object type=\"Machine\" os_index=\"0\" allowed_cpuset=\"0x%08x\" "
	    "allowed_nodeset=\"0x%08x\"",
	    all, nodes);
	sets(all, nodes);
	put(">");
	if (m->quarters) {
		put("<object type=\"Package\" os_index=\"0\"");
		sets(all, nodes);
		put(">");
	}
	for (int p = 0; p < m->parts; p++)
		put_part(m, p);
	put("%s</object></topology>\n", m->quarters ? "</object>" : "");
	assert_int_equal(hwloc_topology_init(&t), 0);
	assert_int_equal(hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT),
			 0);
	assert_int_equal(hwloc_topology_set_xmlbuffer(t, xml, (int)written + 1), 0);
	assert_int_equal(hwloc_topology_load(t), 0);
	return t;
}

/* ---- whole nodes ------------------------------------------------------------------- */

struct node {
	const struct machine *machine;
	hwloc_topology_t topology;
	int n_cards, used[CARDS_MOST];
	char name[CARDS_MOST][24];
	struct card card[CARDS_MOST];
};

static void node_open(struct node *node, const struct machine *m)
{
	*node = (struct node){ .machine = m, .topology = build(m) };
	node->n_cards = m->parts * m->switches * m->cards;
	for (int i = 0; i < node->n_cards; i++) {
		snprintf(node->name[i], sizeof(node->name[i]), "mlx5_%d", i);
		node->card[i] = (struct card){ node->name[i], "", 7 };
	}
}

static struct card_choice user_place(struct node *node, const struct card_user *user)
{
	struct card_choice order[CARDS_MOST];
	uint64_t seen = 0;

	cards_order(node->topology, node->card, (size_t)node->n_cards, user, order);
	for (int i = 0; i < node->n_cards; i++)
		seen |= UINT64_C(1) << order[i].card;
	assert_true(seen == (UINT64_C(1) << node->n_cards) - 1); /* each card is chosen once */
	node->used[order[0].card]++;
	return order[0];
}

/* Local rank `local` of n uses GPU number gpu. */
static struct card_choice take_for_gpu(struct node *node, int gpu, int local, int n)
{
	char bus[BUS_ID_TEXT];

	snprintf(bus, sizeof(bus), "0000:%02x:00.0", bus_of(gpu) + 1);
	return user_place(node, &(struct card_user){ .gpu = bus, .local = local, .n_local = n });
}

/* The rank may run on the processors first .. last; first < 0: on all. */
static struct card_choice take_for_cores(struct node *node, int first, int last, int local, int n)
{
	hwloc_bitmap_t processors = hwloc_bitmap_alloc();
	struct card_choice place;

	if (first >= 0)
		hwloc_bitmap_set_range(processors, (unsigned)first, last);
	else
		hwloc_bitmap_copy(processors, hwloc_topology_get_topology_cpuset(node->topology));
	place = user_place(
		node, &(struct card_user){
			      .gpu = "", .processors = processors, .local = local, .n_local = n });
	hwloc_bitmap_free(processors);
	return place;
}

static void node_expect(struct node *node, int each)
{
	for (int i = 0; i < node->n_cards; i++)
		if (node->used[i] != each)
			fail_msg("card %d of %d is used by %d ranks, not %d", i, node->n_cards,
				 node->used[i], each);
	memset(node->used, 0, sizeof(node->used));
}

static void node_close(struct node *node)
{
	hwloc_topology_destroy(node->topology);
}

TEST(order__dgx_h100__each_gpu_has_its_own_card)
{
	struct node node;

	node_open(&node, &dgx_h100);
	for (int gpu = 0; gpu < 8; gpu++) {
		const struct card_choice place = take_for_gpu(&node, gpu, gpu, 8);

		assert_int_equal(place.card, gpu);
		assert_string_equal(place.near.where, "below the same PCIe switch");
		assert_int_equal(place.as_near, 1);
	}
	node_expect(&node, 1);
	node_close(&node);
}

TEST(order__p5_with_32_cards__the_ranks_of_a_gpu_share_its_four)
{
	struct node node;

	node_open(&node, &p5);
	for (int local = 0; local < 32; local++)
		assert_int_equal(take_for_gpu(&node, local % 8, local, 32).card / 4, local % 8);
	node_expect(&node, 1);
	for (int local = 0; local < 32; local++)
		assert_int_equal(take_for_gpu(&node, local / 4, local, 32).card / 4, local / 4);
	node_expect(&node, 1);
	for (int gpu = 0; gpu < 8; gpu++)
		assert_int_equal(take_for_gpu(&node, gpu, gpu, 8).as_near, 4);
	node_close(&node);
}

TEST(order__two_gpus_and_two_cards_below_a_switch__one_each)
{
	static const struct machine pairs = { 1, 0, 1, 2, 2 };
	struct node node;
	char bus[BUS_ID_TEXT];

	node_open(&node, &pairs);
	for (int gpu = 0; gpu < 2; gpu++) { /* independently of the local ranks */
		snprintf(bus, sizeof(bus), "0000:%02x:00.0", bus_of(0) + 1 + gpu);
		user_place(&node,
			   &(struct card_user){ .gpu = bus, .local = 1 - gpu, .n_local = 2 });
	}
	node_expect(&node, 1);
	node_close(&node);
}

TEST(order__frontier__each_quarter_has_its_card)
{
	struct node node;

	node_open(&node, &frontier);
	for (int local = 0; local < 8; local++)
		assert_int_equal(take_for_cores(&node, local * 4, local * 4 + 3, local, 8).card,
				 local / 2);
	node_expect(&node, 2);
	for (int local = 0; local < 8; local++) /* not bound */
		take_for_cores(&node, -1, 0, local, 8);
	node_expect(&node, 2);
	node_close(&node);
}

TEST(order__two_sockets__the_card_of_the_socket)
{
	struct node node;

	node_open(&node, &two_sockets);
	for (int local = 0; local < 16; local++) { /* block, then cyclic distribution */
		assert_int_equal(take_for_cores(&node, local, local, local, 16).card, local / 8);
		assert_int_equal(take_for_cores(&node, local / 2, local / 2, local, 16).card, 0);
		assert_int_equal(
			take_for_cores(&node, 8 + local / 2, 8 + local / 2, local, 16).card, 1);
	}
	node_expect(&node, 24);
	node_close(&node);
}

TEST(order__two_cards_on_a_socket__bound_or_not_ranks_take_turns)
{
	struct node node;

	node_open(&node, &two_cards_on_one);
	for (int local = 0; local < 4; local++)
		take_for_cores(&node, local * 2, local * 2 + 1, local, 4);
	node_expect(&node, 2);
	for (int local = 0; local < 4; local++)
		take_for_cores(&node, 0, 7, local, 4);
	node_expect(&node, 2);
	for (int local = 0; local < 8; local += 2) /* the even ranks only, as for two nodes */
		take_for_cores(&node, 0, 7, local, 8);
	node_expect(&node, 2);
	node_close(&node);
}

TEST(order__cards_of_other_fabrics__only_for_the_gpu_that_they_are_near_to)
{
	struct node node;

	node_open(&node, &two_sockets);
	node.card[1].fabric = 8;
	assert_int_equal(take_for_cores(&node, 8, 15, 1, 2).card, 0);
	assert_int_equal(take_for_cores(&node, -1, 0, 1, 2).card, 0);
	node_close(&node);
	node_open(&node, &dgx_h100);
	for (int i = 0; i < 8; i++) /* one card in each rail */
		node.card[i].fabric = (uint64_t)i;
	for (int gpu = 0; gpu < 8; gpu++)
		assert_int_equal(take_for_gpu(&node, gpu, gpu, 8).card, gpu);
	node_close(&node);
}

TEST(order__a_card_by_its_bus_or_unknown__found_or_last)
{
	struct node node;

	node_open(&node, &dgx_h100);
	node.card[5] = (struct card){ "rdmap5", "0000:91:00.0", 7 };
	assert_int_equal(bus_of(5) + 9, 0x91);
	assert_int_equal(take_for_gpu(&node, 5, 5, 8).card, 5);
	node.card[3] = (struct card){ "another", "", 7 };
	assert_int_not_equal(take_for_gpu(&node, 3, 3, 8).card, 3);
	node_close(&node);
}
#endif

TEST(order__nothing_is_known_of_the_node__ranks_take_turns)
{
	const struct card cards[3] = { { "a", "", 1 }, { "b", "", 2 }, { "c", "", 1 } };
	struct card_choice order[3];

	for (int local = 0; local < 4; local++) {
		cards_order(NULL, cards, 3, &(struct card_user){ .gpu = "", .local = local },
			    order);
		assert_int_equal(order[0].card, (local + local / 2) % 2 ? 2 : 0);
		assert_int_equal(order[0].as_near, 2);
		assert_int_equal(order[0].near.depth, -1);
		assert_int_equal(order[2].card, 1);
	}
}
