// The Notion half of the emulated provider: forms of replies, filters, writes, errors, and Notion's
// own client.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { Provider, exchange, NOTION, NOTION_VERSION, TASK_DATABASE, TASK_PAGE, TASK_SOURCE, blockId, taskId } from './support/provider.mjs';

let provider;
before(async () => {
  provider = await Provider.start();
});
after(async () => {
  const end = await provider.stop();
  assert.deepEqual(end, { code: 0, signal: null, stderr: '' });
});
beforeEach(() => provider.reset());

const SAM = 'e0a1b2c3-4d5e-4f60-8a7b-9c8d7e6f5a01';
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z$/;
const rich = (content) => [{ type: 'text', text: { content } }];
const paragraph = (content) => ({ type: 'paragraph', paragraph: { rich_text: rich(content) } });
const title = (page) => page.properties.Name.title.map((t) => t.plain_text).join('');
const ok = async (promise) => {
  const reply = await promise;
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
};
const query = async (body = {}) => ok(provider.notion('POST', `/data_sources/${TASK_SOURCE}/query`, { body }));
const filtered = async (filter) => (await query({ filter })).results.map((p) => parseInt(p.id.slice(-4), 16)).sort((a, b) => a - b);

async function refused(promise, status, code, message) {
  const { status: got, json, headers } = await promise;
  assert.equal(got, status, JSON.stringify(json));
  assert.match(headers['content-type'], /^application\/json/);
  assert.deepEqual(Object.keys(json), ['object', 'status', 'code', 'message', 'request_id']);
  assert.deepEqual([json.object, json.status, json.code], ['error', status, code]);
  assert.match(json.message, message);
  assert.match(json.request_id, UUID);
}
const invalid = (promise, message) => refused(promise, 400, 'validation_error', message);

test('token, version, path, body', async () => {
  await refused(provider.notion('GET', '/users/me', { token: 'x' }), 401, 'unauthorized', /API token is invalid/);
  await refused(provider.notion('GET', '/users/me', { token: 'ntn_demo_notion_revoked' }), 401, 'unauthorized', /invalid/);
  await refused(provider.notion('GET', '/users/me', { token: 'ya29.demo-gmail-full' }), 401, 'unauthorized', /invalid/);
  await refused(provider.call('GET', '/v1/users/me', { token: NOTION }), 400, 'missing_version', /Notion-Version header should be defined/);
  for (const version of ['2022-06-28', '2025-09-03'])
    await invalid(provider.notion('GET', '/users/me', { headers: { 'Notion-Version': version } }), /Notion-Version/);
  await refused(provider.notion('POST', `/databases/${TASK_DATABASE}/query`), 400, 'invalid_request_url', /Invalid request URL/);
  await refused(provider.notion('GET', '/nothing'), 400, 'invalid_request_url', /Invalid request URL/);
  await refused(provider.notion('POST', '/search', { body: '{' }), 400, 'invalid_json', /parsing JSON/);
  await invalid(provider.notion('POST', '/search', { body: '[]' }), /body: must be object, not array/);
  await refused(provider.notion('POST', '/pages', { token: 'ntn_demo_notion_readonly', body: {} }), 403, 'restricted_resource', /Insufficient permissions/);
  assert.equal((await provider.notion('GET', `/pages/${TASK_PAGE}`, { token: 'ntn_demo_notion_readonly' })).status, 200);
});

test('pages.retrieve: the whole object, ids in any spelling', async () => {
  const page = await ok(provider.notion('GET', `/pages/${taskId(1)}`));
  assert.deepEqual(Object.keys(page), ['object', 'id', 'created_time', 'last_edited_time', 'created_by', 'last_edited_by', 'cover', 'icon', 'parent', 'in_trash', 'properties', 'url', 'public_url']);
  assert.equal(page.object, 'page');
  assert.match(page.created_time, TIME);
  assert.deepEqual(page.created_by, { object: 'user', id: SAM });
  assert.deepEqual(page.parent, { type: 'data_source_id', data_source_id: TASK_SOURCE, database_id: TASK_DATABASE });
  assert.equal(page.url, `https://www.notion.so/Prepare-the-offsite-in-March-${taskId(1).replaceAll('-', '')}`);
  const { Name, Status, Due, Source, Urgent, Points, Notes, Assignee, Tags } = page.properties;
  assert.deepEqual(Name, { id: 'title', type: 'title', title: [{ type: 'text', text: { content: 'Prepare the offsite in March', link: null }, annotations: { bold: false, italic: false, strikethrough: false, underline: false, code: false, color: 'default' }, plain_text: 'Prepare the offsite in March', href: null }] });
  assert.equal(Status.status.name, 'In progress');
  assert.match(Due.date.start, /^\d{4}-\d\d-\d\d$/);
  assert.equal(Source.url, 'https://mail.example.com/offsite');
  assert.equal(Urgent.checkbox, true);
  assert.equal(Points.number, 8);
  assert.deepEqual(Notes.rich_text, []);
  assert.equal(Assignee.people[0].object, 'user');
  assert.deepEqual(Tags.multi_select.map((o) => o.name), ['team']);
  for (const id of [taskId(1).replaceAll('-', ''), taskId(1).toUpperCase()]) assert.deepEqual(await ok(provider.notion('GET', `/pages/${id}`)), page);
  assert.deepEqual(Object.keys((await ok(provider.notion('GET', `/pages/${taskId(1)}?filter_properties=title&filter_properties=dUe1`))).properties), ['Name', 'Due']);
  await refused(provider.notion('GET', `/pages/${taskId(999)}`), 404, 'object_not_found', /Could not find page with ID/);
  await invalid(provider.notion('GET', '/pages/nonsense'), /valid uuid/);
  await invalid(provider.notion('GET', `/pages/${TASK_DATABASE}`), /is a database, not a page/);
});

