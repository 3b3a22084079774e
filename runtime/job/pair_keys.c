/* SPDX-License-Identifier: BSD-3-Clause
 * See pair_keys.h. */
#include "job/pair_keys.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/wire_version.h"
#include "job/reach.h"
#include "rdma/auth.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>

struct pair_keys {
	struct auth_private *own;
	struct peer_keys peers;
	uint8_t (*key)[AUTH_KEY_BYTES]; /* [peers.size] */
};

static const char entry_name[8] = "ecdh256";

int pair_keys_open(struct pair_keys **out)
{
	int rc;

	*out = calloc(1, sizeof(**out));
	if (!*out)
		return fail(SLUICE_ENOMEM, "no memory for the keys of the peers");
	rc = auth_private_make(&(*out)->own);
	if (rc)
		pair_keys_close(out);
	return rc;
}

void pair_keys_close(struct pair_keys **k)
{
	if (*k && (*k)->key)
		explicit_bzero((*k)->key, (size_t)(*k)->peers.size * sizeof((*k)->key[0]));
	if (*k) {
		free((*k)->key);
		auth_private_free(&(*k)->own);
	}
	free(*k);
	*k = NULL;
}

void pair_keys_write(const struct pair_keys *k, uint8_t payload[RECORD_PAYLOAD_BYTES], size_t *at)
{
	memcpy(payload + *at, entry_name, sizeof(entry_name));
	put_le32(payload + *at + 8, AUTH_PUBLIC_BYTES);
	auth_public(k->own, payload + *at + 12);
	*at += 12 + AUTH_PUBLIC_BYTES;
}

static int offers_network(const struct rank_record *record)
{
	size_t bytes;

	for (int i = 0; transports[i]; i++)
		if (transports[i]->admit && record_find(record, transports[i]->name, 0, &bytes))
			return 1;
	return 0;
}

/* Derives the key of one peer. A peer that has no network transport and sent no public key gets a
 * random key. */
static int derive_key(const struct pair_keys *k, const struct key_file *file,
		      const struct rank_record *record, uint8_t key[AUTH_KEY_BYTES])
{
	size_t bytes = 0;
	const uint8_t *theirs = record_find(record, entry_name, 0, &bytes);
	int rc;

	if (!theirs && !offers_network(record))
		return auth_random(key, AUTH_KEY_BYTES);
	if (!theirs || bytes != AUTH_PUBLIC_BYTES)
		return fail(SLUICE_EWIRE, "it offers a network but sent no public key");
	rc = auth_agree(k->own, theirs, key);
	return rc || !file ? rc : key_file_mix(file, key);
}

int pair_keys_agree(struct pair_keys *k, const struct key_file *file,
		    const struct rank_record *records, int size, int own_rank, int *rank_out,
		    const struct peer_keys **out)
{
	int rc = 0;

	k->key = calloc((size_t)size, sizeof(k->key[0]));
	if (!k->key)
		return fail(SLUICE_ENOMEM, "no memory for the keys of %d peers", size);
	k->peers = (struct peer_keys){ .rank = own_rank,
				       .size = size,
				       .wire_version = SLUICE_WIRE_VERSION,
				       .key = (const uint8_t(*)[AUTH_KEY_BYTES])k->key };
	for (int r = 0; r < size && !rc; r++) {
		*rank_out = r;
		rc = derive_key(k, file, &records[r],
				k->key[r]); /* all ranks refuse the same record, so their errors
					       agree */
	}
	*out = &k->peers;
	return rc;
}
