/* Renews a page in place. A service that is away leaves the page as it stands, and the page says since when. */
"use strict";

const EVERY_MS = 2000;
const AWAY_MS = 10000;
let renewed = Date.now();

async function renew() {
  try {
    const answer = await fetch(location.href, {
      cache: "no-store",
      headers: { Accept: "text/html" },
      signal: AbortSignal.timeout(AWAY_MS),
    });
    if (!answer.ok) throw new Error(answer.status === 401 ? "log in again" : `it answered ${answer.status}`);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (document.getSelection().isCollapsed) {
      show(next);
      renewed = Date.now();
      stale("");
    } else {
      stale("Not renewed while something is selected."); // somebody copies a command
    }
  } catch (error) {
    const seconds = Math.round((Date.now() - renewed) / 1000);
    stale(`Not renewed for ${seconds} s: the service does not answer (${error.message}). What you see is old.`);
  }
  setTimeout(renew, EVERY_MS);
}

function show(next) {
  const page = document.getElementById("page");
  const open = new Map([...page.querySelectorAll("details[id]")].map((each) => [each.id, each.open]));
  page.innerHTML = next.getElementById("page").innerHTML;
  document.title = next.title;
  for (const each of page.querySelectorAll("details[id]")) {
    if (open.has(each.id)) each.open = open.get(each.id);
  }
}

function stale(text) {
  const box = document.getElementById("stale");
  box.textContent = text;
  box.hidden = text === "";
}

setTimeout(renew, EVERY_MS);
