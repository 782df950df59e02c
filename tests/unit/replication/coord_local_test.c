/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_local_test.c -- clients of a directory see each other come and go, a member lasts as long
 * as its process, and one of several proposals wins
 *
 * Processes that the test stops or kills are forked before there is any thread.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder.h"
#include "replication/coord/coord_internal.h"
#include "replication/coord/local/local.h"
#include "unit/replication/coord_guest.h"

enum {
	RACERS = 5,
	RACES = 40,
	JOINERS = 12,
	CHILDREN = 6,
	CHILD_ID = 900,
	MANY_VIEWS = 300,
	REPLICAS = 3,
};

enum child_kind {
	CHILD_PLAIN,
	CHILD_PARENT, /* has a child of its own, which outlives it */
};

struct child {
	pid_t pid;
	int order; /* write: struct order; closed: go away */
	int report; /* read: one byte when it has joined */
};

struct order {
	enum child_kind kind;
	uint32_t shard, shard_count;
	uint64_t id;
	char addr[128];
};

struct place {
	struct ol_folder own;
	char folder[OL_FOLDER_MAX];
	char addr[OL_FOLDER_MAX + 8];
};

static struct child children[CHILDREN];
static unsigned children_used;

_Noreturn static void child_main(int order_fd, int report_fd)
{
	struct ol_member me;
	struct order order;
	struct guest guest;
	struct ol_coord_opts opts;
	struct ol_coord_state state;
	char byte = 1;

	if (read(order_fd, &order, sizeof(order)) != sizeof(order))
		_exit(0);
	me = server_make(order.id);
	opts = guest_opts(&guest, order.addr);
	opts.shard_count = order.shard_count;
	opts.watched = UINT64_C(1) << order.shard;
	guest_enter(&guest, &opts);
	check_ok(ol_coord_join(guest.coord, order.shard, &me));
	guest_wait(&guest, order.shard, has_member, order.id, "the child's own member", &state);
	if (order.kind == CHILD_PARENT && fork() == 0) {
		check(read(order_fd, &byte, 1) == 0); /* the test is over */
		_exit(0);
	}
	check(write(report_fd, &byte, 1) == 1);
	check(read(order_fd, &byte, 1) == 0);
	_exit(0);
}

static void children_start(void)
{
	for (unsigned i = 0; i < CHILDREN; i++) {
		int order[2], report[2];

		check_ok(pipe2(order, O_CLOEXEC));
		check_ok(pipe2(report, O_CLOEXEC));
		children[i].pid = fork();
		check(children[i].pid >= 0);
		if (children[i].pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (unsigned k = 0; k < i; k++)
				close(children[k].order);
			close(order[1]);
			close(report[0]);
			child_main(order[0], report[1]);
		}
		close(order[0]);
		close(report[1]);
		children[i].order = order[1];
		children[i].report = report[0];
	}
}

static struct child *child_order(struct order order, const char *addr)
{
	struct child *child = &children[children_used++];
	char byte;

	assert_true(children_used <= CHILDREN);
	snprintf(order.addr, sizeof(order.addr), "%s", addr);
	assert_int_equal(write(child->order, &order, sizeof(order)), sizeof(order));
	assert_int_equal(read(child->report, &byte, 1), 1);
	return child;
}

static struct child *child_use(const char *addr, enum child_kind kind)
{
	return child_order((struct order){ .kind = kind, .shard_count = 2, .id = CHILD_ID }, addr);
}

static void child_kill(const struct child *child)
{
	assert_int_equal(kill(child->pid, SIGKILL), 0);
	assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
}

static void place_make(struct place *place)
{
	assert_int_equal(ol_folder_make(&place->own, "ol-coord-local-"), 0);
	snprintf(place->folder, sizeof(place->folder), "%s", place->own.path);
	snprintf(place->addr, sizeof(place->addr), "dir:%s", place->folder);
}

static void place_remove(struct place *place)
{
	ol_folder_drop(&place->own);
}

