/* SPDX-License-Identifier: BSD-3-Clause */

/* disk.c -- files, names, and their durable parts; the calls of src/checkpoint */

#include "sim/world/disk_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/world/mutate.h"
#include "sim/world/saved.h"
#include "sim/world/wrap.h"

WRAP(int, open, const char *path, int flags, ...);
WRAP(int, openat, int dir, const char *path, int flags, ...);
WRAP(ssize_t, pread, int fd, void *bytes, size_t count, off_t off);
WRAP(ssize_t, pwrite, int fd, const void *bytes, size_t count, off_t off);
WRAP(int, posix_fallocate, int fd, off_t off, off_t count);
WRAP(int, fsync, int fd);
WRAP(int, fdatasync, int fd);
WRAP(int, fstat, int fd, struct stat *ret_stat);
WRAP(int, fchmod, int fd, mode_t mode);
WRAP(int, flock, int fd, int how);
WRAP(int, mkdir, const char *path, mode_t mode);
WRAP(int, faccessat, int dir, const char *path, int mode, int flags);
WRAP(int, renameat, int dir, const char *from, int to_dir, const char *to);
WRAP(int, unlinkat, int dir, const char *path, int flags);
WRAP(DIR *, fdopendir, int fd);
WRAP(struct dirent *, readdir, DIR *stream);
WRAP(int, closedir, DIR *stream);

enum file_kind {
	FILE_PLAIN,
	FILE_FOLDER,
	FILE_PARENT
};

struct file {
	enum file_kind kind;
	struct disk *disk;
	struct inode *inode;
};

struct stream {
	int fd;
	unsigned at;
	struct dirent entry;
};

struct disks disks;

void disk_begin(void)
{
	memset(&disks, 0, sizeof(disks));
}

void disk_end(void)
{
	while (disks.inodes != NULL) {
		struct inode *next = disks.inodes->next;

		__real_free(disks.inodes->data);
		__real_free(disks.inodes->durable);
		disks.inodes = next;
	}
}

void disk_calm(void)
{
	sim_nature.disk_full_ppm = 0;
	sim_nature.disk_write_ppm = 0;
	sim_nature.disk_sync_ppm = 0;
	sim_nature.disk_read_ppm = 0;
	sim_nature.disk_short_ppm = 0;
	sim_nature.disk_lost_ppm = 0;
	sim_nature.disk_astray_ppm = 0;
}

void disk_text(char *text, size_t bytes)
{
	snprintf(text, bytes,
		 "disks: full %u, failed %u, torn files %u, lost names %u, damaged files %u, lost "
		 "writes %u, astray %u",
		 disks.full, disks.errors, disks.torn, disks.undone, disks.damaged, disks.lost,
		 disks.astray);
}

void disk_mount(uint32_t place, uint32_t home)
{
	disks.homes[place] = home;
	disks.shared = true;
}

static struct disk *own_disk(void)
{
	return disk_of(sim_process_place(sim_process_self()));
}

/* A call takes its time, and may be cut off */
static void takes_time(void)
{
	sim_pause(sim_between(0, sim_nature.disk_ns));
}

static int fails(int code)
{
	errno = code;
	return -1;
}

/* True: this call fails, as chance has it */
static bool unlucky(uint32_t ppm)
{
	bool yes = sim_ppm(ppm);

	disks.errors += yes;
	return yes;
}

/* ---- names ---- */

static void changed(struct disk *disk, enum change_kind kind, const char *text, struct inode *inode,
		    const char *to)
{
	struct change *change;

	if (disk->change_count == CHANGES_MAX) {
		disk_change(&disk->durable, &disk->changes[0]);
		disk->change_count--;
		memmove(disk->changes, disk->changes + 1,
			disk->change_count * sizeof(*disk->changes));
	}
	change = &disk->changes[disk->change_count++];
	*change = (struct change){ .kind = kind, .name = { .inode = inode } };
	snprintf(change->name.text, sizeof(change->name.text), "%s", text);
	snprintf(change->to, sizeof(change->to), "%s", to != NULL ? to : "");
	disk_change(&disk->names, change);
}

void disk_clear(uint32_t place)
{
	struct disk *disk = disk_of(place);

	disk->names.count = disk->durable.count = disk->change_count = 0;
	disk->promised = false;
}

/* ---- what was promised ---- */

