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

static bool has_app_name(const struct search_reading *r, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        if (r->parts[i].is_known && r->parts[i].term->is_app_name)
            return true;
    return false;
}

static bool has_location(const struct search_reading *r, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        if (r->parts[i].classes & (WORD_LOCATION | WORD_CHANNEL))
            return true;
    return has_app_name(r, first, end);
}

/* Whether the words before `at` say only with what the rest is done: "for each invoice | create a
 * row", "from the list | make contacts", "use the list to | make contacts". */
static bool follows_origin(const struct search_index *index, const struct search_reading *r,
                           size_t at)
{
    const struct search_part *part = &r->parts[at];
    bool is_used = search_part_is_any(r->parts, "use") && search_part_is_any(part - 1, "to") &&
                   !has_location(r, at, r->count);
    return (is_used || search_part_is_any(r->parts, "for from")) && at + 1 < r->count &&
           part->term && !part->is_quoted && !(part->classes & (WORD_STOP | WORD_PREPOSITION)) &&
           (part->term->is_verb || means_verb(index, part->term)) &&
           (is_used || r->parts[at + 1].classes & WORD_DETERMINER);
}

/* If the words only say where something is, "they are listed in Airtable", returns the part that
 * says where; otherwise 0. */
static size_t placed_at(const struct search_reading *r, size_t first, size_t end)
{
    size_t at = first + 1;
    if (r->parts[first].classes & WORD_DETERMINER)
        at++;
    else if (!search_part_is_any(&r->parts[first], "it they"))
        return 0;
    if (at >= end || !search_part_is_any(&r->parts[at], "is are s re"))
        return 0;
    at++;
    if (at < end && search_part_is_any(&r->parts[at], "listed kept stored saved"))
        at++;
    bool is_located = at + 1 < end && search_part_is_any(&r->parts[at], "in on") &&
                      has_location(r, at + 1, end);
    return is_located ? at : 0;
}

/* Whether the parts say that the listener does something first: "after you closed the ticket",
 * "before merging the branch". */
static bool is_done_first(const struct search_part *parts)
{
    slice next = slice_of(parts[1].token.text, parts[1].token.len);
    return search_part_is_any(parts, "after before once when") &&
           (search_part_is_any(&parts[1], "you") || slice_ends_with(next, SLICE("ing")));
}

/* Whether the colon before `at` separates two requests: "the sheet has the prices: change them in
 * Stripe"; not "gmail: send a mail", nor a text after the colon. */