static void members_come_and_go(void **unused)
{
	struct place place;
	struct guest a, b;
	struct ol_coord_state seen;
	struct ol_member one = server_make(1), two = server_make(2), bad = server_make(3);
	uint64_t generation;

	(void)unused;
	place_make(&place);
	guest_open(&a, place.addr);
	guest_open(&b, place.addr);
	ol_coord_look(b.coord, 0, &seen);
	assert_true(seen.connected);
	assert_int_equal(seen.version, 0);
	assert_int_equal(seen.member_count, 0);
	assert_int_equal(seen.lease_ns, UINT64_MAX); /* for as long as the process lives */
	generation = ol_coord_generation(b.coord);

	bad.addr[0] = ' ';
	assert_int_equal(ol_coord_join(a.coord, 0, &bad), -EINVAL);
	assert_int_equal(ol_coord_join(a.coord, 2, &one), -EINVAL);
	assert_int_equal(ol_coord_join(a.coord, 1, &one), 0);
	assert_int_equal(ol_coord_join(a.coord, 1, &two), -EBUSY);
	guest_wait(&b, 1, has_member, 1, "a member", &seen);
	assert_memory_equal(&seen.members[0], &one, sizeof(one));
	assert_true(ol_coord_generation(b.coord) > generation);
	ol_coord_look(b.coord, 0, &seen);
	assert_int_equal(seen.member_count, 0);
	ol_coord_look(b.coord, 2, &seen);
	assert_false(seen.connected);

	assert_int_equal(ol_coord_join(b.coord, 1, &two), 0);
	guest_wait(&a, 1, has_member, 2, "the other member", &seen);
	guest_close(&a);
	guest_wait(&b, 1, lacks_member, 1, "a member leaves", &seen);
	assert_true(has_member(&seen, 2));
	guest_close(&b);
	place_remove(&place);
}

static void jobs_are_apart(void **unused)
{
	struct place place;
	struct guest a, b;
	struct ol_coord_opts opts;
	struct ol_coord_state seen;
	struct ol_member one = server_make(1), two = server_make(2);

	(void)unused;
	place_make(&place);
	guest_open(&a, place.addr);
	opts = guest_opts(&b, place.addr);
	opts.job = "another-job";
	guest_enter(&b, &opts);
	assert_int_equal(ol_coord_join(a.coord, 0, &one), 0);
	guest_wait(&a, 0, has_member, 1, "a member", &seen);
	assert_int_equal(ol_coord_join(b.coord, 0, &two), 0);
	guest_wait(&b, 0, has_member, 2, "a member", &seen);
	assert_int_equal(seen.member_count, 1);
	guest_close(&b);
	guest_close(&a);
	place_remove(&place);
}

static void exactly_one_proposal_wins(void **unused)
{
	struct place place;
	struct guest guests[RACERS];
	struct ol_coord_state seen[RACERS];

	(void)unused;
	place_make(&place);
	for (unsigned i = 0; i < RACERS; i++)
		guest_open(&guests[i], place.addr);
	memset(seen, 0, sizeof(seen));
	for (uint32_t race = 1; race <= RACES; race++) {
		for (unsigned i = 0; i < RACERS; i++) {
			struct ol_view view = view_make(race, i + 1, 0);

			ol_coord_propose(guests[i].coord, 1, seen[i].version, &view);
		}
		for (unsigned i = 0; i < RACERS; i++) {
			guest_wait(&guests[i], 1, has_epoch, race, "a view", &seen[i]);
			assert_int_equal(seen[i].version, race);
			assert_memory_equal(&seen[i].view, &seen[0].view, sizeof(seen[0].view));
		}
	}
	for (unsigned i = 0; i < RACERS; i++)
		guest_close(&guests[i]);
	place_remove(&place);
}

/* A client that looks at each piece of news, as a server's loop may */
struct watcher {
	struct guest guest;
	atomic_bool open;
	atomic_uint early; /* views that named a replica before its registration was known */
};

