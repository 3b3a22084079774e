/* SPDX-License-Identifier: BSD-3-Clause
 * See auth.h. The only file that includes a crypto library. A build without one has no network
 * transport, so only SLUICE_KEY_FILE can need the functions that it lacks. */
#include "rdma/auth.h"
#include "base/error.h"
#include "sluice.h"
#include <errno.h>
#include <sys/random.h>

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

#if defined(HAVE_VERBS) || defined(HAVE_LIBFABRIC)
#include "base/bytes.h"
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#if OPENSSL_VERSION_NUMBER >= 0x30000000L
const char auth_library[] = "libcrypto.so.3";
#else /* the names of OpenSSL 1.1.1 */
const char auth_library[] = "libcrypto.so.1.1";
#define EVP_PKEY_get1_encoded_public_key EVP_PKEY_get1_tls_encodedpoint
#define EVP_PKEY_set1_encoded_public_key EVP_PKEY_set1_tls_encodedpoint
#endif

enum {
	HASH_BYTES = AUTH_KEY_BYTES,
	NONCE_TIME_BYTES = 4,
	NONCE_HASH_BYTES = AUTH_NONCE_BYTES - NONCE_TIME_BYTES
};

const char *auth_missing(void)
{
	return EVP_sha256() ? NULL :
			      "libcrypto cannot be loaded: install OpenSSL 3 (Debian: "
			      "libssl3, RHEL: openssl-libs)";
}

/* Reports that the crypto library does not do what was asked. */
static int fail_crypto(const char *what)
{
	const char *missing = auth_missing();

	return missing ? fail(SLUICE_ENOSUPP, "%s", missing) :
			 fail(SLUICE_ENOSUPP, "the crypto library refuses %s", what);
}

int auth_hmac(const uint8_t key[AUTH_KEY_BYTES], const void *bytes, size_t n,
	      uint8_t out[HASH_BYTES])
{
	unsigned int len = 0;

	if (HMAC(EVP_sha256(), key, AUTH_KEY_BYTES, bytes, n, out, &len) == NULL ||
	    len != HASH_BYTES)
		return fail_crypto("HMAC-SHA256");
	return SLUICE_OK;
}

int auth_equal(const void *a, const void *b, size_t n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}

struct auth_private {
	EVP_PKEY *key;
	uint8_t public_half[AUTH_PUBLIC_BYTES];
};

static EVP_PKEY *make_p256_key(void)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
	EVP_PKEY *key = NULL;

	if (!context || EVP_PKEY_keygen_init(context) <= 0 ||
	    EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) <= 0 ||
	    EVP_PKEY_keygen(context, &key) <= 0)
		key = NULL;
	EVP_PKEY_CTX_free(context);
	return key;
}

int auth_private_make(struct auth_private **out)
{
	struct auth_private *p = calloc(1, sizeof(*p));
	unsigned char *point = NULL;

	*out = NULL;
	if (!p)
		return fail(SLUICE_ENOMEM, "no memory for the keys of the peers");
	p->key = make_p256_key();
	if (p->key && EVP_PKEY_get1_encoded_public_key(p->key, &point) == AUTH_PUBLIC_BYTES) {
		memcpy(p->public_half, point, AUTH_PUBLIC_BYTES);
		*out = p;
	} else {
		auth_private_free(&p);
	}
	OPENSSL_free(point);
	return *out ? 0 : fail_crypto("to make a key for ECDH on P-256");
}

void auth_private_free(struct auth_private **p)
{
	if (*p)
		EVP_PKEY_free((*p)->key);
	free(*p);
	*p = NULL;
}

void auth_public(const struct auth_private *p, uint8_t out[AUTH_PUBLIC_BYTES])
{
	memcpy(out, p->public_half, AUTH_PUBLIC_BYTES);
}

/* Returns the public key, or NULL if the bytes are not a point of the curve. */
static EVP_PKEY *read_point(const EVP_PKEY *own, const uint8_t theirs[AUTH_PUBLIC_BYTES])
{
	enum { UNCOMPRESSED = 4 };
	EVP_PKEY *key = theirs[0] == UNCOMPRESSED ? EVP_PKEY_new() : NULL;

	if (key && EVP_PKEY_copy_parameters(key, own) > 0 &&
	    EVP_PKEY_set1_encoded_public_key(key, (uint8_t *)(uintptr_t)theirs, AUTH_PUBLIC_BYTES) >
		    0)
		return key;
	EVP_PKEY_free(key);
	return NULL;
}

