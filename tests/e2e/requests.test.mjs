// The exact form of requests (src/api/README.md "HTTP", "Requests"): methods of literal paths,
// misspelled names, numbers above any integer, booleans as programs write them, and idempotency
// keys by characters and in quotes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Raw } from './support/raw.mjs';
import { Stack } from './support/stack.mjs';

const NUMBER = '99999999999999999999999';
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
const UNKNOWN_ID = '019a1b2c-3d4e-7f50-8a61-72839405a6b7';
let stack, server, account, operator, document;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('a', { apps: ['gmail', 'probe'] });
  operator = (await stack.must(['keys', 'create', '--operator', '--addresses', '127.0.0.0/8,::1'])).trim();
  server = await stack.serve();
  document = await (await fetch(`${server.base}/openapi.json`)).json();
});
after(() => stack?.stopWell(assert));

const call = (method, path, body, headers) => server.call(account.key, method, path, body, headers);
const get = (path) => call('GET', path);
const deref = (one) => (one.$ref ? one.$ref.slice(2).split('/').reduce((at, key) => at[key], document) : one);
const filled = (path) => path.replace(/\{[^}]*\}/g, UNKNOWN_ID);
const operations = (path) => METHODS.filter((method) => document.paths[path][method.toLowerCase()]);

async function refused(reply, words, status = 400) {
  assert.equal(reply.status, status, reply.text);
  assert.deepEqual(Object.keys(reply.json), ['error']);
  assert.match(reply.json.error, words);
}

// ---- methods ----

test('each path of the document answers 405 to other methods, with its own in Allow', async () => {
  for (const path of Object.keys(document.paths)) {
    const has = operations(path);
    const allowed = new Set(has.includes('GET') ? ['HEAD', ...has] : has);
    for (const method of [...METHODS, 'HEAD', 'OPTIONS']) {
      if (allowed.has(method)) continue;
      const reply = await call(method, filled(path));
      assert.equal(reply.status, 405, `${method} ${path}: ${reply.text}`);
      assert.deepEqual(new Set(reply.headers.get('allow').split(', ')), allowed, `${method} ${path}`);
      if (method !== 'HEAD') assert.deepEqual(reply.json, { error: 'Method not allowed' });
    }
  }
  assert.equal((await get('/api/flows/start')).headers.get('allow'), 'POST');
  assert.equal((await get('/api/executions/batch')).headers.get('allow'), 'POST');
  assert.equal((await get('/api/flows/starts')).status, 404);
});

// ---- names ----

const variants = (name) =>
  [
    name[0].toUpperCase() + name.slice(1),
    name.toUpperCase(),
    name.replace(/_(.)/g, (_, letter) => letter.toUpperCase()),
    name.replaceAll('_', '-'),
    name.replace(/([A-Z])/g, '_$1').toLowerCase(),
    `_${name}`,
  ].filter((one) => one !== name);

test('a query parameter that is one of ours but for case, hyphen or underscore is named', async () => {
  let seen = 0;
  for (const path of Object.keys(document.paths).filter((one) => one.startsWith('/api/')))
    for (const method of operations(path)) {
      const { parameters = [], ...operation } = document.paths[path][method.toLowerCase()];
      const key = operation['x-scope'] === 'operator' ? operator : account.key;
      for (const { name, in: place } of parameters.map(deref)) {
        if (place !== 'query') continue;
        for (const other of variants(name)) {
          const reply = await server.call(key, method, `${filled(path)}?${encodeURIComponent(other)}=1`);
          await refused(reply, new RegExp(`^${other} is not a query parameter here: use ${name}$`));
          seen++;
        }
      }
    }
  assert.ok(seen > 60, `${seen}`);
  for (const query of ['pageSize=5', 'Page-Size=5', 'connectedOnly=true', 'page_size=5&PAGE=1'])
    await refused(await get(`/api/integrations?${query}`), /: use (page_size|connected_only|page)$/);
  await refused(await get('/api/flows?Limit=1'), /use limit/);
  for (const path of ['/api/integrations?pages=1&utm_source=x&since=1&=&-=1', '/api/flows?sort=asc', '/api/flows/templates?limit=x', '/api/connections?page=1'])
    assert.equal((await get(path)).status, 200, path);
  // the key, the path and the scope are checked before the names in the query
  assert.equal((await server.call('sk_no', 'GET', '/api/flows?Limit=1')).status, 401);
  assert.equal((await get('/api/nothing?Limit=1')).status, 404);
});

