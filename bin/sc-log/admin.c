/* admin.c: create, info, verify, trim, source, reindex. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "log/reader.h"
#include "sc-log.h"

#define SCHEMA_MAX (4u << 20)

const struct sc_opt create_options[] = {
	SC_OPT_GROUP("The new log"),
	{ .name = "schema",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct create_opts, schema),
	  .help = "JSON Schema of the rows (- is standard input); without one any JSON value is "
		  "taken" },
	{ .name = "max-message",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct create_opts, message_max),
	  .standard = "1048552",
	  .min = 1,
	  .max = SC_MESSAGE_MAX,
	  .help = "refuse longer messages; more than the default and most WebSocket clients cannot "
		  "read them" },
	{ .name = "journal-size",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct create_opts, journal_bytes),
	  .standard = "8M",
	  .min = 4096,
	  .max = 1 << 30,
	  .help = "begin a new journal at this size" },
	{ .name = "force-network-fs",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct create_opts, force_network_fs),
	  .help = "create it on a network file system all the same, where a crash can lose rows" },
	{ .name = NULL },
};

const struct sc_opt verify_options[] = {
	SC_OPT_GROUP("Which rows"),
	{ .name = "from",
	  .kind = SC_OPT_OFFSET,
	  .arg = "N",
	  .special = "earliest",
	  .into = offsetof(struct verify_opts, from),
	  .help = "begin at offset N" },
	{ .name = "to",
	  .kind = SC_OPT_OFFSET,
	  .arg = "N",
	  .into = offsetof(struct verify_opts, to),
	  .seen = offsetof(struct verify_opts, to_given),
	  .help = "end after offset N" },
	{ .name = NULL },
};

const struct sc_opt trim_options[] = {
	SC_OPT_GROUP("What goes"),
	{ .name = "before",
	  .kind = SC_OPT_OFFSET,
	  .arg = "N",
	  .into = offsetof(struct trim_opts, before),
	  .seen = offsetof(struct trim_opts, before_given),
	  .help = "give up all rows below offset N" },
	{ .name = NULL },
};

const struct sc_opt plain_options[] = {
	{ .name = NULL },
};

int run_create(const void *given, char *const *operands, struct sc_err *err)
{
	const struct create_opts *o = given;
	struct sc_log_settings settings = {
		.message_max = o->message_max,
		.journal_bytes = o->journal_bytes,
		.force_network_fs = o->force_network_fs,
	};
	struct sc_bytes schema;
	int rc = 0;

	sc_bytes_init(&schema, SCHEMA_MAX);
	if (o->schema) {
		rc = read_schema(o->schema, &schema, err);
		settings.schema = sc_span(schema.data, schema.len);
	}
	if (rc == 0)
		rc = schema_fault(o->schema, sc_log_create(operands[0], &settings, err), err);
	sc_bytes_done(&schema);
	return rc;
}

struct sources {
	bool json;
	size_t count;
	struct sc_bytes text;
	size_t schema_count;
	struct sc_bytes schemas; /* all that there were, for --json */
};

static int add_schema(void *arg, uint64_t version, uint64_t from, struct sc_span schema)
{
	struct sources *s = arg;
	struct sc_bytes *out = &s->schemas;

	if (!s->json)
		return 0;
	if (!schema.len)
		schema = SC_SPAN("null");
	return sc_bytes_putf(out, "%s{\"version\":%llu,\"from\":%llu,\"schema\":",
			     s->schema_count++ ? "," : "", (unsigned long long)version,
			     (unsigned long long)from) < 0 ||
			       sc_bytes_put(out, schema.data, schema.len) < 0 ||
			       sc_bytes_putc(out, '}') < 0
		       ? SC_E_NOMEM
		       : 0;
}

static int add_source(void *arg, struct sc_span name, uint64_t offset)
{
	struct sources *s = arg;

	if (s->json) {
		if ((s->count && sc_bytes_putc(&s->text, ',') < 0) ||
		    sc_bytes_put_json(&s->text, name) < 0 ||
		    sc_bytes_putf(&s->text, ":%llu", (unsigned long long)offset) < 0)
			return SC_E_NOMEM;
	} else if (sc_bytes_putf(&s->text, "source       %.*s at %llu\n", (int)name.len, name.data,
				 (unsigned long long)offset) < 0) {
		return SC_E_NOMEM;
	}
	s->count++;
	return 0;
}

