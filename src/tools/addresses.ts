import ipaddr from 'ipaddr.js'

type Ip = ipaddr.IPv4 | ipaddr.IPv6
/** One entry of `outbound.allow`. */
export interface AllowRule { port?: number, host?: string, range?: [Ip, number] }

/** Throws an `Error` that names every entry that is no host, address or range. */
export function parseAllowed (entries: readonly string[]): AllowRule[] {
  const rules = entries.map((entry) => ({ entry, rule: parseEntry(entry.trim()) }))
  const bad = rules.filter(({ rule }) => rule === undefined).map(({ entry }) => `"${entry}"`)
  if (bad.length > 0) throw new Error(`not a host, an address or a range, with or without a port: ${bad.join(', ')}`)
  return rules.flatMap(({ rule }) => rule ?? [])
}

const HOST = /^(?=.{1,253}\.?$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?$/i

function parseEntry (entry: string): AllowRule | undefined {
  const whole = parseRange(entry)
  if (whole) return { range: whole }
  const [, bracketed, bare, digits] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(entry) ?? []
  const name = bracketed ?? bare
  const port = digits === undefined ? undefined : Number(digits)
  if (name === undefined || (port !== undefined && (port < 1 || port > 65_535))) return undefined
  const range = parseRange(name)
  const on = port === undefined ? {} : { port }
  if (range) return { range, ...on }
  // What ends in a number is an address or a mistake, never a name.
  return bracketed === undefined && HOST.test(name) && !/(^|\.)\d+\.?$/.test(name) ? { host: plainName(name), ...on } : undefined
}

function parseRange (text: string): [Ip, number] | undefined {
  if (!/^[\d.]+(\/\d+)?$|^[\da-f:.]*:[\da-f:.]*(\/\d+)?$/i.test(text)) return undefined
  const [address = '', bits] = text.split('/')
  if (!ipaddr.IPv4.isValidFourPartDecimal(address) && !ipaddr.IPv6.isValid(address)) return undefined
  if (bits !== undefined) return ipaddr.isValidCIDR(text) ? ipaddr.parseCIDR(text) : undefined
  const ip = ipaddr.parse(address)
  return [ip, ip.kind() === 'ipv4' ? 32 : 128]
}

const plainName = (name: string): string => name.toLowerCase().replace(/\.$/, '')

/**
 * What kind of address must not be connected to, in words; `undefined` for a public one and for one that a rule allows, by its
 * range or by the name `host` it was asked for under.
 */
export function addressKind (rules: readonly AllowRule[], host: string, address: string, port: number): string | undefined {
  if (!ipaddr.isValid(address)) return 'no address'
  const ip = ipaddr.parse(address)
  const forms = [ip, ...embedded(ip)]
  const name = plainName(host)
  const allowed = rules.some((rule) => (rule.port === undefined || rule.port === port) &&
    (rule.host === undefined ? forms.some((form) => rule.range !== undefined && within(form, rule.range)) : rule.host === name))
  return allowed ? undefined : forms.map(kindOf).find((kind) => kind !== undefined)
}

const within = (ip: Ip, [base, bits]: [Ip, number]): boolean => ip.kind() === base.kind() && ip.match(base, bits)

/** The IPv4 address that an IPv6 one stands for: mapped, or translated by a gateway (RFC 6052). */
function embedded (ip: Ip): Ip[] {
  if (!(ip instanceof ipaddr.IPv6)) return []
  if (ip.isIPv4MappedAddress()) return [ip.toIPv4Address()]
  return ip.match(NAT64) ? [ipaddr.fromByteArray(ip.toByteArray().slice(12))] : []
}

const NAT64 = ipaddr.parseCIDR('64:ff9b::/96')
/** Where the public IPv6 Internet is; whatever is registered for other uses within it has a range of its own. */
const GLOBAL_V6 = ipaddr.parseCIDR('2000::/3')
/** A public address by its range, yet one at which a cloud answers its own machines. */
const CLOUD_V4 = ipaddr.parseCIDR('168.63.129.16/32')

const KINDS: Readonly<Record<string, string>> = {
  unspecified: 'an address of this machine',
  loopback: 'a loopback address',
  private: 'a private address',
  uniqueLocal: 'a private address',
  deprecatedSiteLocal: 'a private address',
  carrierGradeNat: 'a private address',
  linkLocal: 'a link-local address',
  multicast: 'a multicast address',
  broadcast: 'a broadcast address'
}

function kindOf (ip: Ip): string | undefined {
  const range = ip.range()
  if (range === 'ipv4Mapped' || (ip.kind() === 'ipv6' && within(ip, NAT64))) return undefined
  if (within(ip, CLOUD_V4)) return 'a link-local address'
  if (range === 'unicast' && (ip.kind() === 'ipv4' || within(ip, GLOBAL_V6))) return undefined
  return KINDS[range] ?? 'a reserved address'
}
