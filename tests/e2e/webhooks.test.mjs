// Endpoints of events: their life over the API and with the command, what is refused, and the
// messages, which npm's `standardwebhooks` and `svix` verify. webhook_delivery.test.mjs has what is
// sent when.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Scripted } from './support/scripted.mjs';
import { assertSigned, libraries, verifies, verify } from './support/signed.mjs';
import { Stack } from './support/stack.mjs';

let stack, server, account, receiver;
const got = []; // {path, headers, body}: messages at the receiver
const answers = {
  '/hangs': () => {},
  '/resets': (request, reply) => reply.socket.resetAndDestroy(),
  '/moved': (request, reply) => reply.writeHead(307, { location: '/ok' }).end(),
  '/gone': (request, reply) => reply.writeHead(410).end(),
  '/busy': (request, reply) => reply.writeHead(503, { 'retry-after': '7' }).end('later'),
  '/endless': (request, reply) => {
    reply.writeHead(200, { 'content-type': 'text/plain' });
    const more = () => reply.destroyed || reply.write('x'.repeat(16384), more);
    more();
  },
};

before(async () => {
  stack = await Stack.start({ provider: false, catalog: false });
  receiver = await Scripted.start(async (request, reply) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const path = new URL(request.url, receiver.url).pathname;
    got.push({ path, headers: request.headers, body: Buffer.concat(parts).toString() });
    (answers[path] ?? (() => reply.writeHead(204).end()))(request, reply);
  });
  // what is allowed for calls to apps is not allowed for messages
  server = await stack.serve({
    args: ['--webhook-host', '127.0.0.1', '--webhook-timeout', '2s', '--allow-host', 'localhost', '--allow-host', '127.0.0.2',
      '--origin-override', `https://overridden.example.com=${receiver.url}`, '--public-url', 'https://own.example.com'],
  });
  account = await stack.account('with webhooks', { apps: [] });
});
after(async () => {
  await receiver?.stop();
  await stack?.stopWell(assert);
});

