/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_fabric.h. */
#include "rdma/ofi_fabric.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/auth.h"
#include "sluice.h"
#include <netinet/in.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	QUEUE_ENTRIES = 4096,
	BATCH = 32,
	KEY_TRIES = 8,
	RECEIVES = 64,
	COUNTED_RECEIVES = 1024 /* number of receives to post if each piece of a put uses up one */
};

enum { CAUTION_BYTES = 512 };

struct ofi_fabric {
	struct ofi_choice choice;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	int low, high;            /* the range of SLUICE_PORTS; 0: any port */
	int fd;                   /* -1: the provider has none */
	enum ofi_notice promised; /* how incoming notices are read; a failed trial does not
				     change this */
	enum ofi_notice notice;
	char caution[CAUTION_BYTES]; /* "": none */
};

static const struct fi_domain_attr *domain_attr(const struct ofi_fabric *f)
{
	return f->choice.info->domain_attr;
}

static int wants(const struct ofi_fabric *f, int mr_mode)
{
	return (domain_attr(f)->mr_mode & mr_mode) != 0;
}

const char *ofi_fabric_error(const struct ofi_fabric *f, ssize_t error)
{
	return f->choice.library->strerror((int)-error);
}

static int fabric_failed(const struct ofi_fabric *f, const char *call, int error)
{
	char ports[128] = "";

	if (f->high && error == -FI_EADDRNOTAVAIL)
		snprintf(ports, sizeof(ports),
			 "; SLUICE_PORTS=%d-%d may have no free port on this node, where each rank "
			 "needs one",
			 f->low, f->high);
	return fail_quietly(error == -FI_ENOMEM ? SLUICE_ENOMEM : SLUICE_EDEVICE, "%s: %s: %s%s",
			    f->choice.text, call, ofi_fabric_error(f, error), ports);
}

/* ---- opening and closing ---------------------------------------------------------- */

static void end(struct fid *fid)
{
	int err = fi_close(fid);

	if (err)
		log_line(LOG_WARN, "rdma", "ofi: fi_close: error %d", -err);
}

/* Opens the completion queue, with a descriptor on which to sleep if the provider has one. */
static int open_queue(struct ofi_fabric *f)
{
	struct fi_cq_attr attr = { .size = QUEUE_ENTRIES,
				   .format = FI_CQ_FORMAT_DATA,
				   .wait_obj = FI_WAIT_FD };
	int err = ofi_choice_has_descriptor(&f->choice) ?
			  fi_cq_open(f->domain, &attr, &f->cq, NULL) :
			  -FI_ENOSYS;

	if (!err && !fi_control(&f->cq->fid, FI_GETWAIT, &f->fd))
		return SLUICE_OK;
	f->fd = -1;
	if (!err)
		end(&f->cq->fid);
	f->cq = NULL;
	attr.wait_obj = FI_WAIT_NONE;
	err = fi_cq_open(f->domain, &attr, &f->cq, NULL);
	return err ? fabric_failed(f, "fi_cq_open", err) : SLUICE_OK;
}

/* Checks that TCP listens on a port of SLUICE_PORTS. */
static int check_port(struct ofi_fabric *f)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} name = { .any.sa_family = AF_UNSPEC };
	size_t n = sizeof(name);
	int port;

	if (!f->high || fi_getname(&f->ep->fid, &name, &n) ||
	    (name.any.sa_family != AF_INET && name.any.sa_family != AF_INET6))
		return SLUICE_OK;
	port = ntohs(name.any.sa_family == AF_INET ? name.in.sin_port : name.in6.sin6_port);
	if (port >= f->low && port <= f->high)
		return SLUICE_OK;
	return fail_quietly(SLUICE_EDEVICE,
			    "%s: this rank listens on port %d, not on one of SLUICE_PORTS=%d-%d: "
			    "libfabric had read another range in this process before",
			    f->choice.text, port, f->low, f->high);
}

static int open_endpoint(struct ofi_fabric *f)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	int err = fi_av_open(f->domain, &attr, &f->av, NULL);

	if (err)
		return fabric_failed(f, "fi_av_open", err);
	err = fi_endpoint(f->domain, f->choice.info, &f->ep, NULL);
	if (err)
		return fabric_failed(f, "fi_endpoint", err);
	err = fi_ep_bind(f->ep, &f->av->fid, 0);
	if (!err)
		err = fi_ep_bind(f->ep, &f->cq->fid, FI_TRANSMIT | FI_RECV);
	if (err)
		return fabric_failed(f, "fi_ep_bind", err);
	err = fi_enable(f->ep);
	return err ? fabric_failed(f, "fi_enable", err) : check_port(f);
}

