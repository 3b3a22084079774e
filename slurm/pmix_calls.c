/* SPDX-License-Identifier: BSD-3-Clause
 * The only file that uses PMIx: its Init, Get, Get_nb, Put, Commit, Fence, Abort and Finalize.
 *
 * PMIx promises no time limit for its blocking calls, so each runs on a helper thread with a
 * deadline (bounded.h). struct pmix_launcher exists until the last helper or fence callback has
 * answered. */
#include "slurm/launcher.h"

#ifdef HAVE_PMIX
#include "base/error.h"
#include "sluice.h"
#include "slurm/bounded.h"
#include "slurm/siblings.h"

#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum phase {
	PHASE_INIT,
	PHASE_FENCE,
	PHASE_SEARCH,
	PHASE_ABORT,
	PHASE_COLLECT,
	PHASE_FINALIZE,
	PHASE_COUNT
};
enum { FINALIZE_TIMEOUT_MS = 5000, MAX_RANKS = 1 << 20 };
/* While a rank waits for the others, it checks at this interval whether the ranks on its node
 * are alive. */
enum { LOOK_MS = 1000 };
/* After a timeout, a rank spends this long on finding out which records are missing. */
enum { SEARCH_TIMEOUT_MS = 3000, MOST_MISSING = 8 };

/* Each exchange uses its own key, because PMIx does not replace a value that was put. */
static const char *const record_keys[LAUNCHER_ROUNDS] = { "sluice.card", "sluice.card2" };

struct pmix_launcher {
	struct launcher base;
	struct bounded calls; /* holders: the caller, helper threads, and a pending fence */
	int timeout_ms;
	int joined; /* 1 between Init and Finalize */
	pmix_proc_t self;
	int size;
	char node[256];
	char name[64];
	char settings[400]; /* the user's PMIX_MCA_*, read before Init, which sets some itself */
	char *present;      /* [size], set by PHASE_SEARCH: 1 if the launcher has this rank's
			       record */
	int n_answers;      /* in PHASE_SEARCH */
	char *local;        /* "0,1,5": the ranks on this node; NULL if unknown */
	int rounds;         /* number of exchanges begun */

	pmix_value_t **value;      /* [size], set by PHASE_COLLECT */
	int n_values;              /* number of entries of `value` that are set */
	const char *call;          /* the PMIx call whose status PHASE_INIT returns */
	pmix_info_t fence_info[2]; /* a member, because a pending fence may still read it */
};

static void free_values(struct pmix_launcher *l)
{
	for (int i = 0; i < l->n_values; i++)
		PMIX_VALUE_RELEASE(l->value[i]);
	free(l->value);
	l->value = NULL;
	l->n_values = 0;
}

static void free_launcher(void *object)
{
	struct pmix_launcher *l = object;

	free_values(l);
	free(l->local);
	free(l->present);
	PMIX_INFO_DESTRUCT(&l->fence_info[0]);
	PMIX_INFO_DESTRUCT(&l->fence_info[1]);
	free(l);
}

/* Returns an integer value of any type, because launchers use different types for counts. Returns
 * -1 if the value is no integer. */
static long long value_count(const pmix_value_t *v)
{
	switch (v->type) {
	case PMIX_BYTE: return v->data.byte;
	case PMIX_INT: return v->data.integer;
	case PMIX_INT8: return v->data.int8;
	case PMIX_INT16: return v->data.int16;
	case PMIX_INT32: return v->data.int32;
	case PMIX_INT64: return v->data.int64;
	case PMIX_UINT: return v->data.uint;
	case PMIX_UINT8: return v->data.uint8;
	case PMIX_UINT16: return v->data.uint16;
	case PMIX_UINT32: return v->data.uint32;
	case PMIX_UINT64: return v->data.uint64 > MAX_RANKS ? -1 : (long long)v->data.uint64;
	case PMIX_SIZE: return v->data.size > MAX_RANKS ? -1 : (long long)v->data.size;
	case PMIX_PROC_RANK: return v->data.rank;
	default: return -1;
	}
}

