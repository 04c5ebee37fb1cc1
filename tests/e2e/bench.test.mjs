// sluice-bench is correct: its counts match the server's work, an open loop measures latency from
// the time at which each operation was scheduled, and it reports what it cannot do. It runs alone,
// because it times rates.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';
import { startDev } from './support/dev.mjs';
import { until } from './support/client.mjs';
import { Running, makeFolder, removeFolder, run } from './support/process.mjs';

const bench = process.env.SLUICE_BENCH_BIN;
let dev, dir, unanswered;

before(async () => {
  dir = await makeFolder();
  dev = await startDev();
  unanswered = await loadSilent();
});
after(async () => {
  await removeFolder(dir);
  const end = await dev?.stop();
  if (end) assert.deepEqual([end.code, end.signal], [0, null], end.log);
});

const load = (args, env = { SLUICE_KEY: dev.key }) => run(bench, ['--warmup', '0', '--duration', '1', ...args], { env });
const loadDev = (...args) => load(['--base', dev.base, ...args]);

// A scenario of one GET: its file.
async function writeGet(name) {
  const file = join(dir, `${name}.json`);
  await writeFile(file, JSON.stringify({ name, description: 'a GET', steps: [{ method: 'GET', path: '/' }] }));
  return file;
}

// Loads a server that never answers. Takes half a minute, so it runs next to the other tests.
async function loadSilent() {
  const server = createServer(() => {});
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const ended = load(['--base', `http://127.0.0.1:${server.address().port}`, '--scenario', await writeGet('silent'), '--connections', '2']);
  return { end: ended.finally(() => server.close()) };
}

async function figures(end, file) {
  assert.equal(end.code, 0, end.stdout + end.stderr);
  return JSON.parse(await readFile(file));
}

function areInOrder(latency) {
  const names = ['min', 'p50', 'p75', 'p90', 'p95', 'p99', 'p99.9', 'p99.99', 'p100', 'max'];
  const values = names.map((name) => latency[name]);
  for (const [i, value] of values.entries()) assert.ok(i === 0 || value >= values[i - 1], `${names[i]}: ${values}`);
  assert.ok(latency.mean >= latency.min && latency.mean <= latency.max);
}

test('a closed loop counts as many calls as the provider got', async () => {
  const json = join(dir, 'closed.json');
  const before = (await dev.control('GET', '/counters')).writes_total;
  const report = await figures(
    await loadDev('--scenario', 'write', '--connections', '4', '--var', `task_parent=${dev.taskParent.page_id}`, '--json', json),
    json,
  );
  const written = (await dev.control('GET', '/counters')).writes_total - before;
  assert.ok(report.done > 0);
  assert.equal(report.failed, 0);
  // only executions that were in flight at the end may be written and not counted
  const counted = report.done + report.unmeasured;
  assert.ok(written >= counted && written <= counted + 4, `${written} written, ${counted} counted`);
  areInOrder(report.latency_us);
});

