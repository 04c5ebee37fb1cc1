// The cases of ../support/frameworks.mjs with further frameworks: make test-frameworks.
import Anthropic from '@anthropic-ai/sdk';
import { mcpTools } from '@anthropic-ai/sdk/helpers/beta/mcp';
import { createMcpHost } from '@genkit-ai/mcp';
import { BaseLlm, InMemoryRunner, LlmAgent, MCPToolset } from '@google/adk';
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage } from '@langchain/core/messages';
import { ToolCallLLM } from '@llamaindex/core/llms';
import { mcp } from '@llamaindex/tools';
import { agent as workflowOf } from '@llamaindex/workflow';
import { Agent as MastraAgent } from '@mastra/core/agent';
import { MCPClient } from '@mastra/mcp';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Agent, MCPServerStreamableHttp, Usage, run as runAgent, setTracingDisabled } from '@openai/agents';
import { genkit } from 'genkit';
import { bearer, prove, scriptedChat, shownOf } from '../support/frameworks.mjs';

setTracingDisabled(true);
process.env.MCP_USE_ANONYMIZED_TELEMETRY = 'false'; // before it is loaded
const { MCPAgent, MCPClient: McpUseClient } = await import('mcp-use');
const namesOf = (tools) => tools.map((tool) => tool.name);

const anthropic = {
  async run(url, key, talk) {
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: bearer(key) } }));
    const model = async (_, { body }) => {
      const { messages, tools } = JSON.parse(body);
      if (tools) talk.tools = namesOf(tools); // later requests have only what is new
      const { content } = messages.at(-1);
      const call = await talk.turn(Array.isArray(content) ? content.map((block) => shownOf(block.content)).join('\n') : undefined);
      return Response.json({
        id: 'msg_1', type: 'message', role: 'assistant', model: 'scripted', stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 },
        stop_reason: call ? 'tool_use' : 'end_turn',
        content: call ? [{ type: 'tool_use', id: call.id, name: call.name, input: call.args }] : [{ type: 'text', text: 'Done.' }],
      });
    };
    try {
      const tools = mcpTools((await client.listTools()).tools, client);
      await new Anthropic({ apiKey: 'none', maxRetries: 0, fetch: model }).beta.messages.toolRunner({ model: 'scripted', max_tokens: 1, messages: [{ role: 'user', content: 'Go.' }], tools });
    } finally {
      await client.close();
    }
  },
};

const openAiAgents = {
  async run(url, key, talk) {
    const server = new MCPServerStreamableHttp({ url, name: 'sluice', requestInit: { headers: bearer(key) } });
    const model = {
      async getResponse({ input, tools }) {
        talk.tools = namesOf(tools);
        const last = Array.isArray(input) ? input.at(-1) : {};
        const call = await talk.turn(last.type === 'function_call_result' ? shownOf(last.output) : undefined);
        const output = call
          ? { type: 'function_call', callId: call.id, name: call.name, arguments: JSON.stringify(call.args), status: 'completed' }
          : { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'Done.' }] };
        return { usage: new Usage(), output: [output] };
      },
    };
    await server.connect();
    try {
      await runAgent(new Agent({ name: 'test', model, mcpServers: [server] }), 'Go.', { maxTurns: 50 });
    } finally {
      await server.close();
    }
  },
};

const mastra = {
  async run(url, key, talk) {
    const client = new MCPClient({ id: `${Math.random()}`, servers: { sluice: { url: new URL(url), requestInit: { headers: bearer(key) } } } });
    const turn = async ({ prompt, tools }) => {
      talk.tools = namesOf(tools).map((name) => name.replace('sluice_', ''));
      const last = prompt.at(-1);
      const call = await talk.turn(last.role === 'tool' ? last.content.map(({ output }) => shownOf(output.value)).join('\n') : undefined);
      return call && { type: 'tool-call', toolCallId: call.id, toolName: `sluice_${call.name}`, input: JSON.stringify(call.args) };
    };
    const model = {
      specificationVersion: 'v2', provider: 'test', modelId: 'scripted', supportedUrls: {},
      async doGenerate(options) {
        const call = await turn(options);
        return { content: [call ?? { type: 'text', text: 'Done.' }], finishReason: call ? 'tool-calls' : 'stop', usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 }, warnings: [] };
      },
    };
    try {
      const agent = new MastraAgent({ id: 'test', name: 'test', instructions: 'Go.', model, tools: await client.listTools() });
      await agent.generate('Go.', { maxSteps: 50 });
    } finally {
      await client.disconnect();
    }
  },
};

