/* The election and the replication of migrator/raft, small enough to be tried in every order.
 *
 * In:   bounds and a variant, as -D (README.md beside this file has the table).
 * Out:  Spin's verdict: assertions for safety, the formula `settles` for liveness.
 * Elsewhere: clocks, bytes, snapshots, observers, changes of the voter set; README.md says what else is left out.
 * Source: KIP-595, as elections.py, leading.py, following.py, quorum.py and log_view.py do it.
 *
 * A step is one d_step. A crash between two effects of one event looks to everybody like a crash before the event
 * (nothing was persisted yet) or after it, with its messages lost; both are here.
 *
 * A request and the reading of its answer are one step, or the answer is lost and the sender asks again. That is
 * enough: until the answer is read, or given up and so as good as lost, its sender's log, epoch and role stay as they
 * were when it asked, so reading it earlier changes nothing that anybody else could see. For the same reason a request
 * that is under way needs no place: it is what its sender would ask now. Requests that were given up, or sent twice,
 * are another matter. One of them at a time may be somewhere in the network, to arrive whenever it likes; nobody
 * reads its answer.
 */

#ifndef EPOCHS
#define EPOCHS 3     /* a node that is in this epoch does not stand again */
#endif
#ifndef LENGTH
#define LENGTH 3     /* records in a log, LeaderChange records included */
#endif
#ifndef CRASHES
#define CRASHES 1    /* crashes and resignations, of all nodes together */
#endif
#ifndef RECORDS
#define RECORDS 1    /* records of clients, of all leaders together */
#endif
#ifndef LOSSES
#define LOSSES 1     /* with LIVE: answers lost; without it any number */
#endif
#ifndef LATE
#define LATE 1       /* with LIVE: requests that arrive late or twice; without it any number, one at a time */
#endif
#ifndef EARLY
#define EARLY 1      /* with LIVE: timers that fire though they should not; without it any timer fires at any time */
#endif

#define N 3
#define NOBODY 3     /* the nodes are 0, 1, 2 */

/* roles */
#define UNATTACHED 0 /* with or without a vote in this epoch */
#define CANDIDATE 1
#define LEADER 2
#define FOLLOWER 3
#define RESIGNED 4

/* requests */
#define NOTHING 0
#define VOTE 1
#define BEGIN 2
#define FETCH 3

/* of a node, on disk at once */
byte epoch[N];
byte vote[N] = NOBODY;
byte leader[N] = NOBODY;
/* of a node, on disk as far as `synced` */
byte log[N * LENGTH];          /* a record is its epoch: with its offset that names it */
byte end[N];
byte synced[N];
/* of a node, in memory */
byte role[N];
byte high[N];                  /* records before it are known to be committed */
byte first[N];                 /* of a leader: the offset of its LeaderChange */
byte fetched[N * N];           /* of a leader [itself, voter]: the offset that this voter fetched from */
/* the request that is late */
byte kind;
byte from;
byte to;
byte at;                       /* the epoch of its sender */
byte x;                        /* the epoch of its last record, of VOTE and FETCH */
byte y;                        /* the offset after that record */
/* what is left of the bounds */
byte crashes = CRASHES;
byte records = RECORDS;
#ifdef LIVE
byte losses = LOSSES;
byte late = LATE;
byte early = EARLY;
byte stood_last = NOBODY;
#endif
/* history, only for the assertions */
byte led_by[EPOCHS + 1] = NOBODY;
byte committed[LENGTH];        /* what any node ever called committed */
byte commits;

hidden byte k; hidden byte ep; hidden byte n; hidden byte shared; hidden byte yes;  /* of one step, no part of a state */

#define FETCHED(led, p)   fetched[(led) * N + (p)]
#define REC(p, offset)    log[(p) * LENGTH + (offset)]
#define EPOCH_AT(p, stop) ((stop) == 0 -> 0 : REC(p, (stop) - 1))  /* the epoch of the last record before `stop` */
#define LEADS(p, e)       (role[p] == LEADER && epoch[p] == (e))
#define MIN(p, q)         ((p) < (q) -> (p) : (q))
#define MAX(p, q)         ((p) > (q) -> (p) : (q))

/* A new leader does not know what is committed until a record of its own epoch is. */
#ifdef COUNT_OLD_EPOCHS
#define MAY_COUNT(p, offset) 1
#define TOLD(p)              high[p]
#else
#define MAY_COUNT(p, offset) ((offset) > first[p])
#define TOLD(p)              (high[p] > first[p] -> high[p] : 0)
#endif

