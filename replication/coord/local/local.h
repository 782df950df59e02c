/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * local.h -- what the parts of the directory back end share
 *
 *	local.c          the thread, inotify, what is done when
 *	local_base.c     what all below need
 *	local_folder.c   the folder: is it ours, is it local, is it there still
 *	local_view.c     views: read, proposed
 *	local_member.c   members: listed, found dead by their locks
 *	local_keeper.c   our own member: a file, its lock, and the thread that holds it
 *	local_file.c     the text of files
 *
 *	PATH/JOB/shard0/1.view, 2.view …          every view there was, the last is in force
 *	PATH/JOB/shard0/members/ID.member         a server that lives; ID: 16 hex digits
 *	PATH/JOB/ID.tmp                           a view that is being written
 *
 * Compare-and-set is link(): it makes N + 1 only where nobody has. So no lock is held that a
 * process could keep while it is stopped. Numbers have no gap, because whoever makes N + 1 has read
 * N, and no file is taken away: those that are no longer in force are cut to nothing. The file is
 * whole before it has its name, on the disk too.
 *
 * A member's file is locked before it has its name, by an open file description that one thread
 * of its process has alone. The kernel closes it when the process ends. Whoever finds a file
 * without a lock takes it away. The close is heard by inotify, a moment before the lock is gone.
 */
#ifndef OL_REPLICATION_COORD_LOCAL_LOCAL_H
#define OL_REPLICATION_COORD_LOCAL_LOCAL_H

#include <sys/types.h>

#include "replication/coord/coord_internal.h"
#include "replication/coord/local/local_file.h"

enum {
	OL_LOCAL_NAME_MAX = 64, /* of a path below the job's folder, with its end */
	OL_LOCAL_VIEWS_MAX = 1 << 20, /* of a shard, one after the other */
	OL_LOCAL_NAMES_MAX = 256, /* members of a shard that are looked at */
};

struct ol_local_member {
	uint64_t id;
	bool usable; /* its file was one of a member */
	struct ol_member member;
};

struct ol_local_members {
	uint32_t count;
	struct ol_local_member of[OL_MEMBERS_MAX];
};

struct ol_local_shard {
	int views_wd, members_wd; /* of inotify; -1: none */
	bool views_moved, members_moved; /* to be looked at */
	uint64_t version; /* in force, as told; 0: there is none */
	struct ol_view view;
	bool view_known; /* was told to the handle */
	bool members_known;
	bool crowded; /* too many members: was said */
	uint32_t closing; /* looks that are left since a member's file was closed */
	struct ol_local_members members; /* as told, and those that cannot be used */
};

struct ol_local;

struct ol_local_keeper {
	struct ol_local *local;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t cond;
	uint32_t shard;
	struct ol_member member;
	bool wanted; /* the thread is to make the file */
	bool stopping;
	int rc; /* of the last time that it did */
};

struct ol_local {
	struct ol_coord *coord;
	const char *path;
	uint64_t tag; /* of this handle: name of what it writes */
	int job_fd;
	int inotify_fd; /* -1: there is none: it looks now and then */
	int wake_fd;
	pthread_t thread;
	_Atomic uint64_t
		stopping; /* a word of its own: the flags behind it are the thread's alone */
	bool away; /* the folder is gone, or was tampered with: for good */
	bool joined;
	bool join_failed; /* was said */
	bool settled; /* open() has its answer */
	uint64_t all_ns; /* when everything is looked at again */
	uint64_t closing_ns; /* when members are, after a file was closed; 0: not */
	uint64_t closing_wait_ns;
	struct ol_local_keeper keeper;
	struct ol_local_shard *shards;
};

/* local_base.c */

/* ol_local_give_up -- nothing is read or changed from here on: say why, once */
void ol_local_give_up(struct ol_local *local, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* ol_local_retry -- something failed that may work soon: everything is looked at again then */
void ol_local_retry(struct ol_local *local);
/* ol_local_watches -- is this shard of interest to the handle? */
bool ol_local_watches(const struct ol_local *local, uint32_t shard);

/* local_folder.c */

/* ol_local_folder_open -- the job's folder and those of its shards, made in PATH if they are not
 * there; 0, or -errno with a line */
int ol_local_folder_open(struct ol_local *local, char *err, size_t err_bytes);
/* ol_local_folder_refused -- name of a file system, by its statfs() magic, whose locks are not to
 * be trusted; NULL: it may be used */
const char *ol_local_folder_refused(uint64_t magic);
/* ol_local_file_read -- a file whole; its length, at most OL_LOCAL_TEXT_MAX, or -errno */
ssize_t ol_local_file_read(int fd, char text[OL_LOCAL_TEXT_MAX]);
/* ol_local_file_write -- all of it; 0 or -errno */
int ol_local_file_write(int fd, const char *text, size_t bytes);

/* local_view.c */

void ol_local_view_look(struct ol_local *local, uint32_t shard);
void ol_local_view_propose(struct ol_local *local, uint32_t shard);

/* local_member.c */

/* ol_local_members_look -- true: one is gone that was there */
bool ol_local_members_look(struct ol_local *local, uint32_t shard);
/* ol_local_member_absent -- for sure: where the system cannot say so its file is there */
bool ol_local_member_absent(const struct ol_local *local, uint32_t shard, uint64_t id);
void ol_local_member_name(uint32_t shard, uint64_t id, const char *end,
			  char name[OL_LOCAL_NAME_MAX]);

/* local_keeper.c */

/* ol_local_keeper_make -- register, or register again; 0 or -errno. stop: NULL-safe */
int ol_local_keeper_make(struct ol_local *local, uint32_t shard, const struct ol_member *member);
void ol_local_keeper_stop(struct ol_local_keeper *keeper);

#endif /* OL_REPLICATION_COORD_LOCAL_LOCAL_H */
