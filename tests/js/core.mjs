// A device of a federation, written from docs/protocol.md: one user, the algorithms FCF and FPL,
// rounds with and without masks. Nothing but WebCrypto and plain JavaScript: what keeps its files is
// given, and each of these may have to be awaited:
//
//   read(name)          the text of a file; null without one
//   write(name, text)   on the disk when it is done
//   makeKey()           makes the key by which the device signs, and gives its public half
//   key()               that key, as WebCrypto has it
//
//   request.json                                    who the device is
//   terms.json, items.jsonl, member.json, invitation.json, ca.crt
//                                                   what it was invited to
//   device.json                                     what its owner has decided
//   state.json                                      what changes: rows, the newest model and answer

import { clipped } from "./clip.mjs";
import * as f from "./forms.mjs";
import { further, listOf } from "./items.mjs";
import { KINDS, MaskedSide } from "./masked.mjs";
import { isListed } from "./merkle.mjs";
import { MODELS, best, settingsOf, unknownSetting } from "./models.mjs";
import * as p from "./protocol.mjs";

export const FORMAT = 9;
const LISTED = 10; // items of a list in which a new row is a hit
const TESTS = 3; // numbers of tests of new rows
const NO_TESTS = [0, 0, 0]; // rows, hits, sum of 1 / rank
export const PARTS = ["terms.json", "items.jsonl", "member.json", "invitation.json"];
const UNCOUNTED = new Set(["items", "members"]); // requests that are about no list of items

export class BadInput extends Error {}

// The fields of a file that may have anything in it. forms: of those that are read here.
export function fieldsOf(text, where, forms) {
  const { format, ...fields } = JSON.parse(text);
  if (format !== FORMAT) throw new BadInput(`${where}: format ${format}; expected ${FORMAT}`);
  checkFields(fields, where, forms);
  return fields;
}

function checkFields(fields, where, forms) {
  const name = f.wrong(fields, forms);
  if (name) throw new BadInput(`${where}: '${name}' has a value that it cannot have`);
}

export const REQUEST = { name: f.text(1, 64), key: f.text(64, 64) };
export const INVITATION = { server: f.text(), tls: f.flag };
const HASH = f.like(/^[0-9a-f]{64}$/);
const MEMBER = { name: f.text(), key: HASH, first: f.whole(), last: f.whole(), shop: f.maybe(HASH) };
// The device's entry in the log of members, and the newest log that it has verified.
const OWN = {
  ...{ member: f.object(MEMBER), index: f.whole(), size: f.whole(), root: HASH },
  proof: f.list(HASH, 64),
};
const AMOUNT = f.number(0, 1e6);
const COUNT = f.maybe(f.whole());
const TERMS = {
  ...{ topology: f.text(), algorithm: f.text(), operator: f.like(/^[0-9a-f]{64}$/) },
  ...{ items_root: HASH, draws: f.one("public", "secret"), seed: f.whole() },
  ...{ users: f.whole(2), items: f.whole(1), interactions: f.whole(1), rounds: f.whole(1) },
  ...{ accuracy: f.maybe(AMOUNT), settings: f.object({}), protection: f.object({}) },
};
const PROTECTION = {
  ...{ clip: AMOUNT, noise: AMOUNT },
  ...{ noise_from: f.one("seed", "system"), sampling: f.one("fixed", "poisson") },
  ...{ lost: (share) => AMOUNT(share) && share < 1, secure_sum: f.flag, defence: f.text() },
  ...{ rows: f.one("as sent", "sorted", "padded", "all"), people: f.whole(1), parties: f.whole(1) },
  ...{ groups: COUNT, answers: COUNT, days: COUNT, bits: f.maybe(f.one(32, 64)) },
  step: f.maybe(AMOUNT),
};
// Of an algorithm, once text is numbers: by them numbers and noise are shared out.
const SETTINGS = { factors: f.whole(1), cohort: COUNT, init_std: AMOUNT };

function termsOf(text) {
  const terms = fieldsOf(text, "terms.json", TERMS);
  checkFields(terms.protection, "terms.json: protection", PROTECTION);
  return terms;
}

