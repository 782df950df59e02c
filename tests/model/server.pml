/* SPDX-License-Identifier: BSD-3-Clause */

/* server.pml -- what a server does: replication/chain.c, and src/server as far as it matters */

/* Versions never go back. Of worker 0 alone: nothing happens to the other that could not to it. */
inline tell(w, version) {
	if
	:: w == 0 ->
		assert(version >= wk[w].told);
		wk[w].told = version
	:: else
	fi
}

/* ---- links between replicas ---- */

/* What nobody can ask for any more must not tell states apart */
inline purge(i) {
	yes = r[i].alive || IN_VIEW(i);
	n = 0;
	do
	:: n < SERVERS ->
		yes = yes || (r[n].in_st != 0 && r[n].in_from == i);
#ifdef NO_FENCE
		yes = yes || r[n].old_from == i;
#endif
		n++
	:: else -> break
	od;
	if
	:: !yes && i < SERVERS ->
		r[i].rcv = 0;
		k = 1;
		do
		:: k <= V -> r[i].log[k] = 0; k++
		:: else -> break
		od
	:: else
	fi
}

/* The session of the predecessor ends at this side: nothing more lands */
inline end_in(i) {
	if
	:: r[i].in_st != 0 ->
		if
		:: r[i].in_att -> at = r[i].in_from; detach_out(at)
		:: else
		fi;
		r[i].in_st = 0;
		r[i].in_att = 0;
		at = r[i].in_from;
		r[i].in_from = NONE;
		r[i].in_ep = 0;
		r[i].in_content = 0;
		r[i].in_hi = 0;
		r[i].loading = 0;
		purge(at)
	:: else
	fi
}

/* What ends with the connection to the successor */
inline forget_out(i) {
	r[i].out_st = 0;
	r[i].out_att = 0;
	r[i].out_wel = 0;
	r[i].out_ack = 0
}

/* ol_chain_on_successor_down() */
inline out_down(i) {
	forget_out(i);
	r[i].succ_told = 0;
#ifdef HANDOFF_BY_LINK
	r[i].handoff = 0;
#endif
	if
	:: !r[i].handoff -> r[i].succ_held = 0
	:: else
	fi
}

/* The successor's end is gone. If nothing is on its way that is all there is to hear. */
inline detach_out(i) {
	r[i].out_att = 0;
#ifndef STEPS
	if
	:: r[i].out_wel == 0 && r[i].out_ack == 0 -> out_down(i)
	:: else
	fi
#endif
}

/* So is the predecessor's */
inline detach_in(i) {
	r[i].in_att = 0;
#ifndef STEPS
	if
	:: r[i].in_hi == r[i].rcv -> end_in(i)
	:: else
	fi
#endif
}

/* The connection to the successor ends at this side; what was written on it may still land there */
inline end_out(i) {
	if
	:: r[i].out_att ->
		s = r[i].succ;
#ifdef NO_FENCE
		if
		:: r[s].in_from == i -> detach_in(s)
		:: else
		fi
#else
		detach_in(s)
#endif
	:: else
	fi;
	forget_out(i)
}

/* ---- workers' connections ---- */

inline drop_head(w) {
	wk[w].hst = 0;
	if
	:: wk[w].both -> wk[w].ackhi = 0
	:: else
	fi
}

inline drop_tail(w) {
	wk[w].tst = 0;
	if
	:: !wk[w].both -> wk[w].ackhi = 0
	:: else
	fi
}

/* A worker leaves. What it has pushed is in its slots, and the server hears later that it is gone. */
inline leave_head(w) {
	if
	:: wk[w].hst == 1 && r[wk[w].head].last[w] == PUSHES(w) ->
		r[wk[w].head].push[w] = 0;
		r[wk[w].head].last[w] = 0
	:: else
	fi;
	drop_head(w)
}

