// The catalog as clients see it: GET /api/integrations, /api/actions, /api/actions/{i}/{a}, /api/search
// (INTERFACE.md 4.3 to 4.6; DECISIONS.md "Catalog"), and the operators' endpoints.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Ajv2020 from 'ajv/dist/2020.js';
import { startDev } from './support/dev.mjs';

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
  assert.deepEqual(Object.keys(gmail), ['integration_id', 'name', 'connected', 'connection_state', 'capabilities']);
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
  for (const query of ['page=x', 'page_size=-1', 'page=1.5', 'connected_only=maybe'])
    assert.equal((await get(`/api/integrations?${query}`)).status, 400, query);
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
  const none = (await get('/api/actions?integration_id=gmail&intent=volcano')).json;
  assert.deepEqual(none.items, []);
  assert.equal((await get('/api/actions?integration_id=gmail&intent=mail&limit=x')).status, 400);
});

test('search finds integrations and actions', async () => {
  const search = async (query) => get(`/api/search?${query}`);
  const { status, json } = await search('query=create%20a%20notion%20page');
  assert.equal(status, 200);
  assert.deepEqual(Object.keys(json), ['items']);
  for (const item of json.items)
    assert.deepEqual(Object.keys(item), [
      'kind', 'integration_id', 'action_id', 'title', 'summary', 'connected', 'connection_state',
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
  assert.deepEqual((await search('query=how+tall+is+mount+everest')).json.items, []);
});

test('a search is limited, and narrowed to what is connected', async () => {
  const items = async (query) => (await get(`/api/search?${query}`)).json.items;
  assert.equal((await items('query=list')).length, 20);
  assert.equal((await items('query=list&limit=3')).length, 3);
  assert.equal((await items('query=list&limit=0')).length, 1);
  const many = await items('query=list&limit=1000');
  assert.ok(many.length > 20 && many.length <= 100);
  assert.ok(many.some((item) => !item.connected && item.connection_state === 'not_connected'));
  const mine = await items('query=list&limit=100&connected_only=true');
  assert.ok(mine.length > 0 && mine.every((item) => item.connected));
  assert.deepEqual(new Set(mine.map((item) => item.integration_id)), new Set(['gmail', 'notion']));
  for (const query of ['', 'query=', 'connected_only=true', 'query=x&connected_only=maybe', 'query=x&limit=-1'])
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

test('an unknown action is a summary, a known one has an ETag', async () => {
  const unknown = await get('/api/actions/gmail/nope');
  assert.equal(unknown.status, 409);
  assert.deepEqual([unknown.json.execution_id, unknown.json.error_code], [null, 'action_not_found']);
  const first = await get('/api/actions/gmail/list_labels');
  const etag = first.headers.get('etag');
  const again = await get('/api/actions/gmail/list_labels', { 'if-none-match': etag });
  assert.equal(again.status, 304);
  assert.equal(again.text, '');
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

test('a request id is echoed or made', async () => {
  const own = await get('/api/integrations', { 'x-request-id': 'my-request-1' });
  assert.equal(own.headers.get('x-request-id'), 'my-request-1');
  const made = await get('/api/integrations');
  assert.ok(made.headers.get('x-request-id').length > 10);
});
