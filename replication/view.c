/* SPDX-License-Identifier: BSD-3-Clause */

/* view.c -- the rules of view.h, and views as text */

#include "replication/view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	SHARDS_MAX = 64, /* of a job */
	MARK_MAX = 16, /* first word of a line, with its end */
};

const char *ol_chain_role_str(enum ol_chain_role role)
{
	switch (role) {
	case OL_CHAIN_NONE:
		return "none";
	case OL_CHAIN_JOINING:
		return "joining";
	case OL_CHAIN_HEAD:
		return "head";
	case OL_CHAIN_MIDDLE:
		return "middle";
	case OL_CHAIN_TAIL:
		return "tail";
	case OL_CHAIN_ONLY:
		return "only";
	}
	return "unknown";
}

bool ol_view_same(const struct ol_view *a, const struct ol_view *b)
{
	if (a->epoch != b->epoch || a->history != b->history || a->origin != b->origin ||
	    a->count != b->count || a->joining != b->joining)
		return false;
	for (uint32_t i = 0; i < a->count + a->joining; i++) {
		if (a->replicas[i].id != b->replicas[i].id)
			return false;
	}
	return true;
}

int ol_view_find(const struct ol_view *view, uint64_t id)
{
	for (uint32_t i = 0; i < view->count + view->joining; i++) {
		if (view->replicas[i].id == id)
			return (int)i;
	}
	return -1;
}

enum ol_chain_role ol_view_role(const struct ol_view *view, uint64_t id)
{
	int at = ol_view_find(view, id);

	if (at < 0)
		return OL_CHAIN_NONE;
	if ((uint32_t)at == view->count)
		return OL_CHAIN_JOINING;
	if (view->count == 1)
		return OL_CHAIN_ONLY;
	if (at == 0)
		return OL_CHAIN_HEAD;
	return (uint32_t)at + 1 == view->count ? OL_CHAIN_TAIL : OL_CHAIN_MIDDLE;
}

const struct ol_member *ol_view_predecessor(const struct ol_view *view, uint64_t id)
{
	int at = ol_view_find(view, id);

	return at > 0 ? &view->replicas[at - 1] : NULL;
}

const struct ol_member *ol_view_successor(const struct ol_view *view, uint64_t id)
{
	int at = ol_view_find(view, id);

	if (at < 0 || (uint32_t)at + 1 >= view->count + view->joining)
		return NULL;
	return &view->replicas[at + 1];
}

static bool ranks_before(const struct ol_member *a, const struct ol_member *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->id < b->id;
}

static bool is_foreign(const struct ol_member *member)
{
	return member->saved_epoch == 0 && member->saved_version == OL_SAVED_FOREIGN;
}

/* Of those who may begin a history, which could lose less */
static bool founds_before(const struct ol_member *a, const struct ol_member *b)
{
	if (is_foreign(a) != is_foreign(b))
		return is_foreign(b);
	if (a->saved_epoch != b->saved_epoch)
		return a->saved_epoch > b->saved_epoch;
	if (a->saved_version != b->saved_version)
		return a->saved_version > b->saved_version;
	return ranks_before(a, b);
}

static bool same_job(const struct ol_member *a, const struct ol_member *b)
{
	return a->job == b->job && ol_member_meets(a, b);
}

static bool is_alive(const struct ol_member *alive, uint32_t alive_count, uint64_t id)
{
	for (uint32_t i = 0; i < alive_count; i++) {
		if (alive[i].id == id)
			return true;
	}
	return false;
}

/* Each replica of a view may become its neighbour */
static bool same_job_as_all(const struct ol_member *member, const struct ol_view *view)
{
	for (uint32_t i = 0; i < view->count; i++) {
		if (!same_job(member, &view->replicas[i]))
			return false;
	}
	return true;
}

