/*
 * Splits a sentence that asks for several things: "find the mail and make a page of it" is two
 * queries. One request ends before "and", "then" or a punctuation mark if a verb and its object
 * follow. A verb is a word with which an action's id begins, or a synonym of such a word. A request
 * whose words would find something else is reworded: what is taken for the next request is read,
 * and what was read is added to a container.
 */
#include "search/reading.h"

/* Whether the part is a word that joins two requests, before the verb of the second. */
static bool is_joint(const struct search_part *part)
{
    return search_part_is_any(part, "and then also afterwards finally please");
}

/* Whether the part, which follows `before`, comes before a command: "can you just"; not in "we will
 * cancel", which says what is so. */
static bool is_opening(const struct search_part *part, const struct search_part *before)
{
    static const char modals[] = "can could would will";
    return search_part_is_any(part, "just quickly simply kindly maybe") ||
           search_part_is_any(part, modals) ||
           (search_part_is_any(part, "you we i") && search_part_is_any(before, modals));
}

static bool means_verb(const struct search_index *index, const struct search_term *term)
{
    for (uint32_t i = 0; i < term->link_count; i++) {
        const struct search_link *link = &index->links[term->link_first + i];
        if (index->terms[link->term].is_verb && link->use != AS_NOUN)
            return true;
    }
    return false;
}

bool search_may_be_verb(const struct search_index *index, const struct search_part *part)
{
    return part->term && !(part->classes & (WORD_STOP | WORD_PREPOSITION)) &&
           (part->term->is_verb || part->term->implied != SEARCH_NO_TERM ||
            part->classes & (WORD_SAYS | WORD_ASKS) || means_verb(index, part->term));
}

static bool may_be_command(const struct search_index *index, const struct search_part *part,
                           const struct search_part *next)
{
    if (!part->token.source.ptr || part->is_quoted || part->is_taken ||
        part->classes & (WORD_DETERMINER | WORD_PREPOSITION))
        return false;
    if (part->means.len > 0 || part->classes & (WORD_SAYS | WORD_ASKS | WORD_THANKS))
        return true;
    slice word = slice_of(part->token.text, part->token.len);
    bool is_thing = next->classes & WORD_DETERMINER ||
                    slice_eq(slice_of(next->token.text, next->token.len), SLICE("that"));
    if (part->is_known && !(part->classes & WORD_STOP) && is_thing)
        return true; /* as in "and refund the payment": a noun does not precede a determiner */
    if (!(part->classes & WORD_STOP) && search_part_is_any(next, "it them"))
        return true; /* "and chart them" */
    return part->term && !(part->classes & WORD_STOP) && !search_text_is_plural(word) &&
           (part->term->is_verb || means_verb(index, part->term) ||
            part->term->implied != SEARCH_NO_TERM);
}

/* Whether the words before `at` say only with what the rest is done: "for each invoice | create a
 * row", "from the list | make contacts". */
static bool follows_origin(const struct search_index *index, const struct search_reading *r,
                           size_t at)
{
    const struct search_part *part = &r->parts[at];
    return search_part_is_any(r->parts, "for from") && at + 1 < r->count && part->term &&
           !part->is_quoted && !(part->classes & (WORD_STOP | WORD_PREPOSITION)) &&
           (part->term->is_verb || means_verb(index, part->term)) &&
           r->parts[at + 1].classes & WORD_DETERMINER;
}

static bool has_app_name(const struct search_reading *r, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        if (r->parts[i].is_known && r->parts[i].term->is_app_name)
            return true;
    return false;
}

/* Whether the colon before `at` separates two requests: "the sheet has the prices: change them in
 * Stripe"; not "gmail: send a mail", nor a text after the colon. */
static bool is_colon_joint(const struct search_reading *r, size_t first, size_t at)
{
    return at > first + 2 && has_app_name(r, first, at) && has_app_name(r, at, r->count);
}

/* Returns the part at which a request begins after the joint at `at`; 0 if none begins there.
 * `first` is where the request before it begins. */
static size_t begins_at(const struct search_index *index, const struct search_reading *r,
                        size_t first, size_t at)
{
    bool is_joined = is_joint(&r->parts[at]);
    if (!r->parts[at].token.source.ptr || r->parts[at].is_quoted ||
        (!is_joined && !r->parts[at].begins_clause) ||
        (r->parts[at].follows_colon && !is_colon_joint(r, first, at)))
        return 0;
    while (at < r->count &&
           (is_joint(&r->parts[at]) || is_opening(&r->parts[at], &r->parts[at - 1])))
        at++;
    if (at + 1 >= r->count)
        return 0;
    /* "how much did they pay, and which deals do they have?" */
    bool is_question = r->is_question && is_joined && r->parts[at].classes & WORD_QUESTION;
    return is_question || may_be_command(index, &r->parts[at], &r->parts[at + 1]) ? at : 0;
}

