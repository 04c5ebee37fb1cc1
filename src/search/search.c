/*
 * Answers a query: determines its words and their weights, scores each document, and selects the
 * best documents.
 *
 * Ranking: query.c gives each word a role. A word is expanded to terms (itself, synonyms, prefixes,
 * one typing mistake), each with a weight up to 1. For each word a document gets the best term's
 * weight times its impact (BM25F without idf, computed when the index is built), times the word's
 * rarity (idf, bounded), times the role's weight. The sum over words, divided by the maximum for
 * all requested words, is the relevance. Bonuses and halvings for names, questions and connections
 * follow in relevance_of and find_doc.
 *
 * Cost: one pass over the postings of the terms, at most SEARCH_EXPANSIONS_MAX for each of at most
 * SEARCH_QUERY_WORDS_MAX words, and one pass over the documents. The constants come from
 * measurements (tests/unit/search/test_search_quality.c), not from a formula.
 */
#include "search/search.h"

#include <libstemmer.h>
#include <math.h>

#include "search/reading.h"

/* The weight of each role, in the order of enum search_role: none, payload, aside, core. */
static const float role_weights[] = {0, 0.05f, SEARCH_HALF, 1};
/* The limit of rarity: no word counts more than a word that is in this share of the documents, and
 * an unknown word counts exactly as much. A rare word in a sentence is more often incidental than
 * the subject. */
static const float rarest_share = 0.06f;
/* The bonus of a document whose id or title has only words of the query; with fewer such words it
 * is proportional. */
static const float name_bonus = 0.3f;
/* Documents whose relevance differs by less than this share are a tie, which an app with a
 * connection wins. */
static const float tie_share = 0.08f;

/* A channel in the name of an action counts only if the matched words of the name weigh more than
 * this, which exceeds what one word and its close matches can weigh. */
static const float name_words_min = 1.6f;

enum {
    JOINED_WORDS_MAX = 3,
    WORD_PARTS_MAX = 8,
    PREFIX_BYTES_MIN = 3,
    HALF_BYTES_MIN = 3,
    CONTAINER_TITLE_WORDS = 2
};

/* How well a document matches the query, as sums of weights; best_* are for the current word. */
struct score {
    float sum, best;
    float id, best_id, title, best_title; /* matched words of the id, and of the title */
    bool is_app_named;                    /* the query names the integration */
    bool is_of_channel;                   /* the document is about the requested channel */
    bool is_channel_in_name;
};

struct query {
    const struct search_index *index;
    struct search_reading reading;
    struct search_expansion word; /* the word being scored */
    size_t doc_first, doc_end;    /* the range of hits */
    struct score *scores;         /* the scores of these documents */
    uint32_t *touched;            /* documents that have the current word */
    size_t touched_count;
    float asked;                          /* total weight of the requested words */
    float weight_max;                     /* the largest weight of a word */
    bool is_plural;                       /* the current word */
    bool is_container;                    /* the current word names a container, not the object */
    bool is_command;                      /* the current word says what to do */
    bool is_sender;                       /* the current word names an app that is not requested */
    bool is_app_named;                    /* names some integration */
    bool is_reading;                      /* the query's command changes nothing: "list" */
    bool names_channel;                   /* the current word names a channel: "sms" */
    bool is_channel_named;                /* some word of the query names a channel */
    const struct search_term *own_term;   /* term of the current word; NULL if it has none */
    char id_text[SEARCH_QUERY_BYTES_MAX]; /* the query as an id: lower case, words joined by _ */
    slice id;
};

/* ---- words ---- */

static slice token_text(const struct search_token *token)
{
    return slice_of(token->text, token->len);
}

