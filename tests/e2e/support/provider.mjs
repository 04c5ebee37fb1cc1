// Starts the emulated provider for a test and talks to it.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, watch } from 'node:fs';
import https from 'node:https';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');
const program = process.env.SLUICE_PROVIDER_BIN ?? join(root, 'build/sluice-provider');

export const GMAIL = 'ya29.demo-gmail-full';
export const NOTION = 'ntn_demo_notion';
export const ADDRESS = 'sam.rivera@example.com';
export const TASK_PAGE = '1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10';
export const TASK_DATABASE = '8e1d4c6b-2a3f-4b5c-9d7e-0f1a2b3c4d20';
export const TASK_SOURCE = '8e1d4c6b-2a3f-4b5c-9d7e-0f1a2b3c4d21';
export const NOTION_VERSION = '2026-03-11';
export const mailId = (k) => (0x19a4b6c7d8e90000n + BigInt(k)).toString(16);
export const taskId = (k) => `b3d5f7a9-1c2e-4a6b-8d0f-${k.toString(16).padStart(12, '0')}`;
export const blockId = (k) => `c4e6a8b0-2d3f-4b7c-9e1a-${k.toString(16).padStart(12, '0')}`;

function appears(folder, file, child) {
  return new Promise((done, fail) => {
    const watcher = watch(folder, look);
    const timer = setTimeout(() => finish(new Error('the provider did not get ready')), 180_000);
    const onExit = (code) => finish(new Error(`the provider ended with ${code}`));
    function finish(error) {
      watcher.close();
      clearTimeout(timer);
      child.off('exit', onExit);
      error ? fail(error) : done();
    }
    function look() {
      if (existsSync(file)) finish();
    }
    child.on('exit', onExit);
    look();
  });
}

// One complete reply: {status, headers, text, json, bytes}.
export function exchange(url, { method = 'GET', headers = {}, body, agent, ca, signal, timeout = 180_000 } = {}) {
  return new Promise((done, fail) => {
    const module = url.startsWith('https:') ? https : http;
    const request = module.request(url, { method, headers, agent, ca, signal }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('error', fail);
      response.on('aborted', () => fail(Object.assign(new Error('aborted'), { code: 'ABORTED' })));
      response.on('end', () => {
        const bytes = Buffer.concat(parts);
        const text = bytes.toString('utf8');
        let json;
        try {
          json = JSON.parse(text);
        } catch {
          json = undefined;
        }
        done({ status: response.statusCode, headers: response.headers, text, json, bytes });
      });
    });
    request.setTimeout(timeout, () => request.destroy(Object.assign(new Error('timed out'), { code: 'TIMEOUT' })));
    request.on('error', fail);
    request.end(body);
  });
}

export class Provider {
  static async start(...options) {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-provider-'));
    const ready = join(folder, 'ready.json');
    const child = spawn(program, ['--data', join(folder, 'data'), '--ready-file', ready, '--port', '0', '--die-with-parent', ...options], {
      stdio: ['ignore', 'inherit', 'pipe'],
    });
    const provider = new Provider();
    provider.stderr = '';
    child.stderr.on('data', (text) => (provider.stderr += text));
    provider.ended = new Promise((done) => child.on('close', (code, signal) => done({ code, signal })));
    await appears(folder, ready, child).catch((error) => {
      child.kill('SIGKILL');
      throw new Error(`${error.message}: ${provider.stderr}`);
    });
    Object.assign(provider, { folder, child, ready: JSON.parse(readFileSync(ready, 'utf8')) });
    provider.url = provider.ready.url;
    provider.ca = provider.ready.ca_file ? readFileSync(provider.ready.ca_file) : undefined;
    provider.agent = provider.ca ? new https.Agent({ keepAlive: true, ca: provider.ca }) : new http.Agent({ keepAlive: true });
    return provider;
  }

  // Stops the provider, and returns how it ended: {code, signal, stderr}.
  async stop() {
    this.agent.destroy();
    this.child.kill('SIGTERM');
    const end = await this.ended;
    rmSync(this.folder, { recursive: true, force: true });
    return { ...end, stderr: this.stderr };
  }

  call(method, path, { body, headers = {}, token, ...rest } = {}) {
    const all = { ...headers };
    if (token) all.Authorization = `Bearer ${token}`;
    if (body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body)) {
      body = JSON.stringify(body);
      all['Content-Type'] ??= 'application/json';
    }
    if (body !== undefined) all['Content-Length'] = Buffer.byteLength(body);
    return exchange(this.url + path, { method, headers: all, body, agent: this.agent, ca: this.ca, ...rest });
  }

  gmail(method, path, { query, ...rest } = {}) {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query ?? {})) for (const one of [value].flat()) search.append(name, one);
    const text = search.toString();
    return this.call(method, `/gmail/v1/users/me${path}${text ? `?${text}` : ''}`, { token: GMAIL, ...rest });
  }

  notion(method, path, { headers = {}, ...rest } = {}) {
    return this.call(method, `/v1${path}`, { token: NOTION, headers: { 'Notion-Version': NOTION_VERSION, ...headers }, ...rest });
  }

  control(method, path, body) {
    return this.call(method, `/__control${path}`, { body, headers: { 'X-Control': '1' } });
  }

  async faults(...rules) {
    const reply = await this.control('PUT', '/faults', { rules });
    if (reply.status !== 200) throw new Error(reply.text);
    return reply.json;
  }

  async reset() {
    const reply = await this.control('POST', '/reset');
    if (reply.status !== 200) throw new Error(reply.text);
  }

  async ledger() {
    return (await this.control('GET', '/ledger')).json;
  }
}
