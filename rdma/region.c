/* SPDX-License-Identifier: BSD-3-Clause
 * Regions: memory of this process that peers may reach. Each is one sealed memory file without a
 * name, so nothing can outlive the processes that hold it. The runtime opens regions, and the
 * transports describe them; mapping.c maps a peer's region. */
#include "rdma/region.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/huge.h"
#include "rdma/in_process.h"
#include "rdma/mapping.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif
#ifndef MFD_HUGETLB
#define MFD_HUGETLB 0x0004U
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

int region_memfd(const char *label, unsigned flags)
{
	int fd = memfd_create(label, flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* the kernel is older than 6.3 */
		fd = memfd_create(label, flags);
	return fd;
}

static int make_file(const char *name, enum huge huge)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING |
			       (huge == HUGE_RESERVED ? MFD_HUGETLB | MFD_HUGE_2MB : 0);
	char label[64];

	/* The name appears in /proc/PID/maps, so that a user can see whose memory it is. */
	snprintf(label, sizeof(label), "sluice-%d-%s", (int)getpid(), name);
	return region_memfd(label, flags);
}

/* ftruncate() beyond the file size limit would send SIGXFSZ, which kills the process. */
int region_within_file_limit(size_t file_bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return 1;
	return file_bytes <= limit.rlim_cur;
}

/* If memory is overcommitted without limit, an allocation beyond the existing memory does not fail,
 * but gets a process killed. */
static int within_machine(size_t file_bytes)
{
	long pages = sysconf(_SC_PHYS_PAGES);

	return pages <= 0 || file_bytes / region_header_bytes() <= (size_t)pages;
}

static int fail_to_open(const char *name, size_t bytes, const char *call, int err)
{
	switch (err) {
	case ENOMEM:
	case ENOSPC:
		return fail(SLUICE_ENOMEM,
			    "cannot back region %s with %zu bytes of memory: %s: %s; give the job "
			    "more memory (srun --mem), fewer ranks on this node, or smaller rings",
			    name, bytes, call, errno_text(err));
	case EMFILE:
	case ENFILE:
		return fail(SLUICE_ENOMEM,
			    "cannot open region %s of %zu bytes: %s: %s; raise the limit on open "
			    "files (ulimit -n)",
			    name, bytes, call, errno_text(err));
	case EFBIG:
		return fail(SLUICE_ENOMEM,
			    "cannot open region %s of %zu bytes: the file size limit is lower; "
			    "raise it (ulimit -f unlimited)",
			    name, bytes);
	case ENOSYS:
	case EINVAL:
		return fail(SLUICE_ENOSUPP,
			    "cannot open region %s of %zu bytes: %s: %s; sealed memory files need "
			    "Linux 5.1 or newer",
			    name, bytes, call, errno_text(err));
	default:
		return fail(SLUICE_EDEVICE, "cannot open region %s of %zu bytes: %s: %s", name,
			    bytes, call, errno_text(err));
	}
}

static int make_nonce(uint64_t *nonce_out)
{
	uint64_t nonce = 0;

	while (nonce == 0)
		if (getrandom(&nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce) && errno != EINTR)
			return -1;
	*nonce_out = nonce;
	return 0;
}

static int back_with_memory(int fd, size_t file_bytes)
{
	int rc;

	if (ftruncate(fd, (off_t)file_bytes) < 0)
		return -1;
	/* Allocates all pages now, because missing memory must fail here and not as SIGBUS while a
	 * peer copies. */
	do
		rc = fallocate(fd, 0, 0, (off_t)file_bytes);
	while (rc && errno == EINTR);
	return rc;
}