/* spare_find -- live member of the view's job that is not in `next`: who is to join it, or to found it; NULL: none */
static const struct ol_member *spare_find(const struct ol_view *view, const struct ol_view *next,
					  const struct ol_member *alive, uint32_t alive_count)
{
	const struct ol_member *best = NULL;

	for (uint32_t i = 0; i < alive_count; i++) {
		if (alive[i].id == 0 || ol_view_find(next, alive[i].id) >= 0 ||
		    (next->count == 0
			     ? !same_job(&alive[i], &view->replicas[0]) || is_foreign(&alive[i])
			     : !same_job_as_all(&alive[i], next)))
			continue;
		if (best == NULL || (next->count == 0 ? founds_before(&alive[i], best)
						      : ranks_before(&alive[i], best)))
			best = &alive[i];
	}
	return best;
}

/* same_job_count -- how many different members are of `one`'s job, itself included */
static uint32_t same_job_count(const struct ol_member *one, const struct ol_member *alive,
			       uint32_t alive_count)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < alive_count; i++) {
		if (alive[i].id != 0 && same_job(&alive[i], one) &&
		    !is_alive(alive, i, alive[i].id))
			count++;
	}
	return count;
}

/* epoch_above -- above the checkpoints in this member's folder, unless these are of `most` or more */
static void epoch_above(struct ol_view *next, const struct ol_member *member, uint32_t most)
{
	if (member->folder_epoch >= next->epoch && member->folder_epoch < most)
		next->epoch = member->folder_epoch + 1;
}

/* epoch_raise -- above the checkpoints of all its members, also of those that wait. Who founds says of itself how far to
 * go; of others a leap is not believed */
static void epoch_raise(struct ol_view *next, const struct ol_member *alive, uint32_t alive_count,
			bool founds)
{
	uint32_t most;

	if (founds)
		epoch_above(next, &next->replicas[0], OL_FOLDER_EPOCH_MAX);
	most = next->epoch + OL_EPOCH_LEAP_MAX;
	if (most > OL_FOLDER_EPOCH_MAX)
		most = OL_FOLDER_EPOCH_MAX;
	for (uint32_t i = 0; i < alive_count; i++) {
		if (alive[i].id != 0 && same_job_as_all(&alive[i], next))
			epoch_above(next, &alive[i], most);
	}
	if (founds)
		next->founded = next->epoch;
}

/* found_first -- rule 1. `wanted` members must be of one job. */
static bool found_first(const struct ol_member *alive, uint32_t alive_count,
			const struct ol_view_rule *rule, struct ol_view *ret_next)
{
	const struct ol_member *best = NULL;

	for (uint32_t i = 0; i < alive_count; i++) {
		if (alive[i].id == 0 ||
		    same_job_count(&alive[i], alive, alive_count) < rule->wanted)
			continue;
		if (best == NULL || founds_before(&alive[i], best))
			best = &alive[i];
	}
	if (best == NULL)
		return false;
	memset(ret_next, 0, sizeof(*ret_next));
	ret_next->epoch = 1;
	ret_next->history = ret_next->origin = best->id;
	ret_next->shard_count = rule->shard_count;
	ret_next->wanted = rule->wanted;
	ret_next->every = rule->every;
	ret_next->count = 1;
	ret_next->replicas[0] = *best;
	epoch_raise(ret_next, alive, alive_count, true);
	return true;
}

/* found_again -- no full replica is alive */
static bool found_again(const struct ol_view *view, const struct ol_member *alive,
			uint32_t alive_count, struct ol_view *next)
{
	const struct ol_member *founder;

	next->count = 0;
	next->joining = 0;
	founder = spare_find(view, next, alive, alive_count);
	if (founder == NULL)
		return false;
	next->epoch++;
	next->history = founder->id;
	next->replicas[0] = *founder;
	next->count = 1;
	epoch_raise(next, alive, alive_count, true);
	return true;
}

