/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.pml -- the chain, its fences and its replay, for Spin
 *
 * README.md says what is checked and what is left out; run.sh checks it. The names are those of
 * replication/chain.h where there is one.
 *
 * One step of the model is one event of a server's or a worker's loop, with what the code does
 * before the next. Everybody may be slow for as long as it likes: a server that is suspected while
 * it is well is one that was stopped, and all it does afterwards is its waking up.
 *
 * What was written one-sidedly and has not landed is not a message but a number at its receiver:
 *
 *	in_hi            newest entry written into this ring: what is above rcv has not rung yet
 *	out_wel out_ack  welcome and newest ack written by the successor (plus 1; 0: none)
 *	ackhi            newest ack written by the tail: what is above done has not rung yet
 *	push, last       what a worker has pushed over this session: all above last is still to be taken
 *
 * It lands whether its writer lives or not, until the receiver has ended its side of the connection
 * (in_st, out_st, hst, tst, push = 0). Whose other end is gone (in_att, out_att = 0; hst, tst = 2)
 * hears of it at any time later.
 *
 * Small things that would only tell equal states apart are cleared, and steps whose order nobody can
 * notice are one: each such place says why.
 */

/* ---- bounds ---- */

#ifdef TRACE
#include "trace.pml"
#else
#define AS_TRACED(kind, i)
#define STEP
#define VERSION_BITS 3
#define EPOCH_BITS 4
#endif
#ifndef SERVERS
#define SERVERS 3 /* processes; one that is started again is another */
#endif
#ifndef FULL
#define FULL 3 /* in the first view; the others wait for a place */
#endif
#ifndef WANTED
#define WANTED 3
#endif
#ifndef P0
#define P0 1 /* pushes of worker 0 */
#endif
#ifndef P1
#define P1 1 /* pushes of worker 1 */
#endif
#ifndef SLOTS
#define SLOTS 1 /* of a ring */
#endif
#ifndef FAULTS
#define FAULTS 2 /* deaths, false suspicions and broken links together */
#endif

/*
 * STEPS: to forward, to apply, to acknowledge, to answer a hello and to hear of a connection that is
 * gone are steps of their own, as when any of them says -EAGAIN for a while. Without it they follow
 * at once, as they mostly do.
 */

#define V (P0 + P1) /* newest version there can be */
#define NONE SERVERS

/* A push as a number: those of worker 0, then those of worker 1; 0: none */
#define WHO(push) ((push) > P0)
#define SEQ(push) ((push) > P0 -> (push) - P0 : (push))
#define PUSH(w, seq) ((w) * P0 + (seq))
#define PUSHES(w) ((w) == 0 -> P0 : P1)

#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* ---- state ---- */

/* What the coordinator holds. Whoever looks sees the newest view; who has not looked goes on. */
byte epoch = 1;
byte view[3]; /* head first */
byte count; /* full replicas */
bit joining; /* view[count] joins */
bit promote; /* a proposal to make it the tail is on its way, to replace this very view */

byte faults = FAULTS;

/* What workers were shown, or may be: it must never be lost */
byte shown;
byte history[V + 1];

#define R_NONE 0
#define R_JOINING 1
#define R_HEAD 2
#define R_MIDDLE 3
#define R_TAIL 4
#define R_ONLY 5

typedef Replica {
	bit alive;
	unsigned ep : EPOCH_BITS; /* of the adopted view */
	unsigned role : 3;
	unsigned pred : 3;
	unsigned succ : 3;
	byte log[V + 1]; /* entries received, as pushes; up to app they are in the weights */
	/* chain.h */
	bit loaded;
	bit succ_full;
	bit succ_held;
	bit succ_told;
	bit handoff;
	bit ack_due;
	unsigned rcv : VERSION_BITS;
	unsigned fwd : VERSION_BITS;
	unsigned app : VERSION_BITS;
	unsigned sack : VERSION_BITS;
	unsigned com : VERSION_BITS;
	unsigned acked : VERSION_BITS;
	unsigned flo : VERSION_BITS;
	/* the session of the predecessor */
	unsigned in_from : 3;
	unsigned in_st : 2; /* 0 none, 1 said hello, 2 welcomed */
	bit in_att;
	unsigned in_ep : EPOCH_BITS; /* of its hello */
	unsigned in_content : VERSION_BITS;
	unsigned in_hi : VERSION_BITS;
	bit loading;
	/* the connection to the successor */
	unsigned out_st : 2; /* 0 none, 1 hello said, 2 up */
	bit out_att;
	unsigned out_wel : VERSION_BITS;
	unsigned out_ack : VERSION_BITS;
	/* sessions of workers that push: they have posted all that they may */
	byte push[2];
	byte last[2]; /* newest push taken */
#ifdef NO_FENCE
	unsigned old_from : 3; /* the predecessor that was not fenced off */
	unsigned old_hi : VERSION_BITS;
#endif
#ifdef TRACE
	bit reads[2]; /* workers that it has let in to read */
#endif
#ifdef FORGET_APPLIED
	unsigned base : VERSION_BITS; /* version of the snapshot that it read */
#endif
};
Replica r[SERVERS];

