/* SPDX-License-Identifier: BSD-3-Clause
 * The devices that the verbs transport accepts, and its reasons to refuse others; the steps before
 * a device is opened; and events that end its queues. */
#include "rdma/verbs_device.h"
#include "rdma/card_facts.h"
#include "rdma/huge.h"
#include "base/log.h"
#include "sluice.h"
#include "verbs_two.h"
#include "cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int choose(const char *name)
{
	struct verbs_device chosen;

	return verbs_device_choose(&(struct verbs_wanted){ .device = name }, &chosen);
}

/* ---- names ------------------------------------------------------------------ */

FRESH(device__named_like_the_beginning_of_another__is_unknown)
{
	fake.devices = 11;
	assert_int_equal(choose("fake1"), 0);
	assert_int_equal(choose("fake10"), 0);
	assert_int_equal(choose("fake"), SLUICE_ENOSUPP);
	assert_string_equal(sluice_last_error(),
			    "there is no RDMA device fake (SLUICE_DEVICE); there are: fake0, "
			    "fake1, fake2, fake3, fake4, fake5, fake6, fake7, fake8, fake9, "
			    "fake10");
	assert_null(fake_leak());
}

FRESH(device__unknown_among_forty__as_many_names_as_fit_and_the_number_of_others)
{
	const char *list;
	int named = 1, more;

	fake.devices = FAKE_DEVICES;
	assert_int_equal(choose("fake40"), SLUICE_ENOSUPP);
	list = strstr(sluice_last_error(), "there are: fake0, fake1");
	assert_non_null(list);
	for (const char *at = list; (at = strchr(at, ',')); at++)
		named++;
	assert_int_equal(sscanf(strstr(list, " and "), " and %d more", &more), 1);
	assert_int_equal(named + more, FAKE_DEVICES);
	assert_true(named > 20);
}

/* ---- refusals --------------------------------------------------------------- */