/* Server i ends its sessions of worker w. If nothing is on its way that is all there is to hear. */
inline end_sessions(i, w) {
#ifdef TRACE
	r[i].reads[w] = 0;
#endif
	r[i].push[w] = 0;
	r[i].last[w] = 0;
	if
	:: AT_HEAD(w, i) ->
		if
		:: !wk[w].both || wk[w].ackhi == wk[w].done -> drop_head(w)
		:: else -> wk[w].hst = 2
		fi
	:: else
	fi;
	if
	:: AT_TAIL(w, i) ->
		if
		:: wk[w].ackhi == wk[w].done -> drop_tail(w)
		:: else -> wk[w].tst = 2
		fi
	:: else
	fi
}

/* ---- the tail tells workers ---- */

inline commit(i) {
	at = WHO(r[i].log[r[i].app]);
	n = SEQ(r[i].log[r[i].app]);
	if
	:: r[i].role == R_ONLY && r[i].push[at] ->
		if
		:: AT_HEAD(at, i) && wk[at].both -> assert(wk[at].ackhi == n - 1); wk[at].ackhi = n
		:: else /* or has gone by a view in which another is the tail, which tells it */
		fi
	:: else ->
		if
		:: AT_TAIL(at, i) -> assert(wk[at].ackhi == n - 1); wk[at].ackhi = n
		:: else /* its next welcome tells it */
		fi
	fi
}

/* Newest push of worker w in the weights: ol_store_applied(), in `n` */
inline applied_of(i, w) {
	n = 0;
	k = 1;
#ifdef FORGET_APPLIED
	k = r[i].base + 1;
#endif
	do
	:: k <= r[i].app ->
		if
		:: WHO(r[i].log[k]) == w -> n = SEQ(r[i].log[k])
		:: else
		fi;
		k++
	:: else -> break
	od
}

/* ---- what a replica does by itself ---- */

/* Into the successor's ring; never over what that still needs */
inline forward_one(i) {
	r[i].fwd++;
	printf("server %d: forwards %d to %d\n", i, r[i].fwd, r[i].succ);
	s = r[i].succ;
	assert(r[i].fwd + SLOTS > r[i].rcv);
	if
	:: !r[i].out_att /* the other end is gone: nobody gets it */
	:: r[i].out_att && r[s].in_st == 2 && r[s].in_from == i ->
		assert(r[i].fwd <= FREED(s) + SLOTS);
		r[s].in_hi = r[i].fwd
	:: else ->
#ifdef NO_FENCE
		r[s].old_hi = r[i].fwd
#else
		assert(false)
#endif
	fi
}

/* The tail commits by it */
inline apply_one(i) {
	r[i].app++;
	printf("server %d: applies %d, push %d\n", i, r[i].app, r[i].log[r[i].app]);
	if
	:: IS_TAIL(i) ->
		r[i].com = MAX(r[i].com, r[i].app);
		commit(i);
		reveal(i, r[i].app)
	:: else
	fi
}

inline ack_one(i) {
	r[i].acked = MAX(FREED(i), r[i].acked);
	printf("server %d: acknowledges %d to %d\n", i, r[i].acked, r[i].in_from);
	if
	:: r[i].in_att -> r[r[i].in_from].out_ack = r[i].acked + 1
	:: else
	fi;
	r[i].ack_due = 0
}

#define CAN_FORWARD(i) (r[i].out_st == 2 && r[i].fwd < r[i].rcv)
#define CAN_APPLY(i) (r[i].loaded && r[i].role != R_NONE && r[i].app < APPLY_LIMIT(i))
#define CAN_ACK(i) (r[i].in_st == 2 && r[i].loaded && \
	(r[i].ack_due || FREED(i) > r[i].acked))

/* what ol_chain_next_action() asks for */
inline progress(i) {
#ifndef NO_HANDOFF
	if
	:: IS_TAIL(i) && r[i].out_st == 2 && r[i].succ_told -> r[i].handoff = 1
	:: else
	fi;
#endif
#ifndef STEPS
	do
	:: CAN_FORWARD(i) -> forward_one(i)
	:: else -> break
	od;
	do
	:: CAN_APPLY(i) -> apply_one(i)
	:: else -> break
	od;
	if
	:: CAN_ACK(i) -> ack_one(i)
	:: else
	fi;
#endif
	skip
}

