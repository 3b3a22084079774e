/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_proof.h. A message, little-endian: 0 OFI_FRAME_MAGIC, 4 kind, 8 rank of the sender, 12
 * nonce of the client, 24 nonce of the server, 36 tag, 52 token, 56 descriptor of the control
 * region. Fields that a kind does not need are zero. */
#include "rdma/ofi_proof.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>

enum kind { HELLO = 1, CHALLENGE, PROOF, ACCEPT, GREETING };
enum {
	CLIENT_AT = 12,
	SERVER_AT = CLIENT_AT + AUTH_NONCE_BYTES,
	TAG_AT = SERVER_AT + AUTH_NONCE_BYTES,
	TOKEN_AT = TAG_AT + AUTH_TAG_BYTES,
	CONTROL_AT = TOKEN_AT + 4,
	SIGNED_BYTES = 4 + 4 + REGION_HEAD_BYTES /* a tag covers the magic number, the token and
						    the control descriptor */
};
_Static_assert(CONTROL_AT + REGION_HEAD_BYTES == OFI_FRAME_BYTES, "a message has another size");
enum { AGAIN_MS = 500, CHALLENGE_AGE_MS = 60000 };

/* The label of each kind's tag. */
static const enum auth_label labels[] = { [CHALLENGE] = AUTH_CHALLENGE,
					  [PROOF] = AUTH_PROOF,
					  [ACCEPT] = AUTH_ACCEPT,
					  [GREETING] = AUTH_GREETING };

struct proof {
	int begun, up;
	uint64_t hello_ns; /* when the client sends its next HELLO */
	struct auth_context context;
	struct ofi_greeting own, theirs;
};

struct ofi_proofs {
	int rank, size, admitted;
	struct peer_keys keys;
	uint8_t nonce_key[AUTH_KEY_BYTES];
	uint64_t refused;
	struct proof peer[];
};

struct message {
	enum kind kind;
	struct auth_context context;
	uint8_t tag[AUTH_TAG_BYTES];
	struct ofi_greeting greeting;
};

/* ---- opening and closing ---------------------------------------------------------- */

int ofi_proofs_open(int rank, int size, struct ofi_proofs **out)
{
	struct ofi_proofs *p = calloc(1, sizeof(*p) + (size_t)size * sizeof(p->peer[0]));
	int rc;

	if (!p)
		return fail(SLUICE_ENOMEM, "ofi: no memory for the proofs of %d peers", size);
	p->rank = rank;
	p->size = size;
	rc = auth_random(p->nonce_key, sizeof(p->nonce_key));
	if (rc)
		ofi_proofs_close(&p);
	*out = p;
	return rc;
}

void ofi_proofs_close(struct ofi_proofs **p)
{
	if (!*p)
		return;
	explicit_bzero(*p, sizeof(**p));
	free(*p);
	*p = NULL;
}

void ofi_proofs_admit(struct ofi_proofs *p, const struct peer_keys *keys)
{
	p->keys = *keys;
	p->admitted = 1;
}

int ofi_proofs_admitted(const struct ofi_proofs *p)
{
	return p->admitted;
}

void ofi_proof_begin(struct ofi_proofs *p, int peer, const struct ofi_greeting *own)
{
	p->peer[peer] = (struct proof){ .begun = 1, .own = *own };
}

const struct ofi_greeting *ofi_proof_greeting(const struct ofi_proofs *p, int peer)
{
	return p->peer[peer].up ? &p->peer[peer].theirs : NULL;
}

uint64_t ofi_proofs_refused(const struct ofi_proofs *p)
{
	return p->refused;
}

/* ---- messages --------------------------------------------------------------------- */

static void cover(const struct ofi_greeting *greeting, uint8_t out[SIGNED_BYTES])
{
	put_le32(out, OFI_FRAME_MAGIC);
	put_le32(out + 4, greeting->token);
	memcpy(out + 8, greeting->control, REGION_HEAD_BYTES);
}