test('a misspelled dry run does not run the action', async () => {
  const body = { integration_id: 'probe', action_id: 'send', input: { subject: 'no dry run' }, confirm: true };
  for (const path of ['/api/executions', '/api/executions/batch'])
    for (const name of ['dry_run', 'dryRun'])
      await refused(await call('POST', `${path}?${name}=true`, body), new RegExp(`^${name} is not a query parameter here: use the member dry_run of the body$`));
  await refused(await call('POST', '/api/executions/batch', { executions: [body], dry_run: true }), /^dry_run is not a member of this request: use the member of each execution$/);
  const flow = { flowTemplate: 'unread_mail_summary', input: {} };
  await refused(await call('POST', '/api/flows/start?dry_run=true', flow), /^dry_run is not a query parameter here: .*\(a start has no dry run\)$/);
  await refused(await call('POST', '/api/flows/start', { ...flow, dry_run: true }), /^dry_run is not a member of this request: .*\(a start has no dry run\)$/);
  assert.equal((await stack.provider.ledger()).filter((one) => one.marker === 'no dry run').length, 0);
});

test('a key or a connection that would be ignored does not run the action', async () => {
  const body = { integration_id: 'probe', action_id: 'send', input: { subject: 'no key' }, confirm: true };
  const tool = { arguments: { subject: 'no key' }, confirmed: true };
  const cases = [
    ['/api/executions', body, 'idempotency_key', /member idempotency_key of the body/],
    ['/api/executions', body, 'connection_id', /\/api\/tools\//],
    ['/api/executions/batch', { executions: [body] }, 'idempotencyKey', /member idempotency_key of the body/],
    ['/api/tools/probe_send/execute', tool, 'idempotency_key', /header Idempotency-Key/],
    ['/api/tools/probe_send/execute', tool, 'connectionId', /member connectionId/],
    ['/api/flows/start', { flowTemplate: 'unread_mail_summary', input: {} }, 'idempotency_key', /member idempotency_key of the body/],
  ];
  for (const [path, sent, name, right] of cases)
    await refused(await call('POST', `${path}?${name}=x`, sent), right);
  await refused(await call('POST', '/api/executions/batch', { executions: [body], idempotency_key: 'x' }), /member of each execution/);
  assert.equal((await stack.provider.ledger()).filter((one) => one.marker === 'no key').length, 0);
});

test('members of a similar endpoint are refused with the right spelling', async () => {
  const member = (name, right) => new RegExp(`^${name} is not a member of this request: use ${right}$`);
  const good = { integration_id: 'probe', action_id: 'send', input: { subject: 'misnamed' } };
  const tool = 'POST /api/tools/\\{tool_name\\}/execute';
  const elsewhere = [
    ['connectionId', '17', tool], ['confirmed', true, 'confirm'], ['arguments', {}, 'input'], ['files', [], tool],
    ['idempotencyKey', 'k', 'idempotency_key'], ['dryRun', true, 'dry_run'], ['connection_id', 17, tool], ['Confirm', true, 'confirm'],
    ['maxPages', 2, 'max_pages'],
  ];
  for (const [name, value, right] of elsewhere)
    for (const given of [value, null]) {
      await refused(await call('POST', '/api/executions', { ...good, confirm: true, [name]: given }), member(name, right));
      const executions = [{ ...good, [name]: given }, { integration_id: 'gmail', action_id: 'list_labels', input: {} }];
      const { status, json } = await call('POST', '/api/executions/batch', { executions });
      assert.equal(status, 200);
      assert.equal(json.results[0].status, 400);
      assert.match(json.results[0].error, member(name, right));
      assert.equal(json.results[1].status, 200);
    }
  // the misspelled name is reported even if a required member is missing because of it
  await refused(await call('POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_labels', arguments: {} }), member('arguments', 'input'));
  assert.equal((await stack.provider.ledger()).filter((one) => one.marker === 'misnamed').length, 0);
  // the rest is ignored
  const more = { integration_id: 'gmail', action_id: 'list_labels', input: {}, note: 1, confirmation: true, tool_name: 'x', _: 1, '-': 2 };
  assert.equal((await call('POST', '/api/executions', more)).status, 200);
});

