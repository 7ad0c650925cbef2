/*
 * tests/unit/log/migrate_help.h: a log that changes between two schemas; a row tells by its form
 * which one it was stored by.
 */
#ifndef SC_TESTS_LOG_MIGRATE_HELP_H
#define SC_TESTS_LOG_MIGRATE_HELP_H

#include "help.h"

#include "log/log_internal.h"
#include "log/seal.h"

#define COLUMN_N "\"n\":{\"type\":\"integer\"}"
/* rows {"n":N,"old":null} and {"n":N,"new":null} */
#define OLD "{\"properties\":{" COLUMN_N ",\"old\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"n\"]}"
#define NEW "{\"properties\":{" COLUMN_N ",\"new\":{\"type\":[\"number\",\"null\"]}},\"required\":[\"n\"]}"

static inline void migrating_log_new(uint64_t journal_bytes)
{
	struct sc_log_settings settings = { .journal_bytes = journal_bytes, .schema = SC_SPAN(OLD) };

	log_new_with(&settings);
}

static inline int migrate(struct sc_log *log, const char *schema, struct sc_log_migrated *ret_done)
{
	struct sc_log_migration m = { .schema = sc_span_str(schema) };
	struct sc_log_migrated done = { .version = 0 };
	int rc = sc_log_migrate(log, &m, &done, &err);

	if (ret_done)
		*ret_done = done;
	return rc;
}

/* Rows {"n":FROM}... checked by the schema that the handle knows, in one commit. */
static inline int append_checked(struct sc_log *log, uint64_t from, size_t count)
{
	uint32_t lens[1000];
	struct sc_bytes text;
	struct sc_log_commit commit;
	struct sc_log_rows rows = { .lens = lens, .count = count,
				    .schema_version = sc_log_schema_version(log) };
	int rc = 0;

	CHECK(count <= 1000);
	sc_bytes_init(&text, 1u << 20);
	for (size_t i = 0; i < count; i++) {
		size_t before = text.len;
		char row[40];

		snprintf(row, sizeof(row), "{\"n\":%llu}", (unsigned long long)(from + i));
		CHECK_OK(sc_row_project(sc_log_schema(log), sc_span_str(row), &text, &err), &err);
		lens[i] = (uint32_t)(text.len - before);
	}
	rows.text = sc_span(text.data, text.len);
	rc = sc_log_append(log, &rows, &commit, &err);
	sc_bytes_done(&text);
	return rc;
}

/* 'o', 'n' or 'a' (neither: any JSON value) of a schema's text or of a row. */
static inline char form_of(struct sc_span text)
{
	if (memmem(text.data ? text.data : "", text.len, "\"old\"", 5))
		return 'o';
	return memmem(text.data ? text.data : "", text.len, "\"new\"", 5) ? 'n' : 'a';
}

/*
 * Every row stands in the form of the schema that was in force at its offset, no journal holds two
 * forms, no segment holds two or says another than its own. How many rows there are.
 */
static inline uint64_t check_forms(struct sc_log *log)
{
	struct sc_names names = { NULL, 0 };
	struct sc_bytes all;
	uint64_t rows = 0, journal = 0, segment = 0;
	size_t at = 0, j = 0, count = 0, k = 0;
	struct sc_sealed *items = NULL;
	char form = 0, sealed_form = 0;

	sc_bytes_init(&all, 1u << 30);
	CHECK_OK(read_all(log, 0, 0, &all), &err);
	CHECK_OK(sc_settings_check(log, &err), &err);
	CHECK_OK(sc_journal_list(log, &names, NULL, &err), &err);
	CHECK_OK(sc_tier_all(log, &items, &count, &err), &err);
	while (at < all.len) {
		const char *line = all.data + at, *lf = memchr(line, '\n', all.len - at);
		const char *comma = memchr(line, ',', (size_t)(lf - line));
		uint64_t offset = 0;
		char is = form_of(sc_span(line, (size_t)(lf - line)));

		CHECK(comma && sc_u64_parse(sc_span(line + 1, (size_t)(comma - line - 1)), &offset));
		CHECK_INT(is, form_of(sc_settings_schema_at(&log->settings, offset).text));
		while (j < names.count && names.items[j] <= offset)
			journal = names.items[j++], form = is;
		if (journal)
			CHECK_INT(form, is);
		while (k < count && items[k].first <= offset) {
			struct sc_tier *tier = NULL;

			CHECK_OK(sc_tier_open(log, items[k].first, items[k].last, &tier, &err), &err);
			sealed_form = form_of(sc_segment_info(tier->segment)->schema);
			segment = items[k++].last;
			sc_tier_close(tier);
		}
		if (offset <= segment)
			CHECK_INT(sealed_form, is);
		at += (size_t)(lf - line) + 1;
		rows++;
	}
	free(items);
	sc_journal_list_done(&names);
	sc_bytes_done(&all);
	return rows;
}

#endif
