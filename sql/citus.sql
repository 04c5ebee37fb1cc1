-- Distributes the tables by account; `sluice migrate --citus` runs it on the coordinator of a Citus
-- cluster (src/shard/citus.h), once all migrations are applied, and prints what the statements return.
-- It can be run again: distributed tables stay as they are. A table that a migration adds
-- gets a line here.

set client_min_messages = error;

-- Copied to every node: rarely written, and read with rows of any account.
create or replace function pg_temp.copied(name text) returns text
language plpgsql as $$
begin
    -- repmodel 's': Citus knows it as a local one, for its reference to a copied table
    if exists (select from pg_dist_partition where logicalrelid = name::regclass and repmodel = 't') then
        return null;
    end if;
    perform create_reference_table(name);
    perform truncate_local_data_after_distributing_table(name::regclass);
    return name || ': copied to every node';
end
$$;

-- An account's rows of all these tables are on one node: they are colocated with the first table.
create or replace function pg_temp.distributed(name text) returns text
language plpgsql as $$
begin
    if exists (select from pg_dist_partition where logicalrelid = name::regclass and partmethod = 'h') then
        return null;
    end if;
    perform create_distributed_table(name, 'account_id', colocate_with =>
        case when name = 'sluice.connection' then 'none' else 'sluice.connection' end);
    perform truncate_local_data_after_distributing_table(name::regclass);
    return name || ': distributed by account_id';
end
$$;

-- sluice.node stays a table of the coordinator alone: each server writes its row every two seconds.
-- Copied, it would be written on every node, and one that is down would end every server's lease.
select pg_temp.copied('sluice.migration');
select pg_temp.copied('sluice.account');
select pg_temp.copied('sluice.api_key');
select pg_temp.copied('sluice.session_end');
select pg_temp.copied('sluice.flow_template');
select pg_temp.distributed('sluice.connection');
select pg_temp.distributed('sluice.execution');
select pg_temp.distributed('sluice.execution_input');
select pg_temp.distributed('sluice.idempotency_key');
select pg_temp.distributed('sluice.audit_event');
select pg_temp.distributed('sluice.flow');
select pg_temp.distributed('sluice.flow_doc');
select pg_temp.distributed('sluice.flow_step');
select pg_temp.distributed('sluice.flow_item');
select pg_temp.distributed('sluice.oauth_client');
select pg_temp.distributed('sluice.oauth_begun');
select pg_temp.distributed('sluice.connect_session');
select pg_temp.distributed('sluice.tally');
select pg_temp.distributed('sluice.usage');
select pg_temp.distributed('sluice.rate_lease');
select pg_temp.distributed('sluice.account_user');
select pg_temp.copied('sluice.webhook');
select pg_temp.copied('sluice.policy');
select pg_temp.distributed('sluice.delivery');
select pg_temp.distributed('sluice.hold');
