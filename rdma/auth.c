/* SPDX-License-Identifier: BSD-3-Clause
 * See auth.h. The only file that includes a crypto library. A build without one has no network
 * transport, so only SLUICE_KEY_FILE can need the missing functions. */
#include "rdma/auth.h"
#include "base/error.h"
#include "sluice.h"

#if defined(HAVE_VERBS) || defined(HAVE_LIBFABRIC)
#include "base/bytes.h"
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

enum {
	HASH_BYTES = AUTH_KEY_BYTES,
	NONCE_TIME_BYTES = 4,
	NONCE_HASH_BYTES = AUTH_NONCE_BYTES - NONCE_TIME_BYTES
};

int auth_random(void *bytes, size_t n)
{
	uint8_t *at = bytes;

	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return fail(SLUICE_EDEVICE, "getrandom: %s", errno_text(errno));
		at += got;
		n -= (size_t)got;
	}
	return SLUICE_OK;
}

int auth_hmac(const uint8_t key[AUTH_KEY_BYTES], const void *bytes, size_t n,
	      uint8_t out[HASH_BYTES])
{
	unsigned int len = 0;

	if (HMAC(EVP_sha256(), key, AUTH_KEY_BYTES, bytes, n, out, &len) == NULL ||
	    len != HASH_BYTES)
		return fail(SLUICE_ENOSUPP, "the crypto library refuses HMAC-SHA256");
	return SLUICE_OK;
}

int auth_equal(const void *a, const void *b, size_t n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}

int auth_tag(const struct job_secret *secret, enum auth_label label,
	     const struct auth_context *context, const void *extra, size_t n,
	     uint8_t tag[AUTH_TAG_BYTES])
{
	/* Every field has a fixed place, so two different sets of fields never have the same
	 * encoding. */
	enum {
		JOB_AT = 20,
		NONCES_AT = JOB_AT + sizeof(secret->job),
		EXTRA_AT = NONCES_AT + 2 * AUTH_NONCE_BYTES
	};
	uint8_t bytes[EXTRA_AT + AUTH_EXTRA_MAX] = { 0 }, whole[HASH_BYTES];
	int rc;

	if (n > AUTH_EXTRA_MAX)
		return fail(SLUICE_EINVAL, "%zu bytes are too many to prove", n);
	put_le32(bytes, (uint32_t)label);
	put_le32(bytes + 4, secret->wire_version);
	put_le32(bytes + 8, context->client);
	put_le32(bytes + 12, context->server);
	put_le32(bytes + 16, (uint32_t)n);
	memcpy(bytes + JOB_AT, secret->job, strnlen(secret->job, sizeof(secret->job)));
	memcpy(bytes + NONCES_AT, context->nonce_client, AUTH_NONCE_BYTES);
	memcpy(bytes + NONCES_AT + AUTH_NONCE_BYTES, context->nonce_server, AUTH_NONCE_BYTES);
	if (n > 0)
		memcpy(bytes + EXTRA_AT, extra, n);
	rc = auth_hmac(secret->key, bytes, EXTRA_AT + n, whole);
	if (!rc)
		memcpy(tag, whole, AUTH_TAG_BYTES);
	return rc;
}

int auth_check(const struct job_secret *secret, enum auth_label label,
	       const struct auth_context *context, const void *extra, size_t n,
	       const uint8_t tag[AUTH_TAG_BYTES])
{
	uint8_t expected[AUTH_TAG_BYTES];

	return auth_tag(secret, label, context, extra, n, expected) == SLUICE_OK &&
	       auth_equal(tag, expected, AUTH_TAG_BYTES);
}

static int nonce_hash(const uint8_t key[AUTH_KEY_BYTES], uint32_t client,
		      const uint8_t nonce_client[AUTH_NONCE_BYTES], uint64_t made_ms,
		      uint8_t out[HASH_BYTES])
{
	uint8_t bytes[12 + AUTH_NONCE_BYTES];

	put_le32(bytes, client);
	put_le64(bytes + 4, made_ms);
	memcpy(bytes + 12, nonce_client, AUTH_NONCE_BYTES);
	return auth_hmac(key, bytes, sizeof(bytes), out);
}

int auth_nonce_make(const uint8_t key[AUTH_KEY_BYTES], uint32_t client,
		    const uint8_t nonce_client[AUTH_NONCE_BYTES], uint64_t now_ms,
		    uint8_t nonce[AUTH_NONCE_BYTES])
{
	uint8_t whole[HASH_BYTES];
	int rc = nonce_hash(key, client, nonce_client, now_ms, whole);

	if (!rc) {
		put_le32(nonce, (uint32_t)now_ms);
		memcpy(nonce + NONCE_TIME_BYTES, whole, NONCE_HASH_BYTES);
	}
	return rc;
}

int auth_nonce_check(const uint8_t key[AUTH_KEY_BYTES], uint32_t client,
		     const uint8_t nonce_client[AUTH_NONCE_BYTES], uint64_t now_ms,
		     uint32_t max_age_ms, const uint8_t nonce[AUTH_NONCE_BYTES],
		     uint64_t *made_ms_out)
{
	/* 32 bits of milliseconds wrap after 49 days, but a nonce that old is refused anyway. */
	uint32_t age = (uint32_t)now_ms - get_le32(nonce);
	uint64_t made_ms = now_ms - age;
	uint8_t whole[HASH_BYTES];

	if (age > max_age_ms || made_ms > now_ms)
		return 0;
	if (nonce_hash(key, client, nonce_client, made_ms, whole) != SLUICE_OK ||
	    !auth_equal(nonce + NONCE_TIME_BYTES, whole, NONCE_HASH_BYTES))
		return 0;
	*made_ms_out = made_ms;
	return 1;
}

#else

int auth_hmac(const uint8_t key[AUTH_KEY_BYTES], const void *bytes, size_t n,
	      uint8_t out[AUTH_KEY_BYTES])
{
	(void)key;
	(void)bytes;
	(void)n;
	(void)out;
	return fail(SLUICE_ENOSUPP,
		    "this libsluice was built without a crypto library, which SLUICE_KEY_FILE "
		    "needs: install libssl-dev and libfabric-dev and configure again, or unset "
		    "SLUICE_KEY_FILE");
}

int auth_equal(const void *a, const void *b, size_t n)
{
	(void)a;
	(void)b;
	(void)n;
	return 0;
}
#endif