test('a mix by weight over two processes, with the server sampled each second', async () => {
  const [json, html] = [join(dir, 'mix.json'), join(dir, 'mix.html')];
  const report = await figures(
    await loadDev('--scenario', 'detail:3,search:1', '--processes', '2', '--duration', '3', '--json', json, '--html', html),
    json,
  );
  const [detail, search] = report.scenarios;
  assert.equal(detail.done + search.done, report.done);
  const share = detail.done / report.done;
  const deviation = Math.sqrt((0.75 * 0.25) / report.done); // the fewer there are, the more it varies
  assert.ok(Math.abs(share - 0.75) < 5 * deviation, `${share} of ${report.done} were the ones of weight 3 of 4`);
  assert.ok(report.seconds.some((one) => one.server_rss_bytes > 0 && one.server_cpu_s > 0));
  const file = await readFile(html, 'utf8');
  const document = { body: {} };
  runInNewContext(/<script>([^]*)<\/script>/.exec(file)[1], { document });
  const page = document.body.innerHTML;
  for (const title of ['Latencies', 'Latency by percentile', 'Throughput', 'Server processor time', 'Server resident memory', "Longest turn of the server's loop ", 'Database commits']) assert.match(page, new RegExp(`<h2>${title}`));
  assert.match(page, /<td>all<\/td>/);
  assert.doesNotMatch(page, /NaN|Infinity|undefined/);
  assert.doesNotMatch(file, /https?:\/\/(?!127\.0\.0\.1)|src=|href=|url\(|import/);
});

test('every scenario that is compiled in runs', async () => {
  const list = (await run(bench, ['--list'])).stdout;
  const names = [...list.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name);
  assert.ok(['read', 'write', 'replay', 'search', 'detail', 'flow', 'approval'].every((name) => names.includes(name)), list);
  const ends = await Promise.all(names.map((name) => loadDev('--scenario', name, '--connections', '2', '--var', `task_parent=${dev.taskParent.page_id}`)));
  for (const [i, end] of ends.entries()) assert.equal(end.code, 0, `${names[i]}: ${end.stdout}${end.stderr}`);
});

test('a run lasts until its first operation has ended, in whichever process', async () => {
  let asked = 0; // only the first is answered
  const server = createServer((request, response) => request.url === '/' && ++asked === 1 && setTimeout(() => response.end('{}'), 1500));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const json = join(dir, 'slow.json');
  const args = ['--base', `http://127.0.0.1:${server.address().port}`, '--scenario', await writeGet('slow'), '--connections', '2', '--processes', '2', '--json', json];
  const report = await figures(await load(args), json);
  server.close();
  assert.equal(report.done, 1, JSON.stringify(report));
  // measuring begins 200 ms after the load, and a process that waited by itself would take over 30 s
  assert.ok(report.measured_s > 1.2 && report.measured_s < 30, `${report.measured_s}`);
  assert.ok(Math.abs(report.per_second - report.done / report.measured_s) < 1e-6, `${report.per_second}`);
});

test('${connection} gives each connection, in every process, an object of its own', async () => {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request.url);
    response.end('{}');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const scenario = join(dir, 'each.json');
  const steps = (path) => [{ method: 'GET', path }];
  await writeFile(scenario, JSON.stringify({ name: 'each', prepare: [...steps('/once'), ...steps('/make/${connection}')], steps: steps('/use/${connection}') }));
  const end = await load(['--base', `http://127.0.0.1:${server.address().port}`, '--scenario', scenario, '--connections', '5', '--processes', '2']);
  server.close();
  assert.equal(end.code, 0, end.stdout + end.stderr);
  const load_ = asked.filter((path) => path !== '/metrics');
  assert.deepEqual(load_.slice(0, 6), ['/once', ...[0, 1, 2, 3, 4].map((i) => `/make/${i}`)]);
  const used = new Set(load_.slice(6));
  assert.deepEqual([...used].sort(), [0, 1, 2, 3, 4].map((i) => `/use/${i}`));
});

test('a replay uses a key of the connection’s own', async () => {
  const before = (await dev.control('GET', '/counters')).requests;
  const end = await loadDev('--scenario', 'replay', '--connections', '7');
  assert.equal(end.code, 0, end.stdout + end.stderr);
  const keys = (await dev.control('GET', '/counters')).requests - before;
  assert.ok(keys <= 7, `${keys} of the provider's calls for 7 keys`);
});

