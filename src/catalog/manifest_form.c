/*
 * The fields that a person fills in to connect an app: one for each member of the credential. A
 * manifest may use its vendor's names for them, and describe where to find the values
 * (`auth.form`).
 */
#include "catalog/manifest.h"

enum { LABEL_BYTES_MAX = 100, HELP_BYTES_MAX = 1000 };

/* The fields by type of auth. For OAuth there are none: the grant is given on the app's own
 * page. */
static const struct catalog_field fields_of[][CATALOG_FIELDS_MAX] = {
    [AUTH_NONE] = {{.is_secret = false}},
    [AUTH_OAUTH2] = {{.is_secret = false}},
    [AUTH_OAUTH2_CLIENT_CREDENTIALS] = {{.name = SLICE_INIT("client_id"),
                                         .label = SLICE_INIT("Client id")},
                                        {.name = SLICE_INIT("client_secret"),
                                         .label = SLICE_INIT("Client secret"),
                                         .is_secret = true}},
    [AUTH_API_KEY] = {{.name = SLICE_INIT("api_key"),
                       .label = SLICE_INIT("API key"),
                       .is_secret = true}},
    [AUTH_BEARER] = {{.name = SLICE_INIT("token"),
                      .label = SLICE_INIT("Token"),
                      .is_secret = true}},
    /* Some apps accept a token as the user name, with an empty password. */
    [AUTH_BASIC] = {{.name = SLICE_INIT("username"), .label = SLICE_INIT("User name")},
                    {.name = SLICE_INIT("password"),
                     .label = SLICE_INIT("Password or token"),
                     .is_secret = true,
                     .may_be_empty = true}},
};

static void read_short(struct reader *r, const char *name, size_t bytes_max, slice *text)
{
    slice given = reader_text(r, name);
    if (given.len > bytes_max)
        reader_error(r, name, "has %zu bytes, but at most %zu are shown", given.len, bytes_max);
    else if (given.len > 0)
        *text = given;
}

static void read_field(struct reader *parent, struct catalog_field *field)
{
    struct reader r;
    /* The name is a literal of the table above, so it is NUL-terminated. */
    if (!reader_enter(&r, parent, field->name.ptr))
        return;
    read_short(&r, "label", LABEL_BYTES_MAX, &field->label);
    read_short(&r, "help", HELP_BYTES_MAX, &field->help);
    read_short(&r, "placeholder", LABEL_BYTES_MAX, &field->placeholder);
    read_short(&r, "docs_url", HELP_BYTES_MAX, &field->docs_url);
    if (field->docs_url.len > 0 && !slice_starts_with(field->docs_url, SLICE("https://")))
        reader_error(&r, "docs_url", "must begin with https://: a page of the vendor");
    reader_finish(&r);
}

void manifest_read_form(struct reader *parent, struct catalog_auth *auth)
{
    struct reader r;
    ASSERT(auth->kind < ARRAY_LEN(fields_of) && auth->field_count == 0);
    for (size_t i = 0; i < CATALOG_FIELDS_MAX && fields_of[auth->kind][i].name.len > 0; i++)
        auth->fields[auth->field_count++] = fields_of[auth->kind][i];
    if (!reader_enter(&r, parent, "form"))
        return;
    for (size_t i = 0; i < auth->field_count; i++)
        read_field(&r, &auth->fields[i]);
    if (auth->field_count == 0)
        reader_error(&r, NULL, "auth of type %s has no form: the person types nothing",
                     catalog_auth_name(auth->kind));
    else
        reader_finish(&r);
}
