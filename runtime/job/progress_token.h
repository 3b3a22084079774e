/* SPDX-License-Identifier: BSD-3-Clause
 * Taking and releasing a job's progress token, inline because each instruction of a short put
 * counts. progress.h has the rest. */
#ifndef RUNTIME_PROGRESS_TOKEN_H
#define RUNTIME_PROGRESS_TOKEN_H
#include "job/state.h"

/* Takes the token for work that does not count as a call of the application. */
static inline void progress_enter(sluice_job *job)
{
	if (!progress_try(&job->root->progress))
		progress_queue(job->root);
}
/* Takes the token for a caller that only posts. The transports stay armed for the sleeping progress
 * thread. This saves the system calls of disarming and arming. */
static inline void progress_lock(sluice_job *job)
{
	progress_enter(job);
	progress_count_call(&job->root->progress);
}
static inline void progress_unlock(sluice_job *job)
{
	progress_leave(&job->root->progress);
}
/* Takes the token for a caller that polls. */
static inline void progress_take(sluice_job *job)
{
	progress_lock(job);
	if (progress_is_armed(&job->root->progress))
		progress_cancel(job->root);
}
/* Returns the transports to the progress thread. Arms them, so that the thread wakes at the next
 * event, unless it dozes and polls by itself. */
static inline void progress_release(sluice_job *job)
{
	if (progress_wants_events(&job->root->progress))
		progress_arm(job->root);
	progress_unlock(job);
}
#endif
