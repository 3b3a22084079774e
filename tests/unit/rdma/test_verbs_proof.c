/* SPDX-License-Identifier: BSD-3-Clause
 * The replies to strangers at a rank's listener who know all that honest ranks have sent, but no
 * key: rdma/proof.c over the connection manager of fake_fabric.h. The test records what honest
 * ranks send, and can drop it. */
#include "base/bytes.h"
#include "rdma/frame.h"
#include "sluice.h"
#include "verbs_two.h"
#include "cases.h"
#include <arpa/inet.h>
#include <sched.h>
#include <string.h>

int __wrap_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __real_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);

enum { SENT_MOST = 64, HONEST = 0x0a030001 /* 10.3.0.1, the address of the fake card */ };

static struct sent {
	uint8_t bytes[FRAME_MAX];
	uint8_t n;
	uint32_t qpn;
	int idle; /* the node has a queue pair of that number, which is not connected */
	struct sockaddr_in to;
} sent[SENT_MOST];
static int n_sent, lose; /* lose: number of the next requests to drop */

int __wrap_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct sent *s = &sent[n_sent < SENT_MOST ? n_sent++ : SENT_MOST - 1];

	memcpy(s->bytes, param->private_data, param->private_data_len);
	s->n = param->private_data_len;
	s->qpn = param->qp_num;
	fake_lock();
	s->idle = fake_qp_numbered(s->qpn) && fake_qp_numbered(s->qpn)->qp.state == IBV_QPS_RESET;
	fake_unlock();
	memcpy(&s->to, &id->route.addr.dst_addr, sizeof(s->to));
	if (lose > 0) {
		lose--;
		return 0;
	}
	return __real_rdma_connect(id, param);
}

static int setup(void **state)
{
	n_sent = lose = 0;
	return fabric_setup(state);
}
#define CASE(name) TEST_WITH(name, setup, NULL)

/* Sends a request from an address to the listener of `s`, and polls both ranks until it is
 * answered. Returns the kind of the frame in the reject, or 0 if the request was accepted. */
static int answer_to(const struct sent *s, uint32_t from, struct frame *frame)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in source = { .sin_family = AF_INET, .sin_addr = { htonl(from) } },
			   to = s->to;
	struct rdma_conn_param param = { .private_data = s->bytes,
					 .private_data_len = s->n,
					 .responder_resources = 1,
					 .initiator_depth = 1,
					 .qp_num = s->qpn };
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	const char *why;
	int kind = -1;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(
		rdma_resolve_addr(id, (struct sockaddr *)&source, (struct sockaddr *)&to, 0), 0);
	assert_int_equal(rdma_resolve_route(id, 0), 0);
	assert_int_equal(__real_rdma_connect(id, &param), 0);
	while (kind < 0) {
		pair_poll(&pair);
		if (rdma_get_cm_event(channel, &event))
			continue;
		if (event->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
			kind = 0;
		else if (event->event == RDMA_CM_EVENT_REJECTED &&
			 !frame_decode(event->param.conn.private_data,
				       event->param.conn.private_data_len, frame, &why))
			kind = (int)frame->kind;
		rdma_ack_cm_event(event);
	}
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return kind;
}

static void check_refused(const struct sent *s, uint32_t from, unsigned reason)
{
	struct frame frame;

	assert_int_equal(answer_to(s, from, &frame), FRAME_REFUSAL);
	assert_int_equal(frame.reason, reason);
}

/* Checks that the connection of the two ranks works and is the first one. */
static void check_undisturbed(struct two *x, int n)
{
	assert_int_equal(
		post(0, TRANSFER_PUT_NOTIFY, x->to_inbox, x->near, 0, 100, (uint32_t)n - 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, n), 0);
	assert_null(strstr(logged, "connected again"));
}

CASE(first_connect__takes_one_request_which_is_the_proof)
{
	open_pair(64);
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent[0].bytes[2], FRAME_PROOF);
	assert_int_equal(fake_counts.connects, 1);
	close_pair();
}

CASE(accepted_proof_again__is_refused_and_the_connection_stays)
{
	struct two x = open_two(64);

	check_refused(&sent[0], HONEST, REFUSAL_PROOF);
	check_undisturbed(&x, 1);
	close_all(&x);
}

CASE(proof_that_the_server_never_saw__again_for_another_queue_pair_or_address__is_wrong)
{
	lose = 1; /* drops the first attempt */
	struct two x = open_two(64);
	struct sent other = sent[0];

	assert_int_equal(n_sent, 2);
	other.qpn++;
	check_refused(&other, HONEST, REFUSAL_PROOF);
	assert_non_null(strstr(logged, "its proof is wrong"));
	logged[0] = '\0';
	check_refused(&sent[0], HONEST + 1, REFUSAL_PROOF);
	assert_non_null(strstr(logged, "its proof is wrong"));
	check_undisturbed(&x, 1);
	close_all(&x);
}

CASE(proof_that_the_server_never_saw__after_a_later_one__is_refused_and_the_connection_stays)
{
	lose = 1;
	struct two x = open_two(64);

	check_refused(&sent[0], HONEST, REFUSAL_PROOF);
	assert_non_null(strstr(logged, "its proof was used before"));
	check_undisturbed(&x, 1);
	close_all(&x);
}

CASE(proofs_of_broken_connections__again_while_the_client_is_away__are_refused)
{
	struct two x = open_two(64);

	fake_cm_cut(1);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, 0), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	for (int i = 0; i < n_sent; i++)
		if (sent[i].bytes[2] == FRAME_PROOF)
			check_refused(&sent[i], HONEST, REFUSAL_PROOF);
	close_all(&x);
}

CASE(every_bit_of_a_proof__changed__is_refused)
{
	struct two x = open_two(64);

	for (unsigned bit = 0; bit < 8u * sent[0].n; bit++) {
		struct sent s = sent[0];

		s.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		check_refused(&s, HONEST, REFUSAL_PROOF);
	}
	check_undisturbed(&x, 1);
	close_all(&x);
}

/* A hello shows only that a process is alive, so the reply is a reject. */
CASE(hello_of_a_stranger__is_answered_without_a_connection)
{
	struct two x = open_two(64);
	struct sent hello = sent[0];
	struct frame frame = { .kind = FRAME_HELLO, .rank = 0 };

	hello.n = (uint8_t)frame_encode(&frame, hello.bytes);
	hello.qpn = 4711;
	assert_int_equal(answer_to(&hello, HONEST + 7, &frame), FRAME_ALIVE);
	check_undisturbed(&x, 1);
	close_all(&x);
}

/* If a request has the number of a live queue pair of the same node, the kernel takes its
 * connection for lost and ends it. A number that the node does not have may later be given to a
 * queue pair. */
CASE(requests_of_both_ranks__name_queue_pairs_that_exist_and_are_not_connected)
{
	struct two x = open_two(64);

	fake_cm_cut(1);
	lose = 4; /* so that the server asks the client too */
	while (n_sent < 6) {
		pair_poll(&pair);
		sched_yield();
	}
	for (int i = 0; i < n_sent; i++) {
		assert_true(sent[i].idle);
		for (int j = 0; j < i; j++)
			assert_true(sent[i].qpn != sent[j].qpn);
	}
	assert_int_equal(pair_connect(&pair), 0);
	close_all(&x);
}
