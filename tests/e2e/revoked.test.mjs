// Long-lived connections end when their key does, and say why: event streams, long polls, and a
// page's stream. The servers would cache a key for an hour, so they see a change only if they are
// notified.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { Mcp } from './support/mcp.mjs';
import { Pages, formsOf } from './support/pages.mjs';
import { TASK_PAGE } from './support/provider.mjs';
import { Stack } from './support/stack.mjs';

const REFUSED = '{"error":"Missing or invalid API key"}';

let stack, servers, account, flow;
before(async () => {
  stack = await Stack.start();
  account = await stack.account('watching', { apps: ['gmail', 'notion'] });
  const args = ['--cache-time', '1h', '--trusted-proxy', '127.0.0.1'];
  servers = [await stack.serve({ args }), await stack.serve({ args })];
  await stack.connect(account.id, 'probe', { token: 'ya29.demo-gmail-full' });
  const input = { maxResults: 1, taskParent: { page_id: TASK_PAGE } };
  const started = await servers[0].call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'unread_mail_to_tasks', input });
  assert.equal(started.status, 200, started.text);
  flow = started.json.flowId;
  await until('it waits', async () => (await view(account.key)).json.flow.status === 'waiting');
});
after(() => stack?.stopWell(assert));

const view = (key) => servers[0].call(key, 'GET', `/api/flows/${flow}`);

// {text, hasBegun, end}: the text received so far, and a promise of its end.
async function open(server, path, headers) {
  const reply = await fetch(server.base + path, { headers });
  const stream = { status: reply.status, text: '', isOver: false };
  stream.end = (async () => {
    for await (const part of reply.body) stream.text += Buffer.from(part).toString();
    stream.isOver = true;
  })();
  return stream;
}

async function watch(key) {
  const headers = { Authorization: `Bearer ${key}` };
  const tag = (await view(key)).headers.get('etag');
  const streams = await Promise.all(servers.map((one) => open(one, `/api/flows/${flow}/events`, headers)));
  const polls = servers.map((one) => one.call(key, 'GET', `/api/flows/${flow}?wait=60`, undefined, { 'If-None-Match': tag }));
  await until('the streams have begun', async () => streams.every((one) => one.text.includes('"status":"waiting"')));
  return { streams, polls };
}

async function allEnd({ streams, polls }) {
  for (const poll of await Promise.all(polls)) {
    assert.equal(poll.status, 401);
    assert.equal(poll.text, REFUSED);
    assert.equal(poll.headers.get('www-authenticate'), 'Bearer');
  }
  for (const stream of streams) {
    await stream.end;
    assert.ok(stream.text.endsWith(`event: error\ndata: ${REFUSED}\n\n`), stream.text.slice(-200));
  }
}

test('with a key that was rolled, when its overlap ends; the new key does what it did', async () => {
  const old = JSON.parse(await stack.must(['keys', 'create', account.id, '--name', 'agent', '--scopes', 'read', '--json']));
  const open = await watch(old.key);
  const fresh = JSON.parse(await stack.must(['keys', 'roll', account.id, old.prefix, '--overlap', '2s', '--json']));
  for (const { key } of [old, fresh]) assert.equal((await view(key)).status, 200);
  assert.equal((await servers[0].execute(fresh.key, 'gmail', 'list_labels', {})).status, 403);
  await allEnd(open);
  assert.equal((await view(fresh.key)).status, 200);
  const { events } = (await servers[0].call(account.key, 'GET', '/api/audit?kind=key.rolled')).json;
  assert.deepEqual(events.map((one) => [one.details.replaces, one.details.key_id]), [[old.id, fresh.id]]);
});

