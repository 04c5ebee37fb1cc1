// The log of a request with `--log-level debug` has the steps of its ops in order, one line for
// each call of the app, and no line about the process's own work, which only `trace` logs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { linesOfLog } from './support/process.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const SECRET = 's3cr3t-of-a-query';
const BACKGROUND = ['node', 'janitor', 'due', 'flow_adopter', 'pg_link'];
const HOST = 'app.example.com';
let stack, provider, account, statuses;

before(async () => {
  stack = await Stack.start({ provider: false });
  provider = await Scripted.start((request, reply) => {
    reply.writeHead(statuses.shift() ?? 200, { 'content-type': 'application/json' }).end('{"ok":true}');
  });
  stack.catalog = await writeCatalog(stack.dir, { app: {} });
  account = await stack.account('one', { apps: [] });
});
after(async () => {
  await provider?.stop();
  await stack?.stopWell(assert);
});

const serve = (level) =>
  stack.serve({ env: { SLUICE_CATALOG: stack.catalog }, args: [...overrides(provider.url, 'app'), '--log-level', level, '--log-format', 'json'] });
const linesOf = (server) => linesOfLog(server.log);

test('debug has the steps of a request and a line for each call of the app', async () => {
  const server = await serve('debug');
  statuses = [];
  await server.execute(account.key, 'app', 'read', { q: SECRET });
  statuses = [503]; // it is retried, on the existing connection
  const reply = await server.execute(account.key, 'app', 'read', { q: SECRET });
  assert.equal(reply.json.status, 'succeeded', reply.text);
  const calls = await until('three calls are logged', () => {
    const found = linesOf(server).filter((line) => line.msg === 'outbound call');
    return found.length >= 3 && found;
  });
  assert.deepEqual(
    calls.map((line) => [line.level, line.host, line.method, line.status, line.result, line.attempt, line.reused]),
    [
      ['debug', HOST, 'GET', 200, 'ok', 1, false],
      ['debug', HOST, 'GET', 503, 'ok', 1, true],
      ['debug', HOST, 'GET', 200, 'ok', 2, true],
    ],
  );
  for (const line of calls) {
    assert.ok(line.ms > 0 && line.account_id === account.id, JSON.stringify(line));
  }
  const id = calls[2].request_id;
  assert.ok(id);
  const steps = await until('the execution has ended in the log', () => {
    const own = linesOf(server).filter((line) => line.request_id === id && line.msg === 'step' && line.op === 'exec');
    return own.some((line) => line.step === 'answer') && own.map((line) => line.step);
  });
  for (const [before, behind] of [['find_action', 'call'], ['call', 'record'], ['record', 'answer']])
    assert.ok(steps.includes(before) && steps.indexOf(before) < steps.lastIndexOf(behind), steps.join(' '));
  assert.deepEqual(linesOf(server).filter((line) => BACKGROUND.includes(line.op)), []);
  assert.ok(!server.log.includes(SECRET), 'the query is in the log');
  await server.stop();
});

test('trace has the process’s own work, and info has neither', async () => {
  statuses = [];
  const loud = await serve('trace');
  await until('the process logs its own work', () => {
    const background = linesOf(loud).filter((line) => BACKGROUND.includes(line.op));
    assert.ok(background.every((line) => line.level === 'trace'));
    return background.some((line) => line.op === 'node' && line.msg === 'step');
  });
  await loud.stop();
  const quiet = await serve('info');
  const reply = await quiet.execute(account.key, 'app', 'read', { q: SECRET });
  assert.equal(reply.json.status, 'succeeded', reply.text);
  await quiet.stop();
  assert.deepEqual(linesOf(quiet).filter((line) => ['step', 'outbound call'].includes(line.msg)), []);
});
