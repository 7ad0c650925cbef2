/* base/usage_shell.c: completions for bash and zsh. */
#include "base/usage.h"

#include <string.h>

/* An operand that is a path; a URL cannot be completed. */
static bool is_path(const char *operands)
{
	return operands && (strstr(operands, "LOG") || strstr(operands, "FILE") ||
			    strstr(operands, "DIR") || strstr(operands, "ARCHIVE"));
}

static bool is_file(const struct sc_opt *o)
{
	return o->kind == SC_OPT_FILE || o->kind == SC_OPT_FILES;
}

static bool shown(const struct sc_opt *o)
{
	return o->kind != SC_OPT_TITLE && !o->hidden;
}

/* "sc-seal" as a function's name. */
static void function_name(FILE *out, const char *program)
{
	fputc('_', out);
	for (; *program; program++)
		fputc(*program == '-' ? '_' : *program, out);
}

static void bash_options(FILE *out, const struct sc_opt *table)
{
	bool first = true;

	for (const struct sc_opt *o = table; o->name; o++) {
		if (!shown(o))
			continue;
		if (o->letter)
			fprintf(out, "%s-%c", first ? "" : " ", o->letter);
		fprintf(out, "%s--%s", first && !o->letter ? "" : " ", o->name);
		first = false;
	}
}

static void bash_pattern(FILE *out, const struct sc_opt *o)
{
	fputs("\t\t", out);
	if (o->letter)
		fprintf(out, "-%c | ", o->letter);
	fprintf(out, "--%s) ", o->name);
}

/* What a flag's value may be: "files", a list of words, or nothing that can be told. */
static void bash_values(FILE *out, const struct sc_opt *table)
{
	for (const struct sc_opt *o = table; o->name; o++) {
		if (!shown(o) || !sc_opt_has_value(o) ||
		    o->bare) /* what follows may be an operand */
			continue;
		bash_pattern(out, o);
		if (is_file(o)) {
			fputs("kind=files ;;\n", out);
		} else if (o->kind == SC_OPT_CHOICE) {
			fputs("kind=words words='", out);
			for (size_t i = 0; o->choices[i]; i++)
				fprintf(out, "%s%s", i ? " " : "", o->choices[i]);
			fputs("' ;;\n", out);
		} else if (o->special) {
			fprintf(out, "kind=words words='%s' ;;\n", o->special);
		} else {
			fputs("kind=none ;;\n", out);
		}
	}
}

/* The cases of one verb, or of the program. */
static void bash_verb(FILE *out, const struct sc_verb *v, const struct sc_opt *table)
{
	fputs("\t\toptions='", out);
	bash_options(out, table);
	fprintf(out, "'\n\t\tpaths=%d\n", is_path(v->operands));
	fputs("\t\tcase $prev in\n", out);
	bash_values(out, table);
	fputs("\t\tesac\n", out);
}

static void bash_verbs(FILE *out, const struct sc_usage *u)
{
	const struct sc_program *p = u->program;
	const struct sc_opt *table = p->first_meant ? u->tables[0] : u->common;

	fputs("\tlocal verb='' i\n\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase "
	      "${COMP_WORDS[i]} in\n\t\thelp) ;;\n"
	      "\t\t-*) "
	      ";;\n\t\t*)\n\t\t\tverb=${COMP_WORDS[i]}\n\t\t\tbreak\n\t\t\t;;"
	      "\n\t\tesac\n\tdone\n\tcase $verb in\n",
	      out);
	for (size_t i = 0; i < p->verb_count; i++) {
		fprintf(out, "\t%s)\n", p->verbs[i].name);
		bash_verb(out, &p->verbs[i], u->tables[i]);
		fputs("\t\t;;\n", out);
	}
	fputs("\t*)\n\t\toptions='", out);
	bash_options(out, table);
	fputs("'\n\t\tverbs='help", out);
	for (size_t i = 0; i < p->verb_count; i++)
		fprintf(out, " %s", p->verbs[i].name);
	if (p->first_meant) /* the word may also be the first verb's operand */
		fprintf(out, "'\n\t\tpaths=%d", is_path(p->verbs[0].operands));
	else
		fputs("'", out);
	fputs("\n\t\tcase $prev in\n", out);
	bash_values(out, table);
	fputs("\t\tesac\n\t\t;;\n\tesac\n", out);
}

