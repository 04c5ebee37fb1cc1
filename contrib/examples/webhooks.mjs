// A receiver of events: it makes an endpoint, starts a flow, verifies each message with npm's
// `standardwebhooks`, and deletes the endpoint once the flow has ended. `npm install`, then `node
// webhooks.mjs` in the folder where `sluice dev` runs, or with SLUICE_URL and SLUICE_KEY. A server other
// than `sluice dev` reaches this address only with `--webhook-host 127.0.0.1`.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Webhook } from 'standardwebhooks';

const base = process.env.SLUICE_URL ?? 'http://127.0.0.1:8080';
const key = process.env.SLUICE_KEY ?? readFileSync('.sluice/api_key', 'utf8').trim();

async function api(method, path, body) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const reply = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
  const json = await reply.json();
  if (!reply.ok) throw new Error(`${method} ${path}: ${json.error}`);
  return json;
}

const heard = new Set(); // a message may come twice, with the same webhook-id
const ended = new Set(); // flows; a message may come before the reply to the start
let hook;
let check = () => {};

const receiver = createServer(async (request, reply) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts).toString(); // verify the bytes as they came, then parse them
  try {
    new Webhook(hook.secret).verify(body, request.headers);
  } catch {
    return reply.writeHead(401).end(); // not from sluice, or older than five minutes
  }
  reply.writeHead(204).end(); // answer first: what takes longer comes after
  const { type, data } = JSON.parse(body);
  if (heard.has(request.headers['webhook-id'])) return;
  heard.add(request.headers['webhook-id']);
  console.log(`${type}: ${data.template_key} ${data.flow_id}`);
  ended.add(data.flow_id);
  check();
});
await new Promise((resolve) => receiver.listen(0, '127.0.0.1', resolve));

const url = `http://127.0.0.1:${receiver.address().port}/`;
hook = await api('POST', '/api/webhooks', { url, events: ['flow.completed', 'flow.failed'], description: 'example' });
const { flowId } = await api('POST', '/api/flows/start', { flowTemplate: 'unread_mail_summary', input: {} });
console.log(`started ${flowId}`);
await new Promise((resolve) => {
  check = () => ended.has(flowId) && resolve();
  check();
});
await api('DELETE', `/api/webhooks/${hook.id}`);
receiver.close();
