/*
 * Private to config*.c.
 */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

#include "config/config.h"

/* Returns NULL if there is no setting with that name. */
const struct config_item *config_item_find(slice name);
/* is_first: this is the first value from its source; a list loses its values from other sources
 * first. */
int config_item_set(struct config *config, const struct config_item *item, slice value,
                    bool is_first, struct err *err) MUST_CHECK;

#endif