static void make_id(struct query *q)
{
    size_t len = 0;
    for (size_t i = 0; i < q->reading.count; i++) {
        const struct search_token *token = &q->reading.parts[i].token;
        if (token->len == 0 || len + token->len + 1 > sizeof(q->id_text))
            continue;
        if (len > 0)
            q->id_text[len++] = '_';
        memcpy(q->id_text + len, token->text, token->len);
        len += token->len;
    }
    q->id = slice_of(q->id_text, len);
}

static bool is_search_word(const struct query *q, slice text)
{
    const struct search_word *word = search_index_word(q->index, text);
    return word && word->classes & WORD_FINDS && !(word->classes & WORD_STOP);
}

/* Joins up to JOINED_WORDS_MAX parts that the catalog writes as one word: "spread sheet", "who am
 * i". If each part is a known word, they are not joined, since they have their own meaning. Returns
 * how many parts are joined, or 1. */
static size_t join_parts(const struct query *q, size_t first, struct search_token *joined)
{
    const struct search_part *parts = q->reading.parts;
    for (size_t n = JOINED_WORDS_MAX; n > 1; n--) {
        size_t len = 0, specific = 0, count = 0;
        for (size_t i = first; i < first + n && i < q->reading.count; i++) {
            const struct search_part *part = &parts[i];
            if (part->token.len == 0 || len + part->token.len > sizeof(joined->text) ||
                part->means.len > 0 || part->is_taken)
                break;
            memcpy(joined->text + len, part->token.text, part->token.len);
            len += part->token.len;
            specific += part->is_known && !(part->classes & WORD_STOP);
            count++;
        }
        joined->len = len;
        joined->source = SLICE_NONE;
        if (count == n && specific < n && is_search_word(q, token_text(joined)))
            return n;
    }
    *joined = parts[first].token;
    return 1;
}

/* ---- what a word matches ---- */

static void add_known(struct query *q, slice word, unsigned use)
{
    const struct search_term *term = word.len > 0 ? search_index_find(q->index, word) : NULL;
    if (search_term_finds(term))
        search_expand_term(q->index, term, 1, use, &q->word);
}

static void expand_token(struct query *q, const struct search_token *token, unsigned use,
                         bool is_last)
{
    slice text = token_text(token);
    q->word.count = 0;
    /* The plural is determined from the word itself; the stem, which finds terms, does not show
     * it. */
    q->is_plural = search_text_is_plural(text);
    add_known(q, text, use);
    /* The last word may be incomplete. A known word matches itself and, at half weight, its
     * completions. A typing mistake is considered only if nothing else was found. */
    if (is_last && text.len >= PREFIX_BYTES_MIN)
        search_expand_prefix(q->index, text, q->word.count > 0 ? SEARCH_HALF : 1, &q->word);
    if (q->word.count == 0)
        search_expand_typo(q->index, text, &q->word);
}

static float larger_weight(float a, float b)
{
    return a > b ? a : b;
}

static float smaller_weight(float a, float b)
{
    return a < b ? a : b;
}

/* Returns BM25's idf for a word that is in `docs` documents; because of the "1 +" it is not
 * negative for a word in more than half of them. */
static float rarity(const struct query *q, float docs)
{
    float all = (float)q->index->doc_count;
    return logf(1 + (all - docs + 0.5f) / (docs + 0.5f));
}

/* A word is as rare as the most common of its equivalent terms, or of its related terms if there
 * are no equivalent ones: a rare synonym must not raise the weight of a common word. */
static float word_weight(const struct query *q)
{
    float docs = 0, docs_near = 0;
    for (size_t i = 0; i < q->word.count; i++) {
        float *most = q->word.terms[i].weight >= SEARCH_CLOSE ? &docs : &docs_near;
        *most = larger_weight(*most, q->word.terms[i].term->docs);
    }
    docs = docs > 0 ? docs : docs_near;
    return docs > 0 ? smaller_weight(rarity(q, docs), q->weight_max) : q->weight_max;
}

/* ---- scores ---- */