static void watcher_notify(void *arg)
{
	struct watcher *watcher = arg;
	struct ol_coord_state state;

	if (atomic_load(&watcher->open)) {
		ol_coord_look(watcher->guest.coord, 0, &state);
		for (uint32_t i = 0; i < state.view.count; i++) {
			if (!has_member(&state, state.view.replicas[i].id))
				atomic_fetch_add(&watcher->early, 1);
		}
	}
	guest_notify(&watcher->guest);
}

static void watcher_open(struct watcher *watcher, const char *addr)
{
	struct ol_coord_opts opts = guest_opts(&watcher->guest, addr);

	atomic_init(&watcher->open, false);
	atomic_init(&watcher->early, 0);
	opts.notify = watcher_notify;
	opts.notify_arg = watcher;
	guest_enter(&watcher->guest, &opts);
	atomic_store(&watcher->open, true);
}

/* A server that is in a view and not registered has died. So whoever hears of a new replica in a
 * view has heard of its registration before. */
static void a_view_names_nobody_who_is_not_known_yet(void **unused)
{
	struct watcher watchers[RACERS];
	struct guest head, joiners[JOINERS];
	struct ol_member me = server_make(1);
	struct ol_coord_state seen;
	struct place place;

	(void)unused;
	place_make(&place);
	guest_open(&head, place.addr);
	check_ok(ol_coord_join(head.coord, 0, &me));
	guest_wait(&head, 0, has_member, 1, "a member", &seen);
	for (unsigned i = 0; i < RACERS; i++)
		watcher_open(&watchers[i], place.addr);
	for (uint32_t epoch = 1; epoch <= JOINERS; epoch++) {
		struct ol_member joiner = server_make(1 + epoch);
		struct ol_view view = view_make(epoch, 1, joiner.id);

		guest_open(&joiners[epoch - 1], place.addr);
		check_ok(ol_coord_join(joiners[epoch - 1].coord, 0, &joiner));
		guest_wait(&head, 0, has_member, joiner.id, "who joins", &seen);
		ol_coord_propose(head.coord, 0, seen.version, &view);
		guest_wait(&head, 0, has_epoch, epoch, "its own view", &seen);
		for (unsigned i = 0; i < RACERS; i++)
			guest_wait(&watchers[i].guest, 0, has_epoch, epoch, "a view", &seen);
	}
	for (unsigned i = 0; i < RACERS; i++) {
		assert_int_equal(atomic_load(&watchers[i].early), 0);
		guest_close(&watchers[i].guest);
	}
	for (unsigned i = 0; i < JOINERS; i++)
		guest_close(&joiners[i]);
	guest_close(&head);
	place_remove(&place);
}

struct counted {
	struct ol_coord *coord;
	uint64_t generation;
};

static bool later_than(const struct ol_coord_state *state, uint64_t arg)
{
	const struct counted *counted = (const struct counted *)(uintptr_t)arg;

	(void)state;
	return ol_coord_generation(counted->coord) > counted->generation;
}

static void a_proposal_that_loses_is_answered(void **unused)
{
	struct place place;
	struct guest a;
	struct ol_coord_state seen;
	struct ol_view one = view_make(1, 1, 0), two = view_make(2, 2, 0);
	struct counted counted;

	(void)unused;
	place_make(&place);
	guest_open(&a, place.addr);
	ol_coord_propose(a.coord, 0, 0, &one);
	guest_wait(&a, 0, has_epoch, 1, "a view", &seen);
	counted = (struct counted){ a.coord, ol_coord_generation(a.coord) };
	ol_coord_propose(a.coord, 0, seen.version + 1, &two);
	guest_wait(&a, 0, later_than, (uint64_t)(uintptr_t)&counted, "an answer", &seen);
	assert_memory_equal(&seen.view, &one, sizeof(one));
	counted.generation = ol_coord_generation(a.coord);
	ol_coord_propose(a.coord, 0, seen.version, &one); /* an epoch that was already */
	guest_wait(&a, 0, later_than, (uint64_t)(uintptr_t)&counted, "an answer", &seen);
	assert_int_equal(seen.version, 1);
	guest_close(&a);
	place_remove(&place);
}

