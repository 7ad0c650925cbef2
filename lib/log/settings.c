/* settings.c: log.json: what a log is; read whole, replaced whole. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "json/scan.h"
#include "log/log_internal.h"

#define FILE_MAX (4u << 20)
#define TRIES 16

void sc_settings_init(struct sc_settings *s)
{
	memset(s, 0, sizeof(*s));
	sc_bytes_init(&s->schemas, FILE_MAX);
	s->message_max = SC_MESSAGE_STANDARD;
	s->journal_bytes = SC_JOURNAL_STANDARD;
	s->floor.offset = 1;
}

void sc_settings_done(struct sc_settings *s)
{
	sc_bytes_done(&s->schemas);
	free(s->eras);
	s->eras = NULL;
	s->era_count = s->era_cap = 0;
}

int sc_settings_add(struct sc_settings *s, const struct sc_schema_mark *mark, struct sc_err *err)
{
	size_t at = s->schemas.len;

	if (s->era_count == s->era_cap) {
		size_t cap = s->era_cap ? 2 * s->era_cap : 4;
		struct sc_era *more = sc_realloc(s->eras, cap * sizeof(*more));

		if (!more)
			return sc_err_nomem(err, "cannot open log");
		s->eras = more;
		s->era_cap = cap;
	}
	if (mark->text.len && sc_bytes_put(&s->schemas, mark->text.data, mark->text.len) < 0)
		return s->schemas.full ? sc_err_set(err, SC_E_CONFIG, "cannot use log.json",
						    "all schemas together are longer than %u bytes",
						    FILE_MAX)
				       : sc_err_nomem(err, "cannot open log");
	s->eras[s->era_count++] = (struct sc_era){ mark->version, mark->from, at, mark->text.len };
	return 0;
}

struct sc_schema_mark sc_settings_era(const struct sc_settings *s, size_t index)
{
	const struct sc_era *era = &s->eras[index];

	return (struct sc_schema_mark){
		era->version,
		era->from,
		era->len ? sc_span(s->schemas.data + era->at, era->len) : sc_span(NULL, 0),
	};
}

struct sc_schema_mark sc_settings_schema(const struct sc_settings *s)
{
	return sc_settings_era(s, s->era_count - 1);
}

struct sc_schema_mark sc_settings_schema_at(const struct sc_settings *s, uint64_t offset)
{
	size_t i = s->era_count - 1;

	while (i > 0 && s->eras[i].from > offset)
		i--;
	return sc_settings_era(s, i);
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

/* One schema with its version and its first offset, behind those before it. */
static int read_era(const struct sc_json *object, const char *version, const char *from,
		    const char *path, struct sc_settings *s, struct sc_err *err)
{
	const struct sc_era *last = s->era_count ? &s->eras[s->era_count - 1] : NULL;
	struct sc_schema_mark mark = { .version = 1, .from = 1 };
	struct sc_json member;

	if (!read_u64(object, version, 1, UINT64_MAX, &mark.version) ||
	    !read_u64(object, from, 1, UINT64_MAX - 1, &mark.from) ||
	    (last && (mark.version <= last->version || mark.from < last->from)))
		return refuse(path, "the schemas are not numbered in order", err);
	if (sc_json_get(object, "schema", &member) && member.kind != SC_JSON_NULL)
		mark.text = member.text;
	return sc_settings_add(s, &mark, err);
}

static int read_schemas(const struct sc_json *root, const char *path, struct sc_settings *s,
			struct sc_err *err)
{
	struct sc_json before, item;
	struct sc_json_walk walk;
	int rc = 0;

	if (sc_json_get(root, "schema_before", &before)) {
		if (before.kind != SC_JSON_ARRAY)
			return refuse(path, "schema_before is not an array", err);
		sc_json_walk_init(&walk, &before);
		while (rc == 0 && sc_json_walk_next(&walk, NULL, &item))
			rc = item.kind == SC_JSON_OBJECT
				     ? read_era(&item, "version", "from", path, s, err)
				     : refuse(path,
					      "schema_before holds something else than objects",
					      err);
	}
	return rc < 0 ? rc : read_era(root, "schema_version", "schema_from", path, s, err);
}

static int read_members(const struct sc_json *root, const char *path, struct sc_settings *s,
			struct sc_err *err)
{
	struct sc_json member;
	uint64_t format = 0, created = 0;
	int rc;

