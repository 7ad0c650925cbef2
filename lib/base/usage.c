/* base/usage.c: --help. */
#include "base/usage.h"

#include <string.h>

#define WIDTH 79
#define TERM_COLUMN 28

void sc_usage_arg(const struct sc_opt *o, char *ret_text, size_t size)
{
	const char *arg = o->arg ? o->arg : "VALUE";

	if (o->special && !strchr(arg, '|'))
		snprintf(ret_text, size, "%s|%s", arg, o->special);
	else
		snprintf(ret_text, size, "%s", arg);
}

/* "help (from 1 to 100; default 10)" */
void sc_usage_text(const struct sc_opt *o, char *ret_text, size_t size)
{
	char part[256] = "", notes[512] = "";
	size_t len = 0;

	if (o->kind == SC_OPT_CHOICE && !strchr(o->arg ? o->arg : "", '|'))
		sc_opt_choices(o, part, sizeof(part));
	else if (sc_opt_has_value(o))
		sc_opt_limits(o, part, sizeof(part));
	if (*part)
		len += (size_t)snprintf(notes, sizeof(notes), "; %s", part);
	if (sc_opt_is_list(o))
		len += (size_t)snprintf(notes + len, sizeof(notes) - len, "; may be repeated");
	if (o->standard && o->kind == SC_OPT_FLAG && strcmp(o->standard, "true") == 0)
		snprintf(notes + len, sizeof(notes) - len, "; on unless --no-%s", o->name);
	else if (o->standard && sc_opt_has_value(o))
		snprintf(notes + len, sizeof(notes) - len, "; default %s", o->standard);
	if (*notes)
		snprintf(ret_text, size, "%s (%s)", o->help ? o->help : "", notes + 2);
	else
		snprintf(ret_text, size, "%s", o->help ? o->help : "");
}

