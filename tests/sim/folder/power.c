/* SPDX-License-Identifier: BSD-3-Clause */

/* power.c -- names and bytes after a power loss */

#include <stdio.h>
#include <string.h>

#include "sim/folder/folder.h"

enum {
	CHANGES_MAX = 4096, /* then the oldest are durable */
};

struct change {
	struct folder_node *folder;
	char text[FOLDER_NAME_MAX];
	struct folder_node *node;
	bool made;
};

static struct change changes[CHANGES_MAX];
static unsigned change_count;

void folder_power_begin(void)
{
	change_count = 0;
}

void folder_journal(struct folder_node *folder, const char *text, struct folder_node *node,
		    bool made)
{
	struct change *change;

	if (change_count == CHANGES_MAX)
		change_count = 0;
	change = &changes[change_count++];
	*change = (struct change){ .folder = folder, .node = node, .made = made };
	snprintf(change->text, sizeof(change->text), "%s", text);
}

void folder_journal_durable(void)
{
	change_count = 0;
}

static void undo(const struct change *change)
{
	struct folder_entry *entry = folder_find(change->folder, change->text);

	if (!change->made)
		folder_enter(change->folder, change->text, change->node);
	else if (entry != NULL)
		folder_leave(change->folder, entry);
}

/* What was not synced may be there, or not, or in part */
static void bytes_lost(struct folder_node *node)
{
	uint32_t fate = sim_below(3);

	if (fate == 0) {
		memcpy(node->data, node->durable, node->durable_bytes);
		node->bytes = node->durable_bytes;
	} else if (fate == 1 && node->bytes > 0 &&
		   (node->bytes != node->durable_bytes ||
		    memcmp(node->data, node->durable, node->bytes) != 0)) {
		size_t whole = sim_below((uint32_t)node->bytes);

		memset(node->data + whole, 0, node->bytes - whole);
	}
	memcpy(node->durable, node->data, node->bytes);
	node->durable_bytes = node->bytes;
}

static void folder_lost(struct folder_node *folder)
{
	for (struct folder_entry *entry = folder->entries; entry != NULL; entry = entry->next) {
		entry->node->locker = NULL;
		if (entry->node->folder)
			folder_lost(entry->node);
		else
			bytes_lost(entry->node);
	}
}

void folder_power_lost(void)
{
	unsigned stay = sim_below(change_count + 1);

	while (change_count > stay)
		undo(&changes[--change_count]);
	change_count = 0;
	folder_lost(folder_root);
}
