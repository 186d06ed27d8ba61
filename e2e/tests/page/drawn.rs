//! The page as it is drawn and used, of fleets that are only objects.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo::decide::freshness::Grade;
use tombolo_e2e::{
    archipelago::Archipelago,
    bed::Bed,
    browser::{Look, Tab},
};

use super::ground::*;

/// Pairs of islands that touch one another.
const TOUCHING: &str = "(() => {
    const lands = [...document.querySelectorAll('.island .beach')].map((land) => land.getBoundingClientRect());
    const wide = (a) => Math.max(a.width, a.height);
    const touch = (a, b) => Math.hypot(a.x + a.width / 2 - b.x - b.width / 2, a.y + a.height / 2 - b.y - b.height / 2) < (wide(a) + wide(b)) / 2;
    return lands.flatMap((a, at) => lands.slice(at + 1).filter((b) => touch(a, b))).length;
})()";
/// Whether the page is wider than its window.
const TOO_WIDE: &str = "document.documentElement.scrollWidth > innerWidth";
/// Texts that are too faint before what they are on: a contrast of less than 4.5 to 1, by the WCAG's measure.
const FAINT: &str = "(() => {
    const rgb = (said) => (said.match(/[\\d.]+/g) || []).map(Number);
    const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const grounds = (one) => {
        for (let at = one; at; at = at.parentElement) {
            const style = getComputedStyle(at);
            const shades = style.backgroundImage.match(/rgba?\\([^)]*\\)/g);
            if (shades) return shades.map(rgb);
            const ground = rgb(style.backgroundColor);
            if (ground.length === 3 || ground[3] > 0) return [ground];
        }
        return [];
    };
    // A mark on the map is on its island or its sign; a name has a rim that keeps the map off.
    const under = (one) => {
        if (!(one instanceof SVGElement)) return grounds(one);
        const island = one.closest('.island');
        if (one.classList.contains('mark')) {
            return [rgb(getComputedStyle(island ? island.querySelector('.land') : one.parentElement.querySelector('circle')).fill)];
        }
        const rim = getComputedStyle(one).stroke;
        return rim === 'none' ? grounds(one) : [rgb(rim)];
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const [faint, all] = [[], []];
    while (texts.nextNode()) {
        const [one, said] = [texts.currentNode.parentElement, texts.currentNode.data.trim()];
        const box = one.getBoundingClientRect();
        if (!said || !box.width || !box.height) continue;
        const style = getComputedStyle(one);
        const ink = rgb(one instanceof SVGElement ? style.fill : style.color);
        const worst = Math.min(...under(one).map((ground) => contrast(ink, ground)));
        all.push(said);
        if (!(worst >= 4.5)) faint.push(`${said}: ${worst.toFixed(2)}`);
    }
    return all.length < 30 ? [`only ${all.length} texts were found`] : faint;
})()";
const PAPER: &str = "getComputedStyle(document.body).backgroundColor";

pub(crate) async fn fleets_of_10_and_60_are_drawn_in_dark_and_light(_: Arc<Bed>) -> Result<()> {
    for (count, fleet) in [(10, ten()?), (60, sixty()?)] {
        let (served, _browser, tab) = shown(&fleet).await?;
        let islands = tab.value("document.querySelectorAll('.island').length").await?;
        ensure!(islands == count, "{islands} of {count}");
        ensure!(
            tab.value("document.querySelectorAll('.bridge').length").await?.as_u64() > Some(5),
            "no bridges"
        );
        ensure!(tab.value(TOUCHING).await? == 0, "islands touch one another");
        // What needs a look is said in words, on the map and first in the list.
        for word in ["stale", "lost", "1 conflict"] {
            ensure!(tab.text().await?.contains(word), "{word} is not in {}", tab.text().await?);
        }
        let first = tab.value("document.querySelector('#list li').innerText").await?;
        ensure!(first.as_str().is_some_and(|row| row.contains("lost")), "the first is {first}");
        let mut papers = Vec::new();
        for dark in [false, true] {
            tab.look(Look { dark, ..Look::default() }).await?;
            papers.push(tab.value(PAPER).await?);
            is_readable(&tab).await?;
            let name = format!("page-{count}-{}", if dark { "dark" } else { "light" });
            tab.picture(&picture(&name)).await?;
        }
        ensure!(papers[0] != papers[1], "dark is as light: {papers:?}");
        let row = if count == 10 { "goods/catalog" } else { "eu-west-04" };
        tab.value(&format!("{}.click()", listed(row))).await?;
        tab.until("!document.getElementById('details').hidden", PATIENCE).await?;
        is_readable(&tab).await?;
        tab.picture(&picture(&format!("page-{count}-chosen-dark"))).await?;
        tab.look(Look { width: 420, height: 860, dark: false }).await?;
        is_readable(&tab).await?;
        ensure!(tab.value(TOO_WIDE).await? == false, "it does not fit a telephone");
        tab.picture(&picture(&format!("page-{count}-narrow"))).await?;
        is_clean(&tab, &served.url())?;
    }
    Ok(())
}

