// `sluice doctor` on a real database and a real provider: what is well, and each fault with what to
// do about it. And `sluice healthcheck` and `sluice top`, of a
// server that runs.
import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

const GMAIL = 'https://gmail.googleapis.com', NOTION = 'https://api.notion.com', TOKENS = 'https://oauth2.googleapis.com';
const SECRET = 'sentinel-of-a-password';
let stack, toProvider;

before(async () => {
  // fsync as an operator has it: Stack.start turns it off
  stack = await Stack.start({ postgres: { fsync: 'on' } });
  const override = (origin, to = stack.provider.url) => ['--origin-override', `${origin}=${to}`];
  toProvider = ['--ca-file', stack.provider.caFile, ...[GMAIL, NOTION, TOKENS].flatMap((origin) => override(origin))];
  await stack.account('Acme');
});
after(() => stack?.stopWell(assert));

const well = ['--public-url', 'https://sluice.example.com', '--connections', '500', '--outbound-connections', '100'];

// {code, stderr, of(check): its findings}
async function doctor(args = [], options = {}) {
  const answer = await stack.sluice(['doctor', '--json', ...well, ...args], options);
  const list = JSON.parse(answer.stdout);
  return { ...answer, list, of: (check) => list.filter((one) => one.check === check) };
}
const results = (list) => list.map((one) => one.result).join(' ');

async function failsWith(check, result, found, todo, args, options) {
  const answer = await doctor(args, options);
  const line = answer.of(check).find((one) => one.result === result);
  assert.ok(line, JSON.stringify(answer.list, null, 1));
  assert.match(line.found, found);
  if (todo) assert.match(line.do, todo);
  else assert.equal(line.do, null);
  assert.equal(answer.code, result === 'fail' ? 1 : 0, answer.stderr);
  if (result === 'fail') assert.match(answer.stderr, /^sluice doctor: \d checks? failed\n$/);
}

test('where all is well it says what it saw, a line a check', async () => {
  const answer = await doctor(toProvider);
  const faults = answer.list.filter((one) => one.result !== 'ok' && one.check !== 'clock'); // a container has no time daemon
  assert.deepEqual([answer.code, answer.stderr, faults], [0, '', []]);
  assert.match(answer.of('database')[0].found, /^PostgreSQL \d+.* user sluice, database sluice$/);
  assert.match(answer.of('schema')[0].found, /^version \d+, this program has \d+$/);
  assert.match(answer.of('trust roots')[0].found, /^1 in .*\.pem$/);
  const apps = answer.of('app').map((one) => one.found);
  assert.deepEqual(apps.map((text) => text.split(' ').slice(0, 2).join(' ')), [`gmail: ${GMAIL}`, `gmail: ${TOKENS}`, `notion: ${NOTION}`]);
  for (const text of apps) assert.match(text, /answers \(\d{3} from 127\.0\.0\.1:\d+, \d+ ms\)$/);
});

test('a terminal has the same as text, and what to do below', async () => {
  const { code, stdout } = await stack.sluice(['doctor', '--offline', ...well, '--public-url', 'http://sluice.example.com']);
  assert.equal(code, 0);
  assert.match(stdout, /^warn  public-url   http:\/\/sluice\.example\.com: .*\n {19}Terminate TLS at the proxy/m);
  assert.match(stdout, /^ok    app          none was called \(--offline\)$/m);
  assert.match(stdout, /\d+ checks are well, [12] warn, 0 failed\n$/);
});

test('settings', async () => {
  await failsWith('public-url', 'warn', /is not set/, /Set public-url/, ['--offline', '--public-url', '']);
  await failsWith('descriptors', 'warn', /connections want/, /LimitNOFILE/, ['--offline', '--connections', '1000000']);
});

test('master keys: none, one that others may read, one that opens nothing', async () => {
  const file = join(stack.dir, 'other.key');
  await writeFile(file, await stack.must(['keys', 'master']));
  await chmod(file, 0o644);
  await failsWith('master-key', 'fail', /others may read/, /nothing stored/, ['--offline', '--master-key-file', file]);
  await chmod(file, 0o600);
  await failsWith('master-key', 'fail', /^\d connections are sealed with key \w+, which is not there$/, /Add that key/, ['--offline', '--master-key-file', file]);
  await failsWith('master-key', 'fail', /SLUICE_MASTER_KEY/, /nothing stored/, ['--offline', '--master-key-file', '']);
});

test('a folder of manifests with a fault', async () => {
  await writeFile(join(stack.dir, 'broken.json'), '[]');
  await failsWith('catalog', 'fail', /broken\.json/, /catalog lint/, ['--offline', '--catalog', stack.dir]);
});

