/* SPDX-License-Identifier: BSD-3-Clause */

/* local_view.c -- the view of a shard in a directory: read, and replaced */

#include "replication/coord/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void view_name(uint32_t shard, uint64_t version, char name[OL_LOCAL_NAME_MAX])
{
	snprintf(name, OL_LOCAL_NAME_MAX, "shard%" PRIu32 "/%" PRIu64 ".view", shard, version);
}

/* view_absent -- true: the file is surely absent; false also if a call failed */
static bool view_absent(const struct ol_local *local, uint32_t shard, uint64_t version)
{
	char name[OL_LOCAL_NAME_MAX];

	view_name(shard, version, name);
	return faccessat(local->job_fd, name, F_OK, 0) != 0 && errno == ENOENT;
}

/* view_read -- 0; -ENOENT: there is none; -EBADMSG: truncated, or damaged; or -errno */
static int view_read(const struct ol_local *local, uint32_t shard, uint64_t version,
		     struct ol_view *ret_view)
{
	char name[OL_LOCAL_NAME_MAX], text[OL_LOCAL_TEXT_MAX];
	ssize_t bytes;
	int fd;

	view_name(shard, version, name);
	fd = openat(local->job_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	bytes = ol_local_file_read(fd, text);
	close(fd);
	if (bytes < 0)
		return (int)bytes;
	return ol_local_view_decode(text, (size_t)bytes, version, ret_view);
}

/* newest_find -- the highest number, as there is no gap; 0: none. Too high only if a call failed */
static uint64_t newest_find(const struct ol_local *local, uint32_t shard)
{
	uint64_t low = 0, high = 1;

	while (high <= OL_LOCAL_VIEWS_MAX && !view_absent(local, shard, high)) {
		low = high;
		high *= 2;
	}
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (view_absent(local, shard, middle))
			high = middle;
		else
			low = middle;
	}
	return low;
}

/*
 * view_tell -- give the view in force to the handle, even if it is the same
 *
 * The members are read after the view and told before it. So a replica that a view names and that
 * is no member has ended; it is never one whose registration this handle has yet to hear of.
 */
static void view_tell(struct ol_local *local, uint32_t shard)
{
	struct ol_local_shard *s = &local->shards[shard];

	(void)ol_local_members_look(local, shard);
	if (local->away)
		return;
	s->view_known = true;
	ol_coord_set_view(local->coord, shard, s->version, s->version != 0 ? &s->view : NULL);
}

/*
 * catch_up -- read the view in force; 1: it has changed; 0: the same; or -errno: it cannot be read
 * now
 */
static int catch_up(struct ol_local *local, uint32_t shard)
{
	struct ol_local_shard *s = &local->shards[shard];
	uint64_t at = s->version != 0 ? s->version + 1 : newest_find(local, shard);
	int moved = 0;

	if (s->version != 0 && view_absent(local, shard, s->version)) {
		ol_local_give_up(local, "view %" PRIu64 " of shard %" PRIu32 " was taken away",
				 s->version, shard);
		return 0;
	}
	for (at += at == 0; at <= OL_LOCAL_VIEWS_MAX; at++) {
		struct ol_view view;
		int rc = view_read(local, shard, at, &view);

		if (rc == 0) {
			s->version = at;
			s->view = view;
			moved = 1;
		} else if (rc != -EBADMSG) {
			return rc == -ENOENT ? moved : rc;
		} else if (view_absent(local, shard, at + 1)) {
			ol_local_give_up(local,
					 "view %" PRIu64 " of shard %" PRIu32
					 ": the file is damaged (checksum)",
					 at, shard);
			return 0;
		}
	}
	return moved;
}

int ol_local_view_newest(const struct ol_local *local, uint32_t shard, uint64_t *ret_version,
			 struct ol_view *ret_view, int64_t *ret_changed_ms)
{
	uint64_t version = newest_find(local, shard);
	char name[OL_LOCAL_NAME_MAX];
	struct stat st;
	int rc = version == 0 ? -ENOENT : view_read(local, shard, version, ret_view);

