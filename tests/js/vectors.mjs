// Reproduces tests/vectors/*.json. Prints a line for each part; exit code 1 where one differs.
//
//   node vectors.mjs [SUM.json]

import { deepStrictEqual as equal } from "node:assert";
import { readFileSync } from "node:fs";

import { clipped } from "./clip.mjs";
import { fixed, packed } from "./masked.mjs";
import { checkMasks } from "./masks_vectors.mjs";
import { MODELS, settingsOf } from "./models.mjs";
import { seeded } from "./noise.mjs";
import * as p from "./protocol.mjs";

const read = (name) =>
  JSON.parse(readFileSync(new URL(`../vectors/${name}.json`, import.meta.url), "utf8"));

async function keys() {
  const { ed25519, x25519, terms, ticket } = read("keys");
  equal(p.hex(await p.publicOf("Ed25519", p.unhex(ed25519.private))), ed25519.public);
  const key = await p.signingKey(p.unhex(ed25519.private));
  const sealed = async (message) => p.hex(await p.sign(key, message));
  equal(await sealed(p.unhex(ed25519.message)), ed25519.signature);
  equal(
    await p.verified(p.unhex(ed25519.public), p.unhex(ed25519.signature), p.unhex("00")),
    false,
  );
  equal(p.hex(await p.publicOf("X25519", p.unhex(x25519.other_private))), x25519.other_public);
  equal(p.hex(await p.agree(p.unhex(x25519.private), p.unhex(x25519.other_public))), x25519.secret);
  equal(p.hex(await p.sha256(p.bytesOf(terms.text))).slice(0, 32), terms.run);
  const numbers = new DataView(new ArrayBuffer(12));
  numbers.setUint32(0, ticket.number, true);
  numbers.setBigUint64(4, BigInt(ticket.until), true);
  const purpose = p.bytesOf("entrenous peer ticket 2\0");
  equal(
    await sealed(
      p.joined(purpose, p.unhex(ticket.run), new Uint8Array(numbers.buffer), p.unhex(ticket.key)),
    ),
    ticket.signature,
  );
}

function draws() {
  const made = read("draws");
  for (const [name, number] of Object.entries(made.words))
    if (!["server", "score", "a"].includes(name)) equal(String(p.word(name)), number);
  const all = Object.fromEntries(
    Object.entries(made.words).map(([name, number]) => [name, BigInt(number)]),
  );
  for (const { seed, names, key } of made.keys) {
    equal(String(p.keyOf(seed, ...names.map((name) => all[name] ?? name))), key);
  }
  for (const name of ["select", "local"]) {
    const { rounds, round, key } = made[name];
    equal(String(p.fold(p.fold(BigInt(rounds), round), all[name])), key);
  }
  const key = BigInt(made.of);
  const drawn = made.draw.map((_, count) => p.draw(key, count));
  equal(drawn.map(String), made.draw);
  equal(
    drawn.map((bits) => p.below(bits, 1000)),
    made.below_1000,
  );
  equal(
    drawn.map((bits) => p.belowLow(bits, 1000)),
    made.below_low_1000,
  );
  equal(drawn.map(p.uniform), made.uniform);
  equal(
    made.normal.map((_, count) => p.normal(key, count)),
    made.normal,
  );
  equal(p.permutation(key, 10), made.permutation_10);
  equal(p.shuffle(key, 10), made.shuffle_10);
  for (const [sigma, expected] of Object.entries(made.noise)) {
    const noise = seeded(Number(sigma), key);
    equal(
      expected.map(() => Number(noise())),
      expected,
    );
  }
  const numbers = Array.from({ length: 20 }, (_, user) => [p.fold(key, user), user]);
  const first = numbers.sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, 4);
  equal(
    first.map(([, user]) => user).sort((a, b) => a - b),
    made.cohort_4_of_20,
  );
}