/* A view is there when all who made it are gone; who comes late finds the last of many. */
static void views_outlast_their_makers(void **unused)
{
	struct place place;
	struct guest a;
	struct ol_coord_state seen = { .version = 0 };

	(void)unused;
	place_make(&place);
	for (uint32_t epoch = 1; epoch <= MANY_VIEWS; epoch++) {
		struct ol_view view = view_make(epoch, epoch, 0);

		if (epoch % 60 == 1) {
			if (epoch > 1)
				guest_close(&a);
			guest_open(&a, place.addr);
			ol_coord_look(a.coord, 0, &seen);
			assert_int_equal(seen.version, epoch - 1);
			assert_int_equal(seen.view.epoch, epoch - 1);
		}
		ol_coord_propose(a.coord, 0, seen.version, &view);
		guest_wait(&a, 0, has_epoch, epoch, "a view", &seen);
	}
	guest_close(&a);
	place_remove(&place);
}

static void member_path(const struct place *place, uint64_t id, char path[256])
{
	char name[OL_LOCAL_NAME_MAX];

	ol_local_member_name(0, id, ".member", name);
	snprintf(path, 256, "%s/test-job/%s", place->folder, name);
}

/* A process of that kind is killed: what is left of it keeps no place */
static void killed_leaves(enum child_kind kind)
{
	char path[256];
	struct place place;
	struct guest a;
	struct ol_coord_state seen;
	struct child *child;

	place_make(&place);
	guest_open(&a, place.addr);
	child = child_use(place.addr, kind);
	guest_wait(&a, 0, has_member, CHILD_ID, "the child", &seen);
	child_kill(child);
	guest_wait(&a, 0, lacks_member, CHILD_ID, "the child leaves", &seen);
	member_path(&place, CHILD_ID, path);
	assert_int_equal(access(path, F_OK), -1); /* who finds it out sweeps up */
	close(child->order);
	child->order = -1;
	guest_close(&a);
	place_remove(&place);
}

static void a_killed_process_leaves_at_once(void **unused)
{
	(void)unused;
	killed_leaves(CHILD_PLAIN);
}

/* Its own child lives on, and has a copy of every descriptor that it had */
static void a_child_does_not_keep_its_dead_parent_registered(void **unused)
{
	(void)unused;
	killed_leaves(CHILD_PARENT);
}

/* Its neighbours find it out by its heartbeat; nobody founds a chain over it. A look at everything
 * comes in between, at the second member. */
static void a_stopped_process_keeps_its_place(void **unused)
{
	struct place place;
	struct guest a, late;
	struct ol_coord_state seen;
	struct child *child;

	(void)unused;
	place_make(&place);
	guest_open(&a, place.addr);
	child = child_use(place.addr, CHILD_PLAIN);
	guest_wait(&a, 0, has_member, CHILD_ID, "the child", &seen);
	assert_int_equal(kill(child->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(child->pid, NULL, WUNTRACED), child->pid);
	guest_open(&late, place.addr);
	guest_wait(&late, 0, has_member, CHILD_ID, "the child, stopped", &seen);
	child_kill(child);
	guest_wait(&a, 0, lacks_member, CHILD_ID, "the child leaves", &seen);
	guest_wait(&late, 0, lacks_member, CHILD_ID, "the child leaves", &seen);
	guest_close(&late);
	guest_close(&a);
	place_remove(&place);
}

static void a_member_whose_file_was_taken_away_registers_again(void **unused)
{
	struct place place;
	struct guest a, b;
	struct ol_coord_state seen;
	struct ol_member one = server_make(1);
	char path[256];
	struct stat before, after;

	(void)unused;
	place_make(&place);
	guest_open(&a, place.addr);
	guest_open(&b, place.addr);
	assert_int_equal(ol_coord_join(a.coord, 0, &one), 0);
	guest_wait(&b, 0, has_member, 1, "a member", &seen);
	member_path(&place, 1, path);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(unlink(path), 0);
	while (stat(path, &after) != 0)
		poll(NULL, 0, 1);
	guest_wait(&b, 0, has_member, 1, "a member", &seen);
	guest_close(&b);
	guest_close(&a);
	place_remove(&place);
}

/* What is left of a process that was killed while nobody looked: no lock, so no member */
static void a_file_without_a_lock_is_no_member(void **unused)
{
	struct ol_member one = server_make(1);
	struct ol_coord_state seen;
	struct place place;
	struct guest a;
	char path[256], text[OL_LOCAL_TEXT_MAX];
	size_t bytes = ol_local_member_encode(&one, text);
	int fd;

	(void)unused;
	place_make(&place);
	guest_open(&a, place.addr);
	guest_close(&a);
	member_path(&place, 1, path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, text, bytes), bytes);
	close(fd);
	guest_open(&a, place.addr);
	ol_coord_look(a.coord, 0, &seen);
	assert_int_equal(seen.member_count, 0);
	assert_int_equal(access(path, F_OK), -1);
	guest_close(&a);
	place_remove(&place);
}

