"""The report page in a real browser: what clicks change, and that nothing goes wrong."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import chromium
from dualmetric import DuRP, Metric
from dualmetric.report import build_report
from makers import make_counts

pytestmark = pytest.mark.skipif(
    chromium.find() is None, reason="no Chromium is installed; on Debian: apt-get install chromium"
)
HOSTILE = "</script><img src=x onerror=alert(1)><b>\"'&"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """One report of each kind, as files."""
    X, y = make_counts(60, 30)
    factor = np.eye(30)[:, :15]
    words = [f"word{i}" for i in range(30)]
    texts = [f"message {i} of {HOSTILE}" for i in range(60)]
    names = ["autos", HOSTILE, "a_very_long_name_of_a_class_without_any_space_in_it"]
    digits, digit = load_digits(return_X_y=True)
    learned = DuRP(n_triplets=2000, random_state=0).fit(digits[300:], digit[300:]).metric_
    lifted = DuRP(n_triplets=2000, lift="rbf", random_state=0).fit(digits[300:700], digit[300:700])
    reports = {
        "text": build_report(
            Metric(factor, feature_names=words),
            X,
            y,
            title=HOSTILE,
            texts=texts,
            class_names=names,
            row_names=[f"id {i} {HOSTILE}" for i in range(60)],
        ),
        "pictures": build_report(
            learned, digits[:200], digit[:200], title="digits", image_shape=(8, 8)
        ),
        "plain": build_report(Metric(factor), X, y, title="plain rows"),
        "lifted": build_report(lifted.metric_, digits[:200], digit[:200], title="lifted"),
        "lifted pictures": build_report(
            lifted.metric_, digits[:200], digit[:200], title="lifted digits", image_shape=(8, 8)
        ),
    }
    folder = tmp_path_factory.mktemp("reports")
    paths = {}
    for name, html in reports.items():
        paths[name] = folder / f"{name}.html"
        paths[name].write_text(html, encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = chromium.Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def nothing_goes_wrong(browser):
    """No test may leave an error in the console, or load anything but the page."""
    yield
    assert browser.errors == []
    loaded = [url for url in browser.loaded if not url.startswith("data:image/png")]
    assert all(url.startswith("file:") and url.endswith(".html") for url in loaded)
    browser.run("localStorage.clear()")


def texts_of(browser, selector):
    return browser.run(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")


KINDS = ["text", "pictures", "plain", "lifted", "lifted pictures"]


@pytest.mark.parametrize("kind", KINDS)
def test_explorer_follows_the_query(browser, pages, kind):
    browser.open(pages[kind])
    data = "JSON.parse(document.getElementById('report-data').textContent)"
    assert browser.run("document.getElementById('query').options.length") == browser.run(
        f"{data}.queries.length"
    )
    titles = texts_of(browser, "#query-card .name strong")
    for button in ["#next", "#next", "#previous", "#random"]:
        browser.click(button)
        number = int(browser.run("document.getElementById('query').value"))
        query, rows, labels, classes = browser.run(
            f"(() => {{ const d = {data}; const q = d.queries[{number}];"
            "return [q, d.rows, d.labels, d.classes]; })()"
        )
        title = texts_of(browser, "#query-card .name strong")
        row = rows[query["row"]]
        assert title == [f"id {row} {HOSTILE}" if kind == "text" else f"Row {row}"]
        titles += title
        for when in ("before", "after"):
            assert texts_of(browser, f"#{when} .class") == [classes[labels[r]] for r in query[when]]
            right = [labels[row] == labels[query["row"]] for row in query[when]]
            # said in words and by a sign, not by colour alone
            assert texts_of(browser, f"#{when} .key") == ["✓" if ok else "✗" for ok in right]
            said = ["right: " if ok else "wrong: " for ok in right]
            assert texts_of(browser, f"#{when} .unseen") == said
            assert texts_of(browser, f"#tally-{when}") == [f"{sum(right)} of 10 right"]
    assert titles[1] == titles[3] != titles[2]  # there and back again
    assert titles[4] != titles[3]


@pytest.mark.parametrize("kind", ["text", "plain"])
def test_a_neighbour_shows_its_features(browser, pages, kind):
    browser.open(pages[kind])
    browser.click("#before li:nth-child(3) button")
    assert browser.run("document.querySelectorAll('.why').length") == 1
    first = texts_of(browser, "#before .why")
    opened = "[...document.querySelectorAll('[aria-expanded=true]')].map(b => b.textContent)"
    assert browser.run(opened) == texts_of(browser, "#before li:nth-child(3) button")
    number, place = browser.run(
        "(() => { const d = JSON.parse(document.getElementById('report-data').textContent);"
        "const n = Number(document.getElementById('query').value);"
        "return [n, d.queries[n].before[2]]; })()"
    )
    expected = browser.run(
        "(() => { const d = JSON.parse(document.getElementById('report-data').textContent);"
        f"const parts = d.why[{number}][{place}].after.slice(2);"
        "return parts.filter((_, i) => i % 2 === 0).map(f => d.features[f]); })()"
    )
    named = texts_of(browser, "#before .why .group:first-child tr:not(.soft) th")
    assert named == expected
    assert all(name.startswith("word" if kind == "text" else "feature") for name in named)
    browser.click("#after li:nth-child(2) button")
    assert texts_of(browser, "#before .why") == []
    assert texts_of(browser, "#after .why") != first
    browser.click("#after li:nth-child(2) button")
    assert texts_of(browser, ".why") == []


@pytest.mark.parametrize("kind", ["lifted", "lifted pictures"])
def test_a_lifted_distance_is_shown_whole(browser, pages, kind):
    browser.open(pages[kind])
    for button in ["#before li:nth-child(3) button", "#after li:nth-child(2) button"]:
        browser.click(button)
        number, row = browser.run(
            "(() => { const d = JSON.parse(document.getElementById('report-data').textContent);"
            "const n = Number(document.getElementById('query').value);"
            f"return [n, d.queries[n].{'before[2]' if 'before' in button else 'after[1]'}]; }})()"
        )
        distance = browser.run(
            "JSON.parse(document.getElementById('report-data').textContent)"
            f".why[{number}][{row}].after[0]"
        )
        learned, plain = texts_of(browser, "#explorer .why .group")[-2:]
        title = "Learned" if "pictures" in kind else "Learned distance"
        assert learned.startswith(f"{title}: {distance:g}")
        assert learned.endswith("not linear in the features, so it cannot be split by feature.")
        assert plain.startswith("Plain")
        groups = "document.querySelectorAll('#explorer .why .group')"
        split = "canvas.heat" if "pictures" in kind else "table.parts tr"
        counts = f"[...{groups}].slice(-2).map(g => g.querySelectorAll({split!r}).length)"
        assert browser.run(counts) == [0, 1 if "pictures" in kind else 5]
    assert browser.run("document.querySelectorAll('#directions canvas').length") == 0


def test_pictures_are_drawn(browser, pages):
    browser.open(pages["pictures"])
    empty = browser.run(
        "[...document.querySelectorAll('canvas.picture')].map(drawn => {"
        "const empty = document.createElement('canvas');"
        "[empty.width, empty.height] = [drawn.width, drawn.height];"
        "return drawn.toDataURL() === empty.toDataURL(); })"
    )
    # the strongest directions, the query, its neighbours, and an explanation
    assert len(empty) == 6 + 1 + 20 + 4
    assert not any(empty)
    before = browser.run("document.querySelector('#query-card canvas').toDataURL()")
    browser.click("#next")
    assert browser.run("document.querySelector('#query-card canvas').toDataURL()") != before
    browser.click("#before li:nth-child(7) button")
    assert texts_of(browser, "#before .why h4")[:2] == ["Query", "Neighbour"]


def test_search_and_order(browser, pages):
    browser.open(pages["text"])
    browser.click("#search")
    browser.type("autos message 3")
    listed = texts_of(browser, "#query option")
    assert listed
    assert all("autos" in text and "message 3" in text for text in listed)
    assert texts_of(browser, "#matches") == [f"({len(listed)} of 60 match)"]
    browser.click("#next")
    assert "autos" in texts_of(browser, "#query-card .tag")[0]
    browser.type(" nowhere to be found")
    assert browser.run("document.getElementById('next').disabled")
    browser.run(
        "(() => { const s = document.getElementById('search'); s.value = '';"
        "s.dispatchEvent(new Event('input'));"
        "const o = document.getElementById('order'); o.value = 'gain';"
        "o.dispatchEvent(new Event('change')); })()"
    )
    gains = browser.run(
        "(() => { const d = JSON.parse(document.getElementById('report-data').textContent);"
        "return [...document.querySelectorAll('#query option')].map(o => {"
        "const [a, b] = d.queries[o.value].precision; return b - a; }); })()"
    )
    assert len(gains) == 60
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize("kind", ["plain", "lifted"])
def test_a_dot_on_the_map_is_a_query(browser, pages, kind):
    browser.open(pages[kind])
    before = texts_of(browser, "#query-card .name strong")
    x, y, number = browser.run(
        "(() => { const d = JSON.parse(document.getElementById('report-data').textContent);"
        "const shown = Number(document.getElementById('query').value);"
        "const ys = [...d.map.before, ...d.map.after].filter((_, i) => i % 2);"
        "const high = Math.max(600, ...ys);"
        "const c = document.getElementById('map-after'); const w = c.clientWidth;"
        # the query other than the one shown that is furthest from all others
        "let best = [-1, 0, 0, 0];"
        "d.queries.forEach((q, n) => { if (n === shown) return;"
        "  const at = (r) => [d.map.after[2 * r], d.map.after[2 * r + 1]];"
        "  const [px, py] = at(q.row);"
        "  const gap = Math.min(...d.queries.filter((o) => o !== q).map((o) =>"
        "    Math.hypot(px - at(o.row)[0], py - at(o.row)[1])));"
        "  if (gap > best[0]) best = [gap, px, py, n]; });"
        "const scale = (w - 20) / 1000;"
        "return [(10 + best[1] * scale) / w, (10 + (high - best[2]) * scale) / c.clientHeight,"
        " best[3]]; })()"
    )
    browser.click("#map-after", x, y)
    assert texts_of(browser, "#query-card .name strong") != before
    assert browser.run("Number(document.getElementById('query').value)") == number
    shown = texts_of(browser, "#query-card .name strong")[0]
    assert texts_of(browser, "#map-query")[0].startswith(shown)
    assert not browser.run("document.querySelector('#map-after + .tip').hidden")


def test_a_class_is_singled_out(browser, pages):
    browser.open(pages["text"])
    picture = "document.getElementById('map-before').toDataURL()"
    all_classes = browser.run(picture)
    browser.click("#chips button:nth-child(2)")
    assert browser.run(picture) != all_classes
    pressed = "[...document.querySelectorAll('#chips button')].map(b => b.ariaPressed)"
    assert browser.run(pressed) == ["false", "true", "false"]
    browser.click("#chips button:nth-child(2)")
    assert browser.run(picture) == all_classes


def test_theme(browser, pages):
    background = "getComputedStyle(document.body).backgroundColor"
    browser.open(pages["plain"])
    light, map_light = (
        browser.run(background),
        browser.run("document.querySelector('canvas').toDataURL()"),
    )
    assert texts_of(browser, "#theme") == ["☾ Dark"]
    browser.click("#theme")
    dark = browser.run(background)
    assert dark != light
    assert texts_of(browser, "#theme") == ["☀ Light"]
    assert browser.run("document.querySelector('canvas').toDataURL()") != map_light
    browser.open(pages["plain"])  # the choice is kept
    assert browser.run(background) == dark
    browser.run("localStorage.clear()")
    browser.open(pages["plain"], dark=True)  # else the system's
    assert browser.run(background) == dark
    browser.click("#theme")
    assert browser.run(background) == light


def test_class_table_sorts(browser, pages):
    browser.open(pages["pictures"])
    names = "#classes-table tbody th"
    start = texts_of(browser, names)
    browser.click("#classes-table thead th:first-child button")
    assert texts_of(browser, names) == sorted(start)
    heading = "document.querySelector('#classes-table thead th:nth-child({})').ariaSort"
    assert browser.run(heading.format(1)) == "ascending"
    browser.click("#classes-table thead th:nth-child(4) button")
    after = [float(t.split()[0]) for t in texts_of(browser, "#classes-table td:nth-child(4)")]
    assert after == sorted(after, reverse=True)
    assert browser.run(heading.format(1)) is None
    browser.click("#classes-table thead th:nth-child(4) button")
    assert browser.run(heading.format(4)) == "ascending"
    browser.click("#confusions-table thead th:nth-child(5) button")
    changes = texts_of(browser, "#confusions-table td:nth-child(5)")
    changes = [int(text.replace("−", "-")) for text in changes]
    assert changes == sorted(changes, reverse=True)
    assert browser.run(heading.format(4)) == "ascending"  # the other table is as it was


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [320, 390, 768])
def test_no_sideways_scrolling(browser, pages, kind, width):
    browser.open(pages[kind], width=width, height=800)
    assert browser.run("document.documentElement.scrollWidth") == width
    for heading in ("Explorer", "Map of the rows"):
        assert heading in texts_of(browser, "h2")
    # what can be pressed is large enough for a finger
    small = browser.run(
        "[...document.querySelectorAll('button:not([hidden]), select, input')]"
        ".filter(e => e.getBoundingClientRect().height < 24).map(e => e.outerHTML)"
    )
    assert small == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out(browser, pages, kind, dark):
    """Contrast of 4.5 or more between all text and what is behind it (WCAG AA)."""
    browser.open(pages[kind], dark=dark)
    poor = browser.run("""(() => {
      const numbers = (c) => c.match(/[\\d.]+/g).map(Number);
      const light = (c) => {
        const [r, g, b] = c.slice(0, 3).map((v) =>
          (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const behind = (e) => {
        for (; e; e = e.parentElement) {
          const c = numbers(getComputedStyle(e).backgroundColor);
          if (c.length === 3 || c[3] === 1) return c;
        }
      };
      const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      const poor = [];
      while (walk.nextNode()) {
        const e = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim()) continue;
        if (e.closest('script, style, svg, [hidden], noscript')) continue;
        const [a, b] = [light(numbers(getComputedStyle(e).color)), light(behind(e))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) poor.push([walk.currentNode.data, e.className, contrast]);
      }
      return poor;
    })()""")
    assert poor == []


def test_hostile_strings_are_shown_as_text(browser, pages):
    browser.open(pages["text"])
    assert texts_of(browser, "h1") == [HOSTILE]
    assert browser.run("document.querySelectorAll('main img, main b b').length") == 0
    assert HOSTILE in texts_of(browser, "#chips button")
    assert any(HOSTILE in text for text in texts_of(browser, "#confusions-table tbody th"))
    assert any(HOSTILE in text for text in texts_of(browser, "#after .snippet"))