// Answers without delay, except during one stall of `stallMs`.
async function startStaller(stallMs) {
  let asked = 0;
  const server = createServer((request, response) => {
    if (++asked === 100) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stallMs);
    response.end('{}');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  server.unref(); // after a failed test, nothing waits for it
  return { server, base: `http://127.0.0.1:${server.address().port}`, asked: () => asked };
}

test('an open loop counts every request that a stall delayed', async () => {
  const staller = await startStaller(500);
  const json = join(dir, 'open.json');
  const scenario = await writeGet('get');
  const args = ['--base', staller.base, '--scenario', scenario, '--connections', '8', '--rate', '400', '--duration', '2', '--json', json];
  const report = await figures(await load(args), json);
  staller.server.close();
  staller.server.closeAllConnections();
  // 800 requests were scheduled, 200 of them during the stall, with latencies from 500 ms down to
  // 0. A closed loop would have measured only 8 of these.
  assert.ok(report.done >= 780 && report.done <= 801, `${report.done}`);
  assert.ok(report.latency_us.p90 >= 150_000, JSON.stringify(report.latency_us));
  assert.ok(report.latency_us.max >= 450_000, JSON.stringify(report.latency_us));
  assert.ok(staller.asked() >= report.done);
});

test('a server that is stopped for 200 ms is noticed by all requests that were due meanwhile', async () => {
  const json = join(dir, 'stopped.json');
  const answered = async () => {
    const text = await (await fetch(`${dev.base}/metrics`)).text();
    return Number(/^sluice_http_requests_total\{route="\/api\/actions\/\{integration_id\}\/\{action_id\}",method="GET",status="200"\} (\d+)/m.exec(text)?.[1] ?? 0);
  };
  const before = await answered();
  const loading = loadDev('--scenario', 'detail', '--connections', '8', '--rate', '500', '--duration', '3', '--json', json);
  await until('it is under load', async () => (await answered()) > before + 200);
  dev.process.kill('SIGSTOP');
  await pause(200);
  dev.process.kill('SIGCONT');
  const report = await figures(await loading, json);
  // 1,500 requests were scheduled, 100 of them while the server was stopped, with latencies spread
  // evenly from 200 ms down to 0. More than half of these 100, a thirtieth of all requests, took
  // over 80 ms. A closed loop of 8 would have measured only 8 of them, half a percent.
  assert.ok(report.latency_us.p95 < report.latency_us.max);
  assert.ok(report.latency_us.p99 >= 100_000, JSON.stringify(report.latency_us));
  assert.ok(report.latency_us.max >= 190_000, JSON.stringify(report.latency_us));
  assert.equal(report.failed, 0);
});

test('failures are counted and reported', async () => {
  const end = await load(['--base', dev.base, '--scenario', 'read'], { SLUICE_KEY: 'sk_wrong' });
  assert.equal(end.code, 2);
  assert.match(end.stdout, /the first failure: read, step 1: status 401 instead of 200: \{"error":"Missing or invalid API key"\}/);
});

test('a run in which nothing succeeds ends, one whose server stops for a while does not', async () => {
  const began = Date.now();
  const hopeless = await load(['--base', dev.base, '--scenario', 'read', '--duration', '60'], { SLUICE_KEY: 'sk_wrong' });
  assert.equal(hopeless.code, 2);
  assert.match(hopeless.stderr, /nothing succeeded in the first 2 s, so it was ended: read, step 1: status 401/);
  assert.ok(Date.now() - began < 50_000);
  const staller = await startStaller(0);
  const json = join(dir, 'gone.json');
  const scenario = await writeGet('get');
  const loading = load(['--base', staller.base, '--scenario', scenario, '--connections', '4', '--duration', '2', '--json', json]);
  await until('it is under load', () => staller.asked() > 20);
  await pause(700); // the measured time begins 200 ms after the load
  staller.server.close();
  staller.server.closeAllConnections();
  const end = await loading;
  assert.equal(end.code, 2, end.stdout + end.stderr);
  assert.match(end.stdout, /the first failure: get, step 1: the (server closed the connection|connection was reset)/);
  const report = JSON.parse(await readFile(json));
  assert.ok(report.done > 0 && report.failed > 0 && report.failed <= 4 * 21, `${report.done} done, ${report.failed} failed`); // each tries again after 100 ms
});

test('the key on the command line works, and ps does not show it', async () => {
  const args = ['--base', dev.base, '--key', dev.key, '--scenario', 'detail', '--duration', '2', '--warmup', '0'];
  const running = new Running(bench, args, { env: { SLUICE_KEY: '' } });
  await until('the key is accepted', async () => (await readFile(`/proc/${running.pid}/cmdline`, 'utf8')).includes('\0--key\0***'));
  assert.ok(!(await readFile(`/proc/${running.pid}/cmdline`, 'utf8')).includes(dev.key));
  assert.equal((await running.gone).code, 0);
});

test('it reports what it cannot do', async () => {
  const each = { method: 'GET', path: '/${connection}' };
  await writeFile(join(dir, 'capturing.json'), JSON.stringify({ name: 'capturing', prepare: [{ ...each, capture: { id: '/id' } }], steps: [each] }));
  const cases = [
    [['--base', dev.base, '--scenario', 'write'], /--var task_parent=/],
    [['--base', dev.base, '--scenario', 'nothing'], /no scenario nothing: see --list/],
    [['--base', dev.base, '--scenario', join(dir, 'absent.json')], /No such file/],
    [['--base', dev.base, '--scenario', join(dir, 'capturing.json')], /captures nothing from a request that names \$\{connection\}/],
    [['--base', 'http://127.0.0.1:1'], /refused/],
    [['--base', `${dev.base}/path`], /without a path/],
    [['--base', dev.base, '--rate', 'fast'], /--rate/],
    [['--base', dev.base, '--rate', '0'], /--rate is above 0/],
    [['--base', dev.base, '--scenario', 'read:much'], /a weight is a number from 1 to 1000: read:much/],
    [['--base', dev.base, '--scenario', 'read:0,detail'], /a weight is a number/],
    [['--base', dev.base, '--json', join(dir, 'no/such/folder')], /No such file/],
    [['--base', dev.base, '--html', dir], /Is a directory/],
    [['--base', dev.base, '--connections', '0'], /--connections/],
    [[], /--base is needed/],
    [['--colour', 'red'], /--colour is not an option/],
  ];
  for (const [args, says] of cases) {
    const end = await load(args);
    assert.equal(end.code, 1, args.join(' '));
    assert.match(end.stderr, says);
  }
  const end = await load(['--base', dev.base], { SLUICE_KEY: '' });
  assert.match(end.stderr, /no API key/);
});

test('a run that ends without any answer says so', async () => {
  const end = await unanswered.end;
  assert.equal(end.code, 2, end.stdout + end.stderr);
  assert.match(end.stdout, /silent: 0 a second \(0 in 3\d\.\d s\), 0 failed/);
});
