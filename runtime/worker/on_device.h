/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients and parameters in the memory of an accelerator. Called by step.c, worker.c,
 * worker_encode.c, push_range.c, model_open.c, events.c, stats.c and checkpoint.c, each with a line
 * or two; everything else of the runtime sees host memory.
 *
 * Where the recipe allows (on_device_select.c: gradient or momentum, with a residual or none)
 * residual and momentum live on the device: what precedes the selection is done there
 * (on_device_fold.c), and so are the selection and the messages' payloads (on_device_push.c), all
 * of it enqueued; what follows is done later (on_device_late.c); worker.residual is merely the
 * place at which the encoder meets what the device does not pack. Else the gradient is copied to
 * the host. */
#ifndef RUNTIME_ON_DEVICE_H
#define RUNTIME_ON_DEVICE_H
#include "base/device.h"
#include "base/error.h"
#include "compress/message.h"
#include "model/layout.h"
#include "rdma/transport.h"
#include "sluice.h"
#include <stdatomic.h>

/* How the payload of a shard's messages, made on the device, gets to the shard's owner. */
enum payload_way {
	PAYLOAD_STAGED,  /* copied to the staging slot, which is posted whole */
	PAYLOAD_PLACED,  /* copied into the owner's window, which is mapped here; the header is
			    posted */
	PAYLOAD_IN_PLACE /* read by the card where it is made; the header is posted after it */
};
struct payload_lane {
	enum payload_way way;
	uint8_t *there; /* placed: the shard's slots as the device reaches them */
	size_t offset;  /* in payloads: of the first, */
	unsigned depth; /* of so many, of which message n's is number n mod depth */
};

/* A push whose call returned before its messages were on their way. */
enum late_push {
	LATE_NOTHING,
	LATE_ENQUEUED, /* the device is at it, or will be */
	LATE_LISTED, /* it is through, and left to the host some of the messages, or to say what is
			wrong */
	LATE_STAGED, /* not all of them are posted */
	LATE_ASKED   /* of a pull: the device is at the values that shards asked for */
};

struct on_device {
	void *stream;                    /* the application's */
	const struct device_ops *ops;    /* of the gradients so far; NULL: they were host memory */
	const struct device_ops *target; /* of the pull under way; NULL: host memory */
	struct device_compressor *compressor;
	int selects; /* the residual lives here: */
	struct memory residual;
	struct memory velocity;     /* and the momentum, if the recipe has one */
	int stale;                  /* worker.residual and velocity were restored and are newer */
	struct device_part *parts;  /* n_shards */
	struct device_sent *sent;   /* n_shards */
	struct memory payloads;     /* as parts are packed */
	struct payload_lane *lanes; /* n_shards */
	struct region *region;      /* over payloads, if any is posted from there; else NULL */
	void **windows,
		**windows_there;     /* [rank] of the owners whose windows are pinned; else NULL */
	void *pinned, *pinned_there; /* worker.staging, pinned: as the device reaches it; NULL: */
	struct memory landing;       /* a simulated rank's, whose pages others share: payloads come
					here */
	atomic_int late;             /* enum late_push; changed with the token held */
	struct message *heads;     /* n_shards: what the messages of the push under way say of it */
	int settled;               /* what they hold has left the residual */
	uint64_t asked_ns;         /* when CUDA was asked whether it failed */
	struct memory copies[2];   /* of gradients, pinned; empty: none was needed */
	float *params;             /* of the pull under way, where it is made on the host, */
	struct memory params_copy; /* and its copy there, pinned */
	float *values;             /* selected_most: of parts that the host encodes */
	uint32_t *unsent; /* the same: which of them keep their momentum; NULL: the recipe masks
			     none */
};

/* ---- on_device_select.c ---- */
/* Why the recipe's selection is made on the host; NULL: it can be made on the device. */
const char *on_device_why_not(const sluice_model *model);
/* How this step selects: k, or the rule that the recipe names. */
void on_device_rule(const sluice_model *model, struct device_select *call);

/* ---- on_device_fold.c: momentum, clip= and nonfinite=zero ---- */
/* With the residual's memory. */
int on_device_fold_open(sluice_model *model);
void on_device_fold_close(sluice_model *model);
/* worker.velocity to the device, enqueued: 0, or -1 as device_ops.copy; and back, if it lives
 * there. */
int on_device_give_velocity(sluice_model *model);
int on_device_fetch_velocity(sluice_model *model);
/* What the recipe does to the gradient of this step before it is added. */
void on_device_fold(const sluice_model *model, struct device_select *call);
/* Around worker_encode() of a part that was not packed, whose n coordinates are worker.index: says
 * for settle() which of them keep their momentum; unsent is of these. */
void on_device_mark(sluice_model *model, uint32_t n);
void on_device_marked(sluice_model *model, uint32_t *unsent, uint32_t n);
/* The momentum that is cleared where it was sent, or NULL. */
float *on_device_masked(const sluice_model *model);

/* ---- on_device.c ---- */
/* Makes the gradients of a push host memory (before may be NULL, and then stays it), or leaves
 * *grad where it is if it is selected there: then worker.device.selects. */
