/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_fuzz.c -- whatever lies in a job's folder, files whole, torn or of another kind, locked or not, and
 * whatever is done to it meanwhile, the back end of folders tells of views only what their files hold and of
 * members only those that live, never goes back, waits for nothing, and leaves no file or descriptor
 *
 * Back end and script share one thread: where the back end waits, the script goes on. What a file's text
 * may be is local_fuzz.c's.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/coord_bare.h"
#include "replication/coord/local/local.h"
#include "support/wrap.h"

enum {
	IDS = 24, /* of members: more than a shard may have */
	VIEWS = 12,
	INPUT_MAX = 1024,
	PATH_BYTES = 128,
	TEXT_BYTES = 3 * OL_LOCAL_TEXT_MAX,
	TURN_NS = 1000,
};

static struct {
	const uint8_t *at; /* the input */
	size_t left;
	uint64_t now_ns;
	struct coord_bare bare;
	void *(*run)(void *arg);
	struct ol_local *local; /* NULL: between two inputs */
	char folder[PATH_BYTES / 2], addr[PATH_BYTES];
	uint64_t told[COORD_SHARDS]; /* version */
	struct ol_view views[COORD_SHARDS]; /* the same */
	int locks[COORD_SHARDS][IDS]; /* descriptors of files that have one; -1: none */
} fuzz;

static uint8_t byte(void)
{
	if (fuzz.left == 0)
		return 0;
	fuzz.left--;
	return *fuzz.at++;
}

/* ---- who writes in the folder ---- */

static const char *view_path(unsigned shard, unsigned version, char path[PATH_BYTES])
{
	snprintf(path, PATH_BYTES, "%s/job/shard%u/%u.view", fuzz.folder, shard, version);
	return path;
}

static const char *member_path(unsigned shard, unsigned id, char path[PATH_BYTES])
{
	snprintf(path, PATH_BYTES, "%s/job/shard%u/members/%016x.member", fuzz.folder, shard, id);
	return path;
}

/* The text as it is, spoilt, torn, or too long */
static size_t text_spoil(char text[TEXT_BYTES], size_t bytes)
{
	uint8_t how = byte();

	for (unsigned count = how & 3; count > 0; count--)
		text[(size_t)byte() * 2 % bytes] = (char)byte();
	if ((how & 12) == 4)
		return byte() % bytes;
	if ((how & 12) != 8)
		return bytes;
	memset(text + bytes, 'x', TEXT_BYTES - bytes);
	return TEXT_BYTES;
}

static void regular_make(const char *path, const char *text, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	must(write(fd, text, bytes) == (ssize_t)bytes || bytes == 0 || errno == EAGAIN ||
	     errno == EPIPE || errno == EINVAL);
	close(fd);
}

/* A file of some kind, in place of what is there, or over it */
static void file_make(const char *path, const char *text, size_t bytes)
{
	uint8_t how = byte();
	char other[PATH_BYTES];

	if ((how & 0x80) != 0 && unlink(path) != 0)
		(void)rmdir(path);
	switch (how & 7) {
	case 0:
		(void)mkfifo(path, 0600);
		return;
	case 1:
		(void)mkdir(path, 0700);
		return;
	case 2:
		snprintf(other, sizeof(other), "%s/other", fuzz.folder);
		regular_make(other, text, bytes);
		(void)symlink(other, path);
		return;
	default:
		regular_make(path, text, bytes);
		return;
	}
}

static void view_put(void)
{
	char text[TEXT_BYTES], path[PATH_BYTES];
	unsigned shard = byte() % COORD_SHARDS, version = 1u + byte() % VIEWS;
	uint8_t how = byte();
	struct ol_view view;
	size_t bytes;

	coord_view_make(byte(), &view);
	bytes = ol_local_view_encode(version + (how == 255), &view, text);
	bytes = text_spoil(text, bytes);
	file_make(view_path(shard, version, path), text, bytes);
}

static void lock_drop(unsigned shard, unsigned which)
{
	if (fuzz.locks[shard][which] >= 0)
		close(fuzz.locks[shard][which]);
	fuzz.locks[shard][which] = -1;
}

