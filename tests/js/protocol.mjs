// The bytes of the protocol (docs/protocol.md): msgpack, frames, arrays, keys and draws.
// Nothing but WebCrypto and plain JavaScript, so that a browser runs it too.

import * as f from "./forms.mjs";

const subtle = globalThis.crypto.subtle;
const NOTHING = new Uint8Array();
const LIMIT = 32768; // no number of a message is as far from 0
const utf8 = new TextEncoder();

export const text = (bytes) => new TextDecoder("utf-8", { fatal: true }).decode(bytes);
export const bytesOf = (string) => utf8.encode(string);
export const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
export const unhex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (d) => parseInt(d, 16));
export function toBase64(bytes) {
  let characters = "";
  // In pieces, since a call takes no more arguments than a stack has room for.
  for (let at = 0; at < bytes.length; at += 8192)
    characters += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(characters);
}
export const fromBase64 = (digits) => Uint8Array.from(atob(digits), (c) => c.charCodeAt(0));
// A number that the fixed point of a sum can hold. Where it cannot, noise would be rounded away.
export function held(number) {
  if (!(Math.abs(number) < LIMIT)) throw new Refused("too-large", `a number beyond +-${LIMIT}`);
  return number;
}
export const random = (size) => globalThis.crypto.getRandomValues(new Uint8Array(size));
export const sha256 = async (bytes) => new Uint8Array(await subtle.digest("SHA-256", bytes));
export const same = (a, b) => a.length === b.length && a.every((byte, at) => byte === b[at]);

export function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

// A message that is not accepted: one of the codes of the page, and a reason.
export class Refused extends Error {
  constructor(code, reason = "") {
    super(`${code}\n${reason}`);
    Object.assign(this, { code, reason });
  }
}

// ---- keys ---------------------------------------------------------------------------------------

// WebCrypto takes private keys in PKCS #8 alone: a fixed prefix before the 32 bytes.
const PREFIX = {
  Ed25519: unhex("302e020100300506032b657004220420"),
  X25519: unhex("302e020100300506032b656e04220420"),
};

async function privateKey(name, raw, uses) {
  return subtle.importKey("pkcs8", joined(PREFIX[name], raw), { name }, true, uses);
}

// What signs, from 32 bytes. A page's key is none of these: it never leaves the browser.
export const signingKey = (raw) => privateKey("Ed25519", raw, ["sign"]);

// WebCrypto gives the public half of a private key only as a part of its JSON form.
export async function publicOf(name, raw) {
  const key = await privateKey(name, raw, name === "Ed25519" ? ["sign"] : ["deriveBits"]);
  const { x } = await subtle.exportKey("jwk", key);
  return fromBase64(x.replaceAll("-", "+").replaceAll("_", "/"));
}

export const sign = async (key, message) =>
  new Uint8Array(await subtle.sign("Ed25519", key, message));

export async function verified(raw, signature, message) {
  const key = await subtle.importKey("raw", raw, { name: "Ed25519" }, true, ["verify"]);
  return subtle.verify("Ed25519", key, signature, message);
}

export async function agree(raw, other) {
  const key = await privateKey("X25519", raw, ["deriveBits"]);
  const theirs = await subtle.importKey("raw", other, { name: "X25519" }, true, []);
  return new Uint8Array(await subtle.deriveBits({ name: "X25519", public: theirs }, key, 256));
}

// ---- msgpack ------------------------------------------------------------------------------------

// JavaScript has one type of numbers, and msgpack tells 1 from 1.0: a float is said to be one.
export class Float {
  constructor(value) {
    this.value = value;
  }
}

function sized(count, fix, least, [tag8, tag16, tag32]) {
  if (fix !== null && count < least) return Uint8Array.of(fix | count);
  if (tag8 !== null && count < 256) return Uint8Array.of(tag8, count);
  if (count < 65536) return Uint8Array.of(tag16, count >> 8, count);
  return Uint8Array.of(tag32, count >>> 24, count >>> 16, count >>> 8, count);
}

export function encode(value) {
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value) || value < 0)
      throw new RangeError(`no number of ours: ${value}`);
    if (value < 2 ** 32) return sized(value, 0, 128, [0xcc, 0xcd, 0xce]);
    const out = new DataView(new ArrayBuffer(9));
    out.setUint8(0, 0xcf);
    out.setBigUint64(1, BigInt(value));
    return new Uint8Array(out.buffer);
  }
  if (value instanceof Float) {
    const out = new DataView(new ArrayBuffer(9));
    out.setUint8(0, 0xcb);
    out.setFloat64(1, value.value);
    return new Uint8Array(out.buffer);
  }
  if (typeof value === "string") {
    const coded = bytesOf(value);
    return joined(sized(coded.length, 0xa0, 32, [0xd9, 0xda, 0xdb]), coded);
  }
  if (value instanceof Uint8Array) {
    return joined(sized(value.length, null, 0, [0xc4, 0xc5, 0xc6]), value);
  }
  if (Array.isArray(value)) {
    return joined(sized(value.length, 0x90, 16, [null, 0xdc, 0xdd]), ...value.map(encode));
  }
  const pairs = Object.entries(value);
  return joined(sized(pairs.length, 0x80, 16, [null, 0xde, 0xdf]), ...pairs.flat().map(encode));
}

