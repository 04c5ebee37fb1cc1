/*
 * Splits a sentence of one clause that needs two apps: "put the events of next week into a Notion
 * page" reads events, and makes a page. One query is for what is read, the other for what is done
 * with it: "list events of next week", "put the events into a Notion page".
 *
 * Grammar only proposes where to cut: at a preposition, a relative word or an "and". The index
 * decides: the two parts have to find actions of different apps, and the app that is written to
 * must not itself have what is read.
 */
#include "search/reading.h"

enum { READ_HITS_MAX = 10, CUTS_MAX = 4 };

/* An app counts as having what is read if one of its actions has at least this share of the best
 * score. */
static const float own_share = 0.6f;

struct sentence {
    struct search_index *index;
    struct arena *arena;
    const struct search_reading *r;
    size_t verb; /* its command */
    size_t tries;
    slice *things; /* two */
    float score;   /* of the best action for each */
};

static bool is_any_word(const struct search_part *part, const char *words)
{
    return part->token.len > 0 && !part->is_quoted &&
           slice_has_word(slice_cstr(words), slice_of(part->token.text, part->token.len));
}

/* Whether the command says by which channel a message is sent: "text Ada". */
static bool is_channel_verb(const struct sentence *s)
{
    return is_any_word(&s->r->parts[s->verb], "text call phone ring dial sms mail email");
}

static bool names_app(const struct search_part *part)
{
    return part->is_known && part->term->is_app_name;
}

static bool names_app_in(const struct sentence *s, size_t first)
{
    while (first < s->r->count && !names_app(&s->r->parts[first]))
        first++;
    return first < s->r->count;
}

static bool has_location(const struct sentence *s, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        if (names_app(&s->r->parts[i]) || s->r->parts[i].classes & (WORD_LOCATION | WORD_CHANNEL) ||
            (i == s->verb && is_channel_verb(s)))
            return true;
    return false;
}

/* Returns where a part begins in the text; a sign begins where the word before it ends. */
static const char *start_of(const struct search_reading *r, size_t at)
{
    if (at >= r->count)
        return r->text + strnlen(r->text, SEARCH_QUERY_BYTES_MAX);
    for (size_t i = at + 1; i-- > 0;) {
        slice source = r->parts[i].token.source;
        if (source.ptr)
            return i == at ? source.ptr : source.ptr + source.len;
    }
    return r->text;
}

static slice words_of(const struct sentence *s, size_t first, size_t end)
{
    const char *start = start_of(s->r, first);
    return slice_trim(slice_of(start, (size_t)(start_of(s->r, end) - start)));
}

static slice join_words(const struct sentence *s, slice left, slice right)
{
    return left.len == 0 ? right
                         : arena_printf(s->arena, "%.*s %.*s", SLICE_ARG(left), SLICE_ARG(right));
}

/* Returns the object without its app and its description: "the message" for "the Telegram message
 * of Ben". */
static slice head_of(const struct sentence *s, size_t first, size_t end)
{
    slice head = SLICE("");
    for (size_t i = first; i < end && !(s->r->parts[i].classes & WORD_PREPOSITION && i > first);
         i++)
        if (!names_app(&s->r->parts[i]))
            head = join_words(s, head, words_of(s, i, i + 1));
    return head;
}

/* Returns the query for what is read; SLICE_NONE if none of its words is a thing. */
static slice read_of(const struct sentence *s, size_t first, size_t end)
{
    bool is_many = false, has_thing = false;
    for (size_t i = s->verb + 1; i < end; i++) {
        const struct search_part *part = &s->r->parts[i];
        if (part->is_sender)
            return SLICE_NONE;
        is_many = is_many || is_any_word(part, "all each every") ||
                  search_text_is_plural(slice_of(part->token.text, part->token.len));
        has_thing = has_thing || (i >= first && part->is_known && !part->is_quoted &&
                                  !names_app(part) && !(part->classes & (WORD_TIME | WORD_STOP)));
    }
    return has_thing
               ? join_words(s, is_many ? SLICE("list") : SLICE("get"), words_of(s, first, end))
               : SLICE_NONE;
}

static int best_of(const struct sentence *s, slice query, size_t limit, struct search_found **hits,
                   size_t *count)
{
    struct search_request request = {.query = query, .with_actions = true, .limit = limit};
    return search_run(s->index, s->arena, &request, hits, count);
}

