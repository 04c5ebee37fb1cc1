/*
 * The effects of calls, in words; see effect.h.
 */
#include "web/effect.h"

#include "base/ascii.h"

/* items shown for a field; further items are counted */
enum { LISTED_MAX = 50, ADDRESSES_MAX = 100000 };

/* ---- verbs ---- */

/* Titles of actions begin with a verb. For words that are not listed here only the level counts. */
static const struct {
    const char *verb, *icon, *words;
} verbs[] = {
    {"create", "plus", "create add insert append upload copy duplicate save"},
    {"change", "edit",
     "update change edit modify rename move set replace mark assign archive unarchive restore "
     "close reopen transition"},
    {"delete", "x", "delete trash empty"},
    {"send", "send", "send reply forward post call schedule"},
    {"share", "send", "share invite"},
};

static size_t verb_of(const struct catalog_action *action)
{
    char room[16];
    slice title = action->title, word = slice_split(&title, ' ');
    size_t found = ARRAY_LEN(verbs);
    if (word.len >= sizeof(room))
        return found;
    for (size_t i = 0; i < word.len; i++)
        room[i] = ascii_lower(word.ptr[i]);
    for (size_t i = 0; i < ARRAY_LEN(verbs) && found == ARRAY_LEN(verbs); i++)
        if (slice_has_word(slice_cstr(verbs[i].words), slice_of(room, word.len)))
            found = i;
    return found;
}

slice effect_verb(const struct catalog_action *action)
{
    if (!action)
        return SLICE_NONE;
    size_t verb = action->level == LEVEL_WRITE ? verb_of(action) : ARRAY_LEN(verbs);
    return slice_cstr(verb < ARRAY_LEN(verbs) ? verbs[verb].verb
                                              : catalog_level_name(action->level));
}

slice effect_icon(const struct catalog_action *action)
{
    size_t verb = action ? verb_of(action) : ARRAY_LEN(verbs);
    if (action && action->level == LEVEL_DELETE)
        return SLICE("x");
    return slice_cstr(verb < ARRAY_LEN(verbs) ? verbs[verb].icon : "edit");
}

bool effect_is_final(const struct catalog_action *action)
{
    return action && slice_eq_cstr(action->undo, "never");
}

slice effect_fields(const struct catalog_action *action, struct arena *arena)
{
    slice all = SLICE_NONE;
    for (size_t i = 0; action && i < action->recipients.count; i++)
        all = arena_printf(arena, "%.*s %.*s", SLICE_ARG(all),
                           SLICE_ARG(action->recipients.items[i].name));
    slice small = arena_dup(arena, all);
    for (size_t i = 0; i < small.len; i++)
        ((char *)(uintptr_t)small.ptr)[i] = ascii_lower(small.ptr[i]);
    return small;
}

/* ---- inside and outside ---- */

int effect_read_homes(const slice *domains, size_t count, slice *out, struct arena *arena,
                      struct err *err)
{
    char room[RECIPIENT_DOMAIN_MAX + 1];
    for (size_t i = 0; i < count; i++) {
        slice domain = recipient_domain(domains[i], room);
        if (!domain.ptr || slice_find_char(domain, '.') < 0)
            return err_set(err, ERR_INVALID,
                           "home-domains: \"%.*s\" is not a domain name, such as \"example.com\" "
                           "(which includes its subdomains)",
                           SLICE_ARG(slice_first_utf8(domains[i], 80)));
        out[i] = arena_dup(arena, domain);
        if (!out[i].ptr)
            return err_set(err, ERR_NOMEM, "out of memory for home-domains");
    }
    return OK;
}

bool effect_leaves(const struct web *web, slice domain)
{
    size_t count = web->config.home_domain_count;
    return count > 0 && !recipient_is_home(domain, web->config.home_domains, count);
}

bool effect_any_leaves(const struct web_request *request, const struct json *domains)
{
    for (uint32_t i = 0; json_is(domains, JSON_ARRAY) && i < domains->count; i++)
        if (effect_leaves(request->web, json_str(&domains->as.items[i])))
            return true;
    return false;
}

/* ---- recipients ---- */

void reach_begin(struct reach *reach, struct web_request *request)
{
    *reach = (struct reach){.request = request};
    map_init(&reach->addresses, ADDRESSES_MAX);
}

/* If memory runs out, an address may be counted twice. A text without an address may mean a
 * different recipient in each call, so each one is counted. */
static void count_recipient(void *user, slice field, const struct recipient *recipient)
{
    struct reach *reach = user;
    (void)field;
    void *before = recipient->domain.ptr ? map_get(&reach->addresses, recipient->address) : NULL;
    if (recipient->domain.ptr && !before &&
        map_put(&reach->addresses, recipient->address, reach, &before) == OK)
        before = NULL;
    reach->count += !before;
    reach->outside += !before && effect_leaves(reach->request->web, recipient->domain);
}

