/* SPDX-License-Identifier: BSD-3-Clause */

/* saved.c -- compares checkpoints, full and running, with published versions (check_saved,
 * check_durable) */

#include "sim/world/saved.h"

#include <string.h>

#include "checkpoint/folder.h"
#include "checkpoint/running.h"
#include "checkpoint/write.h"
#include "outlast_policy.h"
#include "server/source.h"
#include "sim/world/check.h"
#include "sim/world/disk.h"
#include "sim/world/mutate.h"
#include "sim/world/wrap.h"

WRAP(int, ol_running_create, const char *dir, const struct ol_ckpt_meta *meta,
     const struct ol_ckpt_running_opts *opts, struct ol_running **ret_running);
WRAP(void, ol_running_take, struct ol_running *running, const void *content, uint64_t version,
     uint32_t epoch, bool whole);
WRAP(void, ol_running_write, struct ol_running *running, struct ol_ckpt_result *result);
WRAP(bool, ol_running_whole, const struct ol_ckpt_header *header, const void *copy, uint64_t bytes,
     uint32_t index);
WRAP(int, ol_ckpt_sync_data, const struct ol_ckpt_file *file);
WRAP(uint32_t, ol_selector_turn, struct ol_selector *selector, const double *distance,
     uint32_t *chosen);
WRAP(int, ol_ckpt_read_running, const char *dir, const struct ol_ckpt_blocks *blocks,
     const struct ol_ckpt_meta *floor, double extrapolate_by, struct ol_ckpt_meta *meta,
     void *content);
WRAP(uint32_t, ol_ckpt_blocks_renew, const struct ol_geometry *geo,
     const struct ol_ckpt_blocks *blocks, uint64_t *block_versions, const void *from,
     uint64_t version, bool with_state, void *content);

enum {
	TURNS_MAX = 256, /* of a host; older ones are forgotten */
	CONTENT_MAX = 1 << 18 /* bytes of a shard's */
};

/* What is saved when a turn is through, of one file */
struct turn {
	uint32_t epoch;
	uint64_t version;
	uint64_t table; /* hashes */
	uint64_t blocks[CLUSTER_BLOCKS_MAX];
	uint64_t versions[CLUSTER_BLOCKS_MAX]; /* that they were taken at */
};

/* Of the server of a host */
static struct place {
	struct turn turns[TURNS_MAX];
	uint32_t count; /* of turns, ever */
	struct ol_ckpt_meta meta;
	struct ol_ckpt_meta found; /* what it was restored from */
	uint64_t first[CLUSTER_BLOCKS_MAX + 1]; /* floats where blocks begin */
	uint32_t block_count;
	bool chosen; /* not all blocks are in this turn … */
	uint32_t which[CLUSTER_BLOCKS_MAX]; /* … but these */
	uint32_t which_count;
	uint32_t syncs; /* of this turn */
} places[SIM_DISKS_MAX];

void saved_begin(void)
{
	for (uint32_t i = 0; i < SIM_DISKS_MAX; i++)
		places[i].count = places[i].block_count = 0;
}

/* Checkpoints beside a strict chain. By numbers that are drawn already */
void saved_draw(struct scenario *scenario)
{
	if (!scenario->chain || scenario->every != 0 || scenario->mirrors ||
	    scenario->parts_floats > 0 || scenario->lease_ms / scenario->heartbeat_ms % 2 == 0)
		return;
	scenario->saved = true;
	scenario->by_each = scenario->pushes % 2 == 0;
	/* a founder that reads for longer than its lease */
	if (scenario->refound && scenario->lease_ms % 3 == 0)
		sim_nature.disk_ns = scenario->lease_ms * SIM_MS;
}

/* By a number that is drawn already */
void saved_deltas_draw(struct scenario *scenario)
{
	scenario->deltas = scenario->running && scenario->pushes % 2 == 0;
}

void saved_blocks_even(struct scenario *scenario)
{
	scenario->block_count = SAVED_BLOCKS_EVEN;
	for (uint32_t i = 0; i < SAVED_BLOCKS_EVEN; i++)
		scenario->blocks[i] = cluster.params / SAVED_BLOCKS_EVEN;
}

static struct place *own(void)
{
	return &places[sim_process_place(sim_process_self())];
}

void saved_on_end(struct server_slot *slot, int rc)
{
	if (rc != OL_E_NO_CHECKPOINT)
		return;
	disk_clear(slot->place);
	slot->anew = true;
}

/* ---- full ones ---- */

void check_saved(const struct ol_ckpt_meta *meta, const void *content)
{
	/* of a chain what is committed is noted, by the epoch in which its history was founded */
	if (!check_published(&meta->geo, cluster.scenario.chain ? meta->founded : meta->epoch,
			     meta->version, content, true))
		sim_fail("check_saved",
			 "shard %u: version %llu of epoch %u never was what is being saved as it",
			 meta->geo.shard, (unsigned long long)meta->version, meta->epoch);
}