/* Postings ascend by document, so a search within one integration starts in the middle. */
static const struct search_posting *first_posting(const struct query *q,
                                                  const struct search_term *term, size_t doc)
{
    const struct search_posting *postings = q->index->postings + term->posting_first;
    size_t low = 0, high = term->posting_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (postings[middle].doc < doc)
            low = middle + 1;
        else
            high = middle;
    }
    return postings + low;
}

/* Whether the term names a channel: "sms", which also implies "text"; not "message", which may use
 * any channel. */
static bool is_channel(const struct query *q, const struct search_term *term, float weight)
{
    if (!q->names_channel || weight < SEARCH_CLOSE)
        return false;
    const struct search_word *word =
        search_index_word(q->index, search_index_text(q->index, term->stem));
    return term == q->own_term || (word && word->classes & WORD_CHANNEL);
}

/* Adds one term's postings to the current word's best values. The best term counts, not the sum
 * of the terms: a document with both "mail" and "email" is not twice as good. */
static void score_term(struct query *q, const struct search_term *term, float term_weight,
                       bool may_name_app)
{
    ASSERT((size_t)term->posting_first + term->posting_count <= q->index->posting_count);
    const struct search_posting *end =
        q->index->postings + term->posting_first + term->posting_count;
    const struct search_posting *posting = first_posting(q, term, q->doc_first);
    uint32_t verb = (uint32_t)(term - q->index->terms);
    /* Whether the word is the query's command and an action's id begins with it. */
    bool is_verb = q->is_command && term->is_verb && term->implied == SEARCH_NO_TERM;
    bool names = is_channel(q, term, term_weight);
    for (; posting < end && posting->doc < q->doc_end; posting++) {
        struct score *score = &q->scores[posting->doc - q->doc_first];
        bool is_other_number = q->is_plural ? posting->is_one && !posting->is_many
                                            : posting->is_many && !posting->is_one;
        float weight = is_other_number ? term_weight * SEARCH_CLOSE : term_weight;
        if (q->is_container && posting->is_in_title &&
            q->index->docs[posting->doc].title_word_count <= CONTAINER_TITLE_WORDS)
            weight *= SEARCH_HALF; /* the action "Add a sheet" adds nothing to a sheet */
        if (is_verb && (posting->is_in_id || posting->is_in_title) &&
            q->index->docs[posting->doc].verb != verb)
            weight *= SEARCH_CLOSE; /* the action "List changes" changes nothing */
        /* This is the document's first posting for the word: impact and weights are above 0, so
         * `best` is above 0 afterwards. */
        if (score->best <= 0)
            q->touched[q->touched_count++] = (uint32_t)(posting->doc - q->doc_first);
        score->best = larger_weight(score->best, weight * posting->impact);
        if (posting->is_in_app && may_name_app && term_weight >= SEARCH_CLOSE && !q->is_sender)
            score->is_app_named = q->is_app_named = true;
        if (names && posting->is_about)
            score->is_of_channel = true;
        if (names && (posting->is_in_id || posting->is_in_title))
            score->is_channel_in_name = true;
        if (posting->is_in_id)
            score->best_id = larger_weight(score->best_id, weight);
        if (posting->is_in_title)
            score->best_title = larger_weight(score->best_title, weight);
    }
}

/* Scores the expansion in q->word as one word of the query. role is the weight of the word's role.
 * Payload is not requested, so its absence does not lower any document's relevance. */
static void score_word(struct query *q, float role)
{
    ASSERT(role > 0 && role <= 1); /* a part without a role is not a word of the query */
    float weight = role * word_weight(q);
    bool is_asked = role > role_weights[ROLE_PAYLOAD];
    if (is_asked)
        q->asked += weight;
    q->touched_count = 0;
    for (size_t i = 0; i < q->word.count; i++)
        score_term(q, q->word.terms[i].term, q->word.terms[i].weight, is_asked);
    ASSERT(q->touched_count <= q->doc_end - q->doc_first); /* each document once */
    for (size_t i = 0; i < q->touched_count; i++) {
        struct score *score = &q->scores[q->touched[i]];
        score->sum += weight * score->best;
        score->id += role * score->best_id;
        score->title += role * score->best_title;
        score->best = score->best_id = score->best_title = 0;
    }
}

