/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * writer.c -- a thread that copies a snapshot, then writes it, while its owner goes on
 *
 * The state alone says which thread may use what; begin() and poll() never wait for a lock. A
 * change of state is a store with release, read with acquire:
 *
 *	state     changed by        job (content, version, …)   result      the caller's content
 *	IDLE      owner, begin()    owner                       owner       -
 *	COPYING   thread            thread reads                -           must not change
 *	WRITING   thread            thread reads                thread      may change
 *	DONE      owner, poll()     -                           owner       may change
 *
 * One semaphore wakes the thread, once for each begin() and once for stop(); the other wakes the
 * owner in wait(), and is posted at each DONE.
 */
#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"
#include "checkpoint/owner.h"
#include "checkpoint/running.h"
#include "checkpoint/write.h"

enum {
	TAKES_MAX = 2 /* of a shared folder, for one checkpoint */
};

struct ol_ckpt_writer {
	char dir[OL_CKPT_DIR_MAX];
	struct ol_ckpt_owner owner; /* of its files in the folder; lock below 0: not taken */
	bool shared; /* the thread takes the folder when it writes */
	struct ol_ckpt_meta meta; /* version and epoch: of the job */
	uint32_t keep;
	struct ol_running *running; /* owned; NULL: a file each time */
	bool whole; /* of the job */
	uint64_t file_bytes;
	size_t content_bytes;
	uint8_t *copy; /* owned; content_bytes. A running checkpoint has its own. */
	const void *content; /* of the job: the caller's */
	uint64_t begin_ns;
	struct ol_ckpt_result result;
	_Atomic int state; /* enum ol_ckpt_state */
	atomic_bool stop;
	sem_t wake;
	sem_t done;
	pthread_t thread;
};

/* Newer than any name: of the shard's files only what servers left that are gone */
static struct ol_ckpt_name any_name(const struct ol_ckpt_meta *meta, bool running)
{
	return (struct ol_ckpt_name){ .job_id = meta->job_id,
				      .version = UINT64_MAX,
				      .epoch = UINT32_MAX,
				      .shard = meta->geo.shard,
				      .running = running };
}

/* Take a shared folder, if it is not this writer's. 0, or an error with its line in the result */
static int folder_take(struct ol_ckpt_writer *writer)
{
	const struct ol_ckpt_name any = any_name(&writer->meta, false);
	const struct ol_ckpt_name name = ol_ckpt_name_of(&writer->meta);
	struct ol_ckpt_result *result = &writer->result;
	struct ol_ckpt_folder folder;
	char why[OL_CKPT_WHY_MAX];
	int rc;

	if (writer->owner.lock >= 0)
		return 0;
	rc = ol_ckpt_folder_reach(writer->dir, &folder, why);
	if (rc == 0) {
		rc = ol_ckpt_owner_take(&folder, &any, &writer->owner);
		ol_ckpt_folder_close(&folder);
		if (rc != 0)
			ol_ckpt_failed(why, rc, "its lock file cannot be made");
	}
	if (rc != 0)
		ol_ckpt_write_say(writer->dir, &name, rc, why, result->err, sizeof(result->err));
	return rc;
}

static void write_file(struct ol_ckpt_writer *writer)
{
	struct ol_ckpt_result *result = &writer->result;

	for (unsigned takes = 0; takes < (writer->shared ? TAKES_MAX : 1); takes++) {
		result->status = folder_take(writer);
		if (result->status == 0)
			result->status =
				ol_ckpt_write(writer->dir, &writer->meta, writer->copy,
					      writer->keep, result->err, sizeof(result->err));
		if (result->status != OL_E_FENCED)
			break;
		if (writer->shared) /* another replica has taken it since */
			ol_ckpt_owner_drop(&writer->owner);
	}
	result->bytes = result->status == 0 ? writer->file_bytes : 0;
	result->whole = result->status == 0;
}

/* True if no reader would take a file of this content: it must not replace one that can be read. finite: its weights
 * have been read, and are */
static bool is_unreadable(const struct ol_ckpt_writer *writer, const void *content, bool finite,
			  struct ol_ckpt_result *result)
{
	struct ol_ckpt_meta meta = writer->meta;
	char why[OL_CKPT_WHY_MAX];

	meta.nonfinite = meta.nonfinite || (finite && meta.geo.state_vectors == 0);
	if (ol_ckpt_content_sound(&meta.geo, &meta, content, why))
		return false;
	*result = (struct ol_ckpt_result){ .status = OL_E_NONFINITE,
					   .version = writer->meta.version };
	snprintf(result->err, sizeof(result->err),
		 "it could not be read again, and those before it are kept: %s", why);
	return true;
}

