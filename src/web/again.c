/*
 * Forms that could not be accepted, because the session has ended or has been replaced by another.
 * Nothing is changed, and typed values are kept: without a session the sign-in form has them in
 * hidden fields; after signing in, the form's page is rendered with them, so that the reader can
 * check and send it again.
 *
 * Secrets (keys, tokens, passwords) are never kept; they have to be typed again.
 */
#include "base/mem.h"
#include "schema/schema.h"
#include "web/view.h"

static const char kept_prefix[] = "kept."; /* prefix of the fields that the sign-in form keeps */
static const char secret_omitted[] = "secret-omitted";

/* A name may have a prefix that ends in a dot (input.text), but the name of a secret field never
 * has. */
static bool is_secret(slice name)
{
    /* These are all the fields of the dashboard that hold a secret. A new one has to be added here.
     */
    return slice_has_word(SLICE("api_key token password client_secret key"), name);
}

/* These fields belong to the session or are generated with each page; a copy would be refused. */
static bool is_of_page(slice name)
{
    return slice_eq_cstr(name, "csrf") || slice_eq_cstr(name, "once");
}

/* Returns the page of the form whose address was requested: the address itself, or the nearest
 * parent that answers a GET. */
static slice page_of_form(struct web_request *request)
{
    const struct http_exchange *exchange = request->serve.exchange;
    slice path = exchange->head.path;
    struct http_route_match match;
    for (size_t count = exchange->segment_count; count > 0; count--) {
        if (http_router_match(request->web->serve.router, HTTP_METHOD_GET, exchange->segments,
                              count, &match) == HTTP_MATCH_FOUND)
            return path;
        while (path.len > 1 && path.ptr[path.len - 1] != '/')
            path.len--;
        path.len -= path.len > 1;
    }
    return SLICE("/");
}

static void view_field(struct web_request *request, struct json_writer *w, const char *prefix,
                       slice name, slice value)
{
    json_open(w, '{');
    json_member_str(w, "name",
                    arena_printf(&request->serve.op.arena, "%s%.*s", prefix, SLICE_ARG(name)));
    json_member_str(w, "value", value);
    json_close(w, '}');
}

void web_again_view_fields(struct web_request *request, struct json_writer *w)
{
    /* The sign-in form passes on only the fields that it received; any other form adds its own. */
    bool is_sign_in = !request->is_signed_out;
    json_member_open(w, "kept", '[');
    for (size_t i = 0; i < request->field_count; i++) {
        const struct web_field *field = &request->fields[i];
        bool is_kept = slice_starts_with(field->name, slice_cstr(kept_prefix)) ||
                       slice_eq_cstr(field->name, secret_omitted);
        if (is_sign_in && is_kept)
            view_field(request, w, "", field->name, field->value);
        if (is_sign_in || is_of_page(field->name) || field->value.len == 0)
            continue;
        /* Only the fact that there was a secret is kept, so that the next page can ask for it
         * again. */
        if (is_secret(field->name))
            view_field(request, w, "", slice_cstr(secret_omitted), SLICE("yes"));
        else
            view_field(request, w, kept_prefix, field->name, field->value);
    }
    json_close(w, ']');
}

static void wipe_secrets(struct web_request *request)
{
    /* The field's bytes are in the request's body buffer, which may be overwritten. */
    for (size_t i = 0; i < request->field_count; i++)
        if (is_secret(request->fields[i].name))
            mem_wipe((char *)(uintptr_t)request->fields[i].value.ptr, request->fields[i].value.len);
}

enum op_result web_again_sign_in(struct web_request *request)
{
    ASSERT(request->is_signed_out && !request->session.is_open);
    slice next = web_user_path(request, page_of_form(request));
    /* The reply has been written when this returns; the secrets in the body are no longer
     * needed. */
    enum op_result result = web_sign_in_reply(
        request, 401, next.ptr ? next : SLICE("/"),
        "Your session has ended. Nothing was done. Sign in to continue. What you typed is kept, so "
        "that you can send it again. If a link brought you here, ask for a new one.");
    wipe_secrets(request);
    return result;
}

/* Renders the page at `path` with the typed values, without its secrets. */
static enum op_result show_again(struct web_request *request, slice path, unsigned status,
                                 slice notice)
{
    ASSERT(!request->again_notice.ptr); /* used once: the page that is rendered takes no form */
    slice rest = path;
    request->again_path = slice_split(&rest, '?'); /* its user is added as to every link */
    request->again_status = status;
    request->again_notice = notice;
    return web_go_to(request, path);
}

enum op_result web_again_restore(struct web_request *request, slice next)
{
    slice secret_notice =
        SLICE("You are signed in again. Nothing has been sent yet. Check the form, enter secrets "
              "(keys, tokens, passwords) again, and send it.");
    slice notice =
        SLICE("You are signed in again. Nothing has been sent yet. Check the form and send it.");
    bool has_secret = web_field(request, secret_omitted).ptr != NULL;
    size_t count = 0;
    /* The sign-in form contained the API key, which the page that is rendered next must not
     * find. */
    wipe_secrets(request);
    for (size_t i = 0; i < request->field_count; i++) {
        struct web_field field = request->fields[i];
        if (!slice_starts_with(field.name, slice_cstr(kept_prefix)))
            continue;
        /* Renamed in place, so that the page finds the fields under the names that its form gave
         * them. */
        field.name = slice_from(field.name, sizeof(kept_prefix) - 1);
        request->fields[count++] = field;
    }
    request->field_count = count;
    if (count == 0 && !has_secret)
        return web_reply_redirect(request, next, "");
    return show_again(request, next, 0, has_secret ? secret_notice : notice);
}

enum op_result web_again_show(struct web_request *request)
{
    wipe_secrets(request);
    return show_again(
        request, page_of_form(request), 403,
        SLICE("This form belongs to an earlier session. Nothing was done. What you typed is still "
              "here, except for secrets. Check it and send it again."));
}

/* ---- faults ---- */

void web_fault_add(struct web_request *request, slice field, slice text)
{
    if (request->fault_count < WEB_FAULTS_MAX)
        request->faults[request->fault_count++] = (struct web_fault){field, text};
}

slice web_fault_of(const struct web_request *request, slice field)
{
    for (size_t i = 0; i < request->fault_count; i++)
        if (slice_eq(request->faults[i].field, field))
            return request->faults[i].text;
    return SLICE_NONE;
}

slice web_fault_reported(struct web_request *request, const struct schema_report *report,
                         slice property)
{
    enum { FAULT_BYTES_MAX = 4096 };
    struct buf text;
    bool has_fault = false;
    buf_init(&text, FAULT_BYTES_MAX);
    for (size_t i = 0; i < report->count; i++) {
        const struct schema_violation *one = &report->violations[i];
        slice rest = one->pointer;
        (void)slice_split(&rest, '/');
        if (!slice_eq(slice_split(&rest, '/'), property))
            continue;
        has_fault = true;
        buf_append(&text, text.len > 0 ? SLICE("; ") : SLICE(""));
        buf_append(&text, rest);
        buf_append(&text, rest.len > 0 ? SLICE(" ") : SLICE(""));
        buf_append(&text, one->message);
    }
    if (!has_fault)
        return SLICE_NONE;
    slice words = arena_take(&request->serve.op.arena, &text);
    return words.ptr ? words : SLICE("the value is not valid"); /* too long to show */
}

enum op_result web_again_faulty(struct web_request *request)
{
    ASSERT(request->fault_count > 0);
    wipe_secrets(request);
    return show_again(request, page_of_form(request), 400,
                      SLICE("")); /* the frame says that there are faults */
}