/* A process is gone: at once, with all that it knew; what it wrote is on its way */
inline die(i) {
	end_in(i);
	end_out(i);
	r[i].alive = 0;
	r[i].ep = 0;
	r[i].role = R_NONE;
	r[i].pred = NONE;
	r[i].succ = NONE;
	r[i].loaded = 0;
	r[i].succ_full = 0;
	r[i].succ_held = 0;
	r[i].succ_told = 0;
	r[i].handoff = 0;
	r[i].ack_due = 0;
	r[i].fwd = 0;
	r[i].app = 0;
	r[i].sack = 0;
	r[i].com = 0;
	r[i].acked = 0;
	r[i].flo = 0;
	end_sessions(i, 0);
	end_sessions(i, 1);
#ifdef NO_FENCE
	r[i].old_from = NONE;
	r[i].old_hi = 0;
#endif
	purge(i)
}

inline fence_predecessor(i) {
#ifdef NO_FENCE
	if
	:: r[i].in_st == 2 ->
		r[i].old_from = r[i].in_from;
		r[i].old_hi = r[i].in_hi;
		r[i].in_st = 0;
		r[i].in_att = 0;
		r[i].in_from = NONE;
		r[i].in_ep = 0;
		r[i].in_content = 0;
		r[i].in_hi = 0;
		r[i].loading = 0
	:: else
	fi
#else
	/* one that was not welcomed may be the next already */
	if
	:: r[i].in_st == 2 -> end_in(i)
	:: else
	fi
#endif
}

/* ---- views ---- */

/* sessions_review(): whose connection means something else now */
inline review_sessions(i) {
#ifndef READERS_STAY
	if
	:: was != r[i].role && (was == R_ONLY || (was == R_TAIL && r[i].role != R_ONLY) ||
				(was == R_HEAD && r[i].role == R_ONLY)) ->
		end_sessions(i, 0);
		end_sessions(i, 1)
	:: else
	fi;
#endif
	skip
}

inline forget_successor(i) {
	r[i].succ_full = 0;
	r[i].succ_held = 0;
	r[i].succ_told = 0;
	r[i].handoff = 0;
	r[i].fwd = 0;
	r[i].sack = 0
}

/* ol_chain_on_view() */
inline adopt(i) {
	nrole = R_NONE;
	npred = NONE;
	nsucc = NONE;
	nsucc_full = 0;
	at = 0;
	do
	:: at < count + joining ->
		if
		:: view[at] == i ->
			nrole = (at == count -> R_JOINING : (count == 1 -> R_ONLY : (at == 0 -> R_HEAD :
				(at == count - 1 -> R_TAIL : R_MIDDLE))));
			npred = (at > 0 -> view[at - 1] : NONE);
			if
			:: at + 1 < count + joining ->
				nsucc = view[at + 1];
				nsucc_full = at + 1 < count
			:: else
			fi
		:: else
		fi;
		at++
	:: else -> break
	od;
	if
	:: nrole == R_NONE || (COUNTS(i) && nrole == R_JOINING) ->
		printf("server %d: ends, the chain goes on without it\n", i);
		die(i) /* OL_E_FENCED */
	:: else ->
		was = r[i].role;
		if
		:: r[i].pred != NONE && r[i].pred != npred -> fence_predecessor(i)
		:: else
		fi;
		keep = r[i].succ != NONE && r[i].succ == nsucc && (nsucc_full || !r[i].succ_full);
		if
		:: !keep ->
			end_out(i);
			forget_successor(i)
		:: else
		fi;
		r[i].ep = epoch;
		r[i].role = nrole;
		r[i].pred = npred;
		r[i].succ = nsucc;
		r[i].succ_full = nsucc_full;
		if
		:: nsucc_full && keep ->
#ifndef FORGET_ACKED
			if
			:: r[i].handoff -> r[i].com = MAX(r[i].com, r[i].sack)
			:: else
			fi;
#endif
			r[i].succ_held = 0;
			r[i].handoff = 0
		:: else
		fi;
		if
		:: IS_TAIL(i) ->
#ifndef NO_FLOOR
			r[i].flo = r[i].rcv;
#endif
			if
			:: was != R_TAIL && was != R_ONLY -> r[i].com = MAX(r[i].com, r[i].app)
			:: else
			fi
		:: else -> r[i].flo = 0
		fi;
		review_sessions(i);
		progress(i);
		check_prefix()
	fi
}

