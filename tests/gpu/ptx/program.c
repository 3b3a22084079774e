/* SPDX-License-Identifier: BSD-3-Clause
 * See program.h. An unknown instruction ends the process with its line; nothing is skipped. */
#include "program.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS_MOST = 64, NAMES_MOST = 4096, WORDS_MOST = 16 };

static struct ptx_kernel kernels[KERNELS_MOST];
static unsigned n_kernels;

/* ---- names ------------------------------------------------------------------ */

static const struct {
	const char *name;
	enum ptx_op op;
	unsigned results;
} ops[] = {
	{ "abs", OP_ABS, 1 },
	{ "add", OP_ADD, 1 },
	{ "and", OP_AND, 1 },
	{ "atom", OP_ATOM, 1 },
	{ "bar", OP_BAR, 0 },
	{ "bfi", OP_BFI, 1 },
	{ "bfind", OP_BFIND, 1 },
	{ "bra", OP_BRA, 0 },
	{ "brev", OP_BREV, 1 },
	{ "clz", OP_CLZ, 1 },
	{ "cvt", OP_CVT, 1 },
	{ "cvta", OP_CVTA, 1 },
	{ "div", OP_DIV, 1 },
	{ "fence", OP_FENCE, 0 },
	{ "fma", OP_FMA, 1 },
	{ "ld", OP_LD, 1 },
	{ "mad", OP_MAD, 1 },
	{ "max", OP_MAX, 1 },
	{ "membar", OP_MEMBAR, 0 },
	{ "min", OP_MIN, 1 },
	{ "mov", OP_MOV, 1 },
	{ "mul", OP_MUL, 1 },
	{ "nanosleep", OP_NANOSLEEP, 0 },
	{ "neg", OP_NEG, 1 },
	{ "not", OP_NOT, 1 },
	{ "or", OP_OR, 1 },
	{ "popc", OP_POPC, 1 },
	{ "prmt", OP_PRMT, 1 },
	{ "rcp", OP_RCP, 1 },
	{ "red", OP_RED, 0 },
	{ "redux", OP_REDUX, 1 },
	{ "rem", OP_REM, 1 },
	{ "ret", OP_RET, 0 },
	{ "selp", OP_SELP, 1 },
	{ "setp", OP_SETP, 1 },
	{ "shfl", OP_SHFL, 1 },
	{ "shl", OP_SHL, 1 },
	{ "shr", OP_SHR, 1 },
	{ "sqrt", OP_SQRT, 1 },
	{ "st", OP_ST, 0 },
	{ "sub", OP_SUB, 1 },
	{ "vote", OP_VOTE, 1 },
	{ "xor", OP_XOR, 1 },
};

static const struct {
	const char *name;
	enum ptx_type type;
} types[] = {
	{ "pred", TYPE_PRED }, { "b8", TYPE_B8 },   { "b16", TYPE_B16 }, { "b32", TYPE_B32 },
	{ "b64", TYPE_B64 },   { "u8", TYPE_U8 },   { "u16", TYPE_U16 }, { "u32", TYPE_U32 },
	{ "u64", TYPE_U64 },   { "s8", TYPE_S8 },   { "s16", TYPE_S16 }, { "s32", TYPE_S32 },
	{ "s64", TYPE_S64 },   { "f16", TYPE_F16 }, { "f32", TYPE_F32 }, { "f64", TYPE_F64 },
};

