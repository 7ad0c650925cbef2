/*
 * skip.c: offsets that are left out.
 *
 * log.json says it, before the index does, so a rebuild of the index finds it; whoever appends
 * looks at log.json under the index's lock. What an appender left when it died is made no commit
 * before: a rebuild would give it offsets that are left out.
 */
#include "base/file.h"
#include "log/log_internal.h"

#define TRIED "cannot leave offsets out"

static int refuse(const struct sc_log *log, uint64_t count, uint64_t next, struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, TRIED, "there are not %llu more behind %llu",
		   (unsigned long long)count, (unsigned long long)next - 1);
	sc_log_err(log, err);
	sc_err_field_str(err, "why", "no_offsets");
	return SC_E_REFUSED;
}

int sc_log_skip(struct sc_log *log, uint64_t count, uint64_t least, uint64_t *ret_first,
		uint64_t *ret_next, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;
	uint64_t first, next;
	int rc = sc_index_begin(log, &txn, &state, err);

	if (rc < 0)
		return rc;
	sc_journal_leave_out(log, &state);
	first = state.next;
	if (count > SC_NEXT_MAX || first > SC_NEXT_MAX - count || least > SC_NEXT_MAX) {
		rc = refuse(log, count > least ? count : least, first, err);
		goto out;
	}
	next = first + count > least ? first + count : least;
	if (next > first) {
		rc = sc_journal_clear_behind(log, &state, err);
		if (rc == 0) {
			log->settings.next = next;
			rc = sc_settings_put(log, err);
		}
		if (rc < 0)
			goto out;
		state.next = next;
		rc = sc_index_end(log, &txn, &state, 0, err);
	}
	if (rc == 0) {
		*ret_first = first;
		*ret_next = next;
	}
out:
	if (txn)
		sc_index_abort(log, &txn);
	return rc;
}
