// One session in each era, with the official SDK's client and a person with a real browser: search,
// describe, run, connect by the link that the server gives, confirm, start a flow that the person
// approves, and read the rest of an output that was cut.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser } from './support/browser.mjs';
import { MODERN, connect, contentOf } from './support/mcp.mjs';
import { Stack, credentials } from './support/stack.mjs';

const LABEL = { integration_id: 'probe', action_id: 'read_label', input: { id: 'INBOX' } };
let stack, server, browser;

before(async () => {
  stack = await Stack.start();
  [server, browser] = await Promise.all([stack.serve(), Browser.start()]);
});
after(async () => {
  await browser?.stop();
  await stack?.stopWell(assert);
});

// The person's actions on a connect link, and on a flow that waits for approval.
async function giveAccess(url, account) {
  const visit = await browser.visit(server.base);
  await visit.goto(url);
  assert.match(await visit.title(), / asks you to connect Probe$/);
  await visit.sees(`You are giving ${account.name} access to Probe on your behalf.`);
  await visit.press('Continue');
  await visit.page.getByLabel('Token', { exact: true }).fill(credentials.probe.token);
  await visit.press('Connect Probe');
  assert.equal(await visit.title(), 'Connected: Probe');
  await visit.end();
}

async function approve(flowId, account) {
  const visit = await browser.visit(server.base);
  await visit.goto(`/flows/${flowId}`);
  await visit.page.getByLabel('API key').fill(account.key);
  await visit.press('Sign in');
  await visit.press('Approve');
  await visit.sees(/You approved this, /);
  await visit.end();
}

const ledger = async () => (await stack.provider.ledger()).length;

// run: how a model gets the result of a read from an app that is not connected, and the result of a
// write. Returns the questions that the client asked its user.
async function walk(name, options, run) {
  const account = { name, ...(await stack.account(name, { apps: [] })) };
  const client = await connect(server.base, account.key, options);
  const call = (tool, args) => client.callTool({ name: tool, arguments: args });
  const asked = [];
  const agree = { action: 'accept', content: { confirm: true } };
  if (options.capabilities)
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      asked.push(params);
      if (params.mode !== 'url') return agree;
      await giveAccess(params.url, account);
      return { action: 'accept' };
    });

  const found = await call('search_actions', { query: 'read a label' });
  assert.match(found.content[0].text, /^probe read_label\(id!\)  read  not connected, call connect_app first  /m);
  const described = await call('describe_action', { integration_id: 'probe', action_id: 'read_label' });
  assert.deepEqual(contentOf(described).input_schema.required, ['id']);

  const read = await run.read(call, LABEL, account);
  assert.deepEqual([contentOf(read).status, contentOf(read).output.id], ['succeeded', 'INBOX']);

  const before = await ledger();
  const sent = await run.write(call, { integration_id: 'probe', action_id: 'send', input: { subject: `walk ${name}` } });
  assert.equal(contentOf(sent).status, 'succeeded', JSON.stringify(sent));
  assert.equal(await ledger(), before + 1);

  const started = await call('start_flow', { template: 'probe_approve', input: { subject: `flow ${name}` } });
  const flow_id = contentOf(started).flowId;
  const waiting = await call('get_flow', { flow_id, wait: 60 });
  assert.equal(contentOf(waiting).flow.status, 'waiting');
  assert.equal(await ledger(), before + 1);
  await approve(flow_id, account);
  const ended = await call('get_flow', { flow_id, wait: 60 });
  assert.equal(contentOf(ended).flow.status, 'completed', JSON.stringify(contentOf(ended)));
  assert.equal(await ledger(), before + 2);

  const value = Array.from({ length: 3000 }, (_, at) => `line ${at} of what is too long`);
  const cut = await call('run_action', { integration_id: 'probe', action_id: 'echo', input: { value } });
  assert.equal(contentOf(cut).output.truncated, true);
  const items = [...contentOf(cut).output.preview.value];
  for (let uri = contentOf(cut).output.cuts[0].more; uri; ) {
    const { output } = contentOf(await client.readResource({ uri }));
    items.push(...(output.truncated ? output.preview : output));
    uri = output.truncated ? output.cuts[0].more : null;
  }
  assert.deepEqual(items, value);
  const eras = new Set(client.seen.map((one) => one.version === MODERN));
  assert.deepEqual([...eras], [options.mode !== 'legacy']);
  await client.close();
  return asked;
}

test('2026-07-28: the client asks its user itself', async () => {
  const plain = (call, args) => call('run_action', args);
  const asked = await walk('modern', { mode: { pin: MODERN }, capabilities: { elicitation: { form: {}, url: {} } } }, { read: plain, write: plain });
  assert.deepEqual(asked.map((one) => one.mode), ['url', 'form']);
  assert.match(asked[1].message, /\nsubject: "walk modern"$/);
});

test('2025-11-25: the model asks, and confirms what the person agreed to', async () => {
  const read = async (call, args, account) => {
    const blocked = await call('run_action', args);
    assert.deepEqual([blocked.isError, contentOf(blocked).error_code], [true, 'integration_not_connected']);
    const content = contentOf(await call('connect_app', contentOf(blocked).recommended_next_action.input));
    await giveAccess(content.url, account);
    return call('run_action', args);
  };
  const write = async (call, args) => {
    const blocked = await call('run_action', args);
    assert.deepEqual([blocked.isError, contentOf(blocked).error_code], [true, 'policy_blocked']);
    return call('run_action', { ...args, confirm: true });
  };
  assert.deepEqual(await walk('legacy', { mode: 'legacy' }, { read, write }), []);
});