bool ol_view_next(const struct ol_view *view, const struct ol_member *alive, uint32_t alive_count,
		  uint64_t caught_up, const struct ol_view_rule *rule, struct ol_view *ret_next)
{
	struct ol_view next;
	const struct ol_member *joining = NULL;
	bool changed;

	if (view->epoch == 0)
		return found_first(alive, alive_count, rule, ret_next);
	memset(&next, 0, sizeof(next));
	next.epoch = view->epoch;
	next.founded = view->founded;
	next.history = view->history;
	next.origin = view->origin;
	next.shard_count = view->shard_count;
	next.wanted = view->wanted;
	next.every = view->every;
	next.order = view->order;
	next.left = view->left;
	for (uint32_t i = 0; i < view->count; i++) {
		if (is_alive(alive, alive_count, view->replicas[i].id))
			next.replicas[next.count++] = view->replicas[i];
	}
	if (next.count == 0) {
		if (!rule->refound || !found_again(view, alive, alive_count, &next))
			return false;
		*ret_next = next;
		return true;
	}
	changed = next.count != view->count;
	if (view->joining != 0) {
		joining = &view->replicas[view->count];
		if (!is_alive(alive, alive_count, joining->id)) {
			joining = NULL;
			changed = true;
		} else if (joining->id == caught_up) {
			next.replicas[next.count++] = *joining;
			joining = NULL;
			changed = true;
		}
	}
	if (joining == NULL && next.count < next.wanted) {
		joining = spare_find(view, &next, alive, alive_count);
		changed = changed || joining != NULL;
	}
	if (joining != NULL) {
		next.replicas[next.count] = *joining;
		next.joining = 1;
	}
	epoch_raise(&next, alive, alive_count, false);
	if (next.epoch == view->epoch) {
		if (!changed)
			return false;
		next.epoch++;
	}
	*ret_next = next;
	return true;
}

/* order_join -- the ordered member behind the tail */
static int order_join(struct ol_view *next, uint64_t id, const struct ol_member *alive,
		      uint32_t alive_count)
{
	const struct ol_member *member = NULL;

	if (ol_view_find(next, id) >= 0)
		return -EALREADY;
	if (next->joining != 0)
		return -EAGAIN;
	if (next->count == OL_REPLICAS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < alive_count; i++) {
		if (alive[i].id == id)
			member = &alive[i];
	}
	if (member == NULL)
		return -ENOENT;
	if (!same_job_as_all(member, next))
		return -EPERM;
	next->replicas[next->count] = *member;
	next->joining = 1;
	return 0;
}

/* order_leave -- the others, in their order */
static int order_leave(struct ol_view *next, uint64_t id, const struct ol_member *alive,
		       uint32_t alive_count)
{
	const uint32_t count = next->count + next->joining;
	int at = ol_view_find(next, id);
	uint32_t left = 0;

	if (at < 0)
		return 0; /* it is gone, and one less is wanted all the same */
	if ((uint32_t)at == next->count)
		next->joining = 0;
	else
		next->count--;
	memmove(&next->replicas[at], &next->replicas[at + 1],
		(count - 1 - (uint32_t)at) * sizeof(next->replicas[0]));
	memset(&next->replicas[count - 1], 0, sizeof(next->replicas[0]));
	for (uint32_t i = 0; i < next->count; i++)
		left += is_alive(alive, alive_count, next->replicas[i].id);
	return left > 0 ? 0 : -EBUSY;
}

int ol_view_ordered(const struct ol_view *view, const struct ol_view_order *order,
		    const struct ol_member *alive, uint32_t alive_count, struct ol_view *ret_next)
{
	struct ol_view next = *view;
	const bool joins = order->join != 0;
	int rc;

	if (view->epoch == 0 || order->number == 0 || joins == (order->leave != 0) ||
	    view->wanted == (joins ? OL_REPLICAS_MAX : 0))
		return -EINVAL;
	next.epoch++;
	next.order = order->number;
	next.wanted = joins ? view->wanted + 1 : view->wanted - 1;
	if (!joins)
		next.left = order->leave;
	rc = joins ? order_join(&next, order->join, alive, alive_count)
		   : order_leave(&next, order->leave, alive, alive_count);
	if (rc != 0)
		return rc;
	if (next.wanted == 0)
		return -EINVAL;
	epoch_raise(&next, alive, alive_count, false);
	*ret_next = next;
	return 0;
}

bool ol_view_follows(const struct ol_view *view, const struct ol_view *next)
{
	return next->origin == view->origin && next->epoch > view->epoch;
}