typedef Worker {
	unsigned ep : EPOCH_BITS;
	unsigned head : 3;
	unsigned tail : 3;
	bit both; /* one connection does both */
	unsigned hsince : EPOCH_BITS; /* epoch of the view that led there, until it is */
	unsigned tsince : EPOCH_BITS;
	unsigned hst : 2; /* 0 none, 1 live, 2 the server's end is gone: acks may still land */
	unsigned tst : 2;
	unsigned ackhi : VERSION_BITS; /* newest push that its reader's server has acknowledged */
	unsigned done : VERSION_BITS;
	unsigned told : VERSION_BITS; /* newest version that it knows of */
};
Worker wk[2];

/* For use within one step: no part of a state */
hidden byte k;
hidden byte s;
hidden byte other;
hidden byte n;
hidden byte at;
hidden byte nrole;
hidden byte npred;
hidden byte nsucc;
hidden byte was;
hidden byte nsucc_full;
hidden byte keep;
hidden byte yes;

#define COUNTS(i) (r[i].role >= R_HEAD)
#define IS_HEAD(i) (r[i].role == R_HEAD || r[i].role == R_ONLY)
#define IS_TAIL(i) (r[i].role == R_TAIL || r[i].role == R_ONLY)
#define FREED(i) (!r[i].loaded -> r[i].acked : \
	MIN(MIN(r[i].app, (COUNTS(i) -> r[i].com : V)), (r[i].succ_held -> r[i].sack : V)))
#define KEPT(i) MAX(r[i].acked, (r[i].rcv > SLOTS -> r[i].rcv - SLOTS : 0))
#define SERVES_PUSH(i) (IS_HEAD(i) && r[i].loaded && (r[i].app == r[i].rcv || EARLY))
#define SERVES_PULL(i) (IS_TAIL(i) && r[i].loaded && r[i].app >= r[i].flo)
#define MAY_ORDER(i) (IS_HEAD(i) && r[i].loaded && r[i].rcv == r[i].app && \
	(!r[i].succ_full || r[i].out_st == 2) && r[i].rcv < FREED(i) + SLOTS)
#define APPLY_LIMIT(i) (r[i].succ_full -> r[i].fwd : \
	(r[i].handoff -> MIN(r[i].rcv, r[i].sack) : r[i].rcv))
#define IN_VIEW(i) ((view[0] == i && count + joining > 0) || \
	(view[1] == i && count + joining > 1) || (view[2] == i && count + joining > 2))
#define IS_FULL(i) ((view[0] == i && count > 0) || \
	(view[1] == i && count > 1) || (view[2] == i && count > 2))

/* What is to be seen without a fence is harm, not that it is noticed */
#ifdef NO_FENCE
#define NOT_FENCED true
#else
#define NOT_FENCED false
#endif

#ifdef HAVE_AS_ACK
#define HAVE_COUNTS true
#else
#define HAVE_COUNTS false
#endif
#ifdef EARLY_WELCOME
#define EARLY true
#else
#define EARLY false
#endif

/* Has a worker a connection to server i? */
#define AT_HEAD(w, i) (wk[w].hst == 1 && wk[w].head == i)
#define AT_TAIL(w, i) (wk[w].tst == 1 && wk[w].tail == i)

/* ---- what must hold ---- */

