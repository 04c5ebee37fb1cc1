/*
 * Rewords a sentence that says how something should be as a command: "for each mail a card should
 * be created" is "create a card for each mail". The verb of such a sentence is at its end, and
 * transfer.c expects it at the beginning.
 */
#include "search/reading.h"

/* "for each mail | a card | should be | created | in Trello": the subject begins at `subject` and
 * ends at `end`; the other words follow at `rest`. */
struct wish {
    const struct search_index *index;
    const struct search_reading *r;
    size_t subject, end, rest;
    size_t stop; /* the end of the parts that are read */
    slice verb;
    const char *joint; /* if the rest is the object, the word before the subject; else NULL */
    char base[SEARCH_WORD_BYTES_MAX];
};

static bool is_at(const struct wish *w, size_t at, const char *words)
{
    return at < w->stop && search_part_is_any(&w->r->parts[at], words);
}

static bool has_class(const struct wish *w, size_t at, uint32_t classes)
{
    return at < w->stop && w->r->parts[at].classes & classes;
}

static bool is_app(const struct wish *w, size_t at)
{
    return w->r->parts[at].is_known && w->r->parts[at].term->is_app_name;
}

static size_t skip_adverbs(const struct wish *w, size_t at)
{
    while (is_at(w, at, "also always then now please just only automatically directly"))
        at++;
    return at;
}

size_t search_clause_end(const struct search_reading *r, size_t first, size_t stop)
{
    size_t end = first + 1;
    while (end < stop && !r->parts[end].begins_clause)
        end++;
    return end;
}

static bool know_verb(struct wish *w, slice stem, const char *ending)
{
    size_t len = stem.len, more = strlen(ending);
    if (len < 2 || len + more > sizeof(w->base))
        return false;
    memcpy(w->base, stem.ptr, len);
    memcpy(w->base + len, ending, more);
    w->verb = slice_of(w->base, len + more);
    return search_index_word(w->index, w->verb) != NULL;
}

/* Sets the verb to that of a participle: "create" for "created". Returns false if the word is none
 * that the index knows. */
static bool read_participle(struct wish *w, size_t at)
{
    static const char *const irregular[][2] = {
        {"sent", "send"},   {"told", "tell"},   {"written", "write"}, {"made", "make"},
        {"given", "give"},  {"put", "put"},     {"kept", "keep"},     {"brought", "bring"},
        {"shown", "show"},  {"taken", "take"},  {"built", "build"},   {"paid", "pay"},
        {"found", "find"},  {"drawn", "draw"},  {"read", "read"},     {"set", "set"},
        {"hidden", "hide"}, {"chosen", "pick"},
    };
    if (at >= w->stop || w->r->parts[at].is_quoted)
        return false;
    slice word = slice_of(w->r->parts[at].token.text, w->r->parts[at].token.len);
    for (size_t i = 0; i < ARRAY_LEN(irregular); i++)
        if (slice_eq_cstr(word, irregular[i][0])) {
            w->verb = slice_cstr(irregular[i][1]);
            return true;
        }
    if (!slice_ends_with(word, SLICE("ed")) || word.len < 4)
        return false;
    slice stem = slice_first(word, word.len - 2);
    bool is_double = stem.len > 2 && stem.ptr[stem.len - 1] == stem.ptr[stem.len - 2];
    return (stem.ptr[stem.len - 1] == 'i' && know_verb(w, slice_first(stem, stem.len - 1), "y")) ||
           know_verb(w, stem, "e") || know_verb(w, stem, "") ||
           (is_double && know_verb(w, slice_first(stem, stem.len - 1), ""));
}

