// A provider whose answers the test defines, and manifests for it. For tests that need a
// misbehaving provider, or that test its limits.
import { mkdir, writeFile } from 'node:fs/promises';
import http from 'node:http';
import { join } from 'node:path';

// on(request, reply, url): answers one request. `seen` counts requests by path. `most` is the
// largest number of concurrent requests.
export class Scripted {
  static async start(on, options = {}) {
    const scripted = new Scripted();
    Object.assign(scripted, { seen: {}, now: 0, most: 0 });
    scripted.server = (options.createServer ?? http.createServer)((request, reply) => {
      const url = new URL(request.url, 'http://x');
      scripted.seen[url.pathname] = (scripted.seen[url.pathname] ?? 0) + 1;
      scripted.most = Math.max(scripted.most, ++scripted.now);
      reply.on('close', () => scripted.now--);
      request.resume();
      on(request, reply, url);
    });
    await new Promise((resolve) => scripted.server.listen(0, '127.0.0.1', resolve));
    scripted.port = scripted.server.address().port;
    scripted.url = `http://127.0.0.1:${scripted.port}`;
    return scripted;
  }

  stop() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }
}

const action = (action_id, more) => ({
  action_id,
  title: `Call ${action_id}`,
  description: 'A request of the test.',
  side_effect_level: 'read',
  input_schema: {
    type: 'object',
    additionalProperties: false,
    properties: { q: { type: 'string', description: 'Anything.', minLength: 1, maxLength: 100 } },
  },
  request: { method: 'GET', path: `/${action_id}`, query: { q: '${input.q}' } },
  display: { title: 'Done', summary: 'Done' },
  ...more,
});

// Writes manifests to a separate folder: {integration_id: {actions: {action_id: {...}},
// ...members}}. Each has the base URL https://<integration_id>.example.com unless it sets another.
export async function writeCatalog(dir, integrations) {
  const folder = join(dir, 'scripted-catalog');
  await mkdir(folder, { recursive: true });
  for (const [integration_id, { actions, ...members }] of Object.entries(integrations)) {
    const manifest = {
      integration_id,
      name: integration_id,
      description: 'For a test.',
      category: 'test',
      base_url: `https://${integration_id}.example.com`,
      auth: { type: 'none' },
      ...members,
      actions: Object.entries(actions ?? { read: {} }).map(([id, more]) => action(id, more)),
    };
    await writeFile(join(folder, `${integration_id}.json`), JSON.stringify(manifest, null, 2));
  }
  return folder;
}

// The arguments that redirect calls of these integrations to a URL.
export const overrides = (url, ...ids) => ids.flatMap((id) => ['--origin-override', `https://${id}.example.com=${url}`]);
