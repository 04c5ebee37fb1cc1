/*
 * Builds the index: turns every field of every document into words, terms and postings, and these
 * into tables.
 *
 * It runs when a pack is made, so it may use pointers, maps and the heap; the tables that it
 * produces contain only numbers. Order of build_index(): classes come first, since stop words are
 * not entered; then documents; then postings, once all counts are known; then links, which need the
 * terms. At the end words and terms are sorted and numbered, and the remainders are made from the
 * sorted words.
 */
#include "search/reading.h"

#include <libstemmer.h>
#include <stdlib.h>

#include "base/ascii.h"
#include "base/map.h"
#include "base/mem.h"

/* A synonym's weight relative to that of the word itself. */
static const float synonym_weights[] = {[SAME] = SEARCH_CLOSE, [NEAR] = SEARCH_HALF};

/* BM25F's w (the weight of a word in a field) and b (how much a long field lowers that weight).
 * Names and tags are short and chosen with care, so they weigh most; names of inputs only hint
 * at what an action does. */
#define STRONG     3.5f
#define HINT       0.2f
#define SHORT_TEXT 0.3f
#define LONG_TEXT  0.75f

static const struct {
    float weight, length_penalty;
} search_fields[SEARCH_FIELD_COUNT] = {
    [FIELD_ID] = {STRONG, SHORT_TEXT},   [FIELD_TITLE] = {STRONG, SHORT_TEXT},
    [FIELD_TAGS] = {STRONG, 0},          [FIELD_DESCRIPTION] = {1, LONG_TEXT},
    [FIELD_INTEGRATION] = {STRONG, 0},   [FIELD_DOMAIN] = {1, 0},
    [FIELD_INPUTS] = {HINT, SHORT_TEXT},
};

static const float saturation = 1.2f; /* BM25's k1 */
/* A word names an app only if at least this share of the documents with the word belong to the
 * app. */
static const float name_share = 0.8f;

enum { ENTRIES_MIN = 1024, ENTRIES_MAX = 64 * 1024 * 1024, PHRASES_MAX = 1000 };

/* These structs correspond to those in index.h, with pointers, while the index grows. last_doc and
 * last_entry give the last entry made for the term, so that entry_of finds a document's entry
 * without a search. */
struct term {
    slice stem;
    struct search_posting *postings;
    struct link *links;
    uint32_t posting_count, link_count;
    float docs;
    const struct term *implied;
    bool is_app_name, is_generic, is_verb;
    uint32_t phrase_first, phrase_count;
    /* the last document in which the term was entered, and its entry */
    uint32_t last_doc, last_entry;
    uint32_t number; /* position in the order of stems */
    struct term *next;
};

struct link {
    const struct term *term;
    float weight;
    uint32_t use;
};

struct word {
    slice text;
    struct term *term;
    uint32_t classes;
    struct word *next;
};

/* A term in a document. */
struct entry {
    struct term *term;
    uint32_t doc;
    uint8_t counts[SEARCH_FIELD_COUNT];
    bool is_one, is_many;
};

struct builder {
    struct sb_stemmer *stemmer;
    struct map words_by_text, terms_by_stem;
    struct arena *arena;
    struct search_doc *docs;
    struct term **verbs; /* the first word of each document's id */
    struct entry *entries;
    size_t entry_count, entry_cap;
    uint32_t (*lengths)[SEARCH_FIELD_COUNT]; /* words of each field of each document */
    double totals[SEARCH_FIELD_COUNT];
    size_t doc_count, word_count, term_count;
    const struct search_integration *integrations;
    size_t integration_count;
    struct word *words; /* all, unordered */
    struct term *terms;
    bool is_out_of_memory;
};

/* ---- words and terms ---- */

static struct term *term_new(struct builder *b, slice stem)
{
    struct term *term = ARENA_NEW(b->arena, struct term);
    if (!term)
        return NULL;
    *term =
        (struct term){.stem = arena_dup(b->arena, stem), .last_doc = UINT32_MAX, .next = b->terms};
    if (!term->stem.ptr || map_put(&b->terms_by_stem, term->stem, term, NULL) != OK)
        return NULL;
    b->terms = term;
    b->term_count++;
    return term;
}