static void end(struct ol_ckpt_writer *writer)
{
	writer->result.duration_ns = ol_clock_ns() - writer->begin_ns;
	atomic_store_explicit(&writer->state, OL_CKPT_DONE, memory_order_release);
	sem_post(&writer->done);
}

static void write_one(struct ol_ckpt_writer *writer)
{
	struct ol_ckpt_result *result = &writer->result;
	uint64_t start_ns = ol_clock_ns(), copied_ns;

	/* a running checkpoint measures the content while it must not change, so it is looked at too */
	if (writer->running != NULL &&
	    is_unreadable(writer, writer->content,
			  ol_running_measure(writer->running, writer->content), result)) {
		end(writer);
		return;
	}
	if (writer->running != NULL) {
		ol_running_history(writer->running, writer->meta.history, writer->meta.founded);
		ol_running_take(writer->running, writer->content, writer->meta.version,
				writer->meta.epoch, writer->whole);
	} else {
		memcpy(writer->copy, writer->content, writer->content_bytes);
	}
	copied_ns = ol_clock_ns();
	atomic_store_explicit(&writer->state, OL_CKPT_WRITING, memory_order_release);
	*result = (struct ol_ckpt_result){ .version = writer->meta.version,
					   .copy_ns = copied_ns - start_ns };
	if (writer->running != NULL)
		ol_running_write(writer->running, result);
	else if (!is_unreadable(writer, writer->copy, false, result))
		write_file(writer);
	end(writer);
}

static void *run(void *arg)
{
	struct ol_ckpt_writer *writer = arg;

	for (;;) {
		if (sem_wait(&writer->wake) != 0)
			continue; /* EINTR */
		if (atomic_load_explicit(&writer->state, memory_order_acquire) == OL_CKPT_COPYING)
			write_one(writer);
		else if (atomic_load_explicit(&writer->stop, memory_order_relaxed))
			return NULL;
	}
}

static int writer_init(struct ol_ckpt_writer *writer, const char *dir,
		       const struct ol_ckpt_meta *meta, uint32_t keep,
		       const struct ol_ckpt_running_opts *running)
{
	struct ol_ckpt_header header;
	int rc = ol_ckpt_header_make(meta, &header);

	if (rc != 0)
		return rc;
	snprintf(writer->dir, sizeof(writer->dir), "%s", dir);
	writer->meta = *meta;
	writer->meta.owner = &writer->owner;
	writer->keep = keep;
	writer->file_bytes = header.file_bytes;
	writer->content_bytes = header.content_bytes;
	atomic_init(&writer->state, OL_CKPT_IDLE);
	atomic_init(&writer->stop, false);
	if (running != NULL)
		rc = ol_running_create(writer->dir, &writer->meta, running, &writer->running);
	else
		writer->copy = malloc(writer->content_bytes);
	if (rc != 0 || (running == NULL && writer->copy == NULL))
		return rc != 0 ? rc : -ENOMEM;
	if (writer->copy != NULL) /* take the page faults now, not in the first copy */
		memset(writer->copy, 0, writer->content_bytes);
	sem_init(&writer->wake, 0, 0); /* fails only for invalid values */
	sem_init(&writer->done, 0, 0);
	return 0;
}

static void writer_fini(struct ol_ckpt_writer *writer)
{
	sem_destroy(&writer->wake);
	sem_destroy(&writer->done);
	ol_running_destroy(writer->running);
	ol_ckpt_owner_drop(&writer->owner);
	free(writer->copy);
	free(writer);
}

