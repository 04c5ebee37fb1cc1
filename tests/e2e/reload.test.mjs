// Manifests and trust roots are reloaded while the server runs: on SIGHUP, and when files of the
// --catalog folder change. A faulty file changes nothing and is named in the log.
import assert from 'node:assert/strict';
import { copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { Pages } from './support/pages.mjs';
import { linesOfLog } from './support/process.mjs';
import { Stack } from './support/stack.mjs';

const probeFile = new URL('support/catalog/probe.json', import.meta.url).pathname;
const probe = JSON.parse(await readFile(probeFile, 'utf8'));
let stack, server, account, folder;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Acme');
  folder = await freshFolder('catalog');
  server = await stack.serve({ env: { SLUICE_CATALOG: folder } });
});
after(async () => {
  if (server?.process.isRunning) server.process.kill('SIGHUP'); // a load that is under way then has no owner, and is freed
  await stack?.stopWell(assert);
});

async function freshFolder(name) {
  const dir = join(stack.dir, name);
  await mkdir(dir);
  await copyFile(probeFile, join(dir, 'probe.json'));
  return dir;
}

const manifest = (change) => {
  const copy = structuredClone(probe);
  change(copy);
  return JSON.stringify(copy);
};

// Replaces the whole file with a rename, as editors and deployments do.
async function put(name, text, dir = folder) {
  const draft = join(stack.dir, `draft-${name}`);
  await writeFile(draft, text);
  await rename(draft, join(dir, name));
}

// Sends SIGHUP after `change`, before the server has noticed the change by itself.
async function hangUpAfter(of, change) {
  of.process.kill('SIGSTOP');
  await change();
  of.process.kill('SIGHUP');
  of.process.kill('SIGCONT');
}

// The server's log after `from`, line by line.
const lines = (of, from = 0) => linesOfLog(of.log.slice(from));

const said = (of, from, wanted) =>
  lines(of, from).find((line) => Object.entries(wanted).every(([key, value]) => line[key] === value));

const saying = (of, from, wanted) => until(`the log says ${JSON.stringify(wanted)}`, () => said(of, from, wanted));

async function metric(of, name) {
  const line = (await of.metrics()).split('\n').find((one) => one.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.slice(name.length + 1));
}

const get = (path) => server.call(account.key, 'GET', path);
const actionIds = async () => {
  const { json } = await get('/api/actions?integration_id=probe');
  return json.items?.map((item) => item.action_id);
};
const offered = ['echo', 'read_label', 'send', 'wait'];

test('SIGHUP without a change says so, and reloads the trust roots', async () => {
  const from = server.log.length;
  server.process.kill('SIGHUP');
  const line = await saying(server, from, { msg: 'the catalog is unchanged', because: 'SIGHUP' });
  assert.ok(line.actions > 200, JSON.stringify(line));
  assert.equal(line.actions, await metric(server, 'sluice_catalog_actions'));
  const roots = await saying(server, from, { msg: 'the trust roots were reloaded' });
  assert.equal(roots.roots, 1);
  assert.equal(await metric(server, 'sluice_catalog_reloads_total{result="unchanged"}'), 1);
  const { status } = await server.execute(account.key, 'probe', 'read_label', { id: 'INBOX' });
  assert.equal(status, 200);
});

test('a changed manifest is served after SIGHUP', async () => {
  const from = server.log.length;
  const { headers, json } = await get('/api/actions/probe/echo');
  await hangUpAfter(server, () => put('probe.json', manifest((copy) => (copy.actions[2].title = 'Echo it'))));
  await saying(server, from, { msg: 'the catalog was reloaded', because: 'SIGHUP' });
  const after = await get('/api/actions/probe/echo');
  assert.equal(after.json.title, 'Echo it');
  assert.notEqual(after.headers.get('etag'), headers.get('etag'));
  assert.equal(after.json.schema_version, json.schema_version);
  await put('probe.json', manifest((copy) => (copy.actions[2].input_schema.properties.value.type = 'string')));
  const version = async () => (await get('/api/actions/probe/echo')).json.schema_version;
  await until('a changed schema has another version', async () => (await version()) !== json.schema_version);
});