static const struct {
	const char *name;
	enum ptx_mode mode;
} modes[] = {
	{ "eq", MODE_EQ },
	{ "ne", MODE_NE },
	{ "lt", MODE_LT },
	{ "le", MODE_LE },
	{ "gt", MODE_GT },
	{ "ge", MODE_GE },
	{ "equ", MODE_EQU },
	{ "neu", MODE_NEU },
	{ "ltu", MODE_LTU },
	{ "leu", MODE_LEU },
	{ "gtu", MODE_GTU },
	{ "geu", MODE_GEU },
	{ "lo", MODE_LO },
	{ "hi", MODE_HI },
	{ "wide", MODE_WIDE },
	{ "add", MODE_ADD },
	{ "min", MODE_MIN },
	{ "max", MODE_MAX },
	{ "and", MODE_AND },
	{ "or", MODE_OR },
	{ "xor", MODE_XOR },
	{ "up", MODE_UP },
	{ "down", MODE_DOWN },
	{ "bfly", MODE_BFLY },
	{ "idx", MODE_IDX },
	{ "all", MODE_ALL },
	{ "any", MODE_ANY },
	{ "ballot", MODE_BALLOT },
	{ "rzi", MODE_RZI },
	{ "warp", MODE_WARP },
	{ "shiftamt", MODE_SHIFTAMT },
	{ "to", MODE_TO },
};

static const struct {
	const char *name;
	enum ptx_space space;
} spaces[] = {
	{ "global", SPACE_GLOBAL },
	{ "shared", SPACE_SHARED },
	{ "local", SPACE_LOCAL },
	{ "param", SPACE_PARAM },
};

/* Modifiers whose effect the machine always has: rounding to nearest, memory order and caching, the
 * scope of an order, and lanes that wait for each other. */
static const char *const granted[] = { "rn",      "sync",    "uni",    "cg",  "volatile",
				       "acquire", "release", "gpu",    "sys", "gl",
				       "relaxed", "sc",      "acq_rel" };

/* ---- a file being read --------------------------------------------------------- */

struct name {
	char text[128];
	struct ptx_operand is;
	uint32_t count; /* registers */
};

struct reader {
	const char *file;
	unsigned line;
	struct ptx_kernel *kernel;
	struct name names[NAMES_MOST]; /* registers and variables, and labels, whose value is an
					  instruction */
	unsigned n_names;
};

static _Noreturn void misread(const struct reader *r, const char *what, const char *text)
{
	fprintf(stderr, "%s:%u: %s: %s\n", r->file, r->line, what, text);
	abort();
}

static struct name *name_new(struct reader *r, const char *text, enum ptx_kind kind, uint64_t value)
{
	struct name *n = &r->names[r->n_names];

	if (r->n_names++ == NAMES_MOST || strlen(text) >= sizeof n->text)
		misread(r, "too many or too long names", text);
	*n = (struct name){ .is = { .kind = kind, .value = value, .number = (uint32_t)value } };
	strcpy(n->text, text);
	return n;
}

static const struct name *name_find(const struct reader *r, const char *text, size_t length)
{
	for (unsigned i = 0; i < r->n_names; i++)
		if (strlen(r->names[i].text) == length && !memcmp(r->names[i].text, text, length))
			return &r->names[i];
	return NULL;
}

/* Reads %r12, register 12 of those declared as %r, or a register with another name. */
static int read_register(const struct reader *r, const char *text, struct ptx_operand *out)
{
	size_t length = strlen(text), prefix = length;
	const struct name *n = name_find(r, text, length);
	uint32_t number = 0;

	if (!n) {
		while (prefix && isdigit((unsigned char)text[prefix - 1]))
			prefix--;
		n = name_find(r, text, prefix);
		number = (uint32_t)strtoul(text + prefix, NULL, 10);
	}
	if (!n || n->is.kind != KIND_REGISTER || number >= n->count)
		return 0;
	*out = n->is;
	out->number += number;
	return 1;
}

static int read_special(const char *text, struct ptx_operand *out)
{
	static const struct {
		const char *text;
		enum ptx_kind kind;
	} known[] = { { "%tid.x", KIND_TID },
		      { "%ctaid.x", KIND_CTAID },
		      { "%ntid.x", KIND_NTID },
		      { "%nctaid.x", KIND_NCTAID },
		      { "_", KIND_NOWHERE } };

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(known[i].text, text)) {
			*out = (struct ptx_operand){ .kind = known[i].kind };
			return 1;
		}
	return 0;
}

