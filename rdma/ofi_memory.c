/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_memory.h. */
#include "rdma/ofi_memory.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The descriptor: magic, access, bytes u64, address u64, key u64, owner, user, zeros, CRC-32C. */
enum { REGION_MAGIC = 0x4e47524f, REGION_CRC_AT = REGION_HEAD_BYTES - 4 }; /* "ORGN" */

struct region_memory {
	struct registration registration;
	struct fid_mr *local; /* the registration for operations of this rank */
	enum { UNTRIED, READ_IN_PLACE, NOT_REACHED } device; /* for device memory */
	struct {
		struct fid_mr *mr; /* the registration for the peer */
		size_t from;       /* the offset of the registration's first byte in the region */
	} of[];                    /* [rank] */
};

/* Addresses of a closed region. libfabric cannot cancel the transfers with a single peer. A get
 * that was given up may be answered late, and a put that has begun to arrive continues. These
 * addresses therefore stay mapped, to unused pages, until the endpoint is closed. */
struct vacated {
	struct vacated *next;
	void *base;
	size_t bytes;
};

struct ofi_memory {
	struct ofi_fabric *fabric;
	int rank, size, closing;
	struct registry registry; /* of struct region_memory */
	struct vacated *vacated;
	uint8_t *revoked; /* [rank] */
};

struct ofi_remote {
	struct remote remote;
	struct ofi_target target;
};

static struct ofi_remote *remote_of(const struct remote *r)
{
	return (struct ofi_remote *)(uintptr_t)r; /* its first member */
}

/* ---- registrations ---------------------------------------------------------------- */

static void close_mr(struct fid_mr **mr)
{
	int err = *mr ? fi_close(&(*mr)->fid) : 0;

	if (err)
		log_line(LOG_WARN, "rdma", "ofi: cannot end a registration: error %d", -err);
	*mr = NULL;
}

