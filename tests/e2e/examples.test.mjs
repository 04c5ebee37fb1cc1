// Runs contrib/examples unchanged with `sluice dev`, which the clients' settings point to.
import assert from 'node:assert/strict';
import { cp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startDev } from './support/dev.mjs';
import { check, MODERN, contentOf } from './support/mcp.mjs';
import { makeFolder, must, run } from './support/process.mjs';

const folder = new URL('../../contrib/examples/', import.meta.url).pathname;
const modules = new URL('node_modules', import.meta.url).pathname;
let dev, dir;

before(async () => {
  dev = await startDev();
  dir = await makeFolder();
  await cp(folder, dir, { recursive: true });
  await symlink(modules, join(dir, 'node_modules'));
  await symlink(join(dev.dir, 'data'), join(dir, '.sluice'));
});
after(async () => {
  const end = await dev?.stop();
  if (dir) await rm(dir, { recursive: true, force: true });
  assert.deepEqual([end?.code, end?.signal], [0, null], end?.log.slice(-30000));
});

// Runs an example, whose key comes from the folder.
const answers = async (script) => (await must(`./${script}`, [], { cwd: dir, env: { SLUICE_URL: dev.base } })).trim().split('\n').map((line) => JSON.parse(line));
const wrote = async (path) => (await dev.ledger()).filter((entry) => entry.path.endsWith(path)).length;
const sent = () => wrote('/messages/send');

test('rest.sh', async () => {
  const before = await sent();
  const [found, action, read, blocked, done, again, waiting, approved, ended, ...more] = await answers('rest.sh');
  assert.deepEqual(more, []);
  assert.ok(found.items.some((item) => item.action_id === 'send_message'));
  assert.deepEqual(action.input_schema.required, ['to', 'subject']);
  assert.deepEqual([read.status, blocked.error_code, done.status], ['succeeded', 'policy_blocked', 'succeeded']);
  assert.equal(again.execution_id, done.execution_id);
  assert.equal(await sent(), before + 1);
  assert.deepEqual([waiting, approved, ended].map(({ flow }) => flow.id), Array(3).fill(waiting.flow.id));
  assert.deepEqual([waiting.flow.status, ended.flow.status], ['waiting', 'completed']);
});