static int read_number(const char *text, struct ptx_operand *out)
{
	char *end;
	uint64_t v;

	if (!strncmp(text, "0f", 2) || !strncmp(text, "0d", 2))
		v = strtoull(text + 2, &end, 16);
	else if (*text == '-')
		v = (uint64_t)strtoll(text, &end, 0);
	else
		v = strtoull(text, &end, 0);
	*out = (struct ptx_operand){ .kind = KIND_VALUE, .value = v };
	return end != text && !*end;
}

static struct ptx_operand read_operand(const struct reader *r, const char *text)
{
	struct ptx_operand out;
	const struct name *n;

	if (read_special(text, &out) || read_register(r, text, &out))
		return out;
	n = name_find(r, text, strlen(text));
	if (n)
		return n->is;
	if (!read_number(text, &out))
		misread(r, "an operand that is not known", text);
	return out;
}

/* [base+offset] */
static void read_address(const struct reader *r, char *text, struct ptx_instruction *in)
{
	char *plus;

	text[strlen(text) - 1] = 0;
	plus = strchr(++text, '+');
	if (plus) {
		*plus = 0;
		in->offset = strtoll(plus + 1, NULL, 0);
	}
	in->with[in->n_with++] = read_operand(r, text);
}

/* ---- instructions ------------------------------------------------------------------ */

static void read_modifier(const struct reader *r, struct ptx_instruction *in, const char *word)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(types[i].name, word)) {
			if (in->type == TYPE_NONE)
				in->type = types[i].type;
			else
				in->from = types[i].type;
			return;
		}
	for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
		if (!strcmp(spaces[i].name, word)) {
			in->space = spaces[i].space;
			return;
		}
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (!strcmp(modes[i].name, word)) {
			if (in->mode != MODE_NONE)
				misread(r, "two modes", word);
			in->mode = modes[i].mode;
			return;
		}
	if ((word[0] == 'v') && (word[1] == '2' || word[1] == '4') && !word[2]) {
		in->vector = (unsigned)(word[1] - '0');
		return;
	}
	for (size_t i = 0; i < sizeof granted / sizeof *granted; i++)
		if (!strcmp(granted[i], word))
			return;
	misread(r, "a modifier that is not known", word);
}

static unsigned read_name(const struct reader *r, struct ptx_instruction *in, char *text)
{
	char *rest = NULL, *word = strtok_r(text, ".:", &rest);

	in->vector = 1;
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (!strcmp(ops[i].name, word)) {
			in->op = ops[i].op;
			while ((word = strtok_r(NULL, ".:", &rest)))
				read_modifier(r, in, word);
			return ops[i].results;
		}
	misread(r, "an instruction that is not known", word);
}

/* Splits at commas. The elements of a vector in braces count as operands. Returns how many the
 * first group has. */
static unsigned split(const struct reader *r, char *text, char **words, unsigned *n)
{
	unsigned first = 0, groups = 0;
	int braces = 0;

	for (char *rest = NULL, *word = strtok_r(text, ",", &rest); word;
	     word = strtok_r(NULL, ",", &rest)) {
		char *end;
		int closes = 0;

		word += strspn(word, " \t\n");
		if (*word == '{') {
			braces = 1;
			word += 1 + strspn(word + 1, " \t\n");
		}
		end = word + strlen(word);
		while (end > word && strchr(" \t\n}", end[-1]))
			closes |= *--end == '}';
		*end = 0;
		if (*n == WORDS_MOST)
			misread(r, "too many operands", word);
		words[(*n)++] = word;
		braces &= !closes;
		if (!braces && !groups++)
			first = *n;
	}
	return first;
}