static pmix_status_t get_value(const struct pmix_launcher *l, pmix_rank_t rank, const char *key,
			       pmix_value_t **value)
{
	pmix_info_t info;
	pmix_proc_t proc = l->self;
	int seconds = l->timeout_ms / 1000 + 1;
	pmix_status_t status;

	proc.rank = rank;
	*value = NULL;
	PMIX_INFO_CONSTRUCT(&info);
	PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
	status = PMIx_Get(&proc, key, &info, 1, value);
	PMIX_INFO_DESTRUCT(&info);
	if (status == PMIX_SUCCESS && !*value)
		return PMIX_ERR_NOT_FOUND;
	return status;
}

/* ---- joining --------------------------------------------------------------- */

static pmix_status_t ask_size_and_node(struct pmix_launcher *l)
{
	pmix_value_t *value;
	pmix_status_t status;
	long long size;

	l->call = "PMIx_Get(PMIX_JOB_SIZE)";
	status = get_value(l, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &value);
	if (status != PMIX_SUCCESS)
		return status;
	size = value_count(value);
	PMIX_VALUE_RELEASE(value);
	if (size < 1 || size > MAX_RANKS || l->self.rank >= size)
		return PMIX_ERR_BAD_PARAM;
	l->size = (int)size;
	/* A failure is ignored, because the caller has other ways to find the node. */
	if (get_value(l, l->self.rank, PMIX_HOSTNAME, &value) == PMIX_SUCCESS) {
		if (value->type == PMIX_STRING && value->data.string && *value->data.string)
			snprintf(l->node, sizeof(l->node), "%s", value->data.string);
		PMIX_VALUE_RELEASE(value);
	}
	/* A failure is ignored. Without the list, only the timeout reveals that a rank on this node
	 * has ended. */
	if (get_value(l, PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS, &value) == PMIX_SUCCESS) {
		if (value->type == PMIX_STRING && value->data.string)
			l->local = strdup(value->data.string);
		PMIX_VALUE_RELEASE(value);
	}
	return PMIX_SUCCESS;
}

static void *init_body(void *argument)
{
	struct pmix_launcher *l = argument;
	pmix_status_t status;
	int joined;

	l->call = "PMIx_Init";
	status = PMIx_Init(&l->self, NULL, 0);
	joined = status == PMIX_SUCCESS;
	if (joined)
		status = ask_size_and_node(l);
	l->joined = joined;
	if (bounded_finish(&l->calls, PHASE_INIT, status) && joined)
		PMIx_Finalize(NULL, 0); /* the caller has timed out and will not finalize */
	bounded_release(&l->calls);
	return NULL;
}

static const struct launcher_ops ops;

static struct pmix_launcher *launcher_new(int timeout_ms)
{
	struct pmix_launcher *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	bounded_open(&l->calls, l, free_launcher);
	PMIX_INFO_CONSTRUCT(&l->fence_info[0]);
	PMIX_INFO_CONSTRUCT(&l->fence_info[1]);
	l->base.ops = &ops;
	l->timeout_ms = timeout_ms;
	return l;
}

/* Turns "OpenPMIx 4.2.2, repo rev: ..." into "PMIx 4.2.2". */
static void name_version(char *name, size_t bytes)
{
	const char *text = PMIx_Get_version(), *digit = text;

	while (*digit && (*digit < '0' || *digit > '9'))
		digit++;
	snprintf(name, bytes, "PMIx %.*s", (int)strcspn(digit, ", "), digit);
}

/* Writes a text such as "PMIX_MCA_psec=none PMIX_MCA_gds=hash". The user's PMIX_MCA_* variables
 * reach this process but not Slurm's daemon. The two may then use different security methods, for
 * example. */
static void list_pmix_settings(char *text, size_t bytes)
{
	static const char prefix[] = "PMIX_MCA_";
	size_t used = 0;

	*text = '\0';
	for (char **at = environ; *at && used < bytes; at++)
		if (!strncmp(*at, prefix, sizeof(prefix) - 1))
			used += (size_t)snprintf(text + used, bytes - used, "%s%.80s",
						 used ? " " : "", *at);
}

