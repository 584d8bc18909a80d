"use strict";
// Fetches what changes every two seconds; keeps focus, scroll and what is open; sends forms without leaving the page.

const EVERY = 2000;
const live = document.getElementById("live");
const status = document.getElementById("status");
const answer = document.getElementById("answer");
let shown = "";
let asking = null;
let lostAt = null;
let answered = "";
let again = null;

/** Tells something in the header; what is told again is not announced again. */
function tell(text, isTrouble) {
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("trouble", Boolean(isTrouble));
}

/** Puts markup of the server in place of what an element holds; scripts in it would not run. */
function put(element, markup) {
  const parsed = new DOMParser().parseFromString(markup, "text/html");
  element.replaceChildren(...parsed.body.childNodes);
}

/** Whether somebody is about to click, or writes, or selects, in what would be replaced. */
function isHeld() {
  const selection = document.getSelection();
  const isSelecting = selection && !selection.isCollapsed && live.contains(selection.anchorNode);
  const inside = live.contains(document.activeElement) ? document.activeElement : null;
  const isWriting = inside && inside.matches("input, textarea, [data-hold] *");
  return Boolean(isSelecting || isWriting || live.querySelector("[data-hold]:hover"));
}

/** What finds the same element again after a replacement. */
function nameOf(element) {
  if (!element || !live.contains(element)) return null;
  const alike = [...live.querySelectorAll(element.tagName)];
  return { tag: element.tagName, place: alike.indexOf(element) };
}

function replace(markup) {
  const focus = nameOf(document.activeElement);
  const [x, y] = [window.scrollX, window.scrollY];
  const wide = [...live.querySelectorAll(".snb-wide")].map((each) => each.scrollLeft);
  put(live, markup);
  live.querySelectorAll(".snb-wide").forEach((each, n) => { each.scrollLeft = wide[n] || 0; });
  const again = focus && live.querySelectorAll(focus.tag)[focus.place];
  if (again) again.focus({ preventScroll: true });
  window.scrollTo(x, y);
}

/** Asks for what is new, and shows it unless it is the same or somebody is at it. */
async function refresh() {
  if (asking) asking.abort();
  const mine = (asking = new AbortController());
  const late = setTimeout(() => mine.abort("late"), 10000);
  try {
    const response = await fetch(live.dataset.live, { signal: mine.signal, cache: "no-store" });
    if (response.status === 401) {
      location.assign("/page/login");
      return;
    }
    if (!response.ok) throw new Error(await reason(response));
    const markup = await response.text();
    if (lostAt) tell("Connected again.", false);
    lostAt = null;
    if (markup === shown || isHeld()) return;
    replace(markup);
    shown = markup;
  } catch (error) {
    if (mine.signal.aborted && mine.signal.reason !== "late") return; // another question is under way
    lostAt = lostAt || new Date();
    tell(`Connection lost at ${lostAt.toLocaleTimeString()}; trying again.`, true);
  } finally {
    clearTimeout(late);
    if (asking === mine) asking = null;
  }
}

async function reason(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).detail || text;
  } catch {
    return text || `status ${response.status}`;
  }
}

/** Sends a form, and shows what is answered; an answer that is not there yet is asked for again. */
async function send(form, fields) {
  clearTimeout(again);
  form.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(form.action, { method: "POST", body: fields, headers: { "X-Live": "1" } });
    if (!response.ok) throw new Error(await reason(response));
    const markup = await response.text();
    if (markup !== answered) put(answer, markup); // or it would be read out at each try
    answered = markup;
    if (answer.querySelector("[data-again]")) again = setTimeout(() => send(form, fields), EVERY / 2);
    tell("", false);
  } catch (error) {
    tell(`Not done: ${error.message}`, true);
  } finally {
    form.removeAttribute("aria-busy");
  }
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-send]")) return;
  event.preventDefault();
  send(event.target, new URLSearchParams(new FormData(event.target, event.submitter)));
});

const search = document.querySelector("[data-search]");
if (search) {
  let waiting = null;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const asked = new URLSearchParams(new FormData(search)).toString();
      live.dataset.live = `/page/events/live?${asked}`;
      history.replaceState(null, "", `/page/events?${asked}`);
      refresh();
    }, 150);
  });
}

const here = document.querySelector("nav [aria-current]");
if (here) here.scrollIntoView({ inline: "center", block: "nearest" });
if (live) setInterval(() => { if (!document.hidden && !asking) refresh(); }, EVERY);