static void read_operands(const struct reader *r, struct ptx_instruction *in, char *text,
			  unsigned results)
{
	char *words[WORDS_MOST];
	unsigned n = 0, first = split(r, text, words, &n), i = 0;

	if (in->op == OP_BRA) {
		in->text = strdup(words[0]); /* kept until all labels are known */
		return;
	}
	for (; results && i < first; i++) {
		char *second = strchr(words[i], '|'); /* a predicate after the result */

		if (second)
			*second = 0;
		if (in->n_to == sizeof in->to / sizeof *in->to)
			misread(r, "too many results", words[i]);
		in->to[in->n_to++] = read_operand(r, words[i]);
		if (second)
			in->to[in->n_to++] = read_operand(r, second + 1);
	}
	for (; i < n; i++) {
		if (in->n_with == PTX_OPERANDS)
			misread(r, "too many operands", words[i]);
		if (*words[i] == '[')
			read_address(r, words[i], in);
		else
			in->with[in->n_with++] = read_operand(r, words[i]);
	}
}

static void read_instruction(struct reader *r, char *text)
{
	struct ptx_kernel *k = r->kernel;
	struct ptx_instruction *in;
	struct ptx_operand guard;
	char *copy = strdup(text);
	size_t name;
	unsigned results;

	if (!k || !copy)
		misread(r, "an instruction outside of a kernel", text);
	if (k->n == k->room) {
		k->room = k->room ? 2 * k->room : 1024;
		k->code = realloc(k->code, k->room * sizeof *k->code);
		if (!k->code)
			misread(r, "no memory", text);
	}
	in = &k->code[k->n++];
	*in = (struct ptx_instruction){ .line = r->line };
	if (*text == '@') {
		const size_t length = strcspn(text, " \t\n");

		text[length] = 0;
		in->guarded = 1;
		in->guard_negated = text[1] == '!';
		if (!read_register(r, text + 1 + in->guard_negated, &guard))
			misread(r, "a guard that is not known", text);
		in->guard = guard.number;
		text += length + 1;
		text += strspn(text, " \t\n");
	}
	name = strcspn(text, " \t\n");
	if (text[name])
		text[name++] = 0;
	results = read_name(r, in, text);
	read_operands(r, in, text + name, results);
	if (in->op != OP_BRA)
		in->text = copy;
	else
		free(copy);
}

/* ---- declarations ------------------------------------------------------------------ */

static uint32_t up_to(uint32_t at, uint32_t align)
{
	return (at + align - 1) / align * align;
}

/* .reg .b32 %r<12>, or .reg .b64 %SP */
static void read_registers(struct reader *r, const char *text)
{
	char name[64];
	unsigned count = 1;
	const char *percent = strchr(text, '%');
	size_t length = percent ? strcspn(percent, "<; \t") : 0;

	if (!percent || length >= sizeof name)
		misread(r, "registers that are not understood", text);
	memcpy(name, percent, length);
	name[length] = 0;
	if (percent[length] == '<')
		count = (unsigned)strtoul(percent + length + 1, NULL, 10);
	name_new(r, name, KIND_REGISTER, r->kernel->registers)->count = count;
	r->kernel->registers += count;
}

/* .shared .align 8 .b8 name[12], or .shared .align 4 .u32 name */
static void read_variable(struct reader *r, const char *text, enum ptx_kind kind, uint32_t *used)
{
	char type[16], name[128];
	unsigned align = 1, count = 1, bytes = 0;
	const char *at = strstr(text, ".align");

	if (!at || sscanf(at, ".align %u .%15s %127[^[ \t;]", &align, type, name) != 3)
		misread(r, "a variable that is not understood", text);
	if (strchr(text, '['))
		count = (unsigned)strtoul(strchr(text, '[') + 1, NULL, 10);
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(types[i].name, type))
			bytes = ptx_bytes(types[i].type);
	if (!bytes || !count)
		misread(r, "a variable without a size", text);
	*used = up_to(*used, align);
	name_new(r, name, kind, *used);
	*used += bytes * count;
}

/* .visible .entry name( .param .align 8 .b8 name_param_0[232] ) */
static void read_entry(struct reader *r, const char *text)
{
	const char *name = strstr(text, ".entry") + sizeof ".entry";
	const size_t length = strcspn(name, "( \t\n");
	struct ptx_kernel *k = &kernels[n_kernels];

	if (n_kernels++ == KERNELS_MOST)
		misread(r, "too many kernels", text);
	*k = (struct ptx_kernel){ .name = strndup(name, length) };
	r->kernel = k;
	r->n_names = 0;
	read_variable(r, strstr(text, ".param"), KIND_PARAMS, &k->params);
}

