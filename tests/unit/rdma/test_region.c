/* SPDX-License-Identifier: BSD-3-Clause
 * Regions: their content, the accesses that the kernel refuses to peers, and that they leave
 * nothing behind. */
#include "rdma/region.h"
#include "rdma/mapping.h"
#include "rdma_pair.h"
#include "sluice.h"
#include "cases.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int silence(void **state)
{
	quiet_log();
	return 0;
}

static size_t page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Opens the same file again, like a peer. */
static int open_anew(const struct region *region, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), region->fd);
	return open(path, flags | O_CLOEXEC);
}

TEST(open__any_size__is_zeroed_aligned_and_exact)
{
	static const size_t sizes[] = { 1, 63, 4095, 4096, 4097, 1 << 20 };
	size_t i, j;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct region *region = NULL;
		uint8_t *bytes;

		assert_int_equal(region_open(sizes[i], REGION_WRITE, "test", &region), 0);
		assert_int_equal(region->bytes, sizes[i]);
		assert_int_equal((uintptr_t)region->base % page(), 0);
		assert_true(region->nonce != 0);
		bytes = region->base;
		for (j = 0; j < sizes[i]; j++)
			assert_int_equal(bytes[j], 0);
		memset(bytes, 0xa5, sizes[i]);
		region_close(&region);
		assert_null(region);
	}
}

TEST(open__zero_bytes_or_unknown_access__is_EINVAL)
{
	struct region *region = NULL;

	assert_int_equal(region_open(0, REGION_READ, "test", &region), SLUICE_EINVAL);
	assert_int_equal(region_open(8, 4, "test", &region), SLUICE_EINVAL);
	assert_null(region);
}

TEST(open__more_than_the_machine_has__is_ENOMEM_and_says_how_much)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 50 };
	int files = open_files();
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct region *region = NULL;
		char number[32];

		snprintf(number, sizeof(number), "%zu", sizes[i]);
		assert_int_equal(region_open(sizes[i], REGION_READ, "inbox", &region),
				 SLUICE_ENOMEM);
		assert_null(region);
		assert_non_null(strstr(sluice_last_error(), number));
		assert_non_null(strstr(sluice_last_error(), "inbox"));
	}
	assert_int_equal(open_files(), files);
}

TEST(nonce__two_regions__differs)
{
	struct region *a = NULL, *b = NULL;

	assert_int_equal(region_open(1, REGION_READ, "a", &a), 0);
	assert_int_equal(region_open(1, REGION_READ, "b", &b), 0);
	assert_true(a->nonce != b->nonce);
	region_close(&a);
	region_close(&b);
}

TEST(read_region__peer_wants_to_write__kernel_refuses)
{
	struct region *region = NULL;
	void *map;
	int fd;

	assert_int_equal(region_open(8192, REGION_READ, "model", &region), 0);
	fd = open_anew(region, O_RDWR);
	assert_true(fd >= 0);
	map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_equal(map, MAP_FAILED);
	assert_int_equal(errno, EPERM);
	map = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(mprotect(map, 8192, PROT_READ | PROT_WRITE), -1);
	munmap(map, 8192);
	assert_int_equal(pwrite(fd, "x", 1, 4096), -1);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	close(fd);
	((uint8_t *)region->base)[0] = 1; /* the owner may write */
	region_close(&region);
	assert_int_equal(region_open(8192, 0, "staging", &region), 0);
	assert_int_equal(region->fd, -1); /* no peer can open it */
	region_close(&region);
}

TEST(region__peer_truncates_or_unseals__kernel_refuses)
{
	struct region *region = NULL;
	int fd;

	assert_int_equal(region_open(8192, REGION_WRITE, "inbox", &region), 0);
	fd = open_anew(region, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	close(fd);
	region_close(&region);
}

TEST(region__forked_child__has_no_mapping_and_no_fd_after_exec)
{
	struct region *region = NULL;
	int status;
	pid_t child;

	assert_int_equal(region_open(8192, REGION_WRITE, "inbox", &region), 0);
	assert_true(fcntl(region->fd, F_GETFD) & FD_CLOEXEC);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) /* fails with ENOMEM if nothing is mapped there */
		_exit(msync(region->base, page(), MS_ASYNC) == -1 && errno == ENOMEM ? 0 : 1);
	status = child_status(child);
	assert_int_equal(status, 0);
	assert_int_equal(msync(region->base, page(), MS_ASYNC), 0);
	region_close(&region);
}

