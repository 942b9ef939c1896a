// Drives the original pi's SessionManager, so that the tests can see what it makes of our files, and we of its.
//
//   node_modules/.bin/node pi_sessions.mjs '[["open", "/tmp/s.jsonl"], ["appendMessage", {...}], ["dump"]]'
//
// The steps are a JSON list, as the only argument or on stdin; the answer is a JSON list with one result for each
// step. A step is a verb and its arguments:
//   open, create, forkFrom, continueRecent, inMemory   SessionManager's static makers; the result is the file's path
//   list, listAll, findById                            its static finders
//   dump                                               all that pi makes of the session now open
//   anything else                                      that method of the open session (appendMessage, branch, ...)
// An argument "$3" is the result of step 3, counted from 0. A step that throws has the result {"error": message};
// the steps after it still run.

import { readFileSync } from "node:fs";
import { SessionManager, convertToLlm } from "@earendil-works/pi-coding-agent";

const MAKERS = ["open", "create", "forkFrom", "continueRecent", "inMemory"];
const FINDERS = ["list", "listAll", "findById"];

let session;

function dump() {
  const entries = session.getEntries();
  const context = session.buildSessionContext();
  const labelled = entries.map((entry) => [entry.id, session.getLabel(entry.id)]);
  return {
    file: session.getSessionFile(),
    id: session.getSessionId(),
    cwd: session.getCwd(),
    header: session.getHeader(),
    entries,
    leafId: session.getLeafId(),
    path: session.getBranch().map((entry) => entry.id),
    context,
    llm: convertToLlm(context.messages),
    sessionName: session.getSessionName() ?? null,
    labels: Object.fromEntries(labelled.filter(([, label]) => label)),
  };
}

async function run(verb, args) {
  if (MAKERS.includes(verb)) {
    session = undefined;
    session = SessionManager[verb](...args);
    return session.getSessionFile();
  }
  if (FINDERS.includes(verb)) return await SessionManager[verb](...args);
  if (!session) throw new Error("no session is open");
  if (verb === "dump") return dump();
  return session[verb](...args);
}

const steps = JSON.parse(process.argv[2] ?? readFileSync(0, "utf8"));
const results = [];
for (const [verb, ...args] of steps) {
  const filled = args.map((arg) => (/^\$\d+$/.test(arg) ? results[arg.slice(1)] : arg));
  try {
    results.push((await run(verb, filled)) ?? null);
  } catch (error) {
    results.push({ error: error.message });
  }
}
process.stdout.write(JSON.stringify(results) + "\n");
