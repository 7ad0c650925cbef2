/*
 * msg/json_internal.h: the names of what JSON lacks, shared by json.c and json_pack.c.
 *
 * Owns      nothing.
 * Units     none.
 * Errors    none.
 * Safety    constants.
 * Source    wsmsg 20, "Values".
 */
#ifndef SC_MSG_JSON_INTERNAL_H
#define SC_MSG_JSON_INTERNAL_H

enum sc_msg_json_name {
	SC_MSG_JSON_BIN,
	SC_MSG_JSON_STR,
	SC_MSG_JSON_EXT,
	SC_MSG_JSON_FLOAT,
	SC_MSG_JSON_MAP,
	SC_MSG_JSON_NAMES
};
/* "$bin" */
extern const char *const sc_msg_json_names[];

#endif