FRESH(device__of_another_protocol__refused_with_the_reason)
{
	static const struct {
		enum ibv_transport_type transport;
		uint8_t link_layer;
		const char *says;
	} cases[] = {
		{ IBV_TRANSPORT_IWARP, IBV_LINK_LAYER_ETHERNET, "iWARP, which has no write with" },
		{ IBV_TRANSPORT_IWARP, IBV_LINK_LAYER_ETHERNET, "irdma roce_ena=1" },
		{ IBV_TRANSPORT_USNIC_UDP, IBV_LINK_LAYER_ETHERNET, "no reliable connections" },
		{ IBV_TRANSPORT_UNSPECIFIED, IBV_LINK_LAYER_UNSPECIFIED,
		  "for EFA, install libfabric" },
		{ IBV_TRANSPORT_UNKNOWN, IBV_LINK_LAYER_ETHERNET, "no reliable connections" },
		{ IBV_TRANSPORT_IB, IBV_LINK_LAYER_UNSPECIFIED, "no reliable connections" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.transport = cases[i].transport;
		fake.link_layer = cases[i].link_layer;
		assert_int_equal(choose(NULL), SLUICE_ENOSUPP);
		if (!strstr(sluice_last_error(), cases[i].says) ||
		    strncmp(sluice_last_error(), "fake0 ", 6))
			fail_msg("case %zu: %s", i, sluice_last_error());
		assert_null(strstr(sluice_last_error(), "ipoib"));
		assert_null(strstr(sluice_last_error(), "ip addr add"));
	}
	assert_null(fake_leak());
}

/* mana_ib of Linux (main.c, mana_ib_query_device()): no shared receive queues, and the vendor of
 * Azure's virtual functions. A card of another vendor without such queues is used. */
FRESH(device__mana__refused_with_the_way_that_works)
{
	fake.attr.max_srq = 0;
	fake.attr.vendor_id = 0x1414;
	assert_int_equal(choose(NULL), SLUICE_ENOSUPP);
	assert_string_equal(sluice_last_error(),
			    "fake0 is a MANA card, on which this transport was never tried: "
			    "install libfabric and let SLUICE_TRANSPORT allow ofi");
	fake.attr.vendor_id = 0x8086;
	assert_int_equal(choose(NULL), 0);
	assert_null(fake_leak());
}

/* ---- forks ------------------------------------------------------------------ */

FRESH(fork__kernel_that_copies__libibverbs_is_not_asked)
{
	assert_int_equal(choose(NULL), 0);
	assert_int_equal(fake_counts.forks_guarded, 0);
	assert_int_equal(verbs_fork_guard(), VERBS_FORK_COPIED);
}

/* The fake refuses this once a device was opened. */
FRESH(fork__older_kernel__guarded_once_before_the_first_device_is_opened)
{
	fake.fork = IBV_FORK_DISABLED;
	open_pair(16);
	assert_int_equal(fake_counts.forks_guarded, 1);
	assert_int_equal(fake.fork, IBV_FORK_ENABLED);
	assert_int_equal(verbs_fork_guard(), VERBS_FORK_GUARDED);
	close_pair();
}

/* Also if the program has guarded its forks itself. */
FRESH(fork__older_kernel_and_reserved_huge_pages__libibverbs_looks_at_the_size_of_pages)
{
	for (int own = 0; own < 2; own++) {
		unsetenv("RDMAV_HUGEPAGES_SAFE");
		fake_counts.forks_huge = 0;
		fake.fork = own ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
		huge_request("no");
		assert_int_equal(verbs_fork_guard(), VERBS_FORK_GUARDED);
		assert_int_equal(fake_counts.forks_huge, 0);
		fake.fork = own ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
		huge_request("reserved");
		assert_int_equal(verbs_fork_guard(), VERBS_FORK_GUARDED);
		assert_int_equal(fake_counts.forks_huge, 1);
	}
	huge_request("no");
	unsetenv("RDMAV_HUGEPAGES_SAFE");
}

FRESH(fork__too_late_to_guard__warned_once_and_the_job_goes_on)
{
	const char *first;

	log_configure("rdma+info");
	fake.fork = IBV_FORK_DISABLED;
	fake_counts.opened = 1;
	open_pair(16);
	assert_int_equal(verbs_fork_guard(), VERBS_FORK_DANGEROUS);
	first = strstr(logged, "ibv_fork_init failed: EINVAL");
	assert_non_null(first);
	assert_null(strstr(first + 1, "ibv_fork_init"));
	close_pair();
}

/* ---- events ----------------------------------------------------------------- */

FRESH(event__queue_or_device_failed__all_links_end_with_the_reason)
{
	static const struct {
		enum ibv_event_type type;
		const char *says;
	} cases[] = {
		{ IBV_EVENT_CQ_ERR, "completion queue of this rank's RDMA device failed (CQ_ERR)" },
		{ IBV_EVENT_SRQ_ERR, "receive queue of this rank's RDMA device failed (SRQ_ERR)" },
		{ IBV_EVENT_DEVICE_FATAL, "RDMA device failed (DEVICE_FATAL)" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fabric_setup(state);
		open_pair(16);
		fake.async = (int)cases[i].type + 1;
		while (fake.async) /* the event is rank 0's, because its queues are the oldest */
			pair_poll_side(&pair, 0);
		assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
		assert_non_null(strstr(pair.events[0][0].text, cases[i].says));
		assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
		close_pair();
	}
}

/* Fails for the queue that was read first. */
static int fail_look(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	static struct ibv_cq *failing;

	failing = failing ? failing : cq;
	return cq == failing ? -1 : fake_poll_cq(cq, n, wc);
}

FRESH(completions__cannot_be_read__all_links_end_and_it_is_logged_once)
{
	const char *first;

	log_configure("rdma+info");
	open_pair(16);
	fake_context()->ops.poll_cq = fail_look;
	pair_poll_side(&pair, 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	assert_non_null(strstr(pair.events[0][0].text, "completion queue of this rank's RDMA "
						       "device cannot be read"));
	for (int i = 0; i < 100; i++)
		pair_poll_side(&pair, 0);
	fake_context()->ops.poll_cq = fake_poll_cq;
	first = strstr(logged, "ibv_poll_cq failed on");
	assert_non_null(first);
	assert_null(strstr(first + 1, "ibv_poll_cq failed on"));
	close_pair();
}

FRESH(message__without_an_immediate__its_peer_is_given_up_and_nothing_delivered)
{
	struct two x;

	open_pair(16);
	x = share_two();
	fake.next_plain = 1;
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
	assert_int_equal(pair_count(&pair, 1, EVENT_IMM), 0);
	assert_non_null(strstr(pair.events[1][0].text, "a message without an immediate"));
	close_all(&x);
}

FRESH(event__of_another_user_s_queue_or_harmless__no_link_ends)
{
	static const enum ibv_event_type types[] = { IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR,
						     IBV_EVENT_GID_CHANGE };
	struct two x;

	open_pair(16);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		fake.async = (int)types[i] + 1;
		while (fake.async) /* rank 1 sees an event of rank 0's queue */
			pair_poll_side(&pair, 1);
	}
	assert_non_null(strstr(logged, ibv_event_type_str(IBV_EVENT_CQ_ERR)));
	x = share_two();
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	assert_int_equal(pair_count(&pair, 1, EVENT_GONE), 0);
	close_all(&x);
}

FRESH(event__last_receive_of_another_user_s_queue_pair__its_context_is_not_written)
{
	uint64_t theirs[4] = { 11, 22, 33, 44 };
	struct ibv_srq_init_attr room = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr init = { .qp_context = theirs,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 4, .max_send_sge = 1 } };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_context *context;
	struct ibv_pd *pd;

	open_pair(16);
	context = verbs_parts_of(pair.e[0]).qp->context;
	pd = ibv_alloc_pd(context);
	init.send_cq = init.recv_cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	init.srq = ibv_create_srq(pd, &room);
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	qp->state = IBV_QPS_RTS; /* connected */
	ibv_modify_qp(qp, &error, IBV_QP_STATE);
	for (int i = 0; i < 1000; i++)
		pair_poll_side(&pair, 0);
	assert_int_equal(theirs[0], 11);
	assert_int_equal(theirs[1], 22);
	assert_int_equal(theirs[2], 33);
	assert_int_equal(theirs[3], 44);
	ibv_destroy_qp(qp);
	ibv_destroy_srq(init.srq);
	ibv_destroy_cq(init.send_cq);
	ibv_dealloc_pd(pd);
	close_pair();
}

/* ---- interrupts ------------------------------------------------------------- */

FRESH(completion_queue__of_each_local_rank__has_another_vector_of_the_card)
{
	static const struct {
		const char *local_rank;
		int vector;
	} cases[] = { { "0", 0 }, { "3", 3 }, { "11", 3 }, { "no number", 0 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv("SLURM_LOCALID", cases[i].local_rank, 1);
		open_pair(16);
		assert_int_equal(fake_counts.last_vector, cases[i].vector);
		close_pair();
	}
	fake_context()->num_comp_vectors = 1;
	setenv("SLURM_LOCALID", "3", 1);
	open_pair(16);
	assert_int_equal(fake_counts.last_vector, 0);
	close_pair();
	unsetenv("SLURM_LOCALID");
}
