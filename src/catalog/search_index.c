/*
 * Building the index: every field of every document to words, terms and postings.
 */
#include "catalog/search_index.h"

#include <libstemmer.h>
#include <stdlib.h>

#include "base/mem.h"

/* How much a word counts in a field, and how much less in a long one (BM25F's w and b). */
static const struct {
    float weight, length_penalty;
} search_fields[SEARCH_FIELD_COUNT] = {
    [FIELD_ID] = {3.5f, 0.3f},       [FIELD_TITLE] = {3.0f, 0.4f},
    [FIELD_TAGS] = {4.0f, 0.15f},    [FIELD_DESCRIPTION] = {1.0f, 0.9f},
    [FIELD_INTEGRATION] = {3.5f, 0}, [FIELD_DOMAIN] = {1.2f, 0},
    [FIELD_INPUTS] = {0.2f, 0.3f},
};

static const float saturation = 0.8f; /* BM25's k1 */
/* Of the documents that have an app's name, how many are the app's own, at least. */
static const float name_share = 0.8f;

enum { ENTRIES_MIN = 1024, ENTRIES_MAX = 64 * 1024 * 1024 };

/* A term in a document. */
struct entry {
    struct search_term *term;
    uint32_t doc;
    uint8_t counts[SEARCH_FIELD_COUNT];
    bool is_one, is_many;
};

struct builder {
    struct search_index *index;
    struct arena *arena;
    struct entry *entries;
    size_t entry_count, entry_cap;
    uint32_t (*lengths)[SEARCH_FIELD_COUNT]; /* words of each field of each document */
    double totals[SEARCH_FIELD_COUNT];
    size_t integration_count;
    struct search_word *words; /* all, in no order */
    struct search_term *terms;
    bool is_out_of_memory;
};

/* ---- words and terms ---- */

static struct search_term *term_new(struct builder *b, slice stem)
{
    struct search_term *term = ARENA_NEW(b->arena, struct search_term);
    if (!term)
        return NULL;
    *term = (struct search_term){
        .stem = arena_dup(b->arena, stem), .last_doc = UINT32_MAX, .next = b->terms};
    if (!term->stem.ptr || map_put(&b->index->terms_by_stem, term->stem, term, NULL) != OK)
        return NULL;
    b->terms = term;
    return term;
}

static struct search_term *term_of(struct builder *b, slice text)
{
    const struct search_word *known = map_get(&b->index->words_by_text, text);
    if (known)
        return known->term;
    slice stem = search_text_stem(b->index->stemmer, text);
    struct search_term *term = map_get(&b->index->terms_by_stem, stem);
    if (!term)
        term = term_new(b, stem);
    struct search_word *word = ARENA_NEW(b->arena, struct search_word);
    if (term && word)
        *word = (struct search_word){arena_dup(b->arena, text), term, b->words};
    if (!term || !word || !word->text.ptr ||
        map_put(&b->index->words_by_text, word->text, word, NULL) != OK) {
        b->is_out_of_memory = true;
        return NULL;
    }
    b->words = word;
    b->index->word_count++;
    return term;
}

const struct search_term *search_index_find(const struct search_index *index, slice word)
{
    const struct search_word *known = map_get(&index->words_by_text, word);
    return known ? known->term
                 : map_get(&index->terms_by_stem, search_text_stem(index->stemmer, word));
}

/* ---- documents ---- */

static struct entry *entry_of(struct builder *b, struct search_term *term, uint32_t doc)
{
    if (term->last_doc == doc)
        return &b->entries[term->last_entry];
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
    struct search_doc *doc = &b->index->docs[entry->doc];
    if (field == FIELD_ID || field == FIELD_TITLE) {
        uint16_t *count = field == FIELD_ID ? &doc->id_word_count : &doc->title_word_count;
        *count = (uint16_t)(*count + (entry->counts[field] == 0));
        if (search_text_is_plural(word))
            entry->is_many = true;
        else
            entry->is_one = true;
    }
    if (field == FIELD_INTEGRATION)
        entry->term->is_app_name = true;
    if (entry->counts[field] < UINT8_MAX)
        entry->counts[field]++;
}

