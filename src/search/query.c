/*
 * Parses a query, which may be a sentence: what to do, to which object, where, and which text is
 * only passed on (the payload).
 *
 * A text is split into words and clauses. Phrases are replaced by their meaning. The first clause
 * that asks or demands something is the request; the others are context. In a clause, the words
 * before the first preposition are the core. Payload is not searched for: text in quotes, text
 * after "that", "about", a colon or a verb of saying, a name, a number, a time. There is no
 * grammar, only a table of a few hundred words (words.txt) and one pass, so the cost is linear in
 * the number of words. A wrong parse lowers a rank, but no hit depends on the parse alone.
 */
#include "search/reading.h"

#include "base/ascii.h"

enum clause { CLAUSE_STATEMENT, CLAUSE_REQUEST, CLAUSE_QUESTION };

/* The state while the parts are read in order; most of it is reset at each clause. */
struct state {
    const struct search_index *index;
    struct search_reading *reading;
    enum { PAYLOAD_NONE, PAYLOAD_NAME, PAYLOAD_SAID } payload;
    enum search_role role; /* role of the words at this point of the clause */
    bool is_in_phrase;     /* after a preposition */
    bool is_inside;        /* after a preposition that introduces a container */
    size_t content;        /* meaningful words of the clause so far */
    size_t verb;           /* index of the first of them */
    uint32_t verb_classes; /* classes of the verb */
    bool has_things;       /* a word other than an app's name came before */
};

/* ---- phrases ---- */

static slice part_text(const struct search_part *part)
{
    return slice_of(part->token.text, part->token.len);
}

static bool is_part_word(const struct search_part *part, const char *word)
{
    return slice_eq_cstr(part_text(part), word);
}

/* Whether the part's word and `word` are the same, or forms of the same word. */
static bool is_form_of(const struct search_index *index, const struct search_part *part, slice word)
{
    /* The stem is copied, since the stemmer's result is valid only until its next call. */
    char stem[SEARCH_WORD_BYTES_MAX];
    slice text = part_text(part);
    if (slice_eq(text, word))
        return true;
    /* English forms keep their first letter; this test avoids most calls of the stemmer. */
    if (text.len == 0 || text.ptr[0] != word.ptr[0])
        return false;
    slice left = search_text_stem(index->stemmer, text);
    size_t len = left.len;
    memcpy(stem, left.ptr, len);
    return slice_eq(slice_of(stem, len), search_text_stem(index->stemmer, word));
}

/* Matches a phrase whose first word fits at `first`. Returns the number of its words, or 0 if not
 * all were found. Marks its parts in `taken` and sets *end to the part after the last. A phrase
 * does not extend into the next clause or a quotation. */
static size_t match(const struct search_index *index, const struct search_reading *r, size_t first,
                    slice phrase, bool taken[SEARCH_QUERY_WORDS_MAX], size_t *end)
{
    slice rest = phrase;
    size_t at = first + 1, count = 1;
    bool has_gap = false;
    (void)slice_split(&rest, ' ');
    memset(taken, 0, SEARCH_QUERY_WORDS_MAX);
    taken[first] = true;
    while (rest.len > 0) {
        slice word = slice_split(&rest, ' ');
        if (slice_eq(word, SLICE("*"))) {
            has_gap = true;
            continue;
        }
        size_t last = has_gap ? at + SEARCH_GAP_WORDS_MAX : at;
        at += has_gap; /* a gap takes at least one part */
        while (at < r->count && at <= last && !r->parts[at].begins_clause &&
               !(is_form_of(index, &r->parts[at], word) && !r->parts[at].is_quoted))
            at++;
        if (at >= r->count || at > last || r->parts[at].begins_clause)
            return 0;
        taken[at++] = true;
        count++;
        has_gap = false;
    }
    *end = at;
    return count;
}

static void take_phrase(struct search_reading *r, size_t first, size_t end,
                        const struct search_idiom *idiom, const bool *taken)
{
    ASSERT(first < end && end <= r->count && taken[first]);
    struct search_part *part = &r->parts[first];
    bool says_something = idiom->means[0] != '\0';
    part->means = slice_cstr(idiom->means);
    part->classes = says_something ? idiom->classes & ~(uint32_t)WORD_OPENS : WORD_STOP;
    part->is_known = says_something;
    for (size_t i = first + 1; i < end; i++) {
        r->parts[i].is_recipient = !taken[i] && idiom->classes & WORD_SAYS;
        if (!taken[i])
            continue;
        r->parts[i].is_taken = true;
        r->parts[i].is_known = false;
        r->parts[i].classes = i + 1 == end ? idiom->classes & WORD_OPENS : 0;
    }
}