static int derive(EVP_PKEY *own, EVP_PKEY *theirs, uint8_t shared[AUTH_KEY_BYTES])
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(own, NULL);
	size_t n = AUTH_KEY_BYTES;
	int done = context && EVP_PKEY_derive_init(context) > 0 &&
		   EVP_PKEY_derive_set_peer(context, theirs) > 0 &&
		   EVP_PKEY_derive(context, shared, &n) > 0 && n == AUTH_KEY_BYTES;

	EVP_PKEY_CTX_free(context);
	return done;
}

int auth_agree(const struct auth_private *p, const uint8_t theirs[AUTH_PUBLIC_BYTES],
	       uint8_t key[AUTH_KEY_BYTES])
{
	static const uint8_t label[AUTH_KEY_BYTES] = "Sluice: the key of two ranks";
	const int own_first = memcmp(p->public_half, theirs, AUTH_PUBLIC_BYTES) < 0;
	uint8_t bytes[AUTH_KEY_BYTES + 2 * AUTH_PUBLIC_BYTES];
	EVP_PKEY *peer = read_point(p->key, theirs);
	int rc;

	if (!peer)
		return fail(SLUICE_EWIRE, "its public key is not a point of the curve P-256");
	rc = derive(p->key, peer, bytes) ? 0 : fail_crypto("ECDH on P-256");
	memcpy(bytes + AUTH_KEY_BYTES, own_first ? p->public_half : theirs, AUTH_PUBLIC_BYTES);
	memcpy(bytes + AUTH_KEY_BYTES + AUTH_PUBLIC_BYTES, own_first ? theirs : p->public_half,
	       AUTH_PUBLIC_BYTES);
	if (!rc)
		rc = auth_hmac(label, bytes, sizeof(bytes), key);
	explicit_bzero(bytes, sizeof(bytes));
	EVP_PKEY_free(peer);
	return rc;
}

int auth_tag(const struct peer_keys *keys, enum auth_label label,
	     const struct auth_context *context, const void *extra, size_t n,
	     uint8_t tag[AUTH_TAG_BYTES])
{
	/* Every field has a fixed place, so two different sets of fields cannot have the same
	 * encoding. */
	enum { NONCES_AT = 20, EXTRA_AT = NONCES_AT + 2 * AUTH_NONCE_BYTES };
	uint8_t bytes[EXTRA_AT + AUTH_EXTRA_MAX] = { 0 }, whole[HASH_BYTES];
	uint32_t peer = (uint32_t)keys->rank == context->client ? context->server : context->client;
	int rc;

	if (peer >= (uint32_t)keys->size)
		return fail(SLUICE_EINVAL, "there is no key for rank %u", (unsigned)peer);
	if (n > AUTH_EXTRA_MAX)
		return fail(SLUICE_EINVAL, "a tag covers at most %d more bytes, not %zu",
			    AUTH_EXTRA_MAX, n);
	put_le32(bytes, (uint32_t)label);
	put_le32(bytes + 4, keys->wire_version);
	put_le32(bytes + 8, context->client);
	put_le32(bytes + 12, context->server);
	put_le32(bytes + 16, (uint32_t)n);
	memcpy(bytes + NONCES_AT, context->nonce_client, AUTH_NONCE_BYTES);
	memcpy(bytes + NONCES_AT + AUTH_NONCE_BYTES, context->nonce_server, AUTH_NONCE_BYTES);
	if (n > 0)
		memcpy(bytes + EXTRA_AT, extra, n);
	rc = auth_hmac(keys->key[peer], bytes, EXTRA_AT + n, whole);
	if (!rc)
		memcpy(tag, whole, AUTH_TAG_BYTES);
	return rc;
}

int auth_check(const struct peer_keys *keys, enum auth_label label,
	       const struct auth_context *context, const void *extra, size_t n,
	       const uint8_t tag[AUTH_TAG_BYTES])
{
	uint8_t expected[AUTH_TAG_BYTES];

	return auth_tag(keys, label, context, extra, n, expected) == SLUICE_OK &&
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
	/* A time of 32 bits in milliseconds wraps after 49 days, but a nonce of that age would be
	 * refused anyway. */
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

const char auth_library[] = "";

const char *auth_missing(void)
{
	return "this libsluice was built without a crypto library";
}

int auth_private_make(struct auth_private **out)
{
	*out = NULL;
	return fail(SLUICE_ENOSUPP, "%s", auth_missing());
}

void auth_private_free(struct auth_private **p)
{
	*p = NULL;
}

void auth_public(const struct auth_private *p, uint8_t out[AUTH_PUBLIC_BYTES])
{
	(void)p;
	(void)out;
}

int auth_agree(const struct auth_private *p, const uint8_t theirs[AUTH_PUBLIC_BYTES],
	       uint8_t key[AUTH_KEY_BYTES])
{
	(void)p;
	(void)theirs;
	(void)key;
	return SLUICE_ENOSUPP;
}

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
