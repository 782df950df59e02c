/* SPDX-License-Identifier: BSD-3-Clause */

/* zk_view.c -- the view of a shard in ZooKeeper: reading, watching, proposing */

#include "replication/coord/zookeeper/zk.h"

void zk_view_read(struct zk *zk, uint32_t shard)
{
	struct zk_shard *s = &zk->shards[shard];
	char path[ZK_PATH_MAX];
	int rc;

	if (s->view_busy) {
		s->view_again = true;
		return;
	}
	zk_path_shard(zk, shard, "/view", path);
	rc = zoo_awget(zk->zh, path, zk_on_watch, &s->refs[ZK_VIEW_MOVED], zk_on_data,
		       &s->refs[ZK_VIEW]);
	if (rc != ZOK) {
		zk_trouble(zk, path, rc);
		return;
	}
	s->view_busy = true;
	s->view_again = false;
	s->reading_news = s->view_news;
	s->view_news = false;
}

/*
 * The view that was read is older than the one reported before, or does not follow it. A follower
 * that lags may answer a new session so. After a sync the answer is the ensemble's: then it has
 * lost later views.
 */
static void view_doubt(struct zk *zk, uint32_t shard)
{
	struct zk_shard *s = &zk->shards[shard];
	char path[ZK_PATH_MAX];
	int rc;

	if (s->view_synced) {
		zk_forget(zk, shard);
		return;
	}
	zk_path_shard(zk, shard, "/view", path);
	rc = zoo_async(zk->zh, path, zk_on_string, &s->refs[ZK_VIEW_SYNCED]);
	s->view_busy = rc == ZOK;
	if (rc != ZOK)
		zk_trouble(zk, path, rc);
}

static void view_synced(struct zk *zk, uint32_t shard, const struct zk_event *event)
{
	struct zk_shard *s = &zk->shards[shard];

	s->view_busy = false;
	s->view_synced = event->rc == ZOK;
	if (event->rc != ZOK)
		zk_trouble(zk, "sync", event->rc);
	else if (zk->granted)
		zk_view_read(zk, shard);
}

static void view_tell(struct zk *zk, uint32_t shard, int64_t zxid, uint64_t version,
		      const struct ol_view *view)
{
	struct zk_shard *s = &zk->shards[shard];

	if (zk->forgotten)
		return;
	s->view_seen = true;
	s->view_synced = false;
	zk_join(zk); /* not earlier: a server that the ensemble has forgotten must not register */
	if (s->view_known && s->view_zxid == zxid && !s->reading_news)
		return;
	s->view_known = true;
	s->view_zxid = zxid;
	s->view_version = version;
	s->in_view_count = view != NULL ? view->count + view->joining : 0;
	for (uint32_t i = 0; i < s->in_view_count; i++)
		s->in_view[i] = view->replicas[i].id;
	ol_coord_set_view(zk->coord, shard, version, view);
	zk_settle(zk);
}

/*
 * Is it the view last given to the handle, or a later one of the same node? In an ensemble that has
 * lost views, new ones have newer zxids, but the versions of lost views or older.
 */
static bool view_continues(const struct zk_shard *s, const struct zk_event *event)
{
	if (s->view_created != event->created)
		return false;
	return event->number == s->view_zxid ||
	       (event->number > s->view_zxid && event->version > s->view_version);
}

static void view_decode(struct zk *zk, uint32_t shard, const struct zk_event *event)
{
	const struct zk_shard *s = &zk->shards[shard];
	struct ol_view view;
	char path[ZK_PATH_MAX];

	if (s->view_created != 0 && !view_continues(s, event)) {
		view_doubt(zk, shard);
		return;
	}
	if (ol_view_decode((const char *)event->data, event->bytes, &view) == 0) {
		zk->shards[shard].view_created = event->created;
		view_tell(zk, shard, event->number, event->version, &view);
		return;
	}
	/* Version 0: a proposal would create the node, which fails. So the node stays as it is, for
	 * a person to look at. */
	zk->shards[shard].view_created = 0;
	zk_path_shard(zk, shard, "/view", path);
	if (zk->shards[shard].view_zxid != event->number)
		ol_coord_log(
			zk->coord,
			"zookeeper: %s holds no view: look at it, and delete the node if it may go",
			path);
	view_tell(zk, shard, event->number, 0, NULL);
}

