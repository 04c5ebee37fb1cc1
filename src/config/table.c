/*
 * The table of settings, made from the list in settings.h.
 */
#include "config/config.h"

/* Units of bounds. */
#define KIB    ((uint64_t)1024)
#define MIB    (1024 * KIB)
#define SECOND ((uint64_t)1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

#define ITEM(member, name, kind, scopes, default_text, min, max, value_name, help)    \
    {name, CONFIG_##kind, scopes, offsetof(struct config, member), default_text, min, \
     max,  value_name,    help},

const struct config_item config_items[] = {CONFIG_SETTINGS(ITEM)};
const size_t config_item_count = ARRAY_LEN(config_items);
