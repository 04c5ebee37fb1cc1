/*
 * Any number of integrations with 50 actions each, for tests of how the cost grows with the size.
 */
#ifndef TEST_CATALOG_SYNTHETIC_H
#define TEST_CATALOG_SYNTHETIC_H

#include "base/arena.h"
#include "base/buf.h"

enum { SYNTHETIC_ACTIONS = 50, SYNTHETIC_BYTES_MAX = 1024 * 1024 };

static inline void synthetic_action(struct buf *text, const char *verb, const char *thing)
{
    buf_printf(
        text,
        "{\"action_id\":\"%s_%s\",\"title\":\"%s a %s\",\"description\":\"Does %s for one %s "
        "of the account, and gives its id, name, owner and the time of the last change. See "
        "also the list of %ss.\",\"tags\":[\"%s\",\"office\"],\"side_effect_level\":"
        "\"write\",\"input_schema\":{\"type\":\"object\",\"properties\":{\"%sId\":{\"type\":"
        "\"string\",\"description\":\"Its id\"}},\"required\":[\"%sId\"],"
        "\"additionalProperties\":false},\"request\":{\"method\":\"POST\",\"path\":"
        "\"/%s/${input.%sId}\"},\"display\":{\"title\":\"Done\",\"summary\":\"Done\"},"
        "\"examples\":[]}",
        verb, thing, verb, thing, verb, thing, thing, thing, thing, thing, thing, thing);
}

/* The manifest of app number `app`, in the arena. */
static inline slice synthetic_app(struct arena *arena, unsigned app)
{
    static const char *const verbs[] = {"create", "list",    "get",     "update", "delete",
                                        "search", "archive", "restore", "move",   "share"};
    static const char *const things[] = {"invoice", "customer", "ticket", "branch", "channel"};
    struct buf text;
    buf_init(&text, SYNTHETIC_BYTES_MAX);
    buf_printf(&text,
               "{\"integration_id\":\"app%u\",\"name\":\"App %u\",\"description\":\"Things of app "
               "%u: list, search, create.\",\"category\":\"things\",\"tags\":[\"work\"],"
               "\"base_url\":\"https://api.example.com\",\"auth\":{\"type\":\"bearer\"},"
               "\"actions\":[",
               app, app, app);
    for (unsigned i = 0; i < SYNTHETIC_ACTIONS; i++) {
        if (i > 0)
            buf_append_char(&text, ',');
        synthetic_action(&text, verbs[i / 5], things[i % 5]);
    }
    buf_append_cstr(&text, "]}");
    slice copy = arena_dup(arena, buf_slice(&text));
    buf_deinit(&text);
    return copy;
}

#endif
