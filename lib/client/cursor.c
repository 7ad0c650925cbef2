/* client/cursor.c: the cursor file. */
#include "client/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"

#define SAVE_EVERY_US 1000000

struct sc_cursor {
	char *path, *lock_path;
	int lock_fd;
	bool unusable;
	bool has_value;
	uint64_t value; /* the highest offered or read */
	bool has_saved;
	uint64_t saved;            /* in the file */
	int64_t saved_us;          /* monotonic; 0 = never */
	char text[SC_CURSOR_TEXT]; /* what the file held, or was moved to, as a text */
};

/* As the original reads it: blanks around, a sign, leading zeros and single underscores between
 * digits are tolerated. */
static bool parse(const char *text, size_t len, uint64_t *ret_value)
{
	uint64_t value = 0;
	bool digit = false;

	while (len > 0 && strchr(" \t\r\n\v\f", text[0]) && text[0])
		text++, len--;
	while (len > 0 && strchr(" \t\r\n\v\f", text[len - 1]) && text[len - 1])
		len--;
	if (len > 0 && text[0] == '+')
		text++, len--;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '_' && digit && i + 1 < len && text[i + 1] != '_') {
			digit = false;
			continue;
		}
		if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
			return false;
		digit = true;
	}
	*ret_value = value;
	return digit && value < UINT64_MAX; /* nothing could come after the last one */
}

/* A file that is there and cannot be read says nothing of where to begin: not the same as none. */
static int read_value(struct sc_cursor *c, struct sc_err *err)
{
	struct sc_bytes b;
	struct sc_err why;
	int rc;

	sc_bytes_init(&b, 4096);
	rc = sc_read_file(c->path, &b, &why);
	if (rc < 0 && rc != SC_E_NOLOG && rc != SC_E_DATA) {
		sc_bytes_done(&b);
		if (err)
			*err = why;
		sc_err_on(err, "cursor file", c->path);
		return sc_err_next(err, "give the right to read it, or another file");
	}
	if (rc == 0 && b.len > 0 && parse(b.data, b.len, &c->value)) {
		c->has_value = c->has_saved = true;
		c->saved = c->value;
	}
	if (rc == 0) {
		size_t from = 0, to = b.len;

		while (to > from && strchr(" \t\r\n", b.data[to - 1]) && b.data[to - 1])
			to--;
		while (from < to && strchr(" \t\r\n", b.data[from]) && b.data[from])
			from++;
		if (to - from < sizeof(c->text) &&
		    (from == to || !memchr(b.data + from, 0, to - from)))
			snprintf(c->text, sizeof(c->text), "%.*s", (int)(to - from),
				 b.data ? b.data + from : "");
	}
	c->unusable = rc != SC_E_NOLOG && b.len > 0 && !c->has_value;
	sc_bytes_done(&b);
	return 0;
}

static int named(struct sc_err *err, int code, int errnum, const char *tried, const char *path)
{
	sc_err_sys(err, code, errnum, tried);
	return sc_err_on(err, "cursor file", path);
}

/* The lock is a file of its own: the cursor file itself is replaced at each save. */
static int lock(struct sc_cursor *c, struct sc_err *err)
{
	/* folders on the way are made, as the original does */
	int rc = sc_make_parents(c->path, true, err);

	if (rc < 0)
		return err ? sc_err_on(err, "cursor file", c->path) : rc;
	c->lock_fd = open(c->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (c->lock_fd < 0)
		return named(err, errno == EACCES ? SC_E_NOAUTH : SC_E_CANTCREAT, errno,
			     "cannot open", c->lock_path);
	if (flock(c->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK)
		return named(err, SC_E_IO, errno, "cannot lock", c->lock_path);
	sc_err_set(err, SC_E_BUSY, "cannot use", "another process is using it");
	sc_err_on(err, "cursor file", c->path);
	return sc_err_next(err,
			   "give each consumer a cursor file of its own, or end the other one");
}

/* It will be replaced by a rename: what is there must be a file, or nothing. */
static int check_path(const char *path, struct sc_err *err)
{
	const char *reason = NULL;
	struct stat st;

	if (!path[0] || path[strlen(path) - 1] == '/')
		reason = "that names no file";
	else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		reason = S_ISDIR(st.st_mode) ? "it is a folder" : "it is no regular file";
	if (!reason)
		return 0;
	sc_err_set(err, SC_E_CANTCREAT, "cannot use", "%s", reason);
	sc_err_on(err, "cursor file", path);
	return sc_err_next(err, "name a file to keep the offset in");
}

int sc_cursor_open(const char *path, struct sc_cursor **ret_cursor, struct sc_err *err)
{
	struct sc_cursor *c = sc_calloc(1, sizeof(*c));
	size_t len = strlen(path);
	int rc;

	if (!c)
		return sc_err_nomem(err, "cannot open cursor file");
	c->lock_fd = -1;
	rc = check_path(path, err);
	if (rc < 0) {
		sc_cursor_close(c);
		return rc;
	}
	c->path = sc_malloc(len + 1);
	c->lock_path = sc_malloc(len + 6);
	if (!c->path || !c->lock_path) {
		sc_cursor_close(c);
		return sc_err_nomem(err, "cannot open cursor file");
	}
	memcpy(c->path, path, len + 1);
	memcpy(c->lock_path, path, len);
	memcpy(c->lock_path + len, ".lock", 6);
	rc = lock(c, err);
	if (rc == 0) {
		sc_replace_sweep(c->path);
		rc = read_value(c, err);
	}
	if (rc < 0) {
		sc_cursor_close(c);
		return rc;
	}
	*ret_cursor = c;
	return 0;
}

void sc_cursor_close(struct sc_cursor *c)
{
	if (!c)
		return;
	sc_close(&c->lock_fd);
	free(c->path);
	free(c->lock_path);
	free(c);
}

bool sc_cursor_value(const struct sc_cursor *c, uint64_t *ret_offset)
{
	if (c->has_value)
		*ret_offset = c->value;
	return c->has_value;
}

bool sc_cursor_unusable(const struct sc_cursor *c)
{
	return c->unusable;
}

bool sc_cursor_behind(const struct sc_cursor *c)
{
	return c->has_value && (!c->has_saved || c->saved < c->value);
}

const char *sc_cursor_text(const struct sc_cursor *c)
{
	return c->text;
}

int sc_cursor_move_text(struct sc_cursor *c, const char *text, struct sc_err *err)
{
	size_t len = strlen(text);
	int rc;

	if (len >= sizeof(c->text) || !strcmp(c->text, text))
		return 0;
	rc = sc_replace_file(c->path, text, len, 0666, true, err);
	if (rc == 0)
		memcpy(c->text, text, len + 1);
	return rc;
}

int sc_cursor_move(struct sc_cursor *c, uint64_t offset, bool now, struct sc_err *err)
{
	char digits[20];
	int64_t now_us;
	int rc;

	if (offset > 0 && (!c->has_value || offset > c->value)) {
		c->has_value = true;
		c->value = offset;
	}
	if (!sc_cursor_behind(c))
		return 0;
	now_us = sc_mono_us();
	if (!now && c->saved_us && now_us - c->saved_us < SAVE_EVERY_US)
		return 0;
	/* synced: a cursor that a power cut emptied would start the consumer in the wrong place */
	rc = sc_replace_file(c->path, digits, sc_u64_digits(digits, c->value), 0666, true, err);
	if (rc < 0)
		return rc;
	c->saved = c->value;
	c->has_saved = true;
	c->saved_us = now_us;
	return 0;
}