/* Returns the word, with the term of its stem; creates the word if it is new. Returns NULL if out
 * of memory; this is recorded in is_out_of_memory, so callers may continue and build_index() fails
 * at the end. */
static struct word *word_of(struct builder *b, slice text)
{
    /* longer words were dropped earlier */
    ASSERT(text.len > 0 && text.len <= SEARCH_WORD_BYTES_MAX);
    struct word *word = map_get(&b->words_by_text, text);
    if (word)
        return word;
    slice stem = search_text_stem(b->stemmer, text);
    struct term *term = map_get(&b->terms_by_stem, stem);
    if (!term)
        term = term_new(b, stem);
    word = ARENA_NEW(b->arena, struct word);
    if (term && word)
        *word = (struct word){.text = arena_dup(b->arena, text), .term = term, .next = b->words};
    if (!term || !word || !word->text.ptr ||
        map_put(&b->words_by_text, word->text, word, NULL) != OK) {
        b->is_out_of_memory = true;
        return NULL;
    }
    b->words = word;
    b->word_count++;
    return word;
}

static struct term *term_of(struct builder *b, slice text)
{
    struct word *word = word_of(b, text);
    return word ? word->term : NULL;
}

static void put_classes(struct builder *b)
{
    struct search_token token;
    for (size_t i = 0; i < search_classes_count; i++) {
        slice text = slice_cstr(search_classes[i].words);
        while (search_text_next(&text, false, &token)) {
            struct word *word = word_of(b, slice_of(token.text, token.len));
            if (!word)
                return;
            word->classes |= search_classes[i].flags;
            word->term->is_generic = word->term->is_generic || word->classes & WORD_GENERIC;
        }
    }
}

struct phrase {
    slice text;
    struct term *term; /* the term of the phrase's first word */
    uint32_t idiom;
};

static int compare_phrases(const void *a, const void *b)
{
    const struct phrase *left = a, *right = b;
    int order = slice_cmp(left->term->stem, right->term->stem);
    return order != 0 ? order : slice_cmp(left->text, right->text);
}

/* Sorts the phrases, so that those with the same first word form a range. Returns OK or
 * ERR_NOMEM. */
static int make_phrases(struct builder *b, struct buf *texts, struct search_index *index)
{
    struct phrase *all = ARENA_ARRAY(b->arena, struct phrase, PHRASES_MAX);
    struct search_phrase *phrases = ARENA_ARRAY(b->arena, struct search_phrase, PHRASES_MAX);
    struct search_token token;
    uint32_t count = 0;
    if (!all || !phrases)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < search_idioms_count; i++)
        for (slice rest = slice_cstr(search_idioms[i].phrases); rest.len > 0; count++) {
            slice text = slice_trim(slice_split(&rest, '/')), words = text;
            bool is_phrase = search_text_next(&words, false, &token);
            ASSERT(is_phrase && count < PHRASES_MAX);
            all[count] = (struct phrase){text, term_of(b, slice_of(token.text, token.len)), i};
            if (!all[count].term)
                return ERR_NOMEM;
        }
    qsort(all, count, sizeof(*all), compare_phrases);
    for (uint32_t i = 0; i < count; i++) {
        if (all[i].term->phrase_count++ == 0)
            all[i].term->phrase_first = i;
        phrases[i] = (struct search_phrase){buf_append_span(texts, all[i].text), all[i].idiom};
    }
    index->phrases = phrases;
    index->phrase_count = count;
    return OK;
}

/* ---- documents ---- */

static struct entry *entry_of(struct builder *b, struct term *term, uint32_t doc)
{
    if (term->last_doc == doc)
        return &b->entries[term->last_entry];
    /* Documents are entered in order, so postings ascend, which a search relies on. */
    ASSERT(b->entry_count == 0 || b->entries[b->entry_count - 1].doc <= doc);
    if (b->entry_count == b->entry_cap) {
        size_t cap = b->entry_cap ? b->entry_cap * 2 : ENTRIES_MIN;
        struct entry *grown = cap <= ENTRIES_MAX ? mem_realloc(b->entries, cap * sizeof(*grown))
                                                 : NULL;
        if (!grown) {
            b->is_out_of_memory = true;
            return NULL;
        }
        b->entries = grown;
        b->entry_cap = cap;
    }
    term->last_doc = doc;
    term->last_entry = (uint32_t)b->entry_count;
    term->posting_count++;
    b->entries[b->entry_count] = (struct entry){.term = term, .doc = doc};
    return &b->entries[b->entry_count++];
}

