/* SPDX-License-Identifier: BSD-3-Clause */

/* worker.pml -- what a worker does: src/worker/route.c, link.c and keep.c */

/* link_route(): who keeps its part keeps its connection; any other is left */
inline route(w) {
	yes = (count == 1);
	if
	:: wk[w].head != view[0] || wk[w].both != yes ->
		leave_head(w);
		wk[w].head = view[0];
		wk[w].hsince = epoch
	:: else
	fi;
	if
	:: yes || wk[w].both || wk[w].tail != view[count - 1] ->
		drop_tail(w);
		wk[w].tail = (yes -> NONE : view[count - 1]);
		wk[w].tsince = (yes -> 0 : epoch)
	:: else
	fi;
	wk[w].both = yes;
	wk[w].ep = epoch
}

/* Entry of push number n in what was shown */
inline version_of(w) {
	k = 1;
	do
	:: k < shown && history[k] != PUSH(w, n) -> k++
	:: else -> break
	od
}

/* Worker 1 is gone: nothing of it but what is in its slots matters any more */
inline leave(w) {
	leave_head(w);
	drop_tail(w);
	wk[w].ackhi = 0;
	wk[w].both = 0;
	wk[w].head = NONE;
	wk[w].tail = NONE;
	wk[w].hsince = 0;
	wk[w].tsince = 0;
	wk[w].ep = 0
}

#define READER_LIVE(w) (wk[w].both -> wk[w].hst : wk[w].tst)
#define READS_AT(w) (wk[w].both -> wk[w].head : wk[w].tail)

proctype Client(byte w) {
end:	do
	:: d_step {
		wk[w].ep < epoch && !LEFT_FOR_GOOD(w) ->
			printf("worker %d: sees epoch %d\n", w, epoch);
			route(w)
	}

	:: d_step {
		LEFT_FOR_GOOD(w) && wk[w].ep != 0 ->
			printf("worker %d: leaves\n", w);
			leave(w)
	}

	/* an ack */
	:: d_step {
		READER_LIVE(w) != 0 && wk[w].done < wk[w].ackhi ->
			n = wk[w].done + 1;
			printf("worker %d: push %d is acknowledged\n", w, n);
			version_of(w);
			wk[w].done = n;
			k = MAX(wk[w].told, k);
			tell(w, k);
			if
			:: wk[w].done == wk[w].ackhi && wk[w].hst == 2 -> drop_head(w)
			:: else
			fi;
			if
			:: wk[w].done == wk[w].ackhi && wk[w].tst == 2 -> drop_tail(w)
			:: else
			fi;
			skip
	}

	/* weights are read, without asking */
	:: d_step {
		w == 0 && READER_LIVE(w) == 1 && r[READS_AT(w)].app != wk[w].told ->
			s = READS_AT(w);
			printf("worker %d: reads version %d of server %d\n", w, r[s].app, s);
			tell(w, r[s].app);
			reveal(s, r[s].app);
			skip
	}

	/* a connection that is gone is heard of, and what was on its way is lost */
	:: d_step {
		wk[w].hst == 2 ->
			printf("worker %d: head %d is gone\n", w, wk[w].head);
			drop_head(w);
			skip
	}
	:: d_step {
		wk[w].tst == 2 ->
			printf("worker %d: tail %d is gone\n", w, wk[w].tail);
			drop_tail(w);
			skip
	}
	od
}
