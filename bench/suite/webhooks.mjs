// Flows of an account with one endpoint of events, which accepts each message: their rate, against
// the same flows without an endpoint in the same repetition. All events have to be delivered in the
// end; the note says when.
import { createServer } from 'node:http';
import { basename } from 'node:path';
import { until } from '../../tests/e2e/support/client.mjs';

const DRAIN_MS_MAX = 120_000;

export async function measureWebhooks(stage, scenario) {
  const receiver = createServer((request, reply) => request.resume().on('end', () => reply.writeHead(204).end()));
  await new Promise((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${receiver.address().port}/`;
  try {
    const { key } = stage.account;
    await stage.settle();
    const base = await stage.load(scenario, { name: 'webhooks_none' });
    const made = await stage.server.call(key, 'POST', '/api/webhooks', { url });
    if (made.status !== 201) throw new Error(made.text);
    const rows = (status) => stage.sql(`select count(*) from sluice.delivery where webhook_id = '${made.json.id}' and status = '${status}'`).then(Number);
    await stage.settle();
    const { per_second } = await stage.load(scenario, { name: `webhooks_${basename(scenario, '.json')}` });
    const began = Date.now();
    await until('all events are delivered', async () => (await rows('pending')) === 0, DRAIN_MS_MAX);
    const drain = (Date.now() - began) / 1000;
    const [delivered, failed] = [await rows('delivered'), await rows('failed')];
    await stage.server.call(key, 'DELETE', `/api/webhooks/${made.json.id}`);
    if (failed > 0) throw new Error(`${failed} of ${delivered + failed} events failed`);
    return { base: base.per_second, value: per_second, note: `${delivered} events, the last ${drain.toFixed(1)} s after the load` };
  } finally {
    receiver.closeAllConnections();
    receiver.close();
  }
}
