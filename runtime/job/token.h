/* SPDX-License-Identifier: BSD-3-Clause
 * The progress token: a lock that is taken and left at every call and seldom waited for, so leaving
 * it is a plain store and not one more locked instruction, which a short put would feel.
 *
 * The price: a processor may look whether somebody waits before others see that the token is free.
 * Then nobody wakes who just fell asleep; so whoever sleeps looks again after a while. Who holds
 * what is never in doubt: taking is one atomic exchange, and what a holder wrote is visible to the
 * next. */
#ifndef RUNTIME_TOKEN_H
#define RUNTIME_TOKEN_H
#include <stdatomic.h>

/* Zeros: free. */
struct token {
	atomic_uint held;    /* 0 or 1; sleepers wait for a change of it */
	atomic_uint awaited; /* somebody sleeps, or is about to */
};

/* 1 if it is now the caller's. */
static inline int token_try(struct token *token)
{
	return !atomic_exchange_explicit(&token->held, 1, memory_order_acquire);
}
void token_await(struct token *token);
static inline void token_take(struct token *token)
{
	if (!token_try(token))
		token_await(token);
}
void token_wake(struct token *token);
static inline void token_leave(struct token *token)
{
	atomic_store_explicit(&token->held, 0, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst); /* the compiler, at least, keeps the order */
	if (atomic_load_explicit(&token->awaited, memory_order_relaxed))
		token_wake(token);
}
#endif
