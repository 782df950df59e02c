/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * watch.pml -- the steps of a trace that no step of a server is: what workers are told, and what a
 * replica has after a turn
 *
 * In place of worker.pml, whose workers come, push and leave in fewer steps than those of the
 * simulator. The rules are the same: whom a head and a tail let in, whom a worker takes, that it is
 * never given an older version, and reveal() of all that it is shown.
 */

byte told[2];
byte seen_epoch[2];

#define SAME(k, value) (NUMBER(k) == (value))
#define WHO_IS NUMBER(1)

/* chain.h after a turn, but for what means nothing in a role */
#define SAME_STATE(i) (SAME(2, r[i].role) && SAME(3, r[i].ep) && SAME(4, r[i].rcv) && \
	SAME(5, r[i].loaded) && SAME(6, (r[i].loaded -> r[i].app : 0)) && SAME(7, r[i].fwd) && \
	SAME(8, r[i].sack) && SAME(9, (COUNTS(i) -> r[i].com : 0)) && SAME(10, r[i].acked) && \
	SAME(11, (IS_TAIL(i) -> r[i].flo : 0)) && SAME(12, r[i].succ_full) && \
	SAME(13, r[i].succ_held) && SAME(14, r[i].succ_told) && SAME(15, r[i].handoff) && \
	SAME(16, (r[i].in_st == 2)) && SAME(17, (r[i].out_st == 2)))

inline tell_worker(w, version) {
	assert(version >= told[w]);
	told[w] = version
}

proctype Watch() {
end:	do
	:: d_step {
		NUMBER(0) == T_END -> c_code {
			printf("accepted: %d steps\n", trace_count);
			fflush(stdout);
			_exit(0);
		}
	}
	:: d_step {
		NUMBER(0) == T_STATE && r[WHO_IS].alive && SAME_STATE(WHO_IS) ->
			STEP
			skip
	}
	/* a server that is in no view sees one */
	:: d_step {
		NUMBER(0) == T_LOOK && r[WHO_IS].alive && r[WHO_IS].role == R_NONE && !IN_VIEW(WHO_IS) ->
			r[WHO_IS].ep = epoch;
			STEP
			skip
	}
	/* what was ordered is the worker's next push */
	:: d_step {
		NUMBER(0) == T_HAS && r[WHO_IS].log[r[WHO_IS].rcv] == PUSH(NUMBER(2), NUMBER(3)) ->
			STEP
			skip
	}
	/* a worker is let in: to read, to push */
	:: d_step {
		NUMBER(0) == T_READER && SERVES_PULL(WHO_IS) && r[WHO_IS].app == NUMBER(3) ->
			s = WHO_IS;
			r[s].reads[NUMBER(2)] = 1;
			STEP
			reveal(s, r[s].app);
			skip
	}
	:: d_step {
		NUMBER(0) == T_PUSHER && SERVES_PUSH(WHO_IS) ->
			s = WHO_IS;
			other = NUMBER(2);
			applied_of(s, other);
			if
			:: n == NUMBER(3) -> STEP skip
			:: else -> pos = RECORDS - 1 /* where nothing is taken */
			fi
	}
	/* it goes where its view says, and takes who is in that or a later one, and not behind */
	:: d_step {
		NUMBER(0) == T_VISIT ->
			seen_epoch[WHO_IS] = MAX(seen_epoch[WHO_IS], NUMBER(2));
			STEP
			skip
	}
	:: d_step {
		NUMBER(0) == T_HEAD_TAKEN && NUMBER(2) >= seen_epoch[WHO_IS] ->
			seen_epoch[WHO_IS] = NUMBER(2);
			STEP
			skip
	}
	:: d_step {
		NUMBER(0) == T_TAIL_TAKEN && NUMBER(2) >= seen_epoch[WHO_IS] && NUMBER(3) >= told[WHO_IS] ->
			s = WHO_IS;
			seen_epoch[s] = NUMBER(2);
			tell_worker(s, NUMBER(3));
			STEP
			skip
	}
	/* it reads at one that has let it in and is the tail still, as far as that knows */
	:: d_step {
		NUMBER(0) == T_READ && r[WHO_IS].reads[NUMBER(2)] && r[WHO_IS].app == NUMBER(3) ->
			s = WHO_IS;
			other = NUMBER(2);
			tell_worker(other, NUMBER(3));
			STEP
			reveal(s, r[s].app);
			skip
	}
	/* it hears that its push is committed, by whoever committed it */
	:: d_step {
		NUMBER(0) == T_HEARD && NUMBER(2) <= shown ->
			told[WHO_IS] = MAX(told[WHO_IS], NUMBER(2));
			STEP
			skip
	}
	:: d_step {
		NUMBER(0) == T_TELL && IS_TAIL(WHO_IS) && r[WHO_IS].app == NUMBER(2) ->
			STEP
			skip
	}
	od
}
