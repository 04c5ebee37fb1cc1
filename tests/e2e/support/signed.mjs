// What a receiver verifies: npm's `standardwebhooks` and `svix`. A message is {headers, body}.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { Webhook as Standard } from 'standardwebhooks';
import { Webhook as Svix } from 'svix';

export const libraries = [Standard, Svix];
export const verify = (secret, { headers, body }, Library = Standard) => void new Library(secret).verify(body, headers);
export function verifies(...args) {
  try {
    verify(...args);
    return true;
  } catch {
    return false;
  }
}

const draw = (max) => randomBytes(4).readUInt32BE() % max;
const flip = (text, at = draw(text.length)) => text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 1) + text.slice(at + 1);

// Both libraries verify the message, and refuse each of `rounds` alterations of body, id, time and
// signatures, and another secret.
export function assertSigned(secret, message, rounds = 100) {
  const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signature } = message.headers;
  // the last digit of the base64 of 32 bytes has two unused bits
  const altered = () => signature.split(' ').map((one) => {
    const place = 3 + draw(42);
    return one.slice(0, place) + (one[place] === 'A' ? 'B' : 'A') + one.slice(place + 1);
  });
  for (const Library of libraries) {
    verify(secret, message, Library);
    for (let round = 0; round < rounds; round++) {
      assert.throws(() => verify(secret, { ...message, body: flip(message.body) }, Library));
      for (const [name, value] of [['webhook-id', flip(id)], ['webhook-timestamp', String(Number(at) + 1 + (round % 200))], ['webhook-signature', altered().join(' ')]])
        assert.throws(() => verify(secret, { ...message, headers: { ...message.headers, [name]: value } }, Library), `${name}: ${value}`);
    }
    assert.ok(!verifies(`whsec_${randomBytes(32).toString('base64')}`, message, Library));
  }
}