static void put_text(struct builder *b, size_t doc, enum search_field field, slice text)
{
    struct search_token token;
    uint32_t *length = &b->lengths[doc][field];
    while (*length < SEARCH_FIELD_WORDS_MAX &&
           search_text_next(&text, field == FIELD_INPUTS, &token)) {
        slice word = slice_of(token.text, token.len);
        if (token.len == 0 || search_text_is_stop_word(word))
            continue;
        struct search_term *term = term_of(b, word);
        struct entry *entry = term ? entry_of(b, term, (uint32_t)doc) : NULL;
        if (!entry)
            return;
        count_word(b, entry, field, word);
        ++*length;
        b->totals[field]++;
    }
}

static void put_texts(struct builder *b, size_t doc, enum search_field field,
                      const struct json *texts)
{
    for (uint32_t i = 0; json_is(texts, JSON_ARRAY) && i < texts->count; i++)
        put_text(b, doc, field, json_str(&texts->as.items[i]));
}

static void put_integration(struct builder *b, size_t doc,
                            const struct catalog_integration *integration)
{
    put_text(b, doc, FIELD_ID, integration->integration_id);
    put_text(b, doc, FIELD_TITLE, integration->name);
    put_text(b, doc, FIELD_TAGS, integration->category);
    put_texts(b, doc, FIELD_TAGS, integration->tags);
    put_text(b, doc, FIELD_DESCRIPTION, integration->description);
    for (size_t i = 0; i < integration->action_count; i++)
        put_text(b, doc, FIELD_INPUTS, integration->actions[i].action_id);
}

static bool is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* "Call get_message first": what such a sentence says is true of another action. */
static bool names_another(const struct catalog_action *action, slice sentence)
{
    while (sentence.len > 0) {
        size_t len = 0;
        while (len < sentence.len && is_id_char(sentence.ptr[len]))
            len++;
        slice word = slice_first(sentence, len);
        if (slice_find_char(word, '_') > 0) {
            const struct catalog_action *other = catalog_find_action(action->integration, word);
            if (other && other != action)
                return true;
        }
        sentence = slice_from(sentence, len + 1);
    }
    return false;
}

static void put_description(struct builder *b, size_t doc, const struct catalog_action *action)
{
    slice text = action->description;
    while (text.len > 0) {
        size_t len = 0;
        while (len < text.len && !((text.ptr[len] == '.' || text.ptr[len] == ';') &&
                                   (len + 1 == text.len || text.ptr[len + 1] == ' ')))
            len++;
        slice sentence = slice_first(text, len);
        if (!names_another(action, sentence))
            put_text(b, doc, FIELD_DESCRIPTION, sentence);
        text = slice_from(text, len + 1);
    }
}

static void put_action(struct builder *b, size_t doc, const struct catalog_action *action)
{
    const struct catalog_integration *integration = action->integration;
    const struct json *properties = JSON_GET(action->input_schema, "properties");
    put_text(b, doc, FIELD_ID, action->action_id);
    put_text(b, doc, FIELD_TITLE, action->title);
    put_texts(b, doc, FIELD_TAGS, action->tags);
    put_description(b, doc, action);
    put_text(b, doc, FIELD_INTEGRATION, integration->integration_id);
    put_text(b, doc, FIELD_INTEGRATION, integration->name);
    put_text(b, doc, FIELD_DOMAIN, integration->category);
    put_texts(b, doc, FIELD_DOMAIN, integration->tags);
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++)
        put_text(b, doc, FIELD_INPUTS, json_str(&properties->as.members[i].key));
}

static void put_documents(struct builder *b, const struct catalog *catalog)
{
    struct search_doc *docs = b->index->docs;
    size_t doc = 0;
    for (size_t i = 0; i < catalog->integration_count; i++) {
        struct catalog_integration *integration = catalog->integrations[i];
        integration->search_first = doc;
        docs[doc] = (struct search_doc){integration, NULL, (uint32_t)i, 0, 0};
        put_integration(b, doc++, integration);
        for (size_t j = 0; j < integration->action_count; j++) {
            docs[doc] =
                (struct search_doc){integration, &integration->actions[j], (uint32_t)i, 0, 0};
            put_action(b, doc++, &integration->actions[j]);
        }
    }
    ASSERT(doc == b->index->doc_count);
}

/* ---- postings ---- */

