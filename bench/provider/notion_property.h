/*
 * Property types, shared by schema, values, filters and sorts.
 */
#ifndef PROVIDER_NOTION_PROPERTY_H
#define PROVIDER_NOTION_PROPERTY_H

#include "provider/notion.h"

enum notion_type {
    NOTION_TYPE_NONE,
    NOTION_TITLE,
    NOTION_RICH_TEXT,
    NOTION_NUMBER,
    NOTION_SELECT,
    NOTION_MULTI_SELECT,
    NOTION_STATUS,
    NOTION_DATE,
    NOTION_PEOPLE,
    NOTION_FILES,
    NOTION_CHECKBOX,
    NOTION_URL,
    NOTION_EMAIL,
    NOTION_PHONE,
    NOTION_RELATION,
    NOTION_CREATED_TIME,
    NOTION_CREATED_BY,
    NOTION_EDITED_TIME,
    NOTION_EDITED_BY,
};

/* NOTION_TYPE_NONE when the name is no type. */
enum notion_type notion_type_of(slice name);
const char *notion_type_name(enum notion_type type);
/* {id, name, type, <type>: config}; id and name are borrowed for the arena's life. */
struct json notion_schema_entry(struct arena *arena, slice id, slice name, enum notion_type type,
                                struct json config);
/* An option of a select, multi_select or status by name or id; NULL when there is none. */
const struct json *notion_option_find(const struct json *config, slice name_or_id);
struct json notion_option_make(struct notion *notion, struct arena *arena, slice name, slice color);

#endif
