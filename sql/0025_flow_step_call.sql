-- Which action a step of a flow has called, and the key that started its flow, in the step's own row,
-- so that a list of calls asks no template. integration_id '': the step is no call. NULL: not filled
-- in yet, as in the rows that are there now and in those that the version before writes;
-- housekeeping fills them by the index (server/janitor.c), which has no row that is filled. A list
-- leaves them out until then. No checks, as these would read every row; the index is built by one
-- pass over the table, during which no step is written.
alter table sluice.flow_step add column integration_id text;
alter table sluice.flow_step add column action_id text;
alter table sluice.flow_step add column api_key_id uuid;
create index flow_step_unfilled on sluice.flow_step (flow_id) where integration_id is null;

-- The list by time, of calls alone. An index of all steps by time would be as cheap as the primary
-- key, as PostgreSQL sees it, for the steps of one flow in a partition that has no statistics yet:
-- each flow that is loaded would read all of its account's steps of the day. Without it the version
-- before lists calls by the primary key, slower, until it has gone.
create index flow_step_call on sluice.flow_step (account_id, started_at) where integration_id <> '';
drop index sluice.flow_step_time;