/* --- that interesting states are reached: each of these assertions has to fail --------------------------- */

#ifdef REACH_TRUNCATE          /* a leader of a later epoch makes a follower cut what was never committed */
#define REACHED_TRUNCATE(p)   assert(epoch[p] < 2 || n >= end[p])
#else
#define REACHED_TRUNCATE(p)   skip
#endif
#ifdef REACH_COMMIT            /* after a crash, a leader of a later epoch commits a record of its own */
#define REACHED_COMMIT(p)     assert(crashes == CRASHES || epoch[p] < 2)
#else
#define REACHED_COMMIT(p)     skip
#endif
#ifdef REACH_INHERIT           /* the first record of an epoch commits a record of an epoch before */
#define REACHED_INHERIT(p)    assert(commits > 0 || REC(p, 0) == epoch[p])
#else
#define REACHED_INHERIT(p)    skip
#endif
#ifdef REACH_LOSS              /* a crash takes records that were not synced */
#define REACHED_LOSS(p, keep) assert((keep) == end[p])
#else
#define REACHED_LOSS(p, keep) skip
#endif
#ifdef REACH_LATE              /* a late fetch sets the progress of a follower back */
#define REACHED_LATE(p, q, o) assert((o) >= FETCHED(q, p))
#else
#define REACHED_LATE(p, q, o) skip
#endif

/* --- what must hold -------------------------------------------------------------------------------------- */

/* Two logs that share a record are equal up to it. */
inline compare_logs(p, q) {
    shared = 1;
    k = 0;
    do
    :: k < end[p] && k < end[q] ->
        if
        :: REC(p, k) != REC(q, k) -> shared = 0
        :: else -> assert(shared)                                             /* log matching */
        fi;
        k++
    :: else -> break
    od
}

inline check_logs() {
    compare_logs(0, 1); compare_logs(0, 2); compare_logs(1, 2);
    k = 0;
    do
    :: k < commits ->
        assert((synced[0] > k && REC(0, k) == committed[k])
             + (synced[1] > k && REC(1, k) == committed[k])
             + (synced[2] > k && REC(2, k) == committed[k]) >= 2);            /* what is committed is never lost */
        k++
    :: else -> break
    od
}

inline check_committed(p) {
    assert(high[p] <= end[p]);
    k = 0;
    do
    :: k < high[p] ->
        if
        :: k < commits -> assert(REC(p, k) == committed[k])                   /* the same is committed for all */
        :: else -> committed[k] = REC(p, k); commits = k + 1
        fi;
        k++
    :: else -> break
    od
}

inline check_leader(p) {
    assert(led_by[epoch[p]] == NOBODY);                                       /* election safety */
    led_by[epoch[p]] = p;
    k = 0;
    do
    :: k < commits -> assert(k < end[p] && REC(p, k) == committed[k]); k++    /* leader completeness */
    :: else -> break
    od
}

/* --- moves of a node (quorum.py) ------------------------------------------------------------------------- */

inline move(p, into, e, voted, led) {
    assert(e >= epoch[p]);
    epoch[p] = e; vote[p] = voted; leader[p] = led; role[p] = into;
    first[p] = 0; FETCHED(p, 0) = 0; FETCHED(p, 1) = 0; FETCHED(p, 2) = 0
}

/* p hears who leads an epoch that is not below its own. */
inline adopt(p, e, who) {
    if
    :: e > epoch[p] && who == NOBODY -> move(p, UNATTACHED, e, NOBODY, NOBODY)
    :: who != NOBODY && (e > epoch[p] || leader[p] == NOBODY) -> assert(who != p); move(p, FOLLOWER, e, NOBODY, who)
    :: else -> assert(who == NOBODY || who == leader[p])                      /* one leader is told of an epoch */
    fi
}

/* Its own vote and one more are the majority of three. */
inline lead(p) {
    move(p, LEADER, epoch[p], NOBODY, p);
    check_leader(p);
    first[p] = end[p];
#ifndef NO_LEADER_CHANGE
    REC(p, end[p]) = epoch[p];
    end[p]++
#endif
}

/* The middle one of three ends is on two disks. Self counts by what is synced, the others by what they fetch. */
inline advance_high_watermark(p, f1, f2) {
    n = MAX(MIN(f1, f2), MIN(MAX(f1, f2), synced[p]));
    if
    :: n > high[p] && MAY_COUNT(p, n) ->
        REACHED_COMMIT(p); REACHED_INHERIT(p);
        high[p] = n;
        check_committed(p)
    :: else
    fi
}