// ---- joining ------------------------------------------------------------------------------------

// Makes a key, and the request for the operator. A key without a request was shown to nobody.
export async function identity(files, name) {
  if (!/^[a-z0-9][a-z0-9.-]{0,63}$/.test(name))
    throw new BadInput(`NAME: got '${name}'; expected 1 to 64 of a-z, 0-9, - and .`);
  if ((await files.read("request.json")) !== null)
    throw new BadInput("request.json: there is a request already; choose another folder");
  const request = { format: FORMAT, name, key: p.hex(await files.makeKey()) };
  await files.write("request.json", JSON.stringify(request));
}

// Takes an invitation, {file name: text}, with the rows of the user, a CSV file as text; null = none.
// insisted: texts such as people=60, the least that the terms must say of a masked sum and that each
// must have; paper=1 agrees to a server that reads what this device sends, and public=1 to draws that
// everybody can repeat.
export async function joinFederation(files, invitation, rows, insisted) {
  const { floors, terms, server, tls, history } = await understood(invitation, rows, insisted);
  const own = fieldsOf(await files.read("request.json"), "request.json", REQUEST);
  const user = await orRefused(() => userOf(invitation, own, terms));
  // Nothing else, whatever an invitation has: it could bring a key.
  for (const name of [...PARTS, "ca.crt"])
    if (invitation[name]) await files.write(name, invitation[name]);
  const about = { name: own.name, user, server, tls, floors };
  // Last: a device that is killed before has not joined, and may do it again.
  await files.write("device.json", JSON.stringify({ ...about, history }));
}

// What an invitation means, whoever is a member. Refuses what this device or its owner does not take.
export function understood(invitation, rows, insisted) {
  const floors = { people: 100, occupancy: 10, noise: 0, paper: 0, public: 0 };
  for (const floor of insisted) {
    const [name, value] = floor.split("=");
    if (!(name in floors) || !(Number(value) >= 0))
      throw new BadInput(
        `got '${floor}'; expected one of ${Object.keys(floors).join(", ")}, such as people=60`,
      );
    floors[name] = Number(value);
  }
  return orRefused(async () => {
    const terms = termsOf(invitation["terms.json"]);
    const { server, tls } = fieldsOf(
      invitation["invitation.json"],
      "invitation.json",
      INVITATION,
    );
    checkServer({ server, tls });
    checkTerms(terms, floors);
    const { ids } = await listOf(invitation["items.jsonl"], terms);
    return { floors, terms, server, tls, history: historyOf(rows, ids) };
  });
}

// Refuses what is no HOST:PORT, or would show keys and rows to everybody on the way.
export function checkServer({ server, tls }) {
  const [, host] = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+):[0-9]{1,5}$/i.exec(server) ?? [];
  if (!host) throw new BadInput("the server is no HOST:PORT");
  if (tls !== true && !["127.0.0.1", "[::1]", "localhost"].includes(host))
    throw new BadInput(`${server}: plain text beyond loopback`);
}

// What is made of files that may have anything in them, or one line that says why nothing is.
async function orRefused(make) {
  try {
    return await make();
  } catch (why) {
    if (why instanceof BadInput) throw why;
    const said = why instanceof p.Refused ? why.message.replaceAll("\n", " ") : why.name;
    throw new BadInput(`this is no invitation (${said})`);
  }
}

// The number of the user whom an invitation is for.
async function userOf(invitation, { name, key }, terms) {
  const { member, index, proof, ...log } = fieldsOf(invitation["member.json"], "member.json", OWN);
  // Another key under this name means that the invitation is not for this device.
  if (member.name !== name || member.key !== key || member.shop)
    throw new BadInput(`the invitation is not for '${name}' with this key, or is a shop's`);
  const { first, last } = member;
  if (first !== last || last >= terms.users)
    throw new BadInput("the invitation is for several users, or for none; expected one");
  const leaf = [name, p.unhex(key), first, last, new Uint8Array()];
  if (!(await isListed(logOf(log), [leaf, index, proof.map(p.unhex)])))
    throw new BadInput(`the log of members has no '${name}' with this key and user`);
  return first;
}

