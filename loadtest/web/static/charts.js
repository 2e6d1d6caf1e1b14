"use strict";
// Polls the figures of the running test and draws them. Names come from the
// fleet and may be hostile: plotly reads some markup, so it gets none.
(() => {
  const EVERY_MS = 2000;
  const COLOURS = 6;
  const config = { responsive: true, displayModeBar: false };
  const status = document.getElementById("status");

  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");

  function theme() {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue(`--${name}`).trim();
  }

  function draw(id, traces, yaxis, xtitle = "seconds since the start") {
    const colour = theme();
    const axis = { gridcolor: colour("grid"), zerolinecolor: colour("grid"), automargin: true };
    Plotly.react(id, traces, {
      margin: { l: 50, r: 10, t: 10, b: 40 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("ink"), size: 12 },
      legend: { orientation: "h", y: 1.15 },
      hovermode: "x unified",
      uirevision: "keep",
      xaxis: { ...axis, title: { text: xtitle } },
      yaxis: { ...axis, rangemode: "tozero", ...yaxis },
    }, config);
  }

  const line = (x, y, name, color, dash = "solid") => ({
    x, y, name: plain(name), mode: "lines", connectgaps: true, line: { color, dash, width: 2 },
  });

  function perRegion(samples, regions, parts) {
    const colour = theme();
    const x = samples.map((sample) => sample.at_s);
    return regions.flatMap((region, index) => parts.map(([key, word, dash]) => line(
      x,
      samples.map((sample) => sample.regions[region]?.[key] ?? null),
      `${region} ${word}`,
      colour(`region-${1 + (index % COLOURS)}`),
      dash,
    )));
  }

  function overall(samples, parts) {
    const colour = theme();
    const x = samples.map((sample) => sample.at_s);
    return parts
      .filter(([key]) => samples.some((sample) => sample[key] !== null))
      .map(([key, word, tone, dash]) => line(
        x, samples.map((sample) => sample[key]), word, colour(tone), dash,
      ));
  }

  function drawSearch(trials) {
    const figure = document.getElementById("search-figure");
    figure.hidden = trials.length === 0;
    if (figure.hidden) return;
    const colour = theme();
    const tones = { inside: "good", outside: "bad", unclear: "muted" };
    draw("search", Object.entries(tones).map(([outcome, tone]) => {
      const some = trials.filter((trial) => trial.outcome === outcome && trial.figures);
      return {
        x: some.map((trial) => trial.users),
        y: some.map((trial) => trial.figures.ttft_p95_ms),
        name: outcome,
        mode: "markers",
        marker: { color: colour(tone), size: 10 },
      };
    }), {}, "users");
  }

  function say(state) {
    const last = state.samples.at(-1);
    status.className = state.problem ? "bad" : "";
    if (state.problem) status.textContent = `The last start failed: ${state.problem}`;
    else if (state.found) {
      const users = state.found.users ?? "no number of";
      status.textContent = `Search: ${users} users. ${state.found.why}`;
    } else if (last) {
      const stage = last.stage ? `, stage ${last.stage}` : "";
      status.textContent = `${Math.round(last.at_s)} s${stage}`;
    }
  }

  function show(state) {
    const { samples } = state;
    const regions = [...new Set(samples.flatMap((sample) => Object.keys(sample.regions)))].sort();
    say(state);
    draw("hit", perRegion(samples, regions, [
      ["hit", "achieved", "solid"], ["attainable", "attainable", "dot"],
    ]), { tickformat: ".0%", range: [0, 1.02] });
    draw("ttft", perRegion(samples, regions, [
      ["ttft_p50_ms", "p50", "solid"], ["ttft_p95_ms", "p95", "dot"],
    ]), {});
    draw("tokens", overall(samples, [["output_tokens_per_s", "all regions", "region-1", "solid"]]), {});
    draw("errors", [
      ...overall(samples, [
        ["requests_per_s", "requests", "region-1", "solid"],
        ["errors_per_s", "errors", "bad", "solid"],
      ]),
      ...perRegion(samples, regions, [["errors_per_s", "errors", "dot"]]),
    ], {});
    draw("users", overall(samples, [
      ["users", "users", "region-1", "solid"],
      ["sessions", "sessions at work", "region-3", "solid"],
      ["offered", "offered", "muted", "dash"],
    ]), {});
    drawSearch(state.trials);
  }

  let seen = false;

  async function poll() {
    try {
      const answer = await fetch("state.json", { cache: "no-store" });
      if (!answer.ok || answer.redirected) throw new Error(`HTTP ${answer.status}`);
      show(await answer.json());
      seen = true;
    } catch (error) {
      const gone = seen && error instanceof TypeError;
      status.className = gone ? "" : "bad";
      status.textContent = gone
        ? "The page ended with its test; these are the last figures."
        : `No figures: ${error.message}. Is the test's page still there?`;
    }
    setTimeout(poll, EVERY_MS);
  }

  poll();
})();