	if (!sc_json_get(root, "format", &member) || !sc_json_u64(&member, &format))
		return refuse(path, "it holds no format number", err);
	if (format != SC_LOG_FORMAT && format != SC_LOG_FORMAT_SCHEMAS) {
		int code = sc_err_set(err, SC_E_CONFIG, "cannot open log",
				      "it has format %llu; this program knows formats %d and %d",
				      (unsigned long long)format, SC_LOG_FORMAT,
				      SC_LOG_FORMAT_SCHEMAS);

		sc_err_on(err, "file", path);
		sc_err_next(err, "use a newer release");
		return code;
	}
	if (!read_stream_id(root, s))
		return refuse(path, "it holds no stream_id", err);
	if (!read_u64(root, "created_us", 0, INT64_MAX, &created))
		return refuse(path, "created_us is not a time", err);
	s->created_us = (int64_t)created;
	rc = read_schemas(root, path, s, err);
	if (rc < 0)
		return rc;
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
	if (!read_u64(root, "next", 1, UINT64_MAX - 1, &s->next))
		return refuse(path, "next is not an offset", err);
	return 0;
}

int sc_settings_parse(struct sc_span text, const char *name, struct sc_settings *s,
		      struct sc_err *err)
{
	struct sc_json root;

	if (sc_json_scan(text, &root, NULL) < 0 || root.kind != SC_JSON_OBJECT)
		return refuse(name, "it is not a JSON object", err);
	return read_members(&root, name, s, err);
}

static void no_settings(const char *log_path, struct sc_err *err)
{
	char path[PATH_MAX];

	sc_err_set(err, SC_E_NOLOG, "cannot open", "there is no log.json in it");
	sc_err_on(err, "log", log_path);
	if (snprintf(path, sizeof(path), "%s/journal", log_path) < (int)sizeof(path) &&
	    access(path, F_OK) == 0)
		sc_err_next(err, "put its log.json back: its journals are there");
	else
		sc_err_next(err, "make it with: sc-log create %s", log_path);
}

int sc_settings_read(const char *log_path, struct sc_settings *s, struct sc_err *err)
{
	char path[PATH_MAX];
	struct sc_bytes text;
	int rc;

	if (snprintf(path, sizeof(path), "%s/log.json", log_path) >= (int)sizeof(path))
		return sc_err_set(err, SC_E_NOLOG, "cannot open log", "its path is too long");
	sc_bytes_init(&text, FILE_MAX);
	rc = sc_read_file(path, &text, err);
	if (rc == SC_E_NOLOG && sc_log_check_restore(log_path, err) == 0)
		no_settings(log_path, err);
	if (rc == 0)
		rc = sc_settings_parse(sc_span(text.data, text.len), path, s, err);
	sc_bytes_done(&text);
	return rc;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* NOW from the file, which LOG holds open from now on. 1; 0: it was replaced meanwhile. */
static int read_held(struct sc_log *log, struct sc_settings *now, struct sc_err *err)
{
	char path[PATH_MAX];
	struct stat before, after;
	int fd, rc;

	sc_log_file(log, path, "log.json");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &before) < 0)
		sc_close(&fd);
	rc = sc_settings_read(log->path, now, err); /* which also says why there is no fd */
	if (rc == 0 && (fd < 0 || stat(path, &after) < 0 || !same_file(&before, &after))) {
		sc_close(&fd);
		return 0;
	}
	if (rc < 0) {
		sc_close(&fd);
		return rc;
	}
	sc_close(&log->settings_fd);
	log->settings_fd = fd;
	log->settings_stat = before;
	return 1;
}

int sc_settings_refresh(struct sc_log *log, struct sc_err *err)
{
	struct sc_settings now;
	int rc = 0;

	for (int i = 0; rc == 0 && i < TRIES; i++) {
		sc_settings_init(&now);
		rc = read_held(log, &now, err);
		if (rc != 1)
			sc_settings_done(&now);
	}
	if (rc == 0) {
		rc = sc_err_set(err, SC_E_IO, "cannot use",
				"its log.json is replaced faster than it can be read");
		sc_log_err(log, err);
	}
	if (rc < 0)
		return rc;
	if (log->settings.stream_id[0] && strcmp(now.stream_id, log->settings.stream_id) != 0) {
		sc_settings_done(&now);
		rc = sc_err_set(err, SC_E_NOLOG, "cannot use", "another log was made in its place");
		sc_log_err(log, err);
		sc_err_next(err, "open it again");
		return rc;
	}
	sc_settings_done(&log->settings);
	log->settings = now;
	return 0;
}

int sc_settings_check(struct sc_log *log, struct sc_err *err)
{
	char path[PATH_MAX];
	struct stat st;

	sc_log_file(log, path, "log.json");
	if (log->settings_fd >= 0 && stat(path, &st) == 0 && same_file(&st, &log->settings_stat))
		return 0;
	return sc_settings_refresh(log, err);
}