const logOf = ({ size, root }) => ({ size, root: p.unhex(root) });

// Refuses terms of which this device would leave something out, or that promise its owner too little.
function checkTerms(terms, floors) {
  if (terms.topology !== "server" || !(terms.algorithm in MODELS))
    throw new BadInput(`${terms.algorithm}; expected one of ${Object.keys(MODELS).join(", ")}`);
  // Another form of the algorithm would be computed wrongly, and nobody would notice.
  const unknown = unknownSetting(MODELS[terms.algorithm], settingsOf(terms));
  if (unknown) throw new BadInput(unknown);
  checkFields(settingsOf(terms), "terms.json: settings", SETTINGS);
  // What a device leaves out of a protection, its owner would believe to be there.
  const {
    clip = 0,
    groups = 1,
    answers = 0,
    days = 0,
    defence,
    rows: order,
    noise,
    noise_from: source,
    secure_sum: masked,
    sampling,
  } = terms.protection;
  if (
    (masked ? sampling === "fixed" || !answers : sampling !== "fixed" || groups > 1 || days) ||
    defence !== "none" ||
    order === "padded" ||
    (noise && !masked)
  ) {
    throw new BadInput("a protection of which this device knows clip, step, masks, noise and lots alone");
  }
  if (!masked && !floors.paper)
    throw new BadInput("the server can read what this device sends; expected masks, or paper=1");
  // Whoever knows the seed draws what the device draws, its noise too.
  const repeated = terms.draws === "public" || (noise && source === "seed");
  if (repeated && !floors.public)
    throw new BadInput("its draws are public; expected secret ones, or public=1");
  const { people = 0 } = terms.protection;
  const promised = { noise: noise ?? 0, ...(masked && { people }) };
  for (const [name, least] of Object.entries(promised))
    if (!(least >= floors[name]))
      throw new BadInput(
        `its terms have ${name}=${least}; expected ${floors[name]} or more, as its owner said`,
      );
}

// The numbers of the items in a CSV file with a column `item`, ascending, each once.
function historyOf(rows, ids) {
  if (rows === null) return [];
  const numbers = new Map(ids.map((id, number) => [id, number]));
  const [head, ...lines] = rows.split(/\r?\n/).filter(Boolean);
  const column = head.split(",").indexOf("item");
  if (column < 0) throw new BadInput("rows:1: no column 'item'");
  const items = new Set();
  lines.forEach((line, at) => {
    const id = line.split(",")[column];
    if (!numbers.has(id))
      throw new BadInput(`rows:${at + 2}: item '${id}' is not on the federation's list`);
    items.add(numbers.get(id));
  });
  return [...items].sort((a, b) => a - b);
}

// ---- the device ---------------------------------------------------------------------------------

// The hash of terms as they came, without the line feed at the end, names the federation.
export const runOf = async (terms) =>
  p.hex(await p.sha256(p.bytesOf(terms.replace(/\n$/, "")))).slice(0, 32);

export class Device {
  static async open(files) {
    const { history: rows, ...about } = JSON.parse(await files.read("device.json"));
    const device = Object.assign(new Device(), about, { files, now: () => Date.now() / 1000 });
    device.key = await files.key();
    const said = await files.read("terms.json");
    device.terms = termsOf(said);
    device.run = await runOf(said);
    device.operator = p.unhex(device.terms.operator);
    device.model = MODELS[device.terms.algorithm];
    device.list(await listOf(await files.read("items.jsonl"), device.terms));
    const stored = await files.read("state.json");
    // What a device begins with is drawn once: from secret draws it would be another each time.
    device.state = stored
      ? JSON.parse(stored)
      : {
          round: -1,
          secret: p.hex(p.random(32)),
          rows,
          private: packed(device.model.first(device.settings, device.user)),
        };
    // A lot of secret draws is the same after a restart.
    await device.keep({});
    device.forgotten = 0; // how often rows were forgotten since
    // Under masks a device answers no request whose answer would be about itself alone.
    if (device.terms.protection.secure_sum) {
      const own = fieldsOf(await files.read("member.json"), "member.json", OWN);
      device.masks = new MaskedSide(device, logOf(own), device.floors);
    }
    return device;
  }