static int init_failed(const struct pmix_launcher *l)
{
	const char *served = getenv("PMIX_VERSION");
	pmix_status_t status = bounded_status(&l->calls, PHASE_INIT);

	return fail(SLUICE_EBOOT,
		    "%s failed on node %s: %s (%d). A launcher with PMIx %s started this process "
		    "(PMIX_NAMESPACE=%s, PMIX_RANK=%s), and this library uses %s: %s%s%s"
		    "start it by `srun --mpi=pmix` directly, with libpmix of one major version on "
		    "both sides, or unset PMIX_NAMESPACE to run alone",
		    l->call, l->node, PMIx_Error_string(status), status,
		    served ? served : "of unknown version", getenv("PMIX_NAMESPACE"),
		    getenv("PMIX_RANK") ? getenv("PMIX_RANK") : "", l->name,
		    *l->settings ? "unset what the launcher may not have (" : "", l->settings,
		    *l->settings ? "), " : "");
}

int pmix_supported(void)
{
	return 1;
}

static void leave_and_drop(struct pmix_launcher *l);

/* Another library of this process, such as MPI, may call PMIx_Init after our PMIx_Finalize. In
 * libpmix 3 and 4 the module ds21 cannot start a second time. The second PMIx_Init then selects
 * ds12, for which the server has no data of this job, and the other library finds nothing. If ds12
 * is excluded, libpmix selects the module that asks the server. libpmix reads PMIX_MCA_gds only in
 * the first PMIx_Init of a process, so it must be set before ours. */
static void let_pmix_init_again(void)
{
	const char *modules = getenv("PMIX_GDS_MODULE");

	if (modules && strstr(modules, "ds21") && !PMIx_Initialized())
		setenv("PMIX_MCA_gds", "^ds12", 0);
}

int pmix_open(int timeout_ms, const char *node, struct launcher **out)
{
	struct pmix_launcher *l;
	int err;

	/* Every PMIx server sets this variable for its clients. Without it, PMIx_Init would fail,
	 * or each process would become a job of one rank. */
	if (!getenv("PMIX_NAMESPACE")) {
		*out = NULL;
		return 0;
	}
	/* The library of a wheel loads libpmix when it calls it first. */
	if (!PMIx_Get_version())
		return fail(SLUICE_EBOOT,
			    "a launcher with PMIx started this process on node %s "
			    "(PMIX_NAMESPACE=%s), but libpmix.so.2 cannot be loaded: install it on "
			    "every node (Debian: libpmix2, RHEL: pmix), start the ranks with "
			    "torchrun, or unset PMIX_NAMESPACE to run alone",
			    node, getenv("PMIX_NAMESPACE"));
	l = launcher_new(timeout_ms);
	if (!l)
		return fail(SLUICE_ENOMEM, "no memory for the launcher's state");
	name_version(l->name, sizeof(l->name));
	snprintf(l->node, sizeof(l->node), "%s", node);
	list_pmix_settings(l->settings, sizeof(l->settings));
	let_pmix_init_again();
	err = bounded_run(&l->calls, PHASE_INIT, init_body, timeout_ms);
	if (err == SLUICE_ETIMEDOUT)
		err = fail(SLUICE_ETIMEDOUT,
			   "the launcher's PMIx server did not answer PMIx_Init within %.1f s "
			   "(PMIX_NAMESPACE=%s): look at slurmd's log on this node, or allow more "
			   "time with SLUICE_BOOT_TIMEOUT",
			   timeout_ms / 1e3, getenv("PMIX_NAMESPACE"));
	else if (!err && bounded_status(&l->calls, PHASE_INIT) != PMIX_SUCCESS)
		err = init_failed(l);
	if (err) {
		leave_and_drop(l);
		return err;
	}
	*out = &l->base;
	return 0;
}

static struct pmix_launcher *pmix_of(const struct launcher *l)
{
	return (struct pmix_launcher *)l;
}

static int pmix_rank(const struct launcher *l)
{
	return (int)pmix_of(l)->self.rank;
}

static int pmix_size(const struct launcher *l)
{
	return pmix_of(l)->size;
}

static const char *pmix_name(const struct launcher *l)
{
	return pmix_of(l)->name;
}

static const char *pmix_node(const struct launcher *l)
{
	return pmix_of(l)->node;
}

/* ---- leaving --------------------------------------------------------------- */

static void *finalize_body(void *argument)
{
	struct pmix_launcher *l = argument;

	bounded_finish(&l->calls, PHASE_FINALIZE, PMIx_Finalize(NULL, 0));
	bounded_release(&l->calls);
	return NULL;
}