void disk_promise(uint32_t place, const char *text, uint32_t epoch, uint64_t version)
{
	struct disk *disk = disk_of(place);
	const struct name *name = disk_find(&disk->names, text);

	if (name == NULL && disks.shared) /* its rival has swept it away */
		return;
	if (name == NULL) {
		sim_fail("check_durable", "%s is said to be written and is not there", text);
		return;
	}
	name->inode->promised = true;
	name->inode->epoch = epoch;
	name->inode->version = version;
	if (name->inode->damaged) { /* the disk did not do what it said */
		disk_damage(disk, name->inode);
		return;
	}
	if (disk->promised &&
	    (epoch < disk->epoch || (epoch == disk->epoch && version < disk->version)))
		return; /* by one that has a rival */
	disk->epoch = epoch;
	disk->version = version;
	disk->promised = true;
}

bool disk_promised(uint32_t place, uint32_t *ret_epoch, uint64_t *ret_version)
{
	const struct disk *disk = disk_of(place);

	*ret_epoch = disk->epoch;
	*ret_version = disk->version;
	return disk->promised;
}

uint64_t disk_read_failures(uint32_t place)
{
	return disk_of(place)->read_failures;
}

bool disk_damaged(uint32_t place)
{
	const struct names *names = &disk_of(place)->names;

	for (unsigned i = 0; i < names->count; i++) {
		if (names->at[i].inode->damaged)
			return true;
	}
	return false;
}

/* ---- descriptors ---- */

static struct file *file_of(int fd)
{
	return *sim_fd_file(fd);
}

static int file_open(struct disk *disk, enum file_kind kind, struct inode *inode)
{
	struct file *file = sim_alloc(sizeof(*file));
	int fd = sim_fd_open();

	*file = (struct file){ .kind = kind, .disk = disk, .inode = inode };
	*sim_fd_file(fd) = file;
	return fd;
}

int __wrap_open(const char *path, int flags, ...)
{
	struct disk *disk;
	va_list args;
	mode_t mode;

	if (sim_process_self() == NULL) {
		va_start(args, flags);
		mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
		va_end(args);
		return __real_open(path, flags, mode);
	}
	takes_time();
	disk = own_disk();
	return disk->folder ? file_open(disk, FILE_FOLDER, NULL) : fails(ENOENT);
}

static struct inode *inode_make(void)
{
	struct inode *inode = sim_alloc(sizeof(*inode));

	inode->data = __real_calloc(1, FILE_BYTES_MAX);
	inode->durable = __real_calloc(1, FILE_BYTES_MAX);
	if (inode->data == NULL || inode->durable == NULL)
		abort();
	inode->next = disks.inodes;
	disks.inodes = inode;
	return inode;
}

static int file_make(struct disk *disk, const char *text)
{
	struct inode *inode;

	if (disk_find(&disk->names, text) != NULL)
		return fails(EEXIST);
	if (unlucky(sim_nature.disk_full_ppm))
		return fails(ENOSPC);
	inode = inode_make();
	changed(disk, CHANGE_MADE, text, inode, NULL);
	return file_open(disk, FILE_PLAIN, inode);
}

int __wrap_openat(int dir, const char *path, int flags, ...)
{
	struct disk *disk;
	struct name *name;
	va_list args;
	mode_t mode;

	if (!sim_fd_is(dir)) {
		va_start(args, flags);
		mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
		va_end(args);
		return __real_openat(dir, path, flags, mode);
	}
	takes_time();
	disk = file_of(dir)->disk;
	if (strcmp(path, "..") == 0)
		return file_open(disk, FILE_PARENT, NULL);
	if (strcmp(path, ".") == 0)
		return file_open(disk, FILE_FOLDER, NULL);
	if ((flags & O_CREAT) != 0)
		return file_make(disk, path);
	if (unlucky(sim_nature.disk_read_ppm)) {
		disk->read_failures++;
		return fails(EIO);
	}
	name = disk_find(&disk->names, path);
	return name != NULL ? file_open(disk, FILE_PLAIN, name->inode) : fails(ENOENT);
}

int64_t disk_read(int fd, void *bytes, size_t count)
{
	(void)bytes;
	(void)count;
	sim_fail("check_misuse", "descriptor %d is read without a place", fd);
	return fails(EBADF);
}

static int64_t put(struct inode *inode, const void *bytes, size_t count, size_t at)
{
	takes_time();
	if (sim_ppm(sim_nature.disk_short_ppm))
		return fails(EINTR);
	if (unlucky(sim_nature.disk_write_ppm))
		return fails(EIO);
	if (sim_ppm(sim_nature.disk_full_ppm)) {
		disks.full++;
		return fails(ENOSPC);
	}
	if (sim_ppm(sim_nature.disk_short_ppm) && count > 1)
		count = sim_between(1, count - 1);
	if (at + count > FILE_BYTES_MAX) {
		sim_fail("check_bounded", "a file is longer than %d bytes", FILE_BYTES_MAX);
		return fails(EFBIG);
	}
	if (!disk_misplaces(inode, bytes, count, at))
		memcpy(inode->data + at, bytes, count);
	if (inode->bytes < at + count)
		inode->bytes = at + count;
	return (int64_t)count;
}