bool sc_settings_leftover(const char *name)
{
	static const char front[] = "log.json.", back[] = ".tmp";
	size_t len = strlen(name), fixed = sizeof(front) - 1 + sizeof(back) - 1;

	return len > fixed && !strncmp(name, front, sizeof(front) - 1) &&
	       !strcmp(name + len - (sizeof(back) - 1), back);
}

static int put_schema(struct sc_bytes *text, const struct sc_schema_mark *mark)
{
	return mark->text.len ? sc_bytes_put(text, mark->text.data, mark->text.len)
			      : sc_bytes_puts(text, "null");
}

/* The schema in force and, if there ever was another, its number and those before it. */
static int put_schemas(struct sc_bytes *text, const struct sc_settings *s)
{
	struct sc_schema_mark now = sc_settings_schema(s);
	int rc = sc_bytes_puts(text, "\"schema\":");

	if (rc == 0)
		rc = put_schema(text, &now);
	if (rc == 0 && now.version > 1)
		rc = sc_bytes_putf(text,
				   ",\n\"schema_version\":%llu,\n\"schema_from\":%llu,\n"
				   "\"schema_before\":[",
				   (unsigned long long)now.version, (unsigned long long)now.from);
	for (size_t i = 0; rc == 0 && now.version > 1 && i + 1 < s->era_count; i++) {
		struct sc_schema_mark mark = sc_settings_era(s, i);

		rc = sc_bytes_putf(text,
				   "%s{\"version\":%llu,\"from\":%llu,\"schema\":", i ? ",\n" : "",
				   (unsigned long long)mark.version, (unsigned long long)mark.from);
		if (rc == 0)
			rc = put_schema(text, &mark);
		if (rc == 0)
			rc = sc_bytes_putc(text, '}');
	}
	return rc == 0 && now.version > 1 ? sc_bytes_putc(text, ']') : rc;
}

static int make_text(const struct sc_settings *s, struct sc_bytes *text)
{
	char created[SC_TIME_TEXT];
	int rc;

	sc_time_text(s->created_us, created);
	rc = sc_bytes_putf(text,
			   "{\"format\":%d,\n\"stream_id\":\"%s\",\n\"created\":\"%s\",\n"
			   "\"created_us\":%lld,\n",
			   sc_settings_schema(s).version > 1 ? SC_LOG_FORMAT_SCHEMAS
							     : SC_LOG_FORMAT,
			   s->stream_id, created, (long long)s->created_us);
	if (rc == 0)
		rc = put_schemas(text, s);
	if (rc == 0)
		rc = sc_bytes_putf(text,
				   ",\n\"settings\":{\"message_max\":%llu,\"journal_bytes\":%llu,"
				   "\"network_ok\":%s},\n",
				   (unsigned long long)s->message_max,
				   (unsigned long long)s->journal_bytes,
				   s->network_ok ? "true" : "false");
	if (rc == 0)
		rc = sc_bytes_putf(text, "\"floor\":{\"offset\":%llu,\"rows\":%llu,\"bytes\":%llu}",
				   (unsigned long long)s->floor.offset,
				   (unsigned long long)s->floor.rows,
				   (unsigned long long)s->floor.bytes);
	if (rc == 0 && s->next)
		rc = sc_bytes_putf(text, ",\n\"next\":%llu", (unsigned long long)s->next);
	return rc == 0 ? sc_bytes_puts(text, "}\n") : rc;
}

/* Called under the log's lock, or before there is a log. */
int sc_settings_write(const char *log_path, const struct sc_settings *s, struct sc_err *err)
{
	char path[PATH_MAX];
	struct sc_bytes text;
	int rc;

	if (snprintf(path, sizeof(path), "%s/log.json", log_path) >= (int)sizeof(path))
		return sc_err_set(err, SC_E_CANTCREAT, "cannot write log.json",
				  "its path is too long");
	sc_bytes_init(&text, FILE_MAX); /* what can be read back */
	rc = make_text(s, &text);
	if (rc == 0)
		rc = sc_replace_file(path, text.data, text.len, 0666, true, err);
	else if (text.full)
		rc = sc_err_set(err, SC_E_CONFIG, "cannot write log.json",
				"all schemas together are longer than %u bytes", FILE_MAX);
	else
		rc = sc_err_nomem(err, "cannot write log.json");
	sc_bytes_done(&text);
	if (rc == 0)
		sc_replace_sweep(path);
	return rc;
}

int sc_settings_put(struct sc_log *log, struct sc_err *err)
{
	int rc = sc_settings_write(log->path, &log->settings, err);

	if (rc < 0) {
		sc_close(&log->settings_fd); /* whoever needs it reads what is there */
		sc_settings_refresh(log, NULL);
	}
	return rc;
}
