"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const DAY = 86400000;
  const PARKED_SHOWN = 100;
  const STATES = {
    parked: ["Parked", "✕", "set aside until new files come or somebody replays it"],
    held: ["Held", "‖", "put off for a while after a failure or a guard"],
    dirty: ["Dirty", "•", "marked, not begun"],
    building: ["Building", "▸", "a batch is in progress"],
    clean: ["Built", "", "as the files say"],
  };
  const OUTCOMES = { committed: "committed", unchanged: "nothing had changed", parked: "parked", given_up: "given up, begun anew" };
  const RANGES = { "24 hours": 1, "7 days": 7, "30 days": 30 };
  const filter = { dataset: "", states: new Set(Object.keys(STATES)), days: 7 };

  const $ = (id) => document.getElementById(id);
  // Whatever is shown goes through textContent and setAttribute: no key and no message is ever read as HTML.
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value === null || value === undefined) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "style") Object.assign(element.style, value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  const fill = (id, ...children) => $(id).replaceChildren(...children);
  const number = (n) => n.toLocaleString("en-US");
  const many = (n, one, more = one + "s") => `${number(n)} ${n === 1 ? one : more}`;
  const time = (at) => new Date(at).toISOString().slice(0, 16).replace("T", " ") + " UTC";
  const length = (seconds) => {
    if (seconds < 120) return `${Math.round(seconds)} s`;
    if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
    return `${Math.round(seconds / 86400)} days`;
  };
  // Cut, not rounded: 100 % is all of them.
  const percent = (part, whole, digits = 1) => {
    const factor = 100 * 10 ** digits;
    return `${(Math.floor((part / whole) * factor + 1e-6) / 10 ** digits).toFixed(digits)} %`;
  };
  const sum = (list, of) => list.reduce((total, item) => total + of(item), 0);

  const tip = $("tip");
  const show = (event, text) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = event.currentTarget.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 8 ? above : box.bottom + 8}px`;
  };
  const hide = () => { tip.hidden = true; };
  const telling = (text) => ({
    "aria-label": text,
    onmouseenter: (event) => show(event, text), onmouseleave: hide,
    onfocus: (event) => show(event, text), onblur: hide,
    onclick: (event) => show(event, text),
  });
  addEventListener("scroll", hide, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  const datasets = () => data.datasets.filter((dataset) => !filter.dataset || dataset.name === filter.dataset);
  const swatch = (state) => make("span", { class: `swatch ${state}`, "aria-hidden": "true" }, STATES[state][1]);

  const filters = () => {
    const all = make("option", { value: "" }, `all ${data.datasets.length}`);
    fill("dataset", all, ...data.datasets.map((dataset) => make("option", { value: dataset.name }, dataset.name)));
    $("dataset").addEventListener("change", (event) => { filter.dataset = event.target.value; render(); });
    fill("ranges", ...Object.entries(RANGES).map(([name, days]) => make("button", {
      class: "chip", type: "button", "data-days": days, onclick: () => { filter.days = days; render(); },
    }, name)));
    const legend = [...Object.entries(OUTCOMES), ["recovered", "recovered after its worker died"]];
    fill("outcomes", ...legend.map(([name, words]) => make("span", {}, make("i", { class: name }), words)));
  };

  const stateChips = () => {
    const partitions = datasets().flatMap((dataset) => dataset.partitions);
    fill("states", ...Object.entries(STATES).map(([state, [name, , meaning]]) => make("button", {
      class: "chip", type: "button", title: meaning, "data-state": state, "aria-pressed": String(filter.states.has(state)),
      onclick: () => {
        if (!filter.states.delete(state)) filter.states.add(state);
        render();
        document.querySelector(`[data-state="${state}"]`).focus();
      },
    }, swatch(state), name, make("b", {}, number(partitions.filter((p) => p.state === state).length)))));
  };

  const tile = (value, label, more, bad) =>
    make("div", { class: `tile ${bad || ""}` }, make("strong", {}, value), make("span", {}, label), make("span", { class: "faint" }, more || ""));

  const summary = () => {
    const chosen = datasets();
    const partitions = chosen.flatMap((dataset) => dataset.partitions);
    const inState = (state) => partitions.filter((p) => p.state === state).length;
    const parked = inState("parked");
    const waiting = inState("dirty") + inState("building") + inState("held");
    const halted = chosen.filter((dataset) => dataset.mode === "halted");
    const rows = sum(partitions, (p) => p.rows || 0);
    fill("summary",
      tile(number(chosen.length), chosen.length === 1 ? "dataset" : "datasets", halted.length ? `${halted.length} halted` : "none halted", halted.length > 0 && "note-bad"),
      tile(number(partitions.length), partitions.length === 1 ? "partition" : "partitions", `${number(rows)} rows`),
      tile(number(waiting), "waiting or at work", waiting ? "dirty, building or held" : "nothing waits"),
      tile(number(parked), "parked", parked ? "for somebody to look at" : "nobody is needed", parked > 0 && "bad"));
  };

  const parkedList = () => {
    const cards = datasets().flatMap((dataset) => dataset.partitions.filter((p) => p.parked).map((p) => [dataset, p]));
    const shown = filter.states.has("parked") ? cards : [];
    shown.sort((a, b) => (b[1].parked.since || 0) - (a[1].parked.since || 0));
    $("parked-section").hidden = shown.length === 0;
    const more = shown.length - PARKED_SHOWN;
    fill("parked", ...shown.slice(0, PARKED_SHOWN).map(([dataset, p]) => make("div", { class: "card" },
      make("div", { class: "head" },
        make("strong", {}, `${dataset.name} ${p.name}`),
        make("span", { class: "kind" }, p.parked.kind),
        p.parked.since ? make("span", { class: "faint" }, `since ${time(p.parked.since)}`) : null),
      make("p", {}, p.parked.message),
      make("p", { class: "faint" }, "Look: ", make("code", {}, `tidemark show ${dataset.name} ${quoted(p.name)}`)))),
      more > 0 ? make("p", { class: "faint note" }, `and ${number(more)} more, older ones`) : "");
  };
  const quoted = (text) => (/^[\w=.:\/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

  const told = (p) => {
    const lines = [`${p.name}: ${STATES[p.state][0].toLowerCase()}`];
    lines.push(p.rows === null ? "nothing was committed yet" : many(p.rows, "row"));
    if (p.committed_at) lines.push(`committed ${time(p.committed_at)}`);
    if (p.parked) lines.push(`${p.parked.kind}: ${p.parked.message}`);
    return lines.join("\n");
  };
  const order = Object.keys(STATES);
  const worst = (partitions) => order.find((state) => partitions.some((p) => p.state === state));
  const toldAll = (day, partitions) => {
    if (partitions.length === 1) return told(partitions[0]);
    const counts = order.map((state) => [state, partitions.filter((p) => p.state === state).length]).filter(([, n]) => n);
    const lines = [day, `${number(partitions.length)} partitions, ${many(sum(partitions, (p) => p.rows || 0), "row")}`];
    lines.push(counts.map(([state, n]) => `${n} ${STATES[state][0].toLowerCase()}`).join(", "));
    lines.push(...partitions.filter((p) => p.parked).slice(0, 3).map((p) => `${p.name}: ${p.parked.kind}`));
    return lines.join("\n");
  };
  const square = (label, text, partitions, today) => {
    const state = worst(partitions);
    const out = !partitions.some((p) => filter.states.has(p.state));
    const classes = ["day", state, out && "out", today && "today"].filter(Boolean).join(" ");
    return make("button", { class: classes, type: "button", ...telling(text) }, label, STATES[state][1] ? make("i", { "aria-hidden": "true" }, STATES[state][1]) : null);
  };
  const month = (first, days) => {
    const [year, number] = first.split("-").map(Number);
    const name = new Date(Date.UTC(year, number - 1, 1)).toLocaleString("en-US", { month: "long", year: "numeric", timeZone: "UTC" });
    const before = (new Date(Date.UTC(year, number - 1, 1)).getUTCDay() + 6) % 7;
    const last = new Date(Date.UTC(year, number, 0)).getUTCDate();
    const cells = ["M", "T", "W", "T", "F", "S", "S"].map((day) => make("small", { "aria-hidden": "true" }, day));
    for (let blank = 0; blank < before; blank += 1) cells.push(make("span"));
    for (let day = 1; day <= last; day += 1) {
      const date = `${first}-${String(day).padStart(2, "0")}`;
      const partitions = days.get(date);
      const today = date === data.today;
      cells.push(partitions ? square(String(day), toldAll(date, partitions), partitions, today)
        : make("span", { class: today ? "day none today" : "day none" }, String(day)));
    }
    return make("div", { class: "month" }, make("h4", {}, name), make("div", { class: "days" }, ...cells));
  };
  const calendar = () => {
    fill("calendar", ...datasets().map((dataset) => {
      const days = new Map();
      const timeless = [];
      for (const p of dataset.partitions) {
        if (!p.day) timeless.push(p);
        else if (days.has(p.day)) days.get(p.day).push(p);
        else days.set(p.day, [p]);
      }
      const months = [...new Set([...days.keys()].map((day) => day.slice(0, 7)))].sort().reverse();
      const facts = [dataset.target, dataset.mode === "active" ? null : `${dataset.mode}${dataset.why ? `: ${dataset.why}` : ""}`,
        dataset.left_out ? `${many(dataset.left_out, "older partition")} not shown, all built` : null];
      return make("div", { class: "set", "data-set": dataset.name },
        make("h3", {}, dataset.name),
        make("p", { class: "faint" }, facts.filter(Boolean).join(" · ")),
        dataset.partitions.length === 0 ? make("p", { class: "faint" }, "No partition is known yet.") : null,
        make("div", { class: "months" }, ...months.map((first) => month(first, days))),
        timeless.length ? make("div", { class: "flow" }, ...timeless.map((p) => square(p.name, told(p), [p], false))) : null);
    }));
  };

  // Batches that overlap lie in rows one below another.
  const lanes = (batches) => {
    const ends = [];
    return batches.map((batch) => {
      let lane = ends.findIndex((end) => end <= batch.left);
      if (lane < 0) lane = ends.push(0) - 1;
      ends[lane] = batch.left + Math.max(batch.width, 0.6);
      return { ...batch, lane };
    });
  };
  const timeline = () => {
    for (const button of $("ranges").children) button.setAttribute("aria-pressed", String(Number(button.dataset.days) === filter.days));
    const until = data.at;
    const from = until - filter.days * DAY;
    const place = (at) => (100 * (at - from)) / (until - from);
    const rows = datasets().map((dataset) => {
      const shown = dataset.batches.filter((batch) => batch.ended_at >= from && batch.ended_at <= until + DAY)
        .sort((a, b) => a.began_at - b.began_at)
        .map((batch) => ({ ...batch, left: Math.max(0, place(batch.began_at)), width: place(batch.ended_at) - Math.max(0, place(batch.began_at)) }));
      const bars = lanes(shown);
      const high = bars.reduce((most, bar) => Math.max(most, bar.lane + 1), 1);
      return make("div", { class: "lane" }, make("span", { title: dataset.name }, dataset.name),
        make("div", { class: "track", style: { height: `${high * 13 + 1}px` } }, ...bars.map((bar) => make("button", {
          class: `batch ${bar.outcome}${bar.recovered_from ? " recovered" : ""}`, type: "button",
          style: { left: `min(${bar.left}%, calc(100% - 4px))`, width: `${Math.max(0, bar.width)}%`, top: `${bar.lane * 13 + 2}px` },
          ...telling(batchTold(bar)),
        }))));
    });
    const format = filter.days === 1 ? (at) => new Date(at).toISOString().slice(11, 16) : (at) => new Date(at).toISOString().slice(5, 10);
    const steps = { 1: 6, 7: 7, 30: 6 }[filter.days];
    const ticks = Array.from({ length: steps + 1 }, (_, step) => step / steps).map((share) => make("span", { style: { left: `${100 * share}%` } }, format(from + share * (until - from))));
    fill("timeline", ...rows, make("div", { class: "lane" }, make("span"), make("div", { class: "axis" }, ...ticks)));
  };
  const batchTold = (batch) => [
    `${batch.partition}: ${OUTCOMES[batch.outcome]}`,
    `${time(batch.began_at)}, took ${length((batch.ended_at - batch.began_at) / 1000)}`,
    batch.rows === null ? null : many(batch.rows, "row"),
    batch.why,
    batch.recovered_from ? `its worker died; found ${batch.recovered_from.replaceAll("_", " ")}` : null,
    `batch ${batch.id}`,
  ].filter(Boolean).join("\n");

  const windowWords = (seconds) => {
    const parts = [[86400, "d"], [3600, "h"], [60, "m"]].map(([size, unit], at, sizes) => {
      const n = Math.floor((at ? seconds % sizes[at - 1][0] : seconds) / size);
      return n ? `${n}${unit}` : "";
    });
    return parts.filter(Boolean).join(" ") || "0";
  };
  const arrivals = () => {
    const chosen = datasets();
    fill("arrivals", ...chosen.map((dataset) => {
      const head = [make("h3", {}, dataset.name)];
      if (dataset.arrivals.error) return make("div", { class: "set" }, ...head, make("p", { class: "faint note" }, `Not known: ${dataset.arrivals.error}`));
      const { spans, lookback_seconds: lookback, files } = dataset.arrivals;
      if (!files) return make("div", { class: "set" }, ...head, make("p", { class: "faint note" }, "No file of a committed batch is known yet."));
      const most = Math.max(...spans.map((span) => span.files));
      let caught = 0;
      let marked = !lookback;
      let from = 0;
      const cells = ["came", "", "files", "caught"].map((word, at) => make("span", { class: `heading ${at > 1 ? "n" : ""} ${at === 2 ? "files" : ""}` }, word));
      const mark = () => {
        marked = true;
        cells.push(make("span", { class: "window" }, `lookback ${windowWords(lookback)}`));
      };
      for (const span of spans) {
        const end = span.before_seconds;
        if (!marked && (end === null || end > lookback)) mark();
        caught += span.files;
        const label = end === 0 ? "before the end" : end === null ? `after ${windowWords(from)}` : `within ${windowWords(end)}`;
        const kind = end === 0 ? "" : lookback && (end === null || end > lookback) ? "outside" : "late";
        from = end;
        cells.push(make("span", {}, label),
          make("div", { class: `bar ${kind} ${span.files ? "" : "zero"}`, style: { width: `${(100 * span.files) / most}%` }, ...telling(`${label}: ${many(span.files, "file")}`) }),
          make("span", { class: "n files" }, number(span.files)),
          make("span", { class: "n" }, percent(caught, files, 2)));
      }
      if (!marked) mark();
      const missed = dataset.arrivals.missed_by_lookback;
      const note = lookback === null || lookback === undefined ? `${many(files, "file")}.` : `${many(files, "file")}; ${missed ? `${many(missed, "file")} came when lookback no longer reached the partition: they were built by their events alone.` : "lookback reached every one."}`;
      return make("div", { class: "set" }, ...head, make("div", { class: "plot" }, ...cells), make("p", { class: "faint note" }, note));
    }));
  };

  const measures = () => {
    const figures = datasets().map((dataset) => dataset.figures);
    const total = (of) => sum(figures, of);
    $("month").textContent = `${data.month}: ${many(total((f) => f.committed), "batch", "batches")} committed, ${total((f) => f.unchanged)} found nothing changed, ${total((f) => f.parked)} parked, ${total((f) => f.given_up)} given up.`;
    const run = total((f) => f.run_seconds);
    const source = total((f) => f.source_rows);
    const failures = total((f) => f.recoveries);
    fill("measures",
      tile(run ? percent(total((f) => f.merge_seconds), run) : "–", "merge's share of run time", run ? `of ${length(run)}` : "no merge was watched"),
      tile(source ? number(total((f) => f.variance_rows)) : "–", "rows of variance, source to staging", source ? `of ${number(source)} rows` : "no format told its rows", total((f) => f.variance_rows) > 0 && "bad"),
      tile(number(total((f) => f.manual)), "manual recoveries", "replays that rebuilt"),
      tile(number(total((f) => f.late_outside_window)), "late files outside the window", `${number(total((f) => f.late_in_window))} within it`, total((f) => f.late_outside_window) > 0 && "bad"),
      tile(failures ? length(Math.max(...figures.map((f) => f.longest_recovery_seconds || 0))) : "–", "from failure to confirmed state", failures ? `the longest of ${failures}; mean ${length(total((f) => f.recovery_seconds) / failures)}` : "no worker died"));
  };

  const render = () => {
    hide();
    stateChips();
    summary();
    parkedList();
    calendar();
    timeline();
    arrivals();
    measures();
  };
  document.title = `Tidemark ${data.stack}`;
  $("stack").textContent = data.stack;
  $("made").textContent = `As of ${time(data.at)}. Partitions since ${data.since}, and all that aren't built.`;
  filters();
  render();
})();