const call = (method, path, body, key = account.key, headers) => server.call(key, method, path, body, headers);
const create = (body, key) => call('POST', '/api/webhooks', body, key);
let urls = 0;
async function made(body = {}, key) {
  const reply = await create({ url: `${receiver.url}/ok?n=${++urls}`, ...body }, key);
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
}
const remove = async ({ id }) => assert.deepEqual((await call('DELETE', `/api/webhooks/${id}`)).json, { success: true });
// The reply to a test, and the message that it sent.
async function tried({ id }) {
  const before = got.length;
  const reply = await call('POST', `/api/webhooks/${id}/test`);
  assert.equal(reply.status, 200, reply.text);
  return { ...reply.json, message: got[before] };
}
test('an endpoint is created, listed without its secret, changed and deleted', async () => {
  const { secret, ...item } = await made({ url: 'https://example.com/hooks?a=b', events: ['flow.failed', 'flow.waiting', 'flow.failed'], description: 'backend' });
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const self = (await call('GET', '/api/keys/self')).json.id;
  assert.deepEqual(item, {
    id: item.id, url: 'https://example.com/hooks?a=b', description: 'backend', events: ['flow.waiting', 'flow.failed'], enabled: true, off_at: null,
    off_reason: null, failing_since: null, failures: 0, old_secret_until: null, made_by: self, rev: 1, created_at: item.created_at,
  });
  const list = await call('GET', '/api/webhooks');
  assert.deepEqual(list.json, { items: [item], next_cursor: null });
  assert.deepEqual((await call('GET', `/api/webhooks/${item.id}`)).json, item);
  const patch = async (body) => {
    const reply = await call('PATCH', `/api/webhooks/${item.id}`, body);
    assert.equal(reply.status, 200, reply.text);
    assert.deepEqual((await call('GET', `/api/webhooks/${item.id}`)).json, reply.json);
    return reply.json;
  };
  assert.deepEqual(await patch({ url: 'https://example.com/', events: null, description: null }), { ...item, rev: 2, url: 'https://example.com/', events: null, description: null });
  const off = await patch({ enabled: false });
  assert.deepEqual([off.enabled, off.off_reason, typeof off.off_at], [false, 'requested', 'string']);
  assert.deepEqual(await patch({ enabled: false }), { ...off, rev: off.rev + 1 });
  await stack.cluster.sql(`update sluice.webhook set failing_since = now(), failures = 3, off_reason = 'failing' where id = '${item.id}'`);
  const on = await patch({ enabled: true });
  assert.deepEqual([on.enabled, on.off_at, on.off_reason, on.failing_since, on.failures], [true, null, null, null, 0]);
  await stack.cluster.sql(`update sluice.webhook set failing_since = now(), failures = 3 where id = '${item.id}'`);
  assert.equal((await patch({ description: 'still failing' })).failures, 3);
  assert.equal((await patch({ url: 'https://example.com/another' })).failures, 0);
  // with a rev, only as it was read
  const { rev } = (await call('GET', `/api/webhooks/${item.id}`)).json;
  const stale = await call('PATCH', `/api/webhooks/${item.id}`, { description: 'mine', rev: rev - 1 });
  assert.deepEqual([stale.status, stale.json.error], [409, `Nothing was changed: the webhook has the rev ${rev}, not ${rev - 1}: it was changed, or its secret was rolled, since it was read`]);
  assert.deepEqual((await patch({ description: null, rev })).rev, rev + 1);
  await remove(item);
  for (const [method, path] of [['GET', ''], ['PATCH', ''], ['DELETE', ''], ['POST', '/roll'], ['POST', '/test']]) {
    const reply = await call(method, `/api/webhooks/${item.id}${path}`, method === 'PATCH' ? { enabled: true } : undefined);
    assert.deepEqual([reply.status, reply.json], [404, { error: 'Webhook not found' }], method + path);
  }
  const kinds = (await call('GET', '/api/audit?kind=webhook&limit=100')).json.events.map(({ kind }) => kind);
  assert.deepEqual(kinds, ['webhook.deleted', 'webhook.changed', 'webhook.changed', 'webhook.changed', 'webhook.enabled', 'webhook.changed', 'webhook.disabled', 'webhook.changed', 'webhook.created']);
  const log = server.log + (await stack.cluster.sql('select string_agg(details::text, chr(10)) from sluice.audit_event'));
  assert.ok(!log.includes(secret) && !log.includes(secret.slice(6)));
});

