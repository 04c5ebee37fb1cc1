// The catalog as a client sees it: GET /api/integrations, /api/actions, /api/actions/{i}/{a} and
// /api/search (src/api/README.md "Catalog"), and the operators' endpoints.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Ajv2020 from 'ajv/dist/2020.js';
import { startDev, until } from './support/dev.mjs';
import { root } from './support/provider.mjs';
import { Stack } from './support/stack.mjs';

let dev;
before(async () => (dev = await startDev()));
after(async () => {
  const end = await dev.stop();
  assert.deepEqual([end.code, end.signal], [0, null], end.log);
});

const get = (path, headers) => dev.call('GET', path, undefined, headers);

test('integrations are listed with their state and capabilities', async () => {
  const { status, json } = await get('/api/integrations');
  assert.equal(status, 200);
  assert.deepEqual(Object.keys(json), ['items', 'page', 'page_size', 'total']);
  assert.deepEqual([json.page, json.page_size], [1, 20]);
  assert.equal(json.items.length, Math.min(json.total, json.page_size));
  const ids = json.items.map((item) => item.integration_id);
  assert.deepEqual(ids, [...ids].sort());
  const gmail = json.items.find((item) => item.integration_id === 'gmail');
  assert.deepEqual(Object.keys(gmail), ['integration_id', 'name', 'connected', 'connection_state', 'connections', 'capabilities']);
  assert.deepEqual([gmail.connected, gmail.connection_state], [true, 'connected']);
  assert.ok(gmail.capabilities.includes('send_message'));
});

test('the list is filtered and paged', async () => {
  const ids = async (query) => (await get(`/api/integrations?${query}`)).json.items.map((item) => item.integration_id);
  assert.ok((await ids('query=notion')).includes('notion'));
  assert.deepEqual(await ids('query=zzzzz'), []);
  assert.deepEqual(await ids('supports_action=send_message&query=gmail'), ['gmail']);
  assert.deepEqual(await ids('supports_action=notion_create_page'), ['notion']);
  assert.deepEqual(await ids('category=nothing'), []);
  assert.ok((await ids('connected_only=true')).includes('gmail'));
  const page = (await get('/api/integrations?page=2&page_size=1')).json;
  assert.deepEqual([page.page, page.page_size, page.items.length], [2, 1, 1]);
  assert.equal((await get('/api/integrations?page_size=1000')).json.page_size, 100);
  assert.equal((await get('/api/integrations?page=0')).json.page, 1);
  for (const query of ['page=x', 'page=', 'page_size=--1', 'page=1.5', 'page_size=1e2', 'page=0x1', 'connected_only=maybe'])
    assert.equal((await get(`/api/integrations?${query}`)).status, 400, query);
});

test('pages: values out of range are clamped, and walking the pages returns each integration once', async () => {
  const page = async (query) => (await get(`/api/integrations?${query}`)).json;
  const whole = await page('page_size=100');
  assert.ok(whole.total > 20 && whole.total === whole.items.length);
  for (const [query, wanted] of [
    ['', [1, 20]],
    ['page=0&page_size=0', [1, 1]],
    ['page=-5&page_size=-1', [1, 1]],
    ['page=99999999999999999999&page_size=99999999999999999999', [4294967295, 100]],
    ['page_size=101', [1, 100]],
    ['page=007', [7, 20]],
  ]) {
    const got = await page(query);
    assert.deepEqual([got.page, got.page_size, got.total], [...wanted, whole.total], query);
    const from = (wanted[0] - 1) * wanted[1];
    assert.deepEqual(got.items, whole.items.slice(from, from + wanted[1]), query);
  }
  const walked = [];
  for (let number = 1; walked.length < whole.total; number++) {
    const { items } = await page(`page=${number}&page_size=7`);
    assert.ok(items.length > 0);
    walked.push(...items);
  }
  assert.deepEqual(walked, whole.items);
  const past = await page('page=1000');
  assert.deepEqual([past.items, past.total], [[], whole.total]);
});

