/*
 * Answering a query: its words, their weights, a score for each document, the best of them.
 */
#include "catalog/search.h"

#include <libstemmer.h>
#include <math.h>

#include "catalog/search_index.h"

/* What is found: what has enough of the query's words in strong fields, 1 being all of them in the
 * strongest, or nearly all of them in any field. */
static const float score_floor = 0.22f;
static const float coverage_floor = 0.65f;
/* Less than this is about something else, and had one rare word in common by chance. */
static const float coverage_least = 0.34f;
/* A word that the catalog does not know is worth so many documents in rarity, however large the
 * catalog is: it must weigh against a match elsewhere, but a person's name must not undo it. */
static const float unknown_share = 0.012f;
/* How much a document gains whose id or title is named whole. */
static const float name_bonus = 0.15f;
/* "messages" for "message", and the other way round. */
static const float number_factor = 0.93f;
/* A verb that the first word implies. */
static const float implied_factor = 0.6f;
/* An integration beside its actions: who names what to do wants an action. */
static const float integration_factor = 0.5f;
/* A word that is still being typed stands for longer ones as well. */
static const float last_word_prefix_weight = 0.4f;
/* What is named only to say where something is done. */
static const float phrase_factor = 0.5f;
/* Who asks does not want to change anything. */
static const float question_factor = 0.6f;
/* Who names an app does not want another. */
static const float other_app_factor = 0.7f;
/* A synonym this close decides how rare a word is. */
static const float close_weight = 0.55f;

enum { JOINED_WORDS_MAX = 3, WORD_PARTS_MAX = 8, PREFIX_BYTES_MIN = 3, HALF_BYTES_MIN = 3 };

/* What a document has of the query, by the words' weights; best_*: of the current word. */
struct score {
    float sum, best;
    float covered, best_cover; /* the weights of the words that it has, by how sure they are */
    float id, best_id, title, best_title; /* how many words of its id, of its title */
    bool is_app_named;                    /* one of them is the name of its integration */
};

struct query {
    const struct catalog *catalog;
    const struct search_index *index;
    struct search_token tokens[SEARCH_QUERY_WORDS_MAX];
    size_t token_count;
    struct search_expansion word; /* the one being looked at */
    size_t doc_first, doc_end;    /* where hits may be */
    struct score *scores;         /* of these documents */
    float weight_sum;             /* of the words so far */
    float said_sum;               /* likewise, none being worth more than an unknown word */
    float unknown_weight;
    bool is_plural; /* the word being looked at */
    bool is_question;
    bool is_app_named;                    /* some integration */
    char id_text[SEARCH_QUERY_BYTES_MAX]; /* the query as an id: lower case, words joined by _ */
    slice id;
    const struct catalog_action *tool; /* named exactly */
};

/* ---- words ---- */

static void read_tokens(struct query *q, slice text)
{
    size_t len = 0;
    text = slice_first_utf8(text, SEARCH_QUERY_BYTES_MAX);
    while (q->token_count < SEARCH_QUERY_WORDS_MAX) {
        struct search_token *token = &q->tokens[q->token_count];
        if (!search_text_next(&text, false, token))
            break;
        q->token_count++;
        if (len + token->source.len + 1 > sizeof(q->id_text) || token->len == 0)
            continue;
        if (len > 0)
            q->id_text[len++] = '_';
        memcpy(q->id_text + len, token->text, token->len);
        len += token->len;
    }
    q->id = slice_of(q->id_text, len);
}

static slice token_text(const struct search_token *token)
{
    return slice_of(token->text, token->len);
}

static bool is_known(const struct search_term *term)
{
    return term && (term->posting_count > 0 || term->link_count > 0);
}

static bool is_word(const struct query *q, slice text)
{
    return search_index_word(q->index, text) != NULL;
}

/* Whether the token is a word that counts and that the catalog has. */
static bool says_something(const struct query *q, const struct search_token *token)
{
    return token->len > 0 && !search_text_is_stop_word(token_text(token)) &&
           is_known(search_index_find(q->index, token_text(token)));
}

/* "spread sheet", "who am i": several tokens that the catalog writes as one word, where they say
 * less by themselves. 1 when there is nothing to join. */
