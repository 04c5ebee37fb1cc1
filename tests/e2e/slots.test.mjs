// Outbound slots: the calls of one account leave slots for the others, in an origin and in total,
// although calls that hang cannot be stopped (contrib/deploy/README.md, account-connections).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const OPEN_S = 600; // how long a call may hang: nothing waits for its end
// Every other connection setting has its default: 1,024 in total, 128 for an origin.
const HOSTS = 12;
const hosts = Array.from({ length: HOSTS }, (_, i) => `slow${i}`);
const integrations = { app: {}, ...Object.fromEntries(hosts.map((id) => [id, {}])) };

let stack, slow, provider, greedy, other, victim;
const held = new Set();
let isHolding = true;
const answer = (reply) => reply.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}');

before(async () => {
  stack = await Stack.start({ provider: false });
  const hold = (request, reply) => {
    if (!isHolding) return answer(reply);
    held.add(reply);
    reply.on('close', () => held.delete(reply));
  };
  slow = await Promise.all(hosts.map(() => Scripted.start(hold)));
  provider = await Scripted.start((request, reply, url) => {
    const q = url.searchParams.get('q');
    if (q === 'hang') hold(request, reply);
    else if (q === 'rest') setTimeout(answer, 10, reply);
    else answer(reply);
  });
  stack.catalog = await writeCatalog(stack.dir, integrations);
  [greedy, other, victim] = await Promise.all(['greedy', 'other', 'victim'].map((name) => stack.account(name, { apps: [] })));
});
after(async () => {
  await Promise.all([...(slow ?? []), provider].map((one) => one?.stop()));
  await stack?.stopWell(assert);
});

const serve = (...args) =>
  stack.serve({
    env: { SLUICE_CATALOG: stack.catalog },
    args: [...hosts.flatMap((id, i) => overrides(slow[i].url, id)), ...overrides(provider.url, 'app'), '--circuit-volume', '0',
      '--execution-timeout', `${OPEN_S}s`, '--head-timeout', `${OPEN_S}s`, ...args],
  });
const run = (server, account, app, input = {}) => server.execute(account.key, app, 'read', input);
// Answers the calls that hang, and all later calls until hang() is called.
function release() {
  isHolding = false;
  held.forEach(answer);
}
// Starts this many calls that hang until release() is called.
function hang(server, account, count, app, input) {
  isHolding = true;
  const replies = Array.from({ length: count }, (_, i) => run(server, account, app(i), input));
  return Promise.all(replies);
}
async function assertUnharmed(server, atOnce = 5) {
  for (let i = 0; i < 20; i++) {
    const replies = await Promise.all(Array.from({ length: atOnce }, () => run(server, victim, 'app')));
    for (const reply of replies) assert.equal(reply.status, 200, reply.text);
  }
}

test('one account with slow calls to an app leaves the app to the others', async () => {
  const server = await serve();
  const hung = hang(server, greedy, 200, () => 'app', { q: 'hang' });
  await until('it has all slots that it may have', () => held.size >= 112);
  await assertUnharmed(server);
  assert.equal(held.size, 112); // seven eighths of 128; the others wait, or were refused
  release();
  await hung;
  await server.stop();
});

test('two accounts with slow hosts leave slots to the others', async () => {
  const server = await serve();
  const hung = [greedy, other].map((account) => hang(server, account, 800, (i) => hosts[i % HOSTS]));
  await until('they have all slots that they may have', () => held.size >= 900, OPEN_S * 1000); // of 1,600 requests of one client
  await assertUnharmed(server);
  assert.ok(held.size < 1024, `${held.size} of 1,024`);
  release();
  await Promise.all(hung);
  await server.stop();
});

test('one account with many executions under way leaves room for the others', async () => {
  const server = await serve('--executions', '16');
  const hung = hang(server, greedy, 40, () => 'app', { q: 'hang' });
  const refused = async () => Number(/^sluice_http_requests_total\{route="\/api\/executions",method="POST",status="503"\} (\d+)/m.exec(await server.metrics())?.[1] ?? 0);
  await until('it has all slots that it may have', async () => held.size === 14 && (await refused()) === 26);
  await assertUnharmed(server, 2);
  release();
  const statuses = (await hung).map((reply) => reply.status);
  assert.equal(statuses.filter((status) => status === 503).length, 26);
  await server.stop();
});

test('one account alone works as fast as its share allows, and none is refused', async () => {
  const server = await serve('--origin-connections', '4', '--account-origin-connections', '2');
  provider.most = 0;
  const replies = await Promise.all(Array.from({ length: 50 }, () => run(server, victim, 'app', { q: 'rest' })));
  for (const reply of replies) assert.equal(reply.status, 200, reply.text);
  assert.equal(provider.most, 2);
  await server.stop();
});
