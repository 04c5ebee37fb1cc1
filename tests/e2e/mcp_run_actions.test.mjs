// Several actions in one call (src/mcp/README.md): the results are in the order of the actions, one
// form shows all writes, and each action is treated as run_action treats it.
import assert from 'node:assert/strict';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { Mcp, contentOf, inside } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';

const FORM = { capabilities: { elicitation: { form: {} } } };
const yes = { confirmation: { action: 'accept', content: { confirm: true } } };
const no = { confirmation: { action: 'decline' } };
let stack, server, second, account, mcp, connection;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('Acme', { apps: ['gmail'] });
  connection = await stack.connect(account.id, 'probe', { token: 'ya29.demo-gmail-full' }, ['--label', 'work']);
  [server, second] = await Promise.all([stack.serve(), stack.serve()]);
  mcp = new Mcp(server.base, account.key);
});
after(() => stack?.stopWell(assert));

const ledger = async () => (await stack.provider.ledger()).map((one) => one.marker);
const read = (id = 'INBOX', more = {}) => ({ integration_id: 'probe', action_id: 'read_label', input: { id }, ...more });
const send = (subject, more = {}) => ({ integration_id: 'probe', action_id: 'send', input: { subject }, ...more });
const ask = (actions, more = {}, options = FORM, at = mcp) => at.ask('tools/call', { name: 'run_actions', arguments: { actions }, ...more }, options).then(({ result }) => result);
const run = (actions, at = mcp, options = {}) => at.call('run_actions', { actions }, options);
const resultsOf = (result) => contentOf(result).results;

test('reads run at once, and their results are in the order of the actions', async () => {
  const ids = ['INBOX', 'SENT', 'nope', 'TRASH'];
  const result = await run(ids.map((id) => read(id)));
  const results = resultsOf(result);
  assert.deepEqual(results.map((one) => one.status), ['succeeded', 'succeeded', 'failed', 'succeeded']);
  assert.deepEqual(results.filter((one) => one.output?.id).map((one) => one.output.id), ['INBOX', 'SENT', 'TRASH']);
  assert.equal(result.isError, undefined);
  // what each returns is what run_action returns, and outside data is marked in the same way
  const alone = await mcp.call('run_action', read('SENT'));
  const known = ({ execution_id, started_at, finished_at, ...rest }) => rest;
  assert.deepEqual(known(results[1]), known(contentOf(alone)));
  assert.deepEqual(known(inside(result).own.results[1]), known(inside(alone).own));
  assert.deepEqual(inside(result).outside.results[1], inside(alone).outside);
  assert.ok(!JSON.stringify(inside(result).own).includes('INBOX'));
});

