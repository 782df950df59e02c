/* SPDX-License-Identifier: BSD-3-Clause */

/* memory.c -- slabs of a simulated process, regions of them, keys */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/mutate.h"
#include "sim/world/net.h"
#include "sim/world/wrap.h"

enum {
	PAGE_BYTES = 4096
};

WRAP(int, ol_slab_create, size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab);
WRAP(int, ol_slab_map, size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab);
WRAP(int, ol_slab_touch, struct ol_slab *slab, size_t off, size_t bytes);
WRAP(void, ol_slab_destroy, struct ol_slab *slab);

static struct net_slab *slabs;

void net_memory_begin(void)
{
	slabs = NULL;
}

int __wrap_ol_slab_create(size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab)
{
	struct net_slab *own;
	struct ol_slab *slab;

	if (sim_process_self() == NULL)
		return __real_ol_slab_create(bytes, node, flags, ret_slab);
	if (bytes == 0)
		return -EINVAL;
	bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	if (sim_no_memory())
		return -ENOMEM;
	own = sim_alloc(sizeof(*own));
	slab = sim_block_get(sizeof(*slab));
	own->block = sim_block_get(bytes + PAGE_BYTES);
	if (slab == NULL || own->block == NULL)
		return -ENOMEM;
	own->memory = own->block + PAGE_BYTES - (uintptr_t)own->block % PAGE_BYTES;
	*slab = (struct ol_slab){
		.addr = own->memory, .bytes = bytes, .fd = -1, .node = OL_SLAB_NODE_ANY
	};
	own->slab = slab;
	own->bytes = bytes;
	own->process = sim_process_self();
	own->next = slabs;
	slabs = own;
	*ret_slab = slab;
	return 0;
}

int __wrap_ol_slab_map(size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab)
{
	if (sim_process_self() == NULL)
		return __real_ol_slab_map(bytes, node, flags, ret_slab);
	return __wrap_ol_slab_create(bytes, node, flags, ret_slab);
}

static struct net_slab *slab_of(const struct ol_slab *slab)
{
	struct net_slab *own = slabs;

	while (own != NULL && (own->slab != slab || own->memory == NULL))
		own = own->next;
	return own;
}

static void take_time(void)
{
	if (sim_nature.touch_ns != 0)
		sim_pause(sim_between(0, sim_nature.touch_ns));
}

int __wrap_ol_slab_touch(struct ol_slab *slab, size_t off, size_t bytes)
{
	if (sim_process_self() == NULL)
		return __real_ol_slab_touch(slab, off, bytes);
	if (sim_no_memory())
		return -ENOMEM;
	slab_of(slab)->touched = true;
	take_time();
	return 0;
}

static void slab_forget(const struct net_slab *slab)
{
	struct net_slab **at = &slabs;

	while (*at != slab)
		at = &(*at)->next;
	*at = slab->next;
}

void __wrap_ol_slab_destroy(struct ol_slab *slab)
{
	struct net_slab *own;

	if (slab == NULL)
		return;
	if (sim_process_self() == NULL) {
		__real_ol_slab_destroy(slab);
		return;
	}
	own = slab_of(slab);
	if (own->touched)
		take_time();
	if (own->regions != 0)
		sim_fail("check_misuse", "a slab is destroyed that has %u regions", own->regions);
	sim_block_put(own->block);
	sim_block_put(slab);
	own->memory = NULL;
	own->slab = NULL;
	slab_forget(own);
}

/* The process is dead: its memory goes with it */
void net_slabs_gone(const struct sim_process *process)
{
	struct net_slab **at = &slabs;

	while (*at != NULL) {
		struct net_slab *slab = *at;

		if (slab->process == process) {
			slab->memory = NULL;
			slab->slab = NULL;
			*at = slab->next;
		} else {
			at = &slab->next;
		}
	}
}

int net_reg(struct ol_xport *xport, struct ol_xport_conn *conn, struct ol_slab *slab, size_t off,
	    size_t bytes, unsigned access, struct ol_xport_region **ret_region)
{
	struct net_conn *own = (struct net_conn *)conn;
	struct net_slab *memory = slab_of(slab);
	struct ol_xport_region *region;

	if (memory == NULL || bytes == 0 || off + bytes > memory->bytes) {
		sim_fail("check_misuse", "a region of what is no slab, or longer than it");
		return -EINVAL;
	}
	if (sim_no_memory())
		return -ENOMEM;
	region = sim_alloc(sizeof(*region));
	*region = (struct ol_xport_region){ .xport = xport,
					    .slab = memory,
					    .end = own != NULL ? own->end : NULL,
					    .off = off,
					    .bytes = bytes,
					    .access = access,
					    .live = true,
					    .next = xport->regions };
	xport->regions = region;
	memory->regions++;
	*ret_region = region;
	return 0;
}

void net_dereg(struct ol_xport_region *region)
{
	struct ol_xport_region **at = &region->xport->regions;
	struct net_key **key = &region->xport->keys;

	if (!region->live) {
		sim_fail("check_misuse", "a region is deregistered twice");
		return;
	}
	while (*at != region)
		at = &(*at)->next;
	*at = region->next;
	region->live = false;
	region->slab->regions--;
	while (sim_nature.fence_keeps && !mutation(MUTATE_NO_FENCE) && *key != NULL) {
		if ((*key)->region == region)
			*key = (*key)->next;
		else
			key = &(*key)->next;
	}
}

struct ol_xport_rkey net_rkey(const struct ol_xport_region *region,
			      const struct ol_xport_conn *conn)
{
	const struct net_conn *own = (const struct net_conn *)conn;
	struct ol_xport *xport = region->xport;
	struct net_end *end = own != NULL ? own->end : NULL;
	struct net_key *key = xport->keys;

	while (key != NULL && (key->region != region || key->end != end))
		key = key->next;
	if (key == NULL) {
		key = sim_alloc(sizeof(*key));
		key->region = (struct ol_xport_region *)(uintptr_t)region;
		key->end = end;
		key->number = (uint32_t)(sim_random() >> 32);
		key->next = xport->keys;
		xport->keys = key;
	}
	return (struct ol_xport_rkey){ .addr = (uint64_t)key->number << 20,
				       .bytes = region->bytes,
				       .rkey = key->number };
}

struct ol_xport_region *net_find(const struct net_end *end, struct ol_xport_rkey key, uint64_t off,
				 uint64_t bytes, unsigned access)
{
	const struct net_key *own = end->xport->keys;
	struct ol_xport_region *region;

	while (own != NULL && own->number != key.rkey)
		own = own->next;
	if (own == NULL)
		return NULL;
	region = own->region;
	if (own->end != end &&
	    !(own->end == NULL && (end->caller || end->xport->opts.shared_domain)))
		return NULL;
	if (region->end != NULL && region->end != end)
		return NULL;
	if ((region->access & access) == 0 || key.addr != (uint64_t)key.rkey << 20 ||
	    off > region->bytes || bytes > region->bytes - off)
		return NULL;
	return region;
}
