/* SPDX-License-Identifier: BSD-3-Clause */

/* zk_member.c -- the members of a shard in ZooKeeper, and our own among them */

#include "replication/coord/zookeeper/zk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void zk_members_list(struct zk *zk, uint32_t shard)
{
	struct zk_shard *s = &zk->shards[shard];
	char path[ZK_PATH_MAX];
	int rc;

	if (s->members_busy) {
		s->members_again = true;
		return;
	}
	zk_path_shard(zk, shard, "/members", path);
	rc = zoo_awget_children(zk->zh, path, zk_on_watch, &s->refs[ZK_MEMBERS_MOVED], zk_on_names,
				&s->refs[ZK_MEMBERS]);
	if (rc != ZOK) {
		zk_trouble(zk, path, rc);
		return;
	}
	s->members_busy = true;
	s->members_again = false;
	s->members_failed = false;
}

static const struct zk_member *member_find(const struct zk_members *members, uint64_t id)
{
	for (uint32_t i = 0; i < members->count; i++)
		if (members->of[i].id == id)
			return &members->of[i];
	return NULL;
}

/* True for members that stay if there are too many; others wait */
static bool member_is_old(const struct zk_shard *s, uint64_t id)
{
	for (uint32_t i = 0; i < s->in_view_count; i++)
		if (s->in_view[i] == id)
			return true;
	return member_find(&s->members, id) != NULL;
}