  // Takes a list of items as that of now: all shapes follow from it.
  list(items) {
    this.items = items;
    this.settings = { ...settingsOf(this.terms), items: items.ids.length };
    this.schema = this.model.receives(this.settings);
    this.length = this.model.length(this.settings) + (this.terms.accuracy ? TESTS : 0);
    // Parties of a sum sign the list, so that those with different ones make no sum.
    this.listed = p.hex(items.root);
  }

  async keep(changes) {
    this.state = { ...this.state, ...changes };
    try {
      await this.files.write("state.json", JSON.stringify(this.state));
    } catch (why) {
      // What is in memory is not on the disk: of that no answer may be made.
      this.failed = new BadInput(`its files cannot be written (${why.name}); make room, and restart`);
      throw this.failed;
    }
  }

  // Keeps what an answer leaves behind, before that leaves. Refuses to answer with rows that were
  // forgotten since, also while they were written.
  async leaves(changes, forgotten) {
    this.remembers(forgotten);
    await this.keep(changes);
    this.remembers(forgotten);
  }

  // Keeps what a longer log changes of the device's entry.
  async keepLog(changes) {
    const own = JSON.parse(await this.files.read("member.json"));
    await this.files.write("member.json", JSON.stringify({ ...own, ...changes }));
  }

  seal(kind, body, fields) {
    return p.seal(this.key, kind, body, { run: this.run, node: this.name, ...fields });
  }

  // The answer to a frame of the server: what it asks for, or why not. An error only once its files
  // cannot be written.
  async answer(frame) {
    if (this.failed) throw this.failed;
    let about = {};
    try {
      const { head, body } = await p.opened(frame, this.operator);
      const { round, attempt, model } = head;
      about = { round, attempt, model, items: this.items.size };
      if (head.run !== this.run) throw new p.Refused("wrong-run");
      const answering = { ...about, about: { users: head.about.users ?? 0 } };
      if (head.kind === "items") return await this.further(body, answering);
      // Of another list of items, each row could mean another item.
      if (head.items && !UNCOUNTED.has(head.kind)) this.checkItems(head);
      const { rounds, protection } = this.terms;
      // By numbers that it leaves out a server could move a model as far as it likes.
      const last = this.masks && !protection.step ? Infinity : rounds + this.spare;
      if (round > last) throw new p.Refused("future-round");
      if (this.masks) {
        if (head.kind === "model") return await this.masks.offered(head, body);
        if (KINDS.has(head.kind)) return await this.masks.answer(head, body, answering);
        throw new p.Refused("wrong-kind");
      }
      if (head.kind === "model") return await this.taken(head, body);
      if (head.kind === "work") return await this.worked(head, body, answering);
      throw new p.Refused("wrong-kind");
    } catch (why) {
      if (why instanceof BadInput) throw why;
      // By class alone: the text of another error might name rows.
      const refused = why instanceof p.Refused ? why.message : `failed\n${why.name}`;
      return this.seal("refused", p.bytesOf(refused), { ...about, about: why.about ?? {} });
    }
  }

  // ---- items that come ----

  checkItems({ items }) {
    const known = this.items.size;
    if (items === known) return;
    const why = new p.Refused("wrong-items", `${known} lines of items are known here`);
    throw Object.assign(why, { about: { known } });
  }

  // Takes the lines that its list of items lacks, which is on the disk before anything is signed under it.
  async further(body, about) {
    const items = await further(this.items, body);
    await this.files.write("items.jsonl", items.text);
    this.list(items);
    this.masks?.begin();
    return this.seal("items", new Uint8Array(), { ...about, items: items.size });
  }

