-- The look for due flows goes on from page to page by (wake_at, id). By wake_at alone each page of
-- flows that come due at one moment would be sorted out of all of them.
drop index sluice.flow_due;
create index flow_due on sluice.flow (wake_at, id) where status = 'waiting';
