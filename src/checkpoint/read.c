/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * read.c -- finds the newest whole checkpoint of a shard, and logs why it passes over others
 *
 * A damaged file is passed over. A file that cannot be read ends the search: it may be whole, and
 * an older one would lose steps without need.
 */

#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"
#include "checkpoint/running.h"
#include "outlast.h"
#include "outlast_tensor.h"

/*
 * Load an open file into content. Errors, with why: OL_E_NO_CHECKPOINT; OL_E_GEOMETRY (it is whole,
 * but has more workers than this server admits: an older one would have them too); -errno (it
 * cannot be read)
 */
static int read_file(const struct ol_ckpt_file *file, const struct ol_ckpt_name *name,
		     struct ol_ckpt_meta *meta, void *content, char *why)
{
	struct ol_ckpt_header header;
	struct ol_geometry geo;
	uint8_t *loaded;
	int rc = ol_ckpt_load_header(file, &header, why);

	if (rc != 0)
		return rc;
	if (!ol_ckpt_header_wanted(&header, meta, why))
		return OL_E_NO_CHECKPOINT;
	if (header.epoch != name->epoch || header.version != name->version) {
		snprintf(why, OL_CKPT_WHY_MAX,
			 "header: it is of epoch %" PRIu32 ", version %" PRIu64
			 ", and not what its name says",
			 header.epoch, header.version);
		return OL_E_NO_CHECKPOINT;
	}
	rc = ol_ckpt_load_content(file, &header, &loaded, why);
	if (rc != 0)
		return rc;
	geo = ol_ckpt_header_geo(&header);
	if (!ol_ckpt_content_sound(&geo, meta, loaded, why))
		rc = OL_E_NO_CHECKPOINT;
	else if (!ol_ckpt_fit(&geo, loaded, &meta->geo, meta->tensors, content, why))
		rc = OL_E_GEOMETRY;
	free(loaded);
	if (rc != 0)
		return rc;
	meta->version = header.version;
	meta->epoch = header.epoch;
	meta->history = header.history;
	meta->founded = header.founded;
	return 0;
}

static int read_name(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
		     struct ol_ckpt_meta *meta, void *content, char *why)
{
	struct ol_ckpt_file file;
	int rc;

	if (name->job_id != meta->job_id) {
		snprintf(why, OL_CKPT_WHY_MAX, "it is of job %016" PRIx64 ", wanted is %016" PRIx64,
			 name->job_id, meta->job_id);
		return OL_E_NO_CHECKPOINT;
	}
	rc = ol_ckpt_load_open(folder, name, &file, why);
	if (rc != 0)
		return rc;
	rc = read_file(&file, name, meta, content, why);
	(void)file.ops->close(file.at);
	return rc;
}

void ol_ckpt_say_unused(const char *what, const char *name, const char *dir, int rc,
			const char *why)
{
	if (rc == OL_E_NO_CHECKPOINT || rc == OL_E_GEOMETRY)
		ol_log(OL_LOG_WARN, "%s %s: not used: %s (folder %s)", what, name, why, dir);
	else
		ol_log(OL_LOG_ERROR,
		       "%s %s: %s (folder %s); it may be whole, so none that is older is used: mend "
		       "the cause, or move it away to go back",
		       what, name, why, dir);
}

/* A full one's header is whole, and as wanted: meta says its history then, and in which epoch that was founded */
static bool is_sound(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
		     struct ol_ckpt_meta *meta)
{
	struct ol_ckpt_header header;
	struct ol_ckpt_file file;
	char why[OL_CKPT_WHY_MAX];
	uint64_t file_bytes;
	bool sound;

	if (ol_ckpt_load_open(folder, name, &file, why) != 0)
		return false;
	sound = ol_ckpt_load_raw(&file, &header, &file_bytes, why) == 0 &&
		ol_ckpt_header_sound(&header, OL_CKPT_MAGIC, why) &&
		ol_ckpt_header_wanted(&header, meta, why) && header.file_bytes == file_bytes;
	(void)file.ops->close(file.at);
	if (sound) {
		meta->history = header.history;
		meta->founded = header.founded;
	}
	return sound;
}

/* Epoch and version of the first of these that is meta's: newest first */
static bool newest_of(const char *dir, bool running, uint64_t newest, bool sound,
		      struct ol_ckpt_meta *meta)
{
	struct ol_ckpt_name *names = NULL;
	struct ol_ckpt_folder folder;
	char why[OL_CKPT_WHY_MAX];
	bool found = false;
	size_t count = 0;