/* Reads what should happen to the subject, from `at` on. Returns false if it is not known. */
static bool read_predicate(struct wish *w, size_t at)
{
    at = skip_adverbs(w, at);
    w->rest = at + 1;
    if (is_at(w, at, "be is are get") && read_participle(w, skip_adverbs(w, at + 1))) {
        w->rest = skip_adverbs(w, at + 1) + 1;
        /* "the deal should be mentioned in Slack" */
        if (slice_has_word(SLICE("mention announce explain report greet welcome congratulate"),
                           w->verb) &&
            is_at(w, w->rest, "in on to")) {
            w->verb = SLICE("post a message");
            w->joint = "about";
        }
        return true;
    }
    if (is_at(w, at, "become") && has_class(w, at + 1, WORD_INDEFINITE)) {
        w->verb = SLICE("create");
        w->joint = "from";
        return true;
    }
    if (is_at(w, at, "get receive have") && has_class(w, at + 1, WORD_DETERMINER)) {
        w->verb = SLICE("send");
        return true;
    }
    if (!is_at(w, at, "be go goes come land appear end belong belongs"))
        return false;
    w->rest = skip_adverbs(w, is_at(w, at + 1, "up") ? at + 2 : at + 1);
    bool is_placed = false;
    w->verb = SLICE("put");
    for (size_t i = w->subject; i < w->stop; i++) {
        is_placed = is_placed || has_class(w, i, WORD_LOCATION) || is_app(w, i);
        if (has_class(w, i, WORD_CHANNEL))
            w->verb = SLICE("send");
    }
    if (!is_placed && is_at(w, w->rest, "to")) /* "the offer should go to the customer" */
        w->verb = SLICE("mail");
    if (is_at(w, w->end - 1, "text") && is_at(w, w->rest, "to")) { /* "a text should go to Ada" */
        w->verb = SLICE("text");
        w->subject = w->end;
        w->rest++;
        return true;
    }
    return is_at(w, w->rest, "in on into onto to as by");
}

/* If the words at `at` say that something should be so, returns the part after them; else `at`. */
static size_t after_modal(const struct wish *w, size_t at)
{
    if (is_at(w, at, "should must shall"))
        return at + 1;
    return is_at(w, at, "has have needs need ought are is") && is_at(w, at + 1, "to") ? at + 2 : at;
}

/* Whether the clause that begins at the part says when something is wanted: "when a mail comes". */
static bool is_condition(const struct wish *w, size_t first)
{
    return is_at(w, first, "if when whenever") ||
           (is_at(w, first, "every each") && is_at(w, first + 1, "time"));
}

/* Whether no condition comes before the part in its clause. */
static bool is_alone(const struct wish *w, size_t at)
{
    while (!w->r->parts[at].begins_clause)
        at--;
    return !is_condition(w, at);
}

/* Whether only words without a meaning of their own, or a condition, come before `at` in its
 * clause. */
static bool is_first(const struct wish *w, size_t at)
{
    if (!is_alone(w, at))
        return true;
    while (!w->r->parts[at].begins_clause)
        if (!has_class(w, --at, WORD_STOP | WORD_TIME) && !is_at(w, at, "once"))
            return false;
    return true;
}

/* Reads "I want the mails to be in a sheet" and "the mails I need in a sheet" from the pronoun on,
 * and "my boss wants the mails in a sheet" from the verb on. Returns false if it is none of them.
 */
static bool read_want(struct wish *w, size_t at)
{
    size_t next = is_at(w, at + 1, "d would") ? at + 2 : at + 1;
    bool is_other = is_at(w, at, "wants") && !w->r->parts[at].begins_clause;
    if (is_other)
        next = at;
    else if (!is_at(w, at, "i we") || !is_at(w, next, "want need like love"))
        return false;
    next++;
    if (is_at(w, next, "to") && is_at(w, next + 1, "have see get"))
        next += 2;
    if (!is_other && !is_first(w, at) && is_at(w, next, "to") && next + 1 < w->stop) {
        const struct search_token *verb = &w->r->parts[next + 1].token; /* "whom I want to call" */
        w->verb = slice_of(verb->text, verb->len);
        w->end = at;
        w->rest = next + 2;
        return verb->len > 0;
    }
    bool is_new = has_class(w, is_other || is_first(w, at) ? next : w->subject, WORD_INDEFINITE);
    w->verb = is_new ? SLICE("create") : SLICE("put");
    if (!is_other && !is_first(w, at)) {
        w->end = at;
        w->rest = next;
        return is_at(w, next, is_new ? "for from with" : "in on into onto as");
    }
    w->subject = next;
    for (size_t i = next + 1; i < w->stop; i++) {
        w->end = i;
        w->rest = i + 1;
        if ((is_at(w, i, "to") && read_predicate(w, i + 1)) ||
            (has_class(w, i + 1, WORD_PREPOSITION) && read_participle(w, i)))
            return true;
    }
    w->verb = is_new ? SLICE("create") : SLICE("put");
    w->end = w->rest = w->stop;
    return next < w->stop && (!is_new || !is_alone(w, at));
}