/* What was said to be durable is there, or something newer */
static void check_durable(int rc, const struct ol_ckpt_meta *meta, bool excused)
{
	uint64_t version;
	uint32_t epoch;
	bool promised = disk_promised(sim_process_place(sim_process_self()), &epoch, &version);

	if (!promised || excused)
		return;
	if (rc != 0 || meta->epoch < epoch || (meta->epoch == epoch && meta->version < version))
		sim_fail("check_durable",
			 "shard %u: epoch %u, version %llu was durable; found is %d: epoch %u, "
			 "version %llu",
			 meta->geo.shard, epoch, (unsigned long long)version, rc,
			 rc == 0 ? meta->epoch : 0,
			 (unsigned long long)(rc == 0 ? meta->version : 0));
}

void check_loaded(int rc, const struct ol_ckpt_meta *meta, const void *content, bool excused)
{
	if (cluster.scenario.running)
		return; /* there are no full ones */
	if (rc == 0)
		check_saved(meta, content);
	check_durable(rc, meta, excused);
}

/* ---- running ones ---- */

static uint64_t block_hash(const struct ol_geometry *geo, const uint64_t *first, uint32_t index,
			   const void *content)
{
	uint64_t sum = 0;

	for (uint32_t v = 0; v <= geo->state_vectors; v++)
		sum = sum * 31 +
		      check_hash((const uint8_t *)content + ol_layout_table_bytes(geo) +
					 v * ol_layout_vector_bytes(geo) + first[index] * 4,
				 (first[index + 1] - first[index]) * 4);
	return sum;
}

static uint64_t table_hash(const struct ol_geometry *geo, const void *content)
{
	const size_t head = sizeof(struct ol_snapshot_head);

	return check_hash((const uint8_t *)content + head, ol_layout_table_bytes(geo) - head);
}

int __wrap_ol_running_create(const char *dir, const struct ol_ckpt_meta *meta,
			     const struct ol_ckpt_running_opts *opts,
			     struct ol_running **ret_running)
{
	struct place *place;

	if (sim_process_self() == NULL)
		return __real_ol_running_create(dir, meta, opts, ret_running);
	place = own();
	place->meta = *meta;
	place->block_count = opts->blocks->count;
	memcpy(place->first, opts->blocks->first,
	       (place->block_count + 1) * sizeof(place->first[0]));
	return __real_ol_running_create(dir, meta, opts, ret_running);
}

uint32_t __wrap_ol_selector_turn(struct ol_selector *selector, const double *distance,
				 uint32_t *chosen)
{
	uint32_t count = __real_ol_selector_turn(selector, distance, chosen);
	struct place *place;

	if (sim_process_self() == NULL)
		return count;
	place = own();
	place->chosen = true;
	place->which_count = count;
	memcpy(place->which, chosen, count * sizeof(*chosen));
	return count;
}

static void blocks_note(const struct place *place, const void *content, struct turn *turn)
{
	for (uint32_t i = 0; i < (place->chosen ? place->which_count : place->block_count); i++) {
		uint32_t b = place->chosen ? place->which[i] : i;

		turn->blocks[b] = block_hash(&place->meta.geo, place->first, b, content);
		turn->versions[b] = turn->version;
	}
}

/* Of int8 deltas: what the writer says that a reader finds; of a file that is made in a new epoch nothing is older */
static void deltas_note(const struct place *place, const void *saved, bool anew, struct turn *turn)
{
	for (uint32_t b = 0; b < place->block_count; b++) {
		const uint64_t sum = block_hash(&place->meta.geo, place->first, b, saved);

		if (anew || turn->blocks[b] != sum)
			turn->versions[b] = turn->version;
		turn->blocks[b] = sum;
	}
}

void __wrap_ol_running_take(struct ol_running *running, const void *content, uint64_t version,
			    uint32_t epoch, bool whole)
{
	struct place *place;
	struct turn turn;
	bool anew;

	if (sim_process_self() == NULL) {
		__real_ol_running_take(running, content, version, epoch, whole);
		return;
	}
	place = own();
	place->chosen = false;
	place->meta.epoch = epoch;
	place->meta.version = version;
	if (version > 0)
		check_saved(&place->meta, content);
	__real_ol_running_take(running, content, version, epoch, whole);
	if (place->count > 0) /* what is not chosen stays as it was */
		turn = place->turns[(place->count - 1) % TURNS_MAX];
	anew = place->count == 0 || turn.epoch != epoch;
	turn.epoch = epoch;
	turn.version = version;
	turn.table = table_hash(&place->meta.geo, content);
	if (cluster.scenario.deltas)
		deltas_note(place, ol_running_saved(running), anew, &turn);
	else
		blocks_note(place, content, &turn);
	place->turns[place->count++ % TURNS_MAX] = turn;
}

