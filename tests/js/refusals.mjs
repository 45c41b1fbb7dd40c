// What a device answers to frames that it must not take, as JSON.
//
//   node refusals.mjs FOLDER OPERATOR     a device that has joined; the operator's key, hexadecimal

import { open } from "./device.mjs";
import * as p from "./protocol.mjs";

const [folder, digits] = process.argv.slice(2);
const operator = p.unhex(digits);
const device = await open(folder);

// A good request of round 0, but for what is given.
async function asked({
  key = operator,
  user = device.user,
  change = {},
  download = zeros(),
  kind = "work",
} = {}) {
  const arrays = Object.fromEntries(
    Object.entries(device.schema).map(([name, [type, shape]]) => [
      name,
      [type, shape, download[name]],
    ]),
  );
  const body = p.writeArrays({ ...arrays, users: ["I64", [1], BigInt64Array.of(BigInt(user))] });
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

async function answered(frame) {
  const answer = await device.answer(frame);
  const { head, body } = await p.opened(answer, await p.publicOf("Ed25519", device.key));
  return head.kind === "refused" ? p.text(body).split("\n")[0] : head.kind;
}

const good = await asked();
const said = {
  stranger: await answered(await asked({ key: p.random(32) })),
  run: await answered(await asked({ change: { run: "0".repeat(32) } })),
  kind: await answered(await asked({ kind: "consent" })),
  round: await answered(await asked({ change: { round: device.terms.rounds } })),
  users: await answered(await asked({ change: { about: { users: 2 } } })),
  other: await answered(await asked({ user: 0 })),
  model: await answered(await asked({ change: { model: p.random(32) } })),
  nan: await answered(await asked({ download: zeros(NaN) })),
  cut: await answered(good.slice(0, -1)),
  good: await answered(good),
};
const first = await device.answer(good);
// Another process that has only what is on the disk gives the very same frame.
const restarted = await open(folder);
said.again = p.same(first, await restarted.answer(await asked({}))) ? "the same" : "another";
said.past = await answered(await asked({ download: zeros(0.25) }));
console.log(JSON.stringify(said));
