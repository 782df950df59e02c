/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * lease.pml -- who may commit when the coordinator fails, for Spin: leases, refound, histories
 *
 * A chain of one or two replicas (0 is the head), a spare, a worker, and time. chain.pml has what
 * goes over connections; here a commit is one step, in which everybody who is needed takes part.
 * The coordinator answers nobody, for as long as it likes, wherever none of its steps is taken.
 *
 * The names are those of replication/coord/lease.h. A tick is a quarter of a lease. Nothing is
 * forced to happen before the next tick: a server stands still by taking no step.
 */

/* ---- bounds ---- */

#ifndef REPLICAS
#define REPLICAS 1 /* of the first view: 1 or 2 */
#endif
#ifndef V
#define V 2 /* commits of one history */
#endif
#define SPARE REPLICAS
#define SERVERS (REPLICAS + 1)
#define EPOCHS 6 /* more views there cannot be */

#define L 4 /* the lease */
#define H 1 /* the heartbeat: L / 4 */
#ifndef S
#define S 12 /* a session: 3 L */
#endif
#define D 1 /* by so much clocks differ in a session: S / 100, and more */

/* A > H + L + D. What is not told is rounded to where it is worse. */
#ifndef ABSENCE
#ifdef FOLDER
#define ABSENCE L
#else
#define ABSENCE (2 * L)
#endif
#endif
/* What the ensemble takes for a session's length, where nobody compares */
#ifndef GRANTED
#define GRANTED S
#endif

/* ---- the rules that a variant leaves out ---- */

#ifdef NO_SELF_FENCE
#define LEASE_COUNTS false
#else
#define LEASE_COUNTS true
#endif
#ifdef NO_STANDSTILL
#define STOOD_STILL(i) false
#else
#define STOOD_STILL(i) (r[i].look > L)
#endif
#ifdef SESSION_AGAIN
#define LOST(i) false
#else
#define LOST(i) r[i].lost
#endif
/* Does a server, or a worker, in `history` and `e` take the view in force for a later one of its own? */
#if defined(NUMBER_ALONE)
#define FOLLOWS(history, e) (epoch > e)
#else
#define FOLLOWS(history, e) (ORIGIN(history) == ORIGIN(current) && epoch > e)
#endif
#if defined(WORKER_NUMBER_ALONE)
#define WORKER_FOLLOWS(history, e) (epoch > e)
#else
#define WORKER_FOLLOWS(history, e) FOLLOWS(history, e)
#endif

/* ---- state ---- */

/* A history: of the founders, founded anew, of a coordinator that has forgotten */
#define FIRST 1
#define ANEW 2
#define OTHER 3
#define ORIGIN(history) ((history) == OTHER)

/* What the coordinator holds; epoch 0: no view */
unsigned epoch : 3 = 1;
unsigned current : 2 = FIRST;
unsigned members : 3 = (1 << REPLICAS) - 1; /* a bit a replica */
bit forgotten;
bit founded; /* anew: of it on the first history is over */
unsigned standing : 3 = (1 << REPLICAS) - 1; /* the last view of the first history */

typedef Server {
	bit alive;
	bit dying; /* in a folder: it has lost its place, and threads of its may still do something */
	unsigned epoch : 3; /* of the adopted view */
	unsigned history : 2;
	unsigned members : 3;
	unsigned have : 2; /* versions applied */
	unsigned look : 3; /* since this turn of its loop began: up to L + 1 */
	unsigned check : 2; /* since a turn looked at the lease: up to H + 1 */
	unsigned lease : 4; /* what it reckons its session lives for, plus 1 */
	bit lost; /* it has had a session that ended */
	/* at the ensemble */
	bit registered;
	unsigned session : 4; /* until it ends */
#ifdef LEASE_FROM_ANSWER
	unsigned answer : 3; /* to a sign of life: on its way for so long, plus 1; 0: none is */
#endif
	unsigned absent : 4; /* the spare: since it saw it gone, plus 1; 0: it is there */
};
Server r[SERVERS];

