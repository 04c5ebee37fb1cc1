/*
 * Settings and options as help text, generated from the table, so that help is always complete.
 */
#include "config/config.h"

enum { WIDTH = 78, INDENT = 6 };

void config_print_wrapped(FILE *out, int indent, const char *text)
{
    int column = 0;
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column > 0 && column + 1 + word > WIDTH) {
            /* A word that does not fit begins the next line; a word longer than a line gets its
             * own line. */
            (void)fputc('\n', out);
            column = 0;
        }
        if (column == 0)
            column = fprintf(out, "%*s", indent, "");
        else
            column += fprintf(out, " ");
        column += fprintf(out, "%.*s", word, text);
        text += word;
        text += strspn(text, " ");
    }
    (void)fputc('\n', out);
}

void config_print_options(FILE *out, const struct config_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "  --%s%s%s\n", options[i].name, options[i].value_name ? " " : "",
                      options[i].value_name ? options[i].value_name : "");
        config_print_wrapped(out, INDENT, options[i].help);
    }
}

void config_print_help(FILE *out, unsigned scopes)
{
    for (size_t i = 0; i < config_item_count; i++) {
        const struct config_item *item = &config_items[i];
        if (!(item->scopes & scopes))
            /* One setting may belong to several scopes. */
            continue;
        (void)fprintf(out, "  --%s %s", item->name, item->value_name);
        if (item->default_text[0])
            (void)fprintf(out, "   (%s)", item->default_text);
        (void)fputc('\n', out);
        config_print_wrapped(out, INDENT, item->help);
    }
    (void)fprintf(out, "  --config FILE\n");
    config_print_wrapped(out, INDENT,
                         "settings as lines `name = value`, with the names of the flags above "
                         "without the dashes (also SLUICE_CONFIG)");
    (void)fputc('\n', out);
    config_print_wrapped(
        out, 0,
        "Each setting is also an environment variable: --database-url is SLUICE_DATABASE_URL. A "
        "flag overrides the environment, which overrides the file.");
}
