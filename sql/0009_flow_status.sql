-- Lists of one status walk just that status, however many flows of another the account has. The
-- index is partial, though every row is in it: a look-up by (account_id, id) that does not name a
-- status must not take it for as good as the primary key, which on an empty table it seems to be.
create index flow_status on sluice.flow (account_id, status, id) where status <> '';
drop index sluice.flow_attention;
