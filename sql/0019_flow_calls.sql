-- The calls of an account's flows by time, for lists that have them among its executions. A step's
-- row is the record of its call, so the time stands in an index here and not in a row more. Steps
-- are inserted in the order of this time: the entry goes to the end of the account's part. Built by
-- one pass over the table, during which no step is written.
create index flow_step_time on sluice.flow_step (account_id, started_at);
