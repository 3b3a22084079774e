/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_trial.h. */
#include "rdma/ofi_trial.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 16, TRIAL_MS = 500, NAME_BYTES = 256, PATTERN_BYTES = 256 };
/* The parts of host memory in a test of device memory. */
enum { PATTERN, ECHO, SAVED, PARTS };

/* The data of the put. If only a part of it arrives, notices are narrower than promised. */
static const uint64_t data = 0x5354554c8badf00dULL;

struct ofi_trial {
	struct ofi_fabric *fabric;
	struct ofi_messages *messages;
	fi_addr_t self;
	struct fid_mr *mr, *local;
	struct fi_context2 put;
	uint8_t from[BYTES], to[BYTES];
	struct {                   /* this struct is only for tests of device memory */
		struct fid_mr *mr; /* the registration of the parts */
		struct fi_context2 context;
		int under_way, error; /* the state of a put or get */
		int noticed;          /* 1: the put's notice has come */
		char text[80];        /* of the error */
		uint8_t parts[PARTS][PATTERN_BYTES];
	} device;
};

/* Checks a completion. Sets *why if notices do not work as promised. */
static void judge_completion(struct ofi_trial *t, const struct ofi_completion *c, int *done,
			     int *came, const char **why)
{
	const int narrow = ofi_fabric_notice(t->fabric) == OFI_NOTICE_NARROW;

	ofi_messages_reuse(t->messages, c->context); /* the receive that the notice used up */
	if (c->error) {
		if (!c->broken)
			*why = ofi_fabric_error(t->fabric, -c->error);
		return;
	}
	*done |= c->context == &t->put;
	if (!c->notice)
		return;
	*came = 1;
	if (c->data != (narrow ? (uint32_t)data : data) || (narrow && c->from != t->self) ||
	    memcmp(t->from, t->to, BYTES))
		*why = "the bytes that arrived differ from those sent";
}

/* Tests the notices. Returns NULL if they work as promised, otherwise the reason why not. */
static const char *try_notice(struct ofi_trial *t)
{
	const struct ofi_piece put = { .local = t->from,
				       .bytes = BYTES,
				       .desc = t->local ? fi_mr_desc(t->local) : NULL,
				       .to = t->self,
				       .address = ofi_fabric_origin(t->fabric, t->to),
				       .key = fi_mr_key(t->mr),
				       .data = data,
				       .announce = 1,
				       .placed = !ofi_fabric_is_ordered(t->fabric),
				       .context = &t->put };
	struct poll_limit limit = poll_limit_after_ms(TRIAL_MS);
	const char *why = NULL;
	int posted = 0, done = 0, came = 0;

	while (!why && !(done && came) && !poll_limit_reached(&limit)) {
		struct ofi_completion c;
		const ssize_t rc = posted ? 0 : ofi_fabric_put(t->fabric, &put);

		posted |= !rc;
		if (rc && rc != -FI_EAGAIN)
			why = ofi_fabric_error(t->fabric, rc);
		else if (ofi_fabric_poll(t->fabric, &c, 1))
			judge_completion(t, &c, &done, &came, &why);
		else
			sched_yield();
	}
	/* If the put never ended, this rank cannot reach itself, and the test proves nothing. */
	return !why && done && !came ? "it did not arrive" : why;
}

/* Finds this rank's address among those of the peers. */
static int find_own_address(struct ofi_trial *t)
{
	uint8_t name[NAME_BYTES];
	size_t n;
	int rc;

	if (t->self != FI_ADDR_NOTAVAIL)
		return SLUICE_OK;
	rc = ofi_fabric_name(t->fabric, name, sizeof(name), &n);
	return rc ? rc : ofi_fabric_insert(t->fabric, name, &t->self);
}

static int prepare(struct ofi_trial *t)
{
	int rc = find_own_address(t);

	if (!rc)
		rc = ofi_fabric_register(t->fabric, t->to, BYTES, FI_REMOTE_WRITE, "a trial",
					 &t->mr);
	if (!rc && ofi_fabric_wants_local(t->fabric))
		rc = ofi_fabric_register(t->fabric, t->from, BYTES, FI_WRITE, "a trial", &t->local);
	for (int i = 0; i < BYTES; i++)
		t->from[i] = (uint8_t)(i + 1);
	return rc;
}

int ofi_trial_open(struct ofi_fabric *fabric, struct ofi_messages *messages, struct ofi_trial **out)
{
	struct ofi_trial *t = *out = calloc(1, sizeof(*t));
	const char *why;
	int rc;

	if (!t)
		return fail(SLUICE_ENOMEM, "ofi: no memory for %zu bytes", sizeof(*t));
	t->fabric = fabric;
	t->self = FI_ADDR_NOTAVAIL;
	t->messages = messages;
	if (ofi_fabric_notice(fabric) == OFI_NOTICE_MESSAGE)
		return SLUICE_OK;
	rc = prepare(t);
	if (rc)
		return rc;
	why = try_notice(t);
	if (!why)
		return SLUICE_OK;
	if (ofi_fabric_is_unplaced(fabric))
		return fail(SLUICE_EDEVICE,
			    "ofi: %s: a put to this rank itself did not announce itself (%s), and "
			    "nothing else shows when its puts are in place: set SLUICE_PROVIDER to "
			    "another provider, such as tcp",
			    ofi_fabric_text(fabric), why);
	ofi_fabric_use_notice(fabric, OFI_NOTICE_MESSAGE);
	log_line(LOG_WARN, "rdma",
		 "ofi: %s: a put to this rank itself did not announce itself (%s), so a message "
		 "follows each put, which costs a round trip; see sluice-info --check",
		 ofi_fabric_text(fabric), why);
	return SLUICE_OK;
}

