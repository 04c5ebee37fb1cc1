// What thirty tasks of a person's day cost an agent: calls over /mcp, and tokens (a quarter of the
// bytes of arguments and text content), compared with the cost before the tools were reworked.
// support/agent_calls.mjs has the calls and the recorded numbers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { compile, TreeInterpreter } from '@jmespath-community/jmespath';
import { until } from './support/client.mjs';
import { TASKS, callsNow } from './support/agent_calls.mjs';
import { AgentStage } from './support/agent_stage.mjs';
import { Mcp, marked } from './support/mcp.mjs';

// The share of the recorded tokens and calls that the tasks cost now, rounded up. It may only fall.
const REACHED = { tokens: 0.25, calls: 0.57 };
// Runs the calls from before the rework, with the program from before it, and prints the numbers to
// record.
const isBefore = process.env.SLUICE_AGENT_TASKS === 'before';
const REST = 'resources/read';
const APPS = ['gmail', 'notion', 'slack', 'google_calendar', 'stripe'];
let stage, daily, known;

before(async () => {
  stage = await AgentStage.start();
  daily = await stage.account('daily', APPS);
  const mcp = new Mcp(stage.server.base, daily.agent);
  const [list, about] = await Promise.all([mcp.ask('tools/list'), mcp.ask('server/discover')]);
  known = JSON.stringify(list.result.tools) + JSON.stringify(about.result.instructions);
});
after(() => stage?.stopWell(assert));

// Returns the value with its expressions evaluated.
function build(value, scope) {
  if (typeof value === 'string' && value.startsWith('=')) {
    const found = TreeInterpreter.search(compile(value.slice(1)), scope);
    assert.ok(found != null && found !== '', `${value} gives nothing: ${JSON.stringify(scope.r.at(-1)).slice(0, 1000)}`);
    return found;
  }
  if (Array.isArray(value)) return value.map((one) => build(one, scope));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, build(one, scope)]));
}

// The names and identifiers of a call's arguments that the agent cannot know, because they are not
// in the text. The agent may write sentences. For a time, the text has to contain the day. A channel
// may be named as #name once the text says so.
function unknownIn(value, text) {
  const isKnown = (word) => /\s/.test(word) || text.includes(JSON.stringify(word).slice(1, -1)) || (/^\d{4}-\d\d-\d\dT/.test(word) && text.includes(word.slice(0, 10))) || (word.startsWith('#') && text.includes('#name') && isKnown(word.slice(1)));
  if (typeof value === 'string') return isKnown(value) ? [] : [value];
  if (value === null || typeof value !== 'object') return [];
  const names = Array.isArray(value) ? [] : Object.keys(value).filter((name) => !isKnown(name));
  return [...names, ...Object.values(value).flatMap((one) => unknownIn(one, text))];
}

// The text of a reply, which is what a model reads.
const textOf = ({ result }) => (result.content ?? result.contents).flatMap(({ text }) => text ?? []).join('');
// The JSON of a reply; a search returns lines. The program from before the rework marked a result
// as a whole.
function jsonOf(reply) {
  const whole = textOf(reply).match(/^BEGIN (\S+)\n(.*)\nEND \1$/s);
  if (!textOf(reply).startsWith('{') && !whole && !textOf(reply).startsWith('BEGIN ')) return { lines: textOf(reply) };
  return whole ? JSON.parse(whole[2]) : marked(textOf(reply)).json;
}

