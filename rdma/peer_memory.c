/* SPDX-License-Identifier: BSD-3-Clause
 * See peer_memory.h. */
#include "rdma/peer_memory.h"
#include "base/error.h"
#include "sluice.h"
#include <stdlib.h>

enum { ROOM_LEAST = 8 };

void peer_memory_close(struct peer_memory *m)
{
	for (int i = 0; i < m->n; i++)
		region_close(&m->rooms[i].region);
	free(m->rooms);
	*m = (struct peer_memory){ 0 };
}

int peer_memory_grow(struct peer_memory *m, int peers)
{
	struct peer_room *rooms;
	int rc;

	if (peers <= m->peers)
		return SLUICE_OK;
	rooms = realloc(m->rooms, ((size_t)m->n + 1) * sizeof(*rooms));
	if (!rooms)
		return fail(SLUICE_ENOMEM, "no memory for %d more peers", peers - m->peers);
	m->rooms = rooms;
	rooms += m->n;
	*rooms = (struct peer_room){ .first = m->peers };
	rc = region_open((size_t)(peers - m->peers) * m->stride, m->access, m->name,
			 &rooms->region);
	if (rc)
		return rc;
	m->n++;
	m->peers = peers;
	return SLUICE_OK;
}

int peer_memory_more(const struct peer_memory *m, int most)
{
	const int more = m->peers / 2 + ROOM_LEAST;

	return more < most - m->peers ? more : most - m->peers;
}

uint8_t *peer_memory_at(const struct peer_memory *m, int i, const struct region **region_out)
{
	const struct peer_room *room = &m->rooms[m->n - 1];

	while (room->first > i)
		room--;
	if (region_out)
		*region_out = room->region;
	return (uint8_t *)room->region->base + (size_t)(i - room->first) * m->stride;
}
