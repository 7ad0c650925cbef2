/*
 * durable/engine_internal.h: what the files of the engine share.
 *
 * Owns      see durable/engine.h. A work (one transaction of the writer) lives on the writer's
 *           stack; its entries come from the engine's pool.
 * Units     as in durable/engine.h.
 * Errors    negative codes end the whole transaction.
 * Safety    a work and what hangs on it belong to the writer's thread. Locks: ds->lock (queue,
 *           loads, numbers), each shelf's own, ds->access_lock; never two at a time.
 * Source    durable-streams 16 to 19; the tables below.
 */
#ifndef SC_DURABLE_ENGINE_INTERNAL_H
#define SC_DURABLE_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "durable/engine.h"
#include "kv/kv.h"

/* The tables. Numbers in keys are 8 bytes big-endian, so that they sort. */
enum sc_ds_table {
	SC_DS_META,      /* "format" -> 1; "sid" -> the next sid; "turn" -> nothing that matters */
	SC_DS_PATHS,     /* path without its first '/' -> sid; gone streams too */
	SC_DS_STREAMS,   /* sid -> record (record.c) */
	SC_DS_RUNS,      /* sid, position -> whole frames (messages.h) from there on */
	SC_DS_PRODUCERS, /* sid, 'i' and the id (or 'h' and its SHA-256) -> epoch, seq */
	SC_DS_EXPIRY,    /* when to look, sid -> nothing */
	SC_DS_FORKS,     /* source sid, fork sid -> nothing */
	SC_DS_DELETES,   /* sid -> 'D': all its runs and producers; 'T': what is trimmed; of a
			    subscription 'S': its links */
	SC_DS_SEALS,     /* group -> nothing */
	SC_DS_SUBS,      /* number -> a subscription (sub_record.c) */
	SC_DS_SUB_IDS,   /* a subscription's id -> its number */
	SC_DS_PATTERNS,  /* what matching paths begin with, 0, number -> the pattern, with its prefix */
	SC_DS_LINKS,     /* number, as a producer the path -> a link (sub_record.c) */
	SC_DS_LINKED,    /* the path, 0, number -> nothing: who has a link to it */
	SC_DS_PENDING,   /* as links, of those with more than was acknowledged -> nothing */
	SC_DS_DUE,       /* 'L' a lease or 'A' a delivery, time, number -> nothing */
	SC_DS_TABLES
};

#define SC_DS_FORMAT 1
#define SC_DS_RUN_MAX 65520u   /* 16 whole pages of LMDB; a longer message is a run alone */
#define SC_DS_KEY_MAX 511
#define SC_DS_BUCKETS 4096u
#define SC_DS_SHELVES 64u

static inline void sc_ds_put_be64(char *out, uint64_t number)
{
	for (int i = 0; i < 8; i++)
		out[i] = (char)(number >> (56 - 8 * i));
}

static inline uint64_t sc_ds_get_be64(const char *in)
{
	uint64_t number = 0;

	for (int i = 0; i < 8; i++)
		number = number << 8 | (unsigned char)in[i];
	return number;
}

/* Times in keys: before 1970 too. */
static inline uint64_t sc_ds_time_key(int64_t us)
{
	return (uint64_t)us ^ 1ull << 63;
}

static inline int64_t sc_ds_key_time(const char *in)
{
	return (int64_t)(sc_ds_get_be64(in) ^ 1ull << 63);
}

uint64_t sc_ds_hash(struct sc_span bytes);

/* -- store.c: keys and rows -- */
struct sc_ds_key {
	char data[SC_DS_KEY_MAX + 1];
	size_t len;
};
static inline struct sc_span sc_ds_key_span(const struct sc_ds_key *key)
{
	return sc_span(key->data, key->len);
}
void sc_ds_key1(struct sc_ds_key *ret_key, uint64_t a);
void sc_ds_key2(struct sc_ds_key *ret_key, uint64_t a, uint64_t b);
int sc_ds_key_producer(struct sc_ds_key *ret_key, uint64_t sid, struct sc_span id,
		       struct sc_err *err);
int sc_ds_store_open(const char *folder, const struct sc_ds_settings *settings,
		     struct sc_kv **ret_kv, struct sc_err *err);
/* 1 = found: the stream borrows from the transaction. */
int sc_ds_load_path(struct sc_kv_txn *txn, struct sc_span path, struct sc_ds_stream *ret_stream,
		    struct sc_err *err);