// A message of a form (forms.mjs). Refuses any other.
export function decode(bytes, form) {
  let value = null;
  try {
    value = parsed(bytes);
  } catch {
    // No message: null has no form.
  }
  if (!form(value)) throw new Refused("malformed", "no such message");
  return value;
}

function parsed(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  const number = (size) => {
    at += size;
    if (size === 8) return Number(view.getBigUint64(at - 8));
    return {
      1: () => view.getUint8(at - 1),
      2: () => view.getUint16(at - 2),
      4: () => view.getUint32(at - 4),
    }[size]();
  };
  const take = (size) => {
    if (at + size > bytes.length) throw new RangeError("cut off");
    at += size;
    return bytes.subarray(at - size, at);
  };
  const list = (count) => Array.from({ length: count }, one);
  const name = () => {
    const found = one();
    if (typeof found !== "string") throw new RangeError("no name");
    return found;
  };
  const pair = () => [name(), one()];
  const map = (count) => Object.fromEntries(Array.from({ length: count }, pair));
  function one() {
    const tag = number(1);
    if (tag < 0x80) return tag;
    if (tag < 0x90) return map(tag & 15);
    if (tag < 0xa0) return list(tag & 15);
    if (tag < 0xc0) return text(take(tag & 31));
    if (tag >= 0xc4 && tag <= 0xc6) return take(number(1 << (tag - 0xc4)));
    if (tag === 0xcb) return new Float(view.getFloat64((at += 8) - 8));
    if (tag >= 0xcc && tag <= 0xcf) return number(1 << (tag - 0xcc));
    if (tag >= 0xd9 && tag <= 0xdb) return text(take(number(1 << (tag - 0xd9))));
    if (tag === 0xdc || tag === 0xdd) return list(number(tag === 0xdc ? 2 : 4));
    if (tag === 0xde || tag === 0xdf) return map(number(tag === 0xde ? 2 : 4));
    throw new RangeError(`an unknown type ${tag}`);
  }
  const value = one();
  if (at !== bytes.length) throw new RangeError("bytes behind the end");
  return value;
}

// ---- frames -------------------------------------------------------------------------------------

// What the sender of a frame signs.
export const statement = (head) => joined(bytesOf("entrenous frame 1\n"), head);
const START = 9; // bytes before the head
const HEAD = 4096; // bytes of a head, at most
// The fields of a head, in their order.
const FIELDS = {
  ...{ kind: f.text(), run: f.text(), node: f.bytes(1, 64), round: f.whole(), attempt: f.whole() },
  ...{ view: f.bytes(), model: f.bytes(), items: f.whole(), about: f.map(f.whole()) },
  ...{ size: f.whole(), digest: f.bytes() },
};
export const FRAME_HEAD = f.row(...Object.values(FIELDS));

export async function seal(key, kind, body, fields) {
  return framed(key, await headFor(kind, body, fields), body);
}

// The bytes of a head.
export async function headFor(kind, body, fields) {
  const left = { round: 0, attempt: 0, view: NOTHING, model: NOTHING, items: 0, about: {} };
  const head = { ...left, ...fields, kind, node: bytesOf(fields.node), size: body.length };
  head.digest = await sha256(body);
  return encode(Object.keys(FIELDS).map((name) => head[name]));
}

// The frame of a head and a body, signed.
export async function framed(key, head, body) {
  const start = new DataView(new ArrayBuffer(START));
  start.setUint32(0, 0x454e5452); // ENTR
  start.setUint8(4, 1);
  start.setUint32(5, head.length, true);
  const signature = await sign(key, statement(head));
  return joined(new Uint8Array(start.buffer), head, signature, body);
}

// The head of a frame from its bytes.
export function headOf(said) {
  try {
    const values = decode(said, FRAME_HEAD);
    const head = Object.fromEntries(Object.keys(FIELDS).map((name, at) => [name, values[at]]));
    if (/^[a-z0-9][a-z0-9.-]*$/.test(text(head.node))) return head;
  } catch {
    // Refused, in whatever words.
  }
  throw new Refused("bad-head");
}