/* Committed means survivable: every full replica of the view in force has all that was shown */
inline check_shown() {
	n = 0;
	do
	:: n < count ->
		assert(r[view[n]].rcv >= shown);
		k = 1;
		do
		:: k <= shown -> assert(r[view[n]].log[k] == history[k]); k++
		:: else -> break
		od;
		n++
	:: else -> break
	od
}

/* Neighbours of one view: who comes first has what the next has */
inline check_prefix() {
	n = 1;
	do
	:: n < count ->
		if
		:: r[view[n]].alive && r[view[n - 1]].alive && r[view[n]].ep == epoch && r[view[n - 1]].ep == epoch ->
			assert(r[view[n - 1]].rcv >= r[view[n]].rcv);
			k = 1;
			do
			:: k <= r[view[n]].rcv -> assert(r[view[n]].log[k] == r[view[n - 1]].log[k]); k++
			:: else -> break
			od
		:: else
		fi;
		n++
	:: else -> break
	od
}

/* Somebody may see version v of server i: one history, each push in it once, in its worker's order */
inline reveal(i, v) {
	k = 1;
	do
	:: k <= v ->
		if
		:: k <= shown -> assert(r[i].log[k] == history[k])
		:: else ->
			n = 1;
			do
			:: n < k -> assert(WHO(history[n]) != WHO(r[i].log[k]) || history[n] < r[i].log[k]); n++
			:: else -> break
			od;
			shown = k;
			history[k] = r[i].log[k]
		fi;
		k++
	:: else -> break
	od;
	check_shown()
}

#include "server.pml"
#include "worker.pml"
#ifdef TRACE
#include "watch.pml"
#endif

/* ---- views change, processes die, links break ---- */

/* A worker for which nothing changes can as well have seen it at once */
inline stay(w) {
	if
	:: wk[w].ep != 0 && wk[w].head == view[0] && wk[w].both == (count == 1) &&
	   (wk[w].both || wk[w].tail == view[count - 1]) ->
		wk[w].ep = epoch
	:: else
	fi
}

/* The coordinator has a new view: whoever had proposed something else is too late */
inline set_view() {
	epoch++;
	promote = 0;
	stay(0);
	stay(1);
	check_shown();
	skip
}

inline remove(i) {
	at = 0;
	n = 0;
	was = count;
	do
	:: at < was + joining ->
		if
		:: view[at] == i -> if :: at < was -> count-- :: else -> joining = 0 fi
		:: else -> view[n] = view[at]; n++
		fi;
		at++
	:: else -> break
	od;
	do
	:: n < 3 -> view[n] = NONE; n++
	:: else -> break
	od;
	set_view();
	purge(i)
}

/* A replica of the view in force that knows it */
#define KNOWS(i) (r[i].alive && r[i].ep == epoch && COUNTS(i))
#define IS_OTHER(i, n) (SERVERS > n && i != n && KNOWS(n % SERVERS))
#define OTHER_KNOWS(i) (IS_OTHER(i, 0) || IS_OTHER(i, 1) || IS_OTHER(i, 2) || IS_OTHER(i, 3) || \
	IS_OTHER(i, 4) || IS_OTHER(i, 5) || IS_OTHER(i, 6))
#define SOMEBODY_KNOWS (OTHER_KNOWS(NONE))
#define FULL_ALIVE(p) (count > p && r[view[p]].alive)
/* a full replica is left without server i */
#define LEFT(i) ((view[0] != i && FULL_ALIVE(0)) || (view[1] != i && FULL_ALIVE(1)) || \
	(view[2] != i && FULL_ALIVE(2)))

/* One that was thrown out and does not know it yet may be taken again, by who has not noticed */
#ifdef REJOIN
#define MAY_JOIN(i) true
#else
#define MAY_JOIN(i) (r[i].role == R_NONE)
#endif

