/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * write.c -- writes a checkpoint: temporary name, fsync, rename, fsync of the folder
 */
#include "checkpoint/write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "checkpoint/folder.h"
#include "outlast.h"

/* The parts of a file to be written */
struct image {
	struct ol_ckpt_header *header; /* owned; the table follows it */
	uint8_t *tail; /* owned; the last block, padded with zeros */
	const uint8_t *content;
};

static void image_fini(struct image *image)
{
	free(image->header);
	free(image->tail);
}

static const uint8_t *block_at(const struct image *image, uint32_t index)
{
	if (index == image->header->block_count - 1)
		return image->tail;
	return image->content + (size_t)index * OL_CKPT_BLOCK_BYTES;
}

static int image_init(struct image *image, const struct ol_ckpt_meta *meta, const void *content)
{
	struct ol_ckpt_header header;
	uint64_t whole; /* bytes before the last block */
	uint32_t *table;
	int rc = ol_ckpt_header_make(meta, &header);

	if (rc != 0)
		return rc;
	image->header = calloc(1, ol_ckpt_content_off(&header));
	image->tail = calloc(1, OL_CKPT_BLOCK_BYTES);
	image->content = content;
	if (image->header == NULL || image->tail == NULL) {
		image_fini(image);
		return -ENOMEM;
	}
	*image->header = header;
	whole = (uint64_t)(header.block_count - 1) * OL_CKPT_BLOCK_BYTES;
	memcpy(image->tail, image->content + whole, header.content_bytes - whole);
	table = (uint32_t *)(image->header + 1);
	for (uint32_t i = 0; i < header.block_count; i++)
		table[i] = ol_ckpt_crc(block_at(image, i), ol_ckpt_block_bytes(&header, i));
	ol_ckpt_header_seal(image->header, table);
	return 0;
}

int ol_ckpt_write_at(const struct ol_ckpt_file *file, const void *bytes, size_t count, uint64_t off)
{
	return file->ops->write_at(file->at, bytes, count, off);
}

int ol_ckpt_sync_data(const struct ol_ckpt_file *file)
{
	return file->ops->sync_data(file->at);
}

int ol_ckpt_failed(char *why, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, OL_CKPT_WHY_MAX, format, args);
	va_end(args);
	return rc;
}

/* Write the image into a new file, and close that. */
static int fill(const struct ol_ckpt_file *file, const struct image *image, char *why)
{
	const struct ol_ckpt_header *header = image->header;
	uint64_t off = ol_ckpt_content_off(header);
	int rc = ol_ckpt_write_at(file, header, off, 0), closed;

	if (rc != 0)
		ol_ckpt_failed(why, rc, "cannot write its header");
	for (uint32_t i = 0; rc == 0 && i < header->block_count; i++) {
		uint32_t bytes = ol_ckpt_block_bytes(header, i);

		rc = ol_ckpt_write_at(file, block_at(image, i), bytes, off);
		if (rc != 0)
			ol_ckpt_failed(why, rc, "cannot write block %" PRIu32 " of %" PRIu32, i,
				       header->block_count);
		off += bytes;
	}
	if (rc == 0) {
		rc = file->ops->sync(file->at);
		if (rc != 0)
			ol_ckpt_failed(why, rc, "cannot make it durable");
	}
	closed = file->ops->close(file->at);
	if (closed != 0 && rc == 0)
		rc = ol_ckpt_failed(why, closed, "cannot close it");
	return rc;
}

int ol_ckpt_folder_reach(const char *dir, struct ol_ckpt_folder *ret_folder, char *why)
{
	char its[OL_CKPT_WHY_MAX];
	int rc = ol_ckpt_folder_open(dir, ret_folder, its);

	if (rc == 0)
		return 0;
	if (its[0] != '\0')
		return ol_ckpt_failed(why, rc, "the folder: %.200s", its);
	return ol_ckpt_failed(why, rc, "cannot open the folder");
}

int ol_ckpt_enter(const struct ol_ckpt_owner *owner, const struct ol_ckpt_folder *folder, char *why)
{
	int rc = ol_ckpt_owner_enter(owner, folder);

	return rc == 0 ? 0
		       : ol_ckpt_failed(
				 why, rc,
				 "another server saves this shard now, or its lock file fails");
}

static int temporary_make(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
			  struct ol_ckpt_file *ret_file, char *why)
{
	struct ol_ckpt_name temporary = *name;
	char text[OL_CKPT_NAME_MAX];
	int rc;

	temporary.temporary = true;
	ol_ckpt_name_format(&temporary, text);
	rc = folder->ops->remove(folder->at, text);
	if (rc != 0 && rc != -ENOENT)
		return ol_ckpt_failed(why, rc, "cannot remove what is left of an earlier attempt");
	rc = folder->ops->create(folder->at, text);
	if (rc < 0)
		return ol_ckpt_failed(why, rc, "cannot make its temporary file");
	*ret_file = (struct ol_ckpt_file){ .ops = folder->ops, .at = rc };
	return 0;
}

