// Deleting an account: everything stored for it is exported as lines of JSON and then erased.
import assert from 'node:assert/strict';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { Running } from './support/process.mjs';
import { Stack, sluiceBin } from './support/stack.mjs';

const TOKEN = 'ya29.sentinel-of-leaving';
let stack, server, leaving, staying;

before(async () => {
  stack = await Stack.start({ catalog: false, tokens: [`gmail=${TOKEN}`] });
  leaving = await stack.account('leaving', { apps: ['notion'] });
  await stack.connect(leaving.id, 'gmail', { access_token: TOKEN });
  staying = await stack.account('staying');
  const first = (server = await stack.serve());
  for (const { key } of [leaving, staying]) {
    assert.equal((await server.execute(key, 'gmail', 'list_labels', {}, { idempotency_key: 'k' })).status, 200);
    for (let i = 0; i < 30; i++) assert.equal((await server.execute(key, 'notion', 'get_self', {})).status, 200);
    assert.equal((await server.execute(key, 'gmail', 'nope', {})).status, 409);
    // a flow that waits for an approval, and a flow that has ended
    for (const [flowTemplate, input, status] of [
      ['mail_with_reminder', { to: 'x@example.com', subject: 's', text: 't' }, 'waiting'],
      ['unread_mail_summary', { maxResults: 2 }, 'completed'],
    ]) {
      const started = await server.call(key, 'POST', '/api/flows/start', { flowTemplate, input });
      assert.equal(started.status, 200, started.text);
      await until(`the flow is ${status}`, async () =>
        (await server.call(key, 'GET', `/api/flows/${started.json.flowId}`)).json.flow.status === status);
    }
  }
  // A server writes its counts to the database when it shuts down, so this stops it before it
  // compares.
  await first.stop();
  stack.forget(first);
  server = await stack.serve();
});
after(() => stack?.stopWell(assert));

// The number of rows that the account has in each table with an account column.
async function rowsOf(id) {
  const tables = (await stack.cluster.sql(
    `select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'account_id'
     where c.relnamespace = 'sluice'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition`,
  )).split('\n');
  assert.ok(tables.length >= 6, tables.join());
  const counts = {};
  for (const table of tables) {
    const count = Number(await stack.cluster.sql(`select count(*) from sluice.${table} where account_id = '${id}'`));
    if (count > 0) counts[table] = count;
  }
  return counts;
}

const lines = (text) => text.trimEnd().split('\n').map((line) => JSON.parse(line));
const countBy = (rows) => rows.reduce((sums, { table }) => ({ ...sums, [table]: (sums[table] ?? 0) + 1 }), {});

test('export: every row of the account, no credentials', async () => {
  await until('the blocked run is written', async () =>
    (await stack.cluster.sql(`select count(*) from sluice.audit_event where kind = 'execution.blocked'`)) === '2');
  const text = await stack.must(['accounts', 'export', leaving.id]);
  const rows = lines(text);
  assert.deepEqual(countBy(rows), await rowsOf(leaving.id));
  for (const { row } of rows) assert.equal(row.account_id, leaving.id);
  const of = (table) => rows.filter((one) => one.table === table).map((one) => one.row);
  assert.equal(rows[0].table, 'account');
  assert.equal(rows[0].row.name, 'leaving');
  assert.equal(of('execution').length, 31);
  assert.deepEqual(of('flow').map((row) => row.status).sort(), ['completed', 'waiting']);
  assert.ok(of('flow_step').length > 3 && of('flow_doc').length === 2);
  assert.ok(of('execution').every((row) => row.summary.output !== undefined && /\+00:00$/.test(row.started_at)));
  const gmail = of('connection').find((row) => row.integration_id === 'gmail');
  assert.ok(gmail.sealed_bytes > 20 && !('sealed' in gmail) && gmail.auth_kind === 'oauth2');
  assert.equal(of('api_key')[0].hash_bytes, 32);
  const secrets = [TOKEN, leaving.key, (await stack.cluster.sql(
    `select encode(sealed, 'hex') from sluice.connection where account_id = '${leaving.id}' and integration_id = 'gmail'`))];
  for (const secret of secrets)
    for (const form of [secret, Buffer.from(secret).toString('hex'), Buffer.from(secret).toString('base64').replace(/=*$/, '')])
      assert.ok(!text.includes(form));
  assert.ok(!text.includes(staying.id));

  const file = join(stack.dir, 'leaving.ndjson');
  assert.equal(await stack.must(['accounts', 'export', 'leaving', '--out', file]), '');
  // the server records the use of a connection with a delay, so it may do so between the two
  // exports
  const withoutUses = (all) => all.map(({ table, row: { last_used_at, failed_at, failure, ...row } }) => ({ table, row }));
  assert.deepEqual(withoutUses(lines(await readFile(file, 'utf8'))), withoutUses(rows));
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  const refused = await stack.sluice(['accounts', 'export', 'leaving', '--out', join(stack.dir, 'nowhere', 'x')]);
  assert.equal(refused.code, 1);
  assert.equal((await stack.sluice(['accounts', 'export', 'nobody'])).code, 1);
});