byte committed[4]; /* of a history: newest that a worker was told of */
byte by_epoch[4]; /* the newest view in which anything was */

/* The worker */
unsigned wepoch : 3 = 1;
unsigned whistory : 2 = FIRST;
unsigned told : 2;

hidden byte k;
hidden byte n;

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define BIT(i) (1 << (i))
#define COUNTS(i) ((r[i].members >> (i)) & 1)
#define ACTS(i) (r[i].alive && !STOOD_STILL(i))
#define ALONE(i) (r[i].members == BIT(i))
/* Who is neither dead nor stopped for longer than its lease */
#define LIVES(i) (r[i].alive && !r[i].dying && r[i].look <= L)

inline leave(i) {
	r[i].alive = 0;
	r[i].dying = 0;
	r[i].epoch = 0;
	r[i].history = 0;
	r[i].members = 0;
	r[i].have = 0;
	r[i].look = 0;
	r[i].check = 0;
	r[i].lease = 0;
#ifdef FOLDER
	r[i].registered = 0;
#endif
#ifdef LEASE_FROM_ANSWER
	r[i].answer = 0;
#endif
	r[i].lost = 0
}

/* ---- what must hold ---- */

/* Who was suspected has lost its place, and what it has with it: README.md of replication, "Not tolerated" */
#define IN_PLACE(i) ((standing >> (i)) & 1)

/* Nobody who lives, and has its place, holds all that was committed */
inline nothing_is_lost(past) {
	n = 0;
	do
	:: n < SERVERS ->
		assert(!(IN_PLACE(n) && LIVES(n) && r[n].history == past && r[n].have > 0 &&
			 r[n].have == committed[past]));
		n++
	:: else -> break
	od
}

/* Does one that the view in force names have all that was committed in `history`? */
inline kept(past) {
	n = 0;
	k = 0;
	do
	:: n < SERVERS ->
		if
		:: r[n].alive && ((members >> n) & 1) && current == past &&
		   r[n].have == committed[past] -> k = 1
		:: else
		fi;
		n++
	:: else -> break
	od
}

/* ---- steps ---- */

/* Everything that has a clock, by one tick */
inline older(i) {
	if
	:: r[i].alive ->
		r[i].look = (r[i].look > L -> L + 1 : r[i].look + 1);
		r[i].check = (r[i].check > H -> H + 1 : r[i].check + 1);
#ifdef LEASE_FROM_ANSWER
		r[i].answer = (r[i].answer == 0 || r[i].answer > L -> 0 : r[i].answer + 1);
#endif
#ifndef FOLDER
		r[i].lease = (r[i].lease > 0 -> r[i].lease - 1 : 0)
#endif
	:: else
	fi;
	r[i].session = (r[i].session > 0 -> r[i].session - 1 : 0);
	r[i].absent = (r[i].absent == 0 || r[i].absent > ABSENCE -> r[i].absent : r[i].absent + 1)
}

proctype Time() {
end:	do
	:: d_step {
		true ->
			older(0);
#if REPLICAS == 2
			older(1);
#endif
			skip
	}
	od
}

/* A view without replica j, by one of it that is heard and takes j for dead */
inline remove(j) {
	epoch++;
	assert(r[1 - (j)].have == committed[current]);
	members = members & ~BIT(j);
	standing = members;
	skip
}