test('what cannot be an endpoint is refused', async () => {
  const url = 'https://example.com/x';
  const bad = [
    [{}, /^url must be a string/], [{ url: 1 }, /^url must be a string/], [{ url: null }, /^url/], [{ url: 'example.com' }, /^url/], [{ url: 'ftp://example.com' }, /^url/],
    [{ url: 'http://example.com/' }, /^url must begin with https/], [{ url: 'http://127.0.0.2/' }, /webhook-host/], [{ url: 'https://u:p@example.com/' }, /^url/],
    [{ url: 'https://example.com/#x' }, /^url/], [{ url: `https://example.com/${'x'.repeat(2000)}` }, /at most 2000/], [{ url: 'https://own.example.com/hook' }, /^url must not be sluice/],
    [{ url: 'https://OWN.example.com.:443/hook' }, /^url must not be sluice/], [{ url, events: [] }, /^events must be/], [{ url, events: 'flow.failed' }, /^events must be/],
    [{ url, events: ['flow'] }, /^events has "flow"/], [{ url, events: ['flow.failed flow.waiting'] }, /^events has/], [{ url, events: ['webhook.test'] }, /^events has/],
    [{ url, events: [1] }, /^events must be/], [{ url, description: 1 }, /^description/], [{ url, description: 'a\nb' }, /^description/], [{ url, description: 'x'.repeat(201) }, /^description/],
    [{ URL: url }, /use url$/],
  ];
  for (const [body, pattern] of bad) {
    const reply = await create(body);
    assert.equal(reply.status, 400, JSON.stringify(body) + reply.text);
    assert.match(reply.json.error, pattern, JSON.stringify(body));
  }
  const one = await made({ url });
  for (const body of [{}, { enabled: 'yes' }, { enabled: null }, { url: null }, { events: [] }, { url: 'http://10.0.0.1/' }, { rev: 1 }, { enabled: true, rev: null }, { enabled: true, rev: 0 }, { enabled: true, rev: '1' }])
    assert.equal((await call('PATCH', `/api/webhooks/${one.id}`, body)).status, 400, JSON.stringify(body));
  for (const overlap_s of [-1, 604801, 1.5, '1'])
    assert.equal((await call('POST', `/api/webhooks/${one.id}/roll`, { overlap_s })).status, 400, String(overlap_s));
  assert.equal((await call('GET', '/api/webhooks/x')).status, 404);
  // the same URL twice, also by a change; an eleventh, also of many at once
  assert.match((await create({ url })).json.error, /another webhook of the account has this url/);
  const replies = await Promise.all(Array.from({ length: 12 }, (_, at) => create({ url: `${url}${at}` })));
  assert.deepEqual(replies.map(({ status }) => status).sort(), [...Array(9).fill(201), 409, 409, 409]);
  assert.match(replies.find(({ status }) => status === 409).json.error, /maximum of 10 webhooks/);
  const second = replies.find(({ status }) => status === 201).json;
  assert.equal((await call('PATCH', `/api/webhooks/${second.id}`, { url })).status, 409);
  const { items } = (await call('GET', '/api/webhooks')).json;
  assert.equal(items.length, 10);
  for (const item of items) await remove(item);
});

test('keys without admin, of users and of other accounts change and see nothing', async () => {
  const one = await made();
  const reader = await stack.key(account.id, ['--scopes', 'read']);
  const bound = (await call('POST', '/api/keys', { name: 'bound', scopes: ['read', 'admin'], user: 'ada' })).json.key;
  const stranger = await stack.account('another', { apps: [] });
  const requests = [['POST', '', { url: 'https://example.com/' }], ['PATCH', `/${one.id}`, { enabled: false }], ['POST', `/${one.id}/roll`], ['POST', `/${one.id}/test`], ['DELETE', `/${one.id}`]];
  const before = got.length;
  assert.equal((await call('GET', '/api/webhooks', undefined, reader)).json.items.length, 1);
  for (const [method, path, body] of [...requests, ['GET', ''], ['GET', `/${one.id}`], ['GET', `/${one.id}/deliveries`]]) {
    const at = `/api/webhooks${path}`;
    if (method !== 'GET') assert.equal((await call(method, at, body, reader)).status, 403, path);
    assert.equal((await call(method, at, body, bound)).status, 403, path);
    assert.equal((await call(method, at, body, account.key, { 'sluice-user': 'ada' })).status, 400, path);
    if (path) assert.equal((await call(method, at, body, stranger.key)).status, 404, path);
  }
  assert.deepEqual((await call('GET', '/api/webhooks', undefined, stranger.key)).json.items, []);
  const { secret, ...item } = one;
  assert.deepEqual((await call('GET', `/api/webhooks/${one.id}`)).json, item);
  assert.equal(got.length, before);
  await remove(one);
});

test('both libraries verify a message, and refuse every alteration', async () => {
  const one = await made();
  const { status, problem, message } = await tried(one);
  assert.deepEqual([status, problem], [204, null]);
  const at = message.headers['webhook-timestamp'];
  assert.ok(Math.abs(Number(at) - Date.now() / 1000) < 60);
  const body = JSON.parse(message.body);
  assert.deepEqual(body, { type: 'webhook.test', timestamp: body.timestamp, data: { account_id: account.id, webhook_id: one.id } });
  assert.ok(Math.abs(Date.parse(body.timestamp) - Date.now()) < 60e3);
  assert.deepEqual([message.headers['content-type'], message.headers['user-agent']], ['application/json', 'sluice']);
  assertSigned(one.secret, message);
  await remove(one);
});

