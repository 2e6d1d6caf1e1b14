"use strict";
// Draws the figures of the page with the colours that the style sheet gives
// for light, dark or print, and draws them again when that changes.
(() => {
  const PRINT_WIDTH_PX = 680; // A4 less its margins
  const VARIABLE = /^var\((--[a-z0-9-]+)\)$/;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const config = { responsive: true, displayModeBar: false, doubleClick: "reset" };

  function coloured(value, style) {
    if (Array.isArray(value)) return value.map((item) => coloured(item, style));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, coloured(item, style)]),
      );
    }
    const match = typeof value === "string" && VARIABLE.exec(value);
    return match ? style.getPropertyValue(match[1]).trim() : value;
  }

  function draw(widthPx) {
    const style = getComputedStyle(document.documentElement);
    for (const figure of figures) {
      const place = document.getElementById(figure.id);
      const { data, layout } = coloured({ data: figure.data, layout: figure.layout }, style);
      layout.width = widthPx && Math.min(widthPx, place.clientWidth);
      layout.autosize = !widthPx;
      Plotly.react(place, data, layout, config).catch((error) => {
        place.textContent = `This plot could not be drawn: ${error.message}`;
        console.error(error);
      });
    }
  }

  draw();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => draw());
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.paper = "yes";
    draw(PRINT_WIDTH_PX);
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.paper;
    draw();
  });
})();
