/* SPDX-License-Identifier: BSD-3-Clause
 * The proof that a peer belongs to the job: HMAC-SHA256 with the key of the pair, cut to 16 bytes,
 * and the nonce of the accepting side. That side recognises its nonce without storing it, so
 * strangers cannot exhaust memory. The key of a pair comes from an exchange of public keys (ECDH).
 * Called by proof.c, ofi_proof.c, and key_file.c, pair_keys.c and probe.c of runtime/job/. */
#ifndef RDMA_AUTH_H
#define RDMA_AUTH_H
#include "rdma/transport.h"
#include <stddef.h>
#include <stdint.h>

enum { AUTH_NONCE_BYTES = 12, AUTH_TAG_BYTES = 16, AUTH_KEY_BYTES = 32, AUTH_EXTRA_MAX = 128 };
enum { AUTH_PUBLIC_BYTES = 65 }; /* a point of P-256, uncompressed */

/* The purpose of a tag. A tag that was made for one purpose is not valid for another. */
enum auth_label {
	AUTH_CHALLENGE = 1,
	AUTH_PROOF,
	AUTH_ACCEPT,
	AUTH_GREETING,
	AUTH_ASK, /* this purpose and the next belong to runtime/job/probe.c */
	AUTH_BEAT,
	AUTH_REFUSAL,
	AUTH_END
};

struct auth_context {
	uint32_t client, server; /* ranks */
	uint8_t nonce_client[AUTH_NONCE_BYTES], nonce_server[AUTH_NONCE_BYTES];
};

/* Returns NULL, or why this machine has no crypto library. A libsluice that is linked with the
 * library always has it. The libsluice of a wheel loads it at the first call. */
const char *auth_missing(void);
extern const char auth_library[]; /* the file of the crypto library, such as "libcrypto.so.3" */
/* Returns 0, or SLUICE_EDEVICE if there are no random numbers. */
int auth_random(void *bytes, size_t n);

/* Computes HMAC-SHA256. `out` may be the memory of `key`. Returns SLUICE_ENOSUPP if the crypto
 * library lacks it. */
int auth_hmac(const uint8_t key[AUTH_KEY_BYTES], const void *bytes, size_t n,
	      uint8_t out[AUTH_KEY_BYTES]);
/* Returns 1 if the bytes are equal, in constant time. */
int auth_equal(const void *a, const void *b, size_t n);

/* The random private key of this process, for ECDH on P-256. Crypto libraries in FIPS mode also
 * permit this curve. SLUICE_ENOSUPP means that the crypto library refuses it. */
struct auth_private;
int auth_private_make(struct auth_private **out);
/* Erases the key. */
void auth_private_free(struct auth_private **p);
void auth_public(const struct auth_private *p, uint8_t out[AUTH_PUBLIC_BYTES]);
/* Computes the key that only the holders of the two private keys can compute. Both holders get the
 * same key. SLUICE_EWIRE: the peer's public key is not a point of the curve. */
int auth_agree(const struct auth_private *p, const uint8_t theirs[AUTH_PUBLIC_BYTES],
	       uint8_t key[AUTH_KEY_BYTES]);

/* Makes the tag over label, ranks, nonces, wire version and n <= AUTH_EXTRA_MAX further bytes, with
 * the key that this rank shares with the other rank of the context. SLUICE_ENOSUPP: the crypto
 * library has no HMAC-SHA256. */
int auth_tag(const struct peer_keys *keys, enum auth_label label,
	     const struct auth_context *context, const void *extra, size_t n,
	     uint8_t tag[AUTH_TAG_BYTES]);
/* Returns 1 if `tag` equals the tag that auth_tag() makes, in constant time. */
int auth_check(const struct peer_keys *keys, enum auth_label label,
	       const struct auth_context *context, const void *extra, size_t n,
	       const uint8_t tag[AUTH_TAG_BYTES]);

/* Makes the nonce of the accepting side: the time, and a keyed hash of the time, the client's rank
 * and the client's nonce. key is random and stays in this process. */
int auth_nonce_make(const uint8_t key[AUTH_KEY_BYTES], uint32_t client,
		    const uint8_t nonce_client[AUTH_NONCE_BYTES], uint64_t now_ms,
		    uint8_t nonce[AUTH_NONCE_BYTES]);
/* Returns 1 if this key made the nonce for this client and client nonce, at most max_age_ms ago. In
 * that case also returns the time when it was made. */
int auth_nonce_check(const uint8_t key[AUTH_KEY_BYTES], uint32_t client,
		     const uint8_t nonce_client[AUTH_NONCE_BYTES], uint64_t now_ms,
		     uint32_t max_age_ms, const uint8_t nonce[AUTH_NONCE_BYTES],
		     uint64_t *made_ms_out);
#endif
