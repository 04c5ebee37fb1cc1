// What an agent does over the Model Context Protocol, step by step and without a model: it searches for
// two things at once, describes, runs a read, runs two writes that the person at the terminal confirms in
// one form, and starts a flow that the person approves. `npm install`, then `node agent.mjs` in the folder where `sluice dev` runs, or with
// SLUICE_URL and SLUICE_KEY.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const base = process.env.SLUICE_URL ?? 'http://127.0.0.1:8080';
const key = process.env.SLUICE_KEY ?? readFileSync('.sluice/api_key', 'utf8').trim();
const headers = { authorization: `Bearer ${key}` };

// Only "y" is a yes; the end of the input is a no.
const terminal = createInterface({ input: process.stdin });
const lines = terminal[Symbol.asyncIterator]();
async function person(question) {
  console.log(`${question}\n  [y/N]`);
  const { value = '' } = await lines.next();
  return value.trim().toLowerCase() === 'y';
}

const client = new Client(
  { name: 'sluice-example', version: '1.0.0' },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: 'auto' } },
);
client.setRequestHandler('elicitation/create', async ({ params }) =>
  (await person(params.message)) ? { action: 'accept', content: { confirm: true } } : { action: 'decline' });
await client.connect(new StreamableHTTPClientTransport(new URL('/mcp?structured=1', base), { requestInit: { headers } }));

// A blocked or failed call is a result, too, for the model to read.
async function tool(name, args) {
  const { structuredContent: result, isError } = await client.callTool({ name, arguments: args });
  console.log(`${name}: ${isError ? (result.message ?? result.error) : (result.display?.summary ?? 'ok')}`);
  return result;
}

const { items } = await tool('search_actions', { queries: ['send an email', 'reply to an email'], connected_only: true });
const [send, reply] = ['send_message', 'reply_to_message'].map((id) => items.find((item) => item.action_id === id));
console.log(`found ${send.integration_id} ${send.action_id} and ${reply.action_id}`);
const { input_schema } = await tool('describe_action', { integration_id: reply.integration_id, action_id: reply.action_id });
console.log(`it takes ${Object.keys(input_schema.properties).join(', ')}`);
const { output } = await tool('run_action', { integration_id: 'gmail', action_id: 'list_messages', input: { query: 'is:unread', maxResults: 3 } });

// One form has both writes. It says which mail is answered in words; what runs is the exact input.
const action = ({ integration_id, action_id }, input) => ({ integration_id, action_id, input });
await tool('run_actions', {
  actions: [
    action(send, { to: 'ada@example.com', subject: 'Hello', text: 'From an agent' }),
    action(reply, { id: output.messages[0].id, text: 'Read by an agent' }),
  ],
});

const taskParent = { page_id: '1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10' };
const { flowId } = await tool('start_flow', { template: 'unread_mail_to_tasks', input: { maxResults: 1, taskParent } });
const waiting = await tool('get_flow', { flow_id: flowId, wait: 30 });
// A model has no tool for this: the person's program approves.
const verb = (await person(`The flow will write:\n${JSON.stringify(waiting.to_approve, null, 2)}`)) ? 'approve' : 'cancel';
await fetch(new URL(`/api/flows/${flowId}/${verb}`, base), { method: 'POST', headers });
const { flow } = await tool('get_flow', { flow_id: flowId, wait: 30 });
console.log(`the flow is ${flow.status}`);
terminal.close();
await client.close();
