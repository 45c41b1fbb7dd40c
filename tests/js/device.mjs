// A device of a federation in JavaScript, written from docs/protocol.md: one user, the algorithms
// FCF and FPL, rounds with and without masks.
//
//   node device.mjs identity FOLDER NAME               makes a key, and request.json for the operator
//   node device.mjs join FOLDER INVITATION ROWS.csv [people=300] [parties=3] [occupancy=10]
//                                                      takes an invitation, with the user's rows; the
//                                                      rest is the least that a masked sum must have
//   node device.mjs run FOLDER                         takes part until the trained model has come
//   node device.mjs recommend FOLDER [N]               prints the best items that the user lacks
//
// FOLDER has identity.key, the files of the invitation, and state.json: what the device keeps, and
// its last answer.

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import http from "node:http";
import https from "node:https";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { KINDS, MaskedSide } from "./masked.mjs";
import { MODELS, settingsOf, unknownSetting } from "./models.mjs";
import * as p from "./protocol.mjs";

const FORMAT = 4;
const HELD = 20_000; // milliseconds for which a server holds a question
const CALL = 30_000; // without a byte, after which a connection is lost
const SHOWN = 60_000; // for which one signed header is shown
const NEVER = new Set(["no-key", "wrong-run"]); // refusals that no later attempt mends
const ROOM = 1 << 24; // bytes of a response besides the numbers of a download, at most

class BadInput extends Error {}

const read = (...path) => readFileSync(join(...path), "utf8");

function readJson(...path) {
  const { format, ...fields } = JSON.parse(read(...path));
  if (format !== FORMAT)
    throw new BadInput(`${join(...path)}: format ${format}; expected ${FORMAT}`);
  return fields;
}

