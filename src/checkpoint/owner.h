/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * owner.h -- the owner of a shard's checkpoints in a folder: the server that started last
 *
 * A server that stood still may wake up in the middle of a write when another has taken its place,
 * even with the same epoch, if nothing was on disk yet. So each server that starts replaces the lock
 * file by a file of its own. It renames and removes files only under the lock of its own file, and
 * only while that is in place. The kernel releases the lock of a process that dies.
 */
#ifndef OL_CHECKPOINT_OWNER_H
#define OL_CHECKPOINT_OWNER_H

#include "checkpoint/backend.h"
#include "checkpoint/name.h"

struct ol_ckpt_owner {
	const struct ol_ckpt_backend *ops;
	int lock; /* -1: none */
	char text[OL_CKPT_NAME_MAX]; /* name of the place */
};

/*
 * ol_ckpt_owner_take -- make this process the owner of checkpoints of this shard, job and kind
 *
 * Blocks: for a while, if another is just changing names. Errors: -EBUSY (that one stands still),
 * -errno of the folder
 */
int ol_ckpt_owner_take(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *kind,
		       struct ol_ckpt_owner *ret_owner);
void ol_ckpt_owner_drop(struct ol_ckpt_owner *owner);

/*
 * ol_ckpt_owner_enter -- names may be changed until ol_ckpt_owner_leave(); owner NULL: always.
 * OL_E_FENCED: another server has started since, and no file may be touched
 */
int ol_ckpt_owner_enter(const struct ol_ckpt_owner *owner, const struct ol_ckpt_folder *folder);
void ol_ckpt_owner_leave(const struct ol_ckpt_owner *owner);

#endif /* OL_CHECKPOINT_OWNER_H */