static void a_folder_that_is_taken_away_ends_nothing(void **unused)
{
	struct place place;
	struct guest a, b, stranger;
	struct ol_coord_state seen;
	struct ol_member one = server_make(1);
	struct ol_view five = view_make(5, 1, 0), other = view_make(1, 9, 0);

	(void)unused;
	place_make(&place);
	guest_open(&a, place.addr);
	guest_open(&b, place.addr);
	assert_int_equal(ol_coord_join(a.coord, 0, &one), 0);
	ol_coord_propose(a.coord, 0, 0, &five);
	guest_wait(&a, 0, has_epoch, 5, "a view", &seen);
	guest_wait(&b, 0, has_epoch, 5, "a view", &seen);
	place_remove(&place);
	guest_wait(&a, 0, is_connected, 0, "the end", &seen);
	assert_int_equal(seen.lease_ns, UINT64_MAX);
	guest_wait(&b, 0, is_connected, 0, "the end", &seen);
	assert_non_null(strstr(a.line, "taken away"));

	/* another of the same name is not ours */
	assert_int_equal(mkdir(place.folder, 0700), 0);
	snprintf(place.own.path, sizeof(place.own.path), "%s", place.folder);
	guest_open(&stranger, place.addr);
	ol_coord_look(stranger.coord, 0, &seen);
	assert_int_equal(seen.version, 0);
	ol_coord_propose(stranger.coord, 0, 0, &other);
	guest_wait(&stranger, 0, has_epoch, 1, "a view", &seen);
	ol_coord_propose(a.coord, 0, 1, &other);
	ol_coord_look(a.coord, 0, &seen);
	assert_memory_equal(&seen.view, &five, sizeof(five));
	guest_close(&stranger);
	guest_close(&b);
	guest_close(&a);
	place_remove(&place);
}

static void refused(const char *addr, int want, const char *line)
{
	struct guest guest;
	struct ol_coord_opts opts = guest_opts(&guest, addr);
	struct ol_coord *coord = NULL;
	char err[256] = "";

	assert_int_equal(ol_coord_open(&opts, &coord, err, sizeof(err)), want);
	assert_null(coord);
	if (strstr(err, line) == NULL || strstr(err, addr) == NULL)
		fail_msg("unclear: %s", err);
	pthread_cond_destroy(&guest.news);
	pthread_mutex_destroy(&guest.lock);
}

static void a_damaged_view_is_refused(void **unused)
{
	struct place place;
	struct guest a;
	struct ol_coord_state seen;
	struct ol_view one = view_make(1, 1, 0);
	char path[256];
	int fd;

	(void)unused;
	place_make(&place);
	guest_open(&a, place.addr);
	ol_coord_propose(a.coord, 0, 0, &one);
	guest_wait(&a, 0, has_epoch, 1, "a view", &seen);
	guest_close(&a);
	snprintf(path, sizeof(path), "%s/test-job/shard0/1.view", place.folder);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "7", 1, 30), 1);
	close(fd);
	refused(place.addr, -EIO, "damaged");
	place_remove(&place);
}