export async function opened(frame, sender) {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.length);
  if (frame.length < START || view.getUint32(0) !== 0x454e5452) throw new Refused("not-a-frame");
  if (view.getUint8(4) !== 1) throw new Refused("wrong-version");
  const length = view.getUint32(5, true);
  if (length > HEAD) throw new Refused("too-long");
  const said = frame.subarray(START, START + length);
  const signature = frame.subarray(START + length, START + length + 64);
  const body = frame.slice(START + length + 64);
  if (signature.length !== 64) throw new Refused("truncated");
  const head = headOf(said);
  if (body.length !== head.size)
    throw new Refused(body.length < head.size ? "truncated" : "wrong-length");
  // The signature is over the head alone, and so over the body only by this digest.
  if (!same(await sha256(body), head.digest)) throw new Refused("wrong-digest");
  if (!(await verified(sender, signature, statement(said))))
    throw new Refused("bad-signature");
  return { head, said, signature, body };
}

// ---- arrays -------------------------------------------------------------------------------------

// By the name of a type: its class, and its name in the digest of a model.
const TYPES = {
  F64: [Float64Array, "<f8"],
  I64: [BigInt64Array, "<i8"],
  F32: [Float32Array, "<f4"],
  I32: [Int32Array, "<i4"],
  U8: [Uint8Array, "|u1"],
};
const OFFSETS = f.row(f.whole(), f.whole());
const HEADER = f.map(
  f.exact({ dtype: f.text(), shape: f.list(f.whole()), data_offsets: OFFSETS }),
);
const product = (shape) => shape.reduce((whole, size) => whole * size, 1);
const raw = (numbers) => new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
const byName = ([a], [b]) => (a < b ? -1 : 1);

// arrays: {name: [type, shape, numbers]}
export function writeArrays(arrays) {
  const wide = ([, [type]]) => TYPES[type][0].BYTES_PER_ELEMENT;
  const order = Object.entries(arrays)
    .sort(byName)
    .sort((a, b) => wide(b) - wide(a));
  const header = {};
  let end = 0;
  for (const [name, [type, shape, numbers]] of order) {
    header[name] = { dtype: type, shape, data_offsets: [end, (end += numbers.byteLength)] };
  }
  let said = JSON.stringify(header);
  said += " ".repeat((8 - (said.length % 8)) % 8);
  const length = new Uint8Array(8);
  new DataView(length.buffer).setUint32(0, said.length, true);
  return joined(length, bytesOf(said), ...order.map(([, [, , numbers]]) => raw(numbers)));
}

// schema: {name: [type, shape]}, in which a size of null is any. Returns {name: numbers}.
export function readArrays(body, schema) {
  const bad = (why) => new Refused("malformed", why);
  if (body.length < 8) throw bad("short");
  const length = Number(new DataView(body.buffer, body.byteOffset).getBigUint64(0, true));
  if (length % 8 || length < 2 || length > 16384 || body.length < 8 + length) throw bad("header");
  const said = text(body.subarray(8, 8 + length)).trimEnd();
  let header;
  try {
    header = JSON.parse(said);
  } catch {
    throw bad("json");
  }
  if (!HEADER(header)) throw bad("header");
  // JSON.parse takes the last of two values of one name; written again, the text would be shorter.
  if (JSON.stringify(header) !== said) throw bad("duplicate");
  if (Object.keys(header).sort().join() !== Object.keys(schema).sort().join()) throw bad("names");
  const found = {};
  let end = 0;
  for (const [name, entry] of Object.entries(header).sort(
    ([, a], [, b]) =>
      a.data_offsets[1] - b.data_offsets[1] || a.data_offsets[0] - b.data_offsets[0],
  )) {
    const [type, shape] = schema[name];
    const [from, to] = entry.data_offsets;
    if (entry.dtype !== type) throw bad("dtype");
    if (
      entry.shape.length !== shape.length ||
      shape.some((size, at) => size !== null && size !== entry.shape[at])
    )
      throw bad("shape");
    if (from !== end || to - from !== product(entry.shape) * TYPES[type][0].BYTES_PER_ELEMENT)
      throw bad("offsets");
    // A copy, since numbers in the frame need not begin where their type wants.
    found[name] = new TYPES[type][0](body.slice(8 + length + from, 8 + length + to).buffer);
    end = to;
  }
  if (8 + length + end !== body.length) throw bad("size");
  return found;
}

// The digest of a model; arrays: {name: [type, shape, numbers]}.
export async function modelDigest(arrays) {
  const parts = Object.entries(arrays)
    .sort(byName)
    .flatMap(([name, [type, shape, numbers]]) => {
      const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
      return [bytesOf(`${name} ${TYPES[type][1]} ${tuple}\n`), raw(numbers)];
    });
  return sha256(joined(...parts));
}