/* If several phrases match, the one with the most words is taken, and of equal ones the one that
 * spans the fewest parts: "let Ann know in the morning" is "let * know", not "let * in".
 * phrase_first and phrase_count limit the candidates to phrases with this first word. */
static void take_phrases(const struct search_index *index, struct search_reading *r)
{
    bool taken[SEARCH_QUERY_WORDS_MAX], best_taken[SEARCH_QUERY_WORDS_MAX];
    for (size_t i = 0; i < r->count; i++) {
        const struct search_part *part = &r->parts[i];
        const struct search_idiom *best = NULL;
        size_t best_words = 0, best_end = 0, end;
        if (!part->term || part->is_quoted || part->is_taken)
            continue;
        ASSERT(part->term->phrase_first + part->term->phrase_count <= index->phrase_count);
        for (uint32_t k = 0; k < part->term->phrase_count; k++) {
            const struct search_phrase *phrase = &index->phrases[part->term->phrase_first + k];
            slice text = search_index_text(index, phrase->text);
            size_t words = match(index, r, i, text, taken, &end);
            if (words < best_words || words == 0 || (words == best_words && end >= best_end))
                continue;
            best = &search_idioms[phrase->idiom];
            best_words = words;
            best_end = end;
            memcpy(best_taken, taken, sizeof(taken));
        }
        if (best)
            take_phrase(r, i, best_end, best, best_taken);
    }
}

/* ---- clauses ---- */

static enum clause clause_at(const struct search_reading *r, size_t first)
{
    for (size_t i = first; i < r->count && (i == first || !r->parts[i].begins_clause); i++) {
        const struct search_part *part = &r->parts[i];
        if (part->classes & WORD_QUESTION)
            return CLAUSE_QUESTION;
        if (part->classes & WORD_SUBJECT)
            return CLAUSE_STATEMENT;
        if (part->classes & WORD_STOP && part->means.len == 0)
            continue;
        return part->is_known && !part->is_quoted && !(part->classes & WORD_TIME)
                   ? CLAUSE_REQUEST
                   : CLAUSE_STATEMENT;
    }
    return CLAUSE_STATEMENT;
}

/* Returns the first word of the clause that is the request; SIZE_MAX if no clause demands or asks
 * anything, so that all clauses count the same. */
static size_t find_request(struct search_reading *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (!r->parts[i].begins_clause)
            continue;
        enum clause clause = clause_at(r, i);
        r->is_question = clause == CLAUSE_QUESTION;
        if (clause != CLAUSE_STATEMENT)
            return i;
    }
    return SIZE_MAX;
}

static bool is_app_name(const struct search_part *part)
{
    ASSERT(!part->is_known || part->term); /* a known part has a term, and so has a phrase */
    return part->is_known && part->term->is_app_name;
}

static bool names_location(const struct search_part *part)
{
    return is_app_name(part) || part->classes & WORD_LOCATION;
}

static void begin_clause(struct state *s, size_t at, size_t request)
{
    const struct search_part *part = &s->reading->parts[at];
    bool is_new = part->ends_sentence || s->payload == PAYLOAD_NAME ||
                  (clause_at(s->reading, at) == CLAUSE_REQUEST && !part->follows_colon);
    if (is_new)
        s->payload = PAYLOAD_NONE;
    if (part->follows_colon && s->has_things && at != request)
        s->payload = PAYLOAD_SAID;
    if (!part->follows_colon || s->has_things) /* "gmail: send" */
        s->role = at == request || request == SIZE_MAX ? ROLE_CORE : ROLE_ASIDE;
    s->is_in_phrase = s->is_inside = false;
    s->content = 0;
    s->verb_classes = 0;
}

/* ---- payload ---- */

static bool is_person(const struct search_part *part)
{
    return slice_has_word(SLICE("me us you him her them"), part_text(part));
}

