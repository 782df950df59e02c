/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * handshake.pml -- knock, challenge, proof, accept (src/wire/wire.h), between a worker, three servers and
 * an intruder that has the network
 *
 * A mac is a term: the int that holds all fields that it is over, its label among them. Macs that the
 * ends have made are in a sorted set, and the intruder knows all of them: what an end says goes to the set,
 * what an end hears is any of the set. So the intruder drops, keeps, sends again, puts in another
 * order, and carries from each end to each other. It makes no mac under a key that it does not have. It
 * sends fields that the mac is not over as it likes: in the protocol as it is there are none. A message
 * whose fields are not those of its mac is refused, so it is not in the model.
 *
 * ENDS. Who has a connection sees its connecting end at both ends. The intruder's own connections have
 * the intruder's. A connection of a worker lands at one server that the intruder chooses, or at the
 * intruder, and carries what the intruder likes; each has the same end as the one before it, as
 * numbers of queue pairs come again.
 *
 * DECLARED: an end is what a message says (oob:, or who can send requests of its own), so the intruder
 * names whom it likes at both ends: a server takes its proof as from a worker's end, and a worker's packets go
 * where the intruder's answer says. An accept is over the accepting end, too: the number of the server.
 *
 * Each rule that is left out by a -D breaks an assertion: run.sh has the list.
 */

#ifndef WORKER_DIALS
#define WORKER_DIALS 2
#endif
#ifndef READER_DIALS
#define READER_DIALS 1
#endif
#ifndef CLOCK
#define CLOCK 2 /* challenges of one server: its T is 1 .. CLOCK */
#endif
#define MACS 24

/* What a mac is over */
#define LABEL(x) (x)
#define KNOCK 1
#define REJECT 2
#define PROOF 3
#define ACCEPT 4
#define ROLE(x) ((x) << 3) /* 0: worker, 1: its reader, under the same key */
#define ID(x) ((x) << 4) /* 0: the honest worker; 1: the intruder's own id. It chooses the key, too */
#define N(x) ((x) << 5) /* the nonce of a dial, 1 .. */
#define T(x) ((x) << 8)
#define M(server, n, t, role, id) /* a cookie: equal where all it is made of is equal */ \
	((server) << 10 | (n) << 12 | (t) << 15 | (role) << 17 | (id) << 18)
#define END(x) ((x) << 19) /* the connecting end: WORKER, READER or INTRUDER */
#define CODE(x) ((x) << 21)
#define CHALLENGE 1
#define REFUSAL 2
#define SHARD(x) ((x) << 23)
#define SERVER(x) ((x) << 24) /* an accept's incarnation */

#define ALL ((1 << 26) - 1)
#define label_of(x) ((x) & 7)
#define role_of(x) ((x) >> 3 & 1)
#define id_of(x) ((x) >> 4 & 1)
#define n_of(x) ((x) >> 5 & 7)
#define t_of(x) ((x) >> 8 & 3)
#define M_BITS (511 << 10)
#define code_of(x) ((x) >> 21 & 3)
#define shard_of(x) ((x) >> 23 & 1)
#define server_of(x) ((x) >> 24 & 3)

/* Servers: 1 and 2 hold shard 0, 2 was started after 1 and listens at its address; 3 holds shard 1 */
#define SERVERS 3
#define HOLDS(server) ((server) == 3 -> 1 : 0)

/* Ends */
#define NOBODY 0
#define WORKER 1
#define READER 2
#define INTRUDER 3

