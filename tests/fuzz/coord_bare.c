/* SPDX-License-Identifier: BSD-3-Clause */

/* coord_bare.c -- see coord_bare.h */

#include "fuzz/coord_bare.h"

#include <inttypes.h>
#include <stdio.h>

static void log_check(void *arg, const char *text)
{
	log_drop(arg, OL_LOG_INFO, text);
}

void coord_bare_init(struct coord_bare *bare, const char *addr, void (*notify)(void *arg))
{
	struct ol_coord *coord = &bare->coord;

	memset(bare, 0, sizeof(*bare));
	pthread_mutex_init(&coord->lock, NULL);
	pthread_cond_init(&coord->settled, NULL);
	coord->opts.addr = addr;
	coord->opts.job = "job";
	coord->opts.shard_count = COORD_SHARDS;
	coord->opts.lease_ms = 1000;
	coord->opts.notify = notify;
	coord->opts.notify_arg = bare;
	coord->opts.log = log_check;
	coord->shards = bare->shards;
}

void coord_bare_fini(struct coord_bare *bare)
{
	pthread_cond_destroy(&bare->coord.settled);
	pthread_mutex_destroy(&bare->coord.lock);
}

static void member_check(const struct ol_member *member)
{
	char text[OL_MEMBER_TEXT_MAX];
	struct ol_member again;
	size_t bytes;

	must(member->id != 0 && memchr(member->addr, '\0', sizeof(member->addr)) != NULL);
	bytes = ol_member_encode(member, text);
	must(bytes < sizeof(text) && ol_member_decode(text, bytes, &again) == 0);
	must(again.id == member->id && again.job == member->job && again.proto == member->proto &&
	     again.oldest == member->oldest && again.rank == member->rank &&
	     strcmp(again.addr, member->addr) == 0);
}

static void view_check(const struct ol_view *view)
{
	char text[OL_VIEW_TEXT_MAX];
	struct ol_view again;
	size_t bytes;

	must(view->epoch != 0 && view->count >= 1 && view->joining <= 1 &&
	     view->count + view->joining <= OL_REPLICAS_MAX);
	bytes = ol_view_encode(view, text);
	must(bytes < sizeof(text) && ol_view_decode(text, bytes, &again) == 0 &&
	     ol_view_same(view, &again));
	for (uint32_t i = 0; i < view->count + view->joining; i++) {
		member_check(&view->replicas[i]);
		must(ol_view_find(view, view->replicas[i].id) == (int)i);
	}
}

void coord_state_check(struct coord_bare *bare, uint32_t shard)
{
	static const struct ol_view none;
	struct ol_coord_state state;

	ol_coord_look(&bare->coord, shard, &state);
	must(state.member_count <= OL_MEMBERS_MAX);
	for (uint32_t i = 0; i < state.member_count; i++) {
		member_check(&state.members[i]);
		for (uint32_t k = 0; k < i; k++)
			must(state.members[k].id != state.members[i].id);
	}
	if (state.version != 0)
		view_check(&state.view);
	else
		must(memcmp(&state.view, &none, sizeof(none)) == 0);
}

void coord_member_make(uint64_t id, struct ol_member *ret_member)
{
	memset(ret_member, 0, sizeof(*ret_member));
	ret_member->id = id;
	ret_member->job = 1;
	ret_member->proto = 1;
	ret_member->rank = (uint32_t)id;
	snprintf(ret_member->addr, sizeof(ret_member->addr), "@host-%" PRIu64, id);
}

void coord_view_make(uint8_t how, struct ol_view *ret_view)
{
	memset(ret_view, 0, sizeof(*ret_view));
	ret_view->epoch = 1 + (how & 3u);
	ret_view->founded = 1;
	ret_view->history = ret_view->origin = 1 + (how >> 2 & 1u);
	ret_view->shard_count = COORD_SHARDS;
	ret_view->wanted = 2;
	ret_view->count = 1 + (how >> 3 & 1u);
	ret_view->joining = how >> 4 & 1u;
	for (uint32_t i = 0; i < ret_view->count + ret_view->joining; i++)
		coord_member_make(1 + i + (how >> 5), &ret_view->replicas[i]);
}
