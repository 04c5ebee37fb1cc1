// Mapping an input to the provider's request, and the reply to the output
// (contrib/integrations/README.md "request", "response"), with the echo of the emulated provider.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { Stack } from './support/stack.mjs';

const ORIGIN = 'https://mapped.example';
const action = (action_id, request, more = {}) => ({
  action_id,
  title: `Do ${action_id}`,
  description: 'Sends to the echo.',
  side_effect_level: 'read',
  input_schema: { type: 'object', properties: { v: { description: 'Anything.' }, w: { description: 'Anything.' } } },
  request: { method: 'POST', path: '/echo', ...request },
  display: { title: 'Done', summary: 'Done' },
  ...more,
});
const manifest = {
  integration_id: 'mapped',
  name: 'Mapped',
  description: 'The echo of the emulated provider.',
  category: 'test',
  base_url: ORIGIN,
  auth: { type: 'bearer' },
  headers: { 'X-Every': 'one' },
  actions: [
    action('path', { method: 'GET', path: '/status/${input.v}' }, { response: { body: 'any' } }),
    action('query', { method: 'GET', query: { a: '${input.v}', b: '${input.w}', c: "${input.v && join(',', input.v)}" } }),
    action('nested_query', { method: 'GET', nesting: 'brackets', query: { filter: '${input.v}' } }),
    action('headers', { method: 'GET', headers: { 'X-One': '${input.v}', 'x-every': '${input.w}' } }),
    action('json', { body: { json: { given: '${input.v}', absent: '${input.w}', constant: null, text: 'a ${input.v.n} b' } } }),
    action('form', { body: { form: { v: '${input.v}', w: '${input.w}' } } }),
    action('stripe', { nesting: 'indices', body: { form: { metadata: '${input.v}', items: '${input.w}' } } }),
    action('multipart', { body: { multipart: [{ name: 'v', value: '${input.v}' }, { name: 'w', value: '${input.w}' }] } }),
    action('raw', { method: 'PUT', body: { raw: '${input.v}', content_type: 'text/csv' } }),
    action('raw_base64', { method: 'PUT', body: { raw: '${input.v}', content_type: 'image/png', encoding: 'base64' } }),
    action('mail', { body: { json: { raw: '${base64url(mime_message({to: input.v, subject: input.w, text: `"???>>>"`}))}' } } }),
    action('graphql', { body: { json: { query: 'mutation M($in: In!) { m(input: $in) { ok } }', variables: { in: '${input.v}', after: '${input.w}' } } } }),
    action('bytes', { method: 'GET', path: '/bytes/${input.v}' }, { response: { body: 'bytes' } }),
    action('big', { body: { json: { value: '${input.v}' } } }, { response: { output: 'body.json.value' } }),
  ],
};

