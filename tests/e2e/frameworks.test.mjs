// Agent frameworks with a scripted model: what they list, call and show it, over faults of each
// kind; effects are counted in the ledger of the provider.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMCPClient } from '@ai-sdk/mcp';
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage } from '@langchain/core/messages';
import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { generateText } from 'ai';
import { createAgent } from 'langchain';
import { bearer, listsOf, prove, scriptedChat, shownOf, textsOf } from './support/frameworks.mjs';
import { APIS, refusalsOf } from './support/model_apis.mjs';

// A program that calls tools itself.
const sdk = (Of, Transport, options) => ({
  async run(url, key, talk) {
    const client = new Of({ name: 'test', version: '1' }, options);
    await client.connect(new Transport(new URL(url), { requestInit: { headers: bearer(key) } }));
    try {
      talk.tools = (await client.listTools()).tools.map((tool) => tool.name);
      for (let seen, call; (call = await talk.turn(seen)); ) seen = textsOf((await client.callTool({ name: call.name, arguments: call.args })).content);
    } finally {
      await client.close();
    }
  },
});

const aiSdk = {
  async run(url, key, talk) {
    const client = await createMCPClient({ transport: { type: 'http', url, headers: bearer(key) } });
    const model = {
      specificationVersion: 'v4', provider: 'test', modelId: 'scripted', supportedUrls: {},
      async doGenerate({ prompt, tools }) {
        talk.tools = tools.map((tool) => tool.name);
        const last = prompt.at(-1);
        const call = await talk.turn(last.role === 'tool' ? last.content.map(({ output }) => shownOf(output.value)).join('\n') : undefined);
        return {
          content: call ? [{ type: 'tool-call', toolCallId: call.id, toolName: call.name, input: JSON.stringify(call.args) }] : [{ type: 'text', text: 'Done.' }],
          finishReason: { unified: call ? 'tool-calls' : 'stop', raw: undefined },
          usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } },
          warnings: [],
        };
      },
    };
    try {
      await generateText({ model, tools: await client.tools(), prompt: 'Go.', stopWhen: () => false, maxRetries: 0 });
    } finally {
      await client.close();
    }
  },
};

const langChain = {
  async run(url, key, talk) {
    const client = new MultiServerMCPClient({ mcpServers: { sluice: { transport: 'http', url, headers: bearer(key) } } });
    try {
      const agent = createAgent({ model: new (scriptedChat(BaseChatModel, AIMessage))(talk), tools: await client.getTools() });
      await agent.invoke({ messages: [{ role: 'user', content: 'Go.' }] });
    } finally {
      await client.close();
    }
  },
};

const at = prove({
  'AI SDK': aiSdk,
  LangChain: langChain,
  'MCP SDK 2': sdk(Client, StreamableHTTPClientTransport, { versionNegotiation: { mode: 'auto' } }),
  'MCP SDK 1': sdk(ClientV1, TransportV1),
});

test('no API of a model refuses a tool of any app', async () => {
  const lists = await listsOf(at);
  const own = lists[0].tools.length - lists[0].actions;
  for (const { app, tools, actions } of lists) assert.equal(tools.length, own + actions, app);
  assert.deepEqual(lists.flatMap(({ tools }) => Object.keys(APIS).flatMap((api) => refusalsOf(api, tools))), []);
});

test('the rules find what an API refuses', () => {
  const tool = (name, properties, more = {}) => ({ name, description: 'x', inputSchema: { type: 'object', properties, ...more } });
  const faults = (api, ...tools) => refusalsOf(api, tools).length;
  for (const api of Object.keys(APIS)) {
    assert.equal(faults(api, tool('plain', { a: { type: 'array', items: { type: 'string' } } })), 0);
    assert.equal(faults(api, tool('a/b', {})), 1);
    assert.equal(faults(api, tool('a', {}), tool('a', {})), 1);
  }
  assert.equal(faults('OpenAI', ...Array.from({ length: 129 }, (_, index) => tool(`t${index}`, {}))), 1);
  assert.equal(faults('OpenAI', tool('a', { list: { type: 'array' } })), 1);
  assert.equal(faults('OpenAI', { ...tool('a', {}), description: 'x'.repeat(1025) }), 1);
  assert.equal(faults('Anthropic', tool('a', { 'a b': {} })), 1);
  assert.equal(faults('Anthropic', tool('a', {}, { anyOf: [] })), 1);
  assert.equal(faults('Gemini', tool('1a', {})), 1);
  assert.equal(faults('Gemini', tool('a', { b: { $ref: '#/$defs/b' } })), 1);
});