test('export: every row of its users, with their inputs and without credentials', async () => {
  const crowd = await stack.account('crowd', { apps: [] });
  const as = (user, method, path, body) => server.call(crowd.key, method, path, body, { 'sluice-user': user });
  for (const user of ['ada', 'b/%']) {
    const made = await as(user, 'POST', '/api/connections', { integration_id: 'gmail', credential: { access_token: TOKEN } });
    assert.equal(made.status, 201, made.text);
    const input = { to: 'x@example.com', subject: `of ${user}`, text: 't' };
    assert.equal((await as(user, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input, confirm: true, idempotency_key: 'k' })).status, 200);
    assert.equal((await as(user, 'POST', '/api/flows/start', { flowTemplate: 'mail_with_reminder', input })).status, 200);
    assert.equal((await as(user, 'POST', '/api/connect/sessions', { integration_id: 'notion' })).status, 201);
  }
  assert.equal((await server.call(staying.key, 'POST', '/api/connect/sessions', { integration_id: 'notion' }, { 'sluice-user': 'ada' })).status, 201);
  // more users than one statement reads
  await stack.cluster.sql(`insert into sluice.account_user (account_id, external_id, user_id, created_at) select '${crowd.id}', 'many-' || n, gen_random_uuid(), now() from generate_series(1, 250) n`);
  const midnight = Math.floor(Date.now() / 86_400_000) * 86_400_000;
  await stack.cluster.sql(`insert into sluice.execution select user_id, (lpad(to_hex(${midnight}), 12, '0') || '70008000000000000000')::uuid, 'x', 'x', null, 'succeeded', null, now(), now(), gen_random_uuid(), '{}' from sluice.account_user where account_id = '${crowd.id}' and external_id like 'many-%'`);
  const idOf = (user) => stack.cluster.sql(`select user_id from sluice.account_user where account_id = '${crowd.id}' and external_id = '${user}'`);
  const [ada, odd] = [await idOf('ada'), await idOf('b/%')];
  await until('its flows wait', async () => (await stack.cluster.sql(`select count(*) from sluice.flow where parent_id = '${crowd.id}' and status = 'waiting'`)) === '2');
  await server.stop(); // so that its counts are written before they are compared
  server = await stack.serve();

  const { stdout: text, stderr } = await stack.sluice(['accounts', 'export', crowd.id]);
  const rows = lines(text);
  assert.match(stderr, new RegExp(`^${rows.length} rows$`, 'm'));
  const owners = (await stack.cluster.sql(`select user_id from sluice.account_user where account_id = '${crowd.id}'`)).split('\n');
  assert.equal(owners.length, 252);
  assert.deepEqual(new Set(rows.map(({ row }) => row.account_id)), new Set([crowd.id, ...owners]));
  const of = (owner) => rows.filter(({ row }) => row.account_id === owner);
  const but = ({ tally, ...counts }) => counts; // written once a minute, so perhaps in between
  for (const owner of [crowd.id, ada, odd]) assert.deepEqual(but(countBy(of(owner))), but(await rowsOf(owner)), owner);
  assert.deepEqual([rows[0].table, rows[0].row.account_id], ['account', crowd.id]);
  assert.equal(of(crowd.id).filter(({ table }) => table === 'account_user').length, 252);
  const ofAll = ['ffffffff-ffff-ffff-ffff-fffffffffffe', 'ffffffff-ffff-ffff-ffff-ffffffffffff']; // sums of users by day and by key
  assert.deepEqual(new Set(of(crowd.id).filter(({ table }) => table === 'usage').map(({ row }) => row.user_id)), new Set([ada, odd, ...ofAll]));
  for (const [owner, user] of [[ada, 'ada'], [odd, 'b/%']]) {
    const { row } = of(owner).find(({ table }) => table === 'execution_input');
    assert.equal(row.input.subject, `of ${user}`);
    assert.equal(of(owner).find(({ table }) => table === 'connection').row.parent_id, crowd.id);
  }
  for (const form of [TOKEN, Buffer.from(TOKEN).toString('hex'), Buffer.from(TOKEN).toString('base64').replace(/=*$/, ''), crowd.key, staying.id]) assert.ok(!text.includes(form));
});

