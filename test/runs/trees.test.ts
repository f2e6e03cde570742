import { expect, onTestFinished, test } from 'vitest'
import { startService, type Service } from '../support/service.ts'

interface Node { id: string, runningChildren: number, treeUsage: { steps: number }, usage: { steps: number }, children: Node[], [key: string]: unknown }
const say = { task: 'a', agentOptions: { script: [{ say: 'x' }] } }
const hang = { task: 'a', agentOptions: { script: [{ hang: true }] } }
const under = (runId: string, body: object = say): object => ({ ...body, parent: { runId } })
const settle = async (service: Service, body: object): Promise<string> => {
  const { id } = await service.start(body)
  await service.result(id)
  return id
}
const treeOf = async (service: Service, id: string): Promise<Node> => (await service.call<Node>('GET', `/v1/runs/${id}/tree`)).body
const shape = ({ id, children }: Node): object => ({ id, children: children.map(shape) })

test('a tree is the run with its children, recursively, in the order in which they came', async () => {
  const service = await startService(onTestFinished)
  const root = await settle(service, say)
  const [a, b] = [await settle(service, under(root)), await settle(service, under(root))]
  const [aa, ab] = [await settle(service, under(a)), await settle(service, under(a))]
  const aaa = await settle(service, under(aa))
  await settle(service, say)
  const tree = await treeOf(service, root)
  expect(shape(tree)).toEqual({ id: root, children: [
    { id: a, children: [{ id: aa, children: [{ id: aaa, children: [] }] }, { id: ab, children: [] }] }, { id: b, children: [] }
  ] })
  expect(shape(await treeOf(service, a))).toEqual(shape(tree.children[0] as Node))
})

test('each node is the run as its status has it, with `children` beside', async () => {
  const service = await startService(onTestFinished)
  const root = await settle(service, say)
  const child = await settle(service, under(root))
  const { children, ...self } = await treeOf(service, root)
  expect(self).toEqual((await service.call('GET', `/v1/runs/${root}`)).body)
  const [{ children: none, ...own }] = children as [Node]
  expect([own, none]).toEqual([(await service.call('GET', `/v1/runs/${child}`)).body, []])
})

test('2.5 runningChildren counts direct children that are not settled, treeUsage sums up all below', async () => {
  const service = await startService(onTestFinished)
  const root = await settle(service, say)
  const middle = await settle(service, under(root))
  const { id: open } = await service.start(under(middle, hang))
  const { id: other } = await service.start(under(middle, hang))
  const counts = async (): Promise<number[]> => {
    const tree = await treeOf(service, root)
    return [tree.runningChildren, tree.children[0]?.runningChildren ?? NaN]
  }
  expect(await counts()).toEqual([0, 2])
  await service.call('POST', `/v1/runs/${open}/cancel?wait=5`, {})
  expect(await counts()).toEqual([0, 1])
  await service.call('POST', `/v1/runs/${other}/cancel?wait=5`, {})
  const tree = await treeOf(service, root)
  expect([tree.runningChildren, tree.children[0]?.runningChildren, tree.usage.steps, tree.treeUsage.steps]).toEqual([0, 0, 1, 2])
})

test('a tree below a run that was forgotten is forgotten too', async () => {
  const service = await startService(onTestFinished)
  const root = await settle(service, say)
  const middle = await settle(service, under(root))
  const leaf = await settle(service, under(middle))
  await service.call('DELETE', `/v1/runs/${middle}`)
  expect(shape(await treeOf(service, root))).toEqual({ id: root, children: [] })
  expect((await service.call('GET', `/v1/runs/${leaf}`)).status).toBe(404)
})
