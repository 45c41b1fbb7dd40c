// One party of a secure sum (docs/protocol.md, "Secure sums"). It trusts the server for nothing but
// to pass messages on.

import * as f from "./forms.mjs";
import { ENTRY, isListed } from "./merkle.mjs";
import * as p from "./protocol.mjs";

const subtle = globalThis.crypto.subtle;
const DOMAIN = "entrenous secure sum 8";
export const STAGES = ["advert", "share", "mask", "consent", "unmask"];
const [ADVERT, SHARES, MASKED, CONSENT, UNMASKING] = [0, 1, 2, 3, 4];
const PRIME = 2n ** 256n + 297n;
const SHARE = 33; // bytes of a share
const NOTHING = new Uint8Array();
const MOST = 1024; // parties of one sum
const SET = f.bytes(1, MOST / 8); // of parties, as bits
const BOX = f.bytes(94, 94);
const HASH = f.bytes(32, 32);
const SIGNATURE = f.bytes(64, 64);
// The messages that a device opens.
const SIGNED = f.row(ENTRY, SIGNATURE, f.bytes(0, 256));
export const ADVERTISED = f.row(HASH, HASH, HASH, HASH);
export const FROM_SERVER = {
  roster: f.list(SIGNED, MOST),
  inbox: f.row(SET, f.list(BOX, MOST)),
  consents: f.row(SET, f.bytes(0, 64 * MOST)),
};
const digest = (...parts) => p.sha256(p.encode(parts));
const bigOf = (bytes) => BigInt(`0x${p.hex(bytes)}`);
const bytesOf = (number, size) => p.unhex(number.toString(16).padStart(2 * size, "0"));

export class SumRefused extends Error {
  constructor(code, reason) {
    super(`${code}: ${reason}`);
    this.code = code;
  }
}

function demand(holds, code, reason) {
  if (!holds) throw new SumRefused(code, reason);
}

function decoded(bytes, form) {
  try {
    return p.decode(bytes, form);
  } catch (bad) {
    throw new SumRefused("malformed", bad.reason);
  }
}

export async function derive(secret, ...about) {
  const key = await subtle.importKey("raw", secret, "HKDF", false, ["deriveBits"]);
  const how = { name: "HKDF", hash: "SHA-256", salt: NOTHING, info: p.encode(about) };
  return new Uint8Array(await subtle.deriveBits(how, key, 256));
}

// The mask of a key: AES-256-CTR of zeros from counter 0, as words of 64 or 32 bits.
export async function maskOf(secret, length, bits = 64) {
  const key = await subtle.importKey("raw", secret, "AES-CTR", false, ["encrypt"]);
  const how = { name: "AES-CTR", counter: new Uint8Array(16), length: 128 };
  const drawn = await subtle.encrypt(how, key, new Uint8Array((bits / 8) * length));
  return bits === 32 ? new Uint32Array(drawn) : new BigUint64Array(drawn);
}

// Numbers of a sum as the words of `bits`, modulo their size. Those of 32 bits are refused where as
// much of each of `people` might not fit.
function wordsOf(vector, bits, people) {
  if (bits === 64) return BigUint64Array.from(vector);
  const most = 2n ** 31n;
  const fits = (number) => (number < 0n ? -number : number) * BigInt(people) < most;
  demand(vector.every(fits), "range", "a number does not fit words of 32 bits");
  return Uint32Array.from(vector, (number) => Number(BigInt.asUintN(32, number)));
}

// Shares of 32 bytes at some points: values of a polynomial whose value at 0 is the secret.
function split(secret, threshold, points, random) {
  const coefficients = Array.from({ length: threshold - 1 }, () => bigOf(random(32)) % PRIME);
  return points.map((x) => {
    const horner = (value, coefficient) => value * BigInt(x) + coefficient;
    return bytesOf([...coefficients, bigOf(secret)].reduce(horner, 0n) % PRIME, SHARE);
  });
}

const commitment = (seed) => p.sha256(p.joined(p.bytesOf("entrenous secure sum seed"), seed));