static void read_directive(struct reader *r, const char *text)
{
	static const char *const silent[] = { ".version", ".target", ".address_size", ".pragma" };

	for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
		if (!strncmp(text, silent[i], strlen(silent[i])))
			return;
	if (r->kernel && !strncmp(text, ".reg", 4))
		read_registers(r, text);
	else if (r->kernel && !strncmp(text, ".shared", 7))
		read_variable(r, text, KIND_VALUE, &r->kernel->shared);
	else if (r->kernel && !strncmp(text, ".local", 6))
		read_variable(r, text, KIND_LOCAL, &r->kernel->local);
	else
		misread(r, "a directive that is not known", text);
}

/* Replaces labels by the numbers of their instructions. All labels are known by now. */
static void end_of_kernel(struct reader *r)
{
	struct ptx_kernel *k = r->kernel;

	for (uint32_t i = 0; i < k->n; i++) {
		struct ptx_instruction *in = &k->code[i];

		if (in->op != OP_BRA)
			continue;
		const struct name *label = name_find(r, in->text, strlen(in->text));
		if (!label)
			misread(r, "a label that is not there", in->text);
		in->target = label->is.number;
	}
	r->kernel = NULL;
}

/* ---- the text -------------------------------------------------------------------------- */

static char *whole(const char *file)
{
	FILE *f = fopen(file, "r");
	size_t n = 0, room = 1 << 16;
	char *text = malloc(room);

	while (f && text) {
		const size_t got = fread(text + n, 1, room - n - 1, f);

		n += got;
		if (!got)
			break;
		if (n + 1 == room)
			text = realloc(text, room *= 2);
	}
	if (!f || !text || ferror(f)) {
		fprintf(stderr, "%s: cannot be read\n", file);
		abort();
	}
	fclose(f);
	text[n] = 0;
	return text;
}

static char *trimmed(char *from, char *end)
{
	while (end > from && isspace((unsigned char)end[-1]))
		end--;
	*end = 0;
	return from + strspn(from, " \t\n");
}

/* A statement ends with ';' and a label with ':'. A '{' at the beginning or after a kernel's name
 * begins a block; any other begins a vector. */
void ptx_read(const char *file)
{
	struct reader *r = calloc(1, sizeof *r);
	char *text = whole(file), *out;
	int depth = 0;

	if (!r)
		abort();
	*r = (struct reader){ .file = file, .line = 1 };
	char *statement = malloc(strlen(text) + 1);
	out = statement;
	for (char *at = text; *at; at++) {
		r->line += *at == '\n';
		if (at[0] == '/' && at[1] == '/') {
			at += strcspn(at, "\n") - 1;
			continue;
		}
		*out = 0;
		char *said = statement + strspn(statement, " \t\n");
		const int is_entry = !strncmp(said, ".visible", 8) || !strncmp(said, ".entry", 6);

		if (*at == '{' && (!*said || is_entry)) {
			if (is_entry)
				read_entry(r, said);
			depth++;
			out = statement;
		} else if (*at == '}' && !*said) {
			if (!--depth)
				end_of_kernel(r);
		} else if (*at == ':' && *said == '$') {
			name_new(r, trimmed(said, out), KIND_VALUE, r->kernel->n);
			out = statement;
		} else if (*at == ';' || (*at == '\n' && *said == '.' && !is_entry && !r->kernel)) {
			char *s = trimmed(said, out);

			if (*s == '.')
				read_directive(r, s);
			else if (*s)
				read_instruction(r, s);
			out = statement;
		} else {
			*out++ = *at;
		}
	}
	free(statement);
	free(text);
	free(r);
}

const struct ptx_kernel *ptx_find(const char *name)
{
	for (unsigned i = 0; i < n_kernels; i++)
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	return NULL;
}