test('filters: category, supports_action, connected_only, query, and all of them together', async () => {
  const page = async (query) => (await get(`/api/integrations?page_size=100&${query}`)).json;
  const ids = async (query) => (await page(query)).items.map((item) => item.integration_id);
  const all = await page('');
  // an action id finds every integration that has it, and a tool name finds only its own
  // integration
  const having = (action) => all.items.filter((item) => item.capabilities.includes(action)).map((item) => item.integration_id);
  assert.ok(having('send_message').length > 1);
  assert.deepEqual(await ids('supports_action=send_message'), having('send_message'));
  for (const { integration_id, capabilities } of all.items)
    assert.deepEqual(await ids(`supports_action=${integration_id}_${capabilities[0]}`), [integration_id]);
  for (const none of ['nothing', 'gmail_nothing', 'gmail', 'gmail_', '%20', 'SEND_MESSAGE'])
    assert.deepEqual(await ids(`supports_action=${none}`), [], none);
  // categories divide them
  const mail = await ids('category=mail');
  assert.ok(mail.includes('gmail') && !mail.includes('notion'));
  assert.deepEqual(await ids('category=MAIL'), mail);
  assert.deepEqual(await ids('category=mai'), []);
  assert.deepEqual(await ids('connected_only=true'), ['gmail', 'notion']);
  assert.deepEqual(await ids('connected_only=1'), ['gmail', 'notion']);
  for (const query of ['connected_only=false', 'connected_only=0', 'query=', 'category=', 'supports_action='])
    assert.deepEqual((await page(query)).total, all.total, query);
  const both = await page('category=mail&connected_only=true&supports_action=send_message&query=mail');
  assert.deepEqual([both.items.map((item) => item.integration_id), both.total], [['gmail'], 1]);
  const neither = await page('category=notes&supports_action=gmail_send_message');
  assert.deepEqual([neither.items, neither.total], [[], 0]);
  const ranked = (await get('/api/integrations?query=mail&page_size=1')).json;
  assert.ok(ranked.items.length === 1 && ranked.total > 1);
});

test('an intent ranks all actions and drops none; a limit cuts the list', async () => {
  const ids = async (query) =>
    (await get(`/api/actions?integration_id=${query}`)).json.items.map((item) => item.action_id);
  for (const app of ['github', 'gmail', 'http']) {
    const all = await ids(app);
    assert.ok(all.length > 5);
    for (const intent of ['issue', 'send a mail', 'volcano', 'the', '%F0%9F%8C%8B', 'close the issue about volcanoes'])
      assert.deepEqual((await ids(`${app}&intent=${intent}`)).sort(), all, `${app} ${intent}`);
    assert.deepEqual(await ids(`${app}&intent=volcano`), all); // equal matches are in the order of their ids
  }
  const many = await ids('github&intent=issue');
  const { actions } = JSON.parse(readFileSync(join(root, 'contrib/integrations/github.json'), 'utf8'));
  assert.ok(actions.length > 20); // a search's limit
  assert.equal(many.length, actions.length);
  assert.match(many[0], /issue/);
  assert.deepEqual(await ids('github&intent=issue&limit=100'), many);
  assert.deepEqual(await ids('github&intent=issue&limit=3'), many.slice(0, 3));
  assert.deepEqual(await ids('github&intent=issue&limit=-2'), many.slice(0, 1));
  assert.deepEqual(await ids('github&intent=issue&limit=99999999999999999999'), many);
  assert.deepEqual(await ids('github&limit=1'), (await ids('github')).slice(0, 1));
  assert.equal((await ids('github')).length, actions.length);
  assert.equal((await get('/api/actions?integration_id=github&intent=issue&limit=x')).status, 400);
});

test('actions of an integration, plain and by intent', async () => {
  const { json } = await get('/api/actions?integration_id=gmail');
  assert.equal(json.integration_id, 'gmail');
  const ids = json.items.map((item) => item.action_id);
  assert.deepEqual(ids, [...ids].sort());
  for (const item of json.items)
    assert.deepEqual(Object.keys(item), ['action_id', 'title', 'description', 'side_effect_level']);
  const intent = (await get('/api/actions?integration_id=gmail&intent=send%20a%20mail')).json;
  assert.match(intent.items[0].action_id, /^send_/);
  assert.equal((await get('/api/actions')).status, 400);
  const unknown = await get('/api/actions?integration_id=nope');
  assert.equal(unknown.status, 409);
  assert.deepEqual([unknown.json.status, unknown.json.error_code], ['blocked', 'integration_not_found']);
});