/* To open a pipe that nobody writes would wait for ever, and closing the handle with it. */
static void a_view_that_is_a_pipe_is_refused(void **unused)
{
	struct place place;
	struct guest a;
	char path[256];

	(void)unused;
	place_make(&place);
	guest_open(&a, place.addr);
	guest_close(&a);
	snprintf(path, sizeof(path), "%s/test-job/shard0/1.view", place.folder);
	check_ok(mkfifo(path, 0600));
	refused(place.addr, -EIO, "damaged");
	place_remove(&place);
}

static void folders_that_cannot_be_used_are_refused(void **unused)
{
	struct place place;
	char addr[128];

	(void)unused;
	place_make(&place);
	snprintf(addr, sizeof(addr), "%s/nobody-made-it", place.addr);
	refused(addr, -ENOENT, "no such folder");
	assert_int_equal(chmod(place.folder, 0770), 0);
	refused(place.addr, -EPERM, "chmod go-w");
	assert_int_equal(chmod(place.folder, 0500), 0);
	if (geteuid() != 0)
		refused(place.addr, -EPERM, "cannot be made");
	assert_int_equal(chmod(place.folder, 0755), 0);
	place_remove(&place);
	refused("dir:/dev/null", -ENOTDIR, "ot a directory");
	refused("dir:", -EINVAL, "a path is missing");
	if (geteuid() == 0) {
		place_make(&place);
		assert_int_equal(chown(place.folder, 1, 1), 0);
		refused(place.addr, -EPERM,
			"belongs to user 1, not to this one (0): all processes of a job run as one user");
		place_remove(&place);
	}
	assert_string_equal(ol_local_folder_refused(0x6969), "NFS");
	assert_string_equal(ol_local_folder_refused(0x65735546), "FUSE");
	assert_null(ol_local_folder_refused(0x01021994)); /* tmpfs */
	assert_null(ol_local_folder_refused(0xef53)); /* ext4 */
}

/*
 * All that a large job can have: 64 shards of three servers, views as long as they get (more than
 * 64 kilobytes in all). A worker and a server of each shard see every view and every member,
 * whoever dies.
 */
static void sixty_four_shards_of_three_servers_are_seen_by_all(void **unused)
{
	static struct guest servers[OL_COORD_SHARDS_MAX][REPLICAS];
	struct ol_coord_state seen;
	struct place place;
	struct guest worker, late;
	struct ol_coord_opts opts;

	(void)unused;
	place_make(&place);
	opts = guest_opts(&worker, place.addr);
	opts.shard_count = OL_COORD_SHARDS_MAX;
	guest_enter(&worker, &opts);
	for (uint32_t s = 0; s < OL_COORD_SHARDS_MAX; s++) {
		for (uint32_t r = 0; r < REPLICAS; r++) {
			struct ol_member member = long_member(1 + s * 100 + r);

			opts = guest_opts(&servers[s][r], place.addr);
			opts.shard_count = OL_COORD_SHARDS_MAX;
			opts.watched = UINT64_C(1) << s;
			guest_enter(&servers[s][r], &opts);
			assert_int_equal(ol_coord_join(servers[s][r].coord, s, &member), 0);
		}
	}
	for (uint32_t s = 0; s < OL_COORD_SHARDS_MAX; s++) {
		struct ol_view view;

		guest_wait(&servers[s][0], s, has_count, REPLICAS, "all of a shard", &seen);
		long_view(&view, 1, s);
		ol_coord_propose(servers[s][0].coord, s, 0, &view);
	}
	for (uint32_t s = 0; s < OL_COORD_SHARDS_MAX; s++) {
		struct ol_view view;

		long_view(&view, 1, s);
		guest_wait(&worker, s, has_epoch, 1, "a view", &seen);
		assert_memory_equal(&seen.view, &view, sizeof(view));
		guest_wait(&worker, s, has_count, REPLICAS, "all members", &seen);
		guest_wait(&servers[s][2], s, has_epoch, 1, "a view", &seen);
	}
	for (uint32_t s = 0; s < OL_COORD_SHARDS_MAX; s++)
		guest_close(&servers[s][0]);
	opts = guest_opts(&late, place.addr);
	opts.shard_count = OL_COORD_SHARDS_MAX;
	guest_enter(&late, &opts);
	for (uint32_t s = 0; s < OL_COORD_SHARDS_MAX; s++) {
		struct ol_view view;

		long_view(&view, 2, s);
		guest_wait(&servers[s][1], s, has_epoch, 1, "a view", &seen);
		guest_wait(&servers[s][1], s, has_count, REPLICAS - 1, "one dies", &seen);
		ol_coord_propose(servers[s][1].coord, s, seen.version, &view);
		guest_wait(&worker, s, has_epoch, 2, "the next view", &seen);
		guest_wait(&worker, s, has_count, REPLICAS - 1, "one dies", &seen);
		guest_wait(&late, s, has_epoch, 2, "the next view", &seen);
	}
	for (uint32_t s = 0; s < OL_COORD_SHARDS_MAX; s++)
		for (uint32_t r = 1; r < REPLICAS; r++)
			guest_close(&servers[s][r]);
	guest_close(&late);
	guest_close(&worker);
	place_remove(&place);
}