// The hashes of one holder's shares of both secrets.
async function committed(view, owner, holder, [ofMasks, ofSeed]) {
  const about = ["entrenous secure sum share", view, owner, holder];
  return p.joined(await digest(...about, "masks", ofMasks), await digest(...about, "seed", ofSeed));
}

function bits(places, parties) {
  const out = new Uint8Array(Math.ceil(parties / 8));
  for (const place of places) out[place >> 3] |= 1 << (place & 7);
  return out;
}

function placesOf(set, parties) {
  const places = [...Array(parties).keys()].filter((place) => (set[place >> 3] >> (place & 7)) & 1);
  return p.same(bits(places, parties), set) ? places : null;
}

// How many of these parties may be in league with the server; and the quorum: the signatures that bind
// a list, and the shares that give a secret.
export function floorsOf(parties, members) {
  const faults = Math.ceil(Math.max(parties, Math.min(members, 128)) / 10);
  return { faults, quorum: Math.floor((parties + faults) / 2) + 1 };
}

// ---- a party ------------------------------------------------------------------------------------

export class Party {
  // terms: of the sum; log: of all who can be parties, as {size, root}; floors: what the owner insists
  // on; past: sums consented to, as {model, people: [name]}; rule(people, model, past, shops): refuses
  // lists, shops: a Map of the mark of each; random: for tests.
  constructor({
    terms,
    log,
    name,
    identity,
    floors,
    past = [],
    rule = null,
    random = p.random,
  }) {
    const given = { terms, log, name, identity, floors, past, rule, random };
    Object.assign(this, given);
    // Fresh in every attempt: shares of an attempt that failed open nothing of the next one.
    this.secrets = { boxes: random(32), masks: random(32), seed: random(32) };
    this.answers = []; // the question and the answer of each stage so far
    this.views = []; // the hash of all that was seen by each stage
    this.consented = null;
  }

  // The same question gets the same answer, since a message may be lost; another one is refused.
  async once(stage, question, answer) {
    if (stage < this.answers.length) {
      const [before, given] = this.answers[stage];
      demand(
        p.same(before, question),
        stage >= CONSENT ? "both" : "stage",
        "a second and different question",
      );
      return given;
    }
    demand(stage === this.answers.length, "stage", "a stage was left out");
    this.answers[stage] = [question, await answer()];
    return this.answers[stage][1];
  }

  // A message as a frame, signed with the hash of all that was seen.
  async signed(stage, view, message) {
    const head = await this.head(stage, this.name, view, message);
    return p.framed(this.identity, head, message);
  }

  // The head of a party's frame. Everybody can build it anew: its signature is good for all.
  head(stage, name, view, message) {
    return sharedHead(STAGES[stage], this.terms, name, view, message);
  }

  async check(stage, name, message, signature) {
    const statement = p.statement(await this.head(stage, name, this.views[stage], message));
    const genuine = await p.verified(this.keys.get(name), signature, statement);
    demand(genuine, "signature", `'${name}' did not sign this, or signed it about another list`);
  }

  advertise() {
    return this.once(ADVERT, NOTHING, async () => {
      const { boxes, masks, seed } = this.secrets;
      const keys = [await p.publicOf("X25519", boxes), await p.publicOf("X25519", masks)];
      this.views[0] = await termsDigest(this.terms, this.log);
      this.advert = p.encode([this.terms.model, ...keys, await commitment(seed)]);
      return this.signed(ADVERT, this.views[0], this.advert);
    });
  }

  share(roster) {
    return this.once(SHARES, roster, async () => {
      await this.meet(decoded(roster, FROM_SERVER.roster));
      const { me, view } = this;
      const points = this.names.map((_, place) => place + 1);
      const ofMasks = split(this.secrets.masks, this.quorum, points, this.random);
      const ofSeed = split(this.secrets.seed, this.quorum, points, this.random);
      const hashes = [];
      const boxes = [];
      for (const place of points.keys()) {
        const pair = [ofMasks[place], ofSeed[place]];
        hashes.push(await committed(view, me, place, pair));
        if (place === me) {
          this.own = pair;
          continue;
        }
        const key = await this.boxKey(place, me, place);
        boxes.push(await sealed(key, p.joined(...pair), this.random(12)));
      }
      this.views[1] = view;
      return this.signed(SHARES, view, p.encode([boxes, p.joined(...hashes)]));
    });
  }

