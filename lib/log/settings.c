/* settings.c: log.json: what a log is; read whole, replaced whole. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "json/scan.h"
#include "log/log_internal.h"

#define FORMAT 1
#define FILE_MAX (4u << 20)

void sc_settings_init(struct sc_settings *s)
{
	memset(s, 0, sizeof(*s));
	sc_bytes_init(&s->schema, FILE_MAX);
	s->message_max = SC_MESSAGE_STANDARD;
	s->journal_bytes = SC_JOURNAL_STANDARD;
	s->floor.offset = 1;
}

void sc_settings_done(struct sc_settings *s)
{
	sc_bytes_done(&s->schema);
}

static int refuse(const char *path, const char *what, struct sc_err *err)
{
	int code = sc_err_set(err, SC_E_DATA, "cannot open log", "%s", what);

	sc_err_on(err, "file", path);
	sc_err_next(err, "put a good copy of the file back");
	return code;
}

/* An unsigned member between MIN and MAX; absent leaves *VALUE. */
static bool read_u64(const struct sc_json *object, const char *name, uint64_t min, uint64_t max,
		     uint64_t *value)
{
	struct sc_json member;
	uint64_t got;

	if (!sc_json_get(object, name, &member))
		return true;
	if (!sc_json_u64(&member, &got) || got < min || got > max)
		return false;
	*value = got;
	return true;
}

static bool read_stream_id(const struct sc_json *root, struct sc_settings *s)
{
	struct sc_json member;

	if (!sc_json_get(root, "stream_id", &member) || member.kind != SC_JSON_STRING)
		return false;
	/* quotes off; a stream id is letters, digits and dashes */
	if (member.text.len < 3 || member.text.len - 2 >= sizeof(s->stream_id))
		return false;
	memcpy(s->stream_id, member.text.data + 1, member.text.len - 2);
	s->stream_id[member.text.len - 2] = 0;
	return !strchr(s->stream_id, '\\');
}

static int read_members(const struct sc_json *root, const char *path, struct sc_settings *s,
			struct sc_err *err)
{
	struct sc_json member;
	uint64_t format = 0, created = 0;

	if (!sc_json_get(root, "format", &member) || !sc_json_u64(&member, &format))
		return refuse(path, "it holds no format number", err);
	if (format != FORMAT) {
		int code = sc_err_set(err, SC_E_CONFIG, "cannot open log",
				      "it has format %llu; this program knows format %d",
				      (unsigned long long)format, FORMAT);

		sc_err_on(err, "file", path);
		sc_err_next(err, "use a newer release");
		return code;
	}
	if (!read_stream_id(root, s))
		return refuse(path, "it holds no stream_id", err);
	if (!read_u64(root, "created_us", 0, INT64_MAX, &created))
		return refuse(path, "created_us is not a time", err);
	s->created_us = (int64_t)created;
	if (sc_json_get(root, "schema", &member) && member.kind != SC_JSON_NULL &&
	    sc_bytes_put(&s->schema, member.text.data, member.text.len) < 0)
		return sc_err_nomem(err, "cannot open log");
	if (sc_json_get(root, "settings", &member)) {
		struct sc_json network;

		if (!read_u64(&member, "message_max", 1, SC_MESSAGE_MAX, &s->message_max) ||
		    !read_u64(&member, "journal_bytes", SC_JOURNAL_MIN, SC_JOURNAL_MAX,
			      &s->journal_bytes))
			return refuse(path, "a setting is not a number in its range", err);
		s->network_ok = sc_json_get(&member, "network_ok", &network) &&
				network.kind == SC_JSON_TRUE;
	}
	if (sc_json_get(root, "floor", &member) &&
	    (!read_u64(&member, "offset", 1, UINT64_MAX - 1, &s->floor.offset) ||
	     !read_u64(&member, "rows", 0, UINT64_MAX, &s->floor.rows) ||
	     !read_u64(&member, "bytes", 0, UINT64_MAX, &s->floor.bytes)))
		return refuse(path, "the floor is not three numbers", err);
	return 0;
}