test('misspelled members are refused on the tool endpoint next to "arguments", and count as arguments without it', async () => {
  const member = (name, right) => new RegExp(`^${name} is not a member of this request: use ${right}$`);
  const run = (body) => call('POST', '/api/tools/gmail_list_labels/execute', body);
  for (const [name, value, right] of [
    ['confirm', true, 'confirmed'], ['dry_run', true, 'the query parameter dry_run'], ['dryRun', true, 'the query parameter dry_run'],
    ['idempotency_key', 'k', 'the header Idempotency-Key'], ['connection_id', '1', 'connectionId'], ['Confirmed', true, 'confirmed'],
    ['max_output_bytes', 10, 'the query parameter max_output_bytes'], ['max_pages', 10, 'the query parameter max_pages'],
    ['input', {}, 'arguments'],
  ]) {
    await refused(await run({ arguments: {}, [name]: value }), member(name, right));
    const alone = await run({ [name]: value });
    assert.deepEqual([alone.status, alone.json.error.code], [409, 'invalid_arguments'], `${name}: ${alone.text}`);
    assert.match(alone.json.error.message, new RegExp(`^/${name}: unknown property "${name}"`));
    assert.equal((await run({ arguments: null, [name]: value })).status, 409);
  }
  assert.equal((await run({ arguments: {}, query: 'ignored', integration: 'x' })).status, 200);
});

test('misspelled members are refused when a flow starts or is decided, and when connections are made', async () => {
  const member = (name, right) => new RegExp(`^${name} is not a member of this request: use ${right}$`);
  const start = (more) => call('POST', '/api/flows/start', { flowTemplate: 'api_gate', input: { id: 'INBOX' }, ...more });
  await refused(await call('POST', '/api/flows/start', { flow_template: 'api_gate' }), member('flow_template', 'flowTemplate'));
  await refused(await start({ flow_template: 'api_gate' }), member('flow_template', 'flowTemplate'));
  await refused(await start({ trigger_type: 'agent' }), member('trigger_type', 'triggerType'));
  const { json } = await start({ note: 'ignored' });
  const path = `/api/flows/${json.flowId}`;
  await until('it waits', async () => (await get(path)).json.flow.status === 'waiting');
  for (const name of ['approve', 'reject'])
    await refused(await call('POST', `${path}/${name}`, { step_key: 'another' }), member('step_key', 'stepKey'));
  assert.equal((await get(path)).json.flow.status, 'waiting', 'nothing was decided');
  assert.equal((await call('POST', `${path}/cancel`)).status, 200);
  await refused(await call('POST', '/api/connect/sessions', { integration_id: 'gmail', forceReconnect: true }), member('forceReconnect', 'force_reconnect'));
  await refused(await call('POST', '/api/connect/sessions', { integration_id: 'gmail', returnUrl: 'https://x.example/' }), member('returnUrl', 'return_url'));
  const { connections } = (await get('/api/connections')).json;
  await refused(await call('PATCH', `/api/connections/${connections[0].id}`, { Label: 'x', default: true }), member('Label', 'label'));
});