int ol_ckpt_temporary_make(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
			   const struct ol_ckpt_owner *owner, struct ol_ckpt_file *ret_file,
			   char *why)
{
	int rc = ol_ckpt_enter(owner, folder, why);

	if (rc != 0)
		return rc;
	rc = temporary_make(folder, name, ret_file, why);
	ol_ckpt_owner_leave(owner);
	return rc;
}

static int temporary_end(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
			 int rc, char *why)
{
	struct ol_ckpt_name temporary = *name;
	char text[OL_CKPT_NAME_MAX], temporary_text[OL_CKPT_NAME_MAX];

	temporary.temporary = true;
	ol_ckpt_name_format(name, text);
	ol_ckpt_name_format(&temporary, temporary_text);
	if (rc == 0) {
		rc = folder->ops->rename(folder->at, temporary_text, text);
		if (rc != 0)
			ol_ckpt_failed(why, rc, "cannot give it its name");
	}
	if (rc != 0) {
		(void)folder->ops->remove(folder->at, temporary_text);
		return rc;
	}
	rc = folder->ops->sync(folder->at);
	return rc == 0 ? 0 : ol_ckpt_failed(why, rc, "cannot make its name durable");
}

int ol_ckpt_temporary_end(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
			  const struct ol_ckpt_owner *owner, uint32_t keep, int rc, char *why)
{
	char unsaid[OL_CKPT_WHY_MAX];
	int fenced = ol_ckpt_enter(owner, folder, rc == 0 ? why : unsaid);

	if (fenced == OL_E_FENCED)
		return rc != 0 ? rc : fenced; /* the name may be another server's file now */
	if (fenced !=
	    0) /* the owner is not known: remove the file, at worst another server's attempt */
		return temporary_end(folder, name, rc != 0 ? rc : fenced, unsaid);
	rc = temporary_end(folder, name, rc, why);
	if (rc == 0)
		ol_ckpt_folder_sweep(folder, name, keep);
	ol_ckpt_owner_leave(owner);
	return rc;
}

int ol_ckpt_draft(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
		  const struct ol_ckpt_meta *meta, const void *content, char *why)
{
	struct ol_ckpt_file file;
	struct image image;
	int rc = image_init(&image, meta, content);

	if (rc != 0)
		return ol_ckpt_failed(why, rc, "cannot put it together");
	rc = ol_ckpt_temporary_make(folder, name, meta->owner, &file, why);
	if (rc == 0) {
		rc = fill(&file, &image, why);
		if (rc != 0)
			(void)ol_ckpt_temporary_end(folder, name, meta->owner, 0, rc, why);
	}
	image_fini(&image);
	return rc;
}

const char *ol_ckpt_remedy(int rc, bool is_running)
{
	switch (rc) {
	case -ENOSPC:
	case -EDQUOT:
		return is_running ? "; make room, or give a folder on another disk"
				  : "; make room, or keep fewer (keep=)";
	case -EROFS:
	case -EACCES:
	case -EPERM:
		return "; give a folder that this user may write";
	case -EFBIG:
		return "; raise the limit on the size of a file";
	case -ENOENT:
	case -ENOTDIR:
		return "; make the folder, or give another";
	default:
		return "";
	}
}

void ol_ckpt_write_say(const char *dir, const struct ol_ckpt_name *name, int rc, const char *why,
		       char *err, size_t err_bytes)
{
	char text[OL_CKPT_NAME_MAX];

	ol_ckpt_name_format(name, text);
	/* the folder comes last: it may be long, and the line's end may be cut off */
	snprintf(err, err_bytes, "checkpoint %s: %s: %s%s (folder %s)", text, why,
		 ol_status_str(rc), ol_ckpt_remedy(rc, false), dir);
}

int ol_ckpt_write(const char *dir, const struct ol_ckpt_meta *meta, const void *content,
		  uint32_t keep, char *err, size_t err_bytes)
{
	struct ol_ckpt_name name = ol_ckpt_name_of(meta);
	struct ol_ckpt_folder folder;
	char why[OL_CKPT_WHY_MAX];
	int rc = ol_ckpt_folder_reach(dir, &folder, why);

	if (rc == 0) {
		rc = ol_ckpt_draft(&folder, &name, meta, content, why);
		if (rc == 0)
			rc = ol_ckpt_temporary_end(&folder, &name, meta->owner, keep, 0, why);
		ol_ckpt_folder_close(&folder);
	}
	if (rc != 0)
		ol_ckpt_write_say(dir, &name, rc, why, err, err_bytes);
	return rc;
}
