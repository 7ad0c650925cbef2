/* archive_url.c: where the archive of a log is: told by a person, or noted in the log. */
#include "log/archive_url.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "json/scan.h"
#include "store/place.h"

#define TRIED "cannot find the archive"
#define NOTE_MAX (64u << 20)

/* BASE[/NAME][QUERY]; a name is encoded where URLs are decoded. */
static int put_url(struct sc_bytes *out, const char *base, const char *name, bool encode,
		   const char *query)
{
	size_t len = strlen(base);
	int rc = sc_bytes_put(out, base, len);

	if (rc == 0 && (len == 0 || base[len - 1] != '/'))
		rc = sc_bytes_putc(out, '/');
	if (rc == 0)
		rc = encode ? sc_place_encode(out, sc_span_str(name), false)
			    : sc_bytes_puts(out, name);
	return rc == 0 ? sc_bytes_puts(out, query) : rc;
}

int sc_archive_url(const char *folder, const char *name, struct sc_bytes *url,
		   struct sc_bytes *shown, struct sc_err *err)
{
	struct sc_place place;
	const char *query;
	char *base;
	bool encode;
	int rc = sc_place_parse(folder, &place, err);

	if (rc < 0)
		return rc;
	encode = place.kind != SC_PLACE_S3;
	query = place.kind == SC_PLACE_WEB ? strchr(folder, '?') : NULL;
	base = query ? strndup(folder, (size_t)(query - folder)) : strdup(folder);
	sc_bytes_clear(url);
	sc_bytes_clear(shown);
	for (size_t len = base ? strlen(base) : 0;
	     len > sizeof("file:///") - 1 && base[len - 1] == '/'; len--)
		base[len - 1] = 0;
	if (!base || put_url(url, base, name, encode, query ? query : "") < 0 ||
	    put_url(shown, place.shown, name, encode, "") < 0 || !sc_bytes_str(url) ||
	    !sc_bytes_str(shown))
		rc = sc_err_nomem(err, TRIED);
	free(base);
	sc_place_done(&place);
	return rc;
}

int sc_archive_check_name(const char *name, struct sc_err *err)
{
	if (sc_place_check_key(name, err) < 0)
		return sc_err_next(err,
				   "an archive is named after its log: rename the log's folder");
	return 0;
}

int sc_archive_check_apart(const char *folder, const struct sc_log *log, struct sc_err *err)
{
	struct stat ours, st;
	char path[PATH_MAX];

	if (!folder || stat(sc_log_path(log), &ours) < 0 || !realpath(folder, path))
		return 0; /* who uses it will say what is wrong */
	while (path[1] && stat(path, &st) == 0) {
		if (st.st_dev == ours.st_dev && st.st_ino == ours.st_ino) {
			sc_err_set(err, SC_E_CONFIG, "cannot archive",
				   "'%s' is in the log itself: it would go with it", folder);
			sc_err_on(err, "log", sc_log_path(log));
			sc_err_next(err, "give a folder elsewhere, best on another disk");
			return SC_E_CONFIG;
		}
		*(strrchr(path + 1, '/') ? strrchr(path, '/') : path + 1) = 0;
	}
	return 0;
}

/* The log was opened by that path, so it is not too long. */
static void note_path(const struct sc_log *log, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s/archive.json", sc_log_path(log));
}

static int no_note(struct sc_log *log, struct sc_err *err)
{
	char path[PATH_MAX];

	note_path(log, path);
	sc_err_set(err, SC_E_DATA, TRIED, "it is not what sc-seal wrote");
	sc_err_on(err, "file", path);
	return sc_err_next(err, "put a good copy of the file back, or give --archive");
}

/* The log was renamed, is named by a link, or is a copy: whose archive that is, is not known. */
static int other_name(struct sc_log *log, const char *url, struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, TRIED,
		   "the archive that is noted there, '%s', is of another name", url);
	sc_err_on(err, "log", sc_log_path(log));
	return sc_err_next(err, "give it with --archive, if it is this log's");
}

/* The URL in the note, which ends with the log's name as it is. */
static int take_url(struct sc_log *log, const struct sc_json *root, char **ret_url,
		    struct sc_err *err)
{
	const char *name = sc_log_name(log);
	struct sc_bytes text, url, shown;
	struct sc_json id, member;
	size_t len = strlen(name);
	int rc = 0;

	if (!sc_json_get(root, "stream_id", &id) || id.kind != SC_JSON_STRING ||
	    !sc_json_get(root, "archive", &member) || member.kind != SC_JSON_STRING)
		return no_note(log, err);
	if (!sc_span_is(sc_span(id.text.data + 1, id.text.len - 2), sc_log_stream_id(log)))
		return 0; /* left by a log that was here before */
	sc_bytes_init(&text, 1u << 16);
	sc_bytes_init(&url, 1u << 16);
	sc_bytes_init(&shown, 1u << 16);
	if (sc_json_unescape(member.text, &text) < 0 || !sc_bytes_str(&text) || !text.len) {
		rc = no_note(log, err);
	} else if (text.len < len + 2 || memcmp(text.data + text.len - len, name, len) != 0 ||
		   text.data[text.len - len - 1] != '/') {
		rc = other_name(log, text.data, err);
	} else {
		text.data[text.len - len - 1] = 0;
		rc = sc_archive_url(text.data, name, &url, &shown, err);
	}
	if (rc == 0) {
		*ret_url = strdup(sc_bytes_str(&url));
		if (!*ret_url)
			rc = sc_err_nomem(err, TRIED);
	}
	sc_bytes_done(&text);
	sc_bytes_done(&url);
	sc_bytes_done(&shown);
	return rc;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int sc_archive_note_read(struct sc_log *log, struct sc_archive_note *note, struct sc_err *err)
{
	char path[PATH_MAX], *url = NULL;
	struct sc_json root;
	struct sc_bytes text;
	struct stat st = { .st_ino = 0 };
	int rc = 0;

	note_path(log, path);
	if (stat(path, &st) == 0 && same_file(&st, &note->seen))
		return 0;
	sc_bytes_init(&text, NOTE_MAX);
	if (st.st_ino)
		rc = sc_read_file(path, &text, err);
	note->seen = st; /* also when it is no good: that is told once */
	if (rc == SC_E_NOLOG) {
		rc = 0;
	} else if (rc == 0 && st.st_ino) {
		if (sc_json_scan(sc_span(text.data, text.len), &root, NULL) < 0 ||
		    root.kind != SC_JSON_OBJECT)
			rc = no_note(log, err);
		else
			rc = take_url(log, &root, &url, err);
	}
	sc_bytes_done(&text);
	if (rc < 0)
		return rc;
	if (url && note->url ? strcmp(url, note->url) == 0 : !url && !note->url) {
		free(url);
		return 0;
	}
	free(note->url);
	note->url = url;
	return 1;
}

void sc_archive_note_done(struct sc_archive_note *note)
{
	free(note->url);
	memset(note, 0, sizeof(*note));
}