static void print_json(struct sc_log *log, const struct sc_log_state *s,
		       const struct sc_log_usage *u, const struct sources *sources)
{
	const struct sc_schema *schema = sc_log_schema(log);
	struct sc_bytes name;
	struct sc_span text = schema ? sc_schema_text(schema) : SC_SPAN("null");

	sc_bytes_init(&name, 8192);
	sc_bytes_put_json(&name, sc_span_str(sc_log_name(log)));
	printf("{\"name\":%.*s,\"stream_id\":\"%s\",", (int)name.len, name.data ? name.data : "",
	       sc_log_stream_id(log));
	sc_bytes_done(&name);
	if (s->rows)
		printf("\"first\":%llu,\"last\":%llu,", (unsigned long long)s->first_offset,
		       (unsigned long long)s->last_offset);
	else
		printf("\"first\":null,\"last\":null,");
	printf("\"next\":%llu,\"rows\":%llu,\"bytes\":%llu,", (unsigned long long)s->next_offset,
	       (unsigned long long)s->rows, (unsigned long long)s->bytes);
	if (s->rows)
		printf("\"first_us\":%lld,\"last_us\":%lld,", (long long)s->first_us,
		       (long long)s->last_us);
	else
		printf("\"first_us\":null,\"last_us\":null,");
	printf("\"commits\":%llu,\"journals\":%llu,\"segments\":%llu,\"journal_bytes\":%llu,"
	       "\"segment_bytes\":%llu,\"sealed_rows\":%llu,\"sealed_bytes\":%llu,"
	       "\"index_bytes\":%llu,\"readers\":%llu,",
	       (unsigned long long)s->commit_seq, (unsigned long long)s->journals,
	       (unsigned long long)s->segments, (unsigned long long)u->journal_bytes,
	       (unsigned long long)u->segment_bytes, (unsigned long long)s->sealed_rows,
	       (unsigned long long)s->sealed_bytes, (unsigned long long)u->index_bytes,
	       (unsigned long long)u->readers);
	printf("\"message_max\":%llu,\"schema\":%.*s,\"schema_version\":%llu,\"schema_from\":%llu,"
	       "\"schemas\":[%.*s],\"sources\":{%.*s}}\n",
	       (unsigned long long)sc_log_message_max(log), (int)text.len, text.data,
	       (unsigned long long)sc_log_schema_version(log),
	       (unsigned long long)sc_log_schema_from(log), (int)sources->schemas.len,
	       sources->schemas.data ? sources->schemas.data : "", (int)sources->text.len,
	       sources->text.data ? sources->text.data : "");
}

static void print_text(struct sc_log *log, const struct sc_log_state *s,
		       const struct sc_log_usage *u, const struct sources *sources)
{
	char first[SC_TIME_TEXT], last[SC_TIME_TEXT];

	printf("log          %s\nstream id    %s\n", sc_log_path(log), sc_log_stream_id(log));
	printf("rows         %llu (%llu bytes of lines)\n", (unsigned long long)s->rows,
	       (unsigned long long)s->bytes);
	if (s->rows) {
		sc_time_text(s->first_us, first);
		sc_time_text(s->last_us, last);
		printf("first        %llu at %s\nlast         %llu at %s\n",
		       (unsigned long long)s->first_offset, first,
		       (unsigned long long)s->last_offset, last);
	}
	printf("next         %llu\ncommits      %llu\n", (unsigned long long)s->next_offset,
	       (unsigned long long)s->commit_seq);
	if (s->segments)
		printf("segments     %llu (%llu bytes on disk, %llu rows, %llu bytes of lines)\n",
		       (unsigned long long)s->segments, (unsigned long long)u->segment_bytes,
		       (unsigned long long)s->sealed_rows, (unsigned long long)s->sealed_bytes);
	printf("journals     %llu (%llu bytes on disk)\nindex        %llu bytes, %llu reader%s\n",
	       (unsigned long long)s->journals, (unsigned long long)u->journal_bytes,
	       (unsigned long long)u->index_bytes, (unsigned long long)u->readers,
	       u->readers == 1 ? "" : "s");
	printf("message max  %llu\n", (unsigned long long)sc_log_message_max(log));
	if (sc_log_schema(log)) {
		struct sc_span text = sc_schema_text(sc_log_schema(log));

		printf("schema       %.*s\n", (int)text.len, text.data);
		if (sc_log_schema_version(log) > 1)
			printf("             number %llu, in force since offset %llu\n",
			       (unsigned long long)sc_log_schema_version(log),
			       (unsigned long long)sc_log_schema_from(log));
	}
	printf("%.*s", (int)sources->text.len, sources->text.data ? sources->text.data : "");
}

