/* SPDX-License-Identifier: BSD-3-Clause
 * Regions of ranks in one process; see in_process.h. A descriptor names a place in a table of this
 * process and counts the reuses of that place, because a rank whose part of a collective call fails
 * may close a region before another rank opens it. */
#include "rdma/in_process.h"
#include "base/bytes.h"
#include "base/error.h"
#include "sluice.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAGIC = 0x50494c53 }; /* "SLIP" */
enum {                       /* byte offsets of a descriptor; zeros between turn and CRC */
       AT_MAGIC = 0,
       AT_ACCESS = 4,
       AT_PID = 8,
       AT_BYTES = 16,
       AT_PLACE = 24,
       AT_TURN = 28,
       AT_CRC = 60
};
enum { LINE_BYTES = 64 };

struct common {
	size_t users, bytes;
	void *base;
	unsigned access;
	uint32_t place;
};

/* All regions of simulated ranks. Places in the table are reused. */
static struct {
	pthread_mutex_t lock;
	struct place {
		struct common *common; /* NULL: free */
		uint32_t turn, next_free;
	} * at;
	uint32_t n, room, first_free; /* first_free is 1 + the index of a free place, or 0 */
} places = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int room_for_one(void)
{
	const uint32_t room = places.room ? 2 * places.room : 64;
	struct place *more;

	if (places.first_free || places.n < places.room)
		return 1;
	more = room > places.room ? realloc(places.at, room * sizeof(*more)) : NULL;
	if (!more)
		return 0;
	places.at = more;
	places.room = room;
	return 1;
}

/* Returns 0 if there is no memory for a place. */
static int take_place(struct common *common)
{
	pthread_mutex_lock(&places.lock);
	const int taken = room_for_one();

	if (taken && places.first_free) {
		common->place = places.first_free - 1;
		places.first_free = places.at[common->place].next_free;
		places.at[common->place].common = common;
	} else if (taken) {
		common->place = places.n++;
		places.at[common->place] = (struct place){ .common = common };
	}
	pthread_mutex_unlock(&places.lock);
	return taken;
}

/* Requires the lock. */
static void leave_place(const struct common *common)
{
	struct place *place = &places.at[common->place];

	place->common = NULL;
	place->turn++;
	place->next_free = places.first_free;
	places.first_free = common->place + 1;
}

static _Thread_local int regions_on;

void in_process_regions(int on)
{
	regions_on = on;
}

int in_process_regions_on(void)
{
	return regions_on;
}

/* Returns zeroed memory. It is page-aligned like other regions, unless most of a page would be
 * wasted. */
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

	if (common)
		*common = (struct common){ 1, bytes, base, access, 0 };
	if (!region || !common || !base || !take_place(common)) {
		free(region);
		free(common);
		free(base);
		return fail(SLUICE_ENOMEM,
			    "no memory for region %s of %zu bytes of a simulated rank: simulate "
			    "fewer ranks or a smaller model",
			    name, bytes);
	}
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
	pthread_mutex_lock(&places.lock);
	const size_t left = --common->users;

	if (!left)
		leave_place(common);
	pthread_mutex_unlock(&places.lock);
	if (left)
		return;
	free(common->base);
	free(common);
}

void in_process_describe(const struct region *region, uint8_t out[REGION_HEAD_BYTES])
{
	memset(out, 0, REGION_HEAD_BYTES);
	put_le32(out + AT_MAGIC, MAGIC);
	put_le32(out + AT_ACCESS, region->access);
	put_le32(out + AT_PID, (uint32_t)getpid());
	put_le64(out + AT_BYTES, region->bytes);
	pthread_mutex_lock(&places.lock); /* another thread may move the table */
	put_le32(out + AT_PLACE, region->common->place);
	put_le32(out + AT_TURN, places.at[region->common->place].turn);
	pthread_mutex_unlock(&places.lock);
	put_le32(out + AT_CRC, crc32c(0, out, AT_CRC));
}

/* Returns NULL if the region was closed, or if it is not the region that the descriptor names. */
static struct common *find_common(const uint8_t descriptor[REGION_HEAD_BYTES])
{
	const uint32_t place = get_le32(descriptor + AT_PLACE);
	struct common *common = NULL;

	pthread_mutex_lock(&places.lock);
	if (place < places.n && places.at[place].turn == get_le32(descriptor + AT_TURN))
		common = places.at[place].common;
	if (common && (common->bytes != get_le64(descriptor + AT_BYTES) ||
		       common->access != get_le32(descriptor + AT_ACCESS)))
		common = NULL;
	if (common)
		common->users++;
	pthread_mutex_unlock(&places.lock);
	return common;
}

int in_process_reach(const uint8_t descriptor[REGION_HEAD_BYTES], int peer, struct remote *remote,
		     struct common **common_out)
{
	if (get_le32(descriptor + AT_MAGIC) != MAGIC ||
	    get_le32(descriptor + AT_PID) != (uint32_t)getpid() ||
	    get_le32(descriptor + AT_CRC) != crc32c(0, descriptor, AT_CRC))
		return fail(SLUICE_EWIRE,
			    "simulated rank %d described a region that is not of this process",
			    peer);
	struct common *common = find_common(descriptor);

	if (!common)
		return fail(SLUICE_EPEER,
			    "simulated rank %d closed the region that it described: its own call "
			    "failed and reports why",
			    peer);
	remote->bytes = common->bytes;
	remote->access = common->access;
	*common_out = common;
	return SLUICE_OK;
}