static void count_word(struct builder *b, struct entry *entry, enum search_field field, slice word)
{
    struct search_doc *doc = &b->docs[entry->doc];
    if (field == FIELD_ID || field == FIELD_TITLE) {
        uint16_t *count = field == FIELD_ID ? &doc->id_word_count : &doc->title_word_count;
        /* Counts only distinct terms: "list of lists" has one name word, which the query can
         * match once. */
        *count = (uint16_t)(*count + (entry->counts[field] == 0));
        if (search_text_is_plural(word))
            entry->is_many = true;
        else
            entry->is_one = true;
    }
    /* The first word of an action's id that is not a stop word is its verb: "send_message". */
    if (field == FIELD_ID && doc->action != SEARCH_NO_ACTION && !b->verbs[entry->doc]) {
        b->verbs[entry->doc] = entry->term;
        entry->term->is_verb = true;
    }
    if (field == FIELD_INTEGRATION && !entry->term->is_generic)
        entry->term->is_app_name = true;
    /* The count saturates: because of BM25's k1, more repetitions add nothing. */
    if (entry->counts[field] < UINT8_MAX)
        entry->counts[field]++;
}

static void index_text(struct builder *b, size_t doc, enum search_field field, slice text)
{
    struct search_token token;
    uint32_t *length = &b->lengths[doc][field];
    /* The limit keeps a long description from filling the index; its summary is at the
     * beginning. */
    while (*length < SEARCH_FIELD_WORDS_MAX &&
           search_text_next(&text, field == FIELD_INPUTS, &token)) {
        slice text_of_word = slice_of(token.text, token.len);
        struct word *word = token.len > 0 ? word_of(b, text_of_word) : NULL;
        if (token.len == 0 || (word && word->classes & WORD_STOP))
            continue;
        struct entry *entry = word ? entry_of(b, word->term, (uint32_t)doc) : NULL;
        if (!entry)
            return;
        count_word(b, entry, field, text_of_word);
        ++*length;
        b->totals[field]++;
    }
}

static void index_texts(struct builder *b, size_t doc, enum search_field field,
                        const struct json *texts)
{
    for (uint32_t i = 0; json_is(texts, JSON_ARRAY) && i < texts->count; i++)
        index_text(b, doc, field, json_str(&texts->as.items[i]));
}

static void index_integration(struct builder *b, size_t doc,
                              const struct search_integration *integration)
{
    index_text(b, doc, FIELD_ID, integration->id);
    index_text(b, doc, FIELD_TITLE, integration->name);
    index_text(b, doc, FIELD_TAGS, integration->category);
    index_texts(b, doc, FIELD_TAGS, integration->tags);
    index_text(b, doc, FIELD_DESCRIPTION, integration->description);
    for (size_t i = 0; i < integration->action_count; i++)
        index_text(b, doc, FIELD_INPUTS, integration->actions[i].id);
}

static bool is_id_char(char c)
{
    return ascii_is_lower(c) || ascii_is_digit(c) || c == '_';
}

static int by_id(const void *id, const void *action)
{
    return slice_cmp(*(const slice *)id, ((const struct search_action *)action)->id);
}

/* Finds an action by its id or by its tool name, which begins with the integration's id and _. */
static const struct search_action *action_named(const struct search_integration *of, slice name)
{
    const struct search_action *found =
        bsearch(&name, of->actions, of->action_count, sizeof(*of->actions), by_id);
    if (found || !slice_starts_with(name, of->id) || name.len <= of->id.len + 1 ||
        name.ptr[of->id.len] != '_')
        return found;
    slice id = slice_from(name, of->id.len + 1);
    return bsearch(&id, of->actions, of->action_count, sizeof(*of->actions), by_id);
}