// Pages of three items, requested by a cursor, a page number, a link and other means. The echo
// returns the request, so the next cursor can be computed from the reply.
const paged = (action_id, input, next, more = {}) => action(action_id, { path: '/pages', body: { json: { [input]: `\${input.${input}}` } } }, {
  input_schema: { type: 'object', additionalProperties: false, properties: { [input]: { description: 'The mark of a page.' }, last: { type: 'integer', description: 'The last page.' } } },
  request: { method: 'POST', path: '/echo', headers: { 'X-Page': `\${input.${input} || \`1\`}` }, body: { json: { n: `\${input.${input} || \`1\`}`, last: '${input.last || `5`}' } } },
  response: { output: '{items: [join(\'\', [\'a\', to_string(body.json.n)]), \'b\'], page: body.json.n, texts: `null`}', pagination: { input, next, ...more } },
  display: { title: 'Pages', summary: '${length(output.items)} items to ${output.page}' },
});
const onward = 'body.json.n < body.json.last && sum([body.json.n, `1`])';
manifest.actions.push(
  paged('cursor', 'cursor', `${onward} || \`null\``),
  paged('few', 'page', onward, { max_pages: 2 }),
  paged('circle', 'page', '`1`'),
  action('whole', { method: 'GET', path: '/echo' }, {
    input_schema: { type: 'object', properties: { page: { type: 'integer', description: 'Page.' } } },
    request: { method: 'POST', path: '/echo', body: { json: { n: '${input.page || `1`}' } } },
    response: { output: '[body.json.n]', pagination: { input: 'page', next: 'body.json.n < `3` && sum([body.json.n, `1`])' } },
  }),
  // Each page names a URL, from which a parameter is taken. The next page has another path.
  action('named', {}, {
    input_schema: { type: 'object', additionalProperties: false, properties: { skip: { type: 'integer', description: 'Items before.' }, token: { type: 'string', description: 'The mark.' } } },
    request: {
      method: 'GET',
      path: '/status/404',
      instead: [
        { when: 'input.skip', method: 'POST', path: '/echo', body: { json: { n: '${input.skip}', token: '${input.token}', next: 'https://other.example/x?%24skiptoken=t%2F2' } } },
        { when: 'input.token', method: 'POST', path: '/echo', body: { json: { n: '${input.token}', token: '${input.token}' } } },
        { when: '!input.skip', method: 'POST', path: '/echo', body: { json: { n: 'first', next: '/x?$skip=2' } } },
      ],
    },
    response: { output: '[body.json.n]', pagination: { kind: 'url', next: 'body.json.next', take: { skip: '$skip', token: '$skiptoken' } } },
  }),
  action('written', { body: { json: { n: 1 } } }, { side_effect_level: 'write', response: { output: 'body.json', pagination: { input: 'v', next: '`2`' } } }),
);

let stack, server, account;
before(async () => {
  stack = await Stack.start();
  const dir = join(stack.dir, 'catalog');
  await mkdir(dir);
  await writeFile(join(dir, 'mapped.json'), JSON.stringify(manifest));
  const options = { env: { SLUICE_CATALOG: dir }, args: ['--origin-override', `${ORIGIN}=${stack.provider.url}`] };
  account = await stack.account('a', { apps: [] });
  await stack.connect(account.id, 'mapped', { token: 'sesame-0pen-sesame' }, [], options);
  server = await stack.serve({ ...options, args: [...options.args, '--output-bytes', '100k', '--output-bytes-max', '1m'] });
});
after(() => stack?.stopWell(assert));
beforeEach(() => stack.provider.faults([]));

