-- What an account says of its users, and the hour of a user's last request. The version before
-- inserts NULL: a user without last_seen_at was seen when it was created.
alter table sluice.account_user add column label text;
alter table sluice.account_user add column last_seen_at timestamptz;
