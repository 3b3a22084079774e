/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that have no time limit. Each runs on a helper thread, and the caller waits for it with its
 * own deadline. The caller and its helpers share one object that counts its holders, so it still
 * exists when a helper answers after the deadline. Called by pmix_calls.c. */
#ifndef SLURM_BOUNDED_H
#define SLURM_BOUNDED_H
#include <pthread.h>

/* The number of different calls. Each of them can be active only once at a time. */
enum { BOUNDED_CALLS = 8 };

/* Embedded in the object that the caller and the helper threads share. Only bounded.c accesses
 * these members. */
struct bounded {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int holders;
	int done[BOUNDED_CALLS], late[BOUNDED_CALLS], status[BOUNDED_CALLS];
	void *object;
	void (*free)(void *object);
};

/* The caller becomes the first holder of the object. When the last holder releases it, free(object)
 * is called. */
void bounded_open(struct bounded *b, void *object, void (*free)(void *object));
void bounded_hold(struct bounded *b);
void bounded_release(struct bounded *b);
/* Lock and unlock the object. The lock also protects other members of the object. */
void bounded_lock(struct bounded *b);
void bounded_unlock(struct bounded *b);

/* Runs body(object) on a helper thread, which becomes a holder of b. body calls bounded_finish()
 * and bounded_release(). Returns 0, SLUICE_ENOMEM, or SLUICE_ETIMEDOUT without a message. */
int bounded_run(struct bounded *b, unsigned call, void *(*body)(void *), int timeout_ms);
/* Waits until the call is finished. Returns 0, or SLUICE_ETIMEDOUT without a message. */
int bounded_await(struct bounded *b, unsigned call, int timeout_ms);
/* Called by the helper thread when the call has ended with this status. Returns 1 if a wait for the
 * call has timed out. */
int bounded_finish(struct bounded *b, unsigned call, int status);
/* Prepares this call number for another call. The helper thread of the previous call must have
 * ended. */
void bounded_renew(struct bounded *b, unsigned call);
/* Returns the status of a finished call. */
int bounded_status(const struct bounded *b, unsigned call);
/* Returns 1 if a wait for the call has timed out. */
int bounded_is_late(struct bounded *b, unsigned call);
#endif
