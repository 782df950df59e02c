/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * folder.h -- the file system of a simulated machine: folders, names, locks, inotify
 *
 * A call takes time while other processes run. So a killed process dies between any two calls, and
 * a file is read while it is written. read() and write() move a random number of bytes. A lock
 * belongs to an open file and is gone a moment after its last close, which inotify reports before;
 * a process that ends closes all its files. inotify reports later, in order, or reports an overflow.
 *
 *	files.c    the tree, and the calls that change it
 *	tell.c     inotify, locks
 *	power.c    a power loss: synced bytes stay, others are random; changes of names are kept up
 *	           to a random one, as in a journal
 *	sync.c     mutexes and conditions of simulated threads
 */
#ifndef OL_TESTS_SIM_FOLDER_FOLDER_H
#define OL_TESTS_SIM_FOLDER_FOLDER_H

#include "sim/world/sim.h"

enum {
	FOLDER_NAME_MAX = 64,
	FOLDER_BYTES_MAX = 8192, /* of a file */
};

struct folder_node {
	bool folder;
	struct folder_entry *entries; /* of a folder, in the order in which they were made */
	struct folder_watch *watches; /* of a folder */
	struct folder_open *locker; /* of a file; NULL: it has none */
	uint8_t data[FOLDER_BYTES_MAX];
	size_t bytes;
	uint8_t durable[FOLDER_BYTES_MAX];
	size_t durable_bytes;
};

struct folder_entry {
	struct folder_entry *next;
	uint64_t order; /* of two the older has the smaller */
	char text[FOLDER_NAME_MAX];
	struct folder_node *node;
};

/* An open file */
struct folder_open {
	struct folder_open *next; /* of all */
	struct sim_process *process; /* NULL: it is closed */
	int fd;
	struct folder_node *node; /* NULL: it is inotify's */
	struct folder_node *in; /* the folder in which it was opened */
	bool writes;
	size_t at;
	struct folder_event *events; /* of inotify, those to be read */
	uint64_t told_ns; /* the last of them arrives then */
	int watches;
};

/* What this run is like; the rest is sim_nature's */
struct folder_nature {
	uint64_t tell_ns; /* inotify is at most so late */
	uint32_t lose_ppm; /* it has lost count */
	uint32_t deaf_ppm; /* there is none for a process */
	uint64_t unlock_ns; /* from a close to the end of the lock, at most */
};
extern struct folder_nature folder_nature;
extern struct folder_node *folder_root;
extern struct folder_open *folder_opens;

/* How the product, or the system below it, is wrong on purpose */
enum folder_wrong {
	FOLDER_RIGHT,
	FOLDER_LINK_REPLACES, /* a view replaces one that has its name */
	FOLDER_NO_LOCK, /* a member's file is not locked */
	FOLDER_LATE_LOCK, /* it is, when it has its name already */
	FOLDER_LOCK_STAYS, /* somebody has a copy of the descriptor */
	FOLDER_READ_ONCE, /* what one read() gives is taken for the whole file */
	FOLDER_NO_SYNC, /* a view gets its name before its bytes are durable */
	FOLDER_ONE_TMP, /* all write their views under one name first */
	FOLDER_WRONGS
};
extern enum folder_wrong folder_wrong;

void folder_begin(void);
/* folder_calm -- from now on all calls work, and inotify tells everything */
void folder_calm(void);
/* folder_process_gone -- what it had is closed */
void folder_process_gone(const struct sim_process *process);
/* folder_power_lost -- nobody runs: the disk is as it will be found */
void folder_power_lost(void);
/* folder_find -- NULL: there is none */
struct folder_entry *folder_find(const struct folder_node *folder, const char *text);

/* Between the files here */
struct folder_node *folder_make(bool folder);
/* folder_enter, folder_leave -- a name, without a word to inotify or to the journal */
struct folder_entry *folder_enter(struct folder_node *folder, const char *text,
				  struct folder_node *node);
void folder_leave(struct folder_node *folder, const struct folder_entry *entry);
struct folder_open *folder_of(int fd);
struct folder_open *folder_open_new(struct folder_node *node, struct folder_node *in, bool writes);
int folder_fails(int error);
bool folder_unlucky(uint32_t ppm);
void folder_takes_time(void);
/* folder_tell -- inotify: it happened in this folder */
void folder_tell(struct folder_node *folder, uint32_t mask);
/* folder_events_read -- as many as there is room for */
int64_t folder_events_read(struct folder_open *open, void *bytes, size_t count);
void folder_close(struct folder_open *open);
/* folder_journal -- a name was made in a folder (made) or taken from it */
void folder_journal(struct folder_node *folder, const char *text, struct folder_node *node,
		    bool made);
/* folder_journal_durable -- all that was said to it is */
void folder_journal_durable(void);
void folder_power_begin(void);
void folder_sync_begin(void);
void folder_sync_gone(const struct sim_process *process);

#endif /* OL_TESTS_SIM_FOLDER_FOLDER_H */