test('a query ranks integrations, an intent actions', async () => {
  const integrations = (await get('/api/integrations?query=spreadsheets')).json;
  assert.equal(integrations.items[0].integration_id, 'google_sheets');
  assert.equal((await get('/api/integrations?query=gmial')).json.items[0].integration_id, 'gmail');
  const one = (await get('/api/actions?integration_id=gmail&intent=delete%20a%20message&limit=1')).json;
  assert.deepEqual(one.items.map((item) => item.action_id), ['delete_message']);
  assert.equal((await get('/api/actions?integration_id=gmail&intent=mail&limit=x')).status, 400);
});

test('search finds integrations and actions', async () => {
  const search = async (query) => get(`/api/search?${query}`);
  const { status, json } = await search('query=create%20a%20notion%20page');
  assert.equal(status, 200);
  assert.deepEqual(Object.keys(json), ['items']);
  for (const item of json.items)
    assert.deepEqual(Object.keys(item), [
      'kind', 'integration_id', 'action_id', 'title', 'summary', 'connected', 'connection_state', 'relevance',
    ]);
  const [first] = json.items;
  assert.deepEqual(
    [first.kind, first.integration_id, first.action_id, first.connected, first.connection_state],
    ['action', 'notion', 'create_page', true, 'connected'],
  );
  const [app] = (await search('query=gmail')).json.items;
  assert.deepEqual([app.kind, app.integration_id, app.action_id, app.title], ['integration', 'gmail', null, 'Gmail']);
  const [exact] = (await search('query=gmail_get_thread')).json.items;
  assert.equal(exact.action_id, 'get_thread');
  assert.deepEqual((await search('query=kilimanjaro')).json.items, []); // the index knows no word of the query
});

test('a search accepts sentences, and says how relevant its results are', async () => {
  const items = async (query) => (await get(`/api/search?query=${encodeURIComponent(query)}`)).json.items;
  const tool = ({ integration_id, action_id }) => `${integration_id}_${action_id}`;
  const wanted = {
    'email my landlord that the heating is broken': /_send_(message|email)$/,
    'remind the team on slack that the deploy is at 5pm': /^slack_(post|schedule)_message$/,
    'charge a credit card': /^stripe_create_(payment_intent|payment_link|invoice)$/,
    'create an invoice for ACME for 3 hours of consulting and send it': /^stripe_create_invoice$/,
    'thank the candidate for the interview': /_send_(message|email)$/,
    'let Xaver know \u201cdelete the page\u201d by mail': /_send_(message|email)$/,
  };
  for (const [sentence, pattern] of Object.entries(wanted)) {
    const found = await items(sentence);
    assert.match(tool(found[0]), pattern, sentence);
    assert.equal(found[0].relevance, 'high', sentence);
    for (const { relevance } of found) assert.match(relevance, /^(high|low)$/);
  }
  // one known word is enough for a result, with low relevance
  const far = await items('kilimanjaro volcano eruption guidebook chapter seven invoice');
  assert.ok(far.length > 0 && far.every(({ relevance }) => relevance === 'low'));
  // an exact name has the highest relevance
  for (const name of ['gmail', 'gmail_get_thread', 'get_thread']) assert.equal((await items(name))[0].relevance, 'high');
});

test('a connected app only wins ties', async () => {
  const first = async (query) => (await get(`/api/search?query=${query}`)).json.items[0];
  // the account has gmail and notion
  for (const query of ['send+a+message', 'send+an+email', 'thank+the+candidate+for+the+interview', 'create+a+draft'])
    assert.equal((await first(query)).integration_id, 'gmail', query);
  for (const query of ['send+a+message+with+outlook', 'send+a+slack+message'])
    assert.equal((await first(query)).connected, false, query); // a query that names an app means that app
  const { items } = (await get('/api/search?query=send+an+SMS')).json;
  assert.deepEqual([items[0].integration_id, items[0].connected, items[0].relevance], ['twilio', false, 'high']);
  assert.ok(items.filter((one) => one.integration_id === 'gmail').every((one) => one.relevance === 'low'));
});

