// The tests of flows.test.mjs once more, with statements batched the other way.
process.env.SLUICE_DATABASE_BATCH = 'pipe';
await import('./flows.test.mjs');