int sc_ds_load_sid(struct sc_kv_txn *txn, uint64_t sid, struct sc_ds_stream *ret_stream,
		   struct sc_err *err);
int sc_ds_damaged(struct sc_err *err, const char *what, uint64_t sid);

/* -- runs.c: reading through a chain of forks -- */
/* Where what is read goes: into BODY; with LOAN, what is long stays where it is. */
struct sc_ds_pages {
	struct sc_bytes *body;
	struct sc_ds_loan *loan; /* or NULL */
	uint64_t limit;          /* about so many bytes */
	bool json;               /* as an array */
};
/* 1 = FROM is a boundary: messages from there on into PAGES; *ret_end is behind the last one. 0 =
 * FROM is inside a message. A loan borrows from the transaction. */
int sc_ds_runs_read(struct sc_kv_txn *txn, const struct sc_ds_stream *stream, uint64_t from,
		    const struct sc_ds_pages *pages, uint64_t *ret_end, struct sc_err *err);

/* -- loan.c -- */
/* Whether MESSAGE is worth a part of its own, and there is one. */
bool sc_ds_loan_may(const struct sc_ds_loan *loan, struct sc_span message);
void sc_ds_loan_lend(struct sc_ds_loan *loan, struct sc_span message);
/* LEN bytes were put behind the others in the body. */
void sc_ds_loan_copied(struct sc_ds_loan *loan, size_t len);
/* Nothing is put into BODY any more: true = the loan stands; false = nothing is lent, or all was
 * copied. */
bool sc_ds_loan_settle(struct sc_ds_loan *loan, const struct sc_bytes *body);
int sc_ds_runs_point(struct sc_kv_txn *txn, const struct sc_ds_stream *stream, uint64_t at,
		     bool json, uint64_t count, struct sc_ds_point *ret_point, struct sc_err *err);
/* 1 = AT is a boundary. */
int sc_ds_runs_boundary(struct sc_kv_txn *txn, const struct sc_ds_stream *stream, uint64_t at,
			struct sc_err *err);

/* -- the engine -- */
struct sc_ds_load {
	struct sc_ds_load *next;
	uint64_t hash, bytes, calls;
	size_t len;
	char path[];
};

struct sc_ds_seat { /* the waiters of one stream */
	struct sc_ds_seat *next;
	uint64_t sid;
	struct sc_ds_waiter *waiters;
};
struct sc_ds_shelf {
	pthread_mutex_t lock;
	struct sc_ds_seat *seats[SC_DS_BUCKETS / SC_DS_SHELVES];
};

struct sc_ds_visit { /* the last access of a sliding TTL, not stored yet */
	struct sc_ds_visit *next, *next_queued;
	uint64_t sid;
	int64_t accessed_us;
	bool queued;
};

struct sc_ds_entry;

/* What a stream that was trimmed still has to keep for its forks, found in pieces: a way through its
 * forks and theirs, in the order of their sids. A fork that is made meanwhile shows nothing that its
 * source did not show when it was looked at, and none shows more than it did. */
struct sc_ds_walk {
	uint64_t sid;   /* 0: none */
	bool known;     /* to the end: the first level's least is what counts */
	bool again;     /* it was marked meanwhile: perhaps less is shown now */
	uint64_t txn;   /* the last one that saw it */
	struct sc_ds_level {
		uint64_t sid, next; /* its fork to look at, or one after that */
		uint64_t least;     /* that it and its forks so far show */
		uint64_t fork_at;
	} *levels;
	unsigned depth, cap;
};

#define SC_DS_ASIDE_MAX 256u

struct sc_ds {
	struct sc_kv *kv;
	struct sc_ds_settings set;
	char *folder;

	pthread_mutex_t lock;
	pthread_cond_t more;
	struct sc_ds_call *head, **end;
	struct sc_ds_load *loads[SC_DS_BUCKETS];
	struct sc_ds_stats stats;
	uint64_t upkeep_wanted, upkeep_done; /* sc_ds_upkeep: how often */
	struct sc_err upkeep_err;
	pthread_cond_t upkeep_ended;
	atomic_bool stopping, broken, closing;
	pthread_t writer;
	bool has_writer;

	struct sc_ds_shelf shelves[SC_DS_SHELVES];
	atomic_uint_fast64_t waiters;
	atomic_uint_fast64_t reads, read_bytes;

	pthread_mutex_t access_lock;
	struct sc_ds_visit *visits[SC_DS_BUCKETS], *queued;
	size_t visit_count;
	atomic_bool has_queued;