/* ol_chain_caught_up() */
#if defined(NO_HANDOFF)
#define CAUGHT_UP(i) (joining && r[i].out_st == 2 && r[i].sack > 0)
#elif defined(CAUGHT_UP_BY_LINK)
#define CAUGHT_UP(i) (joining && r[i].handoff && r[i].out_st == 2 && r[i].sack >= MAX(r[i].com, r[i].flo))
#else
#define CAUGHT_UP(i) (joining && r[i].handoff && r[i].succ_told && r[i].sack >= MAX(r[i].com, r[i].flo))
#endif

/* ol_entry_order(): one gradient a version */
#ifdef TRACE /* a worker is what watch.pml says of it; the next push of one is above all in the log */
#define CAN_ORDER(i, w) MAY_ORDER(i)
#define MAY_PROPOSE true
#define NOT_IN_VAIN(i) true
#else
#define CAN_ORDER(i, w) (r[i].push[w] && r[i].last[w] < PUSHES(w) && MAY_ORDER(i))
#define MAY_PROPOSE !promote
#define NOT_IN_VAIN(i) (!(r[r[i].succ].ep >= r[i].ep && r[r[i].succ].pred != i))
#endif

inline order(i, w) {
#ifdef TRACE
	applied_of(i, w);
	r[i].last[w] = n;
#endif
	r[i].last[w]++;
	k = 1;
	do
	:: k <= r[i].rcv -> assert(r[i].log[k] != PUSH(w, r[i].last[w])); k++
	:: else -> break
	od;
	r[i].rcv++;
	r[i].log[r[i].rcv] = PUSH(w, r[i].last[w]);
#ifdef HEAD_ACKS
	if
	:: AT_HEAD(w, i) -> reveal(i, r[i].rcv)
	:: else
	fi;
#endif
	if
	:: !AT_HEAD(w, i) && r[i].last[w] == PUSHES(w) -> r[i].push[w] = 0; r[i].last[w] = 0
	:: else
	fi;
	progress(i);
	check_prefix()
}

/* What forgetting it breaks is to be found by what is done twice */
#ifdef FORGET_APPLIED
#define BROKEN_TABLE true
#else
#define BROKEN_TABLE false
#endif

/*
 * A worker comes, and is welcomed: what is in the head's weights it need not push again, what is in
 * the tail's is committed. That it may have waited for it, and its welcome been on the way, changes
 * nothing: nothing of this worker can happen here meanwhile.
 */
inline welcome_push(i, w) {
	applied_of(i, w);
	assert(n >= wk[w].done || BROKEN_TABLE);
	if
	:: wk[w].both ->
		tell(w, r[i].app);
		wk[w].done = MAX(n, wk[w].done);
		wk[w].ackhi = wk[w].done;
		if
		:: IS_TAIL(i) -> reveal(i, r[i].app)
		:: else
		fi;
		applied_of(i, w)
	:: else
	fi;
	wk[w].hst = 1;
	wk[w].hsince = 0;
	r[i].push[w] = 1;
#ifdef NO_DEDUP
	r[i].last[w] = wk[w].done /* all that it has no answer to comes again */
#else
	r[i].last[w] = MAX(n, wk[w].done) /* what is above it is pushed again */
#endif
}

inline welcome_read(i, w) {
	applied_of(i, w);
	assert(n >= wk[w].done || BROKEN_TABLE);
	tell(w, r[i].app);
	wk[w].done = MAX(n, wk[w].done);
	wk[w].ackhi = wk[w].done;
	wk[w].tst = 1;
	wk[w].tsince = 0;
	reveal(i, r[i].app)
}

/* Is it of the view that gave this server its part, or later, and not of one that is not seen yet? */
#ifdef OLD_WELCOME
#define TAKEN(w, i, since) (r[i].ep <= wk[w].ep)
#else
#define TAKEN(w, i, since) (r[i].ep <= wk[w].ep && r[i].ep >= since)
#endif

