/* SPDX-License-Identifier: BSD-3-Clause
 * Operations and completions of the fake libfabric; see fake_ofi.h. An operation waits in the queue
 * of its target endpoint and is done when that endpoint is polled, in random order if the provider
 * keeps none. */
#include "fake_ofi_parts.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fake_ofi_counts *const counts = &fake_ofi_counts;

static uint32_t roll(void)
{
	return fake_ofi_dice = fake_ofi_dice * 1664525 + 1013904223;
}

/* ---- completions -------------------------------------------------------------------- */

static void complete(struct cq *cq, struct fi_cq_err_entry entry, fi_addr_t from)
{
	const uint64_t one = 1;
	int at = cq->n;

	if (cq->n == ENTRIES) {
		fake_ofi_misuse("a completion queue overflows");
		return;
	}
	if (!fake_ofi.ordered && cq->n) /* completions come in random order */
		at = (int)(roll() >> 8) % (cq->n + 1);
	counts->swapped += at != cq->n;
	cq->entries[cq->n] = cq->entries[at];
	cq->entries[at].e = entry;
	cq->entries[at].from = from;
	cq->n++;
	if (cq->fd >= 0 && write(cq->fd, &one, sizeof(one)) < 0)
		fake_ofi_misuse("eventfd");
}

static fi_addr_t address_of(const struct endpoint_ *e, uint32_t name)
{
	for (int i = 0; e->av && i < e->av->n; i++)
		if (e->av->names[i] == name)
			return (fi_addr_t)i;
	return FI_ADDR_NOTAVAIL;
}

static struct mr *find_mr(struct domain *d, const struct op *op, uint64_t access, uint8_t **at)
{
	for (struct mr *m = d->mrs; m; m = m->next) {
		const uint64_t first = d->face.mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)m->base : 0;
		const uint64_t offset = op->address - first;

		if (m->mr.key != op->key || !m->enabled || !(m->access & access) ||
		    offset > m->bytes || op->n > m->bytes - offset)
			continue;
		*at = m->base + offset;
		return m;
	}
	return NULL;
}

/* Reports the end of the operation to the initiator. */
void fake_ofi_end_op(struct op *op, int error)
{
	const uint64_t kinds[] = {
		[PUT] = FI_WRITE | FI_RMA, [GET] = FI_READ | FI_RMA, [MESSAGE] = FI_SEND | FI_MSG
	};

	op->from->out--;
	counts->under_way -= op->n;
	if (op->tells || error)
		complete(op->from->cq,
			 (struct fi_cq_err_entry){ .op_context = op->context,
						   .flags = kinds[op->kind],
						   .err = error },
			 FI_ADDR_NOTAVAIL);
}

/* Returns 0 if no receive can be taken yet. */
static int take_receive(struct endpoint_ *e, void **at, void **context, size_t *n)
{
	if (!e->n_receives)
		return 0;
	*at = e->receives[0].at;
	*context = e->receives[0].context;
	*n = e->receives[0].n;
	memmove(e->receives, e->receives + 1, (size_t)--e->n_receives * sizeof(e->receives[0]));
	counts->receives_used++;
	return 1;
}

static int tell_notice(struct endpoint_ *e, const struct op *op)
{
	struct fi_cq_err_entry entry = { .flags = FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE,
					 .len = op->n,
					 .data = op->data ^ fake_ofi.flips };
	void *at;
	size_t n;

	if (fake_ofi.cq_data_size < 8)
		entry.data &= (1ULL << 8 * fake_ofi.cq_data_size) - 1;
	if (e->domain->face.takes_receives && !take_receive(e, &at, &entry.op_context, &n))
		return 0;
	counts->notices++;
	if (!fake_ofi.drops_notices)
		complete(e->cq, entry, address_of(e, op->from->name));
	return 1;
}