static size_t content_between(const struct search_reading *r, size_t from, size_t to)
{
    size_t count = 0;
    for (size_t i = from; i < to; i++)
        count += r->parts[i].is_content || r->parts[i].means.len > 0;
    return count;
}

bool search_has_plural(const struct search_reading *r, size_t first, size_t end)
{
    for (size_t i = first; i < end && !(r->parts[i].classes & WORD_PREPOSITION); i++)
        if (search_text_is_plural(slice_of(r->parts[i].token.text, r->parts[i].token.len)))
            return true;
    return false;
}

bool search_is_in_mail(const struct search_reading *r, size_t first, size_t end)
{
    size_t mail = first + 2;
    while (mail < end &&
           !(r->parts[mail].classes & WORD_LETTER && r->parts[mail - 1].classes & WORD_DETERMINER &&
             search_part_is_any(&r->parts[mail - 2], "in from") &&
             search_part_is_any(&r->parts[mail], "mail email")))
        mail++;
    for (size_t i = first; mail < end && i < end; i++)
        if (search_part_is_any(&r->parts[i], "attachment attachments document file files pdf photo "
                                             "picture receipt"))
            return false;
    return mail < end;
}

const char *search_adding_verb(const struct search_reading *r, size_t first, size_t end)
{
    static const struct {
        const char *containers, *verb;
    } rows[] = {
        {"sheet spreadsheet excel", "append values"},    {"calendar", "create event"},
        {"dropbox drive folder", "upload file"},         {"board", "create card"},
        {"slack discord telegram chat", "post message"},
    };
    /* "the accounting folder", "a file in Dropbox" */
    for (size_t i = first; i < end && i < first + 5; i++) {
        for (size_t k = 0; k < ARRAY_LEN(rows); k++)
            if (search_part_is_any(&r->parts[i], rows[k].containers))
                return rows[k].verb;
        if (r->parts[i].classes & WORD_PREPOSITION && !search_part_is_any(&r->parts[i], "in"))
            return NULL;
    }
    return NULL;
}

/* Whether the words have no command: "contract signed in Drive?" */
static bool is_statement(const struct search_index *index, const struct search_reading *r,
                         size_t first, size_t end)
{
    for (size_t i = first + 1; i < end; i++)
        if (r->parts[i].follows_colon)
            return false;
    while (first < end && !r->parts[first].is_content)
        first++;
    return first + 1 < end && !r->is_question && r->parts[first].token.len > 0 &&
           !may_be_command(index, &r->parts[first], &r->parts[first + 1]);
}

/* Returns the verb that replaces the first word of a request before another: what has to happen
 * first is read ("when a mail arrives"), and so is what is taken ("take the names from the sheet").
 * Returns NULL if the word remains. */
static const char *reading_verb(const struct search_index *index, const struct search_reading *r,
                                size_t first, size_t end, size_t *skipped)
{
    const struct search_part *parts = &r->parts[first];
    bool is_many = search_has_plural(r, first + 1, end);
    if (end - first < 2 || parts->means.len > 0) /* "get rid of" */
        return NULL;
    if (search_part_is_any(parts, "if when whenever once after for from") &&
        !(parts[1].classes & WORD_QUESTION))
        return "list";
    if (search_part_is_any(parts, "take pull grab extract collect"))
        return is_many ? "list" : "get";
    if (search_part_is_any(parts, "read check copy") && search_is_in_mail(r, first, end))
        return "get message mail";
    if (is_many && search_part_is_any(parts, "get read fetch"))
        return "list";
    *skipped = 0;
    return is_statement(index, r, first, end) ? "get" : NULL;
}

/* Returns the verb that replaces the first `*skipped` words of a request that puts something into a
 * container: "save it in Dropbox", "put the to-dos on the board". Returns NULL if it does not. */
static const char *adding_verb(const struct search_reading *r, size_t first, size_t end,
                               size_t *skipped)
{
    const struct search_part *parts = &r->parts[first];
    bool is_pronoun = first + 1 < end && search_part_is_any(&parts[1], "it them");
    if (parts->means.len > 0 && !search_part_is_any(parts, "put"))
        return NULL;
    if (!search_part_is_any(parts, "put save store stick drop") &&
        !(is_pronoun && (!parts->is_known || search_part_is_any(parts, "add upload paste share"))))
        return NULL;
    for (size_t at = first + 2; at + 1 < end; at++) {
        const char *verb = search_part_is_any(&r->parts[at], "in into to on")
                               ? search_adding_verb(r, at + 1, end)
                               : NULL;
        *skipped = at + 1 - first;
        if (verb)
            return verb;
    }
    return NULL;
}

/* Returns the verb that replaces the first `*skipped` words of a request that writes what was read
 * before: "count them in a sheet" adds, "read them out in a call" creates. Returns NULL if it does
 * not. */
