/* SPDX-License-Identifier: BSD-3-Clause
 * See ladder.h. */
#include "rdma/ladder.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/verbs.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_int last_rung = -1;
static const char *const rung_names[] = { "host memory", "dma-buf", "peer memory", "staging" };

static void dereg(struct ibv_mr **mr)
{
	if (*mr != NULL)
		ibv_dereg_mr(*mr);
	*mr = NULL;
}

int register_host(struct ibv_pd *pd, void *base, size_t bytes, int access, const char *what,
		  struct ibv_mr **out)
{
	int rc = verbs_memlock_check(bytes, what);

	if (rc < 0) {
		char sentence[ERROR_TEXT_BYTES];

		snprintf(sentence, sizeof(sentence), "%s", sluice_last_error());
		return fail(rc, "%s", sentence);
	}
	*out = ibv_reg_mr(pd, base, bytes, access);
	if (*out != NULL)
		return SLUICE_OK;
	return fail(errno == ENOMEM ? SLUICE_ENOMEM : SLUICE_EDEVICE,
		    "%s: ibv_reg_mr of %zu bytes with access 0x%x: %s%s", what, bytes,
		    (unsigned)access, errno_text(errno),
		    errno == ENOMEM ? "; look at the limit on locked memory (ulimit -l)" : "");
}

/* One rung of device memory: registered as told, then proved. why says what was wrong. */
static int try_rung(struct ibv_pd *pd, const struct verbs_device *device,
		    const struct memory *memory, enum ladder_rung rung, int access,
		    struct ladder_memory *out, char why[200])
{
	const char *call = rung == LADDER_DMABUF ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr";
	char reason[160];

	if (rung == LADDER_DMABUF && memory->fd < 0) {
		snprintf(why, 200, "it was not exported");
		return -1;
	}
	out->address = (uintptr_t)memory->address;
	if (rung == LADDER_DMABUF)
		out->mr = ibv_reg_dmabuf_mr(pd, memory->fd_offset, memory->bytes, out->address,
					    memory->fd, access);
	else
		out->mr = ibv_reg_mr(pd, memory->address, memory->bytes, access);
	if (out->mr == NULL) {
		snprintf(why, 200, "%s: %s", call, errno_text(errno));
		return -1;
	}
	if (ladder_prove(pd, device, out->mr, out->address, memory->bytes, reason) == 0)
		return 0;
	snprintf(why, 200, "%s worked, but %s", call, reason);
	dereg(&out->mr);
	return -1;
}

static int stage(struct ibv_pd *pd, const struct memory *memory, int access,
		 struct ladder_memory *out)
{
	int rc = region_open(memory->bytes, 0, "staging", &out->staging);

	if (rc == SLUICE_OK)
		rc = register_host(pd, out->staging->base, memory->bytes, access, "staging",
				   &out->mr);
	if (rc < 0) {
		region_close(&out->staging);
		return rc;
	}
	out->address = (uintptr_t)out->staging->base;
	return SLUICE_OK;
}

int ladder_register(struct ibv_pd *pd, const struct verbs_device *device,
		    const struct memory *memory, int access, struct ladder_memory *out)
{
	static const enum ladder_rung rungs[] = { LADDER_DMABUF, LADDER_PEERMEM };
	struct ladder_memory result = { .rung = LADDER_HOST };
	int rc = SLUICE_OK, level;

	if (memory->place == MEMORY_HOST) {
		rc = register_host(pd, memory->address, memory->bytes, access, "host memory",
				   &result.mr);
		result.address = (uintptr_t)memory->address;
		if (rc == SLUICE_OK)
			*out = result;
		return rc;
	}
	access |= IBV_ACCESS_LOCAL_WRITE;
	for (size_t i = 0; i < sizeof(rungs) / sizeof(rungs[0]) && result.mr == NULL; i++) {
		size_t used = strlen(result.reason);
		char why[200];

		result.rung = rungs[i];
		if (try_rung(pd, device, memory, rungs[i], access, &result, why) < 0)
			snprintf(result.reason + used, sizeof(result.reason) - used, "%s%s: %s",
				 used > 0 ? "; " : "", rung_names[rungs[i]], why);
	}
	if (result.mr == NULL) {
		result.rung = LADDER_STAGING;
		rc = stage(pd, memory, access, &result);
		if (rc < 0)
			return rc;
	}
	/* Once: every peer's registration of every region mostly comes to the same. */
	level = atomic_exchange(&last_rung, (int)result.rung) == (int)result.rung ? LOG_DEBUG :
										    LOG_INFO;
	log_line(level, "rdma", "%zu bytes of device memory: %s on %s%s%s", memory->bytes,
		 rung_names[result.rung], device->name,
		 result.reason[0] != '\0' ? ", because " : "", result.reason);
	*out = result;
	return SLUICE_OK;
}

void ladder_end(struct ladder_memory *memory)
{
	dereg(&memory->mr);
	region_close(&memory->staging);
	*memory = (struct ladder_memory){ 0 };
}
