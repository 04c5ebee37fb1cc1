/*
 * The seeded workspace: the page "Tasks home" with the database "Tasks" (12 tasks), four note pages
 * and a few blocks; two comments. Ids are fixed (notion.h) and dates relative to now. The
 * manifests' examples rely on: task pages 1, 2, 3 and 12 (to be archived), block 1 (a paragraph of
 * task 1), block 3 (a to-do), block 6 (to be deleted).
 */
#include <stdio.h>

#include "base/clock.h"
#include "provider/notion_property.h"

enum { STATUS_OPEN, STATUS_BUSY, STATUS_DONE };

static const struct {
    const char *title;
    int status;
    int due_days; /* from today; 99: none */
    const char *source, *priority, *tags;
    bool is_urgent;
    int effort;
} tasks[] = {
    {"Prepare the offsite in March", STATUS_BUSY, 5, "https://mail.example.com/offsite", "High",
     "team", true, 8},
    {"Review the contract with Fabrikam", STATUS_OPEN, 2, "https://mail.example.com/contract",
     "High", "legal", true, 3},
    {"Order monitors", STATUS_OPEN, 9, NULL, "Low", "office", false, 1},
    {"Write the status page text", STATUS_BUSY, 3, NULL, "Medium", "launch", false, 2},
    {"Test the rollback", STATUS_OPEN, 3, NULL, "High", "launch", true, 5},
    {"On-call rota for December", STATUS_OPEN, 7, NULL, "Medium", "launch,team", false, 2},
    {"Check the doubled payments", STATUS_DONE, -2, "https://mail.example.com/october", "High",
     "finance", false, 2},
    {"Grant Priya access to staging logs", STATUS_OPEN, 1, NULL, "Medium", "access", false, 1},
    {"Interview exercise with the queue", STATUS_DONE, -4, NULL, "Low", "hiring", false, 3},
    {"Renew the certificate before it expires", STATUS_OPEN, 20, NULL, "High", "operations", true,
     2},
    {"Decide about the old laptops", STATUS_OPEN, 99, NULL, NULL, NULL, false, 1},
    {"Clean up the wiki", STATUS_OPEN, 99, NULL, "Low", NULL, false, 13},
};

static const char *const notes[] = {"Offsite: who comes when", "Post-mortem of the outage",
                                    "Glossary", "Meeting rooms"};

static const char *const statuses[][2] = {
    {"Not started", "default"}, {"In progress", "blue"}, {"Done", "green"}};
static const char *const priorities[][2] = {{"High", "red"}, {"Medium", "yellow"}, {"Low", "gray"}};

struct seeding {
    struct notion *notion;
    int64_t now_us;
    unsigned blocks;
};

static struct json options(struct seeding *s, struct arena *arena, const char *const names[][2],
                           size_t count)
{
    struct json config = json_object(), list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_push(
            arena, &list,
            notion_option_make(s->notion, arena, slice_cstr(names[i][0]), slice_cstr(names[i][1])));
    json_object_set(arena, &config, SLICE("options"), list);
    return config;
}

static void add_property(struct notion_node *source, const char *id, const char *name,
                         enum notion_type type, struct json config)
{
    struct arena *arena = &source->arena;
    json_object_set(arena, &source->properties, slice_cstr(name),
                    notion_schema_entry(arena, slice_cstr(id), slice_cstr(name), type, config));
}

static void make_schema(struct seeding *s, struct notion_node *source)
{
    struct arena *arena = &source->arena;
    struct json number = json_object();
    json_object_set(arena, &number, SLICE("format"), json_string(SLICE("number")));
    struct json status = options(s, arena, statuses, ARRAY_LEN(statuses));
    json_object_set(arena, &status, SLICE("groups"), json_array());
    struct json tags = json_object();
    json_object_set(arena, &tags, SLICE("options"), json_array());
    add_property(source, "title", "Name", NOTION_TITLE, json_object());
    add_property(source, "sTat", "Status", NOTION_STATUS, status);
    add_property(source, "dUe1", "Due", NOTION_DATE, json_object());
    add_property(source, "sRc9", "Source", NOTION_URL, json_object());
    add_property(source, "pRio", "Priority", NOTION_SELECT,
                 options(s, arena, priorities, ARRAY_LEN(priorities)));
    add_property(source, "tAgs", "Tags", NOTION_MULTI_SELECT, tags);
    add_property(source, "uRgt", "Urgent", NOTION_CHECKBOX, json_object());
    add_property(source, "eFrt", "Points", NOTION_NUMBER, number);
    add_property(source, "pPl0", "Assignee", NOTION_PEOPLE, json_object());
    add_property(source, "nOte", "Notes", NOTION_RICH_TEXT, json_object());
    add_property(source, "cRea", "Created", NOTION_CREATED_TIME, json_object());
}

