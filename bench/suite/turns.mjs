// The longest turn of the loop while every call to the provider makes a full TLS handshake: nginx
// in front of it closes each connection and resumes no session. Catalog requests are sent at the
// same time.
import { makeCertificates, startNginx } from '../../tests/e2e/support/nginx.mjs';
import { metric } from './stage.mjs';

const PROFILE = '{"emailAddress":"sam.rivera@example.com","messagesTotal":62,"threadsTotal":60,"historyId":"1"}';
const FULL = 'sluice_tls_handshakes_total{kind="full"}';

// The upper bound of the highest bucket that is not empty.
function worst(text, name) {
  const buckets = [...text.matchAll(new RegExp(`^${name}_bucket\\{le="([^"]+)"\\} (\\S+)$`, 'gm'))].map(([, le, count]) => [Number(le.replace('+Inf', 'Infinity')), Number(count)]);
  return buckets.find(([, count]) => count === buckets.at(-1)?.[1])?.[0] ?? NaN;
}

// {cpu_ms, wall_ms, handshakes_per_s}
export async function measureTurns(stage) {
  const { caFile, certFile, keyFile } = await makeCertificates(stage.stack.dir);
  const nginx = await startNginx(stage.stack.dir, (port) => `
  access_log off; keepalive_requests 1;
  server { listen 127.0.0.1:${port} ssl; ssl_certificate ${certFile}; ssl_certificate_key ${keyFile};
    ssl_session_cache off; ssl_session_tickets off; default_type application/json;
    location / { return 200 '${PROFILE}'; } }`);
  try {
    return await stage.with({ provider: { url: `https://127.0.0.1:${nginx.port}`, caFile } }, async (server) => {
      const report = await stage.load('read_small:1,detail:4,search:1', { server, name: 'turns' });
      const handshakes = await metric(server, FULL);
      const calls = report.scenarios[0].done;
      if (handshakes < calls) throw new Error(`${handshakes} full handshakes for ${calls} calls`);
      return {
        cpu_ms: 1000 * (await metric(server, 'sluice_loop_turn_cpu_seconds_max')),
        wall_ms: 1000 * worst(await server.metrics(), 'sluice_loop_lag_seconds'),
        handshakes_per_s: report.scenarios[0].done / report.measured_s,
      };
    });
  } finally {
    await nginx.stop();
  }
}