test('erase: only with --yes', async () => {
  const before = await rowsOf(leaving.id);
  const refused = await stack.sluice(['accounts', 'erase', leaving.id]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /--yes/);
  assert.equal((await stack.sluice(['accounts', 'erase', leaving.id, '--yes', '--settle', 'soon'])).code, 1);
  assert.deepEqual(await rowsOf(leaving.id), before);
  assert.equal((await server.execute(leaving.key, 'gmail', 'list_labels', {})).status, 200);
});

test('erase while the server runs: nothing is left, and others are not touched', async () => {
  const before = await rowsOf(staying.id);
  const held = await hold(stack.provider, { path_prefix: '/gmail/v1/users/me/' }, { count: 2 });
  const read = server.execute(leaving.key, 'gmail', 'list_labels', {});
  const write = server.execute(leaving.key, 'gmail', 'send_message', { to: 'x@example.com', subject: 's', text: 't' },
    { confirm: true });
  await held.reached(2);
  const erasing = new Running(sluiceBin, ['accounts', 'erase', leaving.id, '--yes', '--settle', '5s'], { env: stack.env });
  await until('no new work begins', () => erasing.log.includes('waiting 5 s for running work to finish'));
  erasing.kill('SIGSTOP'); // pauses the command, so that its settle time does not end before the replies
  assert.equal(await stack.cluster.sql(`select disabled_at is not null from sluice.account where account_id = '${leaving.id}'`), 't');
  await held.letGo();
  // work under way is answered, and it is recorded before it is erased
  assert.deepEqual([(await read).status, (await write).status], [200, 200]);
  erasing.kill('SIGCONT');
  assert.deepEqual(await erasing.gone, { code: 0, signal: null }, erasing.log);
  assert.match(erasing.log, new RegExp(`^erased account ${leaving.id}; \\d+ rows were deleted here, any others by servers$`, 'm'));
  assert.equal((await server.execute(leaving.key, 'gmail', 'list_labels', {})).status, 401);
  assert.deepEqual(await rowsOf(leaving.id), {});
  const dump = await stack.cluster.dump();
  assert.ok(dump.includes(staying.id));
  const named = dump.split('\n').filter((line) => line.includes(leaving.id)); // the event of the operator
  assert.ok(named.length === 1 && named[0].startsWith('00000000-0000-0000-0000-000000000000\t') && named[0].includes('account.erased'), named.join('\n'));
  assert.deepEqual(await rowsOf(staying.id), before);
  assert.equal((await server.execute(staying.key, 'gmail', 'list_labels', {})).status, 200);
  assert.equal((await stack.sluice(['accounts', 'show', leaving.id])).code, 1);
  assert.equal((await stack.sluice(['accounts', 'erase', leaving.id, '--yes'])).code, 1);
});

test('an account with many rows is erased in batches', async () => {
  const c = await stack.account('large', { apps: [] });
  const midnight = Math.floor(Date.now() / 86_400_000) * 86_400_000;
  await stack.cluster.sql(
    `insert into sluice.execution select '${c.id}', (lpad(to_hex(${midnight} + n), 12, '0') || '70008000000000000000')::uuid,
     'x', 'x', null, 'succeeded', null, now(), now(), gen_random_uuid(), '{}' from generate_series(1, 5500) n`,
  );
  await server.stop(); // it would delete some of the rows
  const erased = await stack.must(['accounts', 'erase', 'large', '--yes', '--settle', '0s']);
  assert.match(erased, /; 55\d\d rows were deleted here/);
  assert.deepEqual(await rowsOf(c.id), {});
});
