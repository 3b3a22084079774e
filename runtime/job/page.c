/* SPDX-License-Identifier: BSD-3-Clause
 * See page.h. A writer that finds a block in use by another thread leaves it alone, so no call
 * waits for a reader or for another writer. */
#include "job/page.h"
#include "job/state.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "rdma/region.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define CHECK_WORDS(contents)                                                                      \
	_Static_assert(sizeof(contents) % sizeof(uint64_t) == 0, #contents " has no whole words")
CHECK_WORDS(struct page_who);
CHECK_WORDS(struct page_wait);
CHECK_WORDS(struct page_losses);
CHECK_WORDS(struct page_note);
CHECK_WORDS(struct page_model);
CHECK_WORDS(struct page_numbers);

/* Any thread may log, even while the page is being closed. */
static _Atomic(struct rank_page *) noted; /* the page that shows the log of this process */
static atomic_int note_users;
static atomic_uint_least64_t notes;
static _Atomic(pid_t) note_process;

static void put(_Atomic uint64_t *sequence, _Atomic uint64_t *words, const void *contents,
		size_t bytes)
{
	uint64_t before = atomic_load_explicit(sequence, memory_order_relaxed), word;
	if (before & 1 ||
	    !atomic_compare_exchange_strong_explicit(sequence, &before, before + 1,
						     memory_order_acquire, memory_order_relaxed))
		return;
	for (size_t i = 0; i < bytes / sizeof(word); i++) {
		memcpy(&word, (const char *)contents + i * sizeof(word), sizeof(word));
		atomic_store_explicit(&words[i], word, memory_order_release);
	}
	atomic_store_explicit(sequence, before + 2, memory_order_release);
}
#define PUT(block, contents) put(&(block)->sequence, (block)->words, contents, sizeof(*(contents)))

/* ---- the file ----------------------------------------------------------------- */

/* Returns the call that failed, or NULL. */
static const char *make_page(struct page_writer *w, const char *name)
{
	const off_t bytes = sizeof(struct rank_page);
	w->fd = region_memfd(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (w->fd < 0)
		return "memfd_create";
	if (fchmod(w->fd, 0600))
		return "fchmod";
	errno = EFBIG;
	if (!region_within_file_limit((size_t)bytes))
		return "RLIMIT_FSIZE";
	/* Without memory for the whole file, a later store would end the process. */
	errno = posix_fallocate(w->fd, 0, bytes);
	if (errno)
		return "posix_fallocate";
	if (fcntl(w->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return "fcntl(F_ADD_SEALS)";
	void *page = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			  w->fd, 0);
	if (page == MAP_FAILED)
		return "mmap";
	w->page = page;
	return NULL;
}

static void copy_name(char to[PAGE_NAME_BYTES], const char *from)
{
	snprintf(to, PAGE_NAME_BYTES, "%s", from ? from : "");
}

/* The addresses of the transports contain numbers of processes, ports and keys. */
uint64_t job_meeting(const sluice_job *job)
{
	uint32_t low = 0, high = 0;
	for (int r = 0; r < job->size; r++) {
		const struct rank_record *first = &job->records[r];
		const struct rank_record *last = &job->records[job->size - 1 - r];
		low = crc32c(low, first->payload, first->payload_bytes);
		high = crc32c(high, last->payload, last->payload_bytes);
	}
	return (uint64_t)high << 32 | low;
}

static void describe_rank(const sluice_job *job, struct page_who *who)
{
	*who = (struct page_who){ .rank = job->rank,
				  .size = job->size,
				  .servers = job->servers,
				  .pid = job->process.pid,
				  .start_ns = now_ns(),
				  .meeting = job_meeting(job) };
	copy_name(who->job, getenv("SLURM_JOB_ID"));
	copy_name(who->step, getenv("SLURM_STEP_ID"));
	copy_name(who->node, sluice_node(job, job->rank));
	copy_name(who->library, sluice_version(NULL));
	for (int t = 0; t < job->transports.n; t++) {
		const size_t used = strlen(who->transports);
		if (!job->transports.list[t]->card)
			snprintf(who->transports + used, PAGE_NAME_BYTES - used, "%s%s",
				 used ? "," : "", job->transports.list[t]->ops->name);
	}
}

static void note_line(int level, const char *text)
{
	atomic_fetch_add(&note_users, 1);
	struct rank_page *page = atomic_load(&noted);
	if (page && level <= LOG_WARN && getpid() == atomic_load(&note_process)) {
		const uint64_t number = atomic_fetch_add(&notes, 1) + 1;
		struct page_note contents = { .number = number,
					      .ns = now_ns(),
					      .level = (uint64_t)level };
		snprintf(contents.text, sizeof(contents.text), "%s", text);
		PUT(&page->notes[number % PAGE_NOTES], &contents);
	}
	atomic_fetch_sub(&note_users, 1);
}

void rank_page_open(sluice_job *job)
{
	struct page_writer *w = &job->page;
	char name[PAGE_NAME_BYTES];
	struct page_who who;
	struct rank_page *none = NULL;
	if (job->sim_rank || strcmp(job->settings.monitoring.top, "yes"))
		return;
	describe_rank(job, &who);
	snprintf(name, sizeof(name), PAGE_FILE ":%.16s.%.16s:%d", who.job, who.step, who.rank);
	const char *failed = make_page(w, name);
	if (failed) {
		log_line(LOG_INFO, "runtime",
			 "sluice-top cannot show this rank, because it has no page (%s: %s); the "
			 "job continues without it",
			 failed, errno_text(errno));
		if (w->fd >= 0)
			close(w->fd);
		return;
	}
	PUT(&w->page->who, &who);
	w->page->head = (struct page_head){ .magic = PAGE_MAGIC,
					    .version = PAGE_VERSION,
					    .bytes = sizeof(struct rank_page) };
	atomic_store(&note_process, job->process.pid);
	if (atomic_compare_exchange_strong(&noted, &none, w->page))
		log_set_watch(note_line);
}

void rank_page_close(sluice_job *job)
{
	struct page_writer *w = &job->page;
	struct rank_page *own = w->page;
	if (!own)
		return;
	if (atomic_compare_exchange_strong(&noted, &own, NULL)) {
		log_set_watch(NULL);
		while (atomic_load(&note_users))
			sched_yield();
	}
	munmap(w->page, sizeof(struct rank_page));
	close(w->fd);
	w->page = NULL;
}

/* ---- models --------------------------------------------------------------------- */

int page_take(sluice_job *job)
{
	struct page_writer *w = &job->root->page;
	for (int i = 0; w->page && i < PAGE_MODELS; i++)
		if (!(atomic_fetch_or(&w->taken, 1u << i) & 1u << i))
			return i;
	return -1;
}

void page_show_model(sluice_job *job, int entry, const struct page_model *model)
{
	struct rank_page *page = job->root->page.page;
	if (page && entry >= 0)
		PUT(&page->models[entry], model);
}

void page_show_numbers(sluice_job *job, int entry, const struct page_numbers *numbers)
{
	struct rank_page *page = job->root->page.page;
	if (page && entry >= 0)
		PUT(&page->numbers[entry], numbers);
}

void page_give_back(sluice_job *job, int entry)
{
	static const struct page_model no_model;
	static const struct page_numbers no_numbers;
	if (!job->root->page.page || entry < 0)
		return;
	page_show_model(job, entry, &no_model);
	page_show_numbers(job, entry, &no_numbers);
	atomic_fetch_and(&job->root->page.taken, ~(1u << entry));
}

/* ---- waits and losses ------------------------------------------------------------- */

void page_show_wait(sluice_job *job, uint64_t since_ns, const char *text)
{
	struct rank_page *page = job->root->page.page;
	struct page_wait wait = { .since_ns = since_ns };
	if (!page)
		return;
	snprintf(wait.text, sizeof(wait.text), "%s", text);
	PUT(&page->wait, &wait);
}

void page_show_loss(sluice_job *job, int rank, const char *why)
{
	struct page_writer *w = &job->page;
	if (!w->page || job_in_group(job))
		return;
	const uint64_t known = w->losses.count < PAGE_LOSSES ? w->losses.count : PAGE_LOSSES;
	for (uint64_t i = 0; i < known; i++)
		if (w->losses.at[i].rank == rank)
			return;
	if (known < PAGE_LOSSES) {
		struct page_loss *loss = &w->losses.at[known];
		*loss = (struct page_loss){ .rank = rank, .ns = now_ns() };
		snprintf(loss->why, sizeof(loss->why), "%s", why);
	}
	w->losses.count++;
	PUT(&w->page->losses, &w->losses);
}