	if (ol_ckpt_folder_open(dir, &folder, why) != 0)
		return false;
	if (ol_ckpt_folder_list(&folder, meta->job_id, meta->geo.shard, running, &names, &count) !=
	    0)
		count = 0;
	for (size_t i = 0; i < count && !found; i++) {
		found = !names[i].temporary && names[i].job_id == meta->job_id &&
			(newest == 0 || names[i].version <= newest) &&
			(!sound || is_sound(&folder, &names[i], meta));
		if (found) {
			meta->epoch = names[i].epoch;
			meta->version = names[i].version;
		}
	}
	free(names);
	ol_ckpt_folder_close(&folder);
	return found;
}

bool ol_ckpt_newest(const char *dir, struct ol_ckpt_meta *meta)
{
	return newest_of(dir, false, 0, false, meta);
}

bool ol_ckpt_newest_sound(const char *dir, uint64_t newest, struct ol_ckpt_meta *meta)
{
	return newest_of(dir, false, newest, true, meta);
}

bool ol_ckpt_is_there(const char *dir, const struct ol_ckpt_meta *meta)
{
	struct ol_ckpt_meta any = *meta;

	return newest_of(dir, false, 0, false, &any) || newest_of(dir, true, 0, false, &any);
}

/* That of the newest of one kind whose header is whole */
static uint32_t tensors_bytes_of(const struct ol_ckpt_folder *folder,
				 const struct ol_ckpt_meta *meta, bool running)
{
	char why[OL_CKPT_WHY_MAX];
	struct ol_ckpt_name *names = NULL;
	struct ol_ckpt_header header = { 0 };
	bool whole = false;
	size_t count = 0;

	if (ol_ckpt_folder_list(folder, meta->job_id, meta->geo.shard, running, &names, &count) !=
	    0)
		return 0;
	for (size_t i = 0; i < count && !whole && names[i].job_id == meta->job_id; i++) {
		struct ol_ckpt_file file;
		uint64_t file_bytes;

		if (names[i].temporary || ol_ckpt_load_open(folder, &names[i], &file, why) != 0)
			continue;
		whole = ol_ckpt_load_raw(&file, &header, &file_bytes, why) == 0 &&
			ol_ckpt_header_sound(&header, running ? OL_RUNNING_MAGIC : OL_CKPT_MAGIC,
					     why) &&
			header.tensors_bytes <= OL_TENSORS_BYTES_MAX;
		(void)file.ops->close(file.at);
	}
	free(names);
	return whole ? header.tensors_bytes : 0;
}

uint32_t ol_ckpt_tensors_bytes(const char *dir, const struct ol_ckpt_meta *meta)
{
	struct ol_ckpt_folder folder;
	char why[OL_CKPT_WHY_MAX];
	uint32_t found;

	if (ol_ckpt_folder_open(dir, &folder, why) != 0)
		return 0; /* who reads a checkpoint says it */
	found = tensors_bytes_of(&folder, meta, false);
	if (found == 0)
		found = tensors_bytes_of(&folder, meta, true);
	ol_ckpt_folder_close(&folder);
	return found;
}

int ol_ckpt_read_newest(const char *dir, struct ol_ckpt_meta *meta, void *content)
{
	return ol_ckpt_read_until(dir, UINT64_MAX, meta, content);
}

int ol_ckpt_read_until(const char *dir, uint64_t newest, struct ol_ckpt_meta *meta, void *content)
{
	char text[OL_CKPT_NAME_MAX], why[OL_CKPT_WHY_MAX];
	struct ol_ckpt_name *names = NULL;
	struct ol_ckpt_folder folder;
	int rc = ol_ckpt_folder_open(dir, &folder, why);
	size_t count = 0;

	if (rc != 0) {
		ol_log(OL_LOG_ERROR, "checkpoint folder: %s%s (%s)",
		       why[0] != '\0' ? "" : "cannot be opened: ",
		       why[0] != '\0' ? why : ol_status_str(rc), dir);
		return rc;
	}
	rc = ol_ckpt_folder_list(&folder, meta->job_id, meta->geo.shard, false, &names, &count);
	if (rc != 0) {
		ol_log(OL_LOG_ERROR, "checkpoint folder: cannot be read: %s (%s)",
		       ol_status_str(rc), dir);
		goto out;
	}
	rc = -ENOENT;
	for (size_t i = 0; i < count; i++) {
		if (names[i].temporary) /* never a checkpoint, so not worth a line */
			continue;
		if (names[i].job_id == meta->job_id && names[i].version > newest) {
			rc = OL_E_NO_CHECKPOINT;
			continue;
		}
		rc = read_name(&folder, &names[i], meta, content, why);
		if (rc == 0)
			break;
		ol_ckpt_name_format(&names[i], text);
		ol_ckpt_say_unused("checkpoint", text, dir, rc, why);
		if (rc != OL_E_NO_CHECKPOINT)
			break;
	}
out:
	free(names);
	ol_ckpt_folder_close(&folder);
	return rc;
}