static int take_message(struct endpoint_ *e, const struct op *op)
{
	struct fi_cq_err_entry entry = { .flags = FI_RECV | FI_MSG, .len = op->n };
	void *at;
	size_t n;

	if (!take_receive(e, &at, &entry.op_context, &n))
		return 0;
	counts->messages++;
	memcpy(at, op->bytes, op->n < n ? op->n : n);
	complete(e->cq, entry, address_of(e, op->from->name));
	return 1;
}

static int do_op(struct endpoint_ *e, struct op *op)
{
	uint8_t *at = NULL;
	int error = 0;

	if (fake_ofi.resets && op->from != e && op->kind == PUT) {
		fake_ofi.resets = 0;
		fake_ofi_end_op(op, op->tells ? FI_ECONNRESET : 0);
		return 1;
	}
	if (fake_ofi.fails && op->from != e) {
		error = fake_ofi.fails;
		fake_ofi.fails = 0;
	} else if (op->kind != MESSAGE && op->n &&
		   !find_mr(e->domain, op, op->kind == GET ? FI_REMOTE_READ : FI_REMOTE_WRITE,
			    &at)) {
		counts->rights_errors++;
		error = FI_EKEYREJECTED;
	}
	if (!error && op->kind == MESSAGE && !take_message(e, op))
		return 0;
	if (!error && fake_ofi.notices_first && op->flags & FI_REMOTE_CQ_DATA) {
		if (!tell_notice(e, op))
			return 0;
		op->flags &= ~FI_REMOTE_CQ_DATA;
		op->late = 1000; /* the transport may poll before a test looks at the bytes */
		return 0;
	}
	if (!error && op->kind == PUT && e->domain->face.direct &&
	    address_of(e, op->from->name) == FI_ADDR_NOTAVAIL)
		fake_ofi_misuse("a put comes before the address of its initiator is known");
	if (!error && op->kind == PUT && op->n)
		memcpy(at, op->bytes, op->n);
	if (!error && op->flags & FI_REMOTE_CQ_DATA && !tell_notice(e, op))
		return 0;
	if (!error && op->kind == GET && op->n && op->local)
		memcpy(op->local, at, op->n);
	fake_ofi_end_op(op, error);
	return 1;
}

static void progress(struct endpoint_ *e)
{
	for (struct op **at = &e->ops; *at;) {
		struct op *op = *at;

		/* Without an order, any operation may overtake earlier ones. */
		if (fake_ofi.holds || fake_ofi.stall_after > 0 || op->late-- > 0 ||
		    (!fake_ofi.ordered && op->next && roll() >> 30 == 0)) {
			if (fake_ofi.ordered)
				return;
			at = &op->next;
			continue;
		}
		if (!do_op(e, op)) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		free(op);
		at = &e->ops;
	}
}

ssize_t fake_ofi_readfrom(struct fid_cq *fid, void *buf, size_t n, fi_addr_t *from)
{
	struct cq *cq = (struct cq *)fid;
	struct fi_cq_data_entry *out = buf;
	uint64_t drained;
	ssize_t got = 0;

	pthread_mutex_lock(&fake_ofi_lock);
	for (int i = 0; i < ENDPOINTS; i++)
		if (fake_ofi_endpoints[i] && fake_ofi_endpoints[i]->cq == cq)
			progress(fake_ofi_endpoints[i]);
	if (cq->fd >= 0 && read(cq->fd, &drained, sizeof(drained)) < 0)
		drained = 0;
	for (; (size_t)got < n && got < cq->n && !cq->entries[got].e.err; got++) {
		const struct fi_cq_err_entry *e = &cq->entries[got].e;

		out[got] = (struct fi_cq_data_entry){ .op_context = e->op_context,
						      .flags = e->flags,
						      .len = e->len,
						      .data = e->data };
		if (from)
			from[got] = cq->entries[got].from;
	}
	if (!got)
		got = cq->n ? -FI_EAVAIL : -FI_EAGAIN;
	else
		memmove(cq->entries, cq->entries + got,
			(size_t)(cq->n -= (int)got) * sizeof(cq->entries[0]));
	if (fake_ofi.stall_after > 0 && --fake_ofi.stall_after == 0)
		sleep(1);
	pthread_mutex_unlock(&fake_ofi_lock);
	return got;
}

