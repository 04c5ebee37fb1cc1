# Printers and a command for gdb, for a live process and for a core file:
#
#   gdb -x contrib/gdb/sluice.py build/sluice PID
#   (gdb) op_print_all LOOP      every live op: class, step, age, holds, what it waits for
#
# Slices, ids, JSON values and ops print as what they are. The structs are those of
# src/base/slice.h, src/base/id.h, src/json/json.h and src/loop/op.h.
import gdb
import gdb.printing

TEXT_MAX = 200  # bytes shown of a slice or string
ITEMS_MAX = 20  # items shown of a container
DEPTH_MAX = 4


def text_of(ptr, length):
    if int(ptr) == 0:
        return None
    data = gdb.selected_inferior().read_memory(int(ptr), min(length, TEXT_MAX)).tobytes()
    return data.decode('utf-8', 'backslashreplace') + ('...' if length > TEXT_MAX else '')


def quoted(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n') + '"'


class SlicePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        text = text_of(self.value['ptr'], int(self.value['len']))
        return 'SLICE_NONE' if text is None else quoted(text)


class UuidPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        text = ''.join('%02x' % int(self.value['bytes'][i]) for i in range(16))
        return '-'.join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def json_text(value, depth=0):
    kind = str(value['type'].cast(gdb.lookup_type('enum json_type')))
    count = int(value['count'])
    data = value['as']
    if kind == 'JSON_NULL':
        return 'null'
    if kind == 'JSON_BOOL':
        return 'true' if data['boolean'] else 'false'
    if kind in ('JSON_INT', 'JSON_UINT', 'JSON_REAL'):
        return str(data[{'JSON_INT': 'i64', 'JSON_UINT': 'u64', 'JSON_REAL': 'real'}[kind]])
    if kind == 'JSON_STRING':
        return quoted(text_of(data['text'], count) or '')
    if kind in ('JSON_BIGNUM', 'JSON_RAW'):
        return text_of(data['text'], count) or ''
    marks = '[]' if kind == 'JSON_ARRAY' else '{}'
    if depth == DEPTH_MAX and count:
        return marks[0] + '...' + marks[1]
    if kind == 'JSON_ARRAY':
        items = [json_text(data['items'][i], depth + 1) for i in range(min(count, ITEMS_MAX))]
    else:
        members = [data['members'][i] for i in range(min(count, ITEMS_MAX))]
        items = [json_text(one['key']) + ': ' + json_text(one['value'], depth + 1) for one in members]
    return marks[0] + ', '.join(items + (['...'] if count > ITEMS_MAX else [])) + marks[1]


class JsonPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return json_text(self.value)


def step_name(op):
    step, count = int(op['step']), int(op['class']['step_count'])
    return op['class']['steps'][step]['name'].string() if step < count else '(end)'


def op_text(op):
    if int(op['class']) == 0:
        return 'op that was never started'
    waits = op['waits_for'].string() if int(op['holds']) and int(op['waits_for']) else 'nothing'
    marks = ''.join(', ' + name[3:] for name in ('is_cancelled', 'is_ended') if op[name])
    return 'op %s step %s holds %d waits for %s%s' % (
        op['class']['name'].string(), step_name(op), int(op['holds']), waits, marks)


class OpPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return op_text(self.value)


def list_of(head, type_name, member):
    kind = gdb.lookup_type(type_name)
    offset = next(field.bitpos // 8 for field in kind.fields() if field.name == member)
    node = head['next']
    while node != head.address:
        start = gdb.Value(int(node) - offset).cast(kind.pointer())
        yield start.dereference()
        node = node['next']


class OpPrintAll(gdb.Command):
    """op_print_all LOOP: every live op of a struct loop *."""

    def __init__(self):
        super().__init__('op_print_all', gdb.COMMAND_DATA)

    def invoke(self, argument, is_typed):
        if not argument:
            raise gdb.GdbError('op_print_all LOOP: an expression that gives a struct loop *')
        loop = gdb.parse_and_eval(argument)
        for op in list_of(loop['ops'], 'struct op', 'all_link'):
            print('%s %s' % (op.address, op_text(op)))


printers = gdb.printing.RegexpCollectionPrettyPrinter('sluice')
printers.add_printer('slice', '^slice$', SlicePrinter)
printers.add_printer('uuid', '^uuid$', UuidPrinter)
printers.add_printer('json', '^json$', JsonPrinter)
printers.add_printer('op', '^op$', OpPrinter)
gdb.printing.register_pretty_printer(None, printers, replace=True)
OpPrintAll()
