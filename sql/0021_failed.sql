-- What has failed is listed by itself, however much of an account has succeeded: executions and calls
-- of flows. Only a row that failed has an entry, so others are inserted as fast as before. Built by
-- one pass over each table, during which no row is written.
create index execution_failed on sluice.execution (account_id, id) where status = 'failed';
create index flow_step_failed on sluice.flow_step (account_id, started_at) where status = 'failed';
