"use strict";
// Fetches what changes every two seconds; keeps focus, scroll and what is open; sends forms without leaving the page.

const EVERY = 2000;
const DOUBLE = 500; // milliseconds within which two clicks may be one double click
const SAME = 1000; // in which a second click on one event does nothing
const NEW = 400; // in which nobody can have seen that the list is another one
const KEPT = 10000; // for so long what was clicked stands over what the server has read so far
const TOLD = 6000;
const live = document.getElementById("live");
const status = document.getElementById("status");
const answer = document.getElementById("answer");
const toast = document.getElementById("toast");
const said = new Map(); // id as JSON -> the label that was clicked, as JSON and as text, and when
let isKey = false; // a key of the review labels at this moment
const undos = []; // forms that undo labels of this visit, oldest first
let shown = live ? live.innerHTML : ""; // as the server made it, before a click changed it
let asking = null;
let lostAt = null;
let answered = "";
let again = null;
let changedAt = -Infinity;
let clickedAt = -Infinity;
let troubledAt = -Infinity; // when a click was refused last
let clicks = 0; // of the present double click; 0 is a key
let hiding = null;

/** Tells something in the header; what is told again is not announced again. */
function tell(text, isTrouble) {
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("trouble", Boolean(isTrouble));
}

/** What markup of the server holds; scripts in it would not run. */
function parsed(markup) {
  return new DOMParser().parseFromString(markup, "text/html").body;
}

/** Whether somebody is about to click, or writes, or selects, in what would be replaced. */
function isHeld() {
  const selection = document.getSelection();
  const isSelecting = selection && !selection.isCollapsed && live.contains(selection.anchorNode);
  const inside = live.contains(document.activeElement) ? document.activeElement : null;
  const isWriting = inside && inside.matches("input, textarea, [data-hold] *");
  return Boolean(isSelecting || isWriting || live.querySelector("[data-hold]:hover, [data-hold] input:checked"));
}

/** What finds the same element again after a replacement. */
function nameOf(element) {
  if (!element || !live.contains(element)) return null;
  const alike = [...live.querySelectorAll(element.tagName)];
  return { tag: element.tagName, place: alike.indexOf(element) };
}

function replace(made) {
  const focus = nameOf(document.activeElement);
  const [x, y] = [window.scrollX, window.scrollY];
  const wide = [...live.querySelectorAll(".snb-wide")].map((each) => each.scrollLeft);
  const open = [...live.querySelectorAll("details")].map((each) => each.open);
  live.replaceChildren(...made.childNodes);
  live.querySelectorAll("details").forEach((each, n) => { each.open = open[n] ?? each.open; });
  live.querySelectorAll(".snb-wide").forEach((each, n) => { each.scrollLeft = wide[n] || 0; });
  live.querySelectorAll("[data-event]").forEach(turn);
  takeValues(live);
  localize(live);
  cross();
  changedAt = performance.now();
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
    const made = parsed(await response.text());
    const strip = made.querySelector("#strip");
    if (strip) document.getElementById("strip").replaceWith(strip);
    if (lostAt) tell("Connected again.", false);
    lostAt = null;
    const markup = made.innerHTML;
    if (markup === shown || isHeld()) return;
    replace(made);
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
    if (markup !== answered) answer.replaceChildren(...parsed(markup).childNodes); // or it would be read out at each try
    answered = markup;
    if (fields.has("sure")) live.querySelectorAll("[data-hold] input:checked").forEach((each) => { each.checked = false; });
    if (answer.querySelector("[data-again]")) again = setTimeout(() => send(form, fields), EVERY / 2);
    tell("", false);
  } catch (error) {
    tell(`Not done: ${error.message}`, true);
  } finally {
    form.removeAttribute("aria-busy");
  }
}

/** Shows what came of a click, over the page: nothing may move under a pointer. */
function show(text, isTrouble, near) {
  const line = document.createElement("div");
  line.className = isTrouble ? "trouble" : "done";
  line.append(...(Array.isArray(text) ? text : [text]));
  toast.classList.toggle("above", near.getBoundingClientRect().top > window.innerHeight / 2);
  // What was refused a moment ago must not vanish under the confirmation of the click before it.
  const refused = !isTrouble && performance.now() - troubledAt < TOLD && toast.querySelector(".trouble");
  if (isTrouble) troubledAt = performance.now();
  toast.replaceChildren(...(refused ? [refused] : []), line);
  clearTimeout(hiding);
  if (!isTrouble) hiding = setTimeout(() => toast.replaceChildren(), TOLD);
}