/* Encodes a message. Returns 1, or 0 if the tag could not be made. */
static int encode_message(const struct ofi_proofs *p, const struct message *m,
			  uint8_t out[OFI_FRAME_BYTES])
{
	uint8_t covered[SIGNED_BYTES];

	memset(out, 0, OFI_FRAME_BYTES);
	put_le32(out, OFI_FRAME_MAGIC);
	put_le32(out + 4, (uint32_t)m->kind);
	put_le32(out + 8, (uint32_t)p->rank);
	memcpy(out + CLIENT_AT, m->context.nonce_client, AUTH_NONCE_BYTES);
	memcpy(out + SERVER_AT, m->context.nonce_server, AUTH_NONCE_BYTES);
	put_le32(out + TOKEN_AT, m->greeting.token);
	memcpy(out + CONTROL_AT, m->greeting.control, REGION_HEAD_BYTES);
	if (m->kind == HELLO)
		return 1;
	cover(&m->greeting, covered);
	return !auth_tag(&p->keys, labels[m->kind], &m->context, covered, sizeof(covered),
			 out + TAG_AT);
}

/* Decodes a message. Returns 1, or 0 if it is not a message to this rank. Does not check the
 * tag. */
static int decode(const struct ofi_proofs *p, const uint8_t *bytes, size_t n, int *sender,
		  struct message *m)
{
	uint32_t kind, rank;

	if (n != OFI_FRAME_BYTES || get_le32(bytes) != OFI_FRAME_MAGIC)
		return 0;
	kind = get_le32(bytes + 4);
	rank = get_le32(bytes + 8);
	if (kind < HELLO || kind > GREETING || rank >= (uint32_t)p->size ||
	    rank == (uint32_t)p->rank)
		return 0;
	*sender = (int)rank;
	*m = (struct message){ .kind = (enum kind)kind };
	/* The lower rank is the client. Only the client begins an exchange. */
	if ((kind == CHALLENGE || kind == ACCEPT) != (*sender > p->rank))
		return 0;
	m->context.client = (uint32_t)(*sender < p->rank ? *sender : p->rank);
	m->context.server = (uint32_t)(*sender < p->rank ? p->rank : *sender);
	memcpy(m->context.nonce_client, bytes + CLIENT_AT, AUTH_NONCE_BYTES);
	memcpy(m->context.nonce_server, bytes + SERVER_AT, AUTH_NONCE_BYTES);
	memcpy(m->tag, bytes + TAG_AT, AUTH_TAG_BYTES);
	m->greeting.token = get_le32(bytes + TOKEN_AT);
	memcpy(m->greeting.control, bytes + CONTROL_AT, REGION_HEAD_BYTES);
	return 1;
}

static int message_tag_is_right(const struct ofi_proofs *p, const struct message *m)
{
	uint8_t covered[SIGNED_BYTES];

	cover(&m->greeting, covered);
	return auth_check(&p->keys, labels[m->kind], &m->context, covered, sizeof(covered), m->tag);
}

static int same_nonce(const uint8_t a[AUTH_NONCE_BYTES], const uint8_t b[AUTH_NONCE_BYTES])
{
	return !memcmp(a, b, AUTH_NONCE_BYTES);
}

/* ---- the client ------------------------------------------------------------------- */

int ofi_proof_hello(struct ofi_proofs *p, int peer, uint64_t now_ns, uint8_t out[OFI_FRAME_BYTES])
{
	struct proof *proof = &p->peer[peer];
	struct message hello = { .kind = HELLO };

	if (!proof->begun || proof->up || peer < p->rank || now_ns < proof->hello_ns)
		return 0;
	proof->hello_ns = now_ns + (uint64_t)AGAIN_MS * NS_PER_MS;
	proof->context = (struct auth_context){ .client = (uint32_t)p->rank,
						.server = (uint32_t)peer };
	if (auth_random(proof->context.nonce_client, AUTH_NONCE_BYTES))
		return 0;
	hello.context = proof->context;
	return encode_message(p, &hello, out);
}