test('a search is limited, and can be narrowed to connected apps', async () => {
  const items = async (query) => (await get(`/api/search?${query}`)).json.items;
  assert.equal((await items('query=list')).length, 20);
  assert.equal((await items('query=list&limit=3')).length, 3);
  for (const limit of ['0', '-1', '-99999999999999999999']) assert.equal((await items(`query=list&limit=${limit}`)).length, 1);
  const many = await items('query=list&limit=1000');
  assert.ok(many.length > 20 && many.length <= 100);
  assert.ok(many.some((item) => !item.connected && item.connection_state === 'not_connected'));
  const mine = await items('query=list&limit=100&connected_only=true');
  assert.ok(mine.length > 0 && mine.every((item) => item.connected));
  assert.deepEqual(new Set(mine.map((item) => item.integration_id)), new Set(['gmail', 'notion']));
  for (const query of ['', 'query=', 'connected_only=true', 'query=x&connected_only=maybe', 'query=x&limit=1x'])
    assert.equal((await get(`/api/search?${query}`)).status, 400, query);
  assert.match((await get('/api/search')).json.error, /query is required/);
  const hostile = await get(`/api/search?query=${'%F0%9F%92%A9a'.repeat(500)}`);
  assert.deepEqual([hostile.status, hostile.json.items], [200, []]);
});

test('every detail has a schema that its examples satisfy, and the examples succeed', async () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  for (const integration of ['gmail', 'notion']) {
    const { json } = await get(`/api/actions?integration_id=${integration}`);
    for (const { action_id } of json.items) {
      const { status, json: detail } = await get(`/api/actions/${integration}/${action_id}`);
      assert.equal(status, 200);
      const validate = ajv.compile(detail.input_schema);
      assert.equal(detail.tool_name, `${integration}_${action_id}`);
      assert.match(detail.schema_version, /^[0-9a-f]{16}$/);
      assert.equal(detail.requires_confirmation, detail.side_effect_level !== 'read');
      const fields = [...detail.input_summary.required, ...detail.input_summary.optional].sort();
      assert.deepEqual(fields, Object.keys(detail.input_schema.properties ?? {}).sort());
      for (const { title, input } of detail.examples) {
        assert.equal(typeof title, 'string');
        assert.ok(validate(input), `${action_id}: ${ajv.errorsText(validate.errors)}`);
      }
    }
  }
});

test('every detail of every integration has each field, and agrees with the lists', async () => {
  const strings = (list) => Array.isArray(list) && list.every((one) => typeof one === 'string');
  const { items } = (await get('/api/integrations?page_size=100')).json;
  const versions = new Map();
  for (const { integration_id, capabilities } of items) {
    const listed = (await get(`/api/actions?integration_id=${integration_id}`)).json.items;
    assert.deepEqual(listed.map((item) => item.action_id), capabilities);
    for (const item of listed) {
      const path = `/api/actions/${integration_id}/${item.action_id}`;
      const { json: detail, headers } = await get(path);
      assert.deepEqual(
        Object.keys(detail),
        [
          'integration_id', 'action_id', 'title', 'description', 'side_effect_level', 'tool_name', 'requires_confirmation',
          'idempotent', 'undo', 'scopes', 'input_schema', 'schema_version', 'input_summary', 'output_schema', 'files', 'examples', 'preconditions', 'auth',
        ],
        path,
      );
      for (const [key, value] of Object.entries(item)) assert.equal(detail[key], value, `${path} ${key}`);
      assert.equal(detail.integration_id, integration_id);
      assert.equal(detail.tool_name, `${integration_id}_${item.action_id}`);
      assert.ok(detail.tool_name.length <= 64);
      assert.ok(['read', 'write', 'delete', 'admin'].includes(detail.side_effect_level));
      assert.ok(detail.requires_confirmation || detail.side_effect_level === 'read', path);
      assert.equal(typeof detail.idempotent, 'boolean');
      assert.equal(detail.input_schema.type, 'object');
      assert.ok(strings(detail.scopes) && strings(detail.input_summary.required) && strings(detail.input_summary.optional));
      assert.deepEqual([...detail.input_summary.required].sort(), [...(detail.input_schema.required ?? [])].sort(), path);
      for (const one of detail.preconditions) assert.ok(['connection', 'scope', 'note'].includes(one.kind) && one.description, path);
      assert.ok(headers.get('etag'));
      versions.set(path, detail.schema_version);
    }
  }
  // actions with different schemas have different versions; a whole tool name gives the same detail
  // as an action id
  const send = await get('/api/actions/gmail/send_message');
  assert.deepEqual((await get('/api/actions/gmail/gmail_send_message')).json, send.json);
  assert.notEqual(versions.get('/api/actions/gmail/send_message'), versions.get('/api/actions/gmail/list_labels'));
  assert.ok(new Set(versions.values()).size > versions.size / 2);
});

