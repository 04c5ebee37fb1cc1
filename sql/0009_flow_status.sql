-- Lists of one status walk just that status, however many flows of another the account has.
create index flow_status on sluice.flow (account_id, status, id);
drop index sluice.flow_attention;
