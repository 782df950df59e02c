/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * disk.h -- a disk in every host, with one folder, that may lose power
 *
 * Written bytes are in memory, which outlives the process but not the host. fsync() of a file makes
 * its bytes durable, fsync() of the folder its names. A power loss leaves a random part of the
 * rest: any bytes of a file, any length of it, any of the names that were made or removed, each
 * rename as a whole.
 */
#ifndef OL_TESTS_SIM_WORLD_DISK_H
#define OL_TESTS_SIM_WORLD_DISK_H

#include "sim/world/sim.h"

void disk_begin(void);
/* disk_end -- give back what it took */
void disk_end(void);
/* disk_mount -- the folder of host `place` is that of host `home` */
void disk_mount(uint32_t place, uint32_t home);
/* disk_power_lost -- a host is without power: its disk is as it will be found */
void disk_power_lost(uint32_t place);
/* disk_clear -- somebody has removed all files, for good */
void disk_clear(uint32_t place);
/* disk_calm -- disks are quick, whole and never full from now on */
void disk_calm(void);
/* disk_text -- how often what has happened */
void disk_text(char *text, size_t bytes);

/* disk_promise -- the file of that name in the folder of a host is said to be durable */
void disk_promise(uint32_t place, const char *name, uint32_t epoch, uint64_t version);
/* disk_promised -- the last that was, unless it has been damaged since; false: none */
bool disk_promised(uint32_t place, uint32_t *ret_epoch, uint64_t *ret_version);
/* disk_read_failures -- reads of this host's disk that have failed so far, without being damaged */
uint64_t disk_read_failures(uint32_t place);

/* disk_sync_only -- the next fsync() of a file makes no more than its first bytes durable, which a
 * mutation wants */
void disk_sync_only(int fd, uint64_t bytes);
/* disk_damaged -- a file that it has is not what was written */
bool disk_damaged(uint32_t place);

/* Of wrap.c, for descriptors that are files */
int64_t disk_read(int fd, void *bytes, size_t count);
int64_t disk_write(int fd, const void *bytes, size_t count);
int disk_fcntl(int fd, int command, void *arg);
void disk_close(int fd);

#endif /* OL_TESTS_SIM_WORLD_DISK_H */