#define COMES_TO_HEAD(w, i) (wk[w].head == i && wk[w].hst == 0 && !r[i].push[w] && \
	!LEFT_FOR_GOOD(w) && (wk[w].both || wk[w].tst != 0) && TAKEN(w, i, wk[w].hsince))
#define COMES_TO_TAIL(w, i) (!wk[w].both && wk[w].tail == i && wk[w].tst == 0 && \
	!LEFT_FOR_GOOD(w) && TAKEN(w, i, wk[w].tsince))

/* Worker 1 leaves when all is done; the other goes on reading */
#define LEFT_FOR_GOOD(w) (w == 1 && wk[w].done == P1)

#define CAN_DIAL(i) (r[i].alive && r[i].succ != NONE && r[i].out_st == 0 && \
	(r[i].succ_full || r[i].loaded) && r[r[i].succ].alive && r[r[i].succ].in_st == 0)

inline dial(i) {
	s = r[i].succ;
	printf("server %d: dials %d in epoch %d\n", i, s, r[i].ep);
	r[s].in_content = 0;
	if
	:: !r[i].succ_full -> /* ol_chain_on_offer() */
		assert(r[i].app >= KEPT(i));
		r[s].in_content = r[i].app;
		if
		:: !r[i].succ_held -> r[i].sack = r[i].app
		:: else
		fi;
		r[i].succ_held = 1
	:: else
	fi;
	r[s].in_from = i;
	r[s].in_st = 1;
	r[s].in_att = 1;
	r[s].in_ep = r[i].ep;
	r[i].out_st = 1;
	r[i].out_att = 1
}

/* ol_chain_on_hello(), and the welcome */
inline hello(i) {
	if
	:: r[i].role == R_JOINING ->
		if
		:: r[i].app < r[i].in_content -> r[i].loaded = 0; r[i].app = 0
		:: else
		fi;
		r[i].rcv = (r[i].loaded -> r[i].app : r[i].in_content);
		k = r[i].rcv + 1;
		do
		:: k <= V -> r[i].log[k] = 0; k++
		:: else -> break
		od;
		r[i].acked = r[i].rcv
	:: else
	fi;
	printf("server %d: welcomes predecessor %d with %d\n", i, r[i].in_from, r[i].rcv);
	r[i].loading = !r[i].loaded;
	r[i].in_st = 2;
	r[i].in_ep = 0;
	r[i].in_hi = r[i].rcv;
	r[i].ack_due = 1;
	if
	:: r[i].in_att -> r[r[i].in_from].out_wel = r[i].rcv + 1
	:: else
	fi;
	if
	:: !r[i].loading -> r[i].in_content = 0
	:: else
	fi
}