// Runs the calls of a task. Returns {calls, bytes, text, replies}.
async function play(task, script, account) {
  const mcp = new Mcp(stage.server.base, account.agent);
  const spent = { calls: 0, bytes: 0, text: '', replies: [] };
  let results;
  for (const step of script) {
    if (!step) {
      spent.replies.push({});
      continue;
    }
    if (step.result > 0) {
      spent.replies.push(results[step.result]);
      continue;
    }
    const { tool, person, args, ...more } = build(step, { r: spent.replies });
    if (person === 'approve') {
      const reply = await stage.server.call(account.person, 'POST', `/api/flows/${more.flow}/approve`);
      assert.equal(reply.status, 200, reply.text);
      continue;
    }
    if (person === 'connect') {
      await stage.connect(account.id, more.app);
      // The command's notification may arrive after its end; the server's cache is older until then.
      await until('the connection is known', async () => {
        const { json } = await stage.server.call(account.person, 'POST', '/api/executions', { integration_id: more.app, action_id: 'list_channels', input: {}, dry_run: true });
        return json.error_code !== 'integration_not_connected';
      });
      continue;
    }
    assert.deepEqual(unknownIn(tool === REST ? args.uri : args, known + task.ask + spent.text), [], `${task.name}: no reply has named these arguments of ${tool}`);
    const reply = await (tool === REST ? mcp.ask(tool, args) : mcp.ask('tools/call', { name: tool, arguments: args }));
    assert.ok(reply.result, `${task.name}: ${reply.text}`);
    const text = textOf(reply);
    spent.calls++;
    spent.bytes += Buffer.byteLength(JSON.stringify(args)) + Buffer.byteLength(text);
    spent.text += text;
    const json = jsonOf(reply);
    if (tool === 'run_actions') ({ results } = json);
    spent.replies.push(tool === 'run_actions' ? results[0] : json);
  }
  return spent;
}

// A mail that is longer than what a tool returns.
const night = () => ({
  from: 'Build Bot <ci@builds.example.com>', subject: 'Log of the night build',
  text: Array.from({ length: 800 }, (_, at) => `${String(at).padStart(4, '0')} the test that ran is test_night_${at}, passed`).join('\n') + '\nthe last test that failed is test_night_999',
});

// Returns the argument for a task's `reached`.
async function stateAfter({ replies, text }, { person }) {
  const { flowId } = replies.find((one) => one.flowId) ?? {};
  const flow = flowId && (await stage.server.call(person, 'GET', `/api/flows/${flowId}`)).json.flow;
  return { text, flow, ledger: await stage.stack.provider.ledger(), slack: stage.slack.done, stripe: stage.stripe.done, events: await stage.events() };
}

const spentOn = [];
for (const task of TASKS)
  test(task.name, async () => {
    await stage.reset();
    if (task.hasLongMail) await stage.stack.provider.control('POST', '/mail', night());
    const account = task.account ? await stage.account(task.name, task.account) : daily;
    if (task.removed) await stage.disconnect(account, task.removed);
    const spent = await play(task, isBefore ? task.before : callsNow(task), account);
    const state = await stateAfter(spent, account);
    assert.ok(await task.reached(state), `${task.name}: ${JSON.stringify({ ...state, text: spent.text.slice(-3000) })}`);
    spentOn.push({ task, ...spent });
  });

test('the sums', () => {
  assert.equal(spentOn.length, TASKS.length);
  const tokens = (bytes) => Math.round(bytes / 4);
  const sum = (of) => spentOn.reduce((all, one) => all + of(one), 0);
  const row = (...cells) => cells.map((cell, at) => (at ? String(cell).padStart(9) : cell.padEnd(34))).join('');
  console.log(row('', 'calls', 'before', 'tokens', 'before'));
  for (const { task, calls, bytes } of spentOn) console.log(row(task.name, calls, task.recorded[0], tokens(bytes), tokens(task.recorded[1])));
  const now = { calls: sum((one) => one.calls), tokens: tokens(sum((one) => one.bytes)) };
  const then = { calls: sum(({ task }) => task.recorded[0]), tokens: tokens(sum(({ task }) => task.recorded[1])) };
  console.log(row('all', now.calls, then.calls, now.tokens, then.tokens));
  if (isBefore) {
    for (const { task, calls, bytes } of spentOn) console.log(`recorded: [${calls}, ${bytes}], // ${task.name}`);
    return;
  }
  for (const what of ['tokens', 'calls']) {
    const ratio = now[what] / then[what];
    console.log(`${what}: ${ratio.toFixed(4)} of before`);
    assert.ok(ratio <= REACHED[what], `${what}: ${ratio} of before is more than ${REACHED[what]}`);
  }
});