inline advance(p) {
    advance_high_watermark(p, FETCHED(p, (p + 1) % N), FETCHED(p, (p + 2) % N))
}

/* The largest epoch not above e in the log of p, and where it ended: ep and k, as `EpochCache.end_of` tells it. */
inline end_of(p, e) {
    k = 0;
    do
    :: k < end[p] && REC(p, k) <= e -> k++
    :: else -> break
    od;
    ep = (k > 0 -> EPOCH_AT(p, k) : (end[p] > 0 -> e : 0))
}

inline cut(p, stop) {
    do
    :: end[p] > stop -> end[p]--; REC(p, end[p]) = 0
    :: else -> break
    od;
    synced[p] = stop
}

/* --- q hears a request of p, sent in epoch e with a log that ends at (le, lo) ----------------------------- */

#define MAY_GRANT(p, q, le, lo) (role[q] == UNATTACHED && leader[q] == NOBODY && (vote[q] == p || (vote[q] == NOBODY \
    && ((le) > EPOCH_AT(q, synced[q]) || ((le) == EPOCH_AT(q, synced[q]) && (lo) >= synced[q])))))

inline hear_vote(p, q, e, le, lo) {
    if
    :: e > epoch[q] -> move(q, UNATTACHED, e, NOBODY, NOBODY)
    :: else
    fi;
    yes = 0;
    if
    :: e == epoch[q] && MAY_GRANT(p, q, le, lo) -> vote[q] = p; yes = 1
    :: else
    fi
}

inline hear_begin(p, q, e) {
    if
    :: e >= epoch[q] -> adopt(q, e, p)
    :: else
    fi
}

/* Leaves in `yes` whether the logs agree so far, and if not, in ep and n how far they may. */
inline hear_fetch(p, q, e, le, lo) {
    if
    :: LEADS(q, e) ->
        end_of(q, le);
        n = k;
        yes = (lo == 0 || (ep == le && n >= lo));
        if
        :: yes ->
            REACHED_LATE(p, q, lo);
            FETCHED(q, p) = lo;
            advance(q)
        :: else
        fi
    :: else
    fi
}

/* --- p asks q and reads the answer ------------------------------------------------------------------------ */

/* What every answer tells: the epoch and the leader of who answers. */
#define TELLS_MORE(p, q) (epoch[q] > epoch[p] || (epoch[q] == epoch[p] && leader[q] != NOBODY && leader[p] == NOBODY))

inline read_vote(p, q) {
    if
    :: TELLS_MORE(p, q) -> adopt(p, epoch[q], leader[q])
    :: !TELLS_MORE(p, q) && yes -> lead(p)
    :: else
    fi
}

inline read_begin(p, q) {
    if
    :: TELLS_MORE(p, q) -> adopt(p, epoch[q], leader[q])
    :: else
    fi
}

/* One record in each answer, if q has one on its disk. */
inline take_records(p, q) {
    if
    :: end[p] < synced[q] ->
        ep = REC(q, end[p]);
        assert(ep >= EPOCH_AT(p, end[p]) && ep <= epoch[p]);
        REC(p, end[p]) = ep;
        end[p]++
    :: else
    fi;
    n = MIN(TOLD(q), end[p]);
    if
    :: n > high[p] -> high[p] = n; check_committed(p)
    :: else
    fi
}

/* As `LogView.end_shared_with`; le and lo are what q said. */
inline truncate_to_leader(p, le, lo) {
    end_of(p, le);
    n = (le == 0 -> MIN(lo, end[p]) : (ep == le -> MIN(lo, k) : k));
    assert(n >= high[p]);                                                     /* what is committed is never cut */
    REACHED_TRUNCATE(p);
#ifndef NO_TRUNCATION
    if
    :: n < end[p] -> cut(p, n)
    :: else
    fi
#endif
}

hidden byte told_epoch; hidden byte told_end;

inline read_fetch(p, q) {
    if
    :: TELLS_MORE(p, q) -> adopt(p, epoch[q], leader[q])
    :: !TELLS_MORE(p, q) && LEADS(q, epoch[p]) && yes -> take_records(p, q)
    :: !TELLS_MORE(p, q) && LEADS(q, epoch[p]) && !yes ->
        told_epoch = ep; told_end = n;
        truncate_to_leader(p, told_epoch, told_end)
    :: else
    fi
}

