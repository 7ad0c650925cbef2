/*
 * migrate.c: another schema from the next row on.
 *
 * The rename of log.json under the index's lock is the moment: whoever appends looks at log.json
 * under that lock, and begins a new journal for the first row of a new schema. So there is no
 * second step that a crash could leave out. Before it, what an appender left when it died is made
 * no commit, whether it stands behind the journal's end or in a journal that the index does not
 * know: it was checked by the old schema, and a rebuild of the index would take it.
 */
#include <stdlib.h>

#include "base/file.h"
#include "log/log_internal.h"

#define TRIED "cannot migrate"

/* Every schema that the log had. FREED by free_all, also on failure. */
static int parse_all(const struct sc_settings *s, struct sc_schema **schemas, struct sc_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->era_count; i++) {
		struct sc_schema_mark mark = sc_settings_era(s, i);

		if (mark.text.len)
			rc = sc_schema_parse(mark.text, &schemas[i], err);
	}
	return rc;
}

static void free_all(struct sc_schema **schemas, size_t count)
{
	for (size_t i = 0; schemas && i < count; i++)
		sc_schema_free(schemas[i]);
	free(schemas);
}

/* 1: NEXT may follow, and is another one; 0: it is in force already. */
static int decide(const struct sc_log *log, const struct sc_schema *next,
		  const struct sc_log_migration *m, size_t *ret_changes, struct sc_err *err)
{
	const struct sc_settings *s = &log->settings;
	size_t count = s->era_count;
	struct sc_schema **schemas = sc_calloc(count, sizeof(*schemas));
	const struct sc_schema *last;
	int rc = schemas ? parse_all(s, schemas, err) : sc_err_nomem(err, TRIED);

	last = rc == 0 ? schemas[count - 1] : NULL;
	if (rc < 0)
		goto out;
	*ret_changes = 0;
	if (last && sc_schema_same(last, next, NULL) == 0)
		goto out;
	rc = sc_schema_may_follow((const struct sc_schema *const *)schemas, count, next, err);
	if (rc < 0) {
		sc_log_err(log, err);
		goto out;
	}
	*ret_changes = sc_schema_changes(last, next, m->change, m->arg);
	rc = 1;
out:
	free_all(schemas, count);
	return rc;
}

static int put_in_force(struct sc_log *log, const struct sc_state *state,
			const struct sc_schema_mark *mark, struct sc_err *err)
{
	int rc = sc_journal_clear_behind(log, state, err);

	if (rc == 0)
		rc = sc_settings_add(&log->settings, mark, err);
	return rc < 0 ? rc : sc_settings_put(log, err);
}

int sc_log_migrate(struct sc_log *log, const struct sc_log_migration *m,
		   struct sc_log_migrated *ret_migrated, struct sc_err *err)
{
	struct sc_schema *next = NULL;
	struct sc_kv_txn *txn = NULL;
	struct sc_schema_mark mark;
	struct sc_state state;
	size_t changes = 0;
	int rc;

	if (log->mode != SC_LOG_APPEND && !m->dry)
		return sc_err_set(err, SC_E_INTERNAL, TRIED, "the handle was opened for reading");
	rc = sc_schema_parse(m->schema, &next, err);
	if (rc < 0)
		return rc;
	if (m->dry) {
		rc = sc_settings_check(log, err);
		if (rc == 0)
			rc = sc_index_now(log, &state, err);
	} else {
		rc = sc_index_begin(log, &txn, &state, err);
	}
	if (rc == 0)
		rc = decide(log, next, m, &changes, err);
	if (rc < 0)
		goto out;
	mark = sc_settings_schema(&log->settings);
	if (rc == 1) {
		mark.version++;
		mark.from = state.next > mark.from ? state.next : mark.from;
		mark.text = sc_schema_text(next);
		rc = m->dry ? 0 : put_in_force(log, &state, &mark, err);
	}
	if (rc == 0)
		*ret_migrated = (struct sc_log_migrated){ mark.version, mark.from, changes };
out:
	if (txn)
		sc_index_abort(log, &txn);
	if (rc == 0 && !m->dry) {
		rc = sc_log_reload(log, err);
		rc = rc < 0 ? rc : 0;
	}
	sc_schema_free(next);
	return rc;
}
