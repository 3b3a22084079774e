/* SPDX-License-Identifier: BSD-3-Clause
 * The launcher for programs that pass their own store (sluice_bootstrap of sluice.h), such as a
 * TCPStore or a shared directory. Each rank puts one value, "NAME.card.RANK", and gets those of all
 * ranks. A second exchange does the same with "NAME.card2.RANK". Values from the store come from
 * other processes and are hostile:
 *
 *   the bytes of the rank, then 4 bytes size of the job, 4 bytes CRC32C of everything before them
 *
 * The callbacks run on the calling thread, because programs, such as those in Python, may allow
 * calls only on their own threads. */
#include "base/arguments.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "slurm/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RANKS = 1 << 20, NAME_BYTES = 128, KEY_BYTES = NAME_BYTES + 32 };
/* ROOM exceeds the size of a record of any version. */
enum { TRAILER_BYTES = 8, ROOM = 72 * 1024 };
/* After a timeout, a rank looks for SEARCH_MS to find out which values are missing. */
enum { SEARCH_MS = 3000, LOOK_MS = 100, MOST_MISSING = 8 };

struct callbacks {
	struct launcher base;
	sluice_bootstrap given;
	char name[NAME_BYTES], node[NAME_BYTES], origin[NAME_BYTES + 16];
	uint64_t give_up_ns;
	int timeout_ms, rounds;
	uint8_t *own;   /* the value of this rank that put() has stored */
	uint8_t *value; /* ROOM bytes for the result of get() */
	size_t own_bytes;
};

static struct callbacks *callbacks_of(const struct launcher *l)
{
	return (struct callbacks *)l;
}

static int callbacks_rank(const struct launcher *l)
{
	return callbacks_of(l)->given.rank;
}

static int callbacks_size(const struct launcher *l)
{
	return callbacks_of(l)->given.ranks;
}

static const char *callbacks_name(const struct launcher *l)
{
	return callbacks_of(l)->origin;
}

static const char *callbacks_node(const struct launcher *l)
{
	return callbacks_of(l)->node;
}

static void forget_values(struct callbacks *c)
{
	free(c->own);
	free(c->value);
	c->own = c->value = NULL;
}

/* The program's store does not track its ranks, so leaving needs no action. */
static int callbacks_leave(struct launcher *l)
{
	forget_values(callbacks_of(l));
	return 0;
}

static void callbacks_close(struct launcher *l)
{
	forget_values(callbacks_of(l));
	free(callbacks_of(l));
}

/* ---- getting --------------------------------------------------------------- */

static int left_ms(const struct callbacks *c)
{
	uint64_t now = now_ns();

	return now < c->give_up_ns ? (int)((c->give_up_ns - now) / 1000000) : 0;
}

static void store_key(const struct callbacks *c, int rank, char key[KEY_BYTES])
{
	snprintf(key, KEY_BYTES, "%s.card%s.%d", c->name, c->rounds > 1 ? "2" : "", rank);
}

/* Calls the program's get(). A length beyond the buffer is an error. */
static int get(struct callbacks *c, int rank, int timeout_ms, size_t *bytes)
{
	char key[KEY_BYTES];

	*bytes = 0;
	store_key(c, rank, key);
	return c->given.get(c->given.context, key, c->value, ROOM, bytes, timeout_ms);
}

static int own_was_replaced(struct callbacks *c)
{
	size_t n;

	return !get(c, c->given.rank, LOOK_MS, &n) && n <= ROOM &&
	       (n != c->own_bytes || memcmp(c->value, c->own, n) != 0);
}

static int replaced(const struct callbacks *c)
{
	return fail(SLUICE_EPEER,
		    "two processes of the job have rank %d of %d (one of them is process %d on "
		    "this node), or its store holds the keys of an earlier job: give every process "
		    "its own rank, and every job its own name (sluice_bootstrap.name is %s)",
		    c->given.rank, c->given.ranks, (int)getpid(), c->name);
}

/* Names the ranks whose value the store does not have, such as "rank 3, rank 5 and 2 more". */
static int timed_out(struct callbacks *c, const char *call)
{
	uint64_t until = now_ns() + (uint64_t)SEARCH_MS * 1000000;
	char text[256] = "";
	int rank, missing = 0;
	size_t used = 0, n;

	if (own_was_replaced(c))
		return replaced(c);
	for (rank = 0; rank < c->given.ranks && now_ns() < until; rank++) {
		if (!get(c, rank, LOOK_MS, &n))
			continue;
		if (missing++ < MOST_MISSING)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%srank %d",
						 used ? ", " : "", rank);
	}
	if (missing > MOST_MISSING)
		snprintf(text + used, sizeof(text) - used, " and others");
	return fail(SLUICE_ETIMEDOUT,
		    "rank %d waited %.1f s in %s() of its bootstrap for all %d ranks of the job to "
		    "call sluice_init(), but %s%s: look for a rank that was not started, ended or "
		    "hangs before that call, or uses another store or name (this rank's is %s), or "
		    "allow more time with SLUICE_BOOT_TIMEOUT",
		    c->given.rank, c->timeout_ms / 1e3, call, c->given.ranks,
		    missing ? "these are missing: " : "at least one is late", text, c->name);
}

static int callback_failed(const struct callbacks *c, const char *call, const char *key, int code)
{
	return fail(SLUICE_EBOOT,
		    "the program's bootstrap function %s() returned %d on rank %d%s%s: look for "
		    "the cause in the program or in its store",
		    call, code, c->given.rank, *key ? ", for the key " : "", key);
}

