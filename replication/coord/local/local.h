/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * local.h -- what the parts of the directory back end share
 *
 *	local.c          the thread, inotify, the order of work
 *	local_base.c     helpers of all below
 *	local_folder.c   the folder: is it ours, local, and still there
 *	local_view.c     views: read, proposed
 *	local_member.c   members: listed, found dead by their locks
 *	local_keeper.c   our own member: a file, its lock, and the thread that holds it
 *	local_file.c     the text of files
 *	local_ask.c      ask.h: what is kept, removal
 *	local_examine.c  ask.h: rights, file system, latencies
 *
 *	PATH/JOB/shard0/1.view, 2.view …          every view there was, the last is in force
 *	PATH/JOB/shard0/members/ID.member         a server that lives; ID: 16 hex digits
 *	PATH/JOB/ID.tmp                           a view that is being written
 *
 * Compare-and-set is link(): it fails if the name N + 1 exists. So there is no lock that a stopped
 * process could keep. Numbers have no gap: a process makes N + 1 only after it has read N, and no
 * file is removed; older ones are truncated. A file is whole, on the disk too, before it gets its
 * name.
 *
 * A member's file is locked before it gets its name, by an open file description that only one
 * thread of its process has. The kernel closes it when the process ends. A process that finds a
 * file without a lock removes it. inotify reports the close a moment before the lock is gone.
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
	bool usable; /* its file holds a valid member */
	struct ol_member member;
};

struct ol_local_members {
	uint32_t count;
	struct ol_local_member of[OL_MEMBERS_MAX];
};

struct ol_local_shard {
	int views_wd, members_wd; /* of inotify; -1: none */
	bool views_moved, members_moved; /* must be read again */
	uint64_t version; /* in force, as last given to the handle; 0: none */
	struct ol_view view;
	bool view_known; /* was given to the handle */
	bool members_known;
	bool crowded; /* too many members: was logged */
	uint32_t closing; /* looks that are left since a member's file was closed */
	struct ol_local_members members; /* as given to the handle, and unusable ones */
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
	bool wanted; /* the thread must make the file */
	bool stopping;
	int rc; /* of the last time that it made one */
};

struct ol_local {
	struct ol_coord *coord;
	const char *path;
	uint64_t tag; /* of this handle: in the names of files that it writes */
	int job_fd;
	int inotify_fd; /* -1: none left: the thread looks every few ms */
	int wake_fd;
	pthread_t thread;
	_Atomic uint64_t
		stopping; /* a word of its own: the flags after it are the thread's alone */
	bool away; /* the folder is gone, or was tampered with: for good */
	bool joined;
	bool join_failed; /* was logged */
	bool settled; /* open() has its answer */
	uint64_t all_ns; /* when everything is read again */
	uint64_t closing_ns; /* when members are, after a file was closed; 0: never */
	uint64_t closing_wait_ns;
	struct ol_local_keeper keeper;
	struct ol_local_shard *shards;
};

/* local_base.c */

/* ol_local_give_up -- read and change nothing from here on; log why, once */
void ol_local_give_up(struct ol_local *local, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* ol_local_retry -- read everything again soon, as a call failed that may work then */
void ol_local_retry(struct ol_local *local);
/* ol_local_watches -- does the handle watch this shard? */
bool ol_local_watches(const struct ol_local *local, uint32_t shard);

/* local_folder.c */

/* ol_local_folder_open -- open the folders of the job and its shards in PATH, or make them; 0, or
 * -errno with a line */
int ol_local_folder_open(struct ol_local *local, char *err, size_t err_bytes);
/* ol_local_folder_enter -- open a folder, if it is this user's, local, and nobody else may write into it: 0 or
 * -errno with a line */
int ol_local_folder_enter(int at_fd, const char *name, int flags, int *ret_fd, char *err,
			  size_t err_bytes);
/* ol_local_still_there -- the folder of that name in the coordinator's is this one */
bool ol_local_still_there(int path_fd, const char *job, int job_fd);
/* ol_local_folder_refused -- name of the file system with this statfs() magic if its locks are not
 * reliable; NULL: it may be used */
const char *ol_local_folder_refused(uint64_t magic);
/* ol_local_file_read -- a file whole; its length, at most OL_LOCAL_TEXT_MAX, or -errno */
ssize_t ol_local_file_read(int fd, char text[OL_LOCAL_TEXT_MAX]);
/* ol_local_file_write -- all of it; 0 or -errno */
int ol_local_file_write(int fd, const char *text, size_t bytes);

/* local_view.c */

void ol_local_view_look(struct ol_local *local, uint32_t shard);
void ol_local_view_propose(struct ol_local *local, uint32_t shard);
/* ol_local_view_newest -- the one in force, version 0: none, and when it was made (CLOCK_REALTIME, 0: not
 * known): 0; -EBADMSG: it is damaged; or -errno */
int ol_local_view_newest(const struct ol_local *local, uint32_t shard, uint64_t *ret_version,
			 struct ol_view *ret_view, int64_t *ret_changed_ms);

/* local_member.c */

/* ol_local_members_look -- read the members; true: one of them has left */
bool ol_local_members_look(struct ol_local *local, uint32_t shard);
/* ol_local_members_peek -- how many live, and those of them that could be read; or -errno. Changes nothing */
int ol_local_members_peek(const struct ol_local *local, uint32_t shard,
			  struct ol_member members[OL_MEMBERS_MAX], uint32_t *ret_count);
/* ol_local_member_absent -- true: its file is surely absent; false also if a call failed */
bool ol_local_member_absent(const struct ol_local *local, uint32_t shard, uint64_t id);
void ol_local_member_name(uint32_t shard, uint64_t id, const char *end,
			  char name[OL_LOCAL_NAME_MAX]);

/* local_keeper.c */

/* ol_local_keeper_make -- register, or register again; 0 or -errno. stop: NULL-safe */
int ol_local_keeper_make(struct ol_local *local, uint32_t shard, const struct ol_member *member);
void ol_local_keeper_stop(struct ol_local_keeper *keeper);

/* local_ask.c, local_examine.c: ask.h's, as the table of the back end has them */

int ol_local_list(const struct ol_coord_ask *ask, ol_kept_fn *tell, void *arg, char *err,
		  size_t err_bytes);
int ol_local_remove(const struct ol_coord_ask *ask, char *err, size_t err_bytes);
int ol_local_make_root(const struct ol_coord_ask *ask, char *err, size_t err_bytes);
int ol_local_examine(const struct ol_coord_ask *ask, uint32_t lease_ms, uint32_t rounds,
		     struct ol_asker *asker, char *err, size_t err_bytes);
/* ol_local_jobs -- ol_local_list() in an open folder; job NULL: all */
int ol_local_jobs(int path_fd, const char *job, ol_kept_fn *tell, void *arg, char *err,
		  size_t err_bytes);

#endif /* OL_REPLICATION_COORD_LOCAL_LOCAL_H */
