/*
 * Messages in order of (internalDate, id), old to new. New mail is appended; anything else moves
 * pointers, at most GMAIL_MESSAGES_MAX of them.
 */
#include "base/mem.h"
#include "provider/gmail.h"

static bool is_before(const struct gmail_message *message, int64_t time_ms, uint64_t id)
{
    return message->time_ms < time_ms || (message->time_ms == time_ms && message->id < id);
}

size_t gmail_order_rank(const struct gmail_order *order, int64_t time_ms, uint64_t id)
{
    size_t low = 0, high = order->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(order->items[middle], time_ms, id))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool gmail_order_insert(struct gmail_order *order, struct gmail_message *message)
{
    if (order->count == order->cap) {
        size_t cap = order->cap ? order->cap * 2 : 8;
        struct gmail_message **items =
            mem_realloc((void *)order->items, cap * sizeof(struct gmail_message *));
        if (!items)
            return false;
        order->items = items;
        order->cap = cap;
    }
    size_t rank = gmail_order_rank(order, message->time_ms, message->id);
    ASSERT(rank == order->count || order->items[rank] != message);
    memmove((void *)(order->items + rank + 1), (void *)(order->items + rank),
            (order->count - rank) * sizeof(*order->items));
    order->items[rank] = message;
    order->count++;
    return true;
}

void gmail_order_remove(struct gmail_order *order, const struct gmail_message *message)
{
    size_t rank = gmail_order_rank(order, message->time_ms, message->id);
    ASSERT(rank < order->count && order->items[rank] == message);
    order->count--;
    memmove((void *)(order->items + rank), (void *)(order->items + rank + 1),
            (order->count - rank) * sizeof(*order->items));
}