  // The others, by their signed adverts: known, in order, for this attempt, with the same model.
  async meet(roster) {
    const leaves = roster.map(([[leaf]]) => leaf);
    const names = leaves.map(([name]) => name);
    demand(
      names.every((name, at) => !at || names[at - 1] < name),
      "roster",
      "the names are not in order",
    );
    const me = names.indexOf(this.name);
    demand(
      me >= 0 && p.same(roster[me][2], this.advert),
      "roster",
      "this party's entry is missing or was changed",
    );
    const adverts = [];
    const seen = [];
    this.keys = new Map(leaves.map(([name, key]) => [name, key]));
    this.shops = new Map(leaves.map(([name, , , , shop]) => [name, p.hex(shop)]));
    for (const [entry, signature, message] of roster) {
      const [[name, , first, last]] = entry;
      const listed = first === last && (await isListed(this.log, entry));
      demand(listed, "unknown", "the log does not have each party, with one user");
      await this.check(ADVERT, name, message, signature);
      const [model, boxes, masks, seed] = decoded(message, ADVERTISED);
      // A model made for one party alone would mark that party's numbers in the sum.
      demand(p.same(model, this.terms.model), "model", `'${name}' signed another model`);
      adverts.push({ boxes, masks, seed });
      seen.push(p.bytesOf(name), message);
    }
    this.view = await digest(this.views[0], seen);
    Object.assign(this, { names, me, adverts, ...floorsOf(names.length, this.log.size) });
    this.enough([...names.keys()], null);
  }

  // Refuses parties whose sum would not hide this one, by itself or compared with earlier sums.
  enough(places, rows) {
    const { floors, faults, quorum } = this;
    const people = places.map((place) => this.names[place]);
    const least = Math.max(floors.people, this.terms.people, quorum, faults + 2);
    demand(people.length >= least, "floor", `${people.length} people; at least ${least}`);
    if (this.rule) this.rule(people, p.hex(this.terms.model), this.past, this.shops);
    const same = ({ people: before }) => before.join("\n") === people.join("\n");
    const sums = 1 + this.past.filter(same).length;
    // A row that one device fills is that device's row.
    if (rows)
      demand(
        floors.noise || rows(people.length, sums) >= floors.occupancy,
        "occupancy",
        "too few devices fill a row",
      );
    return people;
  }

  // rows(people, sums): how many devices fill a row, on average.
  mask(inbox, vector, rows) {
    return this.once(MASKED, inbox, async () => {
      const { me } = this;
      const [set, boxes] = decoded(inbox, FROM_SERVER.inbox);
      const sharers = this.list(set, [...this.names.keys()], "sharers");
      const { length: people } = this.enough(sharers, rows);
      const others = sharers.filter((place) => place !== me);
      demand(boxes.length === others.length, "box", "not a box of each other party");
      this.held = new Map([[me, this.own]]);
      for (const [at, place] of others.entries()) {
        this.held.set(place, await unsealed(await this.boxKey(place, place, me), boxes[at]));
      }
      this.rows = rows;
      const { bits = 64 } = this.terms;
      const words = wordsOf(vector, bits, people);
      const own = await derive(this.secrets.seed, "own", this.view, me, me);
      (await maskOf(own, words.length, bits)).forEach((word, at) => (words[at] += word));
      for (const place of others) {
        const common = await p.agree(this.secrets.masks, this.adverts[place].masks);
        const key = await derive(
          common,
          "pair",
          this.view,
          Math.min(me, place),
          Math.max(me, place),
        );
        // Of every pair the lower place adds the mask, and the higher subtracts it.
        const mask = await maskOf(key, words.length, bits);
        if (me < place) mask.forEach((word, at) => (words[at] += word));
        else mask.forEach((word, at) => (words[at] -= word));
      }
      this.sharers = sharers;
      this.views[2] = await digest(this.view, [set]);
      return this.signed(MASKED, this.views[2], new Uint8Array(words.buffer));
    });
  }