/* What is left out of macs */
#ifdef NO_END
#define LESS_END END(3)
#else
#define LESS_END 0
#endif
#ifdef NO_M
#define LESS_M M_BITS
#else
#ifdef ONE_SECRET /* all servers make cookies under one */
#define LESS_M M(3, 0, 0, 0, 0)
#else
#define LESS_M 0
#endif
#endif
#ifdef NO_ROLE
#define LESS_ROLE (ROLE(1) | M(0, 0, 0, 1, 0))
#else
#define LESS_ROLE 0
#endif
#ifdef NO_ID /* and all workers have one key */
#define LESS_ID (ID(1) | M(0, 0, 0, 0, 1))
#else
#define LESS_ID 0
#endif
#ifdef NO_LABEL
#define LESS_LABEL LABEL(7)
#else
#define LESS_LABEL 0
#endif
#ifdef NO_N /* a reject does not name what it answers */
#define LESS_N N(7)
#else
#define LESS_N 0
#endif
#ifdef NO_CODE
#define LESS_CODE CODE(3)
#else
#define LESS_CODE 0
#endif
#ifdef NO_SHARD /* an accept's mac is not over what it says */
#define LESS_SHARD (SHARD(1) | SERVER(3))
#else
#define LESS_SHARD 0
#endif

#define OVER (ALL & ~(LESS_ROLE | LESS_ID | LESS_LABEL))
#define OVER_REJECT (OVER & ~(LESS_N | LESS_CODE))
#define OVER_PROOF (OVER & ~(LESS_END | LESS_M))
#define OVER_ACCEPT (OVER & ~(LESS_END | LESS_M | LESS_SHARD))

int mac[MACS]; /* known to all, in order; 0 behind the last */
byte macs;

/* A server's clock, and for each place the T of the newest proof that it has seen */
byte clock[SERVERS + 1];
typedef Marks {
	byte place[2]
};
Marks mark[SERVERS + 1];

#ifdef GUESTS /* peers without an id: any two may have one place */
#define PLACE(role) 0
#else
#define PLACE(role) (role)
#endif

/* The connection of each connecting end: whether it is open, and where it has landed */
bit opened[3];
byte landed[3];
byte live; /* ends that were let in, as bits */

/* steps of d_step alone */
byte k;
int moved;

inline say(x)
{
	k = 0;
	do
	:: k < macs && mac[k] < (x) -> k++
	:: else -> break
	od;
	if
	:: k < macs && mac[k] == (x)
	:: else ->
		assert(macs < MACS);
		macs++;
		moved = (x);
		do
		:: k < macs ->
			moved = moved ^ mac[k];
			mac[k] = moved ^ mac[k];
			moved = moved ^ mac[k];
			k++
		:: else -> break
		od
	fi;
	moved = 0;
	k = 0
}

/* yes: one of the macs is over just x */
inline look(x, yes)
{
	k = 0;
	yes = 0;
	do
	:: k < macs && mac[k] != (x) -> k++
	:: k < macs && mac[k] == (x) -> yes = 1; break
	:: k == macs -> break
	od;
	k = 0
}

/* One of the macs */
inline hear(e)
{
	e = 0;
	do
	:: e + 1 < macs -> e++
	:: break
	od;
	e = mac[e]
}

/* What no mac is over is as the intruder likes */
inline choose_role(role)
{
#ifdef NO_ROLE
	if
	:: role = 0
	:: role = 1
	fi
#else
	skip
#endif
}

inline undo_landed()
{
#ifdef DECLARED
	landed[self] = NOBODY
#else
	skip
#endif
}

/* Where a worker's packets go, as it sees it, is the end that the accept is over */
inline choose_landed(e)
{
#ifdef DECLARED
	if
	:: landed[self] = NOBODY
	:: landed[self] = 1
	:: landed[self] = 2
	:: landed[self] = 3
	fi;
#endif
#ifdef ONE_END
	skip
#else
	if
	:: landed[self] != server_of(e) -> undo_landed(); goto done
	:: else
	fi
#endif
}