test('pages.properties.retrieve: items and lists', async () => {
  const list = await ok(provider.notion('GET', `/pages/${taskId(1)}/properties/title`));
  assert.equal(list.object, 'list');
  assert.equal(list.type, 'property_item');
  assert.equal(list.results[0].object, 'property_item');
  assert.equal(list.results[0].title.plain_text, 'Prepare the offsite in March');
  const item = await ok(provider.notion('GET', `/pages/${taskId(1)}/properties/eFrt`));
  assert.deepEqual(item, { object: 'property_item', id: 'eFrt', type: 'number', number: 8 });
  await refused(provider.notion('GET', `/pages/${taskId(1)}/properties/nope`), 404, 'object_not_found', /property/);
});

test('pages.create in a database: values are checked, filled in and counted', async () => {
  const made = await ok(provider.notion('POST', '/pages', { body: {
    parent: { type: 'data_source_id', data_source_id: TASK_SOURCE },
    icon: { type: 'emoji', emoji: '📌' },
    properties: {
      Name: { title: [{ text: { content: 'Answer ' } }, { text: { content: 'Anna', link: { url: 'https://example.com/' } }, annotations: { bold: true } }] },
      Status: { status: { name: 'In progress' } },
      dUe1: { date: { start: '2026-12-01' } },
      Source: { url: 'https://mail.example.com/1' },
      Tags: { multi_select: [{ name: 'team' }, { name: 'brand new' }] },
      Points: { number: 2.5 },
      Urgent: { checkbox: true },
      Assignee: { people: [{ id: SAM }] },
      Priority: { select: null },
    },
    children: [paragraph('first'), { type: 'to_do', to_do: { rich_text: rich('second'), children: [paragraph('inner')] } }],
  } }));
  assert.match(made.id, UUID);
  assert.equal(title(made), 'Answer Anna');
  assert.equal(made.properties.Name.title[1].href, 'https://example.com/');
  assert.equal(made.properties.Name.title[1].annotations.bold, true);
  assert.deepEqual(made.properties.Due.date, { start: '2026-12-01', end: null, time_zone: null });
  assert.equal(made.properties.Priority.select, null);
  assert.deepEqual(made.properties.Tags.multi_select.map((o) => o.name), ['team', 'brand new']);
  assert.deepEqual(await ok(provider.notion('GET', `/pages/${made.id}`)), made);
  const options = (await ok(provider.notion('GET', `/data_sources/${TASK_SOURCE}`))).properties.Tags.multi_select.options;
  assert.ok(options.some((o) => o.name === 'brand new' && UUID.test(o.id)));
  const blocks = (await ok(provider.notion('GET', `/blocks/${made.id}/children`))).results;
  assert.deepEqual(blocks.map((b) => [b.type, b.has_children]), [['paragraph', false], ['to_do', true]]);
  assert.deepEqual(blocks[1].to_do, { rich_text: blocks[1].to_do.rich_text, color: 'default', checked: false });
  const inner = (await ok(provider.notion('GET', `/blocks/${blocks[1].id}/children`))).results;
  assert.equal(inner[0].paragraph.rich_text[0].plain_text, 'inner');
  assert.deepEqual(inner[0].parent, { type: 'block_id', block_id: blocks[1].id });
  assert.equal((await query({ page_size: 1 })).results[0].id, made.id, 'the newest is first');
  const { entries } = await provider.ledger();
  assert.deepEqual(entries.map((e) => [e.kind, e.object_id, e.marker]), [['notion.pages.create', made.id, 'Answer Anna']]);
});

test('pages.create below a page: a title, nothing else', async () => {
  const made = await ok(provider.notion('POST', '/pages', { body: { parent: { page_id: TASK_PAGE }, properties: { title: { title: rich('Minutes') } } } }));
  assert.deepEqual(Object.keys(made.properties), ['title']);
  assert.deepEqual(made.parent, { type: 'page_id', page_id: TASK_PAGE });
  const short = await ok(provider.notion('POST', '/pages', { body: { parent: { page_id: TASK_PAGE }, properties: { title: rich('Short form') } } }));
  assert.equal(short.properties.title.title[0].plain_text, 'Short form');
  const kinds = (await ok(provider.notion('GET', `/blocks/${TASK_PAGE}/children`))).results;
  assert.deepEqual(kinds.slice(-2).map((b) => [b.type, b.child_page.title]), [['child_page', 'Minutes'], ['child_page', 'Short form']]);
  assert.equal(kinds[0].type, 'child_database');
});

