// A server that gets SIGTERM with work of every kind under way, at several moments, ends with 0: all
// that it has allocated is freed, or still owned (LeakSanitizer), and nothing is used after that
// (AddressSanitizer). In half of the rounds the work ends in the time that a drain allows, in the
// others it is cut off; in the last one the database does not answer any more. Two servers share the
// flows, and each takes those that others have left.
import assert from 'node:assert/strict';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Mcp } from './support/mcp.mjs';
import { Receiver } from './support/otlp.mjs';
import { Pages } from './support/pages.mjs';
import { Scripted, writeCatalog } from './support/scripted.mjs';
import { Stack, credentials } from './support/stack.mjs';

const SEND = { method: 'POST', path_prefix: '/gmail/v1/users/me/messages/send' };
const SLOW_MS = 150; // a reply of the app, or of an endpoint of events
const CUT_MS = 8_000; // what is cut off takes longer than a shutdown waits for records
const HELD = { default: 'allow', rules: [{ tools: ['gmail_send_message'], decision: 'hold' }] };
const TASKS = { capabilities: { elicitation: { form: {} }, extensions: { 'io.modelcontextprotocol/tasks': {} } } };
const LISTS = ['executions?q=mail', 'executions?display', 'flows', 'audit', 'usage?by=day', 'stats', 'integrations', 'search?query=send%20a%20mail', 'actions?integration_id=gmail', 'connections'];
const PAGES = ['/', '/approvals', '/flows', '/flows/new?template=probe_race', '/executions', '/integrations', '/integrations/gmail',
  '/integrations/gmail/actions/send_message', '/connections', '/keys', '/users', '/webhooks', '/audit', '/docs'];

const ARGS = ['--webhook-host', '127.0.0.1', '--allow-host', '127.0.0.1', '--public-url', 'http://127.0.0.1:9'];

const SOAK_SECONDS = Number(process.env.SOAK_SECONDS ?? 0);

let stack, account, agent, receiver, collector, app;
const seen = new Map(); // the statuses of each kind of work
let names = 0;

before(async () => {
  stack = await Stack.start({ postgres: { max_connections: 100 } });
  account = await stack.account('shutdown');
  receiver = await Scripted.start((request, reply) => setTimeout(() => reply.writeHead(204).end(), SLOW_MS));
  collector = await Receiver.start();
  app = await Scripted.start(ofTheApp);
  stack.catalogDir = await writeCatalog(stack.dir, { logins: { base_url: app.url, auth: { type: 'oauth2', authorize_url: `${app.url}/auth`, token_url: `${app.url}/token`, scopes: [] } } });
  await cp(join(import.meta.dirname, 'support/catalog'), stack.catalogDir, { recursive: true });
  await stack.must(['oauth-clients', 'set', 'logins', '--client-id', 'sluice', '--client-secret-file', '-'], { input: 'client-secret-0123456789\n' });
  await stack.provider.faults([{ match: SEND, count: -1, action: { latency_ms: SLOW_MS } }]);
  const server = await stack.serve({ args: ARGS });
  const call = async (method, path, body) => {
    const reply = await server.call(account.key, method, path, body);
    assert.ok(reply.status < 300, reply.text);
    return reply.json;
  };
  await call('PUT', '/api/policies/agents', { policy: HELD });
  agent = (await call('POST', '/api/keys', { name: 'agent', policy: 'agents', scopes: ['read', 'execute'] })).key;
  await call('POST', '/api/webhooks', { url: `${receiver.url}/events` });
  assert.deepEqual((await server.stop()).code, 0, server.log.slice(-30000));
});
after(async () => {
  await stack?.stopWell(assert);
  await receiver?.stop();
  await collector?.stop();
  await app?.stop();
});

// ---- an app with OAuth: a code or a refresh token says when its token endpoint answers ----

const held = new Map(); // code or refresh token -> answers it