proctype Server(byte self)
{
	int e, x;
	byte from, role;
	bit yes;

end:	do
	/* a knock: answered, without a note of it. Or refused */
	:: atomic {
		macs > 0 && clock[self] < CLOCK ->
			hear(e);
			if
			:: label_of(e) == KNOCK ->
				d_step {
					clock[self]++;
					printf("server %d: knock %d of role %d: challenge %d\n", self, n_of(e),
					       role_of(e), clock[self]);
					say((e & ~LABEL(7)) | LABEL(REJECT) | CODE(CHALLENGE) | T(clock[self]) |
					    M(self, n_of(e), clock[self], role_of(e), id_of(e)))
				}
			:: else
			fi;
			e = 0
	}
	/* a proof: judged, on a connection of the intruder's or of an honest end */
	:: atomic {
		macs > 0 ->
			hear(e);
#ifdef NO_LABEL
			if
#else
			if
			:: label_of(e) != PROOF -> goto done
#endif
			:: else
			fi;
			role = role_of(e);
			choose_role(role);
			if
			:: from = INTRUDER
#ifdef DECLARED
			:: from = WORKER
			:: from = READER
#else
			:: opened[WORKER] && landed[WORKER] == NOBODY -> from = WORKER
			:: opened[READER] && landed[READER] == NOBODY -> from = READER
#endif
			fi;
			/* the message, and what this server makes of it: a cookie, and the end that it sees */
			x = LABEL(PROOF) | ROLE(role) | ID(0) | N(n_of(e)) | T(t_of(e)) |
			    M(self, n_of(e), t_of(e), role, 0) | END(from);
			if
#ifndef NO_MARK
			:: t_of(e) <= mark[self].place[PLACE(role)] -> goto done
#endif
			:: t_of(e) == 0 || t_of(e) > clock[self] -> goto done
#ifndef NO_PROOF
			:: ((e ^ x) & OVER_PROOF) != 0 -> goto done
#endif
			:: else
			fi;
			/* the proof holds */
			d_step {
				mark[self].place[PLACE(role)] = t_of(e);
				if
#ifndef DECLARED
				:: from != INTRUDER -> landed[from] = self
#endif
				:: else
				fi;
				printf("server %d: proof %d/%d of role %d from end %d holds\n", self, n_of(e),
				       t_of(e), role, from);
				/* agreement: the worker made it, of just this */
				look(x, yes);
				assert(yes);
				/* once: it was not answered before */
				look((x & ~LABEL(7)) | LABEL(ACCEPT) | SHARD(HOLDS(self)) | SERVER(self), yes);
				assert(!yes);
				look((x & ~(LABEL(7) | M_BITS | END(3))) | LABEL(REJECT) | CODE(REFUSAL) |
				     SERVER(self), yes);
				assert(!yes)
			};
			if
			:: d_step {
				say((x & ~LABEL(7)) | LABEL(ACCEPT) | SHARD(HOLDS(self)) | SERVER(self))
			}
			/* a place is taken, a number is out of range ... */
			:: d_step {
				say((x & ~(LABEL(7) | M_BITS | END(3))) | LABEL(REJECT) | CODE(REFUSAL) |
				    SERVER(self))
			}
			fi;
done:
			e = 0;
			x = 0;
			from = 0;
			role = 0;
			yes = 0
	}
	od
}