test('the database: not there, settings that lose data, too few connections, no schema, the wrong mode', async () => {
  const offline = (more, options) => ['database', 'fail', ...more, ['--offline'], options];
  await failsWith(...offline([/could not connect|cannot connect|No such file/, undefined], { env: { DATABASE_URL: `host=/nowhere dbname=x password=${SECRET}` } }));
  const one = async (setting, value, mark, found) => {
    await stack.cluster.sql(`alter database sluice set ${setting} = '${value}'`);
    await failsWith('database', mark, found, /.+\.$/, ['--offline']);
    await stack.cluster.sql(`set transaction read write; alter database sluice reset ${setting}`);
  };
  await one('synchronous_commit', 'off', 'fail', /synchronous_commit is off: a crash loses/);
  await one('default_transaction_isolation', 'serializable', 'fail', /default_transaction_isolation is serializable/);
  await one('default_transaction_read_only', 'on', 'fail', /nothing can be stored/);
  await one('idle_session_timeout', '5s', 'warn', /idle_session_timeout is 5s/);
  await failsWith('database', 'fail', /\d+ connections may be open, this server opens 96/, /max_connections/, ['--offline', '--workers', '16']);
  await failsWith('schema', 'fail', /sharded/, undefined, ['--offline', '--database-batch', 'sharded']);
  await stack.cluster.sql('create database empty', 'postgres');
  const url = stack.cluster.url.replace('dbname=sluice', 'dbname=empty');
  await failsWith('schema', 'fail', /sluice migrate/, undefined, ['--offline'], { env: { DATABASE_URL: url } });
});

test('no secret is said', async () => {
  const url = `postgresql://sluice:${SECRET}@127.0.0.1:1/x`;
  const { stdout, stderr } = await doctor(['--offline', '--master-key', SECRET, '--master-key-file', ''], { env: { DATABASE_URL: url } });
  assert.doesNotMatch(stdout + stderr, new RegExp(SECRET));
});

test('the way to an app: nothing listens, an untrusted certificate, an unknown app', async () => {
  const [, caFile] = toProvider;
  const to = (origin, url) => ['--origin-override', `${origin}=${url}`];
  const rest = [NOTION, TOKENS].flatMap((origin) => to(origin, stack.provider.url));
  await failsWith('app', 'fail', /^gmail: .*127\.0\.0\.1/, /firewall/, ['--ca-file', caFile, ...rest, ...to(GMAIL, 'https://127.0.0.1:1')]);
  await failsWith('app', 'fail', /^gmail: .*certificate/, /ca-file/, [...rest, ...to(GMAIL, stack.provider.url)]);
  await failsWith('app', 'fail', /there is no app "gmial"/, /check the name/, [...toProvider, 'gmial']);
  await failsWith('trust roots', 'fail', /nowhere\.pem/, /mended/, ['--ca-file', join(stack.dir, 'nowhere.pem')]);
});

test('healthcheck: a server that is ready, one whose database is away, none', async () => {
  const socket = join(stack.dir, 'health.sock');
  const server = await stack.serve({ args: ['--listen', `unix:${socket}`] });
  const { port } = new URL(server.base);
  const ask = (listen) => stack.sluice(['healthcheck', '--listen', listen]);
  for (const listen of [`127.0.0.1:${port}`, `0.0.0.0:${port}`, `localhost:${port}`, `unix:${socket}`])
    assert.deepEqual(await ask(listen), { code: 0, signal: null, stdout: '', stderr: '' }, listen);
  await stack.cluster.down('immediate');
  const answer = await until('it is not ready', async () => {
    const one = await ask(`127.0.0.1:${port}`);
    return one.code === 1 && one;
  });
  assert.match(answer.stderr, /^sluice healthcheck: HTTP\/1\.1 503 .*\{.*\}\n$/);
  await stack.cluster.up();
  await until('it is ready again', async () => (await ask(`unix:${socket}`)).code === 0);
  await server.stop();
  assert.match((await ask(`127.0.0.1:${port}`)).stderr, /refused/);
  assert.match((await ask(`unix:${join(stack.dir, 'no.sock')}`)).stderr, /No such file/);
  const bad = await ask('nowhere');
  assert.deepEqual([bad.code, bad.stderr], [1, 'sluice healthcheck: there is no port to ask in nowhere\n']);
});

test('top: what a server did between two requests for its metrics', async () => {
  const { key } = await stack.account('Busy', { apps: ['gmail'] });
  const server = await stack.serve();
  const { port } = new URL(server.base);
  const args = ['--listen', `127.0.0.1:${port}`];
  let isOver = false;
  const traffic = (async () => {
    while (!isOver) assert.equal((await server.execute(key, 'gmail', 'list_labels', {})).status, 200);
  })();
  const number = (text, line) => Number(new RegExp(`^${line} +([\\d.]+)`, 'm').exec(text)?.[1]);
  // a slow machine may have done nothing in the time between
  const { stdout } = await until('the app was called between the two', async () => {
    const { code, stdout, stderr } = await stack.sluice(['top', '--once', '--interval', '1500ms', ...args]);
    assert.deepEqual([code, stderr], [0, '']);
    return number(stdout, 'gmail') > 0 && { stdout };
  });
  isOver = true;
  await traffic;
  for (const line of ['requests', 'executions', 'database', 'loop']) assert.ok(number(stdout, line) > 0, stdout);
  assert.match(stdout, /^requests .* p50 [\d.]+ (us|ms|s) {2}p99 [\d.]+ (us|ms|s) {2}connections \d+ {2}refused 0\.0\/s$/m);
  assert.match(stdout, /^gmail .* p95 .* {2}runs p95 \S.* failed 0\.0 %$/m);
  assert.doesNotMatch(stdout, /AWAY/);
  await server.stop();
  const gone = await stack.sluice(['top', ...args]);
  assert.deepEqual([gone.code, gone.stderr], [1, `sluice top: 127.0.0.1:${port}: Connection refused\n`]);
  assert.equal((await stack.sluice(['top', '--interval', '1ms'])).code, 2);
});
