// The inputs of runs are kept, sealed, for some days: of writes, and of runs that failed or were
// blocked (contrib/deploy/README.md "inputs").
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Pages, formsOf } from './support/pages.mjs';
import { Stack } from './support/stack.mjs';

const MARKER = 'Marker7Q4Z';
// The subject is part of the sentence that an execution has for people.
const mail = (text) => ({ to: ['ann@example.com'], subject: 'A plan', text: `The text of ${text}` });

let stack, server, account;
before(async () => {
  stack = await Stack.start({ catalog: false });
  account = await stack.account('inputs', { apps: ['gmail', 'notion'] });
  server = await stack.serve();
});
after(() => stack?.stopWell(assert));

const send = (input, more = { confirm: true }, on = server, key = account.key) => on.execute(key, 'gmail', 'send_message', input, more);
const inputOf = async (id, on = server, key = account.key) => {
  const { status, json } = await on.call(key, 'GET', `/api/executions/${id}?include=input`);
  assert.equal(status, 200);
  return json.input ?? json.input_missing;
};
const count = async (where = 'true', id = account.id) =>
  Number(await stack.cluster.sql(`select count(*) from sluice.execution_input where account_id = '${id}' and ${where}`));
const failing = async (fn) => {
  await stack.provider.faults([{ match: { path_prefix: '/gmail/' }, count: -1, action: { status: 400 } }]);
  try {
    return await fn();
  } finally {
    await stack.provider.faults([]);
  }
};

test('of a write and of what failed or was blocked, and nothing in clear', async () => {
  const done = (await send(mail(MARKER))).json;
  assert.equal(done.status, 'succeeded');
  assert.deepEqual(await inputOf(done.execution_id), mail(MARKER));
  const failed = (await failing(() => send(mail(`${MARKER}2`)))).json;
  assert.equal(failed.status, 'failed');
  assert.deepEqual(await inputOf(failed.execution_id), mail(`${MARKER}2`));
  const search = { query: `subject:${MARKER}` };
  const read = (await failing(() => server.execute(account.key, 'gmail', 'search_messages', search))).json;
  assert.equal(read.status, 'failed');
  assert.deepEqual(await inputOf(read.execution_id), search);
  assert.equal((await send(mail(MARKER), {})).json.status, 'blocked');
  await until('the event is stored', async () => (await count('is_blocked')) === 1);
  const plain = (await server.execute(account.key, 'gmail', 'list_labels', {})).json;
  assert.equal(plain.status, 'succeeded');
  assert.equal(await inputOf(plain.execution_id), 'not_kept');
  assert.equal(await count(), 4);
  const dumped = (await stack.cluster.dump()).split('\n').filter((line) => line.includes(MARKER));
  assert.deepEqual(dumped, []);
});

const found = async (q, on = server, key = account.key, more = '') => {
  const { status, json, text } = await on.call(key, 'GET', `/api/executions?q=${encodeURIComponent(q)}${more}`);
  assert.equal(status, 200, text);
  return json.executions.map((one) => one.execution_id);
};

