/*
 * Private to config*.c.
 */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

#include "config/config.h"

/* NULL if there is none. */
const struct config_item *config_item_find(slice name);
/* is_first: the first value of this source; it empties a list, whose values come from another
 * source. */
int config_item_set(struct config *config, const struct config_item *item, slice value,
                    bool is_first, struct err *err) MUST_CHECK;

#endif
