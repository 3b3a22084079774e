/* SPDX-License-Identifier: BSD-3-Clause
 * The key of SLUICE_KEY_FILE, which the ranks of a job share before it begins. A store through
 * which ranks exchange records, such as torchrun's, may be open to strangers, who can replace the
 * record of a rank. With this key a rank proves that its record belongs to the job, and the keys of
 * all pairs of ranks depend on it. Used by join.c until all ranks have joined. */
#ifndef RUNTIME_KEY_FILE_H
#define RUNTIME_KEY_FILE_H
#include "rdma/auth.h"
#include <stddef.h>
#include <stdint.h>

struct key_file;
enum { KEY_PROOF_BYTES = 32 };

/* Identifies the record for which a proof is made, so that the proof is not valid for any other
 * record. */
struct key_context {
	uint32_t rank, size, round;
};

/* Reads the file. If path is "", *out becomes NULL. Fails with SLUICE_EINVAL if others could have
 * read or written the file, or if its length is wrong; with SLUICE_EIO; or with SLUICE_ENOSUPP if
 * this build has no crypto library. */
int key_file_open(const char *path, struct key_file **out);
/* Erases the key. */
void key_file_close(struct key_file **k);
/* Makes the proof for the first n bytes of a record's payload. */
int key_file_prove(const struct key_file *k, const struct key_context *context,
		   const uint8_t *payload, size_t n, uint8_t proof[KEY_PROOF_BYTES]);
/* Returns 1 if the proof is valid for these bytes. */
int key_file_check(const struct key_file *k, const struct key_context *context,
		   const uint8_t *payload, size_t n, const uint8_t proof[KEY_PROOF_BYTES]);
/* Replaces the key of two ranks by a key that also depends on the file. */
int key_file_mix(const struct key_file *k, uint8_t key[AUTH_KEY_BYTES]);
#endif
