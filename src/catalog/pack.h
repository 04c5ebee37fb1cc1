/*
 * A pack: manifests that were checked, rendered and indexed, as one block of bytes. A catalog is
 * opened on it without reading it: tables refer to texts and to each other by offset and number, so
 * that nothing is relocated, copied or parsed before it is needed. The pack of the built-in
 * manifests is made when sluice is built (pack_main.c) and is in the program's file; the pack of a
 * catalog with an operator's own manifests is made when they are loaded.
 *
 * A pack is read by the build that made it: its numbers are the machine's own. Private to the
 * catalog room.
 *
 *   header | a table for each of enum pack_table, each aligned to 8
 */
#ifndef CATALOG_PACK_H
#define CATALOG_PACK_H

#include "base/buf.h"
#include "catalog/catalog.h"

#define PACK_MAGIC "sluice1"

enum { PACK_BYTES_MAX = 1024 * 1024 * 1024 };

enum pack_table {
    PACK_INTEGRATIONS, /* sorted by id */
    PACK_ACTIONS,      /* actions of an integration are adjacent, sorted by id */
    PACK_TOOLS,        /* uint32_t: numbers of actions, sorted by tool name */
    PACK_DOCS,         /* first of the tables of struct search_index (search/index.h) */
    PACK_WORDS,
    PACK_TERMS,
    PACK_POSTINGS,
    PACK_LINKS,
    PACK_PHRASES,
    PACK_REMAINDERS,
    PACK_BUCKETS,
    PACK_TEXTS, /* bytes that spans refer to */
    PACK_TABLES,
};

/* source is the integration's JSON without `actions`, which is parsed and compiled at the first
 * lookup */
struct pack_integration {
    struct buf_span integration_id, name, description, category, docs_url, icon;
    struct buf_span source, capabilities_json;
    uint32_t auth_kind, action_first, action_count;
};

struct pack_action {
    struct buf_span action_id, tool_name, title, description;
    struct buf_span source, item_json, detail_json, scope_words, undo;
    uint32_t integration;
    uint16_t level;
    uint8_t requires_confirmation, has_recipients;
};

struct pack_header {
    char magic[8], etag[24];
    struct {
        /* at is the offset from the start of the header, count the number of items */
        uint32_t at, count;
    } tables[PACK_TABLES];
};

static inline const void *pack_table_of(const struct pack_header *pack, enum pack_table table)
{
    return (const char *)pack + pack->tables[table].at;
}

static inline slice pack_text_of(const struct pack_header *pack, struct buf_span text)
{
    ASSERT((uint64_t)text.at + text.len <= pack->tables[PACK_TEXTS].count);
    return slice_of((const char *)pack_table_of(pack, PACK_TEXTS) + text.at, text.len);
}

/* Manifests that were read completely, sorted by id: the input from which a pack is made. */
struct manifest_set {
    struct catalog_integration **items;
    size_t count, action_count;
};

/* Writes the whole pack to `out` (is_failed if over its limit). The arena is for temporary data.
 * Returns OK, ERR_NOMEM, or ERR_INVALID if two actions have the same tool name; *twice is then that
 * name. */
int pack_make(const struct manifest_set *set, const char *etag, struct arena *arena,
              struct buf *out, slice *twice) MUST_CHECK;

/* load.c: checks all sources and makes their pack. If not OK, the report has an error. */
int catalog_pack(const struct catalog_source *sources, size_t count, struct buf *out,
                 struct catalog_report *report) MUST_CHECK;

/* ---- open.c ---- */

/* Opens a catalog on a pack. If owned is not NULL, the catalog owns it (mem_free), even on failure;
 * otherwise the pack must outlive the catalog. Returns NULL if out of memory. */
struct catalog *catalog_open(const struct pack_header *pack, char *owned) MUST_CHECK;

#endif