test('every example of a read succeeds on a fresh start, then every write', async () => {
  for (const wantsRead of [true, false])
    for (const integration of ['gmail', 'notion']) {
      const { json } = await get(`/api/actions?integration_id=${integration}`);
      for (const { action_id, side_effect_level } of json.items) {
        if ((side_effect_level === 'read') !== wantsRead) continue;
        const { json: detail } = await get(`/api/actions/${integration}/${action_id}`);
        for (const { input } of detail.examples) {
          await dev.control('POST', '/reset');
          const reply = await dev.execute(integration, action_id, input, { confirm: true });
          assert.equal(reply.status, 200, `${integration} ${action_id}: ${reply.text.slice(0, 600)}`);
        }
      }
    }
});

test('an unknown action is a summary', async () => {
  const unknown = await get('/api/actions/gmail/nope');
  assert.equal(unknown.status, 409);
  assert.deepEqual([unknown.json.execution_id, unknown.json.error_code], [null, 'action_not_found']);
  assert.equal(unknown.headers.get('etag'), null);
});

// A client that misspells an id gets the correct id in the error, wherever it uses the id.
test('a misspelled id gets an error with the id that is meant', async () => {
  const post = async (path, body) => (await dev.call('POST', path, body)).json;
  const run = async (integration_id, action_id) => (await post('/api/executions', { integration_id, action_id, input: {} })).message;
  const tool = async (name) => (await post(`/api/tools/${name}/execute`, {})).error.message;
  const said = async (path) => (await get(path)).json.message;
  for (const wrong of ['Gmail', 'GMAIL', 'gmial', 'g-mail']) {
    const meant = `There is no integration "${wrong}"; did you mean "gmail"?`;
    assert.equal(await run(wrong, 'send_message'), `${meant} Nothing was done.`);
    assert.equal(await said(`/api/actions?integration_id=${wrong}`), meant);
    assert.equal(await said(`/api/actions/${wrong}/send_message`), meant);
    assert.equal((await post('/api/connect/sessions', { integration_id: wrong })).error, meant);
  }
  for (const wrong of ['Send_Message', 'sendMessage', 'send_mesage', 'SEND_MESSAGE', 'GMAIL_SEND_MESSAGE']) {
    const meant = `Gmail has no action "${wrong}"; did you mean "send_message"?`;
    assert.equal(await run('gmail', wrong), `${meant} Nothing was done.`);
    assert.equal(await said(`/api/actions/gmail/${wrong}`), meant);
  }
  for (const wrong of ['Gmail_Send_Message', 'gmial_send_message', 'google_calender_list_events'])
    assert.equal(
      await tool(wrong),
      `There is no tool "${wrong}"; did you mean "${wrong.replace('calender', 'calendar').replace('gmial', 'gmail').toLowerCase()}"? Nothing was done.`,
    );
  assert.equal(await tool('gmail_send_mesage'), 'Gmail has no action "gmail_send_mesage"; did you mean "send_message"? Nothing was done.');
  // by meaning, not by letters
  assert.equal(await run('slack', 'send_message'), 'Slack has no action "send_message"; did you mean "post_message"? Nothing was done.');
  assert.equal(await said('/api/actions/jira/create_ticket'), 'Jira has no action "create_ticket"; did you mean "create_issue"?');
  assert.match(await tool('slack_send_message'), /did you mean "post_message"/);
  // the tool that recommended_next_action names does not belong to an app
  const connect = "sluice.connect_app connects an app. It is not one of an app's tools. Nothing was done.";
  assert.equal(await tool('sluice.connect_app'), connect);
  assert.equal(await run('sluice', 'connect_app'), connect);
  // no similar id exists, and an id is very long
  assert.equal(await run('qqqqqqqq', 'x'), 'There is no integration "qqqqqqqq". Nothing was done.');
  assert.equal(await run('gmail', 'qqqqqqqq'), 'Gmail has no action "qqqqqqqq". Nothing was done.');
  assert.equal(await run('gmail'.repeat(1e5), 'x'), `There is no integration "${'gmail'.repeat(40)}...". Nothing was done.`);
  assert.ok((await run('gmail', 'send_message'.repeat(1e5))).length < 400);
});

