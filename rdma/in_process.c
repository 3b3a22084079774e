/* SPDX-License-Identifier: BSD-3-Clause
 * Regions of ranks that live in one process; see in_process.h. Nothing here crosses a process, so a
 * descriptor is an address; that it was made by this process is checked all the same. */
#include "rdma/in_process.h"
#include "base/bytes.h"
#include "base/error.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAGIC = 0x50494c53 }; /* "SLIP" */
enum { /* byte offsets of a descriptor; between the address and the CRC zeros */
       AT_MAGIC = 0,
       AT_ACCESS = 4,
       AT_PID = 8,
       AT_BYTES = 16,
       AT_ADDRESS = 24,
       AT_CRC = 60
};
enum { LINE_BYTES = 64 };

struct common {
	size_t users;
	void *base;
};

static _Thread_local int regions_on;

void in_process_regions(int on)
{
	regions_on = on;
}

int in_process_regions_on(void)
{
	return regions_on;
}

/* Page-aligned as other regions are, unless it is so small that thousands of them would waste most
 * of a page. */
static void *zeroed(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), alignment = bytes < page ? LINE_BYTES : page;
	size_t rounded = (bytes + alignment - 1) / alignment * alignment;
	void *base = rounded >= bytes ? aligned_alloc(alignment, rounded) : NULL;

	return base ? memset(base, 0, rounded) : NULL;
}

int in_process_region_open(size_t bytes, unsigned access, const char *name, struct region **out)
{
	struct region *region = calloc(1, sizeof(*region) + sizeof(*region->registrations));
	struct common *common = calloc(1, sizeof(*common));
	void *base = zeroed(bytes);

	if (!region || !common || !base) {
		free(region);
		free(common);
		free(base);
		return fail(SLUICE_ENOMEM,
			    "no memory for region %s of %zu bytes of a simulated rank: simulate "
			    "fewer ranks or a smaller model",
			    name, bytes);
	}
	*common = (struct common){ 1, base };
	*region = (struct region){ .base = base,
				   .bytes = bytes,
				   .access = access,
				   .fd = -1,
				   .common = common,
				   .registrations = (struct registration **)(void *)(region + 1) };
	*out = region;
	return SLUICE_OK;
}

void *common_base(struct common *common)
{
	return common->base;
}

void common_release(struct common **common_in)
{
	struct common *common = *common_in;

	if (!common)
		return;
	*common_in = NULL;
	if (--common->users)
		return;
	free(common->base);
	free(common);
}

void in_process_describe(const struct region *region, uint8_t out[REGION_DESCRIPTOR_BYTES])
{
	memset(out, 0, REGION_DESCRIPTOR_BYTES);
	put_le32(out + AT_MAGIC, MAGIC);
	put_le32(out + AT_ACCESS, region->access);
	put_le32(out + AT_PID, (uint32_t)getpid());
	put_le64(out + AT_BYTES, region->bytes);
	put_le64(out + AT_ADDRESS, (uint64_t)(uintptr_t)region->common);
	put_le32(out + AT_CRC, crc32c(0, out, AT_CRC));
}

int in_process_reach(const uint8_t descriptor[REGION_DESCRIPTOR_BYTES], int peer,
		     struct remote *remote, struct common **common_out)
{
	struct common *common;

	if (get_le32(descriptor + AT_MAGIC) != MAGIC ||
	    get_le32(descriptor + AT_PID) != (uint32_t)getpid() ||
	    get_le32(descriptor + AT_CRC) != crc32c(0, descriptor, AT_CRC))
		return fail(SLUICE_EWIRE,
			    "simulated rank %d described a region that is not of this process",
			    peer);
	common = (struct common *)(uintptr_t)get_le64(descriptor + AT_ADDRESS);
	common->users++;
	remote->bytes = get_le64(descriptor + AT_BYTES);
	remote->access = get_le32(descriptor + AT_ACCESS);
	*common_out = common;
	return SLUICE_OK;
}
