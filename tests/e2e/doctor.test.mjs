// `sluice doctor` with a real database and a real provider: it reports what works, and each fault
// with advice. Also `sluice healthcheck` and `sluice top` for a running server.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pause, until } from './support/client.mjs';
import { Running, freePort } from './support/process.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const GMAIL = 'https://gmail.googleapis.com', NOTION = 'https://api.notion.com', TOKENS = 'https://oauth2.googleapis.com';
const SECRET = 'sentinel-of-a-password';
let stack, toProvider;

before(async () => {
  // fsync as operators have it: Stack.start turns it off
  stack = await Stack.start({ catalog: false, postgres: { fsync: 'on' } });
  const override = (origin, to = stack.provider.url) => ['--origin-override', `${origin}=${to}`];
  toProvider = ['--ca-file', stack.provider.caFile, ...[GMAIL, NOTION, TOKENS].flatMap((origin) => override(origin))];
  await stack.account('Acme');
});
after(() => stack?.stopWell(assert));

const well = ['--public-url', 'https://sluice.example.com', '--connections', '500', '--outbound-connections', '100'];

// Runs the doctor: {code, stderr, list, of(check): the findings of a check}
async function doctor(args = [], options = {}) {
  const answer = await stack.sluice(['doctor', '--json', ...well, ...args], options);
  const list = JSON.parse(answer.stdout);
  // each fault has a sentence of advice
  for (const one of list) assert.ok(one.result === 'ok' ? one.do === null : /^[A-Z`].*[.?]$/s.test(one.do), JSON.stringify(one));
  return { ...answer, list, of: (check) => list.filter((one) => one.check === check) };
}
const results = (list) => list.map((one) => one.result).join(' ');

async function failsWith(check, result, found, todo, args, options) {
  const answer = await doctor(args, options);
  const line = answer.of(check).find((one) => one.result === result);
  assert.ok(line, JSON.stringify(answer.list, null, 1));
  assert.match(line.found, found);
  assert.match(line.do, todo);
  assert.equal(answer.code, result === 'fail' ? 1 : 0, answer.stderr);
  if (result === 'fail') assert.match(answer.stderr, /^sluice doctor: \d checks? failed\n$/);
}

test('if all is well, it says what it found, a line for each check', async () => {
  const answer = await doctor(toProvider);
  const faults = answer.list.filter((one) => one.result !== 'ok' && one.check !== 'clock'); // a container has no time daemon
  assert.deepEqual([answer.code, answer.stderr, faults], [0, '', []]);
  assert.match(answer.of('database')[0].found, /^PostgreSQL \d+.* user sluice, database sluice$/);
  assert.match(answer.of('schema')[0].found, /^version \d+, and this program has \d+$/);
  assert.match(answer.of('trust roots')[0].found, /^1 in .*\.pem$/);
  assert.match(answer.of('key file')[0].found, /others may not read .*master.*key.* \(0600\)$/);
  assert.match(answer.of('dns')[0].found, /^0 names resolved in \d+ ms$/); // all of them are overridden
  const apps = answer.of('app').map((one) => one.found);
  assert.deepEqual(apps.map((text) => text.split(' ').slice(0, 2).join(' ')), [`gmail: ${GMAIL}`, `gmail: ${TOKENS}`, `notion: ${NOTION}`]);
  for (const text of apps) assert.match(text, /answers \(\d{3} from 127\.0\.0\.1:\d+, \d+ ms\)$/);
});

test('a terminal gets the same as text, with the advice below', async () => {
  const { code, stdout } = await stack.sluice(['doctor', '--offline', ...well, '--public-url', 'http://sluice.example.com']);
  assert.equal(code, 0);
  assert.match(stdout, /^warn  public-url   http:\/\/sluice\.example\.com: .*\n {19}Terminate TLS at the proxy/m);
  assert.match(stdout, /^ok    app          no app was called and no name was resolved \(--offline\)$/m);
  assert.match(stdout, /\d+ checks passed, [12] warned, 0 failed\n$/);
});

test('settings', async () => {
  await failsWith('public-url', 'warn', /is not set/, /Set public-url/, ['--offline', '--public-url', '']);
  await failsWith('descriptors', 'warn', /connections need/, /LimitNOFILE/, ['--offline', '--connections', '1000000']);
});

test('master keys: none, one that others may read, one that opens nothing', async () => {
  const file = join(stack.dir, 'other.key');
  await writeFile(file, await stack.must(['keys', 'master']));
  await chmod(file, 0o644);
  await failsWith('key file', 'fail', /others may read .*other\.key: its mode is 0644$/, /^Run chmod 600 .*other\.key\.$/, ['--offline', '--master-key-file', file]);
  await failsWith('master-key', 'fail', /others may read/, /Correct its file/, ['--offline', '--master-key-file', file]);
  await failsWith('key file', 'fail', /nowhere\.key: No such file/, /^Put the file there/, ['--offline', '--master-key-file', join(stack.dir, 'nowhere.key')]);
  await chmod(file, 0o600);
  // the account's two, and one of an end user
  await stack.cluster.sql(`insert into sluice.connection (account_id, id, integration_id, label, is_default, auth_kind, sealed, key_id, params, status, rev, op_token, created_at, updated_at, parent_id)
    select gen_random_uuid(), id, 'gmail', label, is_default, auth_kind, sealed, key_id, params, status, rev, op_token, created_at, updated_at, account_id from sluice.connection where integration_id = 'gmail'`);
  await failsWith('master-key', 'fail', /^3 credentials are sealed with key \w+, which is missing$/, /Add that key/, ['--offline', '--master-key-file', file]);
  await stack.cluster.sql('delete from sluice.connection where parent_id is not null');
  await failsWith('master-key', 'fail', /SLUICE_MASTER_KEY/, /nothing is stored yet/, ['--offline', '--master-key-file', '']);
});

test('headers for the receiver of traces that others may read', async () => {
  const file = join(stack.dir, 'trace.headers');
  await writeFile(file, 'Authorization: Bearer x\n', { mode: 0o644 });
  await failsWith('key file', 'fail', /others may read .*trace\.headers/, /^Run chmod o= /, ['--offline', '--trace-headers-file', file]);
  await chmod(file, 0o640);
  assert.equal((await doctor(['--offline', '--trace-headers-file', file])).of('key file').length, 2);
});

test('a folder of manifests with a fault', async () => {
  await writeFile(join(stack.dir, 'broken.json'), '[]');
  await failsWith('catalog', 'fail', /broken\.json/, /catalog lint/, ['--offline', '--catalog', stack.dir]);
});

test('the database: unreachable, settings that lose data, too few connections, no schema, the wrong mode', async () => {
  const offline = (more, options) => ['database', 'fail', ...more, ['--offline'], options];
  await failsWith(...offline([/could not connect|cannot connect|No such file/, /Check whether it runs/], { env: { DATABASE_URL: `host=/nowhere dbname=x password=${SECRET}` } }));
  const one = async (setting, value, mark, found) => {
    await stack.cluster.sql(`alter database sluice set ${setting} = '${value}'`);
    await failsWith('database', mark, found, /.+\.$/, ['--offline']);
    await stack.cluster.sql(`set transaction read write; alter database sluice reset ${setting}`);
  };
  await one('synchronous_commit', 'off', 'fail', /synchronous_commit is off: a crash can lose results/);
  await one('default_transaction_isolation', 'serializable', 'fail', /default_transaction_isolation is serializable/);
  await one('default_transaction_read_only', 'on', 'fail', /nothing can be stored/);
  await one('idle_session_timeout', '5s', 'warn', /idle_session_timeout is 5s/);
  await failsWith('database', 'fail', /\d+ connections may be open, and this server opens 96/, /max_connections/, ['--offline', '--workers', '16']);
  await failsWith('schema', 'fail', /sharded/, /Set database-batch/, ['--offline', '--database-batch', 'sharded']);
  await stack.cluster.sql('create database empty', 'postgres');
  const url = stack.cluster.url.replace('dbname=sluice', 'dbname=empty');
  await failsWith('schema', 'fail', /sluice migrate/, /sluice migrate/, ['--offline'], { env: { DATABASE_URL: url } });
});

test('no secret is printed', async () => {
  const url = `postgresql://sluice:${SECRET}@127.0.0.1:1/x`;
  const { stdout, stderr } = await doctor(['--offline', '--master-key', SECRET, '--master-key-file', ''], { env: { DATABASE_URL: url } });
  assert.doesNotMatch(stdout + stderr, new RegExp(SECRET));
});

test('names: one that does not resolve, and that of an app without a connection', async () => {
  const [, caFile] = toProvider;
  // the first app in the order of ids
  const catalog = await writeCatalog(join(stack.dir, 'unresolved'), { a: { base_url: 'https://a.invalid', actions: { read: {} } } });
  const args = ['dns', 'fail', /a\.invalid/, /resolv\.conf/];
  await failsWith(...args, [...toProvider, '--catalog', catalog, 'a']);
  await stack.cluster.sql('create database fresh', 'postgres');
  const env = { DATABASE_URL: stack.cluster.url.replace('dbname=sluice', 'dbname=fresh') };
  await stack.must(['migrate'], { env });
  await failsWith(...args, ['--ca-file', caFile, '--catalog', catalog], { env });
  const { of } = await doctor(['--ca-file', caFile, '--catalog', catalog], { env });
  assert.match(of('app')[0].found, /^no app is connected/);
});

test('the way to an app: nothing listens, an untrusted certificate, an unknown app', async () => {
  const [, caFile] = toProvider;
  const to = (origin, url) => ['--origin-override', `${origin}=${url}`];
  const rest = [NOTION, TOKENS].flatMap((origin) => to(origin, stack.provider.url));
  await failsWith('app', 'fail', /^gmail: .*127\.0\.0\.1/, /firewall/, ['--ca-file', caFile, ...rest, ...to(GMAIL, 'https://127.0.0.1:1')]);
  await failsWith('app', 'fail', /^gmail: .*certificate/, /ca-file/, [...rest, ...to(GMAIL, stack.provider.url)]);
  await failsWith('app', 'fail', /there is no app "gmial"/, /check the name/, [...toProvider, 'gmial']);
  await failsWith('trust roots', 'fail', /nowhere\.pem/, /^Correct that setting/, ['--ca-file', join(stack.dir, 'nowhere.pem')]);
});

test('healthcheck: a server that is ready, one whose database is unreachable, none', async () => {
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
  assert.deepEqual([bad.code, bad.stderr], [1, 'sluice healthcheck: nowhere has no port to connect to\n']);
});

test('top shows what a server did between two requests for its metrics', async () => {
  const { key } = await stack.account('Busy', { apps: ['gmail'] });
  const server = await stack.serve();
  const { port } = new URL(server.base);
  const args = ['--listen', `127.0.0.1:${port}`];
  let isOver = false;
  const traffic = (async () => {
    while (!isOver) assert.equal((await server.execute(key, 'gmail', 'list_labels', {})).status, 200);
  })();
  const number = (text, line) => Number(new RegExp(`^${line} +([\\d.]+)`, 'm').exec(text)?.[1]);
  // on a slow machine, no call may fall between the two samples
  const { stdout } = await until('the app was called between the two', async () => {
    const { code, stdout, stderr } = await stack.sluice(['top', '--once', '--interval', '1500ms', ...args]);
    assert.deepEqual([code, stderr], [0, '']);
    return number(stdout, 'gmail') > 0 && { stdout };
  });
  isOver = true;
  await traffic;
  const lines = {
    'requests': /connections \d+, refused 0\.0\/s$/, 'executions': /in flight \d+, wait for limits 0$/, 'calls to apps': /busy \d+, idle \d+, waiting 0$/,
    'flow transitions': /flows running 0$/, 'waiting flows': /  0 wait, 0 due in a minute$/, 'database queries': /commits [\d.]+\/s, waiting \d+$/, 'loop': /longest [\d.]+ ms, memory \d+ MB$/,
  };
  for (const [name, rest] of Object.entries(lines)) {
    const line = stdout.split('\n').find((one) => one.startsWith(`${name} `));
    assert.match(line, rest, stdout);
    const isIdle = name.includes('flow');
    assert.equal(number(stdout, name) > 0, !isIdle, line);
    assert.match(line.slice(27, 47), isIdle ? /^ {9}- {9}-$/ : /^( +[\d.]+ (us|ms|s)){2}$/, line);
    assert.ok(line.length <= 80, line);
  }
  assert.match(stdout, /^gmail +[\d.]+( +[\d.]+ (us|ms|s)){3} +0\.0 %$/m);
  await server.stop();
  const gone = await stack.sluice(['top', ...args]);
  assert.deepEqual([gone.code, gone.stderr], [1, `sluice top: 127.0.0.1:${port}: Connection refused\n`]);
  assert.equal((await stack.sluice(['top', '--interval', '1ms'])).code, 2);
});

test('top lists the slowest apps first, shows an origin whose circuit is open, and survives a restart of the server', { skip: existsSync('/usr/bin/script') ? false : 'script is not installed' }, async (t) => {
  const slow = await Scripted.start((request, reply) => {
    const answer = () => reply.writeHead(request.url.startsWith('/down') ? 503 : 200, { 'Content-Type': 'application/json' }).end('{}');
    setTimeout(answer, request.url.startsWith('/slow') ? 300 : 0);
  });
  t.after(() => slow.stop());
  const catalog = await writeCatalog(stack.dir, Object.fromEntries(['quick', 'slow', 'down'].map((id) => [id, { actions: { [id]: {} } }])));
  const port = await freePort(2);
  const metrics = `127.0.0.1:${port}`;
  const start = () => stack.serve({
    env: { SLUICE_CATALOG: catalog },
    args: ['--workers', '2', '--metrics-listen', metrics, '--circuit-volume', '2', '--circuit-accounts', '1', ...['quick', 'slow', 'down'].flatMap((id) => overrides(slow.url, id))],
  });
  const { key } = await stack.account('Three', { apps: [] });
  let server = await start();
  let isOver = false;
  const run = async (id) => {
    while (!isOver) {
      await server.execute(key, id, id, {}).catch(() => {});
      await pause(10);
    }
  };
  const traffic = ['quick', 'slow', 'down'].map(run);
  const top = new Running('/usr/bin/script', ['-qec', `${process.env.SLUICE_BIN} top --interval 500ms --workers 2 --metrics-listen ${metrics}`, '/dev/null'], { env: stack.env });
  const screen = () => top.log.split('\x1b[H\x1b[J').at(-1).replaceAll('\r', '');
  const shows = (what, ...patterns) => until(what, () => top.check() || patterns.every((one) => one.test(screen())));
  try {
    await shows('the slowest first', new RegExp(`^sluice on ${metrics}, 2 workers, the last [\\d.]+ s$`, 'm'), /^slow +[\d.]+ .*ms[^]*^quick +[\d.]+ .*0\.0 %$/m);
    await shows('the circuit', /^circuit open: https:\/\/down\.example\.com$/m);
    stack.forget(server);
    await server.stop();
    await shows('it is stopped', /^The server does not answer: 127\.0\.0\.1:\d+: Connection refused$/m);
    server = await start();
    await shows('it is back', /^quick +[\d.]+ .*0\.0 %$/m);
  } finally {
    isOver = true;
    top.kill('SIGTERM');
    await Promise.all([...traffic, top.gone]);
  }
});