/* Splits "createEvent" at its humps, or "freebusy" if both halves are known words. Returns the
 * number of parts, or 0 if it cannot be split. */
static size_t read_halves(const struct query *q, const struct search_token *token,
                          struct search_token parts[WORD_PARTS_MAX])
{
    size_t count = 0;
    slice source = token->source;
    while (count < WORD_PARTS_MAX && search_text_next(&source, true, &parts[count]))
        count++;
    for (size_t cut = HALF_BYTES_MIN; count == 1 && cut + HALF_BYTES_MIN <= token->len; cut++) {
        slice left = slice_first(token_text(token), cut);
        slice right = slice_from(token_text(token), cut);
        if (!is_search_word(q, left) || !is_search_word(q, right))
            continue;
        (void)search_text_next(&left, false, &parts[0]);
        (void)search_text_next(&right, false, &parts[1]);
        count = 2;
    }
    return count > 1 ? count : 0;
}

/* In "comment on a page", the first word is a noun used as a verb, and means to create a
 * comment. */
static void score_implied(struct query *q, const struct search_part *part)
{
    const struct search_term *term = part->term;
    if (!term || term->implied == SEARCH_NO_TERM || search_text_is_plural(token_text(&part->token)))
        return;
    ASSERT(term->implied < q->index->term_count);
    q->word.count = 0;
    q->is_plural = false;
    search_expand_term(q->index, &q->index->terms[term->implied], 1, 0, &q->word);
    score_word(q, role_weights[part->role] * SEARCH_HALF);
}

/* A phrase (idioms.txt) or a sign (parts.c) has words with its meaning: blanks separate
 * alternatives, and commas separate several things, each of which counts as a word. */
static void score_means(struct query *q, const struct search_part *part)
{
    slice things = part->means;
    while (things.len > 0) {
        slice words = slice_split(&things, ',');
        struct search_token token;
        q->word.count = 0;
        q->is_plural = false;
        while (search_text_next(&words, false, &token)) {
            q->is_plural = q->is_plural || search_text_is_plural(token_text(&token));
            add_known(q, token_text(&token), 0);
        }
        if (q->word.count > 0)
            score_word(q, role_weights[part->role]);
    }
}

/* Whether the part says by which channel to send: "by sms", "text Ada"; not "the text", nor a mail
 * that the request only mentions. */
static bool names_channel(const struct search_part *part)
{
    bool is_text = part->use == AS_VERB && slice_eq_cstr(token_text(&part->token), "text");
    return part->role == ROLE_CORE && (part->classes & WORD_CHANNEL || is_text);
}

static void score_part(struct query *q, const struct search_part *part,
                       const struct search_token *token, bool is_last)
{
    struct search_token halves[WORD_PARTS_MAX];
    size_t count = 0;
    q->is_sender = part->is_sender;
    q->is_container = part->is_container;
    q->is_command = part->is_command;
    q->names_channel = names_channel(part);
    q->is_channel_named = q->is_channel_named || q->names_channel;
    q->own_term = part->classes & WORD_CHANNEL && part->means.len == 0 ? part->term : NULL;
    if (part->means.len > 0) {
        score_means(q, part);
        return;
    }
    /* a channel or app that the catalog does not have */
    if (part->classes & WORD_CHANNEL && !part->term) {
        q->word.count = 0;
        score_word(q, role_weights[part->role]);
        return;
    }
    q->is_reading = q->is_reading || (q->asked <= 0 && part->classes & WORD_READS);
    /* This applies only to the first requested word, and only if it is complete. */
    if (q->asked <= 0 && !is_last)
        score_implied(q, part);
    expand_token(q, token, part->use, is_last);
    if (q->word.count == 0)
        count = read_halves(q, token, halves);
    for (size_t i = 0; i < count; i++) {
        expand_token(q, &halves[i], 0, false);
        score_word(q, role_weights[part->role]);
    }
    if (count == 0)
        score_word(q, role_weights[part->role]);
}

