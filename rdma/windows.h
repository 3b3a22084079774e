/* SPDX-License-Identifier: BSD-3-Clause
 * The memory windows by which one peer reaches one registration. Cards limit how many bytes a
 * window covers, so a long registration is cut into several. Window i covers the bytes from i *
 * windows_bytes() on. The windows last as long as the peer's queue pair and are made again for the
 * next one. Called by rights.c, with its lock held. */
#ifndef RDMA_WINDOWS_H
#define RDMA_WINDOWS_H
#include "rdma/sendlog.h"
#include "rdma/verbs_device.h"

/* Returns how many bytes each window of a registration covers. most: the most bytes that the card
 * binds.
 */
uint64_t windows_cut(uint64_t bytes, uint64_t most);

/* Returns what a peer may do through the windows of a region. */
unsigned windows_access(const struct region *region);

struct windows;
struct windows_config {
	struct ibv_pd *pd;
	const struct verbs_device *device;
	int peer;
	const char *region; /* name of the region for messages; valid as long as the windows */
	uint64_t bytes, window_bytes;
	unsigned access; /* the peer's rights, IBV_ACCESS_REMOTE_* */
};
int windows_open(const struct windows_config *config, struct windows **out);
/* Accepts NULL. */
void windows_close(struct windows **w);

uint32_t windows_count(const struct windows *w);
/* Returns the number of bytes of a window, or 0 if one window covers the whole region. */
uint64_t windows_bytes(const struct windows *w);
/* Returns the key of window i for the current queue pair, or for the last queue pair if there is no
 * current one. */
uint32_t windows_key(const struct windows *w, uint32_t i);

/* Makes the windows of a new queue pair, unless they exist. Their keys are known from here on. */
int windows_make(struct windows *w);
/* Posts the bindings of those windows that are not bound yet. Returns 0, SLUICE_EAGAIN (the queue
 * is full: poll and call again), or another SLUICE_E*. */
int windows_bind(struct windows *w, struct ibv_mr *mr, struct sendlog *log);
/* If request number `request` of the queue pair was one of the bindings and has failed, returns 1
 * with an explanation. Accepts NULL. */
int windows_explain(const struct windows *w, uint64_t request, char why[200]);
/* Ends the windows. Called before the queue pair ends. Accepts NULL. */
void windows_end(struct windows *w);
#endif
