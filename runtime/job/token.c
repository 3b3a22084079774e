/* SPDX-License-Identifier: BSD-3-Clause
 * Waiting for the token, and waking threads that wait; see token.h. */
#include "job/token.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_AGAIN_NS = 10000000 };

void token_await(struct token *token)
{
	const struct timespec look_again = { 0, LOOK_AGAIN_NS };
	do {
		atomic_store(&token->awaited, 1);
		/* Sleeps only while the token is held. Whatever ends the sleep, the loop then tries
		 * to take the token. */
		syscall(SYS_futex, &token->held, FUTEX_WAIT_PRIVATE, 1, &look_again, NULL, 0);
	} while (!token_try(token));
	/* token_wake() wakes one thread, so others may still be waiting. */
	atomic_store(&token->awaited, 1);
}

void token_wake(struct token *token)
{
	if (atomic_exchange(&token->awaited, 0))
		syscall(SYS_futex, &token->held, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