void __wrap_ol_running_write(struct ol_running *running, struct ol_ckpt_result *result)
{
	struct ol_ckpt_name name;
	char text[OL_CKPT_NAME_MAX];
	struct place *place;

	if (sim_process_self() == NULL) {
		__real_ol_running_write(running, result);
		return;
	}
	place = own();
	place->syncs = 0;
	__real_ol_running_write(running, result);
	sim_say("turn of version %llu, %u blocks: %d", (unsigned long long)place->meta.version,
		place->chosen ? place->which_count : place->block_count, result->status);
	if (result->status != 0)
		return;
	name = ol_ckpt_name_of(&place->meta);
	name.running = true;
	name.version = 0;
	ol_ckpt_name_format(&name, text);
	disk_promise(sim_process_place(sim_process_self()), text, place->meta.epoch,
		     place->meta.version);
}

static bool is_turn(const struct turn *turn, const struct ol_ckpt_meta *meta,
		    const struct ol_ckpt_blocks *blocks, const void *content)
{
	if (turn->epoch != meta->epoch || turn->version != meta->version ||
	    turn->table != table_hash(&meta->geo, content))
		return false;
	for (uint32_t b = 0; b < blocks->count; b++) {
		if (turn->blocks[b] != block_hash(&meta->geo, blocks->first, b, content))
			return false;
	}
	return true;
}

/* A file that was damaged gives of each block some copy that is not newer than the table */
static void check_copies(const struct place *place, const struct ol_ckpt_meta *meta,
			 const struct ol_ckpt_blocks *blocks, const void *content)
{
	uint32_t count = place->count < TURNS_MAX ? place->count : TURNS_MAX;
	for (uint32_t b = 0; b < blocks->count; b++) {
		uint64_t sum = block_hash(&meta->geo, blocks->first, b, content);
		bool found = false;

		for (uint32_t i = 0; i < count; i++) {
			found = found || (place->turns[i].epoch == meta->epoch &&
					  place->turns[i].blocks[b] == sum &&
					  place->turns[i].versions[b] <= meta->version);
		}
		if (!found)
			sim_fail("check_saved",
				 "shard %u: block %u of epoch %u never was what is restored as it",
				 meta->geo.shard, b, meta->epoch);
	}
}

/* What was put together is what a turn had saved */
static void check_turn(const struct ol_ckpt_meta *meta, const struct ol_ckpt_blocks *blocks,
		       const void *content, bool excused)
{
	const struct place *place = own();
	uint32_t count = place->count < TURNS_MAX ? place->count : TURNS_MAX;
	bool found = false;

	for (uint32_t i = 0; i < count; i++)
		found = found || is_turn(&place->turns[i], meta, blocks, content);
	if (!found && place->count <= TURNS_MAX) {
		if (!excused)
			sim_fail("check_saved",
				 "shard %u: what is restored as version %llu of epoch %u is what "
				 "no turn had saved",
				 meta->geo.shard, (unsigned long long)meta->version, meta->epoch);
		check_copies(place, meta, blocks, content);
	}
	check_mixed(meta, content);
}

int __wrap_ol_ckpt_read_running(const char *dir, const struct ol_ckpt_blocks *blocks,
				const struct ol_ckpt_meta *floor, double extrapolate_by,
				struct ol_ckpt_meta *meta, void *content)
{
	uint32_t place = sim_process_place(sim_process_self());
	uint64_t failures = disk_read_failures(place) + sim_memory_fails();
	int rc = __real_ol_ckpt_read_running(dir, blocks, floor, extrapolate_by, meta, content);
	/* what fails is said: nothing older is read in its place */
	bool excused = rc != 0 && disk_read_failures(place) + sim_memory_fails() != failures;

	if (!cluster.scenario.running)
		return rc;
	sim_say("running checkpoint of epoch %u, version %llu: %d", meta->epoch,
		(unsigned long long)meta->version, rc);
	if (rc == 0)
		check_turn(meta, blocks, content, disk_damaged(place));
	if (rc == 0)
		own()->found = *meta;
	check_durable(rc, meta, excused);
	return rc;
}

/* Of which version a block is that was restored: of the last turn that had it so */
static uint64_t version_of(const struct place *place, const struct ol_ckpt_blocks *blocks,
			   uint32_t b, const void *content)
{
	const uint64_t sum = block_hash(&place->found.geo, blocks->first, b, content);
	uint64_t newest = 0;

	for (uint32_t i = 0; i < place->count && i < TURNS_MAX; i++) {
		const struct turn *turn = &place->turns[i];

		if (turn->epoch == place->found.epoch && turn->blocks[b] == sum &&
		    turn->versions[b] > newest && turn->versions[b] <= place->found.version)
			newest = turn->versions[b];
	}
	return newest;
}