function ofTheApp(request, reply, url) {
  const json = (body) => reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  if (url.pathname !== '/token') return json({});
  let form = '';
  request.on('data', (part) => (form += part));
  request.on('end', () => {
    const fields = new URLSearchParams(form);
    const given = fields.get('code') ?? fields.get('refresh_token');
    const answer = () => json({ access_token: `access-${given}`, refresh_token: `next-${given}`, token_type: 'Bearer', expires_in: 3600 });
    if (given.startsWith('held-')) held.set(given, answer);
    else setTimeout(answer, given.startsWith('late-') ? CUT_MS : SLOW_MS).unref();
  });
}

const expired = (refresh_token) => ({ access_token: 'old', refresh_token, expires_at: '2026-01-01T00:00:00Z' });
// Connects the app with an expired token, and calls it.
async function renewed(at, refresh_token) {
  const { json } = await at.call('POST', '/api/connections', { integration_id: 'logins', credential: expired(refresh_token) });
  return at.call('POST', '/api/tools/logins_read/execute', { arguments: { q: 'x' }, connectionId: json.id });
}
// An end user follows a link, logs in at the app, and is sent back with the code.
async function loggedIn(at, code) {
  const pages = new Pages(at.server.base);
  const { json } = await at.call('POST', '/api/connect/sessions', { integration_id: 'logins' });
  const page = await pages.press(await pages.ask(new URL(json.url).pathname), 'Continue');
  const { location } = await pages.press(page, 'Connect logins', {}, { follow: false });
  return pages.ask(`/connect/callback?${new URLSearchParams({ code, state: new URL(location).searchParams.get('state') })}`).finally(at.count);
}

// ---- work: each kind sends requests until the server ends, and returns the status of one ----