int sc_settings_read(const char *log_path, struct sc_settings *s, struct sc_err *err)
{
	char path[PATH_MAX];
	struct sc_bytes text;
	struct sc_json root;
	int rc;

	if (snprintf(path, sizeof(path), "%s/log.json", log_path) >= (int)sizeof(path))
		return sc_err_set(err, SC_E_NOLOG, "cannot open log", "its path is too long");
	sc_bytes_init(&text, FILE_MAX);
	rc = sc_read_file(path, &text, err);
	if (rc == SC_E_NOLOG) {
		sc_err_set(err, SC_E_NOLOG, "cannot open", "there is no log.json in it");
		sc_err_on(err, "log", log_path);
		sc_err_next(err, "make it with: sc-log create %s", log_path);
	}
	if (rc < 0)
		goto out;
	if (sc_json_scan(sc_span(text.data, text.len), &root, NULL) < 0 ||
	    root.kind != SC_JSON_OBJECT) {
		rc = refuse(path, "it is not a JSON object", err);
		goto out;
	}
	rc = read_members(&root, path, s, err);
out:
	sc_bytes_done(&text);
	return rc;
}

int sc_settings_refresh(struct sc_log *log, struct sc_err *err)
{
	struct sc_settings now;
	int rc;

	sc_settings_init(&now);
	rc = sc_settings_read(log->path, &now, err);
	if (rc == 0 && strcmp(now.stream_id, log->settings.stream_id) != 0) {
		rc = sc_err_set(err, SC_E_NOLOG, "cannot use", "another log was made in its place");
		sc_log_err(log, err);
		sc_err_next(err, "open it again");
	}
	if (rc == 0)
		log->settings.floor = now.floor;
	sc_settings_done(&now);
	return rc;
}

bool sc_settings_leftover(const char *name)
{
	static const char front[] = "log.json.", back[] = ".tmp";
	size_t len = strlen(name), fixed = sizeof(front) - 1 + sizeof(back) - 1;

	return len > fixed && !strncmp(name, front, sizeof(front) - 1) &&
	       !strcmp(name + len - (sizeof(back) - 1), back);
}

/* Called under the log's lock, or before there is a log. */
int sc_settings_write(const char *log_path, const struct sc_settings *s, struct sc_err *err)
{
	char path[PATH_MAX], created[SC_TIME_TEXT];
	struct sc_bytes text;
	int rc = SC_E_NOMEM;

	if (snprintf(path, sizeof(path), "%s/log.json", log_path) >= (int)sizeof(path))
		return sc_err_set(err, SC_E_CANTCREAT, "cannot write log.json",
				  "its path is too long");
	sc_time_text(s->created_us, created);
	sc_bytes_init(&text, FILE_MAX + 4096);
	if (sc_bytes_putf(&text,
			  "{\"format\":%d,\n\"stream_id\":\"%s\",\n\"created\":\"%s\",\n\"created_"
			  "us\":%lld,\n\"schema\":",
			  FORMAT, s->stream_id, created, (long long)s->created_us) < 0 ||
	    (s->schema.len ? sc_bytes_put(&text, s->schema.data, s->schema.len)
			   : sc_bytes_puts(&text, "null")) < 0 ||
	    sc_bytes_putf(&text,
			  ",\n\"settings\":{\"message_max\":%llu,\"journal_bytes\":%llu,\"network_"
			  "ok\":%s},\n",
			  (unsigned long long)s->message_max, (unsigned long long)s->journal_bytes,
			  s->network_ok ? "true" : "false") < 0 ||
	    sc_bytes_putf(&text, "\"floor\":{\"offset\":%llu,\"rows\":%llu,\"bytes\":%llu}}\n",
			  (unsigned long long)s->floor.offset, (unsigned long long)s->floor.rows,
			  (unsigned long long)s->floor.bytes) < 0)
		rc = sc_err_nomem(err, "cannot write log.json");
	else
		rc = sc_replace_file(path, text.data, text.len, 0666, true, err);
	sc_bytes_done(&text);
	if (rc == 0)
		sc_replace_sweep(path);
	return rc;
}
