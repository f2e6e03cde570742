import { Type as TypeBox } from 'typebox'
import { expect, test } from 'vitest'
import { Type } from '../../openapi/type.ts'

test('the builders of the wire make the schemas that TypeBox makes', () => {
  const made = (type: typeof Type): unknown => type.Object({
    name: type.String({ minLength: 1, description: 'a name' }),
    count: type.Optional(type.Integer({ minimum: 0 })),
    share: type.Optional(type.Number({ maximum: 1 })),
    kind: type.Union([type.Literal('a'), type.Literal(1), type.Literal(true), type.Null()], { default: 'a' }),
    flags: type.Array(type.Boolean(), { maxItems: 3 }),
    inner: type.Optional(type.Object({ only: type.Optional(type.Unsafe<'x'>({ type: 'string', enum: ['x'] })) })),
    none: type.Object({}, { additionalProperties: false })
  }, { $id: 'Made', additionalProperties: false })
  expect(JSON.stringify(made(Type))).toBe(JSON.stringify(made(TypeBox)))
})

test('a schema that is optional in one object stays required in another', () => {
  const text = Type.String()
  Type.Optional(text)
  expect(Type.Object({ text })).toMatchObject({ required: ['text'] })
})