// ---- draws --------------------------------------------------------------------------------------

const GOLDEN = 0x9e3779b97f4a7c15n;
const u64 = (number) => BigInt.asUintN(64, number);
// BLAKE2b is not in WebCrypto, and few names of draws are needed: their words.
const WORDS = {
  devices: 4645764264720778695n,
  rounds: 10464479114614414917n,
  limits: 18162053725976980147n,
  tests: 17815912366287393232n,
  noise: 3964110132002447589n,
  f: 15820645997245929006n,
  q: 3824889971554137387n,
  b: 8453121595177857668n,
  local: 8847859622305074602n,
  poisson: 15744840431930419594n,
  select: 3379029510368961788n,
};

export function mix(z) {
  z = u64((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = u64((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}
export const word = (name) => (typeof name === "string" ? WORDS[name] : u64(BigInt(name)));
export const fold = (key, name) => mix(u64((key ^ mix(u64(word(name) + GOLDEN))) + GOLDEN));
export const keyOf = (seed, ...names) => names.reduce(fold, mix(u64(BigInt(seed))));
export const draw = (key, count) => mix(u64(key + BigInt(count + 1) * GOLDEN));
export const below = (bits, n) => Number(((bits >> 32n) * BigInt(n)) >> 32n);
export const belowLow = (bits, n) => Number(((bits & 0xffffffffn) * BigInt(n)) >> 32n);
export const uniform = (bits) => Number(bits >> 11n) * 2 ** -53;
export const randomKey = () => new DataView(random(8).buffer).getBigUint64(0);

export function normal(key, count) {
  const first = uniform(draw(key, 2 * count));
  const second = uniform(draw(key, 2 * count + 1));
  return Math.sqrt(-2 * ln(1 - first)) * cos(6.283185307179586 * second);
}

// The logarithm of a number above 0 and at most 1. Math.log and Math.cos are not the same in all
// engines; additions, multiplications and divisions are.
function ln(x) {
  let [m, k] = [x, 0];
  while (m < 0.7071067811865476) [m, k] = [m * 2, k + 1];
  const f = m - 1;
  const s = f / (2 + f);
  const z = s * s;
  const whole = z * series(z, LOGARITHM);
  const ofM = f - (s * (f - whole) + k * 7.440617110012397e-11);
  return ofM - k * 0.6931471804855391;
}

// The cosine of an angle from 0 to 2 pi.
function cos(x) {
  const n = Math.floor(x * 0.6366197723675814 + 0.5);
  const y = x - n * 1.5707963267341256 - n * 6.077100506506192e-11;
  const z = y * y;
  const value = n % 2 ? y - y * z * series(z, SINE) : cosNear0(z);
  return n === 1 || n === 2 ? -value : value;
}

function cosNear0(z) {
  const half = 0.5 * z;
  const whole = 1 - half;
  return whole + (1 - whole - half + z * z * series(z, COSINE));
}

const LOGARITHM = Array.from({ length: 11 }, (_, at) => 2 / (2 * at + 3)); // 2/3, 2/5 ... 2/23
const COSINE = factorials(4); // 1/4!, -1/6! ... -1/18!
const SINE = factorials(3); // 1/3!, -1/5! ... -1/17!

// 1/first!, -1/(first + 2)! ... : eight numbers whose factorials a float64 has exactly.
function factorials(first) {
  const factorial = (n) => (n > 1 ? n * factorial(n - 1) : 1);
  return Array.from({ length: 8 }, (_, at) => (at % 2 ? -1 : 1) / factorial(first + 2 * at));
}

// c[0] + c[1] z + c[2] z^2 + ..., two terms at a time from the end, in this order alone.
function series(z, c) {
  let value = 0;
  for (let at = c.length - 1 - ((c.length - 1) % 2); at >= 0; at -= 2) {
    const pair = at + 1 < c.length ? c[at] + z * c[at + 1] : c[at];
    value = at + 2 < c.length ? pair + z * z * value : pair;
  }
  return value;
}
export function permutation(key, n) {
  const drawn = Array.from({ length: n }, (_, count) => draw(key, count));
  return drawn
    .map((_, at) => at)
    .sort((a, b) => (drawn[a] < drawn[b] ? -1 : Number(drawn[a] > drawn[b]) || a - b));
}
export function shuffle(key, n) {
  const order = Array.from({ length: n }, (_, at) => at);
  for (let k = n - 1; k > 0; k--) {
    const other = below(draw(key, k), k + 1);
    [order[k], order[other]] = [order[other], order[k]];
  }
  return order;
}