proctype Replica(byte i) {
end:	do
	/* a turn of the loop: OL_SERVER look(), and every H the lease */
	:: d_step {
		r[i].alive && !r[i].dying ->
			if
			:: STOOD_STILL(i) ->
				printf("server %d: stood still: it ends\n", i);
				leave(i)
			:: else ->
				r[i].look = 0;
				if
				:: r[i].check > H && (r[i].lease == 0 || LOST(i)) && LEASE_COUNTS ->
					printf("server %d: has no lease: it ends\n", i);
					leave(i)
				:: r[i].check > H && !((r[i].lease == 0 || LOST(i)) && LEASE_COUNTS) ->
					r[i].check = 0
				:: else
				fi
			fi;
			skip
	}

	/* it looks at the view in force */
	:: d_step {
		ACTS(i) && !r[i].dying && epoch != 0 && FOLLOWS(r[i].history, r[i].epoch) ->
			if
			:: !((members >> i) & 1) || current != r[i].history ->
				printf("server %d: ends, the chain goes on without it\n", i);
				if
				:: IN_PLACE(i) && r[i].have > 0 && r[i].have == committed[r[i].history] ->
					kept(r[i].history);
					assert(k)
				:: else
				fi;
				leave(i)
			:: else ->
				r[i].epoch = epoch;
				r[i].members = members
			fi;
			skip
	}
#ifdef EQUAL_EPOCHS
	/* another view of the epoch that it is in: it takes itself for the one that is wrong */
	:: d_step {
		ACTS(i) && epoch == r[i].epoch && current != r[i].history ->
			printf("server %d: ends, there is another epoch %d\n", i, epoch);
			if
			:: IN_PLACE(i) && r[i].have > 0 && r[i].have == committed[r[i].history] ->
				kept(r[i].history);
				assert(k)
			:: else
			fi;
			leave(i)
	}
#endif

	/* a commit: its head and its tail are in one view, and connected */
	:: d_step {
		ACTS(i) && COUNTS(i) && (!r[i].dying || r[i].look < L) && r[i].have < V &&
		(ALONE(i) || (REPLICAS == 2 && i == 0 && ACTS(1 % SERVERS) && !r[1 % SERVERS].dying &&
			      !r[0].dying && r[1 % SERVERS].epoch == r[0].epoch)) ->
			r[i].have++;
			if
			:: !ALONE(i) -> r[1 % SERVERS].have = r[i].have
			:: else
			fi;
			printf("server %d: commits %d in epoch %d\n", i, r[i].have, r[i].epoch);
			assert(!(founded && r[i].history == FIRST)); /* the next head may have */
			assert(r[i].epoch >= by_epoch[r[i].history]); /* one head a history */
			assert(r[i].have > committed[r[i].history]);
			committed[r[i].history] = r[i].have;
			by_epoch[r[i].history] = r[i].epoch
	}

	/* it takes the other for dead, rightly or not */
#if REPLICAS == 2
	:: d_step {
		ACTS(i) && !r[i].dying && COUNTS(i) && r[i].registered && r[i].epoch == epoch &&
		r[i].history == current && members == 3 ->
			printf("epoch %d: server %d alone\n", epoch + 1, i);
			remove(1 - i)
	}
#endif

	/* it dies. In a folder it has lost its place before it has done its last */
	:: d_step {
		r[i].alive && !r[i].dying ->
			printf("server %d: dies\n", i);
#ifdef FOLDER
			r[i].registered = 0;
			r[i].dying = 1;
			r[i].look = 0
#else
			leave(i)
#endif
	}
#ifdef FOLDER
	:: d_step {
		r[i].dying -> leave(i)
	}
#else
	/*
	 * A sign of life is heard, and answered or not. The lease counts from when it was sent: that
	 * the answer takes its time leaves the server less.
	 */
	:: d_step {
		r[i].alive && r[i].registered ->
			r[i].session = GRANTED;
#ifdef LEASE_FROM_ANSWER
			r[i].answer = 1
	}
	:: d_step {
		r[i].answer != 0 ->
			r[i].answer = 0;
			r[i].lease = S + 1
	}
#else
			r[i].lease = S + 1
	}
	:: d_step {
		r[i].alive && r[i].registered -> r[i].session = GRANTED
	}
