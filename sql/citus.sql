-- Distributes the tables by tenant. Run once by hand, after `sluice migrate`, on a Citus coordinator
-- that has the extension; then start every sluice with --database-batch pipe.
-- Not run: Citus is in no registry that this project is built from.
begin;
select create_reference_table('sluice.migration');
select create_reference_table('sluice.account');
select create_reference_table('sluice.api_key');
select create_reference_table('sluice.node');
select create_reference_table('sluice.flow_template');
select create_distributed_table('sluice.connection', 'account_id');
select create_distributed_table('sluice.execution', 'account_id', colocate_with => 'sluice.connection');
select create_distributed_table('sluice.idempotency_key', 'account_id', colocate_with => 'sluice.connection');
select create_distributed_table('sluice.audit_event', 'account_id', colocate_with => 'sluice.connection');
select create_distributed_table('sluice.flow', 'account_id', colocate_with => 'sluice.connection');
select create_distributed_table('sluice.flow_doc', 'account_id', colocate_with => 'sluice.connection');
select create_distributed_table('sluice.flow_step', 'account_id', colocate_with => 'sluice.connection');
select create_distributed_table('sluice.flow_item', 'account_id', colocate_with => 'sluice.connection');
select create_distributed_table('sluice.oauth_client', 'account_id', colocate_with => 'sluice.connection');
select create_distributed_table('sluice.oauth_begun', 'account_id', colocate_with => 'sluice.connection');
select create_distributed_table('sluice.connect_session', 'account_id', colocate_with => 'sluice.connection');
select create_distributed_table('sluice.session_end', 'account_id', colocate_with => 'sluice.connection');
commit;
