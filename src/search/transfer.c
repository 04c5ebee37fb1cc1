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

enum { HITS_MAX = 10, CUTS_MAX = 8, PASSES = 6 };

/* An app counts as having what is read if one of its actions has at least this share of the best
 * score. */
static const float own_share = 0.7f;

/* What is read for an app that is named need not be of high relevance: it is often described in
 * words that no action has. */
static const float read_min = 0.4f;

/* No score counts more. A query that happens to be an action's id has one far above all others, and
 * the best scores of two searches are compared only as shares of what each asks for. */
static const float score_max = 1.3f;

struct sentence {
    struct search_index *index;
    struct arena *arena;
    const struct search_reading *r;
    size_t verb;      /* its command */
    size_t object;    /* the part after the command, which may be a phrase: "write down" */
    bool is_verbless; /* "new issues to Slack": object is verb */
    size_t tries;
    slice *things; /* the best two so far */
    float score;   /* of the best action for each; 0: none were found */
};

/* Whether the command says by which channel a message is sent: "text Ada". */
static bool is_channel_verb(const struct sentence *s)
{
    return !s->is_verbless &&
           search_part_is_any(&s->r->parts[s->verb], "text call phone ring dial sms mail email");
}

static bool is_saying(const struct sentence *s)
{
    for (size_t i = s->verb; i < s->r->count && i < s->verb + 3; i++)
        if (s->r->parts[i].classes & (WORD_SAYS | WORD_ASKS) &&
            !(i > s->verb && search_part_is_any(&s->r->parts[i - 1], "the this his her their")))
            return true; /* not "put the message" */
    return false;
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

/* Whether it is known where the thing of these parts is. */
static bool has_source(const struct sentence *s, size_t first, size_t end)
{
    return has_location(s, first, end) || search_mail_reading(s->r, first, end);
}

static slice words_of(const struct sentence *s, size_t first, size_t end)
{
    return search_parts_text(s->r, first, end);
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
    for (size_t i = first; i < end; i++) {
        bool is_described = s->r->parts[i].classes & WORD_PREPOSITION ||
                            search_part_is_any(&s->r->parts[i], "out") ||
                            search_part_is_any(&s->r->parts[i], "that which who whose");
        if (is_described && i > first)
            break;
        if (!names_app(&s->r->parts[i]))
            head = join_words(s, head, words_of(s, i, i + 1));
    }
    return head;
}

/* Whether the word can be what is read: a word of the catalog, or any word if its location is
 * known; not an app. */
static bool is_thing(const struct search_part *part, bool is_located)
{
    if (part->is_quoted || part->is_taken)
        return false;
    if (part->means.len > 0)
        return true; /* "#support" */
    if (part->token.len == 0)
        return false;
    if (part->classes & (WORD_LOCATION | WORD_LETTER))
        return true;
    return !names_app(part) && !(part->classes & WORD_STOP) &&
           (is_located || (part->is_known && !(part->classes & WORD_TIME)));
}

/* Words for reading what is in a container or in messages. */
struct contents {
    const char *words, *reading;
    enum {
        ANY_WORD,
        HEAD,  /* only if it is the first word, or follows the app's name */
        WHOLE, /* the words before it are left out */
        SAID,  /* what is said is where a preposition after the word says: "agreed on in the thread"
                */
    } where;
};

/* Returns the words for reading what the row's word at `at` names, and sets *rest to where the
 * other words begin. */
static const char *read_contents(const struct search_reading *r, const struct contents *row,
                                 size_t first, size_t at, size_t end, size_t *rest)
{
    const struct search_part *parts = r->parts;
    size_t next = at + 1;
    *rest = at == first || row->where == WHOLE ? next : first;
    if (row->where != SAID)
        return row->reading;
    bool has_listener = next < end && search_part_is_any(&parts[next], "me us");
    size_t object = has_listener ? next + 1 : next;
    if (object + 1 < end && parts[object].classes & WORD_DETERMINER) {
        *rest = object; /* "who wrote | the last ticket" */
        return "get";
    }
    for (size_t i = next; i + 1 < end; i++)
        if (search_part_is_any(&parts[i], "in")) { /* "agreed on | in the thread" */
            *rest = i;
            break;
        }
    return row->reading;
}

const char *search_contents_of(const struct search_reading *r, size_t first, size_t end,
                               size_t *rest)
{
    static const struct contents rows[] = {
        {"calendar calendars", "list events calendar", ANY_WORD},
        {"sheet spreadsheet", "get values sheet", ANY_WORD},
        {"inbox mailbox", "list messages inbox", ANY_WORD},
        {"database databases", "query list rows database", HEAD},
        {"guests attendees participants invitation invite", "get event attendees", ANY_WORD},
        {"sprint backlog", "search issues sprint", ANY_WORD},
        {"wrote written writes posted posts asked asks said says agreed decided discussed "
         "mentioned",
         "list messages", SAID},
        {"bounced", "list bounces", WHOLE},
        {"unsubscribed", "list unsubscribes", WHOLE},
        {"notes minutes", "get page notes", ANY_WORD},
        {"reply replies", "get message mail", HEAD},
        {"everyone everybody people", "list members users", HEAD},
    };
    const struct search_part *parts = r->parts;
    size_t head = first;
    while (head + 1 < end && names_app(&parts[head]) && parts[head + 1].is_content)
        head++;
    *rest = first;
    const char *mail = search_mail_reading(r, first, end);
    bool is_mail = first + 2 < end && search_part_is_any(&parts[first], "mail email") &&
                   search_part_is_any(&parts[first + 1], "with about that in which");
    if (mail || is_mail) {
        mail = mail ? mail : "search messages mail";
        *rest = end; /* what is in the mail does not say how it is read */
        return mail;
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t k = first; k < end; k++) {
            if (!search_part_is_any(&parts[k], rows[i].words) ||
                (k != first && k != head && rows[i].where == HEAD) ||
                (rows[i].where == WHOLE &&
                 (k == first || !search_part_is_any(&parts[k - 1], "that which who"))))
                continue;
            return read_contents(r, &rows[i], first, k, end, rest);
        }
    return NULL;
}

/* A preposition of a phrase that has a meaning ("put * to") has lost its class. */
static bool is_preposition(const struct search_part *part)
{
    return part->classes & WORD_PREPOSITION ||
           (part->is_taken && search_part_is_any(part, "to in into on of with for from"));
}

/* Nouns for what a thing has: to bring one to another thing changes that. */
static const char aspects[] = "address name number date text description";

/* Skips words that only say what of a thing is wanted: "the status of | the pipeline". */
static size_t skip_aspects(const struct sentence *s, size_t first, size_t end)
{
    const struct search_part *parts = s->r->parts;
    for (size_t i = first + 1; i + 2 < end && i < first + 7; i++)
        if (search_part_is_any(&parts[i], "from out") && search_part_is_any(&parts[i - 1], aspects))
            return search_part_is_any(&parts[i + 1], "of") ? i + 2 : i + 1;
    while (first + 2 < end) {
        if (parts[first].classes & WORD_DETERMINER || search_part_is_any(&parts[first], "me us"))
            first++;
        else if (search_part_is_any(&parts[first], "status state progress number sum total amount "
                                                   "summary changes list copy result results name "
                                                   "names title details rest") &&
                 search_part_is_any(&parts[first + 1], "of"))
            first += 2;
        else
            break;
    }
    return first;
}

/* Returns the query for what is read; SLICE_NONE if none of its words is a thing. */
static slice read_of(const struct sentence *s, size_t first, size_t end)
{
    bool is_many = false, has_thing = false, is_located = has_location(s, first, end);
    size_t head = skip_aspects(s, first, end);
    is_many = first > 0 && search_part_is_any(&s->r->parts[first - 1], "per");
    bool is_described = false; /* "the roadmap with the partners" is one */
    for (size_t i = s->object; i < end; i++) {
        const struct search_part *part = &s->r->parts[i];
        if (part->is_sender)
            return SLICE_NONE;
        bool is_plural = search_text_is_plural(slice_of(part->token.text, part->token.len)) &&
                         !search_part_is_any(part, "details contents news");
        is_described = is_described || (i > head && is_preposition(part));
        is_many = is_many || search_part_is_any(part, "all any each every") ||
                  (is_plural && !is_described);
        has_thing = has_thing ||
                    (i >= first && !(part->means.len > 0 && part->classes & WORD_CHANNEL) &&
                     is_thing(part, is_located));
    }
    first = head;
    while (first < end && s->r->parts[first].classes & WORD_DETERMINER)
        first++;
    for (size_t i = first; i < first + 3 && i + 1 < end; i++)
        if (search_part_is_any(&s->r->parts[i],
                               "whose")) /* "the customers whose | payment failed" */
            first = i + 1;
    const char *contents = search_contents_of(s->r, first, end, &first);
    if (!contents && !has_thing)
        return SLICE_NONE;
    slice verb = is_many ? SLICE("list") : SLICE("get");
    return join_words(s, contents ? slice_cstr(contents) : verb, words_of(s, first, end));
}

static int best_of(const struct sentence *s, slice query, size_t limit, struct search_found **hits,
                   size_t *count)
{
    struct search_request request = {.query = query, .with_actions = true, .limit = limit};
    return search_run(s->index, s->arena, &request, hits, count);
}

static float score_of(const struct search_found *hit)
{
    return hit->score < score_max ? hit->score : score_max;
}

/* Whether one of the hits, of nearly the best score, is of that app. */
static bool has_app(const struct sentence *s, const struct search_found *hits, size_t count,
                    uint32_t integration)
{
    for (size_t i = 0; i < count; i++)
        if (s->index->docs[hits[i].doc].integration == integration &&
            hits[i].score >= own_share * score_of(&hits[0]))
            return true;
    return false;
}

/* What is known of the two queries before they are tried. */
enum {
    BOTH_COMMANDED = 1, /* both have the sentence's command, and their own locations */
    READ_LOCATED = 2,   /* what is read has a location */
    DONE_LOCATED = 4,   /* what is done has one */
    /* with BOTH_COMMANDED: both may be in one app: "send a mail with Gmail" is one thing, and names
     * its place twice */
    MAYBE_ONE = 8,
};

/* Keeps both queries if they belong to two apps and are better than those before. Returns OK or
 * ERR_NOMEM. */
static int try_things(struct sentence *s, slice done, slice read, unsigned known)
{
    struct search_found *wrote, *hits;
    size_t wrote_count, count;
    bool both = known & BOTH_COMMANDED, maybe_one = known & MAYBE_ONE;
    if (s->tries == CUTS_MAX)
        return OK;
    s->tries++;
    if (!done.ptr || !read.ptr || best_of(s, read, HITS_MAX, &hits, &count) != OK)
        return ERR_NOMEM;
    if (count == 0 || !(hits[0].is_high || known & (BOTH_COMMANDED | READ_LOCATED) ||
                        (known & DONE_LOCATED && hits[0].score >= read_min)))
        return OK;
    if (best_of(s, done, HITS_MAX, &wrote, &wrote_count) != OK)
        return ERR_NOMEM;
    if (wrote_count == 0)
        return OK;
    if (has_app(s, hits, both && !maybe_one ? 1 : count,
                s->index->docs[wrote[0].doc].integration) ||
        ((maybe_one || (!both && !(known & DONE_LOCATED))) &&
         has_app(s, wrote, wrote_count, s->index->docs[hits[0].doc].integration)))
        return OK;
    float score = score_of(&wrote[0]) + score_of(&hits[0]);
    if (score <= s->score)
        return OK;
    s->score = score;
    s->things[0] = done;
    s->things[1] = read;
    return OK;
}

/* Splits "in HubSpot and in Salesforce" or "in Slack and Discord": the command applies to both. */
static int try_both(struct sentence *s, size_t joint)
{
    const struct search_part *next = &s->r->parts[joint + 1];
    size_t location = joint - 1;
    while (location > s->verb && !(s->r->parts[location].classes & WORD_PREPOSITION))
        location--;
    bool is_location = next->classes & WORD_PREPOSITION ||
                       (names_app(next) && has_location(s, location, joint));
    if (next->classes & WORD_DETERMINER && has_location(s, s->object, joint) &&
        has_location(s, joint + 1,
                     s->r->count)) /* "delete the event in Outlook and the task in Asana" */
        return try_things(
            s, words_of(s, 0, joint),
            join_words(s, words_of(s, 0, s->object), words_of(s, joint + 1, s->r->count)),
            BOTH_COMMANDED);
    if (location == s->verb || !is_location)
        return OK;
    size_t end = next->classes & WORD_PREPOSITION ? location : location + 1;
    return try_things(s, words_of(s, 0, joint),
                      join_words(s, words_of(s, 0, end), words_of(s, joint + 1, s->r->count)),
                      BOTH_COMMANDED);
}

static bool is_comparing(const struct search_part *part)
{
    return search_part_is_any(part, "equals equal matches match");
}

/* Splits "that the amount in the sheet equals the invoice in Stripe": both are read. */
static int try_compared(struct sentence *s, size_t at)
{
    size_t first = s->object;
    while (first < at && search_part_is_any(&s->r->parts[first], "that whether if check"))
        first++;
    slice left = read_of(s, first, at), right = read_of(s, at + 1, s->r->count);
    return left.ptr && right.ptr ? try_things(s, left, right, BOTH_COMMANDED) : OK;
}

/* Whether the preposition at `at` introduces a channel: "by mail", "in an email". */
static bool is_channel_at(const struct sentence *s, size_t at)
{
    const struct search_part *part = &s->r->parts[at + 1]; /* a cut is before the last part */
    bool is_address = search_part_is_any(&s->r->parts[at], "to") && part->classes & WORD_DETERMINER;
    if ((part->classes & WORD_INDEFINITE || is_address) && at + 2 < s->r->count)
        part++;
    if (part[-1].classes & WORD_INDEFINITE && at + 3 < s->r->count &&
        !(part->classes & WORD_CHANNEL) && part->is_content)
        part++; /* "with a personal mail" */
    return (s->r->parts[at].classes | part->classes) & WORD_CHANNEL;
}

/* Whether the sentence has no command, and begins with its object: "new issues to Slack". */
static bool is_object_at(const struct sentence *s, size_t at)
{
    const struct search_part *part = &s->r->parts[at], *next = part + 1;
    bool has_next = at + 1 < s->r->count;
    if (part->means.len > 0 || !has_next || next->classes & WORD_DETERMINER)
        return false;
    bool is_plural = next->is_known &&
                     search_text_is_plural(slice_of(next->token.text, next->token.len));
    if (part->classes & (WORD_LETTER | WORD_SAYS))
        return part->classes & WORD_LETTER && is_plural;
    return names_app(part) || part->classes & WORD_LOCATION ||
           search_text_is_plural(slice_of(part->token.text, part->token.len)) ||
           search_part_is_any(part, "new unpaid latest last overdue open") ||
           !search_may_be_verb(s->index, part);
}

/* Whether the command only reads something, and does not say where to put it. */
static bool is_reading(const struct sentence *s)
{
    const struct search_part *verb = &s->r->parts[s->verb];
    return s->is_verbless || verb->classes & WORD_READS ||
           search_part_is_any(verb, "pull export download extract summarize");
}

/* Whether the preposition introduces a thing that does not exist yet: "as an issue", "into a
 * ticket"; not "into a sheet", to which something is added. */
static bool is_new_at(const struct sentence *s, size_t at)
{
    const struct search_part *parts = s->r->parts;
    size_t thing = at + 2;
    if (!search_part_is_any(&parts[at], is_reading(s) ? "as into in" : "as into") ||
        thing >= s->r->count || !(parts[at + 1].classes & WORD_INDEFINITE))
        return false;
    while (thing + 1 < s->r->count && names_app(&parts[thing]))
        thing++;
    return !(parts[thing].classes & WORD_LOCATION);
}

/* Whether the thing that begins at `first` is something that is sent. */
static bool has_letter(const struct sentence *s, size_t first)
{
    while (first + 1 < s->r->count && !(s->r->parts[first].classes & WORD_LETTER) &&
           (s->r->parts[first].classes & WORD_DETERMINER || names_app(&s->r->parts[first])))
        first++;
    return s->r->parts[first].classes & WORD_LETTER;
}

/* Whether the command says where something is entered, before what it is: "log in the sheet who
 * came". */
static bool is_entry(const struct sentence *s)
{
    return search_part_is_any(&s->r->parts[s->verb], "write log note put enter record track") &&
           s->object < s->r->count && search_part_is_any(&s->r->parts[s->object], "in into on");
}

/* Whether the command says that something is brought from one app to another, where it is added. */
static bool is_carrying(const struct sentence *s)
{
    return search_part_is_any(&s->r->parts[s->verb],
                              "copy transfer move import sync migrate carry bring");
}

static bool is_sending(const struct sentence *s)
{
    return search_part_is_any(&s->r->parts[s->verb], "send forward pass");
}

/* Whether the object names an app before what is in it: "the Dropbox link". */
static bool has_app_thing(const struct sentence *s, size_t end)
{
    size_t i = s->object;
    for (size_t k = i; k < end; k++)
        if (search_part_is_any(&s->r->parts[k], "with from for to into per"))
            return false;
    return i + 2 < end && search_part_is_any(&s->r->parts[i], "the this that his her their our") &&
           names_app(&s->r->parts[i + 1]) && s->r->parts[i + 2].is_content;
}

/* Whether the command puts something into a place, and the preposition introduces the last place:
 * "put the names of all guests | in a sheet". */
static bool is_put_at(const struct sentence *s, size_t at)
{
    if (!search_part_is_any(&s->r->parts[at], "in on") ||
        !((search_part_is_any(&s->r->parts[s->verb], "list collect gather") &&
           s->r->parts[at + 1].classes & WORD_INDEFINITE) ||
          search_part_is_any(&s->r->parts[s->verb],
                             "put collect enter file keep log note record") ||
          has_app_thing(s, at)) ||
        !has_location(s, at, at + 4 < s->r->count ? at + 4 : s->r->count))
        return false;
    while (++at < s->r->count)
        if (search_part_is_any(&s->r->parts[at], "to in into on onto as by via"))
            return false;
    return true;
}

/* Whether the words after the preposition at `at` name an app for chats, or a channel. */
static bool has_chat(const struct sentence *s, size_t at)
{
    for (size_t i = at + 1; i < s->r->count && i < at + 6; i++)
        if (search_part_is_any(&s->r->parts[i], "slack telegram discord channel chat group"))
            return true;
    return false;
}

static bool has_word(const struct sentence *s, size_t end, const char *words)
{
    for (size_t i = s->object; i < end; i++)
        if (search_part_is_any(&s->r->parts[i], words))
            return true;
    return false;
}

/* Returns the command at the target, with its object: "put the events". */
static slice command_at(const struct sentence *s, size_t cut, bool is_located)
{
    const struct search_part *verb = &s->r->parts[s->verb];
    const char *adding = search_adding_verb(s->r, cut + 1, s->r->count);
    bool is_moved = is_reading(s) || is_carrying(s);
    if (is_channel_at(s, cut))
        return SLICE("send");
    if (is_channel_verb(s))
        return join_words(s, words_of(s, s->verb, s->verb + 1), SLICE("them"));
    if (search_part_is_any(verb, "post report announce share tell notify inform"))
        return SLICE("post a message");
    if (!is_located && is_sending(s)) /* "send the list in the sheet to the customer" */
        return SLICE("send a mail");
    bool is_inviting =
        search_part_is_any(verb, "add") &&
        has_word(s, cut, "people guests attendees participants members everyone everybody names");
    if (adding && !is_inviting &&
        (is_moved ||
         search_part_is_any(
             verb, "put add enter file save store write log record subscribe enroll enrol")))
        return slice_cstr(adding);
    if (is_moved && has_chat(s, cut))
        return SLICE("post a message");
    if (s->is_verbless)
        return SLICE("create");
    slice command = is_reading(s)    ? SLICE("put")
                    : is_carrying(s) ? slice_cstr(has_word(s, cut, aspects) ? "update" : "add")
                                     : words_of(s, 0, s->object);
    return join_words(s, command, head_of(s, s->object, cut));
}

/* Tries a cut before the target: "put the events of next week | into a Notion page". */
static int try_target(struct sentence *s, size_t cut)
{
    const struct search_part *parts = s->r->parts;
    size_t first = s->object, end = s->r->count; /* first: the first part of what is read */
    bool is_made = is_new_at(s, cut) ||
                   (search_part_is_any(&parts[s->verb], "turn convert transform make") &&
                    search_part_is_any(&parts[cut], "to into"));
    if (first >= cut)
        return OK;
    if (parts[first].classes & WORD_INDEFINITE) /* "add a comment with the mail to the card" */
        do
            first++;
        while (first < cut && !is_preposition(&parts[first - 1]));
    slice read = first < cut ? read_of(s, first, cut) : SLICE_NONE, done;
    bool is_located = has_location(s, cut, end) || search_adding_verb(s->r, cut + 1, end);
    bool is_read_located = has_source(s, first, cut);
    bool is_channel = is_channel_verb(s); /* "mail the open tickets to me" */
    if (!read.ptr ||
        !(is_located || is_channel || (is_read_located && (is_carrying(s) || is_sending(s)))))
        return OK;
    if (is_made)
        done = join_words(s, has_letter(s, cut + 1) ? SLICE("send") : SLICE("create"),
                          words_of(s, cut + 1, end));
    else
        done = join_words(s, command_at(s, cut, is_located), words_of(s, cut, end));
    return try_things(s, done, read,
                      (is_located || is_channel ? DONE_LOCATED : 0) |
                          (is_read_located ? READ_LOCATED : 0));
}

/* Returns where the sentence ends with a channel: "by email"; the end of the sentence if it does
 * not. */
static size_t channel_of(const struct sentence *s, size_t first)
{
    for (size_t i = first + 1; i + 1 < s->r->count; i++)
        if (s->r->parts[i].classes & WORD_CHANNEL && s->r->parts[i].means.len > 0 &&
            s->r->parts[i + 1].is_taken && i + 2 == s->r->count)
            return i;
    return s->r->count;
}

/* Whether a person is described near the part: "the customer who wrote". */
static bool has_relative(const struct sentence *s, size_t first)
{
    for (size_t i = first; i < first + 4 && i < s->r->count; i++)
        if (search_part_is_any(&s->r->parts[i], "whose who"))
            return true;
    return false;
}

/* Tries a cut before the origin: "make a Trello card | of the message in Discord". Recipients in an
 * app are only read. */
static int try_origin(struct sentence *s, size_t cut, size_t first)
{
    size_t end = s->r->count, channel = is_saying(s) ? channel_of(s, first) : end;
    slice read = read_of(s, first, channel);
    unsigned known = (has_location(s, 0, cut) || channel < end ? DONE_LOCATED : 0) |
                     (has_source(s, cut, channel) ? READ_LOCATED : 0);
    /* "the due date of the Notion task" is in Notion */
    bool is_person = !is_saying(s) && has_relative(s, first);
    if (!read.ptr || (known == 0 && !is_person) ||
        (!(known & DONE_LOCATED) && !is_person && search_part_is_any(&s->r->parts[cut], "of to") &&
         !(cut > 0 && search_part_is_any(&s->r->parts[cut - 1], "out")) &&
         !search_part_is_any(&s->r->parts[first], "all each every everyone everybody those")))
        return OK;
    const char *adding = is_entry(s) ? search_adding_verb(s->r, s->object + 1, cut) : NULL;
    slice done = is_channel_verb(s)
                     ? join_words(s, words_of(s, s->verb, s->verb + 1), SLICE("them"))
                 : adding ? join_words(s, slice_cstr(adding), words_of(s, s->object + 1, cut))
                          : words_of(s, 0, cut);
    if (channel < end)
        done = join_words(s, done, words_of(s, channel, end));
    return try_things(s, done, read, known);
}

/* Tries a cut before what is sent to recipients: "send everyone in the sheet | a message". */
static int try_given(struct sentence *s, size_t cut)
{
    slice read = read_of(s, s->object, cut);
    bool is_located = has_location(s, s->object, cut), is_described = false;
    for (size_t i = s->object; i < cut; i++)
        is_described = is_described || is_preposition(&s->r->parts[i]);
    if (!read.ptr || !(is_located || is_described))
        return OK;
    return try_things(s, join_words(s, SLICE("send"), words_of(s, cut, s->r->count)), read,
                      is_located ? READ_LOCATED : 0);
}

/* Whether the preposition belongs to the description of a thing: "the picture that came by mail",
 * "the link to the page". */
static bool is_described_at(const struct sentence *s, size_t at)
{
    const struct search_part *parts = s->r->parts;
    for (size_t i = s->object + 1; !is_saying(s) && i + 1 < at; i++)
        if (search_part_is_any(&parts[i], "that which") &&
            search_part_is_any(&parts[i + 1], "is are was were has have"))
            return true;
    if (search_part_is_any(&parts[at], "to"))
        return search_part_is_any(&parts[at - 1], "link links url answer reply changes access") &&
               !has_location(s, s->object, at);
    if (is_channel_at(s, at) &&
        search_part_is_any(&parts[at - 1],
                           "got came received arrived sent write writes wrote written"))
        return true;
    for (size_t i = s->object + 1; is_channel_at(s, at) && i < at; i++)
        if (search_part_is_any(&parts[i], "that which who what whatever") && !is_saying(s))
            return true;
    return false;
}

/* Whether something is said to people who have to be read first: "warn the guests that". */
static bool is_to_guests(const struct sentence *s, size_t at)
{
    size_t first = s->object;
    while (first < at && s->r->parts[first].classes & WORD_DETERMINER)
        first++;
    return is_saying(s) && search_contents_of(s->r, first, at, &first);
}

/* Whether recipients are described: "to the customers who cancelled". */
static bool is_described_after(const struct sentence *s, size_t at)
{
    for (size_t i = at + 2; i < at + 4 && i < s->r->count; i++)
        if (search_part_is_any(&s->r->parts[i], "that which whose who"))
            return true;
    return false;
}

/* Tries a cut at what has to happen first, or at what is said. */
static int try_condition(struct sentence *s, size_t at)
{
    const struct search_part *part = &s->r->parts[at], *verb = &s->r->parts[s->verb];
    bool has_more = at + 2 < s->r->count;
    if (search_part_is_any(part, "every each") && search_part_is_any(part + 1, "time") && has_more)
        return try_origin(s, at, at + 2);
    if (search_part_is_any(part, "soon") && has_more) /* "as soon as" */
        return try_origin(s, at - 1, at + 2);
    if (search_part_is_any(part, "that") && is_to_guests(s, at))
        return OK;
    bool is_cut =
        search_part_is_any(part,
                           "if when whenever once while before after since because unless until") ||
        (search_part_is_any(part, "that about whether which who how what") &&
         (is_saying(s) || is_entry(s))) ||
        (search_part_is_any(part, "whatever whoever") &&
         search_part_is_any(part - 1, "to as with")) ||
        (search_part_is_any(part, "of") &&
         search_part_is_any(verb, "remind inform notify warn tell")) ||
        (search_part_is_any(part, "to") && verb->classes & WORD_ASKS);
    return is_cut ? try_origin(s, at, at + 1) : OK;
}

/* Whether the part may come before the place to which the command brings something. */
static bool is_target_at(const struct sentence *s, size_t at)
{
    const struct search_part *part = &s->r->parts[at], *verb = &s->r->parts[s->verb];
    bool is_with = is_carrying(s) || is_channel_at(s, at) ||
                   (search_part_is_any(verb, "share") && has_chat(s, at));
    return (search_part_is_any(part, "to into onto as by via") ||
            (search_part_is_any(part, "with") && is_with) ||
            (search_part_is_any(part, "from off") &&
             search_part_is_any(verb, "remove delete unsubscribe")) ||
            is_put_at(s, at)) &&
           !is_described_at(s, at);
}

/* Whether what comes after "to" is read, and nothing is brought there: "assign it to the person
 * who", "move it to the day of the release". */
static bool is_value_at(const struct sentence *s, size_t first)
{
    const struct search_part *parts = s->r->parts;
    if (!(parts[first].classes & WORD_DETERMINER) || first + 2 >= s->r->count)
        return false;
    return search_part_is_any(&parts[first + 2], "whose who") ||
           (search_part_is_any(&parts[first + 1], "day date time name value amount price number") &&
            search_part_is_any(&parts[first + 2], "of in from on that"));
}

/* Tries a cut before the place to which the command brings something. */
static int try_bringing(struct sentence *s, size_t at)
{
    const struct search_part *part = &s->r->parts[at], *verb = &s->r->parts[s->verb];
    if (search_part_is_any(part, "with") && search_part_is_any(verb, "share") &&
        search_part_is_any(part + 1, "everyone everybody people all"))
        return try_origin(s, at, at + 1);
    if (search_part_is_any(part, "to") && !is_sending(s) && is_value_at(s, at + 1))
        return try_origin(s, at, at + 1);
    int status = is_target_at(s, at) ? try_target(s, at) : OK;
    /* "send the offer to the customers in the sheet" */
    return status == OK && search_part_is_any(verb, "send share invite") &&
                   search_part_is_any(part, "to") && names_app_in(s, at) &&
                   !is_described_at(s, at) && search_has_plural(s->r, at + 1, s->r->count)
               ? try_origin(s, at, at + 1)
               : status;
}

static int try_cut(struct sentence *s, unsigned pass, size_t at)
{
    const struct search_part *part = &s->r->parts[at];
    if (part->token.len == 0 || part->is_quoted)
        return OK;
    switch (pass) {
    case 0:
        if (is_comparing(part))
            return try_compared(s, at);
        return search_part_is_any(part, "and") ? try_both(s, at) : OK;
    case 1:
        return try_condition(s, at);
    case 2:
        return try_bringing(s, at);
    case 3:
        if (is_channel_verb(s) && search_part_is_any(part, "in on of from who with"))
            return try_origin(s, at, s->object);
        /* "instead of"; "send an SMS to the contacts in HubSpot", not "to Ada" */
        if (part->is_taken || (search_part_is_any(part, "to") && !names_app_in(s, at) &&
                               !(is_sending(s) && is_described_after(s, at))))
            return OK;
        if (is_sending(s) && part->classes & WORD_INDEFINITE && at > s->object + 1)
            return try_given(s, at);
        return search_part_is_any(part, "of from for with per about to whose which how what")
                   ? try_origin(s, at, at + 1)
                   : OK;
    case 4:
        return search_part_is_any(part, "in on") && !is_described_at(s, at) ? try_target(s, at)
                                                                            : OK;
    default:
        return search_part_is_any(part, "on that which") ? try_origin(s, at, at + 1) : OK;
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
    while (location->first > s->object && parts[location->first - 1].classes & WORD_DETERMINER)
        location->first--;
    if (location->first > s->object && parts[location->first - 1].classes & WORD_PREPOSITION)
        location->first--;
    return true;
}

/* Tries to do something at one of two locations with what is read at the other, wherever they are
 * in the sentence: "log the time that the calendar says in Jira". The scores decide which of them
 * is read. */
static int try_locations(struct sentence *s)
{
    struct location locations[2];
    size_t end = s->r->count;
    if (s->object >= end || !next_location(s, s->object, &locations[0]) ||
        !next_location(s, locations[0].end, &locations[1]))
        return OK;
    s->tries = 0;
    bool is_many = s->r->is_question || search_has_plural(s->r, s->object, end);
    slice verb = is_many ? SLICE("list") : SLICE("get");
    for (unsigned k = 0; k < 2; k++) {
        const struct location *target = &locations[k], *source = &locations[1 - k];
        slice done = join_words(s, words_of(s, 0, source->first), words_of(s, source->end, end));
        slice read =
            join_words(s, words_of(s, s->object, target->first), words_of(s, target->end, end));
        int status = try_things(s, done, join_words(s, verb, read), BOTH_COMMANDED | MAYBE_ONE);
        if (status != OK)
            return status;
    }
    return OK;
}

int search_split_transfer(struct search_index *index, struct arena *arena,
                          const struct search_reading *r, slice things[2], bool *is_split)
{
    struct sentence s = {.index = index, .arena = arena, .r = r, .things = things};
    int status = OK;
    *is_split = false;
    while (s.verb < r->count && !r->parts[s.verb].is_command)
        s.verb++;
    s.object = s.verb + 1;
    while (s.object < r->count && r->parts[s.object].is_taken)
        s.object++;
    s.is_verbless = s.verb < r->count && is_object_at(&s, s.verb) &&
                    !search_part_is_any(r->parts, "let");
    s.object = s.is_verbless ? s.verb : s.object;
    if (r->count == 0 || r->parts[0].classes & WORD_INDEFINITE) /* "a new row in the sheet" */
        return OK;
    /* a phrase has its object: "schedule a call" */
    size_t first_cut = s.object > s.verb + 1 ? s.object : s.object + 1;
    bool is_question = r->is_question || r->parts[0].classes & WORD_QUESTION;
    for (unsigned pass = 0; pass < PASSES && s.score <= 0 && !is_question; pass++)
        for (size_t at = first_cut; at + 1 < r->count && status == OK; at++)
            if (!is_reading(&s) || pass == 2 || (pass == 0 && is_comparing(&r->parts[at])) ||
                (pass == 4 && (s.is_verbless || is_channel_at(&s, at) || is_new_at(&s, at))))
                status = try_cut(&s, pass, at);
    if (status == OK && s.score <= 0)
        status = try_locations(&s);
    *is_split = s.score > 0;
    return status;
}
