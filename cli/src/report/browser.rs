//! The page in a real browser: it renders, its filters work, nothing complains, and no text becomes anything but text.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::chromium::Chromium;
use super::page::render;
use super::sample::{HOSTILE, sample};

/// A browser with the sample's page open. With `REPORT_SAMPLE` the page is also put into that file, to be looked at.
fn opened() -> (Chromium, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("report.html"), render(&sample()));
    fs::write(&file, &page).unwrap();
    if let Some(wanted) = std::env::var_os("REPORT_SAMPLE") {
        fs::write(wanted, &page).unwrap();
    }
    let mut browser = Chromium::start();
    browser.open(&file);
    (browser, folder)
}

fn count(browser: &mut Chromium, selector: &str) -> u64 {
    browser.value(&format!("document.querySelectorAll({selector:?}).length")).as_u64().unwrap()
}

fn text(browser: &mut Chromium, selector: &str) -> String {
    browser.value(&format!("document.querySelector({selector:?}).textContent")).as_str().unwrap().to_owned()
}

#[test]
fn everything_is_shown_and_nothing_complains() {
    let (mut browser, _folder) = opened();
    assert_eq!(text(&mut browser, "h1"), "Tidemark tidemark-prod");
    // 80 days of orders, 20 of clicks by hours, 4 regions.
    for (selector, expected) in [
        ("[data-set=orders] button.day", 80),
        ("[data-set=clicks] button.day", 20),
        ("[data-set=regions] button.day", 4),
        ("[data-set=orders] .month", 3),
        ("#parked .card", 4),
        ("#timeline .lane", 4),
        ("#arrivals .plot", 2),
        ("#measures .tile", 5),
    ] {
        assert_eq!(count(&mut browser, selector), expected, "{selector}");
    }
    assert!(count(&mut browser, "#timeline .batch.committed") > 20);
    assert!(text(&mut browser, "#arrivals").contains("lookback 3d"));
    assert!(text(&mut browser, "#arrivals").contains("Not known: redshift data api"));
    assert!(text(&mut browser, "[data-set=regions]").contains("halted: permission denied"));
    browser.point("[data-set=orders] button.day.parked", false);
    let tip = text(&mut browser, "#tip");
    assert!(tip.contains(" rows\n") && tip.contains("row_drop: "), "{tip}");
    browser.point("[data-set=clicks] button.day.clean", false);
    assert!(text(&mut browser, "#tip").contains("24 partitions, "));
    browser.point("#timeline .batch.committed", false);
    assert!(text(&mut browser, "#tip").contains("took "));
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[test]
fn filters_by_dataset_state_and_time() {
    let (mut browser, _folder) = opened();
    let all = count(&mut browser, "#timeline .batch");
    browser.point("[data-days='30']", true);
    assert!(count(&mut browser, "#timeline .batch") > all);
    browser.point("[data-days='1']", true);
    assert!(count(&mut browser, "#timeline .batch") < all);

    browser.point("[data-state=clean]", true);
    assert_eq!(count(&mut browser, "[data-set=orders] button.day:not(.out)"), 6, "those that aren't built");
    browser.point("[data-state=parked]", true);
    assert_eq!(browser.value("document.getElementById('parked-section').hidden"), true);
    browser.point("[data-state=parked]", true);
    assert_eq!(browser.value("document.getElementById('parked-section').hidden"), false);

    // As a keyboard would: the list is the browser's own.
    browser.value("document.getElementById('dataset').focus()");
    for key in ["c", "Enter"] {
        for kind in ["keyDown", "keyUp"] {
            browser.ask(
                "Input.dispatchKeyEvent",
                &json!({ "type": kind, "key": key, "text": if kind == "keyDown" && key == "c" { key } else { "" } }),
            );
        }
    }
    assert_eq!(browser.value("document.getElementById('dataset').value"), "clicks");
    for (selector, expected) in
        [("#calendar .set", 1), ("#timeline .lane", 2), ("#arrivals .set", 1), ("#parked .card", 2)]
    {
        assert_eq!(count(&mut browser, selector), expected, "{selector}");
    }
    assert!(text(&mut browser, "#summary").contains("1dataset"));
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[test]
fn no_text_is_taken_for_anything_else() {
    let (mut browser, _folder) = opened();
    assert_eq!(browser.value("window.broken"), Value::Null);
    assert!(text(&mut browser, "#parked").contains(HOSTILE), "it is shown as it is");
    assert!(text(&mut browser, "[data-set=regions]").contains("region=<b>nowhere<%2Fb>"));
    for selector in ["img", "b:not(.chip b)", "script:not(#data):not(:last-of-type)"] {
        assert_eq!(count(&mut browser, selector), 0, "{selector}");
    }
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[test]
fn a_phone_shows_it_whole_and_the_dark_is_dark() {
    let (mut browser, _folder) = opened();
    for width in [320, 375, 768] {
        let metrics = json!({ "width": width, "height": 800, "deviceScaleFactor": 2, "mobile": true });
        browser.ask("Emulation.setDeviceMetricsOverride", &metrics);
        assert_eq!(browser.value("document.documentElement.scrollWidth"), width, "nothing lies beyond the edge");
    }
    let mut shade = |scheme: &str| {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.ask("Emulation.setEmulatedMedia", &features);
        browser.value("getComputedStyle(document.body).backgroundColor").as_str().unwrap().to_owned()
    };
    assert_eq!([shade("light"), shade("dark")], ["rgb(247, 248, 250)", "rgb(17, 22, 29)"]);
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}
