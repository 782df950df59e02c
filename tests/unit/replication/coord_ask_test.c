/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_ask_test.c -- what a directory keeps is told as it is, and nothing changes by asking; a job is removed if
 * nobody has it open, whole, also while another process comes; addresses that are none are refused with a line
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder.h"
#include "replication/coord/ask.h"
#include "unit/replication/coord_guest.h"

enum {
	RACES = 150,
	TEXT_MAX = 4096,
};

struct place {
	struct ol_folder own;
	char addr[OL_FOLDER_MAX + 8];
};

static void place_make(struct place *place)
{
	assert_int_equal(ol_folder_make(&place->own, "ol-coord-ask-"), 0);
	snprintf(place->addr, sizeof(place->addr), "dir:%s", place->own.path);
}

static void place_remove(struct place *place)
{
	ol_folder_drop(&place->own);
}

static struct ol_coord_ask ask_make(const char *addr, const char *job)
{
	return (struct ol_coord_ask){ .addr = addr, .job = job, .timeout_ms = 1000 };
}

static int removal(const char *addr, const char *job, char err[256])
{
	struct ol_coord_ask ask = ask_make(addr, job);

	err[0] = '\0';
	return ol_coord_remove(&ask, err, 256);
}

static void text_add(void *arg, const struct ol_kept *kept)
{
	char *text = arg;
	size_t used = strlen(text);

	assert_true(kept->changed_ms >= 0 && kept->access == OL_KEPT_GUARDED);
	snprintf(text + used, TEXT_MAX - used, "%s/%d views %u epoch %u live %u%s; ", kept->job,
		 (int)kept->shard, (unsigned)kept->version, kept->view.epoch, kept->live,
		 kept->damaged ? " damaged" : "");
}

static const char *listed(const char *addr, const char *job)
{
	static char text[TEXT_MAX];
	struct ol_coord_ask ask = ask_make(addr, job);
	char err[256] = "";

	text[0] = '\0';
	assert_int_equal(ol_coord_list(&ask, text_add, text, err, sizeof(err)), 0);
	return text;
}

/* Entries of a folder */
static unsigned entries(const char *path)
{
	DIR *folder = opendir(path);
	unsigned count = 0;

	assert_non_null(folder);
	while (readdir(folder) != NULL)
		count++;
	closedir(folder);
	return count - 2;
}

static void come(struct guest *guest, const char *addr, const char *job)
{
	struct ol_coord_opts opts = guest_opts(guest, addr);

	opts.job = job;
	guest_enter(guest, &opts);
}

/* A server of shard 0, alone in a view of it */
static void serve(struct guest *guest, const char *addr, const char *job, uint64_t id)
{
	struct ol_view view = view_make(1, id, 0);
	struct ol_member me = server_make(id);
	struct ol_coord_state seen;

	come(guest, addr, job);
	assert_int_equal(ol_coord_join(guest->coord, 0, &me), 0);
	guest_wait(guest, 0, has_member, id, "itself", &seen);
	ol_coord_propose(guest->coord, 0, seen.version, &view);
	guest_wait(guest, 0, has_epoch, 1, "its view", &seen);
}

static void all_that_is_kept_is_told(void **unused)
{
	char path[OL_FOLDER_MAX + 64];
	struct place place;
	struct guest one, two;
	FILE *file;

	(void)unused;
	place_make(&place);
	assert_string_equal(listed(place.addr, NULL), "");
	serve(&one, place.addr, "one", 1);
	serve(&two, place.addr, "two", 2);
	guest_close(&two);
	snprintf(path, sizeof(path), "%s/empty", place.own.path);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/.hidden", place.own.path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_string_equal(listed(place.addr, NULL),
			    "empty/-1 views 0 epoch 0 live 0; "
			    "one/0 views 1 epoch 1 live 1; one/1 views 0 epoch 0 live 0; "
			    "two/0 views 1 epoch 1 live 0; two/1 views 0 epoch 0 live 0; ");
	assert_string_equal(listed(place.addr, "two"),
			    "two/0 views 1 epoch 1 live 0; two/1 views 0 epoch 0 live 0; ");
	snprintf(path, sizeof(path), "%s/two/shard0/1.view", place.own.path);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs("no view\n", file) >= 0 && fclose(file) == 0);
	assert_string_equal(listed(place.addr, "two"),
			    "two/0 views 1 epoch 0 live 0 damaged; two/1 views 0 epoch 0 live 0; ");
	guest_close(&one);
	place_remove(&place);
}

