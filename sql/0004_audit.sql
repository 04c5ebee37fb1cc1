-- From where a change or a refused run came: the client's address, as the server saw it or as a
-- trusted proxy told it. Null for what the system noticed by itself.
alter table sluice.audit_event add column address text check (char_length(address) <= 200);