/* Frees the region's memory and keeps its addresses mapped. Returns 0 if that is not possible. */
static int vacate(struct ofi_memory *m, const struct region *region)
{
	struct vacated *v = region->common || region->device ? NULL : malloc(sizeof(*v));

	if (!v)
		return 0;
	*v = (struct vacated){ .next = m->vacated,
			       .base = region->mapped,
			       .bytes = region->mapped_bytes };
	if (mmap(v->base, v->bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
		free(v);
		return 0;
	}
	m->vacated = v;
	return 1;
}

static int end_region_memory(void *owner, struct registration *registration)
{
	struct region_memory *r = (struct region_memory *)(void *)registration;
	struct ofi_memory *m = owner;
	const int kept = !m->closing && vacate(m, registration->region);

	for (int p = 0; p < m->size; p++)
		close_mr(&r->of[p].mr);
	close_mr(&r->local);
	free(r);
	return kept;
}

/* ---- what peers may do here ------------------------------------------------------- */

static uint64_t access_for(const struct region *region)
{
	return (region->access & REGION_READ ? FI_REMOTE_READ : 0) |
	       (region->access & REGION_WRITE ? FI_REMOTE_WRITE : 0);
}

static void encode_region(const struct ofi_memory *m, int peer, const struct region_memory *r,
			  uint8_t out[REGION_HEAD_BYTES])
{
	const uint8_t *first = (const uint8_t *)r->registration.region->base + r->of[peer].from;

	memset(out, 0, REGION_HEAD_BYTES);
	put_le32(out, REGION_MAGIC);
	put_le32(out + 4, r->registration.region->access);
	put_le64(out + 8, r->registration.region->bytes);
	/* The address of the region's first byte, to which the peer adds its offsets. It wraps
	 * around below 0 if the provider's addresses start at 0 and the registration starts inside
	 * the region. */
	put_le64(out + 16, ofi_fabric_origin(m->fabric, first) - r->of[peer].from);
	put_le64(out + 24, fi_mr_key(r->of[peer].mr));
	put_le32(out + 32, (uint32_t)m->rank);
	put_le32(out + 36, (uint32_t)peer);
	put_le32(out + REGION_CRC_AT, crc32c(0, out, REGION_CRC_AT));
}

int ofi_memory_describe(struct ofi_memory *m, int peer, const struct region *region, size_t from,
			size_t n, uint8_t descriptor[REGION_HEAD_BYTES])
{
	struct region_memory *r;
	int rc;

	if (m->revoked[peer])
		return fail_quietly(SLUICE_EPEER, "rank %d is gone", peer);
	rc = registry_add(&m->registry, region, &r);
	if (!rc && !r->of[peer].mr) {
		rc = ofi_fabric_register(m->fabric, (uint8_t *)region->base + from, n,
					 access_for(region), "a region for peers", &r->of[peer].mr);
		r->of[peer].from = from;
	}
	if (!rc)
		encode_region(m, peer, r, descriptor);
	return rc;
}

void ofi_memory_revoke(struct ofi_memory *m, int peer)
{
	m->revoked[peer] = 1;
	for (struct registration *r = m->registry.first; r; r = r->next_there)
		close_mr(&((struct region_memory *)(void *)r)->of[peer].mr);
}

/* ---- what this rank may do there -------------------------------------------------- */

int ofi_memory_reach(struct ofi_memory *m, struct endpoint *e,
		     const uint8_t descriptor[REGION_HEAD_BYTES], struct remote **out)
{
	uint8_t d[REGION_HEAD_BYTES];
	const int owner = e->peer;
	struct ofi_remote *r;

	memcpy(d, descriptor, sizeof(d));
	if (get_le32(d) != REGION_MAGIC ||
	    get_le32(d + REGION_CRC_AT) != crc32c(0, d, REGION_CRC_AT))
		return fail(SLUICE_EWIRE, "rank %d described a region with a wrong checksum",
			    owner);
	if (!get_le32(d + 4) || get_le32(d + 4) & ~(unsigned)(REGION_READ | REGION_WRITE) ||
	    !get_le64(d + 8))
		return fail(SLUICE_EWIRE,
			    "rank %d described a region of invalid access, size or address", owner);
	if (get_le32(d + 32) != (uint32_t)owner || get_le32(d + 36) != (uint32_t)m->rank)
		return fail(SLUICE_EWIRE, "rank %d gave rank %d a region of rank %u for rank %u",
			    owner, m->rank, get_le32(d + 32), get_le32(d + 36));
	r = calloc(1, sizeof(*r));
	if (!r)
		return fail(SLUICE_ENOMEM, "ofi: no memory for %zu bytes", sizeof(*r));
	r->remote = (struct remote){ .endpoint = e,
				     .access = get_le32(d + 4),
				     .bytes = get_le64(d + 8) };
	r->target = (struct ofi_target){ .address = get_le64(d + 16), .key = get_le64(d + 24) };
	*out = &r->remote;
	return SLUICE_OK;
}

void ofi_memory_leave(struct remote **remote)
{
	if (!remote || !*remote)
		return;
	free(remote_of(*remote));
	*remote = NULL;
}

struct ofi_target ofi_memory_target(const struct remote *remote)
{
	return remote_of(remote)->target;
}

/* ---- local memory ----------------------------------------------------------------- */

int ofi_memory_local(struct ofi_memory *m, const struct region *region, void **desc)
{
	struct region_memory *r;
	int rc;

	*desc = NULL;
	rc = registry_add(&m->registry, region,
			  /* Device memory is registered even before its test, so that this call can
			   * report the end of the registration. */
			  &r);
	if (!rc && region->device && r->device != READ_IN_PLACE)
		return fail(SLUICE_ENOSUPP,
			    "ofi: the provider cannot read this device memory directly");
	if (!rc && region->device)
		*desc = fi_mr_desc(r->local);
	if (rc || region->device || !ofi_fabric_wants_local(m->fabric))
		return rc;
	if (!r->local)
		rc = ofi_fabric_register(m->fabric, region->base, region->bytes,
					 FI_READ | FI_WRITE | FI_SEND | FI_RECV, "a local region",
					 &r->local);
	if (!rc)
		*desc = fi_mr_desc(r->local);
	return rc;
}

int ofi_memory_in_place(struct ofi_memory *m, const struct region *region)
{
	struct region_memory *r;
	const int rc = registry_add(&m->registry, region, &r);

	if (rc)
		return rc;
	return r->device == UNTRIED ? OFI_UNTRIED : r->device == READ_IN_PLACE;
}

int ofi_memory_try_device(struct ofi_memory *m, const struct region *region, struct fid_mr **mr)
{
	struct region_memory *r;
	int err = registry_add(&m->registry, region, &r) ? -FI_ENOMEM : 0;

	if (!err && !r->local)
		err = ofi_fabric_register_device(m->fabric, region->device, &r->local);
	*mr = err ? NULL : r->local;
	return err;
}

void ofi_memory_tried(struct ofi_memory *m, const struct region *region, int works)
{
	struct region_memory *r;

	if (!registry_add(&m->registry, region, &r))
		r->device = works ? READ_IN_PLACE : NOT_REACHED;
}

/* ---- opening and closing ---------------------------------------------------------- */

int ofi_memory_open(struct ofi_fabric *fabric, int rank, int size, pthread_mutex_t *lock,
		    struct ofi_memory **out)
{
	struct ofi_memory *m = calloc(1, sizeof(*m));

	if (m)
		m->revoked = calloc((size_t)size, 1);
	if (!m || !m->revoked) {
		free(m);
		return fail(SLUICE_ENOMEM, "ofi: no memory for the rights of %d peers", size);
	}
	m->fabric = fabric;
	m->rank = rank;
	m->size = size;
	m->registry = (struct registry){
		.owner = m,
		.transport = "ofi",
		.bytes = sizeof(struct region_memory) +
			 (size_t)size * sizeof(((struct region_memory *)0)->of[0]),
		.lock = lock,
		.end = end_region_memory,
	};
	*out = m;
	return SLUICE_OK;
}

void ofi_memory_close(struct ofi_memory **out)
{
	struct ofi_memory *m = *out;

	if (!m)
		return;
	m->closing = 1;
	registry_clear(&m->registry);
	while (m->vacated) {
		struct vacated *v = m->vacated;

		m->vacated = v->next;
		munmap(v->base, v->bytes);
		free(v);
	}
	free(m->revoked);
	free(m);
	*out = NULL;
}