static bool add_block(struct seeding *s, struct notion_node *parent, const char *type,
                      const char *text)
{
    char id[UUID_TEXT_LEN + 1];
    (void)snprintf(id, sizeof(id), NOTION_BLOCK_ID, ++s->blocks);
    struct notion_node *block = notion_node_new(s->notion, NOTION_BLOCK, id, parent->created_us);
    if (!block)
        return false;
    struct arena *arena = &block->arena;
    block->type = slice_cstr(type);
    block->created_by = block->edited_by = NOTION_USER_SAM;
    block->content = json_object();
    json_object_set(arena, &block->content, SLICE("rich_text"),
                    notion_text_make(arena, slice_cstr(text)));
    if (!strcmp(type, "to_do"))
        json_object_set(arena, &block->content, SLICE("checked"), json_bool(false));
    json_object_set(arena, &block->content, SLICE("color"), json_string(SLICE("default")));
    return notion_node_enter(s->notion, block, parent, NULL);
}

/* The option's copy in the page's arena. */
static struct json option_value(const struct notion_node *source, const char *property,
                                const char *type, const char *name, struct arena *arena)
{
    const struct json *schema = notion_schema_find(source, slice_cstr(property), NULL);
    const struct json *option =
        notion_option_find(json_get(schema, slice_cstr(type)), slice_cstr(name));
    const struct json *copy = option ? json_dup(arena, option) : NULL;
    return copy ? *copy : json_null;
}

static struct json tag_values(struct seeding *s, struct notion_node *source, const char *names,
                              struct arena *arena)
{
    struct json list = json_array();
    slice rest = slice_cstr(names);
    while (rest.len) {
        slice name = slice_split(&rest, ',');
        struct json *config = (struct json *)(uintptr_t)JSON_GET(
            notion_schema_find(source, SLICE("Tags"), NULL), "multi_select");
        if (!notion_option_find(config, name))
            json_array_push(&source->arena, (struct json *)(uintptr_t)JSON_GET(config, "options"),
                            notion_option_make(s->notion, &source->arena, name, SLICE("purple")));
        const struct json *copy = json_dup(arena, notion_option_find(config, name));
        json_array_push(arena, &list, copy ? *copy : json_null);
    }
    return list;
}

static void set_date(struct arena *arena, struct json *values, int64_t time_us)
{
    char text[TIME_TEXT_LEN + 1];
    struct json date = json_object();
    time_format(time_us, text);
    json_object_set(arena, &date, SLICE("start"), json_string_dup(arena, slice_of(text, 10)));
    json_object_set(arena, &date, SLICE("end"), json_null);
    json_object_set(arena, &date, SLICE("time_zone"), json_null);
    json_object_set(arena, values, SLICE("dUe1"), date);
}

static void fill_task(struct seeding *s, struct notion_node *source, struct notion_node *page,
                      size_t k)
{
    struct arena *arena = &page->arena;
    struct json *values = &page->properties;
    struct json people = json_array(), person = json_object();
    json_object_set(arena, values, SLICE("title"),
                    notion_text_make(arena, slice_cstr(tasks[k].title)));
    json_object_set(arena, values, SLICE("sTat"),
                    option_value(source, "Status", "status", statuses[tasks[k].status][0], arena));
    if (tasks[k].due_days != 99)
        set_date(arena, values, s->now_us + tasks[k].due_days * INT64_C(86400000000));
    if (tasks[k].source)
        json_object_set(arena, values, SLICE("sRc9"), json_string(slice_cstr(tasks[k].source)));
    if (tasks[k].priority)
        json_object_set(arena, values, SLICE("pRio"),
                        option_value(source, "Priority", "select", tasks[k].priority, arena));
    if (tasks[k].tags)
        json_object_set(arena, values, SLICE("tAgs"), tag_values(s, source, tasks[k].tags, arena));
    json_object_set(arena, values, SLICE("uRgt"), json_bool(tasks[k].is_urgent));
    json_object_set(arena, values, SLICE("eFrt"), json_i64(tasks[k].effort));
    json_object_set(arena, &person, SLICE("object"), json_string(SLICE("user")));
    json_object_set(arena, &person, SLICE("id"),
                    json_string(k % 3 ? SLICE(NOTION_USER_SAM) : SLICE(NOTION_USER_ANNA)));
    json_array_push(arena, &people, person);
    json_object_set(arena, values, SLICE("pPl0"), people);
}

static struct notion_node *new_page(struct seeding *s, const char *id, unsigned hours_ago)
{
    struct notion_node *page =
        notion_node_new(s->notion, NOTION_PAGE, id, s->now_us - hours_ago * INT64_C(3600000000));
    if (page)
        page->created_by = page->edited_by = NOTION_USER_SAM;
    return page;
}

