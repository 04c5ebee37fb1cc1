// Name look-ups that hang: calls to other hosts continue, every deadline is met, and the server can
// still shut down.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { must } from './support/process.mjs';
import { Scripted, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const SLOW_HOSTS = 5;
const CALLS = 50;
const LOOKUP_S = 300; // practically forever
const DEADLINE_MS = 2000; // for calls that must reach it
const PATIENT_MS = 60_000;
const CONNECT_MS = 120_000; // so that the deadline ends a call

let stack, server, provider, account, log;

before(async () => {
  stack = await Stack.start({ provider: false });
  provider = await Scripted.start((request, reply) => reply.writeHead(200, { 'content-type': 'application/json' }).end('{}'));
  const library = join(stack.dir, 'slow_getaddrinfo.so');
  const source = new URL('support/slow_getaddrinfo.c', import.meta.url).pathname;
  await must('cc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
  const hosts = ['fast1', 'fast2', ...Array.from({ length: SLOW_HOSTS }, (_, i) => `slow${i}`)];
  const integrations = Object.fromEntries(
    hosts.map((name) => [name, { base_url: `http://${name}.test:${provider.port}`, limits: { connect_timeout_ms: CONNECT_MS }, actions: { read: { deadline_ms: name.startsWith('slow') ? DEADLINE_MS : PATIENT_MS } } }]),
  );
  account = await stack.account('dns', { apps: [] });
  log = join(stack.dir, 'lookups');
  server = await stack.serve({
    args: hosts.flatMap((name) => ['--allow-host', `${name}.test`]),
    env: {
      SLUICE_CATALOG: await writeCatalog(stack.dir, integrations),
      LD_PRELOAD: library,
      ASAN_OPTIONS: `${process.env.ASAN_OPTIONS ?? ''}:verify_asan_link_order=0`,
      SLOW_LOOKUP_S: String(LOOKUP_S),
      SLOW_LOOKUP_LOG: log,
    },
  });
});
after(async () => {
  await provider?.stop();
  await stack?.stopWell(assert);
});

const lookups = async () => (await readFile(log, 'utf8')).trim().split('\n').sort();
const run = (app) => server.execute(account.key, app, 'read', {});

test('hosts whose names do not resolve do not delay others', async () => {
  assert.equal((await run('fast1')).status, 200);
  let isOver = false;
  let healthy = 0;
  const slow = Promise.all(Array.from({ length: CALLS }, (_, i) => run(`slow${i % SLOW_HOSTS}`))).finally(() => (isOver = true));
  await until('all slow names are looked up', async () => (await lookups()).filter((one) => one.startsWith('slow')).length === SLOW_HOSTS);
  // a look-up outlives the calls that started it
  while (!isOver || healthy < 10)
    for (const name of ['fast1', 'fast2']) { /* the second is a name without a look-up so far */
      const reply = await run(name);
      assert.equal(reply.status, 200, reply.text);
      healthy++;
    }
  for (const reply of await slow) {
    assert.equal(reply.status, 500, reply.text);
    assert.equal(reply.json.error_code, 'timeout', reply.text);
    assert.match(reply.json.hint, /nothing was sent/i);
    const took = Date.parse(reply.json.finished_at) - Date.parse(reply.json.started_at);
    assert.ok(took < CONNECT_MS / 2, `${took} ms`);
  }
  const all = await lookups();
  const once = (name) => assert.equal(all.filter((one) => one === `${name}.test`).length, 1, `${all}`);
  for (let i = 0; i < SLOW_HOSTS; i++) once(`slow${i}`); /* one look-up for each name, however many
                                                          * calls wait for it */
  once('fast2');
});

test('a look-up that hangs does not keep the server from ending', async () => {
  const slow = run('slow0'); /* joins the look-up that is under way */
  await until('it is under way', async () => /^sluice_executions_active 1$/m.test(await server.metrics()));
  const end = server.stop();
  assert.equal((await slow).json.error_code, 'timeout');
  assert.deepEqual(await end, { code: 0, signal: null }, server.log); /* the test runner would wait
                                                                       * for LOOKUP_S */
  assert.match(server.log, /hangs/);
  stack.forget(server);
});
