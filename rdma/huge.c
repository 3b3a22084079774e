/* SPDX-License-Identifier: BSD-3-Clause
 * See huge.h. */
#include "rdma/huge.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
#define POOL          "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define SHMEM_ENABLED "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

static atomic_int requested;

void huge_request(const char *setting)
{
	atomic_store(&requested, strcmp(setting, "reserved") == 0    ? HUGE_RESERVED :
				 strcmp(setting, "transparent") == 0 ? HUGE_TRANSPARENT :
								       HUGE_NONE);
}

enum huge huge_kind(size_t bytes)
{
	return bytes < HUGE_PAGE_BYTES ? HUGE_NONE : (enum huge)atomic_load(&requested);
}

int huge_reserved_requested(void)
{
	return atomic_load(&requested) == HUGE_RESERVED;
}

/* ---- what the kernel has ---------------------------------------------------------- */

static long read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	long number = -1;

	if (file && fscanf(file, "%ld", &number) != 1)
		number = -1;
	if (file)
		fclose(file);
	return number;
}

void huge_look(struct huge_facts *out)
{
	FILE *file = fopen(SHMEM_ENABLED, "re");
	char line[128] = "";

	*out = (struct huge_facts){ .total = read_number(POOL "nr_hugepages"),
				    .free = read_number(POOL "free_hugepages") };
	/* The chosen word is in brackets. */
	if (file && fgets(line, sizeof(line), file) && strchr(line, '['))
		sscanf(strchr(line, '['), "[%15[a-z_]", out->shmem_enabled);
	if (file)
		fclose(file);
}

/* ---- transparent ones ------------------------------------------------------------- */

/* Returns how many kilobytes of the mapping at this address are on huge pages. */
static size_t kilobytes_got(const void *at)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	char line[512];
	size_t got = 0;
	int here = 0;

	while (file && fgets(line, sizeof(line), file)) {
		uintptr_t from, to;
		size_t kilobytes;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			here = from == (uintptr_t)at;
		else if (here && sscanf(line, "ShmemPmdMapped: %zu", &kilobytes) == 1)
			got = kilobytes;
	}
	if (file)
		fclose(file);
	return got;
}

void huge_collapse(void *at, size_t bytes, const char *region)
{
	static atomic_int warned;
	const size_t wanted = bytes / HUGE_PAGE_BYTES * (HUGE_PAGE_BYTES / 1024);
	struct huge_facts facts;
	size_t got;
	int err;

	/* If MADV_COLLAPSE cannot make huge pages now, MADV_HUGEPAGE lets the kernel make them
	 * later. */
	err = madvise(at, bytes, MADV_HUGEPAGE) ? errno : 0;
	if (madvise(at, bytes, MADV_COLLAPSE) && !err)
		err = errno;
	got = kilobytes_got(at);
	if (got >= wanted || atomic_exchange(&warned, 1)) {
		log_line(LOG_INFO, "rdma", "region %s: %zu of %zu kB lie on huge pages", region,
			 got, bytes / 1024);
		return;
	}
	huge_look(&facts);
	log_line(LOG_WARN, "rdma",
		 "SLUICE_HUGE_PAGES=transparent: %zu of %zu kB of region %s lie on huge pages (%s; "
		 "shmem_enabled is %s): defragment the memory (sysctl vm.compact_memory=1); "
		 "before Linux 6.1, write advise to " SHMEM_ENABLED,
		 got, bytes / 1024, region, err ? errno_text(err) : "the kernel mapped no more",
		 facts.shmem_enabled[0] ? facts.shmem_enabled : "missing");
}

/* ---- reserved ones ---------------------------------------------------------------- */

int huge_fail_reserved(const char *region, size_t n, const char *call, int err)
{
	struct huge_facts facts;

	huge_look(&facts);
	if (facts.total < 0)
		return fail(SLUICE_ENOSUPP,
			    "cannot back region %s with huge pages: %s: %s; this kernel has none "
			    "of 2 MiB: set SLUICE_HUGE_PAGES=no",
			    region, call, errno_text(err));
	return fail(SLUICE_ENOMEM,
		    "cannot back region %s with %zu reserved huge pages of 2 MiB: %s: %s; the node "
		    "has %ld, of which %ld are free: reserve more (sysctl vm.nr_hugepages), or set "
		    "SLUICE_HUGE_PAGES to transparent or no",
		    region, n, call, errno_text(err), facts.total, facts.free);
}