int run_info(const void *given, char *const *operands, struct sc_err *err)
{
	const struct plain_opts *o = given;
	struct sources sources = { .json = o->common.json };
	struct sc_log_usage usage;
	struct sc_log_state state;
	struct sc_log *log = NULL;
	int rc;

	sc_bytes_init(&sources.text, 16u << 20);
	sc_bytes_init(&sources.schemas, 16u << 20);
	rc = sc_log_open(operands[0], SC_LOG_READ, &log, err);
	if (rc == 0)
		rc = sc_log_state(log, &state, err);
	if (rc == 0)
		rc = sc_log_usage(log, &usage, err);
	if (rc == 0)
		rc = sc_log_sources(log, add_source, &sources, err);
	if (rc == 0)
		rc = sc_log_schemas(log, add_schema, &sources, err);
	if (rc == SC_E_NOMEM)
		sc_err_nomem(err, "cannot say what the log holds");
	if (rc == 0 && o->common.json)
		print_json(log, &state, &usage, &sources);
	else if (rc == 0)
		print_text(log, &state, &usage, &sources);
	sc_bytes_done(&sources.text);
	sc_bytes_done(&sources.schemas);
	sc_log_close(log);
	return rc;
}

/* A range that is not there is no range that is good. */
static int check_range(const struct verify_opts *o, const char *path, struct sc_err *err)
{
	struct sc_reader *reader = NULL;
	struct sc_log *log = NULL;
	int rc;

	if (o->to_given && o->to < (o->from ? o->from : 1))
		return sc_err_set(err, SC_E_USAGE, "cannot verify", "--to is before %s",
				  o->from ? "--from" : "the first offset, 1");
	if (!o->from)
		return 0;
	rc = sc_log_open(path, SC_LOG_READ, &log, err);
	if (rc == 0)
		rc = sc_reader_open(log, o->from, &reader, err);
	sc_reader_close(reader);
	sc_log_close(log);
	return rc == SC_E_REFUSED ? rc : 0; /* the proof has better words for all else */
}

int run_verify(const void *given, char *const *operands, struct sc_err *err)
{
	const struct verify_opts *o = given;
	struct sc_log_proof p;
	int rc = check_range(o, operands[0], err);

	if (rc == 0)
		rc = sc_log_verify(operands[0], o->from, o->to, &p, err);
	if (rc < 0)
		return rc;
	if (p.orphans)
		sc_say(SC_WARNING,
		       "%llu file%s in the log's folders journal/ and sealed/ belong%s to nothing",
		       (unsigned long long)p.orphans, p.orphans == 1 ? "" : "s",
		       p.orphans == 1 ? "s" : "");
	if (o->common.json)
		printf("{\"hash\":\"%s\",\"rows\":%llu,\"bytes\":%llu,\"first\":%llu,\"last\":%llu,"
		       "\"blocks\":%llu,\"orphans\":%llu}\n",
		       p.hash, (unsigned long long)p.rows, (unsigned long long)p.bytes,
		       (unsigned long long)p.first, (unsigned long long)p.last,
		       (unsigned long long)p.blocks, (unsigned long long)p.orphans);
	else
		printf("%s %llu-%llu %llu rows %llu bytes\n", p.hash, (unsigned long long)p.first,
		       (unsigned long long)p.last, (unsigned long long)p.rows,
		       (unsigned long long)p.bytes);
	return 0;
}

int run_trim(const void *given, char *const *operands, struct sc_err *err)
{
	const struct trim_opts *o = given;
	struct sc_log *log = NULL;
	int rc;

	if (!o->before_given)
		return sc_err_set(err, SC_E_USAGE, "cannot trim", "--before N is missing");
	rc = sc_log_open(operands[0], SC_LOG_REPAIR, &log, err);
	if (rc == 0)
		rc = sc_log_trim(log, o->before, err);
	sc_log_close(log);
	return rc;
}

int run_source(const void *given, char *const *operands, struct sc_err *err)
{
	const struct plain_opts *o = given;
	struct sc_log *log = NULL;
	uint64_t offset = 0;
	int rc = sc_log_open(operands[0], SC_LOG_READ, &log, err);

	if (rc == 0)
		rc = sc_log_source(log, sc_span_str(operands[1]), &offset, err);
	/*
	 * a source that was never named has given nothing yet: 0, so that "--after 0" starts at
	 * the first row
	 */
	if (rc >= 0 && o->common.json)
		printf("{\"source_offset\":%llu,\"known\":%s}\n", (unsigned long long)offset,
		       rc == 1 ? "true" : "false");
	else if (rc >= 0)
		printf("%llu\n", (unsigned long long)offset);
	sc_log_close(log);
	return rc < 0 ? rc : 0;
}

int run_reindex(const void *given, char *const *operands, struct sc_err *err)
{
	int rc = sc_log_reindex(operands[0], err);

	(void)given;
	if (rc == 1)
		sc_say(SC_WARNING,
		       "log '%s': rows are missing, of files that are not there or damaged; it "
		       "goes on "
		       "without them: put the files back and do this again, or see sc-log verify",
		       operands[0]);
	return rc;
}