/* ---- device memory ------------------------------------------------------------------ */

/* Puts from device memory to a part, or gets a part. A put is in place once its notice has come,
 * because some providers report it complete too early. Returns 0, or -1 with the reason in why. */
static int move_part(struct ofi_trial *t, int get, const struct fid_mr *mr, void *address, size_t n,
		     int part, const struct ofi_driver *driver, char why[OFI_TRIAL_WHY_BYTES])
{
	const struct ofi_piece piece = { .local = address,
					 .bytes = n,
					 .desc = fi_mr_desc((struct fid_mr *)(uintptr_t)mr),
					 .to = t->self,
					 .address = ofi_fabric_origin(t->fabric, t->device.parts) +
						    (uint64_t)part * PATTERN_BYTES,
					 .key = fi_mr_key(t->device.mr),
					 .data = data,
					 .announce = !get && ofi_fabric_notice(t->fabric) !=
								     OFI_NOTICE_MESSAGE,
					 .placed = 1,
					 .context = &t->device.context };
	struct poll_limit limit = poll_limit_after_ms(TRIAL_MS);
	ssize_t rc = -FI_EAGAIN;

	t->device.error = 0;
	t->device.noticed = !piece.announce;
	while (rc == -FI_EAGAIN && !poll_limit_reached(&limit)) {
		rc = get ? ofi_fabric_get(t->fabric, &piece) : ofi_fabric_put(t->fabric, &piece);
		if (rc == -FI_EAGAIN)
			driver->progress(driver->context);
	}
	t->device.under_way = !rc;
	limit = poll_limit_after_ms(TRIAL_MS);
	while (!rc && (t->device.under_way || !t->device.noticed) && !t->device.error &&
	       !poll_limit_reached(&limit))
		driver->progress(driver->context);
	if (!rc && !t->device.under_way && t->device.noticed && !t->device.error)
		return 0;
	snprintf(why, OFI_TRIAL_WHY_BYTES, "the provider cannot %s it: %s", get ? "write" : "read",
		 rc                  ? ofi_fabric_error(t->fabric, rc) :
		 t->device.under_way ? "libfabric does not report the end of the transfer" :
		 t->device.error     ? t->device.text :
				       "no notice arrives");
	return -1;
}

/* Writes a pattern, reads it back, and restores the old content, as register.c does for verbs. */
static int prove_device(struct ofi_trial *t, const struct fid_mr *mr, const struct memory *memory,
			const struct ofi_driver *driver, char why[OFI_TRIAL_WHY_BYTES])
{
	const size_t n = memory->bytes < PATTERN_BYTES ? memory->bytes : PATTERN_BYTES;
	int rc;

	for (size_t i = 0; i < n; i++)
		t->device.parts[PATTERN][i] = (uint8_t)(i * 37 + 11);
	rc = move_part(t, 0, mr, memory->address, n, SAVED, driver, why);
	if (!rc)
		rc = move_part(t, 1, mr, memory->address, n, PATTERN, driver, why);
	if (!rc)
		rc = move_part(t, 0, mr, memory->address, n, ECHO, driver, why);
	if (!rc && memcmp(t->device.parts[PATTERN], t->device.parts[ECHO], n)) {
		snprintf(why, OFI_TRIAL_WHY_BYTES,
			 "the provider read back bytes that differ from those it wrote");
		rc = -1;
	}
	if (!rc)
		rc = move_part(t, 1, mr, memory->address, n, SAVED, driver, why);
	return rc;
}

int ofi_trial_of_device(struct ofi_trial *t, const struct fid_mr *mr, const struct memory *memory,
			const struct ofi_driver *driver, char why[OFI_TRIAL_WHY_BYTES])
{
	snprintf(why, OFI_TRIAL_WHY_BYTES, "this rank could not prepare the trial");
	if (t->device.under_way) {
		snprintf(why, OFI_TRIAL_WHY_BYTES, "an earlier trial has not ended");
		return -1;
	}
	if (find_own_address(t))
		return -1;
	if (!t->device.mr &&
	    ofi_fabric_register(t->fabric, t->device.parts, sizeof(t->device.parts),
				FI_REMOTE_READ | FI_REMOTE_WRITE, "a trial", &t->device.mr))
		return -1;
	return prove_device(t, mr, memory, driver, why);
}

int ofi_trial_is_of(struct ofi_trial *t, const struct ofi_completion *c)
{
	if (c->context == &t->put)
		return 1;
	if (c->context == &t->device.context) {
		t->device.under_way = 0;
		t->device.error = c->error;
		snprintf(t->device.text, sizeof(t->device.text), "%.70s", c->text);
		return 1;
	}
	if (!c->notice || (c->data != data && (c->from != t->self || c->from == FI_ADDR_NOTAVAIL)))
		return 0;
	t->device.noticed = 1;
	return 1;
}

void ofi_trial_end(struct ofi_trial *t)
{
	if (t && t->mr)
		ofi_fabric_unregister(&t->mr);
	if (t && t->local)
		ofi_fabric_unregister(&t->local);
	if (t && t->device.mr)
		ofi_fabric_unregister(&t->device.mr);
}

void ofi_trial_close(struct ofi_trial **t)
{
	free(*t);
	*t = NULL;
}
