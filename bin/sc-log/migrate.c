/* migrate.c: another schema from the next row on. */
#include <stdio.h>

#include "base/file.h"
#include "sc-log.h"

#define SCHEMA_MAX (4u << 20)
#define REPORT_MAX (16u << 20)

const struct sc_opt migrate_options[] = {
	SC_OPT_GROUP("The schema"),
	{ .name = "schema",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct migrate_opts, schema),
	  .help = "JSON Schema that rows are checked by from now on (- is standard input)" },
	{ .name = "dry-run",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct migrate_opts, dry_run),
	  .help = "change nothing, only say what would be changed" },
	{ .name = NULL },
};

int read_schema(const char *file, struct sc_bytes *out, struct sc_err *err)
{
	int rc = sc_read_file(strcmp(file, "-") ? file : "/dev/stdin", out, err);

	if (rc == 0 && out->len == 0) {
		rc = sc_err_set(err, SC_E_CONFIG, "cannot read the schema", "it is empty");
		sc_err_on(err, "file", file);
	}
	return rc;
}

int schema_fault(const char *file, int rc, struct sc_err *err)
{
	if (rc == SC_E_CONFIG && file && err && !err->object[0]) {
		sc_err_on(err, "file", file);
		sc_err_next(err, "see sc-log(5), SCHEMA");
	}
	return rc;
}

struct changes {
	bool json;
	size_t count;
	int rc;
	struct sc_bytes text;
};

static void add_change(void *arg, const struct sc_schema_change *change)
{
	static const char *const words[] = {
		[SC_SCHEMA_ADDED] = "added",
		[SC_SCHEMA_NULLABLE] = "nullable",
		[SC_SCHEMA_REMOVED] = "removed",
		[SC_SCHEMA_ORDER] = "order",
	};
	static const char *const verbs[] = {
		[SC_SCHEMA_ADDED] = "added",
		[SC_SCHEMA_NULLABLE] = "can be null now:",
		[SC_SCHEMA_REMOVED] = "removed",
	};
	struct changes *c = arg;
	const struct sc_column *column = change->column;
	int rc = 0;

	if (c->json) {
		rc = sc_bytes_putf(&c->text, "%s{\"change\":\"%s\"", c->count ? "," : "",
				   words[change->act]);
		if (rc == 0 && column)
			rc = sc_bytes_puts(&c->text, ",\"column\":");
		if (rc == 0 && column)
			rc = sc_bytes_put_json(&c->text, column->name);
		if (rc == 0 && column)
			rc = sc_bytes_putf(&c->text, ",\"type\":\"%s\",\"nullable\":%s",
					   sc_column_word(column->type),
					   column->nullable ? "true" : "false");
		if (rc == 0)
			rc = sc_bytes_putc(&c->text, '}');
	} else if (column) {
		rc = sc_bytes_putf(&c->text, "column %s ", verbs[change->act]);
		if (rc == 0)
			rc = sc_bytes_put_json(&c->text, column->name);
		if (rc == 0)
			rc = sc_bytes_putf(&c->text, ", %s%s\n", sc_column_word(column->type),
					   column->nullable ? " or null" : "");
	} else {
		rc = sc_bytes_puts(&c->text, "columns in another order\n");
	}
	c->count++;
	c->rc = c->rc < 0 ? c->rc : rc;
}

static void report(const struct changes *c, const struct sc_log_migrated *done, bool dry)
{
	unsigned long long version = done->version, from = done->from;

	if (c->json) {
		printf("{\"version\":%llu,\"from\":%llu,\"changed\":%s,\"dry_run\":%s,\"changes\":"
		       "[%.*s]}\n",
		       version, from, done->changes ? "true" : "false", dry ? "true" : "false",
		       (int)c->text.len, c->text.data ? c->text.data : "");
		return;
	}
	printf("%.*s", (int)c->text.len, c->text.data ? c->text.data : "");
	if (!done->changes)
		printf("nothing to change: schema %llu is in force since offset %llu\n", version,
		       from);
	else
		printf("schema %llu %s in force from offset %llu on\n", version,
		       dry ? "would be" : "is", from);
}

int run_migrate(const void *given, char *const *operands, struct sc_err *err)
{
	const struct migrate_opts *o = given;
	struct changes changes = { .json = o->common.json };
	struct sc_log_migration m = { .dry = o->dry_run, .arg = &changes, .change = add_change };
	struct sc_log_migrated done;
	struct sc_bytes schema;
	struct sc_log *log = NULL;
	int rc;

	if (!o->schema)
		return sc_err_set(err, SC_E_USAGE, "cannot migrate", "--schema FILE is missing");
	sc_bytes_init(&schema, SCHEMA_MAX);
	sc_bytes_init(&changes.text, REPORT_MAX);
	rc = read_schema(o->schema, &schema, err);
	if (rc == 0)
		rc = sc_log_open(operands[0], o->dry_run ? SC_LOG_READ : SC_LOG_APPEND, &log, err);
	m.schema = sc_span(schema.data, schema.len);
	if (rc == 0)
		rc = schema_fault(o->schema, sc_log_migrate(log, &m, &done, err), err);
	if (rc == 0 && (!o->common.quiet || o->common.json))
		report(&changes, &done, o->dry_run);
	if (rc == 0 && changes.rc < 0)
		rc = sc_err_nomem(err, "cannot say all that was changed");
	sc_log_close(log);
	sc_bytes_done(&changes.text);
	sc_bytes_done(&schema);
	return rc;
}
