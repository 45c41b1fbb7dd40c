// What a device answers to frames that it must not take, as JSON.
//
//   node refusals.mjs FOLDER OPERATOR     a device that has joined; the operator's key, hexadecimal

import { filesOf, open } from "./device.mjs";
import { longer } from "./items.mjs";
import * as p from "./protocol.mjs";

const [folder, digits] = process.argv.slice(2);
const operator = await p.signingKey(p.unhex(digits));
const files = filesOf(folder);
const own = p.unhex(JSON.parse(files.read("request.json")).key);
const stranger = await p.signingKey(p.random(32));
const device = await open(folder);

// A good request of round 0, but for what is given.
async function asked({
  key = operator,
  user = device.user,
  change = {},
  download = zeros(),
  kind = "work",
  further = {},
} = {}) {
  const arrays = Object.fromEntries(
    Object.entries(device.schema).map(([name, [type, shape]]) => [
      name,
      [type, shape, download[name]],
    ]),
  );
  const users = ["I64", [1], BigInt64Array.of(BigInt(user))];
  const body = p.writeArrays({ ...arrays, users, ...further });
  const fields = {
    run: device.run,
    node: "server",
    round: 0,
    model: await p.modelDigest(arrays),
    items: device.settings.items,
    about: { users: 1 },
  };
  return p.seal(key, kind, body, { ...fields, ...change });
}

function zeros(value = 0.5) {
  return Object.fromEntries(
    Object.entries(device.schema).map(([name, [, shape]]) => [
      name,
      new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(value),
    ]),
  );
}

async function answered(frame, by = device) {
  const answer = await by.answer(frame);
  const { head, body } = await p.opened(answer, own);
  return head.kind === "refused" ? p.text(body).split("\n")[0] : head.kind;
}

// A row is forgotten while the device trains on it.
async function forgotten(frame) {
  const { trained } = device;
  const [gone] = device.history;
  device.trained = (...given) => {
    const made = trained.apply(device, given);
    device.forget(device.items.ids[gone]);
    return made;
  };
  try {
    return await answered(frame);
  } finally {
    device.trained = trained;
  }
}

// What becomes of an answer while its state is being written: nothing, until it is on the disk.
async function whileWritten(frame, meanwhile) {
  const { write } = device.files;
  let go;
  const writing = new Promise((begun) => {
    device.files.write = async (...given) => {
      begun();
      await new Promise((on) => (go = on));
      device.files.write = write;
      write.apply(device.files, given);
    };
  });
  let said = "waits";
  const answering = answered(frame).then((kind) => (said = kind));
  await writing;
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  const before = said;
  device.files.write = write;
  meanwhile();
  go();
  await answering;
  return `${before}, ${said}`;
}

// A device whose disk is full says nothing more until it is started again.
async function full() {
  const other = await open(folder);
  other.files.write = () => {
    throw new Error("no room");
  };
  const word = (why) => why.constructor.name;
  return [await answered(good, other).catch(word), await answered(good, other).catch(word)];
}

const good = await asked();
const said = {
  stranger: await answered(await asked({ key: stranger })),
  run: await answered(await asked({ change: { run: "0".repeat(32) } })),
  kind: await answered(await asked({ kind: "consent" })),
  round: await answered(await asked({ change: { round: device.terms.rounds } })),
  users: await answered(await asked({ change: { about: { users: 2 } } })),
  other: await answered(await asked({ user: 0 })),
  model: await answered(await asked({ change: { model: p.random(32) } })),
  nan: await answered(await asked({ download: zeros(NaN) })),
  // What would leave is beyond what a sum can hold.
  huge: await answered(await asked({ download: zeros(1e8) })),
  // What follows from a download is computed here, and never taken from a server.
  gram: await answered(
    await asked({ further: { gram: ["F64", [2, 2], Float64Array.of(1, 0, 0, 1)] } }),
  ),
  cut: await answered(good.slice(0, -1)),
  full: await full(),
  forgotten: await forgotten(good),
  written: await whileWritten(good, () => device.forget(device.items.ids[device.history[0]])),
};
const next = await asked({ change: { round: 1 }, download: zeros(0.75) });
said.good = await whileWritten(next, () => {});
const first = await device.answer(next);
// Another process that has only what is on the disk gives the very same frame.
const restarted = await open(folder);
const repeated = await restarted.answer(
  await asked({ change: { round: 1 }, download: zeros(0.75) }),
);
said.again = p.same(first, repeated) ? "the same" : "another";
said.past = await answered(await asked({ change: { round: 1 }, download: zeros(0.25) }));
// Under a step no model has a lower number than the newest that came here, however near it is.
device.terms.protection.step = 1e9;
const { seen } = device.state;
device.state.seen = 3;
try {
  device.checkStep(zeros(), 2);
} catch (why) {
  said.lower = why.code;
}
device.state.seen = seen;
delete device.terms.protection.step;

// ---- lists of items ----

const { ids, size, root } = device.items;
const kept = device.items.text;
const line = (fields) => `${JSON.stringify(fields)}\n`;
const item = (fields) => line({ id: "x", title: "X", place: [1, 2], ...fields });
// Lines with a head, which is that of the list with them where it can be made.
async function told(lines, head = null, key = operator) {
  const after = head ?? (await longer(device.items, lines).catch(() => device.items));
  const body = p.encode([after.size, after.root, p.bytesOf(lines)]);
  return p.seal(key, "items", body, { run: device.run, node: "server" });
}
const refused = {
  stranger: await told(item(), null, stranger),
  known: await told(item({ id: ids[0] })),
  twice: await told(item() + item()),
  number: await told(item({ id: 3 })),
  nameless: await told(item({ id: "" })),
  untold: await told(item({ place: undefined })),
  features: await told(item({ features: { year: "1999" } })),
  field: await told(item({ price: 3 })),
  beyond: await told(line({ retired: ids.length })),
  "retired item": await told(item({ retired: 0 })),
  "gone twice": await told(line({ retired: 1 }) + line({ retired: 1 })),
  json: await told("{\n"),
  cut: await told(item().trim()),
  long: await told(item({ title: "x".repeat(1 << 16) })),
  root: await told(item(), { size: size + 1, root: p.random(32) }),
  size: await told("", { size: size - 1, root }),
  body: await p.seal(operator, "items", p.bytesOf("{"), { run: device.run, node: "server" }),
};
for (const [name, frame] of Object.entries(refused)) said[`items ${name}`] = await answered(frame);
said["items kept"] = files.read("items.jsonl") === kept ? "the same" : "others";
said["items good"] = await answered(await told(item() + line({ retired: 0 })));
// The model is from before: it has no row of the item.
said["items recommended"] = device.recommended(100).includes("x");
said["items retired again"] = await answered(await told(line({ retired: 0 })));
said["items after"] = (await open(folder)).items.ids.at(-1);
said["items unknown"] = await answered(await asked({ change: { round: 2, items: size } }));
console.log(JSON.stringify(said));
