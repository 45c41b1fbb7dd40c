// Reproduces tests/vectors/masks.json: every message of each party, and the sum of their vectors.

import { deepStrictEqual as equal } from "node:assert";

import { floorsOf, maskOf, Party, termsDigest } from "./masks.mjs";
import * as p from "./protocol.mjs";

export async function checkMasks(made) {
  const roll = Object.fromEntries(
    made.parties.map(({ name, public: key }) => [name, p.unhex(key)]),
  );
  const terms = { ...made.terms, model: p.unhex(made.terms.model) };
  equal(p.hex(await termsDigest(terms, roll)), made.digest);
  const floors = { people: 3, parties: 3, noise: true, occupancy: 10, apart: true };
  let sum = Array(terms.length).fill(0n);
  for (const { name, identity, drawn, vector, brought, said } of made.parties) {
    const secrets = drawn.map(p.unhex);
    const nextDrawn = () => secrets.shift();
    const party = new Party({
      terms,
      roll,
      name,
      identity: p.unhex(identity),
      floors,
      random: nextDrawn,
    });
    equal(p.hex(await party.advertise()), said.advert);
    equal(p.hex(await party.share(p.unhex(made.roster))), said.shares);
    if (name === made.gone) continue;
    const numbers = BigInt64Array.from(vector, BigInt);
    // A box that was changed on its way is complained of.
    const changed = p.unhex(brought.inbox);
    changed[100] ^= 1;
    await party
      .mask(changed, numbers, () => 99)
      .then(
        () => equal(0, 1),
        ({ code, evidence }) => equal([code, evidence !== null], ["box", true]),
      );
    equal(p.hex(await party.mask(p.unhex(brought.inbox), numbers, () => 99)), said.masked);
    equal(p.hex(await party.consent(p.unhex(brought.survivors))), said.consent);
    equal(p.hex(await party.unmask(p.unhex(made.consents))), said.unmasking);
    equal(secrets, []);
    sum = sum.map((number, at) => number + numbers[at]);
  }
  equal(sum.map(String), made.sum);
  for (const { parties, members, faults, quorum } of made.graphs)
    equal(floorsOf(parties, members), { faults, quorum });
  equal(
    Array.from(await maskOf(p.unhex(made.mask.key), made.mask.words.length), String),
    made.mask.words,
  );
}
