/* SPDX-License-Identifier: BSD-3-Clause
 * See card_choice.h. Called by verbs_device.c, ofi_provider.c and sluice-info. */
#include "rdma/card_choice.h"
#include "base/device.h"
#include "base/local_rank.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the launcher's numbers ---------------------------------------------------- */

/* Returns the number of ranks on this node, or 0 if no launcher gave it. "4(x2)" is 4. */
static int local_ranks(void)
{
	static const char *const names[] = { "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
					     "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *text = getenv(names[i]);
		const long value = text ? strtol(text, NULL, 10) : 0;

		if (value > 0 && value < 1 << 20)
			return (int)value;
	}
	return 0;
}

/* ---- nearness ------------------------------------------------------------------ */

#ifdef HAVE_HWLOC
#include <hwloc.h>

/* The smallest part of the machine that contains both the card and the rank's processors. */
struct meeting {
	struct nearness near;
	hwloc_const_bitmap_t processors; /* NULL: not known */
};

static hwloc_obj_t object_of(hwloc_topology_t t, const struct card *card)
{
	return *card->bus ? hwloc_get_pcidev_by_busidstring(t, card->bus) :
			    nearness_card(t, card->name);
}

static struct meeting meet_processors(hwloc_topology_t t, hwloc_obj_t card,
				      hwloc_const_bitmap_t processors)
{
	hwloc_obj_t o = card ? hwloc_get_non_io_ancestor_obj(t, card) : NULL;

	while (o && !hwloc_bitmap_isincluded(processors, o->cpuset))
		o = o->parent;
	return (struct meeting){ o ? nearness_at(o) : nearness_unknown, o ? o->cpuset : NULL };
}

static struct meeting meet(hwloc_topology_t t, const struct card *card,
			   const struct card_user *user)
{
	hwloc_obj_t gpu = *user->gpu ? hwloc_get_pcidev_by_busidstring(t, user->gpu) : NULL;

	if (gpu)
		return (struct meeting){ nearness_between(gpu, object_of(t, card)), NULL };
	if (user->processors && !hwloc_bitmap_iszero(user->processors))
		return meet_processors(t, object_of(t, card), user->processors);
	return (struct meeting){ nearness_unknown, NULL };
}

/* ---- turns ----------------------------------------------------------------------- */

/* Returns the cards that are nearest to a GPU: bit i stands for cards[i]. */
static uint64_t nearest_of(hwloc_topology_t t, hwloc_obj_t gpu, const struct card *cards, size_t n)
{
	int best = -1;
	uint64_t bits = 0;

	for (size_t i = 0; i < n; i++) {
		const int depth = nearness_between(gpu, object_of(t, &cards[i])).depth;

		if (depth > best)
			bits = 0;
		if (depth > best)
			best = depth;
		if (depth == best)
			bits |= UINT64_C(1) << i;
	}
	return bits;
}

/* Returns the number of GPUs that come before this one and share its nearest cards. Sets *n_gpus to
 * the number of all GPUs that share these cards. */
static int gpus_before(hwloc_topology_t t, const char *gpu, const struct card *cards, size_t n,
		       int *n_gpus)
{
	hwloc_obj_t own = hwloc_get_pcidev_by_busidstring(t, gpu), o = NULL;
	const uint64_t mine = nearest_of(t, own, cards, n);
	int before = 0, seen = 0;

	*n_gpus = 0;
	while ((o = hwloc_get_next_pcidev(t, o)) != NULL) {
		if (!nearness_is_gpu(o))
			continue;
		++*n_gpus;
		seen |= o == own;
		before += !seen && nearest_of(t, o, cards, n) == mine;
	}
	return before;
}

/* If ranks are bound to different parts of the processors near the cards, a rank chooses a card by
 * the position of its part. */
static int turn_by_part(hwloc_const_bitmap_t all, hwloc_const_bitmap_t own, int cards)
{
	const int first = hwloc_bitmap_first(own);
	int before = 0;
	unsigned i;

	hwloc_bitmap_foreach_begin(i, all) before += (int)i < first;
	hwloc_bitmap_foreach_end();
	return before * cards / hwloc_bitmap_weight(all);
}

/* Returns which of the as_near equally near cards this rank tries first, modulo as_near.
 * Consecutive local ranks try different cards, and so do two local ranks whose numbers differ by
 * as_near. */
static int turn_of(hwloc_topology_t t, const struct card *cards, size_t n,
		   const struct card_user *user, const struct meeting *best, int as_near)
{
	int n_gpus = 0, before;

	if (t && *user->gpu && hwloc_get_pcidev_by_busidstring(t, user->gpu)) {
		before = gpus_before(t, user->gpu, cards, n, &n_gpus);
		return n_gpus && user->n_local > n_gpus ? user->local + user->local / n_gpus :
							  before;
	}
	if (best->processors && !hwloc_bitmap_isequal(best->processors, user->processors))
		return turn_by_part(best->processors, user->processors, as_near);
	return user->local + user->local / as_near;
}

static hwloc_topology_t topology_here(hwloc_bitmap_t processors)
{
	hwloc_topology_t t = nearness_topology();

	if (t && hwloc_get_cpubind(t, processors, HWLOC_CPUBIND_PROCESS))
		hwloc_bitmap_zero(processors);
	return t;
}
#else
struct meeting {
	struct nearness near;
};