ssize_t fake_ofi_read(struct fid_cq *fid, void *buf, size_t n)
{
	return fake_ofi_readfrom(fid, buf, n, NULL);
}

ssize_t fake_ofi_readerr(struct fid_cq *fid, struct fi_cq_err_entry *out, uint64_t flags)
{
	struct cq *cq = (struct cq *)fid;

	(void)flags;
	pthread_mutex_lock(&fake_ofi_lock);
	*out = cq->entries[0].e;
	memmove(cq->entries, cq->entries + 1, (size_t)--cq->n * sizeof(cq->entries[0]));
	pthread_mutex_unlock(&fake_ofi_lock);
	return 1;
}

/* ---- operations --------------------------------------------------------------------- */

/* A transfer may use device memory only through its registration. Returns 1 if no byte of it
 * moves. */
static int is_of_device(const uint8_t *local, const struct mr *desc)
{
	const int there = fake_ofi.device && local >= fake_ofi.device &&
			  local < fake_ofi.device + fake_ofi.device_bytes;

	if (there != (desc && desc->of_device))
		fake_ofi_misuse("device memory without its registration, or host memory with one");
	return there && fake_ofi.hmem == HMEM_DEAD;
}

static int is_right(struct endpoint_ *peer, enum op_kind kind, uint64_t address, uint64_t key,
		    size_t n)
{
	const struct op op = { .kind = kind, .address = address, .key = key, .n = n };
	uint8_t *at;

	return !n || find_mr(peer->domain, &op, FI_REMOTE_WRITE, &at);
}

static ssize_t begin(struct fid_ep *fid, enum op_kind kind, void *local, size_t n, void *desc,
		     fi_addr_t to, uint64_t address, uint64_t key, uint64_t flags, uint64_t data,
		     void *context, int tells)
{
	struct endpoint_ *e = (struct endpoint_ *)fid, *peer = NULL;
	int early = tells && kind == PUT &&
		    (fake_ofi.unplaced ? !fake_ofi.holds : !(flags & FI_DELIVERY_COMPLETE));
	struct op *op, **end;
	ssize_t rc = 0;
	int dead;

	pthread_mutex_lock(&fake_ofi_lock);
	for (int i = 0; i < ENDPOINTS && to < NAMES; i++)
		if (fake_ofi_endpoints[i] && fake_ofi_endpoints[i]->name == e->av->names[to])
			peer = fake_ofi_endpoints[i];
	if (fake_ofi_fails(kind == PUT ? "put" : kind == GET ? "get" : "send"))
		rc = -FI_EIO;
	else if (flags & FI_REMOTE_CQ_DATA && fake_ofi.no_writedata)
		rc = -FI_ENOSYS;
	else if (!peer || (fake_ofi.refuses && peer != e) || e->out >= (int)fake_ofi.tx_size)
		rc = -FI_EAGAIN;
	if (!e->on)
		fake_ofi_misuse("an endpoint that is not enabled is used");
	if (kind == MESSAGE && n > (tells ? 8000 : 32) && e->domain->face.direct)
		fake_ofi_misuse("a message is larger than efa-direct sends it");
	if (n && tells && e->domain->face.mr_mode & FI_MR_LOCAL && !desc)
		fake_ofi_misuse("local memory without its descriptor");
	dead = n && is_of_device(local, desc);
	if (!rc && early && fake_ofi.unplaced) /* a card reports the end when it accepts the
						  request */
		early = is_right(peer, kind, address, key, n);
	op = rc ? NULL : calloc(1, sizeof(*op) + n);
	if (op) {
		*op = (struct op){ .kind = kind,
				   .from = e,
				   .address = address,
				   .key = key,
				   .flags = flags,
				   .data = data,
				   .n = n,
				   .local = local,
				   .context = context,
				   .late = fake_ofi.unplaced && !fake_ofi.holds ?
						   (int)(roll() >> 27) :
						   fake_ofi.late,
				   .tells = tells };
		if (n && kind != GET && !dead)
			memcpy(op->bytes, local, n);
		if (dead)
			op->local = NULL;
		for (end = &peer->ops; *end; end = &(*end)->next)
			;
		*end = op;
		e->out++;
		counts->under_way += n;
		if (early) { /* the put is complete because of its flags, or because the card
				accepted it, but is not placed */
			counts->early++;
			op->tells = 0;
			complete(e->cq,
				 (struct fi_cq_err_entry){ .op_context = context,
							   .flags = FI_WRITE | FI_RMA },
				 FI_ADDR_NOTAVAIL);
		}
	}
	pthread_mutex_unlock(&fake_ofi_lock);
	return rc;
}

