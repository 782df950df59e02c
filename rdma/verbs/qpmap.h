/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * qpmap.h -- from a queue pair's number to its connection, in constant time
 *
 * Open addressing with linear probing, at most half full; removal moves entries back, so that no
 * probe meets a tombstone. Allocates at init only.
 */
#ifndef OL_RDMA_VERBS_QPMAP_H
#define OL_RDMA_VERBS_QPMAP_H

#include <stddef.h>
#include <stdint.h>

struct ol_verbs_conn;

struct ol_verbs_qpmap_entry {
	struct ol_verbs_conn *conn; /* NULL: empty */
	uint32_t qp_num;
};

struct ol_verbs_qpmap {
	struct ol_verbs_qpmap_entry *entries;
	uint32_t mask; /* size - 1; the size is a power of two */
};

int ol_verbs_qpmap_init(struct ol_verbs_qpmap *map, uint32_t count_max);
void ol_verbs_qpmap_fini(struct ol_verbs_qpmap *map);

/* qp_num must not be there yet, and the map must hold fewer than count_max */
void ol_verbs_qpmap_add(struct ol_verbs_qpmap *map, uint32_t qp_num, struct ol_verbs_conn *conn);
void ol_verbs_qpmap_remove(struct ol_verbs_qpmap *map, uint32_t qp_num);

/* The high bits of the product depend on all bits of the number: adapters count in steps. */
static inline uint32_t ol_verbs_qpmap_home(const struct ol_verbs_qpmap *map, uint32_t qp_num)
{
	return (qp_num * UINT32_C(2654435769)) >> 8 & map->mask;
}

static inline struct ol_verbs_conn *ol_verbs_qpmap_find(const struct ol_verbs_qpmap *map,
							uint32_t qp_num)
{
	uint32_t i = ol_verbs_qpmap_home(map, qp_num);

	while (map->entries[i].conn != NULL && map->entries[i].qp_num != qp_num)
		i = (i + 1) & map->mask;
	return map->entries[i].conn;
}

#endif /* OL_RDMA_VERBS_QPMAP_H */
