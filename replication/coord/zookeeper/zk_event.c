/* SPDX-License-Identifier: BSD-3-Clause */

/* zk_event.c -- the client library's callbacks, copied into a queue for this back end's thread */

#include "replication/coord/zookeeper/zk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct zk_event *event_new(const struct zk_ref *ref, int rc, const void *data, size_t bytes)
{
	struct zk_event *event = malloc(sizeof(*event) + bytes);

	if (event == NULL)
		return NULL;
	*event = (struct zk_event){ .ref = ref, .rc = rc, .bytes = bytes };
	if (bytes > 0)
		memcpy(event->data, data, bytes);
	return event;
}

/* event NULL: there was no memory for it */
static void event_queue(struct zk *zk, struct zk_event *event)
{
	pthread_mutex_lock(&zk->lock);
	if (event == NULL) {
		zk->dropped = true;
	} else {
		*zk->last = event;
		zk->last = &event->next;
	}
	pthread_cond_signal(&zk->cond);
	pthread_mutex_unlock(&zk->lock);
}

static void queue_number(const struct zk_ref *ref, int rc, int64_t number)
{
	struct zk_event *event = event_new(ref, rc, NULL, 0);

	if (event != NULL)
		event->number = number;
	event_queue(ref->zk, event);
}

void zk_on_session(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	(void)zh;
	(void)path;
	if (type == ZOO_SESSION_EVENT)
		queue_number(arg, ZOK, state);
}

void zk_on_watch(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	(void)zh;
	(void)state;
	(void)path;
	if (type != ZOO_SESSION_EVENT) /* zk_on_session() gets those */
		queue_number(arg, ZOK, 0);
}

void zk_on_void(int rc, const void *arg)
{
	queue_number(arg, rc, 0);
}

void zk_on_string(int rc, const char *value, const void *arg)
{
	(void)value;
	queue_number(arg, rc, 0);
}

void zk_on_stat(int rc, const struct Stat *stat, const void *arg)
{
	queue_number(arg, rc, rc == ZOK ? stat->ephemeralOwner : 0);
}

void zk_on_data(int rc, const char *value, int value_bytes, const struct Stat *stat,
		const void *arg)
{
	const struct zk_ref *ref = arg;
	size_t bytes = rc == ZOK && value_bytes > 0 ? (size_t)value_bytes : 0;
	struct zk_event *event;

	if (bytes > OL_VIEW_TEXT_MAX) /* too long: decoding will fail */
		bytes = OL_VIEW_TEXT_MAX;
	event = event_new(ref, rc, value, bytes);
	if (event != NULL && rc == ZOK) {
		event->number = stat->mzxid;
		event->created = stat->czxid;
		event->version = (uint64_t)(uint32_t)stat->version + 1;
	}
	event_queue(ref->zk, event);
}

/* Exactly 16 hex digits as %016x writes them; 0: no id */
static uint64_t id_parse(const char *name)
{
	uint64_t id = 0;

	if (strlen(name) != 16 || strspn(name, "0123456789abcdef") != 16)
		return 0;
	for (unsigned i = 0; i < 16; i++)
		id = id << 4 | (uint64_t)(name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
	return id;
}

void zk_on_names(int rc, const struct String_vector *names, const void *arg)
{
	const struct zk_ref *ref = arg;
	size_t count = rc == ZOK && names != NULL && names->count > 0 ? (size_t)names->count : 0;
	struct zk_event *event = malloc(sizeof(*event) + count * sizeof(uint64_t));

	if (event != NULL) {
		*event = (struct zk_event){ .ref = ref, .rc = rc };
		for (size_t i = 0; i < count; i++) {
			uint64_t id = id_parse(names->data[i]);

			if (id == 0)
				continue;
			memcpy(event->data + event->bytes, &id, sizeof(id));
			event->bytes += sizeof(id);
		}
	}
	event_queue(ref->zk, event);
}

void zk_on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *arg)
{
	const struct zk_ref *ref = arg;

	(void)stat; /* the access is not changed any more once there is a session */
	queue_number(ref, rc, rc == ZOK && acl != NULL ? zk_access_list(&ref->zk->access, acl) : 0);
}

void zk_events_free(struct zk_event *event)
{
	while (event != NULL) {
		struct zk_event *next = event->next;

		free(event);
		event = next;
	}
}

struct zk_event *zk_events_take(struct zk *zk, uint64_t due_ns, bool *ret_woken)
{
	struct timespec due = { .tv_sec = (time_t)(due_ns / ZK_NS_PER_S),
				.tv_nsec = (long)(due_ns % ZK_NS_PER_S) };
	struct zk_event *first;
	int rc = 0;

	pthread_mutex_lock(&zk->lock);
	while (rc != ETIMEDOUT && zk->ending == zk->stopping && !zk->woken && !zk->dropped &&
	       zk->first == NULL)
		rc = due_ns == 0 ? pthread_cond_wait(&zk->cond, &zk->lock)
				 : pthread_cond_timedwait(&zk->cond, &zk->lock, &due);
	first = zk->first;
	zk->first = NULL;
	zk->last = &zk->first;
	zk->ending = zk->stopping;
	*ret_woken = zk->woken;
	zk->woken = false;
	zk->reopen = zk->reopen || zk->dropped; /* the lost event may have been any */
	zk->dropped = false;
	pthread_mutex_unlock(&zk->lock);
	return first;
}