  // The key of a box that this party sends to another, or gets from it.
  async boxKey(other, sender, receiver) {
    const common = await p.agree(this.secrets.boxes, this.adverts[other].boxes);
    const key = await derive(common, "box", this.view, sender, receiver);
    return subtle.importKey("raw", key, "AES-GCM", false, ["encrypt", "decrypt"]);
  }

  // A list of parties from the server: all of `among`, and this one.
  list(set, among, code) {
    const places = placesOf(set, this.names.length);
    demand(
      places?.every((place) => among.includes(place)) && places.includes(this.me),
      code,
      "a list of parties that cannot be",
    );
    return places;
  }

  consent(survivors) {
    return this.once(CONSENT, survivors, async () => {
      const alive = this.list(survivors, this.sharers, "survivors");
      const people = this.enough(alive, this.rows);
      this.alive = alive;
      this.views[3] = await digest(this.views[2], [survivors]);
      this.consented = { model: p.hex(this.terms.model), people };
      return this.signed(CONSENT, this.views[3], NOTHING);
    });
  }

  unmask(consents) {
    return this.once(UNMASKING, consents, async () => {
      const [set, signatures] = decoded(consents, FROM_SERVER.consents);
      const signers = placesOf(set, this.names.length);
      demand(
        signers?.every((place) => this.alive.includes(place)),
        "quorum",
        "signers that are no survivors",
      );
      demand(
        signatures.length === 64 * signers.length,
        "quorum",
        "not a signature for each signer",
      );
      // Two lists cannot both have a quorum, so nobody gets both kinds of shares of a party.
      demand(
        signers.length >= this.quorum,
        "quorum",
        `${signers.length} signed; at least ${this.quorum}`,
      );
      for (const [at, place] of signers.entries()) {
        const signature = signatures.slice(64 * at, 64 * at + 64);
        await this.check(CONSENT, this.names[place], NOTHING, signature);
      }
      const shares = [];
      for (const place of [...this.held.keys()].sort((a, b) => a - b)) {
        const [ofMasks, ofSeed] = this.held.get(place);
        shares.push(this.alive.includes(place) ? ofSeed : ofMasks);
      }
      const answer = await this.signed(UNMASKING, this.views[3], p.joined(...shares));
      // Forgotten: a program that is taken over later has nothing left to reveal.
      this.secrets = this.held = this.own = null;
      return answer;
    });
  }
}

// The head of a frame whose signature is passed on, without the frame.
export function sharedHead(kind, { run, round, attempt }, name, view, message) {
  return p.headFor(kind, message, { run, round, attempt, node: name, view });
}

export async function termsDigest(terms, { size, root }) {
  const {
    run,
    round,
    attempt,
    length,
    bits = 64,
    people,
    noise,
    items = "",
  } = terms;
  const about = [
    run,
    round,
    attempt,
    length,
    bits,
    people,
    new p.Float(noise),
    items,
  ];
  return digest(DOMAIN, about, size, root);
}

async function sealed(key, plain, nonce) {
  const how = { name: "AES-GCM", iv: nonce };
  return p.joined(nonce, new Uint8Array(await subtle.encrypt(how, key, plain)));
}

// The shares in a box; zeros if it does not open.
async function unsealed(key, box) {
  const how = { name: "AES-GCM", iv: box.subarray(0, 12) };
  const nothing = new Uint8Array(2 * SHARE);
  const opened = await subtle.decrypt(how, key, box.subarray(12)).catch(() => nothing);
  const plain = new Uint8Array(opened);
  return [plain.slice(0, SHARE), plain.slice(SHARE)];
}
