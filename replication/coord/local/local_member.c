/* SPDX-License-Identifier: BSD-3-Clause */

/* local_member.c -- the members of a shard in a directory: those whose files are locked */

#include "replication/coord/local/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char member_end[] = ".member";

void ol_local_member_name(uint32_t shard, uint64_t id, const char *end,
			  char name[OL_LOCAL_NAME_MAX])
{
	snprintf(name, OL_LOCAL_NAME_MAX, "shard%" PRIu32 "/members/%016" PRIx64 "%s", shard, id,
		 end);
}

bool ol_local_member_absent(const struct ol_local *local, uint32_t shard, uint64_t id)
{
	char name[OL_LOCAL_NAME_MAX];

	ol_local_member_name(shard, id, member_end, name);
	return faccessat(local->job_fd, name, F_OK, 0) != 0 && errno == ENOENT;
}

/* id_parse -- exactly 16 hex digits as %016x writes them; 0: no id */
static uint64_t id_parse(const char *name)
{
	uint64_t id = 0;

	if (strlen(name) != 16 + strlen(member_end) || strcmp(name + 16, member_end) != 0 ||
	    strspn(name, "0123456789abcdef") < 16)
		return 0;
	for (unsigned i = 0; i < 16; i++)
		id = id << 4 | (uint64_t)(name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
	return id;
}

static const struct ol_local_member *member_find(const struct ol_local_members *members,
						 uint64_t id)
{
	for (uint32_t i = 0; i < members->count; i++)
		if (members->of[i].id == id)
			return &members->of[i];
	return NULL;
}

/* is_locked -- the file's owner lives; also true if that is not certain */
static bool is_locked(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/*
 * member_look -- is it alive? If so, *ret_member is `known`, or read from its file
 *
 * An id is never used twice, and a file is locked before it gets its name. So a file without a lock
 * has lost its owner for good.
 */
static bool member_look(const struct ol_local *local, uint32_t shard, uint64_t id,
			const struct ol_local_member *known, struct ol_local_member *ret_member)
{
	char name[OL_LOCAL_NAME_MAX], text[OL_LOCAL_TEXT_MAX];
	bool alive;
	int fd;

	ol_local_member_name(shard, id, member_end, name);
	fd = openat(local->job_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return known != NULL && errno != ENOENT && (*ret_member = *known, true);
	alive = is_locked(fd);
	if (alive && known != NULL && known->usable) {
		*ret_member = *known;
	} else if (alive) { /* new, or not readable before */
		ssize_t bytes = ol_local_file_read(fd, text);

		*ret_member = (struct ol_local_member){ .id = id };
		ret_member->usable = bytes > 0 && ol_local_member_decode(text, (size_t)bytes, id,
									 &ret_member->member) == 0;
	} else {
		(void)unlinkat(local->job_fd, name, 0);
	}
	close(fd);
	return alive;
}

/* is_old -- true for members that stay if there are too many; others wait */
static bool is_old(const struct ol_local_shard *s, uint64_t id)
{
	return ol_view_find(&s->view, id) >= 0 || member_find(&s->members, id) != NULL;
}

static int id_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* names_read -- the ids of all files, in order; returns their number, or -errno */
static int names_read(const struct ol_local *local, uint32_t shard, uint64_t *ids,
		      bool *ret_crowded)
{
	char name[OL_LOCAL_NAME_MAX];
	const struct dirent *entry;
	uint32_t count = 0;
	DIR *folder;
	int fd, rc;

	snprintf(name, sizeof(name), "shard%" PRIu32 "/members", shard);
	fd = openat(local->job_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	folder = fdopendir(fd);
	if (folder == NULL) {
		rc = -errno;
		close(fd);
		return rc;
	}
	for (errno = 0; (entry = readdir(folder)) != NULL; errno = 0) {
		uint64_t id = id_parse(entry->d_name);

		if (id == 0)
			continue;
		if (count < OL_LOCAL_NAMES_MAX)
			ids[count++] = id;
		else
			*ret_crowded = true;
	}
	rc = -errno;
	closedir(folder);
	if (rc != 0)
		return rc;
	qsort(ids, count, sizeof(ids[0]), id_compare);
	return (int)count;
}

int ol_local_members_peek(const struct ol_local *local, uint32_t shard,
			  struct ol_member members[OL_MEMBERS_MAX], uint32_t *ret_count)
{
	uint64_t ids[OL_LOCAL_NAMES_MAX];
	bool crowded = false;
	int named = names_read(local, shard, ids, &crowded), live = 0;

	*ret_count = 0;
	for (int i = 0; i < named; i++) {
		char name[OL_LOCAL_NAME_MAX], text[OL_LOCAL_TEXT_MAX];
		ssize_t bytes;
		int fd;

		ol_local_member_name(shard, ids[i], member_end, name);
		fd = openat(local->job_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (is_locked(fd)) {
			live++;
			bytes = ol_local_file_read(fd, text);
			if (bytes > 0 && *ret_count < OL_MEMBERS_MAX &&
			    ol_local_member_decode(text, (size_t)bytes, ids[i],
						   &members[*ret_count]) == 0)
				++*ret_count;
		}
		close(fd);
	}
	return named < 0 ? named : live;
}

/* members_stage -- collect the live members, old ones first */
static void members_stage(const struct ol_local *local, uint32_t shard, const uint64_t *ids,
			  int count, struct ol_local_members *staged, bool *ret_crowded)
{
	const struct ol_local_shard *s = &local->shards[shard];

	staged->count = 0;
	for (unsigned old = 2; old-- > 0;) {
		for (int i = 0; i < count; i++) {
			struct ol_local_member member;

			if (is_old(s, ids[i]) != (old == 1) ||
			    !member_look(local, shard, ids[i], member_find(&s->members, ids[i]),
					 &member))
				continue;
			if (staged->count < OL_MEMBERS_MAX)
				staged->of[staged->count++] = member;
			else
				*ret_crowded = true;
		}
	}
}

static void crowd_say(struct ol_local *local, uint32_t shard, bool crowded)
{
	struct ol_local_shard *s = &local->shards[shard];

	if (crowded && !s->crowded)
		ol_coord_log(local->coord,
			     "more than %d servers are registered for shard %" PRIu32
			     ": the others wait until one of these is gone",
			     OL_MEMBERS_MAX, shard);
	s->crowded = crowded;
}

bool ol_local_members_look(struct ol_local *local, uint32_t shard)
{
	struct ol_local_shard *s = &local->shards[shard];
	struct ol_member usable[OL_MEMBERS_MAX];
	uint64_t ids[OL_LOCAL_NAMES_MAX];
	struct ol_local_members staged;
	bool crowded = false, changed = !s->members_known, gone = false;
	uint32_t count = 0;
	int named;

	s->members_moved = false;
	if (local->away || !ol_local_watches(local, shard))
		return false;
	named = names_read(local, shard, ids, &crowded);
	if (named == -ENOENT)
		ol_local_give_up(local, "the folder of shard %" PRIu32 " was taken away", shard);
	if (named < 0) {
		ol_local_retry(local);
		return false;
	}
	members_stage(local, shard, ids, named, &staged, &crowded);
	crowd_say(local, shard, crowded);
	for (uint32_t i = 0; i < s->members.count; i++)
		gone = gone || member_find(&staged, s->members.of[i].id) == NULL;
	for (uint32_t i = 0; i < staged.count; i++) {
		const struct ol_local_member *known = member_find(&s->members, staged.of[i].id);

		changed = changed || known == NULL || known->usable != staged.of[i].usable;
		if (staged.of[i].usable)
			usable[count++] = staged.of[i].member;
	}
	s->members = staged;
	s->members_known = true;
	if (changed || gone)
		ol_coord_set_members(local->coord, shard, usable, count);
	return gone;
}