test('files that are renamed into the folder, written in it or removed are noticed', async () => {
  const other = (title) =>
    manifest((copy) => Object.assign(copy, { integration_id: 'other', name: 'Other', description: title }));
  const name = async () => (await get('/api/integrations?query=other')).json.items[0]?.name;
  await put('other.json', other('Renamed into it.'));
  await until('a new manifest is served', async () => (await name()) === 'Other');
  await writeFile(join(folder, 'other.json'), other('Written in place.').replaceAll('"Other"', '"Other app"'));
  await until('one written in place is served', async () => (await name()) === 'Other app');
  await rm(join(folder, 'other.json'));
  await until('one that was removed is no longer listed', async () => (await name()) === undefined);
  assert.ok((await metric(server, 'sluice_catalog_reloads_total{result="swapped"}')) >= 3);
});

test('with a faulty manifest, the old catalog stays in use, and the log names the fault', async () => {
  const before = await get('/api/actions/probe/echo');
  const faults = [
    ['{"integration_id": ', { file: join(folder, 'probe.json') }, /expected|end|value/i],
    [
      manifest((copy) => delete copy.actions[1].request),
      { file: join(folder, 'probe.json'), at: '/actions/1/request' },
      /./,
    ],
    [
      manifest((copy) => (copy.actions[0].request.path = '/x/${input.nothing}')),
      { file: join(folder, 'probe.json'), at: '/actions/0/request/path' },
      /nothing/,
    ],
  ];
  for (const [text, where, why] of faults)
    for (const because of text === faults[0][0] ? ['SIGHUP', 'files changed'] : ['files changed']) {
      const from = server.log.length;
      await put('probe.json', text);
      if (because === 'SIGHUP') server.process.kill('SIGHUP');
      const line = await saying(server, from, {
        msg: 'the catalog was not reloaded; the old one stays in use',
        level: 'error',
        because,
        ...where,
      });
      assert.match(line.problem, why);
      assert.ok(line.errors >= 1);
      assert.equal(await metric(server, 'sluice_catalog_outdated'), 1);
      const now = await get('/api/actions/probe/echo');
      assert.equal(now.text, before.text);
      assert.equal(now.headers.get('etag'), before.headers.get('etag'));
    }
  const { status } = await server.execute(account.key, 'probe', 'read_label', { id: 'INBOX' });
  assert.equal(status, 200);
  await put('probe.json', JSON.stringify(probe));
  await until('the repaired one is served', async () => (await metric(server, 'sluice_catalog_outdated')) === 0);
  assert.equal((await get('/api/actions/probe/echo')).json.title, 'Echo');
});

test('one faulty file of two delays both: the catalog is replaced as a whole', async () => {
  const from = server.log.length;
  await writeFile(join(folder, 'broken.json'), '[]');
  await put('probe.json', manifest((copy) => copy.actions.pop()));
  server.process.kill('SIGHUP');
  await saying(server, from, { msg: 'the catalog was not reloaded; the old one stays in use', because: 'SIGHUP' });
  assert.deepEqual(await actionIds(), offered);
  await rm(join(folder, 'broken.json'));
  await until('the other is served', async () => (await actionIds()).length === offered.length - 1);
  await put('probe.json', JSON.stringify(probe));
  await until('it is unchanged', async () => (await actionIds()).length === offered.length);
});

test('executions under way keep the catalog that they began with', async () => {
  const held = await hold(stack.provider, { path_prefix: '/sleep/' });
  const call = server.execute(account.key, 'probe', 'wait', { ms: 1 }, {});
  await held.reached(1);
  await put('probe.json', manifest((copy) => copy.actions.pop()));
  await until('the action is no longer offered', async () => (await actionIds()).length === offered.length - 1);
  const refused = await server.execute(account.key, 'probe', 'wait', { ms: 1 });
  assert.deepEqual([refused.status, refused.json.error_code], [409, 'action_not_found']);
  await held.letGo();
  const { status, json } = await call;
  assert.deepEqual([status, json.status, json.display.title], [200, 'succeeded', 'Waited']);
  assert.equal((await get(`/api/executions/${json.execution_id}`)).json.action_id, 'wait');
});