/** A text whose direction changes nothing around it. */
function isolated(text) {
  const made = document.createElement("bdi");
  made.append(text);
  return made;
}

function idOf(row) {
  return row.querySelector("[name=id_json]")?.value;
}

/** Lets the row of an event show the label that was clicked of late; else it stays as the server made it. */
function turn(row) {
  const clicked = said.get(idOf(row));
  if (!clicked || performance.now() - clicked.at > KEPT) return;
  const shown = row.querySelector(".tag");
  shown.className = clicked.isWritten ? "tag said" : "tag said pending";
  shown.replaceChildren("said: ", isolated(clicked.text));
  shown.title = `said: ${clicked.text}`;
  press(row, clicked.label);
}

/** Marks the button of the label that is in force; none of undefined. */
function press(row, label) {
  row.querySelectorAll("button[name=label_json]").forEach((each) => {
    if (each.value === label) each.setAttribute("aria-pressed", "true");
    else each.removeAttribute("aria-pressed");
  });
}

/** Why a click is not taken for one; empty where it is, null where nothing is to be told. */
function refusal(id, label, now, button) {
  const before = said.get(id);
  if (before && (now - before.at < SAME || (before.label === label && now - before.at < KEPT))) return null;
  if (!button) return ""; // a label that was typed is of the event that it was typed for
  if (clicks > 1) return null;
  if (!isKey && now - clickedAt < DOUBLE) return "Nothing was written: this click came at once after another one.";
  if (button.closest(".rows") && now - changedAt < NEW) return "Nothing was written: the list had just changed. Look again, then click.";
  return "";
}

/** Writes the label that was clicked: once, however often it is clicked. */
async function say(form, button) {
  const row = form.closest("[data-event]");
  const id = idOf(row);
  const isTyped = button?.name !== "label_json";
  const label = isTyped ? JSON.stringify(form.elements.label.value) : button.value;
  const now = performance.now();
  const why = refusal(id, label, now, isTyped ? null : button);
  if (why) show(why, true, form);
  if (why !== "") return;
  const before = row.querySelector(".tag").cloneNode(true);
  const pressed = row.querySelector("[aria-pressed=true]")?.value;
  const clicked = { label, text: isTyped ? "..." : JSON.parse(label), at: now, isWritten: false };
  said.forEach((each, key) => { if (now - each.at > KEPT) said.delete(key); });
  const earlier = said.get(id);
  said.set(id, clicked);
  clickedAt = now;
  const rows = () => [...document.querySelectorAll("[data-event]")].filter((each) => idOf(each) === id);
  rows().forEach(turn);
  try {
    const fields = new URLSearchParams(new FormData(form, button));
    const response = await fetch(form.action, { method: "POST", body: fields, headers: { "X-Live": "1" } });
    if (!response.ok) throw new Error(await reason(response));
    const told = parsed(await response.text()).firstElementChild;
    clicked.isWritten = true;
    clicked.text = told.querySelectorAll("bdi")[1].textContent; // escaped by the server, unlike what was typed
    rows().forEach(turn);
    const undo = told.querySelector(".undo");
    if (undo) undos.push(undo.cloneNode(true));
    show([...told.childNodes], false, form);
  } catch (error) {
    if (said.get(id) === clicked) {
      said.delete(id);
      rows().forEach((each) => {
        each.querySelector(".tag").replaceWith(before.cloneNode(true));
        press(each, pressed);
      });
      if (earlier) said.set(id, earlier);
      rows().forEach(turn);
    }
    show(["Not written: ", isolated(error.message)], true, form);
  }
}

/** Restores the label that the page had given before, and shows it on the event's row. */
async function undo(form) {
  const id = form.dataset.id;
  const mine = undos.findIndex((each) => each.elements.undo.value === form.elements.undo.value);
  if (mine >= 0) undos.splice(mine, 1);
  const row = [...document.querySelectorAll("[data-event]")].find((each) => idOf(each) === id);
  try {
    const response = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "X-Live": "1" } });
    if (!response.ok) throw new Error(await reason(response));
    const told = parsed(await response.text()).firstElementChild;
    said.delete(id);
    if (row) {
      const before = form.dataset.before;
      const mark = row.querySelector(".tag");
      mark.className = "tag";
      mark.textContent = before === "null" ? "label undone" : `said: ${JSON.parse(before)}`;
      press(row, before);
      row.focus();
    }
    show([...told.childNodes], false, row || toast);
  } catch (error) {
    show(["Not undone: ", isolated(error.message)], true, row || toast);
  }
}

const zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName").value;
const isUtc = new Date().getTimezoneOffset() === 0;

/** The reader's time in the form of a time in UTC: with its date if that has one, with its seconds likewise. */
function localTime(seconds, form) {
  const date = new Date(seconds * 1000);
  const two = (n) => String(n).padStart(2, "0");
  const day = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
  const parts = [];
  if (/^\d{4}-/.test(form)) parts.push(`${date.getFullYear()}-${day}`);
  else if (/^\d\d-\d\d/.test(form)) parts.push(day);
  if (form.includes(":")) parts.push(/:\d\d:/.test(form) ? `${clock}:${two(date.getSeconds())}` : clock);
  return parts.join(" ");
}

/** Adds the reader's own time to each time in UTC; charts have a line left for it. */
function localize(root) {
  if (isUtc) return;
  root.querySelectorAll("text[data-seconds]").forEach((each) => {
    const own = each.cloneNode(false);
    own.textContent = localTime(Number(each.dataset.seconds), each.textContent);
    own.setAttribute("y", Number(each.getAttribute("y")) + 15);
    own.classList.add("local");
    each.after(own);
  });
  root.querySelectorAll("time[data-seconds]").forEach((each) => { each.title = `${localTime(Number(each.dataset.seconds), each.textContent)} ${zone}`; });
}

let crossed = null; // share of the width at which all charts show their values
let tipped = []; // what the crosshair has added

/** The columns of values of a chart. */
function columns(chart) {
  return [...chart.querySelectorAll(".told")];
}

/** Shows the values of all charts of the view at one place of the axis, or of none. */
function cross() {
  tipped.forEach((each) => each.remove());
  tipped = [];
  if (crossed === null) return "";
  const told = [];
  live.querySelectorAll(".snb-plot:has(.told)").forEach((chart) => {
    const starts = columns(chart).map((each) => parseFloat(each.getAttribute("x")));
    if (!starts.length) return;
    const before = starts.findLastIndex((start) => start <= 100 * crossed);
    const after = before + 1 < starts.length && starts[before + 1] - 100 * crossed < 100 * crossed - (starts[before] ?? -Infinity);
    const column = columns(chart)[Math.max(0, after ? before + 1 : before)];
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const box = column.getAttribute("x");
    [["x1", box], ["x2", box], ["y1", 8], ["y2", 8 + Number(column.getAttribute("height"))], ["class", "cross"]].forEach(([name, value]) => line.setAttribute(name, value));
    const [at, ...values] = (column.dataset.values ?? "").split("\n");
    const own = isUtc || !column.dataset.seconds ? "" : ` UTC, ${localTime(Number(column.dataset.seconds), at)} ${zone}`;
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.textContent = [at.replace(/^at /, "") + own, ...values].join("\n");
    const [plot, frame] = [chart, chart.parentElement].map((each) => each.getBoundingClientRect());
    const left = plot.left - frame.left + crossed * plot.width;
    tip.style[crossed > 0.5 ? "right" : "left"] = `${(crossed > 0.5 ? frame.width - left : left) + 6}px`;
    chart.append(line);
    chart.parentElement.append(tip);
    tipped.push(line, tip);
    told.push(tip.textContent);
  });
  return told.join(". ");
}

/** Moves the tooltips of columns to where the crosshair reads them: one pointer, one box of values. */
function takeValues(root) {
  root.querySelectorAll(".told title").forEach((each) => {
    each.parentElement.dataset.values = each.textContent;
    each.remove();
  });
  root.querySelectorAll(".snb-plot:has(.told)").forEach((each) => {
    each.setAttribute("tabindex", "0");
  });
}

function crossAt(event) {
  const chart = event.target.closest?.(".snb-plot:has(.told)");
  const was = crossed;
  const box = chart?.getBoundingClientRect();
  crossed = box ? Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) : null;
  if (crossed !== was) cross();
}