void reach_add(struct reach *reach, const struct catalog_action *action, const struct json *input)
{
    if (action)
        recipient_each(action, input, &reach->request->serve.op.arena, count_recipient, reach);
}

slice reach_end(struct reach *reach)
{
    const struct api_config *config = &reach->request->web->config;
    struct arena *arena = &reach->request->serve.op.arena;
    const char *plural = reach->count == 1 ? "address" : "addresses";
    slice home = config->home_domain_count == 1 ? config->home_domains[0] : SLICE("your company");
    map_deinit(&reach->addresses);
    if (reach->count == 0)
        return SLICE_NONE;
    if (reach->outside == 0)
        return arena_printf(arena, "to %zu %s", reach->count, plural);
    if (reach->outside == reach->count)
        return arena_printf(arena, "to %zu %s outside %.*s", reach->count, plural, SLICE_ARG(home));
    return arena_printf(arena, "to %zu addresses, %zu of them outside %.*s", reach->count,
                        reach->outside, SLICE_ARG(home));
}

/* Writes the fields of a call one after another; the list of the current field is open. */
struct recipients_view {
    struct json_writer *w;
    const struct web *web;
    slice field;
    size_t count, more, more_outside;
    bool leaves;
};

static void close_field(struct recipients_view *view)
{
    if (!view->field.ptr)
        return;
    json_close(view->w, ']');
    json_member_i64(view->w, "more", (int64_t)view->more);
    json_member_i64(view->w, "more_outside", (int64_t)view->more_outside);
    json_close(view->w, '}');
}

static void open_field(struct recipients_view *view, slice field)
{
    close_field(view);
    view->field = field;
    view->count = view->more = view->more_outside = 0;
    json_open(view->w, '{');
    json_member_str(view->w, "name", field);
    json_member_open(view->w, "list", '[');
}

static void put_recipient(void *user, slice field, const struct recipient *recipient)
{
    enum { BYTES_MAX = 300 };
    struct recipients_view *view = user;
    bool leaves = effect_leaves(view->web, recipient->domain);
    view->leaves |= leaves;
    if (!view->field.ptr || !slice_eq(view->field, field))
        open_field(view, field);
    if (view->count++ >= LISTED_MAX) {
        view->more++;
        view->more_outside += leaves;
        return;
    }
    json_open(view->w, '{');
    json_member_str(view->w, "lead", slice_first_utf8(recipient->lead, BYTES_MAX));
    json_member_str(view->w, "address", slice_first_utf8(recipient->address, BYTES_MAX));
    json_member_str(view->w, "tail", recipient->tail);
    json_member_bool(view->w, "is_outside", leaves);
    json_close(view->w, '}');
}

void view_recipients(struct web_request *request, struct json_writer *w,
                     const struct catalog_action *action, const struct json *input)
{
    struct recipients_view view = {.w = w, .web = request->web};
    json_member_open(w, "recipients", '[');
    if (action)
        recipient_each(action, input, &request->serve.op.arena, put_recipient, &view);
    close_field(&view);
    json_close(w, ']');
    json_member_bool(w, "leaves", view.leaves);
}

/* ---- changes ---- */

/* Writes the read step: its title, and when it completed. */
static void write_read_step(struct json_writer *w, slice key, const struct titled_steps *steps)
{
    slice title = SLICE_NONE, at = SLICE_NONE;
    for (size_t i = 0; json_is(steps->list, JSON_ARRAY) && i < steps->list->count; i++)
        if (slice_eq(json_get_str(&steps->list->as.items[i], SLICE("stepKey")), key)) {
            title = steps->titles[i];
            at = json_get_str(&steps->list->as.items[i], SLICE("completedAt"));
        }
    json_member_str(w, "step", title.len > 0 ? title : key);
    json_member_str(w, "at", at);
}

void view_changes(struct json_writer *w, const struct json *item, const struct titled_steps *steps)
{
    const struct json *changes = JSON_GET(item, "changes");
    const struct json *properties = JSON_GET(changes, "properties");
    if (!json_is(properties, JSON_ARRAY)) {
        json_member_str(w, "changes", SLICE_NONE);
        return;
    }
    json_member_open(w, "changes", '{');
    write_read_step(w, json_get_str(changes, SLICE("step")), steps);
    json_member_i64(w, "more", json_get_i64(changes, SLICE("more"), 0));
    json_member_i64(w, "same", json_get_i64(changes, SLICE("same"), 0));
    json_member_open(w, "properties", '[');
    for (size_t i = 0; i < properties->count; i++) {
        const struct json *one = &properties->as.items[i];
        json_open(w, '{');
        json_member_str(w, "name", json_get_str(one, SLICE("name")));
        json_member_str(w, "now", json_get_str(one, SLICE("now")));
        json_member_str(w, "then", json_get_str(one, SLICE("then")));
        json_close(w, '}');
    }
    json_close(w, ']');
    json_close(w, '}');
}
