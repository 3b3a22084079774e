/* SPDX-License-Identifier: BSD-3-Clause
 * The page that this process writes for sluice-top (page_layout.h). The library never reads it, so
 * readers cannot disturb the job. A job without a page does the same work, and these functions then
 * do nothing. page.c owns struct page_writer. */
#ifndef RUNTIME_PAGE_H
#define RUNTIME_PAGE_H
#include "metrics/page_layout.h"
#include "sluice.h"

struct page_writer {
	struct rank_page *page; /* NULL: none */
	int fd;
	atomic_uint taken;         /* bit i: entry i of the models is in use */
	struct page_losses losses; /* what was written last */
};

/* Makes the page, unless SLUICE_TOP=no or the rank is simulated. If that fails, logs why. */
void rank_page_open(sluice_job *job);
void rank_page_close(sluice_job *job);

/* Returns a number that all ranks of the job share. Two jobs are very unlikely to have the same
 * number. */
uint64_t job_meeting(const sluice_job *job);

/* Returns an entry for a model of the job or of one of its groups, or -1 if there is none. */
int page_take(sluice_job *job);
/* Writes what does not change while the model is open. */
void page_show_model(sluice_job *job, int entry, const struct page_model *model);
void page_show_numbers(sluice_job *job, int entry, const struct page_numbers *numbers);
/* Empties the entry. -1 is allowed. */
void page_give_back(sluice_job *job, int entry);

/* Shows that a call of this rank has waited since this time. With since_ns 0, the wait has ended.
 * The token must be held, here and in page_show_loss(). */
void page_show_wait(sluice_job *job, uint64_t since_ns, const char *text);
/* Shows that a rank of the job is lost. Only the first loss of a rank counts. */
void page_show_loss(sluice_job *job, int rank, const char *why);
#endif
