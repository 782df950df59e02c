/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * open_test.c -- a server asks its transport for the right limits, and begins with the right weights
 * if its folder has a checkpoint that it cannot use
 *
 * The test stands between the server and its transport: the linker sends ol_xport_find() here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder.h"
#include "server/server.h"
#include "support/wrap.h"
#include "wire/seq.h"

enum {
	PARAMS = 16
};

static struct {
	bool on;
	const struct ol_xport_ops *real;
	struct ol_xport_ops ops;
	struct ol_xport_opts asked; /* for, when it was opened */
} seam;

static struct ol_folder folder; /* for checkpoints */
static struct ol_server_opts opts;
static struct ol_server *server; /* NULL: not open */
static char listen_at[64], err[512];

WRAP(const struct ol_xport_ops *, ol_xport_find, const char *name)
{
	return seam.on ? &seam.ops : __real_ol_xport_find(name);
}

/* What was asked for is all that counts */
static int seam_open(const struct ol_xport_opts *of, struct ol_xport **ret_xport)
{
	(void)ret_xport;
	seam.asked = *of;
	return -EIO;
}

static int setup(void **unused)
{
	(void)unused;
	memset(&seam, 0, sizeof(seam));
	seam.real = __real_ol_xport_find("shm");
	seam.ops = *seam.real;
	seam.ops.open = seam_open;
	snprintf(listen_at, sizeof(listen_at), "@ol-open-%d", (int)getpid());
	ol_server_opts_init(&opts);
	opts.listen = listen_at;
	opts.transport = "shm";
	opts.param_count = PARAMS;
	opts.workers_max = 1;
	return ol_folder_make(&folder, "ol-open-test-");
}

static int teardown(void **unused)
{
	(void)unused;
	ol_server_close(server);
	server = NULL;
	ol_folder_drop(&folder);
	return 0;
}

static int server_open(void)
{
	static const float zero[PARAMS];

	err[0] = '\0';
	return ol_server_open(&opts, zero, &server, err, sizeof(err));
}

static uint32_t doorbells_of(uint32_t window, const char *coordinator)
{
	opts.window = window;
	opts.coordinator = coordinator;
	opts.replicas = coordinator != NULL ? 2 : 0;
	assert_int_equal(server_open(), -EIO);
	assert_non_null(strstr(err, "cannot open transport"));
	return seam.asked.doorbells_max;
}

/* A worker's gradients and what announces them; in a chain also a ring of entries and their acks */
static void there_is_room_for_all_doorbells(void **unused)
{
	const uint32_t chain = OL_RING_SLOTS_MAX + (OL_PARTED_ENTRIES + 1) * OL_PARTS_MAX + 4;

	(void)unused;
	seam.on = true;
	assert_int_equal(doorbells_of(1, NULL), 2 * 2 + 4);
	assert_non_null(seam.asked.log);
	assert_int_equal(doorbells_of(1, "dir:/proc/nothing"), chain);
	assert_int_equal(doorbells_of(OL_WINDOW_MAX, NULL), (OL_WINDOW_MAX + 1) * 2 + 4);
	opts.param_count = OL_PART_FLOATS; /* one part, which is never announced */
	assert_int_equal(doorbells_of(1, NULL), 2 * 2 + 4);
	opts.param_count++;
	assert_int_equal(doorbells_of(1, NULL), 2 * (2 + OL_PARTS_MAX) + 4);
	assert_int_equal(doorbells_of(OL_WINDOW_MAX, "dir:/proc/nothing"),
			 (OL_WINDOW_MAX + 1) * (2 + OL_PARTS_MAX) + 4);
}

/*
 * A server that was ended in order has left a checkpoint, a running one where it chooses blocks,
 * with a push of the last of so many workers in it
 */
static void leave_checkpoint(enum ol_selection selection, uint32_t workers)
{
	struct ol_applied applied = { .seq = ol_seq_make(1, 1), .grads = 1 };
	uint8_t *content;

	opts.checkpoint_dir = folder.path;
	opts.checkpoint_ms = 100000;
	opts.restore = OL_RESTORE_NONE;
	opts.selection = selection;
	opts.fraction = selection == OL_SELECT_FULL ? 1.0 : 0.5;
	opts.workers_max = workers;
	assert_int_equal(server_open(), 0);
	assert_non_null(server->saving.writer);
	content = ol_store_content(&server->store, server->store.snapshot);
	memcpy(content + sizeof(struct ol_snapshot_head) + (workers - 1) * sizeof(applied),
	       &applied, sizeof(applied));
	ol_server_stop(server);
	assert_int_equal(ol_server_run(server), 0);
	ol_server_close(server);
	server = NULL;
	opts.workers_max = 1;
}

/* All files of the folder that are no locks are cut off; their number */
static unsigned damage(void)
{
	unsigned count = 0;
	DIR *dir = opendir(folder.path);
	const struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		if (strstr(entry->d_name, ".olc") == NULL)
			continue;
		assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
		close(openat(dirfd(dir), entry->d_name, O_CREAT | O_WRONLY, 0600));
		count++;
	}
	closedir(dir);
	return count;
}

/* What a worker has pushed must not be forgotten, and here is no room for it */
static void a_checkpoint_of_more_workers_is_left_to_the_workers(void **unused)
{
	(void)unused;
	leave_checkpoint(OL_SELECT_FULL, 2);
	opts.restore = OL_RESTORE_CHECKPOINT;
	assert_int_equal(server_open(), OL_E_GEOMETRY);
	assert_non_null(strstr(err, "cannot restore shard 0"));
	opts.restore = OL_RESTORE_FRESHEST;
	assert_int_equal(server_open(), 0);
	assert_true(server->restoring.active); /* workers may have newer weights */
}

static void a_running_checkpoint_does_where_the_full_one_is_damaged(void **unused)
{
	(void)unused;
	leave_checkpoint(OL_SELECT_FULL, 1);
	assert_int_equal(damage(), 1);
	opts.restore = OL_RESTORE_CHECKPOINT;
	assert_int_equal(server_open(), OL_E_NO_CHECKPOINT);
	leave_checkpoint(OL_SELECT_PRIORITY, 1);
	opts.restore = OL_RESTORE_CHECKPOINT;
	assert_int_equal(server_open(), 0);
	assert_int_equal(server->store.board->restored_from, OL_RESTORE_CHECKPOINT);
}

static void a_folder_that_cannot_be_saved_to_is_refused(void **unused)
{
	(void)unused;
	opts.checkpoint_dir = "/proc/nothing";
	opts.checkpoint_ms = 100000;
	assert_int_not_equal(server_open(), 0);
	assert_non_null(strstr(err, "checkpoint folder"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(there_is_room_for_all_doorbells),
		TEST(a_checkpoint_of_more_workers_is_left_to_the_workers),
		TEST(a_running_checkpoint_does_where_the_full_one_is_damaged),
		TEST(a_folder_that_cannot_be_saved_to_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