test('runs are found by the words of what they did, which are not in clear', async () => {
  const whom = { ...mail('x'), to: ['Zoe Quill <zoe.quill@words.example>'], subject: 'Quarterly Größe 7' };
  const { execution_id: id } = (await send(whom)).json;
  const failed = (await failing(() => send({ ...whom, subject: 'never sent' }))).json.execution_id;
  for (const q of ['zoe', 'ZOE.QUILL@words.example', 'quill zoe', 'words']) assert.deepEqual(await found(q), [failed, id], q);
  for (const q of ['quarterly', 'grösse', 'größe 7', 'zoe quarterly', id]) assert.deepEqual(await found(q), q === 'grösse' ? [] : [id], q);
  assert.deepEqual(await found('zoe', server, account.key, '&status=failed'), [failed]);
  assert.deepEqual(await found('zoe', server, account.key, '&integration_id=notion'), []);
  assert.deepEqual(await found('zoe', server, account.key, '&limit=1'), [failed]);
  assert.deepEqual(await found('zo'), [], 'whole words only');
  assert.deepEqual(await found('zoe absent'), []);
  assert.deepEqual(await found('00000000-0000-7000-8000-000000000000'), []);
  const plain = (await server.execute(account.key, 'gmail', 'list_labels', {})).json.execution_id;
  assert.deepEqual(await found(plain), [plain], 'a read is found by its id');
  const page = '1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10';
  const write = (await server.execute(account.key, 'notion', 'create_page', { parent: { page_id: page }, title: 'Below' }, { confirm: true })).json;
  assert.equal(write.status, 'succeeded', JSON.stringify(write));
  assert.deepEqual(await found(page), [write.execution_id], 'no run has this id, so it is a word');
  assert.deepEqual(await found(page.toUpperCase()), [write.execution_id]);
  const other = await stack.account('stranger', { apps: ['gmail'] });
  assert.deepEqual(await found('zoe', server, other.key), []);
  assert.deepEqual(await found(id, server, other.key), []);
  const lines = (await stack.cluster.dump()).split('\n').filter((line) => /words\.example/.test(line) && !line.includes(id));
  assert.deepEqual(lines, [], 'the sentence of the run that succeeded alone has the address');
  const exported = await stack.must(['accounts', 'export', account.id]);
  assert.ok(!exported.includes('"words"'));
  for (const q of ['\0', 'a\u0001', '!', 'x'.repeat(201), Array(17).fill('w').join(' ')]) {
    const { status, json } = await server.call(account.key, 'GET', `/api/executions?q=${encodeURIComponent(q)}`);
    assert.equal(status, 400);
    if (q === '\0') assert.equal(json.error, 'the request target has an escaped NUL');
    else assert.match(json.error, /^q must be 1 to 16 words, or an id, with letters or digits, on one line of at most 200 bytes, got "/);
  }
});

test('of the same account only, and by a key that reads', async () => {
  const { execution_id: id } = (await send(mail('mine'))).json;
  const other = await stack.account('other', { apps: [] });
  assert.equal((await server.call(other.key, 'GET', `/api/executions/${id}?include=input`)).status, 404);
  const writer = await stack.key(account.id, ['--scopes', 'execute']);
  assert.equal((await server.call(writer, 'GET', `/api/executions/${id}?include=input`)).status, 403);
});

test('not over 64 KB', async () => {
  const { execution_id: id } = (await send({ ...mail('long'), text: 'x'.repeat(70_000) })).json;
  assert.equal(await inputOf(id), 'too_long');
});

test('runs again from its page, however long it is', async () => {
  const long = { to: ['ann@example.com'], subject: 'Long', text: `"\u00e9"`.repeat(8 * 1024) };
  const { execution_id: id } = (await failing(() => send(long))).json;
  const pages = new Pages(server.base);
  await pages.signIn(account.key);
  const page = await pages.ask(`/executions/${id}/again`);
  const [form] = formsOf(page.text).filter((one) => one.action.endsWith('/again'));
  const input = page.text.match(/<textarea [^>]*>\n([^]*?)<\/textarea>/)[1].replaceAll('&quot;', '"').replaceAll('&amp;', '&');
  assert.deepEqual(JSON.parse(input), long);
  const done = await pages.go(form.action, { method: 'POST', fields: { ...form.fields, input, confirm: 'yes' } });
  assert.match(done.path, /^\/executions\//, done.text);
  assert.deepEqual(await inputOf(done.path.split('/').at(-1)), long);
});

test('its secrets are masked, and have to be typed to run it again', async () => {
  const folder = join(stack.dir, 'secrets');
  const manifest = JSON.parse(await readFile(new URL('../../contrib/integrations/gmail.json', import.meta.url), 'utf8'));
  manifest.actions.find((one) => one.action_id === 'send_message').input_schema.properties.text.writeOnly = true;
  await mkdir(folder);
  await writeFile(join(folder, 'gmail.json'), JSON.stringify(manifest));
  const masking = await stack.serve({ env: { SLUICE_CATALOG: folder } });
  const { execution_id: id } = (await send(mail('secret'), { confirm: true }, masking)).json;
  const masked = { ...mail(''), text: '(hidden)' };
  assert.deepEqual(await inputOf(id, masking), masked);
  const pages = new Pages(masking.base);
  await pages.signIn(account.key);
  const [form] = formsOf((await pages.ask(`/executions/${id}/again`)).text).filter((one) => one.action.endsWith('/again'));
  // also if the input was erased since the form was displayed
  await stack.cluster.sql(`delete from sluice.execution_input where id = '${id}'`);
  const again = (input) => pages.go(form.action, { method: 'POST', fields: { ...form.fields, input: JSON.stringify(input), confirm: 'yes' } });
  const refused = await again(masked);
  assert.equal(refused.status, 400);
  assert.match(refused.text, /Secrets of the earlier run are not kept/);
  const [second] = formsOf(refused.text).filter((one) => one.action.endsWith('/again'));
  assert.equal(second.fields.lacking, 'yes');
  assert.match((await again(mail('typed'))).path, /^\/executions\//);
  await masking.stop();
});

test('not after its time, and not with input-days 0', async () => {
  const { execution_id: id } = (await send(mail('soon gone'))).json;
  await stack.cluster.sql(`update sluice.execution_input set expires_at = now() where id = '${id}'`);
  assert.equal(await inputOf(id), 'not_kept');
  const before = await count();
  const without = await stack.serve({ args: ['--input-days', '0'] });
  const none = (await send(mail('never kept'), { confirm: true }, without)).json;
  assert.equal(await inputOf(none.execution_id), 'not_kept');
  assert.ok(!(await found('plan')).includes(none.execution_id));
  assert.ok(!(await found('plan')).includes(id), 'no longer than its input is kept');
  assert.deepEqual(await found(none.execution_id), [none.execution_id]);
  assert.equal(await count(), before);
  await without.stop();
});

test('the master key that sealed it is needed as long as it is kept', async () => {
  const { execution_id: id } = (await send(mail('before'))).json;
  const former = (await readFile(stack.masterKeyFile, 'utf8')).trim();
  const fresh = (await stack.must(['keys', 'master'])).trim();
  await writeFile(stack.masterKeyFile, `${fresh}\n${former}\n`);
  await stack.must(['keys', 'rotate']);
  const both = await stack.serve();
  assert.deepEqual(await inputOf(id, both), mail('before'));
  assert.ok((await found('plan', both)).includes(id), 'the words of a run are those of its key');
  const { execution_id: later } = (await send(mail('after'), { confirm: true }, both)).json;
  await writeFile(stack.masterKeyFile, `${fresh}\n`);
  const alone = await stack.serve();
  assert.equal(await inputOf(id, alone), 'unreadable');
  assert.deepEqual(await inputOf(later, alone), mail('after'));
  await both.stop();
  await alone.stop();
  await writeFile(stack.masterKeyFile, `${fresh}\n${former}\n`);
});

test('a run whose process died has none', async () => {
  const dying = await stack.serve({ env: { SLUICE_CRASH_AT: 'exec/record' } });
  stack.forget(dying);
  await assert.rejects(send(mail('died'), { confirm: true, idempotency_key: 'died' }, dying));
  let found;
  await until('the run is recovered', async () => {
    found = (await send(mail('died'), { confirm: true, idempotency_key: 'died' })).json;
    return found.execution_id;
  }, 60_000);
  assert.equal(found.outcome, 'unknown');
  assert.equal(await inputOf(found.execution_id), 'not_kept');
});

// The first round of housekeeping begins a second after the start of a server.
test('of blocked runs, an account keeps the last 1,000', async () => {
  const many = await stack.account('many', { apps: [] });
  await stack.cluster.sql(
    `insert into sluice.execution_input (account_id, id, is_blocked, sealed, key_id, expires_at)
     select '${many.id}', (lpad(to_hex((extract(epoch from now()) * 1000)::bigint - n), 12, '0') || '70008000' || lpad(n::text, 12, '0'))::uuid,
       n <= 1100, decode(repeat('ab', 200), 'hex'), 'k', now() + interval '1 day' from generate_series(1, 1110) n`,
  );
  const next = await stack.serve();
  await until('the oldest are removed', async () => (await count('is_blocked', many.id)) === 1000);
  assert.equal(await count('not is_blocked', many.id), 10);
  await next.stop();
});

// With SOAK_SECONDS: the calls of an account that is blocked without end.
if (process.env.SOAK_SECONDS)
  test('of 10,000 blocked runs with inputs of 60 KB, an account keeps the last 1,000', async () => {
    const loud = await stack.account('loud', { apps: ['gmail'] });
    const text = 'x'.repeat(60_000);
    let left = 10_000;
    const sender = async () => {
      while (left-- > 0) assert.equal((await send(mail(text), {}, server, loud.key)).json.status, 'blocked');
    };
    await Promise.all(Array.from({ length: 16 }, sender));
    const { id } = loud;
    await until('the events are stored', async () => Number(await stack.cluster.sql(`select count(*) from sluice.audit_event where account_id = '${id}' and kind = 'execution.blocked'`)) === 10_000);
    const next = await stack.serve();
    await until('the oldest are removed', async () => (await count('is_blocked', id)) <= 1000);
    await next.stop();
    assert.equal(await count('is_blocked', id), 1000);
  });

test('part of the export of its account', async () => {
  await send(mail(MARKER), {});
  await until('the event is stored', async () => (await count('is_blocked')) > 1);
  const rowsOf = (text) => text.trimEnd().split('\n').map((line) => JSON.parse(line)).filter(({ table }) => table === 'execution_input').map(({ row }) => row);
  const rows = rowsOf(await stack.must(['accounts', 'export', account.id]));
  assert.equal(rows.length, await count());
  assert.ok(rows.every((row) => !('sealed' in row)));
  const blocked = rows.filter((row) => row.is_blocked).at(-1);
  assert.deepEqual(blocked.input, mail(MARKER));
  assert.match(blocked.message, /was not confirmed/);
  const without = await stack.sluice(['accounts', 'export', account.id], { env: { SLUICE_MASTER_KEY_FILE: '' } });
  assert.equal(without.code, 0, without.stderr);
  assert.match(without.stderr, new RegExp(`^${rows.length} inputs of runs are missing`, 'm'));
  assert.ok(rowsOf(without.stdout).every((row) => row.input === null && !('sealed' in row)));
});

test('erased with its account', async () => {
  assert.ok((await count()) > 0);
  await stack.must(['accounts', 'erase', account.id, '--yes', '--settle', '0s']);
  assert.equal(await count(), 0);
});
