/** Schema version 3: what expires, tenant by tenant. PRIVATE to migrations.ts: once released, this text never changes. */
export const retention = `
DROP INDEX runs_expiry;
CREATE INDEX runs_expiry ON runs (tenant, expires_at) WHERE expires_at IS NOT NULL;
`
