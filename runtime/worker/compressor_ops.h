/* SPDX-License-Identifier: BSD-3-Clause
 * Where a worker's gradients are compressed: in host memory (worker.c), or on an accelerator
 * (device.c). Each place has a row of operations, and worker.ops is the row of the place where
 * residual and momentum are. A function that is NULL has nothing to do in that place. */
#ifndef RUNTIME_WORKER_COMPRESSOR_OPS_H
#define RUNTIME_WORKER_COMPRESSOR_OPS_H
#include "model/stopwatch.h"
#include "worker/signal.h"
#include "worker/state.h"

struct compressor_ops {
	int on_device;
	/* ---- a push ---- */
	/* Folds a whole gradient. Returns the result of signal_fold(). */
	int (*fold)(struct worker *w, const struct vector *grad, const struct vector *before,
		    struct signal *out);
	/* For a push whose messages are made after its call has returned: ends the call. push: the
	 * lap that measures the push. */
	int (*leave)(struct worker *w, const struct lap *push);
	/* Picks coordinates and emits the messages of an up phase. On failure no message is
	 * posted. */
	int (*emit)(struct worker *w, enum phase_payload payload, const struct signal *signal);
	/* Returns 1 if the messages of the phase are staged. The token must be held. */
	int (*staged)(struct worker *w);
	/* For up=sketch: clears the residual at the n published coordinates of a shard, and the
	 * momentum if it is masked. If index is NULL, these are the coordinates whose value in got
	 * is not zero. */
	int (*clear)(struct worker *w, const struct shard_layout *at, const uint32_t *index,
		     const struct entries *got, uint32_t n);
	/* Returns 1 if deltas must be in the memory that half_land() returns. */
	int (*lands)(const struct worker *w);

	/* ---- a push whose call has returned ---- */
	/* Advances the push as far as possible without waiting. Any thread may call it. Token
	 * held. */
	void (*advance)(struct worker *w);
	/* Returns 1 if advance() has work now or will have some. */
	int (*works)(const struct worker *w);
	/* Both wait until everything is posted. Only calls of the application use them. park() is
	 * called with the token held, await() without it. */
	int (*await)(struct worker *w);
	int (*park)(struct worker *w);
	/* Writes to text what the push is waiting for. Returns 0 if the push is not waiting. */
	int (*busy)(const struct worker *w, char *text, size_t cap);

	/* ---- residual and momentum ---- */
	/* Copies residual and momentum to host memory. */
	int (*fetch)(struct worker *w);
	/* Moves residual and momentum to host memory, where gradients are compressed from then
	 * on. */
	int (*come_home)(struct worker *w);
	/* Called when residual and momentum in host memory have become newer than those on the
	 * device. */
	void (*renewed)(struct worker *w);
};

static inline int worker_on_device(const struct worker *w)
{
	return w->ops->on_device;
}

/* Returns the traits of a step that are known only while the model is in use. */
static inline uint64_t worker_live_traits(const struct worker *w)
{
	return (w->ops->on_device ? TRAIT(DEVICE_SELECTS) : 0) |
	       (w->model.measure->on ? TRAIT(MEASURED) : 0) |
	       (w->accumulates ? TRAIT(ACCUMULATES) : 0) | (w->step.skipped ? TRAIT(SKIPPED) : 0);
}

static inline int worker_staged(struct worker *w)
{
	const struct compressor_ops *ops = w->ops;
	return !ops->staged || ops->staged(w);
}

static inline int worker_await(struct worker *w)
{
	const struct compressor_ops *ops = w->ops;
	return ops->await ? ops->await(w) : 0;
}

static inline int worker_park(struct worker *w)
{
	const struct compressor_ops *ops = w->ops;
	return ops->park ? ops->park(w) : 0;
}

static inline int worker_busy(const struct worker *w, char *text, size_t cap)
{
	const struct compressor_ops *ops = w->ops;
	return ops->busy && ops->busy(w, text, cap);
}

static inline int worker_fetch(struct worker *w)
{
	const struct compressor_ops *ops = w->ops;
	return ops->fetch ? ops->fetch(w) : 0;
}

static inline int worker_come_home(struct worker *w)
{
	const struct compressor_ops *ops = w->ops;
	return ops->come_home ? ops->come_home(w) : 0;
}

static inline void worker_renewed(struct worker *w)
{
	const struct compressor_ops *ops = w->ops;
	if (ops->renewed)
		ops->renewed(w);
}

static inline int worker_lands(const struct worker *w)
{
	const struct compressor_ops *ops = w->ops;
	return ops->lands && ops->lands(w);
}

/* Returns 1 if the step advances between calls of the application: a push on a device, a pull in
 * ranges, or an exchange that is applied late. */
static inline int worker_goes_on(const struct worker *w)
{
	const struct compressor_ops *ops = w->ops;
	return w->step.pull == PULL_BY_SHARD || w->step.behind || (ops->works && ops->works(w));
}
#endif