test('a key that is bound to addresses is refused from others, also through a trusted proxy', async () => {
  const key = await stack.key(account.id, ['--allow-address', '192.0.2.0/24,2001:db8::1']);
  const from = (address, path = '/api/executions') => servers[0].call(key, 'GET', path, undefined, address && { 'X-Forwarded-For': address });
  for (const address of ['192.0.2.77', '198.51.100.1, 192.0.2.1', '2001:db8::1', '[2001:db8::1]:443', '::ffff:192.0.2.1'])
    assert.equal((await from(address)).status, 200, address);
  // Without the header, the proxy itself counts as the client. Whatever a client wrote to the left
  // of its address is not trusted.
  for (const address of [undefined, '192.0.3.1', '192.0.2.1, 198.51.100.1', '2001:db8::2', 'unknown']) {
    const reply = await from(address);
    assert.equal(reply.status, 403, address);
    assert.equal(reply.text, '{"error":"This API key may not be used from this address"}');
  }
  assert.equal((await from('192.0.3.1', '/mcp')).status, 403);
  const pages = new Pages(servers[0].base);
  const refused = await pages.signIn(key);
  assert.equal(refused.status, 403);
  assert.match(refused.text, /may not be used from your address/);
  // a session is bound like its key, and cannot make an unbound key
  const headers = { 'X-Forwarded-For': '192.0.2.7' };
  const form = new URLSearchParams({ key, next: '/keys' });
  const signedIn = await pages.ask('/sign-in', { method: 'POST', fields: form, headers: { ...headers, Origin: servers[0].base } });
  assert.equal(signedIn.status, 303, signedIn.text);
  const page = await pages.ask('/keys', { headers });
  assert.equal(page.status, 200);
  assert.match(page.text, /192\.0\.2\.0\/24 2001:db8::1/);
  assert.equal((await pages.ask('/keys')).location, '/sign-in?next=%2Fkeys');
  const blank = await pages.ask('/keys/new', { headers });
  const once = Object.fromEntries([...blank.text.matchAll(/name="(csrf|once)" value="([^"]*)"/g)].map(([, name, value]) => [name, value]));
  const fields = { ...once, name: 'free', expires: '30', 'scope.read': 'yes' };
  const created = await pages.ask('/keys/new', { method: 'POST', fields, headers: { ...headers, Origin: servers[0].base } });
  assert.equal(created.status, 201, created.text); // it gets the addresses of its maker
  assert.equal(await stack.cluster.sql(`select addresses from sluice.api_key where account_id = '${account.id}' and name = 'free'`), '192.0.2.0/24 2001:db8::1');
  const wider = await pages.ask('/keys/new', { headers });
  const again = Object.fromEntries([...wider.text.matchAll(/name="(csrf|once)" value="([^"]*)"/g)].map(([, name, value]) => [name, value]));
  const tooWide = await pages.ask('/keys/new', { method: 'POST', fields: { ...fields, ...again, addresses: '192.0.0.0/16' }, headers: { ...headers, Origin: servers[0].base } });
  assert.equal(tooWide.status, 400);
  assert.match(tooWide.text, /a key works only from addresses of the key that makes it: 192\.0\.2\.0\/24 2001:db8::1/);
});

test('with a key that is revoked', async () => {
  const { id, key } = JSON.parse(await stack.must(['keys', 'create', account.id, '--json']));
  const open = await watch(key), others = await watch(account.key);
  await stack.must(['keys', 'revoke', account.id, id]);
  await allEnd(open);
  // another key of the account keeps working, and is notified of changes
  assert.ok(others.streams.every((one) => !one.isOver));
  assert.equal((await servers[1].call(account.key, 'POST', `/api/flows/${flow}/approve`)).status, 200);
  for (const poll of await Promise.all(others.polls)) assert.equal(poll.status, 200);
  for (const stream of others.streams) {
    await stream.end;
    assert.match(stream.text.trim().split('\n\n').at(-1), /"status":"completed"/);
  }
});

test('a call that is under way is recorded, and its result is not returned to the revoked key', async () => {
  const { id, key } = JSON.parse(await stack.must(['keys', 'create', account.id, '--json']));
  const held = await hold(stack.provider, { path_prefix: '/sleep/' });
  const wait = { integration_id: 'probe', action_id: 'wait', input: { ms: 1 } };
  const [one, other] = servers;
  const send = (by, server) => [
    server.call(by, 'POST', '/api/executions', wait),
    server.call(by, 'POST', '/api/executions', { ...wait, idempotency_key: `under way ${by} ${server.base}` }),
    server.call(by, 'POST', '/api/tools/probe_wait/execute', { arguments: { ms: 1 } }),
    server.call(by, 'POST', '/api/executions/batch', { executions: [wait, { ...wait, action_id: 'nope' }] }),
  ];
  const mcp = (by, server) => new Mcp(server.base, by).askLegacy('tools/call', { name: 'run_action', arguments: wait });
  const calls = [...send(key, one), ...send(key, other)], tools = [mcp(key, one), mcp(key, other)];
  const others = [...send(account.key, one), ...send(account.key, other)];
  await held.reached(calls.length + tools.length + others.length);
  await stack.must(['keys', 'revoke', account.id, id]);
  for (const server of servers) await until('it is refused', async () => (await server.call(key, 'GET', '/api/flows')).status === 401);
  await held.letGo();
  for (const reply of await Promise.all(calls))
    assert.deepEqual([reply.status, reply.text, reply.headers.get('www-authenticate')], [401, REFUSED, 'Bearer']);
  for (const reply of await Promise.all(tools)) {
    assert.equal(reply.status, 401, reply.text);
    assert.doesNotMatch(reply.text, /succeeded|execution_id/);
  }
  for (const reply of await Promise.all(others)) assert.equal(reply.status, 200, reply.text);
  const { executions } = (await one.call(account.key, 'GET', '/api/executions?integration_id=probe&limit=100')).json;
  assert.equal(executions.filter((execution) => execution.status === 'succeeded').length, calls.length + tools.length + others.length);
});

test('also a run from the dashboard: its session ends with its key', async () => {
  const { id, key } = JSON.parse(await stack.must(['keys', 'create', account.id, '--json']));
  const first = await servers[0].call(key, 'POST', '/api/executions', { integration_id: 'probe', action_id: 'wait', input: { ms: 0 } });
  const pages = new Pages(servers[0].base), path = `/executions/${first.json.execution_id}/again`;
  assert.equal((await pages.signIn(key)).status, 200);
  const run = async () => {
    const { action, fields } = formsOf((await pages.go(path)).text).find(({ buttons }) => buttons.includes('Run it'));
    return pages.ask(action, { method: 'POST', fields: { ...fields, input: '{"ms":1}' } });
  };
  assert.match((await run()).location, /^\/executions\/[0-9a-f-]{36}$/);
  const held = await hold(stack.provider, { path_prefix: '/sleep/' });
  const sent = run();
  await held.reached(1);
  await stack.must(['keys', 'revoke', account.id, id]);
  await until('it is refused', async () => (await servers[0].call(key, 'GET', '/api/flows')).status === 401);
  await held.letGo();
  const reply = await sent;
  assert.deepEqual([reply.status, reply.location], [303, '/sign-in']);
});

test("with a key that expires, an account that is disabled, a session's key", async () => {
  const input = { maxResults: 1, taskParent: { page_id: TASK_PAGE } };
  flow = (await servers[0].call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'unread_mail_to_tasks', input })).json.flowId;
  await until('it waits', async () => (await view(account.key)).json.flow.status === 'waiting');

  const short = await stack.key(account.id, ['--expires', '15s']);
  await allEnd(await watch(short));

  const form = await fetch(`${servers[0].base}/sign-in`);
  const csrf = /name="csrf" value="([^"]+)"/.exec(await form.text())?.[1];
  const signedIn = await fetch(`${servers[0].base}/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    headers: { Origin: servers[0].base, Cookie: (form.headers.get('set-cookie') ?? '').split(';')[0] },
    body: new URLSearchParams({ key: account.key, ...(csrf ? { csrf } : {}) }),
  });
  assert.equal(signedIn.status, 303);
  const cookie = signedIn.headers.getSetCookie().map((one) => one.split(';')[0]).join('; ');
  const page = await open(servers[0], `/flows/${flow}/events`, { Cookie: cookie });
  assert.equal(page.status, 200);
  await until('the page gets the event', async () => page.text.includes('data: changed'));

  const watched = await watch(account.key);
  await stack.must(['accounts', 'disable', account.id]);
  await allEnd(watched);
  await page.end;
});