ssize_t fake_ofi_writedata(struct fid_ep *ep, const void *buf, size_t n, void *desc, uint64_t data,
			   fi_addr_t to, uint64_t address, uint64_t key, void *context)
{
	const struct endpoint_ *e = (struct endpoint_ *)ep;
	const char *on = getenv("FI_CXI_ENABLE_WRITEDATA");

	if (fake_ofi.data_by_call &&
	    (!on || strcmp(on, "1") || !(e->domain->face.mr_mode & FI_MR_PROV_KEY)))
		return -FI_ENOSYS; /* fi_no_rma_writedata() */
	return begin(ep, PUT, (void *)(uintptr_t)buf, n, desc, to, address, key,
		     e->op_flags | FI_REMOTE_CQ_DATA | FI_COMPLETION, data, context, 1);
}

ssize_t fake_ofi_writemsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
	if (fake_ofi.data_by_call && flags & FI_REMOTE_CQ_DATA)
		return -FI_EBADFLAGS;
	return begin(ep, PUT, m->msg_iov->iov_base, m->msg_iov->iov_len,
		     m->desc ? m->desc[0] : NULL, m->addr, m->rma_iov->addr, m->rma_iov->key, flags,
		     m->data, m->context, 1);
}

ssize_t fake_ofi_get(struct fid_ep *ep, void *buf, size_t n, void *desc, fi_addr_t from,
		     uint64_t address, uint64_t key, void *context)
{
	return begin(ep, GET, buf, n, desc, from, address, key, 0, 0, context, 1);
}

ssize_t fake_ofi_send(struct fid_ep *ep, const void *buf, size_t n, void *desc, fi_addr_t to,
		      void *context)
{
	return begin(ep, MESSAGE, (void *)(uintptr_t)buf, n, desc, to, 0, 0, 0, 0, context, 1);
}

ssize_t fake_ofi_inject(struct fid_ep *ep, const void *buf, size_t n, fi_addr_t to)
{
	if (n > fake_ofi.inject_size)
		fake_ofi_misuse("more is injected than there is room for");
	return begin(ep, MESSAGE, (void *)(uintptr_t)buf, n, NULL, to, 0, 0, 0, 0, NULL, 0);
}

ssize_t fake_ofi_recv(struct fid_ep *fid, void *buf, size_t n, void *desc, fi_addr_t from,
		      void *context)
{
	struct endpoint_ *e = (struct endpoint_ *)fid;
	ssize_t rc = 0;

	(void)from;
	pthread_mutex_lock(&fake_ofi_lock);
	/* There are many calls, so a walk through all failures tries every sixteenth. */
	if ((e->received++ % 16 == 0 && fake_ofi_fails("fi_recv")) || e->n_receives == ENTRIES)
		rc = -FI_EAGAIN;
	else {
		e->receives[e->n_receives].at = buf;
		e->receives[e->n_receives].n = n;
		e->receives[e->n_receives++].context = context;
	}
	if (e->domain->face.mr_mode & FI_MR_LOCAL && !desc)
		fake_ofi_misuse("a receive without the descriptor of its memory");
	pthread_mutex_unlock(&fake_ofi_lock);
	return rc;
}
