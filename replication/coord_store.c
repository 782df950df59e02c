/* SPDX-License-Identifier: BSD-3-Clause */

/* coord_store.c -- sessions, members and views of the embedded coordinator */

#include "replication/coord_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)

enum {
	SHARDS_MAX = 64, /* of a job */
};

struct entry {
	struct ol_member member;
	struct ol_coord_session *session; /* NULL: of an offered view, not back yet … */
	uint64_t until_ns; /* … and no member any more from then on */
};

struct shard {
	uint64_t version; /* 0: no view */
	struct ol_view view;
	uint32_t entry_count;
	struct entry entries[OL_MEMBERS_MAX];
};

struct job {
	struct ol_coord_store *store;
	struct job *next;
	char name[OL_COORD_JOB_MAX];
	struct shard *shards[SHARDS_MAX]; /* NULL: nothing was said of it yet */
	struct ol_coord_session *sessions;
};

struct ol_coord_session {
	struct job *job;
	struct ol_coord_session *next; /* of the job */
	struct ol_coord_session *prev;
	void *owner; /* NULL: an orphan */
	uint32_t shard_count;
	uint64_t lease_ns;
	uint64_t until_ns;
	bool joined;
	uint32_t join_shard;
};

struct ol_coord_store {
	struct ol_coord_store_ops ops;
	struct job *jobs;
	uint32_t job_count;
	uint32_t session_count;
	uint64_t version; /* last that was given to a view */
	uint64_t next_ns; /* nothing is over before */
};

int ol_coord_store_create(uint64_t version_base, const struct ol_coord_store_ops *ops,
			  struct ol_coord_store **ret_store)
{
	struct ol_coord_store *store = calloc(1, sizeof(*store));

	if (store == NULL)
		return -ENOMEM;
	store->ops = *ops;
	store->version = version_base;
	store->next_ns = UINT64_MAX;
	*ret_store = store;
	return 0;
}

static void job_free(struct job *job)
{
	for (uint32_t i = 0; i < SHARDS_MAX; i++)
		free(job->shards[i]);
	free(job);
}

void ol_coord_store_destroy(struct ol_coord_store *store)
{
	struct job *job;
	struct ol_coord_session *session;

	if (store == NULL)
		return;
	while ((job = store->jobs) != NULL) {
		store->jobs = job->next;
		while ((session = job->sessions) != NULL) {
			job->sessions = session->next;
			free(session);
		}
		job_free(job);
	}
	free(store);
}

/* job_release -- a job of which nobody knows anything is none */
static void job_release(struct job *job)
{
	struct ol_coord_store *store = job->store;
	struct job **link = &store->jobs;

	if (job->sessions != NULL)
		return;
	for (uint32_t i = 0; i < SHARDS_MAX; i++) {
		if (job->shards[i] != NULL &&
		    (job->shards[i]->version != 0 || job->shards[i]->entry_count > 0))
			return;
	}
	while (*link != job)
		link = &(*link)->next;
	*link = job->next;
	store->job_count--;
	job_free(job);
}

static int job_get(struct ol_coord_store *store, const char *name, struct job **ret_job)
{
	struct job *job = store->jobs;

	while (job != NULL && strcmp(job->name, name) != 0)
		job = job->next;
	if (job == NULL) {
		if (store->job_count == OL_COORD_JOBS_MAX)
			return -ENOBUFS;
		job = calloc(1, sizeof(*job));
		if (job == NULL)
			return -ENOMEM;
		job->store = store;
		snprintf(job->name, sizeof(job->name), "%s", name);
		job->next = store->jobs;
		store->jobs = job;
		store->job_count++;
	}
	*ret_job = job;
	return 0;
}

static int shard_get(struct ol_coord_session *session, uint32_t at, struct shard **ret_shard)
{
	struct job *job = session->job;

	if (at >= session->shard_count)
		return -EINVAL;
	if (job->shards[at] == NULL)
		job->shards[at] = calloc(1, sizeof(**job->shards));
	*ret_shard = job->shards[at];
	return *ret_shard != NULL ? 0 : -ENOMEM;
}

