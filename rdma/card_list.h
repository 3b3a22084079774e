/* SPDX-License-Identifier: BSD-3-Clause
 * The cards that SLUICE_DEVICE and SLUICE_INTERFACE allow: a list such as "mlx5_[0-3],^mlx5_2" or
 * "mlx5_4:2". An entry is a name; for RDMA devices, a port may follow. In the name, * stands for
 * any text and [0-11] for a number of that range. ^ excludes an entry, or all entries of a list
 * that begins with it. Pure. */
#ifndef RDMA_CARD_LIST_H
#define RDMA_CARD_LIST_H

/* Unless list is a valid list of cards, fails with SLUICE_EINVAL and a message that names the
 * variable. A list that is NULL or "" allows every card. ports: 1 if an entry may name a port. */
int card_list_check(const char *variable, const char *list, int ports);
/* Returns 1 if the list allows the card. alias is the card's second name, or NULL. Sets *port to
 * the port that the card's entry in the list names, or to 0. If port is NULL, cards have no ports,
 * and a colon is part of the name. */
int card_list_allows(const char *list, const char *name, const char *alias, unsigned *port);
/* Returns 1 if the list is empty or only excludes cards. */
int card_list_is_open(const char *list);
#endif
