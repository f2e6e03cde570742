import { DatabaseSync } from 'node:sqlite'
import Fastify from 'fastify'

/**
 * The floor: the least that any service on this machine does for a start. It parses the same body, commits one row to
 * SQLite with the pragmas of the service's own store, and answers. Started by the bench with PORT and DATABASE.
 */
const database = new DatabaseSync(process.env.DATABASE ?? ':memory:')
database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
database.exec('CREATE TABLE runs (id INTEGER PRIMARY KEY, body TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT')
const insert = database.prepare('INSERT INTO runs (body, created_at) VALUES (?, ?)')

const app = Fastify()
const schema = {
  body: { type: 'object', required: ['task'], additionalProperties: false, properties: { task: { type: 'string' } } },
  response: {
    201: { type: 'object', properties: { id: { type: 'integer' }, status: { type: 'string' }, output: { type: 'string' } } }
  }
}

app.get('/healthz', async () => ({ status: 'ok' }))
app.post<{ Body: { task: string } }>('/v1/runs', { schema }, async ({ body }, reply) => {
  const { lastInsertRowid } = insert.run(JSON.stringify(body), Date.now())
  return reply.code(201).send({ id: Number(lastInsertRowid), status: 'settled', output: body.task })
})

process.once('SIGTERM', () => {
  void app.close().then(() => database.close())
})
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) })