int64_t disk_write(int fd, const void *bytes, size_t count)
{
	struct inode *inode = file_of(fd)->inode;

	return put(inode, bytes, count, inode->bytes);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t off)
{
	uint64_t other;
	struct inode *inode;
	int64_t done;

	if (!sim_fd_is(fd))
		return __real_pwrite(fd, bytes, count, off);
	inode = file_of(fd)->inode;
	done = put(inode, bytes, count, (size_t)off);
	other = mutation(MUTATE_BOTH_COPIES)
			? saved_sibling(sim_process_place(sim_process_self()), (uint64_t)off)
			: 0;
	if (other != 0 && done > 0)
		memcpy(inode->data + other, bytes, (size_t)done);
	return done;
}

/* Gives the error back, and leaves errno alone */
int __wrap_posix_fallocate(int fd, off_t off, off_t count)
{
	struct inode *inode;

	if (!sim_fd_is(fd))
		return __real_posix_fallocate(fd, off, count);
	takes_time();
	if (sim_ppm(sim_nature.disk_short_ppm))
		return EINTR;
	if (sim_ppm(sim_nature.disk_full_ppm)) {
		disks.full++;
		return ENOSPC;
	}
	inode = file_of(fd)->inode;
	if (off + count > FILE_BYTES_MAX) {
		sim_fail("check_bounded", "a file is longer than %d bytes", FILE_BYTES_MAX);
		return EFBIG;
	}
	if (inode->bytes < (size_t)(off + count))
		inode->bytes = (size_t)(off + count);
	return 0;
}

ssize_t __wrap_pread(int fd, void *bytes, size_t count, off_t off)
{
	const struct inode *inode;
	size_t at = (size_t)off;

	if (!sim_fd_is(fd))
		return __real_pread(fd, bytes, count, off);
	takes_time();
	inode = file_of(fd)->inode;
	if (sim_ppm(sim_nature.disk_short_ppm))
		return fails(EINTR);
	if (unlucky(sim_nature.disk_read_ppm)) {
		file_of(fd)->disk->read_failures++;
		return fails(EIO);
	}
	if (at >= inode->bytes)
		return 0;
	if (count > inode->bytes - at)
		count = inode->bytes - at;
	if (sim_ppm(sim_nature.disk_short_ppm) && count > 1)
		count = sim_between(1, count - 1);
	memcpy(bytes, inode->data + at, count);
	return (ssize_t)count;
}

void disk_sync_only(int fd, uint64_t bytes)
{
	file_of(fd)->inode->sync_only = bytes;
}

int __wrap_fsync(int fd)
{
	struct file *file;
	bool failed;

	if (!sim_fd_is(fd))
		return __real_fsync(fd);
	takes_time();
	file = file_of(fd);
	if (sim_ppm(sim_nature.disk_short_ppm))
		return fails(EINTR);
	failed = unlucky(sim_nature.disk_sync_ppm);
	if (failed && sim_ppm(500000))
		return fails(EIO);
	switch (file->kind) {
	case FILE_PLAIN:
		if (file->inode->sync_only != 0 && file->inode->durable_bytes > 0)
			memcpy(file->inode->durable, file->inode->data, file->inode->sync_only);
		else if (!mutation(MUTATE_RENAME_FIRST))
			disk_settle(file->inode);
		file->inode->sync_only = 0;
		break;
	case FILE_FOLDER:
		if (mutation(MUTATE_NO_FOLDER_SYNC))
			break;
		file->disk->durable = file->disk->names;
		file->disk->change_count = 0;
		break;
	case FILE_PARENT:
		file->disk->folder_durable = file->disk->folder;
		break;
	}
	return failed ? fails(EIO) : 0; /* it was done, and was said not to be */
}

/* When a file was written is not simulated */
int __wrap_fdatasync(int fd)
{
	return sim_fd_is(fd) ? __wrap_fsync(fd) : __real_fdatasync(fd);
}

