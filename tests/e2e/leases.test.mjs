// Limits across processes (src/limit/README.md): two nodes with two workers each share one
// account's rate and a connection's limits. Calls are counted per second of the database's clock,
// so the test passes on a machine of any speed.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { pause, until } from './support/client.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const [RATE, BURST] = [40, 60]; // requests of an account
const WORKERS = 2;
const CAP = 3; // concurrent calls of a connection
const PACE = { rate_per_s: 10, burst: 6 };
const VOLUME = 10; // calls before a circuit may open

let stack, provider, nodes, fails;

before(async () => {
  stack = await Stack.start({ provider: false });
  fails = false;
  provider = await Scripted.start((request, reply, url) => {
    const answer = () => reply.writeHead(fails ? 500 : 200, { 'content-type': 'application/json' }).end('{"ok":true}');
    setTimeout(answer, url.pathname === '/slow' ? 1 + 40 * Math.random() : 0);
  });
  stack.catalog = await writeCatalog(stack.dir, {
    capped: { limits: { in_flight_max: CAP }, actions: { slow: {} } },
    paced: { limits: PACE },
    shaky: {},
  });
  nodes = await Promise.all([serve(), serve()]);
});
after(async () => {
  await provider?.stop();
  await stack?.stopWell(assert);
});

const serve = () =>
  stack.serve({
    env: { SLUICE_CATALOG: stack.catalog, SLUICE_CONNECTION_LIMITS: 'on' },
    args: [...overrides(provider.url, 'capped', 'paced', 'shaky'), '--workers', String(WORKERS), '--limit-wait', '60s',
      '--account-rate', String(RATE), '--account-burst', String(BURST), '--circuit-volume', String(VOLUME), '--circuit-open', '1m'],
  });
const ask = async (sql) => JSON.parse(await stack.cluster.sql(sql));
const seconds = () => ask('select extract(epoch from clock_timestamp())');
// The parts of a limit that processes hold at the moment.
const held = (account, name) =>
  ask(`select coalesce((select json_build_object('total', total, 'parts', (select json_agg(u.part) from unnest(parts, ends) u (part, until)
    where u.until > now())) from sluice.rate_lease where account_id = '${account.id}' and name like '${name}%'), '{}')`);

// One connection, which one worker of the node accepts, so its requests reach only that process. If
// it is opened again after each refusal, it reaches every process in the end. On a busy machine,
// one worker may accept all connections that are opened together.
class Line {
  constructor(node, { isRenewed = false } = {}) {
    this.node = node;
    this.isRenewed = isRenewed;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  }
  call(key, method, path, body) {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const request = http.request(this.node.base + path, { method, headers, agent: this.agent }, (reply) => {
        let text = '';
        reply.on('data', (part) => (text += part)).on('end', () => resolve({ status: reply.statusCode, headers: reply.headers, text }));
      });
      request.on('error', reject).end(body && JSON.stringify(body));
    });
  }
  end() {
    this.agent.destroy();
  }
}

// Sends requests on these connections, each as soon as the previous one is answered, until `enough`
// returns true. Returns the number of served requests.
async function load(lines, account, enough) {
  const count = { served: 0, refused: 0 };
  let isOver = false;
  const all = lines.map(async (line) => {
    while (!isOver) {
      const reply = await line.call(account.key, 'GET', '/api/integrations');
      assert.ok(reply.status === 200 || reply.status === 429, reply.text);
      if (reply.status === 200) count.served++;
      else {
        count.refused++;
        assert.ok(Number(reply.headers['retry-after']) >= 1);
        if (line.isRenewed) line.end();
        await pause(line.isRenewed ? 20 : 5);
      }
    }
  });
  const ended = Promise.all(all);
  await Promise.race([until('enough were served', () => enough(count)), ended]);
  isOver = true;
  await ended;
  return count;
}

const linesTo = (node, count, options) => Array.from({ length: count }, () => new Line(node, options));

test('an account that all processes serve has one rate, not one for each process', async () => {
  const account = await stack.account('spread', { apps: [] });
  const lines = nodes.flatMap((node) => linesTo(node, 8, { isRenewed: true }));
  const began = await seconds();
  let most = 0;
  const count = await load(lines, account, async ({ served }) => {
    const { total, parts } = await held(account, 'requests');
    const sum = (parts ?? []).reduce((a, b) => a + b, 0);
    assert.ok(sum <= (total ?? 0), `${parts} of ${total}`);
    most = Math.max(most, parts?.length ?? 0);
    return served >= BURST + 5 * RATE && most === 2 * WORKERS;
  });
  const took = (await seconds()) - began;
  lines.forEach((line) => line.end());
  assert.ok(count.served <= BURST + RATE * took, `${count.served} in ${took} s`);
  assert.ok(count.refused > 0);
});

