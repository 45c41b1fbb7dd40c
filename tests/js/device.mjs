// The device of core.mjs for Node: its files in a folder, and a connection.
//
//   node device.mjs identity FOLDER NAME               makes a key, and request.json for the operator
//   node device.mjs join FOLDER FROM ROWS.csv [people=100] [occupancy=10] [noise=0]
//                                     [paper=0] [public=0]
//                                                      joins by an invitation, a folder, or by a link,
//                                                      with the user's rows; the rest is the least that
//                                                      a masked sum must have; paper=1 agrees to no
//                                                      masks, and public=1 to draws that everybody can
//                                                      repeat
//   node device.mjs run FOLDER                         takes part until the trained model has come
//   node device.mjs consumed FOLDER ITEM               adds a row, while the device does not run
//   node device.mjs recommend FOLDER [N]               prints the best items that the user lacks

import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import http from "node:http";
import https from "node:https";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { BadInput, Device, identity, joinFederation } from "./core.mjs";
import { joinByLink } from "./join.mjs";
import { takePart } from "./line.mjs";
import * as p from "./protocol.mjs";

const HELD = 20_000; // milliseconds for which a server holds a question
const CALL = 30_000; // without a byte, after which a connection is lost

// The files of a folder.
const filesOf = (folder) => ({
  read(name) {
    const path = join(folder, name);
    return existsSync(path) ? readFileSync(path, "utf8") : null;
  },
  // Whole or not at all: a device that is killed meanwhile has the state from before.
  write(name, content) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, name);
    writeFileSync(`${path}.new`, content, { mode: 0o600, flush: true });
    renameSync(`${path}.new`, path);
  },
  async makeKey() {
    const key = p.random(32);
    this.write("identity.key", `${p.hex(key)}\n`);
    return p.publicOf("Ed25519", key);
  },
  key() {
    return p.signingKey(p.unhex(this.read("identity.key").trim()));
  },
});

const open = (folder) => Device.open(filesOf(folder));

async function joinFrom(folder, from, rows, ...insisted) {
  const files = filesOf(folder);
  const said = readFileSync(rows, "utf8");
  if (from.includes("#")) return joinByLink(files, from, said, insisted, connected, console.error);
  const parts = readdirSync(from).map((name) => [name, readFileSync(join(from, name), "utf8")]);
  return joinFederation(files, Object.fromEntries(parts), said, insisted);
}

// The connection to a server by the certificate of its authority, in PEM: "" for those that Node
// trusts, null for whoever answers.
const connected = (server, certificate) =>
  connection(server, certificate === null ? { rejectUnauthorized: false } : { ca: certificate });

// What carries the bytes of a device to its server and back. trust: of TLS, as Node has it.
function connection({ server, tls }, trust) {
  const [, host, port] = /^\[?(.+?)\]?:(\d+)$/.exec(server);
  const kind = tls ? https : http;
  const how = { keepAlive: true, maxSockets: 1, minVersion: "TLSv1.3", ...trust };
  const agent = new kind.Agent(how);
  return (method, path, shown, body, most) => {
    const headers = { ...shown, "accept-encoding": "identity", "content-length": body.length };
    const asked = { host, port, agent, method, path, headers, timeout: HELD + CALL };
    return new Promise((resolve, reject) => {
      const request = kind.request(asked, (response) => {
        const parts = [];
        let size = 0;
        response.on("data", (part) => {
          size += part.length;
          if (size > most) request.destroy(new Error("a response that is too long"));
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
      });
      request.on("timeout", () => request.destroy(new Error("no answer")));
      request.on("error", reject);
      request.end(body);
    });
  };
}

async function run(folder) {
  const device = await open(folder);
  await takePart(device, connected(device, device.files.read("ca.crt") ?? ""), console.error);
}

const COMMANDS = {
  identity: (folder, name) => identity(filesOf(folder), name),
  join: joinFrom,
  run,
  consumed: async (folder, item) => (await open(folder)).consumed(item),
  recommend: async (folder, n = "10") =>
    console.log((await open(folder)).recommended(Number(n)).join("\n")),
};

async function main([command, ...given]) {
  try {
    if (!(command in COMMANDS))
      throw new BadInput(`got '${command}'; expected one of ${Object.keys(COMMANDS).join(", ")}`);
    await COMMANDS[command](...given);
    return 0;
  } catch (why) {
    if (!(why instanceof BadInput)) throw why;
    console.error(`error: ${given[0]}: ${why.message}`);
    return 2;
  }
}

export { connected, filesOf, open };

// Imported by a test it only gives devices. Connections that are kept open would hold the process.
if (process.argv[1] === fileURLToPath(import.meta.url))
  process.exit(await main(process.argv.slice(2)));
