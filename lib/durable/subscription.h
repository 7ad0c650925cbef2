/*
 * durable/subscription.h: what is known of one subscription and of its links to streams, and what
 * happens to them: pure functions.
 *
 * Owns      nothing; spans borrow from the record that was read, or from whoever made them.
 * Units     us since 1970 UTC, ms as the names say, positions.
 * Errors    SC_E_DATA for a record that is not one, SC_E_NOMEM.
 * Safety    no I/O, no clock, no store, no randomness; any thread; any bytes are safe input.
 * Source    durable-streams 20; man/sc-streams.5 has the records.
 *
 * A subscription is idle until a linked stream has more than was acknowledged. Then it is woken:
 * its generation goes up and a wake id is made. A webhook is delivered (and tried again) until the
 * receiver takes it; a pull-wake subscription waits for a worker that claims it. Whoever has taken
 * it holds a lease. The wake ends when it is done, released, or the lease is over: then it is idle
 * again, and woken again when there is more. All that a worker says must name the wake that runs.
 */
#ifndef SC_DURABLE_SUBSCRIPTION_H
#define SC_DURABLE_SUBSCRIPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_DS_SUB_ID_MAX 256u
#define SC_DS_SUB_HASH 32u
#define SC_DS_WAKE_ID 26u /* "w_" and 24 digits */
#define SC_DS_WAKE_ID_TEXT (SC_DS_WAKE_ID + 1)
#define SC_DS_LEASE_MIN_MS 1000u
#define SC_DS_LEASE_MAX_MS 600000u
#define SC_DS_LEASE_STANDARD_MS 30000u
#define SC_DS_RETRY_MAX_MS 60000

enum sc_ds_sub_type { SC_DS_WEBHOOK = 1, SC_DS_PULL_WAKE = 2 };
enum sc_ds_sub_phase {
	SC_DS_SUB_IDLE,
	SC_DS_SUB_WOKEN, /* not taken yet: attempt_us says when a webhook is due */
	SC_DS_SUB_HELD   /* until lease_us */
};

struct sc_ds_sub {
	uint64_t number;             /* of this life: never used again, in the sids' row */
	enum sc_ds_sub_type type;
	enum sc_ds_sub_phase phase;
	struct sc_span id;
	struct sc_span prefix;       /* of paths: "/v1/stream/" */
	struct sc_span base;         /* scheme, host and port that the creator knows this server by */
	struct sc_span pattern;      /* data NULL: none; below the prefix */
	struct sc_span url;          /* of a webhook */
	struct sc_span wake_stream;  /* of pull-wake; below the prefix */
	struct sc_span description;  /* data NULL: none */
	char hash[SC_DS_SUB_HASH];   /* of the configuration as it was asked for */
	uint64_t lease_ms, links;
	int64_t created_us;
	/* the wake */
	uint64_t generation;
	char wake_id[SC_DS_WAKE_ID_TEXT]; /* "": none */
	struct sc_span holder;       /* the worker; of a webhook none */
	uint64_t attempts;           /* that failed, of this wake */
	int64_t lease_us;            /* INT64_MAX: no lease */
	int64_t attempt_us;          /* INT64_MAX: no delivery is due */
};

/* IDLE becomes WOKEN. */
void sc_ds_sub_wake(struct sc_ds_sub *sub, const char wake_id[SC_DS_WAKE_ID_TEXT], int64_t now_us);
/* The lease is over: IDLE again. false: it is not. */
bool sc_ds_sub_lapse(struct sc_ds_sub *sub, int64_t now_us);
/* WOKEN becomes HELD: by WORKER, or (data NULL) by the receiver of a webhook. */
void sc_ds_sub_hold(struct sc_ds_sub *sub, struct sc_span worker, int64_t now_us);
/* Is it what a worker means? Of an idle one nothing is. */
bool sc_ds_sub_current(const struct sc_ds_sub *sub, uint64_t generation, struct sc_span wake_id);
/* The worker lives: the lease begins anew. WOKEN becomes HELD: it has the wake, whatever became of
 * the answer to its delivery. */
void sc_ds_sub_extend(struct sc_ds_sub *sub, int64_t now_us);
/* IDLE again. */
void sc_ds_sub_release(struct sc_ds_sub *sub);
/* A delivery failed: the next one is due after 1 s, 2 s, 4 s up to 60 s, give or take a fifth.
 * JITTER: any random number. Of one that is HELD by now nothing is said. */
void sc_ds_sub_failed(struct sc_ds_sub *sub, uint64_t jitter, int64_t now_us);
static inline bool sc_ds_sub_is_failing(const struct sc_ds_sub *sub)
{
	return sub->phase == SC_DS_SUB_WOKEN && sub->attempts > 0;
}

/* A pattern of whole segments: "*" is any one, "**" any number of them, none too; else the segment
 * itself, where %2A is a star. */
bool sc_ds_glob_match(struct sc_span pattern, struct sc_span path);
/* The segments in front of its first wildcard, at most MAX bytes: what each path that it matches
 * begins with, whole segments. */
struct sc_span sc_ds_glob_literal(struct sc_span pattern, size_t max);

struct sc_ds_link {
	bool by_pattern, by_name;
	bool fresh;               /* nothing acknowledged yet: "-1"; acked is 0 */
	uint64_t acked;
	uint64_t told, told_generation; /* the tail that a webhook's wake told of */
	struct sc_span path;      /* with the prefix */
};

static inline bool sc_ds_link_pending(const struct sc_ds_link *link, uint64_t tail)
{
	return tail > link->acked;
}
/* May OFFSET be acknowledged? "-1" and "now" may not, nor what lies behind or is not there. */
bool sc_ds_link_may_ack(const struct sc_ds_link *link, uint64_t tail, struct sc_span offset,
			uint64_t *ret_position);
void sc_ds_link_ack(struct sc_ds_link *link, uint64_t position);
/* The stream is gone, or a new one is in its place. */
void sc_ds_link_restart(struct sc_ds_link *link);

/* As bytes, appended to OUT, and back. */
int sc_ds_sub_encode(const struct sc_ds_sub *sub, struct sc_bytes *out);
int sc_ds_sub_decode(struct sc_span record, struct sc_ds_sub *ret_sub, struct sc_err *err);
int sc_ds_link_encode(const struct sc_ds_link *link, struct sc_bytes *out);
int sc_ds_link_decode(struct sc_span record, struct sc_ds_link *ret_link, struct sc_err *err);

#endif
