/* SPDX-License-Identifier: BSD-3-Clause */

/* files.c -- a tree of folders and files, and the calls that read and change it */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sim/folder/folder.h"
#include "sim/world/disk.h"
#include "sim/world/wrap.h"

WRAP(int, openat, int dir, const char *path, int flags, ...);
WRAP(int, mkdirat, int dir, const char *path, mode_t mode);
WRAP(int, linkat, int from_dir, const char *from, int to_dir, const char *to, int flags);
WRAP(int, renameat, int from_dir, const char *from, int to_dir, const char *to);
WRAP(int, unlinkat, int dir, const char *path, int flags);
WRAP(int, faccessat, int dir, const char *path, int mode, int flags);
WRAP(int, fstat, int fd, struct stat *ret_stat);
WRAP(int, fstatfs, int fd, struct statfs *ret_fs);
WRAP(int, fsync, int fd);
WRAP(DIR *, fdopendir, int fd);
WRAP(struct dirent *, readdir, DIR *at);
WRAP(int, closedir, DIR *at);

enum {
	EXT4 = 0xef53,
};

struct stream {
	int fd;
	uint64_t order; /* of the last that was given */
	struct dirent entry;
};

struct folder_nature folder_nature;
struct folder_node *folder_root;
struct folder_open *folder_opens;
enum folder_wrong folder_wrong;
static uint64_t orders;

void folder_begin(void)
{
	folder_opens = NULL;
	orders = 0;
	folder_root = folder_make(true);
	folder_power_begin();
	folder_sync_begin();
}

void folder_calm(void)
{
	sim_nature.disk_full_ppm = sim_nature.disk_read_ppm = 0;
	sim_nature.disk_sync_ppm = sim_nature.disk_short_ppm = 0;
	folder_nature.lose_ppm = 0;
}

int folder_fails(int error)
{
	errno = error;
	return -1;
}

bool folder_unlucky(uint32_t ppm)
{
	return sim_ppm(ppm);
}

void folder_takes_time(void)
{
	sim_pause(sim_between(0, sim_nature.disk_ns));
}

/* ---- the tree ---- */

struct folder_node *folder_make(bool folder)
{
	struct folder_node *node = sim_alloc(sizeof(*node));

	node->folder = folder;
	return node;
}

struct folder_entry *folder_find(const struct folder_node *folder, const char *text)
{
	struct folder_entry *entry = folder->entries;

	while (entry != NULL && strcmp(entry->text, text) != 0)
		entry = entry->next;
	return entry;
}

struct folder_entry *folder_enter(struct folder_node *folder, const char *text,
				  struct folder_node *node)
{
	struct folder_entry *entry = sim_alloc(sizeof(*entry)), **at = &folder->entries;

	snprintf(entry->text, sizeof(entry->text), "%s", text);
	entry->node = node;
	entry->order = ++orders;
	while (*at != NULL)
		at = &(*at)->next;
	*at = entry;
	return entry;
}

void folder_leave(struct folder_node *folder, const struct folder_entry *entry)
{
	struct folder_entry **at = &folder->entries;

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
}

/* The folder that a path ends in, and the last of its names; NULL: there is none, errno says why */
static struct folder_node *walk(int dir, const char *path, char name[FOLDER_NAME_MAX])
{
	struct folder_node *at = dir == AT_FDCWD ? folder_root : folder_of(dir)->node;
	const char *end;

	path += *path == '/';
	while ((end = strchr(path, '/')) != NULL) {
		const struct folder_entry *entry;

		snprintf(name, FOLDER_NAME_MAX, "%.*s", (int)(end - path), path);
		entry = folder_find(at, name);
		if (entry == NULL || !entry->node->folder) {
			errno = entry == NULL ? ENOENT : ENOTDIR;
			return NULL;
		}
		at = entry->node;
		path = end + 1;
	}
	snprintf(name, FOLDER_NAME_MAX, "%s", path);
	if (folder_wrong == FOLDER_ONE_TMP && strstr(name, ".tmp") != NULL)
		snprintf(name, FOLDER_NAME_MAX, "one.tmp");
	return at;
}

static void name_made(struct folder_node *folder, const char *name, struct folder_node *node,
		      uint32_t mask)
{
	folder_enter(folder, name, node);
	folder_journal(folder, name, node, true);
	folder_tell(folder, mask);
}

static void name_gone(struct folder_node *folder, const struct folder_entry *entry, uint32_t mask)
{
	folder_journal(folder, entry->text, entry->node, false);
	folder_leave(folder, entry);
	folder_tell(folder, mask);
}

/* ---- descriptors ---- */

struct folder_open *folder_of(int fd)
{
	return *sim_fd_file(fd);
}

