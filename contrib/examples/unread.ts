// Actions of an app as tools of their own, in TypeScript: the unread threads of the mailbox, each with its
// messages. `npm install`, then `node unread.ts` (22.18 or newer runs it as it is) in the folder where
// `sluice dev` runs, or with SLUICE_URL and SLUICE_KEY.
import { readFileSync } from 'node:fs';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { CallToolResult, Tool } from '@modelcontextprotocol/client';

interface Summary<Output> {
  status: 'succeeded' | 'failed' | 'blocked';
  execution_id?: string;
  message?: string;
  output?: Output;
}
interface Threads {
  threads: { id: string; snippet: string }[];
}
interface Thread {
  messages: { id: string; subject: string }[];
}

const base = process.env.SLUICE_URL ?? 'http://127.0.0.1:8080';
const key = process.env.SLUICE_KEY ?? readFileSync('.sluice/api_key', 'utf8').trim();
const url = new URL('/mcp?tools=gmail&structured=1', base);

const client = new Client({ name: 'sluice-example', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization: `Bearer ${key}` } } }));

// A blocked or failed call is a result, too.
async function run<Output>(name: string, args: Record<string, unknown>): Promise<Output> {
  const result: CallToolResult = await client.callTool({ name, arguments: args });
  const { status, message, output } = result.structuredContent as unknown as Summary<Output>;
  if (result.isError || !output) throw new Error(`${name}: ${status}: ${message}`);
  return output;
}

const { tools } = await client.listTools();
const ofGmail: Tool[] = tools.filter(({ name }) => name.startsWith('gmail_'));
console.log(`${ofGmail.length} tools of gmail`);
const { threads } = await run<Threads>('gmail_list_threads', { query: 'is:unread', maxResults: 3 });
for (const { id } of threads) {
  const { messages } = await run<Thread>('gmail_get_thread', { id });
  console.log(`${id}: ${messages.length} ${messages.length === 1 ? 'message' : 'messages'}, ${messages[0]?.subject}`);
}
await client.close();