static void view_answer(struct zk *zk, uint32_t shard, const struct zk_event *event)
{
	struct zk_shard *s = &zk->shards[shard];
	char path[ZK_PATH_MAX];
	int rc = event->rc;

	s->view_busy = false;
	zk_path_shard(zk, shard, "/view", path);
	if (rc == ZOK) {
		view_decode(zk, shard, event);
	} else if (rc == ZNONODE) { /* only exists() leaves a watch on an absent node */
		rc = zoo_awexists(zk->zh, path, zk_on_watch, &s->refs[ZK_VIEW_MOVED], zk_on_stat,
				  &s->refs[ZK_NO_VIEW]);
		s->view_busy = rc == ZOK;
	}
	if (rc != ZOK)
		zk_trouble(zk, path, rc);
	if (s->view_again)
		zk_view_read(zk, shard);
}

static void view_absent(struct zk *zk, uint32_t shard, const struct zk_event *event)
{
	struct zk_shard *s = &zk->shards[shard];

	s->view_busy = false;
	if (event->rc == ZNONODE && s->view_created != 0) {
		view_doubt(zk, shard);
	} else if (event->rc == ZNONODE) {
		view_tell(zk, shard, 0, 0, NULL);
	} else {
		s->view_again = event->rc == ZOK;
		s->view_news = s->view_news || s->reading_news;
		zk_trouble(zk, "view", event->rc);
	}
	if (s->view_again)
		zk_view_read(zk, shard);
}

void zk_view_propose(struct zk *zk, uint32_t shard)
{
	struct zk_shard *s = &zk->shards[shard];
	char path[ZK_PATH_MAX], text[OL_VIEW_TEXT_MAX];
	struct ol_view next;
	uint64_t version;
	int rc, bytes;

	if (!ol_coord_wish_view(zk->coord, shard, &version, &next) || !zk->connected)
		return; /* a proposal without a connection is forgotten */
	bytes = (int)ol_view_encode(&next, text);
	zk_path_shard(zk, shard, "/view", path);
	if (version == 0)
		rc = zoo_acreate(zk->zh, path, text, bytes, &zk->access.acl, ZOO_PERSISTENT,
				 zk_on_string, &s->refs[ZK_PROPOSED]);
	else if (version > INT32_MAX)
		rc = ZBADARGUMENTS;
	else
		rc = zoo_aset(zk->zh, path, text, bytes, (int)(version - 1), zk_on_stat,
			      &s->refs[ZK_PROPOSED]);
	if (rc != ZOK)
		zk_trouble(zk, path, rc);
}

static void view_proposed(struct zk *zk, uint32_t shard, const struct zk_event *event)
{
	int rc = event->rc;

	if (rc != ZOK)
		zk->shards[shard].view_news = true;
	if (rc != ZOK && rc != ZBADVERSION && rc != ZNODEEXISTS)
		zk_trouble(zk, "proposing a view", rc);
	if (zk->up && zk->granted)
		zk_view_read(zk, shard);
}

void zk_view_event(struct zk *zk, const struct zk_event *event)
{
	uint32_t shard = event->ref->shard;

	if (event->ref->kind == ZK_VIEW)
		view_answer(zk, shard, event);
	else if (event->ref->kind == ZK_NO_VIEW)
		view_absent(zk, shard, event);
	else if (event->ref->kind == ZK_PROPOSED)
		view_proposed(zk, shard, event);
	else if (event->ref->kind == ZK_VIEW_SYNCED)
		view_synced(zk, shard, event);
	else if (zk->granted) /* a watch */
		zk_view_read(zk, shard);
}