/* With one step for each server, so that every choice is a step of its own */
proctype World(byte i) {
end:	do
	/* it is suspected by a replica that is not it: dead, or at the cost of a fault */
	:: d_step {
		AS_TRACED(T_REMOVE, i) IN_VIEW(i) && !r[i].alive && SOMEBODY_KNOWS && (count > 1 || !IS_FULL(i)) ->
			STEP
			printf("epoch %d: without server %d, which is dead\n", epoch + 1, i);
			remove(i);
			skip
	}
	:: d_step {
		AS_TRACED(T_REMOVE, i) IN_VIEW(i) && r[i].alive && faults > 0 && LEFT(i) && OTHER_KNOWS(i) ->
			STEP
			printf("epoch %d: without server %d, which was suspected\n", epoch + 1, i);
			faults--;
			remove(i);
			skip
	}

	/* it takes the place that is free */
	:: d_step {
		AS_TRACED(T_JOIN, i) !IN_VIEW(i) && r[i].alive && MAY_JOIN(i) && !joining && count < WANTED &&
		SOMEBODY_KNOWS ->
			STEP
			printf("epoch %d: server %d joins\n", epoch + 1, i);
			view[count] = i;
			joining = 1;
			set_view()
	}

	:: d_step {
		AS_TRACED(T_DIE, i) r[i].alive && faults > 0 && LEFT(i) ->
			STEP
			printf("server %d: dies\n", i);
			faults--;
			die(i);
			skip
	}

	/* its link to its successor breaks; either end hears of it later */
	:: d_step {
		AS_TRACED(T_BREAK, i) r[i].alive && r[i].out_att && faults > 0 ->
			STEP
			printf("server %d: its link to %d breaks\n", i, r[i].succ);
			faults--;
			s = r[i].succ;
			detach_in(s);
			detach_out(i);
			skip
	}
	od
}

/* The tail's proposal arrives: nobody was quicker */
proctype Coordinator() {
end:	do
	:: d_step {
		AS_TRACED(T_PROMOTE, view[count]) promote ->
			STEP
			printf("epoch %d: server %d is the tail\n", epoch + 1, view[count]);
			count++;
			joining = 0;
			set_view()
	}
	od
}

/* When nothing can happen any more, all is done, and everybody has it */
proctype Calm() {
#ifdef CYCLES
	bit turn;
#endif

	timeout;
	d_step {
		assert(shown == V);
		assert(wk[0].done == P0 && wk[1].done == P1);
		assert(wk[0].told == V);
		k = 0;
		do
		:: k < count -> assert(!r[view[k]].alive || r[view[k]].app == V); k++
		:: else -> break
		od;
		skip
	}
#ifdef CYCLES /* to end well is no cycle without progress */
	do
	:: turn = 1;
progress_calm:
		turn = 0
	od
#endif
}

inline begin_server(i) {
	r[i].alive = 1;
	r[i].in_from = NONE;
	r[i].pred = NONE;
	r[i].succ = NONE;
#ifdef NO_FENCE
	r[i].old_from = NONE;
#endif
	if
	:: i < FULL ->
		view[i] = i;
		count++;
		r[i].loaded = 1;
		r[i].ep = 1;
		r[i].role = (FULL == 1 -> R_ONLY : (i == 0 -> R_HEAD : (i == FULL - 1 -> R_TAIL : R_MIDDLE)));
		if
		:: i > 0 ->
			r[i].pred = i - 1;
			r[i].in_from = i - 1;
			r[i].in_st = 2;
			r[i].in_att = 1
		:: else
		fi;
		if
		:: i + 1 < FULL ->
			r[i].succ = i + 1;
			r[i].succ_full = 1;
			r[i].out_st = 2;
			r[i].out_att = 1
		:: else
		fi
	:: else
	fi
}

inline begin_worker(w) {
	wk[w].ep = 1;
	wk[w].head = 0;
	wk[w].both = (FULL == 1);
	wk[w].hst = 1;
	r[0].push[w] = 1;
	if
	:: wk[w].both -> wk[w].tail = NONE
	:: else ->
		wk[w].tail = FULL - 1;
		wk[w].tst = 1
	fi
}

/* A chain that is at work already, with nothing pushed yet */
init {
	byte i;

#ifdef TRACE
	read_trace();
#endif
	d_step {
		do
		:: i < 3 -> view[i] = NONE; i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < SERVERS -> begin_server(i); i++
		:: else -> break
		od;
#ifndef TRACE
		begin_worker(0);
		begin_worker(1);
#endif
		i = 0
	};
	atomic {
		do
		:: i < SERVERS -> run Server(i); run World(i); i++
		:: else -> break
		od;
#ifdef TRACE
		run Watch();
#else
		run Client(0);
		run Client(1);
#endif
		run Coordinator();
#if !defined(SAFETY_ALONE) && !defined(TRACE)
		run Calm();
#endif
		i = 0
	}
}
