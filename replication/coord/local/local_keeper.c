/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * local_keeper.c -- our own member: a file, its lock, and the thread that holds it
 *
 * A lock of an open file description lives as long as any descriptor of it is open. A child of a
 * fork has copies of its parent's descriptors, so it would keep a dead parent registered. The
 * keeper is a thread with a descriptor table of its own, which no fork copies and which ends with
 * the process. The thread does nothing else, as it cannot use the other threads' descriptors.
 */

#include "replication/coord/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* table_own -- give this thread a descriptor table of its own, with only job_fd in it */
static int table_own(int job_fd)
{
	if (close_range((unsigned)job_fd + 1, ~0U, CLOSE_RANGE_UNSHARE) != 0)
		return -errno;
	if (job_fd > 0 && close_range(0, (unsigned)job_fd - 1, 0) != 0)
		return -errno;
	return 0;
}

/* own_close -- not close(): the thread sanitizer follows that, and takes equal numbers in two tables
 * for one descriptor */
static void own_close(int fd)
{
	(void)syscall(SYS_close, fd);
}

/* file_make -- make, lock, write, then name the file; returns its descriptor, or -errno */
static int file_make(int job_fd, uint32_t shard, const struct ol_member *member)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char tmp[OL_LOCAL_NAME_MAX], name[OL_LOCAL_NAME_MAX], text[OL_LOCAL_TEXT_MAX];
	int fd, rc = 0;

	ol_local_member_name(shard, member->id, ".new", tmp);
	ol_local_member_name(shard, member->id, ".member", name);
	fd = openat(job_fd, tmp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_SETLK, &lock) != 0)
		rc = -errno;
	if (rc == 0)
		rc = ol_local_file_write(fd, text, ol_local_member_encode(member, text));
	if (rc == 0 && renameat(job_fd, tmp, job_fd, name) != 0)
		rc = -errno;
	if (rc == 0)
		return fd;
	(void)unlinkat(job_fd, tmp, 0);
	own_close(fd);
	return rc;
}

static void *keeper_run(void *arg)
{
	struct ol_local_keeper *keeper = arg;
	int job_fd = keeper->local->job_fd, rc = -EAGAIN, fd = -1, made;
	char name[OL_LOCAL_NAME_MAX];

	ol_local_member_name(keeper->shard, keeper->member.id, ".member", name);
	pthread_mutex_lock(&keeper->lock);
	while (!keeper->stopping) {
		if (keeper->wanted) {
			if (rc != 0)
				rc = table_own(job_fd);
			made = rc != 0 ? rc : file_make(job_fd, keeper->shard, &keeper->member);
			/*
			 * The first file was removed. It stays open and locked: a process that has
			 * it open and found no lock would remove the new file of the same name.
			 */
			if (made >= 0)
				fd = made;
			keeper->rc = made < 0 ? made : 0;
			keeper->wanted = false;
			pthread_cond_broadcast(&keeper->cond);
		}
		if (!keeper->stopping && !keeper->wanted)
			pthread_cond_wait(&keeper->cond, &keeper->lock);
	}
	pthread_mutex_unlock(&keeper->lock);
	if (fd >= 0) {
		(void)unlinkat(job_fd, name, 0);
		own_close(fd);
	}
	return NULL;
}

static int keeper_start(struct ol_local_keeper *keeper)
{
	int rc;

	pthread_mutex_init(&keeper->lock, NULL);
	pthread_cond_init(&keeper->cond, NULL);
	rc = ol_coord_thread_start(keeper_run, keeper, &keeper->thread);
	if (rc != 0) {
		pthread_cond_destroy(&keeper->cond);
		pthread_mutex_destroy(&keeper->lock);
		return rc;
	}
	keeper->started = true;
	return 0;
}

int ol_local_keeper_make(struct ol_local *local, uint32_t shard, const struct ol_member *member)
{
	struct ol_local_keeper *keeper = &local->keeper;
	int rc;

	if (!keeper->started) {
		keeper->local = local;
		keeper->shard = shard;
		keeper->member = *member;
		rc = keeper_start(keeper);
		if (rc != 0)
			return rc;
	}
	pthread_mutex_lock(&keeper->lock);
	keeper->wanted = true;
	pthread_cond_broadcast(&keeper->cond);
	while (keeper->wanted)
		pthread_cond_wait(&keeper->cond, &keeper->lock);
	rc = keeper->rc;
	pthread_mutex_unlock(&keeper->lock);
	return rc;
}

void ol_local_keeper_stop(struct ol_local_keeper *keeper)
{
	if (!keeper->started)
		return;
	pthread_mutex_lock(&keeper->lock);
	keeper->stopping = true;
	pthread_cond_broadcast(&keeper->cond);
	pthread_mutex_unlock(&keeper->lock);
	pthread_join(keeper->thread, NULL);
	pthread_cond_destroy(&keeper->cond);
	pthread_mutex_destroy(&keeper->lock);
}