struct folder_open *folder_open_new(struct folder_node *node, struct folder_node *in, bool writes)
{
	struct folder_open *open = sim_alloc(sizeof(*open));

	*open = (struct folder_open){ .next = folder_opens,
				      .process = sim_process_self(),
				      .fd = sim_fd_open(),
				      .node = node,
				      .in = in,
				      .writes = writes };
	folder_opens = open;
	*sim_fd_file(open->fd) = open;
	return open;
}

int __wrap_openat(int dir, const char *path, int flags, ...)
{
	char name[FOLDER_NAME_MAX];
	struct folder_node *in, *node;
	struct folder_entry *entry;
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (sim_process_self() == NULL)
		return __real_openat(dir, path, flags, mode);
	folder_takes_time();
	if (folder_unlucky(sim_nature.disk_read_ppm))
		return folder_fails(ENFILE);
	in = walk(dir, path, name);
	if (in == NULL)
		return -1;
	entry = folder_find(in, name);
	if (entry == NULL && (flags & O_CREAT) == 0)
		return folder_fails(ENOENT);
	if (entry == NULL && folder_unlucky(sim_nature.disk_full_ppm))
		return folder_fails(ENOSPC);
	node = entry != NULL ? entry->node : folder_make(false);
	if (entry == NULL)
		name_made(in, name, node, IN_CREATE);
	if ((flags & O_DIRECTORY) != 0 && !node->folder)
		return folder_fails(ENOTDIR);
	if ((flags & O_TRUNC) != 0)
		node->bytes = 0;
	return folder_open_new(node, in, (flags & O_ACCMODE) != O_RDONLY)->fd;
}

int64_t disk_read(int fd, void *bytes, size_t count)
{
	struct folder_open *open = folder_of(fd);
	size_t left, most = count;

	if (open->node == NULL)
		return folder_events_read(open, bytes, count);
	folder_takes_time();
	if (sim_ppm(sim_nature.disk_short_ppm))
		return folder_fails(EINTR);
	if (folder_unlucky(sim_nature.disk_read_ppm))
		return folder_fails(EIO);
	left = open->node->bytes > open->at ? open->node->bytes - open->at : 0;
	if (sim_ppm(sim_nature.disk_short_ppm) && left > 1)
		most = 1 + sim_below((uint32_t)left - 1);
	if (most > left || (folder_wrong == FOLDER_READ_ONCE && open->at > 0))
		most = folder_wrong == FOLDER_READ_ONCE && open->at > 0 ? 0 : left;
	if (most > count)
		most = count;
	memcpy(bytes, open->node->data + open->at, most);
	open->at += most;
	return (int64_t)most;
}

int64_t disk_write(int fd, const void *bytes, size_t count)
{
	struct folder_open *open = folder_of(fd);

	folder_takes_time();
	if (sim_ppm(sim_nature.disk_short_ppm))
		return folder_fails(EINTR);
	if (folder_unlucky(sim_nature.disk_full_ppm) || open->at + count > FOLDER_BYTES_MAX)
		return folder_fails(ENOSPC);
	if (sim_ppm(sim_nature.disk_short_ppm) && count > 1)
		count = 1 + sim_below((uint32_t)count - 1);
	memcpy(open->node->data + open->at, bytes, count);
	open->at += count;
	if (open->node->bytes < open->at)
		open->node->bytes = open->at;
	return (int64_t)count;
}

int __wrap_fsync(int fd)
{
	struct folder_node *node;

	if (!sim_fd_is(fd))
		return __real_fsync(fd);
	folder_takes_time();
	if (folder_unlucky(sim_nature.disk_sync_ppm))
		return folder_fails(EIO);
	node = folder_of(fd)->node;
	if (folder_wrong == FOLDER_NO_SYNC && !node->folder)
		return 0;
	memcpy(node->durable, node->data, node->bytes);
	node->durable_bytes = node->bytes;
	folder_journal_durable();
	return 0;
}

int __wrap_fstat(int fd, struct stat *ret_stat)
{
	if (!sim_fd_is(fd))
		return __real_fstat(fd, ret_stat);
	memset(ret_stat, 0, sizeof(*ret_stat));
	ret_stat->st_mode = (folder_of(fd)->node->folder ? S_IFDIR : S_IFREG) | 0700;
	ret_stat->st_uid = geteuid();
	ret_stat->st_ino = (ino_t)(uintptr_t)folder_of(fd)->node;
	return 0;
}

int __wrap_fstatfs(int fd, struct statfs *ret_fs)
{
	if (!sim_fd_is(fd))
		return __real_fstatfs(fd, ret_fs);
	memset(ret_fs, 0, sizeof(*ret_fs));
	ret_fs->f_type = EXT4;
	return 0;
}

/* ---- names ---- */