static size_t join_tokens(const struct query *q, size_t first, struct search_token *joined)
{
    for (size_t n = JOINED_WORDS_MAX; n > 1; n--) {
        size_t len = 0, telling = 0, parts = 0;
        for (size_t i = first; i < first + n && i < q->token_count; i++) {
            const struct search_token *part = &q->tokens[i];
            if (part->len == 0 || len + part->len > sizeof(joined->text))
                break;
            memcpy(joined->text + len, part->text, part->len);
            len += part->len;
            telling += says_something(q, part);
            parts++;
        }
        joined->len = len;
        joined->source = SLICE_NONE;
        slice text = token_text(joined);
        if (parts == n && telling < n && is_word(q, text) && !search_text_is_stop_word(text))
            return n;
    }
    *joined = q->tokens[first];
    return 1;
}

/* ---- what a word stands for ---- */

/* A stop word is not in the index, but may stand for others: "who" for people. */
static bool has_links(const struct query *q, slice word)
{
    const struct search_term *term = word.len > 0 ? search_index_find(q->index, word) : NULL;
    return term && term->link_count > 0;
}

static void add_known(struct query *q, slice word, float weight)
{
    const struct search_term *term = word.len > 0 ? search_index_find(q->index, word) : NULL;
    if (is_known(term))
        search_expand_term(q->index, term, weight, &q->word);
}

static void expand(struct query *q, const struct search_token *token, bool is_last)
{
    slice text = token_text(token);
    q->word.count = 0;
    q->is_plural = search_text_is_plural(text);
    add_known(q, text, 1);
    if (q->word.count > 0) {
        if (is_last && text.len >= PREFIX_BYTES_MIN)
            search_expand_prefix(q->index, text, last_word_prefix_weight, &q->word);
        return;
    }
    if (text.len >= PREFIX_BYTES_MIN)
        search_expand_prefix(q->index, text, 1, &q->word);
    search_expand_typo(q->index, text, &q->word);
}

static float larger(float a, float b)
{
    return a > b ? a : b;
}

static float smaller(float a, float b)
{
    return a < b ? a : b;
}

/* How rare a word is that so many documents have (BM25's idf, never negative). */
static float rarity(const struct query *q, float docs)
{
    float all = (float)q->index->doc_count;
    return logf(1 + (all - docs + 0.5f) / (docs + 0.5f));
}

/* A word is as rare as the most common of the terms that stand for it. */
static float word_weight(const struct query *q)
{
    float docs = 0;
    for (size_t i = 0; i < q->word.count; i++)
        if (q->word.terms[i].weight >= close_weight)
            docs = larger(docs, q->word.terms[i].term->docs);
    return docs > 0 ? rarity(q, docs) : q->unknown_weight;
}

/* ---- scores ---- */

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

/* The best of the terms that stand for the word counts, not their sum. */
static void score_term(struct query *q, const struct search_term *term, float term_weight)
{
    const struct search_posting *end =
        q->index->postings + term->posting_first + term->posting_count;
    const struct search_posting *posting = first_posting(q, term, q->doc_first);
    for (; posting < end && posting->doc < q->doc_end; posting++) {
        struct score *score = &q->scores[posting->doc - q->doc_first];
        bool is_other_number = q->is_plural ? posting->is_one && !posting->is_many
                                            : posting->is_many && !posting->is_one;
        float weight = is_other_number ? term_weight * number_factor : term_weight;
        score->best = larger(score->best, weight * posting->impact);
        score->best_cover = larger(score->best_cover, term_weight);
        if (posting->is_in_app && term_weight >= close_weight)
            score->is_app_named = q->is_app_named = true;
        if (posting->is_in_id)
            score->best_id = larger(score->best_id, weight);
        if (posting->is_in_title)
            score->best_title = larger(score->best_title, weight);
    }
}

static void score_word(struct query *q, float weight)
{
    size_t count = q->doc_end - q->doc_first;
    float said = smaller(weight, q->unknown_weight);
    q->weight_sum += weight;
    q->said_sum += said;
    for (size_t i = 0; i < q->word.count; i++)
        score_term(q, q->word.terms[i].term, q->word.terms[i].weight);
    for (size_t i = 0; i < count && q->word.count > 0; i++) {
        struct score *score = &q->scores[i];
        if (score->best <= 0)
            continue;
        score->sum += weight * score->best;
        score->covered += said * score->best_cover;
        score->id += score->best_id;
        score->title += score->best_title;
        score->best = score->best_cover = score->best_id = score->best_title = 0;
    }
}