int __wrap_fstat(int fd, struct stat *ret_stat)
{
	const struct names *names;

	if (!sim_fd_is(fd))
		return __real_fstat(fd, ret_stat);
	names = &file_of(fd)->disk->names;
	memset(ret_stat, 0, sizeof(*ret_stat));
	ret_stat->st_uid = geteuid();
	ret_stat->st_mode = S_IFDIR | 0700;
	if (file_of(fd)->inode == NULL)
		return 0;
	ret_stat->st_mode = S_IFREG | 0600;
	ret_stat->st_size = (off_t)file_of(fd)->inode->bytes;
	ret_stat->st_ino = (ino_t)(uintptr_t)file_of(fd)->inode;
	for (unsigned i = 0; i < names->count; i++)
		ret_stat->st_nlink += names->at[i].inode == file_of(fd)->inode;
	return 0;
}

/* All of a disk belongs to one user, who gives no right away. */
int __wrap_fchmod(int fd, mode_t mode)
{
	return sim_fd_is(fd) ? 0 : __real_fchmod(fd, mode);
}

/* Of two processes of one host that share a disk one is dead */
int __wrap_flock(int fd, int how)
{
	return sim_fd_is(fd) ? 0 : __real_flock(fd, how);
}

/* Nobody locks here but by flock() */
int disk_fcntl(int fd, int command, void *arg)
{
	(void)fd;
	(void)command;
	(void)arg;
	return fails(EINVAL);
}

void disk_close(int fd)
{
	(void)fd; /* who has it open is of no account */
}

/* ---- the folder ---- */

int __wrap_mkdir(const char *path, mode_t mode)
{
	struct disk *disk;

	if (sim_process_self() == NULL)
		return __real_mkdir(path, mode);
	takes_time();
	disk = own_disk();
	if (disk->folder)
		return fails(EEXIST);
	disk->folder = true;
	return 0;
}

int __wrap_faccessat(int dir, const char *path, int mode, int flags)
{
	return sim_fd_is(dir) ? 0 : __real_faccessat(dir, path, mode, flags);
}

int __wrap_renameat(int dir, const char *from, int to_dir, const char *to)
{
	struct disk *disk;
	struct inode *inode;
	struct name *name;

	if (!sim_fd_is(dir))
		return __real_renameat(dir, from, to_dir, to);
	takes_time();
	disk = file_of(dir)->disk;
	name = disk_find(&disk->names, from);
	if (name == NULL)
		return fails(ENOENT);
	if (unlucky(sim_nature.disk_write_ppm))
		return fails(EIO);
	inode = name->inode;
	changed(disk, CHANGE_RENAMED, from, inode, to);
	if (inode->damaged) /* what it takes the place of may be what was promised */
		disk_damage(disk, inode);
	return 0;
}

int __wrap_unlinkat(int dir, const char *path, int flags)
{
	struct disk *disk;

	if (!sim_fd_is(dir))
		return __real_unlinkat(dir, path, flags);
	takes_time();
	disk = file_of(dir)->disk;
	if (disk_find(&disk->names, path) == NULL)
		return fails(ENOENT);
	if (unlucky(sim_nature.disk_write_ppm))
		return fails(EIO);
	changed(disk, CHANGE_GONE, path, NULL, NULL);
	/* it may go for a newer one that the disk has damaged, unseen: that one is no promise */
	for (unsigned i = 0; i < disk->names.count; i++) {
		if (disk->names.at[i].inode->damaged) {
			disk_damage(disk, disk->names.at[i].inode);
			break;
		}
	}
	return 0;
}

DIR *__wrap_fdopendir(int fd)
{
	struct stream *stream;

	if (!sim_fd_is(fd))
		return __real_fdopendir(fd);
	takes_time();
	stream = sim_block_get(sizeof(*stream));
	stream->fd = fd;
	return (DIR *)(void *)stream;
}

struct dirent *__wrap_readdir(DIR *at)
{
	struct stream *stream = (struct stream *)(void *)at;
	const struct names *names;

	if (sim_process_self() == NULL)
		return __real_readdir(at);
	names = &file_of(stream->fd)->disk->names;
	if (unlucky(sim_nature.disk_read_ppm)) {
		file_of(stream->fd)->disk->read_failures++;
		errno = EIO;
		return NULL;
	}
	if (stream->at >= names->count)
		return NULL;
	snprintf(stream->entry.d_name, sizeof(stream->entry.d_name), "%s",
		 names->at[stream->at++].text);
	return &stream->entry;
}

int __wrap_closedir(DIR *at)
{
	struct stream *stream = (struct stream *)(void *)at;

	if (sim_process_self() == NULL)
		return __real_closedir(at);
	sim_fd_close(stream->fd);
	sim_block_put(stream);
	return 0;
}