int __wrap_mkdirat(int dir, const char *path, mode_t mode)
{
	char name[FOLDER_NAME_MAX];
	struct folder_node *in;

	if (sim_process_self() == NULL)
		return __real_mkdirat(dir, path, mode);
	folder_takes_time();
	in = walk(dir, path, name);
	if (in == NULL)
		return -1;
	if (folder_find(in, name) != NULL)
		return folder_fails(EEXIST);
	name_made(in, name, folder_make(true), IN_CREATE);
	return 0;
}

int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	char from_name[FOLDER_NAME_MAX], name[FOLDER_NAME_MAX];
	const struct folder_node *from_in;
	const struct folder_entry *source, *there;
	struct folder_node *in;

	if (sim_process_self() == NULL)
		return __real_linkat(from_dir, from, to_dir, to, flags);
	folder_takes_time();
	from_in = walk(from_dir, from, from_name);
	in = walk(to_dir, to, name);
	if (from_in == NULL || in == NULL)
		return -1;
	source = folder_find(from_in, from_name);
	if (source == NULL)
		return folder_fails(ENOENT);
	there = folder_find(in, name);
	if (there != NULL && folder_wrong != FOLDER_LINK_REPLACES)
		return folder_fails(EEXIST);
	if (there != NULL)
		name_gone(in, there, IN_DELETE);
	if (folder_unlucky(sim_nature.disk_full_ppm))
		return folder_fails(ENOSPC);
	name_made(in, name, source->node, IN_CREATE);
	return 0;
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	char from_name[FOLDER_NAME_MAX], name[FOLDER_NAME_MAX];
	const struct folder_entry *source, *there;
	struct folder_node *from_in, *in, *node;

	if (sim_process_self() == NULL)
		return __real_renameat(from_dir, from, to_dir, to);
	folder_takes_time();
	from_in = walk(from_dir, from, from_name);
	in = walk(to_dir, to, name);
	if (from_in == NULL || in == NULL)
		return -1;
	source = folder_find(from_in, from_name);
	if (source == NULL)
		return folder_fails(ENOENT);
	node = source->node;
	there = folder_find(in, name);
	if (there != NULL)
		name_gone(in, there, IN_DELETE);
	name_gone(from_in, source, IN_MOVED_FROM);
	name_made(in, name, node, IN_MOVED_TO);
	return 0;
}

int __wrap_unlinkat(int dir, const char *path, int flags)
{
	char name[FOLDER_NAME_MAX];
	const struct folder_entry *entry;
	struct folder_node *in;

	if (sim_process_self() == NULL)
		return __real_unlinkat(dir, path, flags);
	folder_takes_time();
	in = walk(dir, path, name);
	if (in == NULL)
		return -1;
	entry = folder_find(in, name);
	if (entry == NULL)
		return folder_fails(ENOENT);
	name_gone(in, entry, IN_DELETE);
	return 0;
}

int __wrap_faccessat(int dir, const char *path, int mode, int flags)
{
	char name[FOLDER_NAME_MAX];
	const struct folder_node *in;

	if (sim_process_self() == NULL)
		return __real_faccessat(dir, path, mode, flags);
	folder_takes_time();
	if (folder_unlucky(sim_nature.disk_read_ppm))
		return folder_fails(ENOMEM);
	in = walk(dir, path, name);
	if (in == NULL)
		return -1;
	return folder_find(in, name) != NULL ? 0 : folder_fails(ENOENT);
}

DIR *__wrap_fdopendir(int fd)
{
	struct stream *stream;

	if (!sim_fd_is(fd))
		return __real_fdopendir(fd);
	stream = sim_block_get(sizeof(*stream));
	stream->fd = fd;
	return (DIR *)(void *)stream;
}

/* What is made or taken away meanwhile may be there or not */
struct dirent *__wrap_readdir(DIR *at)
{
	struct stream *stream = (struct stream *)(void *)at;
	const struct folder_entry *entry;

	if (sim_process_self() == NULL)
		return __real_readdir(at);
	if (sim_ppm(300000))
		folder_takes_time();
	if (folder_unlucky(sim_nature.disk_read_ppm)) {
		errno = EIO;
		return NULL;
	}
	entry = folder_of(stream->fd)->node->entries;
	while (entry != NULL && entry->order <= stream->order)
		entry = entry->next;
	if (entry == NULL)
		return NULL;
	stream->order = entry->order;
	snprintf(stream->entry.d_name, sizeof(stream->entry.d_name), "%s", entry->text);
	return &stream->entry;
}

int __wrap_closedir(DIR *at)
{
	struct stream *stream = (struct stream *)(void *)at;

	if (sim_process_self() == NULL)
		return __real_closedir(at);
	folder_close(folder_of(stream->fd));
	sim_fd_close(stream->fd);
	sim_block_put(stream);
	return 0;
}
