// A receiver of OTLP/HTTP that checks requests with OpenTelemetry's own package: each is parsed
// into the package's spans and serialized again, and must be the same.
import assert from 'node:assert/strict';
import http from 'node:http';
import { JsonTraceSerializer } from '@opentelemetry/otlp-transformer';
import { until } from './client.mjs';

const valueOf = ({ stringValue, boolValue, intValue }) => stringValue ?? boolValue ?? intValue;
const attributesOf = (list) => Object.fromEntries(list.map(({ key, value }) => [key, valueOf(value)]));
const timeOf = (nanos) => [Number(BigInt(nanos) / 1_000_000_000n), Number(BigInt(nanos) % 1_000_000_000n)];
const stateOf = (text) => (text === undefined ? undefined : { serialize: () => text });

const readable = (span, resource, scope) => ({
  name: span.name,
  kind: span.kind - 1, // the API's number for the kind, since the API has no "unspecified"
  spanContext: () => ({ traceId: span.traceId, spanId: span.spanId, traceFlags: span.flags & 0xff, traceState: stateOf(span.traceState) }),
  parentSpanContext: span.parentSpanId === undefined ? undefined : { traceId: span.traceId, spanId: span.parentSpanId, traceFlags: 1, isRemote: (span.flags & 0x200) !== 0 },
  startTime: timeOf(span.startTimeUnixNano),
  endTime: timeOf(span.endTimeUnixNano),
  status: { code: span.status?.code ?? 0, message: span.status?.message },
  attributes: attributesOf(span.attributes),
  links: [], events: [], ended: true, droppedAttributesCount: 0, droppedEventsCount: 0, droppedLinksCount: 0,
  resource, instrumentationScope: scope,
});

// For a member that the format leaves out, the serializer writes an empty value.
const NOTHING = { droppedAttributesCount: 0, events: [], droppedEventsCount: 0, links: [], droppedLinksCount: 0 };
const whole = ({ resourceSpans }) => ({
  resourceSpans: resourceSpans.map(({ resource, scopeSpans }) => ({
    resource: { droppedAttributesCount: 0, ...resource },
    scopeSpans: scopeSpans.map(({ scope, spans }) => ({ scope, spans: spans.map((span) => ({ ...NOTHING, status: { code: 0 }, ...span })) })),
  })),
});

export function check(text) {
  const sent = JSON.parse(text);
  const spans = sent.resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const of = { attributes: attributesOf(resource.attributes) };
    return scopeSpans.flatMap(({ scope, spans: list }) => list.map((span) => readable(span, of, scope)));
  });
  assert.ok(spans.length > 0, text);
  for (const { resourceSpans } of [sent]) for (const { scopeSpans } of resourceSpans) for (const { spans: list } of scopeSpans)
    for (const span of list) {
      assert.match(span.traceId, /^(?!0{32})[0-9a-f]{32}$/);
      for (const id of [span.spanId, span.parentSpanId ?? span.spanId]) assert.match(id, /^(?!0{16})[0-9a-f]{16}$/);
      assert.ok(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano), JSON.stringify(span));
    }
  const written = JSON.parse(new TextDecoder().decode(JsonTraceSerializer.serializeRequest(spans)));
  assert.deepEqual(JSON.parse(JSON.stringify(whole(sent))), written);
}

// on(request, reply, text) answers, `taken` by default. The spans of accepted requests are in
// `spans`, the requests in `requests`.
export class Receiver {
  static async start({ createServer = http.createServer, port = 0 } = {}) {
    const receiver = new Receiver();
    Object.assign(receiver, { requests: [], spans: [], on: (request, reply) => receiver.take(reply, request.text) });
    receiver.server = createServer(async (request, reply) => {
      reply.on('error', () => {});
      const parts = [];
      try {
        for await (const part of request) parts.push(part);
      } catch {
        return; // cut
      }
      request.text = Buffer.concat(parts).toString();
      receiver.requests.push({ url: request.url, headers: request.headers, text: request.text });
      receiver.on(request, reply);
    });
    await new Promise((resolve) => receiver.server.listen(port, '127.0.0.1', resolve));
    receiver.port = receiver.server.address().port;
    receiver.url = `http://127.0.0.1:${receiver.port}`;
    return receiver;
  }

  take(reply, text, body = '{}') {
    const { resourceSpans } = JSON.parse(text);
    for (const { resource, scopeSpans } of resourceSpans)
      for (const { spans } of scopeSpans)
        this.spans.push(...spans.map((span) => ({ ...span, instance: attributesOf(resource.attributes)['service.instance.id'], is: attributesOf(span.attributes) })));
    reply.setHeader('Content-Type', 'application/json').end(body);
  }

  // Waits for that many spans of a trace.
  trace(traceId, count) {
    const of = () => this.spans.filter((span) => span.traceId === traceId);
    return until(`${count} spans are there, of ${traceId}`, () => of().length >= count && of());
  }

  stop() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }
}

// The tree of a trace's spans as "name(child child)", with children sorted by name.
export function tree(spans, root) {
  const below = spans.filter((span) => span.parentSpanId === root).map((span) => span.name + tree(spans, span.spanId));
  return below.length > 0 ? `(${below.sort().join(' ')})` : '';
}
