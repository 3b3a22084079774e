/* SPDX-License-Identifier: BSD-3-Clause
 * See hook.h. All devices of a test are of one driver, so one pair of driver functions is
 * enough. */
#include "hook.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int (*driver_post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static int (*driver_poll_cq)(struct ibv_cq *, int, struct ibv_wc *);

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *chain, struct ibv_send_wr **bad)
{
	int rc;

	hook_before_post(qp, chain);
	rc = driver_post_send(qp, chain, bad);
	for (struct ibv_send_wr *request = chain; request; request = request->next) {
		if (rc && request == *bad)
			break;
		hook_posted(qp, request);
	}
	return rc;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *completions)
{
	int got = driver_poll_cq(cq, n, completions);

	for (int i = 0; i < got; i++)
		hook_completed(&completions[i]);
	return got;
}

__attribute__((visibility("default"))) struct ibv_context *ibv_open_device(
	struct ibv_device *device)
{
	static struct ibv_context *(*next)(struct ibv_device *);
	struct ibv_context *context;

	if (!next)
		next = (struct ibv_context * (*)(struct ibv_device *))
			dlsym(RTLD_NEXT, "ibv_open_device");
	if (!next) {
		fprintf(stderr, "hook: no ibv_open_device to stand in front of\n");
		abort();
	}
	context = next(device);
	if (context && context->ops.post_send != post_send) {
		driver_post_send = context->ops.post_send;
		driver_poll_cq = context->ops.poll_cq;
		context->ops.post_send = post_send;
		context->ops.poll_cq = poll_cq;
	}
	return context;
}
