// The provider call that each step makes, the same for all peers, over kept TLS connections.
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:https';

const { PROVIDER_URL, PROVIDER_CA, PROVIDER_TOKEN } = process.env;
const agent = new Agent({ keepAlive: true, maxSockets: 128, ca: readFileSync(PROVIDER_CA) });

export function callProvider() {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${PROVIDER_TOKEN}` };
    request(`${PROVIDER_URL}/gmail/v1/users/me/profile`, { agent, headers }, (reply) => {
      let text = '';
      reply.setEncoding('utf8').on('data', (part) => (text += part));
      reply.on('end', () => (reply.statusCode === 200 ? resolve(JSON.parse(text).messagesTotal) : reject(new Error(`status ${reply.statusCode}`))));
      reply.on('error', reject);
    })
      .on('error', reject)
      .end();
  });
}

// Runs flows one after the other on each of `connections` strands for `seconds` after a warm-up.
// Returns the flows per second, and the median duration of a single flow that runs alone.
export async function measure(flow, { connections = 64, seconds = 5 } = {}) {
  const strand = async (until, done) => {
    while (performance.now() < until) {
      const begin = performance.now();
      await flow();
      done(performance.now() - begin);
    }
  };
  const strands = (count, ms, done) => Promise.all(Array.from({ length: count }, () => strand(performance.now() + ms, done)));
  await strands(connections, 2000, () => {});
  let count = 0;
  const begin = performance.now();
  await strands(connections, seconds * 1000, () => count++);
  const passed = (performance.now() - begin) / 1000;
  const alone = [];
  await strands(1, 2000, (ms) => alone.push(ms));
  alone.sort((a, b) => a - b);
  return { per_second: count / passed, alone_ms_p50: alone[alone.length >> 1] };
}
