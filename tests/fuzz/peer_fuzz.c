/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for all that one rank of a job writes to the others: mails, notices, pushes, deltas,
 * snapshots, status, reports and membership. The ranks of a simulated job train. One of them
 * changes what it sends and recomputes the checksums, so each change reaches its reader in the
 * middle of a real step. Input: a recipe, options, then changes of 8 bytes each. A rank that
 * refuses must log the reason. Without changes, no rank may refuse. */
#include "fuzz.h"
#include "base/bytes.h"
#include "compress/message.h"
#include "job/state.h"
#include "model/census.h"
#include "model/model.h"
#include "tests/unit/scratch.h"

static const char *const recipes[] = {
	"up=topk(0.1) down=topk(0.2)",
	"up=all down=all",
	"up=all down=all update=momentum(0.9)",
	"up=topk(0.1),f16 down=topk(0.2),bf16 coding=small signal=momentum(0.9)",
	"up=randk(0.2) down=all seed=7",
	"up=cyclic(0.2) down=all",
	"up=sketch(0.1) down=all",
	"up=global(0.2,2) down=global(0.2,2)",
	"up=topk(0.2),uniform(2,8) down=topk(0.2),grid(4)",
	"up=all,round(0.25) down=all,f16",
	"up=threshold(0.5) down=all",
	"up=all down=all signal=innovation when=lazy(3,0.5)",
	"up=all,grid(3) down=all signal=innovation when=lazy(3,0.5,2)",
	"up=topk(0.1) down=all when=every(2)",
	"up=topk(0.2) down=all when=async(2)",
	"up=all down=all when=async(2,whole)",
	"up=topk(0.2) down=topk(0.2) reset=2",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

/* Options. */
enum {
	COLLECTIVES = 1,     /* a barrier and a sum after the steps */
	SAVED = 2,           /* also a checkpoint and a restore */
	NOTHING_MAPPED = 4,  /* ranks cannot map each other's memory, as over a network */
	SERVED = 8,          /* the last rank is a dedicated server, and the job continues
				without lost workers */
	SERVER_ATTACKS = 16, /* the attacker is the last rank instead of rank 1 */
	EARLY = 32           /* the attack begins when the model is opened */
};

enum { COUNT = 97, SHARDS = 2, STEPS = 4, CHANGES_MOST = 64, CHANGE_BYTES = 8 };

/* The bytes of the attacker that are changed: the n-th transfer of this kind. */
enum { ANY_PUT, GOT = 8, KINDS };
enum operation { XOR_BYTE, SET_BYTE, SET_32, SET_64, ADD_64, OPERATIONS };
struct change {
	uint8_t kind, nth;
	uint16_t at;
	enum operation operation;
	int leave_crc;
	uint64_t value;
};

static struct attack {
	struct change changes[CHANGES_MOST];
	size_t n;
	const char *recipe;
	unsigned options;
	int attacker, size, servers;
	unsigned seen[KINDS]; /* number of transfers so far */
	int armed, made;      /* made: number of changed transfers */
	char dir[SCRATCH_PATH];
} attack;

/* ---- checksums ------------------------------------------------------------- */

static uint32_t shorter(uint32_t n, size_t most)
{
	return n < most ? n : (uint32_t)most;
}

/* Seals a message, and the note after it if there is one. */
static void seal_message(uint8_t *p, size_t n)
{
	if (n < MESSAGE_HEADER_BYTES || memcmp(p, "SLC1", 4))
		return;
	const uint32_t payload = shorter(get_le32(p + 76), n - MESSAGE_HEADER_BYTES);
	uint8_t *note = p + MESSAGE_HEADER_BYTES + payload;

	put_le32(p + 80, crc32c(0, p + MESSAGE_HEADER_BYTES, payload));
	put_le32(p + 92, crc32c(0, p, 92));
	n -= MESSAGE_HEADER_BYTES + payload;
	if (n < NOTE_HEADER_BYTES || memcmp(note, "SLN1", 4))
		return;
	const uint32_t body = shorter(get_le32(note + 4), n - NOTE_FRAME_BYTES);
	put_le32(note + 20, crc32c(crc32c(0, note, 20), note + NOTE_FRAME_BYTES, body));
}

static void seal_mail(uint8_t *p, size_t n)
{
	if (n >= COLLECTIVE_HEADER_BYTES)
		put_le32(p + COLLECTIVE_CRC,
			 crc32c(crc32c(0, p, COLLECTIVE_CRC), p + COLLECTIVE_HEADER_BYTES,
				shorter(get_le32(p + 12), n - COLLECTIVE_HEADER_BYTES)));
}

static void seal_status(uint8_t *p, size_t n)
{
	if (n >= 16)
		put_le32(p + 8,
			 crc32c(crc32c(0, p, 8), p + 12, 4 + shorter(get_le32(p + 12), n - 16)));
}

static void seal(uint8_t *p, size_t n, unsigned kind)
{
	switch (kind) {
	case IMM_COLLECTIVE: seal_mail(p, n); break;
	case IMM_STATUS: seal_status(p, n); break;
	case IMM_PUSH:
	case GOT: seal_message(p, n); break;
	case IMM_NOTICE:
		if (n >= NOTICE_BYTES)
			put_le32(p + 28, crc32c(0, p, 28));
		break;
	case IMM_REPORT:
		if (n >= 8)
			put_le32(p, crc32c(0, p + 4, 4 + shorter(get_le32(p + 4), n - 8)));
		break;
	case IMM_MEMBERS:
		if (n >= MEMBERS_BLOCK_BYTES)
			put_le32(p + 4, crc32c(crc32c(0, p, 4), p + 8, MEMBERS_BLOCK_BYTES - 8));
		break;
	default: break;
	}
}

/* ---- changing transfers ----------------------------------------------------- */

static void apply(const struct change *c, uint8_t *p, size_t n)
{
	const size_t at = c->at % n, left = n - at;

	switch (c->operation) {
	case XOR_BYTE: p[at] ^= (uint8_t)c->value; break;
	case SET_BYTE: p[at] = (uint8_t)c->value; break;
	case SET_32:
		if (left >= 4)
			put_le32(p + at, (uint32_t)c->value);
		break;
	case SET_64:
		if (left >= 8)
			put_le64(p + at, c->value);
		break;
	case ADD_64:
		if (left >= 8)
			put_le64(p + at, get_le64(p + at) + c->value);
		break;
	case OPERATIONS: break;
	}
}

/* Changes the bytes of the next transfer of this kind before anything reads them. Returns 1 if they
 * were changed. */
static int meddle(unsigned kind, uint8_t *p, size_t n)
{
	int changed = 0, sealed = 0;

	for (size_t i = 0; i < attack.n && attack.armed && n; i++) {
		const struct change *c = &attack.changes[i];

		if (c->kind != kind || c->nth != attack.seen[kind])
			continue;
		apply(c, p, n);
		changed = 1;
		sealed |= !c->leave_crc;
	}
	if (sealed)
		seal(p, n, kind);
	return changed;
}

static void count(unsigned kind, int changed)
{
	attack.seen[kind] += (unsigned)attack.armed;
	attack.made += changed;
}

static const struct transport_ops *genuine;
static struct transport_ops of_reader, of_attacker;

static int read_from_attacker(struct endpoint *e, const struct transfer *t)
{
	const int rc = genuine->post(e, t);

	if (!rc && t->kind == TRANSFER_GET && e->peer == attack.attacker)
		count(GOT, meddle(GOT, t->local, t->bytes));
	return rc;
}

static int write_as_attacker(struct endpoint *e, const struct transfer *t)
{
	static uint8_t bytes[1 << 16];
	const unsigned kind = t->kind == TRANSFER_PUT_NOTIFY ? t->imm >> 28 & 7 : ANY_PUT;
	const struct region region = { .base = bytes, .bytes = sizeof(bytes) };
	struct transfer changed = *t;

	if (t->kind == TRANSFER_GET || e->peer == attack.attacker)
		return genuine->post(e, t);
	require(t->bytes <= sizeof(bytes), "a longer transfer than this target has room for");
	if (t->bytes)
		memcpy(bytes, t->local, t->bytes);
	changed.local_region = &region;
	changed.local = bytes;
	const int made = meddle(kind, bytes, t->bytes), rc = genuine->post(e, &changed);

	if (!rc)
		count(kind, made);
	return rc;
}

static void take_over(sluice_job *job)
{
	struct transport *t = job->transports.list[0];

	require(job->transports.n == 1 && t->ops->copies_at_post, "another transport than self");
	genuine = t->ops;
	of_reader = *genuine;
	if (attack.options & NOTHING_MAPPED)
		of_reader.readable = NULL;
	of_attacker = of_reader;
	of_reader.post = read_from_attacker;
	of_attacker.post = write_as_attacker;
	t->ops = job->rank == attack.attacker ? &of_attacker : &of_reader;
}

/* ---- the ranks ------------------------------------------------------------- */

static void arm(const sluice_job *job)
{
	if (job->rank == attack.attacker)
		attack.armed = 1;
}

static int train(sluice_model *model, int rank, float *x, int steps)
{
	const int wanted = model->recipe.update != UPDATE_AVERAGE;
	int rc = 0;

	for (int i = 0; i < steps && !rc && wanted; i++) {
		float grad[COUNT];

		for (int j = 0; j < COUNT; j++)
			grad[j] = x[j] - (float)((j * 7 + rank * 3 + i) % 11);
		rc = sluice_push(model, grad);
		if (!rc)
			rc = sluice_pull(model, x);
	}
	return rc;
}

static int collect(sluice_job *job)
{
	double sums[3] = { 1, 2, 3 };
	uint32_t mine = (uint32_t)job->rank, all[3];
	int rc = sluice_barrier(job);

	if (!rc)
		rc = sluice_sum(job, sums, 3);
	return rc ? rc : sluice_gather(job, &mine, sizeof(mine), all);
}

/* Closes the model and opens it again between the two calls. */
static int save_and_restore(sluice_job *job, const sluice_model_attr *attr, float *x,
			    sluice_model **model)
{
	int rc = sluice_checkpoint(*model, attack.dir);

	if (rc)
		return rc;
	sluice_model_close(model);
	rc = sluice_model_open(job, attr, x, model);
	if (!rc)
		rc = sluice_restore(*model, attack.dir, x, NULL);
	return rc ? rc : train(*model, job->rank, x, 2);
}

static int live(sluice_job *job, void *context)
{
	const int saved = attack.options & SAVED, lives = job->rank < job->workers;
	const sluice_model_attr attr = { .size = sizeof(attr),
					 .count = COUNT,
					 .lr = 0.1f,
					 .shards = SHARDS,
					 .recipe = attack.recipe };
	float x[COUNT] = { 0 };
	sluice_model *model = NULL;
	int rc, *possible = context;

	take_over(job);
	if (attack.options & EARLY)
		arm(job);
	rc = sluice_model_open(job, &attr, x, &model);
	if (rc && !attack.made) {
		*possible = 0; /* these ranks cannot have this recipe */
		return 0;
	}
	arm(job);
	if (!rc && !lives)
		rc = sluice_serve(model);
	if (!rc && !lives && saved && model->recipe.when != WHEN_ASYNC) {
		sluice_model_close(&model);
		rc = sluice_model_open(job, &attr, x, &model);
		if (!rc)
			rc = sluice_serve(model);
	}
	if (!rc && lives)
		rc = train(model, job->rank, x, STEPS);
	if (!rc && lives && attack.options & COLLECTIVES)
		rc = collect(job);
	if (!rc && lives && saved && model->recipe.when != WHEN_ASYNC)
		rc = save_and_restore(job, &attr, x, &model);
	if (rc) {
		require(attack.made, "refused, although nothing was changed");
		expect_refusal(rc, rc < 0 && rc >= SLUICE_EIO ? rc : SLUICE_EWIRE, SLUICE_EWIRE);
	}
	sluice_model_close(&model);
	return rc;
}

/* ---- inputs ---------------------------------------------------------------- */

static void remove_folder(void)
{
	scratch_remove(attack.dir);
}

/* No file needs to survive a loss of power, so fsync() does nothing. */
int fsync(int fd)
{
	(void)fd;
	return 0;
}

static void read_changes(const uint8_t *data, size_t size)
{
	for (attack.n = 0; size >= CHANGE_BYTES && attack.n < CHANGES_MOST; attack.n++) {
		/* A small number, shifted left so that large numbers can also occur. */
		const uint64_t value = (uint64_t)(int64_t)(int8_t)data[5] << (data[6] & 63);

		attack.changes[attack.n] = (struct change){
			.kind = data[0] % KINDS,
			.nth = data[1],
			.at = get_le16(data + 2),
			.operation = (enum operation)(data[4] & 127) % OPERATIONS,
			.leave_crc = data[4] >> 7,
			.value = value + data[7],
		};
		data += CHANGE_BYTES;
		size -= CHANGE_BYTES;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int possible = 1;

	if (size < 2)
		return 0;
	if (!attack.dir[0]) {
		require(!scratch_make(attack.dir), "no temporary folder");
		atexit(remove_folder);
	}
	attack.recipe = recipes[data[0] % RECIPES];
	attack.options = data[1];
	attack.servers = attack.options & SERVED ? 1 : 0;
	attack.size = 2 + attack.servers;
	attack.attacker = attack.options & SERVER_ATTACKS ? attack.size - 1 : 1;
	attack.armed = attack.made = 0;
	memset(attack.seen, 0, sizeof(attack.seen));
	read_changes(data + 2, size - 2);
	begin();
	const sluice_job_attr attr = { .size = sizeof(attr),
				       .servers = attack.servers,
				       .on_failure = attack.servers ? SLUICE_CONTINUE :
								      SLUICE_ABORT };
	int rc = sluice_simulate(&attr, attack.size, live, &possible);

	if (possible && !attack.made)
		require(!rc, "the job failed, although nothing was changed");
	if (rc)
		expect_refusal(rc, rc < 0 && rc >= SLUICE_EIO ? rc : SLUICE_EWIRE, SLUICE_EWIRE);
	return 0;
}