/* One of a live process is locked before it has its name. */
static void member_put(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	unsigned shard = byte() % COORD_SHARDS, which = byte() % IDS;
	char text[TEXT_BYTES], path[PATH_BYTES], tmp[PATH_BYTES];
	uint8_t how = byte();
	struct ol_member member;
	int fd;

	coord_member_make(which + 1 + (how == 255), &member);
	member_path(shard, which + 1, path);
	if ((how & 1) == 0) {
		file_make(path, text, text_spoil(text, ol_local_member_encode(&member, text)));
		return;
	}
	snprintf(tmp, sizeof(tmp), "%s/tmp", fuzz.folder);
	regular_make(tmp, text, text_spoil(text, ol_local_member_encode(&member, text)));
	fd = open(tmp, O_RDWR | O_CLOEXEC);
	must(fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0);
	lock_drop(shard, which);
	if (rename(tmp, path) == 0) {
		fuzz.locks[shard][which] = fd;
		return;
	}
	close(fd); /* the folder is gone, or a folder lies there */
	must(unlink(tmp) == 0);
}

static void member_ends(void)
{
	unsigned shard = byte() % COORD_SHARDS;

	lock_drop(shard, byte() % IDS);
}

static void name_drop(void)
{
	unsigned shard = byte() % COORD_SHARDS, number = byte();
	char path[PATH_BYTES];

	if ((number & 1) != 0)
		view_path(shard, 1 + number % VIEWS, path);
	else
		member_path(shard, 1 + number % IDS, path);
	if (unlink(path) != 0)
		(void)rmdir(path);
}

/* A name that looks like a member's, or like nothing */
static void stranger_put(void)
{
	char name[24] = "0000000000000001.member", path[PATH_BYTES];
	unsigned shard = byte() % COORD_SHARDS;

	name[byte() % (sizeof(name) - 1)] = (char)byte();
	if (strchr(name, '/') != NULL || name[0] == '\0')
		return;
	snprintf(path, sizeof(path), "%s/job/shard%u/members/%s", fuzz.folder, shard, name);
	regular_make(path, "x", 1);
}

static void folder_goes(void)
{
	char path[PATH_BYTES], away[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/job/shard0%s", fuzz.folder,
		 (byte() & 1) != 0 ? "/members" : "");
	snprintf(away, sizeof(away), "%s/away", fuzz.folder);
	(void)rename(path, away);
}

/* ---- the program ---- */

static void propose(void)
{
	unsigned shard = byte() % COORD_SHARDS;
	struct ol_coord_state state;
	struct ol_view next;

	ol_coord_look(&fuzz.bare.coord, shard, &state);
	coord_view_make(byte(), &next);
	ol_coord_propose(&fuzz.bare.coord, shard, state.version, &next);
	ol_coord_local.wake(fuzz.local);
}

static void time_passes(void)
{
	fuzz.now_ns += (uint64_t)byte() * 10000000;
}

static void notified(void *arg)
{
	for (uint32_t i = 0; i < COORD_SHARDS; i++)
		coord_state_check(arg, i);
}