// at: {server, isCut, call, leave}
const execute = (at, action_id, input, more) => at.call('POST', '/api/executions', { integration_id: 'probe', action_id, input, ...more });
const rest = (at) => (at.isCut ? CUT_MS : 2 * SLOW_MS);
const send = (at, more) => execute(at, 'send', { subject: `mail ${++names}` }, { confirm: true, ...more });
const mail = (at, name) =>
  at.call('POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: { to: 'ada@outside.example', subject: name, text: 'x' } }, { key: agent });
const start = async (at, flowTemplate, input = {}) => (await at.call('POST', '/api/flows/start', { flowTemplate, input })).json.flowId;
const decide = (at, id, what) => at.call('POST', `/api/flows/${id}/${what}`, {});
const subjects = (count) => Array.from({ length: count }, () => `mail ${++names}`);
const status = async (at, id) => (await at.call('GET', `/api/flows/${id}?fields=summary`)).json.flow.status;
const waits = (at, id) => until('it waits', async () => (await status(at, id)) !== 'running');
// Decides as soon as the flow asks.
async function decided(at, what, flowTemplate = 'probe_approve', input = { subject: `mail ${++names}` }) {
  const id = await start(at, flowTemplate, input);
  await waits(at, id);
  return decide(at, id, what);
}
async function tool(at, name, args, options) {
  const { result } = await new Mcp(at.server.base, account.key).ask('tools/call', { name, arguments: args }, options);
  return { status: result ? 200 : 500 };
}

const KINDS = {
  'a read': (at) => execute(at, 'read_label', { id: 'INBOX' }),
  'a read with a key': (at) => execute(at, 'read_label', { id: 'INBOX' }, { idempotency_key: `read ${++names}` }),
  'a long read': (at) => execute(at, 'wait', { ms: rest(at) }),
  'a large read': (at) => execute(at, 'echo', { value: 'x'.repeat(300_000) }),
  'pages': (at) => at.call('POST', '/api/tools/gmail_list_messages/execute?max_pages=3', { arguments: { maxResults: 3, details: true } }),
  'a dry run': (at) => at.call('POST', '/api/tools/gmail_modify_labels/execute?dry_run=true&shows=true', { arguments: { id: '19a4b6c7d8e90001', addLabelIds: ['Label_1'] } }),
  'a write': (at) => send(at),
  'one write twice': async (at) => {
    const subject = `mail ${++names}`;
    const replies = await Promise.all([1, 2].map(() => execute(at, 'send', { subject }, { confirm: true, idempotency_key: subject })));
    return replies[1];
  },
  'a batch': (at) =>
    at.call('POST', '/api/executions/batch', {
      executions: ['read_label', 'send', 'wait'].map((action_id, i) => ({
        integration_id: 'probe', action_id, input: [{ id: 'INBOX' }, { subject: `mail ${++names}` }, { ms: rest(at) }][i], confirm: true,
      })),
    }),
  'a held call that is approved': async (at) => {
    const name = `held ${++names}`;
    const { json } = await mail(at, name);
    await decide(at, json.approval.flow_id, 'approve');
    return until('it is made', async () => {
      const reply = await mail(at, name);
      return reply.status === 200 && reply;
    });
  },
  'a held call': async (at) => ({ status: (await mail(at, `held ${++names}`)).json.approval.status === 'waiting' ? 200 : 500 }),
  'a client that leaves': async (at) => {
    const { signal } = at.leave;
    const body = JSON.stringify({ integration_id: 'probe', action_id: 'send', input: { subject: `mail ${++names}` }, confirm: true });
    const headers = { authorization: `Bearer ${account.key}`, 'content-type': 'application/json' };
    const reply = await fetch(`${at.server.base}/api/executions`, { method: 'POST', headers, body, signal });
    at.count();
    return reply;
  },
  'a fan-out of reads': async (at) => ({ status: (await start(at, 'probe_reads', { ms: [1, 20, rest(at), 30, 40] })) ? 200 : 500 }),
  'a fan-out of writes': (at) => decided(at, 'approve', 'probe_approve_fan', { subjects: subjects(6) }),
  'a flow of many steps': async (at) => ({ status: (await start(at, 'probe_ladder')) ? 200 : 500 }),
  'a flow with a long call': async (at) => ({ status: (await start(at, 'probe_slow', { ms: rest(at), subject: `mail ${++names}`, confirm: true })) ? 200 : 500 }),
  'a flow that waits': async (at) => ({ status: (await start(at, 'probe_wait', { seconds: 0.2 })) ? 200 : 500 }),
  'approve': (at) => decided(at, 'approve'),
  'approve and cancel': async (at) => {
    const id = await start(at, 'probe_approve', { subject: `mail ${++names}` });
    await waits(at, id);
    return (await Promise.all([decide(at, id, 'approve'), decide(at, id, 'cancel')]))[1];
  },
  'reject': (at) => decided(at, 'reject'),
  'resume': (at) => decided(at, 'resume', 'probe_wait', { seconds: 3600 }),
  'a long poll': async (at) => {
    const path = `/api/flows/${await start(at, 'probe_wait', { seconds: 3600 })}`;
    const { headers } = await at.call('GET', path);
    return at.call('GET', `${path}?wait=60&until=ended`, undefined, { headers: { 'if-none-match': headers.get('etag') } });
  },
  'an event stream': async (at) => at.call('GET', `/api/flows/${await start(at, 'probe_wait', { seconds: 3600 })}/events`),
  'a call of MCP': (at) => tool(at, 'run_action', { integration_id: 'probe', action_id: 'wait', input: { ms: rest(at) } }),
  'a task of MCP': (at) => tool(at, 'start_flow', { template: 'probe_approve', input: { subject: `mail ${++names}` } }, TASKS),
  'a stream of MCP': async (at) => {
    const stream = await new Mcp(at.server.base, account.key).stream('subscriptions/listen', { notifications: { toolsListChanged: true } }, TASKS);
    at.count();
    while (await stream.next());
    return stream;
  },
  'a connection': async (at) => {
    const made = await at.call('POST', '/api/connections', { integration_id: 'probe', credential: credentials.probe });
    await at.call('PATCH', `/api/connections/${made.json.id}`, { label: 'x' });
    return at.call('DELETE', `/api/connections/${made.json.id}`);
  },
  'a link': async (at) => {
    const made = await at.call('POST', '/api/connect/sessions', { integration_id: 'notion' });
    return at.call('GET', `/api/connect/sessions/${made.json.id}?wait=60`);
  },
  'a token that has expired': (at) => renewed(at, `${at.isCut ? 'late' : 'soon'}-${++names}`),
  'a login': (at) => loggedIn(at, `${at.isCut ? 'late' : 'soon'}-${++names}`),
  'a key': async (at) => {
    const made = await at.call('POST', '/api/keys', { name: 'short', scopes: ['read'] });
    const rolled = await at.call('POST', `/api/keys/${made.json.id}/roll`, { overlap: 0 });
    return at.call('DELETE', `/api/keys/${rolled.json.id}`);
  },
  'a policy': async (at) => {
    const path = `/api/policies/p${++names}`;
    await at.call('PUT', path, { policy: HELD });
    return at.call('DELETE', path);
  },
  'a user': async (at) => {
    const user = `user-${++names}`;
    await at.call('POST', '/api/connect/sessions', { integration_id: 'notion' }, { headers: { 'sluice-user': user } });
    return at.call('DELETE', `/api/users/${user}`);
  },
  'a message to an endpoint': async (at) => {
    const { json } = await at.call('GET', '/api/webhooks');
    return at.call('POST', `/api/webhooks/${json.items[0].id}/test`);
  },
  'lists': async (at) => (await Promise.all(LISTS.map((one) => at.call('GET', `/api/${one}`))))[0],
  'pages of the dashboard': async (at) => {
    const pages = new Pages(at.server.base);
    await pages.signIn(account.key);
    const [first] = await Promise.all(PAGES.map((path) => pages.ask(path).finally(at.count)));
    await pages.ask('/events');
    return first;
  },
};

// These end with the server.
const ENDLESS = new Set(['a long poll', 'an event stream', 'a stream of MCP', 'a link', 'pages of the dashboard']);

// ---- rounds ----

// Sends a request. What the end of the server does to it is not an error.
function caller(at) {
  return async (method, path, body, { key = account.key, headers } = {}) => {
    const reply = await at.server.call(key, method, path, body, headers);
    at.count();
    return reply;
  };
}

const backends = async () =>
  (await stack.cluster.sql(`select pid from pg_stat_activity where application_name = 'sluice'`)).split('\n').filter(Boolean).map(Number);

// Stops the database, and asks for pages that then wait for it. Returns what makes it go on.
async function freeze(at) {
  const pages = new Pages(at.server.base);
  await pages.signIn(account.key);
  const frozen = await backends();
  for (const pid of frozen) process.kill(pid, 'SIGSTOP');
  const asked = PAGES.map((path) => pages.ask(path).catch(() => {}));
  await at.server.metrics(); // read after the requests for pages
  return async () => {
    for (const pid of frozen) process.kill(pid, 'SIGCONT');
    await Promise.all(asked);
  };
}

// replies: how many have arrived when the server gets SIGTERM. every: one of so many steps of ops is
// cancelled instead. yields: each step of an op has a turn of its own. isWhole: each kind is done first.
async function round({ replies, isWhole = false, isCut = false, isFrozen = false, reloads = false, every, yields, times = 1 }) {
  const args = [...ARGS, '--trace-endpoint', collector.url, '--drain-timeout', isCut ? '50ms' : '35s'];
  const env = { SLUICE_CONNECTION_LIMITS: 'on', ...(every && { SLUICE_CANCEL_EVERY: String(every) }), ...(yields && { SLUICE_YIELD_EVERY: '1' }) };
  const server = await stack.serve({ args, env });
  const at = { server, isCut, ended: new Set(), leave: new AbortController(), replies: 0, count: () => at.replies++ };
  at.call = caller(at);
  const begin = ([kind, run]) =>
    run(at).then(
      (reply) => seen.set(kind, [...(seen.get(kind) ?? []), reply.status]),
      () => at.count(),
    ).finally(() => at.ended.add(kind));
  const work = Array.from({ length: times }, () => Object.entries(KINDS).map(begin)).flat();
  const isDue = isWhole ? () => Object.keys(KINDS).every((kind) => ENDLESS.has(kind) || at.ended.has(kind)) : () => at.replies >= replies;
  await until(isWhole ? 'all work is done' : `${replies} replies have arrived`, () => isDue() || !server.process.isRunning);
  if (isWhole) await at.call('GET', '/api/flows');
  at.leave.abort();
  if (reloads) server.process.kill('SIGHUP');
  const thaw = isFrozen && (await freeze(at));
  const end = await server.stop();
  if (thaw) await thaw();
  stack.forget(server);
  await Promise.all(work);
  assert.deepEqual([end.code, end.signal], [0, null], server.log.slice(-30000));
}

const name = ({ replies, isCut, reloads, every, yields }) =>
  [`after ${replies} replies`, isCut ? 'cut off' : 'drained', reloads && 'during a reload', every && `every ${every}th step cancelled`, yields && 'a step a turn'].filter(Boolean).join(', ');

const ROUNDS = [
  { replies: 0 }, { replies: 0, isCut: true }, { replies: 20, reloads: true, yields: true }, { replies: 25, isCut: true, yields: true },
  { replies: 60 }, { replies: 50, isCut: true, reloads: true }, { replies: 60, every: 23, times: 2 }, { replies: 90, every: 97, times: 2 },
];

// With SOAK_SECONDS also rounds of any kind at any moment, for so long.
const draw = (...list) => list[Math.floor(Math.random() * list.length)];
const drawRound = () => ({ replies: Math.floor(Math.random() * 50), isCut: draw(true, false), reloads: draw(true, false), every: draw(0, 0, 5, 13, 29, 61), yields: draw(true, false), times: draw(1, 2) });
async function soak() {
  for (const end = Date.now() + SOAK_SECONDS * 1000; Date.now() < end; ) {
    const pair = [drawRound(), drawRound()];
    await Promise.all(pair.map(round)).catch((error) => {
      throw new Error(`${JSON.stringify(pair)}: ${error.message}`);
    });
  }
}
if (SOAK_SECONDS > 0) test('rounds at any moment', soak);

for (let i = 0; i < ROUNDS.length; i += 2)
  test(`${name(ROUNDS[i])}; and ${name(ROUNDS[i + 1])}`, () => Promise.all([round(ROUNDS[i]), round(ROUNDS[i + 1])]));

test('the database does not answer any more', () => round({ replies: 40, isCut: true, isFrozen: true }));

// A provider may end the old refresh token, or the code, with its answer, so a drain waits for it.
async function askedForTokens(isCut) {
  const server = await stack.serve({ args: [...ARGS, '--drain-timeout', isCut ? '50ms' : '35s'] });
  const at = { server, count: () => {} };
  at.call = caller(at);
  const given = [`held-renewal-${isCut}`, `held-code-${isCut}`];
  const ends = [];
  const work = [renewed(at, given[0]), loggedIn(at, given[1])].map((one) => one.catch((error) => ({ text: `${error}` })).then((end) => (ends.push(end), end)));
  await until('both tokens are asked for', () => given.every((one) => held.has(one)) || ends.length > 0);
  assert.deepEqual(ends.map((one) => one.text), []);
  const ended = server.stop();
  if (!isCut) for (const one of given) held.get(one)();
  const end = await ended;
  stack.forget(server);
  assert.deepEqual([end.code, end.signal], [0, null], server.log.slice(-30000));
  if (isCut) return;
  const [call, callback] = await Promise.all(work);
  assert.equal(call.status, 200, call.text);
  assert.equal(callback.status, 303, callback.text);
}

test('a token is renewed and a login comes back: drained, and cut off', async () => {
  const kept = () => stack.cluster.sql(`select count(*) from sluice.connection where integration_id = 'logins' and expires_at > now()`);
  const before = Number(await kept());
  await Promise.all([false, true].map(askedForTokens));
  assert.equal(Number(await kept()), before + 2); // those of the drained server
});

test('work of each kind has been done', async () => {
  await round({ isWhole: true });
  const missing = Object.keys(KINDS).filter((kind) => !seen.get(kind)?.some((one) => one < 400));
  assert.deepEqual(missing, [], JSON.stringify([...seen]));
});