static size_t line_encode(const char *mark, const struct ol_member *member, char *text,
			  size_t text_bytes)
{
	return (size_t)snprintf(text, text_bytes,
				"%s %016" PRIx64 " %016" PRIx64 " %" PRIu32 " %" PRIu32 " %" PRIu32
				" %" PRIu32 " %" PRIu64 " %" PRIu32 " %.*s\n",
				mark, member->id, member->job, member->proto, member->oldest,
				member->rank, member->saved_epoch, member->saved_version,
				member->folder_epoch, OL_ENDPOINT_MAX - 1, member->addr);
}

size_t ol_member_encode(const struct ol_member *member, char text[OL_MEMBER_TEXT_MAX])
{
	return line_encode("member", member, text, OL_MEMBER_TEXT_MAX);
}

size_t ol_view_encode(const struct ol_view *view, char text[OL_VIEW_TEXT_MAX])
{
	size_t at = (size_t)snprintf(
		text, OL_VIEW_TEXT_MAX,
		"epoch %" PRIu32 "\nfounded %" PRIu32 "\nhistory %016" PRIx64 "\norigin %016" PRIx64
		"\nshards %" PRIu32 "\nwanted %" PRIu32 "\nevery %" PRIu32 "\norder %016" PRIx64
		"\nleft %016" PRIx64 "\n",
		view->epoch, view->founded, view->history, view->origin, view->shard_count,
		view->wanted, view->every, view->order, view->left);

	for (uint32_t i = 0; i < view->count + view->joining; i++)
		at += line_encode(i < view->count ? "full" : "joining", &view->replicas[i],
				  text + at, OL_VIEW_TEXT_MAX - at);
	return at;
}

/* The unread rest of a text */
struct rest {
	const char *at;
	size_t bytes;
};

/* word_take -- read up to and including `end`; false: the word does not fit, or has no such end */
static bool word_take(struct rest *rest, char end, char *word, size_t word_bytes)
{
	const char *stop = memchr(rest->at, end, rest->bytes);
	size_t bytes;

	if (stop == NULL)
		return false;
	bytes = (size_t)(stop - rest->at);
	if (bytes == 0 || bytes >= word_bytes)
		return false;
	memcpy(word, rest->at, bytes);
	word[bytes] = '\0';
	rest->at += bytes + 1;
	rest->bytes -= bytes + 1;
	return true;
}

/* number_take -- read digits; text_is_same() checks their spelling at the end */
static bool number_take(struct rest *rest, char end, unsigned base, uint64_t max,
			uint64_t *ret_value)
{
	static const char digits[] = "0123456789abcdef";
	char word[24];
	uint64_t value = 0;

	if (!word_take(rest, end, word, sizeof(word)))
		return false;
	for (const char *c = word; *c != '\0'; c++) {
		const char *digit = memchr(digits, *c, base);
		uint64_t add;

		if (digit == NULL)
			return false;
		add = (uint64_t)(digit - digits);
		if (value > (max - add) / base)
			return false;
		value = value * base + add;
	}
	*ret_value = value;
	return true;
}

static bool field_take(struct rest *rest, const char *name, uint32_t *ret_value)
{
	char word[MARK_MAX];
	uint64_t value;

	if (!word_take(rest, ' ', word, sizeof(word)) || strcmp(word, name) != 0 ||
	    !number_take(rest, '\n', 10, UINT32_MAX, &value))
		return false;
	*ret_value = (uint32_t)value;
	return true;
}

static bool name_take(struct rest *rest, const char *name, uint64_t *ret_value)
{
	char word[MARK_MAX];

	return word_take(rest, ' ', word, sizeof(word)) && strcmp(word, name) == 0 &&
	       number_take(rest, '\n', 16, UINT64_MAX, ret_value);
}

