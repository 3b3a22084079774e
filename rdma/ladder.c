/* SPDX-License-Identifier: BSD-3-Clause
 * See ladder.h. */
#include "rdma/ladder.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/prove.h"
#include "sluice.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum rung { DMABUF, PEER_MEMORY, NOT_REACHED };
static const char *const rung_names[] = { "dma-buf", "peer memory" };
static const char *const outcomes[] = { "reads it by dma-buf", "reads it through peer memory",
					"does not reach it" };
static atomic_int last_rung = -1;

int register_host(struct ibv_pd *pd, void *base, size_t bytes, int access, const char *what,
		  struct ibv_mr **out)
{
	int rc = verbs_memlock_check(bytes, what);

	if (rc) {
		char sentence[ERROR_TEXT_BYTES];

		snprintf(sentence, sizeof(sentence), "%s", sluice_last_error());
		return fail(rc, "%s", sentence);
	}
	*out = ibv_reg_mr(pd, base, bytes, access);
	if (*out)
		return SLUICE_OK;
	return fail(errno == ENOMEM ? SLUICE_ENOMEM : SLUICE_EDEVICE,
		    "%s: ibv_reg_mr of %zu bytes with access 0x%x: %s%s", what, bytes,
		    (unsigned)access, errno_text(errno),
		    errno == ENOMEM ? "; look at the limit on locked memory (ulimit -l)" : "");
}

/* Registers by one rung and proves it. NULL: why says what was wrong. */
static struct ibv_mr *try_rung(struct ibv_pd *pd, const struct verbs_device *device,
			       const struct memory *memory, enum rung rung, char why[200])
{
	/* The proof writes what it has saved of that memory back to it. */
	const int access = IBV_ACCESS_LOCAL_WRITE;
	const uint64_t address = (uintptr_t)memory->address;
	struct ibv_mr *mr;
	char reason[PROVE_WHY_BYTES];

	if (rung == DMABUF && memory->fd < 0) {
		snprintf(why, 200, "it was not exported");
		return NULL;
	}
	mr = rung == DMABUF ? ibv_reg_dmabuf_mr(pd, memory->fd_offset, memory->bytes, address,
						memory->fd, access) :
			      ibv_reg_mr(pd, memory->address, memory->bytes, access);
	if (!mr) {
		snprintf(why, 200, "%s: %s", rung == DMABUF ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr",
			 errno_text(errno));
		return NULL;
	}
	if (!prove_memory(pd, device, mr, address, memory->bytes, reason))
		return mr;
	snprintf(why, 200, "it was registered, but %s", reason);
	ibv_dereg_mr(mr);
	return NULL;
}

int ladder_register(struct ibv_pd *pd, const struct verbs_device *device,
		    const struct memory *memory, struct ibv_mr **out)
{
	char reasons[480] = "";
	enum rung rung = DMABUF;
	int level;

	*out = NULL;
	for (; rung < NOT_REACHED; rung++) {
		size_t used = strlen(reasons);
		char why[200];

		*out = try_rung(pd, device, memory, rung, why);
		if (*out)
			break;
		snprintf(reasons + used, sizeof(reasons) - used, "%s%s: %s", used > 0 ? "; " : "",
			 rung_names[rung], why);
	}
	/* Once: every peer's registration of every region mostly comes to the same. */
	level = atomic_exchange(&last_rung, (int)rung) == (int)rung ? LOG_DEBUG : LOG_INFO;
	log_line(level, "rdma", "%zu bytes of device memory: %s %s%s%s", memory->bytes,
		 device->name, outcomes[rung], reasons[0] ? ", because " : "", reasons);
	return *out ? SLUICE_OK :
		      fail_quietly(SLUICE_ENOSUPP, "%s does not reach this device memory: %s",
				   device->name, reasons);
}