// Whole or not at all: a device that is killed meanwhile has the state from before.
function write(path, content) {
  writeFileSync(`${path}.new`, content, { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
}

// ---- joining ------------------------------------------------------------------------------------

async function identity(folder, name) {
  if (!/^[a-z0-9][a-z0-9.-]{0,63}$/.test(name))
    throw new BadInput(`NAME: got '${name}'; expected 1 to 64 of a-z, 0-9, - and .`);
  const path = join(folder, "identity.key");
  if (existsSync(path))
    throw new BadInput(`${path}: there is a key already; choose another folder`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const key = p.random(32);
  write(path, `${p.hex(key)}\n`);
  const request = { format: FORMAT, name, key: p.hex(await p.publicOf("Ed25519", key)) };
  write(join(folder, "request.json"), JSON.stringify(request));
}

async function joinFederation(folder, invitation, rows, ...insisted) {
  const floors = { people: 300, parties: 3, occupancy: 10 };
  for (const floor of insisted) {
    const [name, value] = floor.split("=");
    if (!(name in floors) || !(Number(value) >= 0))
      throw new BadInput(
        `got '${floor}'; expected one of ${Object.keys(floors).join(", ")}, such as people=60`,
      );
    floors[name] = Number(value);
  }
  const own = readJson(folder, "request.json");
  const terms = readJson(invitation, "terms.json");
  const { server, tls } = readJson(invitation, "invitation.json");
  // Another key under this name means that the invitation is not for this device.
  const member = readJson(invitation, "members.json").nodes[own.name];
  if (member?.key !== own.key)
    throw new BadInput(`${invitation}: is not for '${own.name}' with this key`);
  const [[first, last]] = member.users;
  if (member.users.length !== 1 || first !== last)
    throw new BadInput(`${invitation}: is for several users; expected one`);
  if (terms.topology !== "server" || !(terms.algorithm in MODELS))
    throw new BadInput(`${invitation}: ${terms.algorithm}; expected one of ${Object.keys(MODELS).join(", ")}`);
  // Another form of the algorithm would be computed wrongly, and nobody would notice.
  const unknown = unknownSetting(MODELS[terms.algorithm], settingsOf(terms));
  if (unknown) throw new BadInput(`${invitation}: ${unknown}`);
  // What a device leaves out of a protection, its owner would believe to be there.
  const {
    clip,
    row_clip: rowClip,
    quantise,
    groups = 1,
    answers = 0,
    defence,
    rows: order,
    noise,
    secure_sum: masked,
    sampling,
  } = terms.protection;
  if (
    clip ||
    rowClip ||
    quantise ||
    (sampling === "fixed" ? groups > 1 : !answers) ||
    defence !== "none" ||
    order === "padded" ||
    (noise && !masked) ||
    terms.above ||
    terms.relays
  ) {
    throw new BadInput(
      `${invitation}: a protection of which this device knows masks, noise and lots alone`,
    );
  }
  // Its vector would be three numbers too short, and spoil the sum of everybody.
  if (terms.accuracy)
    throw new BadInput(`${invitation}: tests of new rows, of which this device makes none`);
  const list = readFileSync(join(invitation, "items.json"));
  if (p.hex(await p.sha256(list)) !== terms.items_sha256)
    throw new BadInput(`${invitation}: items.json is not that of the terms`);
  const history = historyOf(rows, JSON.parse(list).ids);
  const parts = [
    "terms.json",
    "items.json",
    "members.json",
    "invitation.json",
    ...(tls ? ["ca.crt"] : []),
  ];
  for (const part of parts) copyFileSync(join(invitation, part), join(folder, part));
  write(
    join(folder, "device.json"),
    JSON.stringify({ name: own.name, user: first, server, tls, history, floors }),
  );
}

// The numbers of the items in a CSV file with a column `item`, ascending, each once.
function historyOf(path, ids) {
  const numbers = new Map(ids.map((id, number) => [id, number]));
  const [head, ...lines] = read(path).split(/\r?\n/).filter(Boolean);
  const column = head.split(",").indexOf("item");
  if (column < 0) throw new BadInput(`${path}:1: no column 'item'`);
  const items = new Set();
  lines.forEach((line, at) => {
    const id = line.split(",")[column];
    if (!numbers.has(id))
      throw new BadInput(`${path}:${at + 2}: item '${id}' is not on the federation's list`);
    items.add(numbers.get(id));
  });
  return [...items].sort((a, b) => a - b);
}

// ---- the device ---------------------------------------------------------------------------------

export class Device {
  static async open(folder) {
    const device = Object.assign(new Device(), JSON.parse(read(folder, "device.json")), { folder });
    device.key = p.unhex(read(folder, "identity.key").trim());
    device.terms = readJson(folder, "terms.json");
    // The hash of the file as it came, without the line feed at its end, names the federation.
    const digest = await p.sha256(p.bytesOf(read(folder, "terms.json").replace(/\n$/, "")));
    device.run = p.hex(digest).slice(0, 32);
    device.operator = p.unhex(device.terms.operator);
    device.model = MODELS[device.terms.algorithm];
    device.settings = settingsOf(device.terms);
    device.schema = device.model.receives(device.settings);
    device.length = device.model.length(device.settings);
    const path = join(folder, "state.json");
    // What a device begins with is drawn once: from secret draws it would be another each time.
    device.state = existsSync(path)
      ? JSON.parse(read(path))
      : {
          round: -1,
          secret: p.hex(p.random(32)),
          private: packed(device.model.first(device.settings, device.user)),
        };
    // A lot of secret draws is the same after a restart.
    device.keep({});
    // Under masks a device answers no request whose answer would be about itself alone.
    if (device.terms.protection.secure_sum)
      device.masks = new MaskedSide(device, readJson(folder, "members.json"), device.floors);
    return device;
  }

  keep(changes) {
    this.state = { ...this.state, ...changes };
    write(join(this.folder, "state.json"), JSON.stringify(this.state));
  }

  keepMembers(list) {
    write(join(this.folder, "members.json"), JSON.stringify({ format: FORMAT, ...list }));
  }

  seal(kind, body, fields) {
    return p.seal(this.key, kind, body, { run: this.run, node: this.name, ...fields });
  }

  // The answer to a frame of the server: what it asks for, or why not. Never an error.
  async answer(frame) {
    let about = {};
    try {
      const { head, body } = await p.opened(frame, this.operator);
      const { round, attempt, model } = head;
      about = { round, attempt, model, items: this.terms.items };
      if (head.run !== this.run) throw new p.Refused("wrong-run");
      const answering = { ...about, about: { users: 1 } };
      if (this.masks) {
        if (head.kind === "model") return await this.masks.offered(head, body);
        if (KINDS.has(head.kind)) return await this.masks.answer(head, body, answering);
        throw new p.Refused("wrong-kind");
      }
      if (round > this.terms.rounds) throw new p.Refused("future-round");
      if (head.kind === "model") return await this.taken(head, body);
      if (head.kind === "work") return await this.worked(head, body, answering);
      throw new p.Refused("wrong-kind");
    } catch (why) {
      // By class alone: the text of another error might name rows.
      const refused = why instanceof p.Refused ? why.message : `failed\n${why.name}`;
      return this.seal("refused", p.bytesOf(refused), { ...about, about: why.about ?? {} });
    }
  }

  async worked(head, body, about) {
    if (head.round === this.terms.rounds) throw new p.Refused("future-round");
    if (head.about.users !== 1) throw new p.Refused("wrong-count");
    const { download } = await this.workOf(body, head.model, {});
    const asked = `${head.round} ${p.hex(head.model)}`;
    // A second training would be a second answer, and the two may tell what the user sent.
    if (asked === this.state.asked) return new Uint8Array(Buffer.from(this.state.answer, "base64"));
    if (head.round <= this.state.round) throw new p.Refused("past-round");
    const { private: after, update } = this.trained(download, head.round);
    const answer = await this.seal("update", p.writeArrays(update), about);
    // On the disk before it leaves: a device that is killed now gives the same answer again.
    this.keep({
      round: head.round,
      asked,
      answer: Buffer.from(answer).toString("base64"),
      private: after,
      newest: this.kept(download),
    });
    return answer;
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
    return { private: packed(after), update };
  }

  async taken(head, body) {
    const download = await this.received(body, {});
    this.keep({ newest: this.kept(download), trained: head.round === this.terms.rounds });
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

  // A download as text for the state.
  kept(download) {
    return Buffer.from(p.writeArrays(this.shaped(download))).toString("base64");
  }

  recommended(n) {
    if (!this.state.newest)
      throw new BadInput(`${this.folder}: no model has come yet; run the device`);
    const download = p.readArrays(
      new Uint8Array(Buffer.from(this.state.newest, "base64")),
      this.schema,
    );
    const { ids } = JSON.parse(read(this.folder, "items.json"));
    return this.model
      .recommended(download, unpacked(this.state.private), this.history, this.settings, n)
      .map((item) => ids[item]);
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

// ---- the connection -----------------------------------------------------------------------------

class Line {
  constructor(device) {
    const { server, tls, folder } = device;
    const [, host, port] = /^\[?(.+?)\]?:(\d+)$/.exec(server);
    // Plain HTTP beyond this machine would show keys and rows to everybody on the way.
    if (!tls && !["127.0.0.1", "::1", "localhost"].includes(host))
      throw new BadInput(`${server}: plain text beyond loopback`);
    const kind = tls ? https : http;
    const trust = tls ? { ca: readFileSync(join(folder, "ca.crt")), minVersion: "TLSv1.3" } : {};
    this.device = device;
    this.ask = kind.request;
    this.options = {
      host,
      port,
      agent: new kind.Agent({ keepAlive: true, maxSockets: 1, ...trust }),
    };
    this.shown = { since: -Infinity };
    const bytes = { F32: 4, F64: 8 };
    const numbers = Object.values(device.schema).map(
      ([type, shape]) => bytes[type] * shape.reduce((a, b) => a * b, 1),
    );
    this.most = numbers.reduce((a, b) => a + b, ROOM);
  }

  // One header is good for five minutes; the server checks the signature of each but once.
  async header() {
    if (Date.now() - this.shown.since > SHOWN) {
      const about = { time: Math.floor(Date.now() / 1000) };
      const frame = await this.device.seal("here", new Uint8Array(), { about });
      this.shown = {
        since: Date.now(),
        text: `Entrenous ${Buffer.from(frame).toString("base64").replaceAll("+", "-").replaceAll("/", "_")}`,
      };
    }
    return this.shown.text;
  }

  async said(method, path, body = new Uint8Array()) {
    const headers = {
      authorization: await this.header(),
      "accept-encoding": "identity",
      "content-length": body.length,
    };
    return new Promise((resolve, reject) => {
      const request = this.ask(
        { ...this.options, method, path, headers, timeout: HELD + CALL },
        (response) => {
          const parts = [];
          let size = 0;
          response.on("data", (part) => {
            size += part.length;
            // Whoever has the server's key could otherwise fill the memory.
            if (size > this.most) request.destroy(new Error("a response that is too long"));
            parts.push(part);
          });
          response.on("error", reject);
          response.on("end", () =>
            resolve({
              status: response.statusCode,
              later: response.headers["retry-after"],
              body: new Uint8Array(Buffer.concat(parts)),
            }),
          );
        },
      );
      request.on("timeout", () => request.destroy(new Error("no answer")));
      request.on("error", reject);
      request.end(body);
    });
  }
}

class Denied extends Error {}

function good(response) {
  if (response.status < 300) return response;
  const word = p.text(response.body.slice(0, 40)).trim();
  throw new Denied(/^[a-z0-9-]+$/.test(word) ? word : String(response.status));
}

// Asks and answers until the trained model is here and the server knows that.
async function takePart(device) {
  const line = new Line(device);
  let failures = 0;
  while (!device.state.trained) {
    try {
      const asked = Date.now();
      const response = good(await line.said("GET", "/v1/work"));
      failures = 0;
      if (response.status === 204) {
        const least = Date.now() - asked < 1000 ? 1 : 0;
        await sleep(
          1000 * Math.max(least, Number(response.later ?? 0)) * (0.5 + Math.random() / 2),
        );
        continue;
      }
      good(await line.said("POST", "/v1/answer", await device.answer(response.body)));
    } catch (why) {
      if (why instanceof Denied && NEVER.has(why.message))
        throw new BadInput(`the server does not let this device in (${why.message})`);
      // The server is away, busy, or starts again: twice as long each time, half of it at random.
      const longest = Math.min(30, 0.5 * 2 ** Math.min(failures++, 10));
      console.error(`connection lost: ${why.message}; trying again`);
      await sleep(1000 * longest * (0.5 + Math.random() / 2));
    }
  }
}

const COMMANDS = {
  identity,
  join: joinFederation,
  run: async (folder) => takePart(await Device.open(folder)),
  recommend: async (folder, n = "10") =>
    console.log((await Device.open(folder)).recommended(Number(n)).join("\n")),
};

async function main([command, ...given]) {
  try {
    if (!(command in COMMANDS))
      throw new BadInput(`got '${command}'; expected one of ${Object.keys(COMMANDS).join(", ")}`);
    await COMMANDS[command](...given);
    return 0;
  } catch (why) {
    if (!(why instanceof BadInput)) throw why;
    console.error(`error: ${why.message}`);
    return 2;
  }
}

// Imported by a test it only gives `Device`. Connections that are kept open would hold the process.
if (process.argv[1] === fileURLToPath(import.meta.url))
  process.exit(await main(process.argv.slice(2)));