/* Returns where the subject of the clause begins, after a place or a condition: "in the calendar |
 * the dates". */
static size_t subject_of(const struct wish *w, size_t first, size_t end)
{
    const struct search_part *parts = w->r->parts;
    if (!(parts[first].classes & WORD_PREPOSITION))
        return first;
    for (size_t i = first + 2; i < end; i++)
        if (parts[i].classes & WORD_DETERMINER && parts[i - 1].is_content)
            return i;
    return end;
}

/* Words with which a clause asks for what its predicate says. */
struct opening {
    const char *words[5]; /* one part fits each of them */
    const char *predicate;
};

static const struct opening openings[] = {
    {{"can could should must let"}, "be get"},
    {{"make", "sure", "that"}, "is are"},
    {{"make", "sure"}, "is are"},
    {{"it", "would", "be", "great nice good cool", "if"}, "could would"},
};

static size_t opening_len(const struct wish *w, size_t first, const struct opening *opening)
{
    size_t len = 0;
    while (len < ARRAY_LEN(opening->words) && opening->words[len]) {
        if (!is_at(w, first + len, opening->words[len]))
            return 0;
        len++;
    }
    return len;
}

/* Reads what the subject, which ends at `at`, needs or should become. */
static bool read_demand(struct wish *w, size_t at, const char *asked)
{
    bool is_modal = is_at(w, at, "could would") && is_at(w, at, asked);
    size_t next = is_modal ? at + 1 : after_modal(w, at);
    if ((next > at || is_at(w, at, asked) || is_at(w, at, "goes belongs")) &&
        read_predicate(w, next))
        return true;
    w->verb = SLICE("put");
    w->rest = at + 2;
    if (is_at(w, at, "is are") && is_at(w, at + 1, "needed wanted required"))
        return is_at(w, at + 2, "in on into");
    w->verb = SLICE("create");
    w->joint = "for";
    w->rest = at + 1;
    for (size_t i = at + 2; i < at + 5; i++)
        if (has_class(w, i, WORD_LETTER | WORD_CHANNEL)) { /* "gets a thank-you mail" */
            w->verb = SLICE("send");
            w->joint = "to";
        }
    return is_at(w, at, "needs need gets requires receives deserves deserve") &&
           has_class(w, at + 1, WORD_INDEFINITE) &&
           (has_class(w, w->subject, WORD_DETERMINER) ||
            is_at(w, w->subject, "whoever everyone everybody"));
}

/* Reads "have the guests invited to the channel". */
static bool read_have(struct wish *w, size_t first, size_t end)
{
    while (first < end && is_at(w, first, "please and then"))
        first++;
    w->subject = first + 1;
    w->joint = NULL;
    for (size_t i = first + 2; is_at(w, first, "have get") && i + 1 < end; i++) {
        w->end = i;
        w->rest = i + 1;
        if (w->r->parts[i].classes & WORD_OPENS ||
            (w->r->parts[i].is_capital && !has_class(w, i, WORD_TIME)))
            return false;
        if (has_class(w, i + 1, WORD_PREPOSITION) && read_participle(w, i))
            return true;
    }
    return false;
}

/* Finds the wish in the clause of these parts. */
static bool read_clause(struct wish *w, size_t first, size_t end)
{
    const char *asked = "";
    if (read_have(w, first, end))
        return true;
    for (size_t i = 0, len = 0; i < ARRAY_LEN(openings) && len == 0; i++) {
        len = opening_len(w, first, &openings[i]);
        asked = len > 0 ? openings[i].predicate : asked;
        first += len;
    }
    for (size_t i = first; i < end; i++) {
        if (!(w->r->parts[i].classes & WORD_WISH) && w->r->parts[i].means.len == 0)
            continue; /* a phrase has lost its class: "should get" */
        w->joint = NULL;
        w->subject = first;
        if (read_want(w, i))
            return true;
        w->subject = subject_of(w, first, i);
        w->end = i;
        if (w->subject < i && read_demand(w, i, asked))
            return true;
    }
    return false;
}

