// The real server in front of a provider of the tests, with one connection for each lane. The
// credential of a request identifies its lane, so many lanes can run concurrently.
import { mkdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { makeCertificates } from '../support/nginx.mjs';
import { Stack } from '../support/stack.mjs';
import { manifestOf } from './recordings.mjs';

// The connection's parameters if the cases do not give them.
const PARAMS = {
  http: { base: 'replay.example.com' },
  jira: { cloud_id: '01234567-89ab-cdef-0123-456789abcdef' },
  salesforce: { instance: 'replay.my.salesforce.com' },
  twilio: { account_sid: 'AC0123456789abcdef0123456789abcdef' },
  zendesk: { subdomain: 'replay' },
};

const credentialOf = (manifest, token) =>
  ({
    oauth2: { access_token: token },
    bearer: { token },
    api_key: { api_key: token },
    basic: { username: token, password: token },
  })[[manifest.auth].flat()[0].type];

// "https://x.example.com/base" for a manifest whose base_url has parameters.
const baseOf = (manifest, params) => manifest.base_url.replace(/\$\{connection\.params\.(\w+)\}/g, (_, name) => params[name]);

// Origins that requests of actions use instead of that of base_url.
const hostsOf = ({ actions }) =>
  actions.flatMap(({ request }) => [request, ...(request.instead ?? [])]).flatMap(({ base_url: url }) => (url ? [new URL(url).origin] : []));

// The lane's token, wherever the request has the credential.
function laneIn(request) {
  const { authorization = '', ...headers } = request.headers;
  const basic = authorization.startsWith('Basic ') ? Buffer.from(authorization.slice(6), 'base64').toString() : '';
  return [request.url, authorization, basic, ...Object.values(headers)].join('\n').match(/lane-\d+-end/)?.[0];
}

async function bytesOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

export class Stage {
  // wanted: [{app, params?, own?}]: one lane for each distinct entry.
  static async start(wanted) {
    const stage = new Stage();
    stage.lanes = new Map();
    stage.answers = new Map(); // token -> the function that answers its requests
    stage.stack = await Stack.start({ provider: false });
    try {
      await stage.#open(wanted);
    } catch (error) {
      await stage.stop();
      throw error;
    }
    return stage;
  }

  async #open(wanted) {
    await this.#listen();
    const { id, key } = await this.stack.account('replay', { apps: [] });
    this.account = id;
    this.key = key;
    const origins = new Set();
    const waiting = new Map(); // the connections of an app in order: the first becomes the default
    for (const one of wanted) {
      const name = this.#nameOf(one);
      if (this.lanes.has(name)) continue;
      const manifest = manifestOf(one.app);
      const params = one.params ?? PARAMS[one.app];
      const lane = { token: `lane-${this.lanes.size}-end`, base: new URL(baseOf(manifest, params)) };
      this.lanes.set(name, lane);
      for (const origin of [lane.base.origin, ...hostsOf(manifest)]) origins.add(origin);
      const args = params && manifest.connection_params ? ['--params', JSON.stringify(params)] : [];
      const connect = [one.app, credentialOf(manifest, lane.token), ['--label', lane.token, ...args]];
      waiting.set(one.app, [...(waiting.get(one.app) ?? []), [lane, connect]]);
    }
    const queue = [...waiting.values()];
    const work = async () => {
      for (let next; (next = queue.shift()); )
        for (const [lane, connect] of next) lane.connection = await this.stack.connect(id, ...connect);
    };
    await Promise.all([work(), work(), work()]);
    const args = [...origins].flatMap((origin) => ['--origin-override', `${origin}=${this.url}`]);
    this.args = [...args, '--ca-file', this.caFile, '--circuit-volume', '0'];
    this.server = await this.serve();
  }

  serve(args = []) {
    return this.stack.serve({ args: [...this.args, ...args] });
  }

  async #listen() {
    const dir = join(this.stack.dir, 'replay');
    await mkdir(dir);
    const { caFile, certFile, keyFile } = await makeCertificates(dir);
    this.caFile = caFile;
    this.provider = createServer({ cert: await readFile(certFile), key: await readFile(keyFile) }, async (request, reply) => {
      const body = await bytesOf(request);
      const url = new URL(request.url, 'https://h');
      const token = laneIn(request);
      const seen = {
        method: request.method,
        path: request.url.split('?')[0],
        query: [...url.searchParams],
        headers: request.headers,
        body,
      };
      const answer = (await this.answers.get(token)?.(seen)) ?? { status: 404, body: '{"replay":"no case is under way"}' };
      reply.writeHead(answer.status, answer.headers ?? { 'content-type': 'application/json' });
      reply.end(answer.body);
    });
    await new Promise((listening) => this.provider.listen(0, '127.0.0.1', listening));
    this.url = `https://localhost:${this.provider.address().port}`;
  }

  #nameOf({ app, params, own }) {
    return JSON.stringify([app, params ?? null, own ?? null]);
  }

  laneOf(wanted) {
    return this.lanes.get(this.#nameOf(wanted));
  }

  // Runs an action in a lane. answer(seen, nth) returns the provider's reply to the nth request.
  // {status, headers, json, summary, seen}
  async run(wanted, action, input, answer, { files, query = '' } = {}) {
    const lane = this.laneOf(wanted);
    const seen = [];
    this.answers.set(lane.token, (request) => {
      seen.push(request);
      return answer(request, seen.length - 1);
    });
    const body = { arguments: input, connectionId: lane.connection, confirmed: true, ...(files && { files }) };
    const reply = await this.server.call(this.key, 'POST', `/api/tools/${wanted.app}_${action}/execute${query}`, body);
    this.answers.delete(lane.token);
    return { ...reply, summary: reply.json?.canonical ?? reply.json, seen };
  }

  #close() {
    this.provider?.closeAllConnections();
    this.provider?.close();
  }

  async stop() {
    this.#close();
    await this.stack.stop();
  }

  async stopWell(assert) {
    this.#close();
    await this.stack.stopWell(assert);
  }
}
