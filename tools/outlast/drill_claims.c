/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_claims.c -- published claims and their verdicts, as text
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "outlast/drill.h"

void drill_claim_add(struct drill_claim *claim, const char *format, ...)
{
	size_t len = strlen(claim->numbers);
	va_list list;

	va_start(list, format);
	vsnprintf(claim->numbers + len, sizeof(claim->numbers) - len, format, list);
	va_end(list);
}

void drill_decide(struct drill_claim *claim, bool confirmed)
{
	claim->verdict = confirmed ? DRILL_CONFIRMED : DRILL_NOT_CONFIRMED;
}

void drill_cannot(struct drill_claim *claim, const char *format, ...)
{
	va_list list;

	claim->verdict = DRILL_CANNOT_JUDGE;
	va_start(list, format);
	vsnprintf(claim->because, sizeof(claim->because), format, list);
	va_end(list);
}

const char *drill_verdict_str(enum drill_verdict verdict)
{
	switch (verdict) {
	case DRILL_CONFIRMED:
		return "confirmed";
	case DRILL_NOT_CONFIRMED:
		return "not confirmed";
	case DRILL_CANNOT_JUDGE:
		break;
	}
	return "cannot be judged here";
}

/* One line for all that these runs cannot decide; their reasons are in the report as JSON */
static void unjudged_add(const struct drill_claim *claims, size_t count, struct drill_text *text)
{
	size_t named = 0;

	for (size_t i = 0; i < count; i++) {
		if (claims[i].verdict == DRILL_CANNOT_JUDGE)
			drill_add(text, "%s%s",
				  named++ > 0 ? "; " : "\nNot judged from these runs: ",
				  claims[i].id);
	}
	if (named > 0)
		drill_add(text, ". `--json` has the reason of each.\n");
}

bool drill_claims_markdown(const struct drill_claim *claims, size_t count, const char *source,
			   const char *command, struct drill_text *text)
{
	size_t judged = 0;

	drill_add(text,
		  "# Published claims\n\nOf %s. "
		  "The criteria are part of the program and were fixed beforehand.\n\n"
		  "Made by `%s`.\n",
		  source, command);
	for (size_t i = 0; i < count; i++) {
		const struct drill_claim *c = &claims[i];

		if (c->verdict == DRILL_CANNOT_JUDGE)
			continue;
		if (judged++ == 0)
			drill_add(text, "\n| | claim | criterion | numbers | verdict |\n"
					"| --- | --- | --- | --- | --- |\n");
		drill_add(text, "| %s | %s | %s | %s | %s |\n", c->id, c->claim, c->criterion,
			  c->numbers[0] != '\0' ? c->numbers : "-", drill_verdict_str(c->verdict));
	}
	unjudged_add(claims, count, text);
	return !text->failed;
}
