// Clients generated from the server's own document with openapi-typescript and openapi-fetch, and
// with @hey-api/openapi-ts. Both compile under `tsc --strict`, including the generated files, and
// call a real server as clients do. Uses that the interface does not allow must not compile; each
// is compiled here to check that.
import assert from 'node:assert/strict';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import { run } from './support/process.mjs';
import { Stack } from './support/stack.mjs';

const modules = new URL('node_modules', import.meta.url).pathname;
const clients = { 'openapi-fetch': 'openapi_fetch', '@hey-api/openapi-ts': 'hey_api' };
let stack, server, account, stranger, dir;

const node = (program, ...args) => run(process.execPath, [join(modules, program), ...args], { cwd: dir });

before(async () => {
  stack = await Stack.start({ catalog: false });
  account = await stack.account('Acme', { apps: ['gmail', 'notion'] });
  stranger = await stack.account('Other', { apps: [] });
  server = await stack.serve();
  dir = await mkdtemp(join(tmpdir(), 'sluice-e2e-'));
  await cp(new URL('support/clients', import.meta.url).pathname, dir, { recursive: true });
  await symlink(modules, join(dir, 'node_modules'));
  const write = (name, text) => writeFile(join(dir, name), text);
  await write('openapi.json', await (await fetch(`${server.base}/openapi.json`)).text());
  await write('package.json', '{"type":"module"}');
  const options = {
    strict: true, skipLibCheck: false, noImplicitReturns: true, target: 'es2022', module: 'nodenext',
    lib: ['es2022', 'dom', 'dom.iterable', 'dom.asynciterable'], types: [], outDir: 'out',
  };
  await write('tsconfig.json', JSON.stringify({ compilerOptions: options, include: ['*.ts', 'generated'] }));
  await write('hey.config.mjs', `export default {
    input: 'openapi.json', logs: { level: 'error' },
    output: { path: 'generated/hey_api', importFileExtension: '.js' },
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'] };`);
});
after(async () => {
  await stack?.stopWell(assert);
  if (dir) await rm(dir, { recursive: true, force: true });
});

test('both are generated from the served document', async () => {
  const made = [
    await node('openapi-typescript/bin/cli.js', 'openapi.json', '-o', 'generated/openapi_typescript.ts'),
    await node('@hey-api/openapi-ts/bin/run.js', '-f', 'hey.config.mjs'),
  ];
  for (const { code, stdout, stderr } of made) assert.equal(code, 0, stdout + stderr);
});

test('both compile under tsc --strict', async () => {
  const { code, stdout } = await node('typescript/bin/tsc', '-p', '.');
  assert.equal(code, 0, stdout);
});

for (const [name, file] of Object.entries(clients))
  test(`${name}: lists, detail, a read, a blocked and a confirmed write, a flow`, async () => {
    const client = await import(pathToFileURL(join(dir, 'out', `${file}.js`)));
    assert.deepEqual(await client.run(server.base, account.key, stranger.key), {
      integrations: ['gmail', 'notion'],
      flows: file === 'hey_api' ? 1 : 0, // the other client's result
      hit: 'send_message',
      required: ['to', 'subject'],
      schemaType: 'object',
      confirmation: true,
      read: 'Labels listed',
      stored: 'succeeded',
      blocked: 'blocked policy_blocked, null, undefined',
      sentOnce: true,
      replayed: 'true',
      tool: 'confirmation_required',
      started: 'running',
      waiting: 'approve_mails',
      approved: true,
      sent: 'completed',
      cancelled: 'cancelled',
      missing: 'Flow not found',
      keyless: 'Missing or invalid API key',
    });
  });

// [text of a client, its replacement, the rule that the replacement breaks]
const wrongs = [
  ["action_id: 'list_labels', input: {}", "action_id: 'list_labels'", 'input must be there'],
  ["action_id: 'list_labels', input: {}", "action_id: 'list_labels', input: 1", 'input is an object'],
  ['confirm: true', "confirm: 'yes'", 'confirm is a boolean'],
  ["triggerType: 'agent'", "triggerType: 'person'", 'a trigger is one of four'],
  ["until: 'settled'", "until: 'later'", 'a parameter is one of its values'],
  ["action_id: 'send_message' }", 'action: 1 }', 'a path has its parameters'],
  ["case 'blocked':", "case 'stopped':", 'a status is one of three'],
  ['error.started_at', 'error.output', 'a failure has no output'],
  ["'dry_run' in read.data", 'false', 'a dry run is not an execution'],
  ['read.data.display.title', 'read.data.display.text', 'a display has a title and a summary'],
  ['one.stepKey === ', 'one.step === ', 'a step has a stepKey'],
  ['recommended_next_action?.input.integration_id', 'recommended_next_action?.integration_id', 'advice has its shape'],
  ["if (!('status' in error)) return error.error;", '', 'a guard error has no status'],
];

test('a wrong use does not compile', async () => {
  const expected = [];
  const config = JSON.parse(await readFile(join(dir, 'tsconfig.json'), 'utf8'));
  for (const file of Object.values(clients)) {
    const right = await readFile(join(dir, `${file}.ts`), 'utf8');
    for (const [at, [from, to]] of wrongs.entries()) {
      assert.ok(right.includes(from), `${file}: ${from}`);
      const name = `wrong_${file}_${at}.ts`;
      await writeFile(join(dir, name), right.replace(from, to));
      expected.push(name);
    }
  }
  config.compilerOptions.noEmit = true;
  await writeFile(join(dir, 'tsconfig.wrong.json'), JSON.stringify(config));
  const { stdout } = await node('typescript/bin/tsc', '-p', 'tsconfig.wrong.json');
  const found = [...new Set([...stdout.matchAll(/^([^\s(]+)\(\d+,\d+\): error TS/gm)].map(([, name]) => name))];
  const said = (name) => wrongs[Number(/_(\d+)\.ts$/.exec(name)[1])][2];
  assert.deepEqual(expected.filter((name) => !found.includes(name)).map((name) => `${name}: ${said(name)}`), [], stdout);
  assert.deepEqual(found.sort(), expected.sort());
});
