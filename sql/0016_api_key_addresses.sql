-- The networks that a key may be used from, as words such as 10.1.0.0/16 or 2001:db8::1; NULL: any.
-- The version before ignores them: a list holds once the last process of it has ended.
alter table sluice.api_key
    add column addresses text check (char_length(addresses) between 2 and 4000);
