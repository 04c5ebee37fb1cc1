// The services of npm emulate: Gmail, Slack and GitHub in memory, for the official clients. A test
// that starts an emulator also ends it with emulator.process.stop().
import assert from 'node:assert/strict';
import { until } from './client.mjs';
import { freePort, Running } from './process.mjs';

const program = new URL('../node_modules/emulate/dist/index.js', import.meta.url).pathname;

export class Emulator {
  // service: google, slack or github; seed: a YAML file with its contents; dir: its working
  // directory.
  static async start(service, seed, dir) {
    const emulator = new Emulator();
    emulator.port = await freePort();
    emulator.url = `http://127.0.0.1:${emulator.port}`;
    const args = [program, 'start', '--service', service, '--port', String(emulator.port), '--seed', seed];
    emulator.process = new Running(process.execPath, args, { cwd: dir });
    await until(`the emulated ${service} answers`, async () => {
      emulator.process.check();
      return (await fetch(`${emulator.url}/`).catch(() => null)) !== null;
    });
    return emulator;
  }

  async call(token, method, path, body) {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const reply = await fetch(`${this.url}${path}`, { method, headers, body: body && JSON.stringify(body) });
    assert.ok(reply.ok, `${path}: ${reply.status}`);
    return reply.json();
  }
}
