/* base/list: random moves between lists, compared with arrays. */
#include "testing.h"

#include "base/list.h"

enum { LISTS = 3, NODES = 40 };

struct item {
    int name;
    struct list link;
};

struct model {
    int names[NODES];
    size_t count;
};

static void model_remove(struct model *models, int name)
{
    for (size_t m = 0; m < LISTS; m++) {
        for (size_t i = 0; i < models[m].count; i++) {
            if (models[m].names[i] != name)
                continue;
            models[m].count--;
            memmove(&models[m].names[i], &models[m].names[i + 1],
                    (models[m].count - i) * sizeof(int));
        }
    }
}

static void check(const struct list *heads, const struct model *models)
{
    for (size_t m = 0; m < LISTS; m++) {
        size_t at = 0;
        const struct list *node = heads[m].next;
        for (; node != &heads[m]; node = node->next) {
            assert_ptr_equal(node->next->prev, node);
            const struct item *item = LIST_ITEM(node, const struct item, link);
            assert_int_equal(item->name, models[m].names[at++]);
        }
        assert_int_equal(at, models[m].count);
        assert_int_equal(list_is_empty(&heads[m]), at == 0);
    }
}

static void moves_as_arrays_do(void **state)
{
    (void)state;
    struct chance chance = {5};
    struct list heads[LISTS];
    struct model models[LISTS] = {{{0}, 0}};
    struct item items[NODES];
    for (size_t i = 0; i < LISTS; i++)
        list_init(&heads[i]);
    for (int i = 0; i < NODES; i++) {
        items[i].name = i;
        list_init(&items[i].link);
    }
    for (int step = 0; step < 20000; step++) {
        size_t to = chance_below(&chance, LISTS), from = chance_below(&chance, LISTS);
        struct item *item = &items[chance_below(&chance, NODES)];
        struct model *model = &models[to];
        switch (chance_below(&chance, 20)) {
        case 0:
            if (to == from)
                break;
            list_append_all(&heads[to], &heads[from]);
            memcpy(&model->names[model->count], models[from].names,
                   models[from].count * sizeof(int));
            model->count += models[from].count;
            models[from].count = 0;
            break;
        case 1: {
            struct list *first = list_pop_front(&heads[to]);
            assert_int_equal(first == NULL, model->count == 0);
            if (first)
                model_remove(models, LIST_ITEM(first, struct item, link)->name);
            break;
        }
        default:
            list_unlink(&item->link);
            list_unlink(&item->link); /* a second removal does no harm */
            model_remove(models, item->name);
            if (step % 2) {
                list_push_back(&heads[to], &item->link);
                model->names[model->count++] = item->name;
            } else {
                list_push_front(&heads[to], &item->link);
                memmove(&model->names[1], &model->names[0], model->count++ * sizeof(int));
                model->names[0] = item->name;
            }
        }
        check(heads, models);
    }
}

static void a_walk_may_unlink(void **state)
{
    (void)state;
    struct list head = LIST_INIT(head), other = LIST_INIT(other);
    struct item items[10];
    for (int i = 0; i < 10; i++) {
        items[i].name = i;
        list_init(&items[i].link);
        list_push_back(&head, &items[i].link);
    }
    int seen = 0;
    LIST_EACH(&head, struct item, item, link) {
        assert_int_equal(item->name, seen++);
        list_unlink(&item->link);
        list_push_back(&other, &item->link);
    }
    assert_int_equal(seen, 10);
    assert_true(list_is_empty(&head));
    LIST_EACH(&head, struct item, item, link)
        fail();
    list_append_all(&head, &other);
    assert_int_equal(LIST_ITEM(head.prev, struct item, link)->name, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {UNIT_TEST(moves_as_arrays_do), UNIT_TEST(a_walk_may_unlink)};
    return cmocka_run_group_tests_name("base/list", tests, NULL, NULL);
}
