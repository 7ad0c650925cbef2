/* base/say.c: messages to stderr: levels, times, JSON, and repeated warnings counted. */
#include "base/say.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

#define LINE_MAX_BYTES 4096
#define REPEATS 16
#define REPEAT_US 60000000
#define LAST_WAIT_MS 1000

/* A warning said lately, and how often it was held back since. */
struct repeat {
	char text[512];
	enum sc_level level;
	int64_t said_us;
	unsigned held;
};

static struct {
	const char *program;
	enum sc_level level;
	bool json;
	pthread_mutex_t lock;
	struct repeat repeats[REPEATS];
} say = { "sc", SC_NOTICE, false, PTHREAD_MUTEX_INITIALIZER, { { { 0 }, SC_ERROR, 0, 0 } } };

static const char *const level_names[] = { "error", "warning", "notice", "info", "debug" };

void sc_say_setup(const char *program, enum sc_level level, bool json)
{
	say.program = program;
	say.level = level;
	say.json = json;
}

bool sc_says(enum sc_level level)
{
	return level <= say.level;
}

bool sc_wants_json(void)
{
	return say.json;
}

const char *sc_program_name(void)
{
	return say.program;
}

/* One write, so that lines of several threads and processes do not mix. WAIT_MS for room, where a
 * program that shares stderr made it one that does not wait. */
static void emit(const char *line, size_t len, int wait_ms)
{
	while (len > 0) {
		ssize_t n = write(STDERR_FILENO, line, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN &&
		    poll(&(struct pollfd){ STDERR_FILENO, POLLOUT, 0 }, 1, wait_ms) > 0)
			continue;
		if (n <= 0)
			return;
		line += n;
		len -= (size_t)n;
	}
}

/* A line break or an escape in a peer's words must not look like a line of ours. */
static void put_shown(struct sc_bytes *b, const char *text)
{
	for (size_t left = strlen(text), control; left > 0; text++, left--) {
		control = sc_control_len(text, left);
		if (!control) {
			sc_bytes_putc(b, *text);
			continue;
		}
		for (size_t i = 0; i < control; i++)
			sc_bytes_putf(b, "\\x%02x", (unsigned char)text[i]);
		text += control - 1;
		left -= control - 1;
	}
}

/* Milliseconds are enough here: 2026-11-30T00:12:01.123Z. */
static void time_text(char text[SC_TIME_TEXT])
{
	sc_time_text(sc_wall_us(), text);
	memcpy(text + 23, "Z", 2);
}

static void write_line(enum sc_level level, const char *fields, const char *text)
{
	char when[SC_TIME_TEXT];
	struct sc_bytes b;

	time_text(when);
	sc_bytes_init(&b, 8 * LINE_MAX_BYTES);
	if (say.json) {
		sc_bytes_putf(&b, "{\"time\":\"%s\",\"program\":\"%s\",\"level\":\"%s\",\"text\":",
			      when, say.program, level_names[level]);
		sc_bytes_put_json(&b, sc_span_str(text));
		if (fields && *fields)
			sc_bytes_putf(&b, ",%s", fields);
		sc_bytes_puts(&b, "}\n");
	} else {
		sc_bytes_putf(&b, "%s: %s %s: ", say.program, when, level_names[level]);
		put_shown(&b, text);
		sc_bytes_putc(&b, '\n');
	}
	emit(b.data, b.len, 0);
	sc_bytes_done(&b);
}

static void write_held(const struct repeat *r)
{
	char text[sizeof(r->text) + 40];

	if (r->held == 1)
		snprintf(text, sizeof(text), "%s (once more)", r->text);
	else
		snprintf(text, sizeof(text), "%s (%u times more)", r->text, r->held);
	write_line(r->level, NULL, text);
}

/* True when TEXT was said in the last minute: it is counted, not said. Under the lock. */
static bool hold_back(enum sc_level level, const char *text)
{
	int64_t now = sc_mono_us();
	struct repeat *slot = &say.repeats[0];

	if (strlen(text) >= sizeof(slot->text))
		return false;
	for (size_t i = 0; i < REPEATS; i++) {
		struct repeat *r = &say.repeats[i];

		if (r->level == level && strcmp(r->text, text) == 0) {
			slot = r;
			break;
		}
		if (r->said_us < slot->said_us)
			slot = r;
	}
	if (slot->level == level && strcmp(slot->text, text) == 0 &&
	    now - slot->said_us < REPEAT_US) {
		slot->held++;
		return true;
	}
	if (slot->held)
		write_held(slot);
	memcpy(slot->text, text, strlen(text) + 1);
	slot->level = level;
	slot->said_us = now;
	slot->held = 0;
	return false;
}

static void say_text(enum sc_level level, const char *fields, const char *text)
{
	pthread_mutex_lock(&say.lock);
	if (level != SC_WARNING || !hold_back(level, text))
		write_line(level, fields, text);
	pthread_mutex_unlock(&say.lock);
}

static void say_va(enum sc_level level, const char *fields, const char *format, va_list args)
{
	char text[LINE_MAX_BYTES];

	if (!sc_says(level))
		return;
	if (vsnprintf(text, sizeof(text), format, args) >= (int)sizeof(text))
		memcpy(text + sizeof(text) - 4, "...", 4);
	say_text(level, fields, text);
}

void sc_say(enum sc_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_va(level, NULL, format, args);
	va_end(args);
}

void sc_say_fields(enum sc_level level, const char *fields, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_va(level, fields, format, args);
	va_end(args);
}

void sc_say_err(enum sc_level level, const struct sc_err *err)
{
	char line[1100], json[SC_ERR_JSON];
	size_t len;

	if (!sc_says(level))
		return;
	sc_err_line(err, line, sizeof(line));
	/* The error's own members go in beside ours. */
	len = say.json ? sc_err_json(err, json, sizeof(json)) : 0;
	if (len >= 2)
		json[len - 1] = '\0';
	say_text(level, len >= 2 ? json + 1 : NULL, line);
}

void sc_say_finish(void)
{
	pthread_mutex_lock(&say.lock);
	for (size_t i = 0; i < REPEATS; i++) {
		if (say.repeats[i].held)
			write_held(&say.repeats[i]);
		say.repeats[i].held = 0;
	}
	pthread_mutex_unlock(&say.lock);
}

void sc_say_last(const struct sc_err *err)
{
	char line[SC_ERR_JSON + 1];
	size_t used = 0, len;

	if (!say.json)
		used = (size_t)snprintf(line, sizeof(line), "%s: ", say.program);
	if (say.json)
		len = sc_err_json(err, line, sizeof(line) - 1);
	else
		len = sc_err_line(err, line + used, sizeof(line) - 1 - used);
	line[used + len] = '\n';
	emit(line, used + len + 1, LAST_WAIT_MS);
}