/* Columns a text takes: UTF-8 letters count once. */
static size_t columns(const char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

/* TEXT from column AT on, broken at blanks, next lines at INDENT; a newline in it is kept. */
static void wrap(FILE *out, size_t at, size_t indent, const char *text)
{
	bool first = true;

	for (;;) {
		size_t len = strcspn(text, " \n");
		size_t wide = columns(text, len);

		if (!first && at + 1 + wide > WIDTH) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (!first) {
			fputc(' ', out);
			at++;
		}
		fwrite(text, 1, len, out);
		at += wide;
		first = false;
		text += len;
		if (*text == '\n') {
			fprintf(out, "\n%*s", text[1] && text[1] != '\n' ? (int)indent : 0, "");
			at = indent;
			first = true;
		}
		if (*text == '\0')
			break;
		text++;
	}
	fputc('\n', out);
}

/* A term at two columns, its text from TERM_COLUMN on. */
static void entry(FILE *out, const char *term, const char *text)
{
	size_t wide = columns(term, strlen(term));

	fprintf(out, "  %s", term);
	if (wide + 4 > TERM_COLUMN)
		fprintf(out, "\n%*s", TERM_COLUMN, "");
	else
		fprintf(out, "%*s", (int)(TERM_COLUMN - 2 - wide), "");
	wrap(out, TERM_COLUMN, TERM_COLUMN, text);
}

/* The value as it stands behind the name; in brackets where it may be left out. */
static void value(const struct sc_opt *o, char *ret_text, size_t size)
{
	char arg[76];

	sc_usage_arg(o, arg, sizeof(arg));
	snprintf(ret_text, size, o->bare ? "[%s]" : "%s", arg);
}

static void option(FILE *out, const struct sc_opt *o)
{
	char term[160], arg[80] = "", text[1024];

	if (sc_opt_has_value(o))
		value(o, arg, sizeof(arg));
	if (o->letter)
		snprintf(term, sizeof(term), "-%c, --%s%s%s", o->letter, o->name, *arg ? " " : "",
			 arg);
	else
		snprintf(term, sizeof(term), "    --%s%s%s", o->name, *arg ? " " : "", arg);
	sc_usage_text(o, text, sizeof(text));
	entry(out, term, text);
}

static void options(FILE *out, const struct sc_opt *table)
{
	bool titled = table->name && table->kind == SC_OPT_TITLE;

	if (!titled)
		fputs("\nOptions:\n", out);
	for (const struct sc_opt *o = table; o->name; o++) {
		if (o->kind == SC_OPT_TITLE)
			fprintf(out, "\n%s:\n", o->name);
		else if (!o->hidden)
			option(out, o);
	}
}

/* A long pipeline is broken in front of its next part, outside of quotes, as a shell would read
 * it. */
static void command(FILE *out, const char *text)
{
	size_t at = 2;
	char quote = 0;

	fputs("  ", out);
	for (const char *c = text; *c; c++) {
		if (quote ? *c == quote : *c == '\'' || *c == '"')
			quote = quote ? 0 : *c;
		if (*c == ' ' && !quote) {
			size_t next = strcspn(c + 1, " ");

			if (c[1] == '|' && c[2] == ' ')
				next += 1 + strcspn(c + 3, " ");
			if (at + 1 + next > WIDTH - 2 ||
			    (c[1] == '|' && at + strlen(c) > WIDTH - 2)) {
				fputs(" \\\n      ", out);
				at = 6;
				continue;
			}
		}
		fputc(*c, out);
		at++;
	}
	fputc('\n', out);
}

/* Of a program with verbs, a verb's help shows the examples that begin with it. */
static bool is_example_of(const struct sc_example *e, const struct sc_program *p,
			  const struct sc_verb *v)
{
	size_t name = strlen(p->name), verb = v && v->name ? strlen(v->name) : 0;

	if (!verb || (p->first_meant && v == p->verbs))
		return true;
	return strncmp(e->command, p->name, name) == 0 && e->command[name] == ' ' &&
	       strncmp(e->command + name + 1, v->name, verb) == 0 &&
	       strchr(" ", e->command[name + 1 + verb]);
}

static void examples(FILE *out, const struct sc_program *program, const struct sc_verb *v)
{
	bool any = false;

	for (const struct sc_example *e = program->examples; e && e->command; e++) {
		if (!is_example_of(e, program, v))
			continue;
		if (!any)
			fputs("\nExamples:\n", out);
		any = true;
		fputs("  # ", out);
		wrap(out, 4, 4, e->what);
		command(out, e->command);
	}
}

const char *sc_usage_status(const struct sc_program *program, int status)
{
	const char *meaning = sc_status_meaning(status);

	if (status == 1 && program->partial)
		return program->partial;
	return meaning ? meaning : "";
}

static void status(FILE *out, const struct sc_program *program, int number)
{
	char term[16];

	snprintf(term, sizeof(term), "%d", number);
	fprintf(out, "  %-5s", term);
	wrap(out, 7, 7, sc_usage_status(program, number));
}

static void statuses(FILE *out, const struct sc_program *program)
{
	fputs("\nExit status:\n", out);
	status(out, program, 0);
	for (const int *s = program->statuses; s && *s; s++)
		if (*s < 64)
			status(out, program, *s);
	status(out, program, 64);
	for (const int *s = program->statuses; s && *s; s++)
		if (*s > 64)
			status(out, program, *s);
	fputs("  128+n  ended by signal n\n", out);
}

static void usage_line(FILE *out, const struct sc_program *program, const struct sc_verb *verb)
{
	const char *operands = verb->operands ? verb->operands : "";
	char line[256];
	int at;

	at = snprintf(line, sizeof(line), "Usage: %s%s%s [OPTION]...", program->name,
		      verb->name ? " " : "", verb->name ? verb->name : "");
	fputs(line, out);
	if (*operands) {
		fputc(' ', out);
		wrap(out, (size_t)at + 1, 8, operands);
	} else {
		fputc('\n', out);
	}
}

static void verbs(FILE *out, const struct sc_program *program)
{
	fputs("\nVerbs:\n", out);
	for (size_t i = 0; i < program->verb_count; i++) {
		const struct sc_verb *v = &program->verbs[i];
		char term[128];

		snprintf(term, sizeof(term), "%s%s%s", v->name,
			 v->operands && *v->operands ? " " : "", v->operands ? v->operands : "");
		entry(out, term, v->summary ? v->summary : "");
	}
	fprintf(out, "\n");
	fputs("  ", out);
	wrap(out, 2, 2, "Each verb has its own options: see VERB --help.");
	if (program->first_meant)
		fprintf(out, "  Without a verb, %s is meant; its options:\n",
			program->verbs[0].name);
}

void sc_usage_help(FILE *out, const struct sc_usage *u, int verb)
{
	const struct sc_program *p = u->program;
	const struct sc_verb *v = verb < 0 ? NULL : &p->verbs[verb];

	if (!v) {
		if (p->first_meant)
			fprintf(out, "Usage: %s [OPTION]... %s\n", p->name, p->verbs[0].operands);
		fprintf(out, "%s %s VERB [OPTION]... OPERAND...\n",
			p->first_meant ? "      " : "Usage:", p->name);
		fprintf(out, "%s: ", p->name);
		wrap(out, strlen(p->name) + 2, 2, p->purpose);
	} else {
		const char *what = v->name ? v->summary : p->purpose;

		usage_line(out, p, v);
		fprintf(out, "%s%s%s: ", p->name, v->name ? " " : "", v->name ? v->name : "");
		wrap(out, strlen(p->name) + (v->name ? strlen(v->name) + 1 : 0) + 2, 2,
		     what ? what : "");
	}
	if (p->description && (!v || !v->name)) {
		fputc('\n', out);
		wrap(out, 0, 0, p->description);
	}
	if (!v)
		verbs(out, p);
	options(out, v ? u->tables[verb] : p->first_meant ? u->tables[0] : u->common);
	examples(out, p, v);
	statuses(out, p);
	fprintf(out,
		"\nOptions may also come from --options-file and from the environment.\n"
		"See %s(1) and sc(7).\n",
		p->name);
}