static void more_servers_than_a_shard_may_have_wait(void **unused)
{
	struct guest servers[OL_MEMBERS_MAX + 2], watcher;
	struct ol_coord_state seen;
	struct place place;

	(void)unused;
	place_make(&place);
	guest_open(&watcher, place.addr);
	for (uint32_t i = 0; i < OL_MEMBERS_MAX + 2; i++) {
		uint64_t id =
			100 - i; /* files are read in the order of ids: who came first is last */
		struct ol_member member = server_make(id);

		guest_open(&servers[i], place.addr);
		assert_int_equal(ol_coord_join(servers[i].coord, 0, &member), 0);
		if (i < OL_MEMBERS_MAX)
			guest_wait(&watcher, 0, has_member, id, "a member", &seen);
	}
	guest_wait_line(&watcher, "more than 16 servers");
	ol_coord_look(watcher.coord, 0, &seen);
	assert_int_equal(seen.member_count, OL_MEMBERS_MAX);
	for (uint32_t i = 0; i < OL_MEMBERS_MAX; i++)
		assert_true(has_member(&seen, 100 - i));
	guest_close(&servers[3]);
	guest_wait(&watcher, 0, lacks_member, 97, "one is gone", &seen);
	guest_wait(&watcher, 0, has_count, OL_MEMBERS_MAX, "another takes its place", &seen);
	for (uint32_t i = 0; i < OL_MEMBERS_MAX + 2; i++)
		if (i != 3)
			guest_close(&servers[i]);
	guest_close(&watcher);
	place_remove(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_come_and_go),
		cmocka_unit_test(jobs_are_apart),
		cmocka_unit_test(exactly_one_proposal_wins),
		cmocka_unit_test(a_view_names_nobody_who_is_not_known_yet),
		cmocka_unit_test(a_proposal_that_loses_is_answered),
		cmocka_unit_test(views_outlast_their_makers),
		cmocka_unit_test(a_killed_process_leaves_at_once),
		cmocka_unit_test(a_child_does_not_keep_its_dead_parent_registered),
		cmocka_unit_test(a_stopped_process_keeps_its_place),
		cmocka_unit_test(a_member_whose_file_was_taken_away_registers_again),
		cmocka_unit_test(a_file_without_a_lock_is_no_member),
		cmocka_unit_test(a_folder_that_is_taken_away_ends_nothing),
		cmocka_unit_test(a_damaged_view_is_refused),
		cmocka_unit_test(a_view_that_is_a_pipe_is_refused),
		cmocka_unit_test(folders_that_cannot_be_used_are_refused),
		cmocka_unit_test(sixty_four_shards_of_three_servers_are_seen_by_all),
		cmocka_unit_test(more_servers_than_a_shard_may_have_wait),
	};

	children_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
