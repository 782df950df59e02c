/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * qpmap.c -- from a queue pair's number to its connection, in constant time
 */
#include "rdma/verbs/qpmap.h"

#include <errno.h>
#include <stdlib.h>

int ol_verbs_qpmap_init(struct ol_verbs_qpmap *map, uint32_t count_max)
{
	uint32_t size = 8;

	while (size < 2 * (uint64_t)count_max)
		size *= 2;
	map->entries = calloc(size, sizeof(*map->entries));
	if (map->entries == NULL)
		return -ENOMEM;
	map->mask = size - 1;
	return 0;
}

void ol_verbs_qpmap_fini(struct ol_verbs_qpmap *map)
{
	free(map->entries);
	map->entries = NULL;
}

void ol_verbs_qpmap_add(struct ol_verbs_qpmap *map, uint32_t qp_num, struct ol_verbs_conn *conn)
{
	uint32_t i = ol_verbs_qpmap_home(map, qp_num);

	while (map->entries[i].conn != NULL)
		i = (i + 1) & map->mask;
	map->entries[i].conn = conn;
	map->entries[i].qp_num = qp_num;
}

void ol_verbs_qpmap_remove(struct ol_verbs_qpmap *map, uint32_t qp_num)
{
	uint32_t hole = ol_verbs_qpmap_home(map, qp_num);

	while (map->entries[hole].conn != NULL && map->entries[hole].qp_num != qp_num)
		hole = (hole + 1) & map->mask;
	if (map->entries[hole].conn == NULL)
		return;
	for (uint32_t i = (hole + 1) & map->mask; map->entries[i].conn != NULL;
	     i = (i + 1) & map->mask) {
		uint32_t home = ol_verbs_qpmap_home(map, map->entries[i].qp_num);

		/* An entry may fill the hole if the hole lies between the entry and its home. */
		if (((i - home) & map->mask) < ((i - hole) & map->mask))
			continue;
		map->entries[hole] = map->entries[i];
		hole = i;
	}
	map->entries[hole].conn = NULL;
}
