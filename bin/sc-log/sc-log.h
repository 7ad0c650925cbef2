/*
 * sc-log.h: what the verbs of sc-log share.
 *
 * Owns      nothing.
 * Units     none.
 * Errors    runs return 0, a negative sc_code with err set, or an exit status above 0.
 * Safety    main thread.
 * Source    man/sc-log.1.
 */
#ifndef SC_LOG_PROGRAM_H
#define SC_LOG_PROGRAM_H

#include "base/program.h"
#include "log/log.h"
#include "log/range.h"

extern const struct sc_opt create_options[], append_options[], read_options[], verify_options[], trim_options[],
	migrate_options[],
	plain_options[];
struct create_opts { struct sc_common common; const char *schema; uint64_t message_max, journal_bytes; bool force_network_fs; };
struct append_opts {
	struct sc_common common;
	const char *source, *skip_bad;
	bool mirror, pairs, no_pairs, wrap, wait_space;
	int64_t batch_rows;
	uint64_t if_next;
};
struct read_opts {
	struct sc_common common;
	struct sc_range range;
	int64_t last, count;
	bool follow, payload, times;
	const char *where, *archive;
};
struct verify_opts { struct sc_common common; uint64_t from, to; bool to_given; };
struct trim_opts { struct sc_common common; uint64_t before; bool before_given; };
struct migrate_opts { struct sc_common common; const char *schema; bool dry_run; };
struct plain_opts { struct sc_common common; };

/* restore.c */
extern const struct sc_opt restore_options[];
struct restore_opts {
	struct sc_common common;
	const char *archive;
	struct sc_opt_list keep_local;
	uint64_t jump;
	bool partial;
};
int run_restore(const void *given, char *const *operands, struct sc_err *err);

int run_create(const void *given, char *const *operands, struct sc_err *err);
int run_append(const void *given, char *const *operands, struct sc_err *err);
int run_read(const void *given, char *const *operands, struct sc_err *err);
int run_info(const void *given, char *const *operands, struct sc_err *err);
int run_verify(const void *given, char *const *operands, struct sc_err *err);
int run_trim(const void *given, char *const *operands, struct sc_err *err);
int run_migrate(const void *given, char *const *operands, struct sc_err *err);
int run_source(const void *given, char *const *operands, struct sc_err *err);
int run_reindex(const void *given, char *const *operands, struct sc_err *err);

/* A schema's text, "-" is standard input; an empty one is refused. */
int read_schema(const char *file, struct sc_bytes *out, struct sc_err *err);
/* RC; an error that is about the schema names FILE. */
int schema_fault(const char *file, int rc, struct sc_err *err);

/*
 * TERM and INT make stop_fd readable; a second one, or two seconds that were not enough, ends the
 * process.
 */
int stop_begin(struct sc_err *err);   /* the descriptor */
int stop_signal(void);                /* the signal that came, or 0 */

#endif
