/* SPDX-License-Identifier: BSD-3-Clause
 * Hubs: the ranks that forward control messages in a job of more than SLUICE_MESH ranks. All ranks
 * connect with the hubs at the start, and the hubs with each other. Two other ranks connect only
 * when they first need it (connect.c), so most pairs of ranks never do.
 *
 *   hubs        the dedicated servers, with which the workers connect anyway. In a job without
 *               servers, the first rank of every HUB_RANKS.
 *   members     every other rank is the member of one hub.
 *   collective  a rank writes its message to the ranks with which it is connected, so every hub
 *               gets all messages, and puts them into the rows of its members. Messages between
 *               two members thus travel over a tree of two levels.
 *   heartbeat   a rank reads the pulses of the ranks with which it is connected. All hubs notice
 *               the loss of a member, and report it to all ranks. All ranks notice the loss of a
 *               hub by themselves.
 *
 * A rank that fails writes its status to the ranks with which it is connected, and each of these
 * does the same, so it reaches all. Membership (members.c) needs only the connections with the
 * servers.
 *
 * A group of more than SLUICE_MESH ranks has its own hubs. Two of its ranks connect in the root
 * (connect.c), and then offer each other the descriptors of their lines in the group.
 *
 * hubs.c owns the rows and the offers, and decides who is a hub; messages.c fills the rows. Token
 * held, in all functions after hubs_open(). */
#ifndef RUNTIME_HUBS_H
#define RUNTIME_HUBS_H
#include "job/lines.h"
#include "sluice.h"
#include <stddef.h>
#include <stdint.h>

enum { HUB_RANKS = 64 };

struct hubs;

/* Returns 1 if this job has more ranks than SLUICE_MESH allows to connect at the start. */
int hubs_wanted(const sluice_job *job);
/* Makes job->hubs if hubs are wanted. It stays NULL if all ranks connect at the start. */
int hubs_open(sluice_job *job);
void hubs_close(sluice_job *job);

/* ---- who is a hub; only if job->hubs is not NULL, unless stated otherwise ---- */
int hubs_are(const sluice_job *job, int rank);
int hubs_count(const sluice_job *job);
/* Returns the hub of a member. */
int hubs_of(const sluice_job *job, int member);
/* Returns 1 if two ranks connect at the start. */
int hubs_connect(const sluice_job *job, int a, int b);
/* Does the same for a job of this size, which need not have hubs. */
int hubs_would_connect(int size, int servers, int mesh, int a, int b);
/* Returns the number of ranks with which this rank connects at the start. The job need not have
 * hubs. */
int hubs_peers(const sluice_job *job);

/* ---- offers in a group: two ranks that connect later write each other the descriptors of their
 * lines there, each into its line of the root at the peer ---- */
/* Prepares this rank's offer. The place of the group's first message to the peer holds its bytes
 * until both have made their offers. */
void hubs_write_offer(sluice_job *group, int peer, const uint8_t *descriptor);
/* Returns 1 if the offer was sent, 0 if it must wait for the peer (poll, and call it again), or
 * SLUICE_E*. */
int hubs_send_offer(sluice_job *group, int peer);
/* Handles IMM_MEMBERS in a group. Returns -1 if the peer may not send it. */
int hubs_take_offer(sluice_job *group, int peer);
/* Returns the descriptor that the peer has offered, or NULL if it has not arrived. */
const uint8_t *hubs_offer(const sluice_job *group, int peer);

/* ---- rows ---- */
/* The memory to which the hub of this member puts the messages of a round. NULL on a hub. */
struct region *hubs_rows(const sluice_job *job);
/* Opens the rows of this hub's member from their descriptor. */
int hubs_meet(sluice_job *job, int member, const uint8_t *descriptor);

/* Returns 1 if the messages of that round are in this member's rows. The first round of a job
 * exchanges the descriptors of the rows, and forwards nothing. */
int hubs_have(const sluice_job *job, uint64_t seq);
/* Returns the message of a rank in this member's rows. Its bytes may be hostile. */
const uint8_t *hubs_row(const sluice_job *job, int rank);
/* Returns the head (hubs_tell()) that this rank's hub has written for a rank. */
const uint8_t *hubs_head(const sluice_job *job, int rank);
/* Handles a notify of a hub. index: the index in the notify, which is not 0. Returns the rank whose
 * head has arrived, or this rank if messages have arrived. Returns -1 if the peer may not send this
 * notify. */
int hubs_arrived(sluice_job *job, int peer, uint32_t index);

/* Called before the last round of a group, in which hubs forward no messages. No hub can then leave
 * the group while it still writes to its members. */
void hubs_stop(sluice_job *job);
/* Returns 1 if this rank must still forward the messages of that round. */
int hubs_owe(const sluice_job *job, uint64_t seq);
/* Returns 1 if this hub has begun to forward the messages of that round. */
int hubs_begun(const sluice_job *job, uint64_t seq);
/* Begins a round: the caller then writes all messages to their places. bytes: the most bytes of a
 * message. */
void hubs_begin(sluice_job *job, uint64_t seq, uint32_t bytes);
uint8_t *hubs_place(const sluice_job *job, int rank);
/* Puts the messages into the rows of all members. Returns 0 when all are posted, SLUICE_EAGAIN if a
 * queue is full (call it again after progress), or another error of the member *member_out. */
int hubs_put(sluice_job *job, int *member_out);
/* Writes the head of a rank's message to all members, from number `from` on, before the round is
 * complete. Returns the member at which a queue is full (call it again with that number), or the
 * size of the job. */
int hubs_tell(sluice_job *job, int rank, uint8_t head[COLLECTIVE_HEADER_BYTES], int from);
#endif
