/* SPDX-License-Identifier: BSD-3-Clause
 * The keys by which two ranks recognise each other over a network. Each rank puts a public key into
 * its record, and each two ranks derive their key from the two, so an attacker who reads the store
 * of these records learns no key. Used by join.c. */
#ifndef RUNTIME_PAIR_KEYS_H
#define RUNTIME_PAIR_KEYS_H
#include "job/key_file.h"
#include "slurm/bootstrap.h"

struct pair_keys;

/* Makes this rank's private key. Fails with SLUICE_ENOMEM or SLUICE_ENOSUPP. */
int pair_keys_open(struct pair_keys **out);
/* Erases all keys. Accepts a pointer to NULL. */
void pair_keys_close(struct pair_keys **k);
/* Writes the record entry with the public key at *at, and moves *at. */
void pair_keys_write(const struct pair_keys *k, uint8_t payload[RECORD_PAYLOAD_BYTES], size_t *at);
/* Derives the key of each peer from its record, and from the key file if there is one. *out
 * receives the keys, which are valid until pair_keys_close(). SLUICE_EWIRE means that the record of
 * rank *rank_out has no valid public key, although the rank has a transport that needs one. */
int pair_keys_agree(struct pair_keys *k, const struct key_file *file,
		    const struct rank_record *records, int size, int own_rank, int *rank_out,
		    const struct peer_keys **out);
#endif
