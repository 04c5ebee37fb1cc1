// Imported first: every reply in the importing file is compared with openapi.json, as with
// SLUICE_CONTRACT=1.
process.env.SLUICE_CONTRACT ??= '1';
