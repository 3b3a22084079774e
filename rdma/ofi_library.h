/* SPDX-License-Identifier: BSD-3-Clause
 * Loads libfabric when the first transport over it is opened, so that programs start without it.
 * Most of its interface consists of inline calls through function tables; only these few functions
 * are looked up by name. Called by ofi_provider.c and ofi_fabric.c. */
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
	struct fi_info *(*dupinfo)(
		const struct fi_info *info); /* info NULL: returns an empty one */
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int error);
};

/* Loads libfabric at the first call. It stays loaded, because its providers may have threads. Fails
 * with SLUICE_ENOSUPP and a sentence that names what is missing and the remedy. */
int ofi_library_load(const struct ofi_library **out);
/* Sets the ports on which TCP listens. libfabric reads them only once per process, in the first
 * ofi_choose(). The caller therefore checks the port of each endpoint that it opens. */
void ofi_library_ports(int low, int high);
/* Returns 1 if the environment turns this option of libfabric on. Loading turns on the options that
 * Sluice needs, if the user did not set them. */
int ofi_library_option(const char *name);
#endif