/* Tasks are entered from the last to the first, so that the first stands on top. */
static bool seed_tasks(struct seeding *s, struct notion_node *source)
{
    for (size_t k = ARRAY_LEN(tasks); k-- > 0;) {
        char id[UUID_TEXT_LEN + 1];
        (void)snprintf(id, sizeof(id), NOTION_PAGE_ID, (unsigned)k + 1);
        struct notion_node *page = new_page(s, id, 20 + (unsigned)k * 7);
        if (!page)
            return false;
        fill_task(s, source, page, k);
        if (!notion_node_enter(s->notion, page, source, NULL))
            return false;
    }
    return true;
}

static bool seed_content(struct seeding *s)
{
    char id[UUID_TEXT_LEN + 1];
    (void)snprintf(id, sizeof(id), NOTION_PAGE_ID, 1U);
    struct notion_node *first = notion_find(s->notion, slice_cstr(id));
    (void)snprintf(id, sizeof(id), NOTION_PAGE_ID, 2U);
    struct notion_node *second = notion_find(s->notion, slice_cstr(id));
    return add_block(s, first, "paragraph", "The house at the lake is free from 10 to 12 March.") &&
           add_block(s, first, "heading_2", "To do") &&
           add_block(s, first, "to_do", "Collect everybody's answer") &&
           add_block(s, first, "to_do", "Book the train") &&
           add_block(s, second, "paragraph", "Section 4 limits liability to the yearly fee.") &&
           add_block(s, second, "paragraph", "This sentence may be deleted.") &&
           add_block(s, second, "bulleted_list_item", "Mira waits for an answer by Friday");
}

static bool seed_notes(struct seeding *s, struct notion_node *root)
{
    for (size_t k = 0; k < ARRAY_LEN(notes); k++) {
        char id[UUID_TEXT_LEN + 1];
        (void)snprintf(id, sizeof(id), NOTION_PAGE_ID, 0x100 + (unsigned)k);
        struct notion_node *page = new_page(s, id, 100 + (unsigned)k * 30);
        if (!page)
            return false;
        json_object_set(&page->arena, &page->properties, SLICE("title"),
                        notion_text_make(&page->arena, slice_cstr(notes[k])));
        if (!notion_node_enter(s->notion, page, root, NULL) ||
            !add_block(s, page, "paragraph", "Notes are kept here."))
            return false;
    }
    return true;
}

static bool seed_comments(struct seeding *s)
{
    static const char *const texts[] = {"Anna asked for answers by Friday.",
                                        "Ben would like an evening without an agenda."};
    struct arena arena;
    char id[UUID_TEXT_LEN + 1], page_id[UUID_TEXT_LEN + 1], discussion[UUID_TEXT_LEN + 1];
    bool is_ok = true;
    (void)snprintf(page_id, sizeof(page_id), NOTION_PAGE_ID, 1U);
    (void)snprintf(discussion, sizeof(discussion), NOTION_COMMENT_ID, 0x100U);
    const struct notion_node *page = notion_find(s->notion, slice_cstr(page_id));
    arena_init(&arena, 64 * 1024);
    for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
        (void)snprintf(id, sizeof(id), NOTION_COMMENT_ID, i + 1);
        struct json text = notion_text_make(&arena, slice_cstr(texts[i]));
        is_ok &= notion_comment_add(s->notion, page, id, discussion, &text, NOTION_USER_ANNA,
                                    s->now_us - (5 - i) * INT64_C(3600000000)) != NULL;
    }
    arena_deinit(&arena);
    return is_ok;
}

bool notion_seed(struct notion *notion, int64_t now_us)
{
    struct seeding s = {notion, now_us, 0};
    struct notion_node *root = new_page(&s, NOTION_ROOT_PAGE, 900);
    int64_t made_us = now_us - 890 * INT64_C(3600000000);
    struct notion_node *database =
        notion_node_new(notion, NOTION_DATABASE, NOTION_TASK_DATABASE, made_us);
    struct notion_node *source =
        notion_node_new(notion, NOTION_SOURCE, NOTION_TASK_SOURCE, made_us);
    /* Running out of memory while the process starts: the caller ends it. */
    if (!root || !database || !source)
        return false;
    struct json icon = json_object();
    json_object_set(&root->arena, &icon, SLICE("type"), json_string(SLICE("emoji")));
    json_object_set(&root->arena, &icon, SLICE("emoji"), json_string(SLICE("\xe2\x9c\x85")));
    root->icon = icon;
    json_object_set(&root->arena, &root->properties, SLICE("title"),
                    notion_text_make(&root->arena, SLICE("Tasks home")));
    database->created_by = database->edited_by = NOTION_USER_SAM;
    database->title = notion_text_make(&database->arena, SLICE("Tasks"));
    source->created_by = source->edited_by = NOTION_USER_SAM;
    source->title = notion_text_make(&source->arena, SLICE("Tasks"));
    make_schema(&s, source);
    return notion_node_enter(notion, root, NULL, NULL) &&
           notion_node_enter(notion, database, root, NULL) &&
           notion_node_enter(notion, source, database, NULL) && seed_tasks(&s, source) &&
           seed_content(&s) && seed_notes(&s, root) && seed_comments(&s);
}
