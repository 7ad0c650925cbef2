/*
 * durable/engine.h: streams in a folder: durable writes, reads, waiting, upkeep.
 *
 * Owns      an engine owns its folder's store, its writer thread and what it has taken, until
 *           sc_ds_close; calls, waiters and readers are the caller's memory.
 * Units     positions; sizes in bytes; us since 1970 UTC; ms as the names say.
 * Errors    what a client did wrong is an answer (durable/protocol.h); negative codes are the
 *           machine's: they are told in *err, and the answer is then a 503.
 * Safety    any thread, any number of them. `done` and `woken` are called from the writer's thread:
 *           they must be short, must not block, and must not call into the engine (hand over to a
 *           thread of your own). What is answered with success is on disk.
 * Source    durable-streams 16, 18, 19, 22; LMDB through kv/kv.h.
 *
 * One writer thread takes all that is queued, decides each call inside one transaction, syncs once,
 * and then answers: calls of one stream are answered in the order of their submission, and no
 * answer depends on a write that could still be lost. Readers use short read transactions in
 * their own threads, and see only what is synced. Another process may use the same folder at the
 * same time (sc-streams ls, trim, seal, verify); it wakes no waiters here.
 */
#ifndef SC_DURABLE_ENGINE_H
#define SC_DURABLE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/err.h"
#include "durable/protocol.h"

struct sc_ds;
struct sc_ds_load; /* what one stream has in flight */
struct sc_kv_txn;
struct sc_ds_work; /* the writer's transaction: durable/engine_internal.h */

enum sc_ds_happened { SC_DS_CREATED, SC_DS_CHANGED, SC_DS_REMOVED };
struct sc_ds_event { /* of a life in a commit: created or changed at most once, then removed */
	enum sc_ds_happened happened;
	uint64_t sid, tail;
	struct sc_span path; /* good during the call */
};

struct sc_ds_settings { /* 0 = the standard value */
	bool read_only;               /* readers, list and verify only; the store must be there */
	uint64_t size_max;            /* address space of the store: 1 TiB, or what can be had */
	uint64_t read_bytes;          /* a read returns about so much: 1 MiB */
	uint64_t stream_inflight_max; /* written and not yet durable, of a stream: 64 MiB */
	uint64_t inflight_max;        /* of all: 256 MiB */
	uint64_t batch_bytes_max;     /* in one commit: 64 MiB */
	unsigned batch_calls_max;     /* in one commit: 4096 */
	unsigned delete_page;         /* data is removed in pages of so many runs of messages: 2000 */
	unsigned subs_max;            /* subscriptions: 10,000 */
	unsigned links_max;           /* streams of one subscription: 100,000 */
	int64_t sweep_ms, repair_ms;  /* between two looks: 10 s and 60 s; -1: only sc_ds_upkeep */
	/* From the writer's thread: an error that no caller gets (upkeep that failed, a broken
	 * store). */
	void (*trouble)(void *arg, const struct sc_err *err);
	/* From the writer's thread, after a commit, before its `done` and `woken`: what it
	 * changed. */
	void (*committed)(void *arg, const struct sc_ds_event *events, size_t count);
	void *arg;
};

/* Makes the folder and the store when they are not there (not with read_only). */
int sc_ds_open(const char *folder, const struct sc_ds_settings *settings, struct sc_ds **ret_ds,
	       struct sc_err *err);
/* Finishes what was taken, stores last accesses, ends the thread. New calls are answered 503 from
 * sc_ds_stop on. All waiters are woken with SC_DS_WOKEN_STOP by sc_ds_stop. */
void sc_ds_stop(struct sc_ds *ds);
void sc_ds_close(struct sc_ds *ds);

/* -- writes -- */
enum sc_ds_op {
	SC_DS_OP_REQUEST, /* request: PUT, POST or DELETE */
	SC_DS_OP_TRIM,    /* request.path, position: 204, 400 past the tail (which is `next`) or
			   * inside a message, 404, 410 */
	SC_DS_OP_SEAL,    /* request.path: the group: 204; for good */
	SC_DS_OP_WORK     /* for the rooms' own: see durable/engine_internal.h */
};