test('pages.create: invalid requests are refused and create nothing', async () => {
  const create = (properties, more = {}) => provider.notion('POST', '/pages', { body: { parent: { database_id: TASK_DATABASE }, properties, ...more } });
  const name = { Name: { title: rich('x') } };
  await invalid(provider.notion('POST', '/pages', { body: { properties: {} } }), /body: missing required property "parent"/);
  await invalid(provider.notion('POST', '/pages', { body: { parent: {}, properties: {} } }), /body\/parent: .* "page_id"/);
  await invalid(provider.notion('POST', '/pages', { body: { parent: { type: 'page_id', database_id: TASK_DATABASE }, properties: {} } }), /body\/parent/);
  await invalid(provider.notion('POST', '/pages', { body: { parent: { page_id: 'x' }, properties: {} } }), /valid uuid/);
  await refused(provider.notion('POST', '/pages', { body: { parent: { page_id: TASK_DATABASE }, properties: {} } }), 404, 'object_not_found', /Could not find page/);
  await invalid(provider.notion('POST', '/pages', { body: { parent: { database_id: TASK_DATABASE } } }), /body: missing required property "properties"/);
  await invalid(create({ Nope: { url: 'x' } }), /Nope is not a property that exists/);
  await invalid(create({ Status: { select: { name: 'Done' } } }), /Status is expected to be status/);
  await invalid(create({ Status: { status: { name: 'Never' } } }), /Status option "Never" does not exist/);
  await invalid(create({ Priority: { select: { name: 'a,b' } } }), /Priority\/select\/name/);
  await invalid(create({ Points: { number: '3' } }), /Points\/number: must be null or number/);
  await invalid(create({ Due: { date: { start: 'tomorrow' } } }), /Due\/date\/start/);
  await invalid(create({ Created: { created_time: 'x' } }), /Created\/created_time/);
  await invalid(create({ Name: { title: [{ text: { content: 'x'.repeat(2001) } }] } }), /title\/0\/text\/content: .*2000/);
  await invalid(create({ Name: { title: [{}] } }), /title\/0: .* "text"/);
  await invalid(create({ Name: { title: 'x' } }), /Name\/title: must be array/);
  await invalid(create(name, { children: [{ type: 'paragraph' }] }), /body\/children\/0/);
  await invalid(create(name, { children: [{ type: 'poem', poem: {} }] }), /body\/children\/0/);
  await invalid(create(name, { children: Array(101).fill(paragraph('x')) }), /children: .*100 items/);
  await invalid(create(name, { icon: { emoji: '' } }), /body\/icon/);
  await invalid(provider.notion('POST', '/pages', { body: { parent: { page_id: TASK_PAGE }, properties: { Status: { url: 'x' } } } }), /Status is not a property/);
  assert.equal((await provider.ledger()).total, 0);
  assert.equal((await query()).results.length, 12);
});

test('pages.update: members that are not named stay; archiving hides the page; an archived page cannot be edited', async () => {
  const before = await ok(provider.notion('GET', `/pages/${taskId(2)}`));
  const page = await ok(provider.notion('PATCH', `/pages/${taskId(2)}`, { body: { properties: { Status: { status: { name: 'Done' } }, Source: { url: null } }, cover: { type: 'external', external: { url: 'https://example.com/c.png' } } } }));
  assert.equal(page.properties.Status.status.name, 'Done');
  assert.equal(page.properties.Source.url, null);
  assert.equal(title(page), title(before));
  assert.equal(page.cover.external.url, 'https://example.com/c.png');
  assert.equal(page.last_edited_by.id.endsWith('b0'), true);
  assert.equal((await ok(provider.notion('PATCH', `/pages/${taskId(2)}`, { body: { cover: null } }))).cover, null);
  await invalid(provider.notion('PATCH', `/pages/${taskId(2)}`, { body: { properties: { Status: { status: { name: 'Later' } }, Points: { number: 99 } } } }), /does not exist/);
  assert.equal((await ok(provider.notion('GET', `/pages/${taskId(2)}`))).properties.Points.number, 3, 'all or nothing');
  const gone = await ok(provider.notion('PATCH', `/pages/${taskId(2)}`, { body: { in_trash: true } }));
  assert.deepEqual([gone.archived, gone.in_trash], [undefined, true]);
  assert.equal((await query()).results.length, 11);
  assert.equal((await ok(provider.notion('POST', '/search', { body: { query: 'contract' } }))).results.length, 0);
  await invalid(provider.notion('PATCH', `/pages/${taskId(2)}`, { body: { properties: { Points: { number: 1 } } } }), /archived/);
  await invalid(provider.notion('PATCH', `/blocks/${taskId(2)}/children`, { body: { children: [paragraph('x')] } }), /archived/);
  assert.equal((await ok(provider.notion('PATCH', `/pages/${taskId(2)}`, { body: { in_trash: false } }))).in_trash, false);
  assert.equal((await query()).results.length, 12);
});

test('many updates of one page neither grow it nor lose a value', async () => {
  const name = 'n'.repeat(1500);
  for (let i = 0; i < 60; i++) await ok(provider.notion('PATCH', `/pages/${taskId(4)}`, { body: { properties: { Notes: { rich_text: rich(`${name}${i}`) } } } }));
  const page = await ok(provider.notion('GET', `/pages/${taskId(4)}`));
  assert.equal(page.properties.Notes.rich_text[0].plain_text, `${name}59`);
  assert.equal(title(page), 'Write the status page text');
  assert.equal(page.properties.Status.status.name, 'In progress');
});