	/* the writer's own */
	struct sc_ds_entry *pool;
	unsigned pooled;
	struct sc_ds_entry *buckets[SC_DS_BUCKETS];
	struct sc_bytes scratch, prefix, numbers;
	struct sc_ds_event *events;
	size_t events_count, events_cap;
	int64_t due_us;             /* the first row of the expiry index, or earlier */
	int64_t swept_ms, repaired_ms;
	bool backlog;               /* deletes has rows */
	unsigned turns;             /* commits until what was deleted is free to be used */
	bool turned;                /* it is: all that is free can be used */
	unsigned delete_most;       /* runs in one page, while the disk is full; 0: as many as ever */
	char repair_at[16];         /* the last row of forks that repair looked at */
	struct sc_ds_walk walk;
	/* Rows of chores that cannot be done, what they are about being damaged; 0: none is being done */
	uint64_t aside[SC_DS_ASIDE_MAX], doing;
	unsigned aside_count;
	struct sc_err aside_err;    /* of the last */
	int64_t lease_us;           /* the first lease to end, or earlier */

	/* subscriptions: durable/subs.h */
	struct sc_ds_keys *keys;    /* NULL: not enabled */
	void (*hooks_due)(void *arg); /* both with `lock` */
	void *hooks_arg;
};

/* -- batch.c: one transaction of the writer -- */
struct sc_ds_entry {         /* what the transaction knows of one path */
	struct sc_ds_entry *next_same, *next_all;
	uint64_t hash;
	struct sc_bytes path, record;
	bool exists, dirty, stored;
	size_t told;                /* its event, numbered from 1 */
	struct sc_ds_stream stream; /* its spans: record, or the requests of this batch */
	int64_t stored_us;          /* the last access that the store has */
	struct sc_bytes run;        /* frames at the tail that are not in the store yet */
	uint64_t run_at;
	struct sc_ds_entry *next_news;
	bool news;                  /* for subscriptions: see subs_news.c */
};

struct sc_ds_work {
	struct sc_ds *ds;
	struct sc_kv_txn *txn;
	struct sc_ds_entry *entries;
	uint64_t claimed_bytes, claimed_calls, room; /* of the disk */
	uint64_t next_sid;       /* 0: not read yet */
	bool sid_moved;
	uint64_t appended, closed, append_bytes, expired, trimmed, deleted_bytes;
	bool has_subs;           /* there are subscriptions */
	bool hooks_due;          /* a delivery became due */
	struct sc_ds_entry *news;/* streams that subscriptions have not heard of yet */
	uint64_t wakes, leases_over, fenced, links_refused, wakes_unheard;
	uint64_t hooks[3];       /* enum sc_ds_outcome */
};

int sc_ds_work_path(struct sc_ds_work *work, struct sc_span path, struct sc_ds_entry **ret_entry,
		    struct sc_err *err);
/* *ret_entry is NULL when there is none of this sid (any more). */
int sc_ds_work_sid(struct sc_ds_work *work, uint64_t sid, struct sc_ds_entry **ret_entry,
		   struct sc_err *err);
int sc_ds_work_tell(struct sc_ds_work *work, enum sc_ds_happened happened,
		    struct sc_ds_entry *entry, struct sc_err *err);
/* What was appended goes into the store: before anything is read from it. */
int sc_ds_work_runs(struct sc_ds_work *work, struct sc_err *err);
/* And the records with it. */
int sc_ds_work_flush(struct sc_ds_work *work, struct sc_err *err);
/* One that the transaction knows already, or NULL. */
struct sc_ds_entry *sc_ds_work_known(struct sc_ds_work *work, struct sc_span path);
/* Before BYTES are stored for a call: SC_E_IO with ENOSPC when the disk would not have a reserve
 * left. Deleting and trimming ask for nothing: they have that reserve. */
int sc_ds_work_claim(struct sc_ds_work *work, uint64_t bytes, struct sc_err *err);
/* Behind the stream's tail, which is AT and is the caller's to move. */
int sc_ds_work_append(struct sc_ds_work *work, struct sc_ds_entry *entry, uint64_t at,
		      const struct sc_ds_messages *messages, struct sc_err *err);
struct sc_ds_chores {
	bool sweep, repair, all_visits;
	bool leases;                  /* some may be over */
	bool sweep_more, repair_more; /* not at the end yet */
};
/* All of CALLS (a list, NULL is fine) and CHORES: decided, committed, answered. The calls are
 * answered whatever happens. */