static int start(const char *dir, const struct ol_ckpt_meta *meta, uint32_t keep, bool shared,
		 const struct ol_ckpt_running_opts *running, struct ol_ckpt_writer **ret_writer,
		 char *err, size_t err_bytes)
{
	const struct ol_ckpt_name any = any_name(meta, running != NULL);
	struct ol_ckpt_owner owner = { .lock = -1 };
	struct ol_ckpt_writer *writer;
	struct ol_ckpt_folder folder;
	char why[OL_CKPT_WHY_MAX];
	int rc = ol_ckpt_folder_make(dir, &folder, why);

	if (rc != 0 && why[0] != '\0') {
		snprintf(err, err_bytes, "checkpoint folder: %s (%s)", why, dir);
		return rc;
	}
	if (rc != 0) {
		snprintf(err, err_bytes,
			 "checkpoint folder: cannot be used: %s; give one that can be made or "
			 "written (%s)",
			 ol_status_str(rc), dir);
		return rc;
	}
	if (!shared)
		rc = ol_ckpt_owner_take(&folder, &any, &owner);
	if (rc == 0 && !shared)
		ol_ckpt_folder_sweep(&folder, &any, UINT32_MAX);
	ol_ckpt_folder_close(&folder);
	if (rc != 0) {
		snprintf(err, err_bytes, "checkpoint folder: its lock file: %s%s (%s)",
			 ol_status_str(rc),
			 rc == -EBUSY ? "; a server of this shard stands still in the middle of "
					"a write: end it"
				      : "",
			 dir);
		return rc;
	}

	rc = -ENOMEM;
	writer = calloc(1, sizeof(*writer));
	if (writer != NULL) {
		writer->owner = owner;
		writer->shared = shared;
		rc = writer_init(writer, dir, meta, keep, running);
		if (rc != 0)
			free(writer);
	}
	if (rc != 0)
		ol_ckpt_owner_drop(&owner);
	if (rc == 0) {
		rc = ol_thread_start(run, writer, &writer->thread);
		if (rc != 0)
			writer_fini(writer);
	}
	if (rc != 0) {
		snprintf(err, err_bytes, "checkpoint writer of shard %u: cannot start: %s",
			 meta->geo.shard, ol_status_str(rc));
		return rc;
	}
	*ret_writer = writer;
	return 0;
}

int ol_ckpt_writer_start(const char *dir, const struct ol_ckpt_meta *meta, uint32_t keep,
			 struct ol_ckpt_writer **ret_writer, char *err, size_t err_bytes)
{
	return start(dir, meta, keep, false, NULL, ret_writer, err, err_bytes);
}

int ol_ckpt_writer_start_shared(const char *dir, const struct ol_ckpt_meta *meta, uint32_t keep,
				struct ol_ckpt_writer **ret_writer, char *err, size_t err_bytes)
{
	return start(dir, meta, keep, true, NULL, ret_writer, err, err_bytes);
}

int ol_ckpt_writer_start_running(const char *dir, const struct ol_ckpt_meta *meta,
				 const struct ol_ckpt_running_opts *opts,
				 struct ol_ckpt_writer **ret_writer, char *err, size_t err_bytes)
{
	return start(dir, meta, 1, false, opts, ret_writer, err, err_bytes);
}

static bool begin(struct ol_ckpt_writer *writer, const void *content, uint64_t version,
		  uint32_t epoch, bool whole)
{
	if (atomic_load_explicit(&writer->state, memory_order_acquire) != OL_CKPT_IDLE)
		return false;
	(void)sem_trywait(&writer->done); /* the post of a job that was not waited for */
	writer->content = content;
	writer->meta.version = version;
	writer->meta.epoch = epoch;
	writer->whole = whole;
	writer->begin_ns = ol_clock_ns();
	atomic_store_explicit(&writer->state, OL_CKPT_COPYING, memory_order_release);
	sem_post(&writer->wake);
	return true;
}

void ol_ckpt_writer_history(struct ol_ckpt_writer *writer, uint64_t history, uint32_t founded)
{
	if (atomic_load_explicit(&writer->state, memory_order_acquire) != OL_CKPT_IDLE)
		return;
	writer->meta.history = history;
	writer->meta.founded = founded;
}

bool ol_ckpt_writer_begin(struct ol_ckpt_writer *writer, const void *content, uint64_t version,
			  uint32_t epoch)
{
	return begin(writer, content, version, epoch, false);
}

bool ol_ckpt_writer_begin_whole(struct ol_ckpt_writer *writer, const void *content,
				uint64_t version, uint32_t epoch)
{
	return begin(writer, content, version, epoch, true);
}

enum ol_ckpt_state ol_ckpt_writer_poll(struct ol_ckpt_writer *writer,
				       struct ol_ckpt_result *ret_result)
{
	int state = atomic_load_explicit(&writer->state, memory_order_acquire);

	if (state == OL_CKPT_DONE) {
		*ret_result = writer->result;
		atomic_store_explicit(&writer->state, OL_CKPT_IDLE, memory_order_relaxed);
	}
	return (enum ol_ckpt_state)state;
}

void ol_ckpt_writer_wait(struct ol_ckpt_writer *writer)
{
	for (;;) {
		int state = atomic_load_explicit(&writer->state, memory_order_acquire);

		if (state == OL_CKPT_IDLE || state == OL_CKPT_DONE)
			return;
		(void)sem_wait(
			&writer->done); /* EINTR, or the post of an earlier job: look again */
	}
}

void ol_ckpt_writer_stop(struct ol_ckpt_writer *writer)
{
	if (writer == NULL)
		return;
	atomic_store_explicit(&writer->stop, true, memory_order_relaxed);
	sem_post(&writer->wake);
	pthread_join(writer->thread, NULL);
	writer_fini(writer);
}
