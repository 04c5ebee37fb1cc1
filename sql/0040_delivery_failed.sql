-- Events that have failed are listed, and sent again, by themselves, however many were delivered; those
-- that are pending are counted, listed and read by themselves. A delivered row has an entry in neither.
-- Each index is built by one pass over the table, which has the rows of `webhook-days`, and during which
-- none is written. Walks over pending ones say something of `attempt`: no other statement is to use their
-- index.
create index delivery_failed on sluice.delivery (webhook_id, event_id) where status = 'failed';
create index delivery_pending on sluice.delivery (webhook_id, event_id)
    where status = 'pending' and attempt >= 0;