static int open_objects(struct ofi_fabric *f)
{
	int err = f->choice.library->fabric(f->choice.info->fabric_attr, &f->fabric, NULL);

	if (err)
		return fabric_failed(f, "fi_fabric", err);
	err = fi_domain(f->fabric, f->choice.info, &f->domain, NULL);
	if (err)
		return fabric_failed(f, "fi_domain", err);
	err = open_queue(f);
	return err ? err : open_endpoint(f);
}

/* Writes a warning for users who might measure TCP and take it for the best transport. */
static void write_caution(struct ofi_fabric *f)
{
	snprintf(f->caution, sizeof(f->caution),
		 "ofi: this rank reaches others over TCP (%s), which is slower than RDMA: use RDMA "
		 "cards on all nodes (the transport verbs), or a fabric that has its own provider; "
		 "set SLUICE_PROVIDER=%s to accept TCP without this warning",
		 ofi_fabric_text(f), ofi_fabric_provider(f));
}

static int set_port_range(struct ofi_fabric *f, const char *ports)
{
	if (!ports || !*ports)
		return SLUICE_OK;
	if (env_ports(ports, &f->low, &f->high))
		return fail(SLUICE_EINVAL, "ofi: \"%.40s\" is not a range of ports", ports);
	ofi_library_ports(f->low, f->high);
	return SLUICE_OK;
}

int ofi_fabric_open(const char *provider, const char *interface, const char *ports,
		    struct ofi_fabric **out)
{
	struct ofi_fabric *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return fail(SLUICE_ENOMEM, "ofi: no memory for %zu bytes", sizeof(*f));
	f->fd = -1;
	rc = set_port_range(f, ports);
	if (!rc)
		rc = ofi_choose(provider, interface, &f->choice);
	if (!rc)
		f->promised = f->notice = ofi_choice_notice(&f->choice);
	if (!rc)
		rc = open_objects(f);
	if (rc) {
		ofi_fabric_close(&f);
		return rc;
	}
	log_line(LOG_INFO, "rdma", "ofi: %s%s", f->choice.text,
		 ofi_choice_is_tcp(&f->choice) ? ", through the sockets of the kernel" : "");
	if (ofi_fabric_is_tcp(f) && !(provider && *provider))
		write_caution(f);
	*out = f;
	return SLUICE_OK;
}

void ofi_fabric_stop(struct ofi_fabric *f)
{
	if (f->ep)
		end(&f->ep->fid);
	f->ep = NULL;
}

void ofi_fabric_close(struct ofi_fabric **out)
{
	struct ofi_fabric *f = *out;

	ofi_fabric_stop(f);
	if (f->av)
		end(&f->av->fid);
	if (f->cq)
		end(&f->cq->fid);
	if (f->domain)
		end(&f->domain->fid);
	if (f->fabric)
		end(&f->fabric->fid);
	ofi_choice_end(&f->choice);
	free(f);
	*out = NULL;
}

/* ---- what was chosen -------------------------------------------------------------- */

const char *ofi_fabric_provider(const struct ofi_fabric *f)
{
	return ofi_choice_name(&f->choice);
}

const char *ofi_fabric_text(const struct ofi_fabric *f)
{
	return f->choice.text;
}

const char *ofi_fabric_caution(const struct ofi_fabric *f)
{
	return f->caution[0] ? f->caution : NULL;
}

int ofi_fabric_is_tcp(const struct ofi_fabric *f)
{
	return ofi_choice_is_tcp(&f->choice);
}

int ofi_fabric_is_unplaced(const struct ofi_fabric *f)
{
	return ofi_choice_is_unplaced(&f->choice);
}

enum ofi_notice ofi_fabric_notice(const struct ofi_fabric *f)
{
	return f->notice;
}

int ofi_fabric_naps(const struct ofi_fabric *f)
{
	return ofi_choice_naps(&f->choice);
}

int ofi_fabric_is_narrow(const struct ofi_fabric *f)
{
	return f->promised == OFI_NOTICE_NARROW;
}

void ofi_fabric_use_notice(struct ofi_fabric *f, enum ofi_notice notice)
{
	f->notice = notice;
}

size_t ofi_fabric_receives(const struct ofi_fabric *f, size_t notices)
{
	const size_t limit = f->choice.info->rx_attr->size;
	const size_t wanted = RECEIVES + notices + (ofi_fabric_is_narrow(f) ? COUNTED_RECEIVES : 0);

	if (!ofi_choice_takes_receives(&f->choice))
		return RECEIVES;
	return limit && wanted > limit ? limit : wanted;
}