static void a_job_that_is_open_is_not_removed(void **unused)
{
	struct place place;
	struct guest server, worker;
	char err[256];

	(void)unused;
	place_make(&place);
	serve(&server, place.addr, "job", 1);
	come(&worker, place.addr, "job");
	assert_int_equal(removal(place.addr, "job", err), -EBUSY);
	assert_non_null(strstr(err, "job job is in use"));
	guest_close(&server);
	assert_int_equal(removal(place.addr, "job", err), -EBUSY);
	assert_string_equal(listed(place.addr, NULL),
			    "job/0 views 1 epoch 1 live 0; job/1 views 0 epoch 0 live 0; ");
	guest_close(&worker);
	assert_int_equal(removal(place.addr, "job", err), 0);
	assert_int_equal(entries(place.own.path), 0);
	assert_int_equal(removal(place.addr, "job", err), -ENOENT);
	assert_non_null(strstr(err, "it keeps no job job"));
	serve(&server, place.addr, "job", 2); /* begins anew */
	assert_string_equal(listed(place.addr, NULL),
			    "job/0 views 1 epoch 1 live 1; job/1 views 0 epoch 0 live 0; ");
	guest_close(&server);
	place_remove(&place);
}

static void file_make(const char *folder, const char *name)
{
	char path[OL_FOLDER_MAX + 64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
}

/* A coordinator's address that is one folder too short, or somebody's home: nothing there is a job */
static void a_folder_of_another_purpose_is_no_job(void **unused)
{
	char addr[OL_FOLDER_MAX + 64], path[OL_FOLDER_MAX + 64], err[256];
	struct place place;
	struct guest server;

	(void)unused;
	place_make(&place);
	serve(&server, place.addr, "job", 1);
	guest_close(&server);
	file_make(place.own.path, "job/shard1/weights.npy");
	assert_int_equal(removal(place.addr, "job", err), -EEXIST);
	assert_non_null(
		strstr(err, "job is no job: it has shard1/weights.npy; nothing is removed"));
	snprintf(path, sizeof(path), "%s/job/shard1/weights.npy", place.own.path);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/up", place.own.path); /* a coordinator within another */
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(addr, sizeof(addr), "dir:%s/up", place.own.path);
	serve(&server, addr, "live", 2);
	assert_int_equal(removal(place.addr, "up", err), -EEXIST);
	assert_non_null(strstr(err, "up is no job: it has live"));
	assert_string_equal(listed(place.addr, NULL),
			    "job/0 views 1 epoch 1 live 0; job/1 views 0 epoch 0 live 0; ");
	assert_string_equal(listed(addr, NULL),
			    "live/0 views 1 epoch 1 live 1; live/1 views 0 epoch 0 live 0; ");
	guest_close(&server);
	assert_int_equal(removal(addr, "live", err), 0);
	assert_int_equal(removal(place.addr, "job", err), 0);
	assert_int_equal(rmdir(path), 0);
	place_remove(&place);
}

struct race {
	pthread_barrier_t start;
	const char *addr;
	int rc;
};

static void *race_remove(void *arg)
{
	struct race *race = arg;
	char err[256];

	pthread_barrier_wait(&race->start);
	race->rc = removal(race->addr, "job", err);
	return NULL;
}

/*
 * It was removed before the other came, or it was not removed: what the other sees stays. If the other came to the
 * folder that is removed, nobody would see it register.
 */
static void whoever_comes_meanwhile_keeps_its_view(void **unused)
{
	struct ol_coord_state seen;
	struct ol_member me = server_make(7);
	struct place place;
	unsigned removed = 0;

	(void)unused;
	place_make(&place);
	for (unsigned i = 0; i < RACES; i++) {
		struct race race = { .addr = place.addr };
		struct guest old, fresh, other;
		pthread_t thread;

		come(&old, place.addr, "job"); /* so that there is something */
		guest_close(&old);
		assert_int_equal(pthread_barrier_init(&race.start, NULL, 2), 0);
		assert_int_equal(pthread_create(&thread, NULL, race_remove, &race), 0);
		pthread_barrier_wait(&race.start);
		come(&fresh, place.addr, "job");
		assert_int_equal(ol_coord_join(fresh.coord, 0, &me), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(race.rc == 0 || race.rc == -EBUSY);
		removed += race.rc == 0;
		come(&other, place.addr, "job");
		guest_wait(&other, 0, has_member, 7, "who came meanwhile", &seen);
		assert_true(seen.connected);
		guest_close(&other);
		guest_close(&fresh);
		assert_int_equal(pthread_barrier_destroy(&race.start), 0);
	}
	print_message("%u of %d removals came before the other\n", removed, RACES);
	place_remove(&place);
}

static void on_finding(void *arg, const struct ol_coord_finding *finding)
{
	unsigned *bad = arg;

	*bad += finding->verdict == OL_COORD_BAD;
	assert_non_null(finding->subject);
	assert_null(strchr(finding->text, '\n'));
}

static void a_folder_is_examined(void **unused)
{
	char missing[OL_FOLDER_MAX + 16], err[256] = "";
	struct ol_coord_ask ask;
	struct place place;
	unsigned bad = 0;

	(void)unused;
	place_make(&place);
	ask = ask_make(place.addr, NULL);
	assert_int_equal(ol_coord_examine(&ask, 5000, 3, on_finding, &bad, err, sizeof(err)), 0);
	assert_int_equal(bad, 0);
	assert_int_equal(entries(place.own.path), 0);
	assert_int_equal(ol_coord_examine(&ask, 5000, 0, on_finding, &bad, err, sizeof(err)),
			 -EINVAL);
	snprintf(missing, sizeof(missing), "%s/new", place.addr);
	ask.addr = missing;
	assert_int_equal(ol_coord_examine(&ask, 5000, 3, on_finding, &bad, err, sizeof(err)),
			 -ENOENT);
	assert_non_null(strstr(err, "make it first"));
	assert_int_equal(ol_coord_make_root(&ask, err, sizeof(err)), 0);
	assert_int_equal(ol_coord_make_root(&ask, err, sizeof(err)), 0);
	assert_int_equal(ol_coord_examine(&ask, 5000, 3, on_finding, &bad, err, sizeof(err)), 0);
	assert_int_equal(chmod(place.own.path, 0777), 0);
	ask.addr = place.addr;
	assert_int_equal(ol_coord_examine(&ask, 5000, 3, on_finding, &bad, err, sizeof(err)),
			 -EPERM);
	assert_int_equal(ol_coord_list(&ask, text_add, err, err, sizeof(err)), -EPERM);
	assert_int_equal(chmod(place.own.path, 0700), 0);
	place_remove(&place);
}

static void what_is_no_address_is_refused(void **unused)
{
	static const char *const addrs[] = {
		"",        "etcd:h:1",  "dir:",      "zk:",           "zk:host",       "zk:h:0",
		"zk:h:1,", "zk:h:1//a", "zk:h:1/a/", "zk:h:1/a/../b", "zk:h:1/a?auth="
	};
	char err[256];

	(void)unused;
	for (size_t i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++) {
		int rc = removal(addrs[i], "job", err);

		assert_true(rc == -EINVAL || (rc == -ENOENT && strstr(addrs[i], "?auth=") != NULL));
		assert_non_null(strstr(err, "coordinator "));
	}
	assert_int_equal(removal("dir:/tmp", "a/b", err), -EINVAL);
	assert_int_equal(removal("dir:/tmp", NULL, err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_is_kept_is_told),
		cmocka_unit_test(a_job_that_is_open_is_not_removed),
		cmocka_unit_test(a_folder_of_another_purpose_is_no_job),
		cmocka_unit_test(whoever_comes_meanwhile_keeps_its_view),
		cmocka_unit_test(a_folder_is_examined),
		cmocka_unit_test(what_is_no_address_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
