/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * local.c -- views and members in a directory of this machine
 *
 * One thread reads the folders when inotify reports a change. It also reads everything every
 * ALL_MS, so that a lost event costs only time. If the user has no inotify instance left, it reads
 * everything every POLL_MS.
 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "replication/coord/local/local.h"

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

enum {
	ALL_MS = 500, /* between two looks at everything */
	POLL_MS = 10, /* the same, without inotify */
	CLOSING_US = 20, /* from a reported close to the first look at the lock … */
	CLOSING_LOOKS = 14, /* … and each wait is twice the one before: 300 ms in all */
	EVENTS_BYTES = 4096,
};

static const uint32_t views_mask =
	IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
static const uint32_t members_mask = IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE |
				     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

/* Watching */

/* watches_add -- on failure inotify_fd is -1 afterwards, with errno set */
static void watches_add(struct ol_local *local)
{
	for (uint32_t i = 0; i < local->coord->opts.shard_count; i++) {
		struct ol_local_shard *s = &local->shards[i];
		char path[OL_LOCAL_NAME_MAX];
		int rc;

		s->views_wd = s->members_wd = -1;
		if (local->inotify_fd < 0 || !ol_local_watches(local, i))
			continue;
		/* by the descriptor, as another folder may lie at the path by now */
		snprintf(path, sizeof(path), "/proc/self/fd/%d/shard%" PRIu32, local->job_fd, i);
		s->views_wd = inotify_add_watch(local->inotify_fd, path, views_mask);
		snprintf(path, sizeof(path), "/proc/self/fd/%d/shard%" PRIu32 "/members",
			 local->job_fd, i);
		if (s->views_wd >= 0)
			s->members_wd = inotify_add_watch(local->inotify_fd, path, members_mask);
		if (s->members_wd >= 0)
			continue;
		rc = errno;
		close(local->inotify_fd);
		local->inotify_fd = -1;
		errno = rc;
	}
}

static void closing_begin(struct ol_local *local, struct ol_local_shard *s)
{
	s->closing = CLOSING_LOOKS;
	local->closing_wait_ns = CLOSING_US * NS_PER_US;
	local->closing_ns = ol_coord_now_ns() + local->closing_wait_ns;
}

static void all_moved(struct ol_local *local)
{
	for (uint32_t i = 0; i < local->coord->opts.shard_count; i++)
		local->shards[i].views_moved = local->shards[i].members_moved = true;
}

static void event_take(struct ol_local *local, const struct inotify_event *event)
{
	if ((event->mask & (IN_Q_OVERFLOW | IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF)) != 0)
		all_moved(local);
	for (uint32_t i = 0; i < local->coord->opts.shard_count; i++) {
		struct ol_local_shard *s = &local->shards[i];

		if (s->views_wd == event->wd)
			s->views_moved = true;
		if (s->members_wd != event->wd)
			continue;
		s->members_moved = true;
		if ((event->mask & IN_CLOSE_WRITE) != 0)
			closing_begin(local, s);
	}
}

static void events_take(struct ol_local *local)
{
	_Alignas(struct inotify_event) char bytes[EVENTS_BYTES];
	ssize_t got;

	while (local->inotify_fd >= 0 &&
	       (got = read(local->inotify_fd, bytes, sizeof(bytes))) > 0) {
		size_t at = 0;

		while (at < (size_t)got) {
			const struct inotify_event *event =
				(const struct inotify_event *)(const void *)(bytes + at);

			event_take(local, event);
			at += sizeof(*event) + event->len;
		}
	}
}

/* Carry out callers' wishes */

static void member_join(struct ol_local *local)
{
	struct ol_member member;
	uint32_t shard;
	int rc;

	if (local->away || local->joined || !ol_coord_wish_member(local->coord, &shard, &member))
		return;
	rc = ol_local_keeper_make(local, shard, &member);
	local->joined = rc == 0;
	if (rc != 0 && !local->join_failed)
		ol_coord_log(
			local->coord,
			"this server cannot be registered: its file in the folder of shard %" PRIu32
			": %s",
			shard, strerror(-rc));
	local->join_failed = rc != 0;
}

static void wishes_do(struct ol_local *local)
{
	member_join(local);
	for (uint32_t i = 0; i < local->coord->opts.shard_count; i++)
		ol_local_view_propose(local, i);
}

/* rejoin_check -- register again if our file was removed. Only every ALL_MS: a person who removes
 * the whole folder should not find new files in it. */
static void rejoin_check(struct ol_local *local, bool now)
{
	const struct ol_local_shard *s;
	struct ol_member member;
	uint32_t shard;

	if (!now || local->away || !local->joined ||
	    !ol_coord_wish_member(local->coord, &shard, &member))
		return;
	s = &local->shards[shard];
	for (uint32_t i = 0; i < s->members.count; i++)
		if (s->members.of[i].id == member.id)
			return;
	if (s->crowded)
		return;
	if (!ol_local_member_absent(local, shard, member.id)) {
		ol_local_retry(local); /* the file is there, but could not be read */
		return;
	}
	local->joined = false;
	member_join(local);
}

/* The thread */

/* shards_look -- read what has changed */
static void shards_look(struct ol_local *local, bool closing)
{
	bool more = false;

	for (uint32_t i = 0; i < local->coord->opts.shard_count; i++) {
		struct ol_local_shard *s = &local->shards[i];

		if (s->views_moved)
			ol_local_view_look(local, i);
		if (s->members_moved || (closing && s->closing > 0)) {
			if (ol_local_members_look(local, i))
				s->closing = 0;
			else if (closing && s->closing > 0)
				s->closing--;
		}
		more = more || s->closing > 0;
	}
	if (closing)
		local->closing_wait_ns *= 2;
	if (!more)
		local->closing_ns = 0;
	else if (closing)
		local->closing_ns = ol_coord_now_ns() + local->closing_wait_ns;
}

