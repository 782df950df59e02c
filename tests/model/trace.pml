/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * trace.pml -- what a run of the simulator did, as steps that the model may take and no others
 *
 * `sim-chain --model` writes a line a step: a word, a server, numbers. Each step of the model that
 * has such a word is only taken where the trace has it next (AS_TRACED, STEP). What the workers do
 * is in watch.pml. The bounds are those of the run, not of a search: nothing is left to choose.
 */

#define SERVERS 7
#define FULL 1
#define P0 15
#define P1 15
#define FAULTS 255
#define STEPS
#define REJOIN
#define SLOTS slots
#define WANTED wanted
#define VERSION_BITS 6
#define EPOCH_BITS 7

#define RECORDS 1500 /* of a trace, at most; those that are not there are of kind 0 */
#define NUMBERS 20 /* of a record: its word, its server, what it says */

#define T_ADOPT 1
#define T_LOOK 2
#define T_DIAL 3
#define T_HELLO 4
#define T_LOAD 5
#define T_ENTRY 6
#define T_PRED_GONE 7
#define T_WELCOME 8
#define T_ACKED 9
#define T_SUCC_GONE 10
#define T_FORWARD 11
#define T_APPLY 12
#define T_ACK 13
#define T_PROPOSE 14
#define T_ORDER_0 15
#define T_ORDER_1 16
#define T_REMOVE 17
#define T_JOIN 18
#define T_PROMOTE 19
#define T_DIE 20
#define T_BREAK 21
/* watch.pml */
#define T_STATE 22
#define T_READER 23
#define T_PUSHER 24
#define T_VISIT 25
#define T_HEAD_TAKEN 26
#define T_TAIL_TAKEN 27
#define T_READ 28
#define T_HEARD 29
#define T_TELL 30
#define T_HAS 31
#define T_END 32

hidden byte slots;
hidden byte wanted;
hidden byte record[30000]; /* RECORDS * NUMBERS */
short pos;

#define NUMBER(k) record[pos * NUMBERS + (k)]
#define AS_TRACED(kind, i) (NUMBER(0) == kind && NUMBER(1) == (i)) &&
#define STEP pos++; c_code { far_as(now.pos); };

c_decl {
	\#include <stdio.h>
	\#include <stdlib.h>
	\#include <string.h>

	/* Words by number; a record's numbers follow */
	static const char *const trace_words[] = {
		"", "adopt", "look", "dial", "hello", "load", "entry", "pred-gone", "welcome",
		"acked", "succ-gone", "forward", "apply", "ack", "propose", "order-0", "order-1",
		"remove", "join", "promote", "die", "break", "state", "reader", "pusher", "visit",
		"head-taken", "tail-taken", "read", "heard", "tell", "has", "end"
	};
	static char trace_lines[1501][160];
	static int trace_count, trace_far;

	static void far_as(int at)
	{
		if (at > trace_far)
			trace_far = at;
	}

	/* When the search is over and nothing was accepted */
	static void trace_refused(void)
	{
		int first = trace_far > 12 ? trace_far - 12 : 0;

		printf("refused: step %d of %d\n", trace_far + 1, trace_count);
		for (int i = first; i <= trace_far && i < trace_count; i++)
			printf("%s%s", i == trace_far ? "refused: " : "trace: ", trace_lines[i]);
		fflush(stdout);
	}
}

inline read_trace() {
	c_code {
		const char *name = getenv("OL_TRACE");
		FILE *file = name != NULL ? fopen(name, "r") : NULL;
		unsigned first[2];
		char *at;
		char word[32];
		int used;

		if (file == NULL || fgets(trace_lines[0], 160, file) == NULL ||
		    sscanf(trace_lines[0], "begin %u %u", &first[0], &first[1]) != 2) {
			printf("no trace\n");
			exit(2);
		}
		slots = first[0];
		wanted = first[1];
		while (trace_count < 1499 && fgets(trace_lines[trace_count], 160, file) != NULL) {
			unsigned kind = 0;
			unsigned number;

			at = trace_lines[trace_count];
			if (sscanf(at, "%31s%n", word, &used) != 1)
				break;
			while (kind < sizeof(trace_words) / sizeof(trace_words[0]) &&
			       strcmp(trace_words[kind], word) != 0)
				kind++;
			record[trace_count * 20] = kind;
			for (int i = 1; i < 20 && sscanf(at += used, "%u%n", &number, &used) == 1; i++)
				record[trace_count * 20 + i] = number;
			trace_count++;
		}
		fclose(file);
		atexit(trace_refused);
	}
}
