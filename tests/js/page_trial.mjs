// A page of a test: it joins by what its own server has, takes part, and tells how that went.
//
//   ?link       it joins by links, of which all but the last lead nowhere
//   ?made       it stops when it has made an answer, before that leaves
//   ?sent       it stops when an answer has left
//   ?again      it is loaded anew once, when it has answered
//   ?tabs       it opens another tab with the same device

import { Device, identity, joinFederation } from "./core.mjs";
import { joinByLink } from "./join.mjs";
import { takePart } from "./line.mjs";
import { connection, filesOf } from "./page.mjs";
import * as p from "./protocol.mjs";

const how = new URLSearchParams(location.search);
const post = (path, said) => fetch(path, { method: "POST", body: said });
const never = () => new Promise(() => {});
const strict = watched();

// Writes that are not on the disk yet, and what durability each was begun with.
function watched() {
  const { transaction } = IDBDatabase.prototype;
  const seen = { waiting: 0, kinds: new Set() };
  IDBDatabase.prototype.transaction = function (...given) {
    const made = transaction.apply(this, given);
    if (made.mode === "readwrite") {
      seen.kinds.add(made.durability);
      seen.waiting += 1;
      made.addEventListener("complete", () => (seen.waiting -= 1));
    }
    return made;
  };
  return seen;
}

async function joined(files) {
  if (!how.has("link")) {
    await identity(files, "browser");
    await post("/request", await files.read("request.json"));
  }
  // Held until there is one.
  const { invitation, links, rows, insisted } = await (await fetch("/invitation")).json();
  if (invitation) return joinFederation(files, invitation, rows, insisted);
  for (const [link, ...more] of links) {
    try {
      const agree = (lines) => post("/told", lines);
      await joinByLink(files, link, rows, [...insisted, ...more], connection, agree);
    } catch (why) {
      await post("/refused", why.message);
    }
  }
}

try {
  const files = await filesOf("device");
  if (how.has("tabs")) window.open("/");
  if ((await files.read("device.json")) === null) await joined(files);
  const device = await Device.open(files);
  const ask = connection(device);
  const asked = async (method, path, shown, body, most) => {
    if (method === "POST") {
      if (strict.waiting) await post("/failed", "an answer leaves before it is on the disk");
      await post("/told", `answer ${device.state.round} ${p.hex(await p.sha256(body))}`);
      if (how.has("made") && device.state.round >= 0) await never();
    }
    const said = await ask(method, path, shown, body, most);
    if (method === "POST" && how.has("sent") && device.state.round >= 0) {
      await post("/told", "sent");
      await never();
    }
    if (method === "POST" && how.has("again")) {
      await post("/told", `round ${device.state.round} is answered`);
      location.search = "";
      await never();
    }
    return said;
  };
  await takePart(device, asked, (line) => post("/told", line));
  const { inputs = null, round } = device.state;
  const key = await files.key();
  const told = { best: device.recommended(3), inputs, round, copied: key.extractable };
  await post("/ended", JSON.stringify({ ...told, strict: [...strict.kinds] }));
} catch (why) {
  await post("/failed", `${why.name}: ${why.message}\n${why.stack}`);
}