/* Splits the sentence into both queries if they belong to two apps. Returns OK or ERR_NOMEM. */
static int try_things(struct sentence *s, slice done, slice read, bool has_command, bool *is_split)
{
    struct search_found *wrote, *hits;
    size_t wrote_count, count;
    if (s->tries == CUTS_MAX)
        return OK;
    s->tries++;
    if (!done.ptr || !read.ptr || best_of(s, done, 1, &wrote, &wrote_count) != OK ||
        best_of(s, read, READ_HITS_MAX, &hits, &count) != OK)
        return ERR_NOMEM;
    *is_split = wrote_count > 0 && count > 0 && (hits[0].is_high || has_command);
    for (size_t i = 0; *is_split && i < (has_command ? 1 : count); i++)
        if (s->index->docs[hits[i].doc].integration == s->index->docs[wrote[0].doc].integration &&
            hits[i].score >= own_share * hits[0].score)
            *is_split = false;
    s->score = *is_split ? wrote[0].score + hits[0].score : 0;
    s->things[0] = done;
    s->things[1] = read;
    return OK;
}

/* Splits "in HubSpot and in Salesforce" or "in Slack and Discord": the command applies to both. */
static int try_both(struct sentence *s, size_t joint, bool *is_split)
{
    const struct search_part *next = &s->r->parts[joint + 1];
    size_t location = joint - 1;
    while (location > s->verb && !(s->r->parts[location].classes & WORD_PREPOSITION))
        location--;
    bool is_location = next->classes & WORD_PREPOSITION ||
                       (names_app(next) && has_location(s, location, joint));
    if (location == s->verb || !is_location)
        return OK;
    size_t end = next->classes & WORD_PREPOSITION ? location : location + 1;
    return try_things(s, words_of(s, 0, joint),
                      join_words(s, words_of(s, 0, end), words_of(s, joint + 1, s->r->count)), true,
                      is_split);
}

/* Whether the preposition at `at` introduces a channel: "by mail", "in an email". */
static bool is_channel_at(const struct sentence *s, size_t at)
{
    const struct search_part *part = &s->r->parts[at + 1]; /* a cut is before the last part */
    if (part->classes & WORD_INDEFINITE && at + 2 < s->r->count)
        part++;
    return (s->r->parts[at].classes | part->classes) & WORD_CHANNEL;
}

/* Whether the command only reads something, and does not say where to put it. */
static bool is_reading(const struct sentence *s)
{
    const struct search_part *verb = &s->r->parts[s->verb];
    return verb->classes & WORD_READS ||
           is_any_word(verb, "pull export download extract summarize");
}

/* Tries a cut before the target: "put the events of next week | into a Notion page". */
static int try_target(struct sentence *s, size_t cut, bool *is_split)
{
    const struct search_reading *r = s->r;
    const struct search_part *verb = &r->parts[s->verb];
    size_t object = s->verb + 1;
    size_t first = object;                          /* the first part of what is read */
    if (r->parts[object].classes & WORD_INDEFINITE) /* "add a comment with the mail to the card" */
        do
            first++;
        while (first < cut && !(r->parts[first - 1].classes & WORD_PREPOSITION));
    slice read = first < cut ? read_of(s, first, cut) : SLICE_NONE;
    slice target = words_of(s, cut, r->count), start;
    if (!read.ptr || !has_location(s, cut, r->count))
        return OK;
    if (is_any_word(verb, "turn convert transform make") && cut + 1 < r->count) {
        start = SLICE("create");
        target = words_of(s, cut + 1, r->count);
    } else if (is_channel_at(s, cut)) {
        start = SLICE("send");
    } else {
        start = is_reading(s) ? SLICE("put") : words_of(s, 0, object);
        start = join_words(s, start, head_of(s, object, cut));
    }
    return try_things(s, join_words(s, start, target), read, false, is_split);
}

/* Tries a cut before the origin: "make a Trello card | of the message in Discord". Recipients in an
 * app are only read. */
static int try_origin(struct sentence *s, size_t cut, size_t first, bool *is_split)
{
    slice read = read_of(s, first, s->r->count);
    if (!read.ptr || !has_location(s, 0, cut))
        return OK;
    slice done = is_channel_verb(s)
                     ? join_words(s, words_of(s, s->verb, s->verb + 1), SLICE("them"))
                     : words_of(s, 0, cut);
    return try_things(s, done, read, false, is_split);
}