/* Writes the descriptor in front of the memory, where mapping_open() checks it. */
static int write_header(const struct region *region)
{
	uint8_t header[REGION_HEAD_BYTES];

	descriptor_of(region, header);
	if (region->mapped != region->base) /* write() refuses a file on reserved huge pages, so
					       this uses the mapping */
		memcpy(region->mapped, header, sizeof(header));
	else if (pwrite(region->fd, header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return -1;
	return 0;
}

/* Forbids truncation and other seals. Without REGION_WRITE, also forbids new writable mappings. */
static int seal(const struct region *region)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	if (!(region->access & REGION_WRITE))
		seals |= F_SEAL_FUTURE_WRITE;
	return fcntl(region->fd, F_ADD_SEALS, seals);
}

int region_open(size_t bytes, unsigned access, const char *name, struct region **out)
{
	const enum huge huge = huge_kind(bytes);
	struct region *region;
	struct mapping mapping;
	const char *call;
	size_t file_bytes;
	int err;

	if (bytes == 0 || access & ~(unsigned)(REGION_READ | REGION_WRITE))
		return fail(SLUICE_EINVAL,
			    "region %s: %zu bytes with access 0x%x are not valid for a region",
			    name, bytes, access);
	if (in_process_regions_on())
		return in_process_region_open(bytes, access, name, out);
	file_bytes = region_file_bytes(bytes, huge);
	if (file_bytes == 0 || !within_machine(file_bytes))
		return fail_to_open(name, bytes, "more than this machine has", ENOMEM);
	if (!region_within_file_limit(file_bytes))
		return fail_to_open(name, bytes, "getrlimit", EFBIG);

	/* The list's head is allocated with the region, so that transports can change it through a
	 * const region. */
	region = calloc(1, sizeof(*region) + sizeof(*region->registrations));
	if (!region)
		return fail_to_open(name, bytes, "calloc", ENOMEM);
	region->registrations = (struct registration **)(void *)(region + 1);
	snprintf(region->name, sizeof(region->name), "%s", name);
	region->bytes = bytes;
	region->access = access;
	call = "memfd_create";
	region->fd = make_file(name, huge);
	if (region->fd < 0)
		goto failed;
	call = "getrandom";
	if (make_nonce(&region->nonce) < 0)
		goto failed;
	call = "fchmod";
	if (fchmod(region->fd, 0600) < 0)
		goto failed;
	call = "fallocate";
	if (back_with_memory(region->fd, file_bytes) < 0)
		goto failed;
	call = "mmap";
	if (mapping_make(region->fd, bytes, PROT_READ | PROT_WRITE, huge, &mapping))
		goto failed;
	region->base = mapping.base;
	region->mapped = mapping.start;
	region->mapped_bytes = mapping.bytes;
	call = "pwrite";
	if (write_header(region) < 0)
		goto failed;
	/* A forked child must neither see nor keep this memory. */
	call = "madvise";
	if (madvise(region->mapped, region->mapped_bytes, MADV_DONTFORK) < 0)
		goto failed;
	call = "fcntl(F_ADD_SEALS)";
	if (seal(region) < 0)
		goto failed;
	if (huge == HUGE_TRANSPARENT)
		huge_collapse(region->mapped, region->mapped_bytes, name);
	else if (huge == HUGE_RESERVED)
		log_line(LOG_INFO, "rdma", "region %s: all %zu kB lie on reserved huge pages", name,
			 file_bytes / 1024);
	if (!access) /* no peer will map it */
		region_close_file(region);
	*out = region;
	return SLUICE_OK;

failed:
	err = errno;
	region_close(&region);
	if (huge == HUGE_RESERVED && err != EMFILE && err != ENFILE && err != EPERM)
		return huge_fail_reserved(name, file_bytes / HUGE_PAGE_BYTES, call, err);
	return fail_to_open(name, bytes, call, err);
}

int region_open_device(const struct memory *memory, unsigned access, struct region **out)
{
	struct {
		struct region region;
		struct registration *registrations;
		struct memory memory;
	} * r;

	if (memory->place != MEMORY_DEVICE || !memory->bytes || access)
		return fail(SLUICE_EINVAL,
			    "device memory of %zu bytes cannot be a region with access 0x%x: peers "
			    "can reach only host memory",
			    memory->bytes, access);
	r = calloc(1, sizeof(*r));
	if (!r)
		return fail(SLUICE_ENOMEM, "no memory for %zu bytes", sizeof(*r));
	r->memory = *memory;
	r->region = (struct region){ .base = memory->address,
				     .bytes = memory->bytes,
				     .access = access,
				     .fd = -1,
				     .device = &r->memory,
				     .registrations = &r->registrations };
	*out = &r->region;
	return SLUICE_OK;
}

void region_relax(struct region *region)
{
	region->relaxed = 1;
}

/* ---- registrations ---------------------------------------------------------------- */

void *registry_find(const struct registry *registry, const struct region *region)
{
	struct registration *r = region->registrations ? *region->registrations : NULL;

	while (r && r->registry != registry)
		r = r->next;
	return r;
}

int registry_add(struct registry *registry, const struct region *region, void *out)
{
	struct registration *r = registry_find(registry, region);

	if (!region->registrations)
		return fail(SLUICE_EINVAL,
			    "%s: memory that is not an opened region cannot be registered",
			    registry->transport);
	if (!r) {
		r = calloc(1, registry->bytes);
		if (!r)
			return fail(SLUICE_ENOMEM, "%s: no memory to register a region",
				    registry->transport);
		*r = (struct registration){ *region->registrations, registry->first, registry,
					    region, ++registry->last_id };
		*region->registrations = registry->first = r;
	}
	memcpy(out, &r, sizeof(r));
	return SLUICE_OK;
}

static int end_registration(struct registration *r)
{
	struct registration **at = r->region->registrations, **there = &r->registry->first;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	while (*there != r)
		there = &(*there)->next_there;
	*there = r->next_there;
	return r->registry->end(r->registry->owner, r);
}

void registry_clear(struct registry *registry)
{
	while (registry->first)
		end_registration(registry->first);
}

void region_close_file(struct region *region)
{
	if (region && region->fd >= 0)
		close(region->fd);
	if (region)
		region->fd = -1;
}

void region_close(struct region **region)
{
	struct region *r = region ? *region : NULL;
	int taken_over = 0;

	if (!r)
		return;
	while (*r->registrations) {
		struct registration *first = *r->registrations;
		pthread_mutex_t *lock = first->registry->lock;

		pthread_mutex_lock(lock);
		taken_over |= end_registration(first);
		pthread_mutex_unlock(lock);
	}
	if (r->common)
		common_release(&r->common);
	else if (r->mapped && !taken_over)
		munmap(r->mapped, r->mapped_bytes);
	region_close_file(r);
	free(r);
	*region = NULL;
}
