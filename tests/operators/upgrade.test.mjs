// An upgrade: the previous version keeps running next to the current version, on the schema of the
// current `sluice migrate`. Both serve one load, each reads what the other did, and each adopts the
// other's flows if the other dies.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hold, until } from '../e2e/support/client.mjs';
import { Mixed } from '../e2e/support/mixed.mjs';
import { must } from '../e2e/support/process.mjs';
import { Stack } from '../e2e/support/stack.mjs';

const WRITES = 200;
const script = new URL('support/before.sh', import.meta.url).pathname;
const former = (await must(script, [])).trim();
const skip = former ? false : 'the previous version’s commit is not in this clone';

let stack, account;
before(async () => {
  if (!former) return;
  stack = await Stack.start({ postgres: { max_connections: 100 } });
  account = await stack.account('upgrade');
});
after(() => stack?.stopWell(assert));

const view = async (server, id) => (await server.call(account.key, 'GET', `/api/flows/${id}`)).json;

test('both serve one load, and each stores what the other reads', { skip }, async (t) => {
  const mixed = await Mixed.start(stack, { accounts: 4, clients: 8, bins: [former, undefined] });
  mixed.begin();
  await mixed.progress(WRITES);
  await mixed.end();
  const { unknown } = await mixed.check();
  assert.equal(unknown, 0);
  t.diagnostic(`figure: ${mixed.writes.size} writes, ${mixed.flows.size} flows on both versions`);
  for (const server of mixed.servers) {
    const end = await server.stop();
    assert.deepEqual([end.code, end.signal], [0, null], server.log.slice(-3000));
    stack.forget(server);
  }
});

test('a key that one version has run is answered by the other', { skip }, async () => {
  const servers = [await stack.serve({ bin: former }), await stack.serve()];
  for (const [first, second] of [servers, servers.toReversed()]) {
    const key = `upgrade ${servers.indexOf(first)}`;
    const send = (server) => server.execute(account.key, 'probe', 'send', { subject: key }, { confirm: true, idempotency_key: key });
    const done = await send(first);
    assert.equal(done.status, 200, done.text);
    const again = await send(second);
    assert.equal(again.status, 200, again.text);
    assert.equal(again.json.execution_id, done.json.execution_id);
    assert.equal((await stack.provider.ledger()).filter((entry) => entry.marker === key).length, 1);
  }
  for (const server of servers) {
    await server.stop();
    stack.forget(server);
  }
});

for (const [name, dies] of [['today’s version adopts flows of the previous one', true], ['the previous version adopts flows of today’s', false]])
  test(name, { skip }, async () => {
    const dying = await stack.serve({ bin: dies ? former : undefined });
    const heir = await stack.serve({ bin: dies ? undefined : former });
    const subject = `adopted ${dies}`;
    const held = await hold(stack.provider, { path_prefix: '/sleep/' });
    const started = await dying.call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'probe_slow', input: { ms: 1, subject, confirm: true } });
    assert.equal(started.status, 200, started.text);
    await held.reached(1);
    await dying.stop('SIGKILL');
    stack.forget(dying);
    await held.letGo();
    const flow = await until('the flow has ended', async () => {
      const now = (await view(heir, started.json.flowId)).flow;
      return ['completed', 'failed'].includes(now?.status) && now;
    });
    assert.equal(flow.status, 'completed', JSON.stringify(flow));
    assert.equal((await stack.provider.ledger()).filter((entry) => entry.marker === subject).length, 1);
    await heir.stop();
    stack.forget(heir);
  });