class ScriptedLlama extends ToolCallLLM {
  constructor(talk) {
    super();
    this.talk = talk;
    this.supportToolCall = true;
    this.metadata = { model: 'scripted', temperature: 0, topP: 1, contextWindow: 1e6, tokenizer: undefined, structuredOutput: false };
  }
  async chat({ messages, tools }) {
    this.talk.tools = tools.map((tool) => tool.metadata.name);
    const result = messages.at(-1).options?.toolResult;
    const call = await this.talk.turn(result && requoted(shownOf(result.result)));
    const part = { raw: null, delta: call ? '' : 'Done.', options: call ? { toolCall: [{ id: call.id, name: call.name, input: call.args }] } : {} };
    return (async function* () {
      yield part;
    })();
  }
}
// It shows an object without its quotes: {"status":"failed"} as {\\status\\:\\failed\\}.
const requoted = (text) => text.replace(/\\n(?=BEGIN|END|\{)/g, '\n').replaceAll('\\', '"');
const llamaIndex = {
  async run(url, key, talk) {
    const client = mcp({ url, requestInit: { headers: bearer(key) } });
    try {
      await workflowOf({ llm: new ScriptedLlama(talk), tools: await client.tools() }).run('Go.');
    } finally {
      await client.cleanup();
    }
  },
};

const genkitHost = {
  async run(url, key, talk) {
    const ai = genkit({});
    const host = createMcpHost({ name: 'test', mcpServers: { sluice: { url, requestInit: { headers: bearer(key) } } } });
    ai.defineModel({ name: 'scripted', supports: { tools: true, multiturn: true } }, async ({ messages, tools }) => {
      talk.tools = namesOf(tools);
      const last = messages.at(-1);
      const call = await talk.turn(last.role === 'tool' ? last.content.map((part) => shownOf(part.toolResponse.output)).join('\n') : undefined);
      return { finishReason: 'stop', message: { role: 'model', content: [call ? { toolRequest: { ref: call.id, name: call.name, input: call.args } } : { text: 'Done.' }] } };
    });
    try {
      await ai.generate({ model: 'scripted', prompt: 'Go.', tools: await host.getActiveTools(ai), maxTurns: 50 });
    } finally {
      await host.close();
    }
  },
};

class ScriptedGemini extends BaseLlm {
  constructor(talk) {
    super({ model: 'scripted' });
    this.talk = talk;
  }
  async *generateContentAsync({ contents, config }) {
    this.talk.tools = namesOf(config.tools.flatMap((tool) => tool.functionDeclarations));
    const answers = contents.at(-1).parts.filter((part) => part.functionResponse);
    const call = await this.talk.turn(answers.length > 0 ? answers.map((part) => shownOf(part.functionResponse.response)).join('\n') : undefined);
    yield { content: { role: 'model', parts: [call ? { functionCall: { id: call.id, name: call.name, args: call.args } } : { text: 'Done.' }] } };
  }
}
const adk = {
  async run(url, key, talk) {
    const tools = new MCPToolset({ type: 'StreamableHTTPConnectionParams', url, transportOptions: { requestInit: { headers: bearer(key) } } });
    const runner = new InMemoryRunner({ appName: 'test', agent: new LlmAgent({ name: 'test', model: new ScriptedGemini(talk), tools: [tools] }) });
    try {
      const session = await runner.sessionService.createSession({ appName: 'test', userId: 'u' });
      for await (const event of runner.runAsync({ userId: 'u', sessionId: session.id, newMessage: { role: 'user', parts: [{ text: 'Go.' }] } }))
        if (event.errorMessage) throw new Error(event.errorMessage);
    } finally {
      await tools.close();
    }
  },
};

// mcp-use 1.x: its later versions have no agent. LangChain is that of tests/e2e.
const mcpUse = {
  async run(url, key, talk) {
    const client = new McpUseClient({ mcpServers: { sluice: { url, headers: bearer(key) } } });
    const agent = new MCPAgent({ llm: new (scriptedChat(BaseChatModel, AIMessage))(talk), client, maxSteps: 50 });
    try {
      await agent.run({ prompt: 'Go.', maxSteps: 50 });
    } finally {
      await agent.close();
    }
  },
};

prove({ 'Anthropic SDK': anthropic, 'OpenAI Agents': openAiAgents, Mastra: mastra, LlamaIndex: llamaIndex, Genkit: genkitHost, ADK: adk, 'mcp-use': mcpUse });
