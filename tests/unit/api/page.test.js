// The script of the page against a document of a few fields: a service that is away and comes back.
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const vm = require("node:vm");

const details = (id, open) => ({ id, open });
const element = (html, held) => ({ innerHTML: html, querySelectorAll: () => held });
const page = element("first", [details("audit-1", false), details("audit-2", true)]);
const stale = { textContent: "", hidden: true };
const selection = { isCollapsed: true };
let answers = [];
let again = null;
const world = {
  Date,
  AbortSignal,
  Map,
  Math,
  Error,
  location: { href: "http://127.0.0.1:8085/migrations/1" },
  document: {
    title: "",
    getElementById: (id) => ({ page, stale })[id],
    getSelection: () => selection,
  },
  DOMParser: class {
    parseFromString(text) {
      return { title: `title of ${text}`, getElementById: () => ({ innerHTML: text }) };
    }
  },
  fetch: async () => answers.shift()(),
  setTimeout: (work, ms) => {
    assert.strictEqual(ms, 2000);
    again = work;
  },
};
vm.runInNewContext(fs.readFileSync(process.argv[2], "utf8"), world);

const page_of = (text) => () => ({ ok: true, status: 200, text: async () => text });
const turn = async (answer) => {
  answers = [answer];
  const work = again;
  again = null;
  await work();
  assert.notStrictEqual(again, null, "it goes on, whatever happened");
};

(async () => {
  await turn(page_of("second"));
  assert.deepStrictEqual([page.innerHTML, world.document.title, stale.hidden], ["second", "title of second", true]);
  assert.deepStrictEqual(page.querySelectorAll().map((each) => each.open), [false, true]);

  await turn(() => Promise.reject(new TypeError("Failed to fetch")));
  assert.strictEqual(page.innerHTML, "second", "what was there stays");
  assert.strictEqual(stale.hidden, false);
  assert.match(stale.textContent, /^Not renewed for \d+ s: the service does not answer \(Failed to fetch\)/);

  await turn(() => ({ ok: false, status: 503 }));
  assert.match(stale.textContent, /it answered 503/);
  await turn(() => ({ ok: false, status: 401 }));
  assert.match(stale.textContent, /log in again/);

  selection.isCollapsed = false;
  await turn(page_of("third"));
  assert.strictEqual(page.innerHTML, "second", "nobody loses what they select");
  assert.match(stale.textContent, /while something is selected/);
  selection.isCollapsed = true;
  await turn(page_of("third"));
  assert.deepStrictEqual([page.innerHTML, stale.hidden, stale.textContent], ["third", true, ""]);
})();