/* A worker, or its reader: dials, one after the other */
proctype Peer(byte self; byte most)
{
	int e, x, said;
	byte tries;
	bit yes;

#define MY_ROLE (self - 1)

knocks:	atomic {
		tries < most ->
			tries++;
			said = LABEL(KNOCK) | ROLE(MY_ROLE) | N((self == WORKER -> 0 : WORKER_DIALS) + tries);
			opened[self] = 1;
			landed[self] = NOBODY;
			d_step {
				say(said)
			}
	};
end:	do
	/* gives up */
	:: d_step {
		printf("end %d: gives up\n", self);
		opened[self] = 0;
		landed[self] = NOBODY;
		said = 0
	   } -> break
	/* an answer that is not proved is never the last word: it is to be tried again, as above */
#ifdef FORGED_IS_FINAL
	:: atomic {
		said != 0 ->
			x = (said & ~(LABEL(7) | M_BITS | END(3))) | LABEL(REJECT) | CODE(REFUSAL);
			goto refused
	}
#endif
	:: atomic {
		macs > 0 && said != 0 ->
			hear(e);
			if
			/* a challenge, to a knock */
			:: label_of(said) == KNOCK && (label_of(e) == REJECT && code_of(e) == CHALLENGE) &&
			   ((e ^ ((said & ~LABEL(7)) | LABEL(REJECT) | CODE(CHALLENGE) | (e & (T(3) | M_BITS)))) &
			    OVER_REJECT) == 0 ->
				d_step {
					/* the knock's connection has ended; the proof has another */
					landed[self] = NOBODY;
					said = LABEL(PROOF) | ROLE(MY_ROLE) | N(n_of(said)) | (e & (T(3) | M_BITS)) |
					       END(self);
					printf("end %d: proof %d/%d\n", self, n_of(said), t_of(said));
					say(said)
				}
			/* an accept, to a proof */
			:: label_of(said) == PROOF && (label_of(e) == ACCEPT || LESS_LABEL != 0) &&
			   ((e ^ ((said & ~LABEL(7)) | LABEL(ACCEPT) | (e & (SHARD(1) | SERVER(3))))) &
			    OVER_ACCEPT) == 0 ->
				choose_landed(e);
#ifdef NO_SHARD
				x = 0
#else
				x = shard_of(e)
#endif
				;
				if
				:: x != 0 -> goto done /* it holds another shard */
				:: else
				fi;
				d_step {
					printf("end %d: accepted by %d\n", self, server_of(e));
					live = live | 1 << self;
					/* one server has just this session, and is where the connection is */
					look((said & ~LABEL(7)) | LABEL(ACCEPT) | SHARD(0) | SERVER(landed[self]), yes);
					assert(landed[self] != NOBODY && yes);
#ifdef LETS_IN
					assert(live != (1 << WORKER | 1 << READER));
#endif
					said = 0
				};
				goto lives
			/* a refusal that is proved: the last word */
			:: (label_of(e) == REJECT && (code_of(e) == REFUSAL || LESS_CODE != 0)) &&
			   ((e ^ ((said & ~(LABEL(7) | M_BITS | END(3))) | LABEL(REJECT) | CODE(REFUSAL) |
				  (e & SERVER(3)))) &
			    OVER_REJECT & ~(label_of(said) == KNOCK -> T(3) | M_BITS : 0)) == 0 ->
				x = (said & ~(LABEL(7) | M_BITS | END(3))) | LABEL(REJECT) | CODE(REFUSAL) |
				    (e & SERVER(3));
				goto refused
			:: else
			fi;
done:
			e = 0;
			x = 0
	}
	od;
	goto knocks;

refused:
	yes = 0;
	d_step {
		/* a server that saw this very message said so */
		printf("end %d: refused\n", self);
		look(x, yes);
		assert(yes);
		opened[self] = 0;
		said = 0;
		e = 0;
		x = 0
	};
	goto over;
lives:
	yes = 0;
	d_step {
		opened[self] = 0;
		e = 0;
		x = 0
	};
over:	skip
}

#ifdef INSIDER
/* The intruder has the credential of another id: it knocks, and makes proofs for what it has seen */
proctype Insider()
{
	int e;

	d_step {
		say(LABEL(KNOCK) | ROLE(0) | ID(1))
	};
end:	do
	:: atomic {
		macs > 0 ->
			hear(e);
			if
			:: label_of(e) == REJECT && code_of(e) == CHALLENGE ->
				d_step {
					say(LABEL(PROOF) | ROLE(role_of(e)) | ID(1) | N(n_of(e)) |
					    (e & (T(3) | M_BITS)) | END(INTRUDER))
				}
			:: else
			fi;
			e = 0
	}
	od
}
#endif

init {
	atomic {
		run Server(1);
		run Server(2);
		run Server(3);
#ifdef INSIDER
		run Insider();
#endif
		run Peer(WORKER, WORKER_DIALS);
		run Peer(READER, READER_DIALS)
	}
}
