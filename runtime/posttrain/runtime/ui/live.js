// Receives the blocks of the page that changed, and replaces them; follows the log of a stage.
"use strict";
(() => {
  const connection = document.getElementById("connection");
  const outside = ["summary", "stop", "now", "navigation"];
  let revision = document.body.dataset.revision;
  let stream = null;
  let order = null;
  const pending = new Map();

  function say(text) {
    if (connection && connection.textContent !== text) connection.textContent = text;
  }

  // A block that the user works with is replaced later: a chart under the pointer, a search, selected text.
  function inUse(block) {
    if (block.querySelector(".chart:hover, .chart:focus-within")) return true;
    const active = document.activeElement;
    if (active !== document.body && block.contains(active) && active.matches("input, select")) return true;
    const selection = document.getSelection();
    return !selection.isCollapsed && block.contains(selection.anchorNode);
  }

  function filtered(block) {
    return [...block.querySelectorAll("#browse input, #browse select")].some((field) => field.value);
  }

  function openFolds(block) {
    return new Set(
      [...block.querySelectorAll("details")].flatMap((fold, index) => (fold.open ? [fold.id || index] : [])),
    );
  }

  function restoreFolds(block, open) {
    block.querySelectorAll("details").forEach((fold, index) => {
      if (open.has(fold.id || index)) fold.open = true;
    });
  }

  function checkedRuns(block) {
    return new Set([...block.querySelectorAll("input[name=run]:checked")].map((box) => box.value));
  }

  function scrolled(block) {
    return [...block.querySelectorAll(".scroll, .tall, .map")].map((frame) => [frame.scrollLeft, frame.scrollTop]);
  }

  function replace(name, html) {
    const parsed = new DOMParser().parseFromString(html, "text/html").getElementById(name);
    const old = document.getElementById(name);
    if (!parsed) return;
    const fresh = document.importNode(parsed, true);
    if (old) {
      const open = openFolds(old);
      const places = scrolled(old);
      const checked = checkedRuns(old);
      old.replaceWith(fresh);
      window.posttrain.enhance(fresh); // before the folds: it adds some
      restoreFolds(fresh, open);
      for (const box of fresh.querySelectorAll("input[name=run]")) box.checked = checked.has(box.value);
      fresh.querySelectorAll(".scroll, .tall, .map").forEach((frame, index) => {
        if (places[index]) [frame.scrollLeft, frame.scrollTop] = places[index];
      });
    } else {
      insert(name, fresh);
      window.posttrain.enhance(fresh);
    }
    fresh.dispatchEvent(new CustomEvent("blockreplaced", { bubbles: true }));
  }

  function insert(name, fresh) {
    const place = order.indexOf(name);
    const next = order.slice(place + 1).map((one) => document.getElementById(one)).find(Boolean);
    const main = document.getElementById("content");
    if (outside.includes(name)) main.before(fresh);
    else if (next && main.contains(next)) next.before(fresh);
    else main.append(fresh);
  }

  function flush() {
    for (const [name, html] of pending) {
      const old = document.getElementById(name);
      if (old && inUse(old)) continue;
      if (name === "samples" && old && filtered(old)) continue;
      pending.delete(name);
      replace(name, html);
    }
  }

  function receive(event) {
    const update = JSON.parse(event.data);
    order = update.order;
    revision = event.lastEventId;
    for (const name of Object.keys(update.blocks)) {
      pending.delete(name);
      pending.set(name, update.blocks[name]);
    }
    for (const block of document.querySelectorAll("main > section")) {
      if (block.id && !order.includes(block.id)) block.remove();
    }
    flush();
    say("live");
  }

  function connect() {
    const query = new URLSearchParams(location.search);
    query.set("after", revision);
    stream = new EventSource(`events?${query}`);
    stream.addEventListener("blocks", receive);
    let isFull = false;
    stream.addEventListener("full", () => {
      isFull = true;
      say("Too many pages of this server are open: this one waits. Close some.");
    });
    stream.addEventListener("open", () => {
      isFull = false;
      // A server that has no room says so at once.
      setTimeout(() => !isFull && stream.readyState === EventSource.OPEN && say("live"), 300);
    });
    stream.addEventListener("error", () => {
      if (stream.readyState !== EventSource.CLOSED) {
        if (!isFull) say("reconnecting\u2026");
        return;
      }
      say("The server has ended, or was started again with another address.");
      setTimeout(reconnect, 5000);
    });
  }

  function reconnect() {
    if (stream && stream.readyState === EventSource.CLOSED && !document.hidden) connect();
  }

  // A hidden page needs no updates. A browser opens few connections to one server, which visible pages need.
  function follow() {
    if (document.hidden) {
      stream.close();
      say("paused");
    } else if (stream.readyState === EventSource.CLOSED) {
      connect();
    }
  }

  const log = { step: null, next: -1, busy: false, again: false, limit: 400000 };

  async function readLog() {
    const choice = document.getElementById("log-step");
    const shown = document.getElementById("log-text");
    if (!choice || !shown) return;
    if (log.busy) {
      log.again = true;
      return;
    }
    log.busy = true;
    try {
      do {
        log.again = false;
        if (log.step !== choice.value) {
          log.step = choice.value;
          log.next = -1;
          shown.textContent = "";
        }
        const query = new URLSearchParams({ step: log.step });
        if (log.next >= 0) query.set("start", log.next);
        const answer = await fetch(`log?${query}`);
        if (!answer.ok) break;
        const found = await answer.json();
        if (log.step !== choice.value) continue;
        showLog(shown, found);
        log.again = log.again || (found.text !== "" && log.next < found.size);
      } while (log.again || log.step !== choice.value);
    } catch {
      // The server is gone: the stream says so.
    } finally {
      log.busy = false;
    }
  }

  function showLog(shown, found) {
    if (found.problem) {
      shown.textContent = found.problem;
      log.next = -1;
      return;
    }
    const atEnd = shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 20;
    const text = (log.next < 0 ? "" : shown.textContent) + found.text;
    log.next = found.next;
    shown.textContent = text.length > log.limit ? text.slice(text.indexOf("\n", text.length - log.limit) + 1) : text;
    if (atEnd) shown.scrollTop = shown.scrollHeight;
  }

  document.addEventListener("change", (event) => {
    if (event.target.id === "log-step") readLog();
    if (event.target.form && event.target.form.id === "filter" && event.target.matches("select")) {
      event.target.form.requestSubmit();
    }
  });
  document.addEventListener("blockreplaced", (event) => {
    if (event.target.id === "logs") {
      const choice = document.getElementById("log-step");
      if (log.step && [...choice.options].some((option) => option.value === log.step)) choice.value = log.step;
      log.step = null;
      readLog();
    }
    if (event.target.id === "log-sizes") {
      const sizes = JSON.parse(event.target.textContent);
      if (log.step in sizes && sizes[log.step] !== log.next) readLog();
    }
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "stop-form") return;
    event.preventDefault();
    if (!confirm("Stop this run at its next checkpoints? `recipe run` resumes it.")) return;
    fetch("stop", { method: "POST" }).then(async (answer) => {
      if (!answer.ok) say(await answer.text());
    });
  });
  document.addEventListener("visibilitychange", follow);
  setInterval(flush, 1000);
  connect();
  readLog();
})();