test('while a rolled secret overlaps, both sign', async () => {
  const one = await made();
  const roll = async (body) => {
    const reply = await call('POST', `/api/webhooks/${one.id}/roll`, body);
    assert.equal(reply.status, 200, reply.text);
    return reply.json;
  };
  const secrets = [one.secret];
  const next = await roll({ overlap_s: 3600 });
  assert.ok(Math.abs(Date.parse(next.old_secret_until) - Date.now() - 3600e3) < 60e3);
  secrets.push(next.secret);
  const valid = async () => {
    const { message } = await tried(one);
    return secrets.map((secret) => libraries.every((Library) => verifies(secret, message, Library)));
  };
  assert.deepEqual(await valid(), [true, true]);
  assert.ok(Math.abs(Date.parse((await roll()).old_secret_until) - Date.now() - 86400e3) < 60e3);
  assert.deepEqual(await valid(), [false, true]);
  const last = await roll({ overlap_s: 0 });
  secrets.push(last.secret);
  assert.equal(last.old_secret_until, null);
  assert.deepEqual(await valid(), [false, false, true]);
  secrets.push((await roll({ overlap_s: 60 })).secret);
  assert.deepEqual(await valid(), [false, false, true, true]);
  await stack.cluster.sql(`update sluice.webhook set old_until = now() - interval '1 second' where id = '${one.id}'`);
  assert.deepEqual(await valid(), [false, false, false, true]);
  assert.ok(Math.abs(Date.parse((await roll({ overlap_s: null })).old_secret_until) - Date.now() - 86400e3) < 60e3);
  await remove(one);
});

test('a roll that names the rev of what was read is done once, also if it is sent twice at once', async () => {
  const one = await made();
  const roll = (body) => call('POST', `/api/webhooks/${one.id}/roll`, body);
  const both = await Promise.all([roll({ overlap_s: 0, rev: one.rev }), roll({ overlap_s: 0, rev: one.rev })]);
  assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409]);
  const late = await roll({ overlap_s: 3600, rev: one.rev });
  assert.equal(late.status, 409);
  assert.equal(late.json.error, `Nothing was changed: the webhook has the rev ${one.rev + 1}, not ${one.rev}: it was changed, or its secret was rolled, since it was read`);
  for (const rev of [0, null, 'x']) assert.equal((await roll({ rev })).status, 400, String(rev));
  const { json } = await roll({ rev: one.rev + 1 });
  assert.equal(json.rev, one.rev + 2);
  await remove(one);
});

test('whatever the receiver does, the reply to a test says it', async () => {
  const all = [
    ['/hangs', null, /./], ['/resets', null, /./], ['/moved', 307, /^the endpoint answered 307 .*redirects are not followed$/], ['/gone', 410, /^the endpoint answered 410 Gone$/],
    ['/busy', 503, /^the endpoint answered 503/], ['/endless', 200, null],
  ];
  await Promise.all(all.map(async ([path, status, pattern]) => {
    const one = await made({ url: receiver.url + path });
    const reply = await call('POST', `/api/webhooks/${one.id}/test`);
    assert.equal(reply.json.status, status, path);
    if (pattern) assert.match(reply.json.problem, pattern, path);
    else assert.equal(reply.json.problem, null, path);
    await remove(one);
  }));
  assert.equal(got.filter(({ path }) => path === '/moved').length, 1);
});

