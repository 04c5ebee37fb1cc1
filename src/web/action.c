/*
 * The page of one action.
 */
#include "serve/foresee.h"
#include "web/app.h"
#include "web/flow_decision.h"

struct one {
    struct catalog *catalog;
    const struct catalog_action *action;
};

const struct json *view_example(const struct catalog_action *action)
{
    const struct json *examples = action ? action->examples : NULL;
    return json_is(examples, JSON_ARRAY) && examples->count > 0
               ? JSON_GET(&examples->as.items[0], "input")
               : NULL;
}

/* Makes the API call for the action, without the confirmation of a write: if it is pasted without
 * thought, the reply only describes the call. */
static const struct json *make_call(struct arena *arena, slice integration_id, slice action_id,
                                    const struct json *input)
{
    struct json_writer w;
    struct buf text;
    buf_init(&text, WEB_PAGE_BYTES_MAX / 8);
    json_begin(&w, &text);
    json_open(&w, '{');
    json_member_str(&w, "integration_id", integration_id);
    json_member_str(&w, "action_id", action_id);
    if (input)
        json_member(&w, "input", input);
    else
        json_member_raw(&w, "input", SLICE("{}"));
    json_close(&w, '}');
    slice whole = arena_take(arena, &text);
    return whole.ptr ? json_parse(arena, whole, &json_limits_provider, NULL) : NULL;
}

void view_action_curl(struct web_request *request, struct json_writer *w, slice integration_id,
                      slice action_id, const struct json *input)
{
    view_curl(request, w, "curl",
              make_call(&request->serve.op.arena, integration_id, action_id, input));
}

/* Appends a schema's type in words: "string", "integer or null", "list of object", or the values
 * that it may have, of which a vendor's description may list thousands. */
static void put_type(struct buf *out, const struct json *schema)
{
    enum { WORDS_MAX = 20 };
    const struct json *values = JSON_GET(schema, "enum"), *type = JSON_GET(schema, "type");
    const struct json *either = JSON_GET(schema, "anyOf");
    const struct json *list = json_is(values, JSON_ARRAY)   ? values
                              : json_is(type, JSON_ARRAY)   ? type
                              : json_is(either, JSON_ARRAY) ? either
                                                            : NULL;
    for (uint32_t i = 0; list && i < list->count && i < WORDS_MAX; i++) {
        const struct json *one = &list->as.items[i];
        buf_append_cstr(out, i == 0 ? "" : list == values ? ", " : " or ");
        if (json_is(one, JSON_STRING))
            buf_append(out, json_str(one));
        else if (json_is(one, JSON_OBJECT))
            put_type(out, one);
        else
            json_write(out, one);
    }
    if (list && list->count > WORDS_MAX)
        buf_printf(out, " and %u more", list->count - WORDS_MAX);
    if (list)
        return;
    bool is_list = slice_eq_cstr(json_str(type), "array");
    if (is_list) {
        buf_append_cstr(out, "list of ");
        put_type(out, JSON_GET(schema, "items"));
    } else {
        buf_append(out, json_is(type, JSON_STRING) ? json_str(type) : SLICE("any"));
    }
}

static slice type_of(struct arena *arena, const struct json *schema)
{
    struct buf words;
    buf_init(&words, VALUE_TEXT_BYTES_MAX);
    put_type(&words, schema);
    slice text = arena_take(arena, &words);
    return text.ptr ? text : SLICE("any");
}

