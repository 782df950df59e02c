/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * local_file.h -- views and members as the directory back end writes them into files
 *
 *	outlast-view 1            outlast-member 1
 *	version 3                 member 00000000000000a1 … (ol_member_encode())
 *	epoch 3                   crc32c 01234567
 *	… (ol_view_encode())
 *	crc32c 89abcdef
 *
 * The checksum covers every byte before its own line. A file is accepted only if it is exactly the
 * text that encode writes for its value.
 */
#ifndef OL_REPLICATION_COORD_LOCAL_LOCAL_FILE_H
#define OL_REPLICATION_COORD_LOCAL_LOCAL_FILE_H

#include "replication/view.h"

enum {
	OL_LOCAL_TEXT_MAX = OL_VIEW_TEXT_MAX + 128, /* of a file */
};

/* encode: the length; decode: 0, or -EBADMSG: torn, damaged, of another version or id, or no such
 * file */
size_t ol_local_view_encode(uint64_t version, const struct ol_view *view,
			    char text[OL_LOCAL_TEXT_MAX]);
int ol_local_view_decode(const char *text, size_t bytes, uint64_t version,
			 struct ol_view *ret_view);
size_t ol_local_member_encode(const struct ol_member *member, char text[OL_LOCAL_TEXT_MAX]);
int ol_local_member_decode(const char *text, size_t bytes, uint64_t id,
			   struct ol_member *ret_member);

#endif /* OL_REPLICATION_COORD_LOCAL_LOCAL_FILE_H */