test('a fault of one action does not affect the others, and is its result', async () => {
  const before = (await ledger()).length;
  const list = [
    read(), { ...read(), inputs: {} }, { ...read(), arguments: {} }, 7, { integration_id: 'probe' }, { integration_id: 'probe', action_id: 'nope', input: {} },
    read('INBOX', { connection_id: 'no such label' }), read('INBOX', { connection_id: 'work' }), read('INBOX', { view: 'lean' }), send('unconfirmed'),
    send('sure', { confirm: true }), read('INBOX', { dry_run: true }),
  ];
  const result = await run(list);
  const results = resultsOf(result);
  const says = [/^$/, /run_action has no argument "?inputs/, /input/, /must be a JSON object/, /are required/, /no action/i, /No connection of probe has this label/, /^$/, /view must be "full"/, /was not confirmed/, /^$/, /^$/];
  for (const [at, pattern] of says.entries()) assert.match(results[at].error ?? results[at].message ?? '', pattern, `${at}: ${JSON.stringify(results[at])}`);
  const ended = results.flatMap(({ status }, at) => (status ? [[at, status]] : []));
  assert.deepEqual(ended, [[0, 'succeeded'], [5, 'blocked'], [7, 'succeeded'], [9, 'blocked'], [10, 'succeeded']]);
  assert.deepEqual(results[6].connections, [{ id: String(connection), label: 'work' }]);
  assert.deepEqual([results[9].error_code, results[11].dry_run], ['policy_blocked', true]);
  assert.equal((await ledger()).length, before + 1);
  // without any success the call has failed, as the action alone has
  const failed = await run([send('a'), send('b')]);
  assert.deepEqual([failed.isError, resultsOf(failed).length], [true, 2]);
  for (const actions of [undefined, [], {}, Array(51).fill(read())]) assert.equal((await run(actions)).isError, true);
});

test('a person is asked once about all writes, sees each whole, and all actions run after that', async () => {
  const before = await ledger();
  const list = [send('one "x"'), read(), send('two', { connection_id: 'work', confirm: true }), { ...send(''), input: {} }];
  const asked = await ask(list);
  assert.equal(asked.resultType, 'input_required');
  const target = ['', `probe send, with the connection ${connection}: "work"`, 'POST https://gmail.googleapis.com/gmail/v1/users/me/messages/send'];
  const shown = (number, subject) => ['', `${number}. Send`, ...target.slice(1), `subject: ${JSON.stringify(subject)}`];
  assert.deepEqual(asked.inputRequests.confirmation.params.message.split('\n'), ['2 writes, made together:', ...shown(1, 'one "x"'), ...shown(2, 'two')]);
  assert.deepEqual(await ledger(), before);
  const more = { requestState: asked.requestState, inputResponses: yes };
  const results = resultsOf(await ask(list, more));
  assert.deepEqual(results.map((one) => one.status), ['succeeded', 'succeeded', 'succeeded', 'blocked'], JSON.stringify(results));
  assert.equal(results[3].error_code, 'validation_error');
  assert.equal((await ledger()).length, before.length + 2);
  // The reply was lost: the same state gives the first results, also on another process.
  const again = resultsOf(await ask(list, more, FORM, new Mcp(second.base, account.key)));
  assert.deepEqual([0, 2].map((at) => [again[at].execution_id, again[at].idempotent_replayed]), [0, 2].map((at) => [results[at].execution_id, true]));
  assert.equal((await ledger()).length, before.length + 2);
  assert.match(contentOf(await ask(list, { ...more, inputResponses: no })).error, /came too late/);
  // The same list again, without the state, is another question.
  assert.equal((await ask(list)).resultType, 'input_required');
});

test('a "no" is final, and no answer is asked for again', async () => {
  const before = await ledger();
  const list = [send('never'), send('nor this', { idempotency_key: 'never-2' }), read()];
  const { requestState } = await ask(list);
  for (const inputResponses of [undefined, {}, { confirmation: { action: 'accept' } }]) {
    const again = await ask(list, { requestState, ...(inputResponses && { inputResponses }) });
    assert.deepEqual([again.resultType, again.requestState === requestState], ['input_required', false]);
  }
  assert.match(contentOf(await ask(list, { requestState, inputResponses: no })).error, /did not agree/);
  const late = resultsOf(await ask(list, { requestState, inputResponses: yes }, FORM, new Mcp(second.base, account.key)));
  assert.deepEqual(late.map((one) => one.error_code ?? one.status), ['policy_blocked', 'policy_blocked', 'succeeded'], JSON.stringify(late));
  assert.deepEqual(await ledger(), before);
});

test('a state of another call is refused, and nothing runs', async () => {
  const before = await ledger();
  const list = [send('mine'), read()];
  const { requestState } = await ask(list);
  const more = { requestState, inputResponses: yes };
  const others = [[send('other'), read()], [read(), send('mine')], [send('mine')], [send('mine'), read(), read()], [send('mine'), read('SENT')], [send('mine', { connection_id: 'work' }), read()]];
  for (const other of others) {
    const { error } = await mcp.ask('tools/call', { name: 'run_actions', arguments: { actions: other }, ...more }, FORM);
    assert.equal(error?.code, -32602, JSON.stringify(other));
  }
  const alone = await mcp.ask('tools/call', { name: 'run_action', arguments: send('mine'), ...more }, FORM);
  assert.equal(alone.error?.code, -32602);
  const single = await mcp.ask('tools/call', { name: 'run_action', arguments: send('mine') }, FORM);
  const { error } = await mcp.ask('tools/call', { name: 'run_actions', arguments: { actions: [send('mine')] }, requestState: single.result.requestState, inputResponses: yes }, FORM);
  assert.equal(error?.code, -32602);
  assert.deepEqual(await ledger(), before);
});

test('writes that do not fit into a form together are refused, and fewer of them are asked about', async () => {
  const before = await ledger();
  const large = Array.from({ length: 4 }, (_, at) => ({ integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@example.com', subject: 'x', text: `${at}`.repeat(9000) } }));
  const refused = await ask(large);
  assert.equal(refused.isError, true);
  assert.match(contentOf(refused).error, /larger together than a form can show \(32 KB\).*Nothing was done/);
  assert.equal((await ask(large.slice(0, 3))).resultType, 'input_required');
  assert.deepEqual(await ledger(), before);
});

test('keys and clients that cannot be asked are treated as alone', async () => {
  const before = await ledger();
  const [refuse, never, reads, writes] = await Promise.all([['--unattended-writes', 'refuse'], ['--forms', 'never'], ['--scopes', 'read,execute:read'], ['--scopes', 'read,execute:write']].map((args) => stack.key(account.id, args)));
  const of = async (key, options) => resultsOf(await run([send('keys', { confirm: true }), read()], new Mcp(server.base, key), options));
  const refused = await of(refuse, {});
  assert.deepEqual(refused.map((one) => one.error_code ?? one.status), ['policy_blocked', 'succeeded']);
  assert.match(refused[0].hint, /Use a client that can show a form/);
  assert.equal((await ask([send('keys'), read()], {}, FORM, new Mcp(server.base, refuse))).resultType, 'input_required');
  for (const options of [{}, FORM]) {
    const results = await of(reads, options);
    assert.deepEqual([results[0].error, results[1].status], ['This API key lacks the scope "execute:write"', 'succeeded']);
  }
  assert.deepEqual((await of(writes, {})).map((one) => one.error ?? one.status), ['succeeded', 'This API key lacks the scope "execute:read"']);
  assert.deepEqual(await ledger(), [...before, 'keys']);
  assert.deepEqual((await of(never, FORM)).map((one) => one.status), ['succeeded', 'succeeded']);
  assert.deepEqual(await ledger(), [...before, 'keys', 'keys']);
});

test('a key in _meta is one for each action', async () => {
  const before = await ledger();
  const meta = { 'sluice/idempotency_key': 'several' };
  const list = ['a', 'b'].map((subject) => send(subject, { confirm: true }));
  const [first, again] = [await run(list, mcp, { meta }), await run(list, mcp, { meta })].map(resultsOf);
  assert.deepEqual(again.map((one) => [one.execution_id, one.idempotent_replayed]), first.map((one) => [one.execution_id, true]));
  assert.equal((await ledger()).length, before.length + 2);
});

test('the outputs share one result, and read_result reads on', async () => {
  const value = 'x'.repeat(30000);
  const echo = (more) => ({ integration_id: 'probe', action_id: 'echo', input: { value }, ...more });
  const result = await run([echo(), echo(), echo(), echo({ max_output_bytes: 60000 })]);
  const results = resultsOf(result);
  assert.deepEqual(results.map((one) => [one.status, one.output.truncated ?? false]), [['succeeded', true], ['succeeded', true], ['succeeded', true], ['succeeded', false]]);
  assert.deepEqual(results.slice(0, 3).map((one) => one.output.max_output_bytes), [8192, 8192, 8192]);
  const [cut] = results[1].output.cuts;
  const rest = await mcp.call('read_result', { execution_id: results[1].execution_id, pointer: cut.pointer, offset: cut.kept });
  assert.equal(rest.isError, undefined);
});

const notes = async () => Number(await stack.cluster.sql(`select count(*) from sluice.idempotency_key where account_id = '${account.id}' and ascii(key) = 2`));
const noted = (count) => until(`${count} runs are noted`, async () => (await notes()) === count);
const forget = () => stack.cluster.sql(`delete from sluice.idempotency_key where account_id = '${account.id}' and ascii(key) = 2`);
const active = async (count) => until(`${count} runs are under way`, async () => (await server.metrics()).includes(`\nsluice_executions_active ${count}\n`));
const sure = (subject) => send(subject, { confirm: true });
const replayed = (results) => results.map((one) => [one.status, one.idempotent_replayed]);

test('equal writes without keys whose reply was lost are each made once by the same call', async () => {
  await forget();
  const before = (await ledger()).length, list = [sure('equal'), read(), sure('equal')];
  const held = await hold(stack.provider, { method: 'POST', path_prefix: '/gmail/' });
  await mcp.lose('run_actions', { actions: list }, () => held.reached(2));
  await noted(2);
  await held.letGo();
  const all = [mcp, new Mcp(second.base, account.key)].map((at) => run(list, at));
  for (const results of (await Promise.all(all)).map(resultsOf)) {
    assert.deepEqual(replayed(results), [['succeeded', true], ['succeeded', undefined], ['succeeded', true]], JSON.stringify(results));
    assert.notEqual(results[0].execution_id, results[2].execution_id);
  }
  assert.equal((await ledger()).length, before + 2);
});

test('of two equal writes, only the one that did nothing is made again', async () => {
  await forget();
  const before = (await ledger()).length, list = [sure('one of two'), sure('one of two')];
  const match = { method: 'POST', path_prefix: '/gmail/' };
  await stack.provider.faults([{ match, count: 1, action: { status: 400, hold: true } }, { match, count: 1, action: { hold: true } }]);
  const hits = async () => (await stack.provider.control('GET', '/faults')).rules.reduce((sum, one) => sum + one.hits, 0);
  await mcp.lose('run_actions', { actions: list }, () => until('both were sent', async () => (await hits()) === 2));
  await noted(2);
  await stack.provider.faults([]);
  await noted(1);
  const results = resultsOf(await run(list));
  assert.deepEqual(replayed(results).sort(), [['succeeded', undefined], ['succeeded', true]], JSON.stringify(results));
  assert.equal((await ledger()).length, before + 2);
});

test('a write that had ended when the reply was lost is not made again', async () => {
  await forget();
  const before = (await ledger()).length, list = [sure('ended'), send('unconfirmed'), { integration_id: 'probe', action_id: 'wait', input: { ms: 1 } }];
  const held = await hold(stack.provider, { path_prefix: '/sleep/' });
  await mcp.lose('run_actions', { actions: list }, () => held.reached(1).then(() => active(1)));
  await noted(1);
  await held.letGo();
  const results = resultsOf(await run(list));
  assert.deepEqual(replayed(results), [['succeeded', true], ['blocked', undefined], ['succeeded', undefined]], JSON.stringify(results));
  assert.equal((await ledger()).length, before + 1);
});

test('a write whose reply was lost is not made again by a call without the items that did not run', async () => {
  await forget();
  const before = (await ledger()).length, write = sure('with others');
  const list = [{ ...write, dry_run: true }, { ...write, confirm: false }, write, { integration_id: 'probe', action_id: 'wait', input: { ms: 1 } }];
  const held = await hold(stack.provider, { path_prefix: '/sleep/' });
  await mcp.lose('run_actions', { actions: list }, () => held.reached(1).then(() => active(1)));
  await noted(1);
  await held.letGo();
  assert.deepEqual(replayed(resultsOf(await run([write]))), [['succeeded', true]]);
  assert.equal((await ledger()).length, before + 1);
});

test('a client that disconnects before the writes begin makes none', async () => {
  const before = await ledger();
  const explained = { integration_id: 'gmail', action_id: 'trash_message', input: { id: 'demo0001' } };
  const held = await hold(stack.provider, { method: 'GET', path_prefix: '/gmail/' });
  await mcp.lose('run_actions', { actions: [explained, sure('too late')] }, () => held.reached(1));
  await active(0);
  await held.letGo();
  assert.deepEqual(await ledger(), before);
});

// The call waits for the database in between, so a reload may add the action that was unknown.
test('a write that appears after the person was to be asked does not run', async () => {
  const folder = join(stack.dir, 'growing'), before = await ledger();
  const probe = JSON.parse(await readFile(new URL('support/catalog/probe.json', import.meta.url)));
  const backends = async () => (await stack.cluster.sql("select pid from pg_stat_activity where application_name = 'sluice'")).split('\n').map(Number);
  await mkdir(folder);
  await writeFile(join(folder, 'probe.json'), JSON.stringify(probe));
  const others = new Set(await backends());
  const growing = await stack.serve({ env: { SLUICE_CATALOG: folder }, args: ['--database-timeout', '60s', '--cache-time', '1h'] }); // so that no query is given up, and the key is known
  const at = new Mcp(growing.base, account.key);
  // a process that begins to listen for changes forgets its keys
  const listeners = () => stack.cluster.sql(`select count(*) from pg_stat_activity where application_name = 'sluice' and query like 'listen %' and pid <> all (array[${[...others]}])`);
  await until('it listens for changes', async () => (await listeners()) === '1');
  for (const id of ['INBOX', 'SENT']) assert.equal((await at.call('run_action', read(id))).isError, undefined);
  const frozen = (await backends()).filter((pid) => !others.has(pid));
  const signal = (name) => frozen.forEach((pid) => process.kill(pid, name));
  const later = { ...send('later', { confirm: true }), action_id: 'send_later' };
  const unconnected = { integration_id: 'notion', action_id: 'archive_page', input: { page_id: '1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10' } };
  probe.actions.push({ ...probe.actions.find((one) => one.action_id === 'send'), action_id: 'send_later' });
  await writeFile(join(stack.dir, 'draft.json'), JSON.stringify(probe));
  signal('SIGSTOP');
  const asked = ask([later, unconnected], {}, FORM, at);
  try {
    await until('its dry run waits for the database', async () => /^sluice_executions_active 1$/m.test(await growing.metrics()));
    await rename(join(stack.dir, 'draft.json'), join(folder, 'probe.json'));
    growing.process.kill('SIGHUP');
    await until('the catalog was reloaded', () => growing.log.includes('"msg":"the catalog was reloaded"'));
  } finally {
    signal('SIGCONT');
  }
  const results = resultsOf(await asked);
  assert.deepEqual(results.map((one) => [one.status, one.error_code]), [['blocked', 'policy_blocked'], ['blocked', 'integration_not_connected']], JSON.stringify(results));
  assert.deepEqual(await ledger(), before);
});