/* A sentence that names another action, such as "Call get_message first", is about that action. */
static bool names_another(const struct search_integration *of, const struct search_action *action,
                          slice sentence)
{
    while (sentence.len > 0) {
        size_t len = 0;
        while (len < sentence.len && is_id_char(sentence.ptr[len]))
            len++;
        slice word = slice_first(sentence, len);
        if (slice_find_char(word, '_') > 0) {
            const struct search_action *other = action_named(of, word);
            if (other && other != action)
                return true;
        }
        sentence = slice_from(sentence, len + 1);
    }
    return false;
}

static void index_description(struct builder *b, size_t doc, const struct search_integration *of,
                              const struct search_action *action)
{
    slice text = action->description;
    while (text.len > 0) {
        size_t len = 0;
        /* Ends the sentence at a period or semicolon before a blank or at the end of the text. */
        while (len < text.len && !((text.ptr[len] == '.' || text.ptr[len] == ';') &&
                                   (len + 1 == text.len || text.ptr[len + 1] == ' ')))
            len++;
        slice sentence = slice_first(text, len);
        if (!names_another(of, action, sentence))
            index_text(b, doc, FIELD_DESCRIPTION, sentence);
        text = slice_from(text, len + 1);
    }
}

static void index_action(struct builder *b, size_t doc,
                         const struct search_integration *integration,
                         const struct search_action *action)
{
    const struct json *inputs = action->inputs;
    index_text(b, doc, FIELD_ID, action->id);
    index_text(b, doc, FIELD_TITLE, action->title);
    index_texts(b, doc, FIELD_TAGS, action->tags);
    index_description(b, doc, integration, action);
    index_text(b, doc, FIELD_INTEGRATION, integration->id);
    index_text(b, doc, FIELD_INTEGRATION, integration->name);
    index_text(b, doc, FIELD_DOMAIN, integration->category);
    index_texts(b, doc, FIELD_DOMAIN, integration->tags);
    for (uint32_t i = 0; json_is(inputs, JSON_OBJECT) && i < inputs->count; i++)
        index_text(b, doc, FIELD_INPUTS, json_str(&inputs->as.members[i].key));
}

static void index_documents(struct builder *b)
{
    size_t doc = 0;
    for (uint32_t i = 0; i < b->integration_count; i++) {
        const struct search_integration *integration = &b->integrations[i];
        b->docs[doc] = (struct search_doc){.integration = i,
                                           .action = SEARCH_NO_ACTION,
                                           .verb = SEARCH_NO_TERM,
                                           .id = integration->id_span,
                                           .tool_name = integration->id_span};
        index_integration(b, doc++, integration);
        for (uint32_t j = 0; j < integration->action_count; j++) {
            const struct search_action *action = &integration->actions[j];
            b->docs[doc] = (struct search_doc){.integration = i,
                                               .action = j,
                                               .verb = SEARCH_NO_TERM,
                                               .id = action->id_span,
                                               .tool_name = action->tool_name_span,
                                               .is_read = action->is_read};
            index_action(b, doc++, integration, action);
        }
    }
    ASSERT(doc == b->doc_count);
}

/* ---- postings ---- */

static float impact_of(const struct builder *b, const struct entry *entry)
{
    float sum = 0, docs = (float)b->doc_count;
    for (size_t field = 0; field < SEARCH_FIELD_COUNT; field++) {
        if (entry->counts[field] == 0)
            continue;
        float penalty = search_fields[field].length_penalty;
        /* The average is above 0, since this document has a word in the field. */
        float average = (float)b->totals[field] / docs;
        float length = (float)b->lengths[entry->doc][field] / average;
        sum += search_fields[field].weight * (float)entry->counts[field] /
               (1 - penalty + penalty * length);
    }
    ASSERT(sum > 0); /* each entry has a field, so the sum is above 0 */
    return sum / (saturation + sum);
}

/* Returns the weight of a document in the counts for idf. All integrations get the same size:
 * otherwise the words of an app with 500 actions would be common, and those of an app with five
 * actions rare. */
static float weight_of(const struct builder *b, uint32_t doc)
{
    size_t size = 1 + b->integrations[b->docs[doc].integration].action_count;
    return (float)b->doc_count / (float)b->integration_count / (float)size;
}