struct sc_ds_call {
	enum sc_ds_op op;
	struct sc_ds_request request; /* what it borrows must stay until `done` */
	uint64_t position;
	/* Once, after the commit is durable (or has failed); the call is the caller's again. */
	void (*done)(struct sc_ds_call *call);
	void *arg;
	struct sc_ds_answer answer;   /* init before the first use; done afterwards */
	/* the engine's */
	struct sc_ds_call *next;
	struct sc_ds_presplit split;
	struct sc_ds_load *load;
	int (*work)(struct sc_ds_call *call, struct sc_ds_work *work, struct sc_err *err);
	const void *asked; /* of SC_DS_OP_WORK */
	int64_t taken_us;
	uint64_t bytes;
	bool has_split;
};

/* 0: taken, `done` comes. 1: answered at once (overload, stopping, a broken store): `done` does
 * not come. Never blocks on the disk. */
int sc_ds_submit(struct sc_ds *ds, struct sc_ds_call *call);
/* The same, and waits; `done` is not used. */
void sc_ds_call(struct sc_ds *ds, struct sc_ds_call *call);

/* -- reads, in the caller's thread -- */
/*
 * A body that is lent, not copied: its long messages lie in the store's pages, what is between
 * them in the answer's body. It holds a read transaction, and with it pages that were given back:
 * the caller sends at once what can be sent without waiting, and ends the loan.
 */
#define SC_DS_LOAN_PARTS 512
struct sc_ds_loan {
	struct sc_kv_txn *txn;
	uint64_t bytes; /* of all parts */
	size_t count;   /* 0: nothing is lent, the body is the answer's */
	struct iovec parts[SC_DS_LOAN_PARTS];
};
/* All but the first TAKEN bytes becomes the answer's body; 0 or SC_E_NOMEM. The loan is over in
 * either case. ANSWER is the one that was read into. */
int sc_ds_loan_end(struct sc_ds_loan *loan, uint64_t taken, struct sc_ds_answer *answer);

/* One GET over all its reads. Zero it, or sc_ds_reader_init. */
struct sc_ds_reader {
	bool started;              /* the first read found a stream: path and offset are settled */
	enum sc_ds_live live;
	bool now;                  /* asked from the tail, and nothing sent yet */
	bool moved;                /* SSE: an event was sent */
	bool base64, json;
	uint64_t sid, at;          /* the life that is read, and how far */
	uint64_t read_bytes;       /* the caller's: less than the engine's at a time; 0: as much */
	struct sc_ds_loan *loan;   /* the caller's, empty: a body may be lent; NULL: never */
};
static inline void sc_ds_reader_init(struct sc_ds_reader *reader)
{
	*reader = (struct sc_ds_reader){ 0 };
}

/*
 * The next answer of a GET. REQUEST is needed every time (its cursor and If-None-Match too).
 *   catch-up    one read is the answer.
 *   long-poll   answer->wait: nothing yet; sc_ds_wait, then read again. LAST: the time is over,
 *               the answer is the final one (204).
 *   SSE         a status other than 200 can come from the first read only: an ordinary answer.
 *               Else body holds events, ready to send (it may be empty after a wake that brought
 *               nothing). wait: send it, then sc_ds_wait; neither wait nor end: send it, read
 *               again. end: send it, and end the response.
 * Counts as an access. At most about read_bytes of data are copied out; the read transaction is
 * over on return, unless the body was lent (reader->loan, not for SSE).
 */
int sc_ds_read(struct sc_ds *ds, const struct sc_ds_request *request, struct sc_ds_reader *reader,
	       bool last, struct sc_ds_answer *answer, struct sc_err *err);
/* HEAD: no access. */
int sc_ds_head(struct sc_ds *ds, struct sc_span path, struct sc_ds_answer *answer,
	       struct sc_err *err);