int sc_ds_batch(struct sc_ds *ds, struct sc_ds_call *calls, struct sc_ds_chores *chores,
		struct sc_err *err);
void sc_ds_pool_free(struct sc_ds *ds);
/* The first row of the expiry index, and whether there is something to delete; and readers that died
 * are forgotten. */
int sc_ds_batch_look(struct sc_ds *ds, struct sc_err *err);

/* -- write.c -- */
/* Decides one call: its answer, and what it changes. */
int sc_ds_write(struct sc_ds_work *work, struct sc_ds_call *call, struct sc_err *err);
/* Gone when forks refer to it, else away, with the gone sources that nobody else refers to. */
int sc_ds_remove(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_err *err);
int sc_ds_purge(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_err *err);
/* The next number of a life. */
int sc_ds_next_sid(struct sc_ds_work *work, uint64_t *ret_sid, struct sc_err *err);
/* Work for sc_ds_delete_page: 'D', 'T' or 'S'. */
int sc_ds_mark(struct sc_ds_work *work, uint64_t sid, char what, struct sc_err *err);
/* When to look at it again: its row of the expiry index. INT64_MAX: never. */
int sc_ds_index(struct sc_ds_work *work, struct sc_ds_entry *entry, int64_t at_us,
		struct sc_err *err);

/* -- upkeep.c: in the writer's transactions -- */
int sc_ds_sweep(struct sc_ds_work *work, unsigned max, bool *ret_more, struct sc_err *err);
int sc_ds_delete_page(struct sc_ds_work *work, unsigned max, bool *ret_more, struct sc_err *err);
int sc_ds_repair(struct sc_ds_work *work, unsigned max, bool *ret_more, struct sc_err *err);
/* The transaction came to nothing, and so did what chores had learned in it. */
void sc_ds_chores_lost(struct sc_ds *ds);
/* The first row of TABLE at or after FROM: 1 = *ret_key is a copy of its key, VALUE its value (good
 * until the next write). */
int sc_ds_row_from(struct sc_kv_txn *txn, int table, struct sc_span from, struct sc_ds_key *ret_key,
		   struct sc_span *ret_value, struct sc_err *err);
/* The same for a chore: past the rows that were set aside; if it fails as damaged now, this one is. */
int sc_ds_row_to_do(struct sc_ds *ds, struct sc_kv_txn *txn, int table, struct sc_span from,
		    struct sc_ds_key *ret_key, struct sc_span *ret_value, struct sc_err *err);
/* The row that was being done when ERR came is set aside, so that the others go on: false = none was,
 * or too many are. */
bool sc_ds_set_aside(struct sc_ds *ds, const struct sc_err *err);

/* -- access.c -- */
/* The stream as it is now: its last access with those not stored yet, and with who waits. */
void sc_ds_access_see(struct sc_ds *ds, struct sc_ds_stream *stream, int64_t now_us);
/* An access; the store has STORED_US of it. SC_E_NOMEM when it cannot be kept. */
int sc_ds_access_note(struct sc_ds *ds, const struct sc_ds_stream *stream, int64_t stored_us,
		      int64_t now_us, struct sc_err *err);
/* With very many, all of them are due. */
void sc_ds_access_press(struct sc_ds *ds);
/* Stores those that are due, or ALL. */
int sc_ds_access_store(struct sc_ds_work *work, bool all, struct sc_err *err);
/* After the commit (or for one that is deleted). */
void sc_ds_access_stored(struct sc_ds *ds, uint64_t sid, int64_t accessed_us);
void sc_ds_access_free(struct sc_ds *ds);

/* -- wait.c -- */
int sc_ds_wait_init(struct sc_ds *ds, struct sc_err *err);
void sc_ds_wait_done(struct sc_ds *ds);
bool sc_ds_waited(struct sc_ds *ds, uint64_t sid);
void sc_ds_wake(struct sc_ds *ds, uint64_t sid, enum sc_ds_woken why);
void sc_ds_wake_all(struct sc_ds *ds, enum sc_ds_woken why);

/* -- engine.c -- */
void sc_ds_trouble(struct sc_ds *ds, const struct sc_err *err);
/* A list of calls is answered: their loads go, `done` is called. */
void sc_ds_finish(struct sc_ds *ds, struct sc_ds_call *calls);
/* A commit failed: nothing more is written until the store is opened again, unless it was for want
 * of space or memory. */
void sc_ds_failed(struct sc_ds *ds, const struct sc_err *err);

#endif
