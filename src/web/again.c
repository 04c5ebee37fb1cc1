/*
 * Forms that could not be taken, because the session has ended or is another one: nothing is done,
 * and nothing that was typed is lost. Without a session the sign-in form has what was typed in
 * hidden fields; once signed in, the page of the form is shown with it, to be checked and sent.
 * What is secret (keys, tokens, passwords) goes nowhere, and has to be typed again.
 */
#include "base/mem.h"
#include "web/page.h"

static const char kept[] = "kept."; /* before the names of fields that the sign-in form keeps */
static const char kept_not[] = "kept-not";

/* Of the names in forms, whatever comes after a dot (input.text). */
static bool is_secret(slice name)
{
    static const char *const names[] = {"api_key", "token", "password", "client_secret", "key"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (slice_eq_cstr(name, names[i]))
            return true;
    return false;
}

/* Of the session, and what is made new with the page. */
static bool is_of_page(slice name)
{
    return slice_eq_cstr(name, "csrf") || slice_eq_cstr(name, "once");
}

/* The page on which the form of the address that was asked for stands: that address itself, or what
 * is above it, whatever has a page. */
static slice page_of_form(struct web_request *request)
{
    const struct http_exchange *exchange = request->exchange;
    slice path = exchange->head.path;
    struct http_route_match match;
    for (size_t count = exchange->segment_count; count > 0; count--) {
        if (http_router_match(request->web->router, HTTP_METHOD_GET, exchange->segments, count,
                              &match) == HTTP_MATCH_FOUND)
            return path;
        while (path.len > 1 && path.ptr[path.len - 1] != '/')
            path.len--;
        path.len -= path.len > 1;
    }
    return SLICE("/");
}

void web_again_write_fields(struct web_request *request, struct buf *out)
{
    bool is_sign_in = !request->is_signed_out; /* it keeps what it was given to keep */
    for (size_t i = 0; i < request->field_count; i++) {
        const struct web_field *field = &request->fields[i];
        bool is_kept = slice_starts_with(field->name, slice_cstr(kept)) ||
                       slice_eq_cstr(field->name, kept_not);
        if (is_sign_in && is_kept)
            HTML(out, "<input type=\"hidden\" name=\"{}\" value=\"{}\">", field->name,
                 field->value);
        if (is_sign_in || is_of_page(field->name) || field->value.len == 0)
            continue;
        if (is_secret(field->name))
            HTML(out, "<input type=\"hidden\" name=\"{}\" value=\"yes\">", slice_cstr(kept_not));
        else
            HTML(out, "<input type=\"hidden\" name=\"{}{}\" value=\"{}\">", slice_cstr(kept),
                 field->name, field->value);
    }
}

static void wipe_secrets(struct web_request *request)
{
    for (size_t i = 0; i < request->field_count; i++)
        if (is_secret(request->fields[i].name))
            mem_wipe((char *)(uintptr_t)request->fields[i].value.ptr, request->fields[i].value.len);
}

enum op_result web_again_sign_in(struct web_request *request)
{
    enum op_result result = web_sign_in_reply(
        request, 401, page_of_form(request),
        "Your session has ended; nothing was done. Sign in, and what you have typed is there "
        "again, to be sent. Where a link brought you here, ask for a new one.");
    wipe_secrets(request);
    return result;
}

/* The page with what was typed, its secrets aside. */
static enum op_result show(struct web_request *request, slice path, unsigned status, slice notice)
{
    request->again_path = path;
    request->again_status = status;
    request->again_notice = notice;
    return web_go_to(request, path);
}

enum op_result web_again_go_on(struct web_request *request, slice next)
{
    slice secret_notice =
        SLICE("You are signed in again. Nothing was sent: look it over, type what "
              "is secret (keys, tokens, passwords) again, and send it.");
    slice notice = SLICE("You are signed in again. Nothing was sent: look it over, and send it.");
    bool has_secret = web_field(request, kept_not).ptr != NULL;
    size_t count = 0;
    wipe_secrets(request);
    for (size_t i = 0; i < request->field_count; i++) {
        struct web_field field = request->fields[i];
        if (!slice_starts_with(field.name, slice_cstr(kept)))
            continue;
        field.name = slice_from(field.name, sizeof(kept) - 1);
        request->fields[count++] = field;
    }
    request->field_count = count;
    if (count == 0 && !has_secret)
        return web_reply_redirect(request, next, "");
    return show(request, next, 0, has_secret ? secret_notice : notice);
}

enum op_result web_again_show(struct web_request *request)
{
    wipe_secrets(request);
    return show(request, page_of_form(request), 403,
                SLICE("The form was of an earlier session, so that nothing was done. What you have "
                      "typed is here again, but for what is secret: look it over, and send it."));
}
