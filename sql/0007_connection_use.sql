-- When a connection was last used, and what last went wrong with it. A server keeps both in memory
-- and tells them at most once a minute a connection. The columns are in no index: HOT.
alter table sluice.connection
    add column last_used_at timestamptz,
    add column failed_at timestamptz,
    add column failure text check (char_length(failure) <= 500),
    add constraint connection_failure check ((failed_at is null) = (failure is null));
