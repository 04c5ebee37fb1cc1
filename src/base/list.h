/*
 * Intrusive doubly linked list. The owner embeds struct list as a member; a node that is in no
 * list points to itself, so unlinking twice is harmless.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"

struct list {
    struct list *next, *prev;
};

#define LIST_INIT(name)  \
    {                    \
        &(name), &(name) \
    }
#define LIST_ITEM(node, type, member) CONTAINER_OF(node, type, member)
/* Iterates over the items of a list. The body may unlink and free the current item. */
#define LIST_EACH(head, type, item, member)                              \
    for (type *item = LIST_ITEM((head)->next, type, member),             \
              *item##_next = LIST_ITEM(item->member.next, type, member); \
         &item->member != (head);                                        \
         item = item##_next, item##_next = LIST_ITEM(item->member.next, type, member))

static inline void list_init(struct list *list)
{
    list->next = list->prev = list;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_push_back(struct list *head, struct list *node)
{
    ASSERT(list_is_empty(node));
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_push_front(struct list *head, struct list *node)
{
    list_push_back(head->next, node);
}

static inline void list_unlink(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = node;
}

/* Moves the node from its present list, if any, to the end of another. */
static inline void list_move_back(struct list *head, struct list *node)
{
    list_unlink(node);
    list_push_back(head, node);
}

/* Returns NULL if the list is empty. */
static inline struct list *list_pop_front(struct list *head)
{
    if (list_is_empty(head))
        return NULL;
    struct list *node = head->next;
    list_unlink(node);
    return node;
}
/* Iterates over the items of a list until it is empty; each item is removed before the body
 * runs. */
#define LIST_DRAIN(head, type, item, member) \
    for (type * item;                        \
         !list_is_empty(head) && (item = LIST_ITEM(list_pop_front(head), type, member));)

/* Moves all nodes of `from` to the end of `to`; `from` is empty afterwards. */
static inline void list_append_all(struct list *to, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#endif
