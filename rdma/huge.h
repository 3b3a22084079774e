/* SPDX-License-Identifier: BSD-3-Clause
 * Huge pages for regions, as SLUICE_HUGE_PAGES requests them. They save a card and a processor most
 * of the entries of their address translation. sluice_init() sets the request for the process, and
 * region.c follows it. Shorter regions keep small pages.
 *
 *   transparent  the kernel replaces small pages by huge ones if it finds free memory in one piece
 *   reserved     pages that an administrator reserved; without enough of them the region is refused
 */
#ifndef RDMA_HUGE_H
#define RDMA_HUGE_H
#include <stddef.h>

enum huge { HUGE_NONE, HUGE_TRANSPARENT, HUGE_RESERVED };
enum { HUGE_PAGE_BYTES = 2 << 20 };

/* Sets the kind of pages for this process: "no", "transparent" or "reserved". */
void huge_request(const char *setting);
/* Returns the kind of pages that a region of this size gets. */
enum huge huge_kind(size_t bytes);
/* Returns 1 if some region of this process may have reserved huge pages. */
int huge_reserved_requested(void);

/* Makes the pages of this mapping of a memory file huge, and logs how many are. */
void huge_collapse(void *at, size_t bytes, const char *region);
/* Fails with the reason for which a region did not get n reserved huge pages. */
int huge_fail_reserved(const char *region, size_t n, const char *call, int err);

struct huge_facts {
	long total, free;       /* reserved pages; -1: the kernel has none of this size */
	char shmem_enabled[16]; /* the kernel's choice for memory files; "": no such pages */
};
void huge_look(struct huge_facts *out);
#endif