/* Writes the members of the input, as docs_member.html declares them. */
static void write_fields(struct web_request *request, struct json_writer *w,
                         const struct json *schema)
{
    const struct json *fields = JSON_GET(schema, "properties"),
                      *required = JSON_GET(schema, "required");
    json_member_open(w, "fields", '[');
    for (uint32_t i = 0; json_is(fields, JSON_OBJECT) && i < fields->count; i++) {
        const struct json_member *field = &fields->as.members[i];
        slice text = json_get_str(&field->value, SLICE("description"));
        json_open(w, '{');
        json_member_str(w, "name", json_str(&field->key));
        json_member_str(w, "place", SLICE("body"));
        json_member_str(w, "type", type_of(&request->serve.op.arena, &field->value));
        json_member_bool(w, "required", json_has_text(required, json_str(&field->key)));
        json_member_open(w, "text", '[');
        if (text.len > 0) {
            json_open(w, '{');
            json_member_open(w, "parts", '[');
            json_open(w, '{');
            json_member_str(w, "text", text);
            json_member_bool(w, "is_code", false);
            json_close(w, '}');
            json_close(w, ']');
            json_close(w, '}');
        }
        json_close(w, ']');
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void write_needed(struct json_writer *w, const struct catalog_action *action)
{
    slice rest = action->scope_words;
    json_member_open(w, "scopes", '[');
    while (rest.len > 0) {
        slice scope = slice_split(&rest, ' ');
        json_open(w, '{');
        json_member_str(w, "scope", scope);
        json_member_str(w, "text", catalog_scope_words(action->integration, scope));
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void write_undo(const struct web_request *request, struct json_writer *w,
                       const struct catalog_action *action)
{
    bool is_never = slice_eq_cstr(action->undo, "never");
    const struct catalog_action *other =
        action->undo.len > 0 && !is_never
            ? catalog_find_action(action->integration, action->undo, NULL)
            : NULL;
    if (other && !serve_lists(&request->serve, other))
        other = NULL;
    json_member_bool(w, "is_final", is_never);
    json_member_str(w, "undo", other ? other->action_id : SLICE_NONE);
    json_member_str(w, "undo_title", other ? other->title : SLICE_NONE);
}

/* What the policy of the session's key says about the action; SLICE_NONE if it has none. */
static slice say_policy(struct web_request *request, const struct catalog_action *action)
{
    static const slice says[] = {
        [POLICY_ALLOW] = SLICE_INIT("The policy of this API key allows it."),
        [POLICY_CONFIRM] = SLICE_INIT("The policy of this API key requires a confirmation."),
        [POLICY_HOLD] = SLICE_INIT("The policy of this API key holds it for an approval."),
        [POLICY_DENY] = SLICE_INIT("The policy of this API key denies it."),
        [POLICY_DEPENDS] = SLICE_INIT("The policy of this API key decides by the input."),
    };
    struct policy_verdict verdict;
    if (!serve_policy(&request->serve))
        return SLICE_NONE;
    serve_foresee(&request->serve, action, &verdict);
    slice said = says[verdict.decision];
    return verdict.reason.len > 0 ? arena_printf(&request->serve.op.arena, "%.*s Its reason: %.*s",
                                                 SLICE_ARG(said), SLICE_ARG(verdict.reason))
                                  : said;
}

static void on_end(struct web_request *request)
{
    struct one *one = request->state;
    catalog_unref(one->catalog);
}

static enum op_result finish_action(struct web_request *request)
{
    const struct one *one = request->state;
    const struct catalog_action *action = one->action;
    const struct catalog_integration *app = action->integration;
    struct connection *choice;
    size_t count;
    int status = store_connection_list_result(&request->query, &choice, &count);
    if (status != OK)
        return web_reply_database(request, status);
    struct json_writer *w = view_begin(request);
    json_member_str(w, "integration_id", app->integration_id);
    json_member_str(w, "app", app->name);
    view_app_icon(w, app->integration_id, app);
    json_member_str(w, "title", action->title);
    json_member_str(w, "action_id", action->action_id);
    json_member_str(w, "description", action->description);
    json_member_str(w, "effect", slice_cstr(catalog_level_name(action->level)));
    json_member_bool(w, "confirms", serve_confirms(&request->serve, action));
    json_member_str(w, "gone", action->gone.len > 0 ? action->gone : SLICE_NONE);
    json_member_str(w, "docs_url", action->docs_url.len > 0 ? action->docs_url : SLICE_NONE);
    write_undo(request, w, action);
    write_needed(w, action);
    json_member_str(w, "refused_by",
                    count > 0 && app_refuses(action, choice[0].scopes) ? choice[0].label
                                                                       : SLICE_NONE);
    json_member_str(w, "policy", say_policy(request, action));
    view_action_curl(request, w, app->integration_id, action->action_id, view_example(action));
    write_fields(request, w, action->input_schema);
    value_view_text(w, "schema", action->input_schema, VALUE_TEXT_BYTES_MAX);
    return web_reply_view(request, 200, "action");
}

enum op_result web_action(struct web_request *request)
{
    struct one *one = web_state_new(request, sizeof(*one));
    if (!one)
        return OP_DONE;
    const struct catalog_integration *app = app_of_path(request, &one->catalog);
    if (!app)
        return OP_DONE;
    request->on_end = on_end;
    one->action = serve_known(&request->serve,
                              catalog_find_action(app, request->serve.match.params[1], NULL));
    if (!one->action)
        return web_reply_missing(request, "This app has no such action.");
    store_connection_choice(request->web->config.pool, &request->query, &request->serve.op,
                            request->session.account_id, app->integration_id);
    return web_wait(request, finish_action);
}