proctype Server(byte i) {
end:	do
	/* a view is adopted: any time after it was made, some never */
	:: d_step {
		AS_TRACED(T_ADOPT, i) r[i].alive && r[i].ep < epoch && (r[i].role != R_NONE || IN_VIEW(i)) ->
			STEP
			printf("server %d: adopts epoch %d\n", i, epoch);
			adopt(i);
			skip
	}

#ifdef STEPS
	/* dial and say hello, where nobody is predecessor yet and it is not known to be in vain */
	:: d_step {
		AS_TRACED(T_DIAL, i) CAN_DIAL(i) && NOT_IN_VAIN(i) ->
			STEP
			dial(i)
	}
	/* the hello of a predecessor is judged, in a view of at least its epoch */
	:: d_step {
		AS_TRACED(T_HELLO, i) r[i].alive && r[i].in_st == 1 && r[i].in_ep <= r[i].ep ->
			STEP
			if
			:: r[i].pred == r[i].in_from && (r[i].role == R_JOINING || r[i].loaded) -> hello(i)
			:: else -> end_in(i)
			fi;
			skip
	}
#else
	/* both at once */
	:: d_step {
		CAN_DIAL(i) && r[r[i].succ].ep >= r[i].ep && r[r[i].succ].pred == i &&
		(r[r[i].succ].role == R_JOINING || r[r[i].succ].loaded) ->
			dial(i);
			other = r[i].succ;
			hello(other);
			progress(other)
	}
#endif

	/* the predecessor's snapshot has been read, before it was gone or not: ol_chain_on_load() */
	:: d_step {
		AS_TRACED(T_LOAD, i) r[i].alive && r[i].loading ->
			STEP
			printf("server %d: has read version %d of %d\n", i, r[i].in_content, r[i].in_from);
			r[i].loading = 0;
			if
			:: r[i].role != R_JOINING || r[i].in_content >= r[i].acked ->
				k = 1;
				do
				:: k <= r[i].in_content -> r[i].log[k] = r[r[i].in_from].log[k]; k++
				:: else -> break
				od;
				r[i].loaded = 1;
				r[i].app = r[i].in_content;
#ifdef FORGET_APPLIED
				r[i].base = r[i].app;
#endif
				r[i].rcv = MAX(r[i].rcv, r[i].app);
				r[i].acked = MAX(r[i].acked, r[i].app)
			:: else
			fi;
			r[i].in_content = 0;
			progress(i);
			check_shown();
			check_prefix();
			skip
	}

	/* an entry rings: it must be of the predecessor, the next, and have had room */
	:: d_step {
		AS_TRACED(T_ENTRY, i) r[i].alive && r[i].in_st == 2 && r[i].in_hi > r[i].rcv ->
			STEP
			printf("server %d: entry %d of %d\n", i, r[i].rcv + 1, r[i].in_from);
			r[i].rcv++;
			assert(r[i].pred == r[i].in_from);
			assert(r[i].rcv <= r[i].acked + SLOTS);
			r[i].log[r[i].rcv] = r[r[i].in_from].log[r[i].rcv];
			progress(i);
#ifndef STEPS
			if
			:: !r[i].in_att && r[i].in_hi == r[i].rcv -> end_in(i)
			:: else
			fi;
#endif
			check_prefix();
			skip
	}

#ifdef NO_FENCE
	/* an entry of whoever was the predecessor before */
	:: d_step {
		r[i].alive && r[i].old_from != NONE && r[i].old_hi > r[i].app ->
			printf("server %d: entries up to %d of %d, which is not fenced off\n", i, r[i].old_hi, r[i].old_from);
			if
			:: r[i].in_st == 2 && r[i].old_hi > r[i].rcv ->
				r[i].rcv++;
				r[i].log[r[i].rcv] = r[r[i].old_from].log[r[i].rcv]
			:: else -> /* nobody takes it for one; but the slot is written */
				k = r[i].app + 1;
				do
				:: k <= r[i].old_hi && k <= r[i].rcv -> r[i].log[k] = r[r[i].old_from].log[k]; k++
				:: else -> break
				od
			fi;
			r[i].old_from = NONE;
			r[i].old_hi = 0;
			check_prefix();
			skip
	}
#endif

	/* the end of the predecessor's connection is heard of */
	:: d_step {
		AS_TRACED(T_PRED_GONE, i) r[i].alive && r[i].in_st != 0 && !r[i].in_att ->
			STEP
			printf("server %d: predecessor %d is gone\n", i, r[i].in_from);
			end_in(i);
			skip
	}

	/* ol_chain_on_successor_up() */
	:: d_step {
		AS_TRACED(T_WELCOME, i) r[i].alive && r[i].out_st == 1 && r[i].out_wel != 0 ->
			STEP
			printf("server %d: successor %d has %d\n", i, r[i].succ, r[i].out_wel - 1);
			n = r[i].out_wel - 1;
			r[i].out_wel = 0;
			/* -EPROTO never */
			assert((n <= r[i].rcv && n >= KEPT(i)) || NOT_FENCED);
			assert(!r[i].succ_full || n >= r[i].com);
			assert(!r[i].handoff || n >= r[i].sack);
			n = MIN(n, r[i].rcv);
			r[i].out_st = 2;
			r[i].succ_told = 0;
			r[i].fwd = n;
			if
			:: !r[i].succ_full && (!r[i].handoff || HAVE_COUNTS) -> r[i].succ_held = 1; r[i].sack = n
			:: else
			fi;
			progress(i)
	}

	/* ol_chain_on_ack() */
	:: d_step {
		AS_TRACED(T_ACKED, i) r[i].alive && r[i].out_st == 2 && r[i].out_ack != 0 ->
			STEP
			printf("server %d: successor %d acknowledges %d\n", i, r[i].succ, r[i].out_ack - 1);
			n = r[i].out_ack - 1;
			r[i].out_ack = 0;
			assert(n <= r[i].fwd || NOT_FENCED); /* -EPROTO never */
			n = MIN(n, r[i].fwd);
			r[i].succ_told = 1;
			r[i].sack = MAX(r[i].sack, n);
			if
			:: r[i].succ_full -> r[i].com = MAX(r[i].com, n)
			:: else
			fi;
			progress(i)
	}

	/* the end of the successor's connection is heard of */
	:: d_step {
		AS_TRACED(T_SUCC_GONE, i) r[i].alive && r[i].out_st != 0 && !r[i].out_att ->
			STEP
			printf("server %d: successor %d is gone\n", i, r[i].succ);
			out_down(i);
			skip
	}

#ifdef STEPS
	:: d_step { AS_TRACED(T_FORWARD, i) r[i].alive && CAN_FORWARD(i) -> STEP forward_one(i); skip }
	:: d_step { AS_TRACED(T_APPLY, i) r[i].alive && CAN_APPLY(i) -> STEP apply_one(i); skip }
	:: d_step { AS_TRACED(T_ACK, i) r[i].alive && CAN_ACK(i) -> STEP ack_one(i) }
#endif

	/* the one that joins has caught up: the tail proposes it */
	:: d_step {
		AS_TRACED(T_PROPOSE, i) r[i].alive && r[i].ep == epoch && IS_TAIL(i) && MAY_PROPOSE && CAUGHT_UP(i) ->
			STEP
			printf("server %d: proposes that %d be the tail\n", i, r[i].succ);
			promote = 1
	}

	/* a worker's push is taken and ordered: ol_chain_order() */
	:: d_step {
		AS_TRACED(T_ORDER_0, i) CAN_ORDER(i, 0) ->
			STEP
			printf("server %d: orders push %d of worker 0\n", i, r[i].last[0] + 1);
			order(i, 0);
			skip
	}
	:: d_step {
		AS_TRACED(T_ORDER_1, i) CAN_ORDER(i, 1) ->
			STEP
			printf("server %d: orders push %d of worker 1\n", i, r[i].last[1] + 1);
			order(i, 1);
			skip
	}

#ifndef TRACE
	/* workers come */
	:: d_step {
		r[i].alive && COMES_TO_HEAD(0, i) && SERVES_PUSH(i) ->
			printf("server %d: welcomes worker 0 as head of epoch %d with version %d\n", i, r[i].ep, r[i].app);
			welcome_push(i, 0);
			skip
	}
	:: d_step {
		r[i].alive && COMES_TO_TAIL(0, i) && SERVES_PULL(i) ->
			printf("server %d: welcomes worker 0 as tail of epoch %d with version %d\n", i, r[i].ep, r[i].app);
			welcome_read(i, 0);
			skip
	}
	:: d_step {
		r[i].alive && COMES_TO_HEAD(1, i) && SERVES_PUSH(i) ->
			printf("server %d: welcomes worker 1 as head of epoch %d with version %d\n", i, r[i].ep, r[i].app);
			welcome_push(i, 1);
			skip
	}
	:: d_step {
		r[i].alive && COMES_TO_TAIL(1, i) && SERVES_PULL(i) ->
			printf("server %d: welcomes worker 1 as tail of epoch %d with version %d\n", i, r[i].ep, r[i].app);
			welcome_read(i, 1);
			skip
	}

	/* one that had pushed is gone, which is heard of */
	:: d_step {
		r[i].push[0] && !AT_HEAD(0, i) ->
			printf("server %d: worker 0 pushes here no more\n", i);
			r[i].push[0] = 0;
			r[i].last[0] = 0
	}
	:: d_step {
		r[i].push[1] && !AT_HEAD(1, i) ->
			printf("server %d: worker 1 pushes here no more\n", i);
			r[i].push[1] = 0;
			r[i].last[1] = 0
	}
#endif
	od
}