	while (rc == -EBADMSG &&
	       !view_absent(local, shard, version + 1)) /* a newer one came, and emptied it */
		rc = view_read(local, shard, ++version, ret_view);
	*ret_version = version;
	view_name(shard, version, name);
	*ret_changed_ms = 0;
	if (version != 0 && fstatat(local->job_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		*ret_changed_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	return rc == -ENOENT ? 0 : rc;
}

void ol_local_view_look(struct ol_local *local, uint32_t shard)
{
	struct ol_local_shard *s = &local->shards[shard];
	int rc;

	s->views_moved = false;
	if (local->away || !ol_local_watches(local, shard))
		return;
	rc = catch_up(local, shard);
	if (rc < 0)
		ol_local_retry(local);
	if (!local->away && (rc > 0 || (rc == 0 && !s->view_known)))
		view_tell(local, shard);
}

/* tmp_write -- write and sync the whole file, under a name of this handle; 0 or -errno */
static int tmp_write(const struct ol_local *local, const char *tmp, const char *text, size_t bytes)
{
	int fd = openat(local->job_fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
			0600);
	int rc;

	if (fd < 0)
		return -errno;
	rc = ol_local_file_write(fd, text, bytes);
	if (rc == 0 && fsync(fd) != 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* folder_sync -- true: names in the folder survive a power loss */
static bool folder_sync(const struct ol_local *local, uint32_t shard)
{
	char name[OL_LOCAL_NAME_MAX];
	bool synced;
	int fd;

	snprintf(name, sizeof(name), "shard%" PRIu32, shard);
	fd = openat(local->job_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	synced = fsync(fd) == 0;
	close(fd);
	return synced;
}

/* view_truncate -- empty the file of a view that is no longer in force */
static void view_truncate(const struct ol_local *local, uint32_t shard, uint64_t version)
{
	char name[OL_LOCAL_NAME_MAX];
	int fd;

	view_name(shard, version, name);
	fd = openat(local->job_fd, name, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0)
		close(fd);
}

/* view_replace -- 0; -EEXIST: another proposal won; or -errno */
static int view_replace(const struct ol_local *local, uint32_t shard, uint64_t version,
			const struct ol_view *next)
{
	char tmp[OL_LOCAL_NAME_MAX], name[OL_LOCAL_NAME_MAX], text[OL_LOCAL_TEXT_MAX];
	int rc;

	snprintf(tmp, sizeof(tmp), "%016" PRIx64 ".tmp", local->tag);
	view_name(shard, version + 1, name);
	rc = tmp_write(local, tmp, text, ol_local_view_encode(version + 1, next, text));
	if (rc == 0 && linkat(local->job_fd, tmp, local->job_fd, name, 0) != 0)
		rc = -errno;
	(void)unlinkat(local->job_fd, tmp, 0);
	if (rc != 0)
		return rc;
	/* keep the old view unless the new one surely survives a power loss */
	if (folder_sync(local, shard) && version > 0)
		view_truncate(local, shard, version);
	return 0;
}

void ol_local_view_propose(struct ol_local *local, uint32_t shard)
{
	struct ol_local_shard *s = &local->shards[shard];
	struct ol_view next;
	uint64_t version;
	int rc;

	if (!ol_coord_wish_view(local->coord, shard, &version, &next) || local->away ||
	    !ol_local_watches(local, shard))
		return;
	if (catch_up(local, shard) < 0)
		ol_local_retry(local);
	if (local->away)
		return;
	if (version == OL_LOCAL_VIEWS_MAX) {
		ol_coord_log(local->coord,
			     "shard %" PRIu32
			     " has had %d views, which is the limit: no other is made",
			     shard, OL_LOCAL_VIEWS_MAX);
	} else if (version == s->version && (version == 0 || ol_view_follows(&s->view, &next))) {
		rc = view_replace(local, shard, version, &next);
		if (rc == -ENOENT)
			ol_local_give_up(local, "the folder of shard %" PRIu32 " was taken away",
					 shard);
		else if (rc != 0 && rc != -EEXIST)
			ol_coord_log(local->coord,
				     "a view of shard %" PRIu32 " cannot be written: %s", shard,
				     strerror(-rc));
		if (!local->away && catch_up(local, shard) < 0)
			ol_local_retry(local);
	}
	if (!local->away)
		view_tell(local, shard);
}