static int open_under_limit(__rlimit_resource_t resource, rlim_t limit, const char *expected)
{
	struct rlimit old, low;
	struct region *region = NULL;
	int rc;

	if (getrlimit(resource, &old) < 0)
		return 2;
	low = old;
	low.rlim_cur = limit;
	if (setrlimit(resource, &low) < 0)
		return 3;
	rc = region_open(1 << 20, REGION_READ, "log", &region);
	setrlimit(resource, &old);
	return rc == SLUICE_ENOMEM && strstr(sluice_last_error(), expected) != NULL ? 0 : 4;
}

TEST(open__resource_limit_reached__is_ENOMEM_with_the_remedy)
{
	pid_t child;

	child = fork();
	if (child == 0)
		_exit(open_under_limit(RLIMIT_NOFILE, 0, "ulimit -n"));
	assert_int_equal(child_status(child), 0);
	child = fork();
	if (child == 0) /* SIGXFSZ would otherwise kill the child */
		_exit(open_under_limit(RLIMIT_FSIZE, 65536, "ulimit -f"));
	assert_int_equal(child_status(child), 0);
}

TEST(close__after_use__leaves_no_file_and_no_mapping)
{
	struct region *regions[10], *none = NULL;
	int files = open_files(), i;

	for (i = 0; i < 10; i++)
		assert_int_equal(region_open(100000, REGION_READ, "gone", &regions[i]), 0);
	assert_int_equal(open_files(), files + 10);
	assert_true(mappings_of("-gone") > 0);
	for (i = 0; i < 10; i++)
		region_close(&regions[i]);
	region_close(&none);
	region_close(NULL);
	assert_int_equal(open_files(), files);
	assert_int_equal(mappings_of("-gone"), 0);
}

/* ---- huge pages ----------------------------------------------------------------------------- */

enum { HUGE_REGION = 3 * HUGE_PAGE_BYTES + 100 };

/* Returns what smaps shows of the mapping that begins here, in kB, or for VmFlags 1 if it has the
 * flag "hg". -1: no such line. */
static long smaps_of(const void *at, const char *name)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	const size_t n = strlen(name);
	char line[512];
	long found = -1;
	int here = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		uintptr_t from, to;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			here = from == (uintptr_t)at;
		else if (here && strncmp(line, name, n) == 0)
			found = strcmp(name, "VmFlags:") == 0 ? strstr(line, " hg") != NULL :
								atol(line + n);
	}
	fclose(file);
	return found;
}

/* A peer maps the region and reads what its owner wrote, and the header is in front. */
static void check_shared(const struct region *region)
{
	uint8_t head[REGION_HEAD_BYTES];
	struct descriptor d;
	struct mapping peer;
	uint8_t *mine = region->base;

	for (size_t i = 0; i < region->bytes; i++)
		assert_int_equal(mine[i], 0);
	fill(mine, region->bytes, 7);
	descriptor_of(region, head);
	assert_int_equal(descriptor_decode(head, 1, &d), 0);
	assert_int_equal(mapping_open(region->fd, 1, &d, &peer), 0);
	assert_true(filled(peer.base, region->bytes, 7));
	((uint8_t *)peer.base)[region->bytes - 1] ^= 1;
	assert_false(filled(mine, region->bytes, 7));
	mapping_close(&peer);
}

