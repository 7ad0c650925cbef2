/*
 * archive_url_test: where an archive is. Goal: a name is added to the folder's URL as sc-seal adds
 * it, secrets are never shown, and a log's note is found, believed only when it is about this log,
 * and read again only when it changed. Method: URLs of each kind; notes written by hand.
 */
#include "help.h"

#include "log/archive_url.h"

static struct sc_bytes url, shown;

static void expect(const char *folder, const char *name, const char *want, const char *want_shown)
{
	sc_bytes_init(&url, 1u << 16);
	sc_bytes_init(&shown, 1u << 16);
	CHECK_OK(sc_archive_url(folder, name, &url, &shown, &err), &err);
	CHECK_STR(sc_bytes_str(&url), want);
	CHECK_STR(sc_bytes_str(&shown), want_shown);
	sc_bytes_done(&url);
	sc_bytes_done(&shown);
}

TEST(urls)
{
	expect("s3://bkt", "t", "s3://bkt/t", "s3://bkt/t");
	expect("s3://bucket/prod/", "a b%", "s3://bucket/prod/a b%", "s3://bucket/prod/a b%");
	expect("file:///srv/x//", "t", "file:///srv/x/t", "file:///srv/x/t");
	expect("file:///", "t", "file:///t", "file:///t");
	expect("file:///a%20b", "c%d", "file:///a%20b/c%25d", "file:///a%20b/c%25d");
	expect("https://me:word@h:1/x?k=s/", "t", "https://me:word@h:1/x/t?k=s/",
	       "https://h:1/x/t");
	expect("http://h", "t", "http://h/t", "http://h/t");
	CHECK_INT(sc_archive_url("ftp://h", "t", &url, &shown, &err), SC_E_USAGE);
	CHECK_INT(sc_archive_url("file:/x", "t", &url, &shown, &err), SC_E_USAGE);
	sc_bytes_done(&url);
	sc_bytes_done(&shown);
}

static void write_note(const char *id, const char *at)
{
	char text[400];
	int len = snprintf(text, sizeof(text),
			   "{\"format\":1,\"stream_id\":\"%s\",\"archive\":\"%s\"}", id, at);

	CHECK_OK(sc_replace_file(in_log("archive.json"), text, (size_t)len, 0666, false, &err),
		 &err);
}

TEST(notes)
{
	struct sc_archive_note note = { .url = NULL };
	struct sc_log *log;
	const char *id;

	log_new(0);
	log = open_log(SC_LOG_READ);
	id = sc_log_stream_id(log);
	CHECK_INT(sc_archive_note_read(log, &note, &err), 0);
	CHECK(!note.url);
	write_note(id, "s3:\\/\\/bkt/prod/trades");
	CHECK_INT(sc_archive_note_read(log, &note, &err), 1);
	CHECK_STR(note.url, "s3://bkt/prod/trades");
	CHECK_INT(sc_archive_note_read(log, &note, &err), 0);
	write_note(id, "s3://bkt/prod/trades"); /* another file, the same place */
	CHECK_INT(sc_archive_note_read(log, &note, &err), 0);
	write_note(id, "file:///srv/trades");
	CHECK_INT(sc_archive_note_read(log, &note, &err), 1);
	CHECK_STR(note.url, "file:///srv/trades");
	/* what is none is told once, and the old one stays */
	write_note(id, "file:///srv/other");
	CHECK_INT(sc_archive_note_read(log, &note, &err), SC_E_DATA);
	CHECK_INT(sc_archive_note_read(log, &note, &err), 0);
	write_note(id, "trades");
	CHECK_INT(sc_archive_note_read(log, &note, &err), SC_E_DATA);
	write_note(id, "nonsense/trades");
	CHECK_INT(sc_archive_note_read(log, &note, &err), SC_E_USAGE);
	CHECK_OK(sc_replace_file(in_log("archive.json"), "[1]", 3, 0666, false, &err), &err);
	CHECK_INT(sc_archive_note_read(log, &note, &err), SC_E_DATA);
	CHECK_OK(sc_replace_file(in_log("archive.json"), "", 0, 0666, false, &err), &err);
	CHECK_INT(sc_archive_note_read(log, &note, &err), SC_E_DATA);
	CHECK_STR(note.url, "file:///srv/trades");
	/* of the log that was here before */
	write_note("00000000-0000-4000-8000-000000000000", "s3://bkt/trades");
	CHECK_INT(sc_archive_note_read(log, &note, &err), 1);
	CHECK(!note.url);
	sc_archive_note_done(&note);
	sc_log_close(log);
	log_done();
}