int on_device_gradient(sluice_model *model, const void **grad, const void **before);
/* The residual comes home, if it lives on the device: gradients are selected on the host from now
 * on. */
int on_device_come_home(sluice_model *model);
/* Makes a range of count coordinates host memory. */
int on_device_range(sluice_model *model, const void **grad, uint64_t count);

/* ---- on_device_push.c ---- */
int on_device_push_open(sluice_model *model);
void on_device_push_close(sluice_model *model);
/* Whether the device packs the messages, where they fit; else the host encodes them from what was
 * selected. */
int on_device_packs(const struct recipe *recipe);
/* CUDA failed in a push, as the calling thread was just told: the job ends, because CUDA's errors
 * stay with the process. SLUICE_EGPU. held: the token is. */
int on_device_push_failed(sluice_model *model, int held);
/* signal_accumulate(), the selection and the payloads, enqueued on the model's stream. On failure
 * the job has ended. */
int on_device_accumulate(sluice_model *model, const void *grad);
/* All messages into their staging slots; then what they hold leaves the residual. On failure
 * nothing is posted. */
int on_device_send(sluice_model *model);
/* Payloads go where this step's next messages will be posted from, or be read. */
void on_device_aim(sluice_model *model);
/* The device has made the payload of this message (device.sent): the header, into the shard's
 * staging slot. */
void on_device_stage(sluice_model *model, uint32_t shard, struct message *m);
/* Posts a message whose payload is apart; header: the transfer of the whole, which is made the
 * header's. */
int on_device_post(sluice_model *model, uint32_t shard, struct transfer *whole);

/* ---- on_device_late.c ---- */
/* After on_device_accumulate(): sluice_push() returns, and the rest follows by itself; but where
 * the host encodes, or of what the device finishes meanwhile, it is done. start_ns: when the push
 * began, for the stats. */
int on_device_leave(sluice_model *model, uint64_t start_ns);
/* Values that shards asked for are enqueued. Token held. */
int on_device_ask(sluice_model *model);
/* What can be done of it without waiting. Any thread; token held. */
void on_device_advance(sluice_model *model);
/* Waits until all is posted. Errors are the job's, or SLUICE_EGPU while the stream is captured:
 * then the push stands. Of the application's calls; on_device_park(): token held. */
int on_device_await(sluice_model *model);
int on_device_park(sluice_model *model);
/* What worker_message() said when the push was called, while its messages are staged; else NULL. */
const struct message *on_device_said(const sluice_model *model, uint32_t shard);
/* After on_device_send_values(), token held, of the pull: 1: the values are staged, or none are
 * awaited. */
int on_device_valued(sluice_model *model);
/* What the device is at, as what is waited for. 0: nothing of it is. */
int on_device_describe(const sluice_model *model, char *text, size_t cap);
/* Before memory is freed that the device may write still. */
void on_device_abandon(sluice_model *model);

/* ---- on_device_sketch.c ---- */
uint32_t on_device_most_columns(const sluice_model *model);
/* How long the payloads of a push's sketches are. */
void on_device_measure_sketches(sluice_model *model);
/* All messages into their staging slots: sketches; and when shards have asked, the values: they are
 * enqueued, and staged by on_device_stage_values() once the device is through (on_device_late.c).
 * On failure nothing is sent. SLUICE_ENUMERIC: a sketch is not finite; worker.overflowed says
 * where. */
int on_device_send_sketches(sluice_model *model);
int on_device_send_values(sluice_model *model);
int on_device_stage_values(sluice_model *model);
/* What was published (worker.value, which is overwritten) begins anew; index: relative to the
 * shard, NULL: all but the zeros. */
int on_device_clear(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		    uint32_t n);

/* Copies the residual to worker.residual, if it lives on the device. */
int on_device_fetch_residual(sluice_model *model);

/* The target of a pull: *target stays where it is, or, where the recipe does more with parameters
 * than adding deltas, becomes a copy in host memory, which on_device_pulled() brings back unless rc
 * is an error. */
int on_device_target(sluice_model *model, float **target);
int on_device_pulled(sluice_model *model, int rc);
/* What a decoded delta does to the target, wherever it is. */
int on_device_apply(sluice_model *model, float *vector, const uint32_t *index, const float *value,
		    uint32_t count);
/* n zeros. */
int on_device_zero(sluice_model *model, float *target, size_t n);

/* Host memory with the n parameters, which may be on a device: *host is params itself, or a copy
 * that on_device_return() writes back (unless failed) and frees. */
struct borrowed {
	float *host, *params;
	const struct device_ops *ops;
	void *stream; /* of the model: what writes params is there */
	size_t n;
};
int on_device_borrow(float *params, size_t n, void *stream, struct borrowed *out);
int on_device_return(struct borrowed *b, int failed);

void on_device_close(sluice_model *model);
/* bytes from the device, waited for. */
int on_device_fetch(sluice_model *model, void *to, const void *from, size_t bytes);
#endif