static int leave_server(struct pmix_launcher *l)
{
	int err;

	/* If PMIx_Init timed out, its helper thread finalizes when the call returns. */
	if (bounded_is_late(&l->calls, PHASE_INIT) || !l->joined)
		return 0;
	l->joined = 0;
	err = bounded_run(&l->calls, PHASE_FINALIZE, finalize_body, FINALIZE_TIMEOUT_MS);
	if (err == SLUICE_ETIMEDOUT)
		return fail(
			SLUICE_ETIMEDOUT,
			"PMIx_Finalize did not return within %d s on rank %u: the launcher would "
			"end the whole step if a rank died now; look at slurmd's log on node %s",
			FINALIZE_TIMEOUT_MS / 1000, l->self.rank, l->node);
	return err;
}

static void leave_and_drop(struct pmix_launcher *l)
{
	leave_server(l);
	bounded_release(&l->calls);
}

static void pmix_close(struct launcher *l)
{
	leave_and_drop(pmix_of(l));
}

/* ---- the exchange ---------------------------------------------------------- */

static int call_failed(const struct pmix_launcher *l, const char *call, pmix_status_t status)
{
	return fail(SLUICE_EBOOT, "%s failed on rank %u: %s (%d); look at slurmd's log on node %s",
		    call, l->self.rank, PMIx_Error_string(status), status, l->node);
}

static const char *record_key(const struct pmix_launcher *l)
{
	return record_keys[l->rounds - 1];
}

static int offer(struct pmix_launcher *l, const uint8_t *mine, size_t n)
{
	pmix_value_t value;
	pmix_status_t status;
	char *copy = malloc(n);

	if (!copy)
		return fail(SLUICE_ENOMEM, "no memory for the record of rank %u", l->self.rank);
	memcpy(copy, mine, n);
	PMIX_VALUE_CONSTRUCT(&value);
	value.type = PMIX_BYTE_OBJECT;
	value.data.bo.bytes = copy;
	value.data.bo.size = n;
	status = PMIx_Put(PMIX_GLOBAL, record_key(l), &value);
	free(copy);
	if (status != PMIX_SUCCESS)
		return call_failed(l, "PMIx_Put", status);
	status = PMIx_Commit();
	return status == PMIX_SUCCESS ? 0 : call_failed(l, "PMIx_Commit", status);
}

struct question { /* a request for the record of one rank; freed when it is answered */
	struct pmix_launcher *l;
	int rank;
	pmix_info_t limit;
};

static void record_answered(pmix_status_t status, pmix_value_t *value, void *context)
{
	struct question *q = context;
	struct pmix_launcher *l = q->l;
	int last;

	(void)value;
	bounded_lock(&l->calls);
	l->present[q->rank] = status == PMIX_SUCCESS;
	last = ++l->n_answers == l->size;
	bounded_unlock(&l->calls);
	if (last)
		bounded_finish(&l->calls, PHASE_SEARCH, PMIX_SUCCESS);
	PMIX_INFO_DESTRUCT(&q->limit);
	free(q);
	bounded_release(&l->calls);
}

/* The launcher has a rank's record as soon as the rank has put it. All records are requested at the
 * same time, because a request for a missing record may never be answered. */
