// Restate: a handler of three journaled steps, called through the ingress ($INGRESS, $ADMIN).
import { createServer } from 'node:http2';
import { Agent, request } from 'node:http';
import * as restate from '@restatedev/restate-sdk';
import { callProvider, measure } from './call.mjs';

const bench = restate.service({
  name: 'bench',
  handlers: {
    threeSteps: async (context) => {
      let sum = 0;
      for (const name of ['one', 'two', 'three']) sum += await context.run(name, callProvider);
      return sum;
    },
  },
});
const server = createServer(restate.createEndpointHandler({ services: [bench] }));
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));

const registered = await fetch(`${process.env.ADMIN}/deployments`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ uri: `http://127.0.0.1:${server.address().port}` }),
});
if (!registered.ok) throw new Error(`registering: ${registered.status} ${await registered.text()}`);

const agent = new Agent({ keepAlive: true, maxSockets: 128 });
const call = () =>
  new Promise((resolve, reject) => {
    request(`${process.env.INGRESS}/bench/threeSteps`, { agent, method: 'POST' }, (reply) => {
      let text = '';
      reply.setEncoding('utf8').on('data', (part) => (text += part));
      reply.on('end', () => (reply.statusCode === 200 ? resolve(text) : reject(new Error(`${reply.statusCode} ${text}`))));
    })
      .on('error', reject)
      .end();
  });
const figures = await measure(call, { seconds: Number(process.env.SECONDS) });
console.log(JSON.stringify(figures));
process.exit(0);