/* Words of a phrase that says where ("to a page", "in a folder") stand back behind what is done to
 * what; an app's name never does. */
static bool is_app_name(const struct query *q)
{
    for (size_t i = 0; i < q->word.count; i++)
        if (q->word.terms[i].term->is_app_name)
            return true;
    return false;
}

static void score_expanded(struct query *q, bool is_in_phrase)
{
    float weight = word_weight(q);
    bool stands_back = is_in_phrase && q->word.count > 0 && !is_app_name(q);
    score_word(q, stands_back ? weight * phrase_factor : weight);
}

/* Of "createEvent", or of "freebusy" where both halves are words; 0 when there are none. */
static size_t read_parts(const struct query *q, const struct search_token *token,
                         struct search_token parts[WORD_PARTS_MAX])
{
    size_t count = 0;
    slice source = token->source;
    while (count < WORD_PARTS_MAX && search_text_next(&source, true, &parts[count]))
        count++;
    for (size_t cut = HALF_BYTES_MIN; count == 1 && cut + HALF_BYTES_MIN <= token->len; cut++) {
        slice left = slice_first(token_text(token), cut);
        slice right = slice_from(token_text(token), cut);
        if (!is_word(q, left) || !is_word(q, right))
            continue;
        (void)search_text_next(&left, false, &parts[0]);
        (void)search_text_next(&right, false, &parts[1]);
        count = 2;
    }
    return count > 1 ? count : 0;
}

/* "comment on a page": the first word is a verb, and means to create one. */
static void score_implied(struct query *q, const struct search_token *token)
{
    const struct search_term *term = search_index_find(q->index, token_text(token));
    if (!term || term->implied == SEARCH_NO_TERM || search_text_is_plural(token_text(token)))
        return;
    q->word.count = 0;
    q->is_plural = false;
    search_expand_term(q->index, &q->index->terms[term->implied], 1, &q->word);
    score_word(q, word_weight(q) * implied_factor);
}

static void score_token(struct query *q, const struct search_token *token, bool is_last,
                        bool is_in_phrase)
{
    struct search_token parts[WORD_PARTS_MAX];
    size_t count = 0;
    if (q->weight_sum <= 0 && token->len > 0 && !is_last)
        score_implied(q, token);
    expand(q, token, is_last);
    if (q->word.count == 0)
        count = read_parts(q, token, parts);
    for (size_t i = 0; i < count; i++) {
        expand(q, &parts[i], false);
        score_expanded(q, is_in_phrase);
    }
    if (count == 0)
        score_expanded(q, is_in_phrase);
}

static void score_words(struct query *q)
{
    struct search_token token;
    bool is_in_phrase = false;
    q->unknown_weight = rarity(q, unknown_share * (float)q->index->doc_count);
    q->is_question = search_text_is_question(token_text(&q->tokens[0]));
    for (size_t i = 0, used; i < q->token_count; i += used) {
        used = join_tokens(q, i, &token);
        slice text = token_text(&token);
        if (q->weight_sum > 0 && search_text_is_preposition(text))
            is_in_phrase = true;
        if (used > 1 || !search_text_is_stop_word(text) || has_links(q, text))
            score_token(q, &token, i + used == q->token_count, is_in_phrase);
    }
}

/* ---- the best ---- */

static const struct catalog_integration *integration_of(const struct query *q,
                                                        const struct search_doc *doc)
{
    return q->catalog->integrations[doc->integration];
}

/* NULL: the integration itself. */
static const struct catalog_action *action_of(const struct query *q, const struct search_doc *doc)
{
    return doc->action == SEARCH_NO_ACTION ? NULL : &integration_of(q, doc)->actions[doc->action];
}

static bool may_be_found(const struct search_request *request, const struct search_doc *doc)
{
    bool is_action = doc->action != SEARCH_NO_ACTION;
    return (is_action ? request->with_actions : request->with_integrations) &&
           (!request->allowed || request->allowed[doc->integration]);
}

/* Of a name's words, how many were said. */
static float share(float said, unsigned words)
{
    return words == 0 ? 0 : said >= (float)words ? 1 : said / (float)words;
}

