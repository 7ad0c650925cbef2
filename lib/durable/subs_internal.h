/*
 * durable/subs_internal.h: what the files of the subscriptions share.
 *
 * Owns      a row owns its text until sc_ds_sub_row_done.
 * Units     us since 1970 UTC, positions.
 * Errors    negative codes end the whole transaction; 1 = found, 0 = not where said.
 * Safety    the writer's thread, but for what takes a transaction.
 * Source    the tables of durable/engine_internal.h.
 */
#ifndef SC_DURABLE_SUBS_INTERNAL_H
#define SC_DURABLE_SUBS_INTERNAL_H

#include "durable/engine_internal.h"
#include "durable/subs.h"

struct sc_ds_sub_row {
	struct sc_ds_sub sub;
	struct sc_bytes text;         /* the record that it was read from */
	int64_t lease_us, attempt_us; /* as the index of what is due has them */
};
void sc_ds_sub_row_init(struct sc_ds_sub_row *row);
void sc_ds_sub_row_done(struct sc_ds_sub_row *row);

/* -- subs_store.c: rows -- */
int sc_ds_sub_load(struct sc_kv_txn *txn, uint64_t number, struct sc_ds_sub_row *ret_row,
		   struct sc_err *err);
int sc_ds_sub_find(struct sc_kv_txn *txn, struct sc_span id, struct sc_ds_sub_row *ret_row,
		   struct sc_err *err);
/* And where it stands in the index of what is due. */
int sc_ds_sub_store(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_err *err);
/* A new one, which has its number. */
int sc_ds_sub_insert(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_err *err);
/* Its links go in the background. */
int sc_ds_sub_erase(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_err *err);
int sc_ds_subs_delete_links(struct sc_ds_work *work, uint64_t number, unsigned *max,
			    struct sc_err *err);
/* *ret_link's path is PATH. */
int sc_ds_link_load(struct sc_kv_txn *txn, uint64_t number, struct sc_span path,
		    struct sc_ds_link *ret_link, struct sc_err *err);
int sc_ds_link_store(struct sc_ds_work *work, uint64_t number, const struct sc_ds_link *link,
		     struct sc_err *err);
int sc_ds_link_delete(struct sc_ds_work *work, uint64_t number, struct sc_span path,
		      struct sc_err *err);
int sc_ds_pending_mark(struct sc_ds_work *work, uint64_t number, struct sc_span path, bool pending,
		       struct sc_err *err);
int sc_ds_sub_has_pending(struct sc_kv_txn *txn, uint64_t number, struct sc_err *err);
/* The links of a subscription in the order of their keys, all or those with something pending.
 * KEY: where to go on; its len is 0 at first. */
int sc_ds_link_next(struct sc_kv_txn *txn, uint64_t number, bool pending, struct sc_ds_key *key,
		    struct sc_ds_link *ret_link, struct sc_err *err);
/* Numbers of those with a link to PATH, and of those with a pattern for it, into ds->numbers. */
int sc_ds_linked_numbers(struct sc_ds_work *work, struct sc_span path, struct sc_err *err);
int sc_ds_pattern_numbers(struct sc_ds_work *work, struct sc_span path, struct sc_err *err);
static inline uint64_t sc_ds_number_at(const struct sc_bytes *numbers, size_t at)
{
	return sc_ds_get_be64(numbers->data + 8 * at);
}
/* The tail of what lives at PATH, 0 when nothing does. WORK may be NULL. */
int sc_ds_tail_of(struct sc_kv_txn *txn, struct sc_ds_work *work, struct sc_span path,
		  uint64_t *ret_tail, struct sc_err *err);
/* PREFIX and NAME as one path, into KEY's memory. */
struct sc_span sc_ds_sub_path(struct sc_span prefix, struct sc_span name, struct sc_ds_key *room);

/* -- subs_news.c: streams come, change and go -- */
int sc_ds_subs_told(struct sc_ds_work *work, enum sc_ds_happened happened,
		    struct sc_ds_entry *entry, struct sc_err *err);
/* What was told so far has its consequences now. */
int sc_ds_subs_hear(struct sc_ds_work *work, struct sc_err *err);

/* -- subs_wake.c -- */
/* When it is idle and something is pending: 1 = it is woken. The caller stores it. TRIGGER: the
 * stream that is the reason; empty: the first one. */
int sc_ds_sub_try_wake(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_span trigger,
		       int64_t now_us, struct sc_err *err);
/* All that the wake told of is done. */
int sc_ds_sub_ack_told(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_err *err);
/* Leases that are over. */
int sc_ds_subs_lapse(struct sc_ds_work *work, unsigned max, struct sc_err *err);
/* When the first lease ends, into ds->lease_us, or INT64_MAX. */
int sc_ds_lease_first(struct sc_ds *ds, struct sc_kv_txn *txn, struct sc_err *err);

/* -- subs_link.c -- */
/* All that a new subscription is linked to. 0 = it would be too many, and nothing was done. */
int sc_ds_sub_link_first(struct sc_ds_work *work, struct sc_ds_sub_row *row,
			 const struct sc_ds_sub_request *request, struct sc_err *err);
int sc_ds_sub_link_names(struct sc_ds_work *work, struct sc_ds_sub_row *row,
			 const struct sc_ds_sub_request *request, struct sc_err *err);
int sc_ds_sub_unlink(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_span name,
		     struct sc_err *err);

/* -- subs_verify.c -- */
int sc_ds_subs_verify(struct sc_ds *ds, void (*fault)(void *arg, const char *what), void *arg,
		      struct sc_ds_verified *got, struct sc_err *err);

/* -- subs_view.c: as JSON -- */
int sc_ds_sub_view(struct sc_kv_txn *txn, const struct sc_ds_keys *keys, struct sc_span base,
		   const struct sc_ds_sub *sub, struct sc_bytes *out, struct sc_err *err);
/* An array of streams with their tails, those with something pending first, SC_DS_TOLD_MAX at
 * most. TOLD: as the wake told of them. */
int sc_ds_sub_view_streams(struct sc_kv_txn *txn, struct sc_ds_work *work,
			   const struct sc_ds_sub *sub, bool told, struct sc_bytes *out,
			   size_t *ret_pending, struct sc_err *err);
int sc_ds_sub_put_url(struct sc_span base, struct sc_span prefix, struct sc_span id,
		      const char *what, struct sc_bytes *out);

#endif
