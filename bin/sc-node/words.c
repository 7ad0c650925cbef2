/* words.c: pairs of words in options, a message's environment, JSON operands. */
#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/words.h"
#include "sc-node.h"

int split_pair(const char *option, const char *text, const char *standard, char ***ret_words,
	       const char **ret_subject, struct sc_err *err)
{
	char **words;
	size_t count;
	int rc = sc_words_split(sc_span_str(text), &words, &count, err);

	if (rc < 0)
		return rc;
	if (count < (standard ? 1 : 2) || count > 2) {
		sc_words_free(words);
		sc_err_set(err, SC_E_USAGE, "cannot start", "%s takes '%s', not '%s'", option,
			   standard ? "CHANNEL [SUBJECT]" : "CHANNEL SUBJECT", text);
		return sc_err_next(err, "names with blanks are quoted as in a shell");
	}
	*ret_words = words;
	*ret_subject = count == 2 ? words[1] : standard;
	return 0;
}

static int put_var(struct sc_bytes *b, const char *name, struct sc_span value, size_t *ret_at)
{
	*ret_at = b->len;
	/* a NUL ends a variable early: names may hold one, a variable cannot */
	if (sc_bytes_puts(b, name) < 0 ||
	    sc_bytes_put(b, value.data, value.len ? strnlen(value.data, value.len) : 0) < 0)
		return SC_E_NOMEM;
	return sc_bytes_putc(b, '\0');
}

int message_env_make(struct message_env *env, const struct sc_msg *msg, struct sc_err *err)
{
	char uid[SC_MSG_UID_TEXT], reference[SC_MSG_UID_TEXT] = "";
	size_t at[4];
	int rc;

	sc_bytes_init(&env->text, 1 << 16);
	sc_msg_uid_text(msg->uid, uid);
	if (msg->reference.len)
		sc_msg_uid_text(msg->reference, reference);
	rc = put_var(&env->text, "SC_CHANNEL=", msg->channel, &at[0]);
	if (rc == 0)
		rc = put_var(&env->text, "SC_SUBJECT=", msg->subject, &at[1]);
	if (rc == 0)
		rc = put_var(&env->text, "SC_UID=", sc_span_str(uid), &at[2]);
	if (rc == 0)
		rc = put_var(&env->text, "SC_REFERENCE=", sc_span_str(reference), &at[3]);
	if (rc < 0) {
		message_env_done(env);
		return sc_err_nomem(err, "cannot start a command");
	}
	for (int i = 0; i < 4; i++)
		env->list[i] = env->text.data + at[i];
	env->list[4] = NULL;
	return 0;
}

void message_env_done(struct message_env *env)
{
	sc_bytes_done(&env->text);
}

static int read_input(uint64_t max, struct sc_bytes *buf, struct sc_err *err)
{
	for (;;) {
		ssize_t n;

		if (buf->len > max) {
			sc_err_set(err, SC_E_DATA, "cannot read standard input",
				   "it is larger than %llu bytes", (unsigned long long)max);
			return sc_err_next(err, "raise the limit with --max-message");
		}
		if (sc_bytes_reserve(buf, 1 << 16) < 0)
			return sc_err_nomem(err, "cannot read standard input");
		n = read(STDIN_FILENO, buf->data + buf->len, 1 << 16);
		if (n == 0)
			return 0;
		if (n > 0) {
			buf->len += (size_t)n;
		} else if (errno != EINTR) {
			sc_err_sys(err, SC_E_IO, errno, "cannot read");
			return sc_err_on(err, "input", "standard input");
		}
	}
}

int read_json(const char *operand, uint64_t max, struct sc_bytes *buf, struct sc_err *err)
{
	struct sc_json value;
	int rc;

	sc_bytes_clear(buf);
	if (!operand)
		return sc_bytes_puts(buf, "null") < 0 ? sc_err_nomem(err, "cannot start") : 0;
	if (strcmp(operand, "-") == 0)
		return read_input(max, buf, err);
	if (sc_bytes_puts(buf, operand) < 0)
		return sc_err_nomem(err, "cannot start");
	rc = sc_json_scan(sc_span(buf->data, buf->len), &value, err);
	if (rc == SC_E_DATA) {
		struct sc_err cause = *err;

		sc_err_set(err, SC_E_USAGE, "cannot send data", "%s", cause.reason);
		return sc_err_next(err, "write JSON, in quotes of the shell: '\"text\"'");
	}
	return rc;
}
