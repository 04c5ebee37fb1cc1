-- As in 0043_checks.sql: what single columns of a finished attempt have is certain without a CHECK, and
-- each step of a flow pays for it. That an error comes with a failed attempt stays.
alter table sluice.flow_step
    drop constraint if exists flow_step_step_index_check,
    drop constraint if exists flow_step_attempt_check,
    drop constraint if exists flow_step_status_check;