test('a member of the input is refused outside of the input', async () => {
  const misplaced = (name, inside) => new RegExp(`^${name} is not a member of this request: put it inside ${inside}$`);
  const run = { integration_id: 'gmail', action_id: 'list_threads', input: { query: 'is:unread' }, maxResults: 3 };
  await refused(await call('POST', '/api/executions', run), misplaced('maxResults', 'input'));
  await refused(await call('POST', '/api/executions', { ...run, action_id: 'gmail_list_threads' }), misplaced('maxResults', 'input'));
  const batch = await call('POST', '/api/executions/batch', { executions: [run] });
  assert.match(batch.json.results[0].error, misplaced('maxResults', 'input'));
  await refused(await call('POST', '/api/tools/gmail_list_threads/execute', { arguments: {}, maxResults: 3 }), misplaced('maxResults', 'arguments'));
  assert.equal((await call('POST', '/api/tools/gmail_list_threads/execute', { maxResults: 3 })).status, 200);
  await refused(await call('POST', '/api/flows/start', { flowTemplate: 'api_gate', input: { id: 'INBOX' }, id: 'x' }), misplaced('id', 'input'));
  assert.equal((await call('POST', '/api/executions', { ...run, maxResults: undefined, min: 3 })).status, 200);
  // An action without such a member in its input, and an action that does not exist, get their
  // usual answers.
  assert.equal((await call('POST', '/api/executions', { ...run, action_id: 'list_labels', input: {} })).status, 200);
  assert.equal((await call('POST', '/api/executions', { ...run, action_id: 'nope' })).json.error_code, 'action_not_found');
});

test('members of files have their names', async () => {
  const file = { name: 'a.txt', data: 'YQ==' };
  for (const [name, right] of [['mimeType', 'contentType'], ['mime_type', 'contentType'], ['content_type', 'contentType'], ['type', 'contentType'], ['fileName', 'name'], ['content', 'data'], ['base64', 'data']])
    await refused(
      await call('POST', '/api/tools/gmail_list_labels/execute', { arguments: {}, files: [file, { ...file, [name]: 'x' }] }),
      new RegExp(`^/files/1: ${name} is not a member of this request: use ${right}$`),
    );
});

// ---- numbers, booleans ----

test('numbers above any integer are the highest', async () => {
  const items = async (path) => (await get(path)).json.items.length;
  for (const path of ['/api/executions', '/api/audit', '/api/flows', '/api/search?query=mail', '/api/actions?integration_id=gmail']) {
    const query = path.includes('?') ? '&' : '?';
    for (const limit of [NUMBER, '9'.repeat(1000), '00000000000000000000000000100'])
      assert.equal((await get(`${path}${query}limit=${limit}`)).status, 200, `${path} ${limit}`);
    for (const limit of ['x', '1.5', `${NUMBER}x`, '', '%2B1', ' 1', '0x10', '1e3'])
      assert.equal((await get(`${path}${query}limit=${limit}`)).status, 400, `${path} ${limit}`);
  }
  const { json } = await get(`/api/integrations?page_size=${NUMBER}`);
  assert.equal(json.page_size, 100);
  assert.ok((await items('/api/integrations?page_size=100')) === json.items.length);
  assert.deepEqual((await get(`/api/integrations?page=${NUMBER}`)).json.items, []);
  const flow = (await call('POST', '/api/flows/start', { flowTemplate: 'api_gate', input: { id: 'INBOX' } })).json.flowId;
  const settled = await get(`/api/flows/${flow}?wait=${NUMBER}&until=settled`);
  assert.deepEqual([settled.status, settled.json.flow.status], [200, 'waiting']);
  for (const wait of ['-1', 'x', '1.5', '']) await refused(await get(`/api/flows/${flow}?wait=${wait}`), /^wait must be a whole number, got "/);
  const done = (await server.execute(account.key, 'gmail', 'list_labels', {}, { max_output_bytes: 10 })).json;
  const whole = await get(`/api/executions/${done.execution_id}`);
  const same = await get(`/api/executions/${done.execution_id}?max_output_bytes=${NUMBER}`);
  assert.deepEqual([same.status, same.text], [200, whole.text]);
  const past = await get(`/api/executions/${done.execution_id}?pointer=/labels&offset=${NUMBER}`);
  assert.deepEqual([past.status, past.json.output], [200, []]);
  for (const name of ['max_output_bytes', 'max_pages']) {
    const all = `{"integration_id":"gmail","action_id":"list_labels","input":{},"${name}":`;
    for (const value of [NUMBER, '1e40', '1E400', `${NUMBER}.0`])
      assert.equal((await call('POST', '/api/executions', `${all}${value}}`)).status, 200, value);
    for (const value of [`-${NUMBER}`, '0', '1.5', `${NUMBER}.5`, '"1"', '-1e400'])
      await refused(await call('POST', '/api/executions', `${all}${value}}`), new RegExp(`${name} must be a positive integer`));
    assert.equal((await call('POST', `/api/tools/gmail_list_labels/execute?${name}=${NUMBER}`, {})).status, 200);
    for (const value of ['0', '-1', 'x', ''])
      await refused(await call('POST', `/api/tools/gmail_list_labels/execute?${name}=${value}`, {}), new RegExp(`${name} must be a positive integer`));
  }
});

test('members that would be silently ignored are refused, and limits apply', async () => {
  for (const path of ['/api/search?query=mail&query=slack', '/api/executions?limit=1&limit=2', '/api/flows?limit=1&status=failed&limit=1'])
    await refused(await get(path), /^(query|limit) is given more than once$/);
  assert.equal((await get('/api/flows?unknown=1&unknown=2')).status, 200);
  for (const kind of ['nope', 'key.nope', 'ke', 'key.']) await refused(await get(`/api/audit?kind=${kind}`), /^kind must be one of, or the first word of: .*key\.created/);
  for (const kind of ['key', 'key.created', 'flow', 'execution.blocked']) assert.equal((await get(`/api/audit?kind=${kind}`)).status, 200, kind);
  for (const query of ['', '&intent=send'])
    assert.equal((await get(`/api/actions?integration_id=gmail&limit=3${query}`)).json.items.length, 3);
  assert.ok((await get('/api/actions?integration_id=gmail')).json.items.length > 3);
  await refused(await call('POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_labels', input: '{}' }), /input are required: input must be an object, got text$/);
  await refused(await call('POST', '/api/executions', '{"integration_id":"a","integration_id":"b"}'), /^The body cannot be read: the member "integration_id" occurs twice in the object at the top level$/);
});