slice search_reword_wish(const struct search_index *index, struct arena *arena,
                         const struct search_reading *r, size_t begin, size_t stop)
{
    struct wish w = {.index = index, .r = r, .stop = stop};
    for (size_t first = begin, end; first < stop; first = end) {
        end = search_clause_end(r, first, stop);
        if (!read_clause(&w, first, end))
            continue;
        /* "for each mail | a card", but not "make sure that | a card" */
        bool leads = r->parts[first].classes & WORD_PREPOSITION || is_condition(&w, first);
        slice lead = search_parts_text(r, begin, leads ? w.subject : first);
        slice subject = search_parts_text(r, w.subject, w.end);
        slice rest = search_parts_text(r, w.rest, stop);
        return w.joint ? arena_printf(arena, "%.*s %.*s %s %.*s %.*s", SLICE_ARG(w.verb),
                                      SLICE_ARG(rest), w.joint, SLICE_ARG(subject), SLICE_ARG(lead))
                       : arena_printf(arena, "%.*s %.*s %.*s %.*s", SLICE_ARG(w.verb),
                                      SLICE_ARG(subject), SLICE_ARG(rest), SLICE_ARG(lead));
    }
    return SLICE_NONE;
}

bool search_begins_wish(const struct search_index *index, const struct search_reading *r, size_t at)
{
    struct wish w = {.index = index, .r = r, .stop = search_clause_end(r, at, r->count)};
    bool is_new = r->parts[at].ends_sentence ||
                  search_part_is_any(&r->parts[at], "it they he she this that these i we");
    return is_new && read_clause(&w, at, w.stop);
}

/* ---- the verb at the end ---- */

/* Whether the words of these parts end with a command that follows its object: "the colleagues in
 * Slack | inform". */
static bool is_verb_last(const struct search_index *index, const struct search_reading *r,
                         size_t first, size_t end)
{
    const struct search_part *last = &r->parts[end - 1], *part = &r->parts[first];
    if (end < first + 3 || last->token.len == 0 ||
        !search_part_is_any(last, "add attach book call cancel close create delete enter forward "
                                  "inform invite make move notify open put remind remove save "
                                  "send take tell update upload write"))
        return false;
    /* "what I have to send", "the mail that we send" */
    for (size_t i = first; i + 1 < end; i++)
        if (r->parts[i].classes & (WORD_QUESTION | WORD_RELATIVE) ||
            search_part_is_any(&r->parts[i], "to that i we you he she they"))
            return false;
    while (first + 1 < end && part->classes & WORD_STOP &&
           !(part->classes & (WORD_DETERMINER | WORD_PREPOSITION)))
        part = &r->parts[++first];
    return part->classes & (WORD_DETERMINER | WORD_PREPOSITION) || !search_may_be_verb(index, part);
}

/* Returns the end of the words that begin at `first`, before the next clause or "and". */
static size_t words_end(const struct search_reading *r, size_t first)
{
    size_t end = first + 1;
    while (end < r->count && !r->parts[end].begins_clause &&
           !search_part_is_any(&r->parts[end], "and"))
        end++;
    return end;
}

slice search_reword_order(const struct search_index *index, struct arena *arena,
                          const struct search_reading *r)
{
    slice out = SLICE_NONE;
    size_t copied = 0; /* parts that `out` has */
    for (size_t first = 0, end; first < r->count; first = end) {
        end = words_end(r, first);
        first += search_part_is_any(&r->parts[first], "and then");
        if (first >= end || !is_verb_last(index, r, first, end))
            continue;
        out = arena_printf(arena, "%.*s %.*s %.*s %.*s", SLICE_ARG(out),
                           SLICE_ARG(search_parts_text(r, copied, first)),
                           SLICE_ARG(search_parts_text(r, end - 1, end)),
                           SLICE_ARG(search_parts_text(r, first, end - 1)));
        copied = end;
    }
    return copied == 0 ? SLICE_NONE
                       : arena_printf(arena, "%.*s %.*s", SLICE_ARG(out),
                                      SLICE_ARG(search_parts_text(r, copied, r->count)));
}