/* Whether payload begins after this word. */
static bool opens_payload(const struct state *s, size_t at)
{
    const struct search_part *parts = s->reading->parts, *part = &parts[at];
    const struct search_part *next = at + 1 < s->reading->count ? part + 1 : NULL;
    bool is_after_verb = at > 0 && at - 1 == s->verb; /* "delete that", "see who" */
    bool says = s->verb_classes & WORD_SAYS;
    if (s->content == 0 || !next)
        return false;
    ASSERT(at > 0); /* the clause has meaningful words before this one */
    if (part->classes & WORD_DETERMINER && s->verb_classes & WORD_ASKS && s->content > 1 &&
        !s->is_in_phrase && next->is_known)
        return true; /* "text the driver the new address" */
    if (part->classes & WORD_DETERMINER && says && s->content == 1 && at == s->verb + 2 &&
        is_person(&parts[at - 1]))
        return true; /* "mail him the agenda" */
    if (is_part_word(part, "that"))
        return says || !is_after_verb;
    if (part->classes & WORD_OPENS)
        return says || !is_part_word(part, "whether") ||
               !(is_after_verb || s->verb_classes & WORD_READS); /* "check whether Tom is free" */
    if (part->classes & WORD_TELLER)
        return !is_after_verb && parts[at - 1].is_content;
    if (part->classes & WORD_RELATIVE)
        return says || (!is_after_verb &&
                        (parts[at - 1].is_content || parts[at - 1].classes & WORD_PREPOSITION));
    if (is_part_word(part, "to"))
        return s->verb_classes & WORD_ASKS && !(next->classes & WORD_DETERMINER) &&
               !next->is_capital && !next->is_name && !next->is_quoted;
    return is_part_word(part, "for") && s->verb_classes & WORD_THANKS;
}

/* In "that the deploy is at five on slack", the app after a preposition says where to send the
 * payload, so it is part of the request. */
static bool is_location(const struct state *s, size_t at)
{
    const struct search_part *parts = s->reading->parts;
    if (!names_location(&parts[at]))
        return false;
    if (parts[at].means.len > 0) /* "by email" */
        return true;
    while (at > 0 && parts[at - 1].classes & WORD_DETERMINER)
        at--;
    return at > 0 && parts[at - 1].classes & WORD_PREPOSITION;
}

static void read_payload(struct state *s, size_t at)
{
    struct search_part *part = &s->reading->parts[at];
    if (is_location(s, at))
        part->role = ROLE_CORE;
    else if (part->is_known || part->means.len > 0)
        part->role = ROLE_PAYLOAD;
}

/* ---- roles ---- */

static bool has_digit(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (ascii_is_digit(text.ptr[i]))
            return true;
    return false;
}

/* Returns how a word that may be a verb or a noun is used: as a noun after a determiner, a
 * preposition other than "to", or a possessive "s"; as a verb if a clause begins with it and a
 * thing or a person follows. Returns 0 if it may be either. */
static unsigned use_of(const struct state *s, size_t at)
{
    const struct search_part *parts = s->reading->parts, *part = &parts[at];
    const struct search_part *next = at + 1 < s->reading->count ? part + 1 : NULL;
    if (!part->begins_clause) {
        const struct search_part *before = part - 1;
        if (before->classes & WORD_DETERMINER || is_part_word(before, "s") ||
            before->use == AS_NOUN ||
            (before->classes & WORD_PREPOSITION && !is_part_word(before, "to")))
            return AS_NOUN;
    }
    if (s->content == 0 && next && !next->begins_clause &&
        (next->classes & WORD_DETERMINER || next->is_name || next->is_quoted || is_person(next) ||
         is_part_word(next, "it") || (next->is_capital && !next->is_known)))
        return AS_VERB;
    return 0;
}

/* In "the mails from Jira" and "the Jira mails", the app Jira has only sent the mails; they are in
 * a mail app. An app for messages has them itself. */
static bool is_sender(const struct state *s, size_t at)
{
    const struct search_part *part = &s->reading->parts[at];
    if (!is_app_name(part) ||
        search_part_is_any(part, "gmail outlook google sendgrid slack telegram discord twilio"))
        return false;
    if (at + 1 < s->reading->count && search_part_is_any(part + 1, "mail mails email emails"))
        return true;
    return at > 1 && is_part_word(part - 1, "from") && part[-2].classes & WORD_LETTER;
}

/* Gives a role to a word that is neither a stop word nor payload. The first such word of a
 * clause is its command: verb_classes decides how the rest is read. */