/* If the query begins with a thing that does not exist yet ("a new branch off main"), the thing is
 * to be created. */
static void score_wish(struct query *q)
{
    const struct search_part *first = q->reading.parts;
    if (q->reading.count < 2 || first->means.len > 0 || !(first->classes & WORD_INDEFINITE))
        return;
    q->word.count = 0;
    q->is_plural = false;
    add_known(q, SLICE("create"), AS_VERB);
    score_word(q, SEARCH_HALF);
}

static void score_parts(struct query *q)
{
    struct search_token token;
    q->weight_max = rarity(q, rarest_share * (float)q->index->doc_count);
    score_wish(q);
    for (size_t i = 0, used; i < q->reading.count; i += used) {
        struct search_part *part = &q->reading.parts[i];
        used = join_parts(q, i, &token);
        if (used > 1 && part->role == ROLE_NONE)
            part->role = ROLE_CORE;
        if (part->role != ROLE_NONE)
            score_part(q, part, &token, i + used == q->reading.count);
    }
}

/* ---- the best ---- */

static bool is_action(const struct search_doc *doc)
{
    return doc->action != SEARCH_NO_ACTION;
}

static bool may_be_found(const struct search_request *request, const struct search_doc *docs,
                         size_t at)
{
    const struct search_doc *doc = &docs[at];
    bool is_left_out = doc->is_read ? request->without_reads : request->without_writes;
    return (is_action(doc) ? request->with_actions && !is_left_out : request->with_integrations) &&
           (!request->allowed || request->allowed[doc->integration]) &&
           !(request->unlisted && request->unlisted[at]);
}

/* Returns the share of a name's words that the query has. It is limited to 1, because expansions
 * may count one word twice. */
static float share(float said, unsigned words)
{
    return words == 0 ? 0 : said >= (float)words ? 1 : said / (float)words;
}

/* Whether the document belongs to another app than the requested one or, if none is requested,
 * to another channel. An app without words about its subject may do what its action's name says:
 * "Send a mail", but not "Find a user by mail". */
static bool is_of_another(const struct query *q, const struct score *got)
{
    bool is_named = got->is_channel_in_name && larger_weight(got->id, got->title) > name_words_min;
    return !got->is_app_named &&
           (q->is_app_named || (q->is_channel_named && !got->is_of_channel && !is_named));
}

/* Returns how much of the request the document matches; 1 means all of it, in the strongest fields.
 * A question does not ask for a change, so writes count half, and even less if the command is to
 * read; a query that names an app or a channel does not mean another app or channel. */
static float relevance_of(const struct query *q, size_t doc)
{
    const struct search_doc *d = &q->index->docs[doc];
    const struct score *got = &q->scores[doc - q->doc_first];
    float score = q->asked > 0 ? got->sum / q->asked : got->sum;
    score *= 1 + name_bonus * larger_weight(share(got->id, d->id_word_count),
                                            share(got->title, d->title_word_count));
    if (is_of_another(q, got))
        score *= SEARCH_HALF;
    if (is_action(d) && !d->is_read && (q->reading.is_question || q->is_reading))
        score *= q->reading.is_question ? SEARCH_HALF : SEARCH_CLOSE;
    return score;
}

/* Returns the document with its score; 0 if it matches nothing in the query. An exact tool name or
 * integration id ranks above an exact action id, which ranks above everything else: 200 and 100 are
 * far above any sum of words. An integration ranks after its actions if actions are wanted. */