/* The server has answered the current HELLO and thereby proved that it holds the key, so this makes
 * the client's proof. */
static int answer_challenge(struct ofi_proofs *p, struct proof *proof,
			    const struct message *challenge, uint8_t out[OFI_FRAME_BYTES])
{
	struct message answer = { .kind = PROOF, .context = challenge->context };

	proof->context = challenge->context;
	return encode_message(p, &answer, out);
}

static int greet(struct ofi_proofs *p, struct proof *proof, const struct message *accept,
		 uint8_t out[OFI_FRAME_BYTES])
{
	struct message answer = { .kind = GREETING,
				  .context = accept->context,
				  .greeting = proof->own };

	if (!same_nonce(accept->context.nonce_server, proof->context.nonce_server))
		return 0; /* the message answers an earlier try */
	proof->theirs = accept->greeting;
	proof->up = 1;
	return encode_message(p, &answer, out);
}

/* ---- the server ------------------------------------------------------------------- */

static int challenge(struct ofi_proofs *p, const struct message *hello, uint64_t now_ns,
		     uint8_t out[OFI_FRAME_BYTES])
{
	struct message answer = { .kind = CHALLENGE, .context = hello->context };

	if (auth_nonce_make(p->nonce_key, hello->context.client, hello->context.nonce_client,
			    now_ns / NS_PER_MS, answer.context.nonce_server))
		return 0;
	return encode_message(p, &answer, out);
}

static int is_own_challenge(const struct ofi_proofs *p, const struct message *m, uint64_t now_ns)
{
	uint64_t made_ms;

	return auth_nonce_check(p->nonce_key, m->context.client, m->context.nonce_client,
				now_ns / NS_PER_MS, CHALLENGE_AGE_MS, m->context.nonce_server,
				&made_ms);
}

static int accept_client(struct ofi_proofs *p, struct proof *proof, const struct message *m,
			 uint8_t out[OFI_FRAME_BYTES])
{
	struct message answer = { .kind = ACCEPT, .context = m->context, .greeting = proof->own };

	return encode_message(p, &answer, out);
}

/* ---- both ------------------------------------------------------------------------- */

static int refuse_proof(struct ofi_proofs *p, const char *why)
{
	/* Logs refusals less and less often, so that strangers cannot fill the log. */
	if (!(p->refused & (p->refused + 1)))
		log_line(LOG_WARN, "rdma", "ofi: refused a message: %s (%llu so far)", why,
			 (unsigned long long)p->refused + 1);
	p->refused++;
	return 0;
}

int ofi_proof_answer(struct ofi_proofs *p, const uint8_t *bytes, size_t n, uint64_t now_ns,
		     int *peer, uint8_t out[OFI_FRAME_BYTES])
{
	struct proof *proof;
	struct message m;

	if (!p->admitted)
		return 0; /* the key is not known yet; the peer repeats its HELLO */
	if (!decode(p, bytes, n, peer, &m))
		return refuse_proof(p, "it is not a message from a rank of this job");
	proof = &p->peer[*peer];
	if (!proof->begun || proof->up)
		return 0; /* the message is early, or repeats one of a finished exchange */
	if (m.kind == HELLO)
		return challenge(p, &m, now_ns, out);
	/* Checks the tag only if the message belongs to this try. */
	if (*peer > p->rank && !same_nonce(m.context.nonce_client, proof->context.nonce_client))
		return 0;
	if (*peer < p->rank && !is_own_challenge(p, &m, now_ns))
		return refuse_proof(p, "its challenge is too old, or was not made by this rank");
	if (!message_tag_is_right(p, &m))
		return refuse_proof(
			p, "its proof is wrong: its sender does not hold a key of this job");
	switch (m.kind) {
	case CHALLENGE: return answer_challenge(p, proof, &m, out);
	case PROOF: return accept_client(p, proof, &m, out);
	case ACCEPT: return greet(p, proof, &m, out);
	case GREETING:
		proof->theirs = m.greeting;
		proof->up = 1;
		return 0;
	case HELLO: break;
	}
	return 0;
}