// The message goes on without its client, whose request no longer exists.
test('a client that closes while its test is under way does no harm', async () => {
  const hooks = [await made({ url: `${receiver.url}/hangs?gone` }), await made({ url: 'http://127.0.0.1:9/gone' })];
  const before = got.length;
  await Promise.all(hooks.map(async ({ id }) => {
    const stop = new AbortController();
    const reply = fetch(`${server.base}/api/webhooks/${id}/test`, { method: 'POST', signal: stop.signal, headers: { authorization: `Bearer ${account.key}` } });
    if (id === hooks[0].id) await until('the message has arrived', () => got.length > before);
    stop.abort();
    await assert.rejects(reply, /abort/);
  }));
  for (const item of hooks) await remove(item);
  assert.equal((await call('GET', '/api/webhooks')).status, 200);
});

// The blocks of addresses that are not public, as the unit test of the address rules has them: both
// ends of each.
async function insideAddresses() {
  const source = await readFile(new URL('../unit/http/test_address.c', import.meta.url), 'utf8');
  const [, table] = source.match(/struct block blocks\[\] = \{(.*?)\n\};/s);
  const rows = [...table.matchAll(/\{(NULL|"[^"]*"),\s*"([^"]+)",\s*"([^"]+)"/g)];
  assert.ok(rows.length > 40, `${rows.length} blocks`);
  return rows.flatMap(([, , first, last]) => [...new Set([first, last])]);
}
const inUrl = (address) => (address.includes(':') ? `[${address}]` : address);

// A literal is refused when the endpoint is made, a name when a message is sent. That allow-host
// and origin-override name them makes no difference.
test('no message is sent to an address inside, unless webhook-host names it', async () => {
  const inside = await insideAddresses();
  const other = await stack.serve({ args: ['--allow-host', '0.0.0.0/0', '--allow-host', '::/0', '--allow-host', 'localhost', '--webhook-timeout', '2s',
    '--origin-override', `https://overridden.example.com=${receiver.url}`, '--origin-override', `https://10.0.0.1=${receiver.url}`] });
  const ask = (on, path, body) => on.call(account.key, 'POST', path, body);
  const before = got.length;
  for (const address of [...inside, '2130706433', '0x7f.1', '127.1', '0177.0.0.1']) {
    const reply = await ask(other, '/api/webhooks', { url: `https://${inUrl(address)}/` });
    assert.equal(reply.status, 400, address);
    assert.match(reply.json.error, /^url cannot be used: /, address);
  }
  for (const [url, pattern] of [[`https://localhost:${receiver.port}/`, /no public address/], ['https://overridden.example.com/', /./]]) {
    const { json } = await ask(other, '/api/webhooks', { url });
    const { status, problem } = (await ask(other, `/api/webhooks/${json.id}/test`)).json;
    assert.equal(status, null, url);
    assert.match(problem, pattern, url);
    await remove(json);
  }
  assert.equal(got.length, before);
  await other.stop();
  // the same addresses are accepted where webhook-host names their networks
  const open = await stack.serve({ args: ['--webhook-host', '0.0.0.0/0', '--webhook-host', '::/0'] });
  for (const address of inside) {
    const reply = await ask(open, '/api/webhooks', { url: `https://${inUrl(address)}/` });
    assert.equal(reply.status, 201, `${address}: ${reply.text}`);
    await remove(reply.json);
  }
  await open.stop();
});

test('deliveries are listed with their state, in pages, for the endpoint of the account alone', async () => {
  const one = await made();
  const another = await made();
  const user = '0198f000-0000-7000-8000-00000000aaaa';
  await stack.cluster.sql(`insert into sluice.account_user (account_id, external_id, user_id, created_at) values ('${account.id}', 'grace', '${user}', now())`);
  const row = (webhook, at, { of = account.id, status = 'delivered', code = 204, problem = null } = {}) => {
    const id = `${(Date.now() - at * 1000).toString(16).padStart(12, '0').replace(/^(.{8})/, '$1-')}-7000-8000-${String(at).padStart(12, '0')}`;
    return stack.cluster.sql(`insert into sluice.delivery (account_id, event_id, webhook_id, parent_id, kind, object, rev, at, data, status, attempt, due_at, code, problem, ended_at)
      values ('${of}', '${id}', '${webhook.id}', ${of === account.id ? 'null' : `'${account.id}'`}, 'flow.failed', '${user}', 3, now(), '{"flow_id": "${at}"}', '${status}', 2,
        ${status === 'pending' ? "now() + interval '1 hour'" : 'null'}, ${code}, ${problem ? `'${problem}'` : 'null'}, ${status === 'pending' ? 'null' : 'now()'})`);
  };
  for (const at of [1, 2, 3]) await row(one, at);
  await row(one, 4, { of: user, status: 'failed', code: 503, problem: 'busy' });
  await row(one, 5, { status: 'pending', code: 'null', problem: 'no reply' });
  await row(another, 6);
  const list = async (query = '') => (await call('GET', `/api/webhooks/${one.id}/deliveries${query}`)).json;
  const all = await list();
  assert.deepEqual(all.items.map(({ data }) => data.flow_id), ['1', '2', '3', '4', '5']);
  assert.deepEqual(all.items.map(({ user: name }) => name), [null, null, null, 'grace', null]);
  assert.equal(all.next_cursor, null);
  const failed = await list('?status=failed');
  assert.deepEqual(failed.items, [{ ...all.items[3], type: 'flow.failed', object: user, rev: 3, status: 'failed', attempts: 2, next_at: null, code: 503, problem: 'busy' }]);
  const [pending] = (await list('?status=pending')).items;
  assert.deepEqual([pending.code, pending.problem, typeof pending.next_at], [null, 'no reply', 'string']);
  const pages = [];
  for (let cursor = ''; cursor !== null; ) {
    const page = await list(`?limit=2${cursor && `&cursor=${cursor}`}`);
    pages.push(...page.items);
    cursor = page.next_cursor;
  }
  assert.deepEqual(pages, all.items);
  const stranger = await stack.account('stranger', { apps: [] });
  assert.equal((await call('GET', `/api/webhooks/${one.id}/deliveries`, undefined, stranger.key)).status, 404);
  assert.equal((await call('GET', `/api/webhooks/${one.id}/deliveries?status=none`)).status, 400);
  // those of users are for admin, in each page
  const reader = await stack.key(account.id, ['--scopes', 'read']);
  for (const limit of [1, 2, 100]) {
    const read = [];
    for (let cursor = ''; cursor !== null; ) {
      const page = (await call('GET', `/api/webhooks/${one.id}/deliveries?limit=${limit}${cursor && `&cursor=${cursor}`}`, undefined, reader)).json;
      read.push(...page.items);
      cursor = page.next_cursor;
    }
    assert.deepEqual(read, all.items.filter(({ user: name }) => name === null), String(limit));
  }
  for (const item of [one, another]) await remove(item);
});

test('changes at the same moment all count', async () => {
  const one = await made();
  const replies = await Promise.all([{ description: 'x' }, { events: ['flow.failed'] }, { enabled: false }, { url: `${receiver.url}/ok?moved` }].map((body) => call('PATCH', `/api/webhooks/${one.id}`, body)));
  assert.deepEqual(replies.map(({ status }) => status), [200, 200, 200, 200]);
  const { description, events, enabled, url } = (await call('GET', `/api/webhooks/${one.id}`)).json;
  assert.deepEqual({ description, events, enabled, url }, { description: 'x', events: ['flow.failed'], enabled: false, url: `${receiver.url}/ok?moved` });
  await remove(one);
});

test('the command makes the same changes', async () => {
  const run = (...args) => stack.must(['webhooks', ...args]);
  const env = { SLUICE_WEBHOOK_HOST: '127.0.0.1' };
  const secret = (await stack.must(['webhooks', 'add', account.id, `${receiver.url}/ok`, '--events', 'flow.failed,flow.waiting', '--description', 'by command'], { env })).trim();
  const [one] = (await call('GET', '/api/webhooks')).json.items;
  assert.deepEqual([one.events, one.description, one.made_by], [['flow.waiting', 'flow.failed'], 'by command', null]);
  verify(secret, (await tried(one)).message);
  const rolled = JSON.parse(await run('roll', account.id, one.id, '--overlap', '1h', '--json'));
  assert.equal(rolled.id, one.id);
  const { message } = await tried(one);
  verify(secret, message);
  verify(rolled.secret, message);
  await call('PATCH', `/api/webhooks/${one.id}`, { enabled: false });
  assert.match(await run('list', account.id), /requested/);
  assert.equal((await run('enable', account.id, one.id)).trim(), `enabled ${one.id}`);
  const [listed] = JSON.parse(await run('list', account.id, '--json'));
  assert.deepEqual([listed.enabled, listed.url, listed.events], [true, `${receiver.url}/ok`, 'flow.waiting flow.failed']);
  for (const [args, pattern, more] of [
    [['add', account.id, 'http://example.com/'], /url must begin with https/], [['add', account.id, 'https://example.com/', '--events', 'none'], /"none" is none of: flow/],
    [['add', account.id, 'https://own.example.com/'], /must not be sluice/, { SLUICE_PUBLIC_URL: 'https://own.example.com' }], [['remove', account.id, account.id], /no webhook with that id/],
    [['roll', account.id, one.id, '--overlap', '8d'], /at most 7d/], [['roll', account.id, 'x'], /WEBHOOK must be an id/],
  ]) {
    const { code, stderr } = await stack.sluice(['webhooks', ...args], { env: more });
    assert.equal(code, 1, args.join(' '));
    assert.match(stderr, pattern);
  }
  assert.equal((await run('remove', account.id, one.id)).trim(), `deleted ${one.id}`);
  assert.deepEqual((await call('GET', '/api/webhooks')).json.items, []);
});

test('a rotation of the master key seals both secrets again', async () => {
  const one = await made();
  const next = (await call('POST', `/api/webhooks/${one.id}/roll`)).json;
  const old = await readFile(stack.masterKeyFile, 'utf8');
  const fresh = await stack.must(['keys', 'master']);
  await writeFile(stack.masterKeyFile, fresh + old, { mode: 0o600 });
  const second = await stack.serve({ args: ['--webhook-host', '127.0.0.1'] });
  const columns = `select key_id || encode(sealed, 'hex') || encode(old_sealed, 'hex') from sluice.webhook where id = '${one.id}'`;
  const before = await stack.cluster.sql(columns);
  assert.match(await stack.must(['keys', 'rotate']), /^[1-9]\d* credentials resealed/);
  assert.notEqual((await stack.cluster.sql(columns)).slice(0, 8), before.slice(0, 8));
  await writeFile(stack.masterKeyFile, fresh, { mode: 0o600 });
  const third = await stack.serve({ args: ['--webhook-host', '127.0.0.1'] });
  for (const at of [second, third]) {
    const count = got.length;
    assert.equal((await at.call(account.key, 'POST', `/api/webhooks/${one.id}/test`)).json.problem, null);
    for (const secret of [one.secret, next.secret]) for (const Library of libraries) verify(secret, got[count], Library);
  }
  // the first server has the old key alone: it says so, and that rolling without an overlap helps
  const blind = await call('POST', `/api/webhooks/${one.id}/test`);
  assert.deepEqual([blind.json.status, blind.json.problem], [null, 'the message could not be signed']);
  assert.match((await call('POST', `/api/webhooks/${one.id}/roll`)).json.error, /overlap_s 0/);
  assert.equal((await call('POST', `/api/webhooks/${one.id}/roll`, { overlap_s: 0 })).status, 200);
  await remove(one);
});