int ofi_fabric_is_ordered(const struct ofi_fabric *f)
{
	const struct fi_info *info = f->choice.info;

	return (info->tx_attr->msg_order & FI_ORDER_WAW) &&
	       info->ep_attr->max_order_waw_size >= info->ep_attr->max_msg_size;
}

int ofi_fabric_name(const struct ofi_fabric *f, void *name, size_t cap, size_t *len_out)
{
	int err;

	*len_out = cap;
	err = fi_getname(&f->ep->fid, name, len_out);
	return err ? fabric_failed(f, "fi_getname", err) : SLUICE_OK;
}

size_t ofi_fabric_name_bytes(const struct ofi_fabric *f)
{
	return f->choice.info->src_addrlen;
}

int ofi_fabric_insert(struct ofi_fabric *f, const void *name, fi_addr_t *out)
{
	int n = fi_av_insert(f->av, name, 1, out, 0, NULL);

	return n == 1 ? SLUICE_OK : fabric_failed(f, "fi_av_insert", n < 0 ? n : -FI_EINVAL);
}

/* ---- memory ----------------------------------------------------------------------- */

static int random_key(const struct ofi_fabric *f, uint64_t *key)
{
	const size_t bytes = ofi_choice_key_bytes(&f->choice);
	int rc = auth_random(key, sizeof(*key));

	if (bytes < sizeof(*key))
		*key &= (1ULL << 8 * bytes) - 1;
	return rc;
}

/* Registers memory. If libfabric was not called because of an earlier failure, returns the code of
 * that failure. Otherwise *err receives libfabric's result. */
static int register_by(struct ofi_fabric *f, struct fi_mr_attr *attr, struct fid_mr **out, int *err)
{
	const struct iovec *at = attr->mr_iov;

	*err = -FI_ENOKEY;
	/* Short keys can collide, so several are tried. */
	for (int tries = 0; *err == -FI_ENOKEY && tries < KEY_TRIES; tries++) {
		int rc = 0;

		attr->requested_key = 0;
		if (!wants(f, FI_MR_PROV_KEY))
			rc = random_key(f, &attr->requested_key);
		if (rc)
			return rc;
		*err = attr->iface == FI_HMEM_SYSTEM ?
			       fi_mr_reg(f->domain, at->iov_base, at->iov_len, attr->access, 0,
					 attr->requested_key, 0, out, NULL) :
			       fi_mr_regattr(f->domain, attr, 0, out);
	}
	if (!*err && wants(f, FI_MR_ENDPOINT)) {
		*err = fi_mr_bind(*out, &f->ep->fid, 0);
		if (!*err)
			*err = fi_mr_enable(*out);
		if (*err) {
			end(&(*out)->fid);
			*out = NULL;
		}
	}
	return SLUICE_OK;
}

int ofi_fabric_register(struct ofi_fabric *f, const void *base, size_t bytes, uint64_t access,
			const char *what, struct fid_mr **out)
{
	const struct iovec at = { (void *)(uintptr_t)base, bytes };
	struct fi_mr_attr attr = { .mr_iov = &at, .iov_count = 1, .access = access };
	int err;
	const int rc = register_by(f, &attr, out, &err);

	if (rc || !err)
		return rc;
	return fail(err == -FI_ENOMEM ? SLUICE_ENOMEM : SLUICE_EDEVICE,
		    "%s: %s: fi_mr_reg of %zu bytes failed: %s%s", what, f->choice.text, bytes,
		    ofi_fabric_error(f, err),
		    err == -FI_ENOMEM ? "; check the limit on locked memory (ulimit -l)" : "");
}

int ofi_fabric_has_device_memory(const struct ofi_fabric *f)
{
	return ofi_choice_has_device_memory(&f->choice);
}

int ofi_fabric_register_device(struct ofi_fabric *f, const struct memory *memory,
			       struct fid_mr **out)
{
	const struct iovec at = { memory->address, memory->bytes };
	struct fi_mr_attr attr = { .mr_iov = &at,
				   .iov_count = 1,
				   .access = FI_READ | FI_WRITE,
				   .iface = FI_HMEM_CUDA,
				   .device.cuda = memory->device };
	int err;

	return register_by(f, &attr, out, &err) ? -FI_EOTHER : err;
}

void ofi_fabric_unregister(struct fid_mr **mr)
{
	end(&(*mr)->fid);
	*mr = NULL;
}

int ofi_fabric_wants_local(const struct ofi_fabric *f)
{
	return wants(f, FI_MR_LOCAL);
}