test('databases: retrieve, create, update', async () => {
  const database = await ok(provider.notion('GET', `/databases/${TASK_DATABASE}`));
  assert.deepEqual(Object.keys(database), ['object', 'id', 'created_time', 'last_edited_time', 'created_by', 'last_edited_by', 'cover', 'icon', 'title', 'description', 'parent', 'in_trash', 'is_inline', 'is_locked', 'data_sources', 'url', 'public_url']);
  assert.equal(database.title[0].plain_text, 'Tasks');
  assert.deepEqual(database.parent, { type: 'page_id', page_id: TASK_PAGE });
  assert.deepEqual(database.data_sources, [{ id: TASK_SOURCE, name: 'Tasks' }]);

  const made = await ok(provider.notion('POST', '/databases', { body: { parent: { type: 'page_id', page_id: TASK_PAGE }, title: rich('Reading'), initial_data_source: { properties: { Name: { title: {} }, Link: { url: {} } } } } }));
  assert.deepEqual(made.data_sources.map((s) => s.name), ['Reading']);
  assert.deepEqual(Object.keys((await ok(provider.notion('GET', `/data_sources/${made.data_sources[0].id}`))).properties), ['Name', 'Link']);
  const bare = await ok(provider.notion('POST', '/databases', { body: { parent: { type: 'page_id', page_id: TASK_PAGE }, title: rich('Bare') } }));
  assert.deepEqual(Object.keys((await ok(provider.notion('GET', `/data_sources/${bare.data_sources[0].id}`))).properties), ['Name']);
  const changed = await ok(provider.notion('PATCH', `/databases/${made.id}`, { body: { title: rich('Reading list'), is_inline: true } }));
  assert.deepEqual([changed.title[0].plain_text, changed.is_inline], ['Reading list', true]);
  assert.equal((await ok(provider.notion('PATCH', `/databases/${made.id}`, { body: { in_trash: true } }))).in_trash, true);
  await refused(provider.notion('POST', '/data_sources', { body: { parent: { database_id: made.id }, properties: { Name: { title: {} } } } }), 404, 'object_not_found', /database/);

  const create = (body) => provider.notion('POST', '/databases', { body: { parent: { page_id: TASK_PAGE }, title: rich('t'), ...body } });
  await invalid(create({ properties: { A: { title: {} } } }), /body\/properties/);
  await invalid(create({ initial_data_source: { properties: { Link: { url: {} } } } }), /one title property, not 0/);
  await invalid(provider.notion('PATCH', `/databases/${TASK_DATABASE}`, { body: { properties: { Link: { url: {} } } } }), /body\/properties/);
  await refused(provider.notion('GET', `/databases/${taskId(77)}`), 404, 'object_not_found', /Could not find database/);
  await invalid(provider.notion('GET', `/databases/${taskId(1)}`), /is a page, not a database/);
});

test('data sources: retrieve, create, update', async () => {
  const source = await ok(provider.notion('GET', `/data_sources/${TASK_SOURCE}`));
  assert.deepEqual(Object.keys(source), ['object', 'id', 'created_time', 'last_edited_time', 'created_by', 'last_edited_by', 'cover', 'icon', 'title', 'description', 'parent', 'in_trash', 'database_parent', 'is_inline', 'properties', 'url', 'public_url']);
  assert.deepEqual(source.parent, { type: 'database_id', database_id: TASK_DATABASE });
  assert.deepEqual(source.database_parent, { type: 'page_id', page_id: TASK_PAGE });
  assert.deepEqual(Object.values(source.properties).map((p) => p.type), ['title', 'status', 'date', 'url', 'select', 'multi_select', 'checkbox', 'number', 'people', 'rich_text', 'created_time']);
  assert.deepEqual(Object.keys(source.properties), Object.values(source.properties).map((p) => p.name));
  assert.deepEqual(source.properties.Status.status.options.map((o) => o.name), ['Not started', 'In progress', 'Done']);
  assert.deepEqual((await ok(provider.notion('GET', `/data_sources/${TASK_SOURCE}/templates`))), { templates: [], has_more: false, next_cursor: null });

  const made = await ok(provider.notion('POST', '/data_sources', { body: { parent: { type: 'database_id', database_id: TASK_DATABASE }, title: rich('Ideas'), properties: { Name: { title: {} }, Link: { url: {} }, Kind: { select: { options: [{ name: 'Book', color: 'red' }] } } } } }));
  assert.equal(made.properties.Name.id, 'title');
  assert.equal(made.properties.Kind.select.options[0].color, 'red');
  assert.deepEqual((await ok(provider.notion('GET', `/databases/${TASK_DATABASE}`))).data_sources.map((s) => s.name), ['Tasks', 'Ideas']);
  const book = made.properties.Kind.select.options[0].id;
  const changed = await ok(provider.notion('PATCH', `/data_sources/${made.id}`, { body: { title: rich('Reading list'), properties: { Link: null, Kind: { name: 'Sort', select: { options: [{ name: 'Book' }, { name: 'Paper' }] } }, Pages: { number: { format: 'number' } } } } }));
  assert.deepEqual(Object.keys(changed.properties), ['Name', 'Sort', 'Pages']);
  assert.equal(changed.properties.Sort.id, made.properties.Kind.id);
  assert.equal(changed.properties.Sort.select.options[0].id, book);
  assert.equal(changed.title[0].plain_text, 'Reading list');

  // The id of a database also names its data source while it has only one. With several, each must
  // be named.
  const page = (parent) => provider.notion('POST', '/pages', { body: { parent, properties: { Name: { title: rich('x') } } } });
  await invalid(page({ database_id: TASK_DATABASE }), /has 2 data sources/);
  assert.equal((await ok(page({ data_source_id: made.id }))).parent.data_source_id, made.id);
  assert.equal((await ok(provider.notion('POST', `/data_sources/${made.id}/query`))).results.length, 1);
  assert.equal((await query()).results.length, 12);
  assert.equal((await ok(provider.notion('PATCH', `/data_sources/${made.id}`, { body: { in_trash: true } }))).in_trash, true);
  assert.equal((await ok(page({ database_id: TASK_DATABASE }))).parent.data_source_id, TASK_SOURCE);

  const create = (properties) => provider.notion('POST', '/data_sources', { body: { parent: { database_id: TASK_DATABASE }, ...(properties && { properties }) } });
  await invalid(create({ A: { title: {} }, B: { title: {} } }), /one title property, not 2/);
  await invalid(create({ A: { title: {} }, B: { poem: {} } }), /properties\/B/);
  await invalid(create(), /missing required property "properties"/);
  await invalid(provider.notion('POST', '/data_sources', { body: { parent: { page_id: TASK_PAGE }, properties: {} } }), /body\/parent: .*"database_id"/);
  await invalid(provider.notion('PATCH', `/data_sources/${TASK_SOURCE}`, { body: { properties: { Name: null } } }), /one title property, not 0/);
  await refused(provider.notion('GET', `/data_sources/${taskId(77)}`), 404, 'object_not_found', /Could not find data_source/);
  await invalid(provider.notion('GET', `/data_sources/${TASK_DATABASE}`), /is a database, not a data source/);
  await refused(provider.notion('GET', `/blocks/${TASK_SOURCE}`), 404, 'object_not_found', /Could not find block/);
});

