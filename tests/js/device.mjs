// The device of core.mjs for Node: its files in a folder, and a connection.
//
//   node device.mjs identity FOLDER NAME               makes a key, and request.json for the operator
//   node device.mjs join FOLDER INVITATION ROWS.csv [people=300] [parties=3] [occupancy=10] [public=0]
//                                                      takes an invitation, with the user's rows; the
//                                                      rest is the least that a masked sum must have,
//                                                      and 1 agrees to draws that all can repeat
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
import { takePart } from "./line.mjs";

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
});

const open = (folder) => Device.open(filesOf(folder));

async function joinFolder(folder, invitation, rows, ...insisted) {
  const files = readdirSync(invitation).map((name) => [
    name,
    readFileSync(join(invitation, name), "utf8"),
  ]);
  const said = readFileSync(rows, "utf8");
  await joinFederation(filesOf(folder), Object.fromEntries(files), said, insisted);
}

// What carries the bytes of a device to its server and back.
function connection({ server, tls, files }) {
  const [, host, port] = /^\[?(.+?)\]?:(\d+)$/.exec(server);
  // Plain HTTP beyond this machine would show keys and rows to everybody on the way.
  if (!tls && !["127.0.0.1", "::1", "localhost"].includes(host))
    throw new BadInput(`${server}: plain text beyond loopback`);
  const kind = tls ? https : http;
  const trust = tls ? { ca: files.read("ca.crt"), minVersion: "TLSv1.3" } : {};
  const agent = new kind.Agent({ keepAlive: true, maxSockets: 1, ...trust });
  return (method, path, shown, body, most) => {
    const headers = { ...shown, "accept-encoding": "identity", "content-length": body.length };
    const how = { host, port, agent, method, path, headers, timeout: HELD + CALL };
    return new Promise((resolve, reject) => {
      const request = kind.request(how, (response) => {
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
  await takePart(device, connection(device), console.error);
}

const COMMANDS = {
  identity: (folder, name) => identity(filesOf(folder), name),
  join: joinFolder,
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

export { filesOf, open };

// Imported by a test it only gives devices. Connections that are kept open would hold the process.
if (process.argv[1] === fileURLToPath(import.meta.url))
  process.exit(await main(process.argv.slice(2)));