test('users.sh', async () => {
  const [none, shared, ada, bob, link, ran, users, connections, unshared, erased, ...more] = await answers('users.sh');
  assert.deepEqual(more, []);
  assert.deepEqual([none.error_code, ada.status, bob.status], ['integration_not_connected', 'succeeded', 'succeeded']);
  assert.deepEqual([shared.shared, unshared.shared], [true, undefined]);
  assert.match(link.url, /\/connect\//);
  assert.deepEqual(ran.executions.map(({ execution_id }) => execution_id), [bob.execution_id]);
  assert.deepEqual(users.items.map(({ id }) => id), ['ada', 'bob']);
  assert.deepEqual(connections.connections.map(({ id, user }) => [id, user]), [[shared.id, null]]);
  assert.deepEqual(erased, { id: 'bob', erasing: true });
});

test('policy.sh', async () => {
  const before = await sent();
  const [policy, read, inside, held, shown, approved, ended, again, ...more] = await answers('policy.sh');
  assert.deepEqual(more, []);
  assert.deepEqual([policy.name, read.status, inside.status], ['agents', 'succeeded', 'succeeded']);
  assert.deepEqual([held.status, held.error_code, held.approval.status], ['blocked', 'policy_blocked', 'waiting']);
  assert.match(held.message, /mail to other organisations/);
  assert.deepEqual([shown, approved, ended].map(({ flow }) => flow.id), Array(3).fill(held.approval.flow_id));
  assert.deepEqual([shown.flow.templateKey, shown.flow.status, ended.flow.status], ['held_call', 'waiting', 'completed']);
  assert.ok(JSON.stringify(shown).includes('ada@example.com'));
  assert.deepEqual([again.status, again.action_id], ['succeeded', 'send_message']);
  assert.equal(await sent(), before + 2);
});

test('webhooks.mjs', async () => {
  const text = await must(process.execPath, ['webhooks.mjs'], { cwd: dir, env: { SLUICE_URL: dev.base } });
  const [, flow] = /^started ([0-9a-f-]{36})$/m.exec(text);
  assert.deepEqual(text.trim().split('\n').sort(), [`flow.completed: unread_mail_summary ${flow}`, `started ${flow}`]);
});

test('mcp.sh', async () => {
  const before = await sent();
  const all = await answers('mcp.sh');
  all.forEach((message, at) => check(MODERN, ['server/discover', 'tools/list'][at] ?? 'tools/call', message));
  const [discovered, listed, found, action, read, blocked, said, asked, agreed, ...more] = all.map((message) => message.result);
  assert.deepEqual(more, []);
  assert.ok(discovered.supportedVersions.includes(MODERN));
  assert.equal(listed.tools.length, 12);
  assert.match(found.content[0].text, /^gmail send_message\(to!, subject!, /m);
  assert.deepEqual(contentOf(action).input_schema.required, ['to', 'subject']);
  assert.deepEqual([read, said, agreed].map((one) => contentOf(one).status), ['succeeded', 'succeeded', 'succeeded']);
  assert.equal(contentOf(blocked).error_code, 'policy_blocked');
  assert.match(asked.inputRequests.confirmation.params.message, /text: "From curl"/);
  assert.equal(await sent(), before + 2);
});

test('unread.ts: it compiles under tsc --strict, and reads what is unread', async () => {
  const options = ['--strict', '--noEmit', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--skipLibCheck'];
  await must(process.execPath, [join(modules, 'typescript/bin/tsc'), ...options, 'unread.ts'], { cwd: dir });
  const text = await must(process.execPath, ['unread.ts'], { cwd: dir, env: { SLUICE_URL: dev.base } });
  const [, ...threads] = text.trim().split('\n');
  assert.match(text, /^[1-9]\d* tools of gmail$/m);
  assert.equal(threads.length, 3);
  for (const line of threads) assert.match(line, /^[0-9a-f]+: [1-9]\d* messages?, \S/);
});

test('agent.mjs: it does what the person agrees to, and nothing else', async () => {
  for (const [input, mails, status] of [['y\ny\n', 2, 'completed'], ['n\n', 0, 'cancelled']]) {
    const [mailsBefore, pagesBefore] = [await sent(), await wrote('/v1/pages')];
    const env = { SLUICE_URL: dev.base, SLUICE_KEY: dev.key };
    const { code, stdout, stderr } = await run(process.execPath, [join(dir, 'agent.mjs')], { env, input });
    assert.equal(code, 0, stdout + stderr);
    assert.match(stdout, /^found gmail send_message and reply_to_message$/m);
    assert.match(stdout, /^2 writes, made together:$/m);
    assert.match(stdout, /^text: "From an agent"$/m);
    assert.match(stdout, /^id: "Goes to anna\.keller@example\.com\. Answers Draft agenda for Thursday, from /m);
    assert.match(stdout, new RegExp(`^the flow is ${status}$`, 'm'));
    assert.equal(await sent(), mailsBefore + mails);
    assert.equal((await wrote('/v1/pages')) > pagesBefore, mails > 0);
  }
});

test('the named client is the one that ran', async () => {
  const dependencies = async (path, member) => JSON.parse(await readFile(path, 'utf8'))[member];
  const { '@modelcontextprotocol/client': named } = await dependencies(join(folder, 'package.json'), 'dependencies');
  assert.equal(named, (await dependencies(new URL('package.json', import.meta.url), 'devDependencies'))['@modelcontextprotocol/client']);
});

// Where a client's setting has the URL, and the authorization with the client's own words for the key.
const plain = ({ url, headers }) => [url, headers.Authorization];
const ofFile = {
  'Claude Code': ['Bearer ${SLUICE_KEY}', ({ mcpServers }) => plain(mcpServers.sluice)],
  'Claude Desktop': ['Bearer sk_...', ({ mcpServers: { sluice } }) => {
    const { args: [yes, program, url, option, header], env, command } = sluice;
    assert.deepEqual([command, yes, program, option, header], ['npx', '-y', 'mcp-remote', '--header', 'Authorization:${AUTHORIZATION}']);
    return [url, env.AUTHORIZATION];
  }],
  Cursor: ['Bearer ${env:SLUICE_KEY}', ({ mcpServers }) => plain(mcpServers.sluice)],
  'VS Code': ['Bearer ${input:sluice-key}', ({ inputs, servers }) => {
    assert.deepEqual([inputs[0].id, inputs[0].password], ['sluice-key', true]);
    return plain(servers.sluice);
  }],
  Codex: ['Bearer SLUICE_KEY', ({ sluice }) => [sluice.url, `Bearer ${sluice.bearer_token_env_var}`]],
  'Gemini CLI': ['Bearer $SLUICE_KEY', ({ mcpServers: { sluice } }) => [sluice.httpUrl, sluice.headers.Authorization]],
};
// These run. Each exports its tools; for OpenAI, its servers read the URL.
const ofModule = {
  OpenAI: async ({ tools: [{ server_url, headers, ...more }] }) => {
    assert.deepEqual(more, { type: 'mcp', server_label: 'sluice', require_approval: 'always' });
    return listed(server_url, headers.Authorization);
  },
  'AI SDK': async ({ client, tools }) => (await client.close(), Object.keys(tools)),
  LangChain: async ({ client, tools }) => (await client.close(), tools.map((tool) => tool.name)),
};

async function listed(url, authorization) {
  const reply = await fetch(url, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  });
  return (await reply.json()).result.tools.map((tool) => tool.name);
}

// Tables of TOML, by the last part of their names.
const tomlOf = (text) =>
  Object.fromEntries(text.split(/^\[mcp_servers\.(\w+)\]$/m).slice(1).flatMap((name, at, all) =>
    at % 2 === 1 ? [] : [[name, Object.fromEntries([...all[at + 1].matchAll(/^(\w+) = "(.*)"$/gm)].map(([, key, value]) => [key, value]))]]));

test('the settings of clients reach the server, with a key that reads and one that writes', async () => {
  const text = await readFile(join(folder, 'README.md'), 'utf8');
  const blocks = [...text.matchAll(/^\*\*(.*?)\*\*[^]*?^```(json|toml|ts)\n(.*?)^```/gms)];
  assert.deepEqual(blocks.map(([, client]) => client).toSorted(), [...Object.keys(ofFile), ...Object.keys(ofModule)].toSorted());
  assert.equal(text.match(/^```(json|toml|ts)$/gm).length, blocks.length);
  const scopes = [...text.matchAll(/^sluice keys create Acme --scopes (\S+) /gm)].map(([, one]) => one.split(','));
  assert.deepEqual(scopes, [['read', 'execute:read'], ['read', 'execute']]);
  for (const [index, one] of scopes.entries()) {
    const key = await must(process.env.SLUICE_RELEASE_BIN, ['keys', 'create', dev.accountId, '--scopes', one.join()], { env: { DATABASE_URL: dev.database } });
    process.env.SLUICE_KEY = key.trim();
    for (const [, client, language, block] of blocks) {
      const here = block.replace('https://sluice.example.com', dev.base);
      let names;
      if (language === 'ts') {
        const file = join(dir, `setting-${client.replace(' ', '')}-${index}.mjs`);
        await writeFile(file, here);
        names = await ofModule[client](await import(file));
      } else {
        const [words, read] = ofFile[client];
        const [url, authorization] = read(language === 'json' ? JSON.parse(here) : tomlOf(here));
        assert.equal(authorization, words, client);
        names = await listed(url, `Bearer ${process.env.SLUICE_KEY}`);
      }
      assert.deepEqual([names.includes('gmail_get_message'), names.includes('gmail_send_message')], [true, index === 1], `${client}: ${names}`);
      assert.ok(names.length < 30, `${client}: ${names.length} tools`);
    }
  }
});
