/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels as nvcc translated them: the text of a .ptx file, read into instructions. machine.c
 * executes them. */
#ifndef PTX_PROGRAM_H
#define PTX_PROGRAM_H
#include <stddef.h>
#include <stdint.h>

enum ptx_op {
	OP_ABS,
	OP_ADD,
	OP_AND,
	OP_ATOM,
	OP_BAR,
	OP_BFI,
	OP_BFIND,
	OP_BRA,
	OP_BREV,
	OP_CLZ,
	OP_CVT,
	OP_CVTA,
	OP_DIV,
	OP_FENCE,
	OP_FMA,
	OP_LD,
	OP_MAD,
	OP_MAX,
	OP_MEMBAR,
	OP_MIN,
	OP_MOV,
	OP_MUL,
	OP_NANOSLEEP,
	OP_NEG,
	OP_NOT,
	OP_OR,
	OP_POPC,
	OP_PRMT,
	OP_RCP,
	OP_RED,
	OP_REDUX,
	OP_REM,
	OP_RET,
	OP_SELP,
	OP_SETP,
	OP_SHFL,
	OP_SHL,
	OP_SHR,
	OP_SQRT,
	OP_ST,
	OP_SUB,
	OP_VOTE,
	OP_XOR,
	PTX_OPS
};

enum ptx_type {
	TYPE_NONE,
	TYPE_PRED,
	TYPE_B8,
	TYPE_B16,
	TYPE_B32,
	TYPE_B64,
	TYPE_U8,
	TYPE_U16,
	TYPE_U32,
	TYPE_U64,
	TYPE_S8,
	TYPE_S16,
	TYPE_S32,
	TYPE_S64,
	TYPE_F16,
	TYPE_F32,
	TYPE_F64
};

/* The modifiers after the name of an instruction. */
enum ptx_mode {
	MODE_NONE,
	MODE_EQ,
	MODE_NE,
	MODE_LT,
	MODE_LE,
	MODE_GT,
	MODE_GE, /* comparisons ... */
	MODE_EQU,
	MODE_NEU,
	MODE_LTU,
	MODE_LEU,
	MODE_GTU,
	MODE_GEU, /* ... or one is NaN */
	MODE_LO,
	MODE_HI,
	MODE_WIDE,
	MODE_ADD,
	MODE_MIN,
	MODE_MAX,
	MODE_AND,
	MODE_OR,
	MODE_XOR,
	MODE_UP,
	MODE_DOWN,
	MODE_BFLY,
	MODE_IDX,
	MODE_ALL,
	MODE_ANY,
	MODE_BALLOT,
	MODE_SHIFTAMT,
	MODE_RZI,
	MODE_WARP,
	MODE_TO
};

enum ptx_space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM };

enum ptx_kind {
	KIND_REGISTER,
	KIND_VALUE,
	KIND_PARAMS,
	KIND_LOCAL, /* the last two hold an offset */
	KIND_TID,
	KIND_CTAID,
	KIND_NTID,
	KIND_NCTAID,
	KIND_NOWHERE
};

struct ptx_operand {
	enum ptx_kind kind;
	uint32_t number; /* number of the register */
	uint64_t value;
};

enum { PTX_OPERANDS = 6 };

struct ptx_instruction {
	enum ptx_op op;
	enum ptx_type type, from; /* from: source type of a conversion */
	enum ptx_mode mode;
	enum ptx_space space;
	unsigned vector;            /* number of values that a load or store moves */
	int guarded, guard_negated; /* executes only if the predicate is set, or is not set */
	uint32_t guard, target;
	struct ptx_operand to[4], with[PTX_OPERANDS]; /* with[0]: address of a load or store */
	unsigned n_to, n_with;
	int64_t offset;
	const char *text;
	unsigned line;
};

struct ptx_kernel {
	const char *name;
	struct ptx_instruction *code;
	uint32_t n, room, registers, shared, local, params; /* all but registers in bytes */
};

static inline unsigned ptx_bytes(enum ptx_type type)
{
	switch (type) {
	case TYPE_B64:
	case TYPE_U64:
	case TYPE_S64:
	case TYPE_F64: return 8;
	case TYPE_B32:
	case TYPE_U32:
	case TYPE_S32:
	case TYPE_F32: return 4;
	case TYPE_B16:
	case TYPE_U16:
	case TYPE_S16:
	case TYPE_F16: return 2;
	case TYPE_PRED:
	case TYPE_B8:
	case TYPE_U8:
	case TYPE_S8: return 1;
	case TYPE_NONE: break;
	}
	return 0;
}

/* Reads the file, or ends the process with a message that names the line. Its kernels exist until
 * the process ends. */
void ptx_read(const char *file);
const struct ptx_kernel *ptx_find(const char *name);
#endif