  async worked(head, body, about) {
    if (head.round === this.terms.rounds) throw new p.Refused("future-round");
    if (head.about.users !== 1) throw new p.Refused("wrong-count");
    const { download } = await this.workOf(body, head.model, {});
    this.checkStep(download, head.round);
    const asked = `${head.round} ${p.hex(head.model)}`;
    // A second training would be a second answer, and the two may tell what the user sent.
    if (asked === this.state.asked) return p.fromBase64(this.state.answer);
    if (head.round <= this.state.round) throw new p.Refused("past-round");
    const { forgotten } = this;
    const { private: after, update } = this.trained(download, head.round);
    const { item: _, ...sent } = update;
    for (const [, , numbers] of Object.values(sent)) numbers.forEach(p.held);
    const answer = await this.seal("update", p.writeArrays(update), about);
    // On the disk before it leaves: a device that is killed now gives the same answer again.
    const changes = { round: head.round, asked, answer: p.toBase64(answer), private: after };
    await this.leaves({ ...changes, ...this.seen(download, head.round) }, forgotten);
    return answer;
  }

  // Lost rounds that are made up for by further ones.
  get spare() {
    return this.masks ? Math.ceil(this.terms.rounds / 10) : 0;
  }

  // Refuses a model that has moved further than the rounds since the newest one here allow: no sums
  // have made it so.
  checkStep(download, round) {
    const { step = 0 } = this.terms.protection;
    if (!step) return;
    const { items, init_std: std } = this.settings;
    const before = this.state.newest ? this.newestModel() : { modelled: 0 };
    const seen = this.state.seen ?? 0;
    // Else a server would show the model of the last round, and have all answers to it.
    if (round < seen) throw new p.Refused("past-round", `the model of round ${seen} has come`);
    const allowed = (round - seen) * step * 1.001 + 1e-6;
    for (const [name, rows] of Object.entries(download)) {
      const width = rows.length / items;
      for (let i = 0; i < items; i++) {
        // A first row is of normal numbers, which are no longer than this.
        const known = i < before.modelled;
        const first = known ? 0 : std * (Math.sqrt(width) + 6);
        let square = 0;
        for (let at = i * width; at < (i + 1) * width; at++)
          square += (rows[at] - (known ? before.download[name][at] : 0)) ** 2;
        if (!(Math.sqrt(square) <= allowed + first))
          throw new p.Refused("wrong-model", "a row moved further than rounds allow");
      }
    }
  }

  // The download of a request to train, and further arrays.
  async workOf(body, model, further) {
    const { users, ...arrays } = await this.received(body, { users: ["I64", [1]], ...further });
    if (users[0] !== BigInt(this.user)) throw new p.Refused("not-asked");
    const download = Object.fromEntries(
      Object.keys(this.schema).map((name) => [name, arrays[name]]),
    );
    // All nodes train from one model: one made for this device alone would tell more of it.
    if (!p.same(await this.digestOf(download), model)) throw new p.Refused("wrong-model");
    return { ...arrays, download };
  }

  trained(download, round) {
    const before = unpacked(this.state.private);
    const { private: after, update } = this.model.local(
      download,
      before,
      this.history,
      this.settings,
      this.user,
      round,
    );
    for (const numbers of Object.values(after)) numbers.forEach(p.held);
    return { private: packed(after), update: clipped(update, this.terms.protection.clip) };
  }

  async taken(head, body) {
    const download = await this.received(body, {});
    this.checkStep(download, head.round);
    const trained = head.round === this.terms.rounds;
    await this.keep({ ...this.seen(download, head.round), trained });
    return this.seal("taken", new Uint8Array(), { round: head.round });
  }

  async received(body, further) {
    const arrays = p.readArrays(body, { ...this.schema, ...further });
    for (const name of Object.keys(this.schema)) {
      if (!arrays[name].every(Number.isFinite))
        throw new p.Refused("malformed", "a number is not finite");
    }
    return arrays;
  }

  shaped(download) {
    return Object.fromEntries(
      Object.entries(this.schema).map(([name, [type, shape]]) => [
        name,
        [type, shape, download[name]],
      ]),
    );
  }

