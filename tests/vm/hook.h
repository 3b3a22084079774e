/* SPDX-License-Identifier: BSD-3-Clause
 * Sees, and may change, every work request that a process posts. ibv_post_send() is an inline
 * function that calls through the device context, so the context is changed when it is opened, by
 * whomever: hook.c stands in front of ibv_open_device() of libibverbs, preloaded or linked into the
 * program. */
#ifndef TESTS_VM_HOOK_H
#define TESTS_VM_HOOK_H
#include <infiniband/verbs.h>

/* The user of hook.c defines these. Called before a chain of requests is passed to the device: */
void hook_before_post(struct ibv_qp *qp, struct ibv_send_wr *chain);
/* called after each of its requests that the device accepted: */
void hook_posted(struct ibv_qp *qp, const struct ibv_send_wr *request);
/* called for each completion: */
void hook_completed(const struct ibv_wc *completion);
#endif