// A flow that waits for an approval, and ends with a text from its template.
const template = (word, more = {}) =>
  JSON.stringify({
    key: 'reload_gate',
    name: `Gate ${word}`,
    description: 'Waits, then says a word.',
    input: { type: 'object', properties: {}, additionalProperties: false },
    steps: [
      { key: 'gate', type: 'approval', title: 'Go on?', summary: 'It says a word.' },
      { key: 'word', type: 'transform', expr: `'${word}'`, ...more },
    ],
  });
const putTemplate = (name, text) => put(name, text, join(folder, 'templates'));
const offers = async (name) =>
  (await get('/api/flows/templates')).json.templates.some((one) => one.key === 'reload_gate' && one.name === name);
const post = (path, body) => server.call(account.key, 'POST', path, body);
const startGate = async () => (await post('/api/flows/start', { flowTemplate: 'reload_gate' })).json.flowId;
const wordOf = async (id) => {
  await until('it waits', async () => (await get(`/api/flows/${id}`)).json.flow.status === 'waiting');
  assert.equal((await post(`/api/flows/${id}/approve`, {})).status, 200);
  const done = await until('it has ended', async () => {
    const { flow } = (await get(`/api/flows/${id}`)).json;
    return flow.status === 'completed' && flow;
  });
  return done.context.word;
};

test('templates are reloaded, too, and a flow keeps the one that it began with', async () => {
  await mkdir(join(folder, 'templates'));
  await putTemplate('gate.json', template('one'));
  await until('a new template is offered', () => offers('Gate one'));
  const [first, second] = [await startGate(), await startGate()];
  await putTemplate('gate.json', template('two'));
  await until('the changed one is offered', () => offers('Gate two'));
  assert.equal(await wordOf(first), 'one');
  assert.equal(await wordOf(await startGate()), 'two');
  const from = server.log.length;
  await putTemplate('gate.json', template('three', { expr: 'sum(' }));
  const line = await saying(server, from, { msg: 'the catalog was not reloaded; the old one stays in use' });
  assert.ok(line.file.endsWith('templates/gate.json'), JSON.stringify(line));
  assert.equal(await metric(server, 'sluice_catalog_outdated'), 1);
  assert.ok(await offers('Gate two'));
  await rm(join(folder, 'templates', 'gate.json'));
  await until('one that was removed is no longer offered', async () => !(await offers('Gate two')));
  assert.equal((await post('/api/flows/start', { flowTemplate: 'reload_gate' })).status, 404);
  assert.equal(await wordOf(second), 'one');
});

test('without the database, a new template is delayed, and appears by itself once the database is back', async () => {
  const from = server.log.length;
  await stack.cluster.down('immediate');
  try {
    await putTemplate('gate.json', template('four'));
    const line = await saying(server, from, { msg: 'the catalog was not reloaded; the old one stays in use' });
    assert.match(line.problem, /not stored, retrying/);
  } finally {
    await stack.cluster.up();
  }
  await until('it is offered', async () => (await get('/api/flows/templates')).status === 200 && (await offers('Gate four')));
  assert.equal(await wordOf(await startGate()), 'four');
});

test('a folder that disappears is reported, and served again once it is back', async () => {
  const from = server.log.length;
  await rename(folder, `${folder}.away`);
  const line = await saying(server, from, { msg: 'the catalog was not reloaded; the old one stays in use' });
  assert.match(line.problem, /cannot be read as a folder/);
  assert.equal((await actionIds()).length, offered.length - 1);
  await rename(`${folder}.away`, folder);
  await until('it is read again', async () => (await metric(server, 'sluice_catalog_outdated')) === 0);
  await put('probe.json', JSON.stringify(probe));
  await until('and watched again', async () => (await actionIds()).length === offered.length);
});

