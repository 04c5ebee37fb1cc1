// End users of an account: the same read for many users in turn, each with a connection of their
// own, against the account itself in the same repetition.
import { readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { credentials } from '../../tests/e2e/support/stack.mjs';
import { root } from './stage.mjs';

const AT_ONCE = 32;
export const fileOf = (scenario) => (scenario.endsWith('.json') ? scenario : join(root, `bench/scenarios/${scenario}.json`));
const userOf = (number) => `user-${number}`;

// Connects an app for each of the users number `from` to `to`, exclusive.
export async function connectUsers(server, key, integration_id, credential, from, to) {
  let next = from;
  const connect = async () => {
    while (next < to) {
      const reply = await server.call(key, 'POST', '/api/connections', { integration_id, credential }, { 'sluice-user': userOf(next++) });
      if (reply.status !== 201) throw new Error(reply.text);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, connect));
}

// The scenario, each operation for the next of `count` users.
export async function writeForUsers(stage, scenario, count) {
  const file = fileOf(scenario);
  const text = JSON.parse(await readFile(file, 'utf8'));
  for (const step of [...(text.prepare ?? []), ...text.steps]) step.headers = { ...step.headers, 'Sluice-User': userOf(`\${unique%${count}}`) };
  const own = join(stage.options.out, `users_${count}_${basename(file)}`);
  await writeFile(own, JSON.stringify(text));
  return own;
}

export async function measureUsers(stage, share) {
  const count = Math.ceil(stage.options.users * share);
  await connectUsers(stage.server, stage.account.key, 'gmail', credentials.gmail, stage.users ?? 0, count);
  stage.users = Math.max(stage.users ?? 0, count);
  await stage.settle();
  const base = await stage.load('read_small', { name: 'users_none' });
  const value = await stage.load(await writeForUsers(stage, 'read_small', count));
  return { base: base.per_second, value: value.per_second };
}