/* Each block is to be the newer of the checkpoint's and the mirror's, which is of the same history */
uint32_t __wrap_ol_ckpt_blocks_renew(const struct ol_geometry *geo,
				     const struct ol_ckpt_blocks *blocks, uint64_t *block_versions,
				     const void *from, uint64_t version, bool with_state,
				     void *content)
{
	static uint8_t expect[CONTENT_MAX];
	static uint64_t none[CLUSTER_BLOCKS_MAX];
	const uint64_t bytes = ol_layout_content_bytes(geo);
	const struct place *place;
	uint32_t count = 0;

	if (sim_process_self() == NULL || bytes > CONTENT_MAX)
		return __real_ol_ckpt_blocks_renew(geo, blocks, block_versions, from, version,
						   with_state, content);
	place = own();
	sim_say("blocks that are older than version %llu are a mirror's",
		(unsigned long long)version);
	if (version > place->found.version)
		sim_fail("check_saved",
			 "shard %u: a mirror of version %llu lends blocks to a table of %llu",
			 geo->shard, (unsigned long long)version,
			 (unsigned long long)place->found.version);
	if (!check_published(geo, place->found.founded, version, from, with_state))
		sim_fail("check_saved",
			 "shard %u: version %llu of epoch %u never was what a mirror lends",
			 geo->shard, (unsigned long long)version, place->found.founded);
	memcpy(expect, content, bytes);
	for (uint32_t b = 0; b < blocks->count; b++) {
		if (version_of(place, blocks, b, content) >= version)
			continue;
		count++;
		for (uint32_t v = 0; v <= (with_state ? geo->state_vectors : 0); v++) {
			const uint64_t off = ol_running_part_off(geo, blocks, b, v);

			memcpy(expect + off, (const uint8_t *)from + off,
			       ol_ckpt_block_floats(blocks, b) * sizeof(float));
		}
	}
	check_mixed(&place->found, expect);
	if (mutation(MUTATE_LENDS_ALL)) {
		memset(none, 0, sizeof(none));
		block_versions = none;
	}
	(void)__real_ol_ckpt_blocks_renew(geo, blocks, block_versions, from, version, with_state,
					  content);
	return count;
}

/* ---- mutations ---- */

void saved_on_choice(const struct ol_sources *sources, struct ol_source *source)
{
	if (!mutation(MUTATE_LENDS_ANY) || source->session != NULL ||
	    sources->block_versions == NULL)
		return;
	for (uint32_t i = 0; i < sources->sessions->count; i++) {
		struct ol_session *session = &sources->sessions->all[i];

		if (ol_source_is_here(session) && session->table != NULL &&
		    session->hello.mirror.bytes != 0 &&
		    session->hello.mirror_version < source->version)
			source->lends = session;
	}
}

bool __wrap_ol_running_whole(const struct ol_ckpt_header *header, const void *copy, uint64_t bytes,
			     uint32_t index)
{
	struct ol_running_head head;

	memcpy(&head, copy, sizeof(head));
	if (mutation(MUTATE_NO_BLOCK_CRC))
		return head.index == index;
	return __real_ol_running_whole(header, copy, bytes,
				       mutation(MUTATE_NO_PLACE) ? head.index : index);
}

/* The first of a turn makes its blocks durable, the second its table, in front of them */
int __wrap_ol_ckpt_sync_data(const struct ol_ckpt_file *file)
{
	struct place *place;

	if (sim_process_self() == NULL || !mutation(MUTATE_TABLE_FIRST))
		return __real_ol_ckpt_sync_data(file);
	place = own();
	if (place->syncs++ == 0)
		return 0;
	disk_sync_only(file->at,
		       sizeof(struct ol_ckpt_header) +
			       2 * ol_running_stride(sizeof(struct ol_running_head) +
						     ol_layout_table_bytes(&place->meta.geo)));
	return __real_ol_ckpt_sync_data(file);
}

uint64_t saved_sibling(uint32_t at, uint64_t off)
{
	const struct place *place = &places[at];
	const struct ol_geometry *geo = &place->meta.geo;
	uint64_t bytes = sizeof(struct ol_running_head) + ol_layout_table_bytes(geo);
	uint64_t pair = sizeof(struct ol_ckpt_header);

	for (uint32_t b = 0; place->block_count > 0 && b <= place->block_count; b++) {
		uint64_t stride = ol_running_stride(bytes);

		if (off >= pair && off < pair + 2 * stride)
			return off < pair + stride ? off + stride : off - stride;
		pair += 2 * stride;
		bytes = sizeof(struct ol_running_head) +
			(place->first[b + 1] - place->first[b]) * 4 * (1 + geo->state_vectors);
	}
	return 0;
}
