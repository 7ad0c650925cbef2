/* archive_key.c: the names of the objects of an archive, and which of them count. */
#include <stdio.h>
#include <string.h>

#include "log/archive_internal.h"

void sc_archive_name(const struct sc_archive *archive, const char *name,
		     char ret_key[SC_ARCHIVE_KEY])
{
	snprintf(ret_key, SC_ARCHIVE_KEY, "%s%s", archive->prefix, name);
}

/* FOLDER/FIRST-LAST[.eEPOCH]KIND */
static void make_key(const struct sc_archive *archive, const struct sc_archive_item *item,
		     const char *folder, const char *kind, char ret_key[SC_ARCHIVE_KEY])
{
	char tag[SC_ARCHIVE_TAG + 1] = "";

	if (item->epoch)
		snprintf(tag, sizeof(tag), ".e%llu", (unsigned long long)item->epoch);
	snprintf(ret_key, SC_ARCHIVE_KEY, "%s%s%020llu-%020llu%s%s", archive->prefix, folder,
		 (unsigned long long)item->first, (unsigned long long)item->last, tag, kind);
}

void sc_archive_key(const struct sc_archive *archive, const struct sc_archive_item *item,
		    char ret_key[SC_ARCHIVE_KEY])
{
	make_key(archive, item, SC_ARCHIVE_SEALED, SC_ARCHIVE_SEGMENT, ret_key);
}

void sc_archive_ship_key(const struct sc_archive *archive, const struct sc_archive_item *item,
			 char ret_key[SC_ARCHIVE_KEY])
{
	make_key(archive, item, SC_ARCHIVE_JOURNAL, SC_ARCHIVE_BLOCKS, ret_key);
}

/* What it says, when it is spelled as make_key does: a name that says the same otherwise, or is
 * in a folder below, is somebody else's. */
static bool parse_key(const struct sc_archive *archive, const struct sc_store_item *object,
		      const char *folder, const char *kind, struct sc_archive_item *ret_item)
{
	struct sc_archive_item item = { .bytes = object->size };
	const char *slash = strrchr(object->key, '/'), *name = slash ? slash + 1 : object->key;
	char key[SC_ARCHIVE_KEY];
	size_t len = strlen(name);

	if (object->folder || len < 41 || !sc_u64_parse(sc_span(name, 20), &item.first) ||
	    !sc_u64_parse(sc_span(name + 21, 20), &item.last) || item.first == 0 ||
	    item.first > item.last || item.last >= UINT64_MAX - 1)
		return false;
	if (name[41] == '.' && name[42] == 'e' &&
	    !sc_u64_parse(sc_span(name + 43, strspn(name + 43, "0123456789")), &item.epoch))
		return false;
	make_key(archive, &item, folder, kind, key);
	if (strcmp(key, object->key) != 0)
		return false;
	*ret_item = item;
	return true;
}

bool sc_archive_key_parse(const struct sc_archive *archive, const struct sc_store_item *object,
			  struct sc_archive_item *ret_item)
{
	return parse_key(archive, object, SC_ARCHIVE_SEALED, SC_ARCHIVE_SEGMENT, ret_item);
}

bool sc_archive_ship_parse(const struct sc_archive *archive, const struct sc_store_item *object,
			   struct sc_archive_item *ret_item)
{
	return parse_key(archive, object, SC_ARCHIVE_JOURNAL, SC_ARCHIVE_BLOCKS, ret_item);
}

uint64_t sc_archive_tag(const struct sc_archive *archive)
{
	const struct sc_archive_epoch *now = &archive->epoch;

	return now->named && now->epoch >= now->named ? now->epoch : 0;
}

uint64_t sc_archive_past(const struct sc_archive_epoch *epoch, uint64_t offset)
{
	for (size_t i = 0; i < epoch->burn_count; i++)
		if (offset >= epoch->burns[i].first && offset < epoch->burns[i].next)
			return epoch->burns[i].next;
	return offset;
}

/* A name that says no epoch is of one before they did. Of those that never do, what ends or begins
 * in a burned range is known to be late. */
bool sc_archive_is_late(const struct sc_archive_epoch *epoch, const struct sc_archive_item *item)
{
	uint64_t from = item->epoch ? item->epoch : epoch->named ? epoch->named - 1 : epoch->epoch;

	if (!epoch->epoch)
		return false; /* nobody ever was replaced */
	if (from < epoch->lowest || from > epoch->epoch)
		return true;
	for (size_t i = 0; i < epoch->burn_count; i++)
		if (from < epoch->burns[i].epoch && item->last >= epoch->burns[i].from)
			return true;
	return !item->epoch && (sc_archive_past(epoch, item->first) != item->first ||
				sc_archive_past(epoch, item->last) != item->last);
}
