// The primary dies under load and its synchronous standby takes over: promoted by an operator,
// through PgBouncer, and by Patroni. The service answers again, no acknowledged result is lost, and
// no confirmed write is made twice. The load is 300 executions and 150 flow starts per second (RATE:
// rounds of two executions and one start), on the release build, or what the machine can do: the
// test waits for rounds, and prints their rate and the time until the service answered. After a
// fault, clients catch up with the requests that they could not send. `make test-operators
// T=failover` runs it by itself, which a figure needs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Mixed } from '../e2e/support/mixed.mjs';
import { Stack } from '../e2e/support/stack.mjs';
import { Pair, Patroni, PooledPair } from './support/pair.mjs';

const RATE = Number(process.env.RATE ?? 150);
const RATE_SECONDS = 5;

// Applies the load to a database of that kind, then checks every answer.
async function under(t, kind, work) {
  const stack = await Stack.start({ cluster: kind, postgres: { max_connections: 100 } });
  try {
    const mixed = await Mixed.start(stack, { accounts: 8, clients: 64, rate: RATE, bin: process.env.SLUICE_RELEASE_BIN });
    mixed.begin();
    await mixed.progress(RATE);
    const begun = Date.now();
    await mixed.progress(RATE_SECONDS * RATE);
    const rate = (RATE_SECONDS * RATE * 1000) / (Date.now() - begun);
    const back = [];
    await work(stack.cluster, async () => {
      back.push(await mixed.isBack());
      await mixed.progress(RATE);
    });
    await mixed.end();
    const { unknown } = await mixed.check();
    t.diagnostic(`figure: ${(2 * rate).toFixed(0)} executions and ${rate.toFixed(0)} starts a second; served again ${back.join(', ')} ms after the promotion`);
    t.diagnostic(`figure: ${mixed.writes.size} writes, ${unknown} of unknown outcome, ${mixed.flows.size} flows, ${mixed.unsure.size} of which may not exist`);
    await stack.stopWell(assert);
  } finally {
    await stack.stop();
  }
}

// Kills the primary, then its replacement.
async function byHand(pair, promoted) {
  for (const name of ['b', 'a']) {
    const dead = pair.primary;
    await pair.nodes[dead].stop('SIGKILL');
    await pair.promote(name);
    await promoted();
    await pair.follow(dead);
  }
}

test('a standby is promoted by hand', (t) => under(t, Pair, byHand));

test('the same through PgBouncer, which is switched over to it', (t) => under(t, PooledPair, byHand));

test('Patroni promotes it when the primary dies, and on demand', (t) =>
  under(t, Patroni, async (patroni, promoted) => {
    const dead = patroni.primary;
    const heir = patroni.other(dead);
    await patroni.kill(dead);
    await patroni.isPromoted(heir);
    await promoted();
    await patroni.up(dead);
    await patroni.isSynchronous();
    await patroni.switchOver(dead);
    await patroni.isPromoted(dead);
    await promoted();
  }));