TEST(transparent__large_region__is_flagged_aligned_and_shared)
{
	struct huge_facts facts;
	struct region *region = NULL, *small = NULL;
	const int files = open_files();

	huge_look(&facts);
	if (!facts.shmem_enabled[0])
		skip(); /* this kernel has no transparent huge pages for memory files */
	huge_request("transparent");
	quiet_log();
	assert_int_equal(region_open(HUGE_REGION, REGION_WRITE, "huge", &region), 0);
	assert_int_equal(smaps_of(region->mapped, "VmFlags:"), 1);
	assert_int_equal((uintptr_t)region->mapped % HUGE_PAGE_BYTES, 0);
	/* Either the pages are huge, or the log says that they are not. */
	if (smaps_of(region->mapped, "ShmemPmdMapped:") < 3 * HUGE_PAGE_BYTES / 1024)
		assert_true(quiet_log() > 0);
	else
		assert_int_equal(quiet_log(), 0);
	check_shared(region);
	assert_int_equal(region_open(HUGE_PAGE_BYTES - 1, REGION_WRITE, "small", &small), 0);
	assert_int_equal(smaps_of(small->mapped, "VmFlags:"), 0);
	region_close(&small);
	region_close(&region);
	huge_request("no");
	assert_int_equal(region_open(HUGE_REGION, REGION_WRITE, "huge", &region), 0);
	assert_int_equal(smaps_of(region->mapped, "VmFlags:"), 0);
	assert_ptr_equal(region->mapped, region->base);
	region_close(&region);
	assert_int_equal(open_files(), files);
	assert_int_equal(mappings_of("-huge"), 0);
}

TEST(reserved__more_than_the_node_has__is_refused_with_both_numbers)
{
	const int files = open_files();
	struct region *region = NULL;
	struct huge_facts facts;
	char wanted[64];
	int rc;

	huge_look(&facts);
	huge_request("reserved");
	rc = region_open((size_t)(facts.free + 2) * HUGE_PAGE_BYTES, REGION_READ, "log", &region);
	if (facts.total < 0) {
		assert_int_equal(rc, SLUICE_ENOSUPP);
		assert_non_null(strstr(sluice_last_error(), "SLUICE_HUGE_PAGES=no"));
	} else {
		assert_int_equal(rc, SLUICE_ENOMEM);
		snprintf(wanted, sizeof(wanted), "region log with %ld reserved huge pages",
			 facts.free + 3); /* the header needs a page too */
		assert_non_null(strstr(sluice_last_error(), wanted));
		snprintf(wanted, sizeof(wanted), "has %ld, of which %ld are free", facts.total,
			 facts.free);
		assert_non_null(strstr(sluice_last_error(), wanted));
		assert_non_null(strstr(sluice_last_error(), "vm.nr_hugepages"));
	}
	assert_null(region);
	assert_int_equal(region_open(HUGE_PAGE_BYTES - 1, REGION_READ, "small", &region), 0);
	region_close(&region);
	huge_request("no");
	assert_int_equal(open_files(), files);
}

TEST(reserved__enough__are_used_shared_and_given_back)
{
	struct region *region = NULL;
	struct huge_facts before, now;
	int status;
	pid_t child;

	huge_look(&before);
	if (before.free < 8)
		skip(); /* the node has reserved none */
	huge_request("reserved");
	assert_int_equal(region_open(HUGE_REGION, REGION_WRITE, "huge", &region), 0);
	huge_look(&now);
	assert_int_equal(now.free, before.free - 4);
	assert_int_equal(smaps_of(region->mapped, "KernelPageSize:"), HUGE_PAGE_BYTES / 1024);
	huge_request("no"); /* the peer finds out from the file */
	check_shared(region);
	child = fork();
	if (child == 0)
		_exit(msync(region->base, page(), MS_ASYNC) == -1 && errno == ENOMEM ? 0 : 1);
	status = child_status(child);
	assert_int_equal(status, 0);
	region_close(&region);
	huge_look(&now);
	assert_int_equal(now.free, before.free);
	huge_request("reserved");
	assert_int_equal(region_open(HUGE_REGION, REGION_READ, "model", &region), 0);
	assert_ptr_equal(
		mmap(NULL, HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0),
		MAP_FAILED);
	assert_int_equal(errno, EPERM);
	region_close(&region);
	huge_request("no");
}

int main(void)
{
	return run_cases(silence, NULL);
}
