// A client of openapi-typescript and openapi-fetch, as a user would write it: without casts and
// without `any`.
import createClient from 'openapi-fetch';
import type { components, paths } from './generated/openapi_typescript.js';
import type { Seen } from './seen.js';

type Blocked = components['schemas']['BlockedExecution'];
type Failed = components['schemas']['FailedExecution'];
type Guard = components['schemas']['GuardError'];

// Every error of an execution, by its kind.
function codeOf(error: Blocked | Failed | Guard): string {
  if (!('status' in error)) return error.error;
  switch (error.status) {
    case 'blocked':
      return `blocked ${error.error_code}, ${error.execution_id}, ${error.recommended_next_action?.input.integration_id}`;
    case 'failed':
      return `failed ${error.error_code} ${error.started_at}`;
  }
}

export async function run(baseUrl: string, key: string, stranger: string): Promise<Seen> {
  const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });
  const integrations = await client.GET('/api/integrations', { params: { query: { connected_only: true } } });
  const flows = await client.GET('/api/flows', { params: { query: { limit: 5 } } });
  const found = await client.GET('/api/search', { params: { query: { query: 'send a mail' } } });
  const hit = found.data?.items.find((one) => one.kind === 'action' && one.connected);
  const detail = await client.GET('/api/actions/{integration_id}/{action_id}', {
    params: { path: { integration_id: 'gmail', action_id: 'send_message' } },
  });
  const schema: { [key: string]: unknown } | undefined = detail.data?.input_schema;
  const read = await client.POST('/api/executions', { body: { integration_id: 'gmail', action_id: 'list_labels', input: {} } });
  if (!read.data || 'dry_run' in read.data) throw new Error(read.error && codeOf(read.error));
  const stored = await client.GET('/api/executions/{id}', { params: { path: { id: read.data.execution_id } } });

  const input = { to: 'ada@example.com', subject: 'Typed', text: 'By a client that was generated.' };
  const write = { integration_id: 'gmail', action_id: 'send_message', input };
  const blocked = await client.POST('/api/executions', { body: write });
  const confirmed = { ...write, confirm: true, idempotency_key: 'openapi-fetch-1' };
  const sent = await client.POST('/api/executions', { body: confirmed });
  const again = await client.POST('/api/executions', { body: confirmed });
  const ids = [sent, again].map(({ data }) => (data && 'status' in data ? data.execution_id : ''));
  const tool = await client.POST('/api/tools/{tool_name}/execute', {
    params: { path: { tool_name: 'gmail_send_message' } },
    body: { arguments: input },
  });
  const toolError = tool.error && 'ok' in tool.error ? tool.error.error.code : undefined;

  const started = await client.POST('/api/flows/start', {
    body: { flowTemplate: 'mail_with_reminder', input, triggerType: 'agent' },
  });
  const id = started.data?.flowId ?? '';
  const params = { path: { id } };
  const waiting = await client.GET('/api/flows/{id}', { params: { ...params, query: { wait: 60, until: 'settled' } } });
  const approved = await client.POST('/api/flows/{id}/approve', { params, body: { note: 'typed' } });
  const settled = await client.GET('/api/flows/{id}', { params: { ...params, query: { wait: 60, until: 'settled' } } });
  const cancelled = await client.POST('/api/flows/{id}/cancel', { params });
  const missing = await client.GET('/api/flows/{id}', {
    params: { path: { id } },
    headers: { Authorization: `Bearer ${stranger}` },
  });
  const keyless = await createClient<paths>({ baseUrl }).GET('/api/flows');
  return {
    integrations: integrations.data?.items.map((one) => one.integration_id) ?? [],
    flows: flows.data?.flows.length ?? -1,
    hit: hit?.action_id ?? null,
    required: detail.data?.input_summary.required ?? [],
    schemaType: schema?.type,
    confirmation: detail.data?.requires_confirmation ?? false,
    read: read.data.display.title,
    stored: stored.data?.status ?? '',
    blocked: blocked.error ? codeOf(blocked.error) : '',
    sentOnce: ids[0] !== '' && ids[0] === ids[1],
    replayed: again.response.headers.get('Idempotent-Replayed'),
    tool: toolError,
    started: started.data?.flow.flow.status ?? '',
    waiting: waiting.data?.steps.find((one) => one.status === 'waiting')?.stepKey,
    approved: approved.data?.flow.id === id,
    sent: settled.data?.steps.find((one) => one.stepKey === 'send')?.status,
    cancelled: cancelled.data?.flow.status ?? '',
    missing: missing.error?.error ?? '',
    keyless: keyless.error?.error ?? '',
  };
}