/* --- when (polls and deadlines) --------------------------------------------------------------------------- */

/* Requests whose hearing and whose answer change nothing are left out. So a fetch waits until there is news. */
#define VOTE_MATTERS(p, q)  (role[p] == CANDIDATE && (epoch[q] != epoch[p] || leader[q] != NOBODY \
    || MAY_GRANT(p, q, EPOCH_AT(p, synced[p]), synced[p])))
#define BEGIN_MATTERS(p, q) (role[p] == LEADER && (epoch[q] != epoch[p] || leader[q] == NOBODY))
#define HAS_NEWS(p, q)      (FETCHED(q, p) != end[p] || synced[q] > end[p] || TOLD(q) > high[p] \
    || EPOCH_AT(q, MIN(end[p], end[q])) != EPOCH_AT(p, end[p]))
#ifdef ACKNOWLEDGE_EARLY
#define MAY_FETCH(p, q)     (role[p] == FOLLOWER && leader[p] == q)
#else
#define MAY_FETCH(p, q)     (role[p] == FOLLOWER && leader[p] == q && synced[p] == end[p])
#endif
#define FETCH_MATTERS(p, q) (MAY_FETCH(p, q) && (epoch[q] != epoch[p] || (role[q] == LEADER && HAS_NEWS(p, q))))

/* The nodes have no names yet: call 0 who stands first, and 1 who hears or stands next. */
#define IS_AWAKE(p)  ((p) == 0 || epoch[(p) - 1] > 0)
#define MAY_STAND(p) (IS_AWAKE(p) && role[p] != LEADER && epoch[p] < EPOCHS && end[p] < LENGTH)

#ifdef LIVE
/* Good weather: time passes only when nothing else is left to do, and no node is always the first to wake up. */
#define IS_LED(p)    (role[p] == FOLLOWER && LEADS(leader[p], epoch[p]))
#define WANTS(p)     (role[p] != LEADER && !IS_LED(p))
#define RESTS(p, q)  (!VOTE_MATTERS(p, q) && !BEGIN_MATTERS(p, q) && !FETCH_MATTERS(p, q))
#define IS_QUIET     (kind == NOTHING && synced[0] == end[0] && synced[1] == end[1] && synced[2] == end[2] \
    && RESTS(0, 1) && RESTS(0, 2) && RESTS(1, 0) && RESTS(1, 2) && RESTS(2, 0) && RESTS(2, 1))
#define STANDS(p, o1, o2) (MAY_STAND(p) && (early > 0 \
    || (WANTS(p) && IS_QUIET && (stood_last != p || (!WANTS(o1) && !WANTS(o2))))))
#define MAY_LOSE     (losses > 0)
#define MAY_BE_LATE  (late > 0 && kind == NOTHING)
#else
#define STANDS(p, o1, o2) MAY_STAND(p)
#define MAY_LOSE     1
#define MAY_BE_LATE  (kind == NOTHING)
#endif

inline stand(p, o1, o2) {
#ifdef LIVE
    if
    :: WANTS(p) && IS_QUIET && (stood_last != p || (!WANTS(o1) && !WANTS(o2))) -> stood_last = p
    :: else -> early--
    fi;
#endif
    move(p, CANDIDATE, epoch[p] + 1, p, NOBODY)
}

/* --- faults ----------------------------------------------------------------------------------------------- */

inline lose() {
#ifdef LIVE
    losses--
#else
    skip
#endif
}

inline delay(what, p, q, le, lo) {
#ifdef LIVE
    late--;
#endif
    kind = what; from = p; to = q; at = epoch[p]; x = le; y = lo
}

inline forget() { kind = NOTHING; from = 0; to = 0; at = 0; x = 0; y = 0 }

inline arrive(p, q) {
    if
    :: kind == VOTE -> hear_vote(p, q, at, x, y)
    :: kind == BEGIN -> hear_begin(p, q, at)
    :: else -> hear_fetch(p, q, at, x, y)
    fi;
    forget()
}

/* A late request without any effect from now on is taken away: one state instead of two. */
#define IS_MOOT (kind != NOTHING && (at < epoch[to] || (kind == FETCH && !LEADS(to, at)) || (at == epoch[to] \
    && ((kind == BEGIN && leader[to] != NOBODY) || (kind == VOTE && (leader[to] != NOBODY || vote[to] != NOBODY))))))