uint64_t ofi_fabric_origin(const struct ofi_fabric *f, const void *base)
{
	return wants(f, FI_MR_VIRT_ADDR) ? (uintptr_t)base : 0;
}

/* ---- operations ------------------------------------------------------------------- */

ssize_t ofi_fabric_put(struct ofi_fabric *f, const struct ofi_piece *p)
{
	const struct iovec local = { p->local, p->bytes };
	const struct fi_rma_iov there = { .addr = p->address, .len = p->bytes, .key = p->key };
	const struct fi_msg_rma msg = { .msg_iov = &local,
					.desc = (void **)(uintptr_t)&p->desc,
					.iov_count = 1,
					.addr = p->to,
					.rma_iov = &there,
					.rma_iov_count = 1,
					.context = p->context,
					.data = f->promised == OFI_NOTICE_NARROW ?
							(uint32_t)p->data :
							p->data };

	if (p->announce && ofi_choice_data_by_call(&f->choice))
		return fi_writedata(f->ep, p->local, p->bytes, p->desc, p->data, p->to, p->address,
				    p->key, p->context);
	return fi_writemsg(f->ep, &msg,
			   FI_COMPLETION | (p->announce ? FI_REMOTE_CQ_DATA : 0) |
				   (p->placed ? FI_DELIVERY_COMPLETE : 0));
}

ssize_t ofi_fabric_get(struct ofi_fabric *f, const struct ofi_piece *p)
{
	return fi_read(f->ep, p->local, p->bytes, p->desc, p->to, p->address, p->key, p->context);
}

ssize_t ofi_fabric_send(struct ofi_fabric *f, const struct ofi_piece *p)
{
	return fi_send(f->ep, p->local, p->bytes, p->desc, p->to, p->context);
}

ssize_t ofi_fabric_inject(struct ofi_fabric *f, const void *bytes, size_t n, fi_addr_t to)
{
	return fi_inject(f->ep, bytes, n, to);
}

ssize_t ofi_fabric_receive(struct ofi_fabric *f, const struct ofi_piece *p)
{
	return fi_recv(f->ep, p->local, p->bytes, p->desc, FI_ADDR_UNSPEC, p->context);
}

/* ---- completions ------------------------------------------------------------------ */

/* Returns 1 if the other end does not answer, or has stopped answering. */
static int is_broken(int error)
{
	switch (error) {
	case FI_ECANCELED: /* the operation was under way when the connection broke */
	case FI_ENOTCONN:
	case FI_ECONNRESET:
	case FI_ECONNABORTED:
	case FI_ECONNREFUSED:
	case FI_ESHUTDOWN:
	case FI_EHOSTUNREACH:
	case FI_ETIMEDOUT:
	case FI_EHOSTDOWN: return 1;
	default: return 0;
	}
}

static int take_error(struct ofi_fabric *f, struct ofi_completion *out)
{
	struct fi_cq_err_entry entry = { 0 };

	if (fi_cq_readerr(f->cq, &entry, 0) != 1)
		return 0;
	*out = (struct ofi_completion){ .context = entry.op_context,
					.flags = entry.flags,
					.error = entry.err > 0 ? entry.err : FI_EIO };
	out->broken = is_broken(out->error);
	snprintf(out->text, sizeof(out->text), "%s", f->choice.library->strerror(out->error));
	return 1;
}

int ofi_fabric_poll(struct ofi_fabric *f, struct ofi_completion *out, int n)
{
	struct fi_cq_data_entry entries[BATCH];
	fi_addr_t from[BATCH];
	const size_t most = (size_t)(n < BATCH ? n : BATCH);
	const int named = f->promised == OFI_NOTICE_NARROW;
	const ssize_t got = named ? fi_cq_readfrom(f->cq, entries, most, from) :
				    fi_cq_read(f->cq, entries, most);

	if (got == -FI_EAVAIL)
		return take_error(f, out);
	for (ssize_t i = 0; i < got; i++)
		out[i] = (struct ofi_completion){
			.context = entries[i].op_context,
			.notice = (entries[i].flags & FI_REMOTE_CQ_DATA) != 0,
			.from = named ? from[i] : FI_ADDR_NOTAVAIL,
			.flags = entries[i].flags,
			.data = entries[i].data,
			.bytes = entries[i].len,
		};
	return got > 0 ? (int)got : 0;
}

int ofi_fabric_fd(const struct ofi_fabric *f)
{
	return f->fd;
}

int ofi_fabric_may_sleep(struct ofi_fabric *f)
{
	struct fid *fid = &f->cq->fid;

	return f->fd < 0 || fi_trywait(f->fabric, &fid, 1) == FI_SUCCESS;
}