/* 0: not found. An exact tool name or integration id is above an exact action id, and that above
 * everything else. */
static float final_score(const struct query *q, const struct search_request *request, size_t doc)
{
    const struct search_doc *d = &q->index->docs[doc];
    const struct catalog_action *action = action_of(q, d);
    const struct score *got = &q->scores[doc - q->doc_first];
    float score = q->weight_sum > 0 ? got->sum / q->weight_sum : 0;
    if (action ? action == q->tool : slice_eq(integration_of(q, d)->integration_id, q->id))
        return 200 + score;
    if (action && slice_eq(action->action_id, q->id))
        return 100 + score;
    bool is_enough = got->covered >= coverage_floor * q->said_sum ||
                     (score >= score_floor && got->covered >= coverage_least * q->said_sum);
    if (score <= 0 || !(is_enough || request->is_lenient))
        return 0;
    score *= 1 + name_bonus * larger(share(got->id, d->id_word_count),
                                     share(got->title, d->title_word_count));
    if (q->is_app_named && !got->is_app_named)
        score *= other_app_factor;
    if (q->is_question && action && action->level != LEVEL_READ)
        score *= question_factor;
    return action || !request->with_actions ? score : score * integration_factor;
}

struct found {
    uint32_t doc;
    float score;
};

static bool is_before(struct found a, struct found b)
{
    return a.score != b.score ? a.score > b.score : a.doc < b.doc;
}

/* A heap whose root is the last of the best. */
static void sift_down(struct found *heap, size_t count, size_t at)
{
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && is_before(heap[child], heap[child + 1]))
            child++;
        if (is_before(heap[child], heap[at]))
            return;
        struct found moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

static void sift_up(struct found *heap, size_t at)
{
    while (at > 0 && is_before(heap[(at - 1) / 2], heap[at])) {
        struct found moved = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = moved;
        at = (at - 1) / 2;
    }
}

static size_t pick_best(const struct query *q, const struct search_request *request,
                        struct found *heap)
{
    size_t count = 0;
    for (size_t doc = q->doc_first; doc < q->doc_end; doc++) {
        if (!may_be_found(request, &q->index->docs[doc]))
            continue;
        struct found found = {(uint32_t)doc, final_score(q, request, doc)};
        if (found.score <= 0)
            continue;
        if (count < request->limit) {
            heap[count] = found;
            sift_up(heap, count++);
        } else if (is_before(found, heap[0])) {
            heap[0] = found;
            sift_down(heap, count, 0);
        }
    }
    for (size_t left = count; left > 1; left--) {
        struct found last = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = last;
        sift_down(heap, left - 1, 0);
    }
    return count;
}

/* ---- all of it ---- */

int catalog_search(const struct catalog *catalog, struct arena *arena,
                   const struct search_request *request, struct search_hit **hits, size_t *count)
{
    struct search_index *index = catalog->search;
    struct query *q = ARENA_NEW(arena, struct query);
    size_t most = request->limit < index->doc_count ? request->limit : index->doc_count;
    struct found *found = ARENA_ARRAY(arena, struct found, most + 1);
    *hits = ARENA_ARRAY(arena, struct search_hit, most + 1);
    *count = 0;
    if (!index->stemmer)
        index->stemmer = sb_stemmer_new("english", "UTF_8");
    if (!q || !found || !*hits || !index->stemmer || catalog_open_heads(catalog) != OK)
        return ERR_NOMEM;
    q->catalog = catalog;
    q->index = index;
    q->doc_end = index->doc_count;
    if (request->within) {
        q->doc_first = request->within->search_first;
        q->doc_end = q->doc_first + 1 + request->within->action_count;
    }
    read_tokens(q, request->query);
    if (q->token_count == 0 || most == 0)
        return OK;
    q->scores = ARENA_ARRAY(arena, struct score, q->doc_end - q->doc_first);
    if (!q->scores)
        return ERR_NOMEM;
    q->tool = catalog_head_of_tool(catalog, q->id);
    score_words(q);
    *count = pick_best(q, request, found);
    for (size_t i = 0; i < *count; i++) {
        const struct search_doc *doc = &index->docs[found[i].doc];
        (*hits)[i] = (struct search_hit){integration_of(q, doc), action_of(q, doc), found[i].score};
    }
    return OK;
}