static void read_content(struct state *s, size_t at)
{
    struct search_part *part = &s->reading->parts[at];
    bool is_recipient = s->verb_classes & (WORD_SAYS | WORD_ASKS) && s->content > 0 &&
                        !s->is_in_phrase && !names_location(part);
    bool is_name = part->is_capital && !part->begins_clause;
    part->is_content = true;
    part->is_sender = is_sender(s, at);
    part->is_container = s->is_inside && !is_app_name(part) && !(s->verb_classes & WORD_SAYS);
    part->use = use_of(s, at);
    if (!part->is_known && part->means.len == 0 && !(part->classes & WORD_CHANNEL))
        part->is_name = part->is_name || is_name || is_recipient || has_digit(part_text(part));
    part->is_command = s->content == 0;
    if (s->content++ == 0) {
        s->verb = at;
        s->verb_classes = part->classes;
    }
    if (part->is_name && part->means.len == 0)
        return;
    part->role = is_recipient && (part->is_recipient || s->verb_classes & (WORD_ASKS | WORD_THANKS))
                     ? ROLE_PAYLOAD
                 : s->is_in_phrase && (part->is_sender || !names_location(part)) ? ROLE_ASIDE
                                                                                 : s->role;
    s->has_things = s->has_things || !is_app_name(part);
}

/* In "remind Ben tomorrow at nine to call", the time before the payload is the time to send it, so
 * a scheduled message is wanted. */
static void read_sending_time(struct state *s, size_t at)
{
    struct search_part *before = &s->reading->parts[at - 1];
    bool is_time = before->classes & WORD_TIME || (before->is_name && has_digit(part_text(before)));
    if (!is_time || !(s->verb_classes & WORD_ASKS))
        return;
    before->means = SLICE("scheduled later");
    before->role = ROLE_ASIDE;
}

/* Whether the part is a preposition before the object's container: "a row to the sheet". */
static bool is_inside(const struct search_part *part)
{
    return is_part_word(part, "in") || is_part_word(part, "into") || is_part_word(part, "to") ||
           is_part_word(part, "on") || is_part_word(part, "onto") || is_part_word(part, "inside");
}

static void read_part(struct state *s, size_t at)
{
    struct search_part *part = &s->reading->parts[at];
    /* The order of these checks is their precedence: a quotation, then open payload, then a word
     * that opens payload. */
    if (part->is_quoted) {
        part->role = part->is_known ? ROLE_PAYLOAD : ROLE_NONE;
        return;
    }
    bool ends_name = part->classes & WORD_PREPOSITION || is_part_word(part, "and");
    if (s->payload == PAYLOAD_NAME && ends_name)
        s->payload = PAYLOAD_NONE;
    if (s->payload != PAYLOAD_NONE) {
        read_payload(s, at);
        return;
    }
    if (opens_payload(s, at)) {
        read_sending_time(s, at);
        s->payload = PAYLOAD_SAID;
        return;
    }
    if (part->classes & WORD_NAMES && s->content > 0) {
        s->payload = PAYLOAD_NAME;
        return;
    }
    if ((part->classes & WORD_PREPOSITION && s->content > 0) ||
        (is_part_word(part, "and") && s->content > 1))
        s->is_in_phrase = true;
    if (part->classes & WORD_PREPOSITION)
        s->is_inside = s->content > 1 && is_inside(part);
    if (part->is_taken || (part->classes & WORD_STOP && !part->is_known))
        return;
    if (part->classes & WORD_TIME)
        part->role = part->is_known ? ROLE_PAYLOAD : ROLE_NONE;
    else
        read_content(s, at);
}

/* In a query that is only payload ("invoice 42", a quotation) the payload is the subject, so it
 * becomes the core. */
static void raise_payload(struct search_reading *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->parts[i].role > ROLE_PAYLOAD && (r->parts[i].is_known || r->parts[i].means.len > 0))
            return;
    for (size_t i = 0; i < r->count; i++)
        if (r->parts[i].role == ROLE_PAYLOAD)
            r->parts[i].role = ROLE_CORE;
}

void search_query_read(const struct search_index *index, slice text, struct search_reading *out)
{
    struct state s = {.index = index, .reading = out};
    out->is_question = false;
    search_parts_cut(index, text, out);
    take_phrases(index, out);
    size_t request = find_request(out);
    for (size_t i = 0; i < out->count; i++) {
        if (out->parts[i].begins_clause)
            begin_clause(&s, i, request);
        read_part(&s, i);
    }
    raise_payload(out);
}