static bool names_app(const struct builder *b, const struct entry *entry)
{
    bool is_integration = b->docs[entry->doc].action == SEARCH_NO_ACTION;
    return !entry->term->is_generic &&
           (entry->counts[FIELD_INTEGRATION] > 0 ||
            (is_integration && entry->counts[FIELD_ID] + entry->counts[FIELD_TITLE] > 0));
}

/* A word such as "mail" is part of one app's name and the subject of other apps, so it does not
 * name an app in a query. */
static void forget_common_name(struct term *term)
{
    uint32_t named = 0;
    for (uint32_t i = 0; i < term->posting_count; i++)
        named += term->postings[i].is_in_app;
    for (uint32_t i = 0;
         i < term->posting_count && (float)named < name_share * (float)term->posting_count; i++)
        term->postings[i].is_in_app = 0;
}

/* Puts all postings into one array, term by term: a counting sort that uses posting_count. Entries
 * are in the order of documents, so each term's postings are, too. Returns NULL if out of
 * memory. */
static struct search_posting *make_postings(struct builder *b)
{
    struct search_posting *all = ARENA_ARRAY(b->arena, struct search_posting, b->entry_count + 1);
    struct search_posting *free = all;
    if (!all)
        return NULL;
    for (struct term *term = b->terms; term; term = term->next) {
        term->postings = free;
        free += term->posting_count;
        term->posting_count = 0;
    }
    ASSERT(free == all + b->entry_count); /* each entry is one posting */
    for (size_t i = 0; i < b->entry_count; i++) {
        const struct entry *entry = &b->entries[i];
        entry->term->docs += weight_of(b, entry->doc);
        entry->term->postings[entry->term->posting_count++] = (struct search_posting){
            .doc = entry->doc & SEARCH_DOC_MAX,
            .is_in_id = entry->counts[FIELD_ID] > 0,
            .is_in_title = entry->counts[FIELD_TITLE] > 0,
            .is_about = entry->counts[FIELD_TAGS] + entry->counts[FIELD_INTEGRATION] +
                            entry->counts[FIELD_DOMAIN] >
                        0,
            .is_in_app = names_app(b, entry),
            .is_one = entry->is_one,
            .is_many = entry->is_many,
            .impact = impact_of(b, entry),
        };
    }
    for (struct term *term = b->terms; term; term = term->next)
        forget_common_name(term);
    return all;
}

/* ---- synonyms ---- */

enum { GROUP_WORDS_MAX = 48 };

static size_t read_group(struct builder *b, const char *words, struct term **terms)
{
    struct search_token token;
    size_t count = 0;
    slice text = slice_cstr(words);
    while (search_text_next(&text, false, &token)) {
        ASSERT(count < GROUP_WORDS_MAX && token.len > 0);
        struct term *term = term_of(b, slice_of(token.text, token.len));
        if (term)
            terms[count++] = term;
    }
    return count;
}

static void link_to(struct builder *b, struct term *from, struct term *const *to, size_t count,
                    unsigned how)
{
    size_t had = from->link_count;
    ASSERT(!(how & AS_VERB) || !(how & AS_NOUN)); /* a link with both uses would match neither */
    struct link *links =
        arena_realloc(b->arena, from->links, had * sizeof(*links), (had + count) * sizeof(*links));
    if (!links) {
        b->is_out_of_memory = true;
        return;
    }
    from->links = links;
    for (size_t i = 0; i < count; i++)
        if (to[i] != from)
            /* `to` contains `from` itself if a group finds its own words. */
            links[from->link_count++] =
                (struct link){to[i], synonym_weights[how & NEAR], how & (AS_VERB | AS_NOUN)};
}

static void make_links(struct builder *b)
{
    struct term *from[GROUP_WORDS_MAX], *to[GROUP_WORDS_MAX];
    for (size_t i = 0; i < search_synonyms_count; i++) {
        const struct search_synonyms *group = &search_synonyms[i];
        size_t from_count = read_group(b, group->words, from);
        size_t to_count = read_group(b, group->finds ? group->finds : group->words, to);
        for (size_t j = 0; j < from_count; j++)
            link_to(b, from[j], to, to_count, group->how);
    }
    for (size_t i = 0; i < search_implied_count; i++) {
        size_t from_count = read_group(b, search_implied[i].words, from);
        if (read_group(b, search_implied[i].means, to) == 1)
            for (size_t j = 0; j < from_count; j++)
                from[j]->implied = to[0];
    }
}