static float impact_of(const struct builder *b, const struct entry *entry)
{
    float sum = 0, docs = (float)b->index->doc_count;
    for (size_t field = 0; field < SEARCH_FIELD_COUNT; field++) {
        if (entry->counts[field] == 0)
            continue;
        float penalty = search_fields[field].length_penalty;
        float average = (float)b->totals[field] / docs;
        float length = (float)b->lengths[entry->doc][field] / average;
        sum += search_fields[field].weight * (float)entry->counts[field] /
               (1 - penalty + penalty * length);
    }
    return sum / (saturation + sum);
}

/* How many documents this one stands for, were all integrations of one size. */
static float weight_of(const struct builder *b, uint32_t doc)
{
    size_t size = 1 + b->index->docs[doc].integration->action_count;
    return (float)b->index->doc_count / (float)b->integration_count / (float)size;
}

static bool names_app(const struct builder *b, const struct entry *entry)
{
    bool is_integration = !b->index->docs[entry->doc].action;
    return entry->counts[FIELD_INTEGRATION] > 0 ||
           (is_integration && entry->counts[FIELD_ID] + entry->counts[FIELD_TITLE] > 0);
}

/* "mail" is a part of one app's name, and what others are about: who says it names no app. */
static void forget_common_name(struct search_term *term)
{
    uint32_t named = 0;
    for (uint32_t i = 0; i < term->posting_count; i++)
        named += term->postings[i].is_in_app;
    for (uint32_t i = 0;
         i < term->posting_count && (float)named < name_share * (float)term->posting_count; i++)
        term->postings[i].is_in_app = 0;
}

/* Entries are in the order of documents, so each term's postings are too. */
static int make_postings(struct builder *b)
{
    struct search_posting *free = ARENA_ARRAY(b->arena, struct search_posting, b->entry_count + 1);
    if (!free)
        return ERR_NOMEM;
    for (struct search_term *term = b->terms; term; term = term->next) {
        term->postings = free;
        free += term->posting_count;
        term->posting_count = 0;
    }
    for (size_t i = 0; i < b->entry_count; i++) {
        const struct entry *entry = &b->entries[i];
        entry->term->docs += weight_of(b, entry->doc);
        entry->term->postings[entry->term->posting_count++] = (struct search_posting){
            .doc = entry->doc & SEARCH_DOC_MAX,
            .is_in_id = entry->counts[FIELD_ID] > 0,
            .is_in_title = entry->counts[FIELD_TITLE] > 0,
            .is_in_app = names_app(b, entry),
            .is_one = entry->is_one,
            .is_many = entry->is_many,
            .impact = impact_of(b, entry),
        };
    }
    for (struct search_term *term = b->terms; term; term = term->next)
        forget_common_name(term);
    return OK;
}

/* ---- synonyms ---- */

enum { GROUP_WORDS_MAX = 32 };

static size_t read_group(struct builder *b, const char *words, struct search_term **terms)
{
    struct search_token token;
    size_t count = 0;
    slice text = slice_cstr(words);
    while (search_text_next(&text, false, &token)) {
        ASSERT(count < GROUP_WORDS_MAX && token.len > 0);
        struct search_term *term = term_of(b, slice_of(token.text, token.len));
        if (term)
            terms[count++] = term;
    }
    return count;
}

static void link_to(struct builder *b, struct search_term *from, struct search_term *const *to,
                    size_t count, float weight)
{
    size_t had = from->link_count;
    struct search_link *links =
        arena_realloc(b->arena, from->links, had * sizeof(*links), (had + count) * sizeof(*links));
    if (!links) {
        b->is_out_of_memory = true;
        return;
    }
    from->links = links;
    for (size_t i = 0; i < count; i++)
        if (to[i] != from)
            links[from->link_count++] = (struct search_link){to[i], weight};
}

static void make_links(struct builder *b)
{
    struct search_term *from[GROUP_WORDS_MAX], *to[GROUP_WORDS_MAX];
    for (size_t i = 0; i < search_synonyms_count; i++) {
        const struct search_synonyms *group = &search_synonyms[i];
        size_t from_count = read_group(b, group->words, from);
        size_t to_count = read_group(b, group->finds ? group->finds : group->words, to);
        for (size_t j = 0; j < from_count; j++)
            link_to(b, from[j], to, to_count, group->weight);
    }
    for (size_t i = 0; i < search_implied_count; i++) {
        size_t from_count = read_group(b, search_implied[i].words, from);
        if (read_group(b, search_implied[i].means, to) == 1)
            for (size_t j = 0; j < from_count; j++)
                from[j]->implied = to[0];
    }
}