/* client_settle -- let open() return, once all that it waits for is there */
static void client_settle(struct ol_local *local)
{
	if (local->away || local->settled)
		return;
	for (uint32_t i = 0; i < local->coord->opts.shard_count; i++)
		if (ol_local_watches(local, i) &&
		    !(local->shards[i].view_known && local->shards[i].members_known))
			return;
	local->settled = true;
	ol_coord_set_session(local->coord, true, UINT64_MAX);
	ol_coord_settle(local->coord, 0, NULL);
}

static void sleep_until(const struct ol_local *local, uint64_t due_ns)
{
	struct pollfd fds[2] = { { .fd = local->wake_fd, .events = POLLIN },
				 { .fd = local->inotify_fd, .events = POLLIN } };
	uint64_t now_ns = ol_coord_now_ns(), wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;
	struct timespec wait = { .tv_sec = (time_t)(wait_ns / NS_PER_S),
				 .tv_nsec = (long)(wait_ns % NS_PER_S) };

	(void)ppoll(fds, 2, &wait, NULL); /* the caller checks everything anyway */
}

static bool wake_take(const struct ol_local *local)
{
	uint64_t count;

	return read(local->wake_fd, &count, sizeof(count)) > 0;
}

static void *local_run(void *arg)
{
	struct ol_local *local = arg;
	uint64_t all_ms = local->inotify_fd >= 0 ? ALL_MS : POLL_MS;

	local->all_ns = ol_coord_now_ns() + all_ms * NS_PER_MS;
	all_moved(local);
	shards_look(local, false);
	client_settle(local);
	while (!atomic_load(&local->stopping)) {
		uint64_t due_ns = local->all_ns, now_ns;
		bool all;

		if (local->closing_ns != 0 && local->closing_ns < due_ns)
			due_ns = local->closing_ns;
		sleep_until(local, due_ns);
		events_take(local);
		now_ns = ol_coord_now_ns();
		all = now_ns >= local->all_ns;
		if (wake_take(local) || all)
			wishes_do(local);
		if (all) {
			local->all_ns = now_ns + all_ms * NS_PER_MS;
			all_moved(local);
		}
		shards_look(local, local->closing_ns != 0 && now_ns >= local->closing_ns);
		client_settle(local);
		rejoin_check(local, all);
	}
	ol_local_keeper_stop(&local->keeper);
	return NULL;
}

/* The back end */

static void local_destroy(struct ol_local *local)
{
	if (local->job_fd >= 0)
		close(local->job_fd);
	if (local->inotify_fd >= 0)
		close(local->inotify_fd);
	if (local->wake_fd >= 0)
		close(local->wake_fd);
	free(local->shards);
	free(local);
}

static struct ol_local *local_create(struct ol_coord *coord)
{
	struct ol_local *local = calloc(1, sizeof(*local));

	if (local == NULL)
		return NULL;
	local->coord = coord;
	local->path = coord->opts.addr + strlen("dir:");
	local->job_fd = local->inotify_fd = -1;
	local->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	local->shards = calloc(coord->opts.shard_count, sizeof(*local->shards));
	if (local->shards == NULL || local->wake_fd < 0 ||
	    getrandom(&local->tag, sizeof(local->tag), 0) != (ssize_t)sizeof(local->tag)) {
		local_destroy(local);
		return NULL;
	}
	return local;
}

static int local_start(struct ol_coord *coord, void **ret_back, char *err, size_t err_bytes)
{
	struct ol_local *local = local_create(coord);
	int rc;

	if (local == NULL) {
		snprintf(err, err_bytes, "no memory or descriptor for a coordinator's client");
		return -ENOMEM;
	}
	rc = ol_local_folder_open(local, err, err_bytes);
	if (rc != 0) {
		local_destroy(local);
		return rc == -EACCES ? -EPERM : rc; /* -EACCES means another secret */
	}
	local->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	watches_add(local);
	if (local->inotify_fd < 0)
		ol_coord_log(
			coord,
			"inotify: %s: the folder is looked at every %d ms, which costs time; raise "
			"fs.inotify.max_user_instances",
			strerror(errno), POLL_MS);
	*ret_back = local; /* the thread may settle at once */
	rc = ol_coord_thread_start(local_run, local, &local->thread);
	if (rc != 0) {
		snprintf(err, err_bytes, "no thread for a coordinator's client: %s", strerror(-rc));
		local_destroy(local);
		return rc;
	}
	return 0;
}

static void local_wake(void *back)
{
	struct ol_local *local = back;
	uint64_t one = 1;
	ssize_t written = write(local->wake_fd, &one, sizeof(one));

	(void)written; /* fails only if it is readable anyway */
}

static void local_stop(void *back)
{
	struct ol_local *local = back;

	atomic_store(&local->stopping, true);
	local_wake(local);
	pthread_join(local->thread, NULL);
	local_destroy(local);
}

const struct ol_coord_backend ol_coord_local = {
	.start = local_start,
	.wake = local_wake,
	.stop = local_stop,
	.list = ol_local_list,
	.remove = ol_local_remove,
	.make_root = ol_local_make_root,
	.examine = ol_local_examine,
};