/* member_take -- read a member: the rest of a line after its first word */
static bool member_take(struct rest *rest, struct ol_member *member)
{
	uint64_t proto, oldest, rank, saved, folder;

	if (!number_take(rest, ' ', 16, UINT64_MAX, &member->id) ||
	    !number_take(rest, ' ', 16, UINT64_MAX, &member->job) ||
	    !number_take(rest, ' ', 10, UINT32_MAX, &proto) ||
	    !number_take(rest, ' ', 10, UINT32_MAX, &oldest) ||
	    !number_take(rest, ' ', 10, UINT32_MAX, &rank) ||
	    !number_take(rest, ' ', 10, UINT32_MAX, &saved) ||
	    !number_take(rest, ' ', 10, UINT64_MAX, &member->saved_version) ||
	    !number_take(rest, ' ', 10, UINT32_MAX, &folder) ||
	    !word_take(rest, '\n', member->addr, sizeof(member->addr)))
		return false;
	member->proto = (uint32_t)proto;
	member->oldest = (uint32_t)oldest;
	member->rank = (uint32_t)rank;
	member->saved_epoch = (uint32_t)saved;
	member->folder_epoch = (uint32_t)folder;
	for (const char *c = member->addr; *c != '\0'; c++) {
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			return false;
	}
	return member->id != 0;
}

/* text_is_same -- true if encode makes exactly this text of the value */
static bool text_is_same(const char *text, size_t bytes, const char *again, size_t again_bytes)
{
	return bytes == again_bytes && memcmp(text, again, bytes) == 0;
}

int ol_member_decode(const char *text, size_t bytes, struct ol_member *ret_member)
{
	struct rest rest = { text, bytes };
	struct ol_member member = { .id = 0 };
	char mark[MARK_MAX], again[OL_MEMBER_TEXT_MAX];

	if (bytes >= OL_MEMBER_TEXT_MAX || !word_take(&rest, ' ', mark, sizeof(mark)) ||
	    strcmp(mark, "member") != 0 || !member_take(&rest, &member) ||
	    !text_is_same(text, bytes, again, ol_member_encode(&member, again)))
		return -EINVAL;
	*ret_member = member;
	return 0;
}

/* replicas_take -- read the lines of replicas, to the end of the text */
static bool replicas_take(struct rest *rest, struct ol_view *view)
{
	struct ol_member member = { .id = 0 };
	char mark[MARK_MAX];

	while (rest->bytes > 0) {
		if (view->joining != 0 || view->count == OL_REPLICAS_MAX ||
		    !word_take(rest, ' ', mark, sizeof(mark)))
			return false;
		memset(&member, 0, sizeof(member));
		if (!member_take(rest, &member) || ol_view_find(view, member.id) >= 0)
			return false;
		view->replicas[view->count] = member;
		if (strcmp(mark, "full") == 0)
			view->count++;
		else if (strcmp(mark, "joining") == 0)
			view->joining = 1;
		else
			return false;
	}
	return view->count > 0;
}

int ol_view_decode(const char *text, size_t bytes, struct ol_view *ret_view)
{
	struct rest rest = { text, bytes };
	struct ol_view view;
	char again[OL_VIEW_TEXT_MAX];

	memset(&view, 0, sizeof(view)); /* so that equal views are equal byte by byte */
	if (bytes >= OL_VIEW_TEXT_MAX || !field_take(&rest, "epoch", &view.epoch) ||
	    !field_take(&rest, "founded", &view.founded) ||
	    !name_take(&rest, "history", &view.history) ||
	    !name_take(&rest, "origin", &view.origin) ||
	    !field_take(&rest, "shards", &view.shard_count) ||
	    !field_take(&rest, "wanted", &view.wanted) ||
	    !field_take(&rest, "every", &view.every) || !name_take(&rest, "order", &view.order) ||
	    !name_take(&rest, "left", &view.left) || !replicas_take(&rest, &view))
		return -EINVAL;
	if (view.epoch == 0 || view.founded == 0 || view.founded > view.epoch ||
	    view.history == 0 || view.origin == 0 || view.shard_count == 0 ||
	    view.shard_count > SHARDS_MAX || view.wanted == 0 || view.wanted > OL_REPLICAS_MAX ||
	    !text_is_same(text, bytes, again, ol_view_encode(&view, again)))
		return -EINVAL;
	*ret_view = view;
	return 0;
}
