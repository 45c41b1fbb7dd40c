// Joining a federation by a link (docs/protocol.md, "Joining by a link"), whatever carries the bytes.

import * as core from "./core.mjs";
import { Denied, good } from "./line.mjs";
import * as p from "./protocol.mjs";

const { BadInput } = core;
const FORM =
  /^(https?):\/\/([^/#\s]{1,255})\/join#([0-9a-f]{32})\.([0-9a-f]{32})\.([0-9a-f]{64}|)$/;
const LARGEST = 1 << 26; // bytes of an answer, at most
const ITEMS = "items.jsonl";
const CERTIFICATE = 1 << 14; // bytes of an authority's certificate, at most
// The files that may come: before somebody joins, and with the place.
const TOLD = ["terms.json", "invitation.json", "ca.crt"];
const SENT = { GET: [...TOLD, ITEMS], POST: [...TOLD, "member.json"] };
const NEW = "ask the operator for a new link";
// What a server says, and what to do.
const REFUSALS = {
  "no-such-link": `knows no such link; copy the whole link, or ${NEW}`,
  "link-ended": `says that the link has ended; ${NEW}`,
  "link-used-up": `says that as many have joined by the link as may; ${NEW}`,
  "too-often": "lets no more join from this address for now; try again in an hour",
  "not-taken": "has no place left; ask the operator",
  "no-such-thing": "lets nobody join by a link; ask the operator for an invitation",
  busy: "is busy; try again in a moment",
};

// The parts of a link.
export function linkOf(text) {
  const [, scheme, server, run, token, authority] = FORM.exec(text.trim()) ?? [];
  if (!scheme)
    throw new BadInput(
      "this is no link to join by; expected https://HOST:PORT/join#RUN.TOKEN.AUTHORITY, whole",
    );
  const link = { server, tls: scheme === "https", run, token, authority };
  core.checkServer(link);
  return link;
}

// Joins the federation that a link leads to. rows, insisted: as of joinFederation. connected(link,
// certificate): what asks its server, as line.mjs does, by the authority of this certificate; "": by
// those that the system trusts; null: by nobody. agree: is given lines on what joining means, and
// awaited, before the server hears of the device: an error that it throws ends it.
//
// Whoever asks again, as after a lost connection, gets the same place.
export async function joinByLink(files, text, rows, insisted, connected, agree) {
  const link = linkOf(text);
  if ((await files.read("device.json")) !== null)
    throw new BadInput("this device has joined already; choose another folder or name");
  const certificate = await authorityOf(link, connected);
  const authorization = `Entrenous-Join ${link.token}`;
  const ask = connected(link, certificate);
  const fetched = async (method, body) => {
    const said = await asked(link, ask, method, "/v1/join", { authorization }, body, LARGEST);
    return partsOf(link, certificate, said, SENT[method]);
  };
  const meant = await fetched("GET");
  const { terms } = await core.understood(meant, rows, insisted);
  await agree(told(terms, link));
  if ((await files.read("request.json")) === null)
    await core.identity(files, `device-${p.hex(p.random(8))}`);
  const own = core.fieldsOf(await files.read("request.json"), "request.json", core.REQUEST);
  // Signed by the new key: whoever shows the public half alone has not made it.
  const asking = ["entrenous join", link.run, link.token, own.name].join("\n");
  const signature = p.hex(await p.sign(await files.key(), p.bytesOf(asking)));
  const place = { name: own.name, key: own.key, signature };
  const invitation = await fetched("POST", p.bytesOf(JSON.stringify(place)));
  // The list of items is long, and came once.
  await core.joinFederation(files, { ...invitation, [ITEMS]: meant[ITEMS] }, rows, insisted);
}

// The certificate of the server's authority, which the link names; "" for one that every system
// trusts. Nobody is trusted yet, so the token is not sent. A page's browser trusts whom it likes: there
// it only shows that link and server belong together.
async function authorityOf(link, connected) {
  if (!link.tls || !link.authority) return "";
  const said = await asked(link, connected(link, null), "GET", "/v1/authority", {}, "", CERTIFICATE);
  if (p.hex(await p.sha256(p.bytesOf(said))) !== link.authority)
    throw new BadInput(
      `${link.server} shows another authority than the link names: somebody may stand between`,
    );
  return said;
}

async function asked({ server }, ask, method, path, headers, body = "", most) {
  try {
    return p.text(good(await ask(method, path, headers, body, most)).body);
  } catch (why) {
    let said = `does not answer (${why.message.split("\n")[0]})`;
    if (why instanceof Denied) said = REFUSALS[why.message] ?? `refuses (${why.message})`;
    throw new BadInput(`${server} ${said}`);
  }
}

// The files that a server sent: of the federation and the server that the link names, and of some
// names.
async function partsOf(link, certificate, said, names) {
  const { server, tls, run } = link;
  const bad = () => new BadInput(`${server} sent what is no invitation; ${NEW}`);
  let parts, where, found;
  try {
    parts = JSON.parse(said);
    for (const [name, text] of Object.entries(parts))
      if (!names.includes(name) || typeof text !== "string") throw bad();
    where = core.fieldsOf(parts["invitation.json"], "invitation.json", core.INVITATION);
    found = await core.runOf(parts["terms.json"]);
  } catch {
    throw bad();
  }
  if (found !== run)
    throw new BadInput(`${server} has the federation ${found}, and the link names ${run}`);
  // Only the server and the authority of the link are trusted, whatever an invitation names.
  const invitation = JSON.stringify({ format: core.FORMAT, ...where, server, tls });
  return { ...parts, "invitation.json": invitation, "ca.crt": certificate };
}

// What joining means, in lines.
function told({ algorithm, draws, protection }, { server, run }) {
  const { secure_sum: masked, people, noise, answers, days } = protection;
  const each = "each answer, which tells much of this person (docs/results/measured.md)";
  const seen = masked ? "sums over many devices alone" : each;
  // As JSON, since terms may have any text here.
  const limits = JSON.stringify({ people, noise, answers, days, draws });
  return `run ${run}, server ${server}\nalgorithm ${algorithm}\nthe server sees ${seen}: ${limits}`;
}
