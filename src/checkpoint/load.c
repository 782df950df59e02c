/* SPDX-License-Identifier: BSD-3-Clause */

/* load.c -- read one file, and use no byte of it before its checksum is checked */

#include "checkpoint/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "store/content.h"
#include "wire/rule.h"
#include "wire/tensor.h"

__attribute__((format(printf, 2, 3))) static int refuse(char *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, OL_CKPT_WHY_MAX, format, args);
	va_end(args);
	return OL_E_NO_CHECKPOINT;
}

int ol_ckpt_unread(int rc)
{
	switch (-rc) {
	case ENOENT:
	case ENODATA:
	case ENXIO:
	case ENODEV:
		return OL_E_NO_CHECKPOINT;
	}
	return rc;
}

int ol_ckpt_read_at(const struct ol_ckpt_file *file, void *bytes, size_t count, uint64_t off)
{
	return file->ops->read_at(file->at, bytes, count, off);
}

int ol_ckpt_load_open(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
		      struct ol_ckpt_file *ret_file, char *why)
{
	char text[OL_CKPT_NAME_MAX];
	int at, rc;

	ol_ckpt_name_format(name, text);
	at = folder->ops->open(folder->at, text);
	if (at == -ELOOP) {
		refuse(why, "it is a link, which is not followed: put the file in its place");
		return at;
	}
	if (at < 0) {
		refuse(why, "it cannot be opened: %s", ol_status_str(at));
		return ol_ckpt_unread(at);
	}
	rc = folder->ops->trust(at, why, OL_CKPT_WHY_MAX);
	if (rc != 0) {
		(void)folder->ops->close(at);
		return rc;
	}
	*ret_file = (struct ol_ckpt_file){ .ops = folder->ops, .at = at };
	return 0;
}

int ol_ckpt_load_raw(const struct ol_ckpt_file *file, struct ol_ckpt_header *ret_header,
		     uint64_t *ret_file_bytes, char *why)
{
	uint64_t bytes;
	int rc = file->ops->size(file->at, &bytes);

	if (rc == -ENODEV)
		return refuse(why, "it is no regular file");
	if (rc != 0) {
		refuse(why, "it cannot be examined: %s", ol_status_str(rc));
		return rc;
	}
	if (bytes < sizeof(*ret_header))
		return refuse(why, "it is truncated: %" PRIu64 " bytes, cut off in its header",
			      bytes);
	rc = ol_ckpt_read_at(file, ret_header, sizeof(*ret_header), 0);
	if (rc != 0) {
		refuse(why, "header: it cannot be read: %s", ol_status_str(rc));
		return ol_ckpt_unread(rc);
	}
	*ret_file_bytes = bytes;
	return 0;
}

int ol_ckpt_load_header(const struct ol_ckpt_file *file, struct ol_ckpt_header *ret_header,
			char *why)
{
	struct ol_ckpt_header header;
	uint64_t file_bytes;
	int rc = ol_ckpt_load_raw(file, &header, &file_bytes, why);

	if (rc != 0)
		return rc;
	if (!ol_ckpt_header_whole(&header, file_bytes, why))
		return OL_E_NO_CHECKPOINT;
	*ret_header = header;
	return 0;
}

static int load_blocks(const struct ol_ckpt_file *file, const struct ol_ckpt_header *header,
		       const uint32_t *table, uint8_t *content, char *why)
{
	uint64_t off = ol_ckpt_content_off(header);

	for (uint32_t i = 0; i < header->block_count; i++) {
		uint8_t *block = content + (uint64_t)i * OL_CKPT_BLOCK_BYTES;
		uint32_t bytes = ol_ckpt_block_bytes(header, i), crc;
		int rc = ol_ckpt_read_at(file, block, bytes,
					 off + (uint64_t)i * OL_CKPT_BLOCK_BYTES);

		if (rc != 0) {
			refuse(why, "block %" PRIu32 " of %" PRIu32 " cannot be read: %s", i,
			       header->block_count, ol_status_str(rc));
			return ol_ckpt_unread(rc);
		}
		crc = ol_ckpt_crc(block, bytes);
		if (crc != table[i])
			return refuse(why,
				      "block %" PRIu32 " of %" PRIu32 ": its checksum is %08" PRIx32
				      ", not %08" PRIx32,
				      i, header->block_count, crc, table[i]);
	}
	return 0;
}