static bool is_colon_joint(const struct search_reading *r, size_t first, size_t at)
{
    bool is_noun = true; /* "all leads without a number: write them a mail" */
    for (size_t i = first; i < at; i++)
        is_noun = is_noun && !search_part_is_any(&r->parts[i], "is are was were has have");
    if (is_noun && at + 1 < r->count && search_part_is_any(&r->parts[at + 1], "it them"))
        return true;
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
    return is_question || may_be_command(index, &r->parts[at], &r->parts[at + 1]) ||
                   search_begins_wish(index, r, at) ||
                   placed_at(r, at, search_clause_end(r, at, r->count)) > 0
               ? at
               : 0;
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

/* Whether the parts at `at` say that something is in a mail: "from the mail", "that came by mail",
 * "which Anna emailed". */
static bool is_mail_at(const struct search_reading *r, size_t first, size_t at, size_t end)
{
    if (at == first)
        return false;
    const struct search_part *part = &r->parts[at], *before = part - 1;
    bool is_by_person = before->is_capital || search_part_is_any(before, "he she they") ||
                        (at + 1 < end && search_part_is_any(part + 1, "me us"));
    if (search_part_is_any(part, "emailed mailed sent forwarded") && at > first + 1 && is_by_person)
        return !has_location(r, first, end);
    if (!search_part_is_any(part, "mail email") || at < first + 2)
        return false;
    while (before > &r->parts[first + 1] && (before->is_content || before->classes & WORD_TIME))
        before--;
    if (before->classes & WORD_DETERMINER)
        return search_part_is_any(before - 1, "in from of");
    before = part - 1;
    return search_part_is_any(before, "by via") &&
           search_part_is_any(before - 1, "got get came come comes received arrived sent write "
                                          "writes wrote written me us in");
}

const char *search_mail_reading(const struct search_reading *r, size_t first, size_t end)
{
    size_t mail = first;
    while (mail < end && !is_mail_at(r, first, mail, end))
        mail++;
    if (mail == end)
        return NULL;
    for (size_t i = first; i < end; i++)
        if (search_part_is_any(&r->parts[i], "attachment attachments document file files pdf photo "
                                             "picture receipt"))
            return "get attachment mail";
    return "get message mail";
}

const char *search_adding_verb(const struct search_reading *r, size_t first, size_t end)
{
    static const struct {
        const char *containers, *verb;
    } rows[] = {
        {"sheet spreadsheet excel timesheet", "append values"},
        {"calendar", "create event"},
        {"inbox mailbox", "send mail"},
        {"dropbox drive folder", "upload file"},
        {"board", "create card"},
        {"slack discord telegram chat channel", "post message"},
        {"mailing newsletter sendgrid", "add contacts"},
    };
    /* "the accounting folder", "a file in Dropbox" */
    for (size_t i = first; i < end && i < first + 5; i++) {
        for (size_t k = 0; k < ARRAY_LEN(rows); k++)
            if (search_part_is_any(&r->parts[i], rows[k].containers))
                return rows[k].verb;
        if (r->parts[i].classes & WORD_PREPOSITION && !search_part_is_any(&r->parts[i], "in on"))
            return NULL;
    }
    return NULL;
}

static bool has_chat(const struct search_reading *r, size_t first, size_t end)
{
    while (first < end && !search_part_is_any(&r->parts[first], "slack telegram discord chat"))
        first++;
    return first < end;
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
    if (is_done_first(parts)) {
        *skipped = search_part_is_any(&parts[1], "you") ? 2 : 1;
        if (*skipped + 1 < end - first && search_part_is_any(&parts[*skipped], "have ve"))
            ++*skipped;
        return "";
    }
    if (search_part_is_any(parts, "if when whenever once after for from use") &&
        !(parts[1].classes & WORD_QUESTION))
        return "list";
    if (search_part_is_any(parts, "take pull grab extract collect"))
        return is_many ? "list" : "get";
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
    bool is_pronoun = first + 1 < end && search_part_is_any(&parts[1], "it them him her");
    bool is_people = is_pronoun && search_part_is_any(parts, "add") &&
                     !search_part_is_any(&parts[1], "it");
    if (parts->means.len > 0 && !search_part_is_any(parts, "put"))
        return NULL;
    if (!search_part_is_any(parts, "put save store stick drop") &&
        !(is_pronoun &&
          (!parts->is_known || search_part_is_any(parts, "add upload paste share forward pass"))))
        return NULL;
    for (size_t at = first + 2; at + 1 < end; at++) {
        const char *verb = search_part_is_any(&r->parts[at], "in into to on")
                               ? search_adding_verb(r, at + 1, end)
                               : NULL;
        *skipped = at + 1 - first;
        if (verb)
            return is_people && has_chat(r, at + 1, end) ? "invite to" : verb;
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
    if (first + 3 < end && search_part_is_any(parts, "mail email") &&
        parts[1].classes & WORD_DETERMINER &&
        search_part_is_any(&parts[2], "list result results number numbers names summary report"))
        return "send a mail";
    for (*skipped = 2; first + *skipped + 1 < end; ++*skipped)
        if (search_part_is_any(parts, "give show") && search_part_is_any(&parts[1], "me us") &&
            search_part_is_any(&parts[*skipped], "on in via") &&
            search_part_is_any(&parts[*skipped + 1], "slack telegram discord"))
            return "send a message"; /* "give me its status on Telegram" */
    *skipped = 1;
    for (size_t i = first + 1; i < end; i++)
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

/* Returns how what is read after `*skipped` words is read if it is in a container: "get values" for
 * "the names from the sheet"; otherwise `verb`. */
static const char *contents_verb(const struct search_reading *r, size_t first, size_t end,
                                 size_t *skipped, const char *verb)
{
    size_t begin = first + *skipped;
    while (begin < end && r->parts[begin].classes & WORD_DETERMINER)
        begin++;
    const char *contents = search_contents_of(r, begin, end, &begin);
    if (!contents)
        return verb;
    *skipped = begin - first;
    return contents;
}

/* One request of a sentence. */
struct request {
    const struct search_reading *r;
    size_t first, end;
    bool is_followed, is_later; /* another request comes after it, before it */
};

/* Returns the verb that replaces the first `*skipped` words of the request; NULL if they remain. */
static const char *verb_of(const struct search_index *index, const struct request *q,
                           size_t *skipped)
{
    const char *verb = NULL;
    size_t placed = q->is_later ? placed_at(q->r, q->first, q->end) : 0;
    if (placed > 0) {
        *skipped = placed - q->first;
        return contents_verb(q->r, q->first, q->end, skipped, "list");
    }
    *skipped = 1;
    if (q->is_followed)
        verb = reading_verb(index, q->r, q->first, q->end, skipped);
    if (verb ? slice_has_word(SLICE("list get"), slice_cstr(verb))
             : q->is_followed && (q->r->parts[q->first].classes & WORD_READS ||
                                  search_part_is_any(&q->r->parts[q->first], "copy open"))) {
        *skipped = verb ? *skipped : 1;
        verb = contents_verb(q->r, q->first, q->end, skipped, verb);
    }
    if (!verb)
        verb = adding_verb(q->r, q->first, q->end, skipped);
    return verb || !q->is_later ? verb : writing_verb(q->r, q->first, q->end, skipped);
}

/* Adds the request of these parts. One that says what should be so is reworded first. Returns OK or
 * ERR_NOMEM. */
static int add_thing(struct search_index *index, struct arena *arena,
                     const struct search_reading *r, size_t first, size_t end, slice *things,
                     size_t *count)
{
    struct request q = {r, first, end, .is_followed = end != r->count, .is_later = *count != 0};
    bool may_be_wish = first + 1 < end && !(r->parts[first].classes & WORD_QUESTION) &&
                       !may_be_command(index, &r->parts[first], &r->parts[first + 1]);
    slice wish = may_be_wish ? search_reword_wish(index, arena, r, first, end) : SLICE_NONE;
    if (wish.ptr) {
        struct search_reading *reworded = ARENA_NEW(arena, struct search_reading);
        if (!reworded)
            return ERR_NOMEM;
        search_query_read(index, wish, reworded);
        q.r = reworded;
        q.first = 0;
        q.end = reworded->count;
    }
    size_t skipped = 0;
    const char *verb = verb_of(index, &q, &skipped);
    ASSERT(skipped <= q.end - q.first || !verb);
    slice thing = search_parts_text(q.r, q.first + (verb ? skipped : 0), q.end);
    slice last = verb && skipped > 0 ? q.r->parts[q.first + skipped - 1].token.source : SLICE_NONE;
    if (last.ptr) /* keeps a quotation mark before the first part */
        thing =
            slice_of(last.ptr + last.len, (size_t)(thing.ptr + thing.len - (last.ptr + last.len)));
    thing = slice_trim(thing);
    if (verb)
        thing = slice_trim(arena_printf(arena, "%s %.*s", verb, SLICE_ARG(thing)));
    things[(*count)++] = thing;
    return thing.ptr ? OK : ERR_NOMEM;
}

/* A sentence that says what should be so is tried as a command first. */
static int split_clause(struct search_index *index, struct arena *arena,
                        const struct search_reading *r, slice things[2], bool *is_split)
{
    slice command = search_reword_wish(index, arena, r, 0, r->count);
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

/* Returns the end of words that only ask for what comes after them: "I would like you to", "don't
 * forget to", "can you please". Returns `first` if there are none. */
static size_t politeness_end(const struct search_index *index, const struct search_reading *r,
                             size_t first)
{
    size_t end = first;
    const struct search_part *parts = r->parts;
    while (end + 1 < r->count &&
           search_part_is_any(&parts[end], "i we you d would could can will ll like love want need "
                                           "have has got forgot forget must should please help me "
                                           "us try remember don t do make sure to just still also "
                                           "quickly and then now"))
        end++;
    while (end > first &&
           !search_part_is_any(&parts[end - 1], "to please just quickly you we i must should"))
        end--;
    return end > first && may_be_command(index, &parts[end], &parts[end + 1]) ? end : first;
}

/* Returns the end of words that say when the rest is to be done: "tomorrow at 9", "every Friday",
 * "before the call with Acme". Returns `first` if there are none. */
static size_t time_end(const struct search_reading *r, size_t first)
{
    size_t end = search_clause_end(r, first, r->count);
    bool has_time = false;
    if (end + 1 < r->count && search_part_is_any(&r->parts[first], "before") &&
        !is_done_first(&r->parts[first]) && !has_location(r, first, end))
        return end;
    for (end = first; end + 1 < r->count; end++) {
        bool is_time = r->parts[end].classes & WORD_TIME || r->parts[end].is_name;
        if (!is_time &&
            !search_part_is_any(&r->parts[end], "at on in every each by from once a the"))
            break;
        has_time = has_time || r->parts[end].classes & WORD_TIME;
    }
    while (end > first && !(r->parts[end - 1].classes & WORD_TIME || r->parts[end - 1].is_name))
        end--;
    return has_time ? end : first;
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
    size_t begin = r->count > 0 ? time_end(r, 0) : 0;
    begin = begin < r->count ? politeness_end(index, r, begin) : 0;
    if (begin > 0) {
        query = arena_dup(arena, search_parts_text(r, begin, r->count));
        if (!query.ptr)
            return ERR_NOMEM;
        search_query_read(index, query, r);
    }
    for (size_t i = first + 1; i < r->count && *count + 1 < max; i++) {
        size_t next = *count == 0 && follows_origin(index, r, i) ? i
                                                                 : begins_at(index, r, first, i);
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