static const char *writing_verb(const struct search_reading *r, size_t first, size_t end,
                                size_t *skipped)
{
    const struct search_part *parts = &r->parts[first];
    size_t at = first + 2; /* the preposition */
    if (at < end && search_part_is_any(&r->parts[at], "out up down over together"))
        at++;
    /* "mail the list to the boss" sends what was read before, and lists nothing */
    *skipped = 3;
    if (first > 0 && first + 3 < end && search_part_is_any(parts, "mail email") &&
        parts[1].classes & WORD_DETERMINER &&
        search_part_is_any(&parts[2], "list result results number numbers names summary report"))
        return "send a mail";
    for (*skipped = 2; first > 0 && first + *skipped + 1 < end; ++*skipped)
        if (search_part_is_any(parts, "give show") && search_part_is_any(&parts[1], "me us") &&
            search_part_is_any(&parts[*skipped], "on in via") &&
            search_part_is_any(&parts[*skipped + 1], "slack telegram discord"))
            return "send a message"; /* "give me its status on Telegram" */
    *skipped = 1;
    for (size_t i = first + 1; first > 0 && i < end; i++)
        if (search_part_is_any(parts, "suggest propose offer explain describe") &&
            r->parts[i].classes & WORD_CHANNEL) /* "suggest another time by mail" */
            return "send";
    *skipped = at + 1 - first;
    if (parts->means.len > 0 || at + 1 >= end || !search_part_is_any(&parts[1], "it them") ||
        !search_part_is_any(&r->parts[at], r->parts[at + 1].classes & WORD_INDEFINITE
                                               ? "in into as on"
                                               : "in into as") ||
        !(parts->classes & WORD_READS || search_part_is_any(parts, "summarize summarise sum")))
        return NULL;
    bool is_new = at + 2 < end && r->parts[at + 1].classes & WORD_INDEFINITE &&
                  !(r->parts[at + 2].classes & WORD_LOCATION);
    return is_new ? "create" : "add to";
}

/* Adds the request of these parts, which begin at `start` in the text. Returns OK or ERR_NOMEM. */
static int add_thing(const struct search_index *index, struct arena *arena,
                     const struct search_reading *r, size_t first, size_t end, slice *things,
                     size_t *count)
{
    const char *start = first == 0 ? r->text : r->parts[first].token.source.ptr;
    const char *stop = end < r->count ? r->parts[end].token.source.ptr : r->text + r->text_len;
    size_t skipped = 1;
    const char *verb = end < r->count ? reading_verb(index, r, first, end, &skipped) : NULL;
    if (!verb)
        verb = adding_verb(r, first, end, &skipped);
    if (!verb)
        verb = writing_verb(r, first, end, &skipped);
    if (verb && skipped > 0) {
        slice last = r->parts[first + skipped - 1].token.source;
        ASSERT(last.ptr && last.ptr + last.len <= stop);
        start = last.ptr + last.len;
    }
    slice thing = slice_trim(slice_of(start, (size_t)(stop - start)));
    if (verb)
        thing = arena_printf(arena, "%s %.*s", verb, SLICE_ARG(thing));
    things[(*count)++] = thing;
    return thing.ptr ? OK : ERR_NOMEM;
}

/* A sentence that says what should be so is tried as a command first. */
static int split_clause(struct search_index *index, struct arena *arena,
                        const struct search_reading *r, slice things[2], bool *is_split)
{
    slice command = search_reword_wish(index, arena, r);
    *is_split = false;
    if (command.ptr) {
        struct search_reading *reworded = ARENA_NEW(arena, struct search_reading);
        if (!reworded)
            return ERR_NOMEM;
        search_query_read(index, command, reworded);
        int status = search_split_transfer(index, arena, reworded, things, is_split);
        if (status != OK || *is_split)
            return status;
    }
    return search_split_transfer(index, arena, r, things, is_split);
}

int search_split(struct search_index *index, struct arena *arena, slice query, slice *things,
                 size_t max, size_t *count)
{
    struct search_reading *r = ARENA_NEW(arena, struct search_reading);
    size_t first = 0;
    *count = 0;
    if (!r || search_index_prepare(index) != OK)
        return ERR_NOMEM;
    search_query_read(index, query, r);
    slice ordered = search_reword_order(index, arena, r);
    if (ordered.ptr)
        search_query_read(index, ordered, r);
    for (size_t i = 1; i < r->count && *count + 1 < max; i++) {
        size_t next = first == 0 && follows_origin(index, r, i) ? i : begins_at(index, r, first, i);
        if (next == 0 || content_between(r, first, i) == 0)
            continue;
        if (add_thing(index, arena, r, first, i, things, count) != OK)
            return ERR_NOMEM;
        first = i = next;
    }
    if (*count == 0) {
        bool is_split = false;
        if (max > 1 && split_clause(index, arena, r, things, &is_split) != OK)
            return ERR_NOMEM;
        if (!is_split)
            things[0] = query;
        *count = is_split ? 2 : 1;
        return OK;
    }
    return add_thing(index, arena, r, first, r->count, things, count);
}
