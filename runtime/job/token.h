/* SPDX-License-Identifier: BSD-3-Clause
 * The progress token: a lock that every call takes and releases, and that is seldom contended.
 * Releasing it is therefore a plain store and not another locked instruction, which would slow down
 * a short put. The price is that a processor may check for waiters before others can see that the
 * token is free. A thread that has just fallen asleep is then not woken, so sleepers check again
 * after a while. Mutual exclusion is never in doubt: taking the token is one atomic exchange, and
 * the next holder sees what the last one wrote. */
#ifndef RUNTIME_TOKEN_H
#define RUNTIME_TOKEN_H
#include <stdatomic.h>
#ifdef SLUICE_CHECK_TOKEN
#include <assert.h>
#include <pthread.h>
#endif

/* A token of zeros is free. */
struct token {
	atomic_uint held;    /* 0 or 1; sleepers wait for a change of this value */
	atomic_uint awaited; /* a thread sleeps, or is about to */
#ifdef SLUICE_CHECK_TOKEN
	atomic_ulong holder; /* pthread_self() of the holder; 0 while the token is free */
#endif
};

/* In builds with a sanitizer, these functions check who holds the token where a comment says "token
 * held". */
#ifdef SLUICE_CHECK_TOKEN
static inline void token_sign(struct token *token, unsigned long holder)
{
	atomic_store_explicit(&token->holder, holder, memory_order_relaxed);
}
static inline unsigned long token_self(void)
{
	return (unsigned long)pthread_self();
}
static inline void token_check(struct token *token)
{
	assert(atomic_load_explicit(&token->holder, memory_order_relaxed) == token_self());
}
#else
static inline void token_sign(struct token *token, unsigned long holder)
{
	(void)token;
	(void)holder;
}
static inline unsigned long token_self(void)
{
	return 0;
}
static inline void token_check(struct token *token)
{
	(void)token;
}
#endif

/* Returns 1 if the caller now holds the token. */
static inline int token_try(struct token *token)
{
	if (atomic_exchange_explicit(&token->held, 1, memory_order_acquire))
		return 0;
	token_sign(token, token_self());
	return 1;
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
	token_check(token);
	token_sign(token, 0);
	atomic_store_explicit(&token->held, 0, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst); /* at least the compiler must not reorder */
	if (atomic_load_explicit(&token->awaited, memory_order_relaxed))
		token_wake(token);
}
#endif