static void view_tell(const struct job *job, uint32_t shard)
{
	for (struct ol_coord_session *s = job->sessions; s != NULL; s = s->next) {
		if (s->owner != NULL && shard < s->shard_count)
			job->store->ops.view_changed(s->owner, shard);
	}
}

static void members_tell(const struct job *job, uint32_t shard)
{
	for (struct ol_coord_session *s = job->sessions; s != NULL; s = s->next) {
		if (s->owner != NULL && shard < s->shard_count)
			job->store->ops.members_changed(s->owner, shard);
	}
}

/* over_at -- something is over then: expire() is due */
static void over_at(struct ol_coord_store *store, uint64_t until_ns)
{
	if (until_ns < store->next_ns)
		store->next_ns = until_ns;
}

int ol_coord_session_begin(struct ol_coord_store *store, const char *job_name, uint32_t shard_count,
			   uint32_t lease_ms, uint64_t now_ns, void *owner,
			   struct ol_coord_session **ret_session)
{
	struct ol_coord_session *session;
	struct job *job;
	int rc;

	if (store->session_count == OL_COORD_SESSIONS_MAX)
		return -ENOSPC;
	rc = job_get(store, job_name, &job);
	if (rc != 0)
		return rc;
	session = calloc(1, sizeof(*session));
	if (session == NULL) {
		job_release(job);
		return -ENOMEM;
	}
	if (lease_ms > OL_COORD_LEASE_MS_MAX)
		lease_ms = OL_COORD_LEASE_MS_MAX;
	session->job = job;
	session->owner = owner;
	session->shard_count = shard_count < SHARDS_MAX ? shard_count : SHARDS_MAX;
	session->lease_ns = lease_ms * NS_PER_MS;
	session->until_ns = now_ns + session->lease_ns;
	over_at(store, session->until_ns);
	session->next = job->sessions;
	if (session->next != NULL)
		session->next->prev = session;
	job->sessions = session;
	store->session_count++;
	*ret_session = session;
	return 0;
}

static void entry_remove(struct shard *shard, uint32_t at)
{
	shard->entry_count--;
	memmove(&shard->entries[at], &shard->entries[at + 1],
		(shard->entry_count - at) * sizeof(shard->entries[0]));
}

/* session_unlink -- without the job's release; true: its member left with it */
static bool session_unlink(struct ol_coord_session *session)
{
	struct job *job = session->job;
	struct shard *shard = session->joined ? job->shards[session->join_shard] : NULL;
	bool left = false;

	if (session->next != NULL)
		session->next->prev = session->prev;
	if (session->prev != NULL)
		session->prev->next = session->next;
	else
		job->sessions = session->next;
	job->store->session_count--;
	for (uint32_t i = 0; shard != NULL && i < shard->entry_count; i++) {
		if (shard->entries[i].session != session)
			continue;
		entry_remove(shard, i);
		left = true;
		break;
	}
	return left;
}

void ol_coord_session_end(struct ol_coord_session *session)
{
	struct job *job = session->job;

	if (session_unlink(session))
		members_tell(job, session->join_shard);
	free(session);
	job_release(job);
}

void ol_coord_session_orphan(struct ol_coord_session *session)
{
	session->owner = NULL;
}

void ol_coord_session_renew(struct ol_coord_session *session, uint64_t now_ns)
{
	session->until_ns = now_ns + session->lease_ns;
}

static struct entry *entry_find(struct shard *shard, uint64_t id)
{
	for (uint32_t i = 0; i < shard->entry_count; i++) {
		if (shard->entries[i].member.id == id)
			return &shard->entries[i];
	}
	return NULL;
}

int ol_coord_session_join(struct ol_coord_session *session, uint32_t at,
			  const struct ol_member *member)
{
	struct shard *shard;
	struct entry *entry;
	int rc = shard_get(session, at, &shard);

	if (rc != 0)
		return rc;
	entry = entry_find(shard, member->id);
	if (session->joined && (entry == NULL || entry->session != session))
		return -EBUSY;
	if (entry == NULL) {
		if (shard->entry_count == OL_MEMBERS_MAX)
			return -ENOSPC;
		entry = &shard->entries[shard->entry_count++];
	} else if (entry->session != NULL) {
		entry->session->joined = false;
	}
	entry->member = *member;
	entry->session = session;
	entry->until_ns = 0;
	session->joined = true;
	session->join_shard = at;
	members_tell(session->job, at);
	return 0;
}

