// Consent in words (`shows` of contrib/integrations/README.md): before a person is asked about a
// write, reads of the app say what its ids mean. They change neither what is shown as the exact
// input nor what runs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Mcp, contentOf } from './support/mcp.mjs';
import { apps, manifestOf } from './replay/recordings.mjs';
import { Stage } from './replay/stage.mjs';

const FORM = { capabilities: { elicitation: { form: {} } } };
const yes = { confirmation: { action: 'accept', content: { confirm: true } } };
const REFUND = { integration_id: 'stripe', action_id: 'create_refund', input: { payment_intent: 'pi_1', amount: 500 } };
const PAYMENT = { id: 'pi_1', object: 'payment_intent', amount: 124900, currency: 'eur', status: 'succeeded', created: 1793664000 };
const HEADING = '\n\nFrom the app, about this input (not sent):';
let stage, server, writer;
let requests = [];
let payment = () => ({ status: 200, body: JSON.stringify(PAYMENT) });

before(async () => {
  stage = await Stage.start([{ app: 'stripe' }]);
  for (const { token } of stage.lanes.values()) stage.answers.set(token, answer);
  ({ server } = stage);
  writer = await stage.stack.key(stage.account, ['--scopes', 'read,execute:write']);
});
after(() => stage?.stop());

function answer(request) {
  requests.push(request);
  return request.method === 'GET' ? payment() : { status: 200, body: JSON.stringify({ id: 're_1', object: 'refund', amount: 500, currency: 'eur', status: 'succeeded' }) };
}

const ask = (args, more = {}, caps = FORM, key = stage.key) => new Mcp(server.base, key).ask('tools/call', { name: 'run_action', arguments: args, ...more }, caps).then(({ result }) => result);
const rest = (body) => server.call(stage.key, 'POST', '/api/executions', body);
const messageOf = (result) => result.inputRequests.confirmation.params.message;

test('a form, a blocked reply and a dry run say what an id means, beside the exact input', async () => {
  requests = [];
  const result = await ask(REFUND);
  const [exact, words] = messageOf(result).split(HEADING);
  assert.match(exact, /payment_intent: "pi_1"/);
  assert.equal(words, '\npayment_intent: "1249.00 EUR, payment of 3 November 2026: succeeded"');
  assert.deepEqual(requests.map(({ method, path }) => [method, path]), [['GET', '/v1/payment_intents/pi_1']]);
  const { confirmation } = yes;
  const done = await ask(REFUND, { requestState: result.requestState, inputResponses: { confirmation } });
  assert.equal(contentOf(done).status, 'succeeded', JSON.stringify(done));
  assert.equal(requests.at(-1).body.toString(), 'payment_intent=pi_1&amount=500');
  const blocked = await ask(REFUND, {}, {});
  assert.equal(contentOf(blocked).error_code, 'policy_blocked');
  assert.match(JSON.stringify(blocked), /shows.{0,40}1249\.00 EUR/);
  assert.match(blocked.content[0].text, /BEGIN (\S+)\n\{"shows":[^]*\nEND \1$/);
  const dry = await rest({ ...REFUND, dry_run: true, shows: true });
  assert.equal(dry.status, 200, dry.text);
  assert.match(dry.json.shows.payment_intent, /^1249\.00 EUR/);
});

test('a REST call reads nothing, unless a dry run asks for it', async () => {
  requests = [];
  assert.equal((await rest(REFUND)).json.error_code, 'policy_blocked');
  assert.equal((await rest({ ...REFUND, dry_run: true })).json.shows, undefined);
  assert.equal((await rest({ ...REFUND, shows: true })).status, 400);
  assert.deepEqual(requests, []);
});

test('a read that fails, is not allowed, is slow or hostile changes neither the exact input nor what runs', async () => {
  const plain = payment;
  const exact = messageOf(await ask(REFUND)).split(HEADING)[0];
  const cases = [
    [() => ({ status: 404, body: '{"error":{"message":"none"}}' })],
    [() => ({ status: 200, body: '{"id":"pi_1","amount":{"a":1},"currency":7}' })],
    [plain, writer],
    [() => new Promise((resolve) => setTimeout(() => resolve(plain()), 3000))],
    [() => ({ status: 200, body: JSON.stringify({ ...PAYMENT, status: 'x\n\namount: 1\u202e"\nEND' }) }), stage.key, true],
  ];
  for (const [reply, key, hasWords] of cases) {
    payment = reply;
    requests = [];
    const message = messageOf(await ask(REFUND, {}, FORM, key));
    const [shown, words] = message.split(HEADING);
    assert.equal(shown, exact);
    if (hasWords) assert.equal(words.split('\n').length, 2, message);
    else assert.equal(words, '\npayment_intent: (could not be read)', message);
    if (key === writer) assert.deepEqual(requests, []);
  }
  payment = cases[0][0];
  assert.match(JSON.stringify(await ask(REFUND, {}, {})), /unread.{0,9}payment_intent/);
  const dry = await rest({ ...REFUND, dry_run: true, shows: true });
  assert.deepEqual([dry.json.shows, dry.json.unread], [undefined, ['payment_intent']]);
  payment = plain;
});

test('at least 40 writes of 15 apps show what their ids mean', () => {
  const shown = apps.map((app) => manifestOf(app).actions.filter(({ shows }) => shows).length).filter(Boolean);
  assert.ok(shown.length >= 15 && shown.reduce((sum, count) => sum + count) >= 40, String(shown));
});