static void *search_body(void *argument)
{
	struct pmix_launcher *l = argument;
	int seconds = SEARCH_TIMEOUT_MS / 1000, rank;

	for (rank = 0; rank < l->size; rank++) {
		struct question *q = calloc(1, sizeof(*q));
		pmix_proc_t proc = l->self;
		pmix_status_t status;

		if (!q)
			break;
		proc.rank = (pmix_rank_t)rank;
		*q = (struct question){ .l = l, .rank = rank };
		PMIX_INFO_CONSTRUCT(&q->limit);
		PMIX_INFO_LOAD(&q->limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
		bounded_hold(&l->calls);
		status = PMIx_Get_nb(&proc, record_key(l), &q->limit, 1, record_answered, q);
		if (status != PMIX_SUCCESS) /* the request failed, so no answer will come */
			record_answered(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status,
					NULL, q);
	}
	bounded_release(&l->calls);
	return NULL;
}

/* Names the ranks whose record the launcher does not have, such as "rank 3, rank 5 and 2 more".
 * Writes "" if it has all. */
static void name_missing(struct pmix_launcher *l, char *text, size_t bytes)
{
	int rank, missing = 0;
	size_t used = 0;

	*text = '\0';
	l->present = calloc((size_t)l->size, 1);
	if (!l->present)
		return;
	bounded_run(&l->calls, PHASE_SEARCH, search_body, SEARCH_TIMEOUT_MS);
	bounded_lock(&l->calls);
	for (rank = 0; rank < l->size; rank++)
		if (!l->present[rank] && missing++ < MOST_MISSING)
			used += (size_t)snprintf(text + used, bytes - used, "%srank %d",
						 used ? ", " : "", rank);
	bounded_unlock(&l->calls);
	if (missing > MOST_MISSING)
		snprintf(text + used, bytes - used, " and %d more", missing - MOST_MISSING);
}

static int fence_timed_out(struct pmix_launcher *l)
{
	char missing[512];

	name_missing(l, missing, sizeof(missing));
	return fail(SLUICE_ETIMEDOUT,
		    "rank %u on node %s waited %.1f s for all %d ranks of the job to call "
		    "sluice_init(), but %s%s: look for a rank that ended or hangs before that call "
		    "(its output; sstat or sacct of this step) and for a second process under one "
		    "rank (a script that starts two programs at once), or allow more time with "
		    "SLUICE_BOOT_TIMEOUT",
		    l->self.rank, l->node, l->timeout_ms / 1e3, l->size,
		    *missing ? "these are missing: " : "at least one did not call it", missing);
}

static void *abort_body(void *argument)
{
	struct pmix_launcher *l = argument;

	bounded_finish(
		&l->calls, PHASE_ABORT,
		PMIx_Abort(EXIT_FAILURE, "a rank ended before all ranks had joined", NULL, 0));
	bounded_release(&l->calls);
	return NULL;
}

/* Called when a rank on this node has ended before all ranks joined. The fence cannot end without
 * that rank, and only the fence could reach the ranks on other nodes. This rank therefore asks the
 * launcher to end the step, as the launcher does by itself when a client of PMIx dies. Before that,
 * it gives the other ranks on this node time to notice the loss, so that each of them reports
 * it. */
static int sibling_ended(struct pmix_launcher *l, int rank)
{
	struct timespec pause = { LOOK_MS / 1000 + 1, 0 };

	fail(SLUICE_EPEER,
	     "rank %d (node %s) is lost: its process ended before all %d ranks had joined in "
	     "sluice_init(), so this rank asks the launcher to end the step; look for the cause in "
	     "the output of rank %d",
	     rank, l->node, l->size, rank);
	nanosleep(&pause, NULL);
	bounded_run(&l->calls, PHASE_ABORT, abort_body, FINALIZE_TIMEOUT_MS);
	return SLUICE_EPEER;
}

/* Waits until all ranks have joined the fence. Returns 0 or the error. */
static int await_fence(struct pmix_launcher *l)
{
	int waited, rank;

	for (waited = 0; waited < l->timeout_ms; waited += LOOK_MS) {
		int rest = l->timeout_ms - waited;

		if (!bounded_await(&l->calls, PHASE_FENCE, rest < LOOK_MS ? rest : LOOK_MS))
			return 0;
		rank = l->local && rest > LOOK_MS ?
			       siblings_ended(l->self.nspace, l->local, (int)l->self.rank) :
			       -1;
		if (rank >= 0)
			return bounded_await(&l->calls, PHASE_FENCE, 0) ? sibling_ended(l, rank) :
									  0;
	}
	return fence_timed_out(l);
}

static void fence_done(pmix_status_t status, void *context)
{
	struct pmix_launcher *l = context;

	bounded_finish(&l->calls, PHASE_FENCE, status);
	bounded_release(&l->calls);
}

static int fence(struct pmix_launcher *l)
{
	pmix_info_t *info = l->fence_info;
	/* Without PMIX_COLLECT_DATA, the fence returns no data and is no barrier between nodes. */
	bool collect = true;
	int seconds = l->timeout_ms / 1000 + 1; /* PMIx's limit ends after this library's */
	pmix_status_t status;
	int err;

	PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
	bounded_hold(&l->calls); /* fence_done() releases it; if it is never called, the object
				    is kept */
	status = PMIx_Fence_nb(NULL, 0, info, 2, fence_done, l);
	if (status == PMIX_OPERATION_SUCCEEDED)
		fence_done(PMIX_SUCCESS, l); /* PMIx does not call it after a failure */
	else if (status != PMIX_SUCCESS)
		fence_done(status, l);
	err = await_fence(l);
	if (err)
		return err;
	status = bounded_status(&l->calls, PHASE_FENCE);
	if (status == PMIX_ERR_TIMEOUT)
		return fence_timed_out(l);
	return status == PMIX_SUCCESS ? 0 : call_failed(l, "PMIx_Fence", status);
}

static void *collect_body(void *argument)
{
	struct pmix_launcher *l = argument;
	pmix_status_t status = PMIX_SUCCESS;

	while (l->n_values < l->size && status == PMIX_SUCCESS) {
		status = get_value(l, (pmix_rank_t)l->n_values, record_key(l),
				   &l->value[l->n_values]);
		if (status == PMIX_SUCCESS)
			l->n_values++;
	}
	bounded_finish(&l->calls, PHASE_COLLECT, status);
	bounded_release(&l->calls);
	return NULL;
}

static int collect(struct pmix_launcher *l, launcher_take_fn take, void *context)
{
	int rank, err;

	l->value = calloc((size_t)l->size, sizeof(*l->value));
	if (!l->value)
		return fail(SLUICE_ENOMEM, "no memory for the records of %d ranks", l->size);
	err = bounded_run(&l->calls, PHASE_COLLECT, collect_body, l->timeout_ms);
	if (err == SLUICE_ETIMEDOUT)
		return fail(err,
			    "rank %u on node %s: PMIx_Get of the ranks' records did not end within "
			    "%.1f s; look at slurmd's log on this node, or allow more time with "
			    "SLUICE_BOOT_TIMEOUT",
			    l->self.rank, l->node, l->timeout_ms / 1e3);
	if (err)
		return err;
	if (bounded_status(&l->calls, PHASE_COLLECT) != PMIX_SUCCESS)
		return fail(SLUICE_EBOOT,
			    "PMIx_Get of the record of rank %d failed on rank %u: %s (%d)",
			    l->n_values, l->self.rank,
			    PMIx_Error_string(bounded_status(&l->calls, PHASE_COLLECT)),
			    bounded_status(&l->calls, PHASE_COLLECT));
	for (rank = 0; rank < l->size; rank++) {
		const pmix_value_t *v = l->value[rank];

		if (v->type != PMIX_BYTE_OBJECT || !v->data.bo.bytes)
			return fail(SLUICE_EWIRE,
				    "the launcher returned no bytes as the record of rank %d",
				    rank);
		err = take(context, rank, (const uint8_t *)v->data.bo.bytes, v->data.bo.size);
		if (err)
			return err;
	}
	return 0;
}

static int pmix_exchange(struct launcher *launcher, const uint8_t *mine, size_t n,
			 launcher_take_fn take, void *context)
{
	struct pmix_launcher *l = pmix_of(launcher);
	int err;

	if (l->rounds == LAUNCHER_ROUNDS)
		return fail(SLUICE_EINVAL, "PMIx: records can be exchanged at most %d times",
			    LAUNCHER_ROUNDS);
	l->rounds++;
	/* The previous exchange has succeeded, so none of its helper threads still runs. */
	bounded_renew(&l->calls, PHASE_FENCE);
	bounded_renew(&l->calls, PHASE_COLLECT);
	free_values(l);
	err = offer(l, mine, n);
	if (!err)
		err = fence(l);
	return err ? err : collect(l, take, context);
}

static int pmix_leave(struct launcher *l)
{
	return leave_server(pmix_of(l));
}

static const struct launcher_ops ops = { .rank = pmix_rank,
					 .size = pmix_size,
					 .name = pmix_name,
					 .node = pmix_node,
					 .exchange = pmix_exchange,
					 .leave = pmix_leave,
					 .close = pmix_close };

#endif