if (live) {
  takeValues(live);
  localize(document);
  const label = document.querySelector(".zone");
  if (label) label.textContent = isUtc ? "UTC, which is your time" : `UTC above, ${zone} below`;
  live.addEventListener("pointermove", crossAt);
  live.addEventListener("pointerleave", crossAt);
  live.addEventListener("focusout", () => { crossed = null; cross(); });
  live.addEventListener("keydown", (event) => {
    const chart = event.target.closest(".snb-plot:has(.told)");
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!chart || !step) return;
    event.preventDefault();
    const starts = columns(chart).map((each) => parseFloat(each.getAttribute("x")) / 100);
    const at = crossed === null ? (step > 0 ? -1 : starts.length) : starts.findLastIndex((start) => start <= crossed + 1e-9);
    crossed = starts[Math.min(starts.length - 1, Math.max(0, at + step))] + 1e-6;
    tell(cross(), false);
  });
}

const review = document.querySelector("[data-review]");

const STOPS = "[data-event], .more"; // where the focus goes: cards, and the link below them

/** The card that has the focus, or the first one. */
function card() {
  return document.activeElement?.closest(`[data-review] :is(${STOPS})`) || review.querySelector(STOPS);
}

function move(step) {
  const cards = [...review.querySelectorAll(STOPS)];
  const next = cards[Math.min(cards.length - 1, Math.max(0, cards.indexOf(card()) + step))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "start" }); // the eyes stay where they are
}

const keys = {
  n: () => move(1),
  p: () => move(-1),
  u: () => { if (undos.length) undo(undos[undos.length - 1]); else show("There is nothing to undo.", true, card()); },
  o: () => { const fold = card().querySelector(".fold"); if (fold) fold.open = !fold.open; },
  h: () => sessionStorage.setItem("private", document.body.classList.toggle("private") ? "1" : ""),
  r: () => location.reload(),
  "/": () => card().querySelector("input[name=label]")?.focus(),
};

document.body.classList.toggle("private", Boolean(sessionStorage.getItem("private"))); // also in the next queue
if (review) {
  card().focus({ preventScroll: true });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
    if (event.target.matches("input, textarea, select")) {
      if (event.key === "Escape") event.target.closest("[data-event]")?.focus();
      return;
    }
    const choice = /^[1-9]$/.test(event.key) && card().querySelectorAll("button[name=label_json]")[event.key - 1];
    if (!choice && !keys[event.key]) return;
    event.preventDefault();
    if (!choice) return keys[event.key]();
    isKey = true; // a key is pressed on purpose, unlike the second click of a double click
    choice.click();
    isKey = false;
    move(1);
  });
}

document.addEventListener("click", (event) => { clicks = event.detail; }, true);
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-send]")) return;
  event.preventDefault();
  if (form.matches(".undo")) undo(form);
  else if (form.matches(".say")) {
    say(form, event.submitter);
    if (review && document.activeElement.matches("input")) move(1); // Enter after a typed class
  }
  else if (!form.hasAttribute("aria-busy")) send(form, new URLSearchParams(new FormData(form, event.submitter)));
});

const search = document.querySelector("[data-search]");
if (search) {
  let waiting = null;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const asked = new URLSearchParams([...new FormData(search)].filter(([, value]) => value)).toString();
      const path = search.getAttribute("action");
      live.dataset.live = `${path}/live?${asked}`;
      history.replaceState(null, "", `${path}?${asked}`);
      refresh();
    }, 150);
  });
}

const here = document.querySelector(".views [aria-current]");
if (here) here.scrollIntoView({ inline: "center", block: "nearest" });
if (live) setInterval(() => { if (!document.hidden && !asking) refresh(); }, EVERY);

// A wall screen shows one view after another; the space bar stops it.
const wall = document.documentElement.dataset;
let isStopped = false;

async function turnWall() {
  if (isStopped || document.hidden) return;
  try {
    const response = await fetch(wall.next, { cache: "no-store" });
    if (!response.ok) return;
    const made = new DOMParser().parseFromString(await response.text(), "text/html");
    const view = made.getElementById("live");
    if (asking) asking.abort(); // it asks for the view before
    live.dataset.live = view.dataset.live;
    shown = view.innerHTML;
    document.querySelector("h1").textContent = made.querySelector("h1").textContent;
    document.title = made.title;
    replace(view);
    wall.next = made.documentElement.dataset.next;
    window.scrollTo(0, 0);
  } catch {
    // The view stays, and its refresh says that the connection is lost.
  }
}

if (wall.next) {
  setInterval(turnWall, wall.seconds * 1000);
  document.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    isStopped = !isStopped;
    tell(isStopped ? "Stopped; the space bar goes on." : "", false);
  });
}
