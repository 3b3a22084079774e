/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations shared by the two files of the fake libfabric; see fake_ofi.h. */
#ifndef TESTS_FAKE_OFI_PARTS_H
#define TESTS_FAKE_OFI_PARTS_H
#include "fake_ofi.h"
#include <pthread.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

enum { ENDPOINTS = 16, ENTRIES = 8192, NAMES = 64 };

struct mr {
	struct fid_mr mr; /* the first member, as in all structs below */
	struct mr *next;
	uint8_t *base;
	size_t bytes;
	uint64_t access, key; /* the key is known once the registration is enabled */
	int enabled, of_device;
	struct domain *domain;
};
struct domain {
	struct fid_domain domain;
	struct fake_ofi_face face;
	struct mr *mrs;
	int users;
};
struct cq {
	struct fid_cq cq;
	struct domain *domain;
	struct {
		struct fi_cq_err_entry e;
		fi_addr_t from;
	} entries[ENTRIES];
	int n, fd;
};
struct av {
	struct fid_av av;
	struct domain *domain;
	uint32_t names[NAMES];
	int n;
};
enum op_kind { PUT, GET, MESSAGE };
struct op {
	struct op *next;
	enum op_kind kind;
	struct endpoint_ *from;
	uint64_t address, key, flags, data;
	size_t n;
	void *local, *context;
	int late, tells; /* tells: its end makes a completion */
	uint8_t bytes[]; /* data of a put or message */
};
struct endpoint_ {
	struct fid_ep ep;
	struct domain *domain;
	struct cq *cq;
	struct av *av;
	uint32_t name;
	uint64_t op_flags;
	int on;
	struct op *ops;
	struct {
		void *at, *context;
		size_t n;
	} receives[ENTRIES];
	int n_receives, received, out;
};

extern struct endpoint_ *fake_ofi_endpoints[ENDPOINTS];
extern pthread_mutex_t fake_ofi_lock;
extern uint32_t fake_ofi_dice;

void fake_ofi_misuse(const char *text);
/* Returns 1 if this call must fail. */
int fake_ofi_fails(const char *call);
/* Reports the end of the operation to the initiator. */
void fake_ofi_end_op(struct op *op, int error);

ssize_t fake_ofi_read(struct fid_cq *fid, void *buf, size_t n);
ssize_t fake_ofi_readfrom(struct fid_cq *fid, void *buf, size_t n, fi_addr_t *from);
ssize_t fake_ofi_readerr(struct fid_cq *fid, struct fi_cq_err_entry *out, uint64_t flags);
ssize_t fake_ofi_writemsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags);
ssize_t fake_ofi_writedata(struct fid_ep *ep, const void *buf, size_t n, void *desc, uint64_t data,
			   fi_addr_t to, uint64_t address, uint64_t key, void *context);
ssize_t fake_ofi_get(struct fid_ep *ep, void *buf, size_t n, void *desc, fi_addr_t from,
		     uint64_t address, uint64_t key, void *context);
ssize_t fake_ofi_send(struct fid_ep *ep, const void *buf, size_t n, void *desc, fi_addr_t to,
		      void *context);
ssize_t fake_ofi_inject(struct fid_ep *ep, const void *buf, size_t n, fi_addr_t to);
ssize_t fake_ofi_recv(struct fid_ep *fid, void *buf, size_t n, void *desc, fi_addr_t from,
		      void *context);
#endif