/* ---- the tables ---- */

static int compare_words(const void *a, const void *b)
{
    const struct word *const *left = a, *const *right = b;
    return slice_cmp((*left)->text, (*right)->text);
}

static int compare_terms(const void *a, const void *b)
{
    const struct term *const *left = a, *const *right = b;
    return slice_cmp((*left)->stem, (*right)->stem);
}

/* Makes the table of the words that match a term, have a class or begin a phrase, in order. Other
 * words need no entry: a word of a query that is not found is stemmed instead. */
static int make_words(struct builder *b, struct buf *texts, struct search_index *index)
{
    struct word **sorted = ARENA_ARRAY(b->arena, struct word *, b->word_count + 1);
    struct search_word *words = ARENA_ARRAY(b->arena, struct search_word, b->word_count + 1);
    size_t count = 0;
    if (!sorted || !words)
        return ERR_NOMEM;
    for (struct word *word = b->words; word; word = word->next) {
        bool is_stop = word->classes & WORD_STOP;
        if (word->term->link_count > 0 || (word->term->posting_count > 0 && !is_stop))
            word->classes |= WORD_FINDS;
        if (word->classes != 0 || word->term->phrase_count > 0)
            sorted[count++] = word;
    }
    qsort(sorted, count, sizeof(*sorted), compare_words);
    for (size_t i = 1; i < count; i++)
        ASSERT(slice_cmp(sorted[i - 1]->text, sorted[i]->text) <
               0); /* binary search needs this order */
    for (size_t i = 0; i < count; i++)
        words[i] = (struct search_word){buf_append_span(texts, sorted[i]->text),
                                        sorted[i]->term->number, sorted[i]->classes};
    index->words = words;
    index->word_count = count;
    return OK;
}

/* Sorts and numbers the terms, with the ranges of their postings and links. There are two passes:
 * links refer to terms by number, so all numbers have to be known first. Postings stay where
 * make_postings put them. */
static int make_terms(struct builder *b, struct buf *texts, struct search_index *index)
{
    struct term **sorted = ARENA_ARRAY(b->arena, struct term *, b->term_count + 1);
    struct search_term *terms = ARENA_ARRAY(b->arena, struct search_term, b->term_count + 1);
    size_t count = 0, link_count = 0;
    if (!sorted || !terms)
        return ERR_NOMEM;
    for (struct term *term = b->terms; term; term = term->next) {
        sorted[count++] = term;
        link_count += term->link_count;
    }
    struct search_link *links = ARENA_ARRAY(b->arena, struct search_link, link_count + 1);
    if (!links)
        return ERR_NOMEM;
    qsort(sorted, count, sizeof(*sorted), compare_terms);
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(i == 0 || slice_cmp(sorted[i - 1]->stem, sorted[i]->stem) < 0);
        sorted[i]->number = i;
    }
    for (size_t i = 0; i < b->doc_count; i++)
        b->docs[i].verb = b->verbs[i] ? b->verbs[i]->number : SEARCH_NO_TERM;
    for (size_t i = 0; i < count; i++) {
        const struct term *term = sorted[i];
        terms[i] = (struct search_term){
            .stem = buf_append_span(texts, term->stem),
            .posting_first = term->posting_count > 0 ? (uint32_t)(term->postings - index->postings)
                                                     : 0,
            .posting_count = term->posting_count,
            .link_first = (uint32_t)index->link_count,
            .link_count = term->link_count,
            .docs = term->docs,
            .implied = term->implied ? term->implied->number : SEARCH_NO_TERM,
            .is_app_name = term->is_app_name,
            .is_verb = term->is_verb,
            .phrase_first = term->phrase_first,
            .phrase_count = term->phrase_count,
        };
        for (uint32_t j = 0; j < term->link_count; j++)
            links[index->link_count++] = (struct search_link){
                term->links[j].term->number, term->links[j].weight, term->links[j].use};
    }
    index->terms = terms;
    index->term_count = count;
    index->links = links;
    return OK;
}