static struct meeting meet(struct hwloc_topology *t, const struct card *card,
			   const struct card_user *user)
{
	(void)t, (void)card, (void)user;
	return (struct meeting){ nearness_unknown };
}

static int turn_of(struct hwloc_topology *t, const struct card *cards, size_t n,
		   const struct card_user *user, const struct meeting *best, int as_near)
{
	(void)t, (void)cards, (void)n, (void)best;
	return user->local + user->local / as_near;
}
#endif

/* ---- the order -------------------------------------------------------------------- */

struct candidate_card {
	/* apart: 1 if the rank has no GPU and this card is not on the first card's fabric */
	int card, apart;
	struct meeting meeting;
};

static int nearer(const void *a, const void *b)
{
	const struct candidate_card *x = a, *y = b;

	if (x->apart != y->apart)
		return x->apart - y->apart;
	if (x->meeting.near.depth != y->meeting.near.depth)
		return x->meeting.near.depth > y->meeting.near.depth ? -1 : 1;
	return x->card - y->card;
}

/* Moves the cards over which ranks are spread to the front. These are the cards that are as near as
 * the first one and on its fabric. Returns their number. */
static int gather_turns(struct candidate_card *c, const struct card *cards, size_t n)
{
	int turns = 1;

	for (size_t i = 1; i < n; i++) {
		const struct candidate_card it = c[i];

		if (it.meeting.near.depth != c[0].meeting.near.depth || it.apart != c[0].apart ||
		    cards[it.card].fabric != cards[c[0].card].fabric)
			continue;
		memmove(&c[turns + 1], &c[turns], (i - (size_t)turns) * sizeof(*c));
		c[turns++] = it;
	}
	return turns;
}

void cards_order(struct hwloc_topology *topology, const struct card *cards, size_t n,
		 const struct card_user *user, struct card_choice *out)
{
	struct candidate_card c[CARDS_MOST];
	int turns, turn;

	if (!n)
		return;
	for (size_t i = 0; i < n; i++)
		c[i] = (struct candidate_card){
			(int)i, !*user->gpu && cards[i].fabric != cards[0].fabric,
			topology ? meet(topology, &cards[i], user) :
				   (struct meeting){ .near = nearness_unknown }
		};
	qsort(c, n, sizeof(*c), nearer);
	turns = gather_turns(c, cards, n);
	turn = turn_of(topology, cards, n, user, &c[0].meeting, turns) % turns;
	for (size_t i = 0; i < n; i++) {
		const int in_turn = (int)i < turns;
		const struct candidate_card *it = in_turn ? &c[((int)i + turn) % turns] : &c[i];

		out[i] = (struct card_choice){ it->card, it->meeting.near, in_turn ? turns : 1 };
	}
}

void cards_order_here(const struct card *cards, size_t n, struct card_choice *out,
		      char gpu[BUS_ID_TEXT])
{
	struct card_user user = { .gpu = gpu,
				  .local = local_rank_find().rank,
				  .n_local = local_ranks() };

	gpu[0] = '\0';
	if (n > 1 && device_bus_id(gpu, BUS_ID_TEXT))
		gpu[0] = '\0';
#ifdef HAVE_HWLOC
	hwloc_bitmap_t processors = n > 1 ? hwloc_bitmap_alloc() : NULL;
	hwloc_topology_t t = processors ? topology_here(processors) : NULL;

	user.processors = processors;
	cards_order(t, cards, n, &user, out);
	if (t)
		hwloc_topology_destroy(t);
	hwloc_bitmap_free(processors);
#else
	cards_order(NULL, cards, n, &user, out);
#endif
}

void cards_order_of(const struct card *cards, size_t n, const char *gpu, int local, int n_local,
		    struct card_choice *out)
{
	struct card_user user = { .gpu = gpu, .local = local, .n_local = n_local };

#ifdef HAVE_HWLOC
	hwloc_topology_t t = nearness_topology();

	user.processors = t ? hwloc_topology_get_topology_cpuset(t) : NULL;
	cards_order(t, cards, n, &user, out);
	if (t)
		hwloc_topology_destroy(t);
#else
	cards_order(NULL, cards, n, &user, out);
#endif
}

void card_choice_text(const struct card_choice *choice, const char *gpu, size_t n, char *text,
		      size_t cap)
{
	char turns[64] = "", near[96] = "";

	if (choice->near.depth >= 0)
		snprintf(near, sizeof(near), "%s as %s%s, ", choice->near.where,
			 *gpu ? "GPU " : "this rank's processors", gpu);
	else if (*gpu)
		snprintf(near, sizeof(near), "at an unknown distance from GPU %s, ", gpu);
	if (choice->as_near > 1)
		snprintf(turns, sizeof(turns), "one of %d that ranks take in turn",
			 choice->as_near);
	if (n == 1)
		snprintf(text, cap, "the only usable one");
	else if (choice->as_near == (int)n)
		snprintf(text, cap, "%s", turns);
	else
		snprintf(text, cap, "%s%s", near, *turns ? turns : "the nearest usable one");
}
