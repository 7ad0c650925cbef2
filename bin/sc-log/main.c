/* sc-log: durable logs of lines: create, append, read, and what else is done to one. */
#include "sc-log.h"

static const struct sc_verb verbs[] = {
	{ "create", "LOG", 1, 1, "make a new log", create_options, sizeof(struct create_opts),
	  run_create },
	{ "append", "LOG", 1, 1,
	  "append the rows on standard input, and print them as [offset,msg] once they are on disk",
	  append_options, sizeof(struct append_opts), run_append },
	{ "read", "LOG", 1, 1, "print rows", read_options, sizeof(struct read_opts), run_read },
	{ "info", "LOG", 1, 1, "say what a log holds", plain_options, sizeof(struct plain_opts),
	  run_info },
	{ "verify", "LOG", 1, 1, "check every byte, and print one hash over the lines",
	  verify_options, sizeof(struct verify_opts), run_verify },
	{ "trim", "LOG", 1, 1, "give up the oldest rows", trim_options, sizeof(struct trim_opts),
	  run_trim },
	{ "migrate", "LOG", 1, 1, "change the schema, from the next row on", migrate_options,
	  sizeof(struct migrate_opts), run_migrate },
	{ "source", "LOG NAME", 2, 2, "print the last offset that came from a source",
	  plain_options, sizeof(struct plain_opts), run_source },
	{ "restore", "LOG", 1, 1, "make a log anew from its archive, when its machine is lost",
	  restore_options, sizeof(struct restore_opts), run_restore },
	{ "reindex", "LOG", 1, 1, "build the index anew from the journals", plain_options,
	  sizeof(struct plain_opts), run_reindex },
};

static const struct sc_example examples[] = {
	{ "Make a log and put two rows into it",
	  "sc-log create data/trades && printf '{\"a\":1}\\n{\"a\":2}\\n' | sc-log append "
	  "data/trades" },
	{ "Follow it from the last ten rows on", "sc-log read data/trades --last 10 --follow" },
	{ "The rows of an hour, without their offsets",
	  "sc-log read data/trades --since 2026-11-30T09:00:00Z --until 2026-11-30T10:00:00Z "
	  "--payload" },
	{ "Copy a log from another machine, exactly once whatever crashes",
	  "sc-sub --after \"$(sc-log source copy trades)\" ws://host:8765/trades | sc-log append "
	  "--quiet --source trades copy" },
	{ "Say what another schema would change, then change it, while others append",
	  "sc-log migrate data/trades --schema new.json --dry-run && sc-log migrate data/trades "
	  "--schema new.json" },
	{ "Its machine is lost: make it anew from the archive that sc-seal --ship wrote",
	  "sc-log restore data/trades --archive s3://bucket/prod" },
	{ NULL, NULL },
};

static const int statuses[] = { 1, 65, 66, 69, 70, 73, 74, 75, 76, 77, 78, 79, 80, 0 };

static const struct sc_program program = {
	.name = "sc-log",
	.purpose = "durable logs of lines: create, append, read, follow, verify, trim, restore",
	.description = "A log is a folder. Each row in it has an offset, from 1 upwards, and is "
		       "read back as one line [offset,msg] "
		       "with the bytes of the message as they came. A row that append has printed "
		       "is on disk. "
		       "Any number of programs may append to, read and follow one log at once.",
	.verbs = verbs,
	.verb_count = sizeof(verbs) / sizeof(verbs[0]),
	.examples = examples,
	.statuses = statuses,
};

int main(int argc, char **argv)
{
	return sc_program_main(&program, argc, argv);
}