void sc_usage_bash(FILE *out, const struct sc_usage *u)
{
	const struct sc_program *p = u->program;

	fprintf(out,
		"# bash completion for %s; made by: %s --print-completion bash\n# shellcheck "
		"shell=bash\n",
		p->name, p->name);
	function_name(out, p->name);
	/* "--name=value" comes as three words. */
	fputs("() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	      "\tlocal options='' verbs='' paths=0 kind='' words=''\n"
	      "\tCOMPREPLY=()\n"
	      "\tif [[ $cur == '=' ]]; then\n\t\tcur=''\n"
	      "\telif [[ $prev == '=' ]]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n\tfi\n",
	      out);
	if (p->verbs[0].name) {
		bash_verbs(out, u);
	} else {
		bash_verb(out, &p->verbs[0], u->tables[0]);
	}
	fputs("\tcase $kind in\n"
	      "\tnone) return 0 ;;\n"
	      "\twords) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\") ;;\n"
	      "\tfiles)\n\t\tcompopt -o filenames 2>/dev/null\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\t\t;;\n"
	      "\t*)\n"
	      "\t\tif [[ $cur == -* ]]; then\n"
	      "\t\t\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
	      "\t\telif [[ -n $verbs ]]; then\n"
	      "\t\t\tmapfile -t COMPREPLY < <(compgen -W \"$verbs\" -- \"$cur\")\n",
	      out);
	if (p->first_meant)
		fputs("\t\t\tif ((paths)); then\n"
		      "\t\t\t\tcompopt -o filenames 2>/dev/null\n"
		      "\t\t\t\tmapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- "
		      "\"$cur\")\n"
		      "\t\t\tfi\n",
		      out);
	fputs("\t\telif ((paths)); then\n"
	      "\t\t\tcompopt -o filenames 2>/dev/null\n"
	      "\t\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	      "\t\tfi\n\t\t;;\n\tesac\n\treturn 0\n}\ncomplete -F ",
	      out);
	function_name(out, p->name);
	fprintf(out, " %s\n", p->name);
}

/* Inside '...' of a zsh script and the [...] of a specification. */
static void zsh_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else if (strchr("[]:\\", *text))
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

static void zsh_value(FILE *out, const struct sc_opt *o)
{
	char arg[80];

	sc_usage_arg(o, arg, sizeof(arg));
	fputc(':', out);
	zsh_text(out, arg);
	fputc(':', out);
	if (is_file(o)) {
		fputs("_files", out);
	} else if (o->kind == SC_OPT_CHOICE) {
		fputc('(', out);
		for (size_t i = 0; o->choices[i]; i++)
			fprintf(out, "%s%s", i ? " " : "", o->choices[i]);
		fputc(')', out);
	} else if (o->special) {
		fprintf(out, "(%s)", o->special);
	}
}

static void zsh_options(FILE *out, const struct sc_opt *table)
{
	for (const struct sc_opt *o = table; o->name; o++) {
		bool again = o->kind == SC_OPT_COUNT || sc_opt_is_list(o);
		const char *value = sc_opt_has_value(o) && !o->bare ? "=" : "";

		if (!shown(o))
			continue;
		fputs(" \\\n\t\t", out);
		if (again)
			fputs("'*'", out);
		else if (o->letter)
			fprintf(out, "'(-%c --%s)'", o->letter, o->name);
		if (o->letter)
			fprintf(out, "{-%c%s,--%s%s}'", o->letter, *value ? "+" : "", o->name,
				value);
		else
			fprintf(out, "'--%s%s", o->name, value);
		fputc('[', out);
		zsh_text(out, o->help ? o->help : "");
		fputc(']', out);
		if (*value)
			zsh_value(out, o);
		fputc('\'', out);
	}
}

static void zsh_operands(FILE *out, const struct sc_verb *v)
{
	if (!v->operands || !*v->operands)
		return;
	fputs(" \\\n\t\t'*:", out);
	zsh_text(out, v->operands);
	fprintf(out, ":%s'", is_path(v->operands) ? "_files" : "");
}

static void zsh_verbs(FILE *out, const struct sc_usage *u)
{
	const struct sc_program *p = u->program;

	fputs("\tlocal curcontext=$curcontext state line\n\ttypeset -A opt_args\n\tlocal -a "
	      "verbs=(\n",
	      out);
	for (size_t i = 0; i < p->verb_count; i++) {
		fprintf(out, "\t\t'%s:", p->verbs[i].name);
		zsh_text(out, p->verbs[i].summary ? p->verbs[i].summary : "");
		fputs("'\n", out);
	}
	fputs("\t\t'help:print the help of a verb'\n\t)\n\t_arguments -C -s -S", out);
	zsh_options(out, p->first_meant ? u->tables[0] : u->common);
	fputs(" \\\n\t\t'1:verb:->verb' \\\n\t\t'*::operand:->rest'\n"
	      "\tcase $state in\n\tverb) _describe verb verbs ",
	      out);
	if (p->first_meant && is_path(p->verbs[0].operands))
		fputs("&& return\n\t\t_files ", out);
	fputs(";;\n\trest)\n\t\tcase $words[1] in\n", out);
	for (size_t i = 0; i < p->verb_count; i++) {
		fprintf(out, "\t\t%s) _arguments -s -S", p->verbs[i].name);
		zsh_options(out, u->tables[i]);
		zsh_operands(out, &p->verbs[i]);
		fputs("\n\t\t;;\n", out);
	}
	fputs("\t\thelp) _describe verb verbs ;;\n\t\tesac\n\t\t;;\n\tesac\n", out);
}

void sc_usage_zsh(FILE *out, const struct sc_usage *u)
{
	const struct sc_program *p = u->program;

	fprintf(out, "#compdef %s\n# zsh completion for %s; made by: %s --print-completion zsh\n",
		p->name, p->name, p->name);
	function_name(out, p->name);
	fputs("() {\n", out);
	if (p->verbs[0].name) {
		zsh_verbs(out, u);
	} else {
		fputs("\t_arguments -s -S", out);
		zsh_options(out, u->tables[0]);
		zsh_operands(out, &p->verbs[0]);
		fputc('\n', out);
	}
	fputs("}\n", out);
	function_name(out, p->name);
	fputs(" \"$@\"\n", out);
}
