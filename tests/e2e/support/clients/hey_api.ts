// A client of @hey-api/openapi-ts with its fetch client, as a user would write it: without casts
// and without `any`.
import { createClient } from './generated/hey_api/client/index.js';
import * as sluice from './generated/hey_api/index.js';
import type { Seen } from './seen.js';

// Every error of an execution, by its kind.
function codeOf(error: sluice.CreateExecutionError): string {
  if (!('status' in error)) return error.error;
  switch (error.status) {
    case 'blocked':
      return `blocked ${error.error_code}, ${error.execution_id}, ${error.recommended_next_action?.input.integration_id}`;
    case 'failed':
      return `failed ${error.error_code} ${error.started_at}`;
  }
}

// Yields the views of a flow as they arrive, until one is at rest.
async function restOf(client: ReturnType<typeof createClient>, id: string): Promise<sluice.FlowView | undefined> {
  const { stream } = await sluice.watchFlow({ client, path: { id } });
  for await (const view of stream) if (view && view.flow.status !== 'running') return view;
  return undefined;
}

export async function run(baseUrl: string, key: string, stranger: string): Promise<Seen> {
  const client = createClient({ baseUrl, auth: key });
  const integrations = await sluice.listIntegrations({ client, query: { connected_only: true } });
  const flows = await sluice.listFlows({ client, query: { limit: 5 } });
  const found = await sluice.searchCatalog({ client, query: { query: 'send a mail' } });
  const hit = found.data?.items.find((one) => one.kind === 'action' && one.connected);
  const detail = await sluice.getAction({ client, path: { integration_id: 'gmail', action_id: 'send_message' } });
  const schema: { [key: string]: unknown } | undefined = detail.data?.input_schema;
  const read = await sluice.createExecution({ client, body: { integration_id: 'gmail', action_id: 'list_labels', input: {} } });
  if (!read.data || 'dry_run' in read.data) throw new Error(read.error && codeOf(read.error));
  const stored = await sluice.getExecution({ client, path: { id: read.data.execution_id } });

  const input = { to: 'ada@example.com', subject: 'Typed', text: 'By a client that was generated.' };
  const write = { integration_id: 'gmail', action_id: 'send_message', input };
  const blocked = await sluice.createExecution({ client, body: write });
  const confirmed = { ...write, confirm: true, idempotency_key: 'hey-api-1' };
  const sent = await sluice.createExecution({ client, body: confirmed });
  const again = await sluice.createExecution({ client, body: confirmed });
  const ids = [sent, again].map(({ data }) => (data && 'status' in data ? data.execution_id : ''));
  const tool = await sluice.executeTool({ client, path: { tool_name: 'gmail_send_message' }, body: { arguments: input } });
  const toolError = tool.error && 'ok' in tool.error ? tool.error.error.code : undefined;

  const started = await sluice.startFlow({ client, body: { flowTemplate: 'mail_with_reminder', input, triggerType: 'agent' } });
  const id = started.data?.flowId ?? '';
  const waiting = await restOf(client, id);
  const approved = await sluice.approveFlow({ client, path: { id }, body: { note: 'typed' } });
  const settled = await sluice.getFlow({ client, path: { id }, query: { wait: 60, until: 'settled' } });
  const cancelled = await sluice.cancelFlow({ client, path: { id } });
  const missing = await sluice.getFlow({ client: createClient({ baseUrl, auth: stranger }), path: { id } });
  const keyless = await sluice.listFlows({ client: createClient({ baseUrl }) });
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
    replayed: again.response?.headers.get('Idempotent-Replayed') ?? null,
    tool: toolError,
    started: started.data?.flow.flow.status ?? '',
    waiting: waiting?.steps.find((one) => one.status === 'waiting')?.stepKey,
    approved: approved.data?.flow.id === id,
    sent: settled.data?.steps.find((one) => one.stepKey === 'send')?.status,
    cancelled: cancelled.data?.flow.status ?? '',
    missing: missing.error?.error ?? '',
    keyless: keyless.error?.error ?? '',
  };
}