#endif
	/* the ensemble ends the session, by a clock of its own, or later */
	:: d_step {
		r[i].registered && r[i].session <= D ->
			printf("server %d: its session has ended\n", i);
			r[i].registered = 0;
			r[i].session = 0
	}
	/* which it hears, and registers again in another */
	:: d_step {
		r[i].alive && !r[i].registered && !forgotten ->
			printf("server %d: begins another session\n", i);
			r[i].registered = 1;
			r[i].session = GRANTED;
			r[i].lease = S + 1;
			r[i].lost = 1
	}
#endif
	od
}

#ifdef HEAD_ALONE
#define ALL_ABSENT (r[0].absent > ABSENCE)
#else
#define GONE(i) (!((members >> (i)) & 1) || r[i].absent > ABSENCE)
#define ALL_ABSENT (GONE(0) && GONE(REPLICAS - 1))
#endif

/* A server that holds nothing. It has heard of the first view, and later of others. */
proctype Spare() {
end:	do
	/* it sees who is registered: now, or as it was some time ago */
	:: d_step {
		r[0].absent == 0 && !r[0].registered -> r[0].absent = 1
	}
	:: d_step {
		r[0].absent != 0 && r[0].registered -> r[0].absent = 0
	}
#if REPLICAS == 2
	:: d_step {
		r[1].absent == 0 && !r[1].registered -> r[1].absent = 1
	}
	:: d_step {
		r[1].absent != 0 && r[1].registered -> r[1].absent = 0
	}
#endif
	/* a later view: it begins to count anew */
	:: d_step {
		r[SPARE].epoch < epoch && current == FIRST ->
			r[SPARE].epoch = epoch;
			r[0].absent = 0;
			r[REPLICAS - 1].absent = 0
	}
	/* its proposal comes, against the very view that it knows */
	:: d_step {
#ifdef SPARE_SUSPECTS
		epoch != 0 && r[SPARE].epoch == epoch && current == FIRST ->
#else
		epoch != 0 && r[SPARE].epoch == epoch && current == FIRST && ALL_ABSENT ->
#endif
			epoch++;
			printf("epoch %d: the chain is founded anew\n", epoch);
			current = ANEW;
			members = BIT(SPARE);
			founded = 1;
			nothing_is_lost(FIRST);
			skip
	}

	/* the coordinator forgets, and who comes then founds a chain of its own, which has views too */
#ifdef FORGETS
	:: d_step {
		!forgotten ->
			printf("the coordinator has forgotten everything\n");
			forgotten = 1;
			epoch = 0;
			current = 0;
			members = 0
	}
	:: d_step {
		forgotten && epoch < EPOCHS ->
			epoch++;
			printf("epoch %d of another chain\n", epoch);
			current = OTHER;
			members = BIT(SPARE)
	}
#endif
	od
}

proctype Worker() {
end:	do
	/* it reads at one that is in the history that it knows, and has what it was told */
	:: d_step {
		told < committed[whistory] -> told = committed[whistory]
	}
	/* ol_route_look() */
	:: d_step {
		epoch != 0 && WORKER_FOLLOWS(whistory, wepoch) ->
			wepoch = epoch;
			if
			:: whistory != current ->
				printf("worker: goes to history %d\n", current);
				if
				:: told > 0 -> nothing_is_lost(whistory)
				:: else
				fi;
				told = 0;
				whistory = current
			:: else
			fi
	}
	od
}

init {
	byte i;

	d_step {
		do
		:: i < REPLICAS ->
			r[i].alive = 1;
			r[i].epoch = 1;
			r[i].history = FIRST;
			r[i].members = members;
			r[i].lease = S + 1;
			r[i].session = GRANTED;
			r[i].registered = 1;
			i++
		:: else -> break
		od;
		r[SPARE].epoch = 1;
		i = 0
	};
	atomic {
		do
		:: i < REPLICAS -> run Replica(i); i++
		:: else -> break
		od;
		run Spare();
		run Time();
		run Worker();
		i = 0
	}
}