test('data of an account are stored by no cache', async () => {
  const done = await server.execute(account.key, 'gmail', 'list_labels', {});
  const replies = [done, await call('POST', '/api/tools/gmail_list_labels/execute', {})];
  for (const path of [`/api/executions/${done.json.execution_id}`, '/api/executions', '/api/flows', '/api/connections', '/api/audit', '/api/executions/nope'])
    replies.push(await get(path));
  for (const reply of replies) assert.equal(reply.headers.get('cache-control'), 'no-store', reply.text.slice(0, 200));
});

test('hints about a misspelled confirmation or a file say what to correct', async () => {
  const hint = async (path, body) => (await call('POST', path, body)).json;
  const tool = '/api/tools/gmail_send_message/execute';
  const mail = { to: 'ada@example.com', subject: 'hint', text: 'x' };
  assert.match((await hint(tool, { ...mail, confirm: true })).canonical.hint, /rename "confirm" to "confirmed"/);
  const inside = await hint('/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: { ...mail, confirmed: true } });
  assert.match(inside.hint, /move "confirmed" out of the input: "confirm" beside it/);
  const file = async (one) => (await hint(tool, { arguments: mail, files: [one] })).canonical.hint;
  assert.match(await file({ name: 'a.txt' }), /A path or a link is not enough/);
  assert.match(await file({ name: 'a.txt', data: '/tmp/a.txt' }), /A path or a link is not enough/);
  assert.doesNotMatch(await file({ name: 'a.txt', data: 'YQ==', contentType: 'text' }), /path or a link/);
});

test('booleans as programs write them', async () => {
  const all = (await get('/api/integrations?page_size=100')).json.total;
  for (const value of ['true', 'True', 'TRUE', '1', 'yes', 'Yes', 'YES'])
    assert.equal((await get(`/api/integrations?connected_only=${value}`)).json.total, 2, value);
  for (const value of ['false', 'False', 'FALSE', '0', 'no', 'No'])
    assert.equal((await get(`/api/integrations?connected_only=${value}`)).json.total, all, value);
  for (const path of ['/api/integrations?connected_only=', '/api/search?query=mail&connected_only='])
    for (const value of ['maybe', '', '2', 'on', 't', 'yess', 'true%01'])
      await refused(await get(path + value), /^connected_only must be true, 1, yes, false, 0 or no, got "/);
  for (const value of ['True', 'YES']) {
    const reply = await call('POST', `/api/tools/probe_send/execute?dry_run=${value}`, { subject: 'a dry run', confirmed: true });
    assert.equal(reply.json.dry_run, true);
  }
});

// ---- idempotency keys ----

const labels = (key, headers) =>
  call('POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_labels', input: {}, idempotency_key: key }, headers);
const KEY_TEXT = /^idempotency_key must be 1 to 255 printable characters$/;

test('a key has 1 to 255 characters, however many bytes they take', async () => {
  for (const key of ['k', 'ä'.repeat(255), '😀'.repeat(255), 'x'.repeat(255), ' ', '"k"', 'a b']) {
    const first = await labels(key), again = await labels(key);
    assert.deepEqual([first.status, first.headers.get('idempotent-replayed')], [200, null], `${key}: ${first.text}`);
    assert.deepEqual([again.status, again.headers.get('idempotent-replayed')], [200, 'true'], key);
    assert.equal(again.text, first.text);
  }
  for (const key of ['', 'ä'.repeat(256), '😀'.repeat(256), 'x'.repeat(256), 'a\tb', 'a\u0000', '\u007f', 'a\u0085b'])
    await refused(await labels(key), KEY_TEXT);
  const long = 'é'.repeat(255); // two concurrent requests with this key run once
  const both = await Promise.all([1, 2].map(() => call('POST', '/api/executions', { integration_id: 'probe', action_id: 'send', input: { subject: 'é' }, confirm: true, idempotency_key: long })));
  assert.deepEqual(both.map((reply) => reply.status), [200, 200]);
  assert.equal((await stack.provider.ledger()).filter((one) => one.marker === 'é').length, 1);
});

// Written to a socket, since fetch does not send bytes above Latin-1 in a header.
async function byHand(header, body = { integration_id: 'gmail', action_id: 'list_labels', input: {} }, path = '/api/executions') {
  const connection = await Raw.connect({ port: server.port });
  const text = Buffer.from(JSON.stringify(body));
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${account.key}\r\n${header}\r\nContent-Length: ${text.length}\r\n\r\n`;
  await connection.send(Buffer.concat([Buffer.from(head), text]));
  const reply = await connection.reply();
  connection.close();
  const json = JSON.parse(reply.body);
  return { status: reply.status, json, text: reply.body, isReplayed: new Headers(reply.headers).get('idempotent-replayed') === 'true' };
}

test('a header in quotes is the key without the quotes', async () => {
  const named = (value) => `Idempotency-Key: ${value}`;
  assert.equal((await labels('quoted')).status, 200);
  for (const value of ['quoted', '"quoted"', '"quoted";a=1', '  "quoted"  ']) assert.equal((await byHand(named(value))).isReplayed, true, value);
  assert.equal((await byHand(named('"quoted"'), {}, '/api/tools/gmail_list_labels/execute')).isReplayed, true);
  assert.equal((await labels('a "b" \\ c')).status, 200);
  assert.equal((await byHand(named('"a \\"b\\" \\\\ c"'))).isReplayed, true);
  assert.equal((await labels('grün')).status, 200);
  for (const value of ['grün', '"grün"']) assert.equal((await byHand(named(value))).isReplayed, true, value);
  const body = (key) => ({ integration_id: 'gmail', action_id: 'list_labels', input: {}, idempotency_key: key });
  assert.equal((await byHand(named('"quoted"'), body('quoted'))).isReplayed, true);
  await refused(await byHand(named('"quoted"'), body('"quoted"')), /differ/);
  for (const value of ['"quoted', '"', '"a"b"', '"a" b', '"a\\b"', '"a\\"', '"a", "b"'])
    for (const path of ['/api/executions', '/api/tools/gmail_list_labels/execute'])
      await refused(await byHand(named(value), path.includes('tools') ? {} : undefined, path), /^The header Idempotency-Key is not a valid quoted string \(RFC 8941 3\.3\.3\)$/);
  for (const value of ['""', '', `"${'x'.repeat(256)}"`, `"${'ä'.repeat(256)}"`]) await refused(await byHand(named(value)), KEY_TEXT);
  assert.equal((await byHand(named(`"${'ä'.repeat(255)}"`))).status, 200);
  await refused(await byHand(`${named('one')}\r\n${named('two')}`), /^more than one Idempotency-Key$/);
});