/// Fails if a text of the page is too faint.
async fn is_readable(tab: &Tab) -> Result<()> {
    let faint = tab.value(FAINT).await?;
    ensure!(faint == json!([]), "too faint: {faint:#}");
    Ok(())
}

/// The island or row of a name, as an expression.
fn listed(name: &str) -> String {
    let quoted = json!(name);
    format!(
        "(() => {{ const find = () => [...document.querySelectorAll('#list button')].find((one) => one.innerText.includes({quoted})); \
         if (!find()) document.getElementById('tab-bridges').click(); return find(); }})()"
    )
}

async fn spots(tab: &Tab) -> Result<Value> {
    tab.value("[...document.querySelectorAll('.island')].map((one) => [one.dataset.island, one.querySelector('g').getAttribute('transform'), one.querySelector('.land').getAttribute('d')])").await
}

pub(crate) async fn the_same_clusters_are_at_the_same_places(_: Arc<Bed>) -> Result<()> {
    let (served, browser, tab) = shown(&ten()?).await?;
    let first = spots(&tab).await?;
    let names =
        ["ams", "dublin", "frankfurt", "london", "milan", "oslo", "paris", "stockholm", "vienna", "zurich"];
    served.page.show(&Archipelago::of(&names.map(str::to_owned))?.atlas());
    tab.until("document.querySelectorAll('.bridge').length === 0", PATIENCE).await?;
    ensure!(spots(&tab).await? == first, "they moved when their services went");
    let again = browser.open(&served.url(), Look::default()).await?;
    again.until("document.querySelectorAll('.island').length === 10", PATIENCE).await?;
    ensure!(spots(&again).await? == first, "they are elsewhere in another tab");
    Ok(())
}

const FOCUSED: &str =
    "(document.activeElement.innerText || document.activeElement.id).split('\\n').join(' ')";

async fn focused(tab: &Tab) -> Result<String> {
    Ok(tab.value(FOCUSED).await?.as_str().unwrap_or_default().to_owned())
}

/// Presses a key as often until what has the focus is so.
async fn press_until(tab: &Tab, key: &str, wanted: &str) -> Result<()> {
    let mut seen = Vec::new();
    for _ in 0..40 {
        tab.press(key).await?;
        seen.push(focused(tab).await?);
        if seen.last().is_some_and(|last| last.contains(wanted)) {
            return Ok(());
        }
    }
    anyhow::bail!("{key} does not lead to {wanted}: {seen:?}")
}