/* -- waiting: 10,000 of them are cheap -- */
enum sc_ds_woken {
	SC_DS_WOKEN_CHANGED, /* appended or closed: read again */
	SC_DS_WOKEN_GONE,    /* deleted or expired: read again (404 or 410, or the end of SSE) */
	SC_DS_WOKEN_STOP     /* the engine stops: 503 or the end */
};
struct sc_ds_waiter {
	void (*woken)(struct sc_ds_waiter *waiter, enum sc_ds_woken why);
	void *arg;
	/* the engine's */
	struct sc_ds_waiter *next, **prev;
	uint64_t sid;
};
/*
 * Waits for anything behind what READER has read. 0: registered; `woken` comes once, unless
 * sc_ds_unwait is faster. 1: something is there already (or the engine stops): read again,
 * `woken` does not come. A stream with a sliding TTL does not expire while someone waits for it.
 * `woken` runs with the engine's lock held, so what it locks must not be held around sc_ds_wait or
 * sc_ds_unwait.
 */
int sc_ds_wait(struct sc_ds *ds, const struct sc_ds_reader *reader, struct sc_ds_waiter *waiter,
	       struct sc_err *err);
/* On return `woken` is not running and will not run. Accepts one that is not registered (zeroed, or
 * woken before). */
void sc_ds_unwait(struct sc_ds *ds, struct sc_ds_waiter *waiter);

/* -- looking after it -- */
/* Live streams (not gone; expired ones until they are swept) whose path begins with PREFIX, in
 * byte order. EACH returns 0 to go on; another value ends the list and is returned. It may take its
 * time: nothing of the store is held meanwhile. */
int sc_ds_list(struct sc_ds *ds, struct sc_span prefix,
	       int (*each)(void *arg, const struct sc_ds_stream *stream), void *arg,
	       struct sc_err *err);
/* Sweep, repair and deletion, now and to the end: for tests and tools. Blocks. */
int sc_ds_upkeep(struct sc_ds *ds, struct sc_err *err);

struct sc_ds_verified {
	uint64_t streams, gone, messages, bytes, producers, faults;
	uint64_t subs, links; /* of subscriptions */
};
/* Reads everything. Each fault is told to FAULT as one sentence; faults are no error of the
 * call. */
int sc_ds_verify(struct sc_ds *ds, void (*fault)(void *arg, const char *what), void *arg,
		 struct sc_ds_verified *ret_verified, struct sc_err *err);

/* Upper bounds of a histogram, in us; one more bucket for what is above. */
#define SC_DS_BOUNDS 12
extern const int64_t sc_ds_bounds_us[SC_DS_BOUNDS];
struct sc_ds_histogram {
	uint64_t buckets[SC_DS_BOUNDS + 1]; /* not cumulative */
	uint64_t count, sum_us;
};
struct sc_ds_stats {
	struct sc_ds_histogram append_us;      /* accepted to durable */
	uint64_t appended, closed;             /* appends_total by result */
	uint64_t append_bytes;
	uint64_t overloaded;                   /* appends refused */
	uint64_t write_failures;               /* commits that failed */
	uint64_t commits, calls;               /* so: calls a commit */
	uint64_t reads, read_bytes;
	uint64_t expired, trimmed, deleted_bytes; /* streams, bytes, bytes */
	/* now */
	uint64_t inflight_bytes, inflight_calls, waiters;
	uint64_t streams, delete_backlog, expiry_due;
	uint64_t set_aside;                    /* chores that are left, what they are about being damaged */
	uint64_t store_used_bytes, store_file_bytes;
	bool broken;                           /* takes no writes until it is opened again */
	/* subscriptions */
	uint64_t wakes, leases_over, fenced, links_refused, wakes_unheard;
	uint64_t hooks_taken, hooks_done, hooks_failed; /* deliveries, by what became of them */
	uint64_t subs, links, links_pending;            /* now */
};
int sc_ds_stats(struct sc_ds *ds, struct sc_ds_stats *ret_stats, struct sc_err *err);

#endif