static int refuse_value(const struct callbacks *c, int rank, size_t n, const char *why)
{
	char key[KEY_BYTES];

	store_key(c, rank, key);
	return fail(SLUICE_EWIRE,
		    "rank %d refuses the %zu bytes that get() of its bootstrap returned for the "
		    "key %s: %s; get() must return exactly what rank %d has put",
		    c->given.rank, n, key, why, rank);
}

/* Gets and checks the value of one rank, and passes its bytes to take(). */
static int take_rank(struct callbacks *c, int rank, launcher_take_fn take, void *context)
{
	char key[KEY_BYTES];
	uint32_t ranks;
	size_t n;
	int rc = get(c, rank, left_ms(c), &n);

	if (rc == SLUICE_ETIMEDOUT)
		return timed_out(c, "get");
	store_key(c, rank, key);
	if (rc)
		return callback_failed(c, "get", key, rc);
	if (n > ROOM)
		return refuse_value(c, rank, n, "they are longer than any record");
	if (n < TRAILER_BYTES)
		return refuse_value(c, rank, n, "they are too short for a record");
	if (get_le32(c->value + n - 4) != crc32c(0, c->value, n - 4))
		return refuse_value(c, rank, n, "their checksum is wrong");
	ranks = get_le32(c->value + n - TRAILER_BYTES);
	if (ranks != (uint32_t)c->given.ranks)
		return fail(SLUICE_EPEER,
			    "rank %d started with %u ranks in the job, and rank %d with %d: give "
			    "sluice_bootstrap.ranks the same value on all ranks",
			    rank, ranks, c->given.rank, c->given.ranks);
	if (rank == c->given.rank && (n != c->own_bytes || memcmp(c->value, c->own, n) != 0))
		return replaced(c);
	return take(context, rank, c->value, n - TRAILER_BYTES);
}

/* ---- the exchange ---------------------------------------------------------- */

static int put_own(struct callbacks *c, const uint8_t *mine, size_t n)
{
	char key[KEY_BYTES];
	int rc;

	c->own_bytes = n + TRAILER_BYTES;
	c->own = malloc(c->own_bytes);
	c->value = malloc(ROOM);
	if (!c->own || !c->value)
		return fail(SLUICE_ENOMEM, "no memory for the record of rank %d", c->given.rank);
	memcpy(c->own, mine, n);
	put_le32(c->own + n, (uint32_t)c->given.ranks);
	put_le32(c->own + n + 4, crc32c(0, c->own, n + 4));
	store_key(c, c->given.rank, key);
	rc = c->given.put(c->given.context, key, c->own, c->own_bytes);
	return rc ? callback_failed(c, "put", key, rc) : 0;
}

static int callbacks_exchange(struct launcher *l, const uint8_t *mine, size_t n,
			      launcher_take_fn take, void *context)
{
	struct callbacks *c = callbacks_of(l);
	int rank, rc;

	c->rounds++;
	forget_values(c);
	c->give_up_ns = now_ns() + (uint64_t)c->timeout_ms * 1000000;
	rc = put_own(c, mine, n);
	if (!rc && c->given.fence) {
		rc = c->given.fence(c->given.context, left_ms(c));
		if (rc)
			rc = rc == SLUICE_ETIMEDOUT ? timed_out(c, "fence") :
						      callback_failed(c, "fence", "", rc);
	}
	for (rank = 0; rank < c->given.ranks && !rc; rank++)
		rc = take_rank(c, rank, take, context);
	return rc;
}

static const struct launcher_ops ops = { .rank = callbacks_rank,
					 .size = callbacks_size,
					 .name = callbacks_name,
					 .node = callbacks_node,
					 .exchange = callbacks_exchange,
					 .leave = callbacks_leave,
					 .close = callbacks_close };

int callbacks_open(const sluice_bootstrap *given, int timeout_ms, struct launcher **out)
{
	struct callbacks *c;
	const char *name;

	int rc = argument_size(given->size, sizeof(*given), _Alignof(sluice_bootstrap),
			       "sluice_bootstrap", "sluice_init");

	if (rc)
		return rc;
	if (!given->put || !given->get)
		return fail(SLUICE_EINVAL, "sluice_init: %s of the bootstrap is NULL",
			    given->put ? "get" : "put");
	if (given->ranks < 1 || given->ranks > MAX_RANKS || given->rank < 0 ||
	    given->rank >= given->ranks)
		return fail(SLUICE_EINVAL,
			    "sluice_init: the bootstrap has rank=%d and ranks=%d, but ranks are "
			    "numbered from 0, and a job has at most %d",
			    given->rank, given->ranks, MAX_RANKS);
	name = given->name && *given->name ? given->name : "sluice";
	if (strlen(name) >= NAME_BYTES)
		return fail(SLUICE_EINVAL,
			    "sluice_init: the name of the bootstrap has %zu characters, but at "
			    "most %d fit",
			    strlen(name), NAME_BYTES - 1);
	c = calloc(1, sizeof(*c));
	if (!c)
		return fail(SLUICE_ENOMEM, "no memory for the bootstrap's state");
	c->base.ops = &ops;
	c->given = *given;
	c->timeout_ms = timeout_ms;
	strcpy(c->name, name);
	snprintf(c->node, sizeof(c->node), "%s", given->node ? given->node : "");
	snprintf(c->origin, sizeof(c->origin), "callbacks (%s)", c->name);
	*out = &c->base;
	return 0;
}