/* ---- words in order, and their remainders ---- */

static int compare_words(const void *a, const void *b)
{
    const struct search_word *const *left = a, *const *right = b;
    return slice_cmp((*left)->text, (*right)->text);
}

static int sort_words(struct builder *b)
{
    struct search_index *index = b->index;
    size_t count = 0;
    index->words = ARENA_ARRAY(b->arena, struct search_word *, index->word_count + 1);
    if (!index->words)
        return ERR_NOMEM;
    for (struct search_word *word = b->words; word; word = word->next)
        if (word->term->posting_count > 0 || word->term->link_count > 0)
            index->words[count++] = word;
    index->word_count = count;
    qsort(index->words, count, sizeof(*index->words), compare_words);
    return OK;
}

static bool may_be_mistyped(slice word)
{
    return word.len >= SEARCH_TYPO_BYTES_MIN && word.len <= SEARCH_TYPO_BYTES_MAX;
}

/* A counting sort by the hash's low bits: count, sum up, and fill from each bucket's end. */
static int make_remainders(struct builder *b)
{
    struct search_index *index = b->index;
    size_t total = 0;
    for (size_t i = 0; i < index->word_count; i++)
        total += may_be_mistyped(index->words[i]->text) ? index->words[i]->text.len + 1 : 0;
    index->bucket_count = 16;
    while (index->bucket_count < total)
        index->bucket_count *= 2;
    uint32_t *starts = ARENA_ARRAY(b->arena, uint32_t, index->bucket_count + 1);
    index->remainders = ARENA_ARRAY(b->arena, struct search_remainder, total + 1);
    index->bucket_starts = starts;
    if (!starts || !index->remainders)
        return ERR_NOMEM;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < index->word_count; i++) {
            slice text = index->words[i]->text;
            for (size_t skip = 0; may_be_mistyped(text) && skip <= text.len; skip++) {
                uint32_t hash = search_text_hash(text, skip); /* the last skips nothing */
                uint32_t *start = &starts[hash & (index->bucket_count - 1)];
                if (pass == 0)
                    ++*start;
                else
                    index->remainders[--*start] = (struct search_remainder){hash, (uint32_t)i};
            }
        }
        for (size_t i = 1; pass == 0 && i <= index->bucket_count; i++)
            starts[i] += starts[i - 1];
    }
    ASSERT(starts[0] == 0 && starts[index->bucket_count] == total);
    return OK;
}

/* ---- all of it ---- */

static int build(struct builder *b, const struct catalog *catalog)
{
    struct search_index *index = b->index;
    index->stemmer = sb_stemmer_new("english", "UTF_8");
    index->docs = ARENA_ARRAY(b->arena, struct search_doc, index->doc_count + 1);
    b->lengths = mem_calloc(index->doc_count + 1, sizeof(*b->lengths));
    if (!index->stemmer || !index->docs || !b->lengths)
        return ERR_NOMEM;
    b->integration_count = catalog->integration_count;
    put_documents(b, catalog);
    if (b->is_out_of_memory || make_postings(b) != OK)
        return ERR_NOMEM;
    make_links(b);
    if (b->is_out_of_memory || sort_words(b) != OK)
        return ERR_NOMEM;
    return make_remainders(b);
}

int search_index_build(struct catalog *catalog)
{
    struct search_index *index = ARENA_NEW(&catalog->arena, struct search_index);
    struct builder b = {.index = index, .arena = &catalog->arena};
    if (!index)
        return ERR_NOMEM;
    catalog->search = index;
    map_init(&index->words_by_text, SIZE_MAX);
    map_init(&index->terms_by_stem, SIZE_MAX);
    index->doc_count = catalog->integration_count + catalog->action_count;
    int result = build(&b, catalog);
    mem_free(b.lengths);
    mem_free(b.entries);
    return result;
}

void search_index_free(struct search_index *index)
{
    if (!index)
        return;
    map_deinit(&index->words_by_text);
    map_deinit(&index->terms_by_stem);
    sb_stemmer_delete(index->stemmer);
}