// Texts have an explicit length: characters after a NUL are neither lost nor a way around a check.
test('no text ends at a NUL', async () => {
  const post = async (path, body) => dev.call('POST', path, body);
  const run = (integration_id, action_id) => post('/api/executions', { integration_id, action_id, input: {} });
  assert.equal((await run('gmail\0', 'list_labels')).json.message, 'There is no integration "gmail\\u0000"; did you mean "gmail"? Nothing was done.');
  assert.equal((await run('gmail', 'list_labels\0x')).json.message, 'Gmail has no action "list_labels\\u0000x"; did you mean "list_labels"? Nothing was done.');
  assert.equal((await post('/api/connect/sessions', { integration_id: 'gmail\0' })).status, 404);
  assert.equal((await post('/api/flows/start', { flowTemplate: 'unread_mail_summary\0' })).status, 404);
  // a NUL in a path or a query is refused before any other check
  for (const path of ['search?query=send%00message', 'integrations?category=email%00', 'actions?integration_id=gmail%00', 'actions/gmail%00/x', 'flows/templates/a%00']) {
    const refused = await get(`/api/${path}`);
    assert.deepEqual([refused.status, refused.json], [400, { error: 'the request target has an escaped NUL' }], path);
  }
  // a decision's note is stored completely
  const { flowId } = (await post('/api/flows/start', { flowTemplate: 'unread_mail_to_tasks', input: { taskParent: '0'.repeat(32) } })).json;
  const { json } = await get(`/api/flows/${flowId}?wait=30&until=settled`);
  assert.equal(json.flow.status, 'waiting', JSON.stringify(json.steps));
  const rejected = await post(`/api/flows/${flowId}/reject`, { note: 'no\0not this' });
  assert.match(rejected.json.steps.find((step) => step.stepType === 'approval').error.message, /: no\0not this$/);
});

test('every reply of the catalog has an ETag, and is 304 for a request with it', async () => {
  const tags = new Set();
  for (const path of [
    '/api/integrations',
    '/api/integrations?query=mail&page_size=2',
    '/api/actions?integration_id=gmail',
    '/api/actions?integration_id=gmail&intent=send',
    '/api/actions/gmail/list_labels',
    '/api/search?query=mail',
    '/api/search?query=zzzzz',
  ]) {
    const first = await get(path);
    const etag = first.headers.get('etag');
    assert.match(etag, /^"[0-9a-f]{16}"$/, path);
    assert.equal(first.headers.get('cache-control'), 'private, no-cache');
    assert.equal((await get(path)).headers.get('etag'), etag, 'an equal reply has the same ETag');
    for (const known of [etag, `W/${etag}`, `"other" , ${etag}`, '*']) {
      const again = await get(path, { 'if-none-match': known });
      assert.deepEqual([again.status, again.text, again.headers.get('etag')], [304, '', etag], `${path} ${known}`);
    }
    for (const other of ['"0000000000000000"', etag.slice(1, -1), `x${etag}`])
      assert.equal((await get(path, { 'if-none-match': other })).status, 200, `${path} ${other}`);
    tags.add(etag);
  }
  assert.ok(tags.size >= 4); // lists that depend on the account have ETags of their own
});