test('pages.move, and a page of the workspace itself', async () => {
  const moved = await ok(provider.notion('POST', `/pages/${taskId(0x100)}/move`, { body: { parent: { type: 'data_source_id', data_source_id: TASK_SOURCE } } }));
  assert.equal(moved.parent.data_source_id, TASK_SOURCE);
  assert.equal((await query()).results[0].id, taskId(0x100));
  const back = await ok(provider.notion('POST', `/pages/${taskId(0x100)}/move`, { body: { parent: { page_id: TASK_PAGE } } }));
  assert.deepEqual(back.parent, { type: 'page_id', page_id: TASK_PAGE });
  assert.equal((await query()).results.length, 12);
  await invalid(provider.notion('POST', `/pages/${TASK_PAGE}/move`, { body: { parent: { page_id: taskId(0x100) } } }), /below itself/);
  const made = await ok(provider.notion('POST', '/pages', { body: { parent: { type: 'workspace', workspace: true }, properties: { title: { title: rich('On top') } } } }));
  assert.deepEqual(made.parent, { type: 'workspace', workspace: true });
});

test('pages as Markdown: read, insert, replace, change', async () => {
  const path = `/pages/${taskId(1)}/markdown`;
  const read = async () => (await ok(provider.notion('GET', path))).markdown;
  const change = (type, body) => provider.notion('PATCH', path, { body: { type, [type]: body } });
  const reply = await ok(provider.notion('GET', path));
  assert.deepEqual(reply, { object: 'page_markdown', id: taskId(1), markdown: "The house at the lake is free from 10 to 12 March.\n## To do\n- [ ] Collect everybody's answer\n- [ ] Book the train", truncated: false, unknown_block_ids: [] });
  const text = '# One\nplain **bold** and *leaning*, ~~gone~~, `x`, [here](https://example.com/)\n- a\n\t- b\n\t\t1. c\n- [x] done\n> said\n```js\nlet a;\n\nlet b;\n```\n---\nlast';
  assert.equal((await ok(change('replace_content', { new_str: text }))).markdown, text);
  const blocks = (await ok(provider.notion('GET', `/blocks/${taskId(1)}/children`))).results;
  assert.deepEqual(blocks.map((b) => b.type), ['heading_1', 'paragraph', 'bulleted_list_item', 'to_do', 'quote', 'code', 'divider', 'paragraph']);
  await ok(change('insert_content', { content: 'first\nsecond', position: { type: 'start' } }));
  await ok(change('insert_content', { content: 'at the end' }));
  assert.equal(await read(), `first\nsecond\n${text}\nat the end`);
  await ok(change('update_content', { content_updates: [{ old_str: 'second', new_str: '2nd' }, { old_str: '- ', new_str: '- [ ] ', replace_all_matches: true }] }));
  assert.match(await read(), /^first\n2nd\n# One/);
  await invalid(change('update_content', { content_updates: [{ old_str: 'nothing like it', new_str: '' }] }), /content_updates\[0\].old_str is found nowhere/);
  await invalid(change('update_content', { content_updates: [{ old_str: 'l', new_str: '' }] }), /more than once/);
  await invalid(change('replace_content_range', { content: 'x', content_range: 'a...b' }), /body\/type/);
  const create = (body) => provider.notion('POST', '/pages', { body: { parent: { database_id: TASK_DATABASE }, properties: { Name: { title: rich('x') } }, ...body } });
  const made = await ok(create({ markdown: '## Agenda\n- one' }));
  assert.equal((await ok(provider.notion('GET', `/pages/${made.id}/markdown`))).markdown, '## Agenda\n- one');
  await invalid(create({ markdown: 'x', children: [paragraph('x')] }), /body: /);
  // A change that would delete a sub-page is refused, unless it is intended.
  const root = `/pages/${TASK_PAGE}/markdown`;
  assert.match((await ok(provider.notion('GET', root))).markdown, new RegExp(`^<database url="https://www.notion.so/${TASK_DATABASE}">Tasks</database>\n<page url=`));
  const replace = (more) => provider.notion('PATCH', root, { body: { type: 'replace_content', replace_content: { new_str: 'x', ...more } } });
  await invalid(replace({}), /allow_deleting_content/);
  assert.equal((await ok(replace({ allow_deleting_content: true }))).markdown, 'x');
});

const all = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
for (const [name, filter, expected] of [
  ['title contains', { property: 'Name', title: { contains: 'THE' } }, [1, 2, 4, 5, 7, 9, 10, 11, 12]],
  ['title starts_with, by id', { property: 'title', rich_text: { starts_with: 'Re' } }, [2, 10]],
  ['status equals', { property: 'Status', status: { equals: 'Done' } }, [7, 9]],
  ['status does_not_equal', { property: 'Status', status: { does_not_equal: 'Done' } }, [1, 2, 3, 4, 5, 6, 8, 10, 11, 12]],
  ['select is_empty', { property: 'Priority', select: { is_empty: true } }, [11]],
  ['multi_select contains', { property: 'Tags', multi_select: { contains: 'team' } }, [1, 6]],
  ['multi_select is_empty', { property: 'Tags', multi_select: { is_empty: true } }, [11, 12]],
  ['checkbox', { property: 'Urgent', checkbox: { equals: true } }, [1, 2, 5, 10]],
  ['checkbox does_not_equal', { property: 'Urgent', checkbox: { does_not_equal: true } }, [3, 4, 6, 7, 8, 9, 11, 12]],
  ['number greater_than', { property: 'Points', number: { greater_than: 3 } }, [1, 5, 12]],
  ['number less_than_or_equal_to', { property: 'Points', number: { less_than_or_equal_to: 1 } }, [3, 8, 11]],
  ['url is_not_empty', { property: 'Source', url: { is_not_empty: true } }, [1, 2, 7]],
  ['url contains', { property: 'Source', url: { contains: 'contract' } }, [2]],
  ['date is_empty', { property: 'Due', date: { is_empty: true } }, [11, 12]],
  ['date next_week', { property: 'Due', date: { next_week: {} } }, [1, 2, 4, 5, 6, 8]],
  ['date past_week', { property: 'Due', date: { past_week: {} } }, [7, 9]],
  ['people contains', { property: 'Assignee', people: { contains: SAM } }, [2, 3, 5, 6, 8, 9, 11, 12]],
  ['created_time', { timestamp: 'created_time', created_time: { past_year: {} } }, all],
  ['created_time before', { timestamp: 'created_time', created_time: { before: '2001-01-01' } }, []],
  ['created property', { property: 'Created', created_time: { on_or_after: '2001-01-01' } }, all],
  ['and', { and: [{ property: 'Urgent', checkbox: { equals: true } }, { property: 'Points', number: { less_than: 4 } }] }, [2, 10]],
  ['or in and', { and: [{ property: 'Status', status: { equals: 'Not started' } }, { or: [{ property: 'Tags', multi_select: { contains: 'launch' } }, { property: 'Tags', multi_select: { contains: 'legal' } }] }] }, [2, 5, 6]],
  ['empty and', { and: [] }, all],
]) {
  test(`data_sources.query: ${name}`, async () => assert.deepEqual(await filtered(filter), expected));
}

test('data_sources.query: dates against a day', async () => {
  const due = (await ok(provider.notion('GET', `/pages/${taskId(4)}`))).properties.Due.date.start;
  assert.deepEqual(await filtered({ property: 'Due', date: { equals: due } }), [4, 5]);
  assert.deepEqual(await filtered({ property: 'Due', date: { before: due } }), [2, 7, 8, 9]);
  assert.deepEqual(await filtered({ property: 'Due', date: { on_or_before: due } }), [2, 4, 5, 7, 8, 9]);
  assert.deepEqual(await filtered({ property: 'Due', date: { after: due } }), [1, 3, 6, 10]);
});

test('data_sources.query: sorts, pages, empty values last', async () => {
  const sorts = [{ property: 'Due', direction: 'ascending' }, { property: 'Name', direction: 'descending' }];
  const whole = (await query({ sorts })).results.map((p) => parseInt(p.id.slice(-4), 16));
  assert.deepEqual(whole, [9, 7, 8, 2, 4, 5, 1, 6, 3, 10, 11, 12]);
  const down = (await query({ sorts: [{ property: 'Due', direction: 'descending' }] })).results.map((p) => parseInt(p.id.slice(-4), 16));
  assert.deepEqual(down.slice(-2), [11, 12]);
  assert.equal(down[0], 10);
  const priority = (await query({ sorts: [{ property: 'Priority', direction: 'ascending' }] })).results.map((p) => p.properties.Priority.select?.name);
  assert.deepEqual([...new Set(priority)], ['High', 'Medium', 'Low', undefined]);
  for (const body of [{ sorts }, {}, { filter: { property: 'Urgent', checkbox: { equals: false } } }]) {
    const expected = (await query(body)).results.map((p) => p.id);
    const seen = [];
    for (let start_cursor; ; ) {
      const page = await query({ ...body, page_size: 5, ...(start_cursor && { start_cursor }) });
      assert.equal(page.type, 'page_or_data_source');
      seen.push(...page.results.map((p) => p.id));
      assert.equal(page.has_more, page.next_cursor !== null);
      if (!page.has_more) break;
      start_cursor = page.next_cursor;
    }
    assert.deepEqual(seen, expected);
  }
});

test('data_sources.query: a query that does not fit the schema is refused', async () => {
  const bad = (body) => provider.notion('POST', `/data_sources/${TASK_SOURCE}/query`, { body });
  await invalid(bad({ filter: { property: 'Nope', url: { equals: 'x' } } }), /Could not find property with name or id: Nope/);
  await invalid(bad({ filter: { property: 'Status', select: { equals: 'Done' } } }), /database property status does not match filter select/);
  await invalid(bad({ filter: { property: 'Points', number: { contains: 3 } } }), /number\/contains/);
  await invalid(bad({ filter: { property: 'Points', number: { equals: '3' } } }), /number\/equals: must be number/);
  await invalid(bad({ filter: { property: 'Points', number: {} } }), /filter\/number/);
  await invalid(bad({ filter: { property: 'Due', date: { before: 'x' } } }), /date\/before/);
  await invalid(bad({ filter: {} }), /body\/filter: .*"or"/);
  await invalid(bad({ filter: 'x' }), /body\/filter: must be object/);
  await invalid(bad({ sorts: [{ property: 'Nope', direction: 'ascending' }] }), /sort property/);
  await invalid(bad({ sorts: [{ property: 'Due', direction: 'up' }] }), /sorts\/0\/direction/);
  await invalid(bad({ page_size: 101 }), /page_size: .*100 .*101/);
  await invalid(bad({ page_size: 0 }), /page_size/);
  await invalid(bad({ start_cursor: taskId(99) }), /start_cursor/);
});

test('search: titles, kinds, order, pages', async () => {
  const search = async (body) => (await ok(provider.notion('POST', '/search', { body }))).results;
  assert.deepEqual((await search({ query: 'off' })).map((r) => r.id).sort(), [taskId(0x100), taskId(1)].sort());
  assert.equal((await search({ query: 'ffsite' })).length, 0);
  assert.deepEqual((await search({ filter: { property: 'object', value: 'data_source' } })).map((r) => [r.object, r.id]), [['data_source', TASK_SOURCE]]);
  await invalid(provider.notion('POST', '/search', { body: { filter: { property: 'object', value: 'database' } } }), /filter\/value/);
  assert.equal((await search({ filter: { property: 'object', value: 'page' } })).length, 17);
  assert.equal((await search({})).length, 18);
  await ok(provider.notion('PATCH', `/pages/${taskId(9)}`, { body: { properties: { Points: { number: 4 } } } }));
  const falling = (await search({ sort: { timestamp: 'last_edited_time', direction: 'descending' } })).map((r) => r.id);
  assert.equal(falling[0], taskId(9));
  assert.deepEqual((await search({ sort: { timestamp: 'last_edited_time', direction: 'ascending' } })).map((r) => r.id), falling.toReversed());
  const first = await ok(provider.notion('POST', '/search', { body: { page_size: 10 } }));
  const second = await ok(provider.notion('POST', '/search', { body: { page_size: 10, start_cursor: first.next_cursor } }));
  assert.deepEqual([...first.results, ...second.results].map((r) => r.id), falling);
  assert.deepEqual([second.has_more, second.next_cursor], [false, null]);
  await invalid(provider.notion('POST', '/search', { body: { filter: { property: 'object', value: 'block' } } }), /filter\/value/);
});

test('blocks: retrieve, children, append, update, delete', async () => {
  const block = await ok(provider.notion('GET', `/blocks/${blockId(1)}`));
  assert.deepEqual(Object.keys(block), ['object', 'id', 'created_time', 'last_edited_time', 'created_by', 'last_edited_by', 'parent', 'has_children', 'in_trash', 'type', 'paragraph']);
  assert.deepEqual(block.parent, { type: 'page_id', page_id: taskId(1) });
  assert.equal((await ok(provider.notion('GET', `/blocks/${TASK_DATABASE}`))).type, 'child_database');
  const children = await ok(provider.notion('GET', `/blocks/${taskId(1)}/children`));
  assert.equal(children.type, 'block');
  assert.deepEqual(children.results.map((b) => b.id), [1, 2, 3, 4].map(blockId));
  const page = await ok(provider.notion('GET', `/blocks/${taskId(1)}/children?page_size=3`));
  assert.deepEqual([page.has_more, page.next_cursor], [true, blockId(4)]);
  assert.deepEqual((await ok(provider.notion('GET', `/blocks/${taskId(1)}/children?page_size=3&start_cursor=${page.next_cursor}`))).results.map((b) => b.id), [blockId(4)]);

  const appended = await ok(provider.notion('PATCH', `/blocks/${taskId(1)}/children`, { body: { position: { type: 'after_block', after_block: { id: blockId(1) } }, children: [paragraph('a'), { heading_3: { rich_text: rich('b') } }, { divider: {} }] } }));
  assert.deepEqual(appended.results.map((b) => b.type), ['paragraph', 'heading_3', 'divider']);
  const order = (await ok(provider.notion('GET', `/blocks/${taskId(1)}/children`))).results.map((b) => b.id);
  assert.deepEqual(order, [blockId(1), ...appended.results.map((b) => b.id), blockId(2), blockId(3), blockId(4)]);
  const first = await ok(provider.notion('PATCH', `/blocks/${taskId(1)}/children`, { body: { position: { type: 'start' }, children: [paragraph('1'), paragraph('2')] } }));
  assert.deepEqual((await ok(provider.notion('GET', `/blocks/${taskId(1)}/children?page_size=2`))).results.map((b) => b.id), first.results.map((b) => b.id));

  const ticked = await ok(provider.notion('PATCH', `/blocks/${blockId(3)}`, { body: { to_do: { checked: true } } }));
  assert.equal(ticked.to_do.checked, true);
  assert.equal(ticked.to_do.rich_text[0].plain_text, "Collect everybody's answer");
  const deleted = await ok(provider.notion('DELETE', `/blocks/${blockId(4)}`));
  assert.equal(deleted.in_trash, true);
  assert.ok(!(await ok(provider.notion('GET', `/blocks/${taskId(1)}/children`))).results.some((b) => b.id === blockId(4)));
  await invalid(provider.notion('DELETE', `/blocks/${blockId(4)}`), /archived/);
  await invalid(provider.notion('PATCH', `/blocks/${blockId(3)}`, { body: { paragraph: { rich_text: [] } } }), /type cannot be changed/);
  await invalid(provider.notion('PATCH', `/blocks/${taskId(1)}/children`, { body: {} }), /missing required property "children"/);
  await invalid(provider.notion('PATCH', `/blocks/${taskId(1)}/children`, { body: { children: [paragraph('x')], position: { type: 'after_block', after_block: { id: blockId(5) } } } }), /not a child/);
  await invalid(provider.notion('PATCH', `/blocks/${taskId(1)}/children`, { body: { children: [paragraph('x')], after: blockId(1) } }), /body\/after/);
  await refused(provider.notion('GET', `/blocks/${blockId(999)}`), 404, 'object_not_found', /Could not find block/);
  assert.deepEqual((await provider.ledger()).entries.map((e) => e.kind), ['notion.blocks.append', 'notion.blocks.append', 'notion.blocks.update', 'notion.blocks.delete']);
});

test('users and comments', async () => {
  const users = await ok(provider.notion('GET', '/users'));
  assert.deepEqual(users.results.map((u) => u.type), ['person', 'person', 'bot']);
  const page = await ok(provider.notion('GET', '/users?page_size=2'));
  assert.equal((await ok(provider.notion('GET', `/users?start_cursor=${page.next_cursor}`))).results.length, 1);
  assert.equal((await ok(provider.notion('GET', `/users/${SAM}`))).person.email, 'sam.rivera@example.com');
  assert.equal((await ok(provider.notion('GET', '/users/me'))).bot.workspace_name, "Sam's Workspace");
  await refused(provider.notion('GET', `/users/${taskId(1)}`), 404, 'object_not_found', /user/);

  const listed = await ok(provider.notion('GET', `/comments?block_id=${taskId(1)}`));
  assert.equal(listed.results.length, 2);
  const made = await ok(provider.notion('POST', '/comments', { body: { parent: { page_id: taskId(1) }, rich_text: rich('mine') } }));
  assert.deepEqual(Object.keys(made), ['object', 'id', 'parent', 'discussion_id', 'created_time', 'last_edited_time', 'created_by', 'rich_text']);
  const answer = await ok(provider.notion('POST', '/comments', { body: { discussion_id: listed.results[0].discussion_id, rich_text: rich('answer') } }));
  assert.equal(answer.discussion_id, listed.results[0].discussion_id);
  assert.equal((await ok(provider.notion('GET', `/comments?block_id=${taskId(1)}&page_size=3`))).has_more, true);
  assert.deepEqual(await ok(provider.notion('GET', `/comments/${made.id}`)), made);
  assert.equal((await ok(provider.notion('PATCH', `/comments/${made.id}`, { body: { rich_text: rich('changed') } }))).rich_text[0].plain_text, 'changed');
  await ok(provider.notion('DELETE', `/comments/${made.id}`));
  await refused(provider.notion('GET', `/comments/${made.id}`), 404, 'object_not_found', /Could not find comment/);
  await invalid(provider.notion('POST', '/comments', { body: { rich_text: rich('x') } }), /missing required property .*"parent"/);
  await invalid(provider.notion('GET', '/comments'), /missing required property "block_id"/);
});

test("Notion's own client works with it", async () => {
  const { Client, APIErrorCode } = await import('@notionhq/client');
  const fetch = async (url, { method, headers, body }) => {
    const { status, text } = await exchange(url, { method, headers, body, agent: provider.agent, ca: provider.ca });
    return new Response(text, { status });
  };
  const client = new Client({ logger: () => {}, auth: NOTION, baseUrl: provider.url, fetch, notionVersion: NOTION_VERSION });
  const database = await client.databases.retrieve({ database_id: TASK_DATABASE });
  assert.equal(database.title[0].plain_text, 'Tasks');
  assert.equal(database.data_sources[0].id, TASK_SOURCE);
  const open = await client.dataSources.query({ data_source_id: TASK_SOURCE, filter: { property: 'Status', status: { does_not_equal: 'Done' } }, sorts: [{ property: 'Due', direction: 'ascending' }] });
  assert.equal(open.results.length, 10);
  const page = await client.pages.create({ parent: { data_source_id: TASK_SOURCE }, properties: { Name: { title: [{ text: { content: 'from the client' } }] } }, children: [{ object: 'block', paragraph: { rich_text: [{ text: { content: 'hello' } }] } }] });
  const blocks = await client.blocks.children.list({ block_id: page.id });
  assert.equal(blocks.results[0].paragraph.rich_text[0].plain_text, 'hello');
  await client.blocks.children.append({ block_id: page.id, children: [{ to_do: { rich_text: [{ text: { content: 'do' } }] } }] });
  await client.blocks.delete({ block_id: blocks.results[0].id });
  await client.pages.update({ page_id: page.id, in_trash: true });
  assert.equal((await client.search({ query: 'from the client' })).results.length, 0);
  assert.match((await client.pages.retrieveMarkdown({ page_id: taskId(1) })).markdown, /## To do/);
  await client.comments.create({ parent: { page_id: taskId(1) }, rich_text: [{ text: { content: 'hi' } }] });
  assert.equal((await client.users.me({})).type, 'bot');
  await assert.rejects(client.pages.retrieve({ page_id: taskId(999) }), (error) => error.code === APIErrorCode.ObjectNotFound && error.status === 404);
});
