/* SPDX-License-Identifier: BSD-3-Clause */

/* owner.c -- who owns a shard's checkpoints in a folder */

#include "checkpoint/owner.h"

int ol_ckpt_owner_take(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *kind,
		       struct ol_ckpt_owner *ret_owner)
{
	struct ol_ckpt_owner owner = { .ops = folder->ops };

	ol_ckpt_name_lock(kind, owner.text);
	owner.lock = folder->ops->take(folder->at, owner.text);
	if (owner.lock < 0)
		return owner.lock;
	*ret_owner = owner;
	return 0;
}

void ol_ckpt_owner_drop(struct ol_ckpt_owner *owner)
{
	if (owner->lock >= 0)
		(void)owner->ops->close(owner->lock);
	owner->lock = -1;
}

int ol_ckpt_owner_enter(const struct ol_ckpt_owner *owner, const struct ol_ckpt_folder *folder)
{
	return owner != NULL ? owner->ops->enter(folder->at, owner->text, owner->lock) : 0;
}

void ol_ckpt_owner_leave(const struct ol_ckpt_owner *owner)
{
	if (owner != NULL)
		owner->ops->leave(owner->lock);
}