/* Memory is lost, and the records that were not synced but for the first few; what is left is synced when it is read. */
inline crash(p, keep) {
    crashes--;
    REACHED_LOSS(p, keep);
    cut(p, keep);
    high[p] = 0;
#ifdef FORGET_VOTE
    if
    :: vote[p] != p -> vote[p] = NOBODY
    :: else
    fi;
#endif
    n = (leader[p] == p -> RESIGNED : (leader[p] != NOBODY -> FOLLOWER : (vote[p] == p -> CANDIDATE : UNATTACHED)));
    move(p, n, epoch[p], vote[p], leader[p])
}

/* --- the nodes -------------------------------------------------------------------------------------------- */

inline done() {
    if
    :: IS_MOOT -> forget()
    :: else
    fi;
    check_logs();
    k = 0                                                                     /* a d_step may not end with a loop */
}

#define STEPS_TOWARDS(q) \
    :: d_step { IS_AWAKE(q) && VOTE_MATTERS(me, q) -> \
            hear_vote(me, q, epoch[me], EPOCH_AT(me, synced[me]), synced[me]); read_vote(me, q); done() } \
    :: d_step { IS_AWAKE(q) && VOTE_MATTERS(me, q) && MAY_LOSE -> \
            lose(); hear_vote(me, q, epoch[me], EPOCH_AT(me, synced[me]), synced[me]); done() } \
    :: d_step { IS_AWAKE(q) && BEGIN_MATTERS(me, q) -> hear_begin(me, q, epoch[me]); read_begin(me, q); done() } \
    :: d_step { FETCH_MATTERS(me, q) -> \
            hear_fetch(me, q, epoch[me], EPOCH_AT(me, end[me]), end[me]); read_fetch(me, q); done() } \
    :: d_step { FETCH_MATTERS(me, q) && MAY_LOSE -> \
            lose(); hear_fetch(me, q, epoch[me], EPOCH_AT(me, end[me]), end[me]); done() } \
    :: d_step { role[me] == CANDIDATE && MAY_BE_LATE -> \
            n = EPOCH_AT(me, synced[me]); delay(VOTE, me, q, n, synced[me]); done() } \
    :: d_step { role[me] == LEADER && MAY_BE_LATE -> delay(BEGIN, me, q, 0, 0); done() } \
    :: d_step { MAY_FETCH(me, q) && MAY_BE_LATE -> n = EPOCH_AT(me, end[me]); delay(FETCH, me, q, n, end[me]); done() } \
    :: d_step { kind != NOTHING && from == q && to == me && IS_AWAKE(me) -> arrive(q, me); done() }

#define CRASH(keep) \
    :: d_step { crashes > 0 && synced[me] <= (keep) && (keep) <= end[me] -> crash(me, keep); done() }

proctype Node(byte me; byte one; byte two) {
end_of_events:
    do
    STEPS_TOWARDS(one)
    STEPS_TOWARDS(two)
    :: d_step { synced[me] < end[me] ->
            synced[me] = end[me];
            if :: role[me] == LEADER -> advance(me) :: else fi;
            done() }
    :: d_step { role[me] == LEADER && records > 0 && end[me] < LENGTH ->
            records--; REC(me, end[me]) = epoch[me]; end[me]++; done() }
    :: d_step { STANDS(me, one, two) -> stand(me, one, two); done() }
    :: d_step { crashes > 0 && role[me] == LEADER -> crashes--; move(me, RESIGNED, epoch[me], vote[me], me); done() }
#ifndef LIVE
    :: d_step { kind != NOTHING && from == me -> forget(); done() }
#endif
    CRASH(0)
    CRASH(1)
    CRASH(2)
    CRASH(3)
#if LENGTH > 3
    CRASH(4)
#endif
#if LENGTH > 4
    CRASH(5)
#endif
#if LENGTH > 5
    CRASH(6)
#endif
    od
}

init { atomic { run Node(0, 1, 2); run Node(1, 2, 0); run Node(2, 0, 1) } }

#ifdef LIVE
/* In the end there is one leader for all, and all have, and know as committed, whatever it has. */
#define AGREES(p, led) (epoch[p] == epoch[led] && leader[p] == led && end[p] == end[led] && high[p] == end[led])
#define ALL_AGREE(led) (role[led] == LEADER && end[led] > 0 && AGREES(0, led) && AGREES(1, led) && AGREES(2, led))
ltl settles { <>[](ALL_AGREE(0) || ALL_AGREE(1) || ALL_AGREE(2)) }
#endif
