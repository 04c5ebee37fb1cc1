// Server CPU of an execution by tools/call, and of the same execution by POST /api/executions. Two
// servers are loaded concurrently at one rate, and then each gets the other's load, so that time
// that the machine loses to others affects both equally.
import { readFile, readdir } from 'node:fs/promises';

const RATE = 1000;

// CPU time of all threads of a process, in seconds.
async function cpu(server) {
  const tasks = `/proc/${server.process.pid}/task`;
  const texts = await Promise.all((await readdir(tasks)).map((one) => readFile(`${tasks}/${one}/schedstat`, 'utf8')));
  return texts.reduce((sum, text) => sum + Number(text.split(' ')[0]) / 1e9, 0);
}

// The load only counts replies. This checks once that they are results of an execution.
async function check(stage, server, scenario) {
  const { headers, body } = JSON.parse(await readFile(scenario, 'utf8')).steps[0];
  const reply = await server.call(stage.account.key, 'POST', '/mcp', body, headers);
  const { isError, content } = reply.json.result ?? {};
  if (isError || !content?.[0].text.includes('"execution_id"')) throw new Error(`${scenario}: ${reply.text}`);
}

// {value, base}: microseconds per operation, of each scenario
export async function measureMcp(stage, call, rest) {
  const used = { [call]: { cpu_s: 0, done: 0 }, [rest]: { cpu_s: 0, done: 0 } };
  const measure = async (server, scenario, name) => {
    const before = await cpu(server);
    const report = await stage.load(scenario, { server, rate: RATE, warmup: 0, name });
    used[scenario].cpu_s += (await cpu(server)) - before;
    used[scenario].done += report.scenarios[0].done;
  };
  await stage.with({}, async (other) => {
    for (const server of [stage.server, other]) await check(stage, server, call);
    // handshakes with the provider are not part of it
    for (const server of [stage.server, other]) await stage.load(rest, { server, warmup: 0, name: 'mcp_rest' });
    await Promise.all([measure(stage.server, call, 'mcp'), measure(other, rest, 'mcp_rest')]);
    await Promise.all([measure(other, call, 'mcp'), measure(stage.server, rest, 'mcp_rest')]);
  });
  const [value, base] = [call, rest].map((scenario) => (1e6 * used[scenario].cpu_s) / used[scenario].done);
  return { value, base };
}