async function frames() {
  const { frames: made, arrays, here } = read("frames");
  for (const { private: key, fields, head, signature, frame } of made) {
    const { kind, node, view, model, size, digest, ...others } = fields;
    const body = p.unhex(frame).slice(-size || Infinity);
    const whole = {
      ...others,
      node: p.text(p.unhex(node)),
      view: p.unhex(view),
      model: p.unhex(model),
    };
    equal(p.hex(await p.seal(await p.signingKey(p.unhex(key)), kind, body, whole)), frame);
    const sender = await p.publicOf("Ed25519", p.unhex(key));
    const opened = await p.opened(p.unhex(frame), sender);
    equal(
      [p.hex(opened.said), p.hex(opened.signature), p.hex(opened.head.digest)],
      [head, signature, digest],
    );
    const changed = p.unhex(frame);
    changed[40] ^= 1;
    await p.opened(changed, sender).then(
      () => equal(0, 1),
      (why) => equal(why instanceof p.Refused, true),
    );
  }
  const type = { "<f4": "F32", "<i8": "I64", "<i4": "I32", "|u1": "U8" };
  const schema = {};
  for (const [name, [kind, ...shape]] of Object.entries(arrays.types))
    schema[name] = [type[kind], shape];
  const found = p.readArrays(p.unhex(arrays.body), schema);
  const again = Object.fromEntries(
    Object.entries(schema).map(([name, [kind, shape]]) => [name, [kind, shape, found[name]]]),
  );
  for (const [name, values] of Object.entries(arrays.values))
    equal(Array.from(found[name], Number), values.flat());
  equal(p.hex(p.writeArrays(again)), arrays.body);
  equal(p.hex(await p.modelDigest(again)), arrays.model_sha256);
  const fields = {
    run: here.run,
    node: here.node,
    about: { time: here.time },
  };
  const key = await p.signingKey(p.unhex(here.private));
  const frame = await p.seal(key, "here", new Uint8Array(), fields);
  equal(
    `Entrenous ${btoa(String.fromCharCode(...frame))
      .replaceAll("+", "-")
      .replaceAll("/", "_")}`,
    here.header,
  );
}

async function rounds() {
  for (const [name, made] of Object.entries(read("round"))) {
    const model = MODELS[name];
    const defaults = { unobserved: 1, init_std: 0.1, learning_rate: 0.05, interactions: 1 };
    const settings = settingsOf({
      ...made.settings,
      draws: "public",
      settings: { ...defaults, ...made.settings },
    });
    const schema = model.receives(settings);
    const download = p.readArrays(p.unhex(made.download), schema);
    const received = Object.entries(schema).map(([part, [type, shape]]) => [
      part,
      [type, shape, download[part]],
    ]);
    equal(p.hex(await p.modelDigest(Object.fromEntries(received))), made.model);
    const sums = {};
    for (const device of made.devices) {
      const { user, history, before, after, body, clipped: shorter } = device;
      const first = model.first(settings, user);
      if (name === "fpl") equal(p.hex(new Uint8Array(first.p.buffer)), before.p);
      const { private: now, update } = model.local(download, first, history, settings, user, 0);
      if (name === "fpl") equal(p.hex(new Uint8Array(now.p.buffer)), after.p);
      equal(p.hex(p.writeArrays(update)), body);
      const short = clipped(update, made.clip);
      equal(p.hex(p.writeArrays(short)), shorter);
      equal(masked(short, settings.items, device.noise), device.vector);
      add(sums, update);
    }
    equal(p.hex(p.writeArrays(summed(sums, name, settings))), made.sum);
  }
}

// What a device masks. noise: a place for each number of the vector; senders get none.
function masked(update, items, noise) {
  const rows = Object.keys(update).some((name) => name.startsWith("row."));
  const steps = noise.toSpliced(rows ? noise.length - 2 - items : 0, items);
  const draws = () => () => BigInt(steps.shift());
  return Array.from(packed(update, items, true, draws, [], Infinity), Number);
}

// Adds a message up, by item where it has rows.
function add(sums, { item, weight, ...arrays }) {
  sums.senders ??= new Map();
  sums.weight = (sums.weight ?? 0n) + fixed(weight[2][0]);
  for (const i of item[2]) sums.senders.set(i, (sums.senders.get(i) ?? 0n) + 1n);
  for (const [name, [, shape, numbers]] of Object.entries(arrays)) {
    const width = shape.slice(1).reduce((whole, size) => whole * size, 1);
    const own = (sums[name] ??= new Map());
    const places = name.startsWith("row.") ? item[2] : [0];
    places.forEach((place, at) => {
      const row = own.get(place) ?? Array(width).fill(0n);
      own.set(
        place,
        row.map((sum, n) => sum + fixed(numbers[at * width + n])),
      );
    });
  }
}

function summed({ senders, weight, ...arrays }, name, { items, factors }) {
  const item = [...senders.keys()].sort((a, b) => a - b);
  const made = {
    item: ["I32", [item.length], Int32Array.from(item)],
    senders: ["I64", [item.length], BigInt64Array.from(item, (i) => senders.get(i))],
    weight: ["I64", [1], BigInt64Array.of(weight)],
  };
  for (const [part, rows] of Object.entries(arrays)) {
    const flat = [...rows].sort(([a], [b]) => a - b).flatMap(([, row]) => row);
    const shape = {
      "dense.f": [1, items, factors],
      "row.q": [item.length, factors],
      "row.b": [item.length],
    }[part];
    made[part] = ["I64", shape, BigInt64Array.from(flat)];
  }
  return made;
}

const masks = () => checkMasks(read("masks"));
const checks = { keys, draws, frames, rounds, masks };
for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`${name}: the same`);
}
