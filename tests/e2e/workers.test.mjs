// `sluice serve --workers N`: processes with one parent that share the listening sockets, and a
// hand-over to a successor that no client notices.
import assert from 'node:assert/strict';
import { copyFile, readFile, readdir, rename, writeFile, chmod } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { freePort, run } from './support/process.mjs';
import { Stack, sluiceBin } from './support/stack.mjs';

const bench = process.env.SLUICE_BENCH_BIN;
const WORKERS = 2;
let stack, account;

before(async () => {
  stack = await Stack.start({ catalog: false });
  account = await stack.account('workers', { apps: ['gmail'] });
});
after(async () => {
  await stack?.stopWell(assert);
});

const serve = (more = {}) => stack.serve({ ...more, env: { SLUICE_DRAIN_GRACE: '500ms' }, args: ['--workers', String(WORKERS), ...(more.args ?? [])] });

// The processes whose parent is pid.
async function children(pid) {
  const found = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '');
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (Number(parent) === pid && state !== 'Z') found.push(Number(name));
  }
  return found.sort((a, b) => a - b);
}
const freePair = () => freePort(1);

const workersOf = (server) => children(server.process.pid);
const ends = async (server) => {
  const end = await server.stop();
  stack.forget(server);
  assert.deepEqual([end.code, end.signal], [0, null], server.log.slice(-20000));
};

// Runs a load while `fn` does something to the server: every request must succeed.
async function loadWhile(server, args, fn) {
  const load = run(bench, ['--base', server.base, '--duration', '6', '--warmup', '0', ...args], { env: { SLUICE_KEY: account.key } });
  await fn();
  const end = await load;
  assert.equal(end.code, 0, end.stdout + end.stderr + server.log.slice(-5000));
  assert.match(end.stdout, / 0 failed/);
}

test('all configured workers answer, each with metrics of its own', async () => {
  const port = await freePair();
  const server = await serve({ args: ['--metrics-listen', `127.0.0.1:${port}`] });
  const pids = await workersOf(server);
  assert.equal(pids.length, WORKERS);
  const counts = async () => {
    const texts = await Promise.all([0, 1].map(async (i) => (await fetch(`http://127.0.0.1:${port + i}/metrics`)).text()));
    return texts.map((text) => Number(/^sluice_http_requests_total\{[^}]*list_labels|^sluice_http_connections (\d+)/m.exec(text)?.[1] ?? 0));
  };
  assert.equal((await counts()).length, WORKERS);
  const reply = await server.execute(account.key, 'gmail', 'list_labels', {});
  assert.equal(reply.status, 200);
  await ends(server);
  for (const pid of pids) assert.ok(!(await readdir('/proc')).includes(String(pid)), 'no worker is left');
});

test('connections are distributed, also those of one burst and to a restarted worker', async () => {
  const port = await freePair();
  const server = await serve({ args: ['--metrics-listen', `127.0.0.1:${port}`] });
  const sockets = [];
  const open = async (count) => {
    for (let i = 0; i < count; i++) sockets.push(connect(server.port, '127.0.0.1').on('error', () => {}));
    await until('all are accepted', async () => (await counts()).reduce((sum, one) => sum + one, 0) >= sockets.length);
  };
  const counts = () =>
    Promise.all([0, 1].map(async (i) => {
      const reply = await fetch(`http://127.0.0.1:${port + i}/metrics`).catch(() => null); // while it starts
      return Number(/^sluice_http_connections (\d+)/m.exec((await reply?.text()) ?? '')?.[1] ?? -1);
    }));
  // A worker that this machine pauses for a while gets no connections. That is rare, so it does not
  // happen in five rounds.
  async function areShared() {
    const least = [];
    while (least.length < 5 && !(least.at(-1) >= 60 / 3)) {
      await open(60);
      least.push(Math.min(...(await counts())));
      sockets.splice(0).forEach((socket) => socket.destroy());
      await until('none is left', async () => (await counts()).every((one) => one >= 0 && one <= 2));
    }
    assert.ok(least.at(-1) >= 60 / 3, `${least} of 60`);
  }
  await areShared();
  const [victim] = await workersOf(server);
  process.kill(victim, 'SIGKILL');
  await until('the victim has exited', async () => !(await workersOf(server)).includes(victim));
  await until('both answer', async () => (await counts()).every((one) => one >= 0));
  await areShared();
  await ends(server);
});

test('a worker that is killed is restarted, and the others continue', async () => {
  const server = await serve();
  const [victim, other] = await workersOf(server);
  process.kill(victim, 'SIGKILL');
  await until('another worker is there', async () => {
    const now = await workersOf(server);
    return now.length === WORKERS && !now.includes(victim) && now.includes(other);
  });
  assert.equal((await server.execute(account.key, 'gmail', 'list_labels', {})).status, 200);
  await ends(server);
});

for (const [how, args] of [
  ['a closed loop', ['--scenario', 'read:1,detail:3', '--connections', '8']],
  ['an open loop with idle connections', ['--scenario', 'detail', '--rate', '100', '--connections', '20']],
])
  test(`SIGUSR2 hands over and no request of ${how} fails`, async () => {
    const server = await serve();
    await loadWhile(server, args, async () => {
      for (let i = 0; i < 2; i++) {
        const before = await workersOf(server);
        server.process.kill('SIGUSR2');
        await until('all workers are new', async () => {
          const now = await workersOf(server);
          return now.length === WORKERS && now.every((pid) => !before.includes(pid));
        });
      }
    });
    await ends(server);
  });

test('if a successor does not start, the old workers stay', async () => {
  const program = join(stack.dir, 'sluice-copy');
  await copyFile(sluiceBin, program);
  const server = await serve({ bin: program });
  const before = await workersOf(server);
  await writeFile(`${program}.new`, '#!/bin/sh\nexit 3\n');
  await chmod(`${program}.new`, 0o755);
  await rename(`${program}.new`, program);
  server.process.kill('SIGUSR2');
  await until('it is logged', () => server.log.includes('the successor did not become ready'));
  await until('only the old ones are left', async () => (await workersOf(server)).length === WORKERS);
  assert.deepEqual(await workersOf(server), before);
  assert.equal((await server.execute(account.key, 'gmail', 'list_labels', {})).status, 200);
  await ends(server);
});

test('SIGHUP reaches every worker', async () => {
  const server = await serve();
  server.process.kill('SIGHUP');
  await until('all have reloaded it', () => server.log.split('catalog').length > WORKERS && (server.log.match(/SIGHUP/g) ?? []).length >= WORKERS);
  await ends(server);
});

test('workers that cannot start end the parent with their reason', async () => {
  const end = await stack.sluice(['serve', '--workers', '2', '--listen', '127.0.0.1:0', '--database-url', 'host=/nowhere dbname=x']);
  assert.equal(end.code, 1);
  assert.match(end.stderr, /a worker failed/);
});
