/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * owner.h -- whose checkpoints of a shard those in a folder are: the last server's that started
 *
 * A server that stood still may wake up in the middle of a write, with another in its place, and
 * even of its own epoch: nothing was on disk yet from which the other could have told. So each that
 * starts puts a file of its own in the place of the lock file. Names change, and files go, only
 * under the lock of one's own file, and only while that is the one in place. The kernel releases
 * the lock of a process that dies.
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
 * ol_ckpt_owner_take -- checkpoints of this shard, job and kind are this process's from now on
 *
 * Blocks: while another is in the middle of changing names, for a while. Errors: -EBUSY (it stands
 * still there), -errno of the folder
 */
int ol_ckpt_owner_take(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *kind,
		       struct ol_ckpt_owner *ret_owner);
void ol_ckpt_owner_drop(struct ol_ckpt_owner *owner);

/*
 * ol_ckpt_owner_enter -- change names now, until ol_ckpt_owner_leave(); owner NULL: there is nobody
 * else. OL_E_FENCED: another has started since, and nothing may be touched
 */
int ol_ckpt_owner_enter(const struct ol_ckpt_owner *owner, const struct ol_ckpt_folder *folder);
void ol_ckpt_owner_leave(const struct ol_ckpt_owner *owner);

#endif /* OL_CHECKPOINT_OWNER_H */