test('the state of the connections belongs to the account, and so does its ETag', async () => {
  const stack = await Stack.start({ catalog: false });
  try {
    const [fresh, one] = [await stack.account('fresh', { apps: [] }), await stack.account('one', { apps: ['gmail'] })];
    const server = await stack.serve();
    const item = async (key, query = '') => {
      const { json, headers } = await server.call(key, 'GET', `/api/integrations?page_size=100${query}`);
      const found = json.items.find((entry) => entry.integration_id === 'gmail');
      return { state: [found?.connected, found?.connection_state], etag: headers.get('etag'), total: json.total };
    };
    const found = async (key, query = '') => {
      const { json } = await server.call(key, 'GET', `/api/search?query=gmail_send_message${query}`);
      const [first] = json.items;
      return first?.integration_id === 'gmail' && [first.connected, first.connection_state];
    };
    const shows = async (key, state) => {
      const seen = await item(key);
      assert.deepEqual(seen.state, state);
      assert.deepEqual(await found(key), state);
      const [connected] = state;
      assert.equal((await item(key, '&connected_only=true')).state[0], connected ? true : undefined);
      assert.deepEqual(await found(key, '&connected_only=true'), connected ? state : false);
      return seen.etag;
    };
    const etags = [await shows(fresh.key, [false, 'not_connected']), await shows(one.key, [true, 'connected'])];
    await stack.connect(one.id, 'gmail', { access_token: 'revoked' }, ['--label', 'two']);
    assert.notEqual(await shows(one.key, [true, 'connected']), etags[1]); // the default is the same, but there is one connection more
    await stack.cluster.sql('update sluice.connection set is_default = false');
    etags.push(await shows(one.key, [true, 'ambiguous']));
    await stack.connect(fresh.id, 'gmail', { access_token: 'revoked' });
    const { json } = await until('the connection is used', async () => {
      const reply = await server.execute(fresh.key, 'gmail', 'list_labels', {});
      return reply.json.error_code !== 'integration_not_connected' && reply;
    });
    assert.equal(json.error_code, 'reauth_required');
    etags.push(await shows(fresh.key, [false, 'reauth_required']));
    assert.equal(new Set(etags).size, 4);
    const stale = await server.call(fresh.key, 'GET', '/api/integrations?page_size=100', undefined, { 'if-none-match': etags[0] });
    assert.equal(stale.status, 200);
    // an integration's capabilities and names are the same for all
    const detail = (key) => server.call(key, 'GET', '/api/actions/gmail/send_message');
    assert.equal((await detail(fresh.key)).text, (await detail(one.key)).text);
  } finally {
    await stack.stopWell(assert);
  }
});

test('operators see health, readiness and metrics without a key', async () => {
  for (const path of ['/healthz', '/readyz']) {
    const reply = await fetch(dev.base + path);
    assert.equal(reply.status, 200, path);
  }
  await dev.execute('gmail', 'list_labels', {});
  const metrics = await (await fetch(dev.base + '/metrics')).text();
  for (const name of [
    'sluice_http_request_seconds_bucket',
    'sluice_provider_seconds_bucket',
    'sluice_execution_seconds_count',
    'sluice_executions_total',
    'sluice_loop_turn_cpu_seconds_max',
  ])
    assert.ok(metrics.includes(name), name);
  assert.ok(!metrics.includes(dev.key));
});

test('a request id is returned or made', async () => {
  const own = await get('/api/integrations', { 'x-request-id': 'my-request-1' });
  assert.equal(own.headers.get('x-request-id'), 'my-request-1');
  const made = await get('/api/integrations');
  assert.ok(made.headers.get('x-request-id').length > 10);
});