// The queries of these pages still wait for the database and refer to texts of the catalog.
test('pages whose readers have disconnected do not keep the old catalog', async () => {
  const pages = new Pages(server.base);
  await pages.signIn(account.key);
  const lock = stack.cluster.sql('begin; lock table sluice.oauth_client in access exclusive mode; select pg_sleep(600)', 'sluice').catch(() => {});
  await until('the table is locked', async () => (await stack.cluster.sql("select count(*) from pg_locks where mode = 'AccessExclusiveLock' and relation = 'sluice.oauth_client'::regclass")) === '1');
  const gone = new AbortController();
  const readers = Array.from({ length: 60 }, () => fetch(`${server.base}/integrations/gmail`, { headers: { cookie: pages.cookie }, signal: gone.signal }).then((reply) => reply.status, (error) => error.name));
  // The lock is waited for 1 s, then the page is 503: on a slow machine, a few readers have that.
  await until('a reader waits for the table', async () => (await stack.cluster.sql("select count(*) from pg_locks where not granted and relation = 'sluice.oauth_client'::regclass")) !== '0');
  gone.abort();
  const ends = new Set(await Promise.all(readers));
  assert.ok(ends.delete('AbortError'));
  ends.delete(503);
  assert.deepEqual([...ends], []);
  const from = server.log.length;
  await put('probe.json', manifest((copy) => (copy.description = 'Another one.')));
  server.process.kill('SIGHUP');
  await saying(server, from, { msg: 'the catalog was reloaded' });
  await stack.cluster.sql("select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(600)' and pid <> pg_backend_pid()");
  await lock;
  await until('nothing waits', async () => (await metric(server, 'sluice_database_pending')) === 0);
  assert.equal((await pages.ask('/integrations/gmail')).status, 200);
});

test('SIGHUP at a draining server with closed listeners is not an error', async () => {
  const leaving = await stack.serve({ env: { SLUICE_CATALOG: folder } });
  const held = await hold(stack.provider, { path_prefix: '/sleep/' });
  const call = leaving.execute(account.key, 'probe', 'wait', { ms: 1 });
  await held.reached(1);
  const end = leaving.stop();
  const isRefused = (error) => error.cause?.code === 'ECONNREFUSED';
  await until('it accepts no more connections', () => fetch(`${leaving.base}/healthz`).then(() => false, isRefused));
  leaving.process.kill('SIGHUP');
  await until('it is reloaded', () => said(leaving, 0, { msg: 'the trust roots were reloaded' }));
  await held.letGo();
  assert.equal((await call).status, 200);
  assert.deepEqual(await end, { code: 0, signal: null }, leaving.log);
});

// The program itself limits its turns to 50 ms of CPU time, here without sanitizers, while it
// compiles 10,000 actions and frees the previous 10,000. One of three servers has to be within the
// limit, since a host that pauses this machine also makes a turn long.
test('a large catalog is compiled outside of the loop', async () => {
  for (let round = 1; ; round++) {
    const turn = await compileLarge(await freshFolder(`large ${round}`));
    console.log(`# longest turn ${(turn * 1000).toFixed(1)} ms of CPU`);
    if (turn < 0.05) return;
    assert.ok(round < 3, `${turn} s of CPU`);
  }
});

async function compileLarge(dir) {
  const write = async (round) => {
    for (let file = 0; file < 20; file++)
      await put(
        `app${file}.json`,
        manifest((copy) => {
          Object.assign(copy, { integration_id: `app${file}`, name: `App ${file}`, description: `Round ${round}.` });
          copy.actions = Array.from({ length: 500 }, (_, at) => ({
            ...probe.actions[at % probe.actions.length],
            action_id: `action_${at}`,
          }));
        }),
        dir,
      );
  };
  const large = await stack.serve({ bin: process.env.SLUICE_RELEASE_BIN, env: { SLUICE_CATALOG: dir } });
  for (const round of [1, 2]) {
    const from = large.log.length;
    await hangUpAfter(large, () => write(round));
    let answered = 0;
    const line = await until('it is loaded', async () => {
      assert.equal((await fetch(`${large.base}/healthz`)).status, 200);
      answered++;
      // The log may say "unchanged": the load of the previous round's files was under way and has
      // read these files, too.
      return lines(large, from).find((one) => one.because === 'SIGHUP' && one.actions > 0);
    });
    assert.ok(line.actions > 10_000, JSON.stringify(line));
    console.log(`# ${line.actions} actions in ${line.ms} ms, ${answered} requests answered meanwhile`);
  }
  const { json } = await large.call(account.key, 'GET', '/api/integrations?supports_action=app19_action_499');
  assert.deepEqual(json.items.map((item) => item.integration_id), ['app19']);
  const turn = await metric(large, 'sluice_loop_turn_cpu_seconds_max');
  // the shutdown neither waits for a load nor fails because of one
  large.process.kill('SIGHUP');
  const end = await large.stop();
  assert.deepEqual([end.code, end.signal], [0, null], large.log.slice(-2000));
  return turn;
}
