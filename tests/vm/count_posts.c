/* SPDX-License-Identifier: BSD-3-Clause
 * Preloaded into sluice-train by test_posts.sh: counts what the process posts, by kind, and writes
 * one line at the end to the file $COUNT_POSTS.RANK: push N BELLS notice N BELLS small N BELLS
 * write N BELLS read N BELLS control N BELLS other N BELLS. BELLS: calls that posted at least one
 * of the kind. push, notice: writes whose immediate says so; control: other immediates (barriers,
 * sums, status, greetings); small: writes without immediate and reads of up to 64 bytes (credits,
 * heartbeats); write: larger ones, which no protocol step should need. */
#include "hook.h"
#include "runtime/job/progress_token.h"
#include <endian.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SMALL_BYTES = 64 };
enum kind { PUSH, NOTICE, SMALL, WRITE, READ, CONTROL, OTHER, KINDS };
static const char *const names[KINDS] = { "push", "notice",  "small", "write",
					  "read", "control", "other" };
static atomic_ulong counts[KINDS], bells[KINDS];

static unsigned long request_bytes(const struct ibv_send_wr *request)
{
	unsigned long bytes = 0;

	for (int i = 0; i < request->num_sge; i++)
		bytes += request->sg_list[i].length;
	return bytes;
}

static enum kind kind_of(const struct ibv_send_wr *request)
{
	switch (request->opcode) {
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		switch (be32toh(request->imm_data) >> 28) {
		case IMM_PUSH: return PUSH;
		case IMM_NOTICE: return NOTICE;
		default: return CONTROL;
		}
	case IBV_WR_RDMA_WRITE: return request_bytes(request) > SMALL_BYTES ? WRITE : SMALL;
	case IBV_WR_RDMA_READ: return request_bytes(request) > SMALL_BYTES ? READ : SMALL;
	default: return OTHER;
	}
}

void hook_before_post(struct ibv_qp *qp, struct ibv_send_wr *chain)
{
	int has[KINDS] = { 0 };

	(void)qp;
	for (; chain; chain = chain->next)
		has[kind_of(chain)] = 1;
	for (int i = 0; i < KINDS; i++)
		atomic_fetch_add(&bells[i], (unsigned long)has[i]);
}

void hook_posted(struct ibv_qp *qp, const struct ibv_send_wr *request)
{
	(void)qp;
	atomic_fetch_add(&counts[kind_of(request)], 1);
}

void hook_completed(const struct ibv_wc *completion)
{
	(void)completion;
}

static void __attribute__((destructor)) report(void)
{
	const char *file = getenv("COUNT_POSTS"), *rank = getenv("SLURM_PROCID");
	unsigned long sum = 0;
	char path[4096];
	FILE *out;

	for (int i = 0; i < KINDS; i++)
		sum += atomic_load(&counts[i]);
	/* the shell that becomes the rank also loads this, but posts nothing */
	if (!file || !rank || sum == 0)
		return;
	snprintf(path, sizeof(path), "%s.%s", file, rank);
	out = fopen(path, "w");
	if (!out)
		return;
	for (int i = 0; i < KINDS; i++)
		fprintf(out, "%s %lu %lu%s", names[i], atomic_load(&counts[i]),
			atomic_load(&bells[i]), i + 1 < KINDS ? " " : "\n");
	fclose(out);
}
