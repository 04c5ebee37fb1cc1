-- As whom a connection acts at its app, as the app said when it was connected: all three null where
-- that is not known. In no index: HOT.
alter table sluice.connection
    add column identity_email text check (char_length(identity_email) between 1 and 320),
    add column identity_subject text check (char_length(identity_subject) between 1 and 255),
    add column identity_label text check (char_length(identity_label) between 1 and 200);

-- A link outlives being taken: its row says for which browser, and what it made, so that it makes
-- one connection at most and touches no other. The tokens of these rows are longer than those that
-- the version before reads, which takes none of them: it knows nothing of what they are held to.
alter table sluice.connect_session
    add column link_id uuid,         -- in the audit trail; says nothing of the token
    add column key_id uuid,          -- of who asked
    add column connection_id bigint, -- the one that it is to reconnect
    add column email text check (char_length(email) between 1 and 320), -- only this identity
    add column subject text check (char_length(subject) between 1 and 255),
    add column taken_at timestamptz,
    add column taken_by bytea check (octet_length(taken_by) = 32),
    add column used_at timestamptz,
    add column made_id bigint, -- the connection that it made, or gave a new grant
    add constraint connect_session_taken check ((taken_at is null) = (taken_by is null)),
    add constraint connect_session_used check ((used_at is null) = (made_id is null));
