/* keep.c: how much of a log stays on this disk. */
#include <stdio.h>
#include <string.h>

#include "sc-seal.h"

static int refuse(struct sc_err *err, const char *text, const char *reason)
{
	sc_err_set(err, SC_E_USAGE, "cannot use", "'%s' %s", text, reason);
	return sc_err_next(err, "give an age as 7d, a size as 10G, or both, each with its option");
}

static int keep_one(const char *text, struct keep *keep, struct sc_err *err)
{
	int64_t ms;
	uint64_t bytes;

	if (*text == '\0' || text[strspn(text, "0123456789.")] == '\0')
		return refuse(err, text, "has no unit");
	if (sc_parse_duration(text, &ms, NULL) == 0) {
		if (ms <= 0)
			return refuse(err, text, "would keep nothing");
		if (keep->age_us)
			return refuse(err, text, "is a second age");
		if (ms > INT64_MAX / 1000)
			return refuse(err, text, "is too long");
		keep->age_us = ms * 1000;
		return 0;
	}
	if (sc_parse_size(text, &bytes, NULL) < 0)
		return refuse(err, text, "is no age and no size");
	if (bytes == 0)
		return refuse(err, text, "would keep nothing");
	if (keep->bytes)
		return refuse(err, text, "is a second size");
	keep->bytes = bytes;
	return 0;
}

static int keep_list(const struct sc_opt_list *list, const char *flag, struct keep *keep,
		     struct sc_err *err)
{
	for (size_t i = 0; i < list->count; i++) {
		int rc = keep_one(list->items[i], keep, err);

		if (rc < 0 && err)
			snprintf(err->tried, sizeof(err->tried), "cannot use %s", flag);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int keep_parse(const struct opts *o, struct keep *ret_keep, struct keep *ret_archive,
	       struct sc_err *err)
{
	struct keep keep = { .rows = (uint64_t)o->keep_rows }, archive = { .rows = 0 };
	int rc = keep_list(&o->keep_local, "--keep-local", &keep, err);

	if (rc == 0)
		rc = keep_list(&o->keep_archive, "--keep-archive", &archive, err);
	if (rc < 0)
		return rc;
	*ret_keep = keep;
	*ret_archive = archive;
	return 0;
}

/* The newest segments stay that hold as many rows; fewer only when there are no more. */
static size_t drop_by_rows(uint64_t limit, const struct sc_sealed *items, size_t count)
{
	uint64_t rows = 0;
	size_t at = count;

	while (limit && at > 0 && rows < limit)
		rows += items[--at].rows;
	return limit ? at : 0;
}

size_t keep_drop(const struct keep *keep, const struct sc_sealed *items, size_t count,
		 int64_t now_us)
{
	struct sc_keep k = { .age_us = keep->age_us, .bytes = keep->bytes };
	size_t drop = sc_keep_drop(&k, items, count, now_us);
	size_t rows = drop_by_rows(keep->rows, items, count);

	return rows > drop ? rows : drop;
}

const char *keep_why(const struct keep *keep, const struct sc_sealed *items, size_t count,
		     size_t at, int64_t now_us)
{
	struct sc_keep age = { .age_us = keep->age_us }, size = { .bytes = keep->bytes };

	if (at < sc_keep_drop(&age, items, count, now_us))
		return "age";
	return at < sc_keep_drop(&size, items, count, now_us) ? "size" : "rows";
}
