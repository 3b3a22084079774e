/* SPDX-License-Identifier: BSD-3-Clause
 * Asks over the control network whether the process of a peer lives. That network does not use the
 * fabric, so a link that is down is not mistaken for a process that has ended.
 *
 * Each rank has one UDP socket, whose port and addresses are in its record. A question is a
 * datagram with the asker's time, and the answer repeats it. The thread of the heart answers, so a
 * process that ended or is stopped does not. Both carry an HMAC with the pair's key, so nobody else
 * can answer, and an old answer proves nothing, because it repeats an old time. If the process has
 * ended, its kernel refuses the datagram instead.
 *
 * The launcher does not know which ranks live: ranks leave it before they connect, because Slurm
 * would end the whole step with the first process that dies (slurm/bootstrap.h).
 *
 * Ranks ask when the link to a peer is silent. In addition they ask one peer in each heartbeat, to
 * find out which of its addresses reach it: bridges of containers have the same address on every
 * node, so only an address that has answered before can refuse. Called by heart.c. */
#ifndef RUNTIME_PROBE_H
#define RUNTIME_PROBE_H
#include "rdma/transport.h"
#include <stddef.h>
#include <stdint.h>

enum { PROBE_ADDRESSES = 3, PROBE_RECORD_BYTES = 4 + PROBE_ADDRESSES * 16 };

struct probe;

/* Returns SLUICE_EINVAL if the text is not a list of interfaces. */
int probe_check(const char *allowed);
/* allowed: the interfaces of the control network (SLUICE_CONTROL_INTERFACE). ports: the value of
 * SLUICE_PORTS; "" stands for any port. If this rank has no address, it can ask peers, but they
 * cannot ask it. */
int probe_open(int rank, int size, const char *allowed, const char *ports, struct probe **out);
void probe_close(struct probe **probe);
/* Writes this rank's part of the record. */
size_t probe_record(const struct probe *probe, uint8_t bytes[PROBE_RECORD_BYTES]);
/* Reads a peer's part of its record, which may be hostile. n is 0 if the record has no such part.
 * Called once for each peer, after the keys were set and before the serving thread starts. */
int probe_meet(struct probe *probe, int peer, const uint8_t *bytes, size_t n);
void probe_admit(struct probe *probe, const struct peer_keys *keys);

/* Returns a descriptor that is readable when probe_serve() has work. */
int probe_fd(const struct probe *probe);
/* Answers questions and takes answers, a limited number at a time. Called by one thread. */
void probe_serve(struct probe *probe);

/* Another thread may call the functions below. */

/* Asks the peer. Most calls use only the addresses that have already answered. Only one thread at a
 * time may call this. */
void probe_ask(struct probe *probe, int peer, uint64_t now_ns);
/* Returns the time of the latest question that the peer has answered, or 0 if it has answered
 * none. */
uint64_t probe_answered_ns(const struct probe *probe, int peer);
/* Returns the time when the peer's kernel last refused a question, after the peer had answered an
 * earlier one. 0 means never. */
uint64_t probe_refused_ns(const struct probe *probe, int peer);
#endif