static struct search_found find_doc(const struct query *q, const struct search_request *request,
                                    size_t doc)
{
    const struct search_doc *d = &q->index->docs[doc];
    float relevance = relevance_of(q, doc), score = relevance;
    if (!is_action(d) && request->with_actions)
        score *= SEARCH_HALF;
    if (request->connected && request->connected[d->integration])
        score *= 1 + tie_share;
    if (slice_eq(search_index_text(q->index, d->tool_name), q->id))
        score += 200;
    else if (slice_eq(search_index_text(q->index, d->id), q->id))
        score += 100;
    bool fits = relevance >= SEARCH_HALF && !is_of_another(q, &q->scores[doc - q->doc_first]);
    return (struct search_found){(uint32_t)doc, score, fits || score >= 100};
}

static bool is_before(struct search_found a, struct search_found b)
{
    return a.score != b.score ? a.score > b.score : a.doc < b.doc;
}

/* Keeps the `limit` best documents in a binary heap whose root is the worst of them: a better
 * document replaces the root. Ties are broken by document number, so that equal queries have
 * equal answers. */
static void sift_down(struct search_found *heap, size_t count, size_t at)
{
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && is_before(heap[child], heap[child + 1]))
            child++;
        if (is_before(heap[child], heap[at]))
            return;
        struct search_found moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

static void sift_up(struct search_found *heap, size_t at)
{
    while (at > 0 && is_before(heap[(at - 1) / 2], heap[at])) {
        struct search_found moved = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = moved;
        at = (at - 1) / 2;
    }
}

static size_t pick_best(const struct query *q, const struct search_request *request,
                        struct search_found *heap)
{
    size_t count = 0;
    for (size_t doc = q->doc_first; doc < q->doc_end; doc++) {
        if (!may_be_found(request, q->index->docs, doc))
            continue;
        struct search_found found = find_doc(q, request, doc);
        if (found.score <= 0 && !request->keeps_all)
            continue;
        if (count < request->limit) {
            heap[count] = found;
            sift_up(heap, count++);
        } else if (is_before(found, heap[0])) {
            heap[0] = found;
            sift_down(heap, count, 0);
        }
    }
    /* Heap sort in place: the worst document goes to the end. */
    for (size_t left = count; left > 1; left--) {
        struct search_found last = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = last;
        sift_down(heap, left - 1, 0);
    }
    return count;
}

/* ---- all of it ---- */

int search_run(struct search_index *index, struct arena *arena,
               const struct search_request *request, struct search_found **hits, size_t *count)
{
    struct query *q = ARENA_NEW(arena, struct query);
    size_t most = request->limit < index->doc_count ? request->limit : index->doc_count;
    *hits = ARENA_ARRAY(arena, struct search_found, most + 1);
    *count = 0;
    if (!q || !*hits || search_index_prepare(index) != OK)
        return ERR_NOMEM;
    q->index = index;
    q->doc_first = request->doc_first;
    q->doc_end = request->doc_count > 0 ? q->doc_first + request->doc_count : index->doc_count;
    ASSERT(q->doc_first <= q->doc_end && q->doc_end <= index->doc_count);
    search_query_read(index, request->query, &q->reading);
    make_id(q);
    q->scores = ARENA_ARRAY(arena, struct score, q->doc_end - q->doc_first);
    q->touched = ARENA_ARRAY(arena, uint32_t, q->doc_end - q->doc_first);
    if (!q->scores || !q->touched)
        return ERR_NOMEM;
    score_parts(q);
    *count = pick_best(q, request, *hits);
    return OK;
}

int search_index_prepare(struct search_index *index)
{
    if (!index->stemmer)
        index->stemmer = sb_stemmer_new("english", "UTF_8");
    return index->stemmer ? OK : ERR_NOMEM;
}

void search_index_close(struct search_index *index)
{
    /* sb_stemmer_delete takes NULL. */
    if (index)
        sb_stemmer_delete(index->stemmer);
}