/* A view of a later version is what its file holds; one of the same version is the same. */
WRAP(void, ol_coord_set_view, struct ol_coord *coord, uint32_t shard, uint64_t version,
     const struct ol_view *view)
{
	char path[PATH_BYTES], text[OL_LOCAL_TEXT_MAX];
	ssize_t bytes;
	int fd;

	must(shard < COORD_SHARDS && version >= fuzz.told[shard] && !fuzz.local->away);
	if (version > fuzz.told[shard]) {
		fd = open(view_path(shard, (unsigned)version, path),
			  O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		must(fd >= 0);
		bytes = ol_local_file_read(fd, text);
		close(fd);
		must(bytes > 0 &&
		     ol_local_view_decode(text, (size_t)bytes, version, &fuzz.views[shard]) == 0);
	}
	fuzz.told[shard] = version;
	must(version == 0 || memcmp(&fuzz.views[shard], view, sizeof(*view)) == 0);
	__real_ol_coord_set_view(coord, shard, version, view);
}

/* Where a link lies in place of its file, nobody can tell whether the owner of a member lives. */
static bool member_may_live(uint32_t shard, uint64_t id)
{
	char path[PATH_BYTES];
	struct stat st;

	return fuzz.locks[shard][id - 1] >= 0 ||
	       (lstat(member_path(shard, (unsigned)id, path), &st) == 0 && S_ISLNK(st.st_mode));
}

WRAP(void, ol_coord_set_members, struct ol_coord *coord, uint32_t shard,
     const struct ol_member *members, uint32_t count)
{
	must(shard < COORD_SHARDS && count <= OL_MEMBERS_MAX && !fuzz.local->away);
	for (uint32_t i = 0; i < count; i++)
		must(members[i].id >= 1 && members[i].id <= IDS &&
		     member_may_live(shard, members[i].id));
	__real_ol_coord_set_members(coord, shard, members, count);
}

/* ---- one thread ---- */

static void step(void)
{
	static void (*const steps[])(void) = { view_put, member_put,  member_ends,  name_drop,
					       propose,  time_passes, stranger_put, folder_goes };
	uint8_t which = byte();

	/* a folder goes seldom, as nothing more is told then */
	steps[which >= 250 ? 7 : which % 7]();
}

WRAP(int, ppoll, struct pollfd *fds, nfds_t count, const struct timespec *wait,
     const sigset_t *signals)
{
	if (fuzz.local == NULL)
		return __real_ppoll(fds, count, wait, signals);
	if (fuzz.left == 0)
		atomic_store(&fuzz.local->stopping, 1);
	else
		step();
	return 0;
}

WRAP(int, clock_gettime, clockid_t clock, struct timespec *ret_time)
{
	if (fuzz.local == NULL)
		return __real_clock_gettime(clock, ret_time);
	fuzz.now_ns += TURN_NS;
	ret_time->tv_sec = (time_t)(fuzz.now_ns / 1000000000);
	ret_time->tv_nsec = (long)(fuzz.now_ns % 1000000000);
	return 0;
}

WRAP(int, inotify_init1, int flags);

/* One for all inputs, as the kernel takes 20 ms to close one. */
static int inotify = -1;

static void inotify_drain(void)
{
	char events[4096];

	if (inotify < 0)
		inotify = __real_inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	must(inotify >= 0);
	while (read(inotify, events, sizeof(events)) > 0)
		;
}

int __wrap_inotify_init1(int flags)
{
	(void)flags;
	return fcntl(inotify, F_DUPFD_CLOEXEC, 0);
}

WRAP(int, ol_coord_thread_start, void *(*run)(void *), void *arg, pthread_t *ret_thread)
{
	(void)ret_thread;
	fuzz.run = run;
	fuzz.local = arg;
	return 0;
}

WRAP(int, pthread_join, pthread_t thread, void **ret_value)
{
	return fuzz.local == NULL ? __real_pthread_join(thread, ret_value) : 0;
}

static int removes(const char *path, const struct stat *st, int type, struct FTW *place)
{
	(void)st;
	(void)type;
	(void)place;
	return remove(path);
}

static void begin(void)
{
	struct ol_coord *coord = &fuzz.bare.coord;
	char err[OL_COORD_LINE_MAX];

	for (unsigned i = 0; i < COORD_SHARDS * IDS; i++)
		fuzz.locks[i / IDS][i % IDS] = -1;
	snprintf(fuzz.folder, sizeof(fuzz.folder), "/dev/shm/outlast-fuzz-XXXXXX");
	if (mkdtemp(fuzz.folder) == NULL) {
		snprintf(fuzz.folder, sizeof(fuzz.folder), "/tmp/outlast-fuzz-XXXXXX");
		must(mkdtemp(fuzz.folder) != NULL);
	}
	snprintf(fuzz.addr, sizeof(fuzz.addr), "dir:%s", fuzz.folder);
	coord_bare_init(&fuzz.bare, fuzz.addr, notified);
	coord->backend = &ol_coord_local;
	fuzz.now_ns = 1000000000;
	must(coord->backend->start(coord, &coord->back, err, sizeof(err)) == 0);
}

/* Nothing but the two shards is left in the job's folder. */
static void end(void)
{
	char path[PATH_BYTES];
	const struct dirent *entry;
	DIR *dir;

	ol_coord_local.stop(fuzz.bare.coord.back);
	fuzz.local = NULL;
	for (unsigned i = 0; i < COORD_SHARDS * IDS; i++)
		lock_drop(i / IDS, i % IDS);
	snprintf(path, sizeof(path), "%s/job", fuzz.folder);
	dir = opendir(path);
	must(dir != NULL);
	while ((entry = readdir(dir)) != NULL)
		must(entry->d_name[0] == '.' || strncmp(entry->d_name, "shard", 5) == 0);
	closedir(dir);
	must(nftw(fuzz.folder, removes, 8, FTW_DEPTH | FTW_PHYS) == 0);
	coord_bare_fini(&fuzz.bare);
}

/* The lowest descriptor that is free: as before, if none was kept */
static int lowest_fd(void)
{
	int fd = dup(STDERR_FILENO);

	must(fd >= 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	int lowest;

	if (bytes > INPUT_MAX)
		return 0;
	inotify_drain();
	lowest = lowest_fd();
	memset(&fuzz, 0, sizeof(fuzz));
	fuzz.at = data;
	fuzz.left = bytes;
	begin();
	(void)fuzz.run(fuzz.local);
	end();
	must(lowest_fd() == lowest);
	return 0;
}
