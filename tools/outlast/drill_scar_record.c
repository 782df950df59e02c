/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_scar_record.c -- what failures cost, trial by trial, for the report
 */
#include <jansson.h>

#include "outlast/drill.h"
#include "outlast/drill_scar.h"

static json_t *list_json(const double *values, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, drill_record_number(values[i]));
	return list;
}

static const char *selection_str(enum ol_selection selection)
{
	switch (selection) {
	case OL_SELECT_FULL:
		return "full";
	case OL_SELECT_PRIORITY:
		return "priority";
	case OL_SELECT_ROUND_ROBIN:
		return "round-robin";
	case OL_SELECT_RANDOM:
		break;
	}
	return "random";
}

static json_t *scheme_json(const struct scar_table *table, size_t scheme)
{
	json_t *costs = json_array();

	for (size_t l = 0; l < SCAR_LOSSES; l++)
		json_array_append_new(costs,
				      table->cost[scheme][l] == NULL
					      ? json_null()
					      : list_json(table->cost[scheme][l], table->trials));
	return json_pack("{s:s, s:i, s:f, s:o}", "selection",
			 selection_str(scar_schemes[scheme].selection), "part",
			 (int)scar_schemes[scheme].part, "bytes", table->share[scheme], "cost",
			 costs);
}

static json_t *table_json(const struct scar_table *table)
{
	json_t *schemes = json_array();

	for (size_t s = 0; s < SCAR_SCHEMES; s++)
		json_array_append_new(schemes, scheme_json(table, s));
	return json_pack("{s:i, s:i, s:i, s:o, s:o}", "period", (int)table->period, "trials",
			 (int)table->trials, "late", (int)table->late, "full",
			 list_json(table->full, table->trials), "schemes", schemes);
}

static json_t *norm_json(const struct scar_norm *norm)
{
	return json_pack("{s:f, s:f, s:f, s:i, s:i}", "lost", norm->lost, "ratio", norm->ratio,
			 "sd", norm->sd, "failures", (int)norm->failures, "longer",
			 (int)norm->longer);
}

static json_t *part_json(const struct scar_part *part)
{
	json_t *tables = json_array(), *norms = json_array();

	for (size_t p = 0; p < part->table_count; p++)
		json_array_append_new(tables, table_json(&part->tables[p]));
	for (size_t l = 0; l < SCAR_LOSSES; l++)
		json_array_append_new(norms, norm_json(&part->norms[l]));
	return json_pack("{s:s, s:s, s:i, s:i, s:f, s:o, s:o}", "problem", part->problem[0].name,
			 "what", part->problem[0].what, "blocks", (int)part->problem[0].block_count,
			 "steps", (int)part->run[0].steps, "target", part->run[0].target, "tables",
			 tables, "norms", norms);
}

static json_t *bounds_json(const struct scar_bounds *bounds)
{
	json_t *pushes = json_array();

	for (size_t k = 0; k < SCAR_PUSHES; k++)
		json_array_append_new(
			pushes, json_pack("{s:s, s:i, s:i, s:i, s:f, s:o}", "name",
					  scar_push_names[k], "count", (int)bounds->count[k],
					  "above", (int)bounds->above[k], "above_measured",
					  (int)bounds->above_measured[k], "worst", bounds->worst[k],
					  "tight", drill_record_number(bounds->tight[k])));
	return json_pack("{s:s, s:i, s:f, s:f, s:o}", "what", bounds->what, "steps",
			 (int)bounds->steps, "rate", bounds->rate, "rate_min", bounds->rate_min,
			 "pushes", pushes);
}

static json_t *live_json(const struct scar_live *live)
{
	return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:o}", "problem", live->name,
			 "recovery", live->full ? "full" : "partial", "kills", (int)live->kills,
			 "unlike", (int)live->unlike, "changed", (int)live->changed, "strange",
			 (int)live->strange, "late", (int)live->late, "cost",
			 list_json(live->cost, live->kills));
}

int scar_record_write(const struct scar_study *study)
{
	json_t *parts = json_array(), *bounds = json_array(), *lives = json_array();

	for (size_t i = 0; i < study->part_count; i++)
		json_array_append_new(parts, part_json(&study->part[i]));
	for (size_t i = 0; i < SCAR_BOUNDS; i++)
		json_array_append_new(bounds, bounds_json(&study->bounds[i]));
	for (size_t i = 0; i < study->live_count; i++)
		json_array_append_new(lives, live_json(&study->live[i]));
	return drill_record_save(study->drill, "scar",
				 json_pack("{s:i, s:o, s:o, s:o, s:o}", "trials",
					   (int)study->trials, "losses",
					   list_json(scar_losses, SCAR_LOSSES), "parts", parts,
					   "bounds", bounds, "live", lives));
}
