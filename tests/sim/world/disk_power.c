/* SPDX-License-Identifier: BSD-3-Clause */

/* disk_power.c -- a disk's names, power losses, and writes that are damaged or misplaced */

#include <stdio.h>
#include <string.h>

#include "sim/world/disk_inside.h"

struct disk *disk_of(uint32_t place)
{
	return &disks.of[disks.homes[place] != 0 ? disks.homes[place] : place];
}

/* ---- names ---- */

struct name *disk_find(struct names *names, const char *text)
{
	for (unsigned i = 0; i < names->count; i++) {
		if (strcmp(names->at[i].text, text) == 0)
			return &names->at[i];
	}
	return NULL;
}

static void name_put(struct names *names, const char *text, struct inode *inode)
{
	struct name *name = disk_find(names, text);

	if (name == NULL) {
		if (names->count == NAMES_MAX) {
			sim_fail("check_bounded", "a folder has more than %d files", NAMES_MAX);
			return;
		}
		name = &names->at[names->count++];
		snprintf(name->text, sizeof(name->text), "%s", text);
	}
	name->inode = inode;
}

static void name_drop(struct names *names, const char *text)
{
	struct name *name = disk_find(names, text);

	if (name != NULL)
		*name = names->at[--names->count];
}

void disk_change(struct names *names, const struct change *change)
{
	switch (change->kind) {
	case CHANGE_MADE:
		name_put(names, change->name.text, change->name.inode);
		break;
	case CHANGE_GONE:
		name_drop(names, change->name.text);
		break;
	case CHANGE_RENAMED:
		name_drop(names, change->name.text);
		name_put(names, change->to, change->name.inode);
		break;
	}
}

/* ---- power ---- */

/* In runs of any length, or by pages, each with what was durable or what was written since */
static void inode_tear(struct inode *inode)
{
	size_t most = inode->bytes > inode->durable_bytes ? inode->bytes : inode->durable_bytes;
	size_t at = 0;
	bool pages;

	if (inode->bytes == inode->durable_bytes &&
	    (inode->bytes == 0 || memcmp(inode->data, inode->durable, inode->bytes) == 0))
		return;
	disks.torn++;
	pages = sim_nature.disk_page_ppm > 0 && sim_ppm(sim_nature.disk_page_ppm);
	for (bool take = sim_ppm(500000); at < most; take = pages ? sim_ppm(500000) : !take) {
		size_t run = pages             ? PAGE_BYTES
			     : sim_ppm(500000) ? sim_between(1, 16)
					       : sim_between(1, most);

		for (; run > 0 && at < most; run--, at++) {
			if (!take)
				inode->data[at] =
					at < inode->durable_bytes ? inode->durable[at] : 0;
		}
	}
	if (sim_ppm(500000))
		inode->bytes = sim_between(inode->durable_bytes, most);
}

void disk_settle(struct inode *inode)
{
	memcpy(inode->durable, inode->data, inode->bytes);
	inode->durable_bytes = inode->bytes;
}

static void names_lose(struct disk *disk)
{
	bool in_order = sim_ppm(500000); /* as a journal would have it */
	unsigned keep = sim_below(disk->change_count + 1);

	for (unsigned i = 0; i < disk->change_count; i++) {
		if (in_order ? i < keep : sim_ppm(500000))
			disk_change(&disk->durable, &disk->changes[i]);
		else
			disks.undone++;
	}
	disk->change_count = 0;
	disk->names = disk->durable;
	if (!disk->folder_durable && sim_ppm(500000)) {
		disk->folder = false;
		disk->names.count = disk->durable.count = 0;
	}
	disk->folder_durable = disk->folder;
}

/* It is not what was written: what is promised is the newest of the others */
void disk_damage(struct disk *disk, struct inode *inode)
{
	inode->damaged = true;
	disk->promised = false;
	for (unsigned i = 0; i < disk->names.count; i++) {
		const struct inode *other = disk->names.at[i].inode;

		if (!other->promised || other->damaged ||
		    (disk->promised &&
		     (other->epoch < disk->epoch ||
		      (other->epoch == disk->epoch && other->version < disk->version))))
			continue;
		disk->promised = true;
		disk->epoch = other->epoch;
		disk->version = other->version;
	}
}

/* Years later, so to speak: a file is not what it was */
static void rot(struct disk *disk)
{
	struct inode *inode;
	size_t at;

	if (disk->names.count == 0)
		return;
	inode = disk->names.at[sim_below(disk->names.count)].inode;
	if (inode->bytes == 0)
		return;
	at = sim_below((uint32_t)inode->bytes);
	for (unsigned i = 0; i < ROT_TRIES && inode->data[at] == 0; i++)
		at = sim_below((uint32_t)inode->bytes); /* most of it are zeros behind something */
	if (sim_ppm(300000))
		inode->bytes = at;
	else
		inode->data[at] ^= (uint8_t)(1u << sim_below(8));
	disks.damaged++;
	disk_settle(inode);
	disk_damage(disk, inode);
}

void disk_power_lost(uint32_t place)
{
	struct disk *disk = disk_of(place);

	if (!disk->folder || disks.homes[place] != 0) /* it is another host's */
		return;
	names_lose(disk);
	for (unsigned i = 0; i < disk->names.count; i++) {
		inode_tear(disk->names.at[i].inode);
		disk_settle(disk->names.at[i].inode);
	}
	if (sim_ppm(sim_nature.disk_rot_ppm))
		rot(disk);
	if (!sim_tracing())
		return;
	for (unsigned i = 0; i < disk->names.count; i++)
		sim_say("host %u has %s, %zu bytes%s", place, disk->names.at[i].text,
			disk->names.at[i].inode->bytes,
			disk->names.at[i].inode->damaged ? ", damaged" : "");
}

/* ---- writes that do not arrive ---- */

/* True: the disk says that it is written. It is not, or it is where something else belongs. */
bool disk_misplaces(struct inode *inode, const void *bytes, size_t count, size_t at)
{
	struct disk *disk = disk_of(sim_process_place(sim_process_self()));
	unsigned spots = disk->spot_count < SPOTS_MAX ? disk->spot_count : SPOTS_MAX;
	struct spot other = { inode, at, count };

	if (sim_nature.disk_astray_ppm != 0 || sim_nature.disk_lost_ppm != 0) {
		/* mostly where something of the same length was written */
		for (unsigned i = 0; i < SPOT_TRIES && spots > 0; i++) {
			other = disk->spots[sim_below(spots)];
			if (other.count == count && other.at != at)
				break;
		}
		disk->spots[disk->spot_count++ % SPOTS_MAX] = (struct spot){ inode, at, count };
	}
	if (sim_ppm(sim_nature.disk_lost_ppm)) {
		disks.lost++;
	} else if ((other.inode != inode || other.at != at) &&
		   other.at + count <= other.inode->bytes && sim_ppm(sim_nature.disk_astray_ppm)) {
		disks.astray++;
		sim_say("what was written at %zu goes to %zu of %s file", at, other.at,
			other.inode == inode ? "this" : "another");
		memcpy(other.inode->data + other.at, bytes, count);
		if (sim_ppm(500000) && other.inode->durable_bytes >= other.at + count)
			memcpy(other.inode->durable + other.at, bytes, count);
		disk_damage(disk, other.inode);
	} else {
		return false;
	}
	disk_damage(disk, inode);
	return true;
}