test('one process with all of the load gets all of the rate', async () => {
  const account = await stack.account('one', { apps: [] });
  const both = nodes.map((node) => new Line(node));
  await load(both, account, async () => (await held(account, 'requests')).parts?.length === 2);
  both[1].end();
  const began = await seconds();
  const isWhole = async () => {
    const { total, parts } = await held(account, 'requests');
    return parts?.length === 1 && parts[0] === total;
  };
  let from;
  const count = await load([both[0]], account, async ({ served }) => {
    if (!from && (await isWhole())) from = { served, at: await seconds() };
    return from && served >= from.served + 5 * RATE;
  });
  const end = await seconds();
  assert.ok(count.served <= BURST + RATE * (end - began), `${count.served} in ${end - began} s`);
  const [got, due] = [count.served - from.served, RATE * (end - from.at)];
  // While this machine is paused, a burst accumulates. A part is renewed twice a second.
  assert.ok(got >= due - BURST - RATE, `${got} of ${due}`);
  both[0].end();
});

test('a connection\'s cap and pace apply to all processes together', async () => {
  const account = await stack.account('connection', { apps: [] });
  const run = (line, integration_id, action_id) => line.call(account.key, 'POST', '/api/executions', { integration_id, action_id, input: {} });
  // Stays within the account's own burst and rate: requests that these refuse are sent again.
  const runAll = async (app, action, count, rest = 0) => {
    const lines = nodes.flatMap((node) => linesTo(node, 6));
    let left = count;
    await Promise.all(
      lines.map(async (line) => {
        while (left-- > 0) {
          let reply;
          do reply = await run(line, app, action);
          while (reply.status === 429 && (await pause(20)) === undefined);
          assert.equal(reply.status, 200, reply.text);
          if (rest) await pause(rest * Math.random());
        }
      }),
    );
    lines.forEach((line) => line.end());
  };
  // A session that locks the row now and then makes every request for a part take long, and a
  // process may begin calls while one is under way.
  const { table, node } = await stack.cluster.shardOf('rate_lease', account.id);
  const slow = stack.cluster.psql(
    `do $$ begin for i in 1..100 loop
      perform from sluice.${table} where account_id = '${account.id}' for update; perform pg_sleep(0.04); commit;
    end loop; end $$`,
    'sluice',
    node,
  );
  provider.most = 0;
  await runAll('capped', 'slow', 200, 400);
  assert.ok(provider.most <= CAP && provider.most > 1, `${provider.most} at the same time`);
  assert.equal((await slow).code, 0);
  const began = await seconds();
  await runAll('paced', 'read', 50);
  const took = (await seconds()) - began;
  assert.ok(50 <= PACE.burst + PACE.rate_per_s * took, `50 in ${took} s`);
});

test('while the database does not answer, a process continues with its last part', async () => {
  const account = await stack.account('away', { apps: [] });
  const line = new Line(nodes[0]);
  await load([line], account, async () => (await held(account, 'requests')).parts?.[0] === RATE * 1e6);
  const { table, node } = await stack.cluster.shardOf('rate_lease', account.id);
  const lock = stack.cluster.psql(`begin; lock table sluice.${table}; select pg_sleep(3600)`, 'sluice', node);
  const there = async (sql) => JSON.parse(await stack.cluster.sql(sql, 'sluice', node));
  const locker = () => there(`select coalesce(max(pid), 0) from pg_locks where mode = 'AccessExclusiveLock' and granted
    and relation = 'sluice.${table}'::regclass`);
  await until('the table is locked', async () => (await locker()) > 0);
  const began = await seconds();
  const isTold = () => /parts of limits could not be requested/.test(nodes[0].log);
  const count = await load([line], account, ({ served }) => served >= BURST + 4 * RATE && isTold());
  const took = (await seconds()) - began;
  assert.ok(count.served <= BURST + RATE * took, `${count.served} in ${took} s`);
  await there(`select pg_terminate_backend(${await locker()})::text`);
  assert.notEqual((await lock).code, 0);
  await load([line], account, async () => (await held(account, 'requests')).parts?.length === 1); // the database is back
  line.end();
});

test('a circuit that one process opens is open in all', async () => {
  const account = await stack.account('circuit', { apps: [] });
  const run = (line) => line.call(account.key, 'POST', '/api/executions', { integration_id: 'shaky', action_id: 'read', input: {} });
  const one = new Line(nodes[0]);
  fails = true;
  await until('it opens', async () => JSON.parse((await run(one)).text).status === 'blocked');
  fails = false;
  // No other process has had a failed call.
  for (const line of nodes.flatMap((node) => linesTo(node, 6))) {
    await until('the others are notified', async () => JSON.parse((await run(line)).text).status === 'blocked');
    line.end();
  }
  one.end();
});