  digestOf(download) {
    return p.modelDigest(this.shaped(download));
  }

  // The newest model for the state, as text, with its number.
  seen(download, round) {
    return { newest: p.toBase64(p.writeArrays(this.shaped(download))), seen: round };
  }

  // ---- the user's rows ----

  // The rows on which the device trains: nobody learns of retired items.
  get history() {
    const { retired } = this.items;
    return this.state.rows.filter((item) => !retired.includes(item));
  }

  numberOf(id) {
    const item = this.items.ids.indexOf(id);
    if (item < 0) throw new BadInput(`item '${id}' is not on the federation's list`);
    return item;
  }

  // Adds a row, which is tested before it is learnt. It counts from the next round on.
  async consumed(id) {
    const item = this.numberOf(id);
    const tests = this.tested(item);
    const rows = [...new Set([...this.state.rows, item])].sort((a, b) => a - b);
    await this.keep({ rows, tests });
  }

  // Deletes a row, with the answers that were made with it. Tests do not say of which rows they
  // were, so that none of before is told.
  async forget(id) {
    const item = this.numberOf(id);
    const rows = this.state.rows.filter((row) => row !== item);
    this.forgotten += 1;
    await this.keep({ rows, tests: NO_TESTS, vector: null, asked: null, answer: null });
  }

  // Refuses to answer with rows that were forgotten since.
  remembers(forgotten) {
    if (forgotten !== this.forgotten)
      throw new p.Refused("withheld", "rows were forgotten meanwhile");
  }

  // The tests that no answer has carried yet, with that of a new row.
  tested(item) {
    const before = this.state.tests ?? NO_TESTS;
    // A row that is there tests nothing: no list would have had it.
    if (!this.terms.accuracy || !this.state.newest || this.history.includes(item)) return before;
    const { scores, allowed } = this.scored();
    let [hit, inverse] = [0, 0];
    if (allowed.includes(item)) {
      // Of equal scores the item is the last.
      const rank = allowed.filter((other) => scores[other] >= scores[item]).length;
      [hit, inverse] = [Number(rank <= LISTED), 1 / rank];
    }
    return [before[0] + 1, before[1] + hit, before[2] + inverse];
  }

  // The newest model, and the number of items that it knows.
  newestModel() {
    const any = this.model.receives({ ...this.settings, items: null });
    const stored = p.readArrays(p.fromBase64(this.state.newest), any);
    // Items that came after the model have no row in it: zeros, and they are in no list.
    const { items } = this.settings;
    const counts = [items];
    const download = { ...stored };
    for (const [name, [, [first, ...others]]] of Object.entries(any)) {
      if (first !== null) continue;
      const width = others.reduce((a, b) => a * b, 1);
      counts.push(stored[name].length / width);
      download[name] = new Float32Array(items * width);
      download[name].set(stored[name]);
    }
    return { download, modelled: Math.min(...counts) };
  }

  // The scores of all items by the newest model, and the items that a list may have.
  scored() {
    if (!this.state.newest) throw new BadInput("no model has come yet; run the device");
    const { download, modelled } = this.newestModel();
    const before = unpacked(this.state.private);
    const scores = this.model.scores(download, before, this.history, this.settings);
    const left = new Set([...this.state.rows, ...this.items.retired]);
    const allowed = [...scores.keys()].filter((item) => item < modelled && !left.has(item));
    return { scores, allowed };
  }

  recommended(n) {
    const { scores, allowed } = this.scored();
    // A longer list tells more of the history that it leaves out.
    return best(scores, allowed, Math.min(n, 100)).map((item) => this.items.ids[item]);
  }
}

// Private arrays as text in JSON, and back.
const packed = (arrays) =>
  Object.fromEntries(
    Object.entries(arrays).map(([name, numbers]) => [name, p.hex(new Uint8Array(numbers.buffer))]),
  );
const unpacked = (arrays) =>
  Object.fromEntries(
    Object.entries(arrays).map(([name, digits]) => [
      name,
      new Float32Array(p.unhex(digits).buffer),
    ]),
  );