int ol_ckpt_load_content(const struct ol_ckpt_file *file, const struct ol_ckpt_header *header,
			 uint8_t **ret_content, char *why)
{
	uint32_t *table = malloc(header->table_bytes), crc;
	uint8_t *content = malloc(ol_ckpt_padded_bytes(header));
	int rc = -ENOMEM;

	if (table == NULL || content == NULL) {
		refuse(why, "there is no memory for its %" PRIu64 " bytes", header->file_bytes);
		goto out;
	}
	rc = ol_ckpt_read_at(file, table, header->table_bytes, sizeof(*header));
	if (rc != 0) {
		refuse(why, "table of checksums: it cannot be read: %s", ol_status_str(rc));
		rc = ol_ckpt_unread(rc);
		goto out;
	}
	crc = ol_ckpt_crc(table, header->table_bytes);
	if (crc != header->table_crc) {
		rc = refuse(why,
			    "table of checksums: its checksum is %08" PRIx32 ", not %08" PRIx32,
			    crc, header->table_crc);
		goto out;
	}
	rc = load_blocks(file, header, table, content, why);
	if (rc == 0) {
		*ret_content = content;
		content = NULL;
	}
out:
	free(table);
	free(content);
	return rc;
}

bool ol_ckpt_content_sound(const struct ol_geometry *geo, const struct ol_ckpt_meta *meta,
			   const uint8_t *content, char *why)
{
	return !ol_content_fault(geo, content,
				 (struct ol_content_ask){ .nonfinite = meta->nonfinite }, why,
				 OL_CKPT_WHY_MAX);
}

/* A rule of version 0 says nothing */
static bool rule_fits(const struct ol_geometry *from, const uint8_t *content,
		      const struct ol_geometry *to, char *why)
{
	const void *at = content + ol_layout_rule_off(from);
	const struct ol_rule *rule = at;

	if (from->groups == to->groups || rule->version == 0 ||
	    (rule->group_count <= to->groups && rule->group_count <= from->groups))
		return true;
	refuse(why,
	       "its rule has %" PRIu32 " groups, and there is room for %" PRIu32
	       "; raise the limit",
	       rule->group_count, to->groups);
	return false;
}

static void rule_put(const struct ol_geometry *from, const uint8_t *content,
		     const struct ol_geometry *to, uint8_t *ret_content)
{
	const void *at = content + ol_layout_rule_off(from);
	const struct ol_rule *rule = at;
	uint8_t *ret_rule = ret_content + ol_layout_rule_off(to);

	if (from->groups == to->groups) {
		memcpy(ret_rule, rule, ol_layout_rule_bytes(to));
		return;
	}
	memset(ret_rule, 0, ol_layout_rule_bytes(to));
	if (rule->version != 0)
		memcpy(ret_rule, rule, ol_rule_bytes_used(rule));
}

bool ol_ckpt_fit(const struct ol_geometry *from, const uint8_t *content,
		 const struct ol_geometry *to, const char *tensors, uint8_t *ret_content, char *why)
{
	uint64_t from_table = ol_layout_table_bytes(from), to_table = ol_layout_table_bytes(to);
	uint32_t both = from->workers_max < to->workers_max ? from->workers_max : to->workers_max;
	const uint64_t to_rule = ol_layout_rule_off(to);
	size_t kept = sizeof(struct ol_snapshot_head) + both * sizeof(struct ol_applied);
	struct ol_applied applied;

	for (uint32_t i = from->workers_max; i-- > both;) {
		memcpy(&applied, content + sizeof(struct ol_snapshot_head) + i * sizeof(applied),
		       sizeof(applied));
		if (applied.seq != 0 || applied.grads != 0) {
			refuse(why,
			       "it holds gradients of worker %" PRIu32
			       ", and only ids below %" PRIu32
			       " may connect; raise the limit to %" PRIu32,
			       i, to->workers_max, i + 1);
			return false;
		}
	}
	if (from->workers_max == to->workers_max)
		kept = to_rule; /* all of the table, padding too */
	if (!rule_fits(from, content, to, why) ||
	    ol_tensors_differ(from, content, tensors, why, OL_CKPT_WHY_MAX))
		return false;
	rule_put(from, content, to, ret_content);
	ol_tensors_put(to, ret_content, tensors != NULL ? tensors : ol_tensors_of(from, content));
	memcpy(ret_content, content, kept);
	memset(ret_content + kept, 0, to_rule - kept);
	memcpy(ret_content + to_table, content + from_table,
	       ol_layout_content_bytes(from) - from_table);
	return true;
}