static int try_cut(struct sentence *s, unsigned pass, size_t at, bool *is_split)
{
    const struct search_part *part = &s->r->parts[at];
    if (part->token.len == 0 || part->is_quoted)
        return OK;
    switch (pass) {
    case 0:
        return is_any_word(part, "and") ? try_both(s, at, is_split) : OK;
    case 1:
        return is_any_word(part, "to into onto as by via") ? try_target(s, at, is_split) : OK;
    case 2:
        if (is_channel_verb(s) && is_any_word(part, "in on of from who with"))
            return try_origin(s, at, s->verb + 1, is_split);
        /* "instead of"; "send an SMS to the contacts in HubSpot", not "to Ada" */
        if (part->is_taken || (is_any_word(part, "to") && !names_app_in(s, at)))
            return OK;
        return is_any_word(part, "of from for with to if when whenever once whose which how what")
                   ? try_origin(s, at, at + 1, is_split)
                   : OK;
    default:
        return is_any_word(part, "in on") ? try_target(s, at, is_split) : OK;
    }
}

/* A location that the sentence names: "the Slack channel", with the preposition before it. */
struct location {
    size_t first, end;
};

static bool names_location(const struct search_part *part)
{
    return names_app(part) || part->classes & (WORD_LOCATION | WORD_CHANNEL);
}

/* Finds the next location from `at` on. Returns false if there is none. */
static bool next_location(const struct sentence *s, size_t at, struct location *location)
{
    const struct search_part *parts = s->r->parts;
    while (at < s->r->count &&
           (at == s->verb || parts[at].is_quoted || !names_location(&parts[at])))
        at++;
    if (at == s->r->count)
        return false;
    location->first = location->end = at;
    while (location->end < s->r->count && names_location(&parts[location->end]))
        location->end++;
    while (location->first > s->verb + 1 && parts[location->first - 1].classes & WORD_DETERMINER)
        location->first--;
    if (location->first > s->verb + 1 && parts[location->first - 1].classes & WORD_PREPOSITION)
        location->first--;
    return true;
}

/* Tries to do something at one of two locations with what is read at the other, wherever they are
 * in the sentence: "log the time that the calendar says in Jira". The scores decide which of them
 * is read. */
static int try_locations(struct sentence *s, bool *is_split)
{
    struct location locations[2];
    size_t end = s->r->count;
    slice best[2] = {SLICE_NONE, SLICE_NONE};
    float best_score = 0;
    if (s->verb >= end || !next_location(s, s->verb + 1, &locations[0]) ||
        !next_location(s, locations[0].end, &locations[1]))
        return OK;
    for (unsigned k = 0; k < 2; k++) {
        const struct location *target = &locations[k], *source = &locations[1 - k];
        slice done = join_words(s, words_of(s, 0, source->first), words_of(s, source->end, end));
        slice read =
            join_words(s, words_of(s, s->verb + 1, target->first), words_of(s, target->end, end));
        float score = 0;
        s->tries = 0;
        int status = try_things(s, done, join_words(s, SLICE("list"), read), true, is_split);
        if (status != OK)
            return status;
        score = *is_split ? s->score : 0;
        if (score > best_score) {
            best_score = score;
            best[0] = s->things[0];
            best[1] = s->things[1];
        }
    }
    *is_split = best_score > 0;
    s->things[0] = best[0];
    s->things[1] = best[1];
    return OK;
}

int search_split_transfer(struct search_index *index, struct arena *arena,
                          const struct search_reading *r, slice things[2], bool *is_split)
{
    struct sentence s = {.index = index, .arena = arena, .r = r, .things = things};
    *is_split = false;
    while (s.verb < r->count && !r->parts[s.verb].is_command)
        s.verb++;
    /* a question, or "a new row in the sheet" */
    if (r->count == 0 || r->is_question || r->parts[0].classes & (WORD_INDEFINITE | WORD_QUESTION))
        return OK;
    for (unsigned pass = 0; pass < 4; pass++)
        for (size_t at = s.verb + 2; at + 1 < r->count; at++) {
            if (is_reading(&s) && pass != 1 && !(pass == 3 && is_channel_at(&s, at)))
                continue;
            int status = try_cut(&s, pass, at, is_split);
            if (status != OK || *is_split)
                return status;
        }
    return try_locations(&s, is_split);
}