pub(crate) async fn everything_is_reached_by_keys(_: Arc<Bed>) -> Result<()> {
    let (served, _browser, tab) = shown(&ten()?).await?;
    // By Tab alone: filter, tabs, list.
    for wanted in ["Skip to the list", "filter", "Clusters", "paris"] {
        press_until(&tab, "Tab", wanted).await?;
    }
    // Every cluster by arrows.
    let mut rows = vec![focused(&tab).await?];
    for _ in 1..10 {
        tab.press("ArrowDown").await?;
        rows.push(focused(&tab).await?);
    }
    let all = tab
        .value(
            "[...document.querySelectorAll('#list li')].map((row) => row.innerText.split('\\n').join(' '))",
        )
        .await?;
    ensure!(json!(rows) == all, "{rows:?} are not {all}");
    let ring = tab.value("getComputedStyle(document.activeElement).outlineStyle").await?;
    ensure!(ring == "solid", "one does not see where the focus is: {ring}");
    // A cluster's details, on to a service, and to the bridge between two clusters.
    tab.press("Home").await?;
    tab.press("Enter").await?;
    ensure!(tab.value("document.activeElement.id").await? == "details", "{}", focused(&tab).await?);
    ensure!(focused(&tab).await?.contains("connection refused"), "{}", focused(&tab).await?);
    press_until(&tab, "Tab", "shop/cart").await?;
    tab.press("Enter").await?;
    tab.until("document.getElementById('details-title').innerText.includes('shop/cart')", PATIENCE).await?;
    press_until(&tab, "Tab", "vienna").await?;
    tab.press("Enter").await?;
    press_until(&tab, "Tab", "frankfurt").await?;
    tab.press("Enter").await?;
    tab.until("document.getElementById('details-title').innerText.includes('frankfurt – vienna')", PATIENCE)
        .await?;
    // And back.
    tab.press("Escape").await?;
    tab.until("document.getElementById('details').hidden", PATIENCE).await?;
    ensure!(
        tab.value("document.activeElement.closest('#list') !== null").await? == true,
        "{}",
        focused(&tab).await?
    );
    // The other list, by its tab.
    tab.value("document.getElementById('tab-islands').focus()").await?;
    tab.press("ArrowRight").await?;
    press_until(&tab, "Tab", "goods/catalog").await?;
    // The filter, from anywhere.
    tab.press("/").await?;
    ensure!(focused(&tab).await? == "filter", "{}", focused(&tab).await?);
    is_clean(&tab, &served.url())
}

pub(crate) async fn a_filter_leaves_what_it_names(_: Arc<Bed>) -> Result<()> {
    let (_served, _browser, tab) = shown(&ten()?).await?;
    tab.press("/").await?;
    tab.type_text("EU-west").await?;
    tab.until("document.querySelectorAll('#list li').length === 2", PATIENCE).await?;
    ensure!(tab.value("document.querySelectorAll('.island.dim').length").await? == 8, "others are not dim");
    ensure!(tab.text().await?.contains("2 of 10"), "{}", tab.text().await?);
    tab.press("Escape").await?;
    tab.until("document.querySelectorAll('#list li').length === 10", PATIENCE).await
}

pub(crate) async fn what_clusters_say_stays_text(_: Arc<Bed>) -> Result<()> {
    let evil = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>\u{202e}</text></svg>";
    let mut fleet = ten()?;
    fleet.describe("ams", &json!({ "spec": { "region": evil } }))?;
    fleet.silence("oslo", evil, 3, Grade::Stale)?;
    let (served, _browser, tab) = shown(&fleet).await?;
    for name in ["ams", "oslo"] {
        tab.value(&format!("{}.click()", listed(name))).await?;
        tab.until("document.getElementById('details').innerText.includes('<img src=x onerror')", PATIENCE)
            .await?;
    }
    ensure!(!tab.text().await?.contains('\u{202e}'), "what is shown can be turned round");
    ensure!(tab.value("document.images.length").await? == 1, "it became an image");
    ensure!(tab.value("document.scripts.length").await? == 1, "it became a script");
    ensure!(
        tab.value("document.title").await?.as_str().is_some_and(|title| title.starts_with("Tombolo")),
        "it ran"
    );
    is_clean(&tab, &served.url())?;
    // And were there a hole in the page's own script, the browser itself would refuse.
    let hole =
        "(() => { try { document.body.innerHTML = '<i>'; return 'taken'; } catch (e) { return e.name; } })()";
    ensure!(tab.value(hole).await? == "TypeError", "markup can be put into the page");
    Ok(())
}

pub(crate) async fn a_lost_connection_is_said_and_mended(_: Arc<Bed>) -> Result<()> {
    let fleet = ten()?;
    let (served, _browser, tab) = shown(&fleet).await?;
    tab.until("document.getElementById('link').innerText.includes('live')", PATIENCE).await?;
    let port = served.address.port();
    served.stop.cancel();
    tab.until("document.getElementById('link').innerText.includes('connection lost')", PATIENCE).await?;
    ensure!(tab.value("document.querySelectorAll('.island').length").await? == 10, "what was known is gone");
    tab.picture(&picture("page-10-cut-off")).await?;
    drop(served);
    let again =
        tombolo_e2e::wait::until("the port is free", PATIENCE, async || Served::start(&fleet, port).await)
            .await?;
    tab.until("document.getElementById('link').innerText.includes('live')", PATIENCE).await?;
    drop(again);
    Ok(())
}
