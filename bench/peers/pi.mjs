// The original pi: its SessionManager. The same side of the pipe as protocol.py.
//
//   node pi.mjs WORK '{"session": ..., "folder": ...}'

import * as fs from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const TURN = 4;
const PI = "../../tests/peers/node_modules/@earendil-works/pi-coding-agent/dist/";
const [work, given] = process.argv.slice(2);
const options = JSON.parse(given);
if (options.home) process.env.PI_CODING_AGENT_DIR = options.home; // before pi is loaded
const bare = peakBytes();
const { SessionManager } = await import(`${PI}index.js`);

const WORKS = {
  // pi never syncs by itself. Here it does, once a turn: the least that is durable.
  "durable append": ({ folder, session }) => append(folder, session, fs.fdatasyncSync, wallSeconds),

  append: ({ folder, session, cpu }) => append(folder, session, () => {}, cpu ? cpuSeconds : wallSeconds),

  load: ({ session }) => timed(() => SessionManager.open(session)),

  tail: ({ session, count }) => timed(() => SessionManager.open(session).getBranch().slice(-count)),

  fork({ folder, session }) {
    const target = scratch(folder);
    return timed(() => {
      const path = SessionManager.forkFrom(session, "/project", target).getSessionFile();
      const file = fs.openSync(path, "r+");
      fs.fdatasyncSync(file);
      fs.closeSync(file);
      return path;
    }, wallSeconds, fs.unlinkSync);
  },

  async list() {
    must(await SessionManager.listAll());
    return timed(() => SessionManager.listAll());
  },

  // Its picker's search, which is what a user of pi has: a filter over what a listing read.
  async search({ query }) {
    const { filterAndSortSessions } = await import(`${PI}modes/interactive/components/session-selector-search.js`);
    const search = async () => filterAndSortSessions(await SessionManager.listAll(), `"${query}"`, "relevance");
    must(await search());
    return timed(search);
  },

  // Bytes and not seconds: the most memory this process has had, above what it had before it loaded pi.
  peak: ({ session }) => async () => {
    SessionManager.open(session);
    return [peakBytes() - bare];
  },
};

function append(folder, session, sync, clock) {
  const path = join(scratch(folder), "session.jsonl");
  fs.copyFileSync(session, path);
  const manager = SessionManager.open(path);
  const turn = manager.getEntries().slice(0, TURN).map((entry) => entry.message);
  const file = fs.openSync(path, "r+");
  return timed(() => {
    for (const message of turn) manager.appendMessage(message);
    sync(file);
  }, clock);
}

function timed(work, clock = wallSeconds, after = () => {}) {
  return async (calls) => {
    const spent = [];
    for (let call = 0; call < calls; call++) {
      const start = clock();
      let result = work();
      if (result instanceof Promise) result = await result;
      spent.push(clock() - start);
      after(result);
    }
    return spent;
  };
}

function must(found) {
  if (found.length === 0) throw new Error("nothing was found: this would measure something else");
}

function wallSeconds() {
  return performance.now() / 1e3;
}

function cpuSeconds() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

function peakBytes() {
  try {
    return 1024 * Number(/VmHWM:\s*(\d+)/.exec(fs.readFileSync("/proc/self/status", "utf8"))[1]);
  } catch {
    return 1024 * process.resourceUsage().maxRSS; // which on Linux may be that of whoever started it
  }
}

function scratch(folder) {
  return fs.mkdtempSync(join(folder, "peer-"));
}

const block = await WORKS[work](options);
fs.writeSync(1, '"ready"\n');
for await (const line of createInterface({ input: process.stdin })) {
  fs.writeSync(1, `${JSON.stringify(await block(Number(line)))}\n`);
}