const run = (name, input, more) => server.execute(account.key, 'mapped', name, input, more);
async function echo(name, input) {
  const reply = await run(name, input);
  assert.equal(reply.status, 200, reply.text);
  return reply.json.output;
}
async function refused(name, input, word) {
  const before = (await stack.provider.control('GET', '/counters')).requests;
  const reply = await run(name, input);
  assert.deepEqual([reply.status, reply.json.status, reply.json.error_code], [409, 'blocked', 'validation_error'], reply.text);
  assert.match(reply.json.message, word);
  assert.match(reply.json.message, /Nothing was (sent|done)\.$/);
  assert.match(reply.json.hint, /GET \/api\/actions\/mapped\//);
  assert.equal((await stack.provider.control('GET', '/counters')).requests, before);
}
const header = (output, name) => output.headers.find(([key]) => key.toLowerCase() === name)?.[1];
const params = (text) => [...new URLSearchParams(text)];

test('a value in a path is one segment, and cannot leave it', async () => {
  assert.deepEqual(await echo('path', { v: 204 }), null);
  for (const v of ['200/...', '200/..x', '200?x=1', '200#x', '200/', '200\r\nX-Evil: 1', ' 200']) {
    const reply = await run('path', { v });
    assert.equal(reply.json.error_code, 'execution_failed', `${JSON.stringify(v)}: ${reply.text}`);
    assert.match(reply.json.message, /404/);
  }
  assert.match((await run('path', { v: '\u0000' })).json.message, /escaped NUL/);
  for (const v of ['', '.', '..', '../echo', '200/../../echo', '200\\..\\echo', '..;/echo', '..;v=1', '%2e%2e', '%2e%2e/echo', '%252E.', '200/..;x/echo', null, [], {}]) await refused('path', { v }, /path|longer text/);
});

test('queries: escapes, arrays, commas, booleans, nested values', async () => {
  const output = await echo('query', { v: ['a&b=c', 'ü +/?#', '1'], w: false });
  assert.deepEqual(output.query, [['a', 'a&b=c'], ['a', 'ü +/?#'], ['a', '1'], ['b', 'false'], ['c', 'a&b=c,ü +/?#,1']]);
  assert.deepEqual((await echo('query', { w: 1.5 })).query, [['b', '1.5']]);
  assert.deepEqual((await echo('query', { v: [], w: null })).query, []);
  await refused('query', { w: { a: 1 } }, /object cannot be sent/);
  const nested = await echo('nested_query', { v: { status: 'open', created: { gte: 5 }, ids: [1, 2] } });
  assert.deepEqual(nested.query, [['filter[status]', 'open'], ['filter[created][gte]', '5'], ['filter[ids][]', '1'], ['filter[ids][]', '2']]);
});

test('headers cannot be split, the action\'s replace the integration\'s', async () => {
  const output = await echo('headers', { v: 'a value', w: 'two' });
  assert.equal(header(output, 'x-one'), 'a value');
  assert.equal(header(output, 'x-every'), 'two');
  assert.equal(header(await echo('headers', {}), 'x-every'), 'one');
  assert.equal(header(await echo('headers', {}), 'x-one'), undefined);
  for (const v of ['a\r\nX-Evil: 1', 'a\nb', 'a\rb', 'a\u0000b', '\u007f']) await refused('headers', { v }, /may not be sent/);
  await refused('headers', { v: ['a'] }, /array cannot be sent/);
});

test('JSON: nulls of the input are kept, absent members are left out', async () => {
  const v = { n: 9007199254740993n.toString(), deep: [null, { x: null }], s: '\u0000"\\\u2028', e: {}, a: [] };
  const output = await echo('json', { v });
  assert.deepEqual(output.json, { given: v, constant: null, text: `a ${v.n} b` });
  assert.equal(header(output, 'content-type'), 'application/json');
  const big = await server.call(account.key, 'POST', '/api/executions',
    '{"integration_id":"mapped","action_id":"json","input":{"v":{"n":90071992547409931234567}}}');
  assert.ok(big.text.includes('"given":{"n":90071992547409931234567}'), big.text);
});

test('GraphQL: variables keep their nulls', async () => {
  const output = await echo('graphql', { v: { assignee: null, labels: [] } });
  assert.deepEqual(output.json.variables, { in: { assignee: null, labels: [] } });
});

test('forms: repeated, nested in brackets', async () => {
  const form = await echo('form', { v: ['a b', 'ü&='], w: true });
  assert.equal(header(form, 'content-type'), 'application/x-www-form-urlencoded');
  assert.deepEqual(params(form.body), [['v', 'a b'], ['v', 'ü&='], ['w', 'true']]);
  await refused('form', { v: { a: 1 } }, /object cannot be sent/);
  const stripe = await echo('stripe', { v: { order: '6735', 'a&b': null, deep: { x: 1 } }, w: [{ price: 'p_1', quantity: 2 }, { price: 'p_2' }] });
  assert.deepEqual(params(stripe.body), [
    ['metadata[order]', '6735'], ['metadata[deep][x]', '1'],
    ['items[0][price]', 'p_1'], ['items[0][quantity]', '2'], ['items[1][price]', 'p_2'],
  ]);
});

test('multipart and raw bodies', async () => {
  const multipart = await echo('multipart', { v: ['one', 'two\r\n--x'], w: null });
  const type = header(multipart, 'content-type');
  const form = await new Response(multipart.body, { headers: { 'content-type': type } }).formData();
  assert.deepEqual([...form], [['v', 'one'], ['v', 'two\r\n--x']]);
  assert.equal((await echo('raw', { v: 'a;ü\n' })).body, 'a;ü\n');
  const binary = await echo('raw_base64', { v: Buffer.from([0, 255, 128]).toString('base64') });
  assert.equal(binary.body_base64, 'AP+A');
  assert.equal(header(binary, 'content-type'), 'image/png');
  await refused('raw', { v: 7 }, /must be a string/);
  await refused('raw_base64', { v: 'not base64' }, /not valid base64/);
});

test('mail is a message in base64url', async () => {
  const { raw } = (await echo('mail', { v: 'Ada Ü <ada@example.com>', w: 'Grüße' })).json;
  assert.match(raw, /^[A-Za-z0-9_-]+$/);
  const message = Buffer.from(raw, 'base64url').toString();
  assert.match(message, /^To: =\?UTF-8\?.* <ada@example\.com>\r$/im);
  assert.match(message, /^Subject: =\?UTF-8\?/im);
  const split = await run('mail', { v: 'ada@example.com', w: 'x\r\nBcc: eve@example.com' });
  if (split.status === 200) assert.doesNotMatch(Buffer.from(split.json.output.json.raw, 'base64url').toString(), /^Bcc:/im);
  else assert.equal(split.json.error_code, 'validation_error');
});

test('replies: text, an empty body, bytes with their type', async () => {
  const respond = (body) => stack.provider.faults([{ match: { path_prefix: '/status/' }, count: 1, action: { status: 200, body } }]);
  await respond('just ä text');
  assert.equal(await echo('path', { v: 200 }), 'just ä text');
  await respond({ n: 1 });
  assert.deepEqual(await echo('path', { v: 200 }), { n: 1 });
  assert.equal(await echo('path', { v: 204 }), null);
  const bytes = await echo('bytes', { v: 300 });
  assert.deepEqual({ ...bytes, data: null }, { content_type: 'application/octet-stream', encoding: 'base64', data: null, bytes: 300 });
  assert.deepEqual(Buffer.from(bytes.data, 'base64'), Buffer.from(Array.from({ length: 300 }, (_, i) => i & 255)));
});

test('a credential in a reply is masked, in outputs and in errors', async () => {
  const secret = 'sesame-0pen-sesame';
  for (const [status, body] of [[200, { echo: `Bearer ${secret}` }], [400, { message: `bad ${secret}` }], [500, `trace ${secret}`]]) {
    await stack.provider.faults([{ match: { path_prefix: '/status/' }, count: -1, action: { status, body } }]);
    const reply = await run('path', { v: 200 });
    assert.ok(reply.text.includes('***') && !reply.text.includes(secret), reply.text);
  }
  assert.ok(!(await stack.cluster.dump()).includes(secret));
  assert.ok(!server.log.includes(secret));
});

// ---- the output budget ----

const items = Array.from({ length: 3000 }, (_, i) => ({ id: i, text: `item ${i} äöü`.repeat(4) }));
const value = { next: 'n', items, note: 'x'.repeat(90_000) };

// Continues wherever a cut says that there is more, until everything has been read.
async function readOn(cut, part) {
  let { kept, of, more } = cut;
  while (kept < of) {
    const reply = await server.call(account.key, 'GET', `${more}&max_output_bytes=50000`);
    assert.equal(reply.status, 200, reply.text);
    const { output } = reply.json;
    const got = output.truncated ? output.preview : output;
    part = typeof part === 'string' ? part + got : [...part, ...got];
    if (!output.truncated) break;
    const own = output.cuts.find((one) => one.pointer === cut.pointer);
    if (!own) break;
    ({ kept, of, more } = own);
  }
  return part;
}

test('an output over the budget is cut, says so, and can be read on to its end', async () => {
  const reply = await run('big', { v: value });
  assert.equal(reply.status, 200);
  const { output } = reply.json;
  assert.deepEqual(Object.keys(output), ['truncated', 'bytes', 'max_output_bytes', 'cuts', 'preview']);
  assert.equal(output.bytes, Buffer.byteLength(JSON.stringify(value)));
  assert.equal(output.max_output_bytes, 100 * 1024);
  assert.ok(Buffer.byteLength(JSON.stringify(output.preview)) <= 100 * 1024);
  assert.equal(output.preview.next, 'n');
  assert.ok(output.preview.items.length > 100 && output.preview.items.length < 3000);
  for (const cut of output.cuts) {
    const name = cut.pointer.slice(1);
    assert.deepEqual(await readOn(cut, output.preview[name]), value[name]);
  }
  const whole = await server.call(account.key, 'GET', `/api/executions/${reply.json.execution_id}`);
  assert.deepEqual(whole.json.output, value);
  assert.deepEqual({ ...whole.json, output: null }, { ...reply.json, output: null });
});

test('the caller sets the budget, within the cap, also for a replay', async () => {
  const wanted = (max_output_bytes, more) => run('big', { v: value }, { max_output_bytes, ...more });
  const size = Buffer.byteLength(JSON.stringify(value));
  assert.deepEqual((await wanted(size)).json.output, value);
  assert.equal((await wanted(size - 1)).json.output.truncated, true);
  assert.equal((await wanted(2 ** 40)).json.output.truncated, undefined);
  const small = (await wanted(300)).json.output;
  assert.ok(Buffer.byteLength(JSON.stringify(small)) < 1500, JSON.stringify(small));
  assert.equal((await wanted(1)).json.output.max_output_bytes, 1);
  for (const bad of [0, -1, 1.5, '1000', true, []]) {
    const reply = await wanted(bad);
    assert.deepEqual([reply.status, reply.json.error], [400, 'max_output_bytes must be a positive integer']);
  }
  const key = { idempotency_key: 'budget' };
  const first = await wanted(2000, key);
  const again = await wanted(2000, key);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.equal(again.text, first.text);
  assert.deepEqual((await wanted(1e6, key)).json.output, value);
  const over = { v: { items: Array(30).fill('y'.repeat(50_000)) } };
  const capped = (await run('big', over, { max_output_bytes: 1e9 })).json.output;
  assert.deepEqual([capped.truncated, capped.max_output_bytes], [true, 1 << 20]);
});

test('the tool endpoint has the budget as a query parameter', async () => {
  const call = (query) => server.call(account.key, 'POST', `/api/tools/mapped_big/execute${query}`, { arguments: { v: value } });
  const { data, canonical } = (await call('?max_output_bytes=5000')).json;
  assert.deepEqual([data.truncated, data.max_output_bytes], [true, 5000]);
  assert.deepEqual(canonical.output, data);
  assert.deepEqual((await call('?max_output_bytes=900000')).json.data, value);
  assert.equal((await call('')).json.data.truncated, true);
  assert.equal((await call('?max_output_bytes=x')).status, 400);
  assert.equal((await call('?max_output_bytes=0')).status, 400);
});

test('a stored output is read in parts', async () => {
  const { execution_id: id } = (await run('big', { v: value })).json;
  const get = (query) => server.call(account.key, 'GET', `/api/executions/${id}${query}`);
  assert.deepEqual((await get('?pointer=/items/17')).json.output, items[17]);
  assert.deepEqual((await get('?pointer=%2Fitems&offset=2998')).json.output, items.slice(2998));
  assert.equal((await get('?max_output_bytes=1000')).json.output.truncated, true);
  assert.equal((await get('?pointer=/nothing')).status, 404);
  assert.equal((await get('?offset=x')).status, 400);
  const failed = await run('path', { v: 'x' });
  const stored = await server.call(account.key, 'GET', `/api/executions/${failed.json.execution_id}?max_output_bytes=10`);
  assert.equal(stored.text, failed.text);
});

test('a select gives a part of an output, also of a replay, a stored one and a tool', async () => {
  const select = '{ids: items[:2].id, next: next}', wanted = { ids: [0, 1], next: 'n' };
  const key = { idempotency_key: 'select' };
  const first = await run('big', { v: value }, { select, ...key });
  assert.deepEqual(first.json.output, wanted, first.text);
  const again = await run('big', { v: value }, { select: 'items[7].id', ...key });
  assert.deepEqual([again.headers.get('idempotent-replayed'), again.json.output], ['true', 7]);
  assert.equal(again.json.execution_id, first.json.execution_id);
  const query = `?select=${encodeURIComponent(select)}`, path = `/api/executions/${first.json.execution_id}`;
  assert.deepEqual((await server.call(account.key, 'GET', path + query)).json.output, wanted);
  assert.deepEqual((await server.call(account.key, 'GET', `${path}${query}&pointer=/ids/1`)).json.output, 1);
  const tool = (await server.call(account.key, 'POST', `/api/tools/mapped_big/execute${query}`, { arguments: { v: value } })).json;
  assert.deepEqual([tool.data, tool.canonical.output], [wanted, wanted]);
  // cuts are of the selected value, and their addresses select it again
  const { output } = (await run('big', { v: value }, { select: 'items[].id', max_output_bytes: 1000 })).json;
  assert.deepEqual(await readOn(output.cuts[0], output.preview), items.map(({ id }) => id));
});

test('a select that fails loses no result; one that is not an expression runs nothing', async () => {
  const sent = async () => (await stack.provider.ledger()).length;
  const before = await sent();
  for (const [select, why] of [['items[', /^select is not a JMESPath expression: .*offset 6/], [7, /^select must be a string, got integer$/]]) {
    const reply = await run('big', { v: value }, { select });
    assert.equal(reply.status, 400, reply.text);
    assert.match(reply.json.error, why);
  }
  assert.equal(await sent(), before);
  for (const [select, why] of [['abs(next)', /invalid-type.*offset/], ['map(&map(&@, $.items), $.items)', /budget/]]) {
    const key = { idempotency_key: `fails-${select}` };
    const reply = await run('big', { v: value }, { select, ...key });
    assert.deepEqual([reply.status, reply.json.status, reply.json.output.preview], [200, 'succeeded', null], reply.text.slice(0, 500));
    assert.match(reply.json.select_error, why);
    const whole = await server.call(account.key, 'GET', reply.json.output.cuts[0].more);
    assert.deepEqual(whole.json.output, value);
    const again = await run('big', { v: value }, { select: 'next', ...key });
    assert.deepEqual([again.json.output, again.json.execution_id], ['n', reply.json.execution_id]);
  }
});

// ---- pages ----

const pages = (name, input, max_pages, more) => run(name, input, { ...(max_pages && { max_pages }), ...more });
const names = (...numbers) => numbers.flatMap((n) => [`a${n}`, 'b']);

test('a success says how to request the next page', async () => {
  const first = (await pages('cursor', {})).json;
  assert.deepEqual([first.output.items, first.pages], [names(1), { read: 1, next: { cursor: 2 } }]);
  const third = (await pages('cursor', { cursor: 3 })).json;
  assert.deepEqual(third.pages, { read: 1, next: { cursor: 4 } });
  const last = (await pages('cursor', { cursor: 5 })).json;
  assert.deepEqual(last.pages, { read: 1, next: null });
  assert.equal('pages' in (await run('json', { v: { n: 1 } })).json, false);
});

test('pages are followed as far as the caller and the manifest allow, and combined', async () => {
  const all = (await pages('cursor', {}, 50)).json;
  assert.deepEqual(all.output, { items: names(1, 2, 3, 4, 5), page: 5, texts: null });
  assert.deepEqual(all.pages, { read: 5, next: null });
  assert.equal(all.display.summary, '10 items to 5');
  const stored = await server.call(account.key, 'GET', `/api/executions/${all.execution_id}`);
  assert.deepEqual(stored.json, all);
  const some = (await pages('cursor', { cursor: 2 }, 3)).json;
  assert.deepEqual([some.output.items, some.pages], [names(2, 3, 4), { read: 3, next: { cursor: 5 } }]);
  const capped = (await pages('few', {}, 50)).json;
  assert.deepEqual([capped.output.items, capped.pages], [names(1, 2), { read: 2, next: { page: 3 } }]);
  assert.deepEqual((await pages('cursor', { last: 100 }, 1000)).json.pages, { read: 10, next: { cursor: 11 } });
  assert.deepEqual((await pages('whole', {}, 9)).json.output, [1, 2, 3]);
  assert.deepEqual((await pages('named', {})).json.pages.next, { skip: 2 });
  assert.deepEqual((await pages('named', { skip: 2 })).json.pages.next, { token: 't/2' });
  assert.deepEqual((await pages('named', {}, 9)).json.output, ['first', 2, 't/2'], 'no URL is followed, and a mark is not sent with the next one');
  const tool = await server.call(account.key, 'POST', '/api/tools/mapped_cursor/execute?max_pages=2', {});
  assert.deepEqual([tool.json.data.items, tool.json.canonical.pages.read, tool.json.meta.attempts], [names(1, 2), 2, 2]);
  for (const bad of [0, -1, 1.5, 'x', true]) {
    assert.equal((await pages('cursor', {}, undefined, { max_pages: bad })).status, 400);
    assert.equal((await server.call(account.key, 'POST', `/api/tools/mapped_cursor/execute?max_pages=${bad}`, {})).status, 400);
  }
});

test('a mark that repeats itself ends the pages, and a write is never followed', async () => {
  const circle = (await pages('circle', { page: 1 }, 5)).json;
  assert.equal(circle.pages.read, 1);
  assert.match(circle.pages.stopped, /does not advance/);
  assert.deepEqual((await pages('circle', {}, 5)).json.output.items, names(1, 1));
  const written = await pages('written', {}, 5, { confirm: true });
  assert.equal(written.json.status, 'succeeded');
  assert.equal('pages' in written.json, false);
});

test('a page that fails ends the pages with the earlier ones; the first one fails the run', async () => {
  const fail = (skip, action) => stack.provider.faults([{ match: { path_prefix: '/echo' }, skip, count: -1, action }]);
  await fail(2, { status: 400, body: { message: 'cursor expired' } });
  const some = await pages('cursor', {}, 50);
  assert.equal(some.status, 200, some.text);
  assert.deepEqual([some.json.output.items, some.json.pages.read, some.json.pages.next], [names(1, 2), 2, { cursor: 3 }]);
  assert.match(some.json.pages.stopped, /cursor expired/);
  await fail(0, { status: 400 });
  assert.equal((await pages('cursor', {}, 50)).json.error_code, 'validation_error');
  // a page with a temporary failure is retried
  await stack.provider.faults([{ match: { path_prefix: '/echo' }, skip: 2, count: 1, action: { status: 503 } }]);
  const all = (await pages('cursor', {}, 50)).json;
  assert.deepEqual([all.output.items, all.pages], [names(1, 2, 3, 4, 5), { read: 5, next: null }]);
});

test('a key covers its pages, too', async () => {
  const key = { idempotency_key: 'pages' };
  const first = await pages('cursor', {}, 3, key);
  const again = await pages('cursor', {}, 3, key);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.equal(again.text, first.text);
  assert.equal((await pages('cursor', {}, 4, key)).json.error_code, 'validation_error');
});
