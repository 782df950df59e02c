/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * list.h -- doubly linked list whose links live inside the objects
 *
 * A list is a ring through a head that is no object. A link that is in no list points at itself
 * after ol_list_init() and ol_list_del(); del may be called on it again.
 */
#ifndef OL_BASE_LIST_H
#define OL_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct ol_list {
	struct ol_list *next;
	struct ol_list *prev;
};

/* ol_container_of -- the object of `type` whose member `member` is at ptr */
#define ol_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void ol_list_init(struct ol_list *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool ol_list_empty(const struct ol_list *list)
{
	return list->next == list;
}

static inline void ol_list_link(struct ol_list *link, struct ol_list *prev, struct ol_list *next)
{
	link->prev = prev;
	link->next = next;
	prev->next = link;
	next->prev = link;
}

static inline void ol_list_add_head(struct ol_list *list, struct ol_list *link)
{
	ol_list_link(link, list, list->next);
}

static inline void ol_list_add_tail(struct ol_list *list, struct ol_list *link)
{
	ol_list_link(link, list->prev, list);
}

static inline void ol_list_del(struct ol_list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	ol_list_init(link);
}

/* ol_list_pop_head -- take the first link out; NULL from an empty list */
static inline struct ol_list *ol_list_pop_head(struct ol_list *list)
{
	struct ol_list *link = list->next;

	if (link == list)
		return NULL;
	ol_list_del(link);
	return link;
}

/* pos: struct ol_list *. The loop's body must not take pos out … */
#define ol_list_for_each(pos, list) for ((pos) = (list)->next; (pos) != (list); (pos) = (pos)->next)

/* … here it may, and free it; `after` is a second struct ol_list * */
#define ol_list_for_each_safe(pos, after, list) \
	for ((pos) = (list)->next, (after) = (pos)->next; (pos) != (list); \
	     (pos) = (after), (after) = (pos)->next)

#endif /* OL_BASE_LIST_H */