static int id_compare(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

static void members_stage(struct zk_shard *s, struct zk_event *event)
{
	size_t count = event->bytes / sizeof(uint64_t);

	qsort(event->data, count, sizeof(uint64_t), id_compare);
	s->staged.count = 0;
	for (unsigned old = 2; old-- > 0;) {
		for (size_t i = 0; i < count && s->staged.count < OL_MEMBERS_MAX; i++) {
			const struct zk_member *known;
			uint64_t id;

			memcpy(&id, event->data + i * sizeof(id), sizeof(id));
			if (member_is_old(s, id) != (old == 1))
				continue;
			known = member_find(&s->members, id);
			s->staged.of[s->staged.count++] =
				known != NULL ? *known : (struct zk_member){ .id = id };
		}
	}
}

static void members_tell(struct zk *zk, uint32_t shard)
{
	struct zk_shard *s = &zk->shards[shard];
	struct ol_member usable[OL_MEMBERS_MAX], own;
	uint32_t count = 0, own_shard;
	bool changed = !s->members_known || s->staged.count != s->members.count;

	if (zk->forgotten)
		return;

	for (uint32_t i = 0; i < s->staged.count; i++) {
		const struct zk_member *member = &s->staged.of[i];

		if (member_find(&s->members, member->id) == NULL)
			changed = true;
		if (member->usable)
			usable[count++] = member->member;
	}
	s->members = s->staged;
	s->members_known = true;
	if (changed)
		ol_coord_set_members(zk->coord, shard, usable, count);
	zk_settle(zk);
	if (zk->joined && ol_coord_wish_member(zk->coord, &own_shard, &own) && own_shard == shard &&
	    member_find(&s->members, own.id) == NULL && s->members.count < OL_MEMBERS_MAX) {
		zk->joined = false; /* the node was deleted */
		zk_join(zk);
	}
}

/* All answers have come */
static void members_done(struct zk *zk, uint32_t shard)
{
	struct zk_shard *s = &zk->shards[shard];

	s->members_busy = false;
	if (!s->members_failed)
		members_tell(zk, shard);
	if (s->members_again)
		zk_members_list(zk, shard);
}

/* Make the folders of a shard; it is no failure if they exist */
static void shard_make(struct zk *zk, uint32_t shard)
{
	static const char *const below[] = { "", "/members" };

	zk->shards[shard].made = true;
	for (unsigned i = 0; i < 2; i++) {
		char path[ZK_PATH_MAX];
		int rc;

		zk_path_shard(zk, shard, below[i], path);
		rc = zoo_acreate(zk->zh, path, "", 0, &zk->access.acl, ZOO_PERSISTENT, zk_on_string,
				 &zk->shards[shard].refs[ZK_MADE]);
		if (rc != ZOK)
			zk_trouble(zk, path, rc);
	}
}

static void members_answer(struct zk *zk, uint32_t shard, struct zk_event *event)
{
	struct zk_shard *s = &zk->shards[shard];

	if (event->rc == ZNONODE && zk_access_only_reads(&zk->access)) { /* a server will make it */
		s->staged.count = 0;
		members_done(zk, shard);
		zk_wait(zk);
		return;
	}
	if (event->rc == ZNONODE && !s->made) {
		s->members_busy = false;
		shard_make(zk, shard);
		zk_members_list(zk, shard);
		return;
	}
	if (event->rc != ZOK) {
		s->members_failed = true;
		zk_trouble(zk, "members", event->rc);
		members_done(zk, shard);
		return;
	}
	members_stage(s, event);
	s->members_pending = 0;
	for (uint32_t i = 0; i < s->staged.count; i++) {
		char path[ZK_PATH_MAX];
		int rc;

		if (member_find(&s->members, s->staged.of[i].id) != NULL)
			continue; /* it does not change */
		zk_path_member(zk, shard, s->staged.of[i].id, path);
		rc = zoo_aget(zk->zh, path, 0, zk_on_data, &s->slots[i]);
		if (rc == ZOK) {
			s->members_pending++;
		} else {
			s->members_failed = true;
			zk_trouble(zk, path, rc);
		}
	}
	if (s->members_pending == 0)
		members_done(zk, shard);
}

static void member_answer(struct zk *zk, const struct zk_ref *ref, const struct zk_event *event)
{
	struct zk_shard *s = &zk->shards[ref->shard];
	struct zk_member *member = &s->staged.of[ref->slot];

	if (event->rc == ZOK) {
		member->usable = ol_member_decode((const char *)event->data, event->bytes,
						  &member->member) == 0 &&
				 member->member.id == member->id;
		if (!member->usable)
			ol_coord_log(zk->coord,
				     "zookeeper: %s/shard%" PRIu32 "/members/%016" PRIx64
				     " holds no such member: left out",
				     zk->root, ref->shard, member->id);
	} else {
		s->members_failed = true;
		s->members_again = s->members_again || event->rc == ZNONODE; /* gone again */
		if (event->rc != ZNONODE)
			zk_trouble(zk, "a member", event->rc);
	}
	if (--s->members_pending == 0)
		members_done(zk, ref->shard);
}

/* Our own member */

void zk_join(struct zk *zk)
{
	char path[ZK_PATH_MAX], text[OL_MEMBER_TEXT_MAX];
	struct ol_member member;
	uint32_t shard;
	int rc;

	if (zk->joined || zk->joining || !zk->granted || zk->forgotten ||
	    !ol_coord_wish_member(zk->coord, &shard, &member) || !zk->shards[shard].view_seen)
		return;
	zk_path_member(zk, shard, member.id, path);
	rc = zoo_acreate(zk->zh, path, text, (int)ol_member_encode(&member, text), &zk->access.acl,
			 ZOO_EPHEMERAL, zk_on_string, &zk->shards[shard].refs[ZK_JOINED]);
	zk->joining = rc == ZOK;
	if (rc != ZOK)
		zk_trouble(zk, path, rc);
}

/* ZNODEEXISTS: this session may have made it, and the answer was lost */
static void own_made(struct zk *zk, const struct zk_event *event)
{
	uint32_t shard = event->ref->shard;
	struct ol_member member;
	char path[ZK_PATH_MAX];
	int rc = event->rc;

	zk->joining = false;
	zk->joined = rc == ZOK;
	if (rc == ZNODEEXISTS && ol_coord_wish_member(zk->coord, &shard, &member)) {
		zk_path_member(zk, shard, member.id, path);
		rc = zoo_aexists(zk->zh, path, 0, zk_on_stat, &zk->shards[shard].refs[ZK_OWNER]);
		zk->joining = rc == ZOK;
	}
	if (rc != ZOK)
		zk_trouble(zk, "registering the server", rc);
}

static void own_found(struct zk *zk, const struct zk_event *event)
{
	zk->joining = false;
	zk->joined = event->rc == ZOK && event->number == zoo_client_id(zk->zh)->client_id;
	if (event->rc == ZNONODE)
		zk_join(zk);
	else if (!zk->joined) /* it belongs to an older session, which will end */
		zk_trouble(zk, "registering the server",
			   event->rc == ZOK ? ZNODEEXISTS : event->rc);
}

void zk_member_event(struct zk *zk, struct zk_event *event)
{
	uint32_t shard = event->ref->shard;

	if (event->ref->kind == ZK_MEMBERS)
		members_answer(zk, shard, event);
	else if (event->ref->kind == ZK_MEMBER)
		member_answer(zk, event->ref, event);
	else if (event->ref->kind == ZK_JOINED)
		own_made(zk, event);
	else if (event->ref->kind == ZK_OWNER)
		own_found(zk, event);
	else if (zk->granted) /* a watch */
		zk_members_list(zk, shard);
}
