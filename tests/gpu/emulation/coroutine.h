/* SPDX-License-Identifier: BSD-3-Clause
 * Switches between coroutines. swapcontext() makes a system call each time, and a kernel's threads
 * switch at every warp function, so on x86-64 a few instructions do it instead. */
#ifndef EMULATED_COROUTINE_H
#define EMULATED_COROUTINE_H
#include <stddef.h>

#if defined(__x86_64__)
typedef struct {
	void *top;
} coroutine_state;

/* Saves the registers that a call must preserve, and continues where `to` was saved. */
void coroutine_switch(coroutine_state *from, const coroutine_state *to);
__asm__(".text\n"
	".globl coroutine_switch\n"
	".hidden coroutine_switch\n"
	".type coroutine_switch, @function\n"
	"coroutine_switch:\n"
	"	pushq %rbp\n	pushq %rbx\n	pushq %r12\n	pushq %r13\n	pushq %r14\n	"
	"pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq (%rsi), %rsp\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n	popq %r12\n	popq %rbx\n	"
	"popq %rbp\n"
	"	ret\n"
	".size coroutine_switch, .-coroutine_switch\n");

static inline void coroutine_make(coroutine_state *c, void *stack, size_t bytes,
				  void (*begin)(void))
{
	void **top = (void **)((char *)stack + bytes / 16 * 16);

	*--top = NULL;          /* no return address, because begin never returns */
	*--top = (void *)begin; /* begin is entered as by a call, so the stack is 8 off a
				   multiple of 16 */
	for (int i = 0; i < 6; i++)
		*--top = NULL;
	c->top = top;
}
#else
#include <ucontext.h>
typedef ucontext_t coroutine_state;

static inline void coroutine_switch(coroutine_state *from, const coroutine_state *to)
{
	swapcontext(from, to);
}

static inline void coroutine_make(coroutine_state *c, void *stack, size_t bytes,
				  void (*begin)(void))
{
	getcontext(c);
	c->uc_stack.ss_sp = stack;
	c->uc_stack.ss_size = bytes;
	makecontext(c, begin, 0);
}
#endif
#endif
