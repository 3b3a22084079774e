/* SPDX-License-Identifier: BSD-3-Clause
 * Loads libfabric when the first transport over it is opened, so that programs start without it.
 * Most of its interface consists of inline calls through tables of its objects; these are the few
 * functions that are found by name. Called by ofi_provider.c and ofi_fabric.c. */
#ifndef RDMA_OFI_LIBRARY_H
#define RDMA_OFI_LIBRARY_H
#include <rdma/fabric.h>
#include <stdint.h>

/* The version of the interface: the oldest one with a usable TCP provider. */
#define OFI_API FI_VERSION(1, 17)

struct ofi_library {
	uint32_t (*version)(void);
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info); /* of NULL: an empty one */
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int error);
};

/* Loads it at the first call. It stays loaded, because its providers may have threads.
 * SLUICE_ENOSUPP with a sentence that says what is missing and what to do. */
int ofi_library_load(const struct ofi_library **out);
#endif
