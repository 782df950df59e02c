/* SPDX-License-Identifier: BSD-3-Clause */

/* disk_inside.h -- between disk.c, which answers calls, and disk_power.c, which makes power losses */
#ifndef OL_TESTS_SIM_WORLD_DISK_INSIDE_H
#define OL_TESTS_SIM_WORLD_DISK_INSIDE_H

#include "sim/world/disk.h"

enum {
	NAME_BYTES = 104,
	NAMES_MAX = 64,
	CHANGES_MAX = 32, /* of names that are not durable; then the oldest is */
	FILE_BYTES_MAX = 1 << 20,
	PAGE_BYTES = 4096,
	ROT_TRIES = 16,
	SPOTS_MAX = 32,
	SPOT_TRIES = 4,
};

struct inode {
	struct inode *next; /* of all disks */
	uint8_t *data;
	size_t bytes;
	uint8_t *durable;
	size_t durable_bytes;
	bool damaged;
	bool promised;
	uint32_t epoch;
	uint64_t version;
	uint64_t sync_only; /* not 0: disk_sync_only() */
};

struct name {
	char text[NAME_BYTES];
	struct inode *inode;
};

struct names {
	struct name at[NAMES_MAX];
	unsigned count;
};

enum change_kind {
	CHANGE_MADE,
	CHANGE_GONE,
	CHANGE_RENAMED
};

struct change {
	enum change_kind kind;
	struct name name;
	char to[NAME_BYTES];
};

/* Where something was written */
struct spot {
	struct inode *inode;
	size_t at;
	size_t count;
};

struct disk {
	struct spot spots[SPOTS_MAX]; /* the last */
	unsigned spot_count; /* ever */
	bool folder;
	bool folder_durable;
	struct names names;
	struct names durable;
	struct change changes[CHANGES_MAX];
	unsigned change_count;
	bool promised;
	uint32_t epoch;
	uint64_t version;
	uint64_t read_failures;
};

struct disks {
	struct disk of[SIM_DISKS_MAX];
	bool shared; /* some host has another's */
	uint32_t homes[SIM_DISKS_MAX]; /* 0: a host has its own */
	struct inode *inodes;
	unsigned full, errors, torn, undone, damaged, lost, astray;
};
extern struct disks disks;

/* disk_of -- that a host has its folder on */
struct disk *disk_of(uint32_t place);
struct name *disk_find(struct names *names, const char *text);
/* disk_change -- of names, as a call makes it */
void disk_change(struct names *names, const struct change *change);
/* disk_settle -- a file is durable as it is */
void disk_settle(struct inode *inode);
/* disk_damage -- a file is not what was written: what is promised is the newest of the others */
void disk_damage(struct disk *disk, struct inode *inode);
/* disk_misplaces -- true: the disk says that it has written. It has not, or where something else
 * belongs */
bool disk_misplaces(struct inode *inode, const void *bytes, size_t count, size_t at);

#endif /* OL_TESTS_SIM_WORLD_DISK_INSIDE_H */
