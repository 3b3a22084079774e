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
#ifdef SLUICE_CHECK_TOKEN
#include <assert.h>
#include <pthread.h>
#endif

/* Zeros: free. */
struct token {
	atomic_uint held;    /* 0 or 1; sleepers wait for a change of it */
	atomic_uint awaited; /* somebody sleeps, or is about to */
#ifdef SLUICE_CHECK_TOKEN
	atomic_ulong holder; /* its pthread_self(); 0 while the token is free */
#endif
};

/* Builds with a sanitizer check who holds the token, where a comment says "token held". */
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

/* 1 if it is now the caller's. */
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
	atomic_signal_fence(memory_order_seq_cst); /* the compiler, at least, keeps the order */
	if (atomic_load_explicit(&token->awaited, memory_order_relaxed))
		token_wake(token);
}
#endif