static bool may_be_mistyped(const struct search_word *word)
{
    return word->classes & WORD_FINDS && word->text.len >= SEARCH_TYPO_BYTES_MIN &&
           word->text.len <= SEARCH_TYPO_BYTES_MAX;
}

/* A counting sort by the hash's low bits: count, add up, and fill from each bucket's end. */
static int make_remainders(struct builder *b, const struct buf *texts, struct search_index *index)
{
    size_t total = 0, buckets = 16;
    for (size_t i = 0; i < index->word_count; i++)
        total += may_be_mistyped(&index->words[i]) ? index->words[i].text.len + 1 : 0;
    /* The number is a power of two, since a search masks the hash, with at most one remainder per
     * bucket on average. */
    while (buckets < total)
        buckets *= 2;
    uint32_t *starts = ARENA_ARRAY(b->arena, uint32_t, buckets + 1);
    struct search_remainder *all = ARENA_ARRAY(b->arena, struct search_remainder, total + 1);
    if (!starts || !all || !buf_is_ok(texts))
        return ERR_NOMEM;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < index->word_count; i++) {
            struct buf_span word = index->words[i].text;
            slice text = slice_of(texts->ptr + word.at, word.len);
            for (size_t skip = 0; may_be_mistyped(&index->words[i]) && skip <= text.len; skip++) {
                uint32_t hash = search_text_hash(text, skip); /* the last remainder skips nothing */
                uint32_t *start = &starts[hash & (buckets - 1)];
                if (pass == 0)
                    ++*start;
                else
                    all[--*start] = (struct search_remainder){hash, i};
            }
        }
        for (size_t i = 1; pass == 0 && i <= buckets; i++)
            starts[i] += starts[i - 1];
    }
    ASSERT(starts[0] == 0 && starts[buckets] == total);
    index->remainders = all;
    index->remainder_count = total;
    index->bucket_starts = starts;
    index->bucket_count = buckets;
    return OK;
}

/* ---- all of it ---- */

static int build_index(struct builder *b, struct buf *texts, struct search_index *index)
{
    b->stemmer = sb_stemmer_new("english", "UTF_8");
    b->docs = ARENA_ARRAY(b->arena, struct search_doc, b->doc_count + 1);
    b->verbs = ARENA_ARRAY(b->arena, struct term *, b->doc_count + 1);
    b->lengths = mem_calloc(b->doc_count + 1, sizeof(*b->lengths));
    if (!b->stemmer || !b->docs || !b->verbs || !b->lengths)
        return ERR_NOMEM;
    put_classes(b);
    index_documents(b);
    if (b->is_out_of_memory)
        return ERR_NOMEM;
    struct search_posting *postings = make_postings(b);
    if (!postings)
        return ERR_NOMEM;
    make_links(b);
    *index = (struct search_index){.postings = postings,
                                   .posting_count = b->entry_count,
                                   .docs = b->docs,
                                   .doc_count = b->doc_count};
    if (make_phrases(b, texts, index) != OK || b->is_out_of_memory ||
        make_terms(b, texts, index) != OK)
        return ERR_NOMEM;
    return make_words(b, texts, index) == OK ? make_remainders(b, texts, index) : ERR_NOMEM;
}

int search_index_build(const struct search_integration *integrations, size_t count,
                       struct arena *arena, struct buf *texts, struct search_index *index)
{
    /* The arena keeps the parts of the pack; maps, entries and lengths are only for building. */
    struct builder b = {.arena = arena,
                        .integrations = integrations,
                        .integration_count = count,
                        .doc_count = count};
    for (size_t i = 0; i < count; i++)
        b.doc_count += integrations[i].action_count;
    ASSERT(b.doc_count <= SEARCH_DOC_MAX); /* the maximum of a posting's member `doc` */
    map_init(&b.words_by_text, SIZE_MAX);
    map_init(&b.terms_by_stem, SIZE_MAX);
    int result = build_index(&b, texts, index);
    map_deinit(&b.words_by_text);
    map_deinit(&b.terms_by_stem);
    sb_stemmer_delete(b.stemmer);
    mem_free(b.lengths);
    mem_free(b.entries);
    return result;
}
