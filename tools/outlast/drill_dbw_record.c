/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_dbw_record.c -- what the virtual clock showed, seed by seed, for the report
 */
#include <jansson.h>

#include "outlast/drill.h"
#include "outlast/drill_dbw.h"

static json_t *list_json(const double *values, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, drill_record_number(values[i]));
	return list;
}

static json_t *cell_json(const struct dbw_study *study, const struct dbw_setting *setting,
			 size_t method)
{
	const struct dbw_cell *cell = &setting->cell[method];
	json_t *times = json_array(), *missed = json_array();
	char name[32];

	dbw_method_name(setting, method, name, sizeof(name));
	for (size_t d = 0; d <= setting->depth; d++) {
		json_array_append_new(times, list_json(cell->time[d], study->trials));
		json_array_append_new(missed, json_integer(cell->missed[d]));
	}
	return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "method", name, "k",
			 method < DBW_STATICS ? (int)dbw_method_k(setting, method) : 0, "time",
			 times, "missed", missed, "k_mean", list_json(cell->k_mean, study->trials),
			 "k_early", list_json(cell->k_early, study->trials), "k_late",
			 list_json(cell->k_late, study->trials), "all_share",
			 list_json(cell->all_share, study->trials));
}

static json_t *setting_json(const struct dbw_study *study, const struct dbw_setting *setting)
{
	static const char *const groups[] = { "grid", "deep", "many" };
	json_t *cells = json_array();

	for (size_t m = 0; m < DBW_METHODS; m++)
		json_array_append_new(cells, cell_json(study, setting, m));
	return json_pack("{s:s, s:i, s:f, s:i, s:f, s:f, s:o}", "group", groups[setting->group],
			 "workers", (int)setting->workers, "alpha", setting->alpha, "batch",
			 (int)setting->batch, "lr", setting->lr, "time_max", setting->time_max,
			 "cells", cells);
}

static json_t *time_json(const struct dbw_time *time)
{
	return json_pack("{s:f, s:i, s:f, s:f, s:f, s:o, s:f}", "alpha", time->alpha, "k",
			 (int)time->k, "psi", time->psi, "psi_exact", time->psi_exact, "psw",
			 time->psw, "psw_known", drill_record_number(time->psw_known), "pull",
			 time->pull);
}

static json_t *slow_json(const struct dbw_study *study, const struct dbw_slow *slow)
{
	size_t n = study->trials;

	return json_pack(
		"{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "alpha", slow->alpha, "k_before",
		list_json(slow->k_before, n), "k_after", list_json(slow->k_after, n), "step_before",
		list_json(slow->step_before, n), "step_after", list_json(slow->step_after, n),
		"all_before", list_json(slow->all_before, n), "all_after",
		list_json(slow->all_after, n), "steps_to_half", list_json(slow->steps_to_half, n));
}

int dbw_record_write(const struct dbw_study *study)
{
	json_t *settings = json_array(), *times = json_array(), *slows = json_array();

	for (size_t i = 0; i < study->setting_count; i++)
		json_array_append_new(settings, setting_json(study, &study->settings[i]));
	for (size_t i = 0; i < study->time_count; i++)
		json_array_append_new(times, time_json(&study->times[i]));
	for (size_t i = 0; i < DBW_SLOWS; i++)
		json_array_append_new(slows, slow_json(study, &study->slows[i]));
	return drill_record_save(
		study->drill, "dbw",
		json_pack("{s:b, s:i, s:i, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:O}", "quick",
			  study->preset == 0, "workers", DBW_N, "seeds", (int)study->trials,
			  "time_steps", (json_int_t)(study->time_steps * 9 / 10), "first_loss",
			  study->problem.first, "least_loss",
			  drill_record_number(study->problem.least), "depths",
			  list_json(dbw_depths, DBW_DEPTHS), "settings", settings, "times", times,
			  "slows", slows, "curve", study->curve));
}
