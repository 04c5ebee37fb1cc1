// Strangers and an account: the median of an account that has a few requests under way, during a
// flood without a key and during the same flood with a key of another account, in short alternating
// slices, so that a slower machine slows both. The flood requests a public page.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Pages } from '../../tests/e2e/support/pages.mjs';

const CONNECTIONS = 100; // of the flood
const QUIET = 8;
const SLICES = 3;
const LEAD_S = 0.5; // the flood begins this much earlier, and ends this much later
const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];

async function writeFlood(stage, name, headers) {
  const file = join(stage.options.out, `${name}.json`);
  await writeFile(file, JSON.stringify({ name, description: 'a page', steps: [{ method: 'GET', path: '/docs', headers }] }));
  return file;
}

// {ms, flood}: the account's median, and the flood's rate.
async function slice(stage, scenario, file, name) {
  const seconds = Math.ceil(stage.options.seconds / 2);
  const load = file && stage.load(file, { key: 'none', connections: CONNECTIONS, seconds: seconds + Math.ceil(2 * LEAD_S), warmup: 0, name: `${name}_flood` });
  if (load) await pause(1000 * LEAD_S);
  const report = await stage.load(scenario, { connections: QUIET, seconds, warmup: 0, name });
  return { ms: report.latency_us.p50 / 1000, flood: load ? (await load).per_second : 0 };
}

export async function measureStrangers(stage, scenario) {
  const person = new Pages(stage.server.base);
  await person.signIn((await stage.stack.account('strangers', { apps: [] })).key);
  const cases = { strangers_none: null, strangers_one_key: await writeFlood(stage, 'one_key', { cookie: person.cookie }), strangers_no_key: await writeFlood(stage, 'no_key', {}) };
  const all = Object.fromEntries(Object.keys(cases).map((name) => [name, []]));
  for (let i = 0; i < SLICES; i++) for (const [name, file] of Object.entries(cases)) all[name].push(await slice(stage, scenario, file, name));
  const of = (name, what) => middle(all[name].map((one) => one[what]));
  const notes = Object.keys(cases).map((name) => `${name} ${of(name, 'ms').toFixed(2)} ms (beside ${Math.round(of(name, 'flood'))}/s)`);
  return { value: of('strangers_no_key', 'ms'), base: of('strangers_one_key', 'ms'), note: notes.join(', ') };
}