int ol_coord_session_propose(struct ol_coord_session *session, uint32_t at, uint64_t version,
			     const struct ol_view *next)
{
	struct shard *shard;
	int rc = shard_get(session, at, &shard);

	if (rc != 0)
		return rc;
	if (version != shard->version)
		return -ESTALE;
	if (next->epoch <= shard->view.epoch)
		return -EINVAL;
	shard->view = *next;
	shard->version = ++session->job->store->version;
	view_tell(session->job, at);
	return 0;
}

int ol_coord_session_offer(struct ol_coord_session *session, uint32_t at,
			   const struct ol_view *view, uint64_t now_ns)
{
	struct shard *shard;
	int rc = shard_get(session, at, &shard);

	if (rc != 0)
		return rc;
	if (view->epoch <= shard->view.epoch)
		return -EEXIST;
	for (uint32_t i = 0; i < view->count + view->joining; i++) {
		struct entry *entry;

		if (entry_find(shard, view->replicas[i].id) != NULL ||
		    shard->entry_count == OL_MEMBERS_MAX)
			continue;
		entry = &shard->entries[shard->entry_count++];
		entry->member = view->replicas[i];
		entry->session = NULL;
		entry->until_ns = now_ns + session->lease_ns;
		over_at(session->job->store, entry->until_ns);
	}
	shard->view = *view;
	shard->version = ++session->job->store->version;
	members_tell(session->job, at);
	view_tell(session->job, at);
	return 0;
}

const struct ol_view *ol_coord_session_view(const struct ol_coord_session *session, uint32_t at,
					    uint64_t *ret_version)
{
	const struct shard *shard = at < session->shard_count ? session->job->shards[at] : NULL;

	*ret_version = shard != NULL ? shard->version : 0;
	return *ret_version != 0 ? &shard->view : NULL;
}

uint32_t ol_coord_session_members(const struct ol_coord_session *session, uint32_t at,
				  struct ol_member ret_members[OL_MEMBERS_MAX])
{
	const struct shard *shard = at < session->shard_count ? session->job->shards[at] : NULL;
	uint32_t count = shard != NULL ? shard->entry_count : 0;

	for (uint32_t i = 0; i < count; i++)
		ret_members[i] = shard->entries[i].member;
	return count;
}

const char *ol_coord_session_job(const struct ol_coord_session *session)
{
	return session->job->name;
}

/* shard_expire -- replicas of an offered view that have not come back */
static void shard_expire(struct job *job, uint32_t at, uint64_t now_ns)
{
	struct shard *shard = job->shards[at];
	bool left = false;

	for (uint32_t i = shard->entry_count; i-- > 0;) {
		const struct entry *entry = &shard->entries[i];

		if (entry->session != NULL)
			continue;
		if (entry->until_ns > now_ns) {
			over_at(job->store, entry->until_ns);
			continue;
		}
		entry_remove(shard, i);
		left = true;
	}
	if (left)
		members_tell(job, at);
}

static void job_expire(struct job *job, uint64_t now_ns)
{
	struct ol_coord_session *session = job->sessions, *next;

	for (; session != NULL; session = next) {
		void *owner = session->owner;

		next = session->next;
		if (session->until_ns > now_ns) {
			over_at(job->store, session->until_ns);
			continue;
		}
		if (session_unlink(session))
			members_tell(job, session->join_shard);
		free(session);
		if (owner != NULL)
			job->store->ops.expired(owner);
	}
	for (uint32_t i = 0; i < SHARDS_MAX; i++) {
		if (job->shards[i] != NULL)
			shard_expire(job, i, now_ns);
	}
}

uint64_t ol_coord_store_expire(struct ol_coord_store *store, uint64_t now_ns)
{
	struct job *job = store->jobs, *next;

	if (now_ns < store->next_ns)
		return store->next_ns;
	store->next_ns = UINT64_MAX;
	for (; job != NULL; job = next) {
		next = job->next;
		job_expire(job, now_ns);
		job_release(job);
	}
	return store->next_ns;
}
